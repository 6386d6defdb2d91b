"""An Iceberg table that others write: plain pyiceberg, a catalog of its own, nothing of this package."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from airflow_provider.domain.source_bounds import IcebergSource, Source, SourceBounds, Span
from airflow_provider.sources.reader import ParquetRows, Rows
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.tables import parquet_files
from tests.contract.outside_commits import add_plain_files

NAME = "market.prices"


class Lake:
    """A table of numbers; each append is a snapshot."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.url = f"sqlite:///{directory}/lake.db"
        self.catalog = SqlCatalog("lake", uri=self.url, warehouse=f"file://{directory}/lake")
        self.catalog.create_namespace("market")
        self.make()

    def make(self) -> None:
        self.table = self.catalog.create_table(NAME, pa.schema([("value", pa.int64())]))

    def append(self, *values: int) -> int:
        self.table.append(self._rows(values))
        return self.newest

    def overwrite(self, *values: int) -> int:
        self.table.overwrite(self._rows(values))
        return self.newest

    def add_plain_file(self, *values: int) -> int:
        """Register a file that has no column ids."""
        add_plain_files(self.table, [self._rows(values)])
        return self.newest

    def separate_by(self, column: str) -> None:
        """Add a text column by whose values files are separated from now on."""
        with self.table.update_schema() as update:
            update.add_column(column, StringType())
        with self.table.update_spec() as update:
            update.add_identity(column)

    def append_separated(self, value: int, text: str | None) -> int:
        """Append one row, whose file has the column that separates the files, too."""
        self.table.append(self._rows([value]).append_column("text", pa.array([text], pa.string())))
        return self.newest

    def append_bare(self, value: int, text: str | None) -> int:
        """Append one row whose file lacks the column that separates the files: its partition alone has the value."""
        path = f"{self.table.location()}/bare-{value}.parquet"
        field = pa.field("value", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
        rows = self._rows([value]).cast(pa.schema([field]))
        with self.table.io.new_output(path).create() as written:
            pq.write_table(rows, written, store_schema=False)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=Record(text),
            record_count=1,
            file_size_in_bytes=len(self.table.io.new_input(path)),
        )
        file.spec_id = self.table.spec().spec_id
        with (
            self.table.transaction() as transaction,
            transaction.update_snapshot().fast_append() as appending,
        ):
            appending.append_data_file(file)
        return self.newest

    def add_default(self, field: dict[str, Any]) -> None:
        """Add a column of format version 3 that has a default; the files that are there lack it.

        (pyiceberg writes no such tables, so the metadata file is written by hand.)
        """
        self.table.refresh()
        path = Path(self.table.metadata_location.removeprefix("file://"))
        metadata = json.loads(path.read_text())
        schemas = {schema["schema-id"]: schema for schema in metadata["schemas"]}
        schema = copy.deepcopy(schemas[metadata["current-schema-id"]])
        schema["schema-id"] = max(schemas) + 1
        schema["fields"].append(field)
        metadata["schemas"].append(schema)
        newest = metadata["snapshots"][-1]
        newest |= {"schema-id": schema["schema-id"], "first-row-id": 0, "added-rows": 1}
        metadata |= {
            "format-version": 3,
            "next-row-id": 1,
            "current-schema-id": schema["schema-id"],
            "last-column-id": 100,
        }
        changed = path.with_name("00099-changed.metadata.json")
        changed.write_text(json.dumps(metadata))
        self.point_to(f"file://{changed}")

    def rename(self, old: str, new: str) -> None:
        with self.table.update_schema() as update:
            update.rename_column(old, new)

    def point_to(self, metadata: str) -> None:
        """Let the catalog name another metadata file."""
        with sqlite3.connect(self.url.removeprefix("sqlite:///")) as catalog:
            catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (metadata,))
        catalog.close()
        self.table = self.catalog.load_table(NAME)

    def rolled_back(self) -> None:
        """Go back to the snapshot before."""
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        assert snapshot.parent_snapshot_id is not None
        self.table.manage_snapshots().rollback_to_snapshot(snapshot.parent_snapshot_id).commit()

    def expire(self, snapshot: int) -> None:
        self.table.maintenance.expire_snapshots().by_id(snapshot).commit()

    @property
    def newest(self) -> int:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def sources(self) -> SourceReaders:
        return SourceReaders({"lake_db": self.url})

    def values(self, source: Source, span: Span) -> list[int]:
        """The rows that an epoch with *span* reads."""
        found = self.rows(source, span)
        assert isinstance(found, ParquetRows)
        read = (parquet_files.read(file, found.columns)["value"].to_pylist() for file in found.files)
        values = sorted(value for values in read for value in values)
        assert (found.rows, found.size_bytes > 0) == (len(values), bool(found.files))
        return values

    def rows(self, source: Source, span: Span) -> Rows:
        return self.sources().rows(source, SourceBounds(source=source.name, span=span))

    def close(self) -> None:
        self.catalog.close()

    @staticmethod
    def _rows(values: Sequence[int]) -> pa.Table:
        return pa.table({"value": pa.array(values, pa.int64())})


def prices(**options: str) -> Source:
    """The declaration of its source."""
    return IcebergSource("prices", f"lake.{NAME}", connection="lake_db", **options)
