"""A program that knows nothing of this package: it reads the catalog's pointers and loads the tables.

Usage: outsider.py DATABASE STOP_FILE. Prints one JSON line for each read.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

from pyiceberg.table import StaticTable


def main() -> None:
    database, stop = sys.argv[1], Path(sys.argv[2])
    last = False
    while not last:
        last = stop.exists()
        connection = sqlite3.connect(database, timeout=30)
        pointers = connection.execute(
            "SELECT table_name, metadata_location FROM iceberg_tables WHERE catalog_name = 'epochs'"
        ).fetchall()
        connection.close()
        tables = {name: StaticTable.from_metadata(location) for name, location in pointers}
        rows = {name: table.scan().to_arrow() for name, table in tables.items()}
        snapshots = {name: table.current_snapshot() for name, table in tables.items()}
        seen = {
            name: {
                "rows": table.num_rows,
                "sum": sum(table["value"].to_pylist()),
                "csn": int((snapshot.summary or {})["epochs.csn"]) if (snapshot := snapshots[name]) else 0,
            }
            for name, table in rows.items()
        }
        print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    main()
