"""What a commit group waits for no more: the barrier is published, or closed, by what came last (R40)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest

from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.restating import grouped
from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    EpochError,
    InvalidInput,
    OutcomeUnknown,
    StoreUnavailable,
)
from airflow_provider.domain.restatement import RestatementState
from airflow_provider.domain.topology import Group, Job, increment
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner
from tests.contract.groups import DAY_1, DAY_2, WHY, Chain, committed
from tests.contract.interruptions import Interruption, worker
from tests.contract.restating import Prepared, sound


def _skip(world: World) -> None:
    world.coordinator.skip(DOMAIN, "t", day(2), "nothing came", by="me")


def _skip_of_a_dead_attempt(world: World) -> None:
    """R40: what is silent and not staged stands in the way of no skip, as without a group."""
    begun = world.begin(Chain.of(world).jobs[2], day(2))
    assert begun.restatement == DAY_2
    with pytest.raises(EpochBusy):
        _skip(world)
    world.clock.advance(PAST_TTL)
    _skip(world)


def _retire(world: World) -> None:
    """R40: a job of which nothing is staged may be retired while its group waits for it."""
    world.coordinator.retire(DOMAIN, "t", **WHY)


def _retire_a_dead_attempt(world: World) -> None:
    world.begin(Chain.of(world).jobs[2], day(2))
    with pytest.raises(EpochBusy):
        _retire(world)
    world.clock.advance(PAST_TTL)
    _retire(world)


@pytest.mark.parametrize("last", [_skip, _skip_of_a_dead_attempt, _retire, _retire_a_dead_attempt])
def test_the_others_are_published_by_what_came_last(world: World, last: Callable[[World], None]) -> None:
    chain = Chain.of(world)
    chain.run(1)
    chain.stage(chain.jobs[0], 2)
    chain.stage(chain.jobs[1], 2)
    last(world)
    assert ["b", "d"] in committed(world)
    assert world.rows("b", at=barrier(2)) == {"b": [(1, 10), (2, 20)]}
    assert sound(world)
    assert [name for name, stamped in _barriers(world) if stamped is RestatementState.OPEN] == []


def _barriers(world: World) -> list[tuple[str, RestatementState]]:
    return [(name, stamped.record.state) for name, stamped in world.coordinator.restatements.all(DOMAIN)]


def _apart(world: World, *, group: Group | None, first: int = 0) -> Job:
    return world.job("c", group=group, origin=barrier(first))


def _leaves(world: World) -> None:
    world.run(_apart(world, group=None), day(1), [5])


def _leaves_in_a_batch(world: World) -> None:
    left = _apart(world, group=None)
    attempt = world.begin(left, day(1))
    world.write(attempt, [5])
    world.coordinator.complete(attempt)
    world.coordinator.publish_together([attempt])


def _begins_later(world: World) -> None:
    group = Group("flights", jobs=["b", "c"])
    world.coordinator.register(_apart(world, group=group, first=1))


def _first_begin_is_later(world: World) -> None:
    world.begin(_apart(world, group=Group("flights", jobs=["b", "c"]), first=1), day(2))


@pytest.mark.parametrize("last", [_leaves, _leaves_in_a_batch, _begins_later, _first_begin_is_later])
def test_a_job_that_leaves_or_begins_later_publishes_the_others(
    world: World, last: Callable[[World], None]
) -> None:
    group = Group("flights", jobs=["b", "c"])
    base = world.job("b", group=group)
    world.coordinator.register(_apart(world, group=group))
    chain = Chain(world, (base, base, base))
    chain.stage(base)
    last(world)
    assert committed(world)[-1] == ["b"]
    assert sound(world)


def _pair(world: World) -> tuple[Chain, Job]:
    group = Group("flights", jobs=["b", "c"])
    base, apart = world.job("b", group=group), world.job("c", group=group)
    return Chain(world, (base, apart, apart)), apart


def _one_is_staged(world: World) -> tuple[Job, Attempt | None]:
    chain, apart = _pair(world)
    chain.stage(chain.jobs[0])
    chain.stage(apart, values=[1])
    chain.stage(chain.jobs[0], 2)
    return apart, None


def _one_has_left(world: World) -> tuple[Job, Attempt | None]:
    _one_is_staged(world)
    left = _apart(world, group=None)
    attempt = world.begin(left, day(2))
    world.write(attempt, [5])
    world.coordinator.complete(attempt)
    return left, attempt


def _skips(own: EpochService, _: tuple[Job, Attempt | None]) -> None:
    own.skip(DOMAIN, "c", day(2), "nothing came", by="me")


def _retires(own: EpochService, _: tuple[Job, Attempt | None]) -> None:
    own.retire(DOMAIN, "c", **WHY)


def _publishes(own: EpochService, given: tuple[Job, Attempt | None]) -> None:
    """As the task of a job does, and its next try."""
    job, attempt = given
    answer = own.begin(job, day(2), owner(try_number=2)) if attempt is None else attempt
    if isinstance(answer, Attempt):
        own.publish(answer)


@pytest.mark.parametrize(
    ("prepare", "work"), [(_one_is_staged, _skips), (_one_is_staged, _retires), (_one_has_left, _publishes)]
)
def test_an_interrupted_operation_publishes_when_it_is_repeated(
    backend: Backend, prepare: Callable[[World], tuple[Job, Attempt | None]], work: Callable[..., None]
) -> None:
    """R15, R40: it died between its own commit and that of the group, wherever that was."""
    prepared = Prepared.of(backend, prepare, work)
    for number, world, (job, _) in prepared.deaths():
        world.clock.advance(PAST_TTL)
        if work is _publishes:
            again = world.coordinator.begin(job, day(2), owner(try_number=2))
            if isinstance(again, Attempt):
                if not again.adopted:
                    world.write(again, [5])
                    world.coordinator.complete(again)
                world.coordinator.publish(again)
        else:
            work(world.worker(seed=1), (job, None))
        assert committed(world)[-1] == ["b"], number
        assert sound(world)
    prepared.world.close()


def _two_are_waited_for(world: World) -> tuple[Job, None]:
    group = Group("flights", jobs=["b", "c", "e"])
    base, apart, last = (world.job(name, group=group) for name in "bce")
    chain = Chain(world, (base, apart, last))
    for job in (base, apart, last):
        chain.stage(job, values=[1])
    chain.stage(base, 2)
    return apart, None


def test_a_job_is_not_retired_while_it_is_staged(backend: Backend) -> None:
    """R40: others of the group have read what it has staged; also if it is staged meanwhile."""
    prepared = Prepared.of(backend, _two_are_waited_for, _retires)
    seen = set()
    for number in range(prepared.calls()):
        world, given = prepared.again()

        def stage(world: World = world, job: Job = given[0]) -> None:
            with suppress(EpochError):
                Chain(world, (job, job, job)).stage(job, 2, values=[1])

        with suppress(EpochBusy):
            _retires(worker(world, Interruption(number, stage)), given)
        job = registered(world.store, DOMAIN, "c")
        epoch = world.coordinator.epoch(DOMAIN, job.name, day(2))
        is_staged = epoch is not None and epoch.record.attempt is not None and epoch.record.attempt.staged
        assert bool(job.retired) is not is_staged, number
        seen.add(is_staged)
        world.close()
    assert seen == {True, False}
    prepared.world.close()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_barrier_with_nothing_to_publish_is_closed(world: World, by_hand: bool) -> None:
    """R40: it was left by all of its jobs, which publish as another group."""
    group, other = Group("flights", jobs=["b", "c"]), Group("days", jobs=["b", "c"])
    jobs = [world.job(name, group=group) for name in "bc"]
    chain = Chain(world, (jobs[0], jobs[1], jobs[1]))
    chain.stage(jobs[0])
    renamed = [world.job(name, group=other) for name in "bc"]
    again = Chain(world, (renamed[0], renamed[1], renamed[1]))
    again.stage(renamed[0], by=owner(try_number=2))
    assert (DAY_1, RestatementState.OPEN) in _barriers(world)
    if by_hand:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Restatements, "settle_epochs", lambda *_: ())
            again.stage(renamed[1], values=[1])
        with pytest.raises(InvalidInput, match="closed now"):
            world.coordinator.restatements.publish(DOMAIN, DAY_1)
        with pytest.raises(InvalidInput, match="committed by themselves"):
            world.coordinator.restatements.publish(DOMAIN, DAY_1)
    else:
        again.stage(renamed[1], values=[1])
    assert (DAY_1, RestatementState.ABANDONED) in _barriers(world)
    world.coordinator.retire(DOMAIN, "c", **WHY)
    assert committed(world) == [["b", "c"]]
    assert sound(world)


def test_a_skip_of_the_last_job_closes_the_barrier(world: World) -> None:
    chain, apart = _pair(world)
    chain.stage(chain.jobs[0])
    chain.stage(apart, values=[1])
    world.coordinator.abort(world.begin(apart, day(2)), "it failed")
    world.coordinator.skip(DOMAIN, "b", day(2), "nothing came", by="me")
    assert (DAY_2, RestatementState.OPEN) in _barriers(world)
    world.coordinator.skip(DOMAIN, "c", day(2), "nothing came", by="me")
    assert (DAY_2, RestatementState.ABANDONED) in _barriers(world)


def test_a_skip_tells_that_its_group_is_not_published(world: World) -> None:
    """R40: t has read what was staged before the skip."""
    chain = Chain.of(world)
    chain.run(1)
    chain.stage(chain.jobs[0], 2)
    chain.stage(chain.jobs[1], 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Restatements, "publish_if_whole", lambda *_: None)
        chain.stage(chain.jobs[2], 2)
    again = world.begin(chain.jobs[1], day(2), owner(generation=1))
    world.coordinator.abort(again, "it failed")
    skipped = world.coordinator.skip(DOMAIN, "d", day(2), "nothing came", by="me")
    (told,) = skipped.stalled
    assert "t has to be computed again: d was computed again since" in told
    chain.stage(chain.jobs[2], 2, owner(try_number=2))
    assert committed(world)[-1] == ["b", "t"]


def test_an_open_barrier_does_not_hold_back_restatements(world: World) -> None:
    """R28, R40: it computes no committed epoch."""
    chain = Chain.of(world)
    base, daily, total = chain.jobs
    outside = world.job("o", inputs=[increment(world.table("d"))])
    chain.run(1)
    world.run(outside, day(1), [1])
    world.coordinator.skip(DOMAIN, "d", day(2), "nothing came", by="me")
    world.run(outside, day(2), [1])
    chain.stage(total, 2)
    operations = world.coordinator.restatements
    assert operations.plan(DOMAIN, ["d"], day(2)).obstacles == ()
    name = operations.of_rerun(daily, [day(2)], owner("after"), reason="it came after all")
    assert name is not None
    assert operations.status(DOMAIN, name).record.has(daily.name, day(2))
    assert isinstance(chain.ask(base, 2, owner(generation=1)), Attempt)


def test_a_job_is_waited_for_while_one_of_its_tables_lacks_the_barrier(world: World) -> None:
    """R40: a table that it has taken over has the day from another job, and its own one has not."""
    world.run(world.job("old", [world.table("taken")]), day(1))
    world.coordinator.retire(DOMAIN, "old", **WHY)
    group = Group("flights", jobs=["b", "d"])
    base = world.job("b", group=group)
    heir = world.job("d", [world.table("own"), world.table("taken")], group=group)
    with suppress(EpochError):
        world.begin(heir, day(2))  # which makes it known
    attempt = world.begin(base, day(1))
    world.write(attempt)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    assert committed(world) == [["old"]]


@pytest.mark.parametrize("error", [StoreUnavailable, OutcomeUnknown, Conflict])
def test_a_store_that_does_not_answer_is_no_barrier_that_stalls(
    world: World, monkeypatch: pytest.MonkeyPatch, error: type[EpochError]
) -> None:
    """R40: a task that settles barriers in passing ends with an outage, and with nothing that one of them lacks."""
    chain = Chain.of(world)
    chain.stage(chain.jobs[0])

    def fail(*_: object) -> None:
        raise error("it is so.", next_step="none.")

    monkeypatch.setattr(grouped, "publish_if_whole", fail)
    with nullcontext() if error is Conflict else pytest.raises(error):
        world.coordinator.register(chain.jobs[1])
