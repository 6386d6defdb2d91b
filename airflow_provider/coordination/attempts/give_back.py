"""Giving back: a skip releases the source bounds that failed attempts have recorded, for later epochs (R5, I11).

Later barriers start at recorded bounds. So the transaction that opens the skip records a next revision without the rows
and the late files. Files at the epoch's own location stay bound to it: a skip drops them on purpose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from airflow_provider.domain.records import Key, chain_key, fence_of, lock_of, source_key
from airflow_provider.domain.source_bounds import Source, SourceBounds, SourceRecord, Span
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import RewriteLog
from airflow_provider.sources.locations import lies_at
from airflow_provider.stores.base import (
    Absent,
    Exists,
    MetadataStore,
    Put,
    Reading,
    SameStore,
    Transaction,
    scan,
    unchanged,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadBounds:
    """Bounds of *source* that a skip of *interval* has kept: the job reads them if it computes that epoch after all."""

    source: Source
    interval: Interval
    bounds: SourceBounds

    def __str__(self) -> str:
        return f"source {self.source.name}, {self.interval}: {self.bounds}"


@dataclass(frozen=True, slots=True)
class _Moved:
    """Next revisions of later bounds. :param required: the records of their readers, in the versions that were read."""

    records: dict[Key[SourceRecord], SourceRecord]
    required: list[Exists | Absent]


@dataclass(frozen=True, kw_only=True, slots=True)
class GivingBack:
    """Bounds that a skip of *interval* of *job* gives back. :param reason: of the skip. :param by: its author."""

    store: MetadataStore
    job: Job
    interval: Interval
    reason: str
    by: str

    @property
    def keys(self) -> list[Key[Any]]:
        """Keys of the records that the skip reads together with all others it decides on."""
        return self._bounding.keys

    @property
    def _bounding(self) -> Bounding:
        sources = tuple(source for source in self.job.sources if source.looks_around)
        return Bounding(
            store=self.store, job=self.job, interval=self.interval, sources=sources, provider=Proposed({})
        )

    def bounded(self, reading: Reading) -> Bounded:
        """Return the records to be written; the skip itself reads no source."""
        records: dict[Key[SourceRecord], SourceRecord] = {}
        chains: list[Key[RewriteLog]] = []
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
        """Give back the bounds of runs of the skipped epoch that have failed since; yield the remaining ones.

        Yields nothing if the epoch was computed after all or is being computed. A silent run that wakes up cannot
        publish: its bounds are not the newest.

        :raises RequirementFailed: a record has changed since it was read: decide again.
        """
        name = self.job.epoch(self.interval)
        key, lock = fence_of(name), lock_of(name)
        reading = self.store.read(self.job.domain, [key, lock, *self.keys])
        epoch = reading.get(key)
        if epoch is None or not _is_skipped(epoch.record, lives(reading, lock, epoch.record.attempt)):
            return iter(())
        bounded = self.bounded(reading)
        if bounded.records:
            required = [unchanged(reading, known) for known in (key, *bounded.required)]
            self.store.transact(
                Transaction(
                    domain=self.job.domain,
                    store=SameStore(reading.head.incarnation),
                    requires=tuple(dict.fromkeys([*required, *bounded.readers])),
                    updates=tuple(Put(changed, record) for changed, record in bounded.updates.items()),
                )
            )
            reading = self.store.read(self.job.domain, self.keys)
        return self._left(reading)

    def _left(self, reading: Reading) -> Iterator[UnreadBounds]:
        """Yield the bounds recorded at the barrier, which no epoch of the job reads."""
        for source in self._bounding.sources:
            recorded = self._bounding.recorded(reading, source)
            if recorded and not recorded[max(recorded)].bounds.is_empty:
                whole = recorded[max(recorded)].whole
                yield UnreadBounds(source=source, interval=self.interval, bounds=whole)

    def _of(
        self, reading: Reading, source: Source
    ) -> tuple[dict[Key[SourceRecord], SourceRecord], tuple[Exists | Absent, ...]]:
        """Return the records to write for *source*, and requirements on its readers; no records while readers exist."""
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
        """Return next revisions of later bounds that take over the rows of *span*, up to the nearest that has rows.

        :return: None if they cannot take them: epochs depend on these bounds.
        """
        records: dict[Key[SourceRecord], SourceRecord] = {}
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
        """Return True if *after*, read up to the end of the source's window, holds all later bounds."""
        last = after[-1].interval if after else self.interval
        newest = scan(self.store, self.job.domain, SourceRecord, source.name, limit=1, reverse=True)
        return last is not None and newest[0].key.item.partition(":")[0] <= time_key(last.end)

    def _to_come(self, source: Source, later: SourceRecord) -> tuple[Exists | Absent, ...] | None:
        """Return requirements on the readers of *later*; None if its bounds may not change."""
        if later.interval is None:  # written by a version that did not say of which epoch
            return None
        bounding = replace(self._bounding, interval=later.interval)
        reading = self.store.read(self.job.domain, bounding.keys)
        revisions = same_bounds(bounding.recorded(reading, source), later.whole)
        readers = self._readers(source, later.interval, revisions)
        name = self.job.epoch(later.interval)
        key, lock = fence_of(name), lock_of(name)
        own_reading = self.store.read(self.job.domain, [key, lock])
        own = own_reading.get(key)
        is_over = (
            own is not None
            and _is_skipped(own.record, lives(own_reading, lock, own.record.attempt))
            and not later.bounds.is_empty
        )
        return None if readers.have_read or is_over else readers.required

    def _kept(self, source: Source, bounds: SourceBounds) -> SourceBounds:
        """Return the part of *bounds* that stays: the files at the epoch's own location, and no rows."""
        if bounds.span is not None:
            if not source.is_increment:
                return bounds
            rows = None if bounds.span.rows is None else 0
            return replace(bounds, span=replace(bounds.span, high=bounds.span.low, rows=rows))
        own = tuple(file for file in bounds.files if lies_at(source, self.interval, file.uri))
        return replace(bounds, files=own)

    def _readers(self, source: Source, interval: Interval, revisions: Collection[int]) -> SourceDependents:
        """Return epochs that depend on *revisions*, also the job's own: a skip that adds a table leaves its commit."""
        return source_dependents(self.store, self.job.domain, source.name, interval, revisions)

    def _next(
        self, source: Source, interval: Interval, bounds: SourceBounds
    ) -> dict[Key[SourceRecord], SourceRecord]:
        """Return the record of the next revision, with *bounds*."""
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
    """Return True if *epoch* is skipped and no live run computes it. :param is_heard_of: its open attempt is alive."""
    is_open = epoch.attempt is not None and epoch.attempt.aborted is None and is_heard_of
    return epoch.committed is not None and bool(epoch.committed.skipped) and not is_open


def give_back(context: Context, attempt: Attempt) -> None:
    """Give back the bounds that *attempt* recorded for a skipped epoch and ended without a commit (I11).

    An epoch that is not skipped keeps its bounds for the next attempt.
    """
    key = fence_of(attempt)
    stamped = context.store.read(attempt.domain, [key]).get(key)
    committed = None if stamped is None else stamped.record.committed
    if committed is not None and committed.skipped:
        job = JobDeclaration.of(registered(context.store, attempt.domain, attempt.job)).job()
        by = f"{attempt.owner.dag_id} {attempt.owner.run_id}"
        list(unread_bounds(context, job, attempt.interval, committed.skipped, by))


def unread_bounds(
    context: Context, job: Job, epoch: Interval, reason: str, by: str
) -> Iterator[UnreadBounds]:
    """Return the bounds of a skipped epoch that no later epoch reads; those of its failed runs are given back first."""
    giving = GivingBack(store=context.store, job=job, interval=epoch, reason=reason, by=by)
    return context.retry(
        giving.again,
        Conflict.of_others(f"{job.name} {epoch}", "changing the bounds of its sources", job=job.name),
    )
