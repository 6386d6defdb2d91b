"""Restatements over every kind of table and edge: members read each other's staged rows (R28)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_provider.coordination.attempts.stage import stage
from airflow_provider.domain.epoch import AlreadyStaged, Attempt
from airflow_provider.domain.errors import Conflict, DependentReaders, NotReady, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import fence_of
from airflow_provider.domain.topology import Edge, Job, Table, increment, previous, state, window
from tests.contract.coordination_world import DOMAIN, Rows, World, barrier, day, owner
from tests.contract.restating import (
    CLEARED,
    NAME,
    all_restated,
    cascade,
    computed,
    members,
    opened,
    published,
    read,
    restated,
    run_all,
    sound,
    within,
)


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
    assert [(label.table, label.source, label.csn, label.start) for label in labels] == [
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


def test_of_a_reader_by_two_edges_the_one_that_ignores_makes_no_member(world: World) -> None:
    """R18, R28: the third day has read the second of the base by that edge alone: it keeps its rows, with a label."""
    base, daily, _ = cascade(world)
    ignores = state(world.table("b"), on_upstream_revision="ignore")
    mixed = world.job("m", inputs=[ignores, increment(world.table("d"))])
    run_all(world, [base, daily, mixed], [1, 2, 3])
    opened(world, "b", 2)
    assert members(world) == {"b": [2], "d": [2], "m": [2]}
    all_restated(world, base, daily, mixed, values=[1000])
    csn = published(world)
    assert world.rows("m") == {"m": [(1, 22), (2, 10 + 1000 + 1001 + 1), (3, 92)]}
    labels = [(label.table, label.source, label.csn, label.start) for label in world.cut("m").outdated]
    assert labels == [("m", "b", csn, barrier(2))]
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
    assert [(label.table, label.source, label.csn) for label in world.cut("m").outdated] == [("m", "o", csn)]
    assert sound(world)


def test_former_rows_of_older_inputs_do_not_come_back(world: World) -> None:
    """R30: an input by an edge that ignores revisions was computed again before the restatement: its revert would
    bring rows back that were computed from the older input, as if they had read the present one.
    """
    base, other = world.job("b"), world.job("o")
    ignores = increment(world.table("o"), on_upstream_revision="ignore")
    mixed = world.job("m", inputs=[increment(world.table("b")), ignores])
    computed(world, other, 1, [1])
    run_all(world, [base, mixed], [1])
    computed(world, other, 1, [7], "again")
    opened(world, "b", 1)
    restated(world, base, 1, [1000])
    restated(world, mixed, 1)
    published(world)
    with pytest.raises(TopologyError, match="had read o before that was computed again"):
        world.coordinator.restatements.revert(DOMAIN, NAME, reason="it was right before", by="me")
    assert world.rows("m") == {"m": [(1, 1008)]}


@pytest.mark.parametrize("again", [False, True])
def test_a_member_had_ignored_a_revision_of_another_member(world: World, again: bool) -> None:
    """R18, R30: its former rows carry a label; given back as read of the rows that come back, they would carry none."""
    base, other = world.job("b"), world.job("o")
    inputs = [increment(world.table("b"), on_upstream_revision="ignore"), increment(world.table("o"))]
    reader = world.job("r", inputs=inputs)
    run_all(world, [base, other, reader], [1])
    if again:
        computed(world, base, 1, [11], run="again")
    before, labels = world.rows("b", "o", "r"), world.cut("r").outdated
    assert bool(labels) == again
    span = Interval(barrier(0), barrier(1))
    world.coordinator.restatements.open(DOMAIN, ["b", "o"], span, name="both", reason="wrong", by="me")
    for job, values in ((base, [12]), (other, [20]), (reader, None)):
        restated(world, job, 1, values, name="both")
    world.coordinator.restatements.publish(DOMAIN, "both")
    if again:
        with pytest.raises(TopologyError, match="had read b before that was computed again"):
            world.coordinator.restatements.revert(DOMAIN, "both", reason="it was right before", by="me")
        assert world.rows("r") == {"r": [(1, 33)]}
    else:
        world.coordinator.restatements.revert(DOMAIN, "both", reason="it was right before", by="me")
        assert world.rows("b", "o", "r") == before
    assert world.cut("r").outdated == ()


def ready_through_an_ignoring_edge(world: World) -> tuple[Job, Job]:
    """Stage the second day of a base and of what reads all of its days by an edge that ignores revisions."""
    base = world.job("b")
    daily = world.job("d", inputs=[world.table("b")], origin=barrier(1))
    ignores = state(world.table("b"), on_upstream_revision="ignore")
    mixed = world.job("m", inputs=[ignores, world.table("d")], origin=barrier(1))
    run_all(world, [base], [1, 2])
    for job in (daily, mixed):
        computed(world, job, 2)
    opened(world, "b", 2)
    for job in (base, daily, mixed):
        restated(world, job, 2, [1000] if job is base else None)
    return base, mixed


def test_rows_that_change_beside_staged_ones_keep_an_ignoring_member_back(world: World) -> None:
    """R28: the commit records a single CSN of what a member has read: the committed rows, too, must be those of it."""
    base, mixed = ready_through_an_ignoring_edge(world)
    computed(world, base, 1, [7], "again")
    with pytest.raises(Conflict, match="b was computed again"):
        published(world)
    within(world, mixed, 2)


def test_rows_that_change_beside_staged_ones_are_read_again_by_an_ignoring_member(world: World) -> None:
    """R28: computed again, it reads the new rows, and the restatement is published."""
    base, mixed = ready_through_an_ignoring_edge(world)
    computed(world, base, 1, [7], "again")
    restated(world, mixed, 2)
    published(world)
    assert world.rows("m") == {"m": [(2, 7 + 1000 + 1001 + 1)]}
    assert world.cut("m").outdated == ()
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


def _with_copies(world: World) -> Job:
    """Compute a full table's days 1 and 4, of which the days 2 and 3 are skipped: they copy what day 1 has."""
    job = world.job("f", [world.table("f", kind="full")], inputs=[previous(world.table("f"))])
    computed(world, job, 1, [1])
    for number in (2, 3):
        world.coordinator.skip(DOMAIN, "f", day(number), "nothing came", by="ada")
    computed(world, job, 4)
    assert world.rows("f") == {"f": [(4, 2)]}
    return job


def _days(world: World) -> list[Rows]:
    return [world.rows("f", at=barrier(number)) for number in (1, 2, 3, 4)]


def _reasons(world: World, job: Job) -> list[str]:
    """Return why each day was skipped."""
    keys = [fence_of(job.epoch(day(number))) for number in (1, 2, 3, 4)]
    reading = world.store.read(DOMAIN, keys)
    return [reading.of(key).record.committed.skipped for key in keys]


def test_skipped_copies_of_what_changes_follow_it(table_world: World) -> None:
    """R5, R28: they are members, staged behind the day that they copy, for the day that reads them; reverted, too."""
    world = table_world
    job = _with_copies(world)
    before = _days(world)
    opened(world, "f", 1)
    assert members(world) == {"f": [1, 2, 3, 4]}
    with pytest.raises(NotReady):
        world.coordinator.begin_within(NAME, job, day(2), owner("restate"))
    restated(world, job, 1, [7])
    copied = world.coordinator.begin_within(NAME, job, day(3), owner("restate"))
    assert isinstance(copied, AlreadyStaged)
    restated(world, job, 4)
    published(world)
    assert _days(world) == [{"f": [(1, 7)]}, {"f": [(2, 7)]}, {"f": [(3, 7)]}, {"f": [(4, 8)]}]
    assert sound(world)
    assert _reasons(world, job) == ["", "nothing came", "nothing came", ""]
    world.coordinator.restatements.revert(DOMAIN, NAME, reason="it was right", by="me")
    assert _days(world) == before
    assert sound(world)
    assert _reasons(world, job) == ["", "nothing came", "nothing came", ""]


def test_a_skipped_copy_that_an_interruption_has_left_is_not_computed(world: World) -> None:
    """R28: its task copies it, where the process that has staged the day before came to no copy."""
    job = _with_copies(world)
    opened(world, "f", 1)
    attempt = world.coordinator.begin_within(NAME, job, day(1), owner("restate"))
    assert isinstance(attempt, Attempt)
    world.write(attempt, [7])
    world.coordinator.complete(attempt)
    stage(world.coordinator.context, attempt)
    copied = world.coordinator.begin_within(NAME, job, day(2), owner("restate"))
    assert isinstance(copied, AlreadyStaged)


def test_a_day_that_is_computed_again_has_its_copies_anew(world: World) -> None:
    """R28: copies of an output that was replaced within the restatement are staged again behind the new one."""
    job = _with_copies(world)
    opened(world, "f", 1)
    restated(world, job, 1, [7])
    restated(world, job, 1, [9], CLEARED)
    restated(world, job, 4)
    published(world)
    assert _days(world) == [{"f": [(1, 9)]}, {"f": [(2, 9)]}, {"f": [(3, 9)]}, {"f": [(4, 10)]}]
    assert sound(world)


def test_a_skip_in_the_middle_that_copies_what_is_replaced(world: World) -> None:
    """R5, R28: it joins the restatement, and the next publish copies it."""
    job = world.job("f", [world.table("f", kind="full")])
    computed(world, job, 1, [1])
    opened(world, "f", 1)
    restated(world, job, 1, [7])
    world.coordinator.skip(DOMAIN, "f", day(2), "nothing came", by="ada")
    with pytest.raises(NotReady):
        published(world)
    assert members(world) == {"f": [1, 2]}
    published(world)
    assert world.rows("f", at=barrier(1)) == {"f": [(1, 7)]}
    assert world.rows("f") == {"f": [(2, 7)]}
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
