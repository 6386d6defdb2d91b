"""The crash matrix of what people do: declarations change, holes are filled, epochs skipped, states withdrawn, swept.

Exhaustive: the process dies before each call that changes something, and once at its end; then another process does the
same again. What readers get is what it would have been without the death.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.retention import Retention
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted
from airflow_provider.domain.errors import NotReady, Unavailable
from airflow_provider.domain.topology import EpochJob
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner, rows
from tests.contract.interruptions import Died, Interruption, worker

Operation = Callable[[World, Coordinator], object]
READS = frozenset({"store.read", "store.scan", "store.changes", "table.describe", "table.read"})
OLD, NEW = 4, 1


def early(world: World, origin: int) -> EpochJob:
    return world.job("early", [world.table("early")], origin=barrier(origin))


def pair(world: World, *, both: bool) -> EpochJob:
    tables = [world.table("whole", kind="full"), *([world.table("late")] if both else [])]
    return world.job("pair", tables, origin=barrier(0))


def prepared(world: World) -> None:
    """A job with an origin and no commit; two that have some, one of which gets a table that it lacks."""
    world.coordinator.register(early(world, OLD))
    for number in (1, 2):
        world.run(pair(world, both=False), day(number), [number])
    world.coordinator.register(pair(world, both=True))
    world.run(pair(world, both=True), day(3), [3])
    world.run(pair(world, both=False), day(4), [4])


def move_origin(world: World, own: Coordinator) -> None:
    own.register(early(world, NEW))


def fill(world: World, own: Coordinator) -> None:
    """Compute an epoch again for the table that lacks it, whichever try of it this is."""
    begun = own.begin(pair(world, both=True), day(4), owner("fill", generation=1))
    if isinstance(begun, AlreadyCommitted):
        return
    if not begun.adopted:
        for sink in begun.sinks:
            write_rows(own, begun, sink.name, rows([4], begun.token))
        own.complete(begun)
    own.publish(begun)


def skip(world: World, own: Coordinator) -> None:
    del world
    own.skip(DOMAIN, "pair", day(5), "nothing comes", by="operator")


def withdraw(world: World, own: Coordinator) -> None:
    keeper(world, own).withdraw(DOMAIN, "whole", barrier(1))


def sweep(world: World, own: Coordinator) -> None:
    keeper(world, own).sweep(DOMAIN)


def keeper(world: World, own: Coordinator) -> Retention:
    small = replace(DEFAULTS, versions_in_page=2)
    return Retention(own.store, own.formats, clock=world.clock, random=own.random, defaults=small)


@dataclass(frozen=True, slots=True)
class Case:
    backend: Backend
    world: World
    operation: Operation

    def calls(self) -> list[str]:
        """The calls of the operation when nothing happens to it."""
        world = self.backend.copy(self.world)
        whole = Interruption(-1, lambda: None)
        self.operation(world, worker(world, whole))
        world.close()
        return whole.calls


@pytest.fixture(params=["memory", "sqlite", "memory elsewhere"])
def backend(request: Any, quick_path: Path, empty_sqlite: Path) -> Backend:
    return Backend(request.param, quick_path, empty_sqlite)


@pytest.fixture(params=[move_origin, fill, skip, withdraw, sweep])
def case(request: Any, backend: Backend) -> Iterator[Case]:
    world = backend.world()
    prepared(world)
    world.clock.advance(timedelta(hours=3))
    yield Case(backend, world, request.param)
    world.close()


def readable(world: World) -> dict[str, object]:
    """What readers get of each table at each barrier."""
    found: dict[str, object] = {}
    for table in ("early", "late", "whole"):
        for number in range(1, 6):
            try:
                found[f"{table} {number}"] = world.rows(table, at=barrier(number))
            except (NotReady, Unavailable) as error:
                found[f"{table} {number}"] = type(error).__name__
    return found


def goes_on(case: Case, world: World) -> dict[str, object]:
    """What readers get once the job whose origin may have moved has computed two days from it on."""
    origin = NEW if case.operation is move_origin else OLD
    for number in (origin + 1, origin + 2):
        world.run(early(world, origin), day(number), [number])
    found = readable(world)
    world.clock.advance(timedelta(days=2))
    world.keeper().sweep(DOMAIN)
    return {**found, "staged": world.staged()}


def test_an_operation_that_dies_at_any_call_is_done_again(case: Case) -> None:
    """R2, R5, R7, R16, R24: done again by another, it comes to what it would have been, and nothing stays lying."""

    def die() -> None:
        raise Died

    untouched = case.backend.copy(case.world)
    case.operation(untouched, untouched.coordinator)
    expected = goes_on(case, untouched)
    assert expected["staged"] == []
    untouched.close()
    calls = case.calls()
    for number in [0, *(number + 1 for number, name in enumerate(calls) if name not in READS)]:
        world = case.backend.copy(case.world)
        with suppress(Died):
            case.operation(world, worker(world, Interruption(number, die)))
        world.clock.advance(PAST_TTL)
        case.operation(world, world.worker(seed=number + 1))
        assert goes_on(case, world) == expected, f"before call {number} of {calls}"
        world.close()
