"""A restatement that later epochs have read is taken back with them (R30)."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.coordination.reading.change_feed import events
from airflow_provider.domain.epoch import AlreadyStaged, Attempt
from airflow_provider.domain.errors import (
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
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.interruptions import Died, interrupted
from tests.contract.restating import (
    CLEARED,
    NAME,
    WHY,
    Jobs,
    all_restated,
    cascade,
    computed,
    opened,
    operations,
    published,
    read,
    restated,
    run_all,
    sound,
    within,
)
from tests.contract.test_coordination_added_files import added, every_reader, written
from tests.contract.test_coordination_added_files import job as adding
from tests.contract.test_coordination_added_files import publish as publish_files
from tests.contract.test_coordination_added_files import rows as file_rows
from tests.contract.test_coordination_source_revisions import compute, feed, land, total

REVERT = f"{NAME}-reverted"


def die() -> None:
    raise Died


def read_since(world: World) -> Jobs:
    """Two days of a cascade, of which the first was restated; then a third day, whose total stands on that."""
    jobs = cascade(world)
    run_all(world, jobs, [1, 2])
    opened(world, "b", 1)
    all_restated(world, *jobs, values=[1000])
    published(world)
    run_all(world, jobs, [3])
    return jobs


def test_later_readers_are_computed_again_within_the_revert(table_world: World) -> None:
    """R30, RES8: nothing is visible before they are, and all is as if the restatement had never been."""
    world = table_world
    base, daily, total = read_since(world)
    seen = world.rows("b", "d", "t")
    with pytest.raises(DependentReaders, match=r"have read its rows: t \[.*\) read d, t\.") as refused:
        operations(world).revert(DOMAIN, NAME, **WHY)
    assert "--with-readers" in refused.value.next_step
    for _ in range(2):
        with pytest.raises(NotReady, match=r"not taken back yet: .* are not computed: t \["):
            operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    assert world.rows("b", "d", "t") == seen
    run_all(world, (base, daily), [4])  # which reads nothing that is taken back
    restated(world, total, 3, name=REVERT)
    csn = operations(world).revert(DOMAIN, NAME, **WHY)
    assert {name: world.rows(name)[name] for name in "bdt"} == {
        "b": [(1, 10), (2, 20), (3, 30), (4, 40)],
        "d": [(1, 11), (2, 21), (3, 31), (4, 41)],
        "t": [(1, 12), (2, 34), (3, 78)],
    }
    assert operations(world).revert(DOMAIN, NAME, **WHY) == csn == len(world.commits())
    told = {event.table: event.revision for event in events(world.store, DOMAIN) if event.csn == csn}
    assert told == {"b": 3, "d": 3, "t": None}, "a table's event has no revision where it has several epochs"
    computed(world, total, 4)
    assert sound(world)


@pytest.mark.parametrize("by", [owner("other"), CLEARED])
def test_no_task_computes_what_a_revert_copies(world: World, by: Owner) -> None:
    """R30: its code would compute other rows. It waits for the copy, and a cleared task leaves that as it is."""
    base, _, total = read_since(world)

    def early() -> None:
        with pytest.raises(NotReady, match=f"not copied into '{REVERT}'") as refused:
            world.coordinator.begin_within(REVERT, base, day(1), by)
        assert f"restate revert {NAME}`" in refused.value.next_step

    slow = interrupted(world, early, number=1)
    with pytest.raises(NotReady, match="not taken back yet"):
        slow.restatements.revert(DOMAIN, NAME, **WHY, with_readers=True)
    assert isinstance(world.coordinator.begin_within(REVERT, base, day(1), by), AlreadyStaged)
    restated(world, total, 3, name=REVERT)
    operations(world).publish(DOMAIN, REVERT)
    assert world.rows("b") == {"b": [(1, 10), (2, 20), (3, 30)]}


def test_an_abandoned_revert_is_opened_anew(world: World) -> None:
    """R30: it has changed nothing, and the restatement may still be taken back."""
    *_, total = read_since(world)
    with pytest.raises(NotReady):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    left = within(world, total, 3, name=REVERT)
    operations(world).abandon(DOMAIN, REVERT, **WHY)
    with pytest.raises(DependentReaders):
        operations(world).revert(DOMAIN, NAME, **WHY)
    with pytest.raises(NotReady):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    assert within(world, total, 3, name=REVERT).token > left.token
    restated(world, total, 3, by=CLEARED, name=REVERT)
    operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.rows("t") == {"t": [(1, 12), (2, 34), (3, 78)]}
    assert sound(world)


def test_a_later_reader_that_is_a_skipped_copy_is_copied_within_the_revert(table_world: World) -> None:
    """R28, R30: no code computes it: the revert copies the state before it, and is published by the same call."""
    world = table_world
    base = world.job("b")
    full = world.job("f", [world.table("f", kind="full")], inputs=[increment(world.table("b"))])
    run_all(world, [base, full], [1, 2])
    opened(world, "b", 2)
    restated(world, base, 2, [1000])
    restated(world, full, 2)
    published(world)
    world.coordinator.skip(DOMAIN, "f", day(3), "no rides", by="me")
    operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    states = [world.rows("f", at=barrier(number))["f"] for number in (2, 3)]
    assert [[value for _, value in rows] for rows in states] == [[21], [21]]


def test_a_revert_that_is_refused_once_open_says_how_to_end_it(world: World) -> None:
    """R30, section 10: its epochs are held meanwhile, so that no other restatement can compute the former rows."""
    base = world.job("b")
    holding = world.job("k", inputs=[increment(world.table("b"), on_upstream_revision="hold")])
    run_all(world, [base, holding], [1, 2])
    opened(world, "b", 2, name="first")
    restated(world, base, 2, [200], name="first")
    operations(world).release(DOMAIN, "first", ["k"], **WHY)
    operations(world).publish(DOMAIN, "first")
    opened(world, "b", 2)
    operations(world).join(DOMAIN, NAME, ["k"], by="me")
    restated(world, base, 2, [2000])
    restated(world, holding, 2)
    published(world)
    with pytest.raises(TopologyError) as refused:
        operations(world).revert(DOMAIN, NAME, **WHY)
    assert f"airflow epochs restate abandon {NAME}-reverted" in refused.value.next_step
    operations(world).abandon(DOMAIN, f"{NAME}-reverted", **WHY)
    opened(world, "b", 2, name="former rows")


@pytest.mark.parametrize("state", ["open", "abandoned", "published"])
def test_another_restatement_of_the_reverts_name_is_not_taken_for_it(world: World, state: str) -> None:
    """R30: else nothing, or what that one computes, would be taken for the former rows."""
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    opened(world, "b", 2)
    all_restated(world, *jobs, values=[1000])
    published(world)
    opened(world, "t", 3, name=REVERT)
    if state == "published":
        restated(world, jobs[2], 3, [7], name=REVERT)
        operations(world).publish(DOMAIN, REVERT)
    elif state == "abandoned":
        operations(world).abandon(DOMAIN, REVERT, **WHY)
    before = world.exactly()
    with pytest.raises(InvalidInput, match=f"'{REVERT}' .*a name that no other restatement has"):
        operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.exactly() == before


def test_a_revert_waits_for_the_end_of_an_interrupted_one(world: World) -> None:
    """R10, R30: its attempts would publish into the new one."""
    *_, total = read_since(world)
    with pytest.raises(NotReady):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    within(world, total, 3, name=REVERT)
    with pytest.raises(Died):
        interrupted(world, die, number=1).restatements.abandon(DOMAIN, REVERT, **WHY)
    with pytest.raises(EpochBusy, match="its attempts have not all ended") as refused:
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    assert f"restate abandon {REVERT}" in refused.value.next_step
    operations(world).abandon(DOMAIN, REVERT, **WHY)
    with pytest.raises(NotReady):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)


def sourced(world: World, job: Job, name: str) -> None:
    """Compute the first day of *job* within the restatement *name*, of its files and its inputs."""
    files = SourceReaders()
    attempt = world.coordinator.begin_within(name, job, day(1), owner("restate"), sources=files)
    assert isinstance(attempt, Attempt)
    world.write(attempt, [total(attempt) + sum(read(world, attempt))])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)


def sharing_a_source(world: World, directory: Path, **landing: str) -> Job:
    """D has read a file, then *landing* in a restatement, and so has a later reader of it, which is returned."""
    source = feed(directory)
    base = world.job("d", inputs=[source])
    reader = world.job("e", inputs=[source, increment(world.table("d"))])
    land(directory, 1, x="1")
    compute(world, base, 1)
    land(directory, 1, **landing)
    opened(world, "d", 1)
    sourced(world, base, NAME)
    published(world)
    compute(world, reader, 1)
    with pytest.raises(NotReady, match=r"not taken back yet: .* are not computed: e \["):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    return reader


def test_a_reader_of_the_same_source_reads_what_the_former_rows_have_read(
    world: World, tmp_path: Path
) -> None:
    """I11, R30: it asks its source for nothing newer, which the copy would have to follow, and so on without end."""
    reader = sharing_a_source(world, tmp_path, y="100")
    sourced(world, reader, REVERT)
    operations(world).revert(DOMAIN, NAME, **WHY)
    assert world.rows("d", "e") == {"d": [(1, 1)], "e": [(1, 2)]}
    assert sound(world)


def test_a_reader_whose_source_has_changed_is_refused_within_a_revert(world: World, tmp_path: Path) -> None:
    """I11, R30: what the former rows have read is there no more, and two jobs never stand on different bounds."""
    reader = sharing_a_source(world, tmp_path, x="100")
    with pytest.raises(
        Unavailable, match=r"what the former rows of d \[.* have read, which are brought back"
    ):
        sourced(world, reader, REVERT)
    operations(world).abandon(DOMAIN, REVERT, **WHY)
    assert world.rows("d", "e") == {"d": [(1, 100)], "e": [(1, 100)]}
    assert sound(world)


def test_a_repeated_revert_answers_the_same_once_a_reader_is_computed_again(world: World) -> None:
    """R15, R30: the restatement is taken back all the same: its own epochs have their former rows."""
    *_, total = read_since(world)
    with pytest.raises(NotReady):
        operations(world).revert(DOMAIN, NAME, **WHY, with_readers=True)
    restated(world, total, 3, name=REVERT)
    csn = operations(world).revert(DOMAIN, NAME, **WHY)
    computed(world, total, 3, run="again")
    assert operations(world).revert(DOMAIN, NAME, **WHY) == csn


@pytest.mark.parametrize("again", [True, False])
def test_an_open_revert_brings_no_file_back_that_another_epoch_gets(
    file_world: World, tmp_path: Path, again: bool
) -> None:
    """R30: whether the revert is repeated, or published by its name."""
    world, declared, why = file_world, adding(file_world), {"reason": "wrong", "by": "me"}
    reader = world.job("r", inputs=[increment(world.table("old"))])
    first, second = (written(tmp_path, f"{number}.parquet", file_rows(number)) for number in (1, 2))
    publish_files(world, declared, 1, [first])
    operations, revert = world.coordinator.restatements, "fix-reverted"
    operations.open(DOMAIN, ["old"], day(1), name="fix", **why)
    attempt = world.coordinator.begin_within("fix", declared, day(1), owner())
    added(world, attempt, [second])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    operations.publish(DOMAIN, "fix")
    world.run(reader, day(1), [50])
    with pytest.raises(NotReady):
        operations.revert(DOMAIN, "fix", with_readers=True, **why)
    restated(world, reader, 1, [10], name=revert)
    publish_files(world, declared, 2, [first])
    with pytest.raises(TopologyError, match=r"had .*1\.parquet, which another epoch of old has since"):
        operations.revert(DOMAIN, "fix", **why) if again else operations.publish(DOMAIN, revert)
    assert every_reader(world, 2) == [(barrier(1), 2), (barrier(2), 1)]
