"""Restatements that are abandoned, or whose time is over; operators wait for their end (R16, R24, R28)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from airflow_provider.coordination.reading.wait import JobInputs, begin_readiness
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    EpochError,
    Fenced,
    InvalidInput,
    LeaseExpired,
    NotReady,
    TopologyError,
)
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, reservation_key, topology_key
from airflow_provider.domain.topology import Job, previous, state
from airflow_provider.stores.base import Reading
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner, rows
from tests.contract.interruptions import Died, interrupted
from tests.contract.restating import (
    CLEARED,
    NAME,
    NEW,
    OLD,
    WHY,
    Jobs,
    abandoned,
    computed,
    finished,
    next_day,
    opened,
    operations,
    planned,
    published,
    read,
    ready,
    restated,
    run_all,
    second,
    seen,
    sound,
    states,
    three_days,
    usable,
    within,
    write,
)
from tests.contract.test_coordination_restoring import renewed


def _approved(world: World, jobs: Jobs) -> None:
    finished(world, jobs)
    output = operations(world).status(DOMAIN, NAME).output
    operations(world).approve(DOMAIN, NAME, output=output, by="boss")


def _outdated(world: World, jobs: Jobs) -> None:
    finished(world, jobs)
    restated(world, jobs[0], 2, [7], CLEARED)


def _reader_begun(world: World, jobs: Jobs) -> None:
    restated(world, jobs[0], 2, [1000])
    world.write(within(world, jobs[1], 2), [1001])


def _joined(world: World, jobs: Jobs) -> None:
    finished(world, jobs)
    next_day(world, jobs)
    with pytest.raises(NotReady):
        published(world)
    restated(world, jobs[2], 4)


STEPS: dict[str, Callable[[World, Jobs], object]] = {
    "planned": lambda *_: None,
    "begun": lambda world, jobs: within(world, jobs[0], 2),
    "written": lambda world, jobs: world.write(within(world, jobs[0], 2), [1000]),
    "failed": lambda world, jobs: world.coordinator.abort(within(world, jobs[0], 2), "it failed"),
    "one staged": lambda world, jobs: restated(world, jobs[0], 2, [1000]),
    "a reader begun": _reader_begun,
    "all staged": finished,
    "approved": _approved,
    "outdated": _outdated,
    "extended": _joined,
}


@pytest.mark.parametrize("step", STEPS)
def test_abandoned_at_each_step(table_world: World, step: str) -> None:
    """R28: nothing is visible, no file is left, and the epochs are as they were; a repetition changes nothing."""
    world = table_world
    jobs = planned(world)
    STEPS[step](world, jobs)
    before = seen(world)
    abandoned(world)
    assert seen(world) == before
    content = world.exactly()
    abandoned(world)
    assert world.exactly() == content
    record = operations(world).status(DOMAIN, NAME).record
    assert (str(record.state), record.ended) == ("abandoned", "no more (me)")
    with pytest.raises(InvalidInput, match="abandoned"):
        published(world)
    usable(world, jobs)
    abandoned(world)
    second(world, ["b"], 2)


def listed(world: World) -> tuple[str, ...]:
    """Restatements that the domain's record lists as open."""
    key = topology_key(DOMAIN)
    return tuple(world.store.read(DOMAIN, [key]).of(key).record.restating)


@pytest.mark.parametrize("end", ["publish", "abandon"])
def test_a_restatement_that_has_ended_is_not_listed_any_more(world: World, end: str) -> None:
    """R28: the record of the domain does not grow with restatements that are over."""
    ready(world)
    assert listed(world) == (NAME,)
    if end == "publish":
        published(world)
    else:
        abandoned(world)
    assert listed(world) == ()


def test_a_worker_of_an_abandoned_member_is_fenced(world: World) -> None:
    """R10: it stages, writes and reads nothing any more."""
    base, daily, _ = planned(world)
    restated(world, base, 2, [1000])
    attempt = within(world, daily, 2)
    abandoned(world)
    own = world.coordinator
    for call in (
        lambda: own.heartbeat(attempt),
        lambda: world.write(attempt, [1]),
        lambda: own.complete(attempt),
        lambda: own.stage(attempt),
    ):
        with pytest.raises(Fenced):
            call()
    with pytest.raises((Fenced, Conflict)):
        own.input(attempt, "b")


@pytest.mark.parametrize("then", ["repeated", "second"])
def test_another_restatement_takes_over_what_an_interrupted_abandon_has_left(world: World, then: str) -> None:
    """R28: what is staged within one is nothing to another; the late repetition ends none of its attempts."""
    jobs = ready(world)

    def die() -> None:
        raise Died

    slow = interrupted(world, die, number=1)
    with pytest.raises(Died):
        slow.restatements.abandon(DOMAIN, NAME, **WHY)
    if then == "repeated":
        abandoned(world)
    second(world, ["b"], 2)
    for job, numbers in zip(jobs, ([2], [2], [2, 3]), strict=True):
        for number in numbers:
            answer = world.coordinator.begin_within("second", job, day(number), owner("restate"))
            assert isinstance(answer, Attempt)
            assert not answer.adopted
            write(world, answer, [2000] if job.name == "b" else None)
            world.coordinator.complete(answer)
            world.coordinator.stage(answer)
            abandoned(world)
    operations(world).publish(DOMAIN, "second")
    assert seen(world)["t"] == [(1, 12), (2, 2014), (3, 2058)]
    assert world.staged() == []
    assert sound(world)


@pytest.mark.parametrize("wins", ["abandon", "publish"])
def test_abandon_and_publish_at_once(world: World, wins: str) -> None:
    """R28: one of them loses, wherever the other comes."""
    ready(world)
    if wins == "abandon":
        slow = interrupted(world, lambda: abandoned(world))
        with pytest.raises((InvalidInput, Fenced, Conflict)):
            slow.restatements.publish(DOMAIN, NAME)
        assert seen(world) == OLD
        assert world.staged() == []
    else:
        slow = interrupted(world, lambda: published(world))
        with pytest.raises(InvalidInput, match="is published"):
            slow.restatements.abandon(DOMAIN, NAME, **WHY)
        assert seen(world) == NEW
    assert sound(world)


def test_a_deadline_that_has_passed(table_world: World) -> None:
    """R28: nothing begins or is published within it; normal runs take its epochs; the abandon deletes what is left."""
    world = table_world
    base, daily, total = ready(world, lifetime=timedelta(hours=5))
    world.clock.advance(timedelta(hours=5))
    for call in (
        lambda: published(world),
        lambda: within(world, base, 2, CLEARED),
        lambda: operations(world).cut(DOMAIN, NAME, ["b"]),
        lambda: operations(world).approve(DOMAIN, NAME, output="0" * 64, by="boss"),
    ):
        with pytest.raises(InvalidInput, match="is past its deadline"):
            call()
    computed(world, total, 3, run="normal")
    assert seen(world) == OLD
    second(world)
    answer = world.coordinator.begin_within("second", daily, day(2), owner("restate"))
    assert isinstance(answer, Attempt)
    assert read(world, answer) == [20]
    abandoned(world)
    write(world, answer, None)
    world.coordinator.complete(answer)
    world.coordinator.stage(answer)
    operations(world).abandon(DOMAIN, "second", **WHY)
    usable(world, (base, daily, total))


class SlowPublisher(FaultyStore):
    """Store of a publisher that stands still for hours before it reads the tables that it is to write."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store, lambda _call: None)
        self.clock = world.clock

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        if reservation_key(domain) in keys:
            self.clock.advance(timedelta(hours=5))
        return super().read(domain, keys, pointers=pointers)


def test_a_deadline_that_passes_after_publish_has_read_the_members(table_world: World) -> None:
    """R28: publish decides by the time at which it reads the tables."""
    world = table_world
    ready(world, lifetime=timedelta(hours=5))
    with pytest.raises(InvalidInput, match="is past its deadline"):
        world.worker(SlowPublisher(world)).restatements.publish(DOMAIN, NAME)
    assert seen(world) == OLD
    abandoned(world)
    assert world.staged() == []


def test_a_deadline_that_passes_between_begin_and_stage(world: World) -> None:
    """R28: what is staged late is published never, and deleted with the rest."""
    base, _, total = planned(world, lifetime=timedelta(minutes=1))
    attempt = within(world, base, 2)
    world.write(attempt, [1000])
    world.coordinator.complete(attempt)
    world.clock.advance(timedelta(minutes=1))
    with suppress(EpochError):
        world.coordinator.stage(attempt)
    abandoned(world)
    assert world.staged() == []
    computed(world, total, 3, run="normal")
    assert seen(world) == OLD


@pytest.mark.parametrize("end", ["publish", "abandon"])
def test_days_of_retention_while_it_is_open(table_world: World, end: str) -> None:
    """R16, R24, I12: vacuum leaves staged files alone for as long as it is open; silent members begin again."""
    world = table_world
    base, daily, total = planned(world, lifetime=timedelta(days=60))
    restated(world, base, 2, [1000])
    silent = within(world, daily, 2)
    world.write(silent, [1])
    for _ in range(3):
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
    assert states(world) == {
        ("b", 2): "staged",
        ("d", 2): "waiting",
        ("t", 2): "waiting",
        ("t", 3): "waiting",
    }
    with pytest.raises((Fenced, LeaseExpired)):
        world.coordinator.heartbeat(silent)
    finished(world, (base, daily, total))
    for _ in range(2):
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
    if end == "publish":
        assert operations(world).differences(DOMAIN, NAME)
        published(world)
        assert seen(world) == NEW
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
        assert world.data() == world.newest_data("b", "d", "t")
    else:
        abandoned(world)
        assert world.data() == world.newest_data("b", "d", "t")
        assert seen(world) == OLD
    assert sound(world)


def test_what_a_late_writer_leaves_in_an_abandoned_member_goes(table_world: World) -> None:
    """R16: a zombie writes after the abandon; a day later vacuum deletes it."""
    world = table_world
    base, _, _ = planned(world)
    attempt = restated(world, base, 2, [1000])
    abandoned(world)
    with suppress(Fenced, InvalidInput):
        write_rows(world.coordinator, attempt, "b", rows([99], attempt.token))
    assert world.staged() != []
    world.clock.advance(timedelta(days=2))
    world.retention.vacuum(DOMAIN)
    assert world.data() == world.newest_data("b", "d", "t")
    assert seen(world) == OLD


@pytest.mark.parametrize("over", ["abandon was interrupted", "past its deadline"])
def test_vacuum_takes_what_is_left_of_a_restatement_that_is_over(world: World, over: str) -> None:
    """R16: no process publishes it any more, and perhaps none comes to begin its epochs or to repeat the abandon."""
    ready(world)

    def die() -> None:
        raise Died

    if over == "abandon was interrupted":
        with pytest.raises(Died):
            interrupted(world, die, number=1).restatements.abandon(DOMAIN, NAME, **WHY)
    for _ in range(5):
        world.clock.advance(timedelta(days=8))
        world.retention.vacuum(DOMAIN)
    assert world.staged() == []


@pytest.mark.parametrize("table", [None, "x"])
def test_a_job_or_table_of_an_open_restatement_is_not_retired(world: World, table: str | None) -> None:
    """R7, R28: it waits for the end, also a table that the job has left; a job that has no part in it does not."""
    computed(world, world.job("d", [world.table("d"), world.table("x")]), 1)
    job = world.job("d")
    computed(world, job, 2)
    computed(world, world.job("o"), 1)
    opened(world, "d", 2)
    with pytest.raises(EpochBusy, match=NAME):
        world.coordinator.retire(DOMAIN, "d", reason="over", by="ada", table=table)
    world.coordinator.retire(DOMAIN, "o", reason="over", by="ada")
    abandoned(world)
    world.coordinator.retire(DOMAIN, "d", reason="over", by="ada", table=table)


@pytest.mark.parametrize("first", ["open", "retire"])
def test_open_and_retire_at_once(world: World, first: str) -> None:
    """R7, R28: one of them loses."""
    three_days(world)

    def retire(own: EpochService) -> None:
        own.retire(DOMAIN, "t", reason="over", by="ada")

    if first == "open":
        with pytest.raises(EpochBusy):
            retire(interrupted(world, lambda: opened(world, "b", 2)))
    else:
        slow = interrupted(world, lambda: retire(world.coordinator))
        with pytest.raises(TopologyError, match="is retired"):
            slow.restatements.open(DOMAIN, ["b"], day(2), name=NAME, reason="wrong", by="me")


def full_tables(world: World) -> tuple[Job, Job]:
    """Four days of a full table, and of one that is made of it."""
    full = world.table("f", kind="full")
    base = world.job("f", [full])
    reader = world.job(
        "r", [world.table("r", kind="full")], inputs=[state(full), previous(world.table("r", kind="full"))]
    )
    run_all(world, [base, reader], [1, 2, 3, 4])
    return base, reader


@pytest.mark.parametrize(
    ("table", "number", "held"), [("f", 2, True), ("r", 1, True), ("f", 1, False), ("r", 3, True)]
)
def test_states_of_an_open_restatement_are_not_expired(
    world: World, table: str, number: int, *, held: bool
) -> None:
    """R24, R28: neither what its members replace nor what they read; after its end they are."""
    full_tables(world)
    opened(world, "f", 2)
    if held:
        with pytest.raises(InvalidInput, match=f"restatement '{NAME}'"):
            world.retention.expire(DOMAIN, table, barrier(number))
        abandoned(world)
    world.retention.expire(DOMAIN, table, barrier(number))


@pytest.mark.parametrize(
    "first",
    [
        "open",
        "expire",
    ],
)
def test_open_and_expire_at_once(world: World, first: str) -> None:
    """R24, R28: one of them loses: no restatement is open whose members cannot be computed."""
    full_tables(world)

    def opening(own: EpochService) -> None:
        own.restatements.open(DOMAIN, ["f"], day(2), name=NAME, reason="wrong", by="me")

    if first == "open":
        slow = interrupted(world, lambda: opening(world.coordinator))
        with pytest.raises(InvalidInput, match=f"restatement '{NAME}'"):
            slow.retention.expire(DOMAIN, "r", barrier(1))
    else:
        slow = interrupted(world, lambda: world.retention.expire(DOMAIN, "r", barrier(1)))
        with pytest.raises(TopologyError, match="expired"):
            opening(slow)


def test_a_domain_with_an_open_restatement_is_not_moved(backend: Backend) -> None:
    """R28: staged output is of this store's epochs; the move waits for the end, and changes nothing."""
    world, target = backend.world(), Backend("sqlite", backend.directory, backend.template).world()
    renewed(target)  # worlds on files are copies of one empty store
    ready(world)
    world.clock.advance(PAST_TTL)
    before = world.exactly()
    with pytest.raises(EpochBusy, match=NAME):
        move_domain(
            world.coordinator.context,
            target.coordinator.context,
            DOMAIN,
            source_place="here",
            target_place="there",
        )
    assert world.exactly().keys() == before.keys()
    assert published(world) == 10
    assert seen(world) == NEW
    for site in (world, target):
        site.close()


@pytest.mark.parametrize("when", ["planned", "staged"])
def test_a_restored_store_publishes_nothing_of_before(table_world: World, when: str) -> None:
    """R33: it holds no epoch then; normal runs go on, and the abandon deletes what is left."""
    world = table_world
    jobs = ready(world) if when == "staged" else planned(world)
    base, _, total = jobs
    renewed(world)
    for call in (lambda: published(world), lambda: within(world, base, 2, CLEARED)):
        with pytest.raises(InvalidInput, match="before the store was restored"):
            call()
    computed(world, total, 3, run="normal")
    abandoned(world)
    usable(world, jobs)


@pytest.mark.parametrize(
    "ends",
    [
        lambda world, jobs: (finished(world, jobs), published(world)),
        lambda world, _: abandoned(world),
        lambda world, _: world.clock.advance(timedelta(days=7)),
        lambda world, _: renewed(world),
    ],
    ids=["published", "abandoned", "expired", "restored"],
)
def test_a_task_that_waits_for_a_member_is_woken_by_the_end(
    world: World, ends: Callable[[World, Jobs], object]
) -> None:
    """R28: nothing of it is staged any more, so that the wait lasted until ``wait_timeout``."""
    jobs = planned(world)
    inputs, run = JobInputs.of(jobs[1], day(2)), ("dag", "waits")
    ask = partial(begin_readiness, world.store, DOMAIN, "d", inputs, run, restatement=NAME)
    answer = ask()
    assert "has not computed" in answer.missing[0].reason
    assert answer.ends_by_clock
    ends(world, jobs)
    assert ask().ready
