"""LIV1 and LIV2 without this package."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from tests.anomalies.plain.cascade import Cascade, observed
from tests.anomalies.plain.tables import IcebergTables, Refused
from tests.anomalies.verdicts import Observed

COMMITS = 100
"""How many of the 10,000: each takes as long as a third of a second."""


def liv1(cascade: Cascade) -> Observed:
    """A write of epoch 1 takes seconds, meanwhile another job commits epoch after epoch of D; both must be there."""
    tables, quick = cascade.tables, 1
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(tables.replace, "d", tables.slowly(1, 1), tables.begun("d"))
        while not writing.done():
            quick += 1
            cascade.write("d", quick, [quick])
    was_refused = isinstance(writing.exception(), Refused)
    if not was_refused:
        writing.result()
    (d,) = cascade.see("d")
    return observed(
        not was_refused and d == {epoch: [epoch] for epoch in range(1, quick + 1)},
        the_slow_epoch=d.get(1, []),
        commits_beside_it=quick - 1,
    )


def liv2(cascade: Cascade) -> Observed:
    """Nothing has expired for 100 commits (empty ones, by Iceberg's own interface); the first cleanup must work."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    tables.commit_empty("d", COMMITS)
    cascade.write("d", 1, [1])
    before = tables.snapshots("d")
    tables.expire("d", datetime.now(UTC) + timedelta(seconds=1))
    (d,) = cascade.see("d")
    after = tables.snapshots("d")
    return observed(
        (after, d) == (1, {1: [1]}), snapshots_before=before, snapshots_afterwards=after, d_afterwards=d
    )
