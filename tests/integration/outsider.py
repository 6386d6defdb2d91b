"""A program that knows nothing of this package: it reads the catalog's pointers and loads the tables.

Usage: outsider.py DATABASE. Asks for all pointers in one query, as fast as it can, and prints one JSON line for each
answer that differs from the one before: rows, sum and CSN of every table. Ends with its standard input.

DATABASE is the path of an SQLite file or what libpq connects with.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import psycopg
from pyiceberg.table import StaticTable

POINTERS = "SELECT table_name, metadata_location FROM iceberg_tables WHERE catalog_name = 'epochs' ORDER BY 1"


def asking(database: str) -> Callable[[], list[tuple[str, str]]]:
    """Connect; the answer to each call is of one moment."""
    if database.startswith("/"):
        file = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30, isolation_level=None)
        return lambda: file.execute(POINTERS).fetchall()
    server: psycopg.Connection[Any] = psycopg.connect(database, autocommit=True)
    return lambda: server.execute(POINTERS).fetchall()


def seen(location: str) -> dict[str, int]:
    """Load a table."""
    table = StaticTable.from_metadata(location)
    rows, snapshot = table.scan().to_arrow(), table.current_snapshot()
    csn = int(snapshot.summary["epochs.csn"] or 0) if snapshot and snapshot.summary else 0
    return {"rows": rows.num_rows, "sum": sum(rows["value"].to_pylist()), "csn": csn}


def main() -> None:
    waiting = Thread(target=sys.stdin.read, daemon=True)
    waiting.start()
    ask, before = asking(sys.argv[1]), None
    while waiting.is_alive():
        pointers = ask()
        if pointers != before:
            before = pointers
            print(json.dumps({name: seen(location) for name, location in pointers}), flush=True)


if __name__ == "__main__":
    main()
