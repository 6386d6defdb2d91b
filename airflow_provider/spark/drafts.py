"""Drafts in a Spark session: the name under which SQL statements write one, through Iceberg's own Spark runtime.

The session finds a draft by its directory (a catalog of Iceberg's type ``hadoop``). No database is asked, so that no
user name and no password are in Spark's settings, on its page, in a log, or in what is sent to executors.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import TableKind
from airflow_provider.spark import columns, reads, refusals, sinks
from airflow_provider.spark.sinks import quoted
from airflow_provider.tables.drafts import Draft, DraftingFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider.domain.cut import State
    from airflow_provider.domain.topology import EpochTable
    from airflow_provider.domain.version import Committable
    from airflow_provider.tables.base import Place, TableFormat, TableInfo, WrittenFile

RUNTIME = "org.apache.iceberg.spark.SparkCatalog"
"""The class of Iceberg's Spark runtime that a session needs on its class path."""


def drafting(table_format: TableFormat, table: EpochTable) -> DraftingFormat:
    """:raises InvalidInput: the format of *table* has no drafts."""
    if not isinstance(table_format, DraftingFormat):
        raise refusals.no_drafts(table_format.name, table.name)
    return table_format


def target(
    spark: SparkSession,
    schema: str | None,
    table: EpochTable,
    table_format: TableFormat,
    known: TableInfo | None,
    *,
    keep: bool = False,
) -> TableInfo:
    """Return the table that takes the draft's rows; made with the columns of *schema* when there is none.

    :param known: the table with the columns that the draft is to have; None when nobody made it yet.
    :param keep: as for :func:`.sinks.target`.
    :raises InvalidInput: no *schema*, and no table; or it is none.
    :raises SchemaMismatch: *schema* does not fit the table.
    """
    if schema is not None:
        return sinks.target(columns.no_rows(spark, schema), table, table_format, known, keep=keep)
    if known is None:
        raise refusals.unknown_draft_columns(table.name)
    return known


def opened(
    spark: SparkSession, table_format: DraftingFormat, place: Place, info: TableInfo, base: State | None
) -> Draft:
    """Make a draft that *spark* can write, with the rows of *base*: its files, or where they say their epoch, copies.

    :raises InvalidInput: a warehouse that Iceberg's Hadoop catalog cannot write, or a session without the runtime.
    :raises SchemaMismatch: the table was changed since, before *base*, so that its rows have other columns.
    """
    _refuse_unreachable(place)
    if base is not None and base.ref is not None and info.schema_id < base.ref.schema_id:
        raise refusals.older_columns(place.table.name)
    shared = base if base is not None and table_format.shares(info, base) else None
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


def name_of(draft: Draft) -> str:
    """Return what statements call *draft*."""
    return ".".join(quoted(one) for one in (_catalog(draft), *draft.path))


def copied(spark: SparkSession, table_format: DraftingFormat, draft: Draft) -> list[WrittenFile] | None:
    """Write the rows of an incremental table's draft as any others; those of a full one stay where they are: None."""
    if draft.place.table.kind is TableKind.FULL:
        return None
    return sinks.stage(spark.table(name_of(draft)), draft.place, draft.info, table_format)


def described(table_format: DraftingFormat, draft: Draft, files: list[WrittenFile] | None) -> Committable:
    """Return what WRITTEN records: the files of *draft*, or those that its rows were copied into.

    :raises InvalidInput: statements left what no slice can have.
    """
    if files is None:
        return table_format.describe_draft(draft)
    return table_format.describe_output(draft.place, draft.info, files)


def _catalog(draft: Draft) -> str:
    """A name for each warehouse: a session keeps the first settings of a catalog for good."""
    return f"epochs_{hashlib.blake2b(draft.warehouse.encode(), digest_size=6).hexdigest()}"


def _settings(draft: Draft) -> dict[str, str]:
    return {"": RUNTIME, ".type": "hadoop", ".warehouse": draft.warehouse, ".cache-enabled": "false"}


def _refuse_unreachable(place: Place) -> None:
    scheme = place.uri.partition("://")[0]
    if scheme not in reads.HADOOPS_OWN:
        raise InvalidInput(
            field="warehouse",
            value=f"{scheme}://…",
            expected=f"one of the file systems on which drafts work: {', '.join(sorted(reads.HADOOPS_OWN))}",
            next_step="write a DataFrame instead: epoch.write works on every warehouse.",
            table=place.table.name,
        )


def _refuse_without_runtime(spark: SparkSession, draft: Draft) -> None:
    """Let Spark look at the draft once, so that a missing jar is told before any work."""
    try:
        spark.table(name_of(draft)).schema  # noqa: B018  (Spark Connect asks its server only now)
    except Exception as error:
        if RUNTIME not in str(error):  # another trouble than a class that is not there
            raise
        raise refusals.no_runtime(RUNTIME, draft.place.table.name) from error
