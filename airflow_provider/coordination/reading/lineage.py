"""Lineage of a state of a table: the epochs and the bounds of sources that it was computed from. Read-only.

It is read from what commits have recorded: the slices that a reader of each state got at its CSN, what their epochs
have read, and so on up to the sources. The work grows with the number of these epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.commits.slices import committed_slices
from airflow_provider.coordination.reading.resolve import refuse_expired
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.cut import lagging, newest_version, reached
from airflow_provider.domain.epoch import Commitment, EpochRecord
from airflow_provider.domain.errors import NotReady, UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name, table_name
from airflow_provider.domain.interval import Interval, as_utc
from airflow_provider.domain.records import (
    Key,
    Stamped,
    epoch_key,
    job_key,
    retention_key,
    slice_writer,
    source_key,
    table_key,
)
from airflow_provider.domain.source_bounds import SourceBounds, SourceRecord
from airflow_provider.domain.topology import EdgeKind
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import MetadataReader

_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceRead:
    """A slice of the state that a reader got. :param csn: the commit that published it."""

    job: JobName
    interval: Interval
    revision: int
    csn: int
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TableRead:
    """Union of the reads of a table by epochs of one job, through edges of one kind.

    :param low: None for the beginning. :param csns: commits at which their first and their last read were resolved.
    :param epochs: number of epochs that have read it.
    """

    reader: JobName
    table: TableName
    kind: EdgeKind
    low: datetime | None
    high: datetime
    csns: tuple[int, int]
    epochs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRead:
    """Reads of a source by epochs of one job.

    :param bounds: recorded bounds, with the interval for which they were recorded, oldest first.
    """

    reader: JobName
    source: str
    bounds: tuple[tuple[Interval, SourceBounds], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLineage:
    """The slices of one table that went into a state.

    :param depth: number of readers above it, by the first way on which it was reached.
    :param slices: oldest first. :param version: the newest version of the table that was read.
    :param recomputed: of their epochs, those that were computed again since: what they had read before is not
        recorded any more, and is left out.
    :param reads: of these epochs. :param sources: likewise.
    """

    table: TableName
    depth: int
    slices: tuple[SliceRead, ...]
    version: TableRef | None
    recomputed: tuple[SliceRead, ...] = ()
    reads: tuple[TableRead, ...] = ()
    sources: tuple[SourceRead, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """The lineage of the state of a table at a barrier and a CSN: this table first, each other one below a reader."""

    domain: DomainName
    table: TableName
    barrier: datetime
    csn: int
    tables: tuple[TableLineage, ...]

    def of(self, table: str) -> TableLineage:
        """Return the lineage of *table*, which is among :attr:`tables`."""
        return next(found for found in self.tables if found.table == table)


def lineage(reader: MetadataReader, domain: str, table: str, barrier: datetime) -> Lineage:
    """Return from which epochs and bounds of sources the slice of *table* that ends at *barrier* was computed.

    :raises UnknownName: a table that no job has registered. :raises NotReady: it has not reached *barrier*.
    :raises Unavailable: its state there has expired (R24).
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    reader, name, wanted = retrying_reader(reader), domain_name(domain), table_name(table)
    barrier, key = as_utc(barrier, "barrier"), table_key(name, wanted)
    reading = reader.read(name, [key, retention_key(name)])
    stamped = reading.get(key)
    if stamped is None:
        raise UnknownName.of_table(wanted, domain, meant=meant(reader, name, wanted))
    found = {wanted: (stamped.record, newest_version(stamped))}
    if not reached(*found[wanted], barrier):
        raise NotReady.of_tables(
            lagging(found, barrier), next_step="name a barrier that it has reached: `airflow epochs status`."
        )
    refuse_expired(expired_states(reader, name, reading), found, {wanted: barrier})
    search = _Search(reader, name)
    csn = max(reading.head.csn, stamped.csn or 0)
    search.add(wanted, stamped.record.cadence.last_before(barrier), barrier, csn, stamped.record.ref)
    while search.waiting:
        search.next()
    return Lineage(domain=name, table=wanted, barrier=barrier, csn=csn, tables=tuple(search.tables(wanted)))


@dataclass(slots=True)
class _Known:
    """Slices of one table that the search knows so far. :param all: its slices, by end and then by CSN."""

    all: dict[datetime, list[SliceRead]]
    slices: dict[tuple[datetime, int], SliceRead] = field(default_factory=dict)
    version: TableRef | None = None
    version_csn: int = 0
    recomputed: list[SliceRead] = field(default_factory=list)
    reads: dict[tuple[JobName, TableName, EdgeKind], TableRead] = field(default_factory=dict)
    sources: dict[tuple[JobName, str], dict[Interval, SourceBounds]] = field(default_factory=dict)


@dataclass(slots=True)
class _Search:
    """A search upstream. :ivar waiting: slices whose epochs are to be read, by table."""

    reader: MetadataReader
    domain: DomainName
    known: dict[TableName, _Known] = field(default_factory=dict)
    waiting: dict[TableName, list[SliceRead]] = field(default_factory=dict)
    jobs: dict[JobName, tuple[str, ...]] = field(default_factory=dict)

    def add(
        self, table: TableName, low: datetime | None, high: datetime, csn: int, ref: TableRef | None
    ) -> None:
        """Add the slices of *table* that end within ``(low, high]``, as a reader at *csn* got them."""
        known = self.known.get(table)
        if known is None:
            known = self.known[table] = _Known(self._slices(table))
        if csn > known.version_csn:
            known.version, known.version_csn = ref, csn
        for end, revisions in known.all.items():
            if end > high or (low is not None and end <= low):
                continue
            newest = max((each for each in revisions if each.csn <= csn), key=_csn, default=None)
            if newest is not None and (end, newest.csn) not in known.slices:
                known.slices[end, newest.csn] = newest
                self.waiting.setdefault(table, []).append(newest)

    def next(self) -> None:
        """Read the epochs of the slices of one table, and add what they have read."""
        table, slices = self.waiting.popitem()
        for start in range(0, len(slices), _PAGE):
            page = slices[start : start + _PAGE]
            keys = {each: epoch_key(self.domain, each.job, each.interval.start) for each in page}
            reading = self.reader.read(self.domain, list(keys.values()))
            sources: dict[Key[SourceRecord], SliceRead] = {}
            for each in page:
                done = self._commitment(table, each, reading.get(keys[each]))
                if done is None:
                    self.known[table].recomputed.append(each)
                else:
                    self._add_reads(table, each, done)
                    sources.update(dict.fromkeys(self._bounds(each, done), each))
            self._add_sources(table, sources)

    def _commitment(
        self, table: TableName, each: SliceRead, epoch: Stamped[EpochRecord] | None
    ) -> Commitment | None:
        """Return what has published *each*; None if its epoch was computed again since."""
        committed = None if epoch is None else epoch.record.committed
        if epoch is None or committed is None or committed.revision == each.revision:
            return committed
        replaced = epoch.record.replaced
        if replaced is not None and replaced.revision == each.revision:
            return replaced
        # The commit names what rows of earlier revisions have read, too, where a later one has left the table alone.
        is_newest = max(self.known[table].all[each.interval.end], key=_csn) == each
        return committed if is_newest else None

    def _add_reads(self, table: TableName, each: SliceRead, done: Commitment) -> None:
        known = self.known[table].reads
        for read in done.inputs:
            place = (each.job, read.table, read.kind)
            own = TableRead(
                reader=each.job,
                table=read.table,
                kind=read.kind,
                low=read.low,
                high=read.high,
                csns=(read.csn, read.csn),
                epochs=1,
            )
            known[place] = _joined(known.get(place), own)
            starts = [start for start in (read.low, read.origin) if start is not None]
            self.add(read.table, max(starts, default=None), read.high, read.csn, read.ref)

    def _bounds(self, each: SliceRead, done: Commitment) -> list[Key[SourceRecord]]:
        """Return the keys of the bounds that an epoch has read; older versions left first revisions out."""
        revisions = dict(done.source_revisions)
        if not done.names_sources:
            revisions = {source: done.revision_of(source) for source in self._sources_of(each.job)}
        return [
            source_key(self.domain, source, each.interval.end, revision)
            for source, revision in revisions.items()
            if revision
        ]

    def _sources_of(self, job: JobName) -> tuple[str, ...]:
        if job not in self.jobs:
            stamped = self.reader.read(self.domain, [key := job_key(self.domain, job)]).get(key)
            self.jobs[job] = () if stamped is None else stamped.record.all_sources
        return self.jobs[job]

    def _add_sources(self, table: TableName, keys: Mapping[Key[SourceRecord], SliceRead]) -> None:
        found = self.reader.read(self.domain, list(keys)).records if keys else {}
        for key, stamped in found.items():
            each, bounds = keys[key], stamped.record.whole
            known = self.known[table].sources.setdefault((each.job, bounds.source), {})
            known[each.interval] = bounds

    def _slices(self, table: TableName) -> dict[datetime, list[SliceRead]]:
        found: dict[datetime, list[SliceRead]] = {}
        for stamped in committed_slices(self.reader, self.domain, table):
            record = stamped.record
            each = SliceRead(
                job=slice_writer(stamped.key),
                interval=record.interval,
                revision=record.revision,
                csn=stamped.csn or 0,
                rows=record.rows,
            )
            found.setdefault(record.interval.end, []).append(each)
        return found

    def tables(self, first: TableName) -> Iterator[TableLineage]:
        """Yield what was found, each table below the first of its readers."""
        passed, waiting = set[TableName](), [(first, 0)]
        while waiting:
            table, depth = waiting.pop()
            if table in passed:
                continue
            passed.add(table)
            known = self.known[table]
            reads = [read for _, read in sorted(known.reads.items())]
            yield TableLineage(
                table=table,
                depth=depth,
                slices=tuple(sorted(known.slices.values(), key=lambda each: (each.interval, each.csn))),
                version=known.version,
                recomputed=tuple(known.recomputed),
                reads=tuple(reads),
                sources=tuple(
                    SourceRead(reader=job, source=source, bounds=tuple(sorted(bounds.items())))
                    for (job, source), bounds in sorted(known.sources.items())
                ),
            )
            waiting += [(read.table, depth + 1) for read in reversed(reads)]


def _csn(each: SliceRead) -> int:
    return each.csn


def _joined(known: TableRead | None, new: TableRead) -> TableRead:
    if known is None:
        return new
    low = None if known.low is None or new.low is None else min(known.low, new.low)
    return TableRead(
        reader=new.reader,
        table=new.table,
        kind=new.kind,
        low=low,
        high=max(known.high, new.high),
        csns=(min(known.csns[0], new.csns[0]), max(known.csns[1], new.csns[1])),
        epochs=known.epochs + 1,
    )
