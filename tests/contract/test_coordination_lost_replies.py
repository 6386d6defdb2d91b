"""Messages between an operation and the store get lost, each of them once: the answer is the same (R15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.source_bounds import BoundFile, FileSource, IcebergSource, SourceBounds, Span
from airflow_provider.domain.topology import Job, state
from airflow_provider.testing.arrow_attempts import stage_rows
from airflow_provider.testing.faults import Call, Fault, FaultyStore, Plan, at
from tests.contract.coordination_world import PAST_TTL, Backend, World, blurred, day, owner, rows

BOUNDS = {
    "landing": SourceBounds(source="landing", files=(BoundFile(uri="a", size_bytes=1),)),
    "prices": SourceBounds(source="prices", span=Span(low=None, high=7)),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of the coordinator and what was there before it.

    :param prepare: makes that, and returns what the call needs. :param call: the call.
    """

    prepare: Callable[[World], Any]
    call: Callable[[EpochService, Any], Any]


def job(world: World) -> Job:
    """A job with two sources, an input and two sinks; its input has two epochs."""
    source = world.job("source")
    if world.coordinator.epoch(source.domain, source.name, day(1)) is None:
        for number in (1, 2):
            world.run(source, day(number), [number])
    inputs = [
        FileSource("landing", "/landing", late="ignore"),
        IcebergSource("prices", "lake.market.prices"),
        state(world.table("source")),
    ]
    return world.job("j", [world.table("d"), world.table("d2")], inputs=inputs)


def opened(world: World) -> Attempt:
    return world.begin(job(world), day(1), sources=BOUNDS)


def staged(world: World) -> tuple[Attempt, Any]:
    attempt = opened(world)
    return attempt, stage_rows(world.coordinator, attempt, "d", rows([1]))


def written(world: World) -> Attempt:
    attempt = opened(world)
    world.write(attempt, [1])
    return attempt


def completed(world: World) -> Job:
    world.coordinator.complete(written(world))
    return job(world)


def partly_written(world: World) -> Job:
    world.write(opened(world), [1], sinks=["d"])
    return job(world)


def silent(world: World) -> Job:
    declared = partly_written(world)
    world.clock.advance(PAST_TTL)
    return declared


def committed(world: World) -> Job:
    world.coordinator.publish(written(world))
    reader = world.job("reader", inputs=[world.table("d")])
    world.coordinator.register(reader)
    return job(world)


def revised(world: World) -> Attempt:
    attempt = world.begin(committed(world), day(1), owner("manual"))
    world.write(attempt, [2])
    return attempt


def shared(world: World) -> Attempt:
    """An attempt with two writers; one has written, the other has begun."""
    attempt = world.begin(job(world), day(1), sources=BOUNDS, participants=2)
    for number in range(2):
        writer = world.coordinator.join(attempt, number, owner())
        world.write(writer, [number], sinks=["d"] if number else ["d", "d2"])
    return attempt


def shared_written(world: World) -> Attempt:
    attempt = shared(world)
    world.write(world.coordinator.join(attempt, 1, owner(try_number=2)), [1])
    return attempt


def begin(by: Any) -> Callable[[EpochService, Any], Any]:
    return lambda own, declared: own.begin(declared, day(1), by, sources=BOUNDS)


OPERATIONS = {
    "register": Operation(lambda world: world.job("new", inputs=[]), lambda own, new: own.register(new)),
    "begin-first": Operation(job, begin(owner())),
    "begin-retry": Operation(partly_written, begin(owner(try_number=2))),
    "begin-adopting": Operation(completed, begin(owner(try_number=2))),
    "begin-takeover": Operation(silent, begin(owner("manual"))),
    "begin-revision": Operation(committed, begin(owner("manual"))),
    "begin-committed": Operation(committed, begin(owner(try_number=2))),
    "input": Operation(opened, lambda own, attempt: own.input(attempt, "source")),
    "processed": Operation(opened, lambda own, attempt: own.processed(attempt, "d")),
    "written": Operation(staged, lambda own, given: own.written(given[0], "d", given[1])),
    "complete": Operation(written, lambda own, attempt: own.complete(attempt)),
    "join": Operation(shared, lambda own, attempt: own.join(attempt, 1, owner(try_number=2))),
    "complete-shared": Operation(shared_written, lambda own, attempt: own.complete(attempt)),
    "abort-shared": Operation(shared, lambda own, attempt: own.abort(attempt, "no")),
    "publish-shared": Operation(shared_written, lambda own, attempt: own.publish(attempt)),
    "heartbeat": Operation(opened, lambda own, attempt: own.heartbeat(attempt)),
    "abort": Operation(written, lambda own, attempt: own.abort(attempt, "no")),
    "publish": Operation(written, lambda own, attempt: own.publish(attempt)),
    "publish-revision": Operation(revised, lambda own, attempt: own.publish(attempt)),
}


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one operation."""

    answer: str
    content: dict[Any, Any]
    staged: int
    calls: list[Call]


def tried(backend: Backend, before: World, given: Any, operation: Operation, plan: Plan) -> Tried:
    """Do *operation* in a copy of the world *before*, with messages lost as *plan* says."""
    world = backend.copy(before)
    store = FaultyStore(world.store, plan)
    answer = operation.call(world.worker(store), given)
    found = Tried(blurred(repr(answer)), world.content(), len(world.staged()), store.calls)
    world.close()
    return found


@pytest.fixture(params=OPERATIONS)
def operation(request: Any) -> Operation:
    """One call of the coordinator."""
    return OPERATIONS[request.param]


@pytest.fixture
def before(world: World, operation: Operation) -> Iterator[tuple[World, Any]]:
    """What is there when the operation is called."""
    return world, operation.prepare(world)


def test_every_lost_message_is_settled(
    backend: Backend, operation: Operation, before: tuple[World, Any]
) -> None:
    """R15: the request or the reply of each call is lost, alone or with the one after it; no caller can tell."""
    whole = tried(backend, *before, operation, lambda _: None)
    for call in whole.calls:
        plans = {str(fault): at(call.number, fault) for fault in Fault}
        if call.method == "transact":
            plans["its reply and the next request lost"] = one_after_the_other(call.number)
        for fault, plan in plans.items():
            found = tried(backend, *before, operation, plan)
            where = f"{fault} at call {call.number}, {call.method}"
            assert found.answer == whole.answer, where
            assert found.content == whole.content, where
            assert found.staged == whole.staged, where


def one_after_the_other(number: int) -> Plan:
    """The reply to the call with *number* is lost, and the request after it."""
    faults = {number: Fault.REPLY_LOST, number + 1: Fault.REQUEST_LOST}
    return lambda call: faults.get(call.number)


def test_silence_beyond_the_timeout_is_told(
    backend: Backend, operation: Operation, before: tuple[World, Any]
) -> None:
    """R15: the store falls silent for good at a change: unknown when it was sent, unavailable when it was not."""
    untouched = before[0].content()
    whole = tried(backend, *before, operation, lambda _: None)
    changes = [call.number for call in whole.calls if call.method == "transact"]
    for number in changes or [0]:
        for kept in (True, False):
            content = _silenced(backend, before, operation, number, kept=kept and bool(changes))
            if kept and changes and number == changes[-1]:
                assert content == whole.content
            if not kept and number == (changes or [0])[0]:
                assert content == untouched


def _silenced(
    backend: Backend, before: tuple[World, Any], operation: Operation, number: int, *, kept: bool
) -> dict[Any, Any]:
    """What the store holds when nothing is heard of it from the call with *number* on.

    :param kept: that call still reached it.
    """

    def plan(call: Call) -> Fault | None:
        if call.number < number:
            return None
        return Fault.REPLY_LOST if kept and call.number == number else Fault.REQUEST_LOST

    world = backend.copy(before[0])
    began = world.clock.now()
    with pytest.raises(OutcomeUnknown if kept else StoreUnavailable) as told:
        operation.call(world.worker(FaultyStore(world.store, plan)), before[1])
    assert told.value.next_step
    timeout = DEFAULTS.unknown_outcome_timeout
    assert timeout <= world.clock.now() - began <= timeout + timedelta(seconds=2)
    content = world.content()
    world.close()
    return content
