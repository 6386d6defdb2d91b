"""Skipping epochs of which nothing will come (R5): what goes on, what is kept, who is told."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.coordination.attempts.begin import Begin
from airflow_provider.coordination.attempts.rerun import refuse_reruns
from airflow_provider.coordination.reading.wait import check
from airflow_provider.coordination.upkeep.explain import explain, watermarks
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.epoch import AlreadyCommitted, EpochState
from airflow_provider.domain.errors import (
    DependentReaders,
    EpochBusy,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import OnRerun, OnUpstreamRevision, previous, state
from airflow_provider.operators.outcome import published_epochs
from airflow_provider.testing.arrow_attempts import read_rows, write_rows
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner, rows

WHY = "the airport lost that day"


def days(first: int, last: int) -> Interval:
    return Interval(barrier(first - 1), barrier(last))


def skip(world: World, span: Interval, job: str = "d") -> Any:
    return world.coordinator.skip(DOMAIN, job, span, WHY, by="ada")


def test_der10_a_gap_is_ended_by_skip(table_world: World) -> None:
    """R5: who waited for the barrier goes on; the skipped epochs have no rows, and the log says who and why."""
    world = table_world
    d, e = world.job("d"), world.job("e", inputs=[world.table("d")])
    world.run(d, day(1), [1])
    world.run(d, day(4), [4])
    assert not check(world.store, DOMAIN, ["d"], barrier(4)).ready
    done = skip(world, days(1, 4))
    assert [published.interval for published in done.published] == [day(2), day(3)]
    assert done.left == (day(1), day(4))
    assert check(world.store, DOMAIN, ["d"], barrier(4)).ready
    assert world.rows("d") == {"d": [(1, 1), (4, 4)]}
    for number in range(1, 5):
        world.run(e, day(number), [number])
    assert watermarks(world.store, DOMAIN)["e"] == barrier(4)
    found = explain(world.store, DOMAIN, "d", day(2))
    assert found.state is EpochState.SKIPPED
    assert found.summary.startswith("skipped by skip by ada/")
    assert WHY in found.summary
    assert [entry.record.note for entry in found.log if entry.record.state is EpochState.COMMIT] == [
        f"skipped: {WHY}"
    ]
    (row, _) = grid(world.store, DOMAIN).rows
    assert [cell.state for cell in row.cells] == [
        EpochState.COMMIT,
        EpochState.SKIPPED,
        EpochState.SKIPPED,
        EpochState.COMMIT,
    ]
    assert [commit.record.by for commit in world.commits()[2:4]] == [
        f"skip by ada/{day(number)} (generation 0, try 1)" for number in (2, 3)
    ]


def test_skipping_again_changes_nothing(world: World) -> None:
    """R5, R15: also with another reason."""
    world.run(world.job("d"), day(2), [2])
    skip(world, days(1, 1))
    before = world.exactly()
    assert skip(world, days(1, 2)).left == (day(1), day(2))
    assert world.exactly() == before


def test_blanks_around_author_and_reason_are_not_kept(world: World) -> None:
    """R5: they come from a command line or a form."""
    world.run(world.job("d"), day(2), [2])
    world.coordinator.skip(DOMAIN, "d", day(1), f"  {WHY}\n", by=" ada ")
    told = explain(world.store, DOMAIN, "d", day(1)).summary
    assert told.startswith("skipped by skip by ada/")
    assert told.endswith(f": {WHY}")


@pytest.mark.parametrize("on_rerun", list(OnRerun))
def test_skip_leaves_a_committed_epoch(world: World, on_rerun: OnRerun) -> None:
    """R5: whatever the job does with epochs that it has computed, and also while one is computed again."""
    d = world.job("d", on_rerun=on_rerun)
    for number in (1, 3):
        world.run(d, day(number), [number])
    if on_rerun is OnRerun.NEW_REVISION:
        world.begin(d, day(1), owner("again"))
    done = skip(world, days(1, 3))
    assert ([published.interval for published in done.published], done.left) == ([day(2)], (day(1), day(3)))


@pytest.mark.parametrize("on_rerun", list(OnRerun))
def test_skipped_epoch_can_be_run_later(world: World, on_rerun: OnRerun) -> None:
    """R5: whatever the job does with epochs that it has computed; a run is not told that all is done."""
    d = world.job("d", on_rerun=on_rerun)
    world.run(d, day(2), [2])
    skip(world, days(1, 1))
    assert published_epochs(world.store, d, [day(1)], owner()) == []
    refuse_reruns(world.store, d, [day(1), day(3)], owner("manual"))
    assert world.run(d, day(1), [7]).revision == 2
    assert world.rows("d") == {"d": [(1, 7), (2, 2)]}
    assert explain(world.store, DOMAIN, "d", day(1)).state is EpochState.COMMIT


def test_skipped_epoch_with_a_reader_stays_skipped(world: World) -> None:
    """R5, R18: a reader of the gap keeps it as it was, like any other input."""
    d, e = world.job("d"), world.job("e", inputs=[world.table("d")])
    world.run(d, day(2), [2])
    skip(world, days(1, 1))
    world.run(e, day(1), [])
    with pytest.raises(DependentReaders):
        world.begin(d, day(1))


def test_inputs_and_checks_hold_no_skip_back(world: World) -> None:
    """R5, R14: the reason why it is skipped may be that nothing comes, and too few rows are its point."""
    job = world.job(
        "d", inputs=[world.table("never"), state(world.table("other"))], checks=[row_count("d", at_least=1)]
    )
    world.coordinator.register(job)
    with pytest.raises(NotReady):
        world.begin(job, day(1))
    table = world.table("d")
    world.formats[table.format].create(table, rows([1]).schema)
    (published,) = skip(world, days(1, 1)).published
    assert published.csn == 1
    assert world.rows("d") == {"d": []}


def test_skip_keeps_the_state_of_a_full_table(table_world: World) -> None:
    """R5: no skip declares a whole state empty; a job that builds on its past goes on from there."""
    world = table_world
    full = world.table("f", kind=TableKind.FULL)
    job = world.job("f", [full], inputs=[previous(full)])
    world.run(job, day(1), [1, 2])
    with pytest.raises(NotReady, match="f: needs"):
        skip(world, days(3, 3), "f")
    skip(world, days(2, 3), "f")
    assert world.rows("f") == {"f": [(3, 1), (3, 2)]}
    assert world.rows("f", at=barrier(2)) == {"f": [(2, 1), (2, 2)]}
    attempt = world.begin(job, day(4))
    found = read_rows(world.coordinator, attempt, "f")
    assert found is not None
    assert found.column("value").to_pylist() == [1, 2]
    with pytest.raises(DependentReaders, match="f .* read f"):
        world.begin(job, day(1), owner("again"))


def test_chg5_skip_and_correct(table_world: World) -> None:
    """R5, R18: a copy depends on the epoch before it; once the skipped epoch is computed, that may be corrected."""
    world = table_world
    table = world.table("f", kind=TableKind.FULL)
    job = world.job("f", [table])
    for number in (1, 2):
        world.run(job, day(number), [10 * number])
    world.coordinator.skip(DOMAIN, "f", Interval(barrier(2), barrier(4)), "holiday", by="me")
    before = world.exactly()
    with pytest.raises(DependentReaders, match=r"f \[2024-01-03.*skipped epoch"):
        world.begin(job, day(2), owner("cleared"))
    assert world.exactly() == before
    with pytest.raises(DependentReaders, match=r"f \[2024-01-04"):
        world.begin(job, day(3), owner("computed"))
    for number in (4, 3, 2):
        world.run(job, day(number), [number], owner("computed"))
    assert world.rows("f", at=barrier(2)) == {"f": [(2, 2)]}


def test_chg5_a_correction_while_it_is_copied(world: World) -> None:
    """R13: of a copy and a correction the first commit wins."""
    job = world.job("f", [world.table("f", kind=TableKind.FULL)])
    for number in (1, 2):
        world.run(job, day(number), [10 * number])
    correction = world.begin(job, day(2), owner("cleared"))
    world.write(correction, [99])
    world.coordinator.skip(DOMAIN, "f", day(3), "holiday", by="me")
    with pytest.raises(DependentReaders):
        world.coordinator.publish(correction)
    assert world.rows("f") == {"f": [(3, 20)]}


def test_the_first_epochs_of_a_full_table_are_skipped_empty(world: World) -> None:
    """R5: before its first epoch there was nothing."""
    full = world.table("f", kind=TableKind.FULL)
    job = world.job("f", [full])
    world.run(job, day(2), [2])
    skip(world, days(1, 1), "f")
    assert world.rows("f", at=barrier(1)) == {"f": []}
    assert world.rows("f") == {"f": [(2, 2)]}


def test_a_copy_needs_the_epoch_before_alone(world: World) -> None:
    """R5: a full table's copy is made although earlier epochs are missing, and not before there is what it copies."""
    full = world.table("f", kind=TableKind.FULL)
    job = world.job("f", [full])
    world.run(job, day(1), [1])
    world.run(job, day(3), [3])
    with pytest.raises(NotReady, match="f: needs"):
        skip(world, days(5, 5), "f")
    skip(world, days(4, 4), "f")
    world.run(job, day(2), [2])
    assert world.rows("f") == {"f": [(4, 3)]}


@pytest.mark.parametrize("ends", ["run", "skipped"])
def test_chg3_a_copy_below_the_origin_makes_no_hole_permanent(table_world: World, ends: str) -> None:
    """R5, R18: it depends on the epoch that it copies, not on where its table begins."""
    world = table_world
    job = world.job("f", [world.table("f", kind=TableKind.FULL)], origin=None)
    for number in (5, 2):
        world.run(job, day(number), [number])
    skip(world, days(3, 3), "f")
    assert world.rows("f") == {"f": [(5, 5)]}
    if ends == "run":
        world.run(job, day(4), [4])
    else:
        skip(world, days(4, 4), "f")
    assert world.rows("f", at=barrier(3)) == {"f": [(3, 2)]}
    assert world.rows("f", at=barrier(4)) == {"f": [(4, 4 if ends == "run" else 2)]}
    with pytest.raises(DependentReaders, match="f .* read f"):
        world.begin(job, day(2), owner("cleared"))


def test_chg3_a_hole_that_is_ended_while_its_lower_part_is_copied(world: World) -> None:
    """R5, R13, R18: whichever of the two commits first, both do."""
    job = world.job("f", [world.table("f", kind=TableKind.FULL)], origin=None)
    for number in (5, 2):
        world.run(job, day(number), [number])
    attempt = world.begin(job, day(4))
    world.write(attempt, [4])
    skip(world, days(3, 3), "f")
    world.coordinator.publish(attempt)
    assert world.rows("f", at=barrier(3)) == {"f": [(3, 2)]}


def test_a_live_attempt_is_not_skipped_over(world: World) -> None:
    """R5, R10: it is told who computes it; a silent one is fenced, and its output deleted."""
    d = world.job("d")
    world.run(d, day(3), [3])
    attempt = world.begin(d, day(2))
    write_rows(world.coordinator, attempt, "d", rows([2]))
    with pytest.raises(EpochBusy):
        skip(world, days(1, 2))
    assert explain(world.store, DOMAIN, "d", day(1)).state is EpochState.SKIPPED
    world.clock.advance(PAST_TTL)
    assert [published.interval for published in skip(world, days(1, 2)).published] == [day(2)]
    assert world.staged() == []
    answer = world.coordinator.begin(d, day(2), attempt.owner)
    assert not isinstance(answer, AlreadyCommitted)


def test_a_skip_takes_no_inputs_over(world: World) -> None:
    """R5, R18: what a silent attempt was to read, the skipped epoch has not read: it may be computed again."""
    source, reader = world.job("s"), world.job("d", inputs=[world.table("s")])
    for number in (1, 2):
        world.run(source, day(number), [number])
    world.run(reader, day(2), [2])
    world.begin(reader, day(1))
    world.clock.advance(PAST_TTL)
    skip(world, days(1, 1))
    assert world.run(source, day(1), [10], owner("again")).revision == 2


def test_a_skip_that_died_leaves_no_inputs_to_the_run_after_it(world: World) -> None:
    """R5, R13: what a skip read is not what the job declares to read."""
    full = world.table("f", kind=TableKind.FULL)
    job = world.job("f", [full], inputs=[previous(full, on_upstream_revision="ignore")])
    world.run(job, day(1), [1])
    Begin(world.coordinator.context, job, day(2), owner("skip"), {}, 1, skips=WHY).run()
    world.clock.advance(PAST_TTL)
    (read,) = world.begin(job, day(2)).inputs
    assert read.on_upstream_revision is OnUpstreamRevision.IGNORE


BAD: dict[str, tuple[Any, str]] = {
    "no reason": (lambda world: world.coordinator.skip(DOMAIN, "d", day(1), " ", by="ada"), "reason"),
    "no author": (lambda world: world.coordinator.skip(DOMAIN, "d", day(1), WHY, by=""), "by"),
    "half an epoch": (lambda world: skip(world, Interval(barrier(0), barrier(0.5))), "end"),
    "before the origin": (lambda world: skip(world, day(0)), "interval"),
    "the future": (lambda world: skip(world, day(100_000)), "interval"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_a_bad_skip_names_its_field_and_writes_nothing(world: World, case: str) -> None:
    """R5: nothing is skipped by mistake."""
    act, field = BAD[case]
    world.run(world.job("d"), day(2), [2])
    before = world.exactly()
    with pytest.raises(InvalidInput) as refused:
        act(world)
    assert refused.value.details["field"] == field
    assert world.exactly() == before


def test_skip_of_unknown_jobs_and_tables(world: World) -> None:
    """R5: a job that never ran, and one that never wrote."""
    with pytest.raises(UnknownName):
        skip(world, day(1))
    world.coordinator.register(world.job("d"))
    with pytest.raises(InvalidInput, match="no columns yet") as refused:
        skip(world, day(1))
    assert "run the job for any other epoch first, then skip this one" in refused.value.next_step
    world.coordinator.register(world.job("begins anywhere", [world.table("any")], origin=None))
    with pytest.raises(InvalidInput, match="no columns yet") as refused:
        skip(world, day(1), "begins anywhere")
    assert "nothing waits for those before" in refused.value.next_step
    table = world.table("past")
    world.coordinator.register(world.job("past", [table], inputs=[previous(table)]))
    with pytest.raises(InvalidInput, match="no columns yet") as refused:
        skip(world, day(1), "past")  # no later epoch can run first
    assert "declare the job's origin where its first rows come" in refused.value.next_step


def test_a_second_table_that_was_never_written_is_named(world: World) -> None:
    """R5: before anything is begun; one run of the job later its epochs can be skipped."""
    world.run(world.job("d"), day(1))
    both = world.job("d", [world.table("d"), world.table("second")])
    world.coordinator.register(both)
    before = world.exactly()
    with pytest.raises(InvalidInput, match="'second' has no columns yet"):
        skip(world, day(2))
    assert world.exactly() == before
    world.run(both, day(3))
    assert len(skip(world, day(2)).published) == 1


@pytest.mark.parametrize("lost", range(5))
def test_a_lost_reply_to_a_skip_is_settled(world: World, lost: int) -> None:
    """R5, R15: whichever write gets no answer, each epoch is skipped once."""
    world.run(world.job("d"), day(2), [2])
    changes: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if call.method == "transact":
            changes.append(call)
        return Fault.REPLY_LOST if call.method == "transact" and len(changes) == lost + 1 else None

    worker = world.worker(FaultyStore(world.store, plan))
    worker.skip(DOMAIN, "d", day(1), WHY, by="ada")
    assert [commit.record.members[0].interval for commit in world.commits()] == [day(2), day(1)]


@pytest.mark.parametrize("sent", [True, False])
def test_a_skip_that_hears_nothing_says_so_and_is_finished_by_the_next(world: World, sent: bool) -> None:
    """R5, R15: no user is told that it is done, and what may have been published is not taken back."""
    world.run(world.job("d"), day(2), [2])
    silent: list[Call] = []

    def plan(call: Call) -> Fault | None:
        """The store falls silent at the change that publishes; it may have reached it."""
        changes = [request for request in store.calls if request.method == "transact"]
        if silent:
            return Fault.REQUEST_LOST
        if call.method != "transact" or len(changes) < whole:
            return None
        silent.append(call)
        return Fault.REPLY_LOST if sent else Fault.REQUEST_LOST

    whole = len(writes_of_a_skip(world, day(1)))
    store = FaultyStore(world.store, plan)
    with pytest.raises(OutcomeUnknown if sent else StoreUnavailable):
        world.worker(store).skip(DOMAIN, "d", day(3), WHY, by="ada")
    assert len(world.commits()) == 2 + sent
    done = skip(world, day(3))
    assert (len(done.published), done.left) == ((0, (day(3),)) if sent else (1, ()))
    assert [commit.record.members[0].interval for commit in world.commits()] == [day(2), day(1), day(3)]


def writes_of_a_skip(world: World, epoch: Interval) -> list[Call]:
    """Skip *epoch* and return the changes that it made."""
    store = FaultyStore(world.store, lambda _: None)
    world.worker(store).skip(DOMAIN, "d", epoch, WHY, by="ada")
    return [call for call in store.calls if call.method == "transact"]
