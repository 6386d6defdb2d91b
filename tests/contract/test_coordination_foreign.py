"""What other programs commit to a domain's tables, and what becomes of it (R17)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.columns import add
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    ForeignCommit,
    InvalidInput,
    NotReady,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key, table_key
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import OnForeignCommit, Table, increment
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import (
    DOMAIN,
    SqlitePointers,
    World,
    barrier,
    day,
    owner,
    side_by_side,
)
from tests.contract.interruptions import Died, interrupted
from tests.contract.outside_commits import add_plain_files, change_layout, commit_outside, upgrade
from tests.contract.restating import NAME, WHY, opened, published, restated, sound

Slices = Mapping[int, Sequence[int]]

STOPPED = {
    "rows": "another program wrote to it",
    "epoch": "no committed epoch of the table ends at",
    "obstacle": "files without column ids",
    "layout": "does not begin with _epoch",
    "format version": "format version 3 instead of 2",
}
"""Text of the error, by the cause that stops a table."""


def commit(world: World, table: str, operation: str, slices: Slices) -> None:
    """Let another program commit: the values of each day, in files of its own."""
    rows = [(barrier(number), outside_rows(number, values)) for number, values in slices.items()]
    if world.table_format == "iceberg":
        catalog = catalog_of(world)
        loaded, written = catalog.load_table((DOMAIN, table)), [values for _, values in rows]
        if operation == "add_files":
            add_plain_files(loaded, written)
        else:
            commit_outside(loaded, operation, written)
        catalog.engine.dispose()
        return
    memory: Any = world.formats["memory"]
    swap = memory.commit_foreign(Table(table, domain=DOMAIN, format="memory"), operation, rows)
    point(world, table, swap.new)


def outside_rows(number: int, values: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "value": pa.array(values, pa.int64()),
            "by": pa.array([-1] * len(values), pa.int64()),
            "_epoch": pa.array([barrier(number)] * len(values), pa.timestamp("us", tz="UTC")),
        }
    )


def catalog_of(world: World) -> SqlCatalog:
    assert isinstance(world.pointers, SqlitePointers)
    return SqlCatalog(CATALOG_NAME, uri=f"sqlite:///{world.pointers.path}")


def point(world: World, table: str, pointer: str) -> None:
    """Let the catalog's pointer name something, behind the package's back."""
    if isinstance(world.pointers, SqlitePointers):
        statement = "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?"
        world.pointers.execute(statement, (pointer, table))
    else:
        world.pointers.move(DOMAIN, table, str(world.pointers.pointer(DOMAIN, table)), pointer)


def adopting(world: World, name: str = "t") -> Table:
    return world.table(name, on_foreign_commit="adopt")


def written_after_a_commit(world: World) -> Attempt:
    """Return an attempt of the second day that has written, of an adopting table whose first day is committed."""
    job = world.job("t", [adopting(world)])
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    return attempt


def test_compaction_disturbs_neither_writer_nor_readers(table_world: World) -> None:
    """R17: neither the writer of the table, nor who reads it; it is no commit and no rewrite."""
    world = table_world
    job, reader = world.job("t"), world.job("r", inputs=[world.table("t")])
    world.run(job, day(1), [1, 2])
    reading, writing = world.begin(reader, day(1)), world.begin(job, day(2))
    world.write(reading)
    world.write(writing, [3])
    commit(world, "t", "replace", {1: [2, 1]})
    assert world.rows("t") == {"t": [(1, 1), (1, 2)]}
    assert [table.problem for table in recover(world.coordinator.context, DOMAIN).tables] == [""]
    assert isinstance(world.coordinator.publish(reading), Published)
    assert isinstance(world.coordinator.publish(writing), Published)
    assert world.rows("t") == {"t": [(1, 1), (1, 2), (2, 3)]}
    assert len(world.commits()) == 3


def test_rows_that_come_while_columns_change_stop_the_change(table_world: World) -> None:
    """R17, R32: they were there before it, and the change does not take them along."""
    world = table_world
    world.run(world.job("t"), day(1), [1])
    changed = world.job("t", [world.table("t", column_changes=(add("more", "bigint"),))])
    slow = interrupted(world, lambda: commit(world, "t", "append", {1: [7]}), "table.prepare")
    with pytest.raises(ForeignCommit, match="another program wrote to it"):
        slow.begin(changed, day(2), owner())
    assert len(world.commits()) == 1
    assert world.engine_rows("t") == [(1, 1), (1, 7)]


def test_rows_are_no_version_of_a_table_in_memory(world: World) -> None:
    """R17: neither is a version a file of rows, whatever a pointer or a version names."""
    world.run(world.job("t"), day(1), [1])
    (rows,), pointer = world.data(), str(world.pointers.pointer(DOMAIN, "t"))
    with pytest.raises(ForeignCommit, match="is no version of a memory table"):
        world.formats["memory"].register(world.table("other"), rows)
    world.pointers.objects[rows] = world.pointers.objects[pointer]
    with pytest.raises(Unavailable, match="holds no rows"):
        world.rows("t")


@pytest.mark.parametrize("what", ["rows", "epoch"])
def test_rows_that_stop_a_table_are_told_at_begin(table_world: World, what: str) -> None:
    """R17: before anything is computed, and nothing is written; doctor and recover say it, too."""
    is_told_at_begin(table_world, what)


@pytest.mark.parametrize("what", ["obstacle", "layout", "format version"])
def test_what_stops_a_table_is_said_at_begin(file_world: World, what: str) -> None:
    """R17: likewise."""
    is_told_at_begin(file_world, what)


def is_told_at_begin(world: World, what: str) -> None:
    job = world.job("t", [adopting(world) if what != "rows" else world.table("t")])
    world.run(job, day(1), [1])
    published = str(world.pointers.pointer(DOMAIN, "t"))
    if what == "format version":
        point(world, "t", upgrade(catalog_of(world).load_table((DOMAIN, "t"))))
    elif what == "layout":
        change_layout(catalog_of(world).load_table((DOMAIN, "t")), "replaced")
        commit(world, "t", "replace", {1: [1]})
    else:
        operation = "append" if what in {"rows", "epoch"} else "add_files"
        commit(world, "t", operation, {2 if what == "epoch" else 1: [7]})
    before = world.exactly()
    with pytest.raises(ForeignCommit, match=STOPPED[what]) as refused:
        world.begin(job, day(2))
    assert published in refused.value.next_step
    assert world.exactly() == before
    assert STOPPED[what] in recover(world.coordinator.context, DOMAIN).tables[0].problem
    found = examine(world.store, world.formats, DOMAIN).symptoms
    (symptom,) = [symptom for symptom in found if symptom.subject == "table t"]
    assert STOPPED[what] in f"{symptom.found} {symptom.next_step}"
    assert world.rows("t") == {"t": [(1, 1)]}
    point(world, "t", published)
    world.run(job, day(2), [2])
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}


def test_other_rows_do_not_stop_a_fill_of_another_table(table_world: World) -> None:
    """R7, R17: a fill publishes nothing to the tables that the epoch has; a new epoch does."""
    world = table_world
    old = world.job("j", [world.table("t")])
    new = world.job("j", [world.table("t"), world.table("u")])
    for number, job in enumerate((new, old), start=1):
        world.run(job, day(number), [number])
    commit(world, "t", "append", {1: [7]})
    published = world.run(new, day(2), [2], owner("again"))
    assert [table for table, _ in published.tables] == ["u"]
    assert world.rows("t", "u") == {"t": [(1, 1), (2, 2)], "u": [(1, 1), (2, 2)]}
    with pytest.raises(ForeignCommit):
        world.begin(new, day(3))


@pytest.mark.parametrize("operation", ["append", "overwrite", "replace"])
def test_other_rows_stop_the_next_publish(table_world: World, operation: str) -> None:
    """R17: by name, and nothing is written; with the pointer back where it was, the same attempt publishes."""
    world = table_world
    world.run(world.job("t"), day(1), [1])
    attempt = world.begin(world.job("t"), day(2))
    world.write(attempt, [2])
    published = str(world.pointers.pointer(DOMAIN, "t"))
    commit(world, "t", operation, {1: [7, 8]})
    before = world.exactly()
    with pytest.raises(ForeignCommit, match="on_foreign_commit") as refused:
        world.coordinator.publish(attempt)
    assert refused.value.foreign.operations == (operation,)
    assert world.exactly() == before
    assert "ForeignCommit" in recover(world.coordinator.context, DOMAIN).tables[0].problem
    assert world.rows("t") == {"t": [(1, 1)]}
    point(world, "t", published)
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}


def test_other_rows_stop_a_change_of_columns_and_an_expiry(table_world: World) -> None:
    """R17: whatever makes the next version of the table tells of them, and writes nothing."""
    world = table_world
    full = world.table("t", kind=TableKind.FULL)
    for number in (1, 2):
        world.run(world.job("t", [full]), day(number), [number])
    commit(world, "t", "append", {2: [7]})
    changed = world.table("t", kind=TableKind.FULL, column_changes=[add("more", "double")])
    for made in (
        lambda: world.coordinator.begin(world.job("t", [changed]), day(3), owner()),
        lambda: world.retention.expire(DOMAIN, "t", barrier(1)),
    ):
        with pytest.raises(ForeignCommit):
            made()
    assert world.rows("t") == {"t": [(2, 2)]}
    assert len(world.commits()) == 2


def test_other_rows_are_adopted_before_columns_change(table_world: World) -> None:
    """R17, R32: by the begin that makes the change, and both are commits of their own."""
    world = table_world
    world.run(world.job("t", [adopting(world)]), day(1), [1])
    commit(world, "t", "append", {1: [7]})
    changed = world.table("t", on_foreign_commit="adopt", column_changes=[add("more", "double")])
    world.begin(world.job("t", [changed]), day(2))
    assert world.rows("t") == {"t": [(1, 1), (1, 7)]}
    assert [str(stamped.record.change_set).rpartition("#")[2] for stamped in world.commits()[1:]] == [
        "adopted",
        "columns",
    ]


def test_adoption_with_a_lost_reply_is_found_done(table_world: World) -> None:
    """R15, R17: asked again, it finds nothing to be adopted; the begin that wanted it goes on."""
    world = table_world
    world.run(world.job("t", [adopting(world)]), day(1), [1])
    commit(world, "t", "append", {1: [7]})
    numbered: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if call.method != "transact":
            return None
        numbered.append(call)
        return Fault.REPLY_LOST if len(numbered) == 2 else None  # after the registration

    changed = world.table("t", on_foreign_commit="adopt", column_changes=[add("more", "double")])
    job = world.job("t", [changed])
    assert isinstance(world.worker(FaultyStore(world.store, plan)).begin(job, day(2), owner()), Attempt)
    assert len(numbered) > 2
    assert [str(stamped.record.change_set).rpartition("#")[2] for stamped in world.commits()[1:]] == [
        "adopted",
        "columns",
    ]


def test_other_rows_are_adopted_where_it_is_declared(table_world: World) -> None:
    """R17, R19: in a commit of their own before the publish; earlier cuts read what they had."""
    world = table_world
    job = world.job("t", [adopting(world)])
    world.run(job, day(1), [1])
    before = world.cut("t")
    commit(world, "t", "append", {1: [7]})
    world.run(job, day(2), [2])
    adoption = world.commits()[1]
    assert (adoption.record.members, adoption.record.by) == ((), "another program")
    assert adoption.record.tables[0].interval == day(1)
    assert world.rows("t") == {"t": [(1, 1), (1, 7), (2, 2)]}
    assert world.rows_of(before) == {"t": [(1, 1)]}
    world.run(job, day(1), [5], owner("again"))
    assert world.rows("t") == {"t": [(1, 5), (2, 2)]}


@pytest.mark.parametrize("recovers", [True, False])
def test_a_restatement_is_not_taken_back_from_under_adopted_rows(table_world: World, recovers: bool) -> None:
    """R17, R30: the former rows lack them, as they lack what a later revision has computed."""
    world = table_world
    job = world.job("t", [adopting(world)])
    for number in (1, 2):
        world.run(job, day(number), [number])
    opened(world, "t", 1)
    restated(world, job, 1, [5])
    published(world)
    commit(world, "t", "append", {2: [8]})
    recover(world.coordinator.context, DOMAIN)
    commit(world, "t", "append", {1: [7]})
    if recovers:  # otherwise the revert itself adopts them
        recover(world.coordinator.context, DOMAIN)
    with pytest.raises(TopologyError, match=r"t .2024-01-01.* has rows of another program .*CSN 5"):
        world.coordinator.restatements.revert(DOMAIN, NAME, **WHY)
    assert [name for name, _ in world.coordinator.restatements.all(DOMAIN)] == [NAME]
    assert world.rows("t") == {"t": [(1, 5), (1, 7), (2, 2), (2, 8)]}


@pytest.mark.parametrize("recovers", [True, False])
def test_an_open_revert_takes_no_rows_away_that_were_adopted_since(
    table_world: World, recovers: bool
) -> None:
    """R17, R30: they came while a reader was computed within it."""
    world = table_world
    job = world.job("t", [adopting(world)])
    reader = world.job("r", inputs=[increment(world.table("t"))])
    for number in (1, 2):
        world.run(job, day(number), [number])
    opened(world, "t", 1, 2)
    for number in (1, 2):
        restated(world, job, number, [4 + number])
    published(world)
    world.run(reader, day(1), [50])
    operations, revert = world.coordinator.restatements, f"{NAME}-reverted"
    with pytest.raises(NotReady):
        operations.revert(DOMAIN, NAME, **WHY, with_readers=True)
    restated(world, reader, 1, [10], name=revert)
    commit(world, "t", "append", {2: [7]})
    if recovers:  # otherwise the publish itself adopts them
        recover(world.coordinator.context, DOMAIN)
    with pytest.raises(TopologyError, match=r"t .2024-01-02.* has rows of another program .*CSN 5"):
        operations.publish(DOMAIN, revert)
    operations.abandon(DOMAIN, revert, **WHY)
    assert world.rows("t") == {"t": [(1, 5), (2, 6), (2, 7)]}


@pytest.mark.parametrize("adopts", ["the publish", "another process"])
def test_a_revert_looks_again_for_rows_that_come_while_it_is_published(
    table_world: World, adopts: str
) -> None:
    """R17, R30: they come after it has looked, and before its commit."""
    world = table_world
    job = world.job("t", [adopting(world)])
    world.run(job, day(1), [1])
    opened(world, "t", 1)
    restated(world, job, 1, [5])
    published(world)

    def come() -> None:
        commit(world, "t", "append", {1: [7]})
        if adopts != "the publish":
            recover(world.coordinator.context, DOMAIN)

    with pytest.raises(TopologyError, match=r"t .2024-01-01.* has rows of another program .*CSN 3"):
        interrupted(world, come, "table.prepare").restatements.revert(DOMAIN, NAME, **WHY)
    assert world.rows("t") == {"t": [(1, 5), (1, 7)]}


def test_rows_adopted_into_other_epochs_stay_when_a_restatement_is_taken_back(table_world: World) -> None:
    """R17, R30: and so do those that the epoch had before."""
    world = table_world
    job = world.job("t", [adopting(world)])
    for number in (1, 2):
        world.run(job, day(number), [number])
    commit(world, "t", "append", {1: [7]})
    recover(world.coordinator.context, DOMAIN)
    opened(world, "t", 1)
    restated(world, job, 1, [5])
    published(world)
    commit(world, "t", "append", {2: [8]})
    recover(world.coordinator.context, DOMAIN)
    world.coordinator.restatements.revert(DOMAIN, NAME, **WHY)
    assert world.rows("t") == {"t": [(1, 1), (1, 7), (2, 2), (2, 8)]}


def test_an_adoption_is_a_rewrite_for_its_readers(table_world: World) -> None:
    """R13, R17: an attempt that read the epoch begins again, and then reads the other program's rows."""
    world = table_world
    world.run(world.job("t", [adopting(world)]), day(1), [1])
    reader = world.job("r", inputs=[world.table("t")])
    attempt = world.begin(reader, day(1))
    world.write(attempt)
    commit(world, "t", "append", {1: [7]})
    recovered = recover(world.coordinator.context, DOMAIN).tables[0]
    assert (recovered.adopted, recovered.problem, recovered.csn) == (True, "", 2)
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.publish(attempt)
    assert [table.adopted for table in recover(world.coordinator.context, DOMAIN).tables] == [False]


def test_rows_are_not_adopted_into_an_epoch_with_committed_readers(table_world: World) -> None:
    """R17, R18: the readers are named, and nothing is changed."""
    world = table_world
    job = world.job("t", [adopting(world)])
    world.run(job, day(1), [1])
    world.run(world.job("r", inputs=[world.table("t")]), day(1), [1])
    commit(world, "t", "append", {1: [7]})
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    before = world.exactly()
    with pytest.raises(DependentReaders) as refused:
        world.coordinator.publish(attempt)
    assert [reader.job for reader in refused.value.readers] == ["r"]
    assert world.exactly() == before


@pytest.mark.parametrize("call", ["", "table.compare", "table.prepare"])
def test_a_restatement_replaces_what_its_members_keep_from_being_adopted(
    table_world: World, call: str
) -> None:
    """R17, R18, R28: as the error of the publish before it advises; the table goes on. Or they come meanwhile."""
    world = table_world
    job, reader = world.job("t", [adopting(world)]), world.job("r", inputs=[world.table("t")])
    for each in (job, reader):
        world.run(each, day(1), [1])
    if not call:
        commit(world, "t", "append", {1: [7]})
        with pytest.raises(DependentReaders):
            world.run(job, day(2), [2])
    opened(world, "t", 1)
    for each in (job, reader):
        restated(world, each, 1, [5])
    come = interrupted(world, lambda: commit(world, "t", "append", {1: [7]}), call)
    assert (come.restatements if call else world.coordinator.restatements).publish(DOMAIN, NAME) == 3
    assert world.rows("t", "r") == {"t": [(1, 5)], "r": [(1, 5)]}
    assert sound(world)
    world.run(job, day(2), [2])
    assert world.rows("t") == {"t": [(1, 5), (2, 2)]}
    assert world.engine_rows("t") == [(1, 5), (2, 2)]


def test_a_restatement_says_what_it_does_not_replace(table_world: World) -> None:
    """R17, R28: rows beside its members, which committed readers keep from being adopted: no reader joins for them."""
    world = table_world
    job, reader = world.job("t", [adopting(world)]), world.job("r", inputs=[increment(world.table("t"))])
    for number in (1, 2):
        for each in (job, reader):
            world.run(each, day(number), [number])
    commit(world, "t", "append", {1: [7], 2: [8]})
    opened(world, "t", 1)
    for each in (job, reader):
        restated(world, each, 1, [5])
    before = world.exactly()
    with pytest.raises(ForeignCommit, match="another program wrote to it"):
        published(world)
    assert world.exactly() == before


def test_rows_of_no_committed_epoch_are_not_adopted(table_world: World) -> None:
    """R17, I1: they would be in no epoch's slice, or in that of an epoch that is yet to come."""
    world = table_world
    attempt = written_after_a_commit(world)
    commit(world, "t", "append", {2: [7]})
    with pytest.raises(ForeignCommit, match=r"no committed epoch .* ends at 2024-01-03"):
        world.coordinator.publish(attempt)
    assert len(world.commits()) == 1


def test_rows_without_column_ids_are_not_adopted(file_world: World) -> None:
    """R17, I1: whatever is declared, since cuts would read nulls; the table goes on when they have been rewritten."""
    world = file_world
    attempt = written_after_a_commit(world)
    commit(world, "t", "add_files", {1: [7]})
    before = world.exactly()
    with pytest.raises(ForeignCommit, match="files without column ids"):
        world.coordinator.publish(attempt)
    assert "files without column ids" in recover(world.coordinator.context, DOMAIN).tables[0].problem
    assert world.exactly() == before
    commit(world, "t", "replace", {1: [1, 7]})
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": [(1, 1), (1, 7), (2, 2)]}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_rows_of_several_epochs_are_a_rewrite_of_all_of_them(table_world: World, number: int) -> None:
    """R13, R17: a job that has read the first, the last, or the epoch between them begins again."""
    world = table_world
    for each in (1, 2, 3, 4):
        world.run(world.job("t", [adopting(world)]), day(each), [each])
    reader = world.job("r", inputs=[world.table("t")])
    attempts = {each: world.begin(reader, day(each)) for each in (number, 4)}
    for attempt in attempts.values():
        world.write(attempt)
    commit(world, "t", "append", {3: [33], 1: [11]})
    assert recover(world.coordinator.context, DOMAIN).tables[0].adopted
    assert world.commits()[-1].record.tables[0].interval == Interval(day(1).start, day(3).end)
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.publish(attempts[number])
    assert isinstance(world.coordinator.publish(attempts[4]), Published)


def test_declaration_of_a_retired_job_does_not_decide_adoption(table_world: World) -> None:
    """R7, R17: what its successor declares counts, and where there is none no job declares anything."""
    world = table_world
    for name in ("left", "taken"):
        world.run(world.job(f"old {name}", [adopting(world, name)]), day(1), [1])
        world.coordinator.retire(DOMAIN, f"old {name}", reason="renamed", by="ada")
        commit(world, name, "append", {1: [7]})
    world.coordinator.register(world.job("successor", [world.table("taken")]))
    problems = {table.name: table.problem for table in recover(world.coordinator.context, DOMAIN).tables}
    assert all(problem.startswith("ForeignCommit") for problem in problems.values()), problems
    assert set(problems) == {"left", "taken"}
    world.coordinator.register(world.job("successor", [adopting(world, "taken")]))
    adopted = {table.name: table.adopted for table in recover(world.coordinator.context, DOMAIN).tables}
    assert adopted == {"left": False, "taken": True}


def test_two_publishes_adopt_once(table_world: World) -> None:
    """R17: of two that meet the same rows one adopts them, and both publish."""
    world = table_world
    job = world.job("t", [adopting(world)])
    world.run(job, day(1), [1])
    attempts = [world.begin(job, day(number)) for number in (2, 3)]
    for attempt in attempts:
        world.write(attempt, [attempt.interval.end.day - 1])
    commit(world, "t", "append", {1: [7]})
    found = side_by_side(*(lambda attempt=attempt: world.worker().publish(attempt) for attempt in attempts))
    assert all(isinstance(answer, Published) for answer in found), found
    assert world.rows("t") == {"t": [(1, 1), (1, 7), (2, 2), (3, 3)]}
    assert [stamped.record.by for stamped in world.commits()].count("another program") == 1


def test_rows_that_come_during_an_adoption_are_adopted_with_the_others(table_world: World) -> None:
    """R17: the other program writes twice in a row, and the second commit meets an adoption of the first."""
    world = table_world
    attempt = written_after_a_commit(world)
    commit(world, "t", "append", {1: [7]})
    again = interrupted(world, lambda: commit(world, "t", "append", {1: [8]}), "table.prepare", 1)
    again.publish(attempt)
    assert world.rows("t") == {"t": [(1, 1), (1, 7), (1, 8), (2, 2)]}
    assert len(world.commits()) == 3


@pytest.mark.parametrize("call", ["table.compare", "store.transact", "table.published", "table.prepare"])
def test_interrupted_adoption_is_finished_by_the_next_publish(table_world: World, call: str) -> None:
    """R15, R17: the next publish of the attempt adopts, or finds that it is done."""
    world = table_world
    attempt = written_after_a_commit(world)
    commit(world, "t", "append", {1: [7]})

    def die() -> None:
        raise Died

    with suppress(Died):
        interrupted(world, die, call, 1 if call == "table.prepare" else 0).publish(attempt)
    assert world.rows("t")["t"][0] == (1, 1)
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": [(1, 1), (1, 7), (2, 2)]}
    assert len(world.commits()) == 3
    record = world.store.read(DOMAIN, [table_key(DOMAIN, "t")]).records[table_key(DOMAIN, "t")]
    assert world.pointers.pointer(DOMAIN, "t") == record.record.ref.metadata


def test_the_declaration(world: World) -> None:
    """R7: where it says nothing new, a job keeps the identity that it had; what is no policy is refused by name."""
    plain, adopts = world.job("t"), world.job("t", [adopting(world)])
    fingerprints = [world.coordinator.register(declared).fingerprint for declared in (plain, adopts)]
    assert fingerprints[0] != fingerprints[1]
    assert fingerprints[0] == "114ac00ae13409f55a7972a76be5440f"
    recorded = world.store.read(DOMAIN, [job_key(DOMAIN, plain.name)]).records[job_key(DOMAIN, plain.name)]
    assert recorded.record.outputs[0].on_foreign_commit is OnForeignCommit.ADOPT
    assert recorded.record.revision == 2
    with pytest.raises(InvalidInput, match="on_foreign_commit: 'stop' is not accepted"):
        world.table("t", on_foreign_commit="stop")
