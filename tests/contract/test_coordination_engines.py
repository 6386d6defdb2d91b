"""What engines see that know no cuts and load tables from the catalog: docs/explanation/catalog-readers.md."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.columns import rename
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.topology import Job, previous
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, rows, values_of
from tests.contract.draft_engine import PyicebergEngine
from tests.contract.interruptions import Died, interrupted
from tests.contract.test_coordination_foreign import commit
from tests.services.catalog_server import application, connected, served

if TYPE_CHECKING:
    from airflow_provider.tables.iceberg.format import IcebergFormat

PAST_GRACE = DEFAULTS.retention_grace * 2


def die() -> None:
    """End the process."""
    raise Died


def as_a_cut(world: World, *tables: str) -> dict[str, list[tuple[int, int]]]:
    """What engines see of *tables*, which is what a cut of each of them alone reads."""
    found = {}
    for table in tables:
        try:
            wanted = world.rows(table)[table]
        except NotReady:
            wanted = []
        assert world.engine_rows(table) == wanted
        found[table] = wanted
    return found


def test_cat1_current_version(table_world: World) -> None:
    """R17: of a full table the newest state alone, whatever is committed: epochs, skips, revisions, expiries."""
    world = table_world
    job = world.job("totals", [world.table("totals", kind="full"), world.table("lines")])
    for number in (1, 2, 3):
        world.run(job, day(number), [number, 10 * number])
        lines = [(epoch, value) for epoch in range(1, number + 1) for value in (epoch, 10 * epoch)]
        newest = {"totals": [(number, number), (number, 10 * number)], "lines": sorted(lines)}
        assert as_a_cut(world, "totals", "lines") == newest
    world.run(job, day(1), [7], owner("again"))
    assert as_a_cut(world, "totals")["totals"] == [(3, 3), (3, 30)]
    assert world.rows("totals", at=barrier(1))["totals"] == [(1, 7)]
    world.coordinator.skip(DOMAIN, "totals", day(4), reason="nothing came", by="me")
    assert as_a_cut(world, "totals", "lines")["totals"] == [(4, 3), (4, 30)]
    world.retention.expire(DOMAIN, "totals", barrier(1))
    assert as_a_cut(world, "totals")["totals"] == [(4, 3), (4, 30)]
    assert world.rows("totals", at=barrier(2))["totals"] == [(2, 2), (2, 20)]


def test_states_that_retention_takes_free_their_files(table_world: World) -> None:
    """R24: those that the catalog does not show are deleted when they were expired, and only those."""
    world = table_world
    job = world.job("totals", [world.table("totals", kind="full")])
    for number in range(1, 6):
        world.run(job, day(number), [number])
    for number in (1, 2, 4):
        world.retention.expire(DOMAIN, "totals", barrier(number))
    world.run(job, day(6), [6])
    world.clock.advance(PAST_GRACE)
    world.retention.vacuum(DOMAIN)
    assert len(world.data()) == 3
    for number in (3, 5, 6):
        assert world.rows("totals", at=barrier(number))["totals"] == [(number, number)]
    assert as_a_cut(world, "totals")["totals"] == [(6, 6)]


@pytest.mark.parametrize("kind", ["full", "incremental"])
def test_epochs_beyond_a_gap_appear_when_it_is_filled(table_world: World, kind: str) -> None:
    """R4, R17: no cut reads them, and no engine does."""
    world = table_world
    job = world.job("d", [world.table("d", kind=kind)])
    for number in (3, 2):
        world.run(job, day(number), [number])
        assert as_a_cut(world, "d") == {"d": []}
    world.run(job, day(5), [5])
    world.run(job, day(1), [1])
    whole = [(number, number) for number in (1, 2, 3)]
    assert as_a_cut(world, "d") == {"d": whole[-1:] if kind == "full" else whole}
    world.run(job, day(4), [4])
    assert world.engine_rows("d")[-1] == (5, 5)
    as_a_cut(world, "d")


def test_epochs_below_the_origin_appear_when_they_reach_it(table_world: World) -> None:
    """R17: a backfill of the time before the first commit is seen whole or not at all."""
    world = table_world
    job = world.job("d", origin=None)
    for number in (5, 3):
        world.run(job, day(number), [number])
        assert world.engine_rows("d") == [(5, 5)]
    world.run(job, day(4), [4])
    assert world.engine_rows("d") == [(number, number) for number in (3, 4, 5)]


def test_changed_columns_keep_the_shown_rows(table_world: World) -> None:
    """R17, R32."""
    world = table_world
    job = world.job("d", [world.table("d", kind="full")])
    for number in (1, 2):
        world.run(job, day(number), [number])
    renamed = world.job("d", [world.table("d", kind="full", column_changes=[rename("by", "author")])])
    world.begin(renamed, day(3))
    assert as_a_cut(world, "d") == {"d": [(2, 2)]}
    assert world.rows("d", at=barrier(1)) == {"d": [(1, 1)]}


def test_tables_of_earlier_releases_show_the_newest_state_from_their_next_commit_on(
    table_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: they show every state, as long as versions may commit that know no better; older ones are read as before."""
    world = table_world
    job = world.job("d", [world.table("d", kind="full")])
    with monkeypatch.context() as patch:
        patch.setattr(type(world.store), "format", 1)
        for number in range(1, 15):
            world.run(job, day(number), [number])
    assert len(world.engine_rows("d")) == 14
    (told,) = examine(world.store, world.formats, DOMAIN).symptoms
    assert (told.subject, told.urgent) == ("table d", False)
    assert "see 14 files, and a cut of it 1" in told.found
    cut, ttl = world.cut("d", at=barrier(2)), timedelta(days=1)
    held = world.leases.acquire(cut, name="report", owner="me", ttl=ttl)
    world.run(job, day(15), [15])
    assert as_a_cut(world, "d") == {"d": [(15, 15)]}
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()
    for number in range(1, 15):
        assert world.rows("d", at=barrier(number)) == {"d": [(number, number)]}
    world.retention.expire(DOMAIN, "d", barrier(1))
    world.clock.advance(PAST_GRACE)
    world.retention.vacuum(DOMAIN)
    assert world.rows_of(held.cut) == {"d": [(2, 2)]}
    assert as_a_cut(world, "d") == {"d": [(15, 15)]}


def test_cat2_engine_between_pointers(table_world: World) -> None:
    """R2, R17: each table is a whole commit; both are of one commit where their pointers are asked for together."""
    world = table_world
    job = world.job("j", [world.table("d"), world.table("e", kind="full")])
    world.run(job, day(1), [1])
    pointer, first = world.pointers.pointer(DOMAIN, "d"), world.engine_rows("d")
    world.run(job, day(2), [2])
    assert (first, world.engine_rows("e")) == ([(1, 1)], [(2, 2)])  # one by one: a commit came between
    assert world.pointers.pointer(DOMAIN, "d") != pointer  # which the first table tells, loaded once more
    attempt = world.begin(job, day(3))
    world.write(attempt, [3])
    with pytest.raises(Died):
        interrupted(world, die, "table.published").publish(attempt)
    assert world.cut("d", "e").barrier == barrier(3)
    epochs = {table: world.engine_rows(table)[-1][0] for table in ("d", "e")}
    assert epochs == ({"d": 2, "e": 2} if world.follows else {"d": 3, "e": 3})
    recover(world.coordinator.context, DOMAIN)
    assert as_a_cut(world, "d", "e") == {"d": [(1, 1), (2, 2), (3, 3)], "e": [(3, 3)]}
    rows = {name: values_of(world.cuts.read(world.cut("d", "e"), name)) for name in ("d", "e")}
    assert rows == as_a_cut(world, "d", "e")


def test_cat2_engine_with_the_address_of_a_cut(file_world: World) -> None:
    """R17, R23: all that its session loads is of one cut, whatever is committed between two loads."""
    world = file_world
    job = world.job("j", [world.table("d"), world.table("e", kind="full")])
    world.run(job, day(1), [1])
    service = EpochService(world.store, world.formats, clock=world.clock, random=Random(0))
    with served(application(service)) as uri:
        engine, loaded = connected(uri, DOMAIN), dict[str, list[tuple[int, int]]]()
        for table, number in {"d": 2, "e": 3}.items():
            loaded[table] = values_of(engine.load_table((DOMAIN, table)).scan().to_arrow())
            world.run(job, day(number), [number])
            world.run(job, day(1), [number * 10], owner(f"again {number}"))
        assert loaded == {"d": [(1, 1)], "e": [(1, 1)]}
        assert values_of(connected(uri, DOMAIN).load_table((DOMAIN, "e")).scan().to_arrow()) == [(3, 3)]


def test_compaction_does_not_stop_statements_that_begin_with_its_rows(file_world: World) -> None:
    """R17, R24: the next slice shares files of before, which the head lacks; they stay as long as the slice does."""
    world = file_world
    job = world.job("t", [world.table("t", kind="full")], inputs=[previous(world.table("t", kind="full"))])
    for number in (1, 2):
        drafted(world, job, number)
    commit(world, "t", "replace", {2: [1, 2]})
    drafted(world, job, 3)
    world.clock.advance(timedelta(days=2))
    world.keeper().vacuum(DOMAIN)
    assert world.rows("t") == {"t": [(3, 1), (3, 2), (3, 3)]}
    assert world.rows("t", at=barrier(2)) == {"t": [(2, 1), (2, 2)]}
    assert as_a_cut(world, "t") == {"t": [(3, 1), (3, 2), (3, 3)]}


def drafted(world: World, job: Job, number: int) -> None:
    """Compute one epoch of a full table by a statement that adds a row to those of the epoch before."""
    attempt, tables = world.begin(job, day(number)), cast("IcebergFormat", world.formats["iceberg"])
    info = world.coordinator.columns(attempt, "t") or tables.create(attempt.sinks[0], rows([]).schema)
    base, _ = world.coordinator.input(attempt, "t")
    draft = tables.open_draft(world.coordinator.place(attempt, "t"), info, base if base.ref else None)
    PyicebergEngine().insert(draft, rows([number]).to_batches()[0])
    world.coordinator.written(attempt, "t", tables.describe_draft(draft))
    world.coordinator.publish(attempt)
