"""Several epochs of one run in one commit: all become visible at one CSN, or none (R2, R27)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider.coordination.reading.change_feed import events
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Published
from airflow_provider.domain.errors import (
    CheckFailed,
    Conflict,
    DependentReaders,
    Fenced,
    InvalidInput,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.together import MOST_TOGETHER
from airflow_provider.domain.topology import Job, increment
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner
from tests.contract.interruptions import interrupted
from tests.contract.test_coordination_behind import FILES, behind, bound
from tests.contract.test_coordination_source_revisions import compute, feed, land


def staged(world: World, job: Job, *numbers: int, run: str = "run", values: int = 10) -> list[Attempt]:
    """Begin and write the epochs with *numbers*, the rows of each with a value of its own."""
    attempts = [world.begin(job, day(number), owner(run)) for number in numbers]
    for number, attempt in zip(numbers, attempts, strict=True):
        if not attempt.adopted:
            world.write(attempt, [values * number])
            world.coordinator.complete(attempt)
    return attempts


def sound(world: World) -> bool:
    """Return whether no epoch has read other rows than are there, and all files of all versions exist (I4, I6)."""
    lost = missing_files(world.store, world.formats, DOMAIN)
    return not [*stale_reads(world.store, DOMAIN), *lost]


def together(world: World, attempts: Sequence[Attempt]) -> tuple[Published, ...]:
    return world.coordinator.publish_together(attempts)


def test_epochs_become_visible_at_one_csn(table_world: World) -> None:
    """R2, R15: two tables and three days in one commit; a repetition gives the same answers."""
    world = table_world
    job = world.job("d", outputs=[world.table("a"), world.table("b", kind=TableKind.FULL)])
    attempts = staged(world, job, 1, 2, 3)
    assert world.commits() == []
    answers = together(world, attempts)
    (commit,) = world.commits()
    assert {answer.csn for answer in answers} == {commit.csn}
    assert [answer.interval for answer in answers] == [day(1), day(2), day(3)]
    assert [member.interval for member in commit.record.members] == [day(1), day(2), day(3)]
    assert together(world, attempts) == answers
    assert world.rows("a", "b") == {"a": [(1, 10), (2, 20), (3, 30)], "b": [(3, 30)]}
    assert world.rows("b", at=barrier(2)) == {"b": [(2, 20)]}
    assert world.engine_rows("a") == [(1, 10), (2, 20), (3, 30)]
    assert sound(world)
    assert isinstance(world.coordinator.begin(job, day(2), owner("run")), AlreadyCommitted)


def test_the_change_feed_has_an_event_per_table(world: World) -> None:
    """R35: its interval is that of all members."""
    together(world, staged(world, world.job("d"), 2, 1, 3))
    (event,) = events(world.store, DOMAIN)
    assert (event.interval, event.rows) == (Interval(barrier(0), barrier(3)), 3)


def test_gap_revision_and_new_epoch_in_one_commit(table_world: World) -> None:
    """R7, R13: a day within, a day computed again and a day at the end; earlier cuts keep what they had."""
    world = table_world
    job = world.job("d")
    for number in (1, 3):
        world.run(job, day(number), [number])
    before = world.cut("d")
    together(world, staged(world, job, 2, 1, 4, run="again"))
    assert world.rows("d") == {"d": [(1, 10), (2, 20), (3, 3), (4, 40)]}
    assert world.rows_of(before) == {"d": [(1, 1)]}
    assert sound(world)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_overtaken_member_keeps_all_back(world: World, number: int) -> None:
    """R10: whichever epoch another run has taken over."""
    attempts = staged(world, world.job("d"), 1, 2, 3)
    world.clock.advance(PAST_TTL)
    world.begin(world.job("d"), day(number), owner("other"))
    before = world.exactly()
    with pytest.raises(Fenced, match=f"{day(number).start:%Y-%m-%d}"):
        together(world, attempts)
    assert world.exactly() == before


@pytest.mark.parametrize("number", [1, 2])
def test_a_member_that_is_overtaken_meanwhile_keeps_all_back(world: World, number: int) -> None:
    """R2, R10: the transaction requires the fence of each member."""
    attempts = staged(world, world.job("d"), 1, 2)
    slow = interrupted(world, lambda: world.coordinator.abort(attempts[number - 1], "it ends"))
    with pytest.raises(Fenced):
        slow.publish_together(attempts)
    assert world.commits() == []


def reader(world: World) -> Job:
    return world.job("r", inputs=[increment(world.table("d"))])


@pytest.mark.parametrize("number", [1, 2])
def test_a_rewritten_input_of_any_member_keeps_all_back(world: World, number: int) -> None:
    """R13: each member since its own CSN; what is complete is adopted by the next try, the rest computed again."""
    job = world.job("d")
    for day_number in (1, 2):
        world.run(job, day(day_number), [day_number])
    attempts = staged(world, reader(world), 1, 2)
    world.run(job, day(number), [7], owner("again"))
    with pytest.raises(Conflict, match=r"its inputs were computed again"):
        together(world, attempts)
    again = [world.begin(reader(world), day(each), owner("run", 2)) for each in (1, 2)]
    assert [attempt.interval.end for attempt in again if not attempt.adopted] == [barrier(number)]


def test_an_input_that_is_rewritten_meanwhile_keeps_all_back(world: World) -> None:
    """R13: the transaction requires the rewrite log of each member's inputs."""
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number])
    attempts = staged(world, reader(world), 1, 2)
    slow = interrupted(world, lambda: world.run(job, day(2), [7], owner("again")))
    with pytest.raises(Conflict):
        slow.publish_together(attempts)
    assert world.commits()[-1].record.members[0].job == "d"


@pytest.mark.parametrize("number", [1, 2])
def test_a_read_member_is_not_replaced(world: World, number: int) -> None:
    """R18: one committed reader of one member keeps the revision of all back."""
    job = world.job("d")
    for day_number in (1, 2):
        world.run(job, day(day_number), [day_number])
    world.run(reader(world), day(1))
    if number == 2:
        world.run(reader(world), day(2))
    before = world.content()
    with pytest.raises(DependentReaders):
        staged(world, job, 1, 2, run="again")
    assert world.rows("d") == {"d": [(1, 1), (2, 2)]}
    assert before["head"] == world.content()["head"]


def test_readers_commit_meanwhile(world: World) -> None:
    """R18: a reader of the second member commits between decision and transaction."""
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number])
    world.coordinator.register(reader(world))
    attempts = staged(world, job, 1, 2, run="again")
    attempt = world.begin(reader(world), day(2), owner("reader"))
    world.write(attempt)
    slow = interrupted(world, lambda: world.coordinator.publish(attempt))
    with pytest.raises(DependentReaders):
        slow.publish_together(attempts)


def test_readers_of_a_revision_of_several_epochs_begin_again(world: World) -> None:
    """R13: of two days that do not touch, each is in the rewrite log, and the day between is not."""
    job = world.job("d")
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    world.coordinator.register(reader(world))
    attempts = [world.begin(reader(world), day(number), owner(f"r{number}")) for number in (1, 2, 3)]
    for attempt in attempts:
        world.write(attempt)
    together(world, staged(world, job, 1, 3, run="again"))
    world.coordinator.publish(attempts[1])
    for attempt in (attempts[0], attempts[2]):
        with pytest.raises(Conflict):
            world.coordinator.publish(attempt)


def test_a_failed_check_keeps_all_back(world: World) -> None:
    """R14: the checks of each member run; the others stay complete for the next try."""
    job = world.job("d", checks=[row_count("d", at_most=1)])
    attempts = [world.begin(job, day(number)) for number in (1, 2)]
    for attempt, values in zip(attempts, ([1], [1, 2]), strict=True):
        world.write(attempt, values)
        world.coordinator.complete(attempt)
    with pytest.raises(CheckFailed):
        together(world, attempts)
    assert world.commits() == []
    assert world.begin(job, day(1), owner("scheduled", 2)).adopted


def test_lost_output_of_any_member_keeps_all_back(world: World) -> None:
    """I6: publish looks that the staged files of every member are there."""
    attempts = staged(world, world.job("d"), 1, 2)
    world.lose(max(world.staged()))
    with pytest.raises(Unavailable):
        together(world, attempts)
    assert world.commits() == []


def test_leased_cut_is_unchanged_and_vacuum_takes_only_the_replaced(table_world: World) -> None:
    """R19, I12: the slices of two days are replaced at once."""
    world = table_world
    job = world.job("d")
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    lease = world.leases.acquire(world.cut("d"), name="held", owner="report", ttl=PAST_TTL * 100)
    together(world, staged(world, job, 1, 2, run="again"))
    world.clock.advance(PAST_TTL * 20)
    world.retention.vacuum(DOMAIN)
    assert world.rows_of(lease.cut) == {"d": [(1, 1), (2, 2), (3, 3)]}
    assert world.rows("d") == {"d": [(1, 10), (2, 20), (3, 3)]}


def test_a_member_that_is_committed_alone_keeps_the_others_back(world: World) -> None:
    """R15: a repetition is answered only where all are committed."""
    attempts = staged(world, world.job("d"), 1, 2)
    world.coordinator.publish(attempts[0])
    with pytest.raises(Fenced, match="it has published the epoch"):
        together(world, attempts)
    assert world.rows("d") == {"d": [(1, 10)]}
    world.coordinator.publish(attempts[1])
    assert [answer.csn for answer in together(world, attempts)] == [1, 2]


def test_a_run_finds_its_own_commit_below_a_later_one(world: World) -> None:
    """R15: the revisions of the members differ, and another run has computed one of them again."""
    job = world.job("d")
    world.run(job, day(1), [1], owner("before"))
    together(world, staged(world, job, 1, 2))
    world.run(job, day(2), [7], owner("later"))
    found = world.coordinator.begin(job, day(2), owner("run", 2))
    assert isinstance(found, AlreadyCommitted)
    assert (found.revision, found.csn) == (1, 2)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_later_revision_of_any_source_keeps_all_back(
    world: World, tmp_path: Path, number: int, when: str
) -> None:
    """R27, I11: of whichever epoch."""
    job = world.job("d", inputs=[feed(tmp_path)])
    for each in (1, 2):
        land(tmp_path, each, x="1")
    attempts = [world.begin(job, day(each), sources=FILES) for each in (1, 2)]
    for attempt in attempts:
        world.write(attempt)
    land(tmp_path, number, y="2")
    service = interrupted(world, lambda: bound(world, number)) if when == "meanwhile" else world.coordinator
    if when == "before":
        bound(world, number)
    with pytest.raises(Conflict, match="revision 2 of source"):
        service.publish_together(attempts)
    assert world.commits() == []


def test_epochs_behind_their_source_are_computed_again_together(world: World, tmp_path: Path) -> None:
    """R18: one commit ends what `bind` has left behind at two barriers."""
    job = world.job("d", inputs=[feed(tmp_path)])
    for number in (1, 2):
        land(tmp_path, number, x="1")
        compute(world, job, number)
        land(tmp_path, number, y="100")
        bound(world, number)
    assert len(behind(world)) == 2
    attempts = [world.begin(job, day(number), owner("again"), sources=FILES) for number in (1, 2)]
    for attempt in attempts:
        world.write(attempt)
    together(world, attempts)
    assert behind(world) == []


BAD = {
    "none": lambda _, __: [],
    "an epoch twice": lambda attempts, _: [attempts[0], attempts[0]],
    "two jobs": lambda attempts, other: [attempts[0], other],
    "two runs": lambda attempts, _: [
        attempts[0],
        replace(attempts[1], owner=replace(attempts[1].owner, run_id="x")),
    ],
    "too many": lambda attempts, _: [
        replace(attempts[0], interval=day(number)) for number in range(1, MOST_TOGETHER + 2)
    ],
}


@pytest.mark.parametrize("what", BAD)
def test_attempts_that_are_no_set_are_refused(world: World, what: str) -> None:
    """R27: nothing is asked of the store, and nothing changes."""
    attempts = staged(world, world.job("d"), 1, 2)
    (other,) = staged(world, world.job("e"), 1)
    before = world.exactly()
    with pytest.raises(InvalidInput, match="attempts: .* expected 1 to 100"):
        together(world, BAD[what](attempts, other))
    assert world.exactly() == before
