"""Messages between restatements and the store get lost: the answers are the same (R15)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import EpochError, NotReady
from airflow_provider.testing.faults import Call, Fault, FaultyStore, Plan, at
from tests.contract.coordination_world import DOMAIN, Backend, World, blurred, day, owner
from tests.contract.restating import (
    CLEARED,
    NAME,
    Jobs,
    Prepared,
    abandoning,
    complete_member,
    extending,
    operations,
    planned,
    publishing,
    ready,
    seen,
    three_days,
)


def _approvable(world: World) -> str:
    ready(world, needs_approval=True)
    return operations(world).status(DOMAIN, NAME).output


def _open(own: EpochService, _: Any) -> Any:
    return own.restatements.open(DOMAIN, ["b"], day(2), name=NAME, reason="wrong", by="me").members


def _begun(own: EpochService, jobs: Jobs) -> Any:
    return own.begin_within(NAME, jobs[0], day(2), owner("restate"))


def _cleared(own: EpochService, jobs: Jobs) -> Any:
    return own.begin_within(NAME, jobs[0], day(2), CLEARED)


def _told(own: EpochService, _: Any) -> Any:
    with pytest.raises(EpochError) as told:
        own.restatements.publish(DOMAIN, NAME)
    return type(told.value).__name__


OPERATIONS: dict[str, tuple[Callable[[World], Any], Callable[[EpochService, Any], Any]]] = {
    "open": (three_days, _open),
    "begin": (planned, _begun),
    "begin-staged": (ready, _begun),
    "begin-cleared": (ready, _cleared),
    "stage": (complete_member, lambda own, attempt: own.stage(attempt)),
    "approve": (
        _approvable,
        lambda own, output: own.restatements.approve(DOMAIN, NAME, output=output, by="boss"),
    ),
    "publish": (ready, publishing),
    "abandon": (ready, abandoning),
    "abandon-open": (complete_member, abandoning),
    "extend": (extending, _told),
}


def after(prepared: Prepared, plan: Plan) -> tuple[Any, list[Call]]:
    """What one call answered and left behind when messages were lost as *plan* says; and its calls."""
    world, given = prepared.again()
    store = FaultyStore(world.store, plan)
    answer = blurred(repr(prepared.work(world.worker(store), given)))
    status = operations(world).status(DOMAIN, NAME)
    record = status.record
    found = (
        _without_incarnation(answer, world),
        seen(world),
        len(world.commits()),
        len(world.staged()),
        (str(record.state), record.members, record.approved, record.ended),
        [(member.job, member.interval, str(member.state), member.owner) for member in status.members],
        status.csn,
    )
    world.close()
    return found, store.calls


def faults_at(calls: Sequence[Call]) -> Iterator[tuple[Call, Fault]]:
    """Each call with what may be lost of it; of a read that is the same."""
    for call in calls:
        for fault in Fault if call.method == "transact" else (Fault.REQUEST_LOST,):
            yield call, fault


def _without_incarnation(answer: str, world: World) -> str:
    return answer.replace(world.store.read(DOMAIN, []).head.incarnation, "")


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_lost_message_is_settled(backend: Backend, name: str) -> None:
    """R15: the request or the reply of each call is lost: answer and content are the same."""
    prepared = Prepared.of(backend, *OPERATIONS[name])
    whole, calls = after(prepared, lambda _: None)
    for call, fault in faults_at(calls):
        found, _ = after(prepared, at(call.number, fault))
        assert found == whole, f"{fault} at call {call.number}, {call.method}"
    prepared.world.close()


def test_the_reply_to_an_extension_is_lost(world: World) -> None:
    """R15: the publisher is told of the new members all the same: a task waits for them, and does not fail for good."""
    extending(world)
    lost: list[int] = []

    def once(call: Call) -> Fault | None:
        if call.method != "transact" or lost:
            return None
        lost.append(call.number)
        return Fault.REPLY_LOST

    store = FaultyStore(world.store, once)
    with pytest.raises(NotReady):
        world.worker(store).restatements.publish(DOMAIN, NAME)
    assert lost
