"""An Iceberg table that others write: plain pyiceberg, a catalog of its own, nothing of this package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.domain.source_bounds import IcebergSource, Source, SourceBounds, Span
from airflow_provider.sources.reader import ParquetRows
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.tables import parquet_files

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
        found = self.sources().rows(source, SourceBounds(source=source.name, span=span))
        assert isinstance(found, ParquetRows)
        read = (parquet_files.read(file, found.columns)["value"].to_pylist() for file in found.files)
        return sorted(value for values in read for value in values)

    def close(self) -> None:
        self.catalog.close()

    @staticmethod
    def _rows(values: Sequence[int]) -> pa.Table:
        return pa.table({"value": pa.array(values, pa.int64())})


def prices(**options: str) -> Source:
    """The declaration of its source."""
    return IcebergSource("prices", f"lake.{NAME}", connection="lake_db", **options)
