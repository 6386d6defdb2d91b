"""RES1 to RES9 without this package: days of the past are computed again while others read and write."""

from __future__ import annotations

from tests.anomalies.plain.cascade import Cascade, derived, observed
from tests.anomalies.verdicts import Observed


def res1(cascade: Cascade) -> Observed:
    """Ten days of D are computed again; R reads when four are done, and must see all old ones or all new ones."""
    for epoch in range(1, 11):
        cascade.write("d", epoch, [epoch])
    for epoch in range(1, 5):
        cascade.write("d", epoch, [10 * epoch])
    (d,) = cascade.see("d")
    kinds = {"new" if values == [10 * epoch] else "old" for epoch, values in d.items()}
    return observed(len(kinds) == 1, days_of_d=kinds)


def res2(cascade: Cascade) -> Observed:
    """D of a day is computed again, E not yet; R must see what belongs together."""
    cascade.run(1, [1, 2])
    cascade.write("b", 1, [10, 20])
    cascade.j1(1)
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def res3(cascade: Cascade) -> Observed:
    """Of three days of D, computed again, the second fails for ever; R must see three old ones or three new ones."""
    for epoch in (1, 2, 3):
        cascade.write("d", epoch, [epoch])
    for epoch in (1, 3):
        cascade.write("d", epoch, [10 * epoch])
    (d,) = cascade.see("d")
    kinds = {"new" if values == [10 * epoch] else "old" for epoch, values in d.items()}
    return observed(len(kinds) == 1, days_of_d=kinds)


def res4(cascade: Cascade) -> Observed:
    """Day 12 is written while days 3 to 5 are computed again; the rows of both must be there."""
    for epoch in (3, 4, 5):
        cascade.write("d", epoch, [epoch])
    corrections = cascade.job("correction", "d")
    cascade.write("d", 12, [12])
    passed = [corrections.write("d", epoch, [10 * epoch]) for epoch in (3, 4, 5)]
    (d,) = cascade.see("d")
    return observed(all(passed) and d == {3: [30], 4: [40], 5: [50], 12: [12]}, d=d)


def res5(cascade: Cascade) -> Observed:
    """E has summed up a day of D, which is then computed again; E must follow, or R be told."""
    cascade.run(1, [1, 2])
    cascade.write("d", 1, [20, 40])
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def res6(cascade: Cascade) -> Observed:
    """D adds each day to the day before; day 1 is computed again, and days 2 and 3 must follow."""
    for epoch, total in ((1, 1), (2, 3), (3, 6)):
        cascade.write("d", epoch, [total])
    cascade.write("d", 1, [10])
    (d,) = cascade.see("d")
    return observed(d in ({1: [1], 2: [3], 3: [6]}, {1: [10], 2: [12], 3: [15]}), d=d)


def res7(cascade: Cascade) -> Observed:
    """E has summed up a day of D, which is computed again while later days go on; E must follow, or R be told."""
    cascade.run(1, [1, 2])
    cascade.write("d", 1, [20, 40])
    for epoch in (2, 3):
        cascade.run(epoch, [epoch])
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def res8(cascade: Cascade) -> Observed:
    """A bad correction of D and E is taken back, day by day and table by table; R must see what belongs together."""
    cascade.run(1, [1, 2])
    cascade.run(1, [10, 20])
    cascade.write("d", 1, [2, 4])
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def res9(cascade: Cascade) -> Observed:
    """Days 2 and 3 of D and E are taken back, and Airflow runs them again; R must see what belongs together."""
    for epoch in (1, 2, 3):
        cascade.run(epoch, [epoch])
    for epoch in (2, 3):
        cascade.tables.delete_epoch("d", epoch)
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)
