"""Edges that hold: what they have read is not replaced before a user decides about their epochs (R18, R28)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.columns import add
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    InvalidInput,
    NotReady,
    TopologyError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import Decision
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Edge, Job, increment, previous, state, window
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.interruptions import interrupted
from tests.contract.restating import (
    NAME,
    WHY,
    abandoned,
    all_restated,
    computed,
    members,
    opened,
    operations,
    published,
    read,
    restated,
    run_all,
    sound,
)

BY = {"by": "ada"}
REVERT = f"{NAME}-reverted"
STAYS = {"reason": "it was sent to the authority", "by": "ada"}


def held_cascade(world: World) -> tuple[Job, Job, Job]:
    """A base, a report that holds all days of it that it has read, and what reads each day of the report."""
    base = world.job("b")
    report = world.job("h", inputs=[state(world.table("b"), on_upstream_revision="hold")])
    return base, report, world.job("a", inputs=[increment(world.table("h"))])


def held(world: World) -> dict[str, list[int]]:
    """Days of each job that hold the restatement."""
    found = operations(world).status(DOMAIN, NAME).held
    return {holder.job: [(span.end - barrier(0)).days for span in holder.intervals] for holder in found}


def staged(world: World) -> tuple[Job, Job, Job]:
    """The second of three days of the base is staged within a restatement."""
    jobs = held_cascade(world)
    run_all(world, jobs, [1, 2, 3])
    opened(world, "b", 2)
    restated(world, jobs[0], 2, [1000])
    return jobs


def labels(world: World, *tables: str) -> list[tuple[str, str, int]]:
    return [(str(label.table), str(label.source), label.csn) for label in world.cut(*tables).outdated]


def test_epochs_behind_a_hold_edge_are_no_members_and_keep_it_from_publishing(world: World) -> None:
    """R28: their owner decides; the plan, the status and the error name them, and no row changes."""
    staged(world)
    assert members(world) == {"b": [2]}
    assert held(world) == {"h": [2, 3]}
    planned = operations(world).plan(DOMAIN, ["b"], day(3))
    assert [(holder.job, holder.tables, holder.intervals) for holder in planned.held] == [
        ("h", ("b",), (day(3),))
    ]
    assert planned.obstacles == ()
    before = world.rows("b", "h", "a")
    with pytest.raises(NotReady, match="hold it") as refused:
        published(world)
    assert [(missing.name, missing.wanted) for missing in refused.value.missing] == [
        ("h", barrier(2)),
        ("h", barrier(3)),
    ]
    assert f"restate join {NAME} h" in refused.value.next_step
    assert f"restate release {NAME} h" in refused.value.next_step
    assert world.rows("b", "h", "a") == before
    assert labels(world, "b", "h", "a") == []


def test_joined_epochs_are_computed_again_with_what_has_read_them(table_world: World) -> None:
    """R28: they and their closure are members; who joined them is kept."""
    world = table_world
    jobs = staged(world)
    found = operations(world).join(DOMAIN, NAME, ["h"], **BY)
    assert [(joined.job, len(joined.intervals)) for joined in found] == [("h", 2)]
    assert members(world) == {"a": [2, 3], "b": [2], "h": [2, 3]}
    assert held(world) == {}
    (made,) = operations(world).status(DOMAIN, NAME).record.decisions
    assert (made.job, made.decision, made.by, made.reason) == ("h", Decision.JOINED, "ada", "")
    all_restated(world, jobs[1], jobs[2])
    published(world)
    assert world.rows("h", "a") == {
        "h": [(1, 11), (2, 1011), (3, 1041)],
        "a": [(1, 12), (2, 1012), (3, 1042)],
    }
    assert labels(world, "b", "h", "a") == []
    assert sound(world)


def test_released_epochs_stay_and_their_rows_carry_a_label(table_world: World) -> None:
    """R18, R28: so do the rows that were computed from them; who released them, and why, is kept."""
    world = table_world
    staged(world)
    before = world.rows("h", "a")
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    assert members(world) == {"b": [2]}
    assert held(world) == {}
    assert labels(world, "b", "h", "a") == []
    csn = published(world)
    assert world.rows("b") == {"b": [(1, 10), (2, 1000), (3, 30)]}
    assert world.rows("h", "a") == before
    assert labels(world, "b", "h", "a") == [("a", "b", csn), ("h", "b", csn)]
    label = world.cut("h").outdated[0]
    assert (label.start, label.end) == (barrier(1), barrier(3))
    (made,) = operations(world).status(DOMAIN, NAME).record.decisions
    assert (made.job, made.decision, made.by, made.reason) == ("h", Decision.RELEASED, "ada", STAYS["reason"])
    assert made.spans == (Interval(barrier(1), barrier(3)),)
    told = explain(world.store, DOMAIN, "h", day(2)).outdated
    assert any("h: rows" in line and "before b was computed again" in line for line in told)
    found = examine(world.store, world.formats, DOMAIN)
    assert [
        (symptom.subject, symptom.found) for symptom in found.symptoms if "computed again" in symptom.found
    ] == [(f"table {label.table}", str(label)) for label in world.cut("h", "a").outdated]
    assert found.urgent == ()
    assert sound(world)


def test_label_of_a_released_epoch_goes_when_it_is_computed_again(world: World) -> None:
    """R18: as behind an edge that ignores revisions."""
    _, report, after = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    published(world)
    operations(world).open(DOMAIN, ["h"], day(2), name="second", reason="now", by="me")
    restated(world, report, 2, name="second")
    restated(world, after, 2, name="second")
    operations(world).publish(DOMAIN, "second")
    assert world.rows("h") == {"h": [(1, 11), (2, 1011), (3, 61)]}
    assert world.cut("h").outdated[0].start == barrier(2)
    assert sound(world)


def test_release_is_for_one_publish(world: World) -> None:
    """R28: the next restatement of the same rows is held by the same epochs again."""
    base, *_ = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    published(world)
    operations(world).open(DOMAIN, ["b"], day(2), name="second", reason="again", by="me")
    restated(world, base, 2, [2000], name="second")
    with pytest.raises(NotReady, match="hold it"):
        operations(world).publish(DOMAIN, "second")
    with pytest.raises(DependentReaders, match=r"read b by a hold edge.*") as refused:
        world.begin(base, day(3), owner("normal"))
    assert "restate" in refused.value.next_step


def test_reader_that_commits_after_a_release_holds_it(world: World) -> None:
    """R28: a release is about the epochs that were committed; a later one is decided about again."""
    base, report, _ = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    computed(world, base, 4, [40])
    computed(world, report, 4)
    assert held(world) == {"h": [4]}
    with pytest.raises(NotReady, match="hold it") as refused:
        published(world)
    assert [missing.wanted for missing in refused.value.missing] == [barrier(4)]
    operations(world).join(DOMAIN, NAME, ["h"], **BY)
    assert members(world)["h"] == [4]
    restated(world, report, 4)
    csn = published(world)
    assert world.rows("h") == {"h": [(1, 11), (2, 31), (3, 61), (4, 1081)]}
    assert labels(world, "h") == [("h", "b", csn)]
    assert sound(world)


def test_reader_that_is_open_at_the_publish_begins_again(world: World) -> None:
    """R13: an edge that holds minds that its input was computed again."""
    base, report, _ = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    computed(world, base, 4, [40])
    attempt = world.begin(report, day(4), owner("late"))
    published(world)
    world.write(attempt)
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.publish(attempt)


def test_release_lets_go_of_hold_edges_only(world: World) -> None:
    """R28: an epoch that was computed again by a declaration that cascades is a member after all."""
    base = world.job("b")
    report = world.job("h", inputs=[state(world.table("b"), on_upstream_revision="hold")])
    run_all(world, [base, report], [1, 2, 3])
    opened(world, "b", 2)
    restated(world, base, 2, [1000])
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    cascades = world.job("h", inputs=[state(world.table("b"))])
    computed(world, cascades, 3, run="again")
    with pytest.raises(NotReady, match="They are its members now"):
        published(world)
    assert members(world)["h"] == [3]
    restated(world, cascades, 3)
    csn = published(world)
    assert world.rows("h") == {"h": [(1, 11), (2, 31), (3, 1041)]}
    (label,) = world.cut("h").outdated
    assert (label.source, label.csn, label.end) == ("b", csn, barrier(2))


def test_released_job_may_join_after_all(world: World) -> None:
    """R28: until the publish the last decision counts."""
    staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    assert operations(world).release(DOMAIN, NAME, ["h"], **STAYS) == ()
    (found,) = operations(world).join(DOMAIN, NAME, ["h"], **BY)
    assert found.intervals == (day(2), day(3))
    assert members(world) == {"a": [2, 3], "b": [2], "h": [2, 3]}
    assert operations(world).join(DOMAIN, NAME, ["h"], **BY) == ()
    record = operations(world).status(DOMAIN, NAME).record
    assert [made.decision for made in record.decisions] == [Decision.RELEASED, Decision.JOINED]
    with pytest.raises(NotReady, match="are not computed"):
        published(world)


REFUSED: dict[str, tuple[str, dict[str, Any], type[Exception]]] = {
    "a job without held epochs": ("join", {"jobs": ["a"], "by": "ada"}, InvalidInput),
    "the job that is restated": ("release", {"jobs": ["b"], **STAYS}, InvalidInput),
    "no job": ("release", {"jobs": [], **STAYS}, InvalidInput),
    "an unknown job": ("join", {"jobs": ["nobody"], "by": "ada"}, UnknownName),
    "no reason": ("release", {"jobs": ["h"], "by": "ada", "reason": " "}, InvalidInput),
    "no author": ("join", {"jobs": ["h"], "by": ""}, InvalidInput),
}


@pytest.mark.parametrize("case", REFUSED)
def test_decisions_about_others_are_refused(world: World, case: str) -> None:
    staged(world)
    name, given, error = REFUSED[case]
    before = operations(world).status(DOMAIN, NAME)
    with pytest.raises(error):
        getattr(operations(world), name)(DOMAIN, NAME, **given)
    assert operations(world).status(DOMAIN, NAME) == before


def test_epochs_of_a_retired_job_cannot_join_but_be_released(world: World) -> None:
    """R7, R28: nothing computes them again."""
    staged(world)
    for job in ("a", "h"):
        world.coordinator.retire(DOMAIN, job, reason="over", by="me")
    with pytest.raises(TopologyError, match="retired"):
        operations(world).join(DOMAIN, NAME, ["h"], **BY)
    assert members(world) == {"b": [2]}
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    csn = published(world)
    assert labels(world, "h", "a") == [("a", "b", csn), ("h", "b", csn)]
    assert sound(world)


def test_an_abandoned_restatement_leaves_released_epochs_as_they_were(world: World) -> None:
    """R28: nothing was published, so that no row carries a label, and the epochs hold the next one."""
    base, *_ = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    abandoned(world)
    assert labels(world, "b", "h", "a") == []
    with pytest.raises(InvalidInput, match="abandoned"):
        operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    with pytest.raises(DependentReaders):
        world.begin(base, day(2), owner("normal"))
    assert sound(world)


def test_revert_keeps_released_epochs_where_they_stand(table_world: World) -> None:
    """R30: they have never read the rows that are taken back."""
    world = table_world
    staged(world)
    before = world.rows("b", "h", "a")
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    published(world)
    operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.rows("b", "h", "a") == before
    (made,) = operations(world).status(DOMAIN, f"{NAME}-reverted").record.decisions
    assert (made.job, made.decision, made.by) == ("h", Decision.RELEASED, "me")
    assert sound(world)


def test_revert_is_refused_once_a_held_reader_has_read_the_new_rows(world: World) -> None:
    """R30: a later epoch of a job that was released is a reader of the new rows."""
    base, report, _ = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    published(world)
    computed(world, base, 4, [40])
    computed(world, report, 4)
    with pytest.raises(DependentReaders, match="h "):
        operations(world).revert(DOMAIN, NAME, **WHY)


def test_revert_is_refused_once_a_released_epoch_has_read_the_new_rows(world: World) -> None:
    """R30: it was computed again since, within another restatement."""
    _, report, after = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    published(world)
    operations(world).open(DOMAIN, ["h"], day(2), name="second", reason="now", by="me")
    for job in (report, after):
        restated(world, job, 2, name="second")
    operations(world).publish(DOMAIN, "second")
    with pytest.raises(DependentReaders, match=r"h \[2024-01-02"):
        operations(world).revert(DOMAIN, NAME, **WHY)


def lacking_a_table(world: World, *, released: bool) -> Job:
    """Compute three days of a source and of what holds it; an older declaration computes the third without a table."""
    source, edge = world.job("s"), increment(world.table("s"), on_upstream_revision="hold")
    old = world.job("h", inputs=[edge])
    new = world.job("h", [world.table("h"), world.table("h2")], inputs=[edge])
    for number, job in enumerate((old, new, old), start=1):
        run_all(world, [source, job], [number])
    if released:
        opened(world, "s", 3)
        restated(world, source, 3, [1000])
        operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
        published(world)
    return new


@pytest.mark.parametrize("released", [False, True])
def test_fill_of_a_held_epoch_reads_the_inputs_of_its_commit(world: World, *, released: bool) -> None:
    """I7: both tables are of the same rows, and both carry the label."""
    new = lacking_a_table(world, released=released)
    attempt = world.begin(new, day(3), owner("cleared"))
    assert read(world, attempt) == [30]
    world.write(attempt, [31])
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    assert world.rows("h", "h2") == {"h": [(1, 11), (2, 21), (3, 31)], "h2": [(2, 21), (3, 31)]}
    assert labels(world, "h", "h2") == ([("h", "s", 7), ("h2", "s", 7)] if released else [])
    assert sound(world)


@pytest.mark.parametrize("released", [False, True])
def test_fill_of_a_released_epoch_whose_inputs_are_gone_is_refused(world: World, *, released: bool) -> None:
    """I7: the newest version has other rows, unless no epoch was released: then the commit has kept them."""
    new = lacking_a_table(world, released=released)
    other = world.table("s", column_changes=[add("note", "string")])
    world.begin(world.job("s", [other]), day(4))
    if not released:
        assert read(world, world.begin(new, day(3), owner("cleared"))) == [30]
        return
    with pytest.raises(Unavailable, match="no longer of s"):
        world.begin(new, day(3), owner("cleared"))


def restated_before_a_report(world: World) -> Job:
    """A day is restated before a report reads it, by an edge that holds: return the report's job."""
    base = world.job("b")
    report = world.job("h", inputs=[state(world.table("b"), on_upstream_revision="hold")])
    run_all(world, [base], [1, 2])
    opened(world, "b", 1)
    restated(world, base, 1, [1000])
    published(world)
    return report


def test_a_reader_that_holds_a_revert_may_join(world: World) -> None:
    """R18, R30: a reader that joins has no former rows, so that its job computes it."""
    report = restated_before_a_report(world)
    computed(world, report, 1)
    with pytest.raises(DependentReaders):
        operations(world).revert(DOMAIN, NAME, **WHY)
    with pytest.raises(NotReady, match="hold it"):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    operations(world).join(DOMAIN, REVERT, ["h"], **BY)
    restated(world, report, 1, name=REVERT)
    operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.rows("b", "h") == {"b": [(1, 10)], "h": [(1, 11)]}
    assert sound(world)


def test_reader_that_holds_a_revert_may_be_released(world: World) -> None:
    """R30: it came in between, and stays as it is."""
    report = restated_before_a_report(world)
    slow = interrupted(world, lambda: computed(world, report, 1), number=1)
    with pytest.raises(NotReady, match="hold it"):
        slow.restatements.revert(DOMAIN, NAME, **WHY)
    operations(world).release(DOMAIN, REVERT, ["h"], **STAYS)
    csn = operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.rows("b", "h") == {"b": [(1, 10)], "h": [(1, 1001)]}
    assert labels(world, "h") == [("h", "b", csn)]
    assert sound(world)


def test_a_released_epoch_that_has_read_the_new_rows_holds_an_open_revert(world: World) -> None:
    """R28, R30: a release is about what was committed then; computed again since, it is decided about again."""
    base, edge = world.job("b"), increment(world.table("b"), on_upstream_revision="hold")
    report, reader = world.job("h", inputs=[edge]), world.job("r", inputs=[increment(world.table("b"))])
    run_all(world, [base, report], [1])
    opened(world, "b", 1)
    restated(world, base, 1, [1000])
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    published(world)
    computed(world, reader, 1)
    with pytest.raises(NotReady, match=r"not taken back yet: .* are not computed: r \["):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    world.clock.advance(timedelta(seconds=1))
    computed(world, report, 1, run="again")
    restated(world, reader, 1, name=REVERT)
    begun = operations(world).status(DOMAIN, REVERT)
    assert [epochs.job for epochs in begun.held] == ["h"]
    with pytest.raises(NotReady, match="hold it"):
        operations(world).revert(DOMAIN, NAME, **WHY)
    operations(world).join(DOMAIN, REVERT, ["h"], **BY)
    restated(world, report, 1, name=REVERT)
    operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.rows("b", "h", "r") == {"b": [(1, 10)], "h": [(1, 11)], "r": [(1, 11)]}
    assert labels(world, "h") == []
    assert sound(world)


@pytest.mark.parametrize("number", range(3))
def test_reader_that_commits_while_it_is_published_holds_it(world: World, number: int) -> None:
    """R18, R28: whatever publish has looked at before, no commit comes between."""
    base, report, _ = staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    computed(world, base, 4, [40])
    attempt = world.begin(report, day(4), owner("late"))
    world.write(attempt, [1])
    world.coordinator.complete(attempt)
    call = "store.transact" if not number else "store.read"
    slow = interrupted(world, lambda: world.coordinator.publish(attempt), call, max(0, 4 * number - 1))
    with pytest.raises(NotReady, match="hold it") as refused:
        slow.restatements.publish(DOMAIN, NAME)
    assert [missing.wanted for missing in refused.value.missing] == [barrier(4)]
    assert labels(world, "h") == []


@pytest.mark.parametrize("first", ["join", "release"])
def test_two_decisions_at_once_are_both_kept(world: World, first: str) -> None:
    """R28: the second one is decided again on what the first has left."""
    staged(world)
    other = world.job("o", inputs=[increment(world.table("b"), on_upstream_revision="hold")])
    computed(world, other, 2)
    slow = interrupted(world, lambda: operations(world).release(DOMAIN, NAME, ["o"], **STAYS))
    if first == "join":
        slow.restatements.join(DOMAIN, NAME, ["h"], **BY)
    else:
        slow.restatements.release(DOMAIN, NAME, ["h"], **STAYS)
    found = operations(world).status(DOMAIN, NAME)
    assert [(made.job, made.decision) for made in found.record.decisions] == [
        ("o", Decision.RELEASED),
        ("h", Decision.JOINED if first == "join" else Decision.RELEASED),
    ]
    assert found.held == ()


def test_a_release_is_about_the_jobs_that_it_names(world: World) -> None:
    """R28: another job that holds it still does."""
    staged(world)
    other = world.job("o", inputs=[increment(world.table("b"), on_upstream_revision="hold")])
    computed(world, other, 2)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    assert held(world) == {"o": [2]}
    with pytest.raises(NotReady, match="hold it") as refused:
        published(world)
    assert [missing.name for missing in refused.value.missing] == ["o"]


def test_publish_decides_again_after_a_decision(world: World) -> None:
    """R28: an epoch that joins while the restatement is published is not left out."""
    staged(world)
    operations(world).release(DOMAIN, NAME, ["h"], **STAYS)
    slow = interrupted(world, lambda: operations(world).join(DOMAIN, NAME, ["h"], **BY))
    with pytest.raises((Conflict, NotReady)):
        slow.restatements.publish(DOMAIN, NAME)
    with pytest.raises(NotReady, match="are not computed"):
        published(world)
    assert world.rows("b") == {"b": [(1, 10), (2, 20), (3, 30)]}


def test_an_own_past_that_holds_is_decided_about_day_by_day(world: World) -> None:
    """R28: of a job that adds to its own past only the day itself is a member; the later days hold it."""
    total = world.job("t", inputs=[previous(world.table("t"), on_upstream_revision="hold")])
    for number in (1, 2, 3):
        computed(world, total, number)
    opened(world, "t", 1)
    assert members(world) == {"t": [1]}
    assert held(world) == {"t": [2, 3]}
    restated(world, total, 1, [100])
    operations(world).release(DOMAIN, NAME, ["t"], **STAYS)
    csn = published(world)
    assert labels(world, "t") == [("t", "t", csn)]
    assert sound(world)


EDGES: dict[str, tuple[Callable[..., Edge], TableKind, list[int]]] = {
    "increment": (increment, TableKind.INCREMENTAL, [2]),
    "window": (
        lambda table, **options: window(table, timedelta(days=1), **options),
        TableKind.INCREMENTAL,
        [2, 3],
    ),
    "state": (state, TableKind.INCREMENTAL, [2, 3, 4]),
    "previous": (previous, TableKind.INCREMENTAL, [3, 4]),
    "as_of": (
        lambda table, **options: state(table, as_of=timedelta(days=1), **options),
        TableKind.INCREMENTAL,
        [3, 4],
    ),
    "state of a full table": (state, TableKind.FULL, [2]),
    "previous of a full table": (previous, TableKind.FULL, [3]),
}


@pytest.mark.parametrize("edge", EDGES)
def test_epochs_whose_edge_has_read_the_day_hold_it(world: World, edge: str) -> None:
    """R18, R28: by every kind of edge those, and no others, hold it; once released, they carry the label."""
    make, kind, days = EDGES[edge]
    table = world.table("b", kind=kind)
    base = world.job("b", [table], origin=barrier(-1))
    computed(world, base, 0, [])
    reader = world.job("r", inputs=[make(table, on_upstream_revision="hold")])
    copies = world.job("c", inputs=[increment(world.table("r"))])
    run_all(world, [base, reader, copies], [1, 2, 3, 4])
    opened(world, "b", 2)
    assert (members(world), held(world)) == ({"b": [2]}, {"r": days})
    restated(world, base, 2, [1000])
    operations(world).release(DOMAIN, NAME, ["r"], **STAYS)
    csn = published(world)
    found = [label for label in world.cut("r", "c").outdated if label.table == "r"]
    assert [(label.source, label.csn, label.start, label.end) for label in found] == [
        ("b", csn, barrier(days[0] - 1), barrier(days[-1]))
    ]
    assert {label.table for label in world.cut("r", "c").outdated} == {"r", "c"}
    assert sound(world)


def test_members_read_staged_rows_by_hold_edges(world: World) -> None:
    """R28: an epoch that is asked for, or has read others by a cascade edge, too, is a member like others."""
    base = world.job("b")
    daily = world.job("d", inputs=[world.table("b")])
    mixed = world.job(
        "m",
        inputs=[increment(world.table("b"), on_upstream_revision="hold"), increment(world.table("d"))],
    )
    run_all(world, [base, daily, mixed], [1, 2])
    opened(world, "b", 2)
    assert members(world) == {"b": [2], "d": [2], "m": [2]}
    assert held(world) == {}
    all_restated(world, base, daily, mixed, values=[1000])
    published(world)
    assert world.rows("m") == {"m": [(1, 22), (2, 2002)]}
    assert labels(world, "m") == []
    assert sound(world)
