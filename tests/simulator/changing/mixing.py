"""What rows are made of: no epoch, and no cut without a label, has two revisions of the source at one barrier (R18)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.interval import Interval
from tests.simulator.changing.plan import Range
from tests.simulator.changing.records import HasRead
from tests.simulator.changing.sourced import Labels
from tests.simulator.changing.staying import Stayed
from tests.simulator.history import expect

if TYPE_CHECKING:
    from tests.simulator.changing.truth import Truth

Made = dict[tuple[datetime, str], set[Labels]]
"""What was read of the source, by barrier and name: by two names it may differ."""


@dataclass(slots=True)
class Mixing:
    """What each slice is made of, through all that was read by edges that mind revisions.

    :ivar stayed: what is of an earlier revision than other tables of its epoch.
    """

    stayed: Stayed = field(default_factory=Stayed)
    _made: dict[tuple[str, datetime, int], Made] = field(default_factory=dict)

    def commit(
        self,
        tables: Iterable[str],
        epoch: Interval,
        csn: int,
        own: tuple[str, Labels],
        reads: Iterable[HasRead],
    ) -> Made:
        """Take a commit, which has read *own* by a name; return those barriers of which it has rows of several
        revisions.
        """
        parts = [
            self._made[read.table, end, at] for read in reads if not read.ignores for end, at in read.slices
        ]
        (name, labels) = own
        made = _together([*parts, *([{(epoch.end, name): {labels}}] if labels else [])])
        for table in tables:
            self._made[table, epoch.end, csn] = made
        return _several(made)

    def of(self, slices: Iterable[tuple[str, datetime, int]]) -> Made:
        """Return those barriers of which *slices* together have rows of several revisions."""
        return _several(_together(self._made[slice_] for slice_ in slices))


def _together(parts: Iterable[Made]) -> Made:
    found: defaultdict[tuple[datetime, str], set[Labels]] = defaultdict(set)
    for part in parts:
        for barrier, labels in part.items():
            found[barrier] |= labels
    return dict(found)


def _several(made: Made) -> Made:
    return {barrier: labels for barrier, labels in made.items() if len(labels) > 1}


def check_mixture(truth: Truth, cut: Cut) -> bool:
    """Say whether *cut* has rows of several revisions of the source at one barrier.

    :raises Violation: it has, and carries no label of it.
    """
    slices = [
        (str(name), end, slice_.csn)
        for name, state in cut.states.items()
        for end, slice_ in truth.visible(str(name), Range(low=None, high=state.barrier), cut.csn).items()
    ]
    mixed = truth.mixing.of(slices)
    labels = [label for label in cut.outdated if label.revision]
    for (barrier, name), labels_read in mixed.items():
        told = any(label.start < barrier and (label.end is None or barrier <= label.end) for label in labels)
        what = f"{sorted(cut.states)} at CSN {cut.csn} have {labels_read} of {name} {barrier:%H:%M}: {cut.outdated}"
        expect(told, "R18", what)
    return bool(mixed)
