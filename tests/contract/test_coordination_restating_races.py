"""Restatements among others: normal runs, other restatements, crashes, lost messages, retention and operators (R28)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.attempts.resume import Begun
from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.cut import Level
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import (
    CheckFailed,
    Conflict,
    DependentReaders,
    EpochBusy,
    EpochError,
    Fenced,
    InvalidInput,
    LeaseExpired,
    NotReady,
    TopologyError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Job, increment, previous, state
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import Call, Fault, FaultyStore, Plan, at
from tests.contract.coordination_world import (
    DOMAIN,
    PAST_TTL,
    Backend,
    Rows,
    World,
    barrier,
    blurred,
    day,
    owner,
    rows,
)
from tests.contract.interruptions import Died, Interruption, interrupted, worker
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
    write,
)
from tests.contract.test_coordination_restating_kinds import members, run_all
from tests.contract.test_coordination_restoring import renewed

Jobs = tuple[Job, Job, Job]

OLD: Rows = {
    "b": [(1, 10), (2, 20), (3, 30)],
    "d": [(1, 11), (2, 21), (3, 31)],
    "t": [(1, 12), (2, 34), (3, 78)],
}
NEW: Rows = {
    "b": [(1, 10), (2, 1000), (3, 30)],
    "d": [(1, 11), (2, 1001), (3, 31)],
    "t": [(1, 12), (2, 1014), (3, 1058)],
}
WHY = {"reason": "no more", "by": "me"}
CLEARED = owner("restate", generation=1)


def planned(world: World, **options: Any) -> Jobs:
    """Three days of a cascade, and a restatement of the second."""
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    opened(world, "b", 2, **options)
    return jobs


def ready(world: World, **options: Any) -> Jobs:
    """The same with all members staged."""
    jobs = planned(world, **options)
    finished(world, jobs)
    return jobs


def finished(world: World, jobs: Jobs) -> None:
    """Compute the members that are not staged, or not any more, as their tasks do until nothing is left."""
    for job in jobs:
        for number in members(world).get(job.name, ()):
            answer = world.coordinator.begin_within(NAME, job, day(number), owner("restate"))
            if isinstance(answer, Attempt):
                if not answer.adopted:
                    write(world, answer, [1000] if (job.name, number) == ("b", 2) else None)
                world.coordinator.complete(answer)
                world.coordinator.stage(answer)


def operations(world: World) -> Restatements:
    return world.coordinator.restatements


def abandoned(world: World) -> None:
    operations(world).abandon(DOMAIN, NAME, **WHY)


def seen(world: World) -> Rows:
    return world.rows("b", "d", "t")


def states(world: World) -> dict[tuple[str, int], str]:
    """How far each member is."""
    found = operations(world).status(DOMAIN, NAME).members
    return {(one.job, (one.interval.end - barrier(0)).days): str(one.state) for one in found}


# --- members that are computed again ---------------------------------------------------------------------------------


def test_a_member_that_is_computed_again_makes_its_readers_outdated(table_world: World) -> None:
    """R28: what was staged from rows that are not published keeps all back, until it is computed again."""
    world = table_world
    base, daily, total = ready(world)
    restated(world, base, 2, [2000], CLEARED)
    assert states(world)["d", 2] == "outdated"
    with pytest.raises(Conflict, match="was computed again"):
        published(world)
    assert isinstance(world.coordinator.begin_within(NAME, total, day(2), owner("restate")), AlreadyStaged)
    restated(world, daily, 2)
    assert states(world)["t", 2] == "outdated"
    with pytest.raises(Conflict, match="was computed again"):
        published(world)
    assert seen(world) == OLD
    restated(world, total, 2)
    with pytest.raises(Conflict):
        published(world)
    restated(world, total, 3)
    published(world)
    assert world.rows("b", "d", "t")["t"] == [(1, 12), (2, 2014), (3, 2058)]
    assert sound(world)


@pytest.mark.parametrize("then", ["begun", "written", "staged", "aborted"])
def test_an_open_reader_of_a_member_that_is_computed_again(world: World, then: str) -> None:
    """R28: it may not read a mixture; if it had read everything before, it is staged, and outdated."""
    base, daily, _ = planned(world)
    restated(world, base, 2, [1000])
    reader = within(world, daily, 2)
    assert read(world, reader) == [1000]
    world.write(reader, [1001])
    again = within(world, base, 2, CLEARED)
    if then in ("written", "staged"):
        world.write(again, [2000])
    if then == "staged":
        world.coordinator.complete(again)
        world.coordinator.stage(again)
    if then == "aborted":
        world.coordinator.abort(again, "it failed")
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.input(reader, "b")
    world.coordinator.complete(reader)
    world.coordinator.stage(reader)
    with pytest.raises((Conflict, NotReady)):
        published(world)
    if then == "staged":
        assert states(world)["d", 2] == "outdated"
        assert read(world, within(world, daily, 2)) == [2000]
    else:
        with pytest.raises(NotReady):
            within(world, daily, 2)


def test_a_member_that_is_begun_while_its_input_is_being_staged(world: World) -> None:
    """R28: the inputs of a begin are what was staged when it read the store; its publish finds that they are older."""
    base, daily, _ = planned(world)
    restated(world, base, 2, [1000])
    slow = interrupted(world, lambda: restated(world, base, 2, [2000], CLEARED))
    reader = slow.begin_within(NAME, daily, day(2), owner("restate"))
    assert isinstance(reader, Attempt)
    with suppress(Conflict):
        world.coordinator.input(reader, "b")
    world.write(reader, [1001])
    world.coordinator.complete(reader)
    world.coordinator.stage(reader)
    assert states(world)["d", 2] == "outdated"
    with pytest.raises((Conflict, NotReady)):
        published(world)


@pytest.mark.parametrize("step", ["begun", "written", "complete"])
def test_a_member_whose_worker_dies_is_computed_by_its_retry(table_world: World, step: str) -> None:
    """R16, R28: complete output is adopted by the retry of its generation and staged; other output is thrown away."""
    world = table_world
    base, daily, total = planned(world)
    dead = within(world, base, 2)
    if step != "begun":
        world.write(dead, [1000])
    if step == "complete":
        world.coordinator.complete(dead)
    retry = within(world, base, 2, owner("restate", 2))
    assert retry.adopted == (step == "complete")
    with pytest.raises(Fenced):
        world.coordinator.stage(dead)
    if not retry.adopted:
        world.write(retry, [1000])
        world.coordinator.complete(retry)
    world.coordinator.stage(retry)
    finished(world, (base, daily, total))
    published(world)
    assert seen(world) == NEW
    assert sound(world)
    assert world.staged() == []


def test_a_member_is_checked_before_it_is_staged(world: World) -> None:
    """R14: a failed check ends the member's attempt; its readers wait, and a mended run goes on."""
    base = world.job("b", checks=[row_count("b", at_least=1)])
    daily = world.job("d", inputs=[increment(world.table("b"))])
    run_all(world, [base, daily], [1])
    opened(world, "b", 1)
    attempt = within(world, base, 1)
    world.write(attempt, [])
    world.coordinator.complete(attempt)
    with pytest.raises(CheckFailed):
        world.coordinator.stage(attempt)
    assert states(world)["b", 1] == "waiting"
    with pytest.raises(NotReady):
        within(world, daily, 1)
    restated(world, base, 1, [7])
    restated(world, daily, 1)
    published(world)
    assert world.rows("b", "d") == {"b": [(1, 7)], "d": [(1, 8)]}
    assert sound(world)


def test_staging_needs_the_end_of_the_code_and_all_tables(world: World) -> None:
    """R16: nothing is staged that a retry would not adopt."""
    base = world.job("b", [world.table("b"), world.table("c")])
    computed(world, base, 1, [1])
    opened(world, "b", 1)
    attempt = within(world, base, 1)
    world.write(attempt, [2], sinks=["b"])
    with pytest.raises(InvalidInput, match="not WRITTEN: c"):
        world.coordinator.stage(attempt)
    world.write(attempt, [2], sinks=["c"])
    with pytest.raises(InvalidInput, match="has not come to its end"):
        world.coordinator.stage(attempt)
    assert states(world)["b", 1] == "computing"
    normal = world.begin(world.job("other"), day(1))
    with pytest.raises(InvalidInput, match="within a restatement"):
        world.coordinator.stage(normal)


@pytest.mark.parametrize("call", ["abort", "heartbeat", "stage", "complete", "write"])
def test_the_worker_of_a_staged_member_changes_nothing_any_more(table_world: World, call: str) -> None:
    """R10, R28: what comes late from the worker that has staged it: the output stays, and is published."""
    world = table_world
    base, daily, total = planned(world)
    attempt = restated(world, base, 2, [1000])
    own = world.coordinator
    calls: dict[str, Callable[[], object]] = {
        "abort": lambda: own.abort(attempt, "the task failed behind it"),
        "heartbeat": lambda: own.heartbeat(attempt),
        "stage": lambda: own.stage(attempt),
        "complete": lambda: own.complete(attempt),
        "write": lambda: write_rows(own, attempt, "b", rows([1000, 1], attempt.token)),
    }
    with suppress(Fenced, InvalidInput):
        calls[call]()
    assert states(world)["b", 2] == "staged"
    finished(world, (base, daily, total))
    published(world)
    assert seen(world) == NEW
    assert sound(world)


def test_an_older_try_does_not_replace_what_a_newer_one_has_staged(world: World) -> None:
    """R10: also where the staged output is outdated: the newer try, or one after it, computes it again."""
    base, daily, _ = planned(world)
    restated(world, base, 2, [1000])
    restated(world, daily, 2, by=owner("restate", 3, generation=1))
    restated(world, base, 2, [2000], CLEARED)
    with pytest.raises(Fenced):
        world.coordinator.begin_within(NAME, daily, day(2), owner("restate", 1, generation=0))


def test_another_process_of_the_run_does_not_end_what_is_staged(world: World) -> None:
    """R10, R28: a process that resumes the attempt by its name, such as one that ends a killed task, keeps it, too."""
    base, _, _ = planned(world)
    resumed = world.coordinator.resume(base, Begun.of(restated(world, base, 2, [1000])))
    assert isinstance(resumed, Attempt)
    with suppress(Fenced):
        world.coordinator.abort(resumed, "the task was killed behind it")
    assert states(world)["b", 2] == "staged"


def test_lost_staged_files_keep_the_set_back(table_world: World) -> None:
    """I6: publish looks that the files of every member are there; computed again, the set is published."""
    world = table_world
    jobs = ready(world)
    lost = max(world.staged())
    world.lose(lost)
    with pytest.raises(Unavailable):
        published(world)
    assert len(world.commits()) == 9
    for job, numbers in zip(jobs, ([2], [2], [2, 3]), strict=True):
        for number in numbers:
            restated(world, job, number, [1000] if job.name == "b" else None, CLEARED)
    published(world)
    assert seen(world) == NEW
    assert sound(world)


# --- normal runs beside it -------------------------------------------------------------------------------------------


def test_an_epoch_that_reads_what_is_replaced_joins(table_world: World) -> None:
    """R18, R28: committed in the middle by a normal run, it becomes a member, is computed, and all is published."""
    world = table_world
    base, daily, total = ready(world, needs_approval=True)
    operations(world).approve(DOMAIN, NAME, output=operations(world).status(DOMAIN, NAME).output, by="boss")
    for job in (base, daily, total):
        computed(world, job, 4, [40] if job is base else None)
    assert world.rows("t")["t"][-1] == (4, 12 + 34 + 78 + 41 + 1)
    head = len(world.commits())
    with pytest.raises(NotReady, match="They are its members now") as refused:
        published(world)
    assert [(one.name, one.wanted) for one in refused.value.missing] == [("t", barrier(4))]
    assert members(world)["t"] == [2, 3, 4]
    with pytest.raises(NotReady):
        published(world)
    restated(world, total, 4)
    with pytest.raises(InvalidInput, match="boss has approved other rows"):
        published(world)
    operations(world).approve(DOMAIN, NAME, output=operations(world).status(DOMAIN, NAME).output, by="boss")
    assert published(world) == head + 1
    assert world.rows("t")["t"] == [*NEW["t"], (4, 12 + 1014 + 1058 + 41 + 1)]
    assert sound(world)


def test_a_chain_of_epochs_joins_at_once(world: World) -> None:
    """R28: new readers of readers, of a job that was not there before."""
    base, daily, total = ready(world)
    late = world.job("l", inputs=[state(world.table("t"))])
    latest = world.job("x", inputs=[increment(world.table("l")), increment(world.table("d"))])
    for number in (1, 2, 3):
        computed(world, late, number)
        computed(world, latest, number)
    with pytest.raises(NotReady, match="4 of|l .*x "):
        published(world)
    assert members(world) == {"b": [2], "d": [2], "t": [2, 3], "l": [2, 3], "x": [2, 3]}
    finished(world, (base, daily, total))
    for number in (2, 3):
        restated(world, late, number)
        restated(world, latest, number)
    published(world)
    assert sound(world)
    assert world.rows("l")["l"] == [(1, 13), (2, 12 + 1014 + 1), (3, 12 + 1014 + 1058 + 1)]


@pytest.mark.parametrize("number", range(4))
def test_a_reader_that_commits_during_the_publish_joins(world: World, number: int) -> None:
    """R18: wherever its commit comes between the publish's look and its transaction."""
    base, daily, total = ready(world)
    computed(world, base, 4, [40])
    computed(world, daily, 4)
    attempt = world.begin(total, day(4), owner("first"))
    write(world, attempt, None)
    name = "store.transact" if not number else "store.read"
    slow = interrupted(world, lambda: world.coordinator.publish(attempt), name, max(0, 4 * number - 1))
    with pytest.raises(NotReady, match="They are its members now"):
        slow.restatements.publish(DOMAIN, NAME)
    restated(world, total, 4)
    published(world)
    assert sound(world)


@pytest.mark.parametrize("policy", ["cascade", "ignore"])
def test_a_normal_attempt_across_the_publish(table_world: World, policy: str) -> None:
    """R13: what it has read was replaced: its next try reads the new rows; one that ignores revisions is published."""
    world = table_world
    base, daily, total = ready(world)
    edge = increment(world.table("d"), on_upstream_revision=policy)
    reader = world.job("r", inputs=[edge])
    computed(world, reader, 1)
    attempt = world.begin(reader, day(2), owner("first"))
    write(world, attempt, None)
    world.coordinator.complete(attempt)
    beside = world.begin(reader, day(3), owner("beside"))
    write(world, beside, None)
    csn = published(world)
    world.coordinator.publish(beside)
    if policy == "cascade":
        with pytest.raises(Conflict, match="inputs were computed again"):
            world.coordinator.publish(attempt)
        again = world.begin(reader, day(2), owner("first", 2))
        assert not again.adopted
        assert read(world, again) == [1001]
    else:
        world.coordinator.publish(attempt)
        assert [(one.table, one.csn) for one in world.cut("r").outdated] == [("r", csn)]
    assert sound(world)
    del base, daily, total


def test_a_normal_attempt_at_a_member_that_was_begun_before(world: World) -> None:
    """R28: the restatement waits for it; what it commits is replaced by what is computed then."""
    base, daily, total = cascade(world)
    run_all(world, [base, daily, total], [1, 2, 3])
    normal = world.begin(total, day(3), owner("again"))
    write(world, normal, [5])
    opened(world, "b", 2)
    restated(world, base, 2, [1000])
    restated(world, daily, 2)
    restated(world, total, 2)
    with pytest.raises(EpochBusy):
        within(world, total, 3)
    world.coordinator.publish(normal)
    restated(world, total, 3)
    published(world)
    assert seen(world) == NEW
    assert sound(world)


def test_a_normal_revision_of_a_member_that_is_not_begun(world: World) -> None:
    """R18, R28: the last of a chain may be computed again by itself; within the set it is the revision after that."""
    base, daily, total = planned(world)
    restated(world, base, 2, [1000])
    restated(world, daily, 2)
    computed(world, total, 3, [5], "again")
    finished(world, (base, daily, total))
    published(world)
    assert seen(world) == NEW
    assert [one.revision for one in world.commits()[-1].record.members if one.job == "t"] == [2, 3]
    assert sound(world)


def test_new_epochs_go_on_beside_it(world: World) -> None:
    """R28: epochs that read nothing of the set are committed and stay out of it."""
    base, daily, total = ready(world)
    computed(world, base, 4, [40])
    computed(world, daily, 4)
    published(world)
    assert members_of_last(world) == [("b", 2), ("d", 2), ("t", 2), ("t", 3)]
    computed(world, total, 4)
    assert world.rows("t")["t"][-1] == (4, 12 + 1014 + 1058 + 41 + 1)
    assert sound(world)


def members_of_last(world: World) -> list[tuple[str, int]]:
    found = world.commits()[-1].record.members
    return sorted((one.job, (one.interval.end - barrier(0)).days) for one in found)


@pytest.mark.parametrize("what", ["complete", "staged", "resumed"])
@pytest.mark.parametrize("together", [False, True])
def test_a_member_is_not_published_by_itself(world: World, what: str, *, together: bool) -> None:
    """R28: by publish or publish_together, also with an attempt that another process has resumed."""
    base, _, total = planned(world)
    attempt = within(world, base, 2)
    world.write(attempt, [1000])
    world.coordinator.complete(attempt)
    if what != "complete":
        world.coordinator.stage(attempt)
    if what == "resumed":
        found = world.coordinator.resume(base, Begun.of(attempt))
        assert isinstance(found, Attempt)
        attempt = found
    before = world.exactly()
    own = world.coordinator
    publish = (lambda: own.publish_together([attempt])) if together else (lambda: own.publish(attempt))
    with pytest.raises((InvalidInput, Fenced)) as refused:
        publish()
    if what != "staged":
        assert "restate publish" in refused.value.next_step
    assert world.exactly() == before
    del total


def test_after_the_publish_members_have_readers(table_world: World) -> None:
    """R18: an ordinary revision of one is refused, with its readers; that of the last one is not."""
    world = table_world
    base, daily, total = ready(world)
    published(world)
    for job in (base, daily):
        with pytest.raises(DependentReaders):
            world.begin(job, day(2), owner("again"))
    with pytest.raises(DependentReaders):
        world.begin(total, day(2), owner("again"))
    computed(world, total, 3, run="again")
    assert seen(world) == NEW
    world.coordinator.restatements.open(DOMAIN, ["b"], day(2), name="second", reason="again", by="me")
    record = operations(world).status(DOMAIN, "second").record
    assert record.size == 4
    assert sound(world)


@pytest.mark.parametrize("by", ["first", "restate", "other"])
def test_begin_after_the_publish(world: World, by: str) -> None:
    """R15, R28: whoever has computed it, normally or within, is told that it is committed."""
    _, daily, _ = ready(world)
    csn = published(world)
    if by != "other":
        found = world.coordinator.begin(daily, day(2), owner(by, 2))
        assert isinstance(found, AlreadyCommitted)
        assert found.csn == (csn if by == "restate" else 5)
    again = world.coordinator.begin_within(NAME, daily, day(2), owner(by))
    assert isinstance(again, AlreadyCommitted)
    assert again.csn == csn


# --- other restatements ----------------------------------------------------------------------------------------------


def second(own: EpochService | World, names: Sequence[str] = ("d",), number: int = 2) -> None:
    service = own.coordinator if isinstance(own, World) else own
    service.restatements.open(DOMAIN, names, day(number), name="second", reason="it, too", by="you")


def test_two_restatements_share_no_epoch(world: World) -> None:
    """R28: the second is refused while the first is open, by whichever epoch they share; one beside it is not."""
    jobs = planned(world)
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        second(world)
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        second(world, ["b"], 1)
    finished(world, jobs)
    published(world)
    second(world, ["b"], 1)
    assert operations(world).status(DOMAIN, "second").record.size == 5


def test_of_two_that_are_opened_at_once_one_is_refused(world: World) -> None:
    """R28: each plans before the other is there."""
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    slow = interrupted(world, lambda: opened(world, "b", 2))
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        second(slow)
    with pytest.raises(UnknownName):
        operations(world).status(DOMAIN, "second")


def test_two_beside_each_other_are_extended_by_one_epoch(world: World) -> None:
    """R28: an epoch in the middle that reads both joins the first that is published, then the other."""
    left, right = world.job("l"), world.job("r")
    both = world.job("x", inputs=[increment(world.table("l")), increment(world.table("r"))])
    for job in (left, right):
        computed(world, job, 1, [1])
    opened(world, "l", 1)
    second(world, ["r"], 1)
    restated(world, left, 1, [10])
    attempt = world.coordinator.begin_within("second", right, day(1), owner("restate"))
    assert isinstance(attempt, Attempt)
    world.write(attempt, [100])
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    computed(world, both, 1)
    with pytest.raises(NotReady):
        published(world)
    with pytest.raises(TopologyError, match=f"restatement '{NAME}' computes"):
        operations(world).publish(DOMAIN, "second")
    restated(world, both, 1)
    published(world)
    assert world.rows("x") == {"x": [(1, 12)]}
    with pytest.raises(NotReady):
        operations(world).publish(DOMAIN, "second")
    answer = world.coordinator.begin_within("second", both, day(1), owner("restate"))
    assert isinstance(answer, Attempt)
    assert sorted(read(world, answer)) == [10, 100]
    world.write(answer, [111])
    world.coordinator.complete(answer)
    world.coordinator.stage(answer)
    operations(world).publish(DOMAIN, "second")
    assert world.rows("l", "r", "x") == {"l": [(1, 10)], "r": [(1, 100)], "x": [(1, 111)]}
    assert sound(world)


def test_a_begin_within_another_restatement(world: World) -> None:
    """R28: an epoch that is no member, and one that is a member of another, begin in neither."""
    base, daily, total = planned(world)
    other = world.job("o")
    computed(world, other, 1)
    second(world, ["o"], 1)
    with pytest.raises(TopologyError, match="no epoch of restatement"):
        world.coordinator.begin_within("second", base, day(2), owner())
    with pytest.raises(TopologyError, match="no epoch of restatement"):
        within(world, base, 1)
    with pytest.raises(TopologyError, match="no epoch of restatement"):
        within(world, base, 4)
    with pytest.raises(UnknownName):
        world.coordinator.begin_within("third", base, day(2), owner())
    restated(world, base, 2, [1000])
    with pytest.raises((TopologyError, EpochBusy)):
        world.coordinator.begin_within("second", base, day(2), owner())
    del daily, total


@pytest.mark.parametrize("again", ["same", "other reason", "other days", "after its end"])
def test_opening_with_the_same_name(world: World, again: str) -> None:
    """R15: a repetition answers as the first call did; another request is refused."""
    jobs = planned(world)
    record = operations(world).status(DOMAIN, NAME).record
    if again == "same":
        opened(world, "b", 2)
        assert operations(world).status(DOMAIN, NAME).record == record
        return
    if again == "after its end":
        finished(world, jobs)
        published(world)
    with pytest.raises(InvalidInput, match="exists"):
        opened(
            world,
            "b",
            1 if again == "other days" else 2,
            reason="x" if again == "other reason" else "the source was wrong",
        )


def test_opening_again_after_another_epoch_of_the_range_was_committed(world: World) -> None:
    """R15: the repeated request is the same, whatever normal runs have committed since."""
    base, daily, total = cascade(world)
    run_all(world, (base, daily, total), [1, 2, 3])
    opened(world, "b", 2, 5)
    computed(world, base, 4, [40])
    opened(world, "b", 2, 5)


# --- abandon ---------------------------------------------------------------------------------------------------------


def _approved(world: World, jobs: Jobs) -> None:
    finished(world, jobs)
    output = operations(world).status(DOMAIN, NAME).output
    operations(world).approve(DOMAIN, NAME, output=output, by="boss")


def _outdated(world: World, jobs: Jobs) -> None:
    finished(world, jobs)
    restated(world, jobs[0], 2, [7], CLEARED)


def _reader_begun(world: World, jobs: Jobs) -> None:
    restated(world, jobs[0], 2, [1000])
    world.write(within(world, jobs[1], 2), [1001])


def _next_day(world: World, jobs: Jobs) -> None:
    """Compute the fourth day of all jobs by normal runs."""
    for job in jobs:
        computed(world, job, 4, [40] if job is jobs[0] else None)


def _joined(world: World, jobs: Jobs) -> None:
    finished(world, jobs)
    _next_day(world, jobs)
    with pytest.raises(NotReady):
        published(world)
    restated(world, jobs[2], 4)


STEPS: dict[str, Callable[[World, Jobs], object]] = {
    "planned": lambda *_: None,
    "begun": lambda world, jobs: within(world, jobs[0], 2),
    "written": lambda world, jobs: world.write(within(world, jobs[0], 2), [1000]),
    "failed": lambda world, jobs: world.coordinator.abort(within(world, jobs[0], 2), "it failed"),
    "one staged": lambda world, jobs: restated(world, jobs[0], 2, [1000]),
    "a reader begun": _reader_begun,
    "all staged": finished,
    "approved": _approved,
    "outdated": _outdated,
    "extended": _joined,
}


def usable(world: World, jobs: Jobs) -> None:
    """Normal runs go on as if the restatement had never been: they read what is committed, and nothing is left."""
    base, daily, total = jobs
    assert world.staged() == []
    newest = members_seen(world)
    with pytest.raises(DependentReaders):
        world.begin(base, day(2), owner("normal"))
    attempt = world.begin(total, day(newest), owner("restate", 9, generation=9))
    assert not attempt.adopted
    assert attempt.restatement is None
    assert all(not given.staged for given in attempt.inputs)
    write(world, attempt, None)
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    found = seen(world)
    assert {name: values[:3] for name, values in found.items()} == OLD
    assert sound(world)
    with pytest.raises(InvalidInput, match="abandoned"):
        within(world, daily, 2)


def members_seen(world: World) -> int:
    """Number of the newest day of the last table."""
    return seen(world)["t"][-1][0]


@pytest.mark.parametrize("step", STEPS)
def test_abandoned_at_each_step(table_world: World, step: str) -> None:
    """R28: nothing is visible, no file is left, and the epochs are as they were; a repetition changes nothing."""
    world = table_world
    jobs = planned(world)
    STEPS[step](world, jobs)
    before = seen(world)
    abandoned(world)
    assert seen(world) == before
    content = world.exactly()
    abandoned(world)
    assert world.exactly() == content
    record = operations(world).status(DOMAIN, NAME).record
    assert (str(record.state), record.ended) == ("abandoned", "no more (me)")
    with pytest.raises(InvalidInput, match="abandoned"):
        published(world)
    usable(world, jobs)
    abandoned(world)
    second(world, ["b"], 2)


def listed(world: World) -> tuple[str, ...]:
    """Restatements that the domain's record lists as open."""
    key = topology_key(DOMAIN)
    return tuple(world.store.read(DOMAIN, [key]).of(key).record.restating)


@pytest.mark.parametrize("end", ["publish", "abandon"])
def test_a_restatement_that_has_ended_is_not_listed_any_more(world: World, end: str) -> None:
    """R28: the record of the domain does not grow with restatements that are over."""
    ready(world)
    assert listed(world) == (NAME,)
    if end == "publish":
        published(world)
    else:
        abandoned(world)
    assert listed(world) == ()


def test_a_worker_of_an_abandoned_member_is_fenced(world: World) -> None:
    """R10: it stages, writes and reads nothing any more."""
    base, daily, _ = planned(world)
    restated(world, base, 2, [1000])
    attempt = within(world, daily, 2)
    abandoned(world)
    own = world.coordinator
    for call in (
        lambda: own.heartbeat(attempt),
        lambda: world.write(attempt, [1]),
        lambda: own.complete(attempt),
        lambda: own.stage(attempt),
    ):
        with pytest.raises(Fenced):
            call()
    with pytest.raises((Fenced, Conflict)):
        own.input(attempt, "b")


def calls_of(
    backend: Backend, prepare: Callable[[World], Any], work: Callable[[EpochService, Any], Any]
) -> int:
    """Number of calls that *work* makes."""
    world = backend.world()
    counter = Interruption(-1, lambda: None)
    work(worker(world, counter), prepare(world))
    world.close()
    return len(counter.calls)


def dying(
    backend: Backend, prepare: Callable[[World], Any], work: Callable[[EpochService, Any], Any], number: int
) -> tuple[World, Any]:
    """Return a world in which a process has died in *work* before its call with *number*."""
    world = backend.world()
    given = prepare(world)

    def die() -> None:
        raise Died

    with suppress(Died):
        work(worker(world, Interruption(number, die)), given)
    return world, given


def abandoning(own: EpochService, _: Any) -> None:
    own.restatements.abandon(DOMAIN, NAME, **WHY)


def vacuumed(world: World) -> None:
    """Two days later the orphans go."""
    world.clock.advance(timedelta(days=2))
    world.retention.vacuum(DOMAIN)


def test_abandon_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R28: nothing is published then; once it is repeated normal runs go on, and vacuum leaves no file."""
    for number in range(calls_of(backend, ready, abandoning)):
        world, jobs = dying(backend, ready, abandoning, number)
        assert seen(world) == OLD, number
        abandoned(world)
        vacuumed(world)
        usable(world, jobs)
        world.close()


def test_a_repeated_abandon_deletes_what_the_first_has_left(backend: Backend) -> None:
    """R28: also where the first died between the end of an attempt and the deletion of its files."""
    left = []
    for number in range(calls_of(backend, ready, abandoning)):
        world, _ = dying(backend, ready, abandoning, number)
        abandoned(world)
        if world.staged():
            left.append(number)
        world.close()
    assert left == []


def test_normal_runs_after_an_interrupted_abandon(backend: Backend) -> None:
    """R28: it is over once that is recorded: they take the epochs; the repeated abandon does not touch what they do."""
    for number in range(calls_of(backend, ready, abandoning)):
        world, (base, _, total) = dying(backend, ready, abandoning, number)
        if str(operations(world).status(DOMAIN, NAME).record.state) == "abandoned":
            attempt = world.begin(total, day(3), owner("normal"))
            assert all(not given.staged for given in attempt.inputs)
            write(world, attempt, None)
            abandoned(world)
            world.coordinator.complete(attempt)
            world.coordinator.publish(attempt)
            assert seen(world) == OLD, number
            second(world, ["b"], 2)
            answer = world.coordinator.begin_within("second", base, day(2), owner("restate"))
            assert isinstance(answer, Attempt)
            assert sound(world), number
            vacuumed(world)
            assert world.staged() == [], number
        world.close()


@pytest.mark.parametrize("then", ["repeated", "second"])
def test_another_restatement_takes_over_what_an_interrupted_abandon_has_left(world: World, then: str) -> None:
    """R28: what is staged within one is nothing to another; the late repetition ends none of its attempts."""
    jobs = ready(world)

    def die() -> None:
        raise Died

    slow = interrupted(world, die, number=1)
    with pytest.raises(Died):
        slow.restatements.abandon(DOMAIN, NAME, **WHY)
    if then == "repeated":
        abandoned(world)
    second(world, ["b"], 2)
    for job, numbers in zip(jobs, ([2], [2], [2, 3]), strict=True):
        for number in numbers:
            answer = world.coordinator.begin_within("second", job, day(number), owner("restate"))
            assert isinstance(answer, Attempt)
            assert not answer.adopted
            write(world, answer, [2000] if job.name == "b" else None)
            world.coordinator.complete(answer)
            world.coordinator.stage(answer)
            abandoned(world)
    operations(world).publish(DOMAIN, "second")
    assert seen(world)["t"] == [(1, 12), (2, 2014), (3, 2058)]
    assert world.staged() == []
    assert sound(world)


def test_a_member_that_is_staged_while_it_is_abandoned(backend: Backend) -> None:
    """R28: after the abandon no member of it is staged, and no file is left, wherever the staging comes."""

    def work(own: EpochService, _: Attempt) -> None:
        own.restatements.abandon(DOMAIN, NAME, **WHY)

    left = []
    for number in range(calls_of(backend, _complete, work)):
        world = backend.world()
        attempt = _complete(world)

        def stage(world: World = world, attempt: Attempt = attempt) -> None:
            with suppress(EpochError):
                world.coordinator.stage(attempt)

        work(worker(world, Interruption(number, stage)), attempt)
        epoch = world.coordinator.epoch(DOMAIN, attempt.job, day(2))
        assert epoch is not None
        assert epoch.record.attempt is not None
        if epoch.record.attempt.aborted is None or world.staged():
            left.append(number)
        world.close()
    assert left == []


@pytest.mark.parametrize("wins", ["abandon", "publish"])
def test_abandon_and_publish_at_once(world: World, wins: str) -> None:
    """R28: one of them loses, wherever the other comes."""
    ready(world)
    if wins == "abandon":
        slow = interrupted(world, lambda: abandoned(world))
        with pytest.raises((InvalidInput, Fenced, Conflict)):
            slow.restatements.publish(DOMAIN, NAME)
        assert seen(world) == OLD
        assert world.staged() == []
    else:
        slow = interrupted(world, lambda: published(world))
        with pytest.raises(InvalidInput, match="is published"):
            slow.restatements.abandon(DOMAIN, NAME, **WHY)
        assert seen(world) == NEW
    assert sound(world)


# --- races of the publish --------------------------------------------------------------------------------------------

ACTS: dict[str, Callable[[World, Jobs], object]] = {
    "a reader commits": _next_day,
    "a member is cleared": lambda world, jobs: restated(world, jobs[1], 2, None, CLEARED),
    "a member begins": lambda world, jobs: within(world, jobs[2], 3, CLEARED),
    "abandon": lambda world, _: abandoned(world),
    "publish": lambda world, _: published(world),
    "approve": lambda world, _: operations(world).approve(
        DOMAIN, NAME, output=operations(world).status(DOMAIN, NAME).output, by="boss"
    ),
    "a declaration": lambda world, _: world.coordinator.register(
        world.job("d", inputs=[increment(world.table("b"))], inactive_after=9)
    ),
    "a new output": lambda world, _: world.coordinator.register(
        world.job("d", [world.table("d"), world.table("y")], inputs=[increment(world.table("b"))])
    ),
    "a table is left": lambda world, _: world.coordinator.register(
        world.job("d", [world.table("z")], inputs=[increment(world.table("b"))])
    ),
    "a new reader": lambda world, _: computed(world, world.job("n", inputs=[increment(world.table("d"))]), 2),
    "an epoch beside": lambda world, jobs: computed(world, jobs[0], 4, [40]),
    "vacuum": lambda world, _: world.retention.vacuum(DOMAIN),
    "restored": lambda world, _: renewed(world),
}


@pytest.mark.parametrize("act", ACTS)
def test_others_at_each_call_of_the_publish(backend: Backend, act: str) -> None:
    """R2, R18, R28, I4, I6: whatever comes in between, all members become visible, or none, and reads stay true."""

    def work(own: EpochService, _: Jobs) -> int:
        return own.restatements.publish(DOMAIN, NAME)

    # Each act at every third call, the next one from the next on: together they are at all of them.
    for number in range(list(ACTS).index(act) % 3, calls_of(backend, ready, work), 3):
        world = backend.world()
        jobs = ready(world)
        done: list[int] = []

        def once(world: World = world, jobs: Jobs = jobs, done: list[int] = done) -> None:
            if not done:
                done.append(1)
                with suppress(EpochError, AssertionError):  # such as a member that is committed already
                    ACTS[act](world, jobs)

        slow = worker(world, Interruption(number, once))
        csn = None
        with suppress(EpochError):
            csn = work(slow, jobs)
        record = operations(world).status(DOMAIN, NAME).record
        visible = {name: values[:3] for name, values in world.rows("b", "d", "t").items()}
        assert visible == (NEW if str(record.state) == "published" else OLD), number
        assert (csn is not None) == (str(record.state) == "published") or act == "publish", number
        assert sound(world), (number, act)
        world.close()


def test_the_publish_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R2, R15, I6: all or nothing is visible at its death; a repetition publishes once, and gives the same CSN."""

    def work(own: EpochService, _: Jobs) -> int:
        return own.restatements.publish(DOMAIN, NAME)

    for number in range(calls_of(backend, ready, work)):
        world, jobs = dying(backend, ready, work, number)
        assert seen(world) in (OLD, NEW), number
        assert published(world) == published(world) == 10, number
        assert seen(world) == NEW, number
        assert len(world.commits()) == 10, number
        assert world.staged() == [], number
        computed(world, jobs[0], 4, [40])
        computed(world, jobs[1], 4)
        computed(world, jobs[2], 4)
        assert world.engine_rows("t") == world.rows("t")["t"], number
        assert sound(world), number
        world.close()


def test_a_repeated_publish_moves_pointers_that_follow(backend: Backend) -> None:
    """R17: as that of an ordinary attempt: after a death behind the commit the catalog shows what cuts read."""

    def work(own: EpochService, _: Jobs) -> int:
        return own.restatements.publish(DOMAIN, NAME)

    lagging = []
    for number in range(calls_of(backend, ready, work)):
        world, _ = dying(backend, ready, work, number)
        published(world)
        if {name: world.engine_rows(name) for name in "bdt"} != NEW:
            lagging.append(number)
        world.close()
    assert lagging == []


def test_a_member_dies_at_each_call_of_its_staging(backend: Backend) -> None:
    """R16, R28: the next try of its run adopts what is complete, or finds it staged."""

    def prepare(world: World) -> tuple[Jobs, Attempt]:
        jobs = planned(world)
        attempt = within(world, jobs[0], 2)
        world.write(attempt, [1000])
        world.coordinator.complete(attempt)
        return jobs, attempt

    def work(own: EpochService, given: tuple[Jobs, Attempt]) -> None:
        own.stage(given[1])

    for number in range(calls_of(backend, prepare, work)):
        world, (jobs, _) = dying(backend, prepare, work, number)
        answer = world.coordinator.begin_within(NAME, jobs[0], day(2), owner("restate", 2))
        if isinstance(answer, Attempt):
            assert answer.adopted, number
            world.coordinator.stage(answer)
        finished(world, jobs)
        published(world)
        assert seen(world) == NEW, number
        assert world.staged() == [], number
        world.close()


def test_a_begin_within_dies_at_each_of_its_calls(backend: Backend) -> None:
    """R16, R28: also one that replaces staged output: the next try deletes what is left."""

    def work(own: EpochService, jobs: Jobs) -> None:
        own.begin_within(NAME, jobs[0], day(2), CLEARED)

    for number in range(calls_of(backend, ready, work)):
        world, jobs = dying(backend, ready, work, number)
        restated(world, jobs[0], 2, [1000], owner("restate", 2, generation=1))
        finished(world, jobs)
        published(world)
        assert seen(world) == NEW, number
        assert world.staged() == [], number
        assert sound(world), number
        world.close()


# --- lost messages ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operation:
    """One call, and what was there before it."""

    prepare: Callable[[World], Any]
    call: Callable[[EpochService, Any], Any]


def _complete(world: World) -> Attempt:
    base, _, _ = planned(world)
    attempt = within(world, base, 2)
    world.write(attempt, [1000])
    world.coordinator.complete(attempt)
    return attempt


def _approvable(world: World) -> str:
    ready(world, needs_approval=True)
    return operations(world).status(DOMAIN, NAME).output


def _extending(world: World) -> None:
    _next_day(world, ready(world))


def _cascade_alone(world: World) -> Jobs:
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    return jobs


def _open(own: EpochService, _: Any) -> Any:
    return own.restatements.open(DOMAIN, ["b"], day(2), name=NAME, reason="wrong", by="me").members


def _begun(own: EpochService, jobs: Jobs) -> Any:
    return own.begin_within(NAME, jobs[0], day(2), owner("restate"))


def _cleared(own: EpochService, jobs: Jobs) -> Any:
    return own.begin_within(NAME, jobs[0], day(2), CLEARED)


def _told(own: EpochService, _: Any) -> Any:
    with pytest.raises(EpochError) as told:
        own.restatements.publish(DOMAIN, NAME)
    return type(told.value).__name__


OPERATIONS = {
    "open": Operation(_cascade_alone, _open),
    "begin": Operation(planned, _begun),
    "begin-staged": Operation(ready, _begun),
    "begin-cleared": Operation(ready, _cleared),
    "stage": Operation(_complete, lambda own, attempt: own.stage(attempt)),
    "approve": Operation(
        _approvable, lambda own, output: own.restatements.approve(DOMAIN, NAME, output=output, by="boss")
    ),
    "publish": Operation(ready, lambda own, _: own.restatements.publish(DOMAIN, NAME)),
    "abandon": Operation(ready, lambda own, _: own.restatements.abandon(DOMAIN, NAME, **WHY)),
    "abandon-open": Operation(_complete, lambda own, _: own.restatements.abandon(DOMAIN, NAME, **WHY)),
    "extend": Operation(_extending, _told),
}


def after(backend: Backend, operation: Operation, plan: Plan) -> tuple[Any, list[Call]]:
    """What one call answered and left behind when messages were lost as *plan* says; and its calls."""
    world = backend.world()
    given = operation.prepare(world)
    store = FaultyStore(world.store, plan)
    answer = blurred(repr(operation.call(world.worker(store), given)))
    status = operations(world).status(DOMAIN, NAME)
    record = status.record
    found = (
        _without_incarnation(answer, world),
        seen(world),
        len(world.commits()),
        len(world.staged()),
        (str(record.state), record.members, record.approved, record.ended),
        [(one.job, one.interval, str(one.state), one.owner) for one in status.members],
        status.csn,
    )
    world.close()
    return found, store.calls


def faults_at(calls: Sequence[Call]) -> Iterator[tuple[Call, Fault]]:
    """Each call with what may be lost of it; of a read that is the same."""
    for call in calls:
        for fault in Fault if call.method == "transact" else (Fault.REQUEST_LOST,):
            yield call, fault


def _without_incarnation(answer: str, world: World) -> str:
    return answer.replace(world.store.read(DOMAIN, []).head.incarnation, "")


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_lost_message_is_settled(backend: Backend, name: str) -> None:
    """R15: the request or the reply of each call is lost: answer and content are the same."""
    operation = OPERATIONS[name]
    whole, calls = after(backend, operation, lambda _: None)
    for call, fault in faults_at(calls):
        found, _ = after(backend, operation, at(call.number, fault))
        assert found == whole, f"{fault} at call {call.number}, {call.method}"


def test_the_reply_to_an_extension_is_lost(world: World) -> None:
    """R15: the publisher is told of the new members all the same: a task waits for them, and does not fail for good."""
    _extending(world)
    lost: list[int] = []

    def once(call: Call) -> Fault | None:
        if call.method != "transact" or lost:
            return None
        lost.append(call.number)
        return Fault.REPLY_LOST

    store = FaultyStore(world.store, once)
    with pytest.raises(NotReady):
        world.worker(store).restatements.publish(DOMAIN, NAME)
    assert lost


def test_two_publishers_find_the_same_new_reader(world: World) -> None:
    """R28: both are told that it is a member now, which a task waits for; none of them fails for good."""
    _extending(world)

    def other() -> None:
        with pytest.raises(NotReady):
            published(world)

    slow = interrupted(world, other)
    with pytest.raises(NotReady):
        slow.restatements.publish(DOMAIN, NAME)


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_deadline_that_has_passed(table_world: World) -> None:
    """R28: nothing begins or is published within it; normal runs take its epochs; the abandon deletes what is left."""
    world = table_world
    base, daily, total = ready(world, lifetime=timedelta(hours=5))
    world.clock.advance(timedelta(hours=5))
    for call in (
        lambda: published(world),
        lambda: within(world, base, 2, CLEARED),
        lambda: operations(world).cut(DOMAIN, NAME, ["b"]),
        lambda: operations(world).approve(DOMAIN, NAME, output="0" * 64, by="boss"),
    ):
        with pytest.raises(InvalidInput, match="had until"):
            call()
    computed(world, total, 3, run="normal")
    assert seen(world) == OLD
    second(world)
    answer = world.coordinator.begin_within("second", daily, day(2), owner("restate"))
    assert isinstance(answer, Attempt)
    assert read(world, answer) == [20]
    abandoned(world)
    write(world, answer, None)
    world.coordinator.complete(answer)
    world.coordinator.stage(answer)
    operations(world).abandon(DOMAIN, "second", **WHY)
    usable(world, (base, daily, total))


def test_a_deadline_that_passes_between_begin_and_stage(world: World) -> None:
    """R28: what is staged late is published never, and deleted with the rest."""
    base, _, total = planned(world, lifetime=timedelta(minutes=1))
    attempt = within(world, base, 2)
    world.write(attempt, [1000])
    world.coordinator.complete(attempt)
    world.clock.advance(timedelta(minutes=1))
    with suppress(EpochError):
        world.coordinator.stage(attempt)
    abandoned(world)
    assert world.staged() == []
    computed(world, total, 3, run="normal")
    assert seen(world) == OLD


@pytest.mark.parametrize("end", ["publish", "abandon"])
def test_days_of_retention_while_it_is_open(table_world: World, end: str) -> None:
    """R16, R24, I12: vacuum leaves staged files alone for as long as it is open; silent members begin again."""
    world = table_world
    base, daily, total = planned(world, lifetime=timedelta(days=60))
    restated(world, base, 2, [1000])
    silent = within(world, daily, 2)
    world.write(silent, [1])
    for _ in range(3):
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
    assert states(world) == {
        ("b", 2): "staged",
        ("d", 2): "waiting",
        ("t", 2): "waiting",
        ("t", 3): "waiting",
    }
    with pytest.raises((Fenced, LeaseExpired)):
        world.coordinator.heartbeat(silent)
    finished(world, (base, daily, total))
    for _ in range(2):
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
    if end == "publish":
        assert operations(world).differences(DOMAIN, NAME)
        published(world)
        assert seen(world) == NEW
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
        world.clock.advance(timedelta(days=4))
        world.retention.vacuum(DOMAIN)
        assert world.data() == world.newest_data("b", "d", "t")
    else:
        abandoned(world)
        assert world.data() == world.newest_data("b", "d", "t")
        assert seen(world) == OLD
    assert sound(world)


def test_what_a_late_writer_leaves_in_an_abandoned_member_goes(table_world: World) -> None:
    """R16: a zombie writes after the abandon; a day later vacuum deletes it."""
    world = table_world
    base, _, _ = planned(world)
    attempt = restated(world, base, 2, [1000])
    abandoned(world)
    with suppress(Fenced, InvalidInput):
        write_rows(world.coordinator, attempt, "b", rows([99], attempt.token))
    assert world.staged() != []
    world.clock.advance(timedelta(days=2))
    world.retention.vacuum(DOMAIN)
    assert world.data() == world.newest_data("b", "d", "t")
    assert seen(world) == OLD


@pytest.mark.parametrize("over", ["abandon was interrupted", "past its deadline"])
def test_vacuum_takes_what_is_left_of_a_restatement_that_is_over(world: World, over: str) -> None:
    """R16: nobody publishes it any more, and nobody may come to begin its epochs or to repeat the abandon."""
    ready(world)

    def die() -> None:
        raise Died

    if over == "abandon was interrupted":
        with pytest.raises(Died):
            interrupted(world, die, number=1).restatements.abandon(DOMAIN, NAME, **WHY)
    for _ in range(5):
        world.clock.advance(timedelta(days=8))
        world.retention.vacuum(DOMAIN)
    assert world.staged() == []


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [None, "x"])
def test_a_job_or_table_of_an_open_restatement_is_not_retired(world: World, table: str | None) -> None:
    """R7, R28: it waits for the end, also a table that the job has left; a job that has no part in it does not."""
    computed(world, world.job("d", [world.table("d"), world.table("x")]), 1)
    job = world.job("d")
    computed(world, job, 2)
    computed(world, world.job("o"), 1)
    opened(world, "d", 2)
    with pytest.raises(EpochBusy, match=NAME):
        world.coordinator.retire(DOMAIN, "d", reason="over", by="ada", table=table)
    world.coordinator.retire(DOMAIN, "o", reason="over", by="ada")
    abandoned(world)
    world.coordinator.retire(DOMAIN, "d", reason="over", by="ada", table=table)


@pytest.mark.parametrize("first", ["open", "retire"])
def test_open_and_retire_at_once(world: World, first: str) -> None:
    """R7, R28: one of them loses."""
    _cascade_alone(world)

    def retire(own: EpochService) -> None:
        own.retire(DOMAIN, "t", reason="over", by="ada")

    if first == "open":
        with pytest.raises(EpochBusy):
            retire(interrupted(world, lambda: opened(world, "b", 2)))
    else:
        slow = interrupted(world, lambda: retire(world.coordinator))
        with pytest.raises(TopologyError, match="is retired"):
            slow.restatements.open(DOMAIN, ["b"], day(2), name=NAME, reason="wrong", by="me")


def full_tables(world: World) -> tuple[Job, Job]:
    """Four days of a full table, and of one that is made of it."""
    full = world.table("f", kind="full")
    base = world.job("f", [full])
    reader = world.job(
        "r", [world.table("r", kind="full")], inputs=[state(full), previous(world.table("r", kind="full"))]
    )
    run_all(world, [base, reader], [1, 2, 3, 4])
    return base, reader


@pytest.mark.parametrize(
    ("table", "number", "held"), [("f", 2, True), ("r", 1, True), ("f", 1, False), ("r", 3, True)]
)
def test_states_of_an_open_restatement_are_not_expired(
    world: World, table: str, number: int, *, held: bool
) -> None:
    """R24, R28: neither what its members replace nor what they read; after its end they are."""
    full_tables(world)
    opened(world, "f", 2)
    if held:
        with pytest.raises(InvalidInput, match=f"restatement '{NAME}'"):
            world.retention.expire(DOMAIN, table, barrier(number))
        abandoned(world)
    world.retention.expire(DOMAIN, table, barrier(number))


@pytest.mark.parametrize(
    "first",
    [
        "open",
        "expire",
    ],
)
def test_open_and_expire_at_once(world: World, first: str) -> None:
    """R24, R28: one of them loses: no restatement is open whose members cannot be computed."""
    full_tables(world)

    def opening(own: EpochService) -> None:
        own.restatements.open(DOMAIN, ["f"], day(2), name=NAME, reason="wrong", by="me")

    if first == "open":
        slow = interrupted(world, lambda: opening(world.coordinator))
        with pytest.raises(InvalidInput, match=f"restatement '{NAME}'"):
            slow.retention.expire(DOMAIN, "r", barrier(1))
    else:
        slow = interrupted(world, lambda: world.retention.expire(DOMAIN, "r", barrier(1)))
        with pytest.raises(TopologyError, match="expired"):
            opening(slow)


def test_a_domain_with_an_open_restatement_is_not_moved(backend: Backend) -> None:
    """R28: staged output is of this store's epochs; the move waits for the end, and changes nothing."""
    world, target = backend.world(), backend.world()
    renewed(target)  # worlds on files are copies of one empty store
    ready(world)
    world.clock.advance(PAST_TTL)
    before = world.exactly()
    with pytest.raises(EpochBusy, match=NAME):
        move_domain(
            world.coordinator.context,
            target.coordinator.context,
            DOMAIN,
            source_place="here",
            target_place="there",
        )
    assert world.exactly().keys() == before.keys()
    assert published(world) == 10
    assert seen(world) == NEW
    for one in (world, target):
        one.close()


@pytest.mark.parametrize("when", ["planned", "staged"])
def test_a_restored_store_publishes_nothing_of_before(table_world: World, when: str) -> None:
    """R33: it holds no epoch then; normal runs go on, and the abandon deletes what is left."""
    world = table_world
    jobs = ready(world) if when == "staged" else planned(world)
    base, _, total = jobs
    renewed(world)
    for call in (lambda: published(world), lambda: within(world, base, 2, CLEARED)):
        with pytest.raises(InvalidInput, match="before the store was restored"):
            call()
    computed(world, total, 3, run="normal")
    abandoned(world)
    usable(world, jobs)


# --- readers ---------------------------------------------------------------------------------------------------------


def test_uncommitted_reads_do_not_show_members(table_world: World) -> None:
    """R4: neither those that are WRITTEN nor those that are staged: some tables would be old, and some new."""
    world = table_world
    base, daily, _ = planned(world)
    restated(world, base, 2, [1000])
    attempt = within(world, daily, 2)
    write(world, attempt, None)
    assert world.rows("b", "d", "t", level=Level.READ_UNCOMMITTED) == OLD
    normal = world.begin(base, day(4), owner("first"))
    world.write(normal, [40])
    found = world.rows("b", level=Level.READ_UNCOMMITTED)
    assert found == {"b": [*OLD["b"], (4, 40)]}


def test_leases_and_sessions_across_the_publish(table_world: World) -> None:
    """R19, R20: a leased cut keeps its rows through vacuum; a session that has seen the new ones sees no old ones."""
    world = table_world
    ready(world, lifetime=timedelta(days=60))
    names = ["b", "d", "t"]
    lease = world.leases.cut(DOMAIN, names, name="report", owner="me", ttl=timedelta(days=10))
    before = world.cut(*names)
    session = Session.of(DOMAIN).after(before)
    csn = published(world)
    assert world.rows_of(before) == OLD
    now = world.cuts.cut(DOMAIN, names, session=session)
    assert (now.csn, world.rows_of(now)) == (csn, NEW)
    session = session.after(now)
    assert world.rows_of(world.cuts.cut(DOMAIN, ["t"], session=session))["t"] == NEW["t"]
    world.clock.advance(timedelta(days=3))
    world.retention.vacuum(DOMAIN)
    assert world.rows_of(lease.cut) == OLD
    assert world.rows_of(world.leases.renew(lease).cut) == OLD
    assert seen(world) == NEW
    assert sound(world)


def test_a_cut_of_the_set_beside_normal_commits(table_world: World) -> None:
    """R29: it has what the commit would make of what is committed now; it cannot be leased, and ends with the set."""
    world = table_world
    base, daily, total = ready(world)
    computed(world, base, 4, [40])
    cut = operations(world).cut(DOMAIN, NAME, ["b", "d", "t"])
    assert world.rows_of(cut) == NEW
    assert world.rows_of(operations(world).cut(DOMAIN, NAME, ["b"])) == {"b": [*NEW["b"], (4, 40)]}
    assert world.rows_of(operations(world).cut(DOMAIN, NAME, ["d", "t"], at=barrier(2))) == {
        "d": NEW["d"][:2],
        "t": NEW["t"][:2],
    }
    assert world.rows_of(operations(world).cut(DOMAIN, NAME, ["t"], at=barrier(1))) == {"t": OLD["t"][:1]}
    with pytest.raises(InvalidInput):
        world.leases.acquire(cut, name="l", owner="me")
    published(world)
    with pytest.raises(InvalidInput, match="is published"):
        operations(world).cut(DOMAIN, NAME, ["b"])
    del daily, total


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_member_that_is_computed_again_while_the_set_is_looked_at(world: World, number: int) -> None:
    """R29: the cut says so instead of returning rows of two outputs."""
    base, *_ = ready(world)
    slow = interrupted(world, lambda: restated(world, base, 2, [2000], CLEARED), "store.scan", number)
    try:
        cut = slow.restatements.cut(DOMAIN, NAME, ["b", "d", "t"])
    except (Conflict, NotReady):
        return
    assert world.rows_of(cut) in (NEW, {**NEW, "b": [(1, 10), (2, 2000), (3, 30)]})


def test_a_long_interval_of_many_members(world: World) -> None:
    """R13, R28: many members that touch are one rewrite: who has read the day beside them is not refused."""
    base = world.job("b")
    last = 70
    for number in range(1, last + 1):
        computed(world, base, number, [number])
    ignoring = world.job("i", inputs=[increment(world.table("b"), on_upstream_revision="ignore")])
    reader = world.job("r", inputs=[increment(world.table("b"))])
    world.coordinator.register(reader)
    computed(world, ignoring, 1)
    opened(world, "b", 2, last)
    for number in range(2, last + 1):
        restated(world, base, number, [1000 + number])
    attempt = world.begin(reader, day(1), owner("first"))
    write(world, attempt, None)
    published(world)
    world.coordinator.publish(attempt)
    assert world.rows("b")["b"] == [(1, 1), *((number, 1000 + number) for number in range(2, last + 1))]
    assert world.cut("i").outdated == ()
    assert sound(world)


def test_owner_of_the_set_may_be_any_run(world: World) -> None:
    """R10: members are computed by several runs; another run finds what is staged, and takes over what is silent."""
    base, daily, total = planned(world)
    restated(world, base, 2, [1000], owner("one"))
    dead = within(world, daily, 2, owner("two"))
    with pytest.raises(EpochBusy):
        within(world, daily, 2, owner("three"))
    world.clock.advance(PAST_TTL)
    restated(world, daily, 2, by=owner("three"))
    with pytest.raises(Fenced):
        world.coordinator.complete(dead)
    by: Sequence[Owner] = (owner("four"), Owner(dag_id="other", run_id="x", try_number=1, generation=0))
    for number, each in zip((2, 3), by, strict=True):
        restated(world, total, number, by=each)
    published(world)
    assert seen(world) == NEW
    assert sound(world)


def test_interval_of_no_committed_epoch(world: World) -> None:
    """R28: nothing is opened where nothing is committed."""
    _cascade_alone(world)
    with pytest.raises(InvalidInput, match="committed epochs"):
        operations(world).open(
            DOMAIN, ["b"], Interval(barrier(7), barrier(9)), name=NAME, reason="wrong", by="me"
        )
    with pytest.raises(UnknownName):
        operations(world).open(DOMAIN, ["nothing"], day(1), name=NAME, reason="wrong", by="me")
