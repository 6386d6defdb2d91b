"""Commit groups: the epochs of several jobs up to one barrier are published by one commit (R40)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.commits import groups as group_records
from airflow_provider.coordination.restating.members import joined
from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.barrier_state import barrier_state
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt, EpochState
from airflow_provider.domain.errors import Conflict, EpochBusy, Fenced, InvalidInput, NotReady, TopologyError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Key, topology_key
from airflow_provider.domain.topology import Group, Job, increment, state
from airflow_provider.stores.base import Reading
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.groups import DAY_1, WHY, Chain, committed, declared, states
from tests.contract.interruptions import interrupted
from tests.contract.restating import sound


def test_a_barrier_of_a_group_is_one_commit(table_world: World) -> None:
    """R40: members read each other's staged output; nothing of it is visible before the last one is staged."""
    world, chain = table_world, Chain.of(table_world)
    base, daily, total = chain.jobs
    with pytest.raises(NotReady):
        world.begin(daily, day(1))
    chain.stage(base)
    world.coordinator.abort(world.begin(daily, day(1)), "it failed")
    with pytest.raises(NotReady, match="has not computed"):
        world.begin(total, day(1))
    chain.stage(daily)
    assert committed(world) == []
    with pytest.raises(NotReady):
        world.rows("b")
    with pytest.raises(NotReady):
        world.rows("b", level=Level.READ_UNCOMMITTED)
    chain.stage(total)
    assert committed(world) == [["b", "d", "t"]]
    assert world.rows("b", "d", "t") == {"b": [(1, 10)], "d": [(1, 11)], "t": [(1, 12)]}
    chain.run(2, 3)
    assert committed(world) == [["b", "d", "t"]] * 3
    assert world.rows("b", "d", "t") == {
        "b": [(1, 10), (2, 20), (3, 30)],
        "d": [(1, 11), (2, 21), (3, 31)],
        "t": [(1, 12), (2, 34), (3, 78)],
    }
    assert sound(world)


class Torn(FaultyStore):
    """Store whose first readings have no topology, as if it had been read before the domain's first registration."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world.store, lambda _call: None)
        self.left = number

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        reading = super().read(domain, keys, pointers=pointers)
        if self.left and topology_key(domain) in reading.records:
            self.left -= 1
            found = {key: stamped for key, stamped in reading.records.items() if key != topology_key(domain)}
            return replace(reading, records=found)
        return reading


def test_the_first_begin_of_a_domain_whose_topology_was_read_too_early(world: World) -> None:
    """R7, R40: the barrier is opened in the topology that there is, by a begin that reads again."""
    base = Chain.of(world).jobs[0]
    world.coordinator.register(base)
    begun = world.worker(Torn(world, 1)).begin(base, day(1), owner())
    assert isinstance(begun, Attempt)
    assert states(world)["b"] is MemberState.COMPUTING


def test_a_full_table_is_read_staged(table_world: World) -> None:
    """R40: also its first state, which no commit has; and the one beside a committed one."""
    world, group = table_world, Group("flights", jobs=["f", "r"])
    full = world.job("f", [world.table("f", kind="full")], group=group)
    reading = world.job("r", inputs=[state(world.table("f", kind="full"))], group=group)
    chain = Chain(world, (full, reading, reading))
    for number in (1, 2):
        chain.stage(full, number, values=[10 * number])
        chain.stage(reading, number)
    assert world.rows("f", "r") == {"f": [(2, 20)], "r": [(1, 11), (2, 21)]}
    assert sound(world)


def test_readers_outside_wait_for_the_commit(world: World) -> None:
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    outside = world.job("o", inputs=[increment(world.table("b"))])
    chain.stage(base)
    with pytest.raises(NotReady):
        world.begin(outside, day(1))
    chain.stage(daily)
    chain.stage(total)
    assert world.run(outside, day(1), [1]).csn == len(world.commits())
    assert sound(world)


def test_a_failing_member_holds_back_its_group_only(world: World) -> None:
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    alone = world.job("x")
    chain.stage(base)
    failing = world.begin(daily, day(1))
    world.coordinator.abort(failing, "it failed")
    world.run(alone, day(1), [1])
    assert states(world) == {"b": "staged", "d": "waiting", "t": "waiting"}
    assert committed(world) == [["x"]]
    chain.stage(daily, by=owner(try_number=2))
    chain.stage(total)
    assert committed(world) == [["x"], ["b", "d", "t"]]


def test_a_member_that_is_computed_again_makes_its_readers_outdated(world: World) -> None:
    """R40: no commit has rows that were computed from other rows than it has."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.stage(base)
    chain.stage(daily)
    chain.stage(base, by=owner(generation=1), values=[100])
    assert states(world) == {"b": "staged", "d": "outdated", "t": "waiting"}
    with pytest.raises(Conflict, match="d has to be computed again: b was computed again since") as stalled:
        chain.stage(total)
    assert "clear the tasks of d" in stalled.value.next_step
    assert committed(world) == []
    chain.stage(daily, by=owner("again"))
    assert committed(world) == []
    chain.stage(total, by=owner("again"))
    assert world.rows("b", "d", "t") == {"b": [(1, 100)], "d": [(1, 101)], "t": [(1, 102)]}
    assert sound(world)


def test_what_is_staged_stays_for_others(world: World) -> None:
    """R40: another run finds it; it is not published by itself."""
    chain = Chain.of(world)
    base, *_ = chain.jobs
    attempt = chain.stage(base)
    assert isinstance(chain.ask(base), AlreadyStaged)
    assert attempt.restatement == DAY_1
    with pytest.raises(Fenced):
        world.coordinator.publish(attempt)


def test_an_attempt_of_a_group_is_not_published_by_itself(world: World) -> None:
    base, *_ = Chain.of(world).jobs
    attempt = world.begin(base, day(1))
    world.write(attempt)
    world.coordinator.complete(attempt)
    with pytest.raises(InvalidInput, match="is published with that alone"):
        world.coordinator.publish(attempt)
    assert committed(world) == []


@pytest.mark.parametrize("retried", [0, 1, 2])
def test_the_next_job_publishes_what_is_staged(
    world: World, monkeypatch: pytest.MonkeyPatch, retried: int
) -> None:
    """R40: the last member was interrupted between its staging and the commit."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.stage(base)
    chain.stage(daily)
    with monkeypatch.context() as patched:
        patched.setattr(type(world.coordinator.restatements), "publish_if_whole", lambda *_: None)
        chain.stage(total)
    assert committed(world) == []
    answer = chain.ask(chain.jobs[retried])
    assert isinstance(answer, AlreadyCommitted)
    assert answer.csn == len(world.commits())
    assert committed(world) == [["b", "d", "t"]]


def test_an_interrupted_commit_is_resumed_by_a_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, operations = Chain.of(world), world.coordinator.restatements
    with monkeypatch.context() as patched:
        patched.setattr(type(operations), "publish_if_whole", lambda *_: None)
        chain.run(1)
    csn = operations.publish(DOMAIN, DAY_1)
    assert operations.publish(DOMAIN, DAY_1) == csn == len(world.commits())


def test_an_incomplete_group_is_not_published(world: World) -> None:
    chain, operations = Chain.of(world), world.coordinator.restatements
    chain.stage(chain.jobs[0])
    with pytest.raises(NotReady, match="2 of 3 jobs are not staged") as caught:
        operations.publish(DOMAIN, DAY_1)
    assert [entry.table for entry in caught.value.missing] == ["d", "t"]


def test_a_job_that_has_never_run_is_waited_for(world: World) -> None:
    """R40: the group's jobs are declared, so that no first day shows a part of it."""
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])
    assert committed(world) == []
    assert states(world)["t"] == "waiting"


def test_a_retired_job_is_not_waited_for(world: World) -> None:
    chain = Chain.of(world)
    base, daily, _ = chain.jobs
    chain.run(1)
    world.coordinator.retire(DOMAIN, "t", **WHY)
    chain.stage(base, 2)
    with pytest.raises(EpochBusy, match="is staged for 'flights 2024-01-03T00:00:00Z'"):
        world.coordinator.retire(DOMAIN, "b", **WHY)
    chain.stage(daily, 2)
    assert committed(world) == [["b", "d", "t"], ["b", "d"]]


def test_a_job_that_begins_later_is_not_waited_for(world: World) -> None:
    group = Group("flights", jobs=["b", "late"])
    base, late = world.job("b", group=group), world.job("late", group=group, origin=barrier(1))
    world.coordinator.register(late)
    chain = Chain(world, (base, late, late))
    chain.stage(base)
    assert committed(world) == [["b"]]
    chain.stage(base, 2)
    assert committed(world) == [["b"]]
    chain.stage(late, 2)
    assert committed(world) == [["b"], ["b", "late"]]


def test_a_skipped_epoch_is_not_waited_for(world: World) -> None:
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.run(1)
    chain.stage(base, 2)
    with pytest.raises(EpochBusy):
        world.coordinator.skip(DOMAIN, "b", day(2), "nothing came", by="me")
    failed = world.begin(daily, day(2))
    world.coordinator.abort(failed, "it failed")
    world.coordinator.skip(DOMAIN, "d", day(2), "nothing came", by="me")
    chain.stage(total, 2)
    assert committed(world) == [["b", "d", "t"], ["d"], ["b", "t"]]
    assert world.rows("b", "d", "t") == {
        "b": [(1, 10), (2, 20)],
        "d": [(1, 11)],
        "t": [(1, 12), (2, 13)],
    }
    assert sound(world)


def test_a_skip_makes_what_has_read_the_staged_output_outdated(world: World) -> None:
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    for job in chain.jobs:
        world.coordinator.register(job)
    chain.stage(base)
    chain.stage(daily)
    open_total = world.begin(total, day(1))
    world.write(open_total, [1])
    world.coordinator.complete(open_total)
    again = world.begin(daily, day(1), owner(generation=1))
    world.coordinator.abort(again, "it failed")
    world.coordinator.skip(DOMAIN, "d", day(1), "nothing came", by="me")
    with pytest.raises(Conflict, match="t has to be computed again: d was computed again since"):
        world.coordinator.stage(open_total)
    assert committed(world) == [["d"]]
    chain.stage(total, by=owner("again"))
    assert committed(world) == [["d"], ["b", "t"]]
    assert world.rows("t") == {"t": [(1, 1)]}
    assert sound(world)


def test_barriers_are_independent(world: World) -> None:
    """R40: the next one begins while one waits; what reads it waits for the commit of the one before."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.stage(base, 1)
    chain.stage(base, 2)
    chain.stage(daily, 1)
    with pytest.raises(NotReady):
        world.begin(daily, day(2))
    chain.stage(total, 1)
    chain.stage(daily, 2)
    chain.stage(total, 2)
    assert committed(world) == [["b", "d", "t"]] * 2
    assert sound(world)


def test_an_abandoned_barrier_begins_anew(world: World) -> None:
    chain, operations = Chain.of(world), world.coordinator.restatements
    base, daily, _ = chain.jobs
    chain.stage(base, values=[5])
    computing = world.begin(daily, day(1))
    operations.abandon(DOMAIN, DAY_1, **WHY)
    assert world.staged() == []
    with pytest.raises(Fenced):
        world.coordinator.complete(computing)
    chain.run(1)
    assert world.rows("b") == {"b": [(1, 10)]}
    assert committed(world) == [["b", "d", "t"]]


def test_an_interrupted_abandon_is_finished_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was abandoned is not taken up by the barrier that begins anew."""
    chain, operations = Chain.of(world), world.coordinator.restatements
    base, *_ = chain.jobs
    chain.stage(base, values=[5])
    with monkeypatch.context() as patched:
        patched.setattr("airflow_provider.coordination.restating.restatements.end_members", lambda *_: None)
        operations.abandon(DOMAIN, DAY_1, **WHY)
    with pytest.raises(EpochBusy, match="have not all ended"):
        chain.ask(base)
    world.retention.vacuum(DOMAIN)
    chain.run(1)
    assert world.rows("b") == {"b": [(1, 10)]}


def test_a_group_does_not_open_barriers_without_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R40: the record of the domain names each that is open; those that are go on."""
    chain = Chain.of(world)
    base, *_ = chain.jobs
    monkeypatch.setattr(group_records, "MOST_OPEN", 1)
    chain.stage(base)
    with pytest.raises(EpochBusy, match="1 barriers of groups and restatements are open") as refused:
        chain.ask(base, 2)
    assert refused.value.holders == (f"group {DAY_1}",)
    for job in chain.jobs[1:]:
        chain.stage(job)
    chain.run(2)
    assert committed(world) == [["b", "d", "t"]] * 2


def test_a_job_that_leaves_its_group_takes_its_epoch_with_it(world: World) -> None:
    """R40: it publishes by itself; what has read its staged output is computed again."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.stage(base, values=[5])
    chain.stage(daily)
    left = declared(world, None)[0]
    attempt = world.begin(left, day(1), owner("left"))
    world.write(attempt, [7])
    assert world.coordinator.publish(attempt).csn == len(world.commits())
    with pytest.raises(Conflict, match="d has to be computed again"):
        chain.stage(total)
    assert committed(world) == [["b"]]
    chain.stage(daily, by=owner("again"))
    chain.stage(total, by=owner("again"))
    assert committed(world) == [["b"], ["d", "t"]]
    assert world.rows("b", "d", "t") == {"b": [(1, 7)], "d": [(1, 8)], "t": [(1, 9)]}
    assert sound(world)


def test_an_older_declaration_does_not_compute_for_the_group(world: World) -> None:
    old, *_ = declared(world, None)
    world.coordinator.register(old)
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])
    with pytest.raises(TopologyError, match="an older version of the DAG"):
        world.begin(old, day(2))
    assert committed(world) == []


def test_what_is_committed_is_computed_again_as_ever(world: World) -> None:
    """R40: a group publishes first revisions."""
    chain, operations = Chain.of(world), world.coordinator.restatements
    chain.run(1)
    _, _, total = chain.jobs
    attempt = world.begin(total, day(1), owner(generation=1))
    assert attempt.restatement is None
    world.write(attempt, [99])
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": [(1, 99)]}
    operations.open(DOMAIN, ["b"], day(1), name="correct", reason="it was wrong", by="me")
    for job in chain.jobs:
        again = world.coordinator.begin_within("correct", job, day(1), owner("restate"))
        assert isinstance(again, Attempt)
        world.write(again, [50])
        world.coordinator.complete(again)
        world.coordinator.stage(again)
    operations.publish(DOMAIN, "correct")
    assert world.rows("b", "t") == {"b": [(1, 50)], "t": [(1, 50)]}
    assert sound(world)


def test_an_open_group_is_honoured(world: World) -> None:
    """R24, R40, R33: retention leaves what it has staged, and its domain does not move away."""
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])
    world.clock.advance(timedelta(days=3))
    world.retention.vacuum(DOMAIN)
    chain.stage(chain.jobs[1])
    chain.stage(chain.jobs[2])
    assert world.rows("d") == {"d": [(1, 11)]}


def _other_list(world: World) -> Job:
    return world.job("d", group=Group("flights", jobs=["b", "d"]))


def _other_cadence(world: World) -> Job:
    return world.job("d", group=Group("flights", jobs=["b", "d", "t"]), cadence="@hourly")


def _no_origin(world: World) -> Job:
    return world.job("d", group=Group("flights", jobs=["b", "d", "t"]), origin=None)


def _between(world: World) -> Job:
    world.coordinator.register(world.job("x", inputs=[increment(world.table("b"))]))
    return world.job("d", inputs=[increment(world.table("x"))], group=Group("flights", jobs=["b", "d", "t"]))


@pytest.mark.parametrize(
    ("declare", "match"),
    [
        (_other_list, "has the jobs b, d, t for job 'b', and b, d for job 'd'"),
        (_other_cadence, "has the cadence"),
        (_no_origin, "declares no origin"),
        (_between, "job 'd' of group 'flights' reads job 'x'; job 'x' reads job 'b'. Each would wait"),
    ],
)
def test_a_declaration_by_which_a_group_could_not_publish_is_refused(
    world: World, declare: Any, match: str
) -> None:
    world.coordinator.register(Chain.of(world).jobs[0])
    with pytest.raises(TopologyError, match=match):
        world.coordinator.register(declare(world))


def test_several_participants_write_for_a_group(world: World) -> None:
    """R10, R40: the group publishes what all of them have written, also where theirs is the last job."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs

    def shared(job: Job, values: Sequence[int]) -> None:
        attempt = world.begin(job, day(1), participants=len(values))
        for number, value in enumerate(values):
            world.write(world.coordinator.join(attempt, number, owner()), [value])
        world.coordinator.complete(attempt)
        world.coordinator.stage(attempt)

    shared(base, [4, 6])
    chain.stage(daily)
    assert committed(world) == []
    shared(total, [1, 2, 3])
    assert committed(world) == [["b", "d", "t"]]
    assert world.rows("b", "d", "t") == {"b": [(1, 4), (1, 6)], "d": [(1, 11)], "t": [(1, 1), (1, 2), (1, 3)]}
    assert sound(world)


@pytest.mark.parametrize(
    ("what", "ask"),
    [
        ("cut", lambda operations: operations.cut(DOMAIN, DAY_1, ["b"])),
        ("differences", lambda operations: operations.differences(DOMAIN, DAY_1)),
        ("revert", lambda operations: operations.revert(DOMAIN, DAY_1, **WHY)),
        ("approval", lambda operations: operations.approve(DOMAIN, DAY_1, output="0" * 64, by="me")),
        ("decisions", lambda operations: operations.join(DOMAIN, DAY_1, ["b"], by="me")),
    ],
)
def test_a_group_is_no_restatement(world: World, what: str, ask: Callable[[Restatements], object]) -> None:
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])
    with pytest.raises(InvalidInput, match=f"a group has no {what}"):
        ask(world.coordinator.restatements)


def test_a_restatement_with_the_groups_name_is_refused(world: World) -> None:
    world.run(alone := world.job("x"), day(1), [1])
    world.coordinator.restatements.open(
        DOMAIN, [alone.name], day(1), name=DAY_1, reason="it was wrong", by="me"
    )
    base, *_ = Chain.of(world).jobs
    assert base.group is not None
    for ask in (
        lambda: world.begin(base, day(1)),
        lambda: barrier_state(world.store, DOMAIN, base.group, day(1)),  # type: ignore[arg-type]
    ):
        with pytest.raises(TopologyError, match="a restatement has the name"):
            ask()


def test_two_last_members_publish_once(world: World) -> None:
    """R15, R40: another process has published meanwhile."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.stage(base)
    chain.stage(daily)
    attempt = world.begin(total, day(1))
    world.write(attempt, [12])
    world.coordinator.complete(attempt)
    other: EpochService = world.worker(seed=1)
    world.coordinator.stage(attempt)
    other.stage(attempt)
    assert other.restatements.publish(DOMAIN, DAY_1) == len(world.commits())
    assert committed(world) == [["b", "d", "t"]]


def test_explain_says_which_jobs_a_barrier_waits_for(world: World) -> None:
    """R40: the barrier's state over the group is the lowest of its jobs."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    group = Group("flights", jobs=["b", "d", "t"])

    def state_now() -> EpochState:
        return barrier_state(world.store, DOMAIN, group, day(1)).state

    chain.stage(base)
    told = explain(world.store, DOMAIN, "b", day(1))
    assert told.summary == (
        "staged; flights 2024-01-02T00:00:00Z of group flights: 1 of 3 jobs are staged; job d has never run, "
        "or was dropped; job t has never run, or was dropped"
    )
    assert state_now() is EpochState.NOTHING
    world.begin(daily, day(1))
    world.coordinator.register(total)
    told = explain(world.store, DOMAIN, "t", day(1))
    assert told.waiting_for == (f"d: group {DAY_1!r} has not computed {day(1)} of job d yet",)
    assert "job d is being computed" in told.summary
    chain.stage(daily, by=owner(try_number=2))
    attempt = world.begin(total, day(1))
    assert state_now() is EpochState.OPEN
    world.write(attempt)
    assert state_now() is EpochState.PRECOMMIT
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    assert state_now() is EpochState.COMMIT


def test_explain_names_the_command_that_resumes_a_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain.of(world)
    with monkeypatch.context() as patched:
        patched.setattr(Restatements, "publish_if_whole", lambda *_: None)
        chain.run(1)
    told = explain(world.store, DOMAIN, "d", day(1))
    assert told.state is EpochState.WRITTEN
    assert f"restate publish '{DAY_1}'" in told.next_step


@pytest.mark.parametrize("number", range(1, 4))
def test_a_skip_between_the_reads_of_a_begin_is_noticed(world: World, number: int) -> None:
    """R40: what was staged a moment ago, and is committed by itself now, is read as committed."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.run(1)
    chain.stage(base, 2)
    chain.stage(daily, 2)

    def skip_it() -> None:
        again = world.begin(daily, day(2), owner(generation=1))
        world.coordinator.abort(again, "it failed")
        world.coordinator.skip(DOMAIN, "d", day(2), "nothing came", by="me")

    try:
        attempt = interrupted(world, skip_it, "store.read", number).begin(total, day(2), owner())
    except NotReady:
        attempt = world.begin(total, day(2))
    assert isinstance(attempt, Attempt)
    if not attempt.input("d").staged:
        assert attempt.input("d").csn == len(world.commits())


def test_an_epoch_that_was_skipped_meanwhile_is_run_by_itself(world: World) -> None:
    """R40: a run of it joins no group: nothing would publish it."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    chain.run(1)
    chain.stage(base, 2)
    world.coordinator.skip(DOMAIN, "d", day(2), "nothing came", by="me")
    assert joined(world.store, daily, [day(2)], owner("after all")) == {}
    with pytest.raises(InvalidInput, match="the barrier of a group"):
        world.coordinator.begin_within("flights 2024-01-03T00:00:00Z", daily, day(2), owner("after all"))
    with pytest.raises(NotReady):
        world.begin(daily, day(2), owner("after all"))
    chain.stage(total, 2)
    assert committed(world)[-1] == ["b", "t"]
    assert sound(world)


@pytest.mark.parametrize(
    ("name", "jobs"), [("x" * 201, ["a", "b"]), ("", ["a", "b"]), ("g", ["a"]), ("g", "ab")]
)
def test_a_bad_group_is_refused(name: str, jobs: Any) -> None:
    with pytest.raises(InvalidInput):
        Group(name, jobs=jobs)
