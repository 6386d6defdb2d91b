"""The job's checks, between WRITTEN and publish: on exactly the recorded output; they may end the attempt (R14)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from airflow_provider.coordination.attempts.end import End
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.join import refuse_alone, unjoined
from airflow_provider.coordination.attempts.read_input import read_input
from airflow_provider.coordination.attempts.renew import heartbeat
from airflow_provider.coordination.attempts.report import report
from airflow_provider.coordination.attempts.sql_checks import QueryResult, Readable, duckdb_result
from airflow_provider.coordination.attempts.state_log import checked_key, state_log
from airflow_provider.coordination.context import Context
from airflow_provider.domain.attempt_events import checked, newest_tries, written_output
from airflow_provider.domain.checks import (
    Check,
    CheckKind,
    Finding,
    filled,
    judge_count,
    judge_result,
)
from airflow_provider.domain.cut import Staged, State
from airflow_provider.domain.epoch import Attempt, AttemptEvent, AttemptRecord, EpochState
from airflow_provider.domain.errors import CheckFailed, InvalidInput
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import fence_of, schema_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import Committable
from airflow_provider.stores.base import MetadataReader, Reading
from airflow_provider.tables.expectations import proven, violated


class Query(Protocol):
    """Engine that answers SQL over tables, given under their names in *sql*."""

    def __call__(self, sql: str, tables: Mapping[str, Readable]) -> QueryResult:
        """:raises InvalidInput: *sql* cannot be run."""
        ...


def check(context: Context, attempt: Attempt, query: Query | None = None) -> None:
    """Run the job's checks on exactly the output recorded at WRITTEN, once for each output (R14).

    :param query: answers SQL; by default DuckDB does.
    :raises CheckFailed: a check refused the output: the attempt has ended, its staged rows are kept for inspection.
    :raises Fenced: a newer attempt exists.
    :raises InvalidInput: a check needs an SQL engine, and there is none.
    """
    refuse_alone(attempt)
    if attempt.checks:
        context.retry(_Checking(context, attempt, query).run)


def refuse_unchecked(
    reader: MetadataReader, attempt: Attempt, reading: Reading, record: AttemptRecord
) -> None:
    """Refuse to publish output on which the job's checks have not passed (R14).

    :raises InvalidInput: with the number of checks.
    """
    if not attempt.checks or reading.get(checked_key(attempt, attempt.token)) is not None:
        return
    adopted = checked_key(attempt, record.output_token)
    if reader.read(attempt.domain, [adopted]).get(adopted) is None:
        raise InvalidInput(
            f"{attempt}: its checks have not passed.",
            next_step="call check before publish.",
            field="checks",
            value=None,
            expected=f"{len(attempt.checks)} checks that have passed",
        )


@dataclass(frozen=True, slots=True)
class _Checking:
    """One request to check an attempt's output; ``run`` may be repeated: it answers as the first time."""

    context: Context
    attempt: Attempt
    query: Query | None

    def run(self) -> None:
        """:raises CheckFailed: with all that was found."""
        context, attempt = self.context, self.attempt
        found = state_log(context.store, attempt)
        log = [stamped.record for stamped in found]
        mine = {event.state: event for event in log if event.token == attempt.token and not event.sink}
        if EpochState.CHECK_FAILED in mine:
            raise check_failed(attempt, mine[EpochState.CHECK_FAILED].findings, log, attempt.token)
        if EpochState.CHECKED in mine or EpochState.COMMIT in mine:
            return
        record = self._record()
        names = [sink.name for sink in attempt.sinks]
        output = written_output(log, names, token=record.output_token, participants=record.participants)
        if set(output) != set(names) or checked(log, {record.output_token}):
            return  # publish refuses what is not WRITTEN; output that an earlier attempt has checked stays checked
        findings = _Output(context, attempt, output, self.query or duckdb_result).findings()
        # Findings are about the tries in this log: a participant that has begun again since replaces its rows, so both
        # answers require that none has (docs/decisions/participants.md).
        if findings:
            End(context, attempt, _reason(findings), findings, unjoined(attempt, log)).run()
            raise check_failed(attempt, findings, log, attempt.token)
        passed = AttemptEvent(
            state=EpochState.CHECKED,
            sink="",
            token=attempt.token,
            participant=0,
            owner=attempt.owner,
            note=f"{len(attempt.checks)} checks passed",
        )
        report(context.store, attempt, passed, unjoined(attempt, log))

    def _record(self) -> AttemptRecord:
        attempt = self.attempt
        key = fence_of(attempt)
        epoch = self.context.store.read(attempt.domain, [key]).get(key)
        record = None if epoch is None else epoch.record.attempt
        if epoch is None or epoch.version != attempt.fence or record is None:
            raise fenced(self.context.store, attempt)
        return record


@dataclass(frozen=True, slots=True)
class _Output:
    """WRITTEN output of an attempt, as checks read it."""

    context: Context
    attempt: Attempt
    output: Mapping[TableName, Sequence[Committable]]
    query: Query

    def findings(self) -> tuple[Finding, ...]:
        found = []
        for check in self.attempt.checks:
            finding = self._finding(check)
            if finding is not None:
                found.append(finding)
            # All checks together may take longer than the lock lasts.
            heartbeat(self.context, self.attempt)
        return tuple(found)

    def _finding(self, check: Check) -> Finding | None:
        try:
            if check.kind is CheckKind.ROW_COUNT:
                others = self._rows(check.of) if check.of else None
                return judge_count(check, self._rows(check.table), others)
            if check.by_query:
                return self._answered(check)
            return self._expected(check)
        except InvalidInput as error:
            # A check that cannot be answered has not passed.
            figure = f"cannot be answered: {error.message}"
            return Finding(check=check.name, table=check.table, figure=figure)

    def _rows(self, table: str) -> int:
        """Return the number of rows that the epoch has in an output, or has read of an input."""
        if table in self.output:
            return sum(part.rows for part in self.output[TableName(table)])
        found = self._input(table)
        return 0 if found is None else found.format.statistics(found.state, found.schema).rows

    def _expected(self, check: Check) -> Finding | None:
        found = self._readable(check.table)
        columns = found.format.arrow_schema(found.schema)
        if proven(check, found.format.statistics(found.state, found.schema), columns):
            return None
        pieces = found.format.scan(found.state, found.schema, check.columns)
        return violated(check, pieces, columns)

    def _answered(self, check: Check) -> Finding | None:
        prefix = f"epoch_check_{sha256(str(self.attempt).encode()).hexdigest()[:16]}"
        names = {table: f"{prefix}_{number}" for number, table in enumerate(check.tables)}
        tables = {name: self._readable(table) for table, name in names.items()}
        return judge_result(check, *self.query(filled(check.sql, names), tables))

    def _readable(self, table: str) -> Readable:
        if table in self.output:
            return self._staged(self.attempt.sink(table))
        found = self._input(table)
        if found is None:
            raise InvalidInput(
                field="checks", value=table, expected="an input with a commit: its columns are not known yet"
            )
        return found

    def _input(self, table: str) -> Readable | None:
        """Return the state of an input that the epoch read; None for a table without a commit."""
        state, schema = read_input(self.context, self.attempt, table)
        if state.format is None:
            return None
        return Readable(format=self.context.formats[state.format], state=state, schema=schema)

    def _staged(self, sink: Table) -> Readable:
        interval, output = self.attempt.interval, self.output[sink.name]
        state = State(
            table=sink.name,
            kind=sink.kind,
            barrier=interval.end,
            low=interval.start,
            csn=0,
            ref=None,
            staged=tuple(Staged(interval=interval, committable=part) for part in output),
        )
        return Readable(
            format=self.context.formats[sink.format], state=state, schema=self._schema(sink, output[0])
        )

    def _schema(self, sink: Table, written: Committable) -> str:
        """Return the schema of the written rows: the table's own, or an earlier one that was published."""
        info = self.context.formats[sink.format].describe(sink)
        if info is not None and (info.table_uuid, info.schema_id) == (written.table_uuid, written.schema_id):
            return info.schema
        key = schema_key(self.attempt.domain, sink.name, written.table_uuid, written.schema_id)
        stamped = self.context.store.read(self.attempt.domain, [key]).get(key)
        if stamped is None:
            raise InvalidInput(
                field="checks", value=sink.name, expected="the table that the rows were written to"
            )
        return str(stamped.record.schema)


def _reason(findings: Sequence[Finding]) -> str:
    return "; ".join(map(str, findings))


def kept_places(log: Iterable[AttemptEvent], token: int) -> tuple[str, ...]:
    """Return the places of the output that the attempt with *token* has WRITTEN or adopted."""
    known = list(log)
    number = max(
        (event.token for event in known if event.committable and event.token <= token), default=token
    )
    newest = newest_tries(known, number)
    places = {
        event.committable.place
        for event in known
        if event.committable
        and event.token == number
        and event.participant_attempt == newest.get(event.participant, 0)
    }
    return tuple(sorted(places))


def check_failed(
    subject: object, findings: Sequence[Finding], log: Iterable[AttemptEvent], token: int
) -> CheckFailed:
    """Return the error for output that checks have refused.

    :param subject: the epoch or its attempt. :param token: of the attempt that the checks have ended.
    """
    places = kept_places(log, token)
    return CheckFailed(
        f"{subject}: refused by its checks: {_reason(findings)}. Nothing is published.",
        next_step=f"look at the staged rows, which are kept until the epoch is begun again ({', '.join(places)}); then "
        "mend the job or its data, or change the check in its declaration, and clear the task.",
        findings=tuple(findings),
        places=places,
    )


def refuse_check_failed(reader: MetadataReader, job: Job, epochs: Sequence[Interval], owner: Owner) -> None:
    """Raise again the first failed check that the try of *owner* met in *epochs*, if its program swallowed the error.

    :raises CheckFailed: with the same findings.
    """
    keys = [fence_of(job.epoch(epoch)) for epoch in epochs]
    for stamped in sorted(reader.read(job.domain, keys).records.values(), key=lambda found: found.key):
        attempt = stamped.record.attempt
        if attempt is None or not attempt.check_failed:
            continue
        if not attempt.owner.same_run(owner) or attempt.owner.order != owner.order:
            continue
        interval = stamped.record.interval
        log = [entry.record for entry in state_log(reader, job.epoch(interval))]
        findings = next(
            (event.findings for event in log if event.findings and event.token == attempt.token), ()
        )
        raise check_failed(f"{job.domain}/{job.name} {interval}", findings, log, attempt.token)
