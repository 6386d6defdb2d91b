"""Derivation, time and topology: the named schedules DER5 to DER15 on each store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider.client.epochs import Epochs
from airflow_provider.coordination.reading.wait import Readiness, check, wait_for
from airflow_provider.coordination.upkeep.explain import explain, watermarks
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import InvalidInput, NotReady, TopologyError, UnknownName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Kind
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Table, increment, previous, state
from airflow_provider.testing.arrow_attempts import read_rows
from airflow_provider.testing.faults import Call, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner, side_by_side

HOUR = timedelta(hours=1)
HOURLY = Cadence("@hourly")


def test_der5_cadence_skew(world: World) -> None:
    """R3: hourly D and daily E, asked for at 14:30 of the second day, meet at its midnight."""
    hourly, daily = world.job("d", cadence="@hourly"), world.job("e")
    for hour in HOURLY.split(Interval(barrier(0), barrier(1) + 15 * HOUR)):
        world.run(hourly, hour, [1])
    world.run(daily, day(1), [2])
    asked = barrier(1) + 14.5 * HOUR
    cut = world.cut("d", "e", at=asked)
    assert cut.barrier == barrier(1)
    assert len(world.rows_of(cut)["d"]) == 24
    assert world.cut("d", at=asked).barrier == barrier(1) + 14 * HOUR
    assert len(world.rows("d", at=asked)["d"]) == 38


def test_der5_a_reader_waits_for_all_that_it_lists(world: World) -> None:
    """check and wait_for say which table lags; a table that no job owns yet is one of them."""
    hourly = world.job("d", cadence="@hourly")
    world.run(hourly, Interval(barrier(0), barrier(0) + HOUR))
    answer = check(world.store, DOMAIN, ["d", "e"], barrier(1))
    assert not answer.ready
    assert {lag.table for lag in answer.missing} == {"d", "e"}
    assert "no owner yet" in str(answer)
    with pytest.raises(NotReady, match="e: no owner yet") as late:
        wait_for(world.store, DOMAIN, ["d", "e"], barrier(1), timeout=timedelta(0), clock=world.clock)
    assert {lag.table for lag in late.value.details["missing"]} == {"d", "e"}
    ready = wait_for(world.store, DOMAIN, ["d"], barrier(0) + HOUR, timeout=timedelta(0), clock=world.clock)
    assert ready.ready
    assert ready.csn == 1
    with pytest.raises(UnknownName):
        world.cut("d", "nobody")


def test_der11_tables_of_a_domain_meet_at_a_barrier_and_two_domains_do_not(world: World) -> None:
    """R3: D is a barrier ahead of E, which has nothing to do with it; a job or a cut of two domains is refused."""
    ahead, behind = world.job("d"), world.job("e")
    for number in (1, 2):
        world.run(ahead, day(number), [number])
    world.run(behind, day(1), [1])
    cut = world.cut("d", "e")
    assert cut.barrier == barrier(1)
    assert world.rows_of(cut) == {"d": [(1, 1)], "e": [(1, 1)]}
    elsewhere = Table("e", domain="other", format=world.table_format)
    with pytest.raises(InvalidInput, match="other"):
        world.job("reader", inputs=[world.table("d"), elsewhere])
    with pytest.raises(InvalidInput, match="tables of one domain"):
        Epochs(world.coordinator).cut([world.table("d"), elsewhere])


def test_wait_for_ends_by_the_callers_clock(world: World) -> None:
    """A wait with a clock of its own is over when that clock says so, and names the table that lags."""
    world.coordinator.register(world.job("d"))
    quick = replace(DEFAULTS, wait_poll_interval=timedelta(milliseconds=1))
    with pytest.raises(NotReady) as late:
        wait_for(
            world.store,
            DOMAIN,
            ["d"],
            barrier(1),
            timeout=timedelta(milliseconds=20),
            clock=world.clock,
            defaults=quick,
        )
    assert [lag.table for lag in late.value.details["missing"]] == ["d"]


def test_att17_a_wait_that_airflow_fails_costs_a_retry(world: World) -> None:
    """R3: nothing hangs on a wait: a task that waits again asks the store; begin refuses a task that did not wait."""
    world.coordinator.register(world.job("d"))
    reader = world.job("e", inputs=[world.table("d")])

    class Failed(Exception):
        """What ends a deferred or rescheduled task from outside."""

    class FailedByAirflow:
        def monotonic(self) -> float:
            return 0.0

        def sleep(self, duration: timedelta) -> None:
            raise Failed(duration)

    def wait() -> Readiness:
        quick = replace(DEFAULTS, wait_poll_interval=timedelta(milliseconds=1))
        clock = FailedByAirflow()
        return wait_for(
            world.store, DOMAIN, ["d"], barrier(1), timeout=timedelta(hours=1), clock=clock, defaults=quick
        )

    with pytest.raises(Failed):
        wait()
    with pytest.raises(NotReady):
        world.begin(reader, day(1))
    world.run(world.job("d"), day(1))
    assert wait().ready
    world.run(reader, day(1))


def test_wait_for_is_woken_by_the_commit(world: World) -> None:
    """R35: who waits gets its answer when the barrier is reached, whichever comes first."""
    job = world.job("d")
    world.coordinator.register(job)
    attempt = world.begin(job, day(1))
    world.write(attempt)
    found = side_by_side(
        lambda: wait_for(world.store, DOMAIN, ["d"], barrier(1), timeout=timedelta(seconds=30)),
        lambda: world.worker().publish(attempt),
    )
    assert getattr(found[0], "ready", False), found


def test_wait_for_listens_to_the_store(world: World) -> None:
    """R35: the commit comes while it listens; then it asks once more, and has its answer."""
    job = world.job("d")
    world.coordinator.register(job)
    attempt = world.begin(job, day(1))
    world.write(attempt)

    def plan(call: Call) -> None:
        if call.method == "watch":
            world.coordinator.publish(attempt)

    store = FaultyStore(world.store, plan)
    assert wait_for(store, DOMAIN, ["d"], barrier(1), timeout=timedelta(minutes=1), clock=world.clock).ready
    assert [call.method for call in store.calls].count("watch") == 1


def test_der6_cadence_drift(world: World) -> None:
    """R7: a daily epoch reads its own hours, however many more are there when it is computed or again."""
    hourly = world.job("h", cadence="@hourly")
    daily = world.job("e", inputs=[increment(world.table("h"))])
    for hour in HOURLY.split(Interval(barrier(0), barrier(1) + 5 * HOUR)):
        world.run(hourly, hour, [1])
    for by in (owner(), owner("manual")):
        attempt = world.begin(daily, day(1), by)
        found = read_rows(world.coordinator, attempt, "h")
        assert found is not None
        assert found.num_rows == 24
        world.write(attempt, [found.num_rows])
        world.coordinator.publish(attempt)


@pytest.mark.parametrize(
    ("reader", "source"),
    [
        ("5 * * * *", "0 * * * *"),
        (Cadence("@daily", "America/New_York"), Cadence("@daily", "Europe/Berlin")),
    ],
)
def test_der7_never_meeting_calendars_are_refused(world: World, reader: object, source: object) -> None:
    """R6: both calendars are shown, whichever side registers second, and nothing of the second is kept."""
    owner_job = world.job("o", cadence=source, origin=None)
    reader_job = world.job("r", cadence=reader, origin=None, inputs=[world.table("o")])
    world.coordinator.register(owner_job)
    before = world.exactly()
    with pytest.raises(TopologyError) as refused:
        world.coordinator.register(reader_job)
    assert {"job", "owner", "barrier", "expected", "found"} <= set(refused.value.details)
    assert world.exactly() == before
    with pytest.raises(TopologyError):
        world.coordinator.begin(reader_job, Interval(barrier(0), barrier(1)), owner())
    assert world.exactly() == before


def test_der9_empty_epoch(table_world: World) -> None:
    """R5, I3: an epoch without rows commits, carries the watermark, and its readers read nothing."""
    world = table_world
    d, e = world.job("d"), world.job("e", inputs=[world.table("d")])
    marks = []
    for number, values in ((1, [1]), (2, []), (3, [3])):
        world.run(d, day(number), values)
        world.run(e, day(number), values)
        marks.append(watermarks(world.store, DOMAIN)["e"])
    assert marks == [barrier(1), barrier(2), barrier(3)]
    assert world.rows("d", "e") == {"d": [(1, 1), (3, 3)], "e": [(1, 1), (3, 3)]}
    assert world.rows("d", at=barrier(2)) == {"d": [(1, 1)]}


def test_der9_a_first_epoch_may_be_empty(world: World) -> None:
    """R5: a table that has only an empty epoch has a state, and it has no rows."""
    world.run(world.job("d"), day(1), [])
    assert world.rows("d") == {"d": []}


def test_der12_topology_change_while_an_epoch_is_open(world: World) -> None:
    """R7: the job drops a table while an epoch is open; the epoch publishes what it opened with."""
    d, d2 = world.table("d"), world.table("d2")
    attempt = world.begin(world.job("j", [d, d2]), day(1))
    world.coordinator.register(world.job("j", [d]))
    world.write(attempt, [1])
    assert [name for name, _ in world.coordinator.publish(attempt).tables] == ["d", "d2"]
    world.run(world.job("j", [d]), day(2), [2])
    assert world.rows("d") == {"d": [(1, 1), (2, 2)]}
    with pytest.raises(TopologyError, match="belongs to job 'j'"):
        world.coordinator.register(world.job("k", [d2]))


def test_der12_an_old_declaration_serves_its_epoch_and_never_moves_the_topology_back(world: World) -> None:
    """R7: a retry with the code of an earlier revision reads as that code declares."""
    source = world.job("s")
    for number in (1, 2):
        world.run(source, day(number), [number])
    old = world.job("j", [world.table("d")], inputs=[increment(world.table("s"))])
    new = world.job("j", [world.table("d")], inputs=[state(world.table("s"))])
    world.coordinator.register(old)
    record = world.coordinator.register(new)
    assert record.revision == 2
    newer = world.begin(new, day(2))
    assert newer.inputs[0].low is None
    again = world.begin(old, day(2), owner(try_number=2))
    assert (again.inputs[0].kind.value, again.inputs[0].low) == ("increment", barrier(1))
    assert world.coordinator.register(old).revision == 1
    assert world.coordinator.register(new) == record
    back = world.begin(new, day(2), owner(try_number=3))
    assert back.inputs[0].low is None


def test_der13_cycle(world: World) -> None:
    """R6: J3 reads E and owns B, from which E comes: refused, and the cycle is shown."""
    b, d, e = (world.table(name) for name in "bde")
    world.coordinator.register(world.job("j1", [d], inputs=[b]))
    world.coordinator.register(world.job("j2", [e], inputs=[d]))
    before = world.exactly()
    with pytest.raises(TopologyError) as refused:
        world.coordinator.register(world.job("j3", [b], inputs=[e]))
    cycle = refused.value.details["cycle"]
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {"j1", "j2", "j3"}
    assert world.exactly() == before
    world.coordinator.register(world.job("j3", [b], inputs=[previous(e)]))


def test_der14_second_writer_of_two_racing_registrations_one_wins(world: World) -> None:
    """R6, R8: two jobs want to own D; one does, and the other is told who."""
    d = world.table("d")
    jobs = [world.job(f"j{number}", [d, world.table(f"own{number}")]) for number in range(4)]
    workers = [world.worker(seed=number) for number in range(4)]
    found = side_by_side(*(lambda n=n: workers[n].register(jobs[n]) for n in range(4)))
    won = [answer for answer in found if isinstance(answer, JobRecord)]
    lost = [answer for answer in found if isinstance(answer, TopologyError)]
    assert (len(won), len(lost)) == (1, 3), found
    assert {error.details["owner"] for error in lost} == {won[0].name}
    assert [stamped.record.name for stamped in world.store.scan(DOMAIN, Kind.JOB, "")] == [won[0].name]
    assert {stamped.key.item for stamped in world.store.scan(DOMAIN, Kind.TABLE, "")} == {
        table.name for table in won[0].outputs
    }


def test_der14_racing_registrations_that_do_not_meet_all_win(world: World) -> None:
    """R6: eight jobs register at once; each is there afterwards, and the generation counted them."""
    jobs = [world.job(f"t{number}") for number in range(8)]
    workers = [world.worker(seed=number) for number in range(8)]
    found = side_by_side(*(lambda n=n: workers[n].register(jobs[n]) for n in range(8)))
    assert all(isinstance(answer, JobRecord) for answer in found), found
    topology = world.store.scan(DOMAIN, Kind.TOPOLOGY, "")
    assert topology[0].record.generation == 8


def test_previous_needs_an_origin(world: World) -> None:
    """R12: without an origin no job can tell "nothing before" from "not yet"."""
    d = world.table("d")
    with pytest.raises(TopologyError, match="origin"):
        world.coordinator.register(world.job("d", origin=None, inputs=[previous(d)]))
    job = world.job("d", inputs=[previous(d)])
    with pytest.raises(NotReady, match="d: needs"):
        world.begin(job, day(2))
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    assert attempt.inputs[0].high == barrier(1)


def test_an_edge_may_not_be_left_out_of_the_declared_outputs(world: World) -> None:
    """R5: an epoch publishes when every declared sink is WRITTEN, and says which is not."""
    attempt = world.begin(world.job("j", [world.table("d"), world.table("d2")]), day(1))
    world.write(attempt, sinks=["d"])
    with pytest.raises(InvalidInput, match="not WRITTEN: d2"):
        world.coordinator.publish(attempt)
    assert world.commits() == []


def test_explain_follows_an_epoch(world: World) -> None:
    """Section 10: why is it waiting, and for whom, at every station of an epoch."""
    d, e = world.job("d"), world.job("e", inputs=[world.table("d")])
    for job in (d, e):
        world.coordinator.register(job)

    def told(job: str, epoch: Interval | None = None) -> tuple[EpochState, str]:
        found = explain(world.store, DOMAIN, job, epoch)
        assert found.next_step
        return found.state, f"{found.summary}; {found.waiting_for}"

    assert told("e")[0] is EpochState.NOTHING
    assert "d: needs" in told("e")[1]
    attempt = world.begin(d, day(1))
    assert told("d")[0] is EpochState.OPEN
    assert "alive until" in told("d")[1]
    world.write(attempt)
    assert told("d")[0] is EpochState.PRECOMMIT
    world.clock.advance(PAST_TTL)
    assert "silent since" in told("d")[1]
    world.coordinator.abort(attempt, "no luck")
    assert told("d") == (EpochState.ABORTED, "aborted: no luck; ()")
    world.run(d, day(1), by=owner(try_number=2))
    assert told("d", day(1))[0] is EpochState.COMMIT
    assert explain(world.store, DOMAIN, "d", day(1)).csn == 1
    assert explain(world.store, DOMAIN, "d").interval == day(2)
    assert told("e")[1] == "not begun; ()"
    with pytest.raises(UnknownName):
        explain(world.store, DOMAIN, "nobody")
    with pytest.raises(InvalidInput):
        world.cut("d", level=Level.REPEATABLE_READ)


def test_a_table_that_comes_later_begins_after_all_that_is_there(world: World) -> None:
    """R7: also after what lies beyond a gap; what is explained is the first epoch that no job has computed."""
    for number in (1, 3):
        world.run(world.job("d"), day(number))
    both = world.job("d", [world.table("d"), world.table("d2")])
    world.coordinator.register(both)
    for number, epoch in ((2, 2), (4, 3)):
        assert explain(world.store, DOMAIN, "d").interval == day(epoch)
        world.run(both, day(number), [number])
    assert world.rows("d2") == {"d2": [(4, 4)]}
    world.run(both, day(3), by=owner("cleared"))
    assert world.rows("d2") == {"d2": [(2, 2), (3, 1), (4, 4)]}


def test_a_table_that_comes_while_an_epoch_is_open_still_lacks_that_epoch(world: World) -> None:
    """R7: an attempt that began before the table does not write it: that epoch is the first that is explained."""
    alone = world.job("d")
    for number in (1, 2, 3):
        world.run(alone, day(number), [number])
    attempt = world.begin(alone, day(4))
    both = world.job("d", [world.table("d"), world.table("d2")])
    world.coordinator.register(both)
    world.write(attempt, [4])
    world.coordinator.publish(attempt)
    assert world.cut("d").barrier == barrier(4)
    explained = explain(world.store, DOMAIN, "d")
    assert explained.interval == day(4)
    assert explained.summary.endswith("by an attempt that began before the job had d2")
    assert explained.next_step.startswith("clear the task")
    world.coordinator.register(world.job("d", both.outputs, on_rerun="fail"))
    assert explain(world.store, DOMAIN, "d").next_step.startswith(
        "declare on_rerun='new_revision' and clear the task"
    )
    world.run(both, day(4), [4], owner("again"))
    assert explain(world.store, DOMAIN, "d", day(4)).next_step == "nothing to do."
    assert world.rows("d2") == {"d2": [(4, 4)]}
    assert explain(world.store, DOMAIN, "d").interval == day(5)


def test_der15_a_cadence_does_not_change_without_a_barrier(world: World) -> None:
    """R7: a daily job does not become hourly just like that; its old days are computed again as what they were."""
    daily = world.job("d")
    for number in (1, 2):
        world.run(daily, day(number), [number])
    before = world.content()
    hourly = world.job("d", cadence="@hourly")
    with pytest.raises(TopologyError, match="cadence"):
        world.coordinator.register(hourly)
    with pytest.raises(TopologyError, match="cadence"):
        world.begin(hourly, Interval(barrier(0), barrier(0) + HOUR), owner("again"))
    assert world.content() == before
    world.run(daily, day(1), [10], owner("again"))
    assert world.rows("d") == {"d": [(1, 10), (2, 2)]}
