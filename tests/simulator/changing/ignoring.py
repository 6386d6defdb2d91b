"""Rows that an ``ignore`` edge has left behind: which they are, from the commits alone (R18).

An epoch is outdated when it has read, by such an edge, what stands there no longer, and when it has read the rows of
another outdated epoch. A cut names the tables of which it reads such rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.outdated import Outdated
from tests.simulator.changing.plan import Range
from tests.simulator.changing.records import HasRead
from tests.simulator.changing.truth import Truth
from tests.simulator.history import expect

_Slice = tuple[str, datetime]
"""A table and the start of one of its epochs."""
_Missed = dict[str, int]
"""Sources with the newest commit of each that a slice does not know."""


def check_labels(truth: Truth, cut: Cut) -> bool:
    """Compare the labels of *cut* with the commits; say whether any row of it is outdated.

    :raises Violation: outdated rows without a label, or a label of a source that was never computed again.
    """
    if not any(read.ignores for reads in truth.reads.values() for read in reads):
        found_labels = [label for label in cut.outdated if not label.revision and not label.job]
        expect(not found_labels, "R18", f"{found_labels}: no edge ignores revisions")
        return False
    outdated = _outdated(truth)
    told = [label for label in cut.outdated if not label.revision and not label.job]
    labels = {(str(label.table), str(label.source)): label for label in told}
    found = False
    for name, state in cut.states.items():
        table = str(name)
        for end in truth.visible(table, Range(low=None, high=state.barrier), cut.csn):
            start = _start(truth, table, end)
            for source, csn in outdated.get((table, start), {}).items():
                found = True
                label = labels.get((table, source))
                what = f"{table} of {start:%H:%M} has not read {source} of CSN {csn}: {label}"
                expect(label is not None and _covers(label, start, end, csn), "R18", what)
    for label in labels.values():
        expect(truth.rewrites(str(label.source)) > 0, "R18", f"{label}: it was never computed again")
    return found


def _covers(label: Outdated, start: datetime, end: datetime, csn: int) -> bool:
    return label.start <= start and (label.end is None or end <= label.end) and csn <= label.csn


def _outdated(truth: Truth) -> dict[_Slice, _Missed]:
    read_by = list(_read_by(truth))
    found: defaultdict[_Slice, _Missed] = defaultdict(dict)
    for place, read in read_by:
        later = truth.seen(read.table, read.range, truth.csn) - read.slices
        if read.ignores and later:
            found[place][read.table] = max(csn for _, csn in later)
    while _spread(truth, found, read_by):
        pass
    return found


def _read_by(truth: Truth) -> Iterator[tuple[_Slice, HasRead]]:
    """What each slice was computed from; the copy that a skipped epoch has is of its own table alone."""
    tables: defaultdict[str, list[str]] = defaultdict(list)
    for table, job in truth.owners.items():
        tables[job].append(table)
    for (job, start), reads in truth.reads.items():
        for table in tables[job]:
            yield from (((table, start), read) for read in reads if not read.copies or read.table == table)


def _spread(
    truth: Truth, found: defaultdict[_Slice, _Missed], read_by: Iterable[tuple[_Slice, HasRead]]
) -> bool:
    """Let what was computed from outdated rows be outdated, too; say whether any was not before."""
    before = sum(len(missed) for missed in found.values())
    for place, read in read_by:
        for end, _ in read.slices & truth.seen(read.table, read.range, truth.csn, stored=read.copies):
            written = read.table, _start(truth, read.table, end)
            for source, csn in found.get(written, {}).items() if written != place else ():
                found[place][source] = max(csn, found[place].get(source, 0))
    return before < sum(len(missed) for missed in found.values())


def _start(truth: Truth, table: str, end: datetime) -> datetime:
    return truth.starts(table)[end]
