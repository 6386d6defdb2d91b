"""What is recorded of the source of a domain that changes, and who stands on it (I4, I11)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.epoch import Commitment
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key
from airflow_provider.domain.roots import RootBounds, RootRecord
from airflow_provider.testing.simulation.changing.counted import Counted
from airflow_provider.testing.simulation.history import expect, moment_of

BOUND = "it came late"
"""Why a person has bounds recorded anew."""
Labels = tuple[str, ...]
"""What tells the rows of a source apart, also from those that they replace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """One revision of the bounds at a barrier."""

    interval: Interval
    bounds: RootBounds
    labels: Labels


@dataclass(slots=True)
class Sourced:
    """The bounds of the source, by barrier and revision.

    :param labels: says what lies within bounds. :ivar found: all of them. :ivar counted: who has read them.
    """

    labels: Callable[[RootBounds], Labels]
    counted: Counted = field(default_factory=Counted)
    found: dict[tuple[datetime, int], Landed] = field(default_factory=dict)
    _recorded: bool = False
    _stands: dict[tuple[str, Interval], int] = field(default_factory=dict)

    def record(self, key: Key, record: RootRecord) -> None:
        """Take bounds that were recorded."""
        barrier, _, revision = key.item.partition(":")
        assert record.interval is not None
        found = Landed(
            interval=record.interval,
            bounds=record.whole,
            labels=self.labels(record.whole),
        )
        self.found[moment_of(barrier), int(revision)] = found
        self._recorded = True
        if record.reason == BOUND:
            self.counted.bound_anew(found.interval)

    def check_chain(self, where: str) -> None:
        """Look at the spans of all barriers after a transaction.

        :raises Violation: rows of the source are left out, or two barriers have them.
        """
        if not self._recorded:
            return
        edge, self._recorded = None, False
        for bounds in self.newest().values():
            if bounds.span is not None:
                what = f"{where}: a span begins at {bounds.span.low}, the one before it ends at {edge}"
                expect(bounds.span.low == edge, "I11", what)
                edge = bounds.span.high

    def newest(self) -> dict[Interval, RootBounds]:
        """The newest revision of each interval, in the order of time."""
        return {self.found[one].interval: self.found[one].bounds for one in sorted(self.found)}

    def bounds(self, epoch: Interval, revision: int) -> RootBounds | None:
        """Return what is recorded of *epoch* in a *revision*, in the newest where it is 0."""
        if revision:
            return self.found[epoch.end, revision].bounds
        return self.newest().get(epoch)

    def commit(
        self,
        job: str,
        epoch: Interval,
        done: Commitment,
        where: str,
        behind: Collection[tuple[str, Interval]],
    ) -> Labels:
        """Take a commit that reads the source; return what it has read.

        :param behind: epochs that are to be computed again: all others at one barrier have read one revision (I4, I11).
        """
        revision = dict(done.root_revisions).get("landing", 1)
        self._stands[job, epoch] = revision
        found = self.found[epoch.end, revision].labels
        for other, at in self._stands:
            if at.end == epoch.end and (job, epoch) not in behind and (other, at) not in behind:
                read = self.found[epoch.end, self._stands[other, at]].labels
                what = f"{where}: revision {revision} of its source, {other} has {self._stands[other, at]}"
                expect(read == found, "I4", what)
        return found

    def leave(self, job: str, epoch: Interval) -> None:
        """Take a commit that reads nothing of it."""
        self._stands.pop((job, epoch), None)
