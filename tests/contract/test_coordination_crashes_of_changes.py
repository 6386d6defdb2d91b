"""The crash matrix of what people do: declarations change, tables change jobs, holes are filled, states expired …

Exhaustive: the process dies before each call that changes something, and once at its end; then another process does
the same again. At the death nothing that was read has changed (I4), no file is missing (I6), and engines see what cuts
read. In the end readers get what they would have got without the death.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.attempts.bounds_provider import as_provider
from airflow_provider.coordination.attempts.reserve import Race
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted
from airflow_provider.domain.errors import NotReady, Unavailable, UnknownName
from airflow_provider.domain.source_bounds import BoundFile, FileSource, Late, SourceBounds
from airflow_provider.domain.topology import Job
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner, rows
from tests.contract.interruptions import Died, Interruption, worker

Operation = Callable[[World, EpochService], object]
READS = frozenset({"store.read", "store.scan", "store.changes", "table.describe", "table.read"})
OLD, NEW = 4, 1
TABLES = ("early", "fed", "given", "grown", "late", "lost", "whole")
WHY = {"reason": "the matrix", "by": "a test"}
FEED = FileSource("feed", "file:///feed/{start:%Y-%m-%d}", late=Late.REVISION)


def landed(name: str) -> dict[str, SourceBounds]:
    return {"feed": SourceBounds(source="feed", files=(BoundFile(uri=f"file:///feed/{name}", size_bytes=1),))}


def early(world: World, origin: int) -> Job:
    return world.job("early", [world.table("early")], origin=barrier(origin))


def pair(world: World, *, both: bool) -> Job:
    tables = [world.table("whole", kind="full"), *([world.table("late")] if both else [])]
    return world.job("pair", tables, origin=barrier(0))


def prepared(world: World) -> None:
    """A job with an origin and no commit; another that gets a table, and loses it again for an epoch."""
    world.coordinator.register(early(world, OLD))
    for number in (1, 2):
        world.run(pair(world, both=False), day(number), [number])
    world.coordinator.register(pair(world, both=True))
    world.run(pair(world, both=True), day(3), [3])
    world.run(pair(world, both=False), day(4), [4])


def compute(
    world: World, own: EpochService, job: Job, number: int, *, reserved_s: float = 0, run: str = "again"
) -> None:
    """Compute an epoch, whichever try of it this is."""
    sources = landed("first" if run == "again" else run)
    begun = own.begin(job, day(number), owner(run, generation=1), sources=sources)
    if isinstance(begun, AlreadyCommitted):
        return
    if not begun.adopted:
        for sink in begun.sinks:
            write_rows(own, begun, sink.name, rows([number], begun.token))
        own.complete(begun)
    if reserved_s:
        Race(own.context, begun, slowest_s=reserved_s).take()
    own.publish(begun)
    del world


# --- operations, each with what is there before --------------------------------------------------------------------


def move_origin(world: World, own: EpochService) -> None:
    own.register(early(world, NEW))


def fill(world: World, own: EpochService) -> None:
    """Add the table that an epoch lacks."""
    compute(world, own, pair(world, both=True), 4)


def skip(world: World, own: EpochService) -> None:
    del world
    own.skip(DOMAIN, "pair", day(5), "nothing comes", by="operator")


def skip_a_hole(world: World, own: EpochService) -> None:
    del world
    own.skip(DOMAIN, "pair", day(4), "nothing comes", by="operator")


def skipped(world: World) -> None:
    world.coordinator.skip(DOMAIN, "pair", day(5), "nothing comes", by="operator")


def correct_a_skip(world: World, own: EpochService) -> None:
    """Compute what was skipped."""
    compute(world, own, pair(world, both=True), 5)


def grown(world: World) -> None:
    world.run(world.job("grown", origin=None), day(3), [3])


def backfill(world: World, own: EpochService) -> None:
    """Commit the epoch before the first: the origin moves with it."""
    compute(world, own, world.job("grown", origin=None), 2)


def fed(world: World) -> None:
    compute(world, world.coordinator, world.job("fed", inputs=[FEED]), 1)
    failed = world.begin(world.job("fed", inputs=[FEED]), day(2), sources=landed("first"))
    world.coordinator.abort(failed, "a broken file")


def bind_anew(world: World, own: EpochService) -> None:
    """Bind an epoch that has failed, and one that is committed, which stands behind then."""
    del world
    for number in (2, 1):
        bind(own.context, DOMAIN, "feed", day(number), as_provider(landed("mended")), **WHY)


def bound(world: World) -> None:
    fed(world)
    bind_anew(world, world.coordinator)


def catch_up(world: World, own: EpochService) -> None:
    """Compute again what stands behind its source."""
    job = world.job("fed", inputs=[FEED], on_rerun="keep")
    compute(world, own, job, 1, run="mended")


def given(world: World) -> None:
    """A table whose job is over."""
    world.run(world.job("giver", [world.table("given")]), day(1), [1])
    world.coordinator.retire(DOMAIN, "giver", **WHY)


def take_over(world: World, own: EpochService) -> None:
    """Begin with the table of another job, and go on with it."""
    compute(world, own, world.job("successor", [world.table("given")]), 2)


def retire(world: World, own: EpochService) -> None:
    del world
    own.retire(DOMAIN, "early", **WHY)
    own.revive(DOMAIN, "early")


def lost(world: World) -> None:
    """A table that another program has dropped."""
    world.run(world.job("lost"), day(1), [1])
    world.run(world.job("lost"), day(2), [2])
    world.pointers.drop(DOMAIN, "lost")


def register_again(world: World, own: EpochService) -> None:
    del world
    recover(own.context, DOMAIN)


def publish_reserved(world: World, own: EpochService) -> None:
    """Publish after others were faster, with the head reserved."""
    compute(world, own, pair(world, both=True), 5, reserved_s=2)


def promoted(world: World) -> None:
    """Another store took over (R33) when an epoch was WRITTEN and another was open."""
    for number in (5, 6):
        begun = world.begin(pair(world, both=True), day(number), owner("before"))
        if number == 5:
            world.write(begun, [5])
            world.coordinator.complete(begun)
    world.store.new_incarnation()  # type: ignore[attr-defined]


def go_on_after_promotion(world: World, own: EpochService) -> None:
    for number in (5, 6):
        compute(world, own, pair(world, both=True), number)


def expire(world: World, own: EpochService) -> None:
    """Expire states, each of which needs a page of its own."""
    for number in (1, 3):
        keeper(world, own).expire(DOMAIN, "whole", barrier(number))


def vacuum(world: World, own: EpochService) -> None:
    keeper(world, own).vacuum(DOMAIN)


def keeper(world: World, own: EpochService) -> Retention:
    small = replace(DEFAULTS, versions_in_page=2, ranges_in_page=1)
    return Retention(own.store, own.formats, clock=world.clock, random=own.random, defaults=small)


def nothing(_: World) -> None:
    """All is there."""


OPERATIONS: dict[Operation, Callable[[World], None]] = {
    move_origin: nothing,
    fill: nothing,
    skip: nothing,
    skip_a_hole: nothing,
    correct_a_skip: skipped,
    backfill: grown,
    bind_anew: fed,
    catch_up: bound,
    take_over: given,
    retire: nothing,
    register_again: lost,
    publish_reserved: nothing,
    go_on_after_promotion: promoted,
    expire: nothing,
    vacuum: nothing,
}


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


MATRIX = [
    *(("memory", operation) for operation in OPERATIONS),
    *(pytest.param(("memory elsewhere", operation), marks=pytest.mark.thorough) for operation in OPERATIONS),
    *(
        pytest.param(("sqlite", operation), marks=pytest.mark.slow)
        for operation in (move_origin, fill, skip, expire, vacuum)
    ),
]


@pytest.fixture(params=MATRIX, ids=lambda cell: f"{cell[0]}-{cell[1].__name__}")
def case(request: Any, quick_path: Path, empty_sqlite: Path) -> Iterator[Case]:
    """One cell of the matrix."""
    name, operation = request.param
    backend = Backend(name, quick_path, empty_sqlite)
    world = backend.world()
    prepared(world)
    OPERATIONS[operation](world)
    world.clock.advance(timedelta(hours=3))
    yield Case(backend, world, operation)
    world.close()


def readable(world: World) -> dict[str, object]:
    """What readers get of each table at each barrier."""
    found: dict[str, object] = {}
    for table in TABLES:
        for number in range(1, 7):
            try:
                found[f"{table} {number}"] = world.rows(table, at=barrier(number))
            except (NotReady, Unavailable, UnknownName) as error:
                found[f"{table} {number}"] = type(error).__name__
    return found


def check(world: World, *, engines: bool) -> None:
    """I4, I6, and what engines see: all that must be so at any moment."""
    assert [str(stale_read) for stale_read in stale_reads(world.store, DOMAIN)] == []
    assert list(missing_files(world.store, world.formats, DOMAIN)) == []
    for table in world.pointers.tables(DOMAIN) if engines else ():
        try:
            expected = world.rows(table)[table]
        except (NotReady, UnknownName):
            expected = []
        assert world.engine_rows(table) == expected, table


def goes_on(case: Case, world: World) -> dict[str, object]:
    """What readers get once the job whose origin may have moved has computed two days from it on."""
    origin = NEW if case.operation is move_origin else OLD
    for number in (origin + 1, origin + 2):
        world.run(early(world, origin), day(number), [number])
    found = readable(world)
    world.clock.advance(timedelta(days=2))
    world.keeper().vacuum(DOMAIN)
    check(world, engines=True)
    return {**found, "staged": world.staged()}


def test_an_operation_that_dies_at_any_call_is_done_again(case: Case) -> None:
    """R2, R5, R7, R11, R12, R16, R17, R24, R33, I4, I6: done again, it comes to the same, and nothing stays lying."""

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
        check(world, engines=not case.backend.elsewhere)
        world.clock.advance(PAST_TTL)
        case.operation(world, world.worker(seed=number + 1))
        assert goes_on(case, world) == expected, f"before call {number} of {calls}"
        world.close()
