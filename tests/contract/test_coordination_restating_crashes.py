"""Processes die within restatements, or others come in between, at each of their calls (R2, R15, R16, R28)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.topology import increment
from tests.contract.coordination_world import DOMAIN, Backend, World, day, owner
from tests.contract.interruptions import Interruption, worker
from tests.contract.restating import (
    CLEARED,
    NAME,
    NEW,
    OLD,
    Jobs,
    Prepared,
    abandoned,
    abandoning,
    complete_member,
    computed,
    finished,
    next_day,
    operations,
    planned,
    published,
    publishing,
    ready,
    restated,
    second,
    seen,
    sound,
    usable,
    vacuumed,
    within,
    write,
)
from tests.contract.test_coordination_restoring import renewed


def test_abandon_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R28: nothing is published then; once it is repeated no file is left, and normal runs go on."""
    for number, world, jobs in Prepared.of(backend, ready, abandoning).deaths():
        assert seen(world) == OLD, number
        abandoned(world)
        assert world.staged() == [], number
        usable(world, jobs)


def test_normal_runs_after_an_interrupted_abandon(backend: Backend) -> None:
    """R28: it is over once that is recorded: they take the epochs; the repeated abandon does not touch what they do."""
    for number, world, (base, _, total) in Prepared.of(backend, ready, abandoning).deaths():
        if str(operations(world).status(DOMAIN, NAME).record.state) == "abandoned":
            attempt = world.begin(total, day(3), owner("normal"))
            assert all(not given.staged for given in attempt.inputs)
            write(world, attempt, None)
            abandoned(world)
            world.coordinator.complete(attempt)
            world.coordinator.publish(attempt)
            assert seen(world) == OLD, number
            second(world, ["b"], 2)
            answer = world.coordinator.begin_within("second", base, day(2), owner("restate"))
            assert isinstance(answer, Attempt)
            assert sound(world), number
            vacuumed(world)
            assert world.staged() == [], number


def test_a_member_that_is_staged_while_it_is_abandoned(backend: Backend) -> None:
    """R28: after the abandon no member of it is staged, and no file is left, wherever the staging comes."""
    prepared = Prepared.of(backend, complete_member, abandoning)
    left = []
    for number in range(prepared.calls()):
        world, attempt = prepared.again()

        def stage(world: World = world, attempt: Attempt = attempt) -> None:
            with suppress(EpochError):
                world.coordinator.stage(attempt)

        abandoning(worker(world, Interruption(number, stage)), attempt)
        epoch = world.coordinator.epoch(DOMAIN, attempt.job, day(2))
        assert epoch is not None
        assert epoch.record.attempt is not None
        if epoch.record.attempt.aborted is None or world.staged():
            left.append(number)
        world.close()
    prepared.world.close()
    assert left == []


ACTS: dict[str, Callable[[World, Jobs], object]] = {
    "a reader commits": next_day,
    "a member is cleared": lambda world, jobs: restated(world, jobs[1], 2, None, CLEARED),
    "a member begins": lambda world, jobs: within(world, jobs[2], 3, CLEARED),
    "abandon": lambda world, _: abandoned(world),
    "publish": lambda world, _: published(world),
    "approve": lambda world, _: operations(world).approve(
        DOMAIN, NAME, output=operations(world).status(DOMAIN, NAME).output, by="boss"
    ),
    "a declaration": lambda world, _: world.coordinator.register(
        world.job("d", inputs=[increment(world.table("b"))], inactive_after=9)
    ),
    "a new output": lambda world, _: world.coordinator.register(
        world.job("d", [world.table("d"), world.table("y")], inputs=[increment(world.table("b"))])
    ),
    "a table is left": lambda world, _: world.coordinator.register(
        world.job("d", [world.table("z")], inputs=[increment(world.table("b"))])
    ),
    "a new reader": lambda world, _: computed(world, world.job("n", inputs=[increment(world.table("d"))]), 2),
    "an epoch beside": lambda world, jobs: computed(world, jobs[0], 4, [40]),
    "vacuum": lambda world, _: world.retention.vacuum(DOMAIN),
    "restored": lambda world, _: renewed(world),
}


@pytest.mark.parametrize("act", ACTS)
def test_others_at_each_call_of_the_publish(backend: Backend, act: str) -> None:
    """R2, R18, R28, I4, I6: whatever comes in between, all members become visible, or none, and reads stay true."""
    prepared = Prepared.of(backend, ready, publishing)
    # Each act at every third call, the next one from the next on: together they are at all of them.
    for number in range(list(ACTS).index(act) % 3, prepared.calls(), 3):
        world, jobs = prepared.again()
        done: list[int] = []

        def once(world: World = world, jobs: Jobs = jobs, done: list[int] = done) -> None:
            if not done:
                done.append(1)
                with suppress(EpochError, AssertionError):  # such as a member that is committed already
                    ACTS[act](world, jobs)

        slow = worker(world, Interruption(number, once))
        csn = None
        with suppress(EpochError):
            csn = publishing(slow, jobs)
        record = operations(world).status(DOMAIN, NAME).record
        visible = {name: values[:3] for name, values in world.rows("b", "d", "t").items()}
        assert visible == (NEW if str(record.state) == "published" else OLD), number
        assert (csn is not None) == (str(record.state) == "published") or act == "publish", number
        assert sound(world), (number, act)
        world.close()
    prepared.world.close()


def test_the_publish_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R2, R15, R17, I6: all or nothing is visible at its death; a repetition publishes once, gives the same CSN, and
    moves pointers that follow.
    """
    for number, world, jobs in Prepared.of(backend, ready, publishing).deaths():
        assert seen(world) in (OLD, NEW), number
        assert published(world) == 10, number
        assert {name: world.engine_rows(name) for name in "bdt"} == NEW, number
        assert published(world) == 10, number
        assert seen(world) == NEW, number
        assert len(world.commits()) == 10, number
        assert world.staged() == [], number
        next_day(world, jobs)
        assert world.engine_rows("t") == world.rows("t")["t"], number
        assert sound(world), number


def test_a_member_dies_at_each_call_of_its_staging(backend: Backend) -> None:
    """R16, R28: the next try of its run adopts what is complete, or finds it staged."""

    def prepare(world: World) -> tuple[Jobs, Attempt]:
        jobs = planned(world)
        attempt = within(world, jobs[0], 2)
        world.write(attempt, [1000])
        world.coordinator.complete(attempt)
        return jobs, attempt

    def work(own: EpochService, given: tuple[Jobs, Attempt]) -> None:
        own.stage(given[1])

    for number, world, (jobs, _) in Prepared.of(backend, prepare, work).deaths():
        answer = world.coordinator.begin_within(NAME, jobs[0], day(2), owner("restate", 2))
        if isinstance(answer, Attempt):
            assert answer.adopted, number
            world.coordinator.stage(answer)
        finished(world, jobs)
        published(world)
        assert seen(world) == NEW, number
        assert world.staged() == [], number


def test_a_begin_within_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R16, R28: also one that replaces staged output: the next try deletes what is left."""

    def work(own: EpochService, jobs: Jobs) -> None:
        own.begin_within(NAME, jobs[0], day(2), CLEARED)

    for number, world, jobs in Prepared.of(backend, ready, work).deaths():
        restated(world, jobs[0], 2, [1000], owner("restate", 2, generation=1))
        finished(world, jobs)
        published(world)
        assert seen(world) == NEW, number
        assert world.staged() == [], number
        assert sound(world), number
