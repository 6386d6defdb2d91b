"""Drafts in a Spark session: SQL statements write them by name, through Iceberg's own Spark runtime.

The session finds a draft by its directory (a catalog of Iceberg's type ``hadoop``). It asks no database, so that
Spark's settings, its page, its logs and the messages to executors hold no user name and no password.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import OnUpstreamRevision
from airflow_provider.spark import columns, reads, refusals, sinks
from airflow_provider.spark.file_systems import has_file_system
from airflow_provider.spark.sinks import quoted
from airflow_provider.tables.drafts import Draft, DraftingFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.cut import State
    from airflow_provider.domain.epoch import Attempt
    from airflow_provider.domain.source_bounds import Source
    from airflow_provider.domain.topology import Table
    from airflow_provider.domain.version import Committable
    from airflow_provider.tables.base import StagingLocation, TableFormat, TableInfo, WrittenFile

RUNTIME = "org.apache.iceberg.spark.SparkCatalog"
"""The class of Iceberg's Spark runtime that a session needs on its class path."""
GROUP_FILTER = "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled"
"""Setting of Spark's by which a statement runs its source once more, to find the files that it has to rewrite."""


def drafting(table_format: TableFormat, table: Table) -> DraftingFormat:
    """Return *table_format* as one with drafts.

    :raises InvalidInput: the format of *table* has no drafts.
    """
    if not isinstance(table_format, DraftingFormat):
        raise refusals.no_drafts(table_format.name, table.name)
    return table_format


def target(
    spark: SparkSession,
    schema: str | None,
    table: Table,
    table_format: TableFormat,
    known: TableInfo | None,
    *,
    keep: bool = False,
) -> TableInfo:
    """Return the table that takes the draft's rows; create it with the columns of *schema* if it does not exist.

    :param known: the table with the columns that the draft is to have; None if the table does not exist yet.
    :param keep: as for :func:`.sinks.target`.
    :raises InvalidInput: neither *schema* nor a table, or *schema* is not DDL.
    :raises SchemaMismatch: *schema* does not fit the table.
    """
    if schema is not None:
        return sinks.target(columns.no_rows(spark, schema), table, table_format, known, keep=keep)
    if known is None:
        raise refusals.unknown_draft_columns(table.name)
    return known


def base_of(service: EpochService, attempt: Attempt, sink: Table) -> State | None:
    """Return the state whose rows a draft of *sink* begins with; None for no rows.

    :raises InvalidInput: a full table whose base the job does not declare: an empty base would lose its rows.
    """
    if sink.kind.accumulates:
        return None
    edges = {edge.table: edge.on_upstream_revision for edge in attempt.inputs}
    if edges.get(sink.name, OnUpstreamRevision.IGNORE) is OnUpstreamRevision.IGNORE:
        raise refusals.unknown_base(attempt, sink.name)
    state, _ = service.input(attempt, sink.name)
    return None if state.ref is None and not state.staged else state


def opened(
    spark: SparkSession,
    table_format: DraftingFormat,
    place: StagingLocation,
    info: TableInfo,
    base: State | None,
) -> Draft:
    """Make a draft that *spark* can write and that holds the rows of *base*.

    The draft shares the files of *base* if the format can; otherwise Spark copies the rows, because files that hold
    the column ``_epoch`` name the epoch that they were written in. It shares no staged output, which may still be
    deleted.

    :raises InvalidInput: a session without a file system for the warehouse, or without the runtime.
    :raises SchemaMismatch: *base* has newer columns than this job's declaration knows.
    """
    _refuse_unreachable(spark, place)
    if base is not None and base.ref is not None and info.schema_id < base.ref.schema_id:
        raise refusals.older_columns(place.table.name)
    shares = base is not None and not base.staged and table_format.shares(info, base)
    shared = base if shares else None
    draft = table_format.open_draft(place, info, shared)
    try:
        catalog = _catalog(draft)
        for name, value in _settings(draft).items():
            spark.conf.set(f"spark.sql.catalog.{catalog}{name}", value)
        _refuse_without_runtime(spark, draft)
        if base is not None and shared is None:
            reads.dataframe(spark, table_format, base, info.schema).writeTo(name_of(draft)).append()
    except BaseException:
        table_format.close_draft(draft, None)
        raise
    return draft


@contextmanager
def run_once(spark: SparkSession, sources: Iterable[Source]) -> Iterator[None]:
    """Let statements in the block run their source once if rows of *sources* may change between two runs of it.

    A MERGE looks for a row's match only in files that its source has found by then. If the source has other rows the
    second time, a row whose match lies in another file is inserted beside it.
    """
    if all(source.is_repeatable for source in sources):
        yield
        return
    before = str(spark.conf.get(GROUP_FILTER))
    spark.conf.set(GROUP_FILTER, "false")
    try:
        yield
    finally:
        spark.conf.set(GROUP_FILTER, before)


def name_of(draft: Draft) -> str:
    """Return the quoted name of *draft* for SQL statements."""
    return ".".join(quoted(part) for part in (_catalog(draft), *draft.path))


def copied(spark: SparkSession, table_format: DraftingFormat, draft: Draft) -> list[WrittenFile] | None:
    """Write the rows of an incremental table's draft as data files of its attempt.

    :return: the files; None for a full table, whose draft's own files are published.
    """
    if draft.place.table.kind.shares_files:
        return None
    return sinks.stage(spark.table(name_of(draft)), draft.place, draft.info, table_format)


def described(table_format: DraftingFormat, draft: Draft, files: list[WrittenFile] | None) -> Committable:
    """Return the committable that WRITTEN records: the files of *draft*, or *files*, the copies of its rows.

    :raises InvalidInput: the statements left the draft in a form that a slice cannot have.
    """
    if files is None:
        return table_format.describe_draft(draft)
    return table_format.describe_output(draft.place, draft.info, files)


def _catalog(draft: Draft) -> str:
    """Return the catalog's name, another one for each warehouse: a session never reads a catalog's settings again."""
    return f"epochs_{hashlib.blake2b(draft.warehouse.encode(), digest_size=6).hexdigest()}"


def _settings(draft: Draft) -> dict[str, str]:
    return {"": RUNTIME, ".type": "hadoop", ".warehouse": draft.warehouse, ".cache-enabled": "false"}


def _refuse_unreachable(spark: SparkSession, place: StagingLocation) -> None:
    scheme = place.uri.partition("://")[0]
    if not has_file_system(spark, scheme, place.uri, StructType()):
        raise InvalidInput(
            field="warehouse",
            value=f"{scheme}://…",
            expected="a file system that the Spark session itself can open: statements are run by its JVM",
            next_step="add its jar (hadoop-aws for S3, gcs-connector for gs://) and set "
            f"spark.hadoop.fs.{scheme}.impl; or write a DataFrame: epoch.write works on every warehouse.",
            table=place.table.name,
        )


def _refuse_without_runtime(spark: SparkSession, draft: Draft) -> None:
    """Let Spark open the draft once, so that a missing jar is reported before any work."""
    try:
        spark.table(name_of(draft)).schema  # noqa: B018  (Spark Connect asks its server only now)
    except Exception as error:
        if RUNTIME not in str(error):  # an error other than a missing class
            raise
        raise refusals.no_runtime(RUNTIME, draft.place.table.name) from error
