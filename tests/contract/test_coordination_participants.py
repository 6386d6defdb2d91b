"""Several writers of one attempt, each with tries of its own: ATT15 on each store, and the corners of joining (R10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from airflow_provider.coordination.attempts.join import Join
from airflow_provider.coordination.attempts.resume import Begun, resume
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, EpochState
from airflow_provider.domain.errors import (
    CheckFailed,
    Conflict,
    EpochBusy,
    Fenced,
    InvalidInput,
    LeaseExpired,
    NotReady,
)
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.participation import MOST_PARTICIPANTS
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Kind
from airflow_provider.domain.topology import Job
from airflow_provider.testing.arrow_attempts import stage_rows
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, day, owner, rows, side_by_side
from tests.contract.interruptions import interrupted

MAPPED = 3


def begin(world: World, try_number: int = 1, **options: object) -> Attempt:
    """Begin an attempt with three writers, of two tables."""
    job = world.job("j", [world.table("d"), world.table("d2")], **options)
    return world.begin(job, day(1), owner(try_number=try_number), participants=MAPPED)


def stage_late(world: World, writer: Attempt, value: int) -> Callable[[], None]:
    """Stage a row for "d", and return what reports it."""
    staged = stage_rows(world.coordinator, writer, "d", rows([value]))
    return lambda: world.coordinator.written(writer, "d", staged)


def test_att15_siblings(table_world: World) -> None:
    """R10: mapped writers of one attempt; one is retried while the others run: no other one is harmed, and each row of
    the retried one is there once.
    """
    world = table_world
    attempt = begin(world)
    first, second, third = (world.coordinator.join(attempt, number, owner()) for number in range(MAPPED))
    world.write(first, [1])
    in_flight = stage_late(world, third, 3)
    world.write(second, [20], sinks=["d"])
    late = stage_rows(world.coordinator, second, "d2", rows([20]))
    with pytest.raises(InvalidInput, match="not WRITTEN"):
        world.coordinator.publish(attempt)
    siblings = world.data() - {uri for uri in world.data() if "-p1-" in uri}

    retry = world.coordinator.join(attempt, 1, owner(try_number=2))
    assert (retry.participant, retry.participant_attempt, retry.token) == (1, 2, attempt.token)
    assert world.data() == siblings, "the retry deletes what its own first try staged, and nothing else"
    before = world.exactly()
    for report in (
        lambda: world.coordinator.written(second, "d2", late),
        lambda: world.coordinator.processed(second, "d2"),
        lambda: world.coordinator.heartbeat(second),
        lambda: world.coordinator.join(attempt, 1, owner()),
    ):
        with pytest.raises(Fenced, match="participant 1"):
            report()
    assert world.exactly() == before
    in_flight()
    world.write(third, [3], sinks=["d2"])
    assert world.coordinator.heartbeat(third) == attempt.ttl
    with pytest.raises(InvalidInput, match="not WRITTEN"):
        world.coordinator.publish(attempt)
    world.write(retry, [2])
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    whole = [(1, 1), (1, 2), (1, 3)]
    assert world.rows("d", "d2") == {"d": whole, "d2": whole}
    assert world.staged() == []


def test_att15_siblings_of_a_retry_that_wrote_in_full(world: World) -> None:
    """R10: the first try had WRITTEN everything; its retry replaces it, and what it replaces is not published."""
    attempt = begin(world)
    for number in range(MAPPED):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    retry = world.coordinator.join(attempt, 2, owner(try_number=2))
    with pytest.raises(InvalidInput, match="not WRITTEN"):
        world.coordinator.publish(attempt)
    with pytest.raises(NotReady):
        world.rows("d", level=Level.READ_UNCOMMITTED)
    world.write(retry, [20])
    world.coordinator.publish(attempt)
    whole = [(1, 0), (1, 1), (1, 20)]
    assert world.rows("d", "d2") == {"d": whole, "d2": whole}
    assert world.staged() == []


def test_of_two_requests_of_one_try_the_later_goes_on(world: World) -> None:
    """R10, R15: the earlier one may come once more after a lost reply, and does not fence what came after it."""
    attempt = begin(world)
    early, late = (replace(owner(), request_id=name) for name in ("early", "late"))
    with_request(world, attempt, early)
    last = with_request(world, attempt, late)
    with pytest.raises(Fenced, match="participant 1"):
        with_request(world, attempt, early)
    assert with_request(world, attempt, late) == last
    world.write(last, [2])


def with_request(world: World, attempt: Attempt, by: Owner) -> Attempt:
    """Join as participant 1, by a request that may have been made before."""
    return Join(world.coordinator.context, attempt, 1, by).run()


def test_a_retry_that_joins_before_the_failed_check_is_heard(world: World) -> None:
    """R10, R14: what the checks refused is replaced by now: the attempt goes on, and the new rows are checked."""
    job = world.job("j", [world.table("d")], checks=[row_count("d", at_least=3)])
    attempt = world.begin(job, day(1), participants=2)
    for number in range(2):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    retry: list[Attempt] = []

    def begin_again() -> None:
        retry.append(world.coordinator.join(attempt, 1, owner(try_number=2)))

    with pytest.raises(Conflict, match="participant 1 was begun again"):
        interrupted(world, begin_again, number=1).check(attempt)
    world.write(retry[0], [2, 3])
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(1, 0), (1, 2), (1, 3)]}


def test_a_failed_check_names_the_places_of_the_newest_tries(world: World) -> None:
    """R10, R14: what a retry has replaced is deleted, so that no user can look at it."""
    job = world.job("j", [world.table("d")], checks=[row_count("d", at_least=9)])
    attempt = world.begin(job, day(1), participants=2)
    for number, try_number in ((0, 1), (1, 1), (1, 2)):
        world.write(world.coordinator.join(attempt, number, owner(try_number=try_number)), [number])
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(attempt)
    kept = world.staged()
    assert [sum(uri.startswith(place) for uri in kept) for place in told.value.places] == [1, 1]
    assert explain(world.store, DOMAIN, "j", day(1)).places == told.value.places


def test_a_retry_races_the_publish(world: World) -> None:
    """R10, R2: the retry is in time, and nothing is published without it; or it is told that the epoch is over."""
    for epoch in range(1, 9):
        job = world.job("j", [world.table("d")])
        attempt = world.begin(job, day(epoch), participants=2)
        for number in range(2):
            world.write(world.coordinator.join(attempt, number, owner()), [number])
        publish = partial(world.coordinator.publish, attempt)
        join = partial(world.worker(seed=epoch).join, attempt, 1, owner(try_number=2))
        published, retry = side_by_side(publish, join)
        if isinstance(retry, Attempt):
            assert isinstance(published, InvalidInput), published
            assert "not WRITTEN" in str(published)
            world.write(retry, [1])
            world.coordinator.publish(attempt)
        else:
            assert isinstance(retry, Fenced), retry
        found = world.rows("d")["d"]
        assert [value for number, value in found if number == epoch] == [0, 1]
    assert world.staged() == []


def test_a_retry_that_deletes_its_earlier_try_while_it_is_published(world: World) -> None:
    """R10: what is missing was the retry's to delete: its part is not WRITTEN any more, and nothing is lost."""
    job = world.job("j", [world.table("d")])
    attempt = world.begin(job, day(1), participants=2)
    for number in range(2):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    tables = world.formats[world.table_format]
    verify, retries = tables.verify, []

    def late(*output: object) -> None:
        if not retries:
            retries.append(world.worker().join(attempt, 1, owner(try_number=2)))
        verify(*output)  # type: ignore[arg-type]

    tables.verify = late  # type: ignore[method-assign, assignment]
    with pytest.raises(InvalidInput, match="not WRITTEN"):
        world.coordinator.publish(attempt)
    world.write(retries[0], [1])
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(1, 0), (1, 1)]}


def test_a_participant_that_began_again_has_written_nothing(world: World) -> None:
    """R10: PRECOMMIT, which people are shown, needs the newest try of each."""
    attempt = begin(world)
    states = []
    for number, try_number in ((0, 1), (1, 1), (2, 1), (1, 2)):
        writer = world.coordinator.join(attempt, number, owner(try_number=try_number))
        states.append(explain(world.store, DOMAIN, "j", day(1)).state)
        world.write(writer, [number])
        states.append(explain(world.store, DOMAIN, "j", day(1)).state)
    assert states == [EpochState.OPEN] * 5 + [EpochState.PRECOMMIT, EpochState.OPEN, EpochState.PRECOMMIT]


def test_a_newer_attempt_fences_all_participants_and_undoes_all_their_tries(world: World) -> None:
    """R10, R16: what every try of every participant staged is deleted, also what a fenced one staged last."""
    attempt = begin(world)
    first = world.coordinator.join(attempt, 0, owner())
    second = world.coordinator.join(attempt, 0, owner(try_number=2))
    sibling = world.coordinator.join(attempt, 1, owner())
    world.write(second, [1])
    world.write(sibling, [2])
    stage_rows(world.coordinator, first, "d", rows([3]))
    assert len(world.data()) == 5
    begin(world, try_number=2)
    assert world.data() == set()
    for writer in (second, sibling):
        with pytest.raises(Fenced, match="newest token"):
            world.coordinator.heartbeat(writer)
    with pytest.raises(Fenced, match="newest token"):
        world.coordinator.join(attempt, 2, owner())


def test_a_try_deletes_staged_output_of_all_earlier_tries(world: World) -> None:
    """R10: also what the first one wrote after the second had joined."""
    attempt = begin(world)
    zombie = world.coordinator.join(attempt, 0, owner())
    world.coordinator.join(attempt, 0, owner(try_number=2))
    stage_rows(world.coordinator, zombie, "d", rows([1]))
    world.coordinator.join(attempt, 0, owner(try_number=3))
    assert world.data() == set()


def test_rows_of_all_participants_are_counted_together(world: World) -> None:
    """R10: the slice and the commit have the rows of all of them."""
    attempt = begin(world)
    for number in range(MAPPED):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    world.coordinator.publish(attempt)
    (found,) = world.store.scan(DOMAIN, Kind.SLICE, "d")
    assert (found.record.rows, found.record.files) == (MAPPED, MAPPED)
    assert [delta.rows for delta in world.commits()[0].record.tables] == [MAPPED, MAPPED]


def test_an_abort_deletes_staged_output_of_all_participants(world: World) -> None:
    attempt = begin(world)
    for number in range(MAPPED):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    world.coordinator.abort(attempt, "given up")
    assert world.data() == set()


def test_a_participant_ends_nothing_for_the_others(world: World) -> None:
    """R10: only the task that began aborts, checks, completes and publishes; a participant joins before it writes."""
    attempt = begin(world)
    writer = world.coordinator.join(attempt, 0, owner())
    world.write(writer, [1])
    before = world.exactly()
    own = world.coordinator
    for call in (own.publish, own.complete, own.check, lambda writing: own.abort(writing, "no")):
        with pytest.raises(InvalidInput, match="as begin returned it"):
            call(writer)
    with pytest.raises(InvalidInput, match="join the attempt"):
        own.processed(attempt, "d")
    for number in (-1, MAPPED, "1"):
        with pytest.raises(InvalidInput, match="0 to 2"):
            own.join(attempt, number, owner())  # type: ignore[arg-type]
    assert world.exactly() == before
    alone = world.begin(world.job("alone"), day(1))
    with pytest.raises(InvalidInput, match="one writer"):
        own.join(alone, 0, owner())
    for number in (0, MOST_PARTICIPANTS + 1):
        with pytest.raises(InvalidInput, match=f"participants.* from 1 to {MOST_PARTICIPANTS}"):
            world.begin(world.job("nobody"), day(1), participants=number)
    assert world.coordinator.epoch(DOMAIN, JobName("nobody"), day(1)) is None


def test_participants_cannot_join_complete_or_checked_output(world: World) -> None:
    """R10, R14, R16: once the output is checked or adopted, no part of it changes any more."""
    checked = begin(world, checks=[row_count("d", at_least=1)])
    for number in range(MAPPED):
        world.write(world.coordinator.join(checked, number, owner()), [number])
    world.coordinator.check(checked)
    with pytest.raises(Conflict, match="too late"):
        world.coordinator.join(checked, 0, owner(try_number=2))
    world.coordinator.complete(checked)
    adopting = begin(world, try_number=2, checks=[row_count("d", at_least=1)])
    assert adopting.adopted
    assert explain(world.store, DOMAIN, "j", day(1)).state is EpochState.PRECOMMIT
    with pytest.raises(InvalidInput, match="is complete"):
        world.coordinator.join(adopting, 0, owner(try_number=2))
    world.coordinator.publish(adopting)
    whole = [(1, 0), (1, 1), (1, 2)]
    assert world.rows("d", "d2") == {"d": whole, "d2": whole}


@pytest.mark.parametrize("decide", [EpochService.complete, EpochService.check])
def test_join_is_refused_if_the_output_is_completed_meanwhile(
    world: World, decide: Callable[[EpochService, Attempt], None]
) -> None:
    """R10: the output is declared complete, or checked, between a try's look at the log and its join."""
    attempt = begin(world, checks=[row_count("d", at_least=1)])
    for number in range(MAPPED):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    late = interrupted(world, lambda: decide(world.coordinator, attempt))
    with pytest.raises(Conflict, match="too late"):
        late.join(attempt, 0, owner(try_number=2))
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(1, 0), (1, 1), (1, 2)]}


def test_only_whole_sets_of_newest_tries_are_adopted(world: World) -> None:
    """R10, R16: a participant that began again and died leaves nothing to adopt."""
    attempt = begin(world)
    for number in range(MAPPED):
        world.write(world.coordinator.join(attempt, number, owner()), [number])
    world.coordinator.join(attempt, 1, owner(try_number=2))
    with pytest.raises(NotReady, match="d by participants 1; d2 by participants 1") as told:
        world.coordinator.complete(attempt)
    assert [(entry.name, entry.participants) for entry in told.value.missing] == [("d", (1,)), ("d2", (1,))]
    assert not begin(world, try_number=2).adopted
    assert world.data() == set()
    other = world.job("k", [world.table("e")])
    shared = world.begin(other, day(1), participants=2)
    for number in range(2):
        world.write(world.coordinator.join(shared, number, owner()), [number])
    world.coordinator.complete(shared)
    assert not world.begin(other, day(1), owner(try_number=2), participants=1).adopted


def test_all_participants_join_at_once(world: World) -> None:
    """R10: tries of one participant that race are numbered without gaps; one of them is the newest."""
    job = world.job("j", [world.table("d")])
    attempt = world.begin(job, day(1), participants=2)
    workers = [world.worker(seed=number) for number in range(6)]
    joins = [partial(worker.join, attempt, number % 2, owner()) for number, worker in enumerate(workers)]
    joined = side_by_side(*joins)
    tries = [
        (answer.participant, answer.participant_attempt) for answer in joined if isinstance(answer, Attempt)
    ]
    assert all(isinstance(answer, Attempt | Fenced) for answer in joined), joined
    assert len(set(tries)) == len(tries)
    newest = {
        number: max(tried for participant, tried in tries if participant == number) for number in range(2)
    }
    log = world.coordinator.barriers(DOMAIN, attempt.job, attempt.interval)
    assert sorted(
        (entry.record.participant, entry.record.participant_attempt)
        for entry in log
        if entry.record.participant_attempt
    ) == [(number, tried) for number in range(2) for tried in range(1, newest[number] + 1)]
    for answer in joined:
        if isinstance(answer, Attempt) and answer.participant_attempt == newest[answer.participant]:
            world.write(answer, [answer.participant])
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(1, 0), (1, 1)]}


SHARED_TTL = DEFAULTS.shared_lock_ttl


def test_an_attempt_is_taken_up_by_its_name(world: World) -> None:
    """R10, R15: another process gets what begin returned, or is told that it is published, or over."""
    reads = world.job("reader", [world.table("e")], inputs=[world.table("d")])
    world.run(world.job("j", [world.table("d")]), day(1))
    attempt = world.begin(reads, day(1), participants=2, shared_ttl=SHARED_TTL)
    name = Begun.of(attempt)
    before = world.exactly()
    assert resume(world.coordinator.context, reads, name) == attempt
    assert world.exactly() == before
    for number in range(2):
        world.write(world.coordinator.join(resume_open(world, reads, name), number, owner()), [number])
    world.coordinator.complete(attempt)
    published = world.coordinator.publish(resume_open(world, reads, name))
    told = resume(world.coordinator.context, reads, name)
    assert isinstance(told, AlreadyCommitted)
    assert (told.csn, told.revision, told.change_set) == (published.csn, 1, published.change_set)
    assert resume(world.coordinator.context, reads, Begun.of(told)) == told
    world.run(reads, day(1), by=owner(generation=1))
    assert resume(world.coordinator.context, reads, name) == told, (
        "a later revision changes nothing of what was asked"
    )


def resume_open(world: World, job: Job, name: Begun) -> Attempt:
    attempt = resume(world.coordinator.context, job, name)
    assert isinstance(attempt, Attempt)
    return attempt


def test_attempt_with_ended_claims_is_resumed_and_its_heartbeat_refused(world: World) -> None:
    """R10, R23: no try has begun the epoch again, so that it is not over; its first heartbeat is refused."""
    job = world.job("j", [world.table("d")])
    name = Begun.of(world.begin(job, day(1), participants=2, shared_ttl=SHARED_TTL))
    world.clock.advance(SHARED_TTL)
    assert len(world.retention.vacuum(DOMAIN).ended) == 1
    attempt = resume_open(world, job, name)
    assert attempt.ttl == DEFAULTS.lock_ttl
    with pytest.raises(LeaseExpired, match="was silent"):
        world.coordinator.heartbeat(attempt)


def test_an_attempt_that_is_over_is_not_taken_up(world: World) -> None:
    """R10: superseded, ended, or of another store: told by whom and why, and nothing is changed."""
    job = world.job("j", [world.table("d"), world.table("d2")])
    name = Begun.of(begin(world))
    begin(world, try_number=2)
    with pytest.raises(Fenced, match="newest one has token 2, of .*try 2"):
        resume(world.coordinator.context, job, name)
    newest = begin(world, try_number=3)
    world.coordinator.abort(newest, "given up")
    with pytest.raises(Fenced, match="it has ended: given up"):
        resume(world.coordinator.context, job, Begun.of(newest))
    for other in (replace(name, incarnation="elsewhere"), replace(name, job=JobName("nobody"))):
        with pytest.raises(Fenced, match="another store|there is none"):
            resume(world.coordinator.context, job, other)


def test_a_single_participant_of_its_own_is_retried_like_one_of_many(world: World) -> None:
    """R10, R16: it joins; its retry replaces what it wrote; a new attempt undoes all of its tries."""
    job = world.job("j", [world.table("d")])
    attempt = world.begin(job, day(1), participants=1, shared_ttl=SHARED_TTL)
    with pytest.raises(InvalidInput, match="join the attempt"):
        world.coordinator.processed(attempt, "d")
    zombie = world.coordinator.join(attempt, 0, owner())
    report = stage_late(world, zombie, 1)
    retry = world.coordinator.join(attempt, 0, owner(try_number=2))
    world.write(retry, [2])
    with pytest.raises(Fenced, match="participant 0"):
        report()
    again = world.begin(job, day(1), owner(try_number=2), participants=1, shared_ttl=SHARED_TTL)
    assert world.data() == set()
    world.write(world.coordinator.join(again, 0, owner()), [3])
    world.coordinator.complete(again)
    assert not world.begin(job, day(1), owner(try_number=3)).adopted, "its only writer reports elsewhere"
    last = world.begin(job, day(1), owner(try_number=4), participants=1, shared_ttl=SHARED_TTL)
    world.write(world.coordinator.join(last, 0, owner()), [4])
    world.coordinator.complete(last)
    adopting = world.begin(job, day(1), owner(try_number=5), participants=1, shared_ttl=SHARED_TTL)
    assert adopting.adopted
    world.coordinator.publish(adopting)
    assert world.rows("d") == {"d": [(1, 4)]}
    assert world.staged() == []


def test_participants_may_all_be_silent_while_they_wait_for_workers(world: World) -> None:
    """R10, R23: for as long as begin was told; each that works renews the claim of all, for as long again."""
    job = world.job("j", [world.table("d")])
    attempt = world.begin(job, day(1), participants=2, shared_ttl=SHARED_TTL)
    world.clock.advance(SHARED_TTL - PAST_TTL)
    with pytest.raises(EpochBusy):
        world.begin(job, day(1), owner("manual"))
    first = world.coordinator.join(attempt, 0, owner())
    assert world.coordinator.heartbeat(first) == SHARED_TTL
    world.clock.advance(SHARED_TTL - PAST_TTL)
    with pytest.raises(EpochBusy):
        world.begin(job, day(1), owner("manual"))
    world.clock.advance(PAST_TTL)
    world.begin(job, day(1), owner("manual"))
    with pytest.raises(Fenced, match="newest token"):
        world.coordinator.heartbeat(first)


@pytest.mark.parametrize("ttl", [timedelta(seconds=1), timedelta(days=400), 60, -SHARED_TTL])
def test_invalid_lock_ttl_is_refused(world: World, ttl: Any) -> None:
    job = world.job("j", [world.table("d")])
    with pytest.raises(InvalidInput, match="lock_ttl.*a timedelta from"):
        world.coordinator.begin(job, day(1), owner(), participants=2, shared_ttl=ttl)
    assert world.coordinator.epoch(DOMAIN, job.name, day(1)) is None
