"""DER1 to DER15 without this package."""

from __future__ import annotations

from tests.anomalies.plain.cascade import Cascade, derived, observed
from tests.anomalies.plain.tables import Row
from tests.anomalies.verdicts import Observed


def der1(cascade: Cascade) -> Observed:
    """Words, their counts and counts of counts: all three must tell the same number of words."""

    def words(epoch: int, text: str) -> None:
        tables.replace("b", tables.frame([(epoch, 1, word) for word in text]))

    def counts(epoch: int) -> None:
        found = tables.read("b").where(f"epoch <= {epoch}").groupBy("by").count()
        tables.replace("d", found.selectExpr(f"{epoch} AS epoch", "count AS value", "by"))

    def counts_of_counts(epoch: int) -> None:
        found = tables.read("d").where(f"epoch = {epoch}").groupBy("value").count()
        tables.replace("e", found.selectExpr(f"{epoch} AS epoch", "count AS value", "string(value) AS by"))

    tables = cascade.tables
    words(1, "abcad")
    counts(1)
    counts_of_counts(1)
    words(2, "acdq")
    counts(2)
    b, d, e = (cascade.rows(name) for name in ("b", "d", "e"))
    found = len(b), sum(value for _, value, _ in _newest(d)), sum(n * int(by) for _, n, by in _newest(e))
    return observed(
        len(set(found)) == 1, words=found[0], words_in_counts=found[1], words_in_counts_of_counts=found[2]
    )


def _newest(rows: list[Row]) -> list[Row]:
    newest = max(epoch for epoch, _, _ in rows)
    return [row for row in rows if row[0] == newest]


def der3(cascade: Cascade) -> Observed:
    """R reads a key in D, then in E; E must be made of that very D, which was computed again meanwhile."""
    cascade.run(1, [1])
    cascade.write("b", 1, [5])
    cascade.j1(1)
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def _hours(cascade: Cascade, first: int, last: int) -> None:
    cascade.tables.replace("d", cascade.tables.frame([(hour, 1, "") for hour in range(first, last + 1)]))


def _day(cascade: Cascade) -> None:
    """A daily job that reads the hours of its own data interval."""
    found = cascade.tables.read("d").where("epoch BETWEEN 1 AND 24")
    day = found.selectExpr("1 AS epoch", "value", "by").groupBy("epoch").agg({"value": "sum"})
    cascade.tables.replace("e", day.toDF("epoch", "value").selectExpr("*", "'' AS by"))


def der4(cascade: Cascade) -> Observed:
    """D has epoch 2, and E, which is made from it, has not; R must see epoch 2 of both or of neither."""
    cascade.run(1, [1])
    cascade.write("b", 2, [2])
    cascade.j1(2)
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def der5(cascade: Cascade) -> Observed:
    """At 14:30 of the second day R asks for the running totals of hourly D and daily E; they must agree."""
    _hours(cascade, 1, 24)
    _day(cascade)
    _hours(cascade, 25, 38)
    d, e = (sum(value for _, value, _ in cascade.rows(name)) for name in ("d", "e"))
    return observed(d == e, total_of_d=d, total_of_e=e)


def der6(cascade: Cascade) -> Observed:
    """A daily job is run again when more hours are there; its result must be the same."""
    _hours(cascade, 1, 24)
    _day(cascade)
    (first,) = cascade.see("e")
    _hours(cascade, 25, 30)
    _day(cascade)
    (second,) = cascade.see("e")
    return observed(first == second, e_first=first, e_again=second)


def der7(cascade: Cascade) -> Observed:
    """D has days of Berlin, E days of New York: "day 1" of both must have the same hours."""
    tables = cascade.tables
    tables.replace("b", tables.frame([(1, hour, "") for hour in range(72)]))
    for table, offset in (("d", 1), ("e", -5)):
        day = tables.read("b").where(f"floor((value + {offset}) / 24) = 1")
        tables.replace(table, day.selectExpr("1 AS epoch", "value", "by"))
    d, e = cascade.see("d", "e")
    return observed(d == e, hours_of_d_from=min(d[1]), hours_of_e_from=min(e[1]))


def der8(cascade: Cascade) -> Observed:
    """J1 and J2 read the same files for one epoch, and a file arrives between: both must have read the same."""
    tables = cascade.tables
    landing = tables.place / "landing"
    landing.mkdir(parents=True)
    for table, number in (("d", 1), ("d2", 2)):
        (landing / f"{number}.json").write_text(f'{{"value": {number}}}\n')
        found = tables.spark.read.schema("value BIGINT").json(str(landing))
        tables.replace(table, found.selectExpr("1 AS epoch", "value", "'' AS by"))
    d, d2 = cascade.see("d", "d2")
    return observed(d == d2, d=d, d2=d2)


def der9(cascade: Cascade) -> Observed:
    """Epoch 2 has no input, and its run ends well, for which others wait; E must be made of D."""
    cascade.run(1, [1])
    cascade.run(2, [])
    d, e = cascade.see("d", "e")
    return observed(derived(d, e) and set(d) == {1}, d=d, e=e)


def der10(cascade: Cascade) -> Observed:
    """Hour 3 fails for ever, the day waits for it, hour 4 does not; R must get an unbroken chain of hours."""
    cascade.tables.replace("d", cascade.tables.frame([(hour, 1, "") for hour in (1, 2, 4)]))
    (d,) = cascade.see("d")
    return observed(sorted(d) == list(range(1, max(d) + 1)), hours_of_d=sorted(d))


def der11(cascade: Cascade) -> Observed:
    """D is an epoch ahead of E, which another team writes; R joins both, and must see the same epochs of each."""
    tables = cascade.tables
    for table, last in (("d", 2), ("e", 1)):
        for epoch in range(1, last + 1):
            tables.replace(table, tables.frame([(epoch, epoch, "")]))
    d, e = (sorted(epoch for epoch, _, _ in cascade.rows(name)) for name in ("d", "e"))
    return observed(d == e, epochs_of_d=d, epochs_of_e=e)


def der12(cascade: Cascade) -> Observed:
    """A job dies when D2 is shown and D is not; its new version, without D2, retries. Nothing of the dead may stay."""
    for table in ("d", "d2"):
        cascade.write(table, 1, [1])
    cascade.write("d2", 2, [2], "killed")
    cascade.write("d", 2, [2], "the new version")
    d, d2 = cascade.see("d", "d2")
    return observed("killed" not in cascade.writers("d2"), d=d, d2=d2)


def der13(cascade: Cascade) -> Observed:
    """J3 makes B from E, and each job starts when its upstream has ended: that must come to rest, or be refused."""
    cascade.write("b", 1, [1])
    rounds = []
    for _ in range(4):
        rounds.append(cascade.see("b")[0][1])
        cascade.j1(1)
        cascade.j2(1)
        cascade.derive("e", "b", 1, "value")
    return observed(rounds[-1] == rounds[-2], b_in_four_rounds=[value for (value,) in rounds])


def der14(cascade: Cascade) -> Observed:
    """Two jobs own D; the second writes after E was made. E must be made of D, or the second be refused."""
    cascade.write("d", 1, [1], "one")
    cascade.j2(1)
    cascade.write("d", 1, [2], "two")
    d, e = cascade.see("d", "e")
    return observed(derived(d, e), d=d, e=e)


def der15(cascade: Cascade) -> Observed:
    """Daily D becomes hourly, then its old day is run again as hours: the day's rows must be there once."""
    cascade.write("d", 1, [24], "daily")
    _hours(cascade, 101, 124)
    total = sum(value for _, value, _ in cascade.rows("d"))
    return observed(total == 24, total_of_the_day=total)
