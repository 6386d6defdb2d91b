"""What is recorded of the source of a domain that changes, and who stands on it (I4, I11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.epoch import Commitment
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key
from airflow_provider.domain.roots import RootBounds, RootRecord
from airflow_provider.testing.simulation.history import expect, moment_of

Labels = tuple[str, ...]
"""What tells the rows of a source apart, also from those that they replace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Landed:
    """One revision of the bounds at a barrier. :param bound_anew: a person has said so."""

    interval: Interval
    bounds: RootBounds
    labels: Labels
    bound_anew: bool


@dataclass(slots=True)
class Sourced:
    """The bounds of the source, by barrier and revision.

    :param labels: says what lies within bounds. :ivar found: all of them.
    """

    labels: Callable[[RootBounds], Labels]
    found: dict[tuple[datetime, int], Landed] = field(default_factory=dict)
    _stands: dict[tuple[str, datetime], int] = field(default_factory=dict)

    def record(self, key: Key, record: RootRecord) -> None:
        """Take bounds that were recorded.

        :raises Violation: rows of the source are left out, or two barriers have them.
        """
        barrier, _, revision = key.item.partition(":")
        assert record.interval is not None
        found = Landed(
            interval=record.interval,
            bounds=record.whole,
            labels=self.labels(record.whole),
            bound_anew=bool(record.reason),
        )
        self.found[moment_of(barrier), int(revision)] = found
        edge = None
        for bounds in self.newest().values():
            if bounds.span is not None:
                what = f"{key}: a span begins at {bounds.span.low}, the one before it ends at {edge}"
                expect(bounds.span.low == edge, "I11", what)
                edge = bounds.span.high

    def newest(self) -> dict[Interval, RootBounds]:
        """The newest revision of each interval, in the order of time."""
        return {self.found[one].interval: self.found[one].bounds for one in sorted(self.found)}

    def commit(self, job: str, epoch: Interval, done: Commitment, where: str, *, reads: bool) -> Labels:
        """Take a commit; return what it has read: all that stands at one barrier has read one revision (I4, I11)."""
        if not reads:
            self._stands.pop((job, epoch.end), None)
            return ()
        revision = dict(done.root_revisions).get("landing", 1)
        self._stands[job, epoch.end] = revision
        for (other, barrier), found in self._stands.items():
            same = barrier != epoch.end or self._may_stand(barrier, found, revision)
            expect(same, "I4", f"{where}: revision {revision} of its source, {other} has {found}")
        return self.found[epoch.end, revision].labels

    def _may_stand(self, barrier: datetime, earlier: int, revision: int) -> bool:
        """Whether a commit may read *revision* while another stands on *earlier*: the same, or it was left behind."""
        if self.found[barrier, earlier].labels == self.found[barrier, revision].labels:
            return True
        return any(self.found[barrier, number].bound_anew for number in range(earlier + 1, revision + 1))
