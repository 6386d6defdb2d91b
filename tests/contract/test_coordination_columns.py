"""Columns that change between epochs: declared with the job, made by the first begin that has them (R32)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.coordination.reading.differences import diff
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.skip import skip
from airflow_provider.domain.checks import not_null, unique
from airflow_provider.domain.columns import ColumnChange, add, drop, rename, widen
from airflow_provider.domain.cut import as_of, newest_version
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.errors import CheckFailed, Conflict, EpochBusy, InvalidInput, SchemaMismatch
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Kind, table_key
from airflow_provider.domain.topology import Job, previous, state
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.arrow_attempts import read_rows, write_rows
from airflow_provider.testing.faults import Fault, FaultyStore, at
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner, side_by_side
from tests.contract.interruptions import interrupted
from tests.contract.restating import NAME, WHY, opened, operations, published, within

A = {"id": 1, "name": "a"}


def declared(world: World, *changes: ColumnChange, name: str = "t", **options: Any) -> Job:
    """Job t, whose table has had *changes*."""
    kind = {"kind": options.pop("kind")} if "kind" in options else {}
    return world.job(name, [world.table(name, column_changes=changes, **kind)], **options)


def write(world: World, attempt: Attempt, *rows: dict[str, Any]) -> None:
    for sink in attempt.sinks:
        write_rows(world.coordinator, attempt, sink.name, pa.Table.from_pylist(list(rows)))


def ran(world: World, job: Job, epoch: Interval, *rows: dict[str, Any], by: Owner | None = None) -> Published:
    """Compute one epoch with *rows*."""
    attempt = world.begin(job, epoch, by)
    write(world, attempt, *rows)
    return world.coordinator.publish(attempt)


def found(world: World, table: str = "t", **options: Any) -> list[dict[str, Any]]:
    """The rows of a table in a cut, in the order of their epochs."""
    return plain(world.cuts.read(world.cut(table, **options), table))


def plain(rows: pa.Table | None) -> list[dict[str, Any]]:
    assert rows is not None
    return rows.sort_by(EPOCH_COLUMN).drop_columns([EPOCH_COLUMN]).to_pylist()


def schema_ids(world: World, table: str = "t") -> list[int]:
    """The schema of each slice."""
    return [stamped.record.schema_id for stamped in world.store.scan(DOMAIN, Kind.SLICE, table)]


def changes_of(world: World) -> int:
    """How many commits have changed columns."""
    return sum(commit.record.change_set.endswith("#columns") for commit in world.commits())


def test_a_new_table_takes_what_an_older_one_takes(table_world: World) -> None:
    """R32: one list of changes serves environments with and without an older table."""
    world, changes = table_world, (widen("id", "bigint"), add("more", "double"))
    narrow = pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]})
    older = world.begin(declared(world, name="older"), day(1))
    write_rows(world.coordinator, older, "older", narrow)
    world.coordinator.publish(older)
    for name, number in (("older", 2), ("new", 1)):
        job = declared(world, *changes, name=name)
        attempt = world.begin(job, day(number))
        with pytest.raises(SchemaMismatch, match="'more'"):
            write_rows(world.coordinator, attempt, name, narrow)
        write_rows(world.coordinator, attempt, name, narrow.append_column("more", pa.array([0.5])))
        world.coordinator.publish(attempt)
        ran(world, job, day(number + 1), {"id": 2**40, "name": "b", "more": 1.5})
        assert [row["id"] for row in found(world, name)] == [1] * number + [2**40]


def test_a_change_is_a_commit_of_its_own_before_the_epoch(table_world: World) -> None:
    """R2, R32: readers see it at its CSN, one schema for all slices; each slice records the one it was written with."""
    world = table_world
    ran(world, declared(world), day(1), A)
    before = world.cut("t")
    changes = (rename("name", "title"), add("more", "double"))
    attempt = world.begin(declared(world, *changes), day(2))
    commit = world.commits()[-1]
    assert (commit.record.members, commit.record.by, commit.record.change_set) == ((), "t", "t@2#columns")
    (delta,) = commit.record.tables
    assert (delta.table, delta.rows, delta.revision, delta.watermark) == ("t", 0, 0, barrier(1))
    assert found(world) == [{"id": 1, "title": "a", "more": None}], "before the epoch that brought it"
    assert plain(world.cuts.read(before, "t")) == [A], "a cut of before has the columns of before (R19)"
    write(world, attempt, {"id": 2, "title": "b", "more": 0.5})
    world.coordinator.publish(attempt)
    assert found(world) == [{"id": 1, "title": "a", "more": None}, {"id": 2, "title": "b", "more": 0.5}]
    assert found(world, at=barrier(1)) == [{"id": 1, "title": "a", "more": None}], "at an old barrier too"
    assert schema_ids(world) == [0, 1]
    number = len(world.commits())
    ran(world, declared(world, *changes), day(3), {"id": 3, "title": "c", "more": None})
    assert len(world.commits()) == number + 1, "nothing is changed twice"


def test_undeclared_columns_are_refused(table_world: World) -> None:
    """R32: an author's slip changes no table, whether a column is missing, new or of another type."""
    world = table_world
    job = declared(world)
    ran(world, job, day(1), A)
    attempt = world.begin(job, day(2))
    for row, column in (
        ({"id": 2}, "name"),
        ({**A, "more": 1.0}, "more"),
        ({"id": "x", "name": "a"}, "id"),
        ({"id": 2, "title": "a"}, "name"),
    ):
        with pytest.raises(SchemaMismatch, match="column_changes") as refused:
            write(world, attempt, row)
        assert refused.value.column == column
    write(world, attempt, {"id": 2, "name": "b"})
    world.coordinator.publish(attempt)
    assert found(world) == [A, {"id": 2, "name": "b"}]


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ([rename("nothing", "more")], "nothing"),
        ([add("name", "string")], "name"),
        ([widen("name", "double")], "name"),
        ([add("more", "int"), drop("nothing")], "nothing"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_refused_before_anything_begins(
    table_world: World, changes: list[ColumnChange], column: str
) -> None:
    """R32: named, and nothing is written; the list may then be corrected."""
    world = table_world
    ran(world, declared(world), day(1), A)
    csn = len(world.commits())
    with pytest.raises(SchemaMismatch) as refused:
        world.begin(declared(world, *changes), day(2))
    assert (refused.value.column, refused.value.table) == (column, "t")
    assert "column_changes" in refused.value.next_step
    assert len(world.commits()) == csn
    assert found(world) == [A]
    ran(world, declared(world, add("more", "double")), day(2), {**A, "more": 1.0})


def test_the_list_only_grows(world: World) -> None:
    """R32: what a table has had is not edited; a shorter list is an older declaration."""
    job = declared(world, rename("name", "title"))
    ran(world, declared(world), day(1), A)
    ran(world, job, day(2), {"id": 2, "title": "b"})
    with pytest.raises(
        SchemaMismatch, match=r"change 1 .*rename\('name', 'heading'\).*rename\('name', 'title'\)"
    ):
        world.begin(declared(world, rename("name", "heading")), day(3))
    ran(world, declared(world, rename("name", "title"), drop("id")), day(3), {"title": "c"})
    assert found(world) == [{"title": "a"}, {"title": "b"}, {"title": "c"}]


def test_an_older_declaration_goes_on_with_its_columns(table_world: World) -> None:
    """R7, R11, R32: open attempts and retries of an older DAG version write what they know; it is found by id."""
    world = table_world
    old = declared(world)
    ran(world, old, day(1), A)
    early = world.begin(old, day(2), owner("early"))
    early_too = world.begin(old, day(3), owner("early too"))
    write(world, early, {"id": 2, "name": "b"})
    new = declared(world, add("more", "double"))
    late = world.begin(new, day(4))
    write(world, early_too, {"id": 3, "name": "c"})
    write(world, late, {"id": 4, "name": "d", "more": 0.5})
    for attempt in (late, early_too, early):
        world.coordinator.publish(attempt)
    newer = declared(world, add("more", "double"), rename("name", "title"), drop("id"))
    ran(world, newer, day(5), {"title": "e", "more": 1.5})
    retried = world.begin(old, day(6), owner("old DAG version"))
    with pytest.raises(SchemaMismatch, match="'title'"):
        write(world, retried, {"id": 6, "title": "f"})
    write(world, retried, {"id": 6, "name": "f"})
    world.coordinator.publish(retried)
    titles = [(row["title"], row["more"]) for row in found(world)]
    assert titles == [("a", None), ("b", None), ("c", None), ("d", 0.5), ("e", 1.5), ("f", None)]
    assert schema_ids(world) == [0, 0, 0, 1, 2, 0]


def test_a_name_goes_when_no_epoch_is_open(world: World) -> None:
    """R32: a rename waits for open attempts, unless they are silent; what is only added waits for no attempt."""
    old = declared(world)
    ran(world, old, day(1), A)
    world.begin(old, day(2), owner("open"))
    ran(world, declared(world, add("more", "double")), day(3), {**A, "more": 1.0})
    new = declared(
        world, add("more", "double"), add("other", "int"), rename("name", "title"), add("last", "int")
    )
    with pytest.raises(EpochBusy) as busy:
        world.begin(new, day(4))
    assert busy.value.holder.run_id == "open"
    world.clock.advance(PAST_TTL)
    attempt = world.begin(new, day(4))
    assert found(world)[0]["title"] == "a"
    world.coordinator.abort(attempt, "enough")
    again = world.begin(
        declared(world, *new.outputs[0].column_changes, drop("more")), day(4), owner(try_number=2)
    )
    assert isinstance(again, Attempt), "the own epoch's earlier attempt is not waited for"


def test_a_name_goes_beside_the_own_epochs_live_try_and_no_other(world: World) -> None:
    """R32: that try ends with this begin; one at the next epoch may be using the name."""
    old = declared(world)
    ran(world, old, day(1), A)
    world.begin(old, day(2))
    new = declared(world, rename("name", "title"))
    assert world.begin(new, day(2), owner(try_number=2)).token == 2
    assert found(world)[0]["title"] == "a"
    world.begin(new, day(3), owner("next"))
    with pytest.raises(EpochBusy) as busy:
        world.begin(declared(world, rename("name", "title"), drop("title")), day(2), owner(try_number=3))
    assert busy.value.holder.run_id == "next"


def test_readers_of_before_read_on_and_those_of_after_see_the_new_names(table_world: World) -> None:
    """R19, R32: an attempt reads by the columns that stood when it began; one that begins later resolves again."""
    world = table_world
    reader = world.job("r", inputs=[state(world.table("t"))])
    ran(world, declared(world), day(1), A)
    first = world.begin(reader, day(1))
    new = declared(world, rename("name", "title"))
    ran(world, new, day(2), {"id": 2, "title": "b"})
    assert plain(read_rows(world.coordinator, first, "t")) == [A]
    world.coordinator.abort(first, "to be tried again")
    second = world.begin(reader, day(1), owner(try_number=2))
    assert plain(read_rows(world.coordinator, second, "t")) == [{"id": 1, "title": "a"}]
    third = world.begin(reader, day(1), owner(try_number=3))
    assert third.inputs == second.inputs, "nothing has changed since"


def test_a_cumulative_job_reads_its_own_past_by_the_new_columns(table_world: World) -> None:
    """R32: also in the epoch that brings them, and in a full table, whose old states are read so too."""
    world = table_world
    table = world.table("t", kind="full")
    old = world.job("t", [table], inputs=[previous(table)])
    first = world.begin(old, day(1))
    assert read_rows(world.coordinator, first, "t") is None
    write(world, first, {"id": 1, "amount": 10})
    world.coordinator.publish(first)
    changed = world.table(
        "t", kind="full", column_changes=[rename("amount", "total"), add("count", "bigint")]
    )
    new = world.job("t", [changed], inputs=[previous(changed)])
    attempt = world.begin(new, day(2))
    assert plain(read_rows(world.coordinator, attempt, "t")) == [{"id": 1, "total": 10, "count": None}]
    write(world, attempt, {"id": 1, "total": 11, "count": 1})
    world.coordinator.publish(attempt)
    assert found(world) == [{"id": 1, "total": 11, "count": 1}]
    assert found(world, at=barrier(1)) == [{"id": 1, "total": 10, "count": None}]
    skip(world.coordinator.context, DOMAIN, "t", day(3), reason="closed", by="ada")
    assert found(world) == [{"id": 1, "total": 11, "count": 1}], "a skipped epoch carries all columns on"


def test_a_new_table_has_all_declared_changes_from_its_first_write(table_world: World) -> None:
    """R32: in a new environment the same program runs as it is, and goes on from there."""
    world = table_world
    changes = [rename("name", "title"), add("more", "double")]
    ran(world, declared(world, *changes), day(1), {"id": 1, "title": "a", "more": 0.5})
    assert len(world.commits()) == 1
    ran(world, declared(world, *changes, drop("more")), day(2), {"id": 2, "title": "b"})
    assert found(world) == [{"id": 1, "title": "a"}, {"id": 2, "title": "b"}]
    attempt = world.begin(declared(world), day(3))
    with pytest.raises(SchemaMismatch, match="was made with rename"):
        write(world, attempt, A)


def test_attempt_ahead_of_the_first_commit_begins_again(world: World) -> None:
    """R32: two declarations before the first commit; the older one publishes first."""
    old, new = declared(world), declared(world, add("more", "double"))
    first = world.begin(old, day(1), owner("old"))
    ahead = world.begin(new, day(2), owner("new"))
    write(world, first, A)
    world.coordinator.publish(first)
    with pytest.raises(Conflict, match=r"without add\('more', 'double'\)"):
        write(world, ahead, {**A, "more": 1.0})
    again = world.begin(new, day(2), owner("new", try_number=2))
    write(world, again, {**A, "more": 1.0})
    world.coordinator.publish(again)
    assert found(world) == [{**A, "more": None}, {**A, "more": 1.0}]


def test_checks_ask_the_columns_that_the_rows_were_written_with(table_world: World) -> None:
    """R14, R32: by the names of the declaration, older or newer."""
    world = table_world
    old = declared(world, checks=[not_null("t", "name")])
    ran(world, old, day(1), A)
    early = world.begin(old, day(2), owner("early"))
    write(world, early, {"id": 2, "name": None})
    changes = (add("title", "string"),)
    ran(
        world,
        declared(world, *changes, checks=[not_null("t", "title"), unique("t", "id")]),
        day(3),
        {**A, "title": "x"},
    )
    with pytest.raises(CheckFailed, match=r"t\.name"):
        world.coordinator.publish(early)


def test_a_revision_of_an_old_epoch_has_the_new_columns(table_world: World) -> None:
    """R32: and only that epoch's rows."""
    world = table_world
    ran(world, declared(world), day(1), A)
    ran(world, declared(world), day(2), {"id": 2, "name": "b"})
    before = world.cut("t")
    new = declared(world, add("more", "double"))
    ran(world, new, day(1), {"id": 11, "name": "aa", "more": 0.5}, by=owner("again", generation=1))
    assert found(world) == [{"id": 11, "name": "aa", "more": 0.5}, {"id": 2, "name": "b", "more": None}]
    assert plain(world.cuts.read(before, "t")) == [A, {"id": 2, "name": "b"}]
    (changed,) = diff(world.cuts, before, world.cut("t")).values()
    assert plain(changed.added) == [{"id": 11, "name": "aa", "more": 0.5}]
    assert plain(changed.removed) == [{"id": 1, "name": "a", "more": None}]


def test_uncommitted_rows_are_read_under_the_newest_columns(table_world: World) -> None:
    """R32: also those that an older declaration staged."""
    world = table_world
    ran(world, declared(world), day(1), A)
    early = world.begin(declared(world), day(2), owner("early"))
    write(world, early, {"id": 2, "name": "b"})
    world.begin(declared(world, add("more", "double")), day(3))
    rows = found(world, level=Level.READ_UNCOMMITTED)
    assert rows == [{**A, "more": None}, {"id": 2, "name": "b", "more": None}]


def test_doctor_and_retention_accept_changed_columns(table_world: World) -> None:
    """R17, R32: for the doctor, and for retention, which deletes versions of before and keeps their rows."""
    world = table_world
    ran(world, declared(world), day(1), A)
    early = world.begin(declared(world), day(2), owner("early"))
    write(world, early, {"id": 2, "name": "b"})
    ran(world, declared(world, add("more", "double")), day(3), {**A, "more": 1.0})
    world.coordinator.publish(early)
    for _ in range(2):
        world.clock.advance(DEFAULTS.retention_grace + PAST_TTL)
        world.retention.vacuum(DOMAIN)
    assert found(world) == [{**A, "more": None}, {"id": 2, "name": "b", "more": None}, {**A, "more": 1.0}]
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()


def test_two_tables_of_a_job_change_before_its_epoch(table_world: World) -> None:
    """R32: each in a commit of its own."""
    world = table_world
    plain_job = world.job("j", [world.table("a"), world.table("b")])
    ran(world, plain_job, day(1), A)
    job = world.job(
        "j",
        [
            world.table("a", column_changes=[add("more", "double")]),
            world.table("b", column_changes=[add("less", "double")]),
        ],
    )
    world.begin(job, day(2))
    assert [[delta.table for delta in commit.record.tables] for commit in world.commits()[-2:]] == [
        ["a"],
        ["b"],
    ]
    assert (found(world, "a"), found(world, "b")) == ([{**A, "more": None}], [{**A, "less": None}])


def test_racing_begins_and_publishes_change_columns_once(world: World) -> None:
    """R11, R32: of several that find a change missing one makes it, and no attempt's rows are lost."""
    old = declared(world)
    ran(world, old, day(1), A)
    early = world.begin(old, day(2), owner("early"))
    write(world, early, {"id": 2, "name": "b"})
    new = declared(world, add("more", "double"))
    workers = [world.worker(seed=seed) for seed in range(3)]
    answers = side_by_side(
        *(
            lambda worker=worker, number=number: worker.begin(new, day(number), owner(f"run {number}"))
            for number, worker in enumerate(workers, start=3)
        ),
        lambda: world.coordinator.publish(early),
    )
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert changes_of(world) == 1
    for number, attempt in enumerate(answers[:3], start=3):
        assert isinstance(attempt, Attempt)
        write(world, attempt, {"id": number, "name": "x", "more": 1.0})
        world.coordinator.publish(attempt)
    assert [row["more"] for row in found(world)] == [None, None, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("call", ["table.prepare", "store.transact"])
def test_another_epoch_publishes_while_columns_change(table_world: World, call: str) -> None:
    """R11, R32: no program wrote outside of the protocol; the change is made on what was published."""
    world = table_world
    ran(world, declared(world), day(1), A)
    early = world.begin(declared(world), day(2), owner("early"))
    write(world, early, {"id": 2, "name": "b"})
    worker = interrupted(world, lambda: world.coordinator.publish(early), call)
    attempt = worker.begin(declared(world, add("more", "double")), day(3), owner("late"))
    assert isinstance(attempt, Attempt)
    assert found(world) == [{**A, "more": None}, {"id": 2, "name": "b", "more": None}]
    assert changes_of(world) == 1


@pytest.mark.parametrize("fault", Fault)
def test_a_lost_request_or_reply_changes_columns_once(world: World, fault: Fault) -> None:
    """R15, R32: at whichever call of begin it is lost."""
    ran(world, declared(world), day(1), A)
    changes: list[ColumnChange] = []
    for number in range(12):
        changes.append(add(f"c{number}", "int"))
        store = FaultyStore(world.store, at(number, fault))
        attempt = world.worker(store).begin(declared(world, *changes), day(2 + number), owner())
        assert isinstance(attempt, Attempt)
        assert changes_of(world) == len(changes)
        world.coordinator.abort(attempt, "only the columns matter here")
    assert found(world) == [{**A, **{f"c{number}": None for number in range(12)}}]


def test_a_skip_copies_columns_that_the_newest_declaration_lacks(table_world: World) -> None:
    """R5, R32: an older list in a new declaration says what its job writes, not what the state before has."""
    world = table_world
    ran(world, declared(world, kind="full"), day(1), A)
    new, older = (
        declared(world, add("more", "double"), kind="full"),
        declared(world, kind="full", checks=[not_null("t", "name")]),
    )
    ran(world, new, day(2), {**A, "more": 0.5})
    ran(world, older, day(3), A)
    ran(world, new, day(4), {**A, "more": 0.75})
    skip(world.coordinator.context, DOMAIN, "t", day(5), reason="closed", by="ada")
    assert found(world) == found(world, at=barrier(4)) == [{**A, "more": 0.75}]


def test_a_revert_copies_columns_that_the_newest_declaration_lacks(table_world: World) -> None:
    """R30, R32: the former rows come back whole."""
    world = table_world
    ran(world, declared(world), day(1), A)
    new = declared(world, add("more", "double"))
    ran(world, new, day(2), {**A, "more": 0.5})
    former = found(world)
    opened(world, "t", 2)
    attempt = within(world, new, 2)
    write(world, attempt, {"id": 2, "name": "b", "more": 0.75})
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    published(world)
    ran(world, declared(world, checks=[not_null("t", "name")]), day(3), A)
    operations(world).revert(DOMAIN, NAME, **WHY)
    assert found(world, at=barrier(2)) == former


def test_a_format_without_column_ids_keeps_its_names(world: World) -> None:
    """R32: it would show old values under a name that is used again, and none under a new one."""

    class ByName(MemoryFormat):
        capabilities = MemoryFormat.capabilities - {TableCapability.COLUMN_IDS}

    ran(world, declared(world), day(1), A)
    tables = ByName(world.pointers, swaps=not world.follows)
    worker = world.worker(formats=TableFormats({"memory": lambda: tables}, following=world.formats.following))
    for change in (rename("name", "title"), drop("name")):
        with pytest.raises(InvalidInput, match="lacks the capability 'column ids'"):
            worker.begin(declared(world, change), day(2), owner())
    assert isinstance(worker.begin(declared(world, add("more", "int")), day(2), owner()), Attempt)


def test_where_a_table_stood_before_its_columns_changed_is_remembered(world: World) -> None:
    """R3, R19: who reads by the head of a moment ago gets the version of then, not one before it."""
    job = declared(world)
    for number in (1, 2):
        ran(world, job, day(number), {**A, "id": number})
    key = table_key(DOMAIN, "t")
    before = world.store.read(DOMAIN, [key]).records[key]
    world.begin(declared(world, add("more", "double")), day(3))
    after = world.store.read(DOMAIN, [key]).records[key]
    assert after.csn == before.csn + 1
    assert as_of(after, before.csn) == newest_version(before)
    assert as_of(after, before.csn - 1) == as_of(before, before.csn - 1)


@pytest.mark.parametrize("layout", ["n", "bucket(4, n)"])
def test_a_column_that_separates_files_is_not_widened(table_world: World, layout: str) -> None:
    """R32: files of before would keep the narrower values."""
    world = table_world

    def declares(*changes: ColumnChange) -> Job:
        return world.job("t", [world.table("t", partition_by=(layout,), column_changes=changes)])

    attempt = world.begin(declares(), day(1))
    write_rows(world.coordinator, attempt, "t", pa.table({"n": pa.array([1], pa.int32())}))
    world.coordinator.publish(attempt)
    with pytest.raises(SchemaMismatch, match="partition_by"):
        world.begin(declares(widen("n", "bigint")), day(2))
