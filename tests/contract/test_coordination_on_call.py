"""What people on call look at and do: open attempts and their end, and all that is recorded of one epoch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_provider.coordination.reading.bringers import refuse_failed, with_failures
from airflow_provider.coordination.reading.open_attempts import open_attempts
from airflow_provider.coordination.reading.wait import check
from airflow_provider.coordination.upkeep.end_attempt import end_attempt, open_attempt
from airflow_provider.coordination.upkeep.epoch_view import shown_epoch
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.epoch import Attempt, EpochState
from airflow_provider.domain.errors import (
    CheckFailed,
    EpochError,
    Fenced,
    InvalidInput,
    NotReady,
    UnknownName,
)
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.source_bounds import BoundFile, FileSource, SourceBounds
from airflow_provider.domain.topology import Job, increment
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner


def test_an_attempt_that_was_ended_by_hand_can_do_nothing_more(world: World) -> None:
    """R10: its program is fenced at whatever it does next; what it has staged is gone, and the next one begins."""
    job = world.job("raw")
    world.run(job, day(1))
    attempt = world.begin(job, day(2))
    world.write(attempt)
    assert world.staged()
    found = open_attempt(world.store, DOMAIN, "raw", day(2))
    assert (found.token, found.owner.run_id) == (attempt.token, "scheduled")
    end_attempt(world.coordinator.context, found, reason="stuck", by="ada")
    assert world.staged() == []
    calls: list[Callable[[], object]] = [
        lambda: world.coordinator.heartbeat(attempt),
        lambda: world.coordinator.complete(attempt),
        lambda: world.coordinator.publish(attempt),
    ]
    for call in calls:
        with pytest.raises(EpochError):
            call()
    assert world.rows("raw") == {"raw": [(1, 1)]}
    end_attempt(world.coordinator.context, found, reason="stuck", by="ada")  # a repetition changes nothing
    (ended,) = shown_epoch(world.store, DOMAIN, "raw", day(2)).attempts
    assert (ended.state, ended.log[-1].record.note) == (EpochState.ABORTED, "stuck (ada)")
    world.run(job, day(2), by=owner("again"))
    assert world.rows("raw") == {"raw": [(1, 1), (2, 1)]}


def a_newer_attempt(world: World, job: Job, attempt: Attempt) -> None:  # noqa: ARG001 - one of several
    world.begin(job, day(1), owner(try_number=2))


def its_own_commit(world: World, job: Job, attempt: Attempt) -> None:  # noqa: ARG001
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)


def its_own_failure(world: World, job: Job, attempt: Attempt) -> None:  # noqa: ARG001
    world.coordinator.abort(attempt, "SparkException")


@pytest.mark.parametrize("comes", [a_newer_attempt, its_own_commit, its_own_failure])
def test_only_the_attempt_that_was_shown_is_ended(
    world: World, comes: Callable[[World, Job, Attempt], None]
) -> None:
    """R10: what has happened since a person was asked is told, and stays."""
    job = world.job("raw")
    attempt = world.begin(job, day(1))
    world.write(attempt)
    shown = open_attempt(world.store, DOMAIN, "raw", day(1))
    comes(world, job, attempt)
    before = world.content()
    with pytest.raises(Fenced):
        end_attempt(world.coordinator.context, shown, reason="stuck", by="ada")
    assert world.content() == before


def test_what_is_not_open_is_not_ended(world: World) -> None:
    """R10: an epoch that has not begun, is committed, or has ended without a commit."""
    job = world.job("raw")
    world.run(job, day(1))
    world.coordinator.abort(world.begin(job, day(2)), "SparkException")
    for number in (1, 2, 3):
        with pytest.raises(InvalidInput):
            open_attempt(world.store, DOMAIN, "raw", day(number))
    with pytest.raises(UnknownName):
        open_attempt(world.store, DOMAIN, "nix", day(1))


def test_the_staged_epoch_of_a_restatement_is_not_ended(world: World) -> None:
    """R28: it ends with the restatement alone; while it is computed it is an attempt like others."""
    job, service = world.job("raw"), world.coordinator
    world.run(job, day(1))
    service.restatements.open(DOMAIN, ["raw"], day(1), name="again", reason="wrong", by="ada")
    attempt = service.begin_within("again", job, day(1), owner("again"))
    assert isinstance(attempt, Attempt)
    world.write(attempt, values=(2,))
    assert open_attempt(world.store, DOMAIN, "raw", day(1)).token == attempt.token
    service.complete(attempt)
    service.stage(attempt)
    with pytest.raises(InvalidInput, match="waits for restatement 'again'"):
        open_attempt(world.store, DOMAIN, "raw", day(1))
    service.restatements.publish(DOMAIN, "again")
    assert world.rows("raw") == {"raw": [(1, 2)]}


def test_open_attempts_are_told_with_owner_and_time_left(world: World) -> None:
    """R23: by the store's clock; silent ones stay until the next attempt takes over."""
    raw, other = world.job("raw"), world.job("other")
    world.run(raw, day(1))
    world.coordinator.abort(world.begin(raw, day(2)), "SparkException")
    world.begin(raw, day(3), owner("third"))
    world.begin(other, day(1), owner("first", try_number=2))
    now, found = open_attempts(world.store, DOMAIN)
    assert {(each.job, each.interval, each.owner.run_id) for each in found} == {
        ("raw", day(3), "third"),
        ("other", day(1), "first"),
    }
    for each in found:
        assert not each.is_silent
        assert each.begun <= each.renewed <= now < each.until
        assert each.left == each.until - now
    _, (only,) = open_attempts(world.store, DOMAIN, ["other"])
    assert (only.job, only.token, only.revision) == ("other", 1, 1)
    with pytest.raises(UnknownName):
        open_attempts(world.store, DOMAIN, ["nix"])


def test_an_epoch_is_shown_with_inputs_output_and_attempts(world: World) -> None:
    """Section 3: what each attempt did and when; of the newest commit what it has read and written."""
    feed = FileSource("feed", "/nowhere/{start:%Y-%m-%d}.csv")
    world.run(world.job("raw"), day(1))
    job = world.job(
        "clean", inputs=[increment(world.table("raw")), feed], checks=[row_count("clean", at_least=1)]
    )
    bounds = {"feed": SourceBounds(source="feed", files=(BoundFile(uri="/nowhere/1.csv", size_bytes=1),))}
    refused = world.begin(job, day(1), sources=bounds)
    world.write(refused, values=())
    with pytest.raises(CheckFailed):
        world.coordinator.publish(refused)
    attempt = world.begin(job, day(1), owner(try_number=2), sources=bounds)
    world.write(attempt, values=(1, 2))
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    found = shown_epoch(world.store, DOMAIN, "clean", day(1))
    assert found.committed is not None
    assert (found.committed.revision, found.csn, found.checks) == (1, 2, ("rows of clean at least 1",))
    ((slice_),) = found.slices
    assert (slice_.table, slice_.rows, slice_.revision, slice_.csn) == ("clean", 2, 1, 2)
    assert [(read.table, read.high, read.csn) for read in found.inputs] == [("raw", barrier(1), 1)]
    assert [file.uri for source in found.sources for file in source.files] == ["/nowhere/1.csv"]
    first, second = found.attempts
    assert (first.state, second.state) == (EpochState.CHECK_FAILED, EpochState.COMMIT)
    assert [finding.check for finding in first.findings] == ["rows of clean at least 1"]
    assert first.begun <= (first.ended or first.begun) <= second.begun
    assert not second.is_silent
    with pytest.raises(NotReady):
        shown_epoch(world.store, DOMAIN, "clean", day(2))


def test_an_epoch_of_a_job_that_is_not_registered_is_not_looked_for(world: World) -> None:
    """R6: that it has not begun would be waited for."""
    world.coordinator.register(world.job("raw"))
    with pytest.raises(UnknownName, match="'row'"):
        shown_epoch(world.store, DOMAIN, "row", day(1))


def test_what_has_failed_is_not_waited_for(world: World) -> None:
    """R6: a task that asks for it ends with the reason; an epoch after what it waits for may fail."""
    raw = world.job("raw")
    world.coordinator.register(raw)
    failing = world.begin(raw, day(1))
    lacking = check(world.store, DOMAIN, ["raw"], barrier(1))
    refuse_failed(with_failures(world.store, DOMAIN, lacking, [TableName("raw")]))
    world.coordinator.abort(failing, "the disk is full")
    told = with_failures(world.store, DOMAIN, lacking, [TableName("raw")])
    with pytest.raises(NotReady, match="of job raw failed in run scheduled of DAG dag: the disk is full"):
        refuse_failed(told)
    world.run(raw, day(1), by=owner("again"))
    world.coordinator.abort(world.begin(raw, day(2)), "it, too")
    refuse_failed(with_failures(world.store, DOMAIN, lacking, [TableName("raw")]))


def test_an_attempt_without_a_sign_is_shown_as_silent(world: World) -> None:
    """R23: and one that another has replaced is told apart from one that has ended."""
    job = world.job("raw")
    world.begin(job, day(1))
    world.begin(job, day(1), owner(try_number=2))
    first, second = shown_epoch(world.store, DOMAIN, "raw", day(1)).attempts
    assert (first.state, second.state, second.ended) == (EpochState.NOTHING, EpochState.OPEN, None)
    assert not second.is_silent
    if world.server is None:  # the clock of a server does not wait for us
        world.clock.advance(timedelta(hours=1))
        *_, second = shown_epoch(world.store, DOMAIN, "raw", day(1)).attempts
        assert second.is_silent
        _, (held,) = open_attempts(world.store, DOMAIN)
        assert (held.is_silent, held.left) == (True, timedelta())
