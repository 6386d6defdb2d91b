"""A store that was restored from a backup gets a new incarnation: what was begun before is over (R33)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.attempts.resume import Begun, resume
from airflow_provider.coordination.commits.pointers import tables_ahead
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.errors import LeaseExpired, StoreReplaced, Unavailable
from airflow_provider.domain.session import Session
from tests.contract.coordination_world import DOMAIN, World, day, owner


def renewed(world: World) -> str:
    """What ``airflow epochs db restored`` does to the store."""
    store: Any = getattr(world.store, "_inner", world.store)  # of a server: behind the times of its clock
    incarnation: str = store.new_incarnation()
    return incarnation


def test_attempt_begun_before_the_restore_changes_nothing(world: World) -> None:
    """R33: by no call; the next attempt of the same run takes over at once, and all that was committed is read."""
    world.run(world.job("t"), day(1), [1])
    before = world.begin(world.job("t"), day(2))
    world.write(before, [2])
    known = world.store.read(DOMAIN, []).head.incarnation
    assert renewed(world) != known
    content = world.exactly()
    for call in (
        lambda: world.coordinator.publish(before),
        lambda: world.coordinator.heartbeat(before),
        lambda: world.coordinator.complete(before),
        lambda: world.coordinator.abort(before, "it failed"),
    ):
        with pytest.raises(StoreReplaced):
            call()
    assert world.exactly() == content
    world.run(world.job("t"), day(2), [3], owner(try_number=2))
    assert world.rows("t") == {"t": [(1, 1), (2, 3)]}
    assert tables_ahead(world.store, world.formats) == []


def test_restore_check_includes_tables_of_retired_jobs(world: World) -> None:
    """R7, R33: those of retired jobs are asked, too; one that never had a commit is like one that is not there."""
    world.run(world.job("t"), day(1), [1])
    world.coordinator.register(world.job("idle"))
    for name in ("t", "idle"):
        world.coordinator.retire(DOMAIN, name, reason="replaced", by="ada")
    assert tables_ahead(world.store, world.formats) == []
    assert [table.problem for table in recover(world.coordinator.context, DOMAIN).tables] == [""]
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()
    world.clock.advance(timedelta(days=30))
    world.retention.vacuum(DOMAIN)


def test_commit_of_another_attempt_with_the_same_token_is_not_taken_for_its_own(world: World) -> None:
    """R33: the restored store gives a lost token out again; the attempt that had it before is told that it is over."""
    known = world.store.read(DOMAIN, []).head.incarnation
    renewed(world)
    job = world.job("t")
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])
    world.coordinator.publish(attempt)
    lost = replace(Begun.of(attempt), incarnation=known)
    with pytest.raises(StoreReplaced, match="begun in another store"):
        resume(world.coordinator.context, job, lost)


def test_readers_of_before_are_told(world: World) -> None:
    """R20, R33: a session's numbers are of another history; a lease's cut, too."""
    for name in ("t", "u"):
        world.run(world.job(name), day(1), [1])
    cut = world.cut("t")
    lease = world.leases.acquire(world.cut("t", "u"), name="before", owner="me")
    session = Session.of(DOMAIN).after(cut)
    renewed(world)
    with pytest.raises(Unavailable, match="incarnation"):
        world.cuts.cut(DOMAIN, ["t"], session=session)
    with pytest.raises(Unavailable):
        world.leases.acquire(cut, name="mine", owner="me")
    with pytest.raises(LeaseExpired, match="incarnation"):
        world.cuts.read(cut, "t")
    for change in (lambda: world.leases.renew(lease), lambda: world.leases.release(lease, ["u"])):
        with pytest.raises(LeaseExpired):
            change()


def test_a_session_that_has_only_published_is_told(world: World) -> None:
    """R20, R33: its own commit may be gone, whatever numbers the restored store has given out since."""
    job = world.job("t")
    session = Session.of(DOMAIN).committed(world.run(job, day(1), [1]))
    assert session.incarnation == world.store.read(DOMAIN, []).head.incarnation
    renewed(world)
    again = world.run(job, day(2), [2])
    for later in (session, session.committed(again), session.after(world.cut("t"))):
        with pytest.raises(Unavailable, match="incarnation"):
            world.cuts.cut(DOMAIN, ["t"], session=later)


def test_it_may_be_said_twice(world: World) -> None:
    """R33: after a lost reply it is said again."""
    assert len({renewed(world), renewed(world), world.store.read(DOMAIN, []).head.incarnation}) == 2
