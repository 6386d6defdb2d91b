"""Runs that ask for committed epochs again which others have read: the restatement of their DAG (R28)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.restating.members import joined
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain import sizes
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import DependentReaders, NotReady, TopologyError
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, increment
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.faults import FaultyStore, at
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, owner
from tests.contract.interruptions import Interruption, interrupted, worker
from tests.contract.restating import (
    NAME,
    NEW,
    OLD,
    WHY,
    Prepared,
    computed,
    opened,
    operations,
    planned,
    restated,
    run_all,
    seen,
    sound,
    three_days,
    within,
    write,
)
from tests.contract.test_coordination_restating_lost_replies import faults_at
from tests.contract.test_coordination_source_revisions import compute, feed, land, total

CLEARED = owner("first", generation=1)
"""A clearing of the task that has computed every day of these worlds."""


def asked(world: World, job: Job, *numbers: int, by: Owner = CLEARED) -> RestatementId | None:
    """Ask for days again as an operator does; return the restatement into which they were taken."""
    return operations(world).of_rerun(job, [day(number) for number in numbers], by, reason="it was cleared")


def taken_in(world: World, job: Job, *numbers: int, by: Owner = CLEARED) -> RestatementId:
    name = asked(world, job, *numbers, by=by)
    assert name is not None
    return name


def of(world: World, name: RestatementId, what: str = "members") -> dict[str, list[int]]:
    record = operations(world).status(DOMAIN, name).record
    return {
        found.job: [(epoch.end - barrier(0)).days for epoch in found.intervals]
        for found in getattr(record, what)
    }


def names(world: World) -> list[RestatementId]:
    return [name for name, _ in operations(world).all(DOMAIN)]


def test_a_read_day_that_a_run_asks_for_again_is_restated(table_world: World) -> None:
    """R28: it is computed within a restatement, with the tasks of its readers; one commit shows all of it."""
    world = table_world
    base, daily, total = jobs = three_days(world)
    name = taken_in(world, base, 2)
    record = operations(world).status(DOMAIN, name).record
    assert (record.by, record.reason, record.rerun_of) == ("run first of DAG dag", "it was cleared", "dag")
    assert of(world, name, "asked") == {"b": [2]}
    assert of(world, name) == {"b": [2], "d": [2], "t": [2, 3]}
    assert joined(world.store, base, [day(2)], CLEARED) == {name: [day(2)]}
    assert asked(world, base, 2) == name, "a later try"
    restated(world, base, 2, [1000], CLEARED, name=name)
    restated(world, daily, 2, by=CLEARED, name=name)
    for number in (2, 3):
        restated(world, total, number, by=CLEARED, name=name)
    assert seen(world) == OLD
    operations(world).publish(DOMAIN, name)
    assert seen(world) == NEW
    assert sound(world)
    assert asked(world, base, 2) is None, "a retry of the generation whose rows were published"
    for job in jobs:
        computed(world, job, 4, [40] if job is base else None)
    assert sound(world)


def test_att11_replay_cascade(world: World) -> None:
    """R28, R31: a job that draws its rows is cleared after others have read them: these follow in the same commit."""
    drawn = world.job("d", determinism="replace_cascade")
    sums = world.job("e", inputs=[increment(world.table("d"))])
    computed(world, drawn, 1, [3])
    computed(world, sums, 1)
    name = taken_in(world, drawn, 1)
    dead = within(world, drawn, 1, CLEARED, name)
    write(world, dead, [7])
    world.coordinator.complete(dead)
    restated(world, drawn, 1, [8], replace(CLEARED, try_number=2), name=name)
    with pytest.raises(NotReady, match="not computed"):
        operations(world).publish(DOMAIN, name)
    restated(world, sums, 1, by=CLEARED, name=name)
    assert world.rows("d", "e") == {"d": [(1, 3)], "e": [(1, 4)]}
    operations(world).publish(DOMAIN, name)
    assert world.rows("d", "e") == {"d": [(1, 8)], "e": [(1, 9)]}
    assert sound(world)


@pytest.mark.parametrize(
    ("runs", "options", "number"),
    [
        pytest.param([owner("first")], {}, 2, id="no run has committed it"),
        pytest.param([CLEARED], {}, 1, id="a retry"),
        pytest.param([owner("first", generation=2)], {}, 1, id="overtaken by a newer try"),
        pytest.param([CLEARED, owner("second")], {}, 1, id="another run has committed it since"),
        pytest.param([owner("first")], {"on_rerun": "keep"}, 1, id="kept"),
        pytest.param([owner("first")], {"on_rerun": "fail"}, 1, id="refused"),
    ],
)
def test_a_run_that_needs_no_restatement_opens_none(
    world: World, runs: list[Owner], options: dict[str, str], number: int
) -> None:
    """R28: what the job keeps, and what the run has done already, are as they were, although others have read it."""
    base = world.job("b", **options)
    for by in runs:
        world.run(world.job("b"), day(1), [10], by)
    computed(world, world.job("d", inputs=[increment(world.table("b"))]), 1)
    before = world.content()
    assert asked(world, base, number) is None
    assert world.content() == before


def test_an_unread_epoch_is_published_by_its_run(world: World) -> None:
    """R28: as before; in one request with one that was read it is taken in, so that both become visible together."""
    base, daily = world.job("b"), world.job("d", inputs=[increment(world.table("b"))])
    for number in (1, 2, 3):
        computed(world, base, number, [number])
    computed(world, daily, 1)
    assert asked(world, base, 2, 3) is None
    name = taken_in(world, base, 1, 2)
    assert of(world, name) == {"b": [1, 2], "d": [1]}
    assert asked(world, base, 3) is None
    computed(world, base, 3, [4], run="second")
    assert world.rows("b")["b"] == [(1, 1), (2, 2), (3, 4)]


def test_a_table_that_lacks_the_epoch_is_filled_first(world: World) -> None:
    """R28, R7: a restatement computes whole epochs; one that adds a table goes alone."""
    base, _, _ = three_days(world)
    wider = world.job("b", outputs=[*base.outputs, world.table("extra")])
    assert asked(world, wider, 2) is None
    anew = world.job("b", outputs=[*base.outputs, world.table("extra")], determinism="replace_cascade")
    assert asked(world, anew, 2) is None
    with pytest.raises(DependentReaders):
        world.begin(anew, day(2), CLEARED)


def test_a_skipped_epoch_that_was_read_is_restated_whatever_the_job_keeps(world: World) -> None:
    """R28, R5: nothing was computed yet, so that on_rerun does not apply."""
    base, daily = world.job("b", on_rerun="keep"), world.job("d", inputs=[increment(world.table("b"))])
    world.run(base, day(2), [20])
    world.coordinator.skip(base.domain, base.name, day(1), reason="no data", by="me")
    world.run(daily, day(1), [11])
    assert of(world, taken_in(world, base, 1)) == {"b": [1], "d": [1]}


def test_the_runs_of_a_dag_share_one_restatement_that_grows(world: World) -> None:
    """R28: also those of its other tasks; its members stay, and its deadline counts from the last run."""
    base, daily, _ = three_days(world)
    name = taken_in(world, base, 3)
    first = operations(world).status(DOMAIN, name).record
    assert of(world, name) == {"b": [3], "d": [3], "t": [3]}
    world.clock.advance(timedelta(days=1))
    assert taken_in(world, base, 1, by=owner("backfill", generation=1)) == name
    assert taken_in(world, daily, 2, by=owner("manual")) == name
    grown = operations(world).status(DOMAIN, name).record
    assert of(world, name, "asked") == {"b": [1, 3], "d": [2]}
    assert of(world, name) == {"b": [1, 3], "d": [1, 2, 3], "t": [1, 2, 3]}
    assert first.deadline is not None
    assert grown.deadline is not None
    assert grown.deadline >= first.deadline + timedelta(days=1)
    assert (grown.by, grown.reason) == (first.by, first.reason)
    assert names(world) == [name]


@pytest.mark.parametrize("second", ["same DAG", "another DAG"])
def test_two_runs_ask_at_once(world: World, second: str) -> None:
    """R28: of one DAG they share a restatement; of two DAGs the later one is refused where they share a member."""
    base, _, _ = three_days(world)
    by = owner("other") if second == "same DAG" else Owner(dag_id="other", run_id="first")
    slow = interrupted(world, lambda: taken_in(world, base, 2, by=by))
    if second == "same DAG":
        name = slow.restatements.of_rerun(base, [day(1)], CLEARED, reason="it was cleared")
        assert names(world) == [name]
        assert of(world, name) == {"b": [1, 2], "d": [1, 2], "t": [1, 2, 3]}
        return
    with pytest.raises(
        TopologyError, match="cannot be opened: restatement 'other-2024-01-02-.*' computes"
    ) as told:
        slow.restatements.of_rerun(base, [day(1)], CLEARED, reason="it was cleared")
    assert "clear this task again" in str(told.value.next_step)
    assert len(names(world)) == 1


def test_a_run_whose_earlier_try_commits_meanwhile(backend: Backend) -> None:
    """R28: at whichever call: the try finds what was committed, and opens nothing for what others have read since."""

    def prepare(world: World) -> tuple[Job, Job]:
        base, daily = world.job("b"), world.job("d", inputs=[increment(world.table("b"))])
        computed(world, base, 1, [1])
        world.coordinator.register(daily)  # a new reader would change what every opening requires
        return base, daily

    def asks(own: EpochService, jobs: tuple[Job, Job]) -> object:
        return own.restatements.of_rerun(jobs[0], [day(1)], replace(CLEARED, try_number=2), reason="again")

    prepared = Prepared.of(backend, prepare, asks)
    twin, jobs = prepared.again()
    counter = Interruption(-1, lambda: None)
    computed(twin, jobs[1], 1)  # with a reader it makes more calls
    asks(worker(twin, counter), jobs)
    twin.close()
    for number in range(len(counter.calls)):
        world, (base, daily) = prepared.again()

        def others(world: World = world, base: Job = base, daily: Job = daily) -> None:
            world.run(base, day(1), [2], CLEARED)
            computed(world, daily, 1)

        assert asks(worker(world, Interruption(number, others)), (base, daily)) is None, number
        assert names(world) == []
        world.close()
    prepared.world.close()


@pytest.mark.parametrize("obstacle", ["another restatement", "too many", "another restatement, grown"])
def test_what_cannot_be_restated_is_refused_before_anything_is_written(
    world: World, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R28: the error lists the obstacles, and what ends them."""
    if obstacle == "too many":
        base, _, _ = three_days(world)
        monkeypatch.setattr(sizes, "MOST_RESTATED", 3)
        monkeypatch.setattr(sizes, "MOST_RESTATED_IN_SMALL_TRANSACTIONS", 3)
        match = "more than one commit of this store holds"
    elif obstacle == "another restatement":
        base, _, _ = planned(world)
        match = f"cannot be opened: restatement '{NAME}' computes t .* already: publish it or abandon it"
    else:
        base, other = world.job("b"), world.job("o")
        daily = world.job("d", inputs=[increment(world.table("b")), increment(world.table("o"))])
        run_all(world, [base], [1, 2])
        run_all(world, [other], [1, 2])
        run_all(world, [daily], [1, 2])
        taken_in(world, base, 2)
        opened(world, "o", 1)
        match = f"cannot be extended by it: restatement '{NAME}' computes d .* already"
    before = world.content()
    with pytest.raises(TopologyError, match=match) as told:
        asked(world, base, 1)
    assert (told.value.job, told.value.interval) == (base.name, day(1))
    assert world.content() == before


def test_an_older_version_of_the_dag_opens_no_restatement(world: World) -> None:
    """R28, R7: it could not compute within it, which would hold the epochs and all that has read them."""
    base, daily = world.job("b"), world.job("d", inputs=[increment(world.table("b"))])
    for job in (base, daily):
        run_all(world, [job], [1, 2])
    newest = world.job("b", inactive_after=7)
    world.coordinator.register(newest)
    before = world.content()
    with pytest.raises(TopologyError, match="older version of the DAG") as told:
        asked(world, base, 1)
    assert "latest version" in str(told.value.next_step)
    assert world.content() == before
    name = taken_in(world, newest, 1)
    with pytest.raises(TopologyError, match="older version of the DAG"):
        asked(world, base, 2)
    restated(world, newest, 1, [1000], CLEARED, name=name)


def test_a_restatement_that_a_person_has_opened_wins(world: World) -> None:
    """R28: its members are computed within it; another day, whose readers it has not, gets one of the DAG's own."""
    base, daily = world.job("b"), world.job("d", inputs=[increment(world.table("b"))])
    for job in (base, daily):
        run_all(world, [job], [1, 2])
    opened(world, "b", 2)
    assert asked(world, base, 2) is None
    assert joined(world.store, base, [day(2)], CLEARED) == {NAME: [day(2)]}
    own = taken_in(world, base, 1)
    assert (of(world, own), of(world, RestatementId(NAME))) == ({"b": [1], "d": [1]}, {"b": [2], "d": [2]})


@pytest.mark.parametrize("end", ["abandoned", "published", "over"])
def test_a_run_after_the_end_of_its_restatement_opens_another_one(world: World, end: str) -> None:
    """R28: what is committed is as it was; a name that has ended keeps no user from asking again."""
    base, daily, total = three_days(world)
    first = taken_in(world, base, 2)
    restated(world, base, 2, [1000], CLEARED, name=first)
    if end == "published":
        restated(world, daily, 2, by=CLEARED, name=first)
        for number in (2, 3):
            restated(world, total, number, by=CLEARED, name=first)
        operations(world).publish(DOMAIN, first)
    elif end == "abandoned":
        operations(world).abandon(DOMAIN, first, **WHY)
        assert world.staged() == []
    else:
        world.clock.advance(timedelta(days=8))
    assert seen(world) == (NEW if end == "published" else OLD)
    by = owner("first", generation=2) if end == "published" else replace(CLEARED, try_number=2)
    second = taken_in(world, base, 2, by=by)
    assert second != first
    attempt = world.coordinator.begin_within(second, base, day(2), by)
    assert isinstance(attempt, Attempt)
    assert sound(world)


def test_a_file_that_came_late_is_read_by_an_epoch_that_others_have_read(
    world: World, tmp_path: Path
) -> None:
    """R28, I11: a source with late="revision" is bound anew within the restatement that the run opens."""
    first, then = (
        world.job("d", inputs=[feed(tmp_path)]),
        world.job("f", inputs=[increment(world.table("d"))]),
    )
    land(tmp_path, 1, x="1")
    compute(world, first, 1)
    computed(world, then, 1)
    land(tmp_path, 1, y="100")
    name = taken_in(world, first, 1)
    attempt = world.coordinator.begin_within(name, first, day(1), CLEARED, sources=SourceReaders())
    assert isinstance(attempt, Attempt)
    world.write(attempt, [total(attempt)])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    restated(world, then, 1, name=name)
    operations(world).publish(DOMAIN, name)
    assert world.rows("d", "f") == {"d": [(1, 101)], "f": [(1, 102)]}
    assert sound(world)


@pytest.mark.parametrize("grows", [False, True])
def test_every_lost_message_of_a_run_that_asks_again_is_settled(backend: Backend, *, grows: bool) -> None:
    """R15, R28: at whichever call: the run is told of one restatement, which has what it asks for, once."""

    def prepare(world: World) -> Job:
        base, _, _ = three_days(world)
        if grows:
            taken_in(world, base, 3, by=owner("another"))
        return base

    def asks(own: EpochService, base: Job) -> RestatementId | None:
        return own.restatements.of_rerun(base, [day(1)], CLEARED, reason="it was cleared")

    prepared = Prepared.of(backend, prepare, asks)
    twin, given = prepared.again()
    counting = FaultyStore(twin.store, lambda _: None)
    asks(twin.worker(counting), given)
    twin.close()
    for call, fault in faults_at(counting.calls):
        world, given = prepared.again()
        name = asks(world.worker(FaultyStore(world.store, at(call.number, fault))), given)
        assert names(world) == [name], f"{fault} at call {call.number}, {call.method}"
        assert name is not None
        assert of(world, name, "asked") == {"b": [1, 3] if grows else [1]}
        world.close()
    prepared.world.close()
