"""Rows that an ``ignore`` edge has left behind: which they are, from the commits alone (R18).

An epoch is outdated when it has read, by such an edge, what stands there no longer, and when it has read the rows of
another outdated epoch. A cut names the tables of which it reads such rows.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.outdated import Outdated
from airflow_provider.testing.simulation.changing.plan import Range
from airflow_provider.testing.simulation.changing.truth import Truth
from airflow_provider.testing.simulation.history import expect

_Epoch = tuple[str, datetime]
_Missed = dict[str, int]
"""Sources with the newest commit of each that an epoch does not know."""


def check_labels(truth: Truth, cut: Cut) -> bool:
    """Compare the labels of *cut* with the commits; say whether any row of it is outdated.

    :raises Violation: outdated rows without a label, or a label of a source that was never computed again.
    """
    if not any(read.ignores for reads in truth.reads.values() for read in reads):
        found_labels = [one for one in cut.outdated if not one.revision]
        expect(not found_labels, "R18", f"{found_labels}: no edge ignores revisions")
        return False
    outdated = _outdated(truth)
    labels = {(str(one.table), str(one.source)): one for one in cut.outdated if not one.revision}
    found = False
    for name, state in cut.states.items():
        table = str(name)
        for end in truth.visible(table, Range(low=None, high=state.barrier), cut.csn):
            epoch = truth.owners[table], _start(truth, table, end)
            for source, csn in outdated.get(epoch, {}).items():
                found = True
                label = labels.get((table, source))
                what = f"{table} of {epoch[1]:%H:%M} has not read {source} of CSN {csn}: {label}"
                expect(label is not None and _covers(label, epoch[1], end, csn), "R18", what)
    for one in labels.values():
        expect(truth.rewrites(str(one.source)) > 0, "R18", f"{one}: it was never computed again")
    return found


def _covers(label: Outdated, start: datetime, end: datetime, csn: int) -> bool:
    return label.start <= start and (label.end is None or end <= label.end) and csn <= label.csn


def _outdated(truth: Truth) -> dict[_Epoch, _Missed]:
    found: defaultdict[_Epoch, _Missed] = defaultdict(dict)
    for epoch, reads in truth.reads.items():
        for read in reads:
            later = truth.seen(read.table, read.range, truth.csn) - read.slices
            if read.ignores and later:
                found[epoch][read.table] = max(csn for _, csn in later)
    while _spread(truth, found):
        pass
    return found


def _spread(truth: Truth, found: defaultdict[_Epoch, _Missed]) -> bool:
    """Let those that have read outdated rows be outdated, too; say whether any were not before."""
    before = sum(len(one) for one in found.values())
    for epoch, reads in truth.reads.items():
        for read in reads:
            for end, _ in read.slices & truth.seen(read.table, read.range, truth.csn):
                writer = truth.owners[read.table], _start(truth, read.table, end)
                for source, csn in found.get(writer, {}).items() if writer != epoch else ():
                    found[epoch][source] = max(csn, found[epoch].get(source, 0))
    return before < sum(len(one) for one in found.values())


def _start(truth: Truth, table: str, end: datetime) -> datetime:
    return truth.starts(table)[end]
