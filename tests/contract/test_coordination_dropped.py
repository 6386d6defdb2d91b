"""A table that another program dropped from the catalog: refused before any work, and registered again."""

from __future__ import annotations

import pytest

from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.errors import EpochError
from airflow_provider.tables.errors import TableDropped, TableRecreated
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, day, owner, rows

COMMAND = "airflow epochs recover --domain cascade"


def dropped(world: World, table: str = "d") -> None:
    """Let another program drop *table*."""
    world.pointers.drop(DOMAIN, table)


def test_a_dropped_table_is_refused_before_any_work(table_world: World) -> None:
    """R17: by begin, by what writes, by publish; each says what to do, and nothing is made in its place."""
    world = table_world
    job = world.job("j", [world.table("d"), world.table("e", kind="full")])
    world.run(job, day(1), [1])
    written, unwritten = world.begin(job, day(2)), world.begin(job, day(3), owner("beside"))
    world.write(written, [2])
    world.coordinator.complete(written)
    dropped(world)
    before = world.exactly()
    for touch in (
        lambda: world.begin(job, day(4)),
        lambda: write_rows(world.coordinator, unwritten, "d", rows([3])),
        lambda: world.coordinator.publish(written),
        lambda: world.coordinator.skip(DOMAIN, "j", day(4), reason="why not", by="me"),
    ):
        with pytest.raises(TableDropped, match="another program dropped it") as told:
            touch()
        assert COMMAND in told.value.next_step
    assert world.exactly() == before
    assert world.rows("d", "e") == {"d": [(1, 1)], "e": [(1, 1)]}


def test_recover_registers_a_dropped_table_again(table_world: World) -> None:
    """R17: as of its last commit, with all its states; then everything goes on."""
    world = table_world
    job = world.job("j", [world.table("d"), world.table("e", kind="full")])
    for number in (1, 2):
        world.run(job, day(number), [number])
    open_attempt = world.begin(job, day(3))
    world.write(open_attempt, [3])
    world.coordinator.complete(open_attempt)
    dropped(world)
    dropped(world, "e")
    found = recover(world.coordinator.context, DOMAIN).tables
    assert [(table.name, table.restored, table.problem) for table in found] == [
        ("d", True, ""),
        ("e", True, ""),
    ]
    assert [table.restored for table in recover(world.coordinator.context, DOMAIN).tables] == [False, False]
    assert (world.engine_rows("d"), world.engine_rows("e")) == ([(1, 1), (2, 2)], [(2, 2)])
    world.coordinator.publish(open_attempt)
    world.run(job, day(4), [4])
    assert world.engine_rows("d") == world.rows("d")["d"] == [(number, number) for number in (1, 2, 3, 4)]
    assert world.rows("e", at=day(1).end) == {"e": [(1, 1)]}


def test_a_table_that_was_made_anew_gives_way_while_it_is_empty(table_world: World) -> None:
    """R17: one with rows stays, and is named with what to do about it."""
    world = table_world
    job = world.job("d")
    world.run(job, day(1), [1])
    dropped(world)
    declared = world.table("d")
    table_format = world.formats[world.table_format]
    table_format.create(declared, rows([]).schema)
    with pytest.raises(TableRecreated, match="recover"):
        world.begin(job, day(2))
    (found,) = recover(world.coordinator.context, DOMAIN).tables
    assert (found.restored, found.problem) == (True, "")
    world.run(job, day(2), [2])
    assert world.engine_rows("d") == [(1, 1), (2, 2)]


def test_a_table_without_a_commit_is_made_anew(table_world: World) -> None:
    """There is nothing to be lost."""
    world = table_world
    job = world.job("d")
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])
    dropped(world)
    world.coordinator.complete(attempt)
    with pytest.raises(EpochError, match="begin again"):
        world.coordinator.publish(attempt)
    world.coordinator.abort(attempt, "its table was dropped")
    world.run(job, day(1), [2])
    assert world.engine_rows("d") == [(1, 2)]
