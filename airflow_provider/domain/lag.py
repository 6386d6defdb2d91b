"""How far tables are behind, and which epoch holds them back (R21). Pure functions of one look at a domain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice

from airflow_provider.domain.alignment import published_by_all
from airflow_provider.domain.beginning import resolve_inputs
from airflow_provider.domain.behind import Behind
from airflow_provider.domain.cut import edge_range, newest_version
from airflow_provider.domain.epoch import EpochRecord, LockRecord, has_expired
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.inactivity import inactive_since
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Edge, EdgeKind
from airflow_provider.domain.version import TableRecord

MOST_COUNTED = 1_000
"""Maximum number of epochs that a table lacks and that are counted, the first ones."""
_NOTHING = timedelta(0)
_NEVER = datetime.min.replace(tzinfo=UTC)

Begun = Mapping[tuple[JobName, datetime], tuple[Stamped[EpochRecord], Stamped[LockRecord] | None]]
"""Epochs that have begun, by job and start, each with its lock."""


class HolderState(StrEnum):
    """State of the epoch that holds tables back."""

    NOT_BEGUN = "not begun"
    """Its inputs in the domain are there."""
    RUNNING = "running"
    SILENT = "silent"
    """Its attempt has not ended, and its lock has expired."""
    FAILED = "failed"
    """Its attempt has ended without a commit, also by a failed check."""
    STAGED = "staged"
    """It is computed, and waits for its restatement or commit group to be published."""
    WAITING = "waiting"
    """It waits for what does not come by itself."""
    INCOMPLETE = "incomplete"
    """It is committed without the table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The first epoch upstream that a table waits for.

    :param since: begin of its attempt, or its last sign; when the epoch was due if it has not begun.
    :param because: why it failed, or what it waits for. :param owner: of its attempt.
    :param timezone: of the calendar by which commands take the epoch.
    """

    job: JobName
    interval: Interval
    state: HolderState
    since: datetime | None = None
    because: str = ""
    owner: Owner | None = None
    timezone: str = "UTC"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLag:
    """Lag of one table.

    :param lacking: number of due epochs that it lacks, at most :data:`MOST_COUNTED`; None if it has no origin yet.
    :param ready: of these, the first ones, whose inputs in the domain are there: its own job is behind them.
    :param local: time by which its job is behind its calendar.
    :param overdue: time since the first due epoch that it lacks was due.
    :param global_: time by which it is ahead of what cuts of the whole domain read of it.
    :param wall_clock: time since its watermark.
    :param end_to_end: time since the barrier up to which it has the data of each source. :param slowest: the source,
        or the job without inputs, of which it has the oldest data.
    :param held_by: None if it lacks no due epoch. :param inactive: time since which its job is inactive.
    :param ended: reason why nothing more comes of it.
    """

    table: TableName
    job: JobName
    watermark: datetime | None
    lacking: int | None
    ready: int = 0
    local: timedelta | None = None
    overdue: timedelta | None = None
    global_: timedelta | None = None
    wall_clock: timedelta | None = None
    end_to_end: timedelta | None = None
    slowest: str = ""
    held_by: Holder | None = None
    inactive: datetime | None = None
    ended: str = ""


@dataclass(frozen=True, slots=True)
class _Barriers:
    """The latest due barriers of one calendar, shared by all tables that have it and lack few epochs."""

    cadence: Cadence
    now: datetime
    known: list[datetime] = field(default_factory=list)
    """Newest last; extended backwards, in :meth:`back_to`."""

    def back_to(self, moment: datetime) -> list[datetime]:
        """Return the due barriers later than *moment*, oldest first, at most :data:`MOST_COUNTED`."""
        if not self.known:
            self.known.append(self.cadence.floor(self.now))
        earlier = list[datetime]()
        oldest = self.known[0]
        while oldest > moment and len(self.known) + len(earlier) < MOST_COUNTED + 1:
            oldest = self.cadence.last_before(oldest)
            earlier.append(oldest)
        self.known[:0] = reversed(earlier)
        return self.known[bisect_right(self.known, moment) :][-MOST_COUNTED:]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lags:
    """One look at a domain: jobs, tables, and, of the tables that lack due epochs, the first one.

    :param tables: all of the domain. :param behind: epochs that cannot be read before they are computed again.
    """

    now: datetime
    jobs: Mapping[JobName, Stamped[JobRecord]]
    tables: Mapping[TableName, Stamped[TableRecord]]
    behind: tuple[Behind, ...] = ()
    _calendars: dict[Cadence, _Barriers] = field(default_factory=dict)
    _due: dict[TableName, list[datetime]] = field(default_factory=dict)
    _contents: dict[tuple[JobName, datetime], tuple[datetime, str] | None] = field(default_factory=dict)

    @property
    def limit(self) -> datetime | None:
        """The last moment up to which cuts of the whole domain read; None if nothing limits them (R9)."""
        awaited = (
            stamped
            for stamped in self.tables.values()
            if not stamped.record.ended and self._inactive(stamped) is None
        )
        return published_by_all((stamped.record, newest_version(stamped)) for stamped in awaited)

    def first_lacking(self) -> dict[TableName, Interval]:
        """Return the first due epoch that each table lacks; without tables that lack none, or get none any more."""
        found = {}
        for name, stamped in self.tables.items():
            if stamped.record.ended:
                continue
            record, start = stamped.record, stamped.record.progress.next_missing
            if start is None:
                found[name] = record.cadence.ended_by(self.now)
            elif (end := record.cadence.next_after(start)) <= self.now:
                found[name] = Interval(start, end)
        return found

    def all(
        self,
        first: Mapping[TableName, Interval],
        epochs: Begun,
        names: Iterable[TableName],
    ) -> list[TableLag]:
        """Return the lag of the tables *names*, the slowest first.

        :param first: of :meth:`first_lacking`. :param epochs: those of *first* that have begun, with their locks.
        """
        newest = max((stamped.csn or 0 for stamped in self.tables.values()), default=0)
        holders = _Holders(self, first, epochs, newest)
        limit = self.limit
        lags = [self._of(name, limit, holders) for name in names]
        return sorted(lags, key=lambda lag: (-(lag.local or _NOTHING), lag.table))

    def _of(self, name: TableName, limit: datetime | None, holders: _Holders) -> TableLag:
        stamped = self.tables[name]
        record, watermark = stamped.record, newest_version(stamped).watermark
        start = record.progress.next_missing
        due = [] if record.ended or start is None else self._lacking(name)
        content = None if watermark is None else self._content(name, watermark)
        return TableLag(
            table=name,
            job=record.job,
            watermark=watermark,
            lacking=len(due) if record.ended or start is not None else None,
            ready=self._ready(name, due),
            local=record.cadence.floor(self.now) - start if due and start is not None else _NOTHING,
            overdue=self.now - due[0] if due else _NOTHING,
            global_=None if watermark is None else self._ahead(record, watermark, limit),
            wall_clock=None if watermark is None else self.now - watermark,
            end_to_end=None if content is None else self.now - content[0],
            slowest="" if content is None else content[1],
            held_by=holders.of(name),
            inactive=self._inactive(stamped),
            ended=record.ended,
        )

    def _inactive(self, stamped: Stamped[TableRecord]) -> datetime | None:
        job = self.jobs.get(stamped.record.job)
        if job is None or (job.record.inactive_after is None and not job.record.retired):
            return None
        own = (self.tables[table.name] for table in job.record.outputs if table.name in self.tables)
        return inactive_since(job, own, self.now)

    @staticmethod
    def _ahead(record: TableRecord, watermark: datetime, limit: datetime | None) -> timedelta:
        if limit is None or limit >= watermark:
            return _NOTHING
        return watermark - record.cadence.floor(limit)

    def _lacking(self, name: TableName) -> list[datetime]:
        """Return the ends of the due epochs that a table lacks, oldest first."""
        if name not in self._due:
            record = self.tables[name].record
            start = record.progress.next_missing
            calendar = self._calendars.setdefault(record.cadence, _Barriers(record.cadence, self.now))
            due = [] if start is None else calendar.back_to(start)
            # The latest may all be there, and earlier ones due.
            if start is not None and len(due) == MOST_COUNTED:
                due = list(islice(self._lacking_from(start, record), MOST_COUNTED))
            else:
                for island in record.progress.islands:  # epochs beyond a gap
                    low, high = bisect_right(due, island.start), bisect_right(due, island.end)
                    due = due[:low] + due[high:] if low < high else due
            self._due[name] = due
        return self._due[name]

    def _lacking_from(self, start: datetime, record: TableRecord) -> Iterator[datetime]:
        """Yield the ends of the due epochs that a table lacks from *start* on, oldest first."""
        islands = [island for island in reversed(record.progress.islands) if island.start >= start]
        while (end := record.cadence.next_after(start)) <= self.now:
            if islands and islands[-1].start < end:
                start = islands.pop().end
            else:
                yield end
                start = end

    def _ready(self, name: TableName, due: list[datetime]) -> int:
        """Return the number of the first of *due* whose inputs have reached what they read."""
        job = self.jobs.get(self.tables[name].record.job)
        if not due or job is None:
            return 0
        edges = [edge for edge in job.record.edges if not self._is_own_past(job.record, edge)]
        return min((self._reached(job.record, edge, due) for edge in edges), default=len(due))

    @staticmethod
    def _is_own_past(job: JobRecord, edge: Edge) -> bool:
        """Return True if each epoch finds this input committed by the epoch before it."""
        return edge.kind is EdgeKind.PREVIOUS and edge.table in job.all_outputs

    def _reached(self, job: JobRecord, edge: Edge, due: list[datetime]) -> int:
        stamped = self.tables.get(edge.table)
        watermark = None if stamped is None else newest_version(stamped).watermark
        if stamped is None or watermark is None:
            return 0
        record = stamped.record
        return bisect_right(due, watermark, key=lambda end: _read_up_to(job, edge, end, record))

    def _content(self, name: TableName, barrier: datetime) -> tuple[datetime, str] | None:
        """Return the barrier up to which a table at *barrier* has the data of each source, and the slowest source.

        It follows from topology and calendars alone. Where it is reached in several ways, the latest barrier counts.
        """
        place = (self.tables[name].record.job, barrier)
        if place not in self._contents:
            latest, waiting = {name: barrier}, [(name, barrier)]
            sources = dict[str, datetime]()
            while waiting:
                table, end = waiting.pop()
                if latest[table] != end:
                    continue
                for source in self._sources(table):
                    sources[source] = max(end, sources.get(source, _NEVER))
                for read, high in self._read_at(table, end):
                    if high > latest.get(read, _NEVER):
                        latest[read] = high
                        waiting.append((read, high))
            found = min(((end, source) for source, end in sources.items()), default=None)
            self._contents[place] = found
        return self._contents[place]

    def _sources(self, table: TableName) -> list[str]:
        job = self.jobs.get(self.tables[table].record.job)
        if job is None:
            return []
        if not job.record.edges and not job.record.sources:
            return [f"job {job.record.name}"]
        return [f"source {source.name}" for source in job.record.sources]

    def _read_at(self, table: TableName, end: datetime) -> Iterator[tuple[TableName, datetime]]:
        """Yield each input of a table's epoch that ends at *end*, with the barrier at which it is read."""
        job = self.jobs.get(self.tables[table].record.job)
        for edge in () if job is None else job.record.edges:
            stamped = self.tables.get(edge.table)
            if job is None or stamped is None:
                continue
            high = _read_up_to(job.record, edge, end, stamped.record)
            begins = stamped.record.progress.start
            if begins is None or high > begins:
                yield edge.table, high


def _read_up_to(job: JobRecord, edge: Edge, end: datetime, record: TableRecord) -> datetime:
    """Return the barrier at which *edge* reads its table for the epoch of *job* that ends at *end*."""
    if edge.as_of is None and edge.kind is not EdgeKind.PREVIOUS:
        return end
    return edge_range(edge, Interval(job.cadence.last_before(end), end), record)[1]


@dataclass(frozen=True, slots=True)
class _Holders:
    """Epochs that hold tables back, each looked for once."""

    lags: Lags
    first: Mapping[TableName, Interval]
    epochs: Begun
    csn: int
    known: dict[TableName, Holder] = field(default_factory=dict)

    def of(self, name: TableName) -> Holder | None:
        """Return the first epoch upstream that *name* waits for; None if it lacks no due epoch."""
        if name not in self.first:
            return None
        passed, table = list[TableName](), name
        while table not in self.known:
            found = self._next(table)
            passed.append(table)
            if isinstance(found, Holder):
                self.known[table] = found
            elif found in passed:  # inputs that wait for each other, which registration refuses
                self.known[found] = self._of_epoch(found, HolderState.NOT_BEGUN)
            else:
                table = found
        holder = self.known[table]
        self.known.update(dict.fromkeys(passed, holder))
        return holder

    def _next(self, table: TableName) -> Holder | TableName:
        """Return the epoch that *table* lacks if that holds it back; otherwise the input that does."""
        stamped, epoch = self.lags.tables[table], self.first[table]
        job = self.lags.jobs.get(stamped.record.job)
        declared = job is not None and any(output.name == table for output in job.record.outputs)
        if job is None or not declared:
            why = f"job {stamped.record.job} no longer declares {table}"
            return self._of_epoch(table, HolderState.WAITING, because=why)
        begun = self.epochs.get((stamped.record.job, epoch.start))
        if begun is not None:
            return self._at_work(table, *begun)
        tables, behind = self.lags.tables, self.lags.behind
        _, missing, _ = resolve_inputs(job.record.edges, epoch, tables, self.csn, behind=behind)
        in_vain = next((need for need in missing if need.name not in self.first or need.way_out), None)
        if in_vain is not None:
            return self._of_epoch(table, HolderState.WAITING, because=str(in_vain))
        if missing:
            return min(missing, key=self._slowest).table
        return self._of_epoch(table, HolderState.NOT_BEGUN)

    def _slowest(self, need: Missing) -> tuple[datetime, TableName]:
        return newest_version(self.lags.tables[need.table]).watermark or _NEVER, need.table

    def _of_epoch(
        self,
        table: TableName,
        state: HolderState,
        *,
        since: datetime | None = None,
        because: str = "",
        owner: Owner | None = None,
    ) -> Holder:
        epoch, record = self.first[table], self.lags.tables[table].record
        return Holder(
            job=record.job,
            interval=epoch,
            state=state,
            since=since or epoch.end,
            because=because,
            owner=owner,
            timezone=record.cadence.timezone,
        )

    def _at_work(
        self, table: TableName, epoch: Stamped[EpochRecord], lock: Stamped[LockRecord] | None
    ) -> Holder:
        attempt = epoch.record.attempt
        if attempt is None:
            why = f"its commit lacks {table}"
            return self._of_epoch(table, HolderState.INCOMPLETE, since=epoch.at, because=why)
        if attempt.staged and attempt.restated_by is not None:
            state, why = HolderState.STAGED, f"{attempt.restated_by} publishes it"
            return self._of_epoch(table, state, since=epoch.at, because=why, owner=attempt.owner)
        if attempt.aborted is not None:
            why, state = attempt.aborted, HolderState.FAILED
            return self._of_epoch(table, state, since=epoch.at, because=why, owner=attempt.owner)
        alive = lock is not None and not has_expired(lock.at, lock.record.ttl, self.lags.now)
        state = HolderState.RUNNING if alive else HolderState.SILENT
        since = epoch.at if alive or lock is None else lock.at
        return self._of_epoch(table, state, since=since, owner=attempt.owner)


def tables_held(lags: Iterable[TableLag]) -> list[tuple[Holder, list[TableName]]]:
    """Return each epoch that holds tables back, with these tables; the one that holds most of them first."""
    found = dict[Holder, list[TableName]]()
    for lag in lags:
        if lag.held_by is not None:
            found.setdefault(lag.held_by, []).append(lag.table)
    return sorted(found.items(), key=lambda held: (-len(held[1]), held[0].job, held[0].interval))
