"""A publisher whose preparation takes longer than others need between two commits (LIV1), and its finished output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider.coordination.attempts.reserve import Race
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, EpochError, Fenced
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import reservation_key
from airflow_provider.domain.reservation import (
    LOST_BEFORE_RESERVING,
    QUICK_LOST_BEFORE_RESERVING,
    QUICK_S,
)
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.stores.base import Receipt, Transaction
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import FaultyStore
from airflow_provider.testing.manual_clock import ManualClock
from tests.contract.coordination_world import DOMAIN, ORIGIN, World, day, owner, rows
from tests.contract.groups import Chain, committed

PREPARATION = timedelta(seconds=2)
HOUR = timedelta(hours=1)


class Waits(Exception):
    """A worker would wait now."""


class Impatient(ManualClock):
    """The clock of a worker that does not wait in this test: it would wait for what this thread does."""

    def sleep(self, duration: timedelta) -> None:
        """Say so."""
        raise Waits(duration)


class Preparing(FaultyStore):
    """The store of a publisher that prepares for a while, during which something else happens.

    :ivar prepared: number of its preparations.
    """

    def __init__(self, world: World, meanwhile: Callable[[], object], takes: timedelta) -> None:
        super().__init__(world.store, lambda _call: None)
        self.world, self.meanwhile, self.takes, self.prepared = world, meanwhile, takes, 0

    def transact(self, transaction: Transaction) -> Receipt:
        """Send a commit as late as it is prepared."""
        if transaction.number is not None:
            self.prepared += 1
            self.world.clock.advance(self.takes)
            self.meanwhile()
        return super().transact(transaction)


class Quick:
    """A job that commits hour after hour. :ivar commits: how many so far. :ivar waits: how often it would wait."""

    def __init__(self, world: World) -> None:
        self.world, self.commits, self.waits = world, 0, 0
        self.job = world.job("quick", cadence="@hourly")
        self.attempt: Attempt | None = None

    def commit(self) -> None:
        """Commit the next hour, unless it is another's turn."""
        worker = self.world.worker()
        worker.context = replace(worker.context, clock=Impatient())
        start = ORIGIN + self.commits * HOUR
        if self.attempt is None:
            self.attempt = self.world.begin(self.job, Interval(start, start + HOUR))
            self.world.write(self.attempt, [self.commits])
        try:
            worker.publish(self.attempt)
        except Waits:
            self.waits += 1
        else:
            self.attempt, self.commits = None, self.commits + 1


def written(world: World, job: str = "slow") -> Attempt:
    """An attempt whose output is complete, so that only its publish is missing."""
    attempt = world.begin(world.job(job), day(1))
    world.write(attempt, [1])
    world.coordinator.complete(attempt)
    return attempt


def preparing(
    world: World, meanwhile: Callable[[], object], takes: timedelta = PREPARATION
) -> tuple[EpochService, Preparing]:
    store = Preparing(world, meanwhile, takes)
    return world.worker(store), store


@pytest.mark.parametrize(
    ("takes_s", "lost"),
    [(QUICK_S / 2, QUICK_LOST_BEFORE_RESERVING), (QUICK_S * 2, LOST_BEFORE_RESERVING)],
    ids=["quick", "slow"],
)
def test_how_often_a_publisher_loses_before_it_reserves_the_head(
    world: World, takes_s: float, lost: int
) -> None:
    """R11: a quick one loses by chance, so that it reserves later, since that costs all others a preparation."""
    quick, attempt = Quick(world), written(world)
    worker, store = preparing(world, quick.commit, timedelta(seconds=takes_s))
    worker.publish(attempt)
    assert (quick.commits, quick.waits, store.prepared) == (lost, 1, lost + 1)


def test_one_slow_preparation_of_a_quick_publisher_reserves_nothing(world: World) -> None:
    """R11: a first preparation that waits for a lock, or for a processor, says little of the next ones."""
    quick, attempt = Quick(world), written(world)
    worker, store = preparing(world, quick.commit, timedelta(seconds=QUICK_S) / 2)

    def commit() -> None:
        if store.prepared == 1:
            world.clock.advance(PREPARATION)
        quick.commit()

    store.meanwhile = commit
    worker.publish(attempt)
    assert (quick.commits, quick.waits) == (QUICK_LOST_BEFORE_RESERVING, 1)


def test_liv1_slow_beside_quick(world: World) -> None:
    """R11: it publishes within five preparations, whatever another commits meanwhile; then the other goes on."""
    quick, attempt = Quick(world), written(world)
    slow, store = preparing(world, lambda: [quick.commit() for _ in range(10)])
    slow.publish(attempt)
    assert store.prepared <= 5
    assert quick.commits >= 20, "it went on until it was asked to wait"
    assert quick.waits == 10
    quick.commit()
    assert quick.waits == 10
    assert world.rows("slow") == {"slow": [(1, 1)]}


def test_a_group_reserves_the_head_although_the_topology_changes(world: World) -> None:
    """R11, R40: it looks again which jobs it waits for, and what it has lost until then counts on."""
    chain, quick = Chain.of(world), Quick(world)
    for job in chain.jobs[:2]:
        chain.stage(job)
    last = world.begin(chain.jobs[2], day(1))
    world.write(last, [1])
    world.coordinator.complete(last)

    def meanwhile() -> None:
        quick.commit()
        if not quick.waits:
            world.coordinator.register(world.job(f"new{quick.commits}"))

    worker, store = preparing(world, meanwhile)
    worker.stage(last)
    assert (quick.waits, store.prepared) == (1, LOST_BEFORE_RESERVING + 1)
    assert committed(world)[-1] == ["b", "d", "t"]


def test_a_revert_reserves_the_head_although_its_table_grows(world: World) -> None:
    """R11, R30: it looks again whether it has all that it takes back, and what it has lost until then counts on."""
    quick, told = Quick(world), {"reason": "wrong", "by": "ada"}
    quick.commit()
    world.coordinator.restatements.open(
        DOMAIN, ["quick"], Interval(ORIGIN, ORIGIN + HOUR), name="fix", **told
    )
    attempt = world.coordinator.begin_within("fix", quick.job, Interval(ORIGIN, ORIGIN + HOUR), owner("fix"))
    assert isinstance(attempt, Attempt)
    world.write(attempt, [7])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    world.coordinator.restatements.publish(DOMAIN, "fix")
    worker, store = preparing(world, quick.commit)
    worker.restatements.revert(DOMAIN, "fix", **told)
    assert (quick.waits, store.prepared) == (1, LOST_BEFORE_RESERVING + 1)
    assert world.rows("quick") == {"quick": [(0, number) for number in range(quick.commits)]}


def test_liv1_slow_ones_beside_each_other(world: World) -> None:
    """R11: each of several waits without preparing anything while another has reserved the head."""
    attempts = [written(world, f"slow{number}") for number in range(3)]
    quick, prepared = Quick(world), [0, 0, 0]

    def publish(number: int) -> None:
        def meanwhile() -> None:
            quick.commit()
            if number + 1 < len(attempts) and prepared[number] == 0:
                publish(number + 1)

        worker, store = preparing(world, meanwhile)
        worker.publish(attempts[number])
        prepared[number] = store.prepared

    publish(0)
    assert max(prepared) <= 5, prepared
    assert len(world.commits()) == quick.commits + len(attempts)


def test_a_commit_that_was_prepared_before_the_reservation_loses(world: World) -> None:
    """R11: and not its holder, whose turn it is; where the head was reserved before, so that there is a record."""
    holder = Race(world.coordinator, written(world, "holder"), slowest_s=60)
    holder.take()
    world.coordinator.publish(holder.attempt)
    before = len(world.commits())
    holder = Race(world.coordinator, written(world, "next"), slowest_s=60)
    reserved: list[Race] = []

    def reserve() -> None:
        if not reserved:
            holder.take()
            reserved.append(holder)

    worker, store = preparing(world, reserve)
    worker.context = replace(worker.context, clock=Impatient())
    late = written(world)
    with pytest.raises(Waits):
        worker.publish(late)
    assert (store.prepared, len(world.commits())) == (1, before)
    world.coordinator.publish(holder.attempt)
    world.coordinator.publish(late)


def test_one_commit_that_was_prepared_before_the_first_reservation_goes_before_it(world: World) -> None:
    """R11: it read no reservation, and requires the head as it read it; so do all others, hence they lose to it."""
    holder = Race(world.coordinator, written(world, "holder"), slowest_s=60)
    others = [written(world, name) for name in ("first", "second")]
    first, _ = preparing(world, holder.take)
    second, store = preparing(world, lambda: first.publish(others[0]))
    second.context = replace(second.context, clock=Impatient())
    with pytest.raises(Waits):
        second.publish(others[1])
    assert store.prepared == 1
    world.coordinator.publish(holder.attempt)
    world.coordinator.publish(others[1])
    jobs = [member.job for commit in world.commits() for member in commit.record.members]
    assert jobs == ["first", "holder", "second"]


def test_a_holder_that_is_stopped_holds_the_others_up_for_a_while(world: World) -> None:
    """R11: by the store's clock, five of its preparations and half a minute at most; it may still publish later."""
    quick, attempt = Quick(world), written(world)

    def stop() -> None:
        quick.commit()
        if quick.waits:
            raise Waits

    slow, _ = preparing(world, stop)
    with pytest.raises(Waits):
        slow.publish(attempt)
    held = world.store.read(DOMAIN, [reservation_key(DOMAIN)]).records[reservation_key(DOMAIN)]
    assert held.record.ttl == 5 * PREPARATION
    began = world.clock.now()
    other = written(world, "other")
    world.coordinator.publish(other)
    assert timedelta(seconds=2) < world.clock.now() - began <= DEFAULTS.reservation_longest
    world.coordinator.publish(attempt)
    assert world.rows("slow", "other") == {"slow": [(1, 1)], "other": [(1, 1)]}


def test_a_publisher_that_was_overtaken_reserves_nothing(world: World) -> None:
    """R10, I9: once it has lost twice, another attempt has begun its epoch: it is told, instead of asking for ever."""
    quick = Quick(world)

    def overtake() -> None:
        quick.commit()
        if store.prepared == LOST_BEFORE_RESERVING:
            world.begin(world.job("slow"), day(1), owner(try_number=2))

    slow = written(world)
    worker, store = preparing(world, overtake)
    worker.context = replace(worker.context, clock=Impatient())
    with pytest.raises(Fenced):
        worker.publish(slow)
    assert world.store.read(DOMAIN, [reservation_key(DOMAIN)]).get(reservation_key(DOMAIN)) is None


def test_a_publish_that_fails_lets_the_others_go_on(world: World) -> None:
    """R11: at once, and before its time is over."""
    quick, attempt = Quick(world), written(world)

    def fail() -> None:
        quick.commit()
        if quick.waits:
            raise WarehouseUnavailable("503 Slow Down", next_step="try again.")

    slow, _ = preparing(world, fail)
    with pytest.raises(WarehouseUnavailable):
        slow.publish(attempt)
    began = world.clock.now()
    world.coordinator.publish(written(world, "other"))
    assert world.clock.now() == began


def test_retention_waits_for_a_reservation(world: World) -> None:
    """R11: an expiry is a commit, too, and there may be thousands in a row."""
    quick, attempt = Quick(world), written(world)
    for number in (1, 2, 3):
        world.run(world.job("kept"), day(number))
    keeper = world.keeper()
    keeper._clock = Impatient()

    def expire() -> None:
        quick.commit()
        if quick.waits:
            with pytest.raises(Waits):
                keeper.expire(DOMAIN, "kept", day(1).end)

    slow, _ = preparing(world, expire)
    slow.publish(attempt)
    keeper.expire(DOMAIN, "kept", day(1).end)


@pytest.mark.parametrize(
    "error",
    [
        Conflict("others were faster.", next_step="publish again."),
        WarehouseUnavailable("503 Slow Down", next_step="try again."),
    ],
    ids=["conflict", "warehouse"],
)
def test_liv1_finished_output_is_adopted_after_an_error_that_a_retry_cures(
    world: World, monkeypatch: pytest.MonkeyPatch, error: EpochError
) -> None:
    """R16: the end of the block leaves the attempt open; a final error aborts it."""
    job, worker = world.job("d"), world.worker()

    def refuse(_attempt: Attempt) -> None:
        raise error

    def block(attempt: Attempt) -> None:
        with EpochRun(worker, job, attempt) as run:
            write_rows(worker, attempt, "d", rows([1]))
            run._written.add("d")

    attempt = world.begin(job, day(1))
    monkeypatch.setattr(worker, "publish", refuse)
    with pytest.raises(type(error)):
        block(attempt)
    retry = world.begin(job, day(1), owner(try_number=2))
    assert retry.adopted
    world.coordinator.publish(retry)
    assert world.rows("d") == {"d": [(1, 1)]}
