"""Members of a restatement that are computed, fail, and are computed again (R28)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.coordination.attempts.resume import Begun
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.columns import add
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import (
    CheckFailed,
    Conflict,
    DependentReaders,
    Fenced,
    InvalidInput,
    NotReady,
    Unavailable,
)
from airflow_provider.domain.topology import increment
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, day, owner, rows
from tests.contract.interruptions import Interruption, interrupted, worker
from tests.contract.restating import (
    CLEARED,
    NAME,
    NEW,
    OLD,
    abandoned,
    computed,
    finished,
    opened,
    operations,
    planned,
    published,
    read,
    ready,
    restated,
    run_all,
    seen,
    sound,
    states,
    within,
)


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


def test_a_member_from_before_its_job_was_declared_anew_is_to_be_cleared(world: World) -> None:
    """R28, R32: no task that waits brings it, so who reads it is not told to wait."""
    base, daily, total = planned(world)
    restated(world, base, 2, [1000])
    base = world.job("b", [world.table("b", column_changes=[add("tip", "double")])])
    world.coordinator.abort(world.begin(base, day(4)), "tried")
    assert states(world)["b", 2] == "outdated"
    with pytest.raises(NotReady, match="from before job b was declared anew") as refused:
        within(world, daily, 2)
    assert refused.value.next_step.startswith("clear the task of b for")
    attempt = within(world, base, 2, CLEARED)
    rows_of_day = rows([1000]).append_column("tip", pa.array([None], pa.float64()))
    write_rows(world.coordinator, attempt, "b", rows_of_day)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    for job, number in ((daily, 2), (total, 2), (total, 3)):
        restated(world, job, number)
    published(world)
    assert seen(world) == NEW


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
    attempt = restated(world, base, 2, [1000])
    assert isinstance(world.coordinator.resume(base, Begun.of(attempt)), AlreadyStaged)
    with suppress(Fenced):
        world.coordinator.abort(attempt, "the task was killed behind it")
    assert states(world)["b", 2] == "staged"


def test_several_participants_write_a_member(table_world: World) -> None:
    """R10, R28: it is staged once all have written; a retry of one of them replaces its part, before that alone."""
    world = table_world
    base, daily, total = planned(world)
    begin = partial(world.coordinator.begin_within, NAME, base, day(2), participants=2)
    attempt = begin(owner("restate"))
    assert isinstance(attempt, Attempt)
    first, second = (world.coordinator.join(attempt, number, owner("restate")) for number in (0, 1))
    world.write(first, [400])
    with pytest.raises((InvalidInput, NotReady), match="not WRITTEN"):
        world.coordinator.complete(attempt)
    world.write(second, [1])
    world.write(world.coordinator.join(attempt, 1, owner("restate", 2)), [600])
    world.coordinator.complete(attempt)
    staged = world.coordinator.stage(attempt)
    assert world.coordinator.resume(base, Begun.of(attempt)) == begin(owner("restate", 2)) == staged
    assert world.coordinator.resume(base, Begun.of(staged)) == staged
    with pytest.raises((Fenced, Conflict)):
        world.coordinator.join(attempt, 0, owner("restate", 3))
    finished(world, (base, daily, total))
    published(world)
    assert seen(world) == {**NEW, "b": [(1, 10), (2, 400), (2, 600), (3, 30)]}
    assert isinstance(world.coordinator.resume(base, Begun.of(attempt)), AlreadyCommitted)
    assert sound(world)


def test_a_retry_of_all_participants_of_a_member_begins_anew(world: World) -> None:
    """R10, R28: the begin of a later try fences those of the one before; what was staged stays for it."""
    base, _, _ = planned(world)
    begin = partial(world.coordinator.begin_within, NAME, base, day(2), participants=2)
    early, late = begin(owner("restate")), begin(owner("restate", 2))
    assert isinstance(early, Attempt)
    assert isinstance(late, Attempt)
    with pytest.raises(Fenced):
        world.coordinator.join(early, 0, owner("restate"))
    for number in (0, 1):
        world.write(world.coordinator.join(late, number, owner("restate", 2)), [500])
    world.coordinator.complete(late)
    world.coordinator.stage(late)
    anew = begin(CLEARED)
    assert isinstance(anew, Attempt)
    assert anew.token > late.token


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


class _Refused(Interruption):
    """Counts the calls of a publish since it has found committed readers."""

    def around(self, name: str, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Make one call."""
        if not isinstance(sys.exc_info()[1], DependentReaders):
            return call(*given, **named)
        return super().around(name, call, *given, **named)


def _reads_otherwise(world: World) -> None:
    computed(world, world.job("r"), 1, [5], "again")


def _released(world: World) -> None:
    operations(world).release(DOMAIN, NAME, ["r"], reason="it was sent", by="ada")


def _published(world: World) -> None:
    _released(world)
    published(world)


def _taken_back(world: World) -> None:
    abandoned(world)
    context = world.coordinator.context
    rollback(context, plan_rollback(context, DOMAIN, world.cut("b").csn - 1), reason="wrong", by="ada")


FATES: dict[str, tuple[str, Callable[[World], None], int]] = {
    "reads otherwise since": ("cascade", _reads_otherwise, 1),
    "released": ("hold", _released, 0),
    "released, and all published by another": ("hold", _published, 0),
    "taken back once the restatement was abandoned": ("cascade", _taken_back, 1),
}
"""The policy of the reader's edge, what becomes of it, and before which call: 0 reads the restatement, 1 plans it."""


@pytest.mark.parametrize("fate", FATES)
def test_reader_that_is_gone_before_it_could_join_keeps_nothing_back(world: World, fate: str) -> None:
    """R28: publish decides anew instead of naming a reader that is there no more; once it is over, it says so."""
    policy, act, number = FATES[fate]
    base = world.job("b")
    computed(world, base, 1, [10])
    opened(world, "b", 1)
    restated(world, base, 1, [1000])
    reader = world.job("r", inputs=[increment(world.table("b"), on_upstream_revision=policy)])
    computed(world, reader, 1)
    slow = _Refused(number, lambda: act(world))
    publish = partial(worker(world, slow).restatements.publish, DOMAIN, NAME)
    if act is _taken_back:
        with pytest.raises(InvalidInput, match="was abandoned"):
            publish()
    else:
        assert publish() == operations(world).status(DOMAIN, NAME).csn
    assert len(slow.calls) > number
    assert world.rows("b") == {"b": [(1, 10 if act is _taken_back else 1000)]}
    assert sound(world)
