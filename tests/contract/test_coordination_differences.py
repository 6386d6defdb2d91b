"""States of a table at earlier CSNs, their differences, and the epochs in which two states of a domain differ."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.coordination.reading.differences import diff, narrowed
from airflow_provider.coordination.reading.epoch_changes import epoch_changes
from airflow_provider.coordination.reading.past_states import state_at
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.columns import widen
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import EpochError, InvalidInput, NotReady, Unavailable, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract import test_coordination_added_files as added_files
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, values_of

PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)
States = dict[tuple[int, str, int | None], Any]


def rolled(world: World, to: int) -> int:
    plan = plan_rollback(world.coordinator.context, DOMAIN, to)
    return rollback(world.coordinator.context, plan, reason="wrong", by="ada").csn


def seen(world: World, table: str, at: int | None) -> Any:
    """Rows of *table* in a cut now; None if it has not reached the barrier *at*."""
    try:
        cut = world.cut(table, at=None if at is None else barrier(at))
    except NotReady:
        return None
    return None if at is not None and cut.barrier != barrier(at) else world.rows_of(cut)[table]


def then(world: World, table: str, at: int | None, csn: int) -> Any:
    """Rows of *table* at *csn*, read now; None if it had not reached the barrier *at* then."""
    try:
        cut = state_at(world.cuts, DOMAIN, table, at=None if at is None else barrier(at), csn=csn)
    except NotReady:
        return None
    return world.rows_of(cut)[table]


def look(world: World, csn: int, days: int) -> States:
    every = (None, *range(1, days + 1))
    return {(csn, table, at): seen(world, table, at) for table in ("t", "f") for at in every}


def jobs_of(world: World, random: Random) -> tuple[Job, Job]:
    """An incremental and a full table, whose jobs declare their origin or do not."""
    origin = {} if random.random() < 0.5 else {"origin": None}
    return world.job("t", **origin), world.job("f", [world.table("f", kind="full")], **origin)


@pytest.mark.parametrize("seed", range(3))
def test_a_state_of_any_commit_has_the_rows_that_a_cut_had_then(table_world: World, seed: int) -> None:
    """R3: of epochs in any order and again, below the origin and beyond gaps; also behind the remembered commits."""
    world, random, days = table_world, Random(seed), 6
    jobs = jobs_of(world, random)
    forgetful = replace(DEFAULTS, states_remembered=1)
    world.coordinator = EpochService(world.store, world.formats, clock=world.clock, defaults=forgetful)
    was, committed = States(), [frozenset[tuple[str, Interval, int]]()]
    for job in jobs:
        world.coordinator.register(job)
    for runs in range(1, 19):
        job, number = random.choice(jobs), random.randint(1, days)
        csn = world.run(job, day(number), [runs], owner(f"run {runs}")).csn
        revisions = {(name, interval): revision for name, interval, revision in committed[-1]}
        again = revisions.get((job.name, day(number)), 0) + 1
        revisions[job.name, day(number)] = again
        committed.append(frozenset((*key, revision) for key, revision in revisions.items()))
        assert csn == len(committed) - 1
        was |= look(world, csn, days)
    for (csn, table, at), rows in was.items():
        assert then(world, table, at, csn) == rows, (csn, table, at)
    for first in range(len(committed)):
        before = {(name, interval): revision for name, interval, revision in committed[first]}
        found = epoch_changes(world.store, DOMAIN, first)
        after = {(name, interval): revision for name, interval, revision in committed[-1]}
        came = {(epochs.job, interval) for epochs in found.came for interval in epochs.intervals}
        revised = {(epochs.job, interval) for epochs in found.revised for interval in epochs.intervals}
        assert came == set(after) - set(before)
        assert revised == {key for key in before if before[key] != after[key]}
        assert (found.taken_back, found.commits) == ((), len(committed) - 1 - first)


def test_rows_that_differ_between_two_commits_are_told(table_world: World) -> None:
    """A revision, of one epoch alone where it is asked for; states of a full table without their epoch."""
    world = table_world
    table, full = world.job("t"), world.job("f", [world.table("f", kind="full")])
    for number in (1, 2, 3):
        world.run(table, day(number), [number])
        world.run(full, day(number), [1, number])
    first = state_at(world.cuts, DOMAIN, "t")
    for number in (1, 3):
        world.run(table, day(number), [10 * number], owner("again"))
    last = state_at(world.cuts, DOMAIN, "t")
    found = diff(world.cuts, first, last)["t"]
    assert (values_of(found.added), values_of(found.removed)) == ([(1, 10), (3, 30)], [(1, 1), (3, 3)])
    parts = [narrowed(cut, first.states["t"].table, barrier(2), barrier(3)) for cut in (first, last)]
    only = diff(world.cuts, *parts)["t"]
    assert (values_of(only.added), values_of(only.removed)) == ([(3, 30)], [(3, 3)])
    two, three = (state_at(world.cuts, DOMAIN, "f", at=barrier(number)) for number in (2, 3))
    found = diff(world.cuts, two, three)["f"]
    assert (values_of(found.added), values_of(found.removed)) == ([(3, 3)], [(2, 2)])


@pytest.mark.parametrize("kind", ["incremental", "full"])
def test_a_file_of_another_program_that_changed_its_day_is_told(
    file_world: World, tmp_path: Path, kind: str
) -> None:
    """Two files change places: both states have the same files. A state of a full table has no epoch to differ in."""
    world, why = file_world, {"reason": "wrong", "by": "me"}
    job = added_files.job(world, kind=kind)
    first, second = (
        added_files.written(tmp_path, f"{number}.parquet", added_files.rows(number)) for number in (1, 2)
    )
    for number, uri in ((1, first), (2, second)):
        added_files.publish(world, job, number, [uri])
    before, operations = world.cut("old"), world.coordinator.restatements
    operations.open(DOMAIN, ["old"], Interval(barrier(0), barrier(2)), name="fix", **why)
    for number, uri in ((1, second), (2, first)):
        attempt = world.coordinator.begin_within("fix", job, day(number), owner())
        added_files.added(world, attempt, [uri])
        world.coordinator.complete(attempt)
        world.coordinator.stage(attempt)
    looked_at = operations.differences(DOMAIN, "fix")["old"]
    operations.publish(DOMAIN, "fix")
    for found in (looked_at, diff(world.cuts, before, world.cut("old"))["old"]):
        if kind == "full":
            assert (found.added["n"].to_pylist(), found.removed["n"].to_pylist()) == ([1], [2])
        else:
            assert added_files.by_epoch(found.added) == [(barrier(1), 2), (barrier(2), 1)]
            assert added_files.by_epoch(found.removed) == [(barrier(1), 1), (barrier(2), 2)]


def test_rows_are_compared_by_the_columns_of_the_later_commit(table_world: World) -> None:
    """R32: in either direction; the values of a widened column may not fit into what it was before."""
    world, cuts = table_world, list[Cut]()
    for kind, changes in ((pa.float32(), []), (pa.float64(), [widen("value", "double")])):
        job = world.job("t", [world.table("t", column_changes=changes)])
        attempt = world.begin(job, day(1), owner(str(kind)))
        value = 0.5 + 1e-12 * len(changes)
        write_rows(world.coordinator, attempt, "t", pa.table({"value": pa.array([value], kind)}))
        world.coordinator.publish(attempt)
        cuts.append(world.cut("t"))
    old, new = cuts
    for before, after, wanted in ((old, new, [0.5 + 1e-12]), (new, old, [0.5])):
        found = diff(world.cuts, before, after)["t"]
        assert found.added["value"].to_pylist() == wanted
        assert found.removed.num_rows == 1


@pytest.mark.parametrize("more", [0, 9])
def test_a_rollback_is_seen_as_such_or_refused(world: World, more: int) -> None:
    """R30: what it took back while the table remembers; later never another state than it was."""
    job = world.job("t", origin=None)
    was = {}
    for number in (3, 4, 5, 6):
        csn = world.run(job, day(number), [number]).csn
        was[csn] = world.rows("t")["t"]
    csn = rolled(world, 2)
    assert [epochs.intervals for epochs in epoch_changes(world.store, DOMAIN, 4).taken_back] == [
        (day(5), day(6))
    ]
    assert epoch_changes(world.store, DOMAIN, 2).came == ()
    assert epoch_changes(world.store, DOMAIN, 2).taken_back == ()
    for number in range(5, 5 + more):
        world.run(job, day(number), [number], owner("again"))
    if more:
        assert [len(epochs.intervals) for epochs in epoch_changes(world.store, DOMAIN, 2).came] == [more]
        assert [
            len(epochs.intervals) for epochs in epoch_changes(world.store, DOMAIN, 4, csn + 1).revised
        ] == [1]
    for number, rows in was.items():
        if more and number in {3, 4}:
            with pytest.raises(Unavailable, match="rolled back"):
                then(world, "t", None, number)
        else:
            assert then(world, "t", None, number) == rows


@pytest.mark.parametrize("more", [0, 9])
def test_a_state_with_an_epoch_that_was_taken_back_later_is_whole_or_refused(world: World, more: int) -> None:
    """R22, R30: the rows before that epoch are never left out, also where the epochs behind it stay committed."""
    job = world.job("t")
    for number in (1, 2, 4, 5):
        before = world.run(job, day(number), [number]).csn
    csn = world.run(job, day(3), [3]).csn
    assert rolled(world, before) == csn + 1
    for number in range(6, 6 + more):
        world.run(job, day(number), [number])
    if more:
        with pytest.raises(Unavailable, match="rolled back"):
            then(world, "t", None, csn)
    else:
        assert then(world, "t", None, csn) == [(number, number) for number in range(1, 6)]
    assert then(world, "t", None, before) == [(1, 1), (2, 2)]


def test_what_was_deleted_or_dropped_is_refused(table_world: World) -> None:
    """R22: a version that a vacuum took, unless it is held, an expired state, and a table of before a drop."""
    world = table_world
    table, full = world.job("t"), world.job("f", [world.table("f", kind="full")])
    for number in (1, 2, 3):
        world.run(table, day(number), [number])
        world.run(full, day(number), [number])
    held = world.leases.cut(DOMAIN, ["t"], name="held", owner="me", ttl=timedelta(days=2)).cut
    for number in (1, 2, 3):
        world.run(table, day(number), [10 * number], owner("again"))
    world.retention.expire(DOMAIN, "f", barrier(2))
    world.clock.advance(PAST_GRACE)
    world.run(table, day(4), [4])
    world.retention.vacuum(DOMAIN)
    assert then(world, "t", None, held.csn) == [(1, 1), (2, 2), (3, 3)]
    for name, csn, at in (("t", held.csn + 1, None), ("t", 2, None), ("f", None, barrier(2))):
        with pytest.raises(Unavailable):
            state_at(world.cuts, DOMAIN, name, csn=csn, at=at)
    found = diff(world.cuts, world.leases.find(DOMAIN, "held").cut, state_at(world.cuts, DOMAIN, "t"))["t"]  # type: ignore[union-attr]
    assert (found.added.num_rows, found.removed.num_rows) == (4, 3)
    before = world.store.read(DOMAIN, []).head.csn
    plan = world.coordinator.plan_drop(DOMAIN, "table", "f")
    world.coordinator.drop(DOMAIN, plan, reason="wrong", by="ada")
    dropped = epoch_changes(world.store, DOMAIN, before).dropped
    assert [commit.tables for commit in dropped] == [("f",)]
    with pytest.raises(UnknownName):
        state_at(world.cuts, DOMAIN, "f")
    world.run(full, day(1), [5])
    with pytest.raises(Unavailable, match="dropped"):
        state_at(world.cuts, DOMAIN, "f", csn=before)


def test_bad_questions_are_refused(world: World) -> None:
    world.run(world.job("t"), day(1))
    refused: list[tuple[type[EpochError], dict[str, Any]]] = [
        (InvalidInput, {"csn": 2}),
        (InvalidInput, {"csn": -1}),
        (InvalidInput, {"csn": True}),
        (NotReady, {"csn": 0}),
        (NotReady, {"at": barrier(2)}),
        (NotReady, {"at": barrier(1.5)}),
        (NotReady, {"at": barrier(0)}),
    ]
    for kind, options in refused:
        with pytest.raises(kind):
            state_at(world.cuts, DOMAIN, "t", **options)
    with pytest.raises(UnknownName):
        state_at(world.cuts, DOMAIN, "nix")
    for since, until in ((2, None), (-1, None), (1, 0), (0, 2)):
        with pytest.raises(InvalidInput):
            epoch_changes(world.store, DOMAIN, since, until)
