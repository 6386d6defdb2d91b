"""UND1 to UND8 and LEA1 to LEA10 without this package."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from tests.anomalies.plain.cascade import Cascade, Killed, attempted, derived, observed
from tests.anomalies.plain.tables import IcebergTables
from tests.anomalies.verdicts import Observed

DAY_MS = 24 * 3600 * 1000


def und1(cascade: Cascade) -> Observed:
    """A job adds 5 to a sum of 10, dies before that is shown, and runs again: 15."""
    cascade.write("e", 1, [10])
    with suppress(Killed), cascade.tables.steps("e"):
        cascade.tables.add("e", 5)
        raise Killed
    with cascade.tables.steps("e"):
        cascade.tables.add("e", 5)
    (e,) = cascade.see("e")
    return observed(e == {1: [15]}, e=e)


def und2(cascade: Cascade) -> Observed:
    """A try makes a new partition and dies, the retry has no rows for it; only the retry's rows must be there."""
    tables = cascade.tables
    with suppress(Killed), tables.steps("d"):
        tables.replace("d", tables.frame([(1, 1, "try 1"), (7, 1, "try 1")]))
        raise Killed
    with tables.steps("d"):
        tables.replace("d", tables.frame([(1, 1, "try 2")]))
    return observed(cascade.writers("d") == {"try 2"}, d_written_by=cascade.writers("d"))


def und3(cascade: Cascade) -> Observed:
    """A job, which tags its input, is down for longer than snapshots are kept; its input must be there."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("b", 1, [1])
    tables.alter("b", "CREATE TAG report")
    cascade.write("b", 1, [2])
    tables.expire("b", datetime.now(UTC) + timedelta(seconds=1))
    found = attempted(lambda: tables.tagged("b"))
    return observed(found == {1: [1]}, the_baseline=found)


def und6(cascade: Cascade) -> Observed:
    """E keeps the largest value of D; the 9 of epoch 2 is taken back for 3; E must be 5, the largest of D."""
    cascade.write("d", 1, [5])
    largest = 5
    for value in (9, 3):
        cascade.write("d", 2, [value])
        largest = max(largest, value)
        cascade.write("e", 2, [largest])
    d, e = cascade.see("d", "e")
    return observed(e[2] == [max(d[1] + d[2])], d=d, e=e)


def und7(cascade: Cascade) -> Observed:
    """Epoch 2 of D and E is undone, R reads while it is; it must see both with it or both without."""
    for epoch in (1, 2):
        cascade.run(epoch, [epoch])
    cascade.tables.delete_epoch("d", 2)
    d, e = cascade.see("d", "e")
    cascade.tables.delete_epoch("e", 2)
    return observed(derived(d, e), d=d, e=e)


def und8(cascade: Cascade) -> Observed:
    """Another program makes D again while a job adds 5 to its newest value; epoch 2 must be 5 more, or be refused."""
    cascade.write("d", 1, [1])
    job = cascade.job("", "d")
    (before,) = cascade.see("d")
    cascade.tables.drop("d")
    cascade.tables.create("d")
    cascade.write("d", 1, [100])
    passed = job.write("d", 2, [before[1][0] + 5])
    (d,) = cascade.see("d")
    return observed(not passed or d[2][0] == d[1][0] + 5, d=d)


def lea1(cascade: Cascade) -> Observed:
    """A reader has begun with epoch 1; 50 epochs later a cleanup runs; the rows must be there."""
    tables = cascade.tables
    cascade.write("d", 1, [1])
    read = tables.held("d")
    cascade.write("d", 1, [2])
    tables.replace("d", tables.frame([(epoch, epoch, "") for epoch in range(2, 52)]))
    tables.clean("d", 1)
    found = attempted(read)
    return observed(found == {1: [1]}, d=found)


def lea2(cascade: Cascade) -> Observed:
    """A cleanup picks a state while R acquires it: R must keep it, or be refused when it asks, in either order."""
    tables = cascade.tables
    for name in ("d", "d2"):
        cascade.write(name, 1, [1])
    reader_first = tables.held("d")
    old = tables.pinned("d2")
    for name in ("d", "d2"):
        cascade.write(name, 1, [2])
        cascade.write(name, 2, [2])
        tables.clean(name, 1)
    kept, refused = attempted(reader_first), attempted(old)
    return observed(kept == {1: [1]} and refused is None, acquired_before=kept, acquired_too_late=refused)


def lea3(cascade: Cascade) -> Observed:
    """A tag is kept for a day, then renewed for a minute; it must still be kept for a day."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("d", 1, [1])
    tables.held("d")
    tables.alter("d", "REPLACE TAG report RETAIN 1 MINUTES")
    kept = tables.tag_age_ms("d")
    return observed(kept is not None and kept >= DAY_MS, milliseconds_left_to_the_tag=kept)


def lea4(cascade: Cascade) -> Observed:
    """The tag ends (it is dropped, as a cleanup does), the state goes; R, which reads on, must be told."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("d", 1, [1])
    read = tables.held("d")
    cascade.write("d", 1, [2])
    tables.alter("d", "DROP TAG report")
    tables.clean("d", 1)
    found = attempted(read)
    return observed(found is None, d=found)


def lea5(cascade: Cascade) -> Observed:
    """A reader is killed; its retry must find what it held, and the tag must have an end."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("d", 1, [1])
    tables.held("d")
    cascade.write("d", 1, [2])
    found, kept = attempted(tables.held("d")), tables.tag_age_ms("d")
    return observed(found == {1: [1]} and kept == DAY_MS, d=found, milliseconds_left_to_the_tag=kept)


def lea8(cascade: Cascade) -> Observed:
    """Two states share the file of epoch 1, and one between them goes; both must be readable."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("d", 1, [1])
    first = tables.held("d")
    for value in (2, 20):
        cascade.write("d", 2, [value])
    tables.clean("d", 2)
    kept, (newest,) = attempted(first), cascade.see("d")
    return observed(kept == {1: [1]} and newest == {1: [1], 2: [20]}, first=kept, newest=newest)


def lea9(cascade: Cascade) -> Observed:
    """All states but the newest go; the newest must have the rows of all epochs."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    for epoch in (1, 2, 3):
        cascade.write("d", epoch, [epoch])
    tables.clean("d", 2)
    (d,) = cascade.see("d")
    return observed(d == {1: [1], 2: [2], 3: [3]}, d=d)


def lea10(cascade: Cascade) -> Observed:
    """A try pins its input and dies, its DAG is paused for weeks; the pin must have an end."""
    tables = cascade.tables
    assert isinstance(tables, IcebergTables)
    cascade.write("b", 1, [1])
    tables.alter("b", "CREATE TAG report")
    kept = tables.tag_age_ms("b")
    return observed(kept is not None, milliseconds_left_to_the_tag=kept or "for ever")
