"""What is recorded of the source of a domain that changes, and who stands on it (I4, I11)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_provider.domain.epoch import Commitment, EpochRecord
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key
from airflow_provider.domain.source_bounds import SourceBounds, SourceRecord
from tests.simulator.changing.counted import Counted
from tests.simulator.history import expect, moment_of

FIRST = "landing"
"""The name of the source as it is declared first."""
BOUND = "it came late"
"""Why a person has bounds recorded anew."""
Labels = tuple[str, ...]
"""What tells the rows of a source apart, also from those that they replace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """One revision of the bounds at a barrier."""

    interval: Interval
    bounds: SourceBounds
    labels: Labels


@dataclass(slots=True)
class Sourced:
    """The bounds of the source, by the source's name, barrier and revision.

    :param labels: says what lies within bounds. :ivar found: all of them. :ivar counted: who has read them.
    """

    labels: Callable[[SourceBounds], Labels]
    counted: Counted = field(default_factory=Counted)
    found: dict[tuple[str, datetime, int], Landed] = field(default_factory=dict)
    _recorded: set[str] = field(default_factory=set)
    _stands: dict[tuple[str, Interval], Mapping[str, int]] = field(default_factory=dict)

    def record(self, key: Key[Any], record: SourceRecord) -> None:
        """Take bounds that were recorded."""
        barrier, _, revision = key.item.partition(":")
        assert record.interval is not None
        found = Landed(
            interval=record.interval,
            bounds=record.whole,
            labels=self.labels(record.whole),
        )
        self.found[key.partition, moment_of(barrier), int(revision)] = found
        self._recorded.add(key.partition)
        if record.reason == BOUND:
            self.counted.bound_anew(found.interval)

    def take(self, job: str, record: EpochRecord) -> None:
        """Take the record of an epoch; no file that it reads was read by another of *job* (I11)."""
        if self.counted.take(job, record):
            self.counted.files_of(job, self.bounds)

    def check_chain(self, where: str) -> None:
        """Look at the spans of all barriers after a transaction.

        :raises Violation: rows of the source are left out, or two barriers have them.
        """
        recorded, self._recorded = self._recorded, set()
        for name in recorded:
            edge = None
            for bounds in self.newest(name).values():
                if bounds.span is not None:
                    what = f"{where}: a span of {name} begins at {bounds.span.low}, the one before it ends at {edge}"
                    expect(bounds.span.low == edge, "I11", what)
                    edge = bounds.span.high

    @property
    def names(self) -> list[str]:
        """The sources of which bounds are recorded."""
        return list(dict.fromkeys(name for name, _, _ in self.found))

    def newest(self, name: str = FIRST) -> dict[Interval, SourceBounds]:
        """The newest revision of each interval, in the order of time."""
        return {
            self.found[place].interval: self.found[place].bounds
            for place in sorted(self.found)
            if place[0] == name
        }

    def has_bounds(self, epoch: Interval) -> bool:
        """Whether any are recorded of *epoch*."""
        return any(landed.interval == epoch for landed in self.found.values())

    def bounds(self, name: str, epoch: Interval, revision: int) -> SourceBounds | None:
        """Return what is recorded of *epoch* in a *revision*, in the newest where it is 0."""
        if revision:
            return self.found[name, epoch.end, revision].bounds
        return self.newest(name).get(epoch)

    def commit(
        self,
        job: str,
        epoch: Interval,
        done: Commitment,
        name: str,
        where: str,
        *,
        behind: Collection[tuple[str, Interval]],
    ) -> Labels:
        """Take a commit that reads the source by *name*; return what it has read.

        :param behind: epochs that are to be computed again: all others at one barrier have read one revision (I4, I11).
        """
        revision = dict(done.source_revisions)[name]
        self._stands[job, epoch] = dict(done.source_revisions)
        found = self.found[name, epoch.end, revision].labels
        for (other, at), stands in self._stands.items():
            apart = (job, epoch) in behind or (other, at) in behind
            if at.end == epoch.end and name in stands and not apart:
                read = self.found[name, epoch.end, stands[name]].labels
                what = f"{where}: revision {revision} of {name}, {other} has {stands[name]}"
                expect(read == found, "I4", what)
        return found

    def leave(self, job: str, epoch: Interval) -> None:
        """Take a commit that reads nothing of it."""
        self._stands.pop((job, epoch), None)
