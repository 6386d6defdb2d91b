"""Worlds whose rows are written by statements: INSERT of Iceberg's own Spark runtime, into drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.version import Committable
from airflow_provider.spark import drafts
from airflow_provider.stores.factory import catalog_of
from airflow_provider.tables.base import StagingLocation, TableInfo, TaskWriter, WrittenFile
from airflow_provider.tables.drafts import Draft
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.iceberg.format import IcebergFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FormatsOpener = Callable[..., TableFormats]
"""Opens the formats of a store, a warehouse and a catalog, as :func:`~airflow_provider.tables.factory.open_formats`."""


class StatementFormat(IcebergFormat):
    """Iceberg tables that take rows as ``EpochRun.draft`` does: a draft, an INSERT into it, and what the draft has.

    The rows of an incremental table are copied out of its draft, which ends then. Those of a full one stay in the
    draft's files: it ends when they are described.

    :param spark: a session with Iceberg's runtime.
    """

    def __init__(self, spark: SparkSession, catalog_url: str, warehouse: str, *, swaps: bool) -> None:
        super().__init__(catalog_url, warehouse, swaps=swaps)
        self._spark = spark
        self._files = IcebergFormat(catalog_url, warehouse, swaps=swaps)
        self._written: dict[str, Draft] = {}  # of full tables, by their place

    def task_writer(self, place: StagingLocation, info: TableInfo) -> TaskWriter:
        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
            draft = drafts.opened(self._spark, self, place, info, None)
            with ExitStack() as ending:
                ending.callback(self.close_draft, draft, None)
                for batch in batches:
                    rows = self._spark.createDataFrame(pa.Table.from_batches([batch]))
                    self._spark.sql(f"INSERT INTO {drafts.name_of(draft)} TABLE {{rows}}", rows=rows)
                copied = drafts.copied(self._spark, self._files, draft)
                if copied is None:
                    assert place.uri not in self._written, "one writer for each place"
                    self._written[place.uri] = draft
                    ending.pop_all()
            yield from copied or ()

        return write

    def describe_output(
        self, place: StagingLocation, info: TableInfo, files: Sequence[WrittenFile]
    ) -> Committable:
        if place.table.kind is not TableKind.FULL:
            return super().describe_output(place, info, files)
        draft = self._written.pop(place.uri)
        committable: Committable | None = None
        try:
            committable = drafts.described(self, draft, None)
            return committable
        finally:
            self.close_draft(draft, committable)

    def close(self) -> None:
        self._files.close()
        super().close()


def statement_formats(spark: SparkSession) -> FormatsOpener:
    """What opens the formats of worlds that write by statements of *spark*."""

    def opened(store_url: str, warehouse: str, catalog_url: str | None = None) -> TableFormats:
        pointers, swaps = catalog_of(store_url, catalog_url)
        opener = lambda: StatementFormat(spark, pointers, warehouse, swaps=swaps)  # noqa: E731
        return TableFormats({"iceberg": opener}, following=() if swaps else {"iceberg"})

    return opened
