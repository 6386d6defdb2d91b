"""What an epoch reads of its job's roots: as it was recorded first, else as their sources say now (I11).

Bounds that depend on those of the barriers beside them are recorded one after the other: each requires the version of
the root's *chain* that it was decided on, and writes it anew, so that of two begins that race one looks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from airflow_provider.domain.epoch import AttemptRecord, EpochRecord
from airflow_provider.domain.errors import InvalidInput, TopologyError
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Key, Kind, Stamped, chain_key, root_key
from airflow_provider.domain.roots import (
    Asked,
    Late,
    Root,
    RootBounds,
    RootRecord,
    check_bounds,
    root_revision,
)
from airflow_provider.domain.topology import EpochJob
from airflow_provider.domain.version import FenceRecord
from airflow_provider.stores.base import MetadataReader, Reading, pages

_PAGE = 50


class RootSource(Protocol):
    """Whoever can ask the sources of roots. Asked last, when all else allows the attempt; again when a race is lost."""

    def bounds(self, asked: Asked) -> RootBounds:
        """Return what is there now, from the end of the barrier before to the begin of the one after.

        :raises NotReady: it is not there yet. :raises SourceUnavailable: the source does not answer.
        :raises Unavailable: what was recorded at the barrier before is there no longer, or has grown.
        """

    def holds(self, asked: Asked, recorded: RootBounds) -> bool:
        """Whether *recorded* is still what lies there; asked of roots whose ``late`` is revision or refuse.

        :raises Unavailable: data came late, and is refused.
        """


@dataclass(frozen=True, slots=True)
class Proposed:
    """Bounds that were thought of beforehand, of roots by name."""

    known: Mapping[str, RootBounds]

    def bounds(self, asked: Asked) -> RootBounds:
        """:raises InvalidInput: none of this root."""
        name = asked.root.name
        proposed = self.known.get(name)
        if proposed is None or proposed.root != name:
            raise InvalidInput(
                field="roots",
                value=sorted(self.known) if proposed is None else proposed.root,
                expected=f"bounds of the root {name!r}",
                next_step="let sources.roots.RootSources ask for them at begin.",
            )
        return proposed

    def holds(self, asked: Asked, recorded: RootBounds) -> bool:  # noqa: ARG002
        """Nobody looks."""
        return True


def as_source(roots: RootSource | Mapping[str, RootBounds] | None) -> RootSource:
    """What asks the sources of roots; bounds that are there already are not asked for."""
    return Proposed(roots or {}) if roots is None or isinstance(roots, Mapping) else roots


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    """What an attempt reads of each root, and what is to be recorded with it.

    :param records: absent until then. :param chains: required as they were read, and written anew.
    :param is_new: another attempt at this revision of the epoch has read other bounds.
    """

    bounds: tuple[RootBounds, ...]
    records: Mapping[Key, RootRecord]
    chains: tuple[Key, ...]
    is_new: bool

    @property
    def required(self) -> tuple[Key, ...]:
        return (*self.records, *self.chains)

    @property
    def updates(self) -> Mapping[Key, Any]:
        return {**self.records, **dict.fromkeys(self.chains, FenceRecord())}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounding:
    """The bounds of the roots of *job* for one epoch.

    :param roots: those that the attempt reads. :param source: is asked where nobody has recorded bounds before.
    """

    store: MetadataReader
    job: EpochJob
    interval: Interval
    roots: tuple[Root, ...]
    source: RootSource

    @property
    def keys(self) -> list[Key]:
        """What begin reads in the same look as all else it decides on."""
        first = [self._key(root, 1) for root in self.roots]
        return [*first, *(chain_key(self.job.domain, root.name) for root in self.roots if root.looks_around)]

    def bounded(self, reading: Reading, epoch: EpochRecord | None, revision: int, *, adopts: bool) -> Bounded:
        """Return what the attempt at *revision* reads of each root.

        :param adopts: it publishes what an earlier attempt computed, whose bounds it keeps as they were.
        :raises InvalidInput: of one nothing is recorded, and what is proposed cannot be.
        :raises TopologyError: what is recorded is of another interval that ends at the same barrier.
        """
        bounds: list[RootBounds] = []
        records: dict[Key, RootRecord] = {}
        chains: list[Key] = []
        is_new = False
        started = _read_by(epoch.attempt if epoch else None, revision)
        for root in self.roots:
            asked, recorded = self._asked(reading, root)
            newest = max(recorded, default=0)
            wanted = root_revision(root.late, newest, started.get(root.name), _committed(epoch, root))
            found = recorded.get(wanted)
            if found is not None and not adopts and not self._holds(asked, found.bounds):
                found = recorded[newest] if newest > wanted else None  # somebody else's, made since
                if found is None or not self._holds(asked, found.bounds):
                    wanted, found = newest + 1, None
                is_new = is_new or root.name in started
            if found is None:
                found = self._asked_for(asked, wanted)
                records[self._key(root, wanted)] = found
                chains.extend([chain_key(self.job.domain, root.name)] if root.looks_around else [])
            bounds.append(found.bounds)
        return Bounded(bounds=tuple(bounds), records=records, chains=tuple(chains), is_new=is_new)

    def _holds(self, asked: Asked, recorded: RootBounds) -> bool:
        late = asked.root.late
        return late not in (Late.REVISION, Late.REFUSE) or self.source.holds(asked, recorded)

    def _asked_for(self, asked: Asked, revision: int) -> RootRecord:
        bounds = self.source.bounds(asked)
        check_bounds(asked, bounds)
        return RootRecord(
            bounds=replace(bounds, revision=revision), job=self.job.name, interval=self.interval
        )

    def _key(self, root: Root, revision: int) -> Key:
        return root_key(self.job.domain, root.name, self.interval.end, revision)

    def _asked(self, reading: Reading, root: Root) -> tuple[Asked, dict[int, RootRecord]]:
        """What to ask the source of *root*, and what is recorded at this barrier, by revision."""
        if not root.looks_around and root.late is not Late.REVISION:
            first = reading.get(self._key(root, 1))
            own = [] if first is None else [first.record]
            after: tuple[RootRecord, ...] = ()
        else:
            own, after = self._from_here_on(root)
        for one in own:
            self._refuse_other_interval(root, one)
        asked = Asked(
            root=root,
            interval=self.interval,
            before=self._before(root) if root.looks_around else (),
            after=after,
        )
        return asked, {one.bounds.revision: one for one in own}

    def _from_here_on(self, root: Root) -> tuple[list[RootRecord], tuple[RootRecord, ...]]:
        """What is recorded at this barrier, and in their newest revisions at as many later ones as it depends on."""
        here = time_key(self.interval.end)
        own: list[RootRecord] = []
        later: dict[str, RootRecord] = {}
        for one in pages(self.store, self.job.domain, Kind.ROOT, root.name, start=here, size=_PAGE):
            barrier = _barrier_of(one)
            if barrier == here:
                own.append(one.record)
            elif barrier not in later and len(later) == root.looks_around:
                break
            else:
                later[barrier] = one.record
        return own, tuple(later.values())

    def _before(self, root: Root) -> tuple[RootRecord, ...]:
        """The newest revisions at as many earlier barriers as it depends on."""
        earlier: dict[str, RootRecord] = {}
        for one in self._backwards(root, time_key(self.interval.end)):
            barrier = _barrier_of(one)
            if barrier not in earlier and len(earlier) == root.looks_around:
                break
            earlier.setdefault(barrier, one.record)
        return tuple(earlier.values())

    def _backwards(self, root: Root, end: str) -> Iterator[Stamped[RootRecord]]:
        while True:
            page: list[Stamped[RootRecord]] = self.store.scan(
                self.job.domain, Kind.ROOT, root.name, end=end, limit=_PAGE, reverse=True
            )
            yield from page
            if len(page) < _PAGE:
                return
            end = page[-1].key.item

    def _refuse_other_interval(self, root: Root, record: RootRecord) -> None:
        if record.interval not in (None, self.interval):
            raise TopologyError(
                f"the bounds of root {root.name!r} at {self.interval.end.isoformat()} are recorded for "
                f"{record.interval}, which job {record.job!r} began; {self.job.name!r} asks for {self.interval}.",
                next_step="read them as a root of another name, or leave this epoch out: `airflow epochs skip`.",
                root=root.name,
                expected=self.interval,
                found=record.interval,
            )


def _barrier_of(stamped: Stamped[RootRecord]) -> str:
    return stamped.key.item.partition(":")[0]


def _read_by(attempt: AttemptRecord | None, revision: int) -> dict[str, int]:
    """The root revisions that an earlier attempt at *revision* of the epoch has read."""
    if attempt is None or attempt.revision != revision:
        return {}
    return {one.root: one.revision for one in attempt.roots}


def _committed(epoch: EpochRecord | None, root: Root) -> int:
    """The revision of *root* that the epoch's committed revision has read; 0 when there is none, or it was skipped."""
    if epoch is None or epoch.committed is None or epoch.committed.skipped:
        return 0
    return dict(epoch.committed.root_revisions).get(root.name, 1)
