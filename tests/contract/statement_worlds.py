"""Worlds whose rows are written by statements: INSERT of Iceberg's own Spark runtime, into drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider.spark import drafts
from airflow_provider.stores.factory import catalog_of
from airflow_provider.tables.base import Place, TableInfo, TaskWriter, WrittenFile
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.iceberg.format import IcebergFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FormatsOpener = Callable[..., TableFormats]
"""Opens the formats of a store, a warehouse and a catalog, as :func:`~airflow_provider.tables.factory.open_formats`."""


class StatementFormat(IcebergFormat):
    """Iceberg tables that take rows as ``EpochRun.draft`` does: a draft, an INSERT into it, and what the draft has.

    :param spark: a session with Iceberg's runtime.
    """

    def __init__(self, spark: SparkSession, catalog_url: str, warehouse: str, *, swaps: bool) -> None:
        super().__init__(catalog_url, warehouse, swaps=swaps)
        self._spark = spark
        self._files = IcebergFormat(catalog_url, warehouse, swaps=swaps)

    def task_writer(self, place: Place, info: TableInfo) -> TaskWriter:
        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
            draft = drafts.opened(self._spark, self, place, info, None)
            try:
                for batch in batches:
                    rows = self._spark.createDataFrame(pa.Table.from_batches([batch]))
                    self._spark.sql(f"INSERT INTO {drafts.name_of(draft)} TABLE {{rows}}", rows=rows)
                yield from drafts.copied(self._spark, self._files, draft) or ()
            finally:
                self.close_draft(draft, None)

        return write

    def close(self) -> None:
        self._files.close()
        super().close()


def statement_formats(spark: SparkSession) -> FormatsOpener:
    """What opens the formats of worlds that write by statements of *spark*."""

    def opened(store_url: str, warehouse: str, catalog_url: str | None = None) -> TableFormats:
        pointers, swaps = catalog_of(store_url, catalog_url)
        opener = lambda: StatementFormat(spark, pointers, warehouse, swaps=swaps)  # noqa: E731
        return TableFormats({"iceberg": opener}, projected=not swaps)

    return opened
