"""Bounds of an epoch's sources: as recorded first, otherwise as the sources answer now (I11).

New bounds are recorded with a new version of their source's *chain*. Begins that depend on the bounds of other
barriers, or on those of a name that the job has left, require the chain as it was when they looked: of two that race
one decides again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

from airflow_provider.coordination.attempts.bounds_around import BoundsAround, Side
from airflow_provider.coordination.attempts.bounds_provider import BoundsProvider
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.renamed_sources import refuse_reading_twice
from airflow_provider.coordination.commits.source_dependents import (
    SourceDependents,
    committed_source,
    later_keys,
    open_source,
    refuse_behind,
    refuse_copied,
    refuse_readers,
    same_bounds,
    source_dependents,
    whole_sources,
)
from airflow_provider.coordination.commits.stayed_rows import refuse_other_bounds
from airflow_provider.domain.between import neighbours
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible, TopologyError, Unavailable
from airflow_provider.domain.file_lists import MOST_PACKED_BYTES
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.records import Key, chain_key, source_key
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
from airflow_provider.stores.base import Absent, Exists, MetadataReader, Reading

_PACKED_SINCE = 2
"""First format of a store with packed lists of files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    """Bounds that an attempt reads of each source, and the records to be written with them.

    :param bounds: with their files. :param records: required to be absent.
    :param chains: required in the version that was read, and written anew. :param others: written, not required.
    :param readers: requirements on the epochs that read these sources.
    :param is_new: another attempt at this revision of the epoch has read other bounds. :param notes: for the log.
    """

    bounds: tuple[SourceBounds, ...]
    records: Mapping[Key[SourceRecord], SourceRecord]
    chains: tuple[Key[RewriteLog], ...]
    is_new: bool
    others: tuple[Key[RewriteLog], ...] = ()
    readers: tuple[Exists | Absent, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[Key[Any], ...]:
        return (*self.records, *self.chains)

    @property
    def updates(self) -> Mapping[Key[Any], Any]:
        # A chain has no content: its new version makes a begin at another barrier, which requires the old one, decide
        # again (docs/decisions/source-bounds.md).
        return {**self.records, **dict.fromkeys((*self.chains, *self.others), RewriteLog())}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounding:
    """The bounds of the sources of *job* for one epoch.

    :param sources: the sources that the attempt reads. :param provider: asked for bounds that are not recorded.
    :param published_with: jobs that compute the same epoch within the attempt's restatement, by the same revision.
    :param copied_with: those of them that a revert gives their former rows back, with the bounds that these had read.
    :param restates: whether the attempt is within a restatement: then files that were replaced are read as they are.
    """

    store: MetadataReader
    job: Job
    interval: Interval
    sources: tuple[Source, ...]
    provider: BoundsProvider
    published_with: tuple[JobName, ...] = ()
    copied_with: tuple[JobName, ...] = ()
    restates: bool = False

    @property
    def keys(self) -> list[Key[Any]]:
        """Keys of the records that begin reads together with all others it decides on."""
        first = [self.key(source, 1) for source in self.sources]
        return [
            *first,
            *(chain_key(self.job.domain, source.name) for source in self.sources if source.looks_around),
        ]

    def are_newest(self, sources: Sequence[SourceBounds]) -> bool:
        """Return True if no later revision of *sources* is recorded: only then may their epoch be published."""
        keys = later_keys(self.job.epoch(self.interval), sources)
        return not keys or not self.store.read(self.job.domain, keys).records

    def bounded(
        self, reading: Reading, epoch: EpochRecord | None, revision: int, *, adopts: bool, fills: bool = False
    ) -> Bounded:
        """Return the bounds that the attempt at *revision* reads of each source.

        :param adopts: it publishes the output of an earlier attempt, and keeps the bounds of that attempt.
        :param fills: it adds tables to a committed epoch, and reads the bounds of that commit.
        :raises InvalidInput: a source has no recorded bounds, and the proposed ones are invalid.
        :raises TopologyError: the recorded bounds are of another interval that ends at the same barrier; tables that
            the attempt does not write keep rows computed from other bounds; or other epochs have read files of the
            source under another name.
        :raises DependentReaders: other jobs have committed output computed from other bounds.
        :raises Unavailable: recorded data is missing from the source, and epochs depend on it.
        """
        attempt = epoch.attempt if epoch is not None and epoch.attempt is not None else None
        if attempt is not None and attempt.revision != revision:
            attempt = None
        if adopts and attempt is not None:
            whole = whole_sources(self.store, self.job.epoch(self.interval), attempt.sources)
            return Bounded(bounds=whole, records={}, chains=(), is_new=False)
        started = {bounds.source: bounds.revision for bounds in attempt.sources} if attempt else {}
        chosen = [
            self._committed(reading, source, epoch)
            if fills
            else self._chosen(reading, source, epoch, attempt)
            for source in self.sources
        ]
        found = [choice.bounds for choice in chosen]
        refuse_other_bounds(self.store, reading, self.job, self.interval, epoch=epoch, bounds=found)
        readers = refuse_reading_twice(self.store, reading, self.job, self.interval, found)
        is_new = any(
            started.get(choice.source.name, choice.bounds.revision) != choice.bounds.revision
            for choice in chosen
        )
        together = self.together(chosen)
        # Begins that have looked at recorded bounds, and found no epoch on them, require none.
        is_first = epoch is None or epoch.interval != self.interval
        chains = [chain_key(self.job.domain, bounds.source) for bounds in found] if is_first else []
        return replace(
            together,
            is_new=is_new,
            others=(*together.others, *chains),
            readers=(*together.readers, *readers),
        )

    def together(self, chosen: Sequence[Chosen]) -> Bounded:
        """Return the records of several sources for one transaction.

        :raises InvalidInput: their lists of files are too long for one transaction.
        """
        new = [choice for choice in chosen if choice.record is not None]
        records = {
            self.key(choice.source, choice.bounds.revision): choice.record for choice in new if choice.record
        }
        _refuse_too_long(records.values())
        chains = {
            chain_key(self.job.domain, choice.source.name): choice.source.looks_around for choice in new
        }
        return Bounded(
            bounds=tuple(choice.bounds for choice in chosen),
            records=records,
            chains=tuple(chain for chain, looks_around in chains.items() if looks_around),
            others=tuple(chain for chain, looks_around in chains.items() if not looks_around),
            is_new=False,
            readers=tuple(required for choice in chosen for required in choice.readers.required),
            notes=tuple(choice.note for choice in chosen if choice.note),
        )

    def recorded(self, reading: Reading, source: Source) -> dict[int, SourceRecord]:
        """Return the records of *source* at the barrier, by revision."""
        return self.asked(reading, source)[1]

    def anew(self, reading: Reading, source: Source, reason: str, by: str) -> Chosen:
        """Return present bounds of *source* as the next revision, also where epochs depend on earlier revisions."""
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
        """Return the bounds of *source* for the attempt: recorded ones, or those that the source answers now."""
        asked, recorded = self.asked(reading, source)
        newest = max(recorded, default=0)
        if newest == 0:
            return self._new(asked, 1, self.provider.bounds(asked), SourceDependents())
        current = recorded[newest].whole
        dependents = same_bounds(recorded, current)
        readers = source_dependents(
            self.store,
            self.job.domain,
            source.name,
            self.interval,
            dependents,
            but={self.job.name, *self.published_with},
        )
        opened, committed = open_source(attempt, source.name), committed_source(epoch, source.name)
        if committed in dependents:  # equal bounds, as an abandoned restatement gives them back
            committed = newest
        if committed and source.is_increment:
            asked = replace(asked, committed=current.span)
        if committed != newest:
            refuse_behind(source, self.interval, behind_of(reading, self.job.domain), readers)
        copies = self._copies(source, dependents)
        others = readers.stand or bool(copies)
        again = asks_again(source.late, newest, opened=opened, committed=committed, others=others)
        if not again and self.provider.holds(asked, current):
            return Chosen(source=source, bounds=current, note=_note(recorded[newest]))
        refuse_copied(source, self.interval, copies)
        if not again and committed == newest and source.late is not Late.REVISION and not self.restates:
            self.provider.check_unchanged(source, current)
            return Chosen(source=source, bounds=current)
        if not again:
            refuse_readers(source, self.interval, newest, readers)
        if self.restates and committed and source.late is not Late.REVISION:
            # What was replaced is read as it is now; what is gone would take rows away without a word.
            self.provider.check_there(source, recorded[committed].whole)
        found = self.provider.bounds(asked)
        if again and found.same_as(current):
            return Chosen(source=source, bounds=current, note=_note(recorded[newest]))
        refuse_readers(source, self.interval, newest, readers)
        return self._new(asked, newest + 1, found, readers)

    def _copies(self, source: Source, revisions: Collection[int]) -> tuple[Dependent, ...]:
        """Return the epochs with their former rows, staged in the attempt's revert, that have read *revisions*."""
        if not self.copied_with:
            return ()
        found = source_dependents(self.store, self.job.domain, source.name, self.interval, revisions)
        return tuple(epoch for epoch in found.live if epoch.job in self.copied_with)

    def _committed(self, reading: Reading, source: Source, epoch: EpochRecord | None) -> Chosen:
        """Return the bounds of *source* that the epoch's commit has read, also when a later revision is recorded.

        :raises Unavailable: the data is missing from the source. :raises StoreIncompatible: their record is missing.
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
                f"{quote(name)} {span} --reason …`). While no committed epoch has read the tables of {name} there, "
                f"`airflow epochs bind {quote(source.name)} {span} --reason …` behind the skip lets the epoch's next "
                "run compute all of them from what is there now.",
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
        """True if the store keeps long lists of files once, packed; older versions of the package cannot read these."""
        return self.store.format >= _PACKED_SINCE

    def in_attempt(self, bounds: SourceBounds) -> SourceBounds:
        """Return *bounds* as the record of an attempt holds them."""
        return bounds.reference if self.packs else bounds

    def key(self, source: Source, revision: int) -> Key[SourceRecord]:
        return source_key(self.job.domain, source.name, self.interval.end, revision)

    def asked(self, reading: Reading, source: Source) -> tuple[BoundsRequest, dict[int, SourceRecord]]:
        """Return the request to the provider for *source*, and the records at this barrier, by revision."""
        if not source.looks_around and reading.get(self.key(source, 1)) is None:
            return BoundsRequest(
                source=source, interval=self.interval, now=reading.now, cadence=self.job.cadence
            ), {}
        around = BoundsAround(store=self.store, job=self.job, interval=self.interval, source=source)
        own, after = around.from_here_on()
        for recorded in own:
            self._refuse_other_interval(source, recorded)
        before = around.before() if source.looks_around else Side()
        if source.looks_around:
            for record in (*before.newest, *after.newest):
                self._refuse_overlap(source, record)
        asked = BoundsRequest(
            source=source,
            interval=self.interval,
            before=before.newest,
            after=after.newest,
            beyond=before.beyond,
            past=after.beyond,
            also_read=around.also_read(before, after),
            now=reading.now,
            cadence=self.job.cadence,
        )
        return asked, {recorded.bounds.revision: recorded for recorded in own}

    def _refuse_other_interval(self, source: Source, record: SourceRecord) -> None:
        if record.interval not in (None, self.interval):
            raise TopologyError(
                f"bounds of source {source.name!r} are recorded for {record.interval}, which job {record.job!r} began; "
                f"{self.job.name!r} asks for {self.interval}.",
                next_step="read them as a source of another name."
                if source.looks_around
                else "read them as a source of another name, or leave this epoch out: `airflow epochs skip`.",
                source=source.name,
                interval=self.interval,
                expected=str(record.interval),
                found=str(self.interval),
            )

    def _refuse_overlap(self, source: Source, record: SourceRecord) -> None:
        """Refuse an interval that overlaps one of another calendar: no epoch would read the data before it."""
        interval = record.interval
        if interval is not None and interval.overlaps(self.interval) and not record.bounds.is_empty:
            self._refuse_other_interval(source, record)


def _refuse_shared(source: Source, cadence: Cadence, interval: Interval) -> None:
    """Refuse a location that *interval* shares with a neighbour, where each epoch reads all files of its location.

    With ``late="next"`` the neighbours' bounds tell which files are read; ``"ignore"`` asks for shared files.

    :raises InvalidInput: several epochs would read the same files.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Bounds that an attempt reads of one source. :param record: to be written, of new bounds."""

    source: Source
    bounds: SourceBounds
    record: SourceRecord | None = None
    readers: SourceDependents = field(default_factory=SourceDependents)
    note: str = ""


def _note(record: SourceRecord) -> str:
    """Return the entry of an epoch's log about bounds that were bound anew; empty for others."""
    if not record.reason:
        return ""
    return f"{record.bounds.source}: revision {record.bounds.revision}, bound anew by {record.by}: {record.reason}"


def _refuse_too_long(records: Iterable[SourceRecord]) -> None:
    """Refuse *records* whose lists of files exceed one transaction.

    :raises InvalidInput: with the source that has the longest list.
    """
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
        expected=f"at most {MOST_PACKED_BYTES} bytes, packed",
        count=longest.bounds.count,
    )
