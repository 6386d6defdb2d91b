"""Rows of an earlier revision than those of other tables of their epoch: which they are, from the commits alone (R18).

A revision that only adds tables which an epoch lacks (R7) puts none behind. Any other does: each table that it does not
write, and what was computed from such rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.outdated import Outdated
from tests.simulator.changing.plan import Range
from tests.simulator.changing.records import HasRead
from tests.simulator.history import Slice, expect

if TYPE_CHECKING:
    from tests.simulator.changing.truth import Truth

_Place = tuple[str, datetime]
"""A table and the end of one of its epochs."""
_Rows = dict[str, int]
"""Tables of which rows stayed, each with the commit since which they are of an earlier revision."""


@dataclass(slots=True)
class Stayed:
    """What each commit has computed: whole epochs, and each slice from what."""

    _whole: defaultdict[tuple[str, datetime], list[int]] = field(default_factory=lambda: defaultdict(list))
    _reads: dict[tuple[str, datetime, int], tuple[HasRead, ...]] = field(default_factory=dict)
    _written: set[_Place] = field(default_factory=set)

    def commit(
        self,
        job: str,
        tables: Iterable[str],
        end: datetime,
        csn: int,
        reads: tuple[HasRead, ...],
        *,
        fills: bool,
    ) -> None:
        """Take a commit of *job*. :param fills: whether it says of itself that it adds tables which lack the epoch."""
        for table in tables:
            known = fills and (table, end) in self._written
            expect(not known, "R7", f"{job} at CSN {csn} fills {table} of {end:%H:%M}, which has it")
            self._written.add((table, end))
            self._reads[table, end, csn] = reads
        if not fills:
            self._whole[job, end].append(csn)

    def at(self, truth: Truth, csn: int) -> dict[_Place, int]:
        """The slices that are of an earlier revision at *csn* than others of their epoch, and since which commit."""
        again = {place: csns for place, csns in self._whole.items() if len(csns) > 1}
        found = {}
        for table, job in truth.owners.items() if again else ():
            for end, slice_ in truth.newest(table, csn).items():
                later = [at for at in again.get((job, end), ()) if slice_.csn < at <= csn]
                if later:
                    found[table, end] = min(later)
        return found

    def reads_of(self, table: str, slice_: Slice) -> list[HasRead]:
        """What *slice_* was computed from; the copy that a skipped epoch has is of its own table alone."""
        reads = self._reads[table, slice_.interval.end, slice_.csn]
        return [read for read in reads if not read.copies or read.table == table]


@dataclass(slots=True)
class _Spread:
    """What slices have of rows that stayed: their own, and what stood at *csn* where they read it."""

    truth: Truth
    csn: int
    stayed: dict[_Place, int]
    _known: dict[_Place, _Rows] = field(default_factory=dict)

    def of(self, table: str, slice_: Slice) -> _Rows:
        place = table, slice_.interval.end
        if place not in self._known:
            found = self._known[place] = {table: self.stayed[place]} if place in self.stayed else {}
            for read in self.truth.mixing.stayed.reads_of(table, slice_):
                now = self.truth.newest(read.table, self.csn)
                for end, csn in read.slices:
                    if now[end].csn == csn:
                        for source, since in self.of(read.table, now[end]).items():
                            found[source] = min(since, found.get(source, since))
        return self._known[place]


def check_stayed(truth: Truth, cut: Cut) -> bool:
    """Say whether *cut* has rows of an earlier revision of an epoch than other tables have.

    :raises Violation: it has, and carries no label of it; or it carries one although nothing stayed.
    """
    stayed = check_own(truth, cut)
    spread = _Spread(truth, cut.csn, stayed)
    labels = {(str(label.table), str(label.source)): label for label in cut.outdated if label.job}
    found = False
    for name, slice_ in _slices(truth, cut) if stayed else ():
        for source, since in spread.of(name, slice_).items():
            found, label = True, labels.get((name, source))
            told = label is not None and _covers(label, slice_) and label.csn <= since
            what = f"{name} of {slice_.interval} has rows of {source} that stayed at CSN {since}: {label}"
            expect(told, "R18", what)
    return found


def check_own(truth: Truth, cut: Cut) -> dict[_Place, int]:
    """Compare the labels of *cut* with the rows that had stayed at its CSN, which are returned; what was computed from
    these rows apart.

    :raises Violation: rows that stayed without a label, or a label of rows that had not.
    """
    stayed = truth.mixing.stayed.at(truth, cut.csn)
    labels = [label for label in cut.outdated if label.job]
    told = {str(label.table): label for label in labels if label.table == label.source}
    for label in labels:
        own = {end: since for (table, end), since in stayed.items() if table == label.source}
        expect(bool(own), "R18", f"{label}: nothing of {label.source} had stayed at CSN {cut.csn}")
        expect(label.job == truth.owners[str(label.source)], "R18", label)
        low = min((truth.starts(str(label.source))[end] for end in own), default=label.start)
        exact = label.start <= low and (label.end is None or label.end >= max(own))
        exact = exact and label.csn == min(own.values())
        expect(exact or label.table != label.source, "R18", f"{label}: at CSN {cut.csn} {own} had stayed")
    for name, slice_ in _slices(truth, cut) if stayed else ():
        own_label = told.get(name)
        covered = own_label is not None and _covers(own_label, slice_)
        missing = (name, slice_.interval.end) in stayed and not covered
        expect(not missing, "R18", f"{name} of {slice_.interval} had stayed at CSN {cut.csn}: {own_label}")
    return stayed


def _slices(truth: Truth, cut: Cut) -> Iterator[tuple[str, Slice]]:
    for name, state in cut.states.items():
        for slice_ in truth.visible(str(name), Range(low=None, high=state.barrier), cut.csn).values():
            yield str(name), slice_


def _covers(label: Outdated, slice_: Slice) -> bool:
    return label.start <= slice_.interval.start and (label.end is None or slice_.interval.end <= label.end)
