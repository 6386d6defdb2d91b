"""Giving back: a skipped epoch leaves to later ones what failed attempts have recorded of its sources (R5, I11).

Later barriers go on behind recorded bounds. So the skip records a next revision without the rows, and without the files
that came late, in the transaction that opens it. What lies at the epoch's own location stays: nothing is to come of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_provider.coordination.attempts.bounds import Bounded, Bounding
from airflow_provider.coordination.attempts.bounds_provider import Proposed
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.commits.source_dependents import (
    SourceDependents,
    lives,
    same_bounds,
    source_dependents,
)
from airflow_provider.coordination.context import Context
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.epoch import Attempt, EpochRecord
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Key, Kind, chain_key, epoch_key, lock_key, source_key
from airflow_provider.domain.source_bounds import Source, SourceBounds, SourceRecord, Span
from airflow_provider.domain.topology import Job
from airflow_provider.sources.locations import lies_at
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataStore,
    Put,
    Reading,
    SameStore,
    Transaction,
    unchanged,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadBounds:
    """Bounds of *source* for *interval*, which a skip has left: the job reads them if it computes that epoch."""

    source: Source
    interval: Interval
    bounds: SourceBounds

    def __str__(self) -> str:
        return f"source {self.source.name}, {self.interval}: {self.bounds}"


@dataclass(frozen=True, slots=True)
class _Moved:
    """Later bounds as they are to be recorded. :param required: the records of their readers, as they were."""

    records: dict[Key, SourceRecord]
    required: list[Exists | Absent]


@dataclass(frozen=True, kw_only=True, slots=True)
class GivingBack:
    """What a skip of *interval* of *job* gives back. :param reason: why it is skipped. :param by: who does."""

    store: MetadataStore
    job: Job
    interval: Interval
    reason: str
    by: str

    @property
    def keys(self) -> list[Key]:
        """What is read in the same look as all else that the skip decides on."""
        return self._bounding.keys

    @property
    def _bounding(self) -> Bounding:
        sources = tuple(source for source in self.job.sources if source.looks_around)
        return Bounding(
            store=self.store, job=self.job, interval=self.interval, sources=sources, provider=Proposed({})
        )

    def bounded(self, reading: Reading) -> Bounded:
        """Return what is to be recorded: the skip itself reads no source."""
        records: dict[Key, SourceRecord] = {}
        chains: list[Key] = []
        required: list[Exists | Absent] = []
        for source in self._bounding.sources:
            found, readers = self._of(reading, source)
            required += readers
            if found:
                records |= found
                chains.append(chain_key(self.job.domain, source.name))
        return Bounded(
            bounds=(),
            records=records,
            chains=tuple(chains),
            is_new=False,
            readers=tuple(dict.fromkeys(required)),
        )

    def again(self) -> Iterator[UnreadBounds]:
        """Give back what runs of the skipped epoch have recorded since, which failed; yield what is left.

        Nothing, when the epoch was computed after all, or is being computed. A silent run that wakes up cannot publish
        any more: its bounds are not the newest.

        :raises RequirementFailed: others were faster: decide again.
        """
        key = epoch_key(self.job.domain, self.job.name, self.interval.start)
        lock = lock_key(self.job.domain, self.job.name, self.interval.start)
        reading = self.store.read(self.job.domain, [key, lock, *self.keys])
        epoch = reading.get(key)
        if epoch is None or not _is_skipped(epoch.record, lives(reading, lock)):
            return iter(())
        bounded = self.bounded(reading)
        if bounded.records:
            required = [unchanged(reading, one) for one in (key, *bounded.required)]
            self.store.transact(
                Transaction(
                    domain=self.job.domain,
                    store=SameStore(reading.head.incarnation),
                    requires=tuple(dict.fromkeys([*required, *bounded.readers])),
                    updates=tuple(Put(one, record) for one, record in bounded.updates.items()),
                )
            )
            reading = self.store.read(self.job.domain, self.keys)
        return self._left(reading)

    def _left(self, reading: Reading) -> Iterator[UnreadBounds]:
        """Yield what is recorded at the barrier, which the job does not read."""
        for source in self._bounding.sources:
            recorded = self._bounding.recorded(reading, source)
            if recorded and not recorded[max(recorded)].bounds.is_empty:
                whole = recorded[max(recorded)].whole
                yield UnreadBounds(source=source, interval=self.interval, bounds=whole)

    def _of(
        self, reading: Reading, source: Source
    ) -> tuple[dict[Key, SourceRecord], tuple[Exists | Absent, ...]]:
        """Records to be written of *source*, and the records of its readers as they were; none while they stand."""
        asked, recorded = self._bounding.asked(reading, source)
        if not recorded:
            return {}, ()
        current = recorded[max(recorded)].whole
        kept = self._kept(source, current)
        if kept.same_as(current):
            return {}, ()
        readers = self._readers(source, self.interval, same_bounds(recorded, current))
        if readers.have_read:
            return {}, readers.required
        given = self._next(source, self.interval, kept)
        if current.span is None:
            return given, readers.required
        moved = self._behind(source, asked.after, current.span)
        if moved is None:
            return {}, readers.required
        return given | moved.records, (*readers.required, *moved.required)

    def _behind(self, source: Source, after: Sequence[SourceRecord], span: Span) -> _Moved | None:
        """Later bounds, which begin where *span* ends, with its rows: the nearest that are yet to be read have them.

        :return: None when they cannot: their epochs stand on them.
        """
        records: dict[Key, SourceRecord] = {}
        required: list[Exists | Absent] = []
        for later in after:
            to_come = self._to_come(source, later)
            if to_come is None or later.interval is None or later.bounds.span is None:
                return None
            required += to_come
            if not later.bounds.is_empty:
                joined = replace(later.bounds, span=span.joined(later.bounds.span))
                records |= self._next(source, later.interval, joined)
                return _Moved(records, required)
            empty = replace(later.bounds, span=replace(later.bounds.span, low=span.low, high=span.low))
            records |= self._next(source, later.interval, empty)
        return _Moved(records, required) if self._are_all(source, after) else None

    def _are_all(self, source: Source, after: Sequence[SourceRecord]) -> bool:
        """Whether *after*, read up to the end of the source's window, holds all later bounds."""
        last = after[-1].interval if after else self.interval
        newest = self.store.scan(self.job.domain, Kind.SOURCE, source.name, limit=1, reverse=True)
        return last is not None and newest[0].key.item.partition(":")[0] <= time_key(last.end)

    def _to_come(self, source: Source, later: SourceRecord) -> tuple[Exists | Absent, ...] | None:
        """The records of the readers of *later* as they were; None when its bounds are to stay as they are."""
        if later.interval is None:  # written by a version that did not say of which epoch
            return None
        bounding = replace(self._bounding, interval=later.interval)
        reading = self.store.read(self.job.domain, bounding.keys)
        revisions = same_bounds(bounding.recorded(reading, source), later.whole)
        readers = self._readers(source, later.interval, revisions)
        key = epoch_key(self.job.domain, self.job.name, later.interval.start)
        lock = lock_key(self.job.domain, self.job.name, later.interval.start)
        own_reading = self.store.read(self.job.domain, [key, lock])
        own = own_reading.get(key)
        is_over = (
            own is not None
            and _is_skipped(own.record, lives(own_reading, lock))
            and not later.bounds.is_empty
        )
        return None if readers.have_read or is_over else readers.required

    def _kept(self, source: Source, bounds: SourceBounds) -> SourceBounds:
        """What stays of *bounds*: the files of the epoch's own location, and no row."""
        if bounds.span is not None:
            if not source.is_increment:
                return bounds
            rows = None if bounds.span.rows is None else 0
            return replace(bounds, span=replace(bounds.span, high=bounds.span.low, rows=rows))
        own = tuple(file for file in bounds.files if lies_at(source, self.interval, file.uri))
        return replace(bounds, files=own)

    def _readers(self, source: Source, interval: Interval, revisions: Collection[int]) -> SourceDependents:
        """Epochs that stand on *revisions*, also of the job itself: a skip that only adds a table leaves its commit."""
        return source_dependents(self.store, self.job.domain, source.name, interval, revisions, but=None)

    def _next(self, source: Source, interval: Interval, bounds: SourceBounds) -> dict[Key, SourceRecord]:
        """The record that follows *bounds*, with what they are now."""
        bounds = replace(bounds, revision=bounds.revision + 1)
        record = SourceRecord.of(
            bounds,
            self.job.name,
            interval,
            reason=f"{self.interval} was skipped: {self.reason}",
            by=self.by,
            packs=self._bounding.packs,
        )
        return {source_key(self.job.domain, source.name, interval.end, bounds.revision): record}


def _is_skipped(epoch: EpochRecord, is_heard_of: bool) -> bool:
    """Whether nothing is to come of *epoch*: it is skipped, and no run that *is_heard_of* computes it after all."""
    is_open = epoch.attempt is not None and epoch.attempt.aborted is None and is_heard_of
    return epoch.committed is not None and bool(epoch.committed.skipped) and not is_open


def give_back(context: Context, attempt: Attempt) -> None:
    """Give back the bounds that *attempt*, which has ended without a commit, recorded for a skipped epoch (I11).

    Of an epoch that is not skipped it gives nothing back: that is to be tried again.
    """
    key = epoch_key(attempt.domain, attempt.job, attempt.interval.start)
    stamped = context.store.read(attempt.domain, [key]).get(key)
    committed = None if stamped is None else stamped.record.committed
    if committed is not None and committed.skipped:
        job = JobDeclaration.of(registered(context.store, attempt.domain, attempt.job)).job()
        by = f"{attempt.owner.dag_id} {attempt.owner.run_id}"
        list(unread_bounds(context, job, attempt.interval, committed.skipped, by))


def unread_bounds(
    context: Context, job: Job, epoch: Interval, reason: str, by: str
) -> Iterator[UnreadBounds]:
    """What is recorded for a skipped epoch that later ones do not read; what its failed runs have recorded since is
    given back first.
    """
    giving = GivingBack(store=context.store, job=job, interval=epoch, reason=reason, by=by)
    return context.retry(
        giving.again,
        Conflict(
            f"{job.name} {epoch}: others kept changing the bounds of its sources.", next_step="try again."
        ),
    )
