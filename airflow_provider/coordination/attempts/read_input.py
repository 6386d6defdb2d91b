"""Inputs of an attempt: the states that its begin has fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.commits.staged import Members
from airflow_provider.coordination.context import Context
from airflow_provider.domain.cut import Staged, State, state_of
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, UnknownName
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.records import schema_key, table_key


def read_input(context: Context, attempt: Attempt, table: str) -> tuple[State, str]:
    """Return the state that the attempt reads of *table* and the schema to read it with.

    The schema is empty text when the state has no commit.

    :raises InvalidInput: the job declares no edge on *table*.
    :raises Conflict: epochs of the attempt's restatement that it reads were computed again since it began.
    """
    provenance = attempt.input(table)
    record_key = table_key(attempt.domain, provenance.table)
    ref = provenance.ref
    of_schema = ref and schema_key(attempt.domain, provenance.table, ref.table_uuid, ref.schema_id)
    keys = [record_key, *([of_schema] if of_schema else [])]
    reading = context.retry(lambda: context.store.read(attempt.domain, keys))
    record = reading.get(record_key)
    if record is None:
        raise UnknownName.of_table(
            table, attempt.domain, next_step="check the domain of the job and the connection."
        )
    schema = reading.get(of_schema) if of_schema else None
    state = state_of(provenance, record.record.kind)
    if provenance.staged and attempt.restatement is not None:
        members, writer = Members.of(context.store, attempt.domain, attempt.restatement), record.record.job
        low, high, digest = provenance.low, provenance.high, provenance.staged
        staged = context.retry(lambda: members.output(provenance.table, writer, low, high, digest))
        state = replace(state, staged=staged)
        if ref is None and staged:
            return state, _first_schema(context, attempt, provenance.table, writer, staged)
    return state, schema.record.schema if schema else ""


def _first_schema(
    context: Context, attempt: Attempt, table: TableName, writer: JobName, staged: Sequence[Staged]
) -> str:
    """Return the schema of the first rows of *table*, which only its format has before they are published.

    :raises Conflict: they were written to a table that is there no more.
    """
    job = context.retry(lambda: registered(context.store, attempt.domain, writer))
    sink = next(output for output in job.outputs if output.name == table)
    info, written = context.formats[sink.format].describe(sink), staged[0].committable
    if info is None or (info.table_uuid, info.schema_id) != (written.table_uuid, written.schema_id):
        raise Conflict(
            f"{attempt}: table {table!r} is another one than the one whose staged rows it reads.",
            next_step=f"compute {writer} again, then begin again.",
            tables=(table,),
        )
    return info.schema
