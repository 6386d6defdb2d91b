"""What a reader may ask of a cut: sessions, age, slower tables, the whole domain (R20, R21)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import Fenced, InvalidInput, NotReady, Unavailable
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.read_options import Consistency, Level, ReadDefaults
from airflow_provider.domain.session import Session
from airflow_provider.domain.table_kind import TableKind
from tests.contract.coordination_world import DOMAIN, ORIGIN, World, barrier, day, owner

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def jobs(world: World, days: int = 2) -> tuple[Any, Any]:
    """Jobs d and e, which reads d, with their first days."""
    d = world.job("d")
    e = world.job("e", inputs=[world.table("d")])
    for number in range(1, days + 1):
        world.run(d, day(number), [number])
        world.run(e, day(number), [10 * number])
    return d, e


def missing(error: NotReady) -> dict[str, str]:
    return {lag.table: lag.reason for lag in error.details["missing"]}


def set_clock(world: World, moment: datetime) -> None:
    """Move the store's clock to *moment*."""
    world.clock.advance(moment - world.clock.now())


# --- sessions ------------------------------------------------------------------------------------------------


def test_r20_a_session_never_sees_a_table_go_back(world: World) -> None:
    """R20: d was seen at 3; joined with e, which has 2, it would go back: refused, both are named."""
    d, e = jobs(world)
    world.run(d, day(3), [3])
    session = Session.of(DOMAIN).after(world.cut("d"))
    assert world.cut("d", "e").barrier == barrier(2), "without a session"
    with pytest.raises(NotReady, match="this session has seen 2024-01-04") as refused:
        world.cuts.cut(DOMAIN, ["d", "e"], session=session)
    assert set(missing(refused.value)) == {"d", "e"}
    world.run(e, day(3), [30])
    cut = world.cuts.cut(DOMAIN, ["d", "e"], session=session)
    assert cut.barrier == barrier(3)
    session = session.after(cut)
    with pytest.raises(NotReady, match="d: this session"):
        world.cuts.cut(DOMAIN, ["d"], at=barrier(2), session=session)


def test_r20_a_session_goes_on_in_another_process(world: World) -> None:
    """R20: it is a value that travels as text."""
    jobs(world)
    session = Session.of(DOMAIN).after(world.cut("d")).after(world.cut("e", at=barrier(1)))
    again = Session.parse(session.text())
    assert again == session
    assert {name: seen.barrier for name, seen in again.seen.items()} == {"d": barrier(2), "e": barrier(1)}
    assert world.cuts.cut(DOMAIN, ["d", "e"], session=again).barrier == barrier(2)


def test_r20_a_session_remembers_each_table_where_it_was_read(world: World) -> None:
    """R20: a full table that stayed six hours behind was seen there; the same cut takes nothing back."""
    slower(world)
    session = None
    for _ in range(2):
        cut = world.cuts.cut(DOMAIN, ["d", "f"], align="floor", max_lag=6 * HOUR, session=session)
        assert dict(cut.behind) == {"f": 6 * HOUR}
        session = Session.of(DOMAIN).after(cut)


def test_r20_a_session_sees_its_own_commits(world: World) -> None:
    """R20: what it has published itself is in its next cut, or the cut is refused until all before is there."""
    d, _ = jobs(world)
    session = Session.of(DOMAIN).committed(world.run(d, day(4), [4]))
    with pytest.raises(NotReady, match="d: this session"):
        world.cuts.cut(DOMAIN, ["d"], session=session)
    world.run(d, day(3), [3])
    cut = world.cuts.cut(DOMAIN, ["d"], session=session)
    assert (4, 4) in world.rows_of(cut)["d"]
    with pytest.raises(NotReady, match="d: this session"):
        world.cuts.cut(DOMAIN, ["d"], at=barrier(3), session=session)


def test_r20_a_session_reads_no_other_table_at_an_older_commit(world: World) -> None:
    """R20, I8: what was read of one table may have been the cause of another's rows: no later cut is older than it."""
    jobs(world)
    session = Session.of(DOMAIN).after(world.cut("d"))
    older = world.cuts.reader.read(DOMAIN, []).head.csn - 1
    assert [lag.table for lag in session.behind(older, {TableName("e"): barrier(1)})] == ["e"]
    assert world.cuts.cut(DOMAIN, ["e"], at=barrier(1), session=session).csn == session.csn
    written_before = session.text().replace(f'"csn": {session.csn}, ', "")
    assert Session.parse(written_before) == session, "a text of before names no CSN of its own"


def test_r20_a_session_of_another_store_or_domain_is_refused(world: World) -> None:
    """R20, R33: CSNs of another incarnation say nothing; what was seen may be undone."""
    jobs(world)
    cut = world.cut("d")
    elsewhere = Session(domain=DOMAIN, incarnation="another", seen=Session.of(DOMAIN).after(cut).seen)
    with pytest.raises(Unavailable, match="incarnation another"):
        world.cuts.cut(DOMAIN, ["d"], session=elsewhere)
    with pytest.raises(InvalidInput, match="session"):
        world.cuts.cut(DOMAIN, ["d"], session=Session.of("other"))
    with pytest.raises(InvalidInput, match="domain"):
        Session.of("other").after(cut)


def test_der2_a_reader_who_was_ahead_of_a_backup_is_told(world: World) -> None:
    """R20, R33: R has read day 2 in a session when the store gets another incarnation, as a restore gives it."""
    d, _ = jobs(world)
    read = Session.of(DOMAIN).after(world.cut("d"))
    attempt = world.begin(d, day(3))
    world.restore()
    for _ in range(1000):  # ZooKeeper tells a connection that is open, within milliseconds
        if world.store.read(DOMAIN, []).head.incarnation != read.incarnation:
            break
    with pytest.raises(Unavailable, match="incarnation"):
        world.cuts.cut(DOMAIN, ["d"], session=read)
    with pytest.raises(Fenced):
        world.coordinator.publish(attempt)
    world.clock.advance(timedelta(hours=1))
    world.run(d, day(3), [3], owner(try_number=2))
    with pytest.raises(Unavailable, match="incarnation"):
        world.cuts.cut(DOMAIN, ["d"], session=read)
    assert world.cuts.cut(DOMAIN, ["d"], session=Session.of(DOMAIN)).barrier == barrier(3), "a new session"


# --- age -----------------------------------------------------------------------------------------------------


def test_r21_staleness_names_the_table_and_why(world: World) -> None:
    """R21: a local lag, a global one, the calendar's: told apart, and nothing waits."""
    d, _ = jobs(world)
    for number in (3, 4):
        world.run(d, day(number), [number])
    set_clock(world, datetime(2030, 1, 1, tzinfo=UTC))
    age = datetime(2030, 1, 1, tzinfo=UTC) - barrier(2)
    assert world.cuts.cut(DOMAIN, ["d", "e"], max_staleness=age).barrier == barrier(2)
    with pytest.raises(NotReady) as refused:
        world.cuts.cut(DOMAIN, ["d", "e"], max_staleness=age - HOUR)
    (lag,) = refused.value.details["missing"]
    assert lag.table == "e", "d is young enough by itself"
    assert (lag.staleness.wall_clock, lag.staleness.local, lag.staleness.global_) == (age, age, timedelta(0))
    with pytest.raises(NotReady) as refused:
        world.cuts.cut(DOMAIN, ["d", "e"], max_staleness=HOUR)
    lags = {detail.table: detail for detail in refused.value.details["missing"]}
    assert list(lags) == ["e", "d"], "the slowest first"
    assert lags["d"].staleness.global_ == 2 * DAY, "e holds d back by two days"
    assert lags["d"].staleness.local == age - 2 * DAY


def test_r21_staleness_by_the_calendar_alone(world: World) -> None:
    """R21: all jobs are in time, and a daily table is half a day old at noon: no job is to blame."""
    first = day(2193)
    assert first.end == datetime(2030, 1, 2, tzinfo=UTC)
    set_clock(world, first.end + 12 * HOUR)
    world.run(world.job("d", origin=first.start), first)
    with pytest.raises(NotReady) as refused:
        world.cuts.cut(DOMAIN, ["d"], max_staleness=HOUR)
    (lag,) = refused.value.details["missing"]
    assert (lag.staleness.wall_clock, lag.staleness.local) == (12 * HOUR, timedelta(0))
    assert world.cuts.cut(DOMAIN, ["d"], max_staleness=12 * HOUR).barrier == first.end


# --- slower full tables --------------------------------------------------------------------------------------


def three_hours(number: int) -> Interval:
    """The *number*-th epoch of three hours, from 1."""
    return Interval(ORIGIN + (number - 1) * 3 * HOUR, ORIGIN + number * 3 * HOUR)


def slower(world: World, until: int = 10) -> None:
    """d each three hours, 10 epochs of it unless said otherwise; daily full table f with its first day."""
    often = world.job("d", cadence="0 */3 * * *")
    world.run(world.job("f", [world.table("f", kind=TableKind.FULL)]), day(1), [100])
    for number in range(1, until + 1):
        world.run(often, three_hours(number), [number])


def test_floor_takes_a_slower_full_table_at_its_last_barrier(world: World) -> None:
    """R19: d is at its 30th hour, f at its first day, six hours earlier, and the cut says so."""
    slower(world)
    assert world.cut("d", "f").barrier == barrier(1)
    cut = world.cuts.cut(DOMAIN, ["d", "f"], align="floor", max_lag=6 * HOUR)
    assert (cut.barrier, dict(cut.behind)) == (ORIGIN + 30 * HOUR, {"f": 6 * HOUR})
    assert {name: len(found) for name, found in world.rows_of(cut).items()} == {"d": 10, "f": 1}
    closer = world.cuts.cut(DOMAIN, ["d", "f"], align="floor", max_lag=5 * HOUR)
    assert (closer.barrier, dict(closer.behind)) == (ORIGIN + 27 * HOUR, {"f": 3 * HOUR})
    assert dict(world.cuts.cut(DOMAIN, ["f"], align="floor", max_lag=HOUR).behind) == {}


def test_floor_of_full_tables_alone_is_where_the_fastest_is(world: World) -> None:
    """R21: the slower ones stay behind; with a limit of nothing they meet as they do without floor."""
    slow, fast = (world.table(name, kind=TableKind.FULL) for name in ("slow", "fast"))
    world.run(world.job("slow", [slow]), day(1))
    halves = Cadence("0 */12 * * *")
    for epoch in halves.split(Interval(barrier(0), barrier(1.5))):
        world.run(world.job("fast", [fast], cadence=halves), epoch)

    def cut(max_lag: timedelta) -> Cut:
        return world.cuts.cut(DOMAIN, ["slow", "fast"], align="floor", max_lag=max_lag)

    found = cut(timedelta(days=1))
    assert (found.barrier, found.behind) == (barrier(1.5), {"slow": timedelta(hours=12)})
    assert (cut(timedelta(0)).barrier, cut(timedelta(0)).behind) == (barrier(1), {})


def test_r21_a_cut_may_be_just_as_old_as_is_allowed(world: World) -> None:
    """R21: and not a moment older."""
    world.run(world.job("d"), day(1))
    age = world.store.read(DOMAIN, []).now - barrier(1)
    assert world.cuts.cut(DOMAIN, ["d"], max_staleness=age).barrier == barrier(1)
    with pytest.raises(NotReady, match="older than"):
        world.cuts.cut(DOMAIN, ["d"], max_staleness=age - timedelta(microseconds=1))


def test_r21_a_table_that_stays_behind_may_be_too_old_alone(world: World) -> None:
    """R21: the cut is as old as the oldest state in it: d is young enough, f with its six hours more is not."""
    slower(world)
    set_clock(world, datetime(2030, 1, 1, tzinfo=UTC))
    age = datetime(2030, 1, 1, tzinfo=UTC) - barrier(1)

    def cut(max_staleness: timedelta) -> Cut:
        return world.cuts.cut(
            DOMAIN, ["d", "f"], align="floor", max_lag=6 * HOUR, max_staleness=max_staleness
        )

    assert dict(cut(age).behind) == {"f": 6 * HOUR}
    with pytest.raises(NotReady) as refused:
        cut(age - HOUR)
    (lag,) = refused.value.details["missing"]
    assert (lag.table, lag.staleness.wall_clock) == ("f", age)


@pytest.mark.parametrize(
    ("align", "max_lag"), [("floor", None), ("exact", HOUR), ("floor", -HOUR), ("floor", 3), ("nearly", HOUR)]
)
def test_floor_needs_a_limit(world: World, align: str, max_lag: Any) -> None:
    """A slower table of any age, or a limit that nothing uses, is refused by name."""
    jobs(world)
    with pytest.raises(InvalidInput, match=r"max_lag|align"):
        world.cuts.cut(DOMAIN, ["d"], align=align, max_lag=max_lag)


# --- the whole domain ----------------------------------------------------------------------------------------


def test_der4_missing_derived(world: World) -> None:
    """Rolling shows the new rows of d at once; altogether hides them until e, computed from them, has its own."""
    d, e = jobs(world)
    world.run(d, day(3), [3])
    assert world.cuts.cut(DOMAIN, ["d"]).barrier == barrier(3)
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(2)
    assert world.cuts.cut(DOMAIN, ["d"], at=barrier(1), consistency="altogether").barrier == barrier(1)
    world.coordinator.register(world.job("new"))
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(2), (
        "a job without any commit holds no reader back"
    )
    world.run(e, day(3), [30])
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(3)


def test_der4_altogether_never_goes_back(world: World) -> None:
    """R7: a new job is waited for from where the domain was when it first committed, and a revived one likewise."""

    def altogether() -> int:
        return (world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier - ORIGIN).days

    d, new = world.job("d"), world.job("new")
    for number in range(1, 6):
        world.run(d, day(number))
    world.coordinator.register(new)
    world.run(d, day(6))
    world.run(new, day(1))
    assert altogether() == 6
    world.run(d, day(7))
    assert altogether() == 6, "beyond that, all wait for it"
    for number in range(2, 7):
        world.run(new, day(number))
    assert altogether() == 6
    world.coordinator.retire(DOMAIN, "new", reason="pause", by="me")
    assert altogether() == 7
    world.coordinator.revive(DOMAIN, "new")
    assert altogether() == 7


def test_der4_altogether_over_calendars(world: World) -> None:
    """A daily table of the domain has published all that an hour of its day needs once the day before is in."""
    slower(world, until=17)
    assert world.cut("d").barrier == ORIGIN + 51 * HOUR
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == ORIGIN + 45 * HOUR
    world.run(world.job("f", [world.table("f", kind=TableKind.FULL)]), day(2), [200])
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == ORIGIN + 51 * HOUR


def test_der4_nothing_altogether_yet(world: World) -> None:
    """A table whose first day is missing is named when it keeps the domain from having any barrier."""
    world.run(world.job("late"), day(2), [1])
    jobs(world)
    with pytest.raises(NotReady) as refused:
        world.cuts.cut(DOMAIN, ["d"], consistency="altogether")
    assert "late" in missing(refused.value)


# --- defaults ------------------------------------------------------------------------------------------------


def test_a_read_without_options_gets_the_configured_ones(world: World) -> None:
    """Each read can override it."""
    d, _ = jobs(world)
    world.run(d, day(3), [3])
    world.write(world.begin(d, day(4), owner("staging")), [4])

    def cuts(**configured: Any) -> Cuts:
        return Cuts(world.store, world.formats, reading=ReadDefaults(**configured))

    altogether = cuts(consistency=Consistency.ALTOGETHER)
    assert altogether.cut(DOMAIN, ["d"]).barrier == barrier(2)
    assert altogether.cut(DOMAIN, ["d"], consistency="rolling").barrier == barrier(3)
    dirty = cuts(level=Level.READ_UNCOMMITTED, consistency=Consistency.ALTOGETHER)
    assert dirty.cut(DOMAIN, ["d"]).barrier == barrier(4)
    assert dirty.cut(DOMAIN, ["d"], level="read_committed", consistency="rolling").barrier == barrier(3)
    with pytest.raises(InvalidInput, match=r"epochs\.lease"):
        cuts(level=Level.REPEATABLE_READ).cut(DOMAIN, ["d"])
    for asked in ({"session": Session.of(DOMAIN)}, {"consistency": "altogether"}):
        with pytest.raises(InvalidInput, match="need not agree"):
            world.cuts.cut(DOMAIN, ["d"], level="read_uncommitted", **asked)
