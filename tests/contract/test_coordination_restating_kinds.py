"""Restatements over every kind of table, edge and source: members read each other's staged rows (R28)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider.domain.columns import add
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    InvalidInput,
    NotReady,
    TopologyError,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Edge, Job, Table, increment, previous, state, window
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.test_coordination_behind import behind, bound
from tests.contract.test_coordination_restating import (
    NAME,
    cascade,
    computed,
    opened,
    published,
    read,
    restated,
    sound,
    within,
)
from tests.contract.test_coordination_source_revisions import compute, feed, land, total

FILES = SourceReaders()
Members = dict[str, list[int]]


def members(world: World) -> Members:
    """Days of each job that the restatement computes."""
    record = world.coordinator.restatements.status(DOMAIN, NAME).record
    return {found.job: [(one.end - barrier(0)).days for one in found.intervals] for found in record.members}


def all_restated(world: World, *jobs: Job, values: Sequence[int] | None = None) -> None:
    """Compute every member of *jobs*, a job that others read before these; the first gets *values*."""
    found = members(world)
    for job in jobs:
        for number in found.get(job.name, ()):
            restated(world, job, number, values if job is jobs[0] else None)


def run_all(world: World, jobs: Sequence[Job], days: Sequence[int]) -> None:
    for number in days:
        for job in jobs:
            computed(world, job, number, [10 * number] if job is jobs[0] else None)


# --- tables and edges ------------------------------------------------------------------------------------------------


def test_full_tables_are_restated_state_by_state(table_world: World) -> None:
    """R18, R28: of a full table a member reads the staged state at its barrier alone, also its own previous one."""
    world = table_world
    full = world.table("f", kind="full")
    base = world.job("b")
    whole = world.job("f", [full], inputs=[increment(world.table("b")), previous(full)])
    copy = world.job("c", [world.table("c", kind="full")], inputs=[state(full)])
    run_all(world, [base, whole, copy], [1, 2, 3, 4])
    assert world.rows("c") == {"c": [(4, 105)]}
    opened(world, "b", 2)
    assert members(world) == {"b": [2], "c": [2, 3, 4], "f": [2, 3, 4]}
    restated(world, base, 2, [1000])
    for number in (2, 3, 4):
        restated(world, whole, number)
        restated(world, copy, number)
    published(world)
    for number, found in ((1, 11), (2, 1012), (3, 1043), (4, 1084)):
        assert world.rows("f", "c", at=barrier(number)) == {
            "f": [(number, found)],
            "c": [(number, found + 1)],
        }
    assert world.engine_rows("f") == [(4, 1084)]
    assert sound(world)


EDGES: dict[str, tuple[Callable[[Table], Edge], list[int], list[int]]] = {
    "increment": (increment, [2], [11, 1001, 31, 41]),
    "window": (lambda table: window(table, timedelta(days=1)), [2, 3], [11, 1011, 1031, 71]),
    "state": (state, [2, 3, 4], [11, 1011, 1041, 1081]),
    "previous": (previous, [3, 4], [1, 11, 1011, 1041]),
    "as_of": (lambda table: state(table, as_of=timedelta(days=2)), [4], [1, 1, 11, 1011]),
    "window as_of": (lambda table: window(table, timedelta(days=1), as_of=timedelta(days=1)), [3, 4], []),
}


@pytest.mark.parametrize("edge", EDGES)
def test_members_are_the_epochs_whose_edge_has_read_the_day(table_world: World, edge: str) -> None:
    """R18, R28: every kind of edge reads what is staged in its range, and beside it what stays."""
    world = table_world
    make, days, values = EDGES[edge]
    base = world.job("b", origin=barrier(-3))
    reader = world.job("r", inputs=[make(base.outputs[0])])
    for number in (-2, -1, 0):
        computed(world, base, number, [])
    run_all(world, [base, reader], [1, 2, 3, 4])
    opened(world, "b", 2)
    assert members(world) == {"b": [2], "r": days}
    all_restated(world, base, reader, values=[1000])
    published(world)
    found = world.rows("b", "r")
    assert found["b"] == [(1, 10), (2, 1000), (3, 30), (4, 40)]
    if values:
        assert [value for _, value in found["r"]] == values
    assert sound(world)


@pytest.mark.parametrize("last", [2, 3])
def test_a_slower_job_reads_staged_and_committed_days_together(table_world: World, last: int) -> None:
    """R28: of three days that a reader with another calendar gets, one is committed and two staged, or one staged."""
    world = table_world
    base = world.job("b")
    sums = world.job("s", cadence="0 0 1,4 * *", inputs=[increment(world.table("b"))])
    for number in (1, 2, 3):
        computed(world, base, number, [10 * number])
    three_days = Interval(barrier(0), barrier(3))
    attempt = world.begin(sums, three_days, owner("first"))
    world.write(attempt, [sum(read(world, attempt))])
    world.coordinator.publish(attempt)
    opened(world, "b", 2, last)
    for number in range(2, last + 1):
        restated(world, base, number, [1000 * number])
    answer = world.coordinator.begin_within(NAME, sums, three_days, owner("restate"))
    assert isinstance(answer, Attempt)
    expected = {2: 10 + 2000 + 30, 3: 10 + 2000 + 3000}[last]
    assert sum(read(world, answer)) == expected
    world.write(answer, [expected])
    world.coordinator.complete(answer)
    world.coordinator.stage(answer)
    published(world)
    assert world.rows("s") == {"s": [(3, expected)]}
    assert sound(world)


def test_ignoring_readers_outside_of_the_set_get_a_label(world: World) -> None:
    """R18: an edge that ignores revisions makes no member; the cut names its rows after the publish."""
    base = world.job("b")
    ignoring = world.job("i", inputs=[increment(world.table("b"), on_upstream_revision="ignore")])
    after = world.job("a", inputs=[increment(world.table("i"))])
    run_all(world, [base, ignoring, after], [1, 2])
    opened(world, "b", 2)
    assert members(world) == {"b": [2]}
    restated(world, base, 2, [1000])
    assert world.cut("i", "a").outdated == ()
    csn = published(world)
    labels = world.cut("i", "a").outdated
    assert [(one.table, one.source, one.csn, one.start) for one in labels] == [
        ("a", "b", csn, barrier(1)),
        ("i", "b", csn, barrier(1)),
    ]
    assert sound(world)


def test_ignoring_members_read_what_is_staged(table_world: World) -> None:
    """R18, R28: a member by another edge reads staged rows also by the one that ignores; no label is left."""
    world = table_world
    base, daily, _ = cascade(world)
    ignores = increment(world.table("b"), on_upstream_revision="ignore")
    mixed = world.job("m", inputs=[ignores, increment(world.table("d"))])
    run_all(world, [base, daily, mixed], [1, 2])
    opened(world, "b", 2)
    assert members(world) == {"b": [2], "d": [2], "m": [2]}
    restated(world, base, 2, [1000])
    with pytest.raises(NotReady):
        within(world, mixed, 2)
    restated(world, daily, 2)
    restated(world, mixed, 2)
    restated(world, base, 2, [2000], owner("restate", generation=1))
    restated(world, daily, 2)
    with pytest.raises(Conflict, match="was computed again"):
        published(world)
    restated(world, mixed, 2)
    published(world)
    assert world.rows("m") == {"m": [(1, 22), (2, 4002)]}
    assert world.cut("m").outdated == ()
    assert sound(world)


def test_ignoring_members_of_rows_outside_of_the_set_carry_their_label(world: World) -> None:
    """R18: what is committed outside of the set between a member's read and the publish labels its rows."""
    base, other = world.job("b"), world.job("o")
    ignores = increment(world.table("o"), on_upstream_revision="ignore")
    mixed = world.job("m", inputs=[increment(world.table("b")), ignores])
    for number in (1, 2):
        computed(world, other, number, [number])
    run_all(world, [base, mixed], [1, 2])
    opened(world, "b", 2)
    restated(world, base, 2, [1000])
    restated(world, mixed, 2)
    computed(world, other, 2, [7], "again")
    csn = world.commits()[-1].csn
    published(world)
    assert world.rows("m") == {"m": [(1, 12), (2, 1003)]}
    assert [(one.table, one.source, one.csn) for one in world.cut("m").outdated] == [("m", "o", csn)]
    assert sound(world)


def test_rows_outside_of_the_set_that_change_are_read_again(world: World) -> None:
    """R13: a cascade edge on a table that a normal run computes again meanwhile keeps the set back."""
    base, other = world.job("b"), world.job("o")
    reader = world.job("m", inputs=[increment(world.table("b"))])
    wider = world.job("m", inputs=[increment(world.table("b")), increment(world.table("o"))])
    computed(world, other, 1, [1])
    run_all(world, [base, reader], [1])
    opened(world, "b", 1)
    restated(world, base, 1, [1000])
    restated(world, wider, 1)
    computed(world, other, 1, [7], "again")
    with pytest.raises(Conflict):
        published(world)
    restated(world, wider, 1)
    published(world)
    assert world.rows("m") == {"m": [(1, 1008)]}
    with pytest.raises(DependentReaders):
        world.begin(other, day(1), owner("once more"))
    assert sound(world)


@pytest.mark.parametrize("kind", ["incremental", "full"])
@pytest.mark.parametrize("then", [[], [5]])
def test_an_empty_member_takes_its_rows_away(table_world: World, kind: str, then: list[int]) -> None:
    """R5, R28: staged output without rows replaces what is committed, for members and, once published, for all."""
    world = table_world
    base = world.job("b", [world.table("b", kind=kind)])
    reader = world.job("r", inputs=[state(base.outputs[0])])
    run_all(world, [base, reader], [1, 2])
    opened(world, "b", 2)
    restated(world, base, 2, [])
    attempt = within(world, reader, 2)
    assert read(world, attempt) == ([10] if kind == "incremental" else [])
    world.write(attempt, then)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    seen = world.rows_of(world.coordinator.restatements.cut(DOMAIN, NAME, ["b", "r"]))
    published(world)
    found = world.rows("b", "r")
    assert found == seen
    assert found["b"] == ([(1, 10)] if kind == "incremental" else [])
    assert found["r"] == [(1, 11), *((2, value) for value in then)]
    assert world.engine_rows("b") == found["b"]
    assert sound(world)


def test_a_job_with_two_tables_is_read_by_each(table_world: World) -> None:
    """R2, R28: an increment and a full table of one member; readers of either are members."""
    world = table_world
    full = world.table("f", kind="full")
    pair = world.job("p", [world.table("i"), full])
    left, right = world.job("l", inputs=[world.table("i")]), world.job("g", inputs=[state(full)])
    for number in (1, 2):
        for job in (pair, left, right):
            computed(world, job, number, [10 * number] if job is pair else None)
    opened(world, "f", 1)
    assert members(world) == {"g": [1], "l": [1], "p": [1]}
    restated(world, pair, 1, [7])
    restated(world, left, 1)
    restated(world, right, 1)
    published(world)
    assert world.rows("i", "l", "g") == {
        "i": [(1, 7), (2, 20)],
        "l": [(1, 8), (2, 21)],
        "g": [(1, 8), (2, 21)],
    }
    assert world.rows("f", at=barrier(1)) == {"f": [(1, 7)]}
    assert sound(world)


# --- skipped epochs --------------------------------------------------------------------------------------------------


def test_a_skipped_copy_of_what_changes_is_computed_first(world: World) -> None:
    """R5, R18: nothing can copy within a restatement: the plan names the skipped epoch until it was computed."""
    full = world.table("f", kind="full")
    job = world.job("f", [full])
    computed(world, job, 1, [1])
    world.coordinator.skip(DOMAIN, "f", day(2), "nothing came", by="ada")
    with pytest.raises(TopologyError, match="was skipped and copies what would change"):
        opened(world, "f", 1)
    computed(world, job, 2, [2], "late")
    opened(world, "f", 1)
    assert members(world) == {"f": [1]}
    restated(world, job, 1, [7])
    published(world)
    assert world.rows("f", at=barrier(1)) == {"f": [(1, 7)]}
    assert sound(world)


def test_a_skip_in_the_middle_that_copies_what_is_replaced(world: World) -> None:
    """R5, R18: the publish is refused until the copy was computed; then it is no reader any more."""
    full = world.table("f", kind="full")
    job = world.job("f", [full])
    computed(world, job, 1, [1])
    opened(world, "f", 1)
    restated(world, job, 1, [7])
    world.coordinator.skip(DOMAIN, "f", day(2), "nothing came", by="ada")
    with pytest.raises((TopologyError, DependentReaders), match="(compute it|be computed) first"):
        published(world)
    computed(world, job, 2, [2], "late")
    published(world)
    assert world.rows("f") == {"f": [(2, 2)]}
    assert world.rows("f", at=barrier(1)) == {"f": [(1, 7)]}
    assert sound(world)


def test_a_skipped_epoch_is_restated(world: World) -> None:
    """R5: asked for by its name, it is computed within the set, with its readers."""
    base, daily, _ = cascade(world)
    run_all(world, [base, daily], [1])
    world.coordinator.skip(DOMAIN, "b", day(2), "nothing came", by="ada")
    computed(world, daily, 2)
    opened(world, "b", 2)
    assert members(world) == {"b": [2], "d": [2]}
    all_restated(world, base, daily, values=[20])
    published(world)
    assert world.rows("b", "d") == {"b": [(1, 10), (2, 20)], "d": [(1, 11), (2, 21)]}
    assert sound(world)


# --- sources ---------------------------------------------------------------------------------------------------------


def sourced(world: World, job: Job, number: int, by: Owner | None = None) -> Attempt:
    """Compute a member from its files."""
    attempt = world.coordinator.begin_within(NAME, job, day(number), by or owner("restate"), sources=FILES)
    assert isinstance(attempt, Attempt), attempt
    world.write(attempt, [total(attempt)])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    return attempt


def late_in_both(world: World, directory: Path) -> tuple[Job, Job, Job]:
    """D and E have read one source by the same revision, F has read both; then a file comes late."""
    d, e = (world.job(name, inputs=[feed(directory)]) for name in "de")
    f = world.job("f", inputs=[increment(world.table("d")), increment(world.table("e"))])
    land(directory, 1, x="1")
    for job in (d, e):
        compute(world, job, 1)
    computed(world, f, 1)
    land(directory, 1, y="100")
    return d, e, f


def test_two_members_read_the_next_revision_of_their_source(world: World, tmp_path: Path) -> None:
    """I11, R28: what neither job may do alone, since two jobs never stand on two revisions, both do in one commit."""
    d, e, f = late_in_both(world, tmp_path)
    world.coordinator.restatements.open(DOMAIN, ["d", "e"], day(1), name=NAME, reason="late", by="me")
    assert members(world) == {"d": [1], "e": [1], "f": [1]}
    assert sourced(world, d, 1).sources[0].revision == 2
    assert sourced(world, e, 1).sources[0].revision == 2
    restated(world, f, 1)
    published(world)
    assert world.rows("d", "e", "f") == {"d": [(1, 101)], "e": [(1, 101)], "f": [(1, 203)]}
    assert sound(world)


def test_members_of_two_revisions_of_a_source_are_not_published(world: World, tmp_path: Path) -> None:
    """I11: a file that comes between the begins of two members makes the first one outdated."""
    d, e, f = late_in_both(world, tmp_path)
    world.coordinator.restatements.open(DOMAIN, ["d", "e"], day(1), name=NAME, reason="late", by="me")
    sourced(world, d, 1)
    land(tmp_path, 1, z="1000")
    assert sourced(world, e, 1).sources[0].revision == 3
    restated(world, f, 1)
    with pytest.raises(Conflict, match="revision 3 of source"):
        published(world)
    states = {
        str(one.job): str(one.state) for one in world.coordinator.restatements.status(DOMAIN, NAME).members
    }
    assert states["d"] == "outdated"
    assert sourced(world, d, 1).sources[0].revision == 3
    restated(world, f, 1)
    published(world)
    assert world.rows("d", "e", "f") == {"d": [(1, 1101)], "e": [(1, 1101)], "f": [(1, 2203)]}
    assert sound(world)


def test_a_reader_of_the_source_outside_of_the_set_keeps_its_revision(world: World, tmp_path: Path) -> None:
    """I11: E is no member and stands on revision 1: D may not read another one, and nothing is recorded."""
    d, e, _ = late_in_both(world, tmp_path)
    opened(world, "d", 1)
    assert members(world) == {"d": [1], "f": [1]}
    before = world.exactly()
    with pytest.raises(DependentReaders, match="two jobs would stand on different revisions"):
        sourced(world, d, 1)
    assert world.exactly() == before
    (tmp_path / "2024-01-01" / "y").unlink()
    assert sourced(world, d, 1).sources[0].revision == 1
    del e


def test_a_source_that_an_abandoned_set_has_bound(world: World, tmp_path: Path) -> None:
    """I11: after the abandon all is as before: a new job reads what the others stand on, and these wait for `bind`."""
    d, e, _ = late_in_both(world, tmp_path)
    world.coordinator.restatements.open(DOMAIN, ["d", "e"], day(1), name=NAME, reason="late", by="me")
    sourced(world, d, 1)
    world.coordinator.restatements.abandon(DOMAIN, NAME, reason="no more", by="me")
    (tmp_path / "2024-01-01" / "y").unlink()
    compute(world, world.job("g", inputs=[feed(tmp_path)]), 1)
    assert world.rows("d", "e", "g") == {"d": [(1, 1)], "e": [(1, 1)], "g": [(1, 1)]}
    assert sound(world)
    land(tmp_path, 1, y="100")
    with pytest.raises(DependentReaders):
        compute(world, e, 1, owner("again"))


def test_epochs_behind_their_source_are_members(world: World, tmp_path: Path) -> None:
    """R18: what `bind` has left behind catches up in the set's commit; other members read its staged rows."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    ignores = increment(world.table("d"), on_upstream_revision="ignore")
    i = world.job("i", inputs=[ignores])
    land(tmp_path, 1, x="1")
    for job in (d, e):
        compute(world, job, 1)
    computed(world, i, 1)
    land(tmp_path, 1, y="100")
    bound(world)
    assert behind(world) == [("d", 1, 2), ("e", 1, 2)]
    world.coordinator.restatements.open(DOMAIN, ["d", "i"], day(1), name=NAME, reason="late", by="me")
    with pytest.raises(NotReady):
        within(world, i, 1)
    sourced(world, d, 1)
    widened = world.job("i", inputs=[increment(world.table("d"))])
    restated(world, widened, 1)
    published(world)
    assert behind(world) == [("e", 1, 2)]
    assert world.rows("d", "i") == {"d": [(1, 101)], "i": [(1, 102)]}
    assert sound(world)


def test_a_member_waits_for_an_epoch_behind_its_source_outside_of_the_set(
    world: World, tmp_path: Path
) -> None:
    """R18: only members are read before their commit."""
    d = world.job("d", inputs=[feed(tmp_path)])
    reader = world.job("r")
    land(tmp_path, 1, x="1")
    compute(world, d, 1)
    computed(world, reader, 1, [1])
    land(tmp_path, 1, y="100")
    bound(world)
    opened(world, "r", 1)
    wider = world.job("r", inputs=[increment(world.table("d"))])
    with pytest.raises(NotReady, match="bound anew"):
        within(world, wider, 1)
    compute(world, d, 1, owner("again"))
    restated(world, wider, 1)
    published(world)
    assert world.rows("r") == {"r": [(1, 102)]}
    assert sound(world)


def test_a_source_bound_anew_after_staging_keeps_the_set_back(world: World, tmp_path: Path) -> None:
    """I11, R18: the staged member has read the older revision: it is computed again."""
    d = world.job("d", inputs=[feed(tmp_path)])
    land(tmp_path, 1, x="1")
    compute(world, d, 1)
    opened(world, "d", 1)
    sourced(world, d, 1)
    land(tmp_path, 1, y="100")
    bound(world)
    with pytest.raises(Conflict, match="revision 2 of source"):
        published(world)
    sourced(world, d, 1)
    published(world)
    assert behind(world) == []
    assert world.rows("d") == {"d": [(1, 101)]}
    assert sound(world)


# --- declarations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "staged"])
def test_a_declaration_with_other_edges_is_what_is_published(table_world: World, when: str) -> None:
    """R7, R28: what was staged by the former declaration is computed again; the new one's reads are recorded."""
    world = table_world
    base, daily, total_job = cascade(world)
    other = world.job("o")
    for number in (1, 2):
        computed(world, other, number, [100])
    run_all(world, [base, daily, total_job], [1, 2])
    wider = world.job("d", inputs=[increment(world.table("b")), increment(world.table("o"))])
    opened(world, "b", 1)
    restated(world, base, 1, [5])
    if when == "staged":
        restated(world, daily, 1)
        restated(world, total_job, 1)
    world.coordinator.register(wider)
    if when == "staged":
        with pytest.raises(NotReady):
            published(world)
    restated(world, wider, 1)
    for number in (1, 2):
        restated(world, total_job, number)
    published(world)
    assert world.rows("d", "t") == {"d": [(1, 106), (2, 21)], "t": [(1, 107), (2, 129)]}
    with pytest.raises(DependentReaders):
        world.begin(other, day(1), owner("again"))
    assert sound(world)


def test_a_table_that_a_member_leaves_stops_the_set(world: World) -> None:
    """R7: its rows come from what is replaced: the set waits until it is declared again."""
    both = world.job("d", [world.table("d"), world.table("x")], inputs=[increment(world.table("b"))])
    less = world.job("d", inputs=[increment(world.table("b"))])
    base = world.job("b")
    run_all(world, [base, both], [1])
    opened(world, "b", 1)
    restated(world, base, 1, [5])
    world.coordinator.register(less)
    restated(world, less, 1)
    with pytest.raises(TopologyError, match="without x"):
        published(world)
    again = world.job("d", [world.table("d"), world.table("x")], inputs=[world.table("b")], inactive_after=5)
    restated(world, again, 1)
    published(world)
    assert world.rows("d", "x") == {"d": [(1, 6)], "x": [(1, 6)]}
    assert sound(world)


@pytest.mark.parametrize("when", ["before", "staged"])
def test_an_output_that_is_declared_meanwhile(world: World, when: str) -> None:
    """R7, R28: the member is refused; a normal run adds the table, which a staged member keeps waiting."""
    both = world.job("d", [world.table("d"), world.table("x")], inputs=[increment(world.table("b"))])
    less = world.job("d", inputs=[increment(world.table("b"))])
    base = world.job("b")
    run_all(world, [base, less], [1])
    opened(world, "b", 1)
    restated(world, base, 1, [5])
    if when == "staged":
        restated(world, less, 1)
    world.coordinator.register(both)
    with pytest.raises(TopologyError, match="lacks x") as refused:
        within(world, both, 1)
    assert "abandon the restatement" in refused.value.next_step
    if when == "staged":
        with pytest.raises(EpochBusy):
            world.begin(both, day(1), owner("fill"))
        world.coordinator.restatements.abandon(DOMAIN, NAME, reason="a table is missing", by="me")
    computed(world, both, 1, [11], "fill")
    if when == "staged":
        opened(world, "b", 1, name="again")
        restated(world, base, 1, [5], name="again")
        restated(world, both, 1, name="again")
        world.coordinator.restatements.publish(DOMAIN, "again")
        assert world.rows("d", "x") == {"d": [(1, 6)], "x": [(1, 6)]}
        return
    restated(world, both, 1)
    published(world)
    assert world.rows("d", "x") == {"d": [(1, 6)], "x": [(1, 6)]}
    assert sound(world)


def test_a_column_that_is_added_meanwhile(table_world: World) -> None:
    """R32: members of before the change are computed again, with the column; it is null in rows beside them."""
    world = table_world
    base, daily, _ = cascade(world)
    run_all(world, [base, daily], [1, 2])
    opened(world, "b", 1)
    restated(world, base, 1, [5])
    restated(world, daily, 1)
    wider = world.job("b", [world.table("b", column_changes=[add("more", "double")])])
    attempt = world.begin(wider, day(3), owner("first"))
    world.coordinator.abort(attempt, "the change is made")
    with pytest.raises(NotReady):
        published(world)
    answer = within(world, wider, 1)
    for sink in answer.sinks:
        write_rows(world.coordinator, answer, sink.name, pa.table({"value": [6], "by": [1], "more": [0.5]}))
    world.coordinator.complete(answer)
    world.coordinator.stage(answer)
    restated(world, daily, 1)
    published(world)
    found = world.cuts.read(world.cut("b"), "b")
    assert sorted(zip(found["value"].to_pylist(), found["more"].to_pylist(), strict=True)) == [
        (6, 0.5),
        (20, None),
    ]
    assert world.rows("d") == {"d": [(1, 7), (2, 21)]}
    assert sound(world)


# --- who else may do what --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_rerun", ["keep", "new_revision", "fail"])
def test_normal_runs_leave_a_begun_member_alone(world: World, on_rerun: str) -> None:
    """R28: whatever the job says of a normal run, the restatement computes it; the normal run waits, or keeps it."""
    job = world.job("b", on_rerun=on_rerun)
    computed(world, job, 1, [1])
    opened(world, "b", 1)
    attempt = within(world, job, 1)
    with pytest.raises(EpochBusy, match="restate"):
        world.coordinator.begin(job, day(1), owner("other"))
    world.write(attempt, [2])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    if on_rerun == "keep":
        assert isinstance(world.coordinator.begin(job, day(1), owner("other")), AlreadyCommitted)
    else:
        with pytest.raises(EpochBusy, match=f"restatement '{NAME}'"):
            world.coordinator.begin(job, day(1), owner("other"))
    assert isinstance(world.coordinator.begin(job, day(1), owner("first")), AlreadyCommitted)
    published(world)
    assert world.rows("b") == {"b": [(1, 2)]}


def test_participants_do_not_join_within_a_restatement(world: World) -> None:
    """R10: a member has one writer."""
    job = world.job("b")
    computed(world, job, 1, [1])
    opened(world, "b", 1)
    attempt = within(world, job, 1)
    with pytest.raises(InvalidInput, match="one writer"):
        world.coordinator.join(attempt, 0, owner("restate"))
    with pytest.raises(TypeError):
        world.coordinator.begin_within(NAME, job, day(1), owner("restate"), participants=2)  # type: ignore[call-arg]
