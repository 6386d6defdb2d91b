"""What a begin makes known, and when: nothing of it where the begin is refused (R6, R7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.coordination.commits.register import Register
from airflow_provider.domain.errors import EpochError, SourceUnavailable, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.source_bounds import BoundsRequest, FileSource, SourceBounds
from airflow_provider.domain.topology import Job, increment, previous, state
from airflow_provider.stores.base import Reading
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, side_by_side

WHY: Mapping[str, Any] = {"reason": "replaced", "by": "me"}


class Silent:
    """A source that does not answer."""

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        raise SourceUnavailable(f"{asked.source.name} does not answer.", source=asked.source.name)

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        raise AssertionError(asked, recorded)


def committed(world: World) -> None:
    """Day 1 of d, which e has read."""
    d = world.job("d")
    world.run(d, day(1), [1])
    world.run(world.job("e", inputs=[increment(d.outputs[0])]), day(1), [1])


def late_input(world: World) -> Job:
    return world.job("e", inputs=[state(world.table("d"))])


def taken_over(world: World) -> Job:
    world.coordinator.retire(DOMAIN, "e", **WHY)
    return world.job("successor", [world.table("e")], inputs=[increment(world.table("d"))])


REFUSED: dict[str, tuple[Callable[[World], Job], Interval]] = {
    "an input that is not there": (late_input, day(2)),
    "a table of another job": (taken_over, day(2)),
    "a new job": (lambda world: world.job("new", inputs=[increment(world.table("d"))]), day(2)),
    "a table of no job": (lambda world: world.job("new", inputs=[increment(world.table("x"))]), day(1)),
    "no epoch of it": (lambda world: world.job("new"), Interval(barrier(0), barrier(2))),
    "before its origin": (lambda world: world.job("new", origin=barrier(3)), day(2)),
    "an earlier epoch of another job": (taken_over, day(1)),
    "a revision that was read": (
        lambda world: world.job("d", [world.table("d"), world.table("d2")], determinism="keep_first"),
        day(1),
    ),
    "a source that does not answer": (
        lambda world: world.job("new", inputs=[FileSource("r", "x", late="ignore")]),
        day(1),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_begin_changes_nothing(world: World, case: str) -> None:
    """R6: neither who owns a table, nor what the domain knows, nor what any job waits for."""
    committed(world)
    declare, interval = REFUSED[case]
    job = declare(world)
    before = world.exactly()
    with pytest.raises(EpochError):
        world.coordinator.begin(job, interval, owner("refused"), sources=Silent())
    assert world.exactly() == before


def test_a_begin_makes_its_declaration_known(world: World) -> None:
    """R6: also one that finds its epoch committed."""
    committed(world)
    more = world.job("d", [world.table("d"), world.table("d2")], on_rerun="keep", origin=barrier(0))
    world.coordinator.begin(more, day(1), owner("next"))
    with pytest.raises(TopologyError, match="has an owner"):
        world.coordinator.register(world.job("other", [world.table("d2")]))


def test_the_first_epoch_of_a_job_reads_its_own_past(world: World) -> None:
    """R12: what it reads is decided on the tables that its registration is about to make."""
    table = world.table("t")
    world.run(world.job("t", [table], inputs=[previous(table)]), day(1), [1])
    assert world.rows("t") == {"t": [(1, 1)]}


def test_a_begin_that_lost_a_race_with_another_registration(world: World) -> None:
    """R6: it decides anew on what the other one made known."""
    plan = Register.plan
    beaten: list[Any] = []

    def plan_and_lose(self: Register) -> Any:
        found = plan(self)
        if self.job.name == "d" and not beaten:
            beaten.append(world.coordinator.register(world.job("other")))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Register, "plan", plan_and_lose)
        world.begin(world.job("d"), day(1))
    assert beaten


def test_a_storm_of_registrations_ends(world: World) -> None:
    """R6: a deployment lets many jobs begin at the same moment; all of them are known in the end."""
    workers = [world.worker(seed=number) for number in range(24)]
    jobs = [world.job(f"j{number}") for number in range(24)]
    begun = side_by_side(
        *(
            lambda pair=pair: pair[0].begin(pair[1], day(1), owner())
            for pair in zip(workers, jobs, strict=True)
        )
    )
    assert [answer for answer in begun if isinstance(answer, Exception)] == []


# --- a job is brought back -------------------------------------------------------------------------------------


def test_a_job_is_brought_back_from_a_successor_that_did_nothing(world: World) -> None:
    """R7: the successor's tables are its again; the successor is retired, and says why."""
    committed(world)
    successor = taken_over(world)
    world.coordinator.register(successor)
    world.coordinator.revive(DOMAIN, "e")
    d = world.table("d")
    world.run(world.job("d"), day(2), [2])
    world.run(world.job("e", inputs=[increment(d)]), day(2), [2])
    assert world.rows("e") == {"e": [(1, 1), (2, 2)]}
    with pytest.raises(TopologyError, match="job e was revived before it had committed anything"):
        world.begin(successor, day(2))
    world.coordinator.revive(DOMAIN, "e")


@pytest.mark.parametrize("done", ["committed", "open"])
def test_a_job_is_not_brought_back_from_a_successor_at_work(world: World, done: str) -> None:
    """R7: what the successor has committed, or is about to, is its own."""
    committed(world)
    successor = taken_over(world)
    world.run(world.job("d"), day(2), [2])
    world.begin(successor, day(2)) if done == "open" else world.run(successor, day(2), [2])
    before = world.exactly()
    with pytest.raises(EpochError, match=r"belongs to job 'successor' now|is at work"):
        world.coordinator.revive(DOMAIN, "e")
    assert world.exactly() == before


@pytest.mark.parametrize("kind", [Kind.TOPOLOGY, Kind.REWRITE_LOG])
def test_first_registrations_race_between_the_reads_of_one(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """R7: the other, of a later origin, lies between the reads of records that it makes; then it is read again."""
    world.coordinator.register(world.job("d", origin=barrier(1)))
    store = type(world.store)
    read, torn = store.read, [kind]

    def torn_once(self: Any, domain: Any, keys: Any, *given: Any, **named: Any) -> Reading:
        reading = read(self, domain, keys, *given, **named)
        if len(keys) > 1 and torn:
            missing = torn.pop()
            known = {key: record for key, record in reading.records.items() if key.kind is not missing}
            return replace(reading, records=known)
        return reading

    monkeypatch.setattr(store, "read", torn_once)
    job = world.job("d", origin=barrier(0))
    assert world.coordinator.register(job).origin == barrier(0)
    assert torn == []
    monkeypatch.undo()
    world.run(job, day(1), [1])
