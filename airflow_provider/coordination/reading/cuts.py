"""Cuts: consistent states for readers (protocol section 6). Needs only the reading side of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_provider.coordination.commits.places import refuse_other_warehouse
from airflow_provider.coordination.reading.engine_names import refuse_names_alike
from airflow_provider.coordination.reading.outdated import OutdatedRows
from airflow_provider.coordination.reading.resolve import (
    Latest,
    Resolved,
    TableVersions,
    names_of,
    refuse_stale,
    resolved,
)
from airflow_provider.coordination.reading.whole_files import whole_files
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.alignment import Aligned
from airflow_provider.domain.attempt_events import written_output
from airflow_provider.domain.clock import Clock
from airflow_provider.domain.cut import Cut, Staged, State
from airflow_provider.domain.cut_request import CutRequest
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, LockRecord
from airflow_provider.domain.errors import Conflict, InvalidInput, LeaseExpired, NotReady, UnknownName, choice
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.lease import read_ended
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.outdated import Outdated
from airflow_provider.domain.read_options import (
    READ_DEFAULTS,
    Align,
    Consistency,
    Level,
    ReadDefaults,
    checked_lag,
)
from airflow_provider.domain.records import (
    Key,
    Kind,
    event_partition,
    job_key,
    lease_key,
    schema_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.session import Session
from airflow_provider.domain.staleness import checked_staleness, too_old
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord, TableVersion
from airflow_provider.stores.base import MetadataReader, Reading, pages, scan
from airflow_provider.tables import filtered
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.duckdb_tables import give
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.filters import FilterTuple

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


_TRIES = 20


class Cuts:
    """Consistent cuts over the tables of a domain.

    :param clock: for retries while the store does not answer. :param random: likewise.
    """

    def __init__(
        self,
        reader: MetadataReader,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
        reading: ReadDefaults = READ_DEFAULTS,
    ) -> None:
        self.reader = retrying_reader(reader, clock=clock, random=random, defaults=defaults)
        self._versions = TableVersions(self.reader)
        self._outdated = OutdatedRows(self.reader)
        self._states = Latest[Mapping[TableName, State]]()
        self.formats = formats
        self.defaults = defaults
        self.reading = reading

    def cut(
        self,
        domain: str,
        tables: Iterable[str | Table],
        *,
        at: datetime | None = None,
        level: Level | str | None = None,
        align: Align | str = Align.EXACT,
        max_lag: timedelta | None = None,
        max_staleness: timedelta | None = None,
        consistency: Consistency | str | None = None,
        session: Session | None = None,
    ) -> Cut:
        """Return one state of each table, all at one barrier and one CSN. Never waits.

        :param at: the greatest barrier wanted; None for the newest that all tables have reached.
        :param level: READ_COMMITTED resolves anew at each call; READ_UNCOMMITTED returns the newest WRITTEN
            output of each table, unaligned. The default is configured (:class:`ReadDefaults`).
        :param align: ``floor`` takes full tables that are slower at their last barrier, at most *max_lag* before
            the cut's; ``cut.behind`` names them.
        :param max_staleness: how old any of the tables may be, by the store's clock.
        :param consistency: ``altogether`` uses only barriers that all tables of the domain have published.
        :param session: bounds of earlier reads; ``session.after(cut)`` is the next one.
        :raises InvalidInput: an option that READ_UNCOMMITTED cannot keep: a time, slower tables, a session, the
            whole domain.
        :raises NotReady: there is no common barrier yet, or only one that is too old or earlier than the session's;
            ``missing`` says which table lags and why.
        :raises Unavailable: the states at that barrier have expired; ``kept`` has the nearest kept barriers.
        :raises UnknownName: a table that no job has registered.
        :raises WrongWarehouse: the domain's files are in another warehouse than the one given (R33).
        """
        name, names = domain_name(domain), names_of(tables)
        chosen = _level(self.reading.level if level is None else level)
        request = CutRequest(
            at=None if at is None else as_utc(at, "at"),
            align=choice(Align, align, "align"),
            max_lag=checked_lag(choice(Align, align, "align"), max_lag),
            max_staleness=checked_staleness(max_staleness),
            consistency=choice(
                Consistency, self.reading.consistency if consistency is None else consistency, "consistency"
            ),
            session=checked_session(session, name),
        )
        if chosen is Level.READ_UNCOMMITTED:
            return self._uncommitted_cut(name, names, request, explicit=consistency is not None)
        answer = resolved(self._versions, name, names, request)
        head, topology = answer.reading.head, answer.reading.get(topology_key(name))
        refuse_other_warehouse(name, topology, self.formats.warehouse)
        question = (answer.found, answer.aligned, head.csn)
        states = self._states.answer(question, lambda: _states(*question))
        return Cut(
            domain=name,
            incarnation=head.incarnation,
            csn=head.csn,
            barrier=answer.aligned.barrier,
            level=chosen,
            states=dict(states),
            readable_until=answer.reading.now + self.defaults.read_grace,
            outdated=self._outdated.of(name, topology, states, head.csn),
        )

    def outdated(
        self, domain: DomainName, states: Mapping[TableName, State], csn: int
    ) -> tuple[Outdated, ...]:
        """Return rows of *states* computed from an earlier state of an input, since an edge ignores its revisions.

        :raises WrongWarehouse: the files of the states are in another warehouse than the one given (R33).
        """
        key = topology_key(domain)
        topology = self.reader.read(domain, [key]).get(key)
        refuse_other_warehouse(domain, topology, self.formats.warehouse)
        return self._outdated.of(domain, topology, states, csn)

    def _uncommitted_cut(
        self, domain: DomainName, names: Sequence[TableName], request: CutRequest, *, explicit: bool
    ) -> Cut:
        """Return the newest output of each table, published or not.

        :raises InvalidInput: *request* is for tables that agree.
        """
        agreeing = {
            "at": request.at is not None,
            "align": request.align is not Align.EXACT,
            "session": request.session is not None,
            "consistency": explicit and request.consistency is not Consistency.ROLLING,
        }
        for field, asked in agreeing.items():
            if asked:
                raise InvalidInput(
                    field=field,
                    value=getattr(request, field),
                    expected="nothing at read_uncommitted, where tables need not agree",
                    next_step="read at read_committed.",
                )
        reading, found, staged = self._with_open_output(domain, names)
        states = {table: _uncommitted(table, *found[table], staged[table]) for table in names}
        if request.max_staleness is not None:
            barriers = {table: state.barrier for table, state in states.items()}
            refuse_stale(too_old(found, barriers, reading.now, request.max_staleness), request.max_staleness)
        return Cut(
            domain=domain,
            incarnation=reading.head.incarnation,
            csn=reading.head.csn,
            barrier=max(state.barrier for state in states.values()),
            level=Level.READ_UNCOMMITTED,
            states=states,
            readable_until=reading.now + self.defaults.read_grace,
            outdated=self.outdated(domain, states, reading.head.csn),
        )

    def schema(self, domain: DomainName, state: State) -> str:
        """Return the schema of *state* as text of its format; empty without a commit."""
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
        """Return the schema of output WRITTEN to a table without a commit: only its format has it yet."""
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

    def files(self, cut: Cut, table: str | Table) -> list[str]:
        """Return the URIs of the data files of *table* in *cut*; call :meth:`check` when they have been read.

        :raises LeaseExpired: the cut's time is over.
        :raises InvalidInput: files have rows of other epochs, too: the table was compacted.
        """
        state = state_in(cut, table)
        self.check(cut, [table])
        if state.ref is None and not state.staged:
            return []
        return whole_files(self.format_of(state), state)

    def read(
        self,
        cut: Cut,
        table: str | Table,
        columns: Sequence[str] | None = None,
        filters: Sequence[FilterTuple] | None = None,
    ) -> pa.Table:
        """Return the rows of *table* in *cut*, all of them.

        :param filters: conditions that all hold for the rows returned; files without such rows are not opened.
        :raises LeaseExpired: the cut's time is over, or was over before the last row was read.
        :raises Unavailable: a file of the cut is missing. :raises InvalidInput: a filter does not fit its column.
        """
        state = state_in(cut, table)
        self.check(cut, [table])
        try:
            schema = self.schema(cut.domain, state)
            found = filtered.read(self.format_of(state), state, schema, columns, filters)
        finally:
            # Also after an error: a file that is missing because the cut is over is reported as LeaseExpired.
            self.check(cut, [table])
        return found

    def duckdb(
        self, cut: Cut, connection: duckdb.DuckDBPyConnection, tables: Iterable[str] | None = None
    ) -> None:
        """Read *tables* of *cut* and give them to *connection*, under their names; None for all.

        The rows are in memory then, and need no lease. For tables that exceed memory, see
        :func:`~airflow_provider.coordination.reading.queries.script`.

        :raises InvalidInput: names of two tables differ only in case.
        :raises LeaseExpired: the cut's time is over, or was over before the last row was read.
        """
        names = list(cut.states) if tables is None else names_of(tables)
        refuse_names_alike(names)
        found = {name: self.read(cut, name) for name in names}
        for name, rows in found.items():
            give(connection, name, rows)

    def check(self, cut: Cut, tables: Iterable[str | Table] | None = None) -> None:
        """Raise if *cut* is no longer readable; call it before and after a read (R22).

        :param tables: the tables to read; None for all.
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
                lease=cut.lease or "",
                tables=tuple(wanted),
            )

    def format_of(self, state: State) -> TableFormat:
        """Return the table format of *state*.

        :raises NotReady: nothing is committed or WRITTEN.
        """
        if state.ref is None and not state.staged:
            raise _nothing_written(state.table)
        return self.formats[state.ref.format if state.ref else state.staged[0].committable.format]

    def _with_open_output(
        self, domain: DomainName, names: Sequence[TableName]
    ) -> tuple[Reading, Resolved, dict[TableName, list[Staged]]]:
        """Return the committed tables, and all output that is WRITTEN and not published, of one moment.

        No table may change while open output is read: an epoch that publishes meanwhile would be in neither. Nor may
        one have published between the read of the head and that of the tables: its rows would be above the head.
        """
        for _ in range(_TRIES):
            reading, found = self._versions.of_all(domain, names)
            staged = {table: self._open_output(domain, table, found[table][0]) for table in names}
            now = self.reader.read(domain, list(reading.records))
            if _versions(now) == _versions(reading) and _is_at_its_head(reading):
                return reading, found, staged
        raise Conflict.of_moving(
            "their open epochs were looked for", names, next_step="read again, or read at read_committed."
        )

    def _open_output(self, domain: DomainName, table: TableName, record: TableRecord) -> list[Staged]:
        open_epochs = [
            lock.key._replace(kind=Kind.EPOCH) for lock in pages(self.reader, domain, LockRecord, record.job)
        ]
        epochs = self.reader.read(domain, open_epochs).records.values()
        return [staged for epoch in epochs for staged in self._staged(domain, table, record, epoch.record)]

    def _staged(
        self, domain: DomainName, table: TableName, record: TableRecord, epoch: EpochRecord
    ) -> list[Staged]:
        attempt = epoch.attempt
        # Members of a restatement are read by a cut of it: until then some of them are old, and some new.
        if attempt is None or attempt.aborted is not None or attempt.restatement is not None:
            return []
        log = scan(self.reader, domain, AttemptEvent, event_partition(record.job, epoch.interval.start))
        output = written_output(
            (entry.record for entry in log),
            [table],
            token=attempt.output_token,
            participants=attempt.participants,
        )
        return [Staged(interval=epoch.interval, committable=part) for part in output.get(table, ())]


def _states(found: Resolved, aligned: Aligned, csn: int) -> Mapping[TableName, State]:
    return {
        table: State(
            table=table,
            kind=record.kind,
            barrier=aligned.tables[table],
            low=record.kind.low(moved.origin),
            csn=csn,
            ref=moved.ref,
        )
        for table, (record, moved) in found.items()
    }


def _uncommitted(table: TableName, record: TableRecord, moved: TableVersion, staged: list[Staged]) -> State:
    """Return the committed table with its staged output."""
    ends = [island.end for island in record.progress.islands] + [output.interval.end for output in staged]
    if not ends:
        raise _nothing_written(table)
    return State(
        table=table,
        kind=record.kind,
        barrier=max(ends),
        low=None,
        csn=moved.csn,
        ref=moved.ref,
        staged=tuple(staged),
    )


def _nothing_written(table: TableName) -> NotReady:
    return NotReady(
        f"{table}: nothing is committed or WRITTEN.",
        next_step="run the job that writes it.",
        missing=(Missing(name=table, reason="nothing is committed or WRITTEN"),),
    )


def _is_at_its_head(reading: Reading) -> bool:
    """Return True if nothing was committed between the read of the head and that of the records."""
    return all((stamped.csn or 0) <= reading.head.csn for stamped in reading.records.values())


def _versions(reading: Reading) -> dict[Key[Any], int]:
    return {key: stamped.version for key, stamped in reading.records.items()}


def state_in(cut: Cut, table: str | Table) -> State:
    """Return the state of *table* in *cut*.

    :raises InvalidInput: the cut was made without it.
    """
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
    level = choice(Level, value, "level")
    if level is Level.REPEATABLE_READ:
        raise InvalidInput(
            field="level",
            value=value,
            expected="read_committed or read_uncommitted",
            next_step="hold the cut by a lease, which has that level: epochs.lease(tables, name=…).",
        )
    return level


def checked_session(session: Session | None, domain: DomainName) -> Session | None:
    if session is not None and not isinstance(session, Session):
        raise InvalidInput(
            field="session",
            value=session,
            expected="a Session",
            next_step="read text with Session.parse(text).",
        )
    if session is not None and session.domain != domain:
        raise InvalidInput(
            field="session",
            value=session.domain,
            expected=f"a session of the domain {domain!r}",
            next_step="keep a session for each domain.",
        )
    return session
