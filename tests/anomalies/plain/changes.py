"""CHG1 to CHG5 without this package: what a job declares is in its code, and nothing remembers it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.anomalies.plain.cascade import Cascade, Rows, observed, tried
from tests.anomalies.verdicts import Observed


def chg1(cascade: Cascade) -> Observed:
    """A running total that was to begin at epoch 6 is run from epoch 1; each epoch must build on the one before."""
    for epoch in range(1, 9):
        (before,) = cascade.see("d")
        cascade.write("d", epoch, [max((value for row in before.values() for value in row), default=0) + 1])
    (d,) = cascade.see("d")
    return observed(d == {epoch: [epoch] for epoch in range(1, 9)}, d=d)


def chg2(cascade: Cascade) -> Observed:
    """Days become hours: a day's try fails amid its write, hour 24 is written before hours 19 to 23.

    Then hours become days: a day is being written when an hour's write fails. R must see what did not fail.
    """
    tables, hours = cascade.tables, [(100 + hour, hour, "") for hour in range(19, 25)]
    failed = [not tried(lambda: tables.replace("d", tables.failing(1)))]
    tables.replace("d", tables.frame(hours[-1:]))
    tables.replace("d", tables.frame(hours[:-1]))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(tables.replace, "d", tables.slowly(3, 3))
        failed.append(not tried(lambda: tables.replace("d", tables.failing(224))))
    writing.result()
    found = cascade.rows("d")
    return observed(
        all(failed) and found == [(3, 3, ""), *hours],
        hours_of_d=sum(epoch > 100 for epoch, _, _ in found),
        days_of_d=[epoch for epoch, _, _ in found if epoch < 100],
    )


def chg3(cascade: Cascade) -> Observed:
    """Epochs before the first are computed one by one, four of ten are in; R must not see a table with a hole."""
    for epoch in (11, 12, 13, 1, 2, 3, 4):
        cascade.write("d", epoch, [epoch])
    (d,) = cascade.see("d")
    return observed(_is_whole(d), d=d)


def chg4(cascade: Cascade) -> Observed:
    """D2 comes with a new version, which is taken back for two epochs and deployed again; R must not miss them."""
    for epoch in range(1, 8):
        cascade.write("d", epoch, [epoch])
        if epoch in (3, 4, 7):
            cascade.write("d2", epoch, [epoch])
    (d2,) = cascade.see("d2")
    return observed(_is_whole(d2), d2=d2)


def chg5(cascade: Cascade) -> Observed:
    """Epoch 3 is skipped with what epoch 2 had, then epoch 2 is corrected; the copy must follow."""
    cascade.write("d", 2, [20])
    cascade.derive("d", "d2", 2, "value")
    copied = cascade.tables.read("d").where("epoch = 2").selectExpr("3 AS epoch", "value", "by")
    cascade.tables.replace("d2", copied)
    cascade.write("d2", 2, [99])
    (d2,) = cascade.see("d2")
    return observed(d2[2] == d2[3], d2=d2)


def _is_whole(found: Rows) -> bool:
    return list(found) == list(range(min(found), max(found) + 1))
