"""A table gets another name: a job copies its epochs, readers follow, the table's own job goes on with the copy."""

from __future__ import annotations

from datetime import datetime

import pytest

from airflow_provider.domain.errors import NotReady, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind
from airflow_provider.domain.topology import Job, Table, increment, state
from airflow_provider.testing.arrow_attempts import read_rows, write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

LAST = 3
"""The last day under the old name."""


def copied(world: World, job: Job, epoch: Interval, by: Owner | None = None) -> None:
    """Compute one epoch of the job that copies."""
    attempt = world.begin(job, epoch, by)
    found = read_rows(world.coordinator, attempt, "old")
    assert found is not None
    columns = [name for name in found.column_names if name != "_epoch"]
    write_rows(world.coordinator, attempt, "new", found.select(columns))
    world.coordinator.publish(attempt)


def renamed(world: World, kind: str, twice: int = 0) -> tuple[Job, Table]:
    """Three days under the old name, then the new one from the fourth on; return the job as it is now."""
    old, new = (world.table(name, kind=kind) for name in ("old", "new"))
    keeps = world.job("keeps", [old])
    for number in range(1, LAST + 1):
        world.run(keeps, day(number), [number, 10 * number])
    copies = world.job("copies", [new], inputs=[state(old) if kind == "full" else increment(old)])
    for number in range(1, LAST + 1):
        copied(world, copies, day(number))
    if twice:
        copied(world, copies, day(twice), owner("again"))
    world.coordinator.retire(DOMAIN, "copies", reason="old is called new", by="ada")
    keeps = world.job("keeps", [new])
    world.coordinator.register(keeps)
    world.coordinator.retire(DOMAIN, "keeps", reason="old is called new", by="ada", table="old")
    return keeps, new


def at(world: World, table: str, moment: datetime) -> list[tuple[int, int]]:
    return world.rows(table, at=moment)[table]


def slices(world: World, table: str) -> dict[str, int]:
    """The slices that are recorded of *table*, with the CSN of each."""
    found = world.store.scan(DOMAIN, Kind.SLICE, table)
    return {stamped.key.item: stamped.csn or 0 for stamped in found}


@pytest.mark.parametrize("kind", ["incremental", "full"])
def test_every_barrier_has_its_rows_under_both_names(world: World, kind: str) -> None:
    """R7: history, cuts and a lease of before; the old name says that nothing more comes of it."""
    held = []
    keeps, _ = renamed(world, kind)
    lease = world.leases.cut(DOMAIN, ["old"], name="reader", owner="ada")
    held.append(world.rows_of(lease.cut))
    for number in range(1, LAST + 1):
        assert at(world, "new", barrier(number)) == at(world, "old", barrier(number)) != []
    world.run(keeps, day(LAST + 1), [4])
    assert (LAST + 1, 4) in at(world, "new", barrier(LAST + 1))
    assert at(world, "old", barrier(LAST + 1)) == at(world, "old", barrier(LAST))
    assert world.rows_of(world.leases.renew(lease).cut) == held[0]
    with pytest.raises(TopologyError, match="retired"):
        world.begin(world.job("keeps", [world.table("old", kind=kind)]), day(LAST + 1), owner("late"))


def test_a_reader_follows_at_any_barrier(world: World) -> None:
    """R18: what it computed from the old name stays; the next epoch reads the new one, and none is read twice."""
    old = world.table("old")
    world.coordinator.register(world.job("keeps", [old]))
    before = world.job("reads", inputs=[increment(old)])
    keeps, new = renamed(world, "incremental")
    world.run(before, day(1), [1])
    after = world.job("reads", inputs=[increment(new)])
    world.run(after, day(2), [2])
    world.run(keeps, day(LAST + 1), [4])
    for number in (LAST, LAST + 1):
        world.run(after, day(number), [number])
    with pytest.raises(NotReady):
        world.begin(after, day(LAST + 2))
    assert world.rows("reads") == {"reads": [(1, 1), (2, 2), (3, 3), (4, 4)]}


def test_the_past_may_be_computed_again_under_the_new_name(world: World) -> None:
    """R5, R7: a revision by the job itself replaces what was copied, also what was copied twice."""
    keeps, _ = renamed(world, "incremental", twice=2)
    before = slices(world, "new")
    world.run(keeps, day(2), [99], owner("again"))
    assert len(before) == LAST + 1
    assert before.items() < slices(world, "new").items(), "what the earlier owner published stays recorded"
    assert at(world, "new", barrier(LAST)) == [(1, 1), (1, 10), (2, 99), (3, 3), (3, 30)]
    assert at(world, "old", barrier(2)) == [(1, 1), (1, 10), (2, 2), (2, 20)]
