"""What an epoch reads of its job's sources: as it was recorded first, else as their sources say now (I11).

Bounds that depend on those of the barriers beside them are recorded one after the other: each requires the version of
the source's *chain* that it was decided on, and writes it anew, so that of two begins that race one looks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider.coordination.attempts.bounds_provider import BoundsProvider
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.renamed_sources import refuse_reading_twice
from airflow_provider.coordination.commits.source_dependents import (
    SourceDependents,
    committed_source,
    later_keys,
    open_source,
    refuse_behind,
    refuse_readers,
    same_bounds,
    source_dependents,
    whole_sources,
)
from airflow_provider.coordination.commits.stayed_rows import refuse_other_bounds
from airflow_provider.domain.between import neighbours
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible, TopologyError, Unavailable
from airflow_provider.domain.file_lists import MOST_PACKED_BYTES
from airflow_provider.domain.interval import Cadence, Interval, shifted, time_key
from airflow_provider.domain.records import Key, Kind, Stamped, chain_key, source_key
from airflow_provider.domain.source_bounds import (
    BoundsRequest,
    Late,
    Source,
    SourceBounds,
    SourceKind,
    SourceRecord,
    asks_again,
    check_bounds,
)
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import RewriteLog
from airflow_provider.sources.locations import location_of
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Reading, pages

_PAGE = 100
_PACKED_SINCE = 2
"""The format of a store from which on lists of files are packed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    """What an attempt reads of each source, and what is to be recorded with it.

    :param bounds: with their files. :param records: absent until then.
    :param chains: required as they were read, and written anew. :param readers: required, as of a later revision.
    :param is_new: another attempt at this revision of the epoch has read other bounds. :param notes: for the log.
    """

    bounds: tuple[SourceBounds, ...]
    records: Mapping[Key, SourceRecord]
    chains: tuple[Key, ...]
    is_new: bool
    readers: tuple[Exists | Absent, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[Key, ...]:
        return (*self.records, *self.chains)

    @property
    def updates(self) -> Mapping[Key, Any]:
        return {**self.records, **dict.fromkeys(self.chains, RewriteLog())}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounding:
    """The bounds of the sources of *job* for one epoch.

    :param sources: those that the attempt reads. :param provider: is asked where nobody has recorded bounds before.
    """

    store: MetadataReader
    job: Job
    interval: Interval
    sources: tuple[Source, ...]
    provider: BoundsProvider

    @property
    def keys(self) -> list[Key]:
        """What begin reads in the same look as all else it decides on."""
        first = [self.key(source, 1) for source in self.sources]
        return [
            *first,
            *(chain_key(self.job.domain, source.name) for source in self.sources if source.looks_around),
        ]

    def are_newest(self, sources: Sequence[SourceBounds]) -> bool:
        """Whether no later revisions than *sources* are recorded: what was computed from them can be published."""
        keys = later_keys(self.job.domain, self.interval, sources)
        return not keys or not self.store.read(self.job.domain, keys).records

    def bounded(
        self, reading: Reading, epoch: EpochRecord | None, revision: int, *, adopts: bool, fills: bool = False
    ) -> Bounded:
        """Return what the attempt at *revision* reads of each source.

        :param adopts: it publishes what an earlier attempt computed, whose bounds it keeps as they were.
        :param fills: it adds tables to what is committed, and reads what the commit has read.
        :raises InvalidInput: of one nothing is recorded, and what is proposed cannot be.
        :raises TopologyError: what is recorded is of another interval that ends at the same barrier.
        :raises TopologyError: tables that it does not write keep rows that were computed from other bounds; or other
            epochs have read files of it by a source of another name.
        :raises DependentReaders: other jobs have committed what they computed from other bounds.
        :raises Unavailable: what is recorded is there no longer, and epochs stand on it.
        """
        attempt = epoch.attempt if epoch is not None and epoch.attempt is not None else None
        if attempt is not None and attempt.revision != revision:
            attempt = None
        if adopts and attempt is not None:
            whole = whole_sources(self.store, self.job.domain, self.interval, attempt.sources)
            return Bounded(bounds=whole, records={}, chains=(), is_new=False)
        started = {one.source: one.revision for one in attempt.sources} if attempt else {}
        chosen = [
            self._committed(reading, source, epoch)
            if fills
            else self._chosen(reading, source, epoch, attempt)
            for source in self.sources
        ]
        found = [one.bounds for one in chosen]
        refuse_other_bounds(self.store, reading, self.job, self.interval, epoch=epoch, bounds=found)
        readers = refuse_reading_twice(self.store, reading, self.job, self.interval, found)
        is_new = any(
            started.get(one.source.name, one.bounds.revision) != one.bounds.revision for one in chosen
        )
        together = self.together(chosen)
        return replace(together, is_new=is_new, readers=(*together.readers, *readers))

    def together(self, chosen: Sequence[Chosen]) -> Bounded:
        """What is to be recorded of several sources in one transaction.

        :raises InvalidInput: the lists of their files are too long for one.
        """
        new = [one for one in chosen if one.record is not None]
        records = {self.key(one.source, one.bounds.revision): one.record for one in new if one.record}
        _refuse_too_long(records.values())
        return Bounded(
            bounds=tuple(one.bounds for one in chosen),
            records=records,
            chains=tuple(
                chain_key(self.job.domain, one.source.name) for one in new if one.source.looks_around
            ),
            is_new=False,
            readers=tuple(required for one in chosen for required in one.readers.required),
            notes=tuple(one.note for one in chosen if one.note),
        )

    def recorded(self, reading: Reading, source: Source) -> dict[int, SourceRecord]:
        """What is recorded of *source* at the barrier, by revision."""
        return self.asked(reading, source)[1]

    def anew(self, reading: Reading, source: Source, reason: str, by: str) -> Chosen:
        """What the source of *source* says now, as the next revision, whoever stands on those before."""
        asked, recorded = self.asked(reading, source)
        chosen = self._new(
            asked, max(recorded, default=0) + 1, self.provider.bounds(asked), SourceDependents()
        )
        record = SourceRecord.of(
            chosen.bounds, self.job.name, self.interval, reason=reason, by=by, packs=self.packs
        )
        return replace(chosen, record=record)

    def _chosen(
        self, reading: Reading, source: Source, epoch: EpochRecord | None, attempt: AttemptRecord | None
    ) -> Chosen:
        """What the attempt reads of *source*: what is recorded, or what its source says now."""
        asked, recorded = self.asked(reading, source)
        newest = max(recorded, default=0)
        if newest == 0:
            return self._new(asked, 1, self.provider.bounds(asked), SourceDependents())
        current = recorded[newest].whole
        dependents = same_bounds(recorded, current)
        readers = source_dependents(
            self.store, self.job.domain, source.name, self.interval, dependents, but=self.job.name
        )
        opened, committed = open_source(attempt, source.name), committed_source(epoch, source.name)
        if committed and source.is_increment:
            asked = replace(asked, committed=current.span)
        if committed != newest:
            refuse_behind(source, self.interval, behind_of(reading, self.job.domain), readers)
        again = asks_again(source.late, newest, opened=opened, committed=committed, others=readers.stand)
        if not again and self.provider.holds(asked, current):
            return Chosen(source=source, bounds=current, note=_note(recorded[newest]))
        if not again and committed == newest and source.late is not Late.REVISION:
            self.provider.check_unchanged(source, current)
            return Chosen(source=source, bounds=current)
        if not again:
            refuse_readers(source, self.interval, newest, readers)
        found = self.provider.bounds(asked)
        if again and found.same_as(current):
            return Chosen(source=source, bounds=current, note=_note(recorded[newest]))
        refuse_readers(source, self.interval, newest, readers)
        return self._new(asked, newest + 1, found, readers)

    def _committed(self, reading: Reading, source: Source, epoch: EpochRecord | None) -> Chosen:
        """What the epoch's commit has read of *source*, also where a later revision is recorded since.

        :raises Unavailable: the source has it no longer. :raises StoreIncompatible: the store lacks its record.
        """
        recorded = self.asked(reading, source)[1].get(committed_source(epoch, source.name))
        if recorded is None:
            raise StoreIncompatible(
                f"the bounds of source {source.name!r} that the commit of {self.job.name} {self.interval} has read are "
                "not in the store.",
                next_step="restore the store; `airflow epochs doctor` shows what else is missing in it.",
                source=source.name,
            )
        try:
            self.provider.check_unchanged(source, recorded.whole)
        except Unavailable as error:
            name, span = self.job.name, f"{self.interval.start.isoformat()}/{self.interval.end.isoformat()}"
            raise Unavailable(
                f"{error.message} The commit of {name} {self.interval} has read it, and what its tables lack there "
                "comes from the same.",
                next_step="bring it back; or, for good, leave these tables empty there (`airflow epochs skip "
                f"{name} {span} --reason …`). While no committed epoch has read the tables of {name} there, `airflow "
                f"epochs bind {source.name} {span} --reason …` behind the skip lets the epoch's next run compute all "
                "of them from what is there now.",
                source=source.name,
            ) from error
        return Chosen(source=source, bounds=recorded.whole, note=_note(recorded))

    def _new(
        self, asked: BoundsRequest, revision: int, found: SourceBounds, readers: SourceDependents
    ) -> Chosen:
        check_bounds(asked, found)
        _refuse_shared(asked.source, self.job.cadence, self.interval)
        bounds = replace(found, revision=revision)
        record = SourceRecord.of(bounds, self.job.name, self.interval, packs=self.packs)
        return Chosen(source=asked.source, bounds=bounds, record=record, readers=readers)

    @property
    def packs(self) -> bool:
        """Whether long lists of files are kept once, packed: older versions of the package look elsewhere."""
        return self.store.format >= _PACKED_SINCE

    def in_attempt(self, bounds: SourceBounds) -> SourceBounds:
        """What the record of an attempt has of *bounds*."""
        return bounds.reference if self.packs else bounds

    def key(self, source: Source, revision: int) -> Key:
        return source_key(self.job.domain, source.name, self.interval.end, revision)

    def asked(self, reading: Reading, source: Source) -> tuple[BoundsRequest, dict[int, SourceRecord]]:
        """What to ask the source of *source*, and what is recorded at this barrier, by revision."""
        if not source.looks_around and reading.get(self.key(source, 1)) is None:
            return BoundsRequest(
                source=source, interval=self.interval, now=reading.now, cadence=self.job.cadence
            ), {}
        own, after, past = self._from_here_on(source)
        for one in own:
            self._refuse_other_interval(source, one)
        before, beyond = self._before(source) if source.looks_around else ((), None)
        if source.looks_around:
            for record in (*before, *after):
                self._refuse_overlap(source, record)
        asked = BoundsRequest(
            source=source,
            interval=self.interval,
            before=before,
            after=after,
            beyond=beyond,
            past=past,
            now=reading.now,
            cadence=self.job.cadence,
        )
        return asked, {one.bounds.revision: one for one in own}

    def _from_here_on(
        self, source: Source
    ) -> tuple[list[SourceRecord], tuple[SourceRecord, ...], SourceRecord | None]:
        """What is recorded at this barrier, in their newest revisions at the later ones that it depends on, and after
        those.
        """
        here = time_key(self.interval.end)
        last = time_key(shifted(self.interval.end, source.reach(self.job.cadence)))
        own: list[SourceRecord] = []
        later: dict[str, SourceRecord] = {}
        for one in pages(self.store, self.job.domain, Kind.SOURCE, source.name, start=here, size=_PAGE):
            barrier = _barrier_of(one)
            if barrier == here:
                own.append(one.record)
            elif barrier not in later and (not source.looks_around or (barrier > last and later)):
                return own, tuple(later.values()), one.record
            else:
                later[barrier] = one.record
        return own, tuple(later.values()), None

    def _before(self, source: Source) -> tuple[tuple[SourceRecord, ...], SourceRecord | None]:
        """The newest revisions at the earlier barriers that it depends on, the nearest first, and the one before."""
        first = time_key(shifted(self.interval.end, -source.reach(self.job.cadence)))
        earlier: dict[str, SourceRecord] = {}
        for one in self._backwards(source, time_key(self.interval.end)):
            barrier = _barrier_of(one)
            if barrier not in earlier and barrier < first and (earlier or not source.has_spans):
                return tuple(earlier.values()), one.record
            earlier.setdefault(barrier, one.record)
        return tuple(earlier.values()), None

    def _backwards(self, source: Source, end: str) -> Iterator[Stamped[SourceRecord]]:
        while True:
            page: list[Stamped[SourceRecord]] = self.store.scan(
                self.job.domain, Kind.SOURCE, source.name, end=end, limit=_PAGE, reverse=True
            )
            yield from page
            if len(page) < _PAGE:
                return
            end = page[-1].key.item

    def _refuse_other_interval(self, source: Source, record: SourceRecord) -> None:
        if record.interval not in (None, self.interval):
            raise TopologyError(
                f"bounds of source {source.name!r} are recorded for {record.interval}, which job {record.job!r} began; "
                f"{self.job.name!r} asks for {self.interval}.",
                next_step="read them as a source of another name."
                if source.looks_around
                else "read them as a source of another name, or leave this epoch out: `airflow epochs skip`.",
                source=source.name,
                expected=self.interval,
                found=record.interval,
            )

    def _refuse_overlap(self, source: Source, record: SourceRecord) -> None:
        """Refuse to go on in the middle of what another calendar has read: no epoch would read what lies before."""
        interval = record.interval
        if interval is not None and interval.overlaps(self.interval) and not record.bounds.is_empty:
            self._refuse_other_interval(source, record)


def _refuse_shared(source: Source, cadence: Cadence, interval: Interval) -> None:
    """Refuse a location that the epochs beside *interval* have, too, by a rule that gives each of them all its files.

    With ``late="next"`` the bounds around tell what others have read; with ``"ignore"`` it is asked for.

    :raises InvalidInput: files would be read by several epochs.
    """
    if (
        source.kind is not SourceKind.FILES
        or source.late not in (Late.REVISION, Late.REFUSE)
        or source.is_older
    ):
        return
    for beside in neighbours(cadence, interval):
        if location_of(source, beside) == location_of(source, interval):
            raise InvalidInput(
                field=f"location of source {source.name!r}",
                value=source.location,
                expected=f"one that {interval} and {beside} do not share, with late={source.late.value!r}: "
                "each of them would read all its files",
                next_step="let the location say more of the interval; or declare late='next', by which each file is "
                "read by one of them, or late='ignore', by which each epoch reads what lies there.",
            )


def _barrier_of(stamped: Stamped[SourceRecord]) -> str:
    return stamped.key.item.partition(":")[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What an attempt reads of one source. :param record: to be written, of bounds that are new."""

    source: Source
    bounds: SourceBounds
    record: SourceRecord | None = None
    readers: SourceDependents = field(default_factory=SourceDependents)
    note: str = ""


def _note(record: SourceRecord) -> str:
    """What the log of an epoch says of bounds that were bound anew; empty for others."""
    if not record.reason:
        return ""
    return f"{record.bounds.source}: revision {record.bounds.revision}, bound anew by {record.by}: {record.reason}"


def _refuse_too_long(records: Iterable[SourceRecord]) -> None:
    """:raises InvalidInput: the lists of files that one begin would record are too long."""
    lists = list(records)
    size = sum(len(record.packed) for record in lists)
    if size <= MOST_PACKED_BYTES:
        return
    longest = max(lists, key=lambda record: len(record.packed))
    raise InvalidInput(
        f"source {longest.bounds.source!r} has {longest.bounds.count} files for {longest.interval}: the lists of files "
        f"take {size} bytes, packed; at most {MOST_PACKED_BYTES} bytes.",
        next_step="let the location say less at a time (a shorter cadence), join small files before they land, or "
        "give the sources to several jobs.",
        field=f"files of source {longest.bounds.source!r}",
        value=size,
        expected=MOST_PACKED_BYTES,
        count=longest.bounds.count,
    )
