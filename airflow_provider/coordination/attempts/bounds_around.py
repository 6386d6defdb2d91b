"""Bounds that are recorded around a barrier: they tell which late files and rows other epochs have read (I11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider.coordination.commits.source_dependents import read_by_commits
from airflow_provider.domain.interval import Interval, shifted, time_key
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.source_bounds import Late, Source, SourceKind, SourceRecord
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader, pages, scan

_PAGE = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """Bounds at the barriers before or after an epoch's, the nearest first.

    :param newest: the newest revision at each barrier within reach. :param earlier: the revisions before those.
    :param beyond: the first record beyond reach.
    """

    newest: tuple[SourceRecord, ...] = ()
    earlier: tuple[SourceRecord, ...] = ()
    beyond: SourceRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundsAround:
    """Recorded bounds of *source* around the end of *interval*."""

    store: MetadataReader
    job: Job
    interval: Interval
    source: Source

    def from_here_on(self) -> tuple[list[SourceRecord], Side]:
        """Return all revisions at this barrier, and the bounds at the later barriers."""
        source, here = self.source, time_key(self.interval.end)
        last = time_key(shifted(self.interval.end, source.reach(self.job.cadence)))
        own: list[SourceRecord] = []
        later: dict[str, list[SourceRecord]] = {}
        for stamped in pages(self.store, self.job.domain, SourceRecord, source.name, start=here, size=_PAGE):
            barrier = _barrier_of(stamped)
            if barrier == here:
                own.append(stamped.record)
            elif barrier not in later and (not source.looks_around or (barrier > last and later)):
                return own, _side(later, beyond=stamped.record)
            else:
                later.setdefault(barrier, []).insert(0, stamped.record)
        return own, _side(later)

    def before(self) -> Side:
        """Return the bounds at the earlier barriers."""
        source = self.source
        first = time_key(shifted(self.interval.end, -source.reach(self.job.cadence)))
        earlier: dict[str, list[SourceRecord]] = {}
        for stamped in self._backwards(time_key(self.interval.end)):
            barrier = _barrier_of(stamped)
            if barrier not in earlier and barrier < first and (earlier or not source.has_spans):
                return _side(earlier, beyond=stamped.record)
            earlier.setdefault(barrier, []).append(stamped.record)
        return _side(earlier)

    def also_read(self, *sides: Side) -> tuple[SourceRecord, ...]:
        """Return the earlier revisions with files which the newest lack and committed epochs have read.

        Epochs that `bind` left behind stand on them until they are computed again; members of a restatement, until it
        is published. No epoch begins to stand on an earlier revision, so that begins need not require these epochs.
        """
        source = self.source
        if source.kind is not SourceKind.FILES or source.late is not Late.NEXT:
            return ()
        earlier = [record for side in sides for record in side.earlier]
        intervals = {record.interval for record in earlier}
        newest = {
            record.interval: {file.uri for file in record.whole.files}
            for side in sides
            for record in side.newest
            if record.interval in intervals
        }
        lacking = [
            record
            for record in earlier
            if any(file.uri not in newest.get(record.interval, ()) for file in record.whole.files)
        ]
        return read_by_commits(self.store, self.job.domain, source.name, lacking)

    def _backwards(self, end: str) -> Iterator[Stamped[SourceRecord]]:
        while True:
            page = scan(
                self.store,
                self.job.domain,
                SourceRecord,
                self.source.name,
                end=end,
                limit=_PAGE,
                reverse=True,
            )
            yield from page
            if len(page) < _PAGE:
                return
            end = page[-1].key.item


def _side(barriers: dict[str, list[SourceRecord]], *, beyond: SourceRecord | None = None) -> Side:
    """Return the bounds at *barriers*, each with its revisions, the newest first."""
    return Side(
        newest=tuple(records[0] for records in barriers.values()),
        earlier=tuple(record for records in barriers.values() for record in records[1:]),
        beyond=beyond,
    )


def _barrier_of(stamped: Stamped[SourceRecord]) -> str:
    return stamped.key.item.partition(":")[0]
