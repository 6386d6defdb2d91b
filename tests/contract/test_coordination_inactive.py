"""Jobs that fall silent (R9): whom they hold back, until when, and what they find when they return."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import state
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

THREE_DAYS = timedelta(days=3)


def altogether(world: World, table: str = "d") -> datetime:
    return world.cuts.cut(DOMAIN, [table], consistency="altogether").barrier


def rows_inactive(world: World) -> dict[str, bool]:
    return {row.table.name: row.inactive is not None for row in grid(world.store, DOMAIN).rows}


def test_a_silent_job_holds_no_cut_of_the_domain_back(world: World) -> None:
    """R9: after as many barriers of its calendar as it declares, and not before; until it commits again."""
    d, e = world.job("d"), world.job("e", inactive_after=3)
    for job in (d, e):
        world.run(job, day(1))
    world.run(d, day(2))
    assert altogether(world) == barrier(1)
    heard = world.store.read(DOMAIN, []).now
    world.clock.advance(timedelta(days=2))
    assert altogether(world) == barrier(1)
    assert rows_inactive(world) == {"d": False, "e": False}
    world.clock.advance(timedelta(days=1))
    assert altogether(world) == barrier(2)
    assert rows_inactive(world) == {"d": False, "e": True}
    since = explain(world.store, DOMAIN, "e").inactive
    assert since is not None
    assert heard + timedelta(days=2) < since <= heard + THREE_DAYS
    assert explain(world.store, DOMAIN, "d").inactive is None
    with pytest.raises(NotReady):
        world.cuts.cut(DOMAIN, ["e"], at=barrier(2), max_staleness=timedelta(days=1))
    world.run(e, day(2))
    assert rows_inactive(world) == {"d": False, "e": False}
    assert altogether(world) == barrier(2)
    world.run(d, day(3))
    assert altogether(world) == barrier(2), "it is waited for again"


def test_cut_of_an_inactive_jobs_tables_waits_for_them(world: World) -> None:
    """R9: the barrier of a cut is still one that every table in it has reached."""
    for job in (world.job("d"), world.job("e", inactive_after=1)):
        world.run(job, day(1))
    world.run(world.job("d"), day(2))
    world.clock.advance(THREE_DAYS)
    assert world.cut("d", "e").barrier == barrier(1)
    assert world.cuts.cut(DOMAIN, ["d", "e"], consistency="altogether").barrier == barrier(1)


def test_a_job_without_inactive_after_stays_active(world: World) -> None:
    """R9: silence alone is no reason; how old the data is does not count."""
    world.run(world.job("d"), day(1))
    world.run(world.job("e", inactive_after=2), day(1))
    world.clock.advance(timedelta(days=1))
    assert inactive_jobs(world.store, DOMAIN) == {}
    world.clock.advance(timedelta(days=1000))
    assert list(inactive_jobs(world.store, DOMAIN)) == ["e"]


def test_a_new_declaration_is_a_sign_of_life(world: World) -> None:
    """R9: so is the first one, of a job that has not committed anything."""
    world.coordinator.register(world.job("e", inactive_after=1))
    assert inactive_jobs(world.store, DOMAIN) == {}
    world.clock.advance(THREE_DAYS)
    assert list(inactive_jobs(world.store, DOMAIN)) == ["e"]
    world.coordinator.register(world.job("e", inactive_after=2))
    assert inactive_jobs(world.store, DOMAIN) == {}


def test_retention_does_not_make_a_job_active(world: World) -> None:
    """R9, R24: the commit that expires a slice of a full table is not the job's own."""
    full = world.table("f", kind=TableKind.FULL)
    job = world.job("f", [full], inactive_after=3)
    for number in (1, 2, 3, 4):
        world.run(job, day(number), [number])
    for number in (1, 2):
        world.clock.advance(timedelta(days=2))
        world.retention.expire(DOMAIN, "f", barrier(number))
    assert list(inactive_jobs(world.store, DOMAIN)) == ["f"]
    world.run(job, day(5), [5])
    assert inactive_jobs(world.store, DOMAIN) == {}


def test_an_inactive_reader_holds_no_retention_back(world: World) -> None:
    """R9, R24: what it has yet to read can be expired; when it returns it is told, and skips that epoch."""
    full = world.table("f", kind=TableKind.FULL)
    source, reader = world.job("f", [full]), world.job("r", inputs=[state(full)], inactive_after=2)
    world.run(source, day(1), [1])
    world.run(reader, day(1))
    for number in (2, 3):
        world.run(source, day(number), [number])
    with pytest.raises(InvalidInput, match="'r' has no epoch left"):
        world.retention.expire(DOMAIN, "f", barrier(2))
    world.clock.advance(THREE_DAYS)
    world.retention.expire(DOMAIN, "f", barrier(2))
    with pytest.raises(Unavailable, match="expired"):
        world.begin(reader, day(2), owner("back"))
    world.coordinator.skip(DOMAIN, "r", day(2), "its input is expired", by="ada")
    assert world.run(reader, day(3), by=owner("back")).revision == 1
