"""Errors for Spark programs and sessions that do not fit the job's declaration."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, InvalidInput, SchemaMismatch, StoreIncompatible, shown
from airflow_provider.domain.source_bounds import Source
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import StoreCapability

_WITH_RUNTIME = "for example --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


_REASON_LENGTH = 300


def reason_of(error: BaseException) -> str:
    """Return why an attempt is aborted: the class and the first line of *error*."""
    first_line = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first_line}"[:_REASON_LENGTH]


def not_entered(attempt: Attempt) -> InvalidInput:
    return InvalidInput(
        f"{attempt}: the epoch was not entered.",
        next_step="use each epoch in a block: `with epoch_run() as epoch: …`, "
        "or `for epoch in epoch_runs(): with epoch: …`.",
        field="epoch",
        value=str(attempt),
        expected="a with block around its reads and writes",
    )


def not_reached(attempt: Attempt) -> Conflict:
    """Error for an epoch that its run began and did not compute: an earlier one of ``commit="together"`` failed."""
    return Conflict(
        f"{attempt}: an earlier epoch of the run failed.",
        next_step="run the task again: it computes the epochs that are left, and publishes all at once.",
    )


def handed_over_together() -> InvalidInput:
    return InvalidInput(
        field="commit",
        value="together",
        expected="each: another program has begun this epoch, and publishes it",
        next_step="leave out commit=.",
    )


def not_written(attempt: Attempt, written: Collection[str]) -> InvalidInput:
    wanted = [str(sink.name) for sink in attempt.sinks]
    return InvalidInput(
        f"{attempt}: the block ended, and {[name for name in wanted if name not in written]} were not written.",
        next_step="write each output of the job once; an epoch without rows writes an empty DataFrame.",
        field="outputs",
        value=sorted(written),
        expected=str(wanted),
    )


def not_a_participant(attempt: Attempt, table: str) -> InvalidInput:
    return InvalidInput(
        f"{attempt}: its {attempt.participants} participants write {table!r}, not who began it.",
        next_step="give each participant one of epoch.handles: `with epoch_participant(job, handle, …) as epoch: …`.",
        field="participant",
        value=None,
        expected=f"0 to {attempt.participants - 1}",
    )


def shared_base(attempt: Attempt, table: str) -> InvalidInput:
    return InvalidInput(
        f"{attempt}: each of its {attempt.participants} participants would begin with all rows of {table!r}.",
        next_step=f"begin with none: epoch.draft({table!r}, empty=True), and insert this participant's share.",
        field="empty",
        value=False,
        expected="True",
    )


def written_twice(attempt: Attempt, table: str) -> InvalidInput:
    return InvalidInput(
        f"{attempt}: {table!r} was written already; one epoch writes each output once.",
        next_step="unite the DataFrames, then write them together.",
        field="output",
        value=table,
        expected="one write for each output",
    )


def unknown_source(attempt: Attempt, source: str) -> InvalidInput:
    return InvalidInput(
        field="source",
        value=source,
        expected=f"one of {[bounds.source for bounds in attempt.sources]}",
        next_step=f"declare FileSource({shown(source)}, location=…) in the inputs of job {attempt.job!r}.",
    )


def read_otherwise(source: Source) -> InvalidInput:
    """Error for files read as a table, or a table as files.

    The program chooses the reader for files, whose format the source does not know; a table's source knows how to read
    it.
    """
    is_files = not source.has_spans
    right = (
        f"spark.read.csv(epoch.source_files({source.name!r}))"
        if is_files
        else f"epoch.read_source({source.name!r})"
    )
    return InvalidInput(
        field="source",
        value=source.name,
        expected="a source that is a table" if is_files else "a source that is files",
        next_step=f"read it by {right}.",
    )


def no_driver(source: Source, driver: str, package: str) -> InvalidInput:
    return InvalidInput(
        field="spark.jars",
        value=None,
        expected=f"a session that finds {driver}, by which source {source.name!r} is read",
        next_step=f"start Spark with --packages {package}, or with its jar in spark.jars.",
    )


def older_columns(table: str) -> SchemaMismatch:
    """Error for a draft whose base has columns that the declaration does not know: a rewritten row would lose them."""
    return SchemaMismatch(
        f"the draft of {table!r} would begin with rows that have other columns than the declaration says.",
        next_step="run the newest declaration: its column_changes have all changes of the table.",
        table=table,
        column="",
        expected="the columns that the rows have",
        found="an older declaration",
    )


def unknown_columns(table: str) -> InvalidInput:
    return InvalidInput(
        f"table {table!r} has no commit yet, so its columns are not known.",
        next_step=f"say them: epoch.read({table!r}, schema='id bigint, amount double').",
        field="schema",
        value=None,
        expected="columns in Spark's DDL",
    )


def other_columns(table: str, names: object, known: Sequence[str]) -> InvalidInput:
    """Return the error for *names*, of which some are no columns of *table*, or none is given."""
    return InvalidInput(
        field="columns",
        value=names,
        expected=f"a list of columns of {table!r}, each once: {', '.join(known)}",
        table=table,
    )


def unsorted(table: Table, known: Sequence[str]) -> InvalidInput:
    """Return the error for ``sort_by`` of *table*, which names columns that the rows lack. :param known: theirs."""
    return InvalidInput(
        field="sort_by",
        value=list(table.sort_by),
        expected=f"columns that the rows of {table.name!r} have: {', '.join(known)}",
        next_step="correct sort_by in the declaration of the table: a column that column_changes rename has its new "
        "name there.",
        table=table.name,
    )


def no_columns(schema: object, why: str = "") -> InvalidInput:
    """Error for *schema* that is not DDL.

    :param why: Spark's own message, if any.
    """
    return InvalidInput(
        field="schema",
        value=schema,
        expected="columns in Spark's DDL, such as 'id bigint, amount double'" + (why and f" (Spark: {why})"),
        next_step="correct the text; each column is a name and a type, and names with other signs stand in backticks.",
    )


def no_dataframe(value: object) -> InvalidInput:
    return InvalidInput(
        field="df",
        value=value,
        expected="a DataFrame of Spark",
        next_step="make one of it: epoch.spark.createDataFrame(…).",
    )


def no_switch(name: str, value: object) -> InvalidInput:
    return InvalidInput(field=name, value=value, expected="True or False")


def no_drafts(table_format: str, table: str) -> InvalidInput:
    return InvalidInput(
        field="format",
        value=table_format,
        expected="a format with drafts",
        next_step="declare the table with format='iceberg', or write a DataFrame: epoch.write.",
        table=table,
    )


def unknown_draft_columns(table: str) -> InvalidInput:
    return InvalidInput(
        f"table {table!r} does not exist yet, so its columns are not known.",
        next_step=f"say them: epoch.draft({table!r}, schema='id bigint, amount double').",
        field="schema",
        value=None,
        expected="columns in Spark's DDL",
    )


def unknown_base(attempt: Attempt, table: str) -> InvalidInput:
    """Error for a full table without a usable ``previous`` edge: none, or one that ignores revisions.

    The base of an edge that ignores revisions may be expired, so that its files may be gone.
    """
    return InvalidInput(
        f"{attempt}: the rows that the draft of {table!r} begins with are not declared.",
        next_step=f"declare previous({table!r}), not to be ignored when revised, in the inputs of job {attempt.job!r}, "
        f"which needs an origin then; or begin with none: epoch.draft({table!r}, empty=True).",
        field="inputs",
        value=[str(edge.table) for edge in attempt.inputs],
        expected=f"previous({table!r})",
    )


def needs_runtime(source: Source, why: str, missing: str) -> InvalidInput:
    """Error for a source that only Iceberg's runtime reads right, in a session that cannot.

    :param why: what the table has. :param missing: what the session lacks.
    """
    return InvalidInput(
        f"source {source.name!r}: {source.table} has {why}, which Iceberg's Spark runtime reads and plain files do not "
        f"tell; the session lacks {missing}.",
        next_step=f"start Spark with it, {_WITH_RUNTIME}; on S3 with hadoop-aws, too.",
        field="spark.jars.packages",
        value=None,
        expected=f"a class path with {missing}",
    )


def other_type(source: Source, column: str, expected: str, found: str) -> InvalidInput:
    """Error for a column that Iceberg's runtime reads with another type than a job gets from plain files."""
    return InvalidInput(
        f"source {source.name!r}: column {column!r} of {source.table} is {found} through Iceberg's runtime, and "
        f"{expected} in its files.",
        next_step="let the owner of the table rewrite its files (rewrite_data_files with rewrite-all), or give the "
        "column that type.",
        field=f"column {column} of source {source.name!r}",
        value=found,
        expected=expected,
    )


def no_runtime(class_name: str, table: str) -> InvalidInput:
    return InvalidInput(
        f"the session cannot open the draft of {table!r}: it does not find {class_name}.",
        next_step=f"start Spark with Iceberg's runtime for its version, {_WITH_RUNTIME}.",
        field="spark.jars.packages",
        value=None,
        expected=f"a class path with {class_name}",
    )


def one_host(store: str) -> StoreIncompatible:
    """Error for a driver on another host than a store that serves one host only.

    :param store: the store, as the message names it, such as ``the store sqlite:///…``.
    """
    return StoreIncompatible(
        f"deploy mode 'cluster' runs the driver on another host, and {store} is for one host only.",
        next_step="use deploy mode 'client', or a store that is cluster-wide.",
        field="deploy_mode",
        missing=(StoreCapability.CLUSTER,),
    )


def no_spark(conn_id: str) -> InvalidInput:
    return InvalidInput(
        field="spark_conn_id",
        value=conn_id,
        expected="a connection that Airflow knows",
        next_step=f"for Spark in the task's own process: `airflow connections add {conn_id} --conn-type spark "
        "--conn-host 'local[2]'`; for a server that stays up, a connection of type spark_connect.",
    )


def not_local(conn_id: str, master: str | None) -> InvalidInput:
    return InvalidInput(
        field="spark_conn_id",
        value=f"{conn_id!r}, which leads to {master!r}",
        expected="a Spark Connect server (type spark_connect), or Spark in the task's own process (type spark, "
        "host local[2])",
        next_step="correct the connection; for other masters use EpochSparkSubmitOperator.",
    )
