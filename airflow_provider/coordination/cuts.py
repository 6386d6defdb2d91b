"""Cuts: what readers get (protocol section 6). Reads only, with a reader's side of the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider.domain.cut import Cut, Level, Staged, State, as_of, lagging, nearest_kept, resolve
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import EpochRecord, written_output
from airflow_provider.domain.errors import (
    Conflict,
    InvalidInput,
    LeaseExpired,
    NotReady,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name, table_name
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.lease import read_ended
from airflow_provider.domain.records import (
    Kind,
    barrier_partition,
    job_key,
    lease_key,
    retention_key,
    schema_key,
    table_key,
)
from airflow_provider.domain.retention import NOTHING_WITHDRAWN, RetentionRecord
from airflow_provider.domain.topology import EpochTable
from airflow_provider.domain.version import Moved, TableRecord
from airflow_provider.stores.base import MetadataReader, Reading, pages
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.factory import TableFormats

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 20

Resolved = Mapping[TableName, tuple[TableRecord, Moved]]


class Cuts:
    """Consistent cuts over the tables of a domain."""

    def __init__(
        self, reader: MetadataReader, formats: TableFormats, *, defaults: Defaults = DEFAULTS
    ) -> None:
        self.reader = reader
        self.formats = formats
        self.defaults = defaults

    def cut(
        self,
        domain: str,
        tables: Iterable[str | EpochTable],
        *,
        at: datetime | None = None,
        level: Level | str = Level.READ_COMMITTED,
    ) -> Cut:
        """Return one state of each table, all at one barrier and one CSN.

        :param at: the greatest barrier wanted; None for the newest that all tables have reached.
        :param level: READ_COMMITTED resolves anew at each call; READ_UNCOMMITTED returns the newest WRITTEN
            output of each table, unaligned.
        :raises NotReady: there is no common barrier yet; ``missing`` says which table lags and why.
        :raises UnknownName: a table that no job has registered.
        """
        name, names = domain_name(domain), names_of(tables)
        at = None if at is None else as_utc(at, "at")
        level = _level(level)
        reading, found = read_tables(self.reader, name, names)
        if level is Level.READ_UNCOMMITTED:
            states = {table: self._uncommitted(name, table, *found[table]) for table in names}
            barrier = max(state.barrier for state in states.values())
        else:
            barrier = _common_barrier(found, at)
            refuse_withdrawn(retention_of(name, reading), found, barrier)
            states = {
                table: State(
                    table=table,
                    kind=record.kind,
                    barrier=barrier,
                    low=None,
                    csn=reading.head.csn,
                    ref=moved.ref,
                )
                for table, (record, moved) in found.items()
            }
        return Cut(
            domain=name,
            incarnation=reading.head.incarnation,
            csn=reading.head.csn,
            barrier=barrier,
            level=level,
            states=states,
            readable_until=reading.now + self.defaults.read_grace,
        )

    def schema(self, domain: DomainName, state: State) -> str:
        """Return the schema with which *state* is read, as its format writes it; empty without a commit."""
        ref = state.ref
        if ref is None:
            return self._schema_of_staged(domain, state)
        key = schema_key(domain, state.table, ref.table_uuid, ref.schema_id)
        stamped = self.reader.read(domain, [key]).get(key)
        if stamped is None:
            raise UnknownName(
                f"{state.table}: schema {ref.schema_id} is not in the store.", table=state.table
            )
        schema: str = stamped.record.schema
        return schema

    def _schema_of_staged(self, domain: DomainName, state: State) -> str:
        """The schema of output that is WRITTEN to a table without a commit: only its format has it yet."""
        if not state.staged:
            return ""
        owner = self.reader.read(domain, [table_key(domain, state.table)]).get(table_key(domain, state.table))
        key = job_key(domain, owner.record.job) if owner else None
        job = self.reader.read(domain, [key]).get(key) if key else None
        tables = job.record.outputs if job else ()
        for table in tables:
            if table.name == state.table:
                info = self.formats[table.format].describe(table)
                return info.schema if info else ""
        return ""

    def files(self, cut: Cut, table: str | EpochTable) -> list[str]:
        """Return the URIs of the data files of *table* in *cut*; call :meth:`check` when they have been read.

        :raises LeaseExpired: the cut's time is over.
        """
        state = _state(cut, table)
        self.check(cut, [table])
        return [] if state.ref is None and not state.staged else self._format(state).files(state)

    def read(self, cut: Cut, table: str | EpochTable, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of *table* in *cut*, all of them.

        :raises LeaseExpired: the cut's time is over, or was over before the last row was read.
        :raises Unavailable: a file of the cut is missing.
        """
        state = _state(cut, table)
        self.check(cut, [table])
        try:
            found = self._format(state).read(state, self.schema(cut.domain, state), columns)
        finally:
            self.check(cut, [table])
        return found

    def check(self, cut: Cut, tables: Iterable[str | EpochTable] | None = None) -> None:
        """Say so when *cut* must not be read any more: before a read begins, and after it has ended (R22).

        :param tables: those that are read; None for all.
        :raises LeaseExpired: with the reason.
        """
        wanted = list(cut.states) if tables is None else names_of(tables)
        key = None if cut.lease is None else lease_key(cut.domain, cut.lease)
        reading = self.reader.read(cut.domain, [] if key is None else [key])
        lease = None if key is None else reading.get(key)
        reason = read_ended(cut, wanted, lease, incarnation=reading.head.incarnation, now=reading.now)
        if reason:
            raise LeaseExpired(
                f"the cut of {', '.join(wanted)} at {cut.barrier.isoformat()} (CSN {cut.csn}) is over: {reason}.",
                next_step="make a new cut; hold one that is read for long by a lease, and renew it.",
                cut=cut,
                reason=reason,
            )

    def _format(self, state: State) -> TableFormat:
        formats = [state.ref.format] if state.ref else [one.committable.format for one in state.staged]
        return self.formats[formats[0] if formats else "iceberg"]

    def _uncommitted(self, domain: DomainName, table: TableName, record: TableRecord, moved: Moved) -> State:
        """The table as committed plus all output that is WRITTEN and not published."""
        staged = []
        open_epochs = [
            replace(lock.key, kind=Kind.EPOCH) for lock in pages(self.reader, domain, Kind.LOCK, record.job)
        ]
        for epoch in self.reader.read(domain, open_epochs).records.values():
            staged += self._staged(domain, table, record, epoch.record)
        ends = [one.end for one in record.progress.islands] + [one.interval.end for one in staged]
        if not ends:
            raise NotReady(
                f"{table}: nothing is committed or WRITTEN.",
                next_step="run the job that writes it.",
                missing=(),
            )
        return State(
            table=table,
            kind=record.kind,
            barrier=max(ends),
            low=None,
            csn=moved.csn,
            ref=moved.ref,
            staged=tuple(staged),
        )

    def _staged(
        self, domain: DomainName, table: TableName, record: TableRecord, epoch: EpochRecord
    ) -> list[Staged]:
        attempt = epoch.attempt
        if attempt is None or attempt.aborted is not None:
            return []
        log = self.reader.scan(domain, Kind.BARRIER, barrier_partition(record.job, epoch.interval.start))
        output = written_output(
            (one.record for one in log),
            [table],
            token=attempt.output_token,
            participants=attempt.participants,
        )
        return [Staged(interval=epoch.interval, committable=one) for one in output.get(table, ())]


def read_tables(
    reader: MetadataReader, domain: DomainName, names: Sequence[TableName]
) -> tuple[Reading, dict[TableName, tuple[TableRecord, Moved]]]:
    """Read where *names* stood at the head.

    :raises UnknownName: a table that no job has registered.
    """
    reading, found = read_registered(reader, domain, names)
    for name in names:
        if name not in found:
            raise UnknownName(
                f"table {name!r} is not registered in domain {domain!r}.",
                next_step="see `airflow epochs status`; a job registers its tables when it first runs.",
                domain=domain,
                table=name,
            )
    return reading, found


def read_registered(
    reader: MetadataReader, domain: DomainName, names: Sequence[TableName]
) -> tuple[Reading, dict[TableName, tuple[TableRecord, Moved]]]:
    """Read where those of *names* that are registered stood at the head.

    The head is read first, then only what is immutable at or below it (R3).
    """
    for _ in range(_TRIES):
        reading = reader.read(domain, [retention_key(domain), *(table_key(domain, name) for name in names)])
        stood = {
            TableName(key.item): (stamped.record, as_of(stamped, reading.head.csn))
            for key, stamped in reading.records.items()
            if key.kind is Kind.TABLE
        }
        found = {name: (record, moved) for name, (record, moved) in stood.items() if moved is not None}
        if len(found) == len(stood):
            return reading, found
    raise Conflict(
        "the tables kept moving while they were read.", next_step="read again.", tables=tuple(names)
    )


def _common_barrier(found: Resolved, at: datetime | None) -> datetime:
    barrier = resolve(found, at)
    if barrier is not None:
        return barrier
    marks = [moved.watermark for _, moved in found.values() if moved.watermark is not None]
    wanted = at or max(marks, default=None)
    missing = lagging(found, wanted) if wanted else ()
    reasons = "; ".join(f"{lag.table}: {lag.reason}" for lag in missing) or "nothing is committed yet"
    raise NotReady(
        f"{', '.join(sorted(found))} have no common barrier yet: {reasons}.",
        next_step="wait for it (EpochSensor), or see `airflow epochs explain`.",
        missing=missing,
    )


def retention_of(domain: DomainName, reading: Reading) -> RetentionRecord:
    """What retention has withdrawn, as *reading* found it."""
    stamped = reading.get(retention_key(domain))
    return NOTHING_WITHDRAWN if stamped is None else stamped.record


def refuse_withdrawn(retention: RetentionRecord, found: Resolved, barrier: datetime) -> None:
    """:raises Unavailable: the state of a table at *barrier* was withdrawn; ``kept`` has the nearest barriers."""
    gone = [table for table in sorted(found) if retention.range_at(table, barrier) is not None]
    if gone:
        kept = nearest_kept(found, retention, barrier)
        said = " and ".join(one.isoformat() for one in kept) or "none"
        raise Unavailable(
            f"{', '.join(gone)}: what was there at {barrier.isoformat()} is withdrawn.",
            next_step=f"read at the nearest barrier that is kept ({said}), or at a later one.",
            barrier=barrier,
            tables=tuple(gone),
            kept=kept,
        )


def names_of(tables: Iterable[str | EpochTable]) -> list[TableName]:
    if isinstance(tables, str | EpochTable):
        tables = [tables]
    names = [table_name(one.name if isinstance(one, EpochTable) else one) for one in tables]
    if not names:
        raise InvalidInput(field="tables", value=[], expected="one table or more")
    return list(dict.fromkeys(names))


def _state(cut: Cut, table: str | EpochTable) -> State:
    name = names_of([table])[0]
    state = cut.states.get(name)
    if state is None:
        raise InvalidInput(
            field="table",
            value=name,
            expected=f"one of {sorted(cut.states)}",
            next_step="name the table when the cut is made.",
        )
    return state


def _level(value: Level | str) -> Level:
    try:
        level = Level(value)
    except ValueError as error:
        raise InvalidInput(
            field="level", value=value, expected=f"one of {[one.value for one in Level]}"
        ) from error
    if level is Level.REPEATABLE_READ:
        raise InvalidInput(
            field="level",
            value=value,
            expected="read_committed or read_uncommitted",
            next_step="call leases.cut, which makes the cut and holds it; this side of the store changes nothing.",
        )
    return level
