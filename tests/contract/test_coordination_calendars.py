"""A job changes its cadence from a barrier on (R7): what was computed stays as it is, and old days stay days."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.explain import explain, watermarks
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady, TopologyError, Unavailable
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import BoundFile, FileSource, PostgresSource, SourceBounds, Span
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, previous, state
from airflow_provider.stores.base import Delete, Exists, Transaction
from airflow_provider.testing.arrow_attempts import read_rows, stage_rows
from airflow_provider.testing.faults import Call, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner, rows

HOURLY_FROM_3 = Cadence("@hourly", since=barrier(3), before=Cadence("@daily"))
HOUR = timedelta(hours=1)


def hour(number: int) -> Interval:
    """An hour of the fourth day."""
    return Interval(barrier(3) + (number - 1) * HOUR, barrier(3) + number * HOUR)


def changed(world: World, days: int = 3) -> Job:
    """Job d, daily for its first days, then hourly."""
    for number in range(1, days + 1):
        world.run(world.job("d"), day(number), [number])
    job = world.job("d", cadence=HOURLY_FROM_3)
    world.coordinator.register(job)
    return job


def test_der15_a_change_of_cadence_then_old_days_run_again(table_world: World) -> None:
    """R7: readers go on, the watermark goes on in hours, an old day is computed again as a day, never as hours."""
    world = table_world
    job = changed(world)
    before = world.rows("d")
    assert before == {"d": [(1, 1), (2, 2), (3, 3)]}
    for number in (1, 2):
        world.run(job, hour(number), [10 * number])
    assert watermarks(world.store, DOMAIN)["d"] == barrier(3) + 2 * HOUR
    assert world.cut("d").barrier == barrier(3) + 2 * HOUR
    assert world.cut("d", at=barrier(2)).barrier == barrier(2)
    assert world.run(job, day(2), [22], owner("again")).revision == 2
    assert world.rows("d", at=barrier(3)) == {"d": [(1, 1), (2, 22), (3, 3)]}
    with pytest.raises(InvalidInput, match="until 2024-01-04"):
        world.begin(job, Interval(barrier(1), barrier(1) + HOUR))
    assert [commit.record.by for commit in world.commits()].count("registration") == 1
    (row,) = grid(world.store, DOMAIN).rows
    assert [cell.interval for cell in row.cells][:5] == [day(1), day(2), day(3), hour(1), hour(2)]
    assert explain(world.store, DOMAIN, "d").interval == hour(3)


@pytest.mark.parametrize("then", ["committed", "open", "aborted"])
def test_a_calendar_does_not_change_under_readers_that_align_with_it(world: World, then: str) -> None:
    """R7, section 4: a second hourly reader would have hour 2 of d where the first one has day 3."""
    for number in (1, 2, 3):
        world.run(world.job("d"), day(number), [number])
    reader = world.job(
        "r", cadence="@hourly", origin=barrier(3), inputs=[state(world.table("d"), as_of=timedelta(0))]
    )
    world.run(reader, hour(1), [1])
    attempt = world.begin(reader, hour(2))
    if then == "committed":
        world.write(attempt)
        world.coordinator.publish(attempt)
    if then == "aborted":
        world.coordinator.abort(attempt, "it failed")
    with pytest.raises(TopologyError, match=r"cadence of d cannot change .* job 'r' reads as_of") as refused:
        world.coordinator.register(world.job("d", cadence=HOURLY_FROM_3))
    last = hour(1 if then == "aborted" else 2)
    assert refused.value.interval == last
    world.run(world.job("d"), day(4), [4])
    later = Cadence("@hourly", since=barrier(4), before=Cadence("@daily"))
    world.coordinator.register(world.job("d", cadence=later))


def aligned(world: World, name: str = "r", **options: Any) -> Job:
    """An hourly job that reads the last barrier of d."""
    inputs = [state(world.table("d"), as_of=timedelta(0), **options)]
    return world.job(name, cadence=HOURLY_FROM_3, origin=barrier(3), inputs=inputs)


def with_readers(world: World, **options: Any) -> tuple[Job, Job]:
    """Two such jobs, and three days of d."""
    for number in (1, 2, 3):
        world.run(world.job("d"), day(number), [number])
    readers = aligned(world, "r", **options), aligned(world, "s", **options)
    for reader in readers:
        world.coordinator.register(reader)
    return readers


def during(world: World, act: Callable[[], Any]) -> EpochService:
    """Another process, in whose first transaction *act* comes between what it has read and what it writes."""
    acted: list[Call] = []

    def plan(call: Call) -> None:
        if call.method == "transact" and not acted:
            acted.append(call)
            act()

    return world.worker(FaultyStore(world.store, plan))


def sum_of_d(world: World, attempt: Attempt) -> int:
    return sum(read_rows(world.coordinator, attempt, "d").column("value").to_pylist())


def publish_sum(world: World, job: Job, interval: Interval, by: Owner | None = None) -> Attempt:
    """Publish the sum of what the job reads of d."""
    attempt = world.begin(job, interval, by)
    world.write(attempt, [sum_of_d(world, attempt)])
    world.coordinator.publish(attempt)
    return attempt


@pytest.mark.parametrize("policy", ["cascade", "ignore"])
@pytest.mark.parametrize("way", ["register", "begin", "successor"])
def test_a_reader_that_begins_while_the_calendar_changes(table_world: World, way: str, policy: str) -> None:
    """R7, R13: registration has not seen it; it would have day 3 where the other reader of its barrier has hour 1."""
    world = table_world
    first, second = with_readers(world, on_upstream_revision=policy)
    name = "d"
    if way == "successor":
        world.coordinator.retire(DOMAIN, "d", reason="renamed", by="ada")
        name = "successor"
    hourly = world.job(name, [world.table("d")], cadence=HOURLY_FROM_3)
    begun: list[Attempt] = []
    worker = during(world, lambda: begun.append(world.begin(first, hour(1), owner("r"))))
    if way == "begin":
        assert isinstance(worker.begin(hourly, hour(1), owner("d")), Attempt)
    else:
        worker.register(hourly)
    (attempt,) = begun
    world.write(attempt, [sum_of_d(world, attempt)])
    world.coordinator.complete(attempt)
    before = world.exactly()
    with pytest.raises(Conflict, match="its inputs got another calendar meanwhile: d at CSN") as refused:
        world.coordinator.publish(attempt)
    assert refused.value.tables == tuple(read.table for read in attempt.inputs)
    assert world.exactly() == before
    with pytest.raises(NotReady, match="d: needs 2024-01-04T01"):
        world.begin(first, hour(1), owner("r", try_number=2))
    world.run(hourly, hour(1), [100], owner("d", try_number=2))
    again = publish_sum(world, first, hour(1), owner("r", try_number=2))
    assert (again.adopted, again.inputs[0].high) == (False, hour(1).end)
    publish_sum(world, second, hour(1))
    found = world.rows("d", "r", "s")
    assert (found["r"], found["s"]) == ([(3, 106)], [(3, 106)])


def test_the_calendar_changes_while_a_reader_begins(world: World) -> None:
    """R7: the begin decides again, by the new calendar."""
    first, _ = with_readers(world)
    worker = during(world, lambda: world.coordinator.register(world.job("d", cadence=HOURLY_FROM_3)))
    with pytest.raises(NotReady, match="d: needs 2024-01-04T01"):
        worker.begin(first, hour(1), owner())


@pytest.mark.parametrize("failed", ["before", "during"])
def test_a_try_after_one_that_failed_aligns_with_the_calendar_of_now(world: World, failed: str) -> None:
    """R7, R16: it reuses inputs, but none that the calendar has left behind."""
    first, second = with_readers(world)
    hourly = world.job("d", cadence=HOURLY_FROM_3)

    def fail() -> None:
        world.coordinator.abort(world.begin(first, hour(1)), "it failed")

    if failed == "before":
        fail()
        world.coordinator.register(hourly)
    else:
        during(world, fail).register(hourly)
    world.run(hourly, hour(1), [100])
    for reader in (first, second):
        assert publish_sum(world, reader, hour(1)).inputs[0].high == hour(1).end
    assert world.rows("r", "s") == {name: [(3, 106)] for name in ("r", "s")}


def test_readers_with_the_same_barrier_in_the_new_calendar_publish(world: World) -> None:
    """R13: a change of calendar is no rewrite; exact readers and those of earlier barriers go on."""
    for number in (1, 2, 3):
        world.run(world.job("d"), day(number), [number])
    table = world.table("d")
    exact = world.job("exact", inputs=[state(table)])
    lagging = world.job("lagging", inputs=[state(table, as_of=timedelta(days=1))])
    follows = world.job("follows", inputs=[previous(table)])
    epochs = [(exact, day(3)), (lagging, day(3)), (follows, day(4))]
    attempts = [world.begin(job, epoch) for job, epoch in epochs]
    world.coordinator.register(world.job("d", cadence=HOURLY_FROM_3))
    for attempt in attempts:
        world.write(attempt, [1])
        world.coordinator.publish(attempt)


def test_later_rewrite_keeps_the_recorded_calendar_change(world: World) -> None:
    """R13: both are in one record; the attempt began before both."""
    first, _ = with_readers(world)
    begun: list[Attempt] = []
    hourly = world.job("d", cadence=HOURLY_FROM_3)
    during(world, lambda: begun.append(world.begin(first, hour(1)))).register(hourly)
    world.run(hourly, day(1), [11], owner("again"))
    world.write(begun[0], [6])
    with pytest.raises(Conflict, match="its inputs got another calendar meanwhile"):
        world.coordinator.publish(begun[0])


@pytest.mark.parametrize("way", ["successor", "successor of one table", "comes back"])
@pytest.mark.parametrize("then", ["declares", "has left the edge", "is the successor"])
def test_a_table_gets_no_other_calendar_under_readers_by_another_job(
    world: World, way: str, then: str
) -> None:
    """R7, section 4: a table that is taken over, or comes back, keeps what readers have aligned with."""
    tables = [world.table("d"), world.table("e")]
    for number in (1, 2, 3):
        world.run(world.job("d", tables), day(number), [number])
    origin = {"cadence": HOURLY_FROM_3, "origin": barrier(3)}
    world.run(world.job("r", inputs=[state(tables[0], as_of=timedelta(0))], **origin), hour(2), [1])
    if then != "declares":
        world.coordinator.register(world.job("r", **origin))
    if way == "successor":
        world.coordinator.retire(DOMAIN, "d", reason="renamed", by="ada")
    else:
        world.coordinator.register(world.job("d", tables[1:]))
    if way == "successor of one table":
        world.coordinator.retire(DOMAIN, "d", table="d", reason="renamed", by="ada")
    if way == "comes back":
        world.coordinator.register(world.job("d", tables[1:], cadence=HOURLY_FROM_3))
    name = "d" if way == "comes back" else "r" if then == "is the successor" else "successor"
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"cadence of d cannot change .* job 'r' reads as_of") as refused:
        world.coordinator.register(world.job(name, tables[:1], cadence=HOURLY_FROM_3))
    assert (refused.value.interval, refused.value.table) == (hour(2), "d")
    assert world.exactly() == before


def test_an_old_dag_serves_its_days_and_no_day_of_the_new_calendar(world: World) -> None:
    """R7: a retry with the daily declaration computes days before the change only."""
    job = changed(world)
    old = world.job("d")
    assert world.run(old, day(3), [33], owner("again")).revision == 2
    with pytest.raises(InvalidInput, match="until 2024-01-04"):
        world.begin(old, day(4))
    assert world.run(job, hour(1)).revision == 1


def test_a_changed_job_is_declared_anew_and_goes_to_a_successor(world: World) -> None:
    """R7: with the calendar that it has by now, and with another change after it."""
    world.run(changed(world), hour(1))
    world.run(world.job("d", cadence=HOURLY_FROM_3, on_rerun="keep"), hour(2))
    world.coordinator.retire(DOMAIN, "d", reason="renamed", by="ada")
    tables = [world.table("d")]
    world.run(world.job("successor", tables, cadence=HOURLY_FROM_3), hour(3))
    six = Cadence("0 */6 * * *", since=barrier(3) + 6 * HOUR, before=HOURLY_FROM_3)
    world.coordinator.register(world.job("successor", tables, cadence=six))
    world.run(world.job("successor", tables, cadence=six), hour(4))
    assert world.cut("d").barrier == barrier(3) + 4 * HOUR


def test_computed_day_keeps_its_calendar(world: World) -> None:
    """R7: no declaration makes hours of a day that is committed, or open."""
    with pytest.raises(TopologyError, match=r"cannot change at 2024-01-04.* 2024-01-05"):
        changed(world, 4)
    attempt = world.begin(world.job("e"), day(4))
    with pytest.raises(TopologyError, match="cannot change"):
        world.coordinator.register(world.job("e", cadence=HOURLY_FROM_3))
    world.coordinator.abort(attempt, "it is not to be a day")
    world.coordinator.register(world.job("e", cadence=HOURLY_FROM_3))


def test_committed_day_of_a_left_table_keeps_its_calendar(world: World) -> None:
    """R7: the first hour would be taken for the day that is committed, when tables and cadence change at once."""
    for number in range(1, 5):
        world.run(world.job("d"), day(number), [number])
    tables = [world.table("e")]
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"cannot change at 2024-01-04.* 2024-01-05"):
        world.coordinator.register(world.job("d", tables, cadence=HOURLY_FROM_3))
    assert world.exactly() == before
    hourly = Cadence("@hourly", since=barrier(4), before=Cadence("@daily"))
    job = world.job("d", tables, cadence=hourly)
    assert world.run(job, Interval(barrier(4), barrier(4) + HOUR)).revision == 1


def test_an_attempt_of_the_old_calendar_publishes_nothing(world: World) -> None:
    """R7, R10: one that began between the look and the registration."""
    job = world.job("d")
    world.run(job, day(3))
    attempt = world.begin(job, day(4))
    world.write(attempt)
    lock = next(record for record in world.records() if record.key.kind == "lock")
    taken = Transaction(
        domain=DOMAIN, requires=(Exists(lock.key, lock.version),), updates=(Delete(lock.key),)
    )
    world.store.transact(taken)
    world.coordinator.register(world.job("d", cadence=HOURLY_FROM_3))
    with pytest.raises(TopologyError, match="the calendar of 'd'"):
        world.coordinator.publish(attempt)


def test_first_hour_deletes_staged_output_of_the_dead_day(table_world: World) -> None:
    """R7, R16: an attempt that died before the change staged for the day; it and the hour have one record."""
    world = table_world
    daily = world.job("d")
    world.run(daily, day(3), [3])
    world.write(world.begin(daily, day(4)))
    world.clock.advance(PAST_TTL)
    world.coordinator.retire(DOMAIN, "d", reason="it is silent", by="ada")
    world.coordinator.revive(DOMAIN, "d")
    assert len(world.staged()) == 1
    world.run(world.job("d", cadence=HOURLY_FROM_3), hour(1), [1])
    assert world.staged() == []


def files(name: str, source: str = "feed") -> dict[str, SourceBounds]:
    return {source: SourceBounds(source=source, files=(BoundFile(uri=f"file:///{name}", size_bytes=1),))}


def test_hours_never_read_the_files_of_a_day(world: World) -> None:
    """R7, I11: the bounds of a day that was given up stay, and its last hour ends where it does."""
    feed = FileSource("feed", "/feed", late="ignore")
    world.coordinator.abort(
        world.begin(world.job("d", inputs=[feed]), day(4), sources=files("day")), "it is too large"
    )
    hourly = world.job("d", cadence=HOURLY_FROM_3, inputs=[feed])
    with pytest.raises(TopologyError, match=r"cannot change at 2024-01-04.* 2024-01-05"):
        world.coordinator.register(hourly)
    other = world.job("d", cadence=HOURLY_FROM_3, inputs=[FileSource("hourly_feed", "/feed", late="ignore")])
    world.coordinator.register(other)
    world.coordinator.register(hourly)  # nothing of the day is recorded by this calendar
    with pytest.raises(TopologyError, match="recorded for .* which job 'd' began"):
        world.begin(hourly, hour(24), sources=files("hour"))
    assert world.begin(other, hour(24), sources=files("hour", "hourly_feed")).revision == 1


def test_a_source_does_not_come_back_behind_a_day_that_the_calendar_lost(world: World) -> None:
    """R7, I11: hours would go on behind what a day that failed has recorded, and no epoch would read its rows."""
    orders = PostgresSource("orders", "orders", connection="shop", id_column="id")
    bounds = SourceBounds(source="orders", span=Span(low=None, high=5, rows=5))
    attempt = world.begin(world.job("d", inputs=[orders]), day(4), sources={"orders": bounds})
    world.coordinator.abort(attempt, "it is too large")
    world.coordinator.register(world.job("d", cadence=HOURLY_FROM_3))
    again = world.job("d", cadence=HOURLY_FROM_3, inputs=[orders])
    with pytest.raises(TopologyError, match="bounds of source 'orders' are recorded for .*2024-01-05"):
        world.begin(again, hour(1), sources={"orders": bounds})


def test_a_source_that_was_left_in_the_same_calendar_comes_back(world: World) -> None:
    """R7: what is recorded since the change is of epochs that there are."""
    orders = PostgresSource("orders", "orders", connection="shop", id_column="id")
    changed(world)
    job = world.job("d", cadence=HOURLY_FROM_3, inputs=[orders])
    bounds = SourceBounds(source="orders", span=Span(low=None, high=5, rows=5))
    world.coordinator.abort(world.begin(job, hour(1), sources={"orders": bounds}), "it is too large")
    world.coordinator.register(world.job("d", cadence=HOURLY_FROM_3, on_rerun="keep"))
    assert world.begin(job, hour(1), sources={"orders": bounds}).sources == (bounds,)


def test_a_successor_with_another_calendar_may_read_the_sources_on(world: World) -> None:
    """R7, I11: what was recorded before the change is the same for both."""
    feed = FileSource("feed", "/feed", late="ignore")
    attempt = world.begin(world.job("d", inputs=[feed]), day(3), sources=files("day"))
    world.write(attempt)
    world.coordinator.publish(attempt)
    world.coordinator.retire(DOMAIN, "d", reason="renamed", by="ada")
    successor = world.job("successor", [world.table("d")], cadence=HOURLY_FROM_3, inputs=[feed])
    assert world.begin(successor, hour(1), sources=files("hour")).sources == (files("hour")["feed"],)
    third = world.job("third", cadence=HOURLY_FROM_3, inputs=[feed])
    assert world.begin(third, hour(1), sources=files("other")).sources == (files("hour")["feed"],), (
        "the successor's"
    )


def test_bounds_of_a_job_that_has_left_the_source_hold_its_calendar(world: World) -> None:
    """R7, I11: the new calendar begins behind them; else its first epoch could never begin."""
    feed = FileSource("feed", "/feed", late="ignore")
    world.begin(world.job("d", inputs=[feed]), day(4), sources=files("day"))
    world.coordinator.register(world.job("e", inputs=[feed]))
    world.coordinator.register(world.job("d"))
    before = world.exactly()
    with pytest.raises(TopologyError, match="the cadence cannot change at") as refused:
        world.coordinator.register(world.job("e", cadence=HOURLY_FROM_3, inputs=[feed]))
    assert world.exactly() == before
    assert f"let it change at {day(4).end.isoformat()}" in refused.value.next_step


@pytest.mark.parametrize(
    "cadence",
    [
        Cadence("@hourly"),
        Cadence("0 */6 * * *"),
        Cadence("@hourly", since=barrier(3), before=Cadence("0 */6 * * *")),
    ],
)
def test_the_calendar_before_is_declared_as_it_was(world: World, cadence: Cadence) -> None:
    """R7: a change says from when on and what was before; without it, it would rewrite history."""
    world.run(world.job("d"), day(1))
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"Cadence\(new, since=barrier, before=old\)"):
        world.coordinator.register(world.job("d", cadence=cadence, origin=None))
    assert world.exactly() == before


def test_readers_must_meet_the_new_calendar(world: World) -> None:
    """R6, R7: a reader of each hour refuses that its input becomes daily; one that follows it first does not."""
    world.coordinator.register(world.job("h", cadence="@hourly"))
    reader = world.job("r", inputs=[world.table("h")], cadence="@hourly")
    world.coordinator.register(reader)
    daily = Cadence("@daily", since=barrier(3), before=Cadence("@hourly"))
    with pytest.raises(TopologyError, match="exactly at its barriers"):
        world.coordinator.register(world.job("h", cadence=daily))
    world.coordinator.register(world.job("r", inputs=[world.table("h")], cadence=daily))
    world.coordinator.register(world.job("h", cadence=daily))


def test_readers_meet_the_calendar_of_a_table_that_its_job_has_left(world: World) -> None:
    """R6: no job declares it any more, and an hourly reader would wait for its hours for ever."""
    both = [world.table("d"), world.table("d2")]
    world.run(world.job("d", outputs=both), day(1), [1])
    world.coordinator.register(world.job("d", outputs=both[:1]))
    before = world.exactly()
    with pytest.raises(TopologyError, match="reads 'd2' exactly at its barriers") as refused:
        world.coordinator.register(world.job("r", inputs=[both[1]], cadence="@hourly"))
    assert world.exactly() == before
    assert refused.value.owner == "d"
    world.coordinator.register(world.job("r", inputs=[state(both[1], as_of=timedelta(0))], cadence="@hourly"))
    world.run(world.job("s", inputs=[both[1]]), day(1))


def test_a_full_table_is_read_at_the_barriers_that_it_had(world: World) -> None:
    """R7: one state a day, then one an hour; what a reader of days depends on is the hour before its barrier."""
    full = world.table("f", kind=TableKind.FULL)
    for number in (1, 2, 3):
        world.run(world.job("f", [full]), day(number), [number])
    hourly = world.job("f", [full], cadence=HOURLY_FROM_3)
    for number in range(1, 25):
        world.run(hourly, hour(number), [number])
    assert world.rows("f", at=barrier(3)) == {"f": [(3, 3)]}
    assert world.cuts.read(world.cut("f"), "f").column("value").to_pylist() == [24]
    attempt = world.begin(world.job("r", inputs=[state(full)]), day(4))
    assert (attempt.inputs[0].low, attempt.inputs[0].high) == (hour(24).start, barrier(4))


def hours(job: Job, origin: int = 1) -> list[Interval]:
    """The hours of the day after *origin*."""
    return job.cadence.split(Interval(barrier(origin), barrier(origin + 1)))


def test_chg2_last_hour_survives_rollback_of_the_failed_day(table_world: World) -> None:
    """R7, R16: hour 23 commits, or is WRITTEN, before hour 0 begins, which undoes what the day left."""
    world = table_world
    world.run(world.job("d"), day(1), [1])
    daily = world.begin(world.job("d"), day(2), owner("day"))
    world.write(daily, [2])
    world.coordinator.abort(daily, "the task failed")
    job = world.job("d", cadence=Cadence("@hourly", since=barrier(1), before=Cadence("@daily")))
    *between, before_last, last = hours(job)
    world.run(job, last, [23])
    attempt = world.begin(job, before_last)
    world.write(attempt, [22])
    world.coordinator.abort(daily, "once more")
    first = world.begin(job, between[0])
    assert len(world.data()) == 3
    world.coordinator.publish(attempt)
    world.write(first, [0])
    world.coordinator.publish(first)
    for number, epoch in enumerate(between[1:], 1):
        world.run(job, epoch, [number])
    assert world.rows("d") == {"d": sorted([(1, 1), (2, 23), *((1, number) for number in range(23))])}


def test_chg2_a_day_that_ends_with_an_hour_that_failed(table_world: World) -> None:
    """R7, R16: the day is WRITTEN and alive when a vacuum deletes what the hour left, and publishes after it."""
    world = table_world
    start = barrier(0) - HOUR
    hourly = world.job("d", cadence="@hourly", origin=None)
    world.run(hourly, Interval(start, barrier(0)), [1])
    failed = world.begin(hourly, Interval(barrier(1) - HOUR, barrier(1)))
    world.write(failed, [23])
    (left,) = world.staged()
    world.coordinator.abort(failed, "the task failed")
    world.clock.advance(2 * DEFAULTS.orphan_grace)
    calendar = Cadence("@daily", since=barrier(0), before=Cadence("@hourly"))
    attempt = world.begin(world.job("d", cadence=calendar, origin=None), day(1))
    world.write(attempt, [2])
    stage_rows(world.coordinator, failed, "d", rows([23]))
    assert len(world.staged()) == 2
    vacuumed = world.retention.vacuum(DOMAIN)
    assert [left.startswith(place) for place in vacuumed.orphans] == [True]
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(0, 1), (1, 2)]}


def test_chg2_publish_notices_a_missing_file(table_world: World) -> None:
    """I6: whatever deleted it; nothing is published, and the epoch is computed again."""
    world = table_world
    job = world.job("d", [world.table("d"), world.table("e")])
    world.run(job, day(1))
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    world.coordinator.complete(attempt)
    (gone,) = (uri for uri in world.staged() if "/e/" in uri)
    world.lose(gone)
    before = world.exactly()
    with pytest.raises(Unavailable, match="nothing was published") as lost:
        world.coordinator.publish(attempt)
    assert lost.value.details["uri"] == gone
    assert world.exactly() == before
    world.coordinator.abort(attempt, "a file is missing")
    world.run(job, day(2), [3], owner(try_number=2))
    assert world.rows("d", "e") == {name: [(1, 1), (2, 3)] for name in ("d", "e")}
