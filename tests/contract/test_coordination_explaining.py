"""What waits ask and say, and what ``explain`` tells of an epoch, where it matters which of several things is meant."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.wait import JobInputs, check_inputs, wait_for
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import NotReady, TopologyError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.schedule import run_interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, previous, state
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner


class Watched(FaultyStore):
    """A store that answers at once when it is watched. :ivar watches: after which CSN, and for how long."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store, lambda _call: None)
        self.watches: list[tuple[int, timedelta]] = []

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        self.watches.append((after, timeout))
        return super().watch(domain, -1, timedelta(0))


@pytest.mark.parametrize("seconds", [2, 7])
def test_a_wait_ends_on_time_and_listens_for_unseen_commits(world: World, seconds: int) -> None:
    """R35: it asks the store for what comes after its last look, and never for longer than it has left."""
    for number in (1, 2):
        world.run(world.job("d"), day(number))
    store, before = Watched(world), world.clock.monotonic()
    with pytest.raises(NotReady):
        wait_for(store, DOMAIN, ["d"], barrier(9), timeout=timedelta(seconds=seconds), clock=world.clock)
    assert world.clock.monotonic() - before == pytest.approx(seconds)
    longest = DEFAULTS.wait_poll_interval
    assert [after for after, _ in store.watches] == [2] * len(store.watches)
    assert [pause for _, pause in store.watches] == (
        [longest, timedelta(seconds=seconds) - longest] if seconds > 5 else [timedelta(seconds=seconds)]
    )


def test_late_input_of_a_job_is_named_once(world: World) -> None:
    """R6: of several inputs only the one that is late."""
    world.run(world.job("a"), day(1))
    world.coordinator.register(world.job("b"))
    job = world.job("r", inputs=[world.table(name) for name in "ab"])
    missing = check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).missing
    assert [(late.table, late.wanted) for late in missing] == [("b", barrier(1))]


@pytest.mark.parametrize(
    ("name", "dag"), [("team.orders-v2", " of DAG team.orders-v2"), ("ada@laptop", ""), ("skip by ada", "")]
)
def test_only_valid_dag_ids_are_called_dags(world: World, name: str, dag: str) -> None:
    """Section 10: who starts a program by hand, or skips, is none."""
    orders = world.job("orders")
    world.run(orders, day(1))
    world.begin(orders, day(2), Owner(dag_id=name, run_id="1"))
    world.coordinator.register(world.job("r", inputs=[world.table("orders")]))
    told = explain(world.store, DOMAIN, "r", day(2))
    assert [str(holder) for holder in told.brought_by] == [
        f"orders: brought by job orders{dag}, begun by run 1 and not ended"
    ]
    assert [holder.names_dag for holder in told.holders] == [bool(dag)]


def test_the_skip_that_explain_names_can_be_typed(world: World) -> None:
    """R5: with job and epoch, as the shell takes them; then the wait is over."""
    inputs, full = world.job("late orders"), world.table("f", kind="full")
    reader, keeps = world.job("r", inputs=[world.table("late orders")]), world.job("f", outputs=[full])
    of_full = world.job("of full", inputs=[state(full)])
    for number in (1, 2):
        world.run(keeps, day(number))
        world.run(inputs, day(number))
    world.run(reader, day(1))
    world.run(of_full, day(2))
    world.coordinator.register(world.job("new", inputs=[world.table("r")]))
    world.coordinator.retire(DOMAIN, "of full", reason="trial", by="me")
    world.keeper().expire(DOMAIN, "f", barrier(1))
    world.coordinator.revive(DOMAIN, "of full")
    for job, number in (("of full", 1), ("new", 2)):
        told = explain(world.store, DOMAIN, job, day(number))
        words = shlex.split(told.next_step.split("`")[1])
        assert words[:4] == ["airflow", "epochs", "skip", job]
        assert run_interval(reader.cadence, explicit=words[4]) == day(number)
    world.coordinator.skip(DOMAIN, "of full", day(1), "expired", by="me")
    assert world.rows("of full") == {"of full": [(2, 1)]}


def test_commands_of_doctor_quote_names_as_the_shell_takes_them(world: World) -> None:
    """Section 10: a name may have a space, and is one word of the command."""
    job = world.job("late orders")
    world.coordinator.abort(world.begin(job, day(1)), "SparkException")
    (found,) = examine(world.store, world.formats, DOMAIN).symptoms
    words = shlex.split(found.next_step.split("`")[1])
    assert words[:4] == ["airflow", "epochs", "explain", "late orders"]
    assert run_interval(job.cadence, explicit=words[4]) == day(1)
    world.coordinator.retire(DOMAIN, "late orders", reason="trial", by="me")
    with pytest.raises(TopologyError) as refused:
        world.begin(job, day(1))
    assert shlex.split(refused.value.next_step.split("`")[1])[2:] == ["revive", "late orders"]


def test_explain_tells_an_epoch_that_was_taken_back_as_one_that_is_to_be_run(world: World) -> None:
    """R30: nothing is committed of it, so that no table is lacking beside others."""
    job, context = world.job("a"), world.coordinator.context
    for number in (1, 2):
        world.run(job, day(number))
    world.clock.advance(timedelta(seconds=1))
    rollback(context, plan_rollback(context, DOMAIN, 1), reason="wrong", by="me")
    told = explain(world.store, DOMAIN, "a")
    assert (told.interval, told.summary) == (day(2), "not begun")
    assert told.next_step == "run the task of job 'a' for it; its inputs are ready."
    assert told.log[-1].record.state is EpochState.ROLLED_BACK


def test_explain_names_job_dag_and_run_of_the_awaited_epoch(world: World) -> None:
    """Section 10: job, DAG and run, also of the open epoch itself; an unknown name is asked about."""
    orders = world.job("orders")
    world.run(orders, day(1))
    world.begin(orders, day(2), owner("marked"))
    reader = world.job("r", inputs=[world.table("orders"), world.table("order")])
    world.coordinator.register(reader)
    told = explain(world.store, DOMAIN, "r", day(2))
    assert [str(holder) for holder in told.brought_by] == [
        "orders: brought by job orders of DAG dag, begun by run marked and not ended",
        "order: no job that writes it has run; is 'orders' meant?",
    ]
    assert [holder.run_id for holder in told.holders] == ["marked"]
    own = explain(world.store, DOMAIN, "orders", day(2))
    assert ([holder.run_id for holder in own.holders], own.brought_by) == (["marked"], ())
    assert explain(world.store, DOMAIN, "orders", day(1)).holders == ()


def test_a_job_waits_for_nothing_of_its_own_tables_where_it_begins(world: World) -> None:
    """R12: for none of them, and none of them is registered yet."""
    tables = [world.table("one"), world.table("two")]
    job = world.job("own", tables, inputs=[previous(table) for table in tables])
    assert check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).ready
    assert len(check_inputs(world.store, DOMAIN, JobInputs.of(job, day(2))).missing) == 2
    world.begin(job, day(1))


def test_a_job_that_reads_an_older_past_begins_at_its_origin(world: World) -> None:
    """R12: as long as its past lies before that there is nothing to wait for, and nothing to read."""
    table = world.table("own")
    job = world.job("own", [table], inputs=[previous(table, as_of=timedelta(days=2))])
    for number in (1, 2, 3):
        inputs = JobInputs.of(job, day(number))
        assert check_inputs(world.store, DOMAIN, inputs).ready
        assert not world.begin(job, day(number)).input("own").ref
    assert not check_inputs(world.store, DOMAIN, JobInputs.of(job, day(4))).ready
    with pytest.raises(NotReady):
        world.begin(job, day(4))
    world.run(job, day(1), [1], owner(try_number=2))
    assert check_inputs(world.store, DOMAIN, JobInputs.of(job, day(4))).ready
    assert world.begin(job, day(4)).input("own").ref


def test_a_time_within_an_expired_epoch_is_no_barrier(world: World) -> None:
    """R24: it never was one, and a job's wait says so."""
    full = world.table("f", kind=TableKind.FULL)
    for number in (1, 2, 3):
        world.run(world.job("f", [full]), day(number))
    world.retention.expire(DOMAIN, "f", barrier(2))
    inputs = JobInputs(edges=(state(full),), interval=Interval(barrier(1), barrier(1.5)))
    (missing,) = check_inputs(world.store, DOMAIN, inputs).missing
    assert "no barrier of its cadence" in missing.reason


def test_an_epoch_from_before_a_table_came_lacks_nothing(world: World) -> None:
    """R7: no run has to compute it again for a table that begins later."""
    for number in (1, 2):
        world.run(world.job("d"), day(number))
    world.run(world.job("d", [world.table("d"), world.table("late")]), day(3))
    for number in (1, 2, 3):
        assert explain(world.store, DOMAIN, "d", day(number)).next_step == "nothing to do."


def test_an_epoch_that_is_not_over_is_waited_for(world: World) -> None:
    """Section 10: time is what it waits for; no user is told to run it."""
    job = world.job("d")
    world.coordinator.register(job)
    now = world.store.read(DOMAIN, []).now
    epoch = job.cadence.ending_at(job.cadence.next_after(now))
    told = explain(world.store, DOMAIN, "d", epoch)
    assert told.waiting_for == (f"time: it ends at {epoch.end.isoformat()}",)
    assert "not due" in told.next_step
    assert explain(world.store, DOMAIN, "d", job.cadence.ended_by(now)).waiting_for == ()


def test_job_without_origin_is_asked_for_its_last_ended_epoch(world: World) -> None:
    """Section 10: before anything is committed the epoch to run is the last one that is over."""
    job = world.job("d", origin=None)
    world.coordinator.register(job)
    now = world.store.read(DOMAIN, []).now
    told = explain(world.store, DOMAIN, "d")
    assert told.interval == job.cadence.ended_by(now)
    assert told.interval.end <= now < told.interval.end + timedelta(days=1)


def test_all_that_an_epoch_waits_for_is_told(world: World) -> None:
    """R24: what is expired, and what is missing besides."""
    full = world.table("f", kind=TableKind.FULL)
    for number in (1, 2, 3):
        world.run(world.job("f", [full]), day(number))
    world.retention.expire(DOMAIN, "f", barrier(2))
    world.coordinator.register(world.job("r", inputs=[state(full), world.table("never")]))
    gone, missing = explain(world.store, DOMAIN, "r", day(2)).waiting_for
    assert gone == f"f: what it had at {barrier(2).isoformat()} is expired"
    assert missing.startswith("never: no owner yet")


def test_explain_tells_epochs_of_a_retired_job(world: World) -> None:
    """R7, R24: an epoch that it committed waits for nothing, any other waits in vain; a barrier may be gone."""
    full = world.table("f", kind=TableKind.FULL)
    for number in (1, 2, 3):
        world.run(world.job("f", [full]), day(number))
    world.retention.expire(DOMAIN, "f", barrier(2))
    world.coordinator.retire(DOMAIN, "f", reason="replaced", by="ada")

    def told(number: int) -> tuple[EpochState, tuple[str, ...], tuple[str, ...]]:
        found = explain(world.store, DOMAIN, "f", day(number))
        return found.state, found.waiting_for, found.expired

    assert told(2) == (EpochState.COMMIT, (), ("f",))
    assert told(3) == (EpochState.COMMIT, (), ())
    assert told(4) == (EpochState.NOTHING, ("nothing: the job is retired: replaced (ada)",), ())


def adding_up(world: World, **options: Any) -> Job:
    """A job that builds on its own past, and reads another table."""
    total = world.table("total", kind=TableKind.FULL)
    return world.job("add_up", [total], inputs=[world.table("sales"), previous(total)], **options)


def refused(world: World, job: Job, number: int) -> NotReady:
    with pytest.raises(NotReady) as error:
        world.begin(job, day(number), owner(f"of day {number}"))
    told = explain(world.store, DOMAIN, job.name, day(number))
    assert told.next_step == f"{error.value.next_step}."
    assert told.waiting_for == tuple(map(str, error.value.missing))
    return error.value


def test_a_job_that_begins_late_in_its_own_past_is_told_which_epoch_comes_first(world: World) -> None:
    """R12, section 10: no waiting brings it, unless that epoch is being computed."""
    for number in (1, 2, 3):
        world.run(world.job("sales"), day(number))
    job = adding_up(world)
    with pytest.raises(NotReady) as unregistered:
        world.begin(job, day(3))
    world.coordinator.register(job)
    first = f"run job add_up for {day(1)} first, such as by clearing its task"
    assert unregistered.value.next_step == refused(world, job, 3).next_step == first
    assert f"the job itself has not committed {day(1)}" in refused(world, job, 2).message
    attempt = world.begin(job, day(1))
    assert refused(world, job, 3).next_step == f"wait for {day(1)} of job add_up, which {owner()} computes"
    world.coordinator.abort(attempt, "its code failed")
    assert refused(world, job, 3).next_step == first
    world.run(job, day(1))
    assert f"run job add_up for {day(2)} first" in refused(world, job, 3).next_step
    world.run(job, day(2))
    world.run(job, day(3))


def test_a_job_that_begins_before_its_input_is_told_which_origin_to_declare(world: World) -> None:
    """R7, section 10: its own first epoch can never run; that is told by later ones, too."""
    for number in (3, 4, 5):
        world.run(world.job("sales", origin=barrier(2)), day(number))
    job = adding_up(world)
    world.coordinator.register(job)
    for number in (1, 2, 3, 5):
        step = refused(world, job, number).next_step
        assert step.startswith(f"declare the origin {barrier(2).isoformat()} or a later one for the job")
        assert "first" not in step
    later = adding_up(world, origin=barrier(2))
    world.run(later, day(3))
    world.run(later, day(4))


def test_doctor_names_an_epoch_that_later_ones_have_passed(world: World) -> None:
    """R12: no run has begun it, and a job that reads its own past waits for it for good."""
    total = world.table("total")
    for number in (1, 3):
        world.run(world.job("add_up", [total]), day(number))

    def told() -> list[tuple[str, str]]:
        symptoms = examine(world.store, world.formats, DOMAIN).symptoms
        return [(symptom.subject, symptom.next_step) for symptom in symptoms]

    assert told() == [], "its epochs may come in any order"
    job = world.job("add_up", [total], inputs=[previous(total)])
    world.coordinator.register(job)
    ((subject, step),) = told()
    assert subject == f"add_up {day(2)}"
    assert "run the task of job 'add_up' for it" in step
    assert f"run job add_up for {day(2)} first" in refused(world, job, 4).next_step
    world.run(job, day(2))
    world.run(job, day(4))
    assert told() == []
