"""Restatements of what reads sources, and by declarations that change meanwhile (R7, R18, R28, I11)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider.coordination.restating.opening import LIFETIME
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.domain.columns import add
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    InvalidInput,
    NotReady,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, increment
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.restating import (
    NAME,
    cascade,
    computed,
    members,
    opened,
    published,
    restated,
    run_all,
    sound,
    within,
)
from tests.contract.test_coordination_behind import behind, bound
from tests.contract.test_coordination_giving_back import Orders
from tests.contract.test_coordination_source_revisions import compute, feed, land, total

FILES = SourceReaders()


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


@pytest.mark.parametrize("late", ["next", "ignore", "refuse"])
def test_a_file_that_was_corrected_in_place_is_read_as_it_is(world: World, tmp_path: Path, late: str) -> None:
    """I11, R28: no normal run may read it, since others have read the former one; members do, and give it back."""
    d, e = (world.job(name, inputs=[feed(tmp_path, late)]) for name in "de")
    f = world.job("f", inputs=[increment(world.table("d"))])
    land(tmp_path, 1, x="1", y="2")
    compute(world, d, 1)
    computed(world, f, 1)
    land(tmp_path, 1, x="100")
    with pytest.raises(DependentReaders, match="restate plan"):
        bound(world)
    opened(world, "d", 1)
    for begun in (False, True):
        if begun:  # the new bounds are recorded: still what the commit has read is looked for
            attempt = world.coordinator.begin_within(NAME, d, day(1), owner("in vain"), sources=FILES)
            assert isinstance(attempt, Attempt)
            world.coordinator.abort(attempt, "it failed")
        (tmp_path / "2024-01-01" / "y").rename(kept := tmp_path / "kept")
        before = world.exactly()
        with pytest.raises(Unavailable, match="is not the file that was recorded.*found nothing"):
            sourced(world, d, 1)
        assert world.exactly() == before
        kept.rename(tmp_path / "2024-01-01" / "y")
    assert sourced(world, d, 1).sources[0].revision == 2
    restated(world, f, 1)
    published(world)
    assert world.rows("d", "f") == {"d": [(1, 102)], "f": [(1, 103)]}
    assert sound(world)
    world.coordinator.restatements.revert(DOMAIN, NAME, reason="it was right before", by="me")
    assert world.rows("d", "f") == {"d": [(1, 3)], "f": [(1, 4)]}
    assert sound(world)
    with pytest.raises(Unavailable, match="no longer what was recorded for .*, which d has read"):
        compute(world, e, 1)


def test_a_corrected_file_is_refused_after_an_abandon_as_before(world: World, tmp_path: Path) -> None:
    """I11: the abandon records the former bounds once more: the epoch stands on equal ones, and no run reads others."""
    d = world.job("d", inputs=[feed(tmp_path, "next")])
    land(tmp_path, 1, x="1")
    compute(world, d, 1)
    land(tmp_path, 1, x="100")
    for name in ("before", "after"):
        with pytest.raises(Unavailable, match="is not the file that was recorded"):
            compute(world, d, 1, owner(name))
        if name == "before":
            opened(world, "d", 1)
            sourced(world, d, 1)
            world.coordinator.restatements.abandon(DOMAIN, NAME, reason="no more", by="me")
    assert world.rows("d") == {"d": [(1, 1)]}


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
        str(member.job): str(member.state)
        for member in world.coordinator.restatements.status(DOMAIN, NAME).members
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


@pytest.mark.parametrize("computes", [False, True])
def test_an_abandoned_set_leaves_what_was_bound(world: World, computes: bool) -> None:
    """I11, R28: the epoch is computed from what a person has bound; later epochs have begun at its end."""
    orders = Orders(world)
    orders.commits(1, 1)
    opened(world, "load", 1)
    orders.source.newest = 2
    bind(world.coordinator.context, DOMAIN, "orders", day(1), orders.source, reason="late", by="ada")
    if computes:
        begin = world.coordinator.begin_within
        attempt = begin(NAME, orders.jobs["load"], day(1), owner("restate"), sources=orders.source)
        assert isinstance(attempt, Attempt)
        world.write(attempt, [2])
        world.coordinator.complete(attempt)
        world.coordinator.stage(attempt)
    assert orders.commits(2, 4) == [3, 4]
    world.coordinator.restatements.abandon(DOMAIN, NAME, reason="no more", by="me")
    assert orders.commits(1, 4, owner("again")) == [1, 2]
    assert behind(world) == []


@pytest.mark.parametrize("ends", ["abandon", "deadline"])
def test_a_file_that_was_bound_is_read_after_a_set_has_ended(world: World, tmp_path: Path, ends: str) -> None:
    """I11, R28: also where the members were bound anew for the set, which reads what came later still."""
    job = world.job("d", inputs=[feed(tmp_path, "ignore")])
    land(tmp_path, 1, x="1")
    compute(world, job, 1)
    land(tmp_path, 1, y="100")
    bound(world)
    opened(world, "d", 1)
    land(tmp_path, 1, y="10", z="1000")
    assert sourced(world, job, 1).sources[0].revision == 3
    land(tmp_path, 1, y="100")
    if ends == "abandon":
        world.coordinator.restatements.abandon(DOMAIN, NAME, reason="no more", by="me")
    else:
        world.clock.advance(LIFETIME + timedelta(seconds=1))
        world.retention.vacuum(DOMAIN)
    (tmp_path / "2024-01-01" / "z").unlink()
    compute(world, job, 1, owner("again"))
    assert world.rows("d") == {"d": [(1, 101)]}
    assert behind(world) == []
    assert sound(world)


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
        restated(world, total_job, 2)
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


def test_participants_do_not_join_a_member_with_one_writer(world: World) -> None:
    """R10: its begin says how many write it."""
    job = world.job("b")
    computed(world, job, 1, [1])
    opened(world, "b", 1)
    attempt = within(world, job, 1)
    with pytest.raises(InvalidInput, match="one writer"):
        world.coordinator.join(attempt, 0, owner("restate"))
