"""Readers while the store is away for a moment, and while an epoch publishes under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.wait import JobInputs, check, check_inputs, wait_for
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import Conflict, NotReady, StoreUnavailable, UnknownName
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.topology import Edge, Table, increment, previous, state, window
from airflow_provider.stores.base import Reading
from airflow_provider.testing.faults import Call, Fault, FaultyStore, at
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, values_of
from tests.contract.interruptions import STORE_CALLS, Interrupted, Interruption

QUESTIONS: dict[str, Callable[[Any, World], Any]] = {
    "cut": lambda store, world: read(store, world, Level.READ_COMMITTED),
    "uncommitted": lambda store, world: read(store, world, Level.READ_UNCOMMITTED),
    "check": lambda store, _world: check(store, DOMAIN, ["t"], barrier(1)).ready,
    "wait": lambda store, world: (
        wait_for(store, DOMAIN, ["t"], barrier(1), timeout=timedelta(seconds=1), clock=world.clock).ready
    ),
    "explain": lambda store, _world: explain(store, DOMAIN, "t").summary,
}


def read(store: Any, world: World, level: Level) -> Any:
    """The rows of a cut of ``t`` by a reader of its own."""
    cuts = Cuts(store, world.formats, clock=world.clock)
    return values_of(cuts.read(cuts.cut(DOMAIN, ["t"], level=level), "t"))


def half_done(world: World) -> None:
    """One day is committed, the next is WRITTEN."""
    world.run(world.job("t"), day(1))
    world.write(world.begin(world.job("t"), day(2)), [2])


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_each_lost_read_is_asked_again(world: World, question: Callable[[Any, World], Any]) -> None:
    half_done(world)
    counting = FaultyStore(world.store, lambda _call: None)
    answer = question(counting, world)
    assert counting.calls
    for number in range(len(counting.calls)):
        store = FaultyStore(world.store, at(number, Fault.REQUEST_LOST))
        assert question(store, world) == answer, counting.calls[number]
        assert len(store.calls) > len(counting.calls)


def test_a_retrying_reader_returns_the_answers_of_the_store(world: World) -> None:
    """Each part of a question reaches the store."""
    for number in (1, 2, 3):
        world.run(world.job("t"), day(number))
    reader = retrying_reader(world.store, clock=world.clock)
    found = reader.scan(DOMAIN, Kind.EPOCH, "t")
    assert found == world.store.scan(DOMAIN, Kind.EPOCH, "t")
    first, second, third = found
    assert reader.scan(DOMAIN, Kind.EPOCH, "t", reverse=True) == [third, second, first]
    assert reader.scan(DOMAIN, Kind.EPOCH, "t", limit=1) == [first]
    assert reader.scan(DOMAIN, Kind.EPOCH, "t", start=second.key.item) == [second, third]
    assert second not in reader.scan(DOMAIN, Kind.EPOCH, "t", end=first.key.item)
    assert [change.csn for change in reader.changes(DOMAIN, 1, limit=1)] == [2]
    assert reader.domains() == [DOMAIN]


def test_a_store_that_stays_away_is_told_to_the_reader(world: World) -> None:
    half_done(world)
    before = world.clock.monotonic()
    with pytest.raises(StoreUnavailable):
        read(FaultyStore(world.store, lambda _call: Fault.REQUEST_LOST), world, Level.READ_COMMITTED)
    waited = world.clock.monotonic() - before
    assert waited >= DEFAULTS.read_timeout.total_seconds()


def test_an_epoch_that_publishes_during_an_uncommitted_read_is_not_missed(world: World) -> None:
    """Between the look at the table and the look at its open epochs: it would be in neither."""
    half_done(world)
    attempt = world.begin(world.job("t"), day(3))
    world.write(attempt, [3])
    wanted = [(1, 1), (2, 2), (3, 3)]
    calls = Interruption(-1, lambda: None)
    assert (
        read(Interrupted(world.store, "store", STORE_CALLS, calls), world, Level.READ_UNCOMMITTED) == wanted
    )
    first_scan = calls.calls.index("store.scan")
    publishing = Interruption(first_scan, lambda: world.coordinator.publish(attempt))
    assert (
        read(Interrupted(world.store, "store", STORE_CALLS, publishing), world, Level.READ_UNCOMMITTED)
        == wanted
    )


class HeadFirst(FaultyStore):
    """A store that reads its head before the records, as ZooKeeper does. :ivar between: done once in between."""

    between: Callable[[], object] | None = None

    def read(self, domain: DomainName, keys: Sequence[Key], **options: Any) -> Reading:
        """The records at or after the head."""
        head = super().read(domain, []).head
        if self.between is not None:
            self.between()
            self.between = None
        return replace(super().read(domain, keys, **options), head=head)


def test_an_epoch_that_publishes_between_head_and_table_is_not_missed(world: World) -> None:
    """R3, R4: the table's record says that it has rows which are above the head: the look is taken again."""
    attempt = world.begin(world.job("t"), day(1))
    world.write(attempt, [1])
    store = HeadFirst(world.store, lambda _call: None)
    store.between = lambda: world.coordinator.publish(attempt)
    assert read(store, world, Level.READ_UNCOMMITTED) == [(1, 1)]


def test_a_table_that_never_stands_still_is_no_answer(world: World) -> None:
    half_done(world)
    numbers = iter(range(3, 100))

    def moves(call: Call) -> Fault | None:
        if call.method == "scan":
            world.run(world.job("t"), day(next(numbers)))
        return None

    with pytest.raises(Conflict, match="kept moving"):
        read(FaultyStore(world.store, moves), world, Level.READ_UNCOMMITTED)


EDGES: dict[str, Callable[[Table], Edge]] = {
    "increment": increment,
    "window": lambda table: window(table, timedelta(days=2)),
    "state": state,
    "previous": previous,
    "as of": lambda table: state(table, as_of=timedelta(days=1)),
}


@pytest.mark.parametrize("kind", EDGES)
def test_a_jobs_wait_is_over_when_its_begin_would_be_ready(world: World, kind: str) -> None:
    """R6: of each kind of edge, whatever of its table is there; no task that waited is told to wait."""
    source, table = world.job("a"), world.table("a")
    job = world.job("r", inputs=[EDGES[kind](table)])
    for committed in range(4):
        if committed:
            world.run(source, day(committed), [committed])
        for number in range(1, 5):
            epoch = day(number)
            try:
                world.coordinator.abort(
                    world.begin(job, epoch, owner(f"of {number} at {committed}")), "asked only"
                )
            except NotReady:
                ready = False
            else:
                ready = True
            assert check_inputs(world.store, DOMAIN, JobInputs.of(job, epoch)).ready == ready, (
                committed,
                number,
            )


@pytest.mark.parametrize(("first", "early", "late"), [(3, 3, 5), (3, 4, 5), (2.25, 2, 3)])
def test_a_job_waits_for_epochs_before_a_tables_first_one(
    world: World, first: float, early: int, late: int
) -> None:
    """R6: without a declared origin no job can tell "nothing there" from "not yet": its begin is not ready either."""
    table, quarters = world.table("a"), Cadence("0 */6 * * *")
    source = world.job("a", cadence=quarters, origin=None)
    for epoch in quarters.split(Interval(barrier(first - 1), barrier(5))):
        world.run(source, epoch)
    reads = window(table, timedelta(days=2)) if first == 3 else increment(table)
    job = world.job("r", inputs=[reads])
    before, after = (JobInputs.of(job, day(number)) for number in (early, late))
    with pytest.raises(NotReady, match="declares no origin"):
        world.begin(job, day(early))
    (missing,) = check_inputs(world.store, DOMAIN, before).missing
    assert (missing.table, missing.watermark, missing.wanted) == ("a", barrier(5), barrier(early))
    assert "declares no origin" in missing.reason
    assert check_inputs(world.store, DOMAIN, after).ready
    for epoch in reversed(quarters.split(Interval(barrier(0), barrier(first - 1)))):
        world.run(source, epoch)
    assert check_inputs(world.store, DOMAIN, before).ready
    world.begin(job, day(early))


def test_before_a_declared_origin_there_is_nothing_to_wait_for(world: World) -> None:
    """R6: also once the table has commits; a window that reaches farther back reads what there is."""
    world.run(world.job("a"), day(1))
    job = world.job("r", inputs=[window(world.table("a"), timedelta(days=2))])
    assert check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).ready
    (read,) = world.begin(job, day(1)).inputs
    assert (read.low, read.high) == (barrier(-2), barrier(1))


def test_a_job_that_reads_its_own_past_waits_for_the_run_before(world: World) -> None:
    """R12: from the first epoch of what a run computes; the run itself commits what its later epochs read."""
    table = world.table("t")
    job = world.job("t", [table], inputs=[previous(table)])
    first, second = Interval(barrier(0), barrier(2)), Interval(barrier(2), barrier(4))

    def ready(of: Interval) -> bool:
        return check_inputs(world.store, DOMAIN, JobInputs.of(job, of)).ready

    assert ready(first), "there is nothing before it, and no job has registered the table yet"
    assert not ready(second)
    (missing,) = check_inputs(world.store, DOMAIN, JobInputs.of(job, second)).missing
    assert (missing.table, missing.wanted) == ("t", barrier(2))
    assert "no owner yet" in missing.reason
    world.run(job, day(1), [1])
    assert not ready(second), "its first run is half done"
    world.run(job, day(2), [2])
    assert ready(second)
    assert not ready(day(4)), "a run of one day"


def test_a_mistyped_table_is_told_with_the_one_that_is_alike(world: World) -> None:
    """R6: by begin and by a cut, as by sensors; a table that is like no other is told alone."""
    world.run(world.job("events"), day(1))
    with pytest.raises(NotReady, match=r"evnets: no owner yet: .* has run; is 'events' meant\?"):
        world.begin(world.job("r", inputs=[world.table("evnets")]), day(1))
    with pytest.raises(
        UnknownName, match=r"table 'evnets' is not registered in domain .*; is 'events' meant\?"
    ):
        world.cut("evnets")
    with pytest.raises(UnknownName) as unknown:
        world.cut("rides")
    assert "meant" not in unknown.value.message
