"""States of tables as DataFrames: exactly the files that the store recorded, with columns matched by id.

See docs/decisions/spark-reads.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider.domain.interval import micros
from airflow_provider.sources.locations import is_hidden
from airflow_provider.sources.reader import IcebergRows, ParquetRows
from airflow_provider.spark import refusals, runtime
from airflow_provider.spark.columns import arrow_columns, columns_by_id, named_by_id, no_rows, spark_columns
from airflow_provider.spark.estimates import Ids, ids_for
from airflow_provider.spark.file_systems import opens
from airflow_provider.spark.filters import sql_of
from airflow_provider.spark.shipping import BatchFunction, shipped_reader
from airflow_provider.spark.sinks import quoted
from airflow_provider.tables.added_values import OWN
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.columns import own_columns
from airflow_provider.tables.cut_files import with_cut_files
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.tables.filters import filters_on

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider.domain.cut import State
    from airflow_provider.domain.source_bounds import Source, SourceBounds
    from airflow_provider.sources.readers import SourceReaders
    from airflow_provider.tables.added_values import Added
    from airflow_provider.tables.base import TableFormat
    from airflow_provider.tables.filters import FilterTuple
    from airflow_provider.tables.statistics import Clip, SizedFiles

log = logging.getLogger(__name__)

_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_MOST_TASKS = 1000
_GLOB_CHARACTERS = re.compile(r"([\\{}\[\]*?])")


def dataframe(
    spark: SparkSession,
    table_format: TableFormat,
    state: State,
    schema: str,
    *,
    names: Sequence[str] | None = None,
    filters: Sequence[FilterTuple] | None = None,
    with_epoch: bool = False,
) -> DataFrame:
    """Return the rows of *state*. Running the DataFrame gives all of them or an error (R22).

    Iceberg's runtime reads them where the session has it: it skips files and row groups by the query's filters.

    :param schema: the table's columns in its format's own text.
    :param names: columns to return, in this order; None for all of the table's.
    :param filters: conditions that all hold for the rows returned.
    :param with_epoch: also return :data:`EPOCH_COLUMN`, the barrier of each row's epoch.
    :raises InvalidInput: a name that is no column of the table, or is given twice; or a filter that does not fit one.
    """
    columns = table_format.arrow_schema(schema)
    named = chosen(own_columns(columns).names, names, state.table)
    conditions = None if filters is None else filters_on(filters, own_columns(columns), schema)
    df = _through_runtime(spark, table_format, state, schema, spark_columns(columns))
    if df is None:
        found = table_format.sized(state, conditions)
        filtered = () if conditions is None else conditions.columns
        each = dict.fromkeys((*named, *filtered, EPOCH_COLUMN))
        df = _files_of(spark, found, pa.schema([columns.field(name) for name in each]))
    if conditions is not None:
        df = df.where(sql_of(conditions))
    rows = [quoted(name) for name in named]
    if with_epoch:
        rows.append(_epoch_of(state) if state.kind.shares_files else quoted(EPOCH_COLUMN))
    return df.selectExpr(*rows)


def no_table(
    spark: SparkSession,
    table: str,
    ddl: str | None,
    *,
    names: Sequence[str] | None = None,
    filters: Sequence[FilterTuple] | None = None,
    with_epoch: bool = False,
) -> DataFrame:
    """Return no rows, of a table that does not exist yet. Other parameters and errors are those of :func:`dataframe`.

    :param ddl: the table's columns, as Spark's DDL.
    :raises InvalidInput: *ddl* is None, or no columns.
    """
    if ddl is None:
        raise refusals.unknown_columns(table)
    found = no_rows(spark, ddl, and_epoch=with_epoch)
    columns = arrow_columns(found.schema, table)
    named = chosen(own_columns(columns).names, names, table)
    if filters is not None:
        filters_on(filters, own_columns(columns), ddl)
    return found.selectExpr(*map(quoted, [*named, EPOCH_COLUMN] if with_epoch else named))


def _files_of(spark: SparkSession, found: SizedFiles, wanted: pa.Schema) -> DataFrame:
    """Return the rows of the files *found*: of those that have rows beside those of the state, its own alone."""
    clip = found.clip
    if clip is None:
        return files_dataframe(
            spark, found.files, wanted, rows=found.rows, size_bytes=found.size_bytes, added=found.added
        )
    each = found.added or [OWN] * len(found.files)
    pairs = list(zip(found.files, each, strict=True))
    others = [(uri, added) for uri, added in pairs if uri not in clip.files]
    units = files_dataframe(
        spark,
        [uri for uri in found.files if uri in clip.files],
        wanted,
        rows=found.rows,
        size_bytes=found.size_bytes,
    )
    rows = units.where(_of_clip(clip))
    if not others:
        return rows
    added = [added for _, added in others] if found.added else ()
    return rows.unionByName(files_dataframe(spark, [uri for uri, _ in others], wanted, added=added))


def _of_clip(clip: Clip) -> str:
    """Return the condition of rows that *clip* leaves, as SQL."""
    epoch = quoted(EPOCH_COLUMN)
    conditions = [f"{epoch} <= {_moment(clip.high)}"]
    if clip.low is not None:
        conditions.append(f"{epoch} > {_moment(clip.low)}")
    conditions += [f"{epoch} != {_moment(barrier)}" for barrier in clip.without]
    return " AND ".join(conditions)


def _moment(barrier: datetime) -> str:
    return f"timestamp_micros({micros(barrier)}L)"


def chosen(known: Sequence[str], names: Sequence[str] | None, table: str) -> list[str]:
    """Return *names*, of the columns *known*; all of them if *names* is None.

    :raises InvalidInput: no name, one that is no column of *table*, or one that is given twice.
    """
    if names is None:
        return list(known)
    if isinstance(names, str) or not names or len(set(names)) < len(names) or not set(names) <= set(known):
        raise refusals.other_columns(table, names, known)
    return list(names)


def files_dataframe(
    spark: SparkSession,
    files: Sequence[str],
    arrow: pa.Schema,
    *,
    rows: int | None = None,
    size_bytes: int | None = None,
    added: Sequence[Added] = (),
) -> DataFrame:
    """Return the rows of Parquet *files*. Running the DataFrame gives all of them or an error.

    :param arrow: the columns, with the ids by which each file's columns are matched.
    :param rows: number of all rows, for Spark's optimizer; None if it is not known. :param size_bytes: likewise.
    :param added: for each file what it does not say of its rows, which Spark's own reader cannot be told; empty if all
        say all.
    """
    wanted = spark_columns(arrow)
    if not files:
        return spark.createDataFrame([], wanted)
    by_id = columns_by_id(arrow)
    if not added and not _passes_over(files) and _known(spark, files, by_id):
        found = _scan(spark, files, by_id)
    else:
        ids = ids_for(len(files), rows, size_bytes)
        reader = shipped_reader(files, named_by_id(arrow), added)
        found = _through_arrow(spark, len(files), reader, by_id, ids)
    pairs = zip(by_id.fields, wanted.fields, strict=True)
    return found.select(
        *(
            found[numbered.name].cast(named.dataType).alias(named.name, metadata={})
            for numbered, named in pairs
        )
    )


def source_dataframe(
    spark: SparkSession, source_readers: SourceReaders, source: Source, bounds: SourceBounds
) -> DataFrame:
    """Return exactly the rows of *source*, an external table, within *bounds*.

    :raises Unavailable: the source no longer has the recorded rows.
    :raises InvalidInput: Spark cannot read the source, or does not find its driver or Iceberg's runtime.
    """
    read = source_readers.rows(source, bounds)
    if isinstance(read, ParquetRows):
        return files_dataframe(spark, read.files, read.columns, rows=read.rows, size_bytes=read.size_bytes)
    if isinstance(read, IcebergRows):
        return runtime.source_rows(spark, source, read)
    try:
        found = spark.read.jdbc(
            read.url, read.table, predicates=read.predicates, properties=dict(read.properties)
        )
        found.schema  # noqa: B018  (Spark Connect asks its server only now)
    except Exception as error:
        if read.driver not in str(error):
            raise
        raise refusals.no_driver(source, read.driver, read.package) from error
    return found


def _through_runtime(
    spark: SparkSession, table_format: TableFormat, state: State, schema: str, wanted: StructType
) -> DataFrame | None:
    """Return the rows of *state* that the runtime reads from its cut file; None if only plain files give them."""
    if state.ref is None or state.staged or TableCapability.CUT_FILES not in table_format.capabilities:
        return None
    if not runtime.opens(spark, state.ref.location.partition("://")[0]):
        return None
    try:
        found = with_cut_files(table_format, state.table).cut_file(state, schema)
    except WarehouseUnavailable as error:
        log.warning("Spark reads %s as plain files, without its filters: %s", state.table, error)
        return None
    return runtime.cut_rows(spark, found, wanted)


def _epoch_of(state: State) -> str:
    """Return the epoch column of a full table's state: the state's barrier for every row.

    The column in a file does not serve: a later state keeps files of earlier ones.
    """
    return f"{_moment(state.barrier)} AS {quoted(EPOCH_COLUMN)}"


def _known(spark: SparkSession, files: Sequence[str], columns: StructType) -> bool:
    """Return whether Spark itself can open *files*."""
    by_scheme = {uri.partition("://")[0]: uri for uri in files}
    return all(opens(spark, scheme, uri, columns) for scheme, uri in by_scheme.items())


def _passes_over(files: Sequence[str]) -> bool:
    """Return whether Spark would read one of *files* as if it had no rows, because of its name."""
    return any(is_hidden(uri.rpartition("/")[2]) for uri in files)


def _scan(spark: SparkSession, files: Sequence[str], by_id: StructType) -> DataFrame:
    paths = [_GLOB_CHARACTERS.sub(r"\\\1", uri) for uri in files]
    return spark.read.options(**_OPTIONS).schema(by_id).parquet(*paths)


def _through_arrow(
    spark: SparkSession, number: int, reader: BatchFunction, by_id: StructType, ids: Ids
) -> DataFrame:
    """Read in Python workers through pyarrow: needs no jar for the file system, but pushes no filters down.

    :param number: of files. :param ids: what Spark's optimizer sees; one of them for each file reaches Python.
    """
    every = spark.range(0, number * ids.each, 1, min(number, _MOST_TASKS))
    indices = every.where(f"id % {ids.each} = 0").selectExpr(f"id div {ids.each} AS id", *ids.columns)
    return indices.mapInArrow(reader, by_id)
