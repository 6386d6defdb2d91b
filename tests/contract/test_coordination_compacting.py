"""Compaction across epochs: the same rows in fewer files, beside jobs, readers, corrections and a vacuum."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_provider.coordination.reading.change_feed import events
from airflow_provider.coordination.reading.differences import diff
from airflow_provider.coordination.reading.queries import queries
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.drop import drop, plan_drop
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.columns import add
from airflow_provider.domain.compaction import CompactionRecord
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    Conflict,
    EpochError,
    InvalidInput,
    OutcomeUnknown,
    StoreIncompatible,
    StoreUnavailable,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, increment
from airflow_provider.stores.base import Put, Transaction, pages
from airflow_provider.testing.faults import Call, Fault, FaultyStore, at
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, values_of

FIRST, LAST = 27, 33
"""The epochs of the table: up to the 31st they end in January."""
JANUARY = range(FIRST, 32)
PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)
A_DAY_LATER = DEFAULTS.orphan_grace + timedelta(seconds=1)


def job_of(world: World, name: str = "t", **options: Any) -> Job:
    return world.job(name, **{"origin": barrier(FIRST - 1), **options})


def loaded(world: World, *jobs: Job) -> None:
    for number in range(FIRST, LAST + 1):
        for job in jobs or (job_of(world),):
            world.run(job, day(number), [number])


def compact(world: World, store: Any = None, **options: Any) -> Any:
    return world.keeper(store, seed=1 if store else 0).compact(DOMAIN, "t", **options)


def seen(**changed: int) -> list[tuple[int, int]]:
    """Return the rows that the table should have. :param changed: values of epochs that were computed again."""
    return [(number, changed.get(f"d{number}", number)) for number in range(FIRST, LAST + 1)]


def files(world: World) -> int:
    return len(world.cuts.files(world.cut("t"), "t"))


def open_compactions(world: World) -> list[Any]:
    return list(pages(world.store, DOMAIN, CompactionRecord, "t"))


def folders(world: World) -> set[str]:
    """Return the folders of compactions that have files."""
    return {str(path.parent) for path in (world.warehouse or world.path.parent).rglob("units/*/*")}  # type: ignore[union-attr]


def sound(world: World) -> bool:
    return not list(missing_files(world.store, world.formats, DOMAIN)) and not list(
        stale_reads(world.store, DOMAIN)
    )


def test_a_month_comes_into_one_file(file_world: World) -> None:
    """R41: every cut has its rows, as engines by the catalog have; no row has come or left for any reader."""
    world = file_world
    loaded(world)
    before = world.cut("t")
    lease = world.leases.cut(DOMAIN, ["t"], name="report", owner="me", ttl=timedelta(days=9))
    head = len(world.commits())
    (unit,) = compact(world)
    assert (unit.low, unit.high, unit.rows, unit.before, unit.after) == (barrier(FIRST), barrier(31), 5, 5, 1)
    assert unit.csn == head + 1 == len(world.commits())
    assert files(world) == 3
    assert [event.csn for event in events(world.store, DOMAIN)] == list(range(1, head + 1))
    assert world.rows("t") == {"t": seen()} == world.rows_of(before) == world.rows_of(lease.cut)
    assert world.engine_rows("t") == seen()
    for number in range(FIRST, LAST + 1):
        cut = world.cut("t", at=barrier(number))
        wanted = [row for row in seen() if row[0] <= number]
        assert world.rows_of(cut) == {"t": wanted}
        text = queries(world.cuts, cut, "duckdb")["t"]
        assert ("WHERE" in text) == (number < 31)
        assert sorted(row[0] for row in duckdb.sql(text).fetchall()) == [value for _, value in wanted]
        found = diff(world.cuts, cut, world.cut("t"))["t"]
        assert (found.added.num_rows, found.removed.num_rows) == (LAST - number, 0)
    with pytest.raises(InvalidInput, match="metadata_location"):
        world.cuts.files(world.cut("t", at=barrier(29)), "t")
    assert compact(world) == ()
    assert diff(world.cuts, before, world.cut("t"))["t"].added.num_rows == 0
    world.clock.advance(PAST_GRACE)
    world.retention.vacuum(DOMAIN)
    assert world.rows_of(lease.cut) == {"t": seen()}, "its files are claimed"
    world.leases.drop(lease)
    world.run(job_of(world), day(LAST + 1), [LAST + 1])
    world.clock.advance(PAST_GRACE)
    deleted = world.retention.vacuum(DOMAIN).deleted
    assert len([uri for uri in deleted if uri.endswith(".parquet")]) == 5
    assert world.rows("t")["t"][:-1] == seen()
    assert sound(world)
    assert not open_compactions(world)


def test_rows_that_came_to_an_empty_epoch_of_a_unit_are_told(file_world: World) -> None:
    """R41: its file has rows of later epochs, too; the state before lacks none of the later one's other files."""
    world = file_world
    job = job_of(world)
    for number in (FIRST, FIRST + 1):
        world.run(job, day(number), [])
    before = world.cut("t")
    for number in range(FIRST + 2, 32):
        world.run(job, day(number), [number])
    world.run(job, day(FIRST + 1), [FIRST + 1], owner("again"))
    compact(world)
    after = world.cut("t")
    for earlier, later in ((before, after), (world.cut("t", at=before.barrier), after)):
        wanted = [row for row in world.rows_of(later)["t"] if row not in world.rows_of(earlier)["t"]]
        found = diff(world.cuts, earlier, later)["t"]
        assert (values_of(found.added), found.removed.num_rows) == (wanted, 0)
    assert world.rows_of(before) == {"t": []}


def test_an_epoch_of_a_unit_is_computed_again(file_world: World) -> None:
    """R41: it gets files of its own first; no reader sees both its old and its new rows."""
    world = file_world
    loaded(world)
    compact(world)
    attempt = world.begin(job_of(world), day(29), owner("again"))
    world.write(attempt, [290])
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": seen(d29=290)}
    assert world.engine_rows("t") == seen(d29=290)
    assert [unit.before for unit in compact(world)] == [3], "the two runs beside it, and its own file"
    assert world.rows("t") == {"t": seen(d29=290)}
    units = world.retention.take_apart(DOMAIN, "t")
    assert [(unit.before, unit.after) for unit in units] == [(1, 5)]
    assert files(world) == 7
    assert world.rows("t") == {"t": seen(d29=290)} == {"t": world.engine_rows("t")}
    assert sound(world)


def test_a_unit_may_have_more_epochs_than_one_interval_may(
    file_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41: a year of five minutes has 105,120; what came together comes apart."""
    world = file_world
    loaded(world)
    compact(world)
    monkeypatch.setattr("airflow_provider.domain.interval.MOST_AT_ONCE", 3)
    world.run(job_of(world), day(29), [290], owner("again"))
    assert [unit.after for unit in world.retention.take_apart(DOMAIN, "t")] == [2, 2]
    assert world.rows("t") == {"t": seen(d29=290)} == {"t": world.engine_rows("t")}


def test_a_restatement_replaces_epochs_of_units(file_world: World) -> None:
    """R28, R41: of two tables in one commit, one of which was compacted while the restatement was open."""
    world = file_world
    base = job_of(world)
    copy = job_of(world, "c", inputs=[increment(world.table("t"))])
    loaded(world, base, copy)
    compact(world)
    span = Interval(barrier(28), barrier(30))
    world.coordinator.restatements.open(DOMAIN, ["t"], span, name="fix", reason="wrong", by="me")
    for number in (29, 30):
        for job, value in ((base, 10 * number), (copy, 10 * number)):
            attempt: Any = world.coordinator.begin_within("fix", job, day(number), owner("fix"))
            if job is copy:
                state, schema = world.coordinator.input(attempt, "t")
                found = world.formats["iceberg"].read(state, schema)
                assert found.column("value").to_pylist() == [10 * number], (
                    "staged output, not the unit's rows"
                )
            world.write(attempt, [value])
            world.coordinator.complete(attempt)
            world.coordinator.stage(attempt)
    world.retention.compact(DOMAIN, "c")
    assert world.rows("t", "c") == {"t": seen(), "c": seen()}
    world.coordinator.restatements.publish(DOMAIN, "fix")
    after = seen(d29=290, d30=300)
    assert world.rows("t", "c") == {"t": after, "c": after}
    assert (world.engine_rows("t"), world.engine_rows("c")) == (after, after)
    assert sound(world)


def test_a_rollback_takes_epochs_out_of_units(file_world: World) -> None:
    """R30, R41: also where the unit has epochs of before and since."""
    world = file_world
    loaded(world)
    compact(world)
    found = rollback(
        world.coordinator.context,
        plan_rollback(world.coordinator.context, DOMAIN, 3),
        reason="wrong",
        by="me",
    )
    assert found.tables == ("t",)
    assert world.rows("t") == {"t": seen()[:3]}
    assert world.engine_rows("t") == seen()[:3]
    for number in range(FIRST + 3, LAST + 1):
        world.run(job_of(world), day(number), [number])
    assert world.rows("t") == {"t": seen()}
    compact(world)
    assert world.rows("t") == {"t": seen()} == {"t": world.engine_rows("t")}
    assert sound(world)


def test_columns_change_while_a_rollback_takes_epochs_out_of_a_unit(file_world: World) -> None:
    """R30, R32, R41: it looks again, instead of asking for a backup of the file that the epochs share."""
    world = file_world
    loaded(world)
    compact(world)
    changed = job_of(world, outputs=[world.table("t", column_changes=[add("tip", "double")])])

    def columns_change() -> None:
        world.coordinator.abort(world.begin(changed, day(LAST + 1)), "tried")

    context = world.worker(between(world, "transact", 1, columns_change)).context
    rollback(context, plan_rollback(context, DOMAIN, 3), reason="wrong", by="me")
    assert world.rows("t") == {"t": seen()[:3]} == {"t": world.engine_rows("t")}
    assert "tip" in world.engine_columns("t")
    assert not open_compactions(world)
    assert sound(world)


def lose_unit(world: World) -> str:
    """Delete the file of January; return its path."""
    (unit,) = (uri for uri in world.cuts.files(world.cut("t"), "t") if "/units/" in uri)
    path = Path(unit.removeprefix("file://"))
    path.unlink()
    return str(path)


@pytest.mark.parametrize("is_skipped", [False, True])
def test_a_lost_file_of_a_month_is_replaced_by_a_restatement_of_the_month(
    file_world: World, is_skipped: bool
) -> None:
    """R41: its rows cannot go to files of their own, and need not where all of its epochs are computed again."""
    world = file_world
    job = job_of(world)
    for number in range(FIRST, LAST + 1):
        if is_skipped and number == 30:
            world.coordinator.skip(DOMAIN, job.name, day(number), "no data", by="me")
        else:
            world.run(job, day(number), [number])
    compact(world)
    lost = lose_unit(world)
    (gone,) = missing_files(world.store, world.formats, DOMAIN)
    assert [file.epochs for file in gone.files] == [
        f"all epochs that end from {barrier(FIRST).isoformat()} to {barrier(31).isoformat()}"
    ]
    for refused in (lambda: _rolled_back(world, 2), lambda: world.run(job, day(29), [290], owner("again"))):
        with pytest.raises(Unavailable, match="in one restatement") as error:
            refused()
        assert lost in str(error.value)
    world.clock.advance(DEFAULTS.lock_ttl)
    world.coordinator.restatements.open(
        DOMAIN, ["t"], Interval(barrier(FIRST - 1), barrier(31)), name="fix", reason="lost", by="me"
    )
    for number in JANUARY:
        attempt: Any = world.coordinator.begin_within("fix", job, day(number), owner("fix"))
        world.write(attempt, [10 * number])
        world.coordinator.complete(attempt)
        world.coordinator.stage(attempt)
    world.coordinator.restatements.publish(DOMAIN, "fix")
    wanted = seen(**{f"d{number}": 10 * number for number in JANUARY})
    assert world.rows("t") == {"t": wanted} == {"t": world.engine_rows("t")}
    compact(world)
    assert world.rows("t") == {"t": wanted}
    world.clock.advance(timedelta(days=30))  # the restatement cannot be taken back any more
    world.retention.vacuum(DOMAIN)
    assert sound(world)


def test_a_rollback_takes_a_lost_month_back(file_world: World) -> None:
    """R30, R41: nothing of the file stays, so nothing of it is read."""
    world = file_world
    world.run(job_of(world, "c"), day(FIRST), [1])
    loaded(world)
    compact(world)
    lose_unit(world)
    assert _rolled_back(world, 1).tables == ("t",)
    world.clock.advance(PAST_GRACE)
    assert sound(world)
    loaded(world)
    assert world.rows("t") == {"t": seen()} == {"t": world.engine_rows("t")}


def _rolled_back(world: World, csn: int) -> Any:
    context = world.coordinator.context
    return rollback(context, plan_rollback(context, DOMAIN, csn), reason="wrong", by="me")


def between(world: World, method: str, number: int, action: Callable[[], object]) -> FaultyStore:
    """The world's store, with *action* before its call *number* of *method*."""
    met: list[Call] = []

    def plan(call: Call) -> None:
        if call.method == method:
            met.append(call)
            if len(met) == number + 1:
                action()

    return FaultyStore(world.store, plan)


@pytest.mark.parametrize("what", ["next", "again", "compact", "columns", "drop", "vacuum"])
@pytest.mark.parametrize("number", [0, 1])
def test_another_commit_comes_in_between(file_world: World, what: str, number: int) -> None:
    """R41: before the record of the compaction, and before its commit."""
    world = file_world
    job = job_of(world)
    changed = job_of(world, outputs=[world.table("t", column_changes=[add("tip", "double")])])
    loaded(world)
    actions: dict[str, Callable[[], object]] = {
        "next": lambda: world.run(job, day(LAST + 1), [LAST + 1]),
        "again": lambda: world.run(job, day(29), [290], owner("again")),
        "compact": lambda: compact(world),
        "columns": lambda: world.begin(changed, day(LAST + 1)),
        "drop": lambda: _drop(world),
        "vacuum": lambda: world.retention.vacuum(DOMAIN),
    }
    store = between(world, "transact", number, actions[what])
    if what == "drop":
        with suppress(EpochError):
            compact(world, store)
        assert not open_compactions(world)
        assert not folders(world)
        return
    compact(world, store)
    rows = seen(d29=290 if what == "again" else 29)
    rows += [(LAST + 1, LAST + 1)] if what == "next" else []
    assert world.rows("t") == {"t": rows}
    assert world.engine_rows("t") == rows
    assert files(world) == len(rows) - 4
    assert not open_compactions(world)
    assert len(folders(world)) == 1, "those of lost tries were deleted"
    assert sound(world)


def _drop(world: World) -> None:
    context = world.coordinator.context
    drop(context, DOMAIN, plan_drop(context, DOMAIN, "job", "t"), reason="no more", by="me")


@pytest.mark.parametrize("fault", Fault)
def test_each_call_may_be_lost(file_world: World, fault: Fault) -> None:
    """R15, R41: a lost reply is asked about; the rows are there once, whatever was lost."""
    world = file_world
    loaded(world)
    calm = FaultyStore(world.store, lambda _: None)
    compact(world, calm)
    for number in range(len(calm.calls)):
        world.retention.take_apart(DOMAIN, "t")
        before = len(world.commits())
        units = compact(world, FaultyStore(world.store, at(number, fault)))
        assert [unit.after for unit in units] == [1]
        assert len(world.commits()) == before + 1
        assert world.rows("t") == {"t": seen()}
        assert files(world) == 3
    assert world.engine_rows("t") == seen()
    assert not open_compactions(world)
    assert sound(world)


class Died(BaseException):
    """The process ends here."""


def test_a_compaction_that_dies_leaves_nothing_that_stays(file_world: World) -> None:
    """R41: at each call; a vacuum of the day after deletes the files, and a repetition compacts."""
    world = file_world
    loaded(world)
    calm = FaultyStore(world.store, lambda _: None)
    compact(world, calm)
    for number in range(len(calm.calls)):
        world.retention.take_apart(DOMAIN, "t")
        died: list[int] = []

        def plan(call: Call, number: int = number, died: list[int] = died) -> None:
            if call.number >= number:  # nothing reaches the store any more
                died.append(call.number)
                raise Died

        with pytest.raises(Died):
            compact(world, FaultyStore(world.store, plan))
        assert world.rows("t") == {"t": seen()}
        world.retention.vacuum(DOMAIN)
        left = len(open_compactions(world))
        assert left in {0, 1}
        assert world.rows("t") == {"t": seen()} == {"t": world.engine_rows("t")}
        world.clock.advance(A_DAY_LATER)
        assert len(world.retention.vacuum(DOMAIN).orphans) == left
        assert not open_compactions(world)
        assert sound(world)
        compact(world)
        assert world.rows("t") == {"t": seen()} == {"t": world.engine_rows("t")}


def test_a_vacuum_ends_what_was_silent_for_a_day(file_world: World) -> None:
    """R24, R41: what was ended commits no more: its files are gone."""
    world = file_world
    loaded(world)

    def a_day_passes() -> None:
        world.clock.advance(A_DAY_LATER)
        world.retention.vacuum(DOMAIN)

    with pytest.raises(Conflict, match="was ended"):
        compact(world, between(world, "transact", 1, a_day_passes))
    assert world.rows("t") == {"t": seen()} == {"t": world.engine_rows("t")}
    assert (files(world), folders(world)) == (7, set())
    assert sound(world)


def compacted_in_part(world: World) -> None:
    """Let a compaction die before its commit: its record and its files are there."""

    def dies(call: Call) -> None:
        if call.method == "transact" and open_compactions(world):
            raise Died

    with pytest.raises(Died):
        compact(world, FaultyStore(world.store, dies))


def test_a_compaction_that_died_goes_with_its_dropped_table(file_world: World) -> None:
    """R39, R41: its record keeps the table's name for the vacuum until the compaction was silent for a day."""
    world = file_world
    loaded(world)
    compacted_in_part(world)
    planned = world.coordinator.plan_drop(DOMAIN, "job", "t")
    world.coordinator.drop(DOMAIN, planned, reason="no more", by="me")
    for later in (timedelta(hours=3), A_DAY_LATER):
        assert folders(world)
        world.clock.advance(later)
        world.retention.vacuum(DOMAIN)
    assert (open_compactions(world), folders(world)) == ([], set())


def test_files_of_another_incarnation_stay(file_world: World) -> None:
    """R33, R41: the store was restored, and may lack the commit of these files."""
    world = file_world
    loaded(world)
    compacted_in_part(world)
    (left,) = open_compactions(world)
    assert folders(world) == {left.record.folder.removeprefix("file://").rstrip("/")}
    other = replace(left.record, incarnation="before")
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(left.key, other),)))
    world.clock.advance(A_DAY_LATER)
    world.retention.vacuum(DOMAIN)
    assert not open_compactions(world)
    assert len(folders(world)) == 1


def test_a_commit_whose_reply_never_came_keeps_its_files(file_world: World) -> None:
    """R15, R41: what may have been committed is not deleted."""
    world = file_world
    loaded(world)
    lost: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if call.method == "transact":
            lost.append(call)
        return Fault.REPLY_LOST if len(lost) >= 2 else None

    with pytest.raises(OutcomeUnknown):
        compact(world, Unanswered(FaultyStore(world.store, plan), lambda: len(lost) >= 2))
    assert world.rows("t") == {"t": seen()}
    assert files(world) == 3
    world.clock.advance(A_DAY_LATER)
    world.retention.vacuum(DOMAIN)
    assert world.rows("t") == {"t": seen()} == {"t": world.engine_rows("t")}
    assert sound(world)


class Unanswered:
    """A store that answers no question once *is_over* says so."""

    def __init__(self, inner: Any, is_over: Callable[[], bool]) -> None:
        self._inner, self._is_over = inner, is_over

    def __getattr__(self, name: str) -> Any:
        if name in {"read", "scan", "changes"} and self._is_over():
            raise StoreUnavailable("gone.", next_step="try again.")
        return getattr(self._inner, name)


def test_what_cannot_be_compacted_is_refused_by_name(table_world: World) -> None:
    """R41: before anything is written."""
    world = table_world
    full = world.job("f", [world.table("f", kind=TableKind.FULL)])
    world.run(full, day(1))
    before = world.content()
    with pytest.raises(InvalidInput, match="incremental"):
        world.retention.compact(DOMAIN, "f")
    with pytest.raises(UnknownName):
        world.retention.compact(DOMAIN, "nothing")
    with pytest.raises(InvalidInput, match="unit"):
        world.retention.compact(DOMAIN, "f", unit="week")
    assert world.content() == before
    loaded(world)
    if world.table_format == "memory":
        with pytest.raises(InvalidInput, match="unit files"):
            world.retention.compact(DOMAIN, "t")
        return
    with pytest.raises(StoreIncompatible, match="db upgrade"):
        compact(world, OfFormatOne(world.store))
    assert compact(world, before=barrier(30)) == ()
    assert len(compact(world, most=1)) == 1


class OfFormatOne(FaultyStore):
    """A store that was not upgraded."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, lambda _: None)

    @property
    def format(self) -> int:
        return 1
