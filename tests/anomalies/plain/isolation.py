"""ISO1 to ISO10 without this package."""

from __future__ import annotations

from contextlib import suppress

from tests.anomalies.plain.cascade import Cascade, Killed, by_epoch, collected, derived, observed
from tests.anomalies.verdicts import Observed


def iso1(cascade: Cascade) -> Observed:
    """Try 1 has written D and is thought dead, try 2 writes both, try 1 writes D2; all rows must be of one try."""
    first = cascade.job("try 1", "d", "d2")
    first.write("d", 1, [10])
    second = cascade.job("try 2", "d", "d2")
    for table in ("d", "d2"):
        second.write(table, 1, [10])
    first.write("d2", 1, [10])
    d, d2 = cascade.writers("d"), cascade.writers("d2")
    return observed(d == d2, d_written_by=d, d2_written_by=d2)


def iso2(cascade: Cascade) -> Observed:
    """J1 writes D, R reads it, and the check after the write fails; R must not have seen it."""
    cascade.write("d", 1, [1])
    seen = {}
    with suppress(Killed), cascade.tables.steps("d"):
        cascade.write("d", 2, [-1])
        (seen,) = cascade.see("d")
        raise Killed
    return observed(2 not in seen, d=seen)


def iso3(cascade: Cascade) -> Observed:
    """J1 writes D in two appends; R must see both or none."""
    with cascade.tables.steps("d"):
        cascade.append("d", 1, [2])
        (between,) = cascade.see("d")
        cascade.append("d", 1, [4])
    (after,) = cascade.see("d")
    return observed(between in ({}, after), d_between=between, d_afterwards=after)


def iso4(cascade: Cascade) -> Observed:
    """J1 reads E, J2 reads D, both of one epoch; E must be one more than the D that stays."""
    cascade.write("d", 1, [1])
    cascade.derive("d", "e", 1, "value + 1")
    cascade.derive("e", "d", 1, "value + 1")
    d, e = cascade.see("d", "e")
    return observed(e[1][0] == d[1][0] + 1, d=d, e=e)


def iso5(cascade: Cascade) -> Observed:
    """R lists the epochs of D twice in one task; both lists must be the same."""
    cascade.write("d", 1, [1])
    read = cascade.tables.pinned("d")
    first = by_epoch(collected(read()))
    cascade.write("d", 2, [2])
    second = by_epoch(collected(read()))
    return observed(first == second, d_first=first, d_then=second)


def iso6(cascade: Cascade) -> Observed:
    """R reads D of epoch 2, then E, which J2 has made of epoch 1 only."""
    cascade.run(1, [1, 2])
    cascade.write("b", 2, [3])
    cascade.j1(2)
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def iso7(cascade: Cascade) -> Observed:
    """One of D and E must be 1. J1 sees E at 1 and sets D to 0, J2 sees D at 1 and sets E to 0."""
    for table in ("d", "e"):
        cascade.write(table, 1, [1])
    one, other = cascade.job("j1", "d"), cascade.job("j2", "e")
    d, e = cascade.see("d", "e")
    one.write("d", 1, [1 - e[1][0]])
    other.write("e", 1, [1 - d[1][0]])
    d, e = cascade.see("d", "e")
    return observed(d[1][0] + e[1][0] >= 1, d=d, e=e)


def iso8(cascade: Cascade) -> Observed:
    """The sum is 10; two jobs read it, then one adds 5 and the other 7; the sum must be 22, or one be refused."""
    cascade.write("d", 1, [10])
    jobs = [cascade.job("", "d") for _ in range(2)]
    (before,) = cascade.see("d")
    passed = [job.write("d", 1, [before[1][0] + added]) for job, added in zip(jobs, (5, 7), strict=True)]
    (d,) = cascade.see("d")
    return observed(not all(passed) or d == {1: [22]}, d=d)


def iso9(cascade: Cascade) -> Observed:
    """Epochs are committed as 1, 2, 4, 3; a reader up to 4 must get an unbroken chain, and so the same later."""
    for number in (1, 2, 4):
        cascade.write("d", number, [number])
    (before,) = cascade.see("d")
    cascade.write("d", 3, [3])
    (after,) = cascade.see("d")
    return observed(sorted(before) == list(range(1, max(before) + 1)), d_up_to_4=before, then=after)


def iso10(cascade: Cascade) -> Observed:
    """Epoch 2 brings late rows; epoch 1 is run again. The late rows must stay, and only they."""
    cascade.write("d", 1, [1])
    cascade.write("d", 2, [2], "late, of day 1")
    cascade.write("d", 1, [10])
    (d,) = cascade.see("d")
    return observed(d == {1: [10], 2: [2]}, d=d)
