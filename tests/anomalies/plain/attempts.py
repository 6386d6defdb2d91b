"""ATT1 to ATT16 without this package."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from threading import Thread

from tests.anomalies.plain.cascade import Cascade, Killed, attempted, derived, observed
from tests.anomalies.plain.tables import IcebergTables
from tests.anomalies.verdicts import Observed

WORKER_AHEAD = timedelta(hours=1)
KEPT = timedelta(days=5)
"""How long Iceberg keeps snapshots unless told otherwise."""


def att1(cascade: Cascade) -> Observed:
    """Try 2 has written, then the Spark application of try 1, which is thought dead, writes; try 2 must stay."""
    first, second = (cascade.job(by, "d") for by in ("try 1", "try 2"))
    second.write("d", 1, [2])
    cascade.j2(1)
    first.write("d", 1, [1])
    return observed(cascade.writers("d") == {"try 2"}, d_written_by=cascade.writers("d"))


def att2(cascade: Cascade) -> Observed:
    """The first finds the epoch free and is paused, the second writes, the first writes on; the second must stay."""
    first = cascade.job("the first", "d")
    is_free = 1 not in cascade.see("d")[0]
    cascade.job("the second", "d").write("d", 1, [2])
    if is_free:
        first.write("d", 1, [1])
    return observed(cascade.writers("d") == {"the second"}, d_written_by=cascade.writers("d"))


def att3(cascade: Cascade) -> Observed:
    """A write times out and is sent again with the same rows; they must be there once."""
    for _ in range(2):
        cascade.write("d", 1, [1, 2])
    (d,) = cascade.see("d")
    return observed(d == {1: [1, 2]}, d=d)


def att4(cascade: Cascade) -> Observed:
    """Five tables are staged, and the job dies when three of them are shown; R must see all or none of the epoch."""
    names = ("d", "d2", "e", "t4", "t5")
    for name in ("t4", "t5"):
        cascade.tables.create(name)
    with suppress(Killed), ExitStack() as shown:
        for number, name in enumerate(names):
            if number == 2:
                shown.callback(_die)
            shown.enter_context(cascade.tables.steps(name))
        for name in names:
            cascade.write(name, 1, [1])
    found = [name for name, rows in zip(names, cascade.see(*names), strict=True) if 1 in rows]
    return observed(len(found) in (0, 5), tables_with_the_epoch=len(found), of=len(names))


def _die() -> None:
    raise Killed


def att5(cascade: Cascade) -> Observed:
    """X writes D then E, Y writes E then D; both must come to an end."""

    def job(by: str, *tables: str) -> None:
        for table in tables:
            cascade.write(table, 1 if by == "x" else 2, [1], by)

    jobs = [Thread(target=job, args=given) for given in (("x", "d", "e"), ("y", "e", "d"))]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join(timeout=300)
    ended = sum(not thread.is_alive() for thread in jobs)
    d, e = cascade.see("d", "e")
    return observed(ended == 2, d=d, e=e)


def att7(cascade: Cascade) -> Observed:
    """The usual cleanup runs where the clock is an hour ahead; what is younger than it keeps must stay."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("d", 1, [1])
    read = tables.pinned("d")
    cascade.write("d", 1, [2])
    tables.expire("d", datetime.now(UTC) + WORKER_AHEAD - KEPT)
    found = attempted(read)
    return observed(found == {1: [1]}, the_state_of_a_moment_ago=found)


def att8(cascade: Cascade) -> Observed:
    """D is a running sum of B; a silent try of epoch 2 returns after 3. Each must be the one before and its own."""
    zombie = cascade.job("silent for hours", "d")
    for number, total in ((1, 1), (2, 3), (3, 6)):
        cascade.write("b", number, [number])
        cascade.write("d", number, [total])
    zombie.write("d", 2, [1 + 40])
    b, d = cascade.see("b", "d")
    return observed(all(d[number] == [d[number - 1][0] + b[number][0]] for number in (2, 3)), b=b, d=d)


def att9(cascade: Cascade) -> Observed:
    """The answer of a write is lost and the task retried; its rows must be there once."""
    cascade.write("b", 1, [1])
    for _ in range(2):
        cascade.j1(1)
    (d,) = cascade.see("d")
    return observed(d == {1: [2]}, d=d)


def att10(cascade: Cascade) -> Observed:
    """A try draws 3 for D and dies when that is written; E is made; the retry draws 4; E must be made from this D."""
    cascade.write("d", 1, [3])
    cascade.j2(1)
    cascade.write("d", 1, [4])
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def att11(cascade: Cascade) -> Observed:
    """D is 3, and E is made from it; D's task is cleared, and draws 4; R must see what belongs together."""
    cascade.write("d", 1, [3])
    cascade.j2(1)
    cascade.write("d", 1, [4])
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def att12(cascade: Cascade) -> Observed:
    """A kill in each of four cells, then a retry; D and D2 must end as if nothing had happened."""
    for epoch, (processed, staged) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1)), start=1):
        for table in ("d", "d2")[: staged + (processed and staged)]:
            cascade.write(table, epoch, [epoch], "killed")
        for table in ("d", "d2"):
            cascade.write(table, epoch, [epoch], "retry")
    d, d2 = cascade.see("d", "d2")
    return observed(d == d2 == {epoch: [epoch] for epoch in (1, 2, 3, 4)}, d=d, d2=d2)


def att13(cascade: Cascade) -> Observed:
    """Epoch 1 is computed, 2 commits, the retry of 1 writes; both must be there."""
    retry = cascade.job("", "d")
    cascade.write("d", 2, [2])
    retry.write("d", 1, [1])
    (d,) = cascade.see("d")
    return observed(d == {1: [1], 2: [2]}, d=d)


def att14(cascade: Cascade) -> Observed:
    """Try 1 did one of two writes and died, try 2 does both; the epoch must have both, once."""
    cascade.write("d", 1, [1])
    cascade.write("d", 1, [1])
    cascade.append("d", 1, [2])
    (d,) = cascade.see("d")
    return observed(d == {1: [1, 2]}, d=d)


def att15(cascade: Cascade) -> Observed:
    """Three mapped writers, each with a partition of its own; one is retried. All rows must be there once."""
    for writer in (11, 12, 13, 12):
        cascade.write("d", writer, [writer])
    (d,) = cascade.see("d")
    return observed(d == {11: [11], 12: [12], 13: [13]}, d=d)


def att16(cascade: Cascade) -> Observed:
    """A try has written epoch 2 and dies before that is shown; epoch 3 is written; R must not see epoch 2."""
    tables = cascade.tables
    with suppress(Killed), tables.steps("d"):
        cascade.write("d", 2, [2])
        raise Killed
    with tables.steps("d"):
        cascade.write("d", 3, [3])
    (d,) = cascade.see("d")
    return observed(d == {3: [3]}, d=d)
