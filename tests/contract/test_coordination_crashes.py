"""The crash matrix: an attempt dies or stands still at each of its calls, and others go on.

Exhaustive, not random: every store and table call of one attempt, as a first try, as a retry that adopts or does
not, and as another run's takeover; then a retry or another run comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Published
from airflow_provider.domain.errors import EpochBusy, Fenced, StoreReplaced, Unavailable
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Job, previous, state
from airflow_provider.testing.arrow_attempts import read_rows, write_rows
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, day, owner, rows
from tests.contract.interruptions import Died, Interruption, worker

LAST = 2


def cascade(world: World) -> tuple[Job, Job]:
    """A base with two epochs, a pair of tables that has read the first, and who reads the pair."""
    base, left, right, total = (world.table(name) for name in ("base", "left", "right", "total"))
    source = world.job("source", [base])
    pair = world.job("pair", [left, right], inputs=[base])
    for number in range(1, LAST + 1):
        world.run(source, day(number), [10 + number])
    compute(world.coordinator, pair, 1, owner())
    return pair, world.job("total", [total], inputs=[state(left), state(right), previous(total)])


def compute(own: EpochService, job: Job, number: int, by: Owner) -> Published | AlreadyCommitted:
    """One attempt from its beginning to its end: the sum of its inputs goes into each sink."""
    attempt = own.begin(job, day(number), by)
    return attempt if isinstance(attempt, AlreadyCommitted) else finish(own, attempt)


def finish(own: EpochService, attempt: Attempt) -> Published:
    """What an attempt does after its begin."""
    if not attempt.adopted:
        read = [
            read_rows(own, attempt, provenance.table)
            for provenance in attempt.inputs
            if provenance.table != "total"
        ]
        value = sum(sum(found["value"].to_pylist()) for found in read if found is not None)
        for sink in attempt.sinks:
            write_rows(own, attempt, sink.name, rows([value], attempt.token))
        own.heartbeat(attempt)
        own.complete(attempt)
    return own.publish(attempt)


def no_try_before(_world: World, _pair: Job) -> Owner:
    return owner()


def a_dead_try_before(world: World, pair: Job) -> Owner:
    dead = world.begin(pair, day(LAST), owner())
    world.write(dead, [7], sinks=["left"])
    return owner(try_number=2)


def a_complete_try_before(world: World, pair: Job) -> Owner:
    dead = world.begin(pair, day(LAST), owner())
    world.write(dead, [10 + LAST])
    world.coordinator.complete(dead)
    return owner(try_number=2)


def another_run_before(world: World, pair: Job) -> Owner:
    a_dead_try_before(world, pair)
    world.clock.advance(PAST_TTL)
    return owner("manual")


BEFORE = [no_try_before, a_dead_try_before, a_complete_try_before, another_run_before]
Successor = Callable[[Owner], Owner]
READS = frozenset({"store.read", "store.scan", "store.changes", "table.describe", "table.read"})


def next_try(by: Owner) -> Owner:
    return replace(by, try_number=by.try_number + 1)


def another_run(_by: Owner) -> Owner:
    return owner("later")


def check(world: World, total: Job, where: str) -> None:
    """Each revision was committed once, nothing is open, and every cut is closed (I1, I2, I7)."""
    members = [
        (member.job, member.interval, member.revision) for c in world.commits() for member in c.record.members
    ]
    assert len(set(members)) == len(members), where
    epoch = world.coordinator.epoch(DOMAIN, "pair", day(LAST))
    assert epoch is not None, where
    assert epoch.record.attempt is None, where
    assert epoch.record.committed is not None, where
    for number in range(1, LAST + 1):
        compute(world.coordinator, total, number, owner())
    values = [10 + number for number in range(1, LAST + 1)]
    expected = list(enumerate(values, 1))
    sums = [(number, 2 * sum(values[:number])) for number in range(1, LAST + 1)]
    found = world.rows("base", "left", "right", "total")
    assert found == {"base": expected, "left": expected, "right": expected, "total": sums}, where
    assert ahead_and_behind(world) == ([], []), where


def ahead_and_behind(world: World) -> tuple[list[str], list[str]]:
    """Tables whose pointers are ahead of the store, or of no version that it knows (I10), and those that lag."""
    records = world.store.scan(DOMAIN, Kind.TABLE, "")
    ahead, behind = [], []
    for record in records:
        ref, pointer = record.record.ref, world.pointers.pointer(DOMAIN, record.key.item)
        published = {None, *(moved.ref.location for moved in record.record.earlier if moved.ref)}
        version = world.pointers.objects[pointer] if pointer else None
        if version is None or (ref is None and version.version == 0) or (ref and ref.location == pointer):
            continue
        (behind if version.version == 0 or pointer in published else ahead).append(record.key.item)
    return ahead, behind


@dataclass(frozen=True, slots=True)
class Case:
    """What was there before the attempt that something happens to, and who comes after it."""

    backend: Backend
    world: World
    pair: Job
    total: Job
    by: Owner
    successor: Successor

    def succeed(self, world: World) -> None:
        """Let the successor compute the epoch."""
        compute(world.coordinator, self.pair, LAST, self.successor(self.by))

    def calls(self) -> list[str]:
        """The calls of the attempt when nothing happens to it."""
        world = self.backend.copy(self.world)
        whole = Interruption(-1, lambda: None)
        compute(worker(world, whole), self.pair, LAST, self.by)
        world.close()
        return whole.calls


THOROUGH = [
    *(("memory", prepare, another_run) for prepare in BEFORE),
    ("sqlite", no_try_before, next_try),
    ("memory elsewhere", no_try_before, next_try),
    ("sqlite elsewhere", a_complete_try_before, another_run),
]
MATRIX = [
    *(("memory", prepare, next_try) for prepare in BEFORE),
    *(pytest.param(cell, marks=pytest.mark.thorough) for cell in THOROUGH),
    pytest.param(("sqlite", a_complete_try_before, another_run), marks=pytest.mark.slow),
]


@pytest.fixture(params=MATRIX, ids=lambda cell: f"{cell[0]}-{cell[1].__name__}-{cell[2].__name__}")
def case(request: Any, quick_path: Path, empty_sqlite: Path) -> Iterator[Case]:
    """One cell of the matrix."""
    name, prepare, successor = request.param
    backend = Backend(name, quick_path, empty_sqlite)
    world = backend.world()
    pair, total = cascade(world)
    yield Case(backend, world, pair, total, prepare(world, pair), successor)
    world.close()


def test_crash_at_every_call(case: Case) -> None:
    """R2, R15, R16, R17: who comes after a dead attempt commits once, and nothing that it left stays.

    To die after a call is to die before the next; to die after one that only reads is to die before it.
    """

    def die() -> None:
        raise Died

    calls = case.calls()
    lagged: set[str] = set()
    for number in [0, *(number + 1 for number, name in enumerate(calls) if name not in READS)]:
        world = case.backend.copy(case.world)
        with suppress(Died):
            compute(worker(world, Interruption(number, die)), case.pair, LAST, case.by)
        ahead, behind = ahead_and_behind(world)
        assert ahead == [], place(calls, number)
        lagged.update(behind)
        if case.successor is another_run:
            world.clock.advance(PAST_TTL)
        case.succeed(world)
        assert world.staged() == [], place(calls, number)
        check(world, case.total, place(calls, number))
        world.close()
    assert lagged == ({"left", "right"} if case.backend.elsewhere else set())


def test_zombie_at_every_call(case: Case) -> None:
    """R10, I5: an attempt stands still before a call until another has committed; then it changes nothing."""
    calls = case.calls()
    begins = calls.index("store.transact")
    for number in range(len(calls)):
        world = case.backend.copy(case.world)
        after: dict[Any, Any] = {}

        def stand_still(world: World = world, after: dict[Any, Any] = after) -> None:
            world.clock.advance(PAST_TTL)
            case.succeed(world)
            after.update(world.exactly())

        answer: Any = None
        with suppress(Fenced):
            answer = compute(worker(world, Interruption(number, stand_still)), case.pair, LAST, case.by)
        if number > begins:
            assert world.exactly() == after, place(calls, number)
        if isinstance(answer, Published):
            assert number <= begins or number > last_change(calls), place(calls, number)
        check(world, case.total, place(calls, number))
        world.close()


def test_zombie_that_was_overtaken_at_every_call(case: Case) -> None:
    """R10: another has only begun when the zombie goes on: it is refused all the same, and the other one commits."""
    calls = case.calls()
    for number in range(len(calls)):
        world = case.backend.copy(case.world)
        taken: list[Any] = []

        def stand_still(world: World = world, taken: list[Any] = taken) -> None:
            world.clock.advance(PAST_TTL)
            taken.append(world.coordinator.begin(case.pair, day(LAST), case.successor(case.by)))
            taken.append(world.exactly())

        answer: Any = None
        with suppress(Fenced, EpochBusy):
            answer = compute(worker(world, Interruption(number, stand_still)), case.pair, LAST, case.by)
        assert world.exactly() == taken[1], place(calls, number)
        if isinstance(answer, Published):
            assert number > last_change(calls), place(calls, number)
        if isinstance(taken[0], Attempt):
            finish(world.coordinator, taken[0])
        check(world, case.total, place(calls, number))
        world.close()


def last_change(calls: list[str]) -> int:
    """The call that publishes."""
    return max(number for number, name in enumerate(calls) if name == "store.transact")


def place(calls: list[str], number: int) -> str:
    """What a failure is told by."""
    return f"before call {number} of {len(calls)}: {[*calls, 'the end'][number]}"


def test_der2_an_older_copy_gives_tokens_and_csns_out_again(backend: Backend) -> None:
    """R20, R33: once the restore was told, what was begun or seen before it stays refused at the same CSN."""
    world = backend.world()
    job = world.job("j", [world.table("d")])
    world.run(job, day(1), [1])
    older = backend.copy(world)
    published = world.run(job, day(2), [2])
    seen, open_before = Session.of(DOMAIN).after(world.cut("d")), world.begin(job, day(3))
    older.restore()
    with pytest.raises(Unavailable, match="incarnation"):
        older.cuts.cut(DOMAIN, ["d"], session=seen)
    older.clock.advance(PAST_TTL)
    again, other = older.run(job, day(2), [20]), older.begin(job, day(3))
    assert (again.csn, other.token) == (published.csn, open_before.token), "both are given out again"
    with pytest.raises(Unavailable, match="incarnation"):
        older.cuts.cut(DOMAIN, ["d"], session=seen)
    with pytest.raises((Fenced, StoreReplaced)):
        older.coordinator.publish(open_before)
    assert older.rows("d") == {"d": [(1, 1), (2, 20)]}
    for made in (world, older):
        made.close()
