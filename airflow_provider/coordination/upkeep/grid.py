"""Tables × epochs, as the page in Airflow's UI and ``airflow epochs status`` show them.

Read-only. The head is read first; a cell may show an attempt that is newer than it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.commits.expired_states import ExpiredStates, retention_of
from airflow_provider.domain.attempt_state import epoch_state
from airflow_provider.domain.cut import as_of, newest_version
from airflow_provider.domain.epoch import (
    AttemptEvent,
    AttemptRecord,
    Commitment,
    EpochRecord,
    EpochState,
    has_expired,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.inactivity import inactive_since
from airflow_provider.domain.interval import Cadence, Interval, time_key
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import (
    Stamped,
    job_key,
    lock_of,
    retention_key,
    slice_writer,
    table_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import SliceRecord, TableRecord
from airflow_provider.stores.base import MetadataReader, pages, scan

MAX_CELLS = 1000
DEFAULT_SPAN = timedelta(days=7)


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """Committed slice of one epoch of one table, which readers get."""

    revision: int
    csn: int
    rows: int
    files: int
    size_bytes: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One epoch of one table.

    :param state: of the newest attempt at the epoch; NOTHING without one; COMMIT if an earlier owner of the table
        published it. :param revision: that the state belongs to. :param owner: None without an attempt of the present
        job. :param committed: the slice that readers get meanwhile.
    :param sink: state of this one table in the newest attempt.
    :param silent: an attempt is open and its lock has expired: the next one takes over.
    :param expired: the state at the epoch's end is expired (R24).
    """

    interval: Interval
    state: EpochState
    revision: int | None = None
    owner: Owner | None = None
    sink: EpochState = EpochState.NOTHING
    silent: bool = False
    committed: Committed | None = None
    expired: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One table and its epochs, in the order of time.

    :param reaches: end of its latest committed epoch; beyond the watermark if earlier ones are missing.
    :param inactive: time since which its job is inactive, and other jobs no longer wait for it.
    :param retired: reason for which the table was retired; empty for other tables.
    """

    table: Table
    job: JobName
    cadence: Cadence
    watermark: datetime | None
    csn: int | None
    cells: tuple[Cell, ...]
    reaches: datetime | None = None
    inactive: datetime | None = None
    retired: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """The tables of a domain over a range of time, as of the domain's head.

    :param left_out: the range has earlier epochs beyond the maximum, which are not shown.
    """

    domain: DomainName
    csn: int
    now: datetime
    shown: Interval
    rows: tuple[Row, ...]
    left_out: bool = False


def grid(
    reader: MetadataReader,
    domain: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    span: timedelta = DEFAULT_SPAN,
    tables: Sequence[str] = (),
    jobs: Sequence[JobName] | None = None,
    max_cells: int = MAX_CELLS,
) -> Grid:
    """Return the tables of *domain* and their epochs in ``[start, end)``.

    :param end: None for the latest barrier that any table has reached or tries to reach.
    :param start: None for *span* before *end*. :param tables: only these; all when empty.
    :param jobs: the jobs of *tables*, for one who knows them: no record of another job is read then.
    :param max_cells: of one table; the latest are kept.
    :raises InvalidInput: an empty range.
    """
    name = domain_name(domain)
    reading = reader.read(name, [retention_key(name)])
    registered = _registered(reader, name, jobs)
    asked = [stamped.record for stamped in registered if _asked_for(stamped.record, tables)]
    keys = [table_key(name, table.name) for job in asked for table in job.outputs]
    records = {TableName(key.item): stamped for key, stamped in reader.read(name, keys).records.items()}
    last = _latest(reader, name, asked, records.values(), reading.now) if end is None else end
    shown = Interval(time_before(last, span) if start is None else start, last)
    inactive = {
        job.record.name: since
        for job in registered
        if (since := inactive_since(job, _own(job.record, records), reading.now)) is not None
    }
    view = _View(
        reader=reader,
        domain=name,
        shown=shown,
        now=reading.now,
        head=reading.head.csn,
        retention=ExpiredStates(
            reader,
            name,
            retention_of(name, reading),
            {table: stamped.record.expired for table, stamped in records.items()},
        ),
        max_cells=max_cells,
    )
    rows: list[Row] = []
    left_out = False
    for job in asked:
        found, dropped = view.rows(job, records, tables)
        rows += [replace(row, inactive=None if job.retired else inactive.get(job.name)) for row in found]
        left_out = left_out or dropped
    return Grid(domain=name, csn=view.head, now=view.now, shown=shown, rows=tuple(rows), left_out=left_out)


def _registered(
    reader: MetadataReader, domain: DomainName, jobs: Sequence[JobName] | None
) -> list[Stamped[JobRecord]]:
    """Return the records of *jobs*, by default of all, by name."""
    if jobs is None:
        return list(pages(reader, domain, JobRecord))
    keys = [job_key(domain, job) for job in sorted(set(jobs))]
    reading = reader.read(domain, keys)
    return [stamped for stamped in map(reading.get, keys) if stamped is not None]


def _asked_for(job: JobRecord, tables: Sequence[str]) -> bool:
    return not tables or any(table.name in tables for table in job.outputs)


def _own(job: JobRecord, records: Mapping[TableName, Stamped[TableRecord]]) -> list[Stamped[TableRecord]]:
    return [records[table.name] for table in job.outputs if table.name in records]


def _owned(stamped: Stamped[TableRecord], job: JobRecord) -> bool:
    return stamped.record.job == job.name


def time_before(end: datetime, span: timedelta) -> datetime:
    """Return the time *span* before *end*.

    :raises InvalidInput: UTC cannot express it.
    """
    try:
        return end - span
    except OverflowError as error:
        raise InvalidInput(
            field="end",
            value=end.isoformat(),
            expected=f"a time {span} after the first one that UTC can express",
        ) from error


def _latest(
    reader: MetadataReader,
    domain: DomainName,
    jobs: Sequence[JobRecord],
    records: Iterable[Stamped[TableRecord]],
    now: datetime,
) -> datetime:
    """Return the latest barrier that any table has reached or tries to reach."""
    marks = [island.end for table in records for island in table.record.progress.islands]
    newest = [
        epoch.record.interval.end
        for job in jobs
        for epoch in scan(reader, domain, EpochRecord, job.name, limit=1, reverse=True)
    ]
    return max([*marks, *newest], default=now)


@dataclass(frozen=True, kw_only=True, slots=True)
class _View:
    """One look at a domain."""

    reader: MetadataReader
    domain: DomainName
    shown: Interval
    now: datetime
    head: int
    retention: ExpiredStates
    max_cells: int

    def rows(
        self, job: JobRecord, records: Mapping[TableName, Stamped[TableRecord]], tables: Sequence[str]
    ) -> tuple[list[Row], bool]:
        """Return the rows of one job's tables, which share its epochs, and whether earlier epochs are left out.

        :param tables: as in :func:`grid`.
        """
        low, high = time_key(job.cadence.floor(self.shown.start)), time_key(self.shown.end)
        begun = scan(
            self.reader,
            self.domain,
            EpochRecord,
            job.name,
            start=low,
            end=high,
            limit=self.max_cells + 1,
            reverse=True,
        )
        epochs = {epoch.record.interval: epoch for epoch in begun}
        # A table that another job has taken over is shown as that job's.
        own = [
            table for table in job.outputs if table.name not in records or _owned(records[table.name], job)
        ]
        known = {table.name: records[table.name] for table in own if table.name in records}
        everything = sorted({*epochs, *self._due(job, known.values())})
        intervals = everything[-self.max_cells :]
        progress = {span: self._progress(job, epochs[span]) for span in intervals if span in epochs}
        rows = []
        since = time_key(intervals[0].start) if intervals else low
        for table in own:
            if tables and table.name not in tables:
                continue
            scanned = scan(self.reader, self.domain, SliceRecord, table.name, start=since, end=high)
            found = [piece for piece in scanned if not piece.record.taken_back]
            # Sorted, so that of several slices of an epoch the newest one stays.
            slices = {
                piece.record.interval: piece for piece in sorted(found, key=lambda piece: piece.csn or 0)
            }
            self.retention.load((table.name, epoch.end) for epoch in intervals)
            cells = (
                self._cell(
                    epoch, table.name, _of(job, progress.get(epoch), slices.get(epoch)), slices.get(epoch)
                )
                for epoch in intervals
            )
            record = known.get(table.name)
            rows.append(self._row(table, job, record, tuple(cell for cell in cells if _is_due(cell, record))))
        return rows, len(everything) > len(intervals)

    def _row(
        self, table: Table, job: JobRecord, known: Stamped[TableRecord] | None, cells: tuple[Cell, ...]
    ) -> Row:
        moved = (as_of(known, self.head) or newest_version(known)) if known else None
        return Row(
            table=table,
            job=job.name,
            cadence=job.cadence,
            watermark=moved.watermark if moved else None,
            csn=moved.csn if moved else None,
            cells=cells,
            reaches=known.record.progress.islands[-1].end
            if known and known.record.progress.islands
            else None,
            retired=known.record.ended if known else "",
        )

    def _cell(
        self,
        interval: Interval,
        table: TableName,
        progress: _Progress | None,
        newest: Stamped[SliceRecord] | None,
    ) -> Cell:
        committed = _committed(newest)
        expired = committed is not None and self.retention.range_at(table, interval.end) is not None
        if progress is None:
            return Cell(
                interval=interval,
                state=EpochState.COMMIT if committed else EpochState.NOTHING,
                revision=committed.revision if committed else None,
                committed=committed,
                expired=expired,
            )
        return Cell(
            interval=interval,
            state=progress.state,
            revision=progress.revision,
            owner=progress.owner,
            sink=progress.sinks.get(table, EpochState.NOTHING),
            silent=progress.silent,
            committed=committed,
            expired=expired,
        )

    def _due(self, job: JobRecord, known: Collection[Stamped[TableRecord]]) -> Iterator[Interval]:
        """Yield the ended epochs of the range, newest first, from the origin on; of a retired job to its last."""
        origins = [table.record.progress.start for table in known]
        origin = min((start for start in origins if start is not None), default=job.origin)
        if origin is None:
            return
        lower, upper = max(origin, job.cadence.floor(self.shown.start)), min(self.shown.end, self.now)
        if job.retired:
            islands = [table.record.progress.islands for table in known]
            upper = min([upper, *(spans[-1].end for spans in islands if spans)])
        yield from islice(_backwards(job.cadence, job.cadence.floor(upper), lower), self.max_cells + 1)

    def _progress(self, job: JobRecord, stamped: Stamped[EpochRecord]) -> _Progress:
        epoch, names = stamped.record, [table.name for table in job.outputs]
        # What a restatement computes is private: readers get what is committed.
        if epoch.attempt is None or epoch.attempt.restated_by is not None:
            return _Progress.ended(epoch.committed, names)
        name = EpochId(self.domain, job.name, epoch.interval)
        key = lock_of(name)
        lock = self.reader.read(self.domain, [key]).get(key)
        log = [event.record for event in state_log(self.reader, name)]
        alive = lock is not None and not has_expired(lock.at, lock.record.ttl, self.now)
        return _Progress.underway(epoch.attempt, log, names, alive=alive)


def _is_due(cell: Cell, known: Stamped[TableRecord] | None) -> bool:
    """Return whether *cell* is worth showing: a job's second table may begin later than its first."""
    origin = known.record.progress.start if known else None
    return cell.state is not EpochState.NOTHING or origin is None or cell.interval.start >= origin


def _of(job: JobRecord, progress: _Progress | None, newest: Stamped[SliceRecord] | None) -> _Progress | None:
    """Return *progress* of one table; None if *job* has skipped the epoch for others, and another job computed it."""
    is_skipped = progress is not None and progress.state is EpochState.SKIPPED
    return None if is_skipped and newest and slice_writer(newest.key) != job.name else progress


def _committed(newest: Stamped[SliceRecord] | None) -> Committed | None:
    if newest is None or newest.csn is None:
        return None
    return Committed(
        revision=newest.record.revision,
        csn=newest.csn,
        rows=newest.record.rows,
        files=newest.record.files,
        size_bytes=newest.record.size_bytes,
        at=newest.at,
    )


def _backwards(cadence: Cadence, upper: datetime, lower: datetime) -> Iterator[Interval]:
    while upper > lower:
        start = cadence.last_before(upper)
        yield Interval(start, upper)
        upper = start


@dataclass(frozen=True, kw_only=True, slots=True)
class _Progress:
    """Progress of the newest attempt at one epoch; all tables of its job share it."""

    state: EpochState
    revision: int | None
    owner: Owner | None
    silent: bool
    sinks: Mapping[TableName, EpochState]

    @classmethod
    def ended(cls, done: Commitment | None, names: Sequence[TableName]) -> _Progress:
        state = done.state if done else EpochState.NOTHING
        return cls(
            state=state,
            revision=done.revision if done else None,
            owner=done.owner if done else None,
            silent=False,
            sinks=dict.fromkeys(names, state),
        )

    @classmethod
    def underway(
        cls, attempt: AttemptRecord, log: Sequence[AttemptEvent], names: Sequence[TableName], *, alive: bool
    ) -> _Progress:
        sinks: dict[TableName, EpochState] = {}
        for event in log:
            name = TableName(event.sink)
            if event.token == attempt.output_token and name and sinks.get(name) is not EpochState.WRITTEN:
                sinks[name] = event.state
        return cls(
            state=epoch_state(log, names, attempt),
            revision=attempt.revision,
            owner=attempt.owner,
            silent=attempt.aborted is None and not alive,
            sinks=sinks,
        )
