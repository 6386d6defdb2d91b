"""A domain is rolled back to an earlier CSN: its rows, its epochs, and all who have seen more (R20, R30)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.rollback import RolledBack, plan_rollback, rollback
from airflow_provider.coordination.upkeep.rollback_plan import RollbackPlan
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    EpochError,
    Fenced,
    InvalidInput,
    NotReady,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Job, increment, previous, state
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner

WHY = {"reason": "the deployment was wrong", "by": "ada"}
PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)


def planned(own: EpochService, to: int) -> RollbackPlan:
    return plan_rollback(own.context, DOMAIN, to)


def rolled(own: EpochService, to: int, plan: RollbackPlan | None = None) -> RolledBack:
    return rollback(own.context, plan or planned(own, to), **WHY)


def cascade(world: World) -> tuple[Job, Job, Job]:
    """An incremental table, its copy, and a full table with a sum of all; the last reads its own past."""
    full = world.table("f", kind="full")
    base, copy = world.job("b"), world.job("c", inputs=[increment(world.table("b"))])
    total = world.job("f", [full], inputs=[increment(world.table("c")), previous(full)])
    return base, copy, total


def run_days(world: World, jobs: tuple[Job, ...], days: range, by: str = "scheduled", plus: int = 0) -> int:
    """Compute *days*; return the CSN of the last commit."""
    csn = 0
    for number in days:
        for job in jobs:
            csn = world.run(job, day(number), [number + plus], owner(by)).csn
    return csn


def seen(world: World) -> Any:
    return world.rows("b", "c"), {number: _at(world, number) for number in range(1, 7)}


def _at(world: World, number: int) -> Any:
    try:
        return world.rows("b", "c", "f", at=barrier(number))
    except NotReady:
        return None


def sound(world: World) -> bool:
    reader = world.store
    return not list(missing_files(reader, world.formats, DOMAIN)) and not list(stale_reads(reader, DOMAIN))


def test_the_rows_are_those_of_the_csn(table_world: World) -> None:
    """R30: of every table, for cuts and for engines without; the history stays, and the epochs are computed again."""
    world = table_world
    jobs = cascade(world)
    csn = run_days(world, jobs, range(1, 3))
    before = seen(world), [world.engine_rows(name) for name in ("b", "c", "f")]
    run_days(world, jobs, range(3, 5))
    commits = world.commits()
    plan = planned(world.coordinator, csn)
    assert plan.in_the_way == ()
    assert {epochs.job: len(epochs.intervals) for epochs in plan.epochs} == {"b": 2, "c": 2, "f": 2}
    assert [(found.name, found.rows, found.before, found.after) for found in plan.tables] == [
        (name, 2, barrier(4), barrier(2)) for name in ("b", "c", "f")
    ]
    told = rolled(world.coordinator, csn, plan)
    assert (told.csn, told.tables) == (len(commits) + 1, ("b", "c", "f"))
    assert (seen(world), [world.engine_rows(name) for name in ("b", "c", "f")]) == before
    assert [found.record for found in world.commits()[:-1]] == [found.record for found in commits]
    assert sound(world)
    run_days(world, jobs, range(3, 6), "again", plus=100)
    assert world.rows("b", at=barrier(5)) == {"b": [(1, 1), (2, 2), (3, 103), (4, 104), (5, 105)]}
    assert world.engine_rows("f") == [(5, 105)]
    assert sound(world)


# --- readers that have seen more -----------------------------------------------------------------------------------


@pytest.mark.parametrize("held", ["grace", "lease", "claimed later"])
def test_a_cut_of_before_stays_readable(table_world: World, held: str) -> None:
    """R19: with the rows that it had, also through a vacuum and once the epochs are computed again."""
    world = table_world
    jobs = cascade(world)
    csn = run_days(world, jobs, range(1, 3))
    run_days(world, jobs, range(3, 5))
    if held == "lease":
        cut = world.leases.cut(DOMAIN, ["b", "f"], name="report", owner="me", ttl=timedelta(days=3)).cut
    else:
        cut = world.cut("b", "f")
    rows = world.rows_of(cut)
    rolled(world.coordinator, csn)
    assert world.rows_of(cut) == rows
    if held == "claimed later":
        cut = world.leases.acquire(cut, name="report", owner="me", ttl=timedelta(days=3)).cut
    if held != "grace":
        world.clock.advance(timedelta(days=2))
    world.retention.vacuum(DOMAIN)
    run_days(world, jobs, range(3, 5), "again", plus=100)
    assert world.rows_of(cut) == rows
    assert rows["f"] == [(4, 4)]


def test_files_of_what_was_taken_back_go_with_a_vacuum(table_world: World) -> None:
    """R24: after the grace, since no version has them any more; they are no orphans before."""
    world = table_world
    jobs = cascade(world)
    csn = run_days(world, jobs, range(1, 3))
    before = world.data()
    run_days(world, jobs, range(3, 5))
    rolled(world.coordinator, csn)
    world.retention.vacuum(DOMAIN)
    world.clock.advance(timedelta(days=2))
    world.retention.vacuum(DOMAIN)
    assert world.data() == before
    assert sound(world)


def test_a_session_that_has_seen_more_is_told(world: World) -> None:
    """R20: one that has seen rows which were taken back, of any table; one that has seen less goes on."""
    jobs = cascade(world)
    csn = run_days(world, jobs, range(1, 3))
    early = Session.of(DOMAIN).after(world.cut("b", "f"))
    published = world.run(jobs[0], day(3), [3])
    own = Session.of(DOMAIN).committed(published)
    other = Session.of(DOMAIN).after(world.cut("f"))
    rolled(world.coordinator, csn)
    for session in (own, Session.parse(own.text())):
        with pytest.raises(Unavailable, match="rolled back since") as refused:
            world.cuts.cut(DOMAIN, ["f"], session=session)
        assert refused.value.tables == ("b",)
    for session in (early, other):
        assert world.cuts.cut(DOMAIN, ["b", "f"], session=session).barrier == barrier(2)
    after = Session.of(DOMAIN).after(world.cut("b"))
    world.run(jobs[0], day(3), [103])
    assert world.cuts.cut(DOMAIN, ["b"], session=after).barrier == barrier(3)
    with pytest.raises(Unavailable, match="rolled back since"):
        world.cuts.cut(DOMAIN, ["b"], session=own)
    far = rolled(world.coordinator, csn - 1)
    assert far.tables == ("b", "f")
    with pytest.raises(Unavailable, match="f at CSN"):
        world.cuts.cut(DOMAIN, ["b"], session=early)


@pytest.mark.parametrize("later", ["its own commit", "a cut without the session"])
def test_a_session_is_told_also_when_it_has_seen_more_since(world: World, later: str) -> None:
    """R20: what it was told of rows that were taken back is not forgotten with the next rows that it sees."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    session = Session.of(DOMAIN).after(world.cut("b"))
    rolled(world.coordinator, csn)
    published = world.run(job, day(3), [103])
    own = later == "its own commit"
    session = session.committed(published) if own else session.after(world.cut("b"))
    for known in (session, Session.parse(session.text())):
        with pytest.raises(Unavailable, match=f"b at CSN {csn + 1}"):
            world.cuts.cut(DOMAIN, ["b"], session=known)


# --- attempts, and Airflow's next runs -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["cascade", "hold", "ignore"])
def test_an_attempt_that_has_read_what_is_taken_back_is_refused(world: World, policy: str) -> None:
    """R13: by whichever edge; its retry reads the new rows and never adopts what the first try wrote."""
    base = world.job("b")
    reader = world.job(
        "r", inputs=[increment(world.table("b"), on_upstream_revision=policy)], determinism="keep_first"
    )
    csn = run_days(world, (base, reader), range(1, 3))
    world.run(base, day(3), [3])
    attempt = world.begin(reader, day(3))
    world.write(attempt, [3])
    world.coordinator.complete(attempt)
    with pytest.raises(EpochBusy, match="job r at"):
        rolled(world.coordinator, csn)
    world.clock.advance(PAST_TTL)
    rolled(world.coordinator, csn)
    with pytest.raises(Conflict, match="were rolled back"):
        world.coordinator.publish(attempt)
    world.run(base, day(3), [103])
    again = world.begin(reader, day(3), owner(try_number=2))
    assert not again.adopted
    assert again.inputs[0].csn > attempt.inputs[0].csn
    with pytest.raises(Fenced):
        world.coordinator.publish(attempt)


def test_an_attempt_at_a_later_revision_is_fenced(world: World) -> None:
    """R10: its epoch is not committed any more; what it has written is no revision of anything."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    attempt = world.begin(job, day(3), owner("second"))
    world.write(attempt, [33])
    world.coordinator.complete(attempt)
    world.clock.advance(PAST_TTL)
    rolled(world.coordinator, csn)
    with pytest.raises(Fenced, match="silent when its domain was rolled back"):
        world.coordinator.publish(attempt)
    assert world.run(job, day(3), [103], owner("third")).revision == 2
    assert world.rows("b", at=barrier(3)) == {"b": [(1, 1), (2, 2), (3, 103)]}


def test_an_attempt_that_has_read_none_of_it_goes_on(world: World) -> None:
    """R13: its epoch lies behind a gap, until the epochs before it are computed again."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    attempt = world.begin(job, day(4))
    world.write(attempt, [4])
    world.coordinator.complete(attempt)
    world.clock.advance(PAST_TTL)
    rolled(world.coordinator, csn)
    world.coordinator.publish(attempt)
    assert world.rows("b") == {"b": [(1, 1), (2, 2)]}
    world.run(job, day(3), [103])
    assert world.rows("b") == {"b": [(1, 1), (2, 2), (3, 103), (4, 4)]}


OWNERS = {
    "the same try": owner(),
    "a retry": owner(try_number=2),
    "a cleared task": owner(generation=1),
    "another run": owner("manual"),
}


@pytest.mark.parametrize("run", OWNERS)
@pytest.mark.parametrize("on_rerun", ["keep", "new_revision", "fail"])
def test_an_epoch_that_was_rolled_back_is_not_committed(world: World, run: str, on_rerun: str) -> None:
    """RES9, R30: each run that asks for it computes it, whatever the job says of committed epochs."""
    job = world.job("b", on_rerun=on_rerun)
    csn = run_days(world, (job,), range(1, 3))
    old = world.begin(job, day(3))
    world.write(old, [3])
    world.coordinator.complete(old)
    world.coordinator.publish(old)
    rolled(world.coordinator, csn)
    attempt = world.begin(job, day(3), OWNERS[run])
    assert (attempt.revision, attempt.adopted) == (2, False)
    assert attempt.token > old.token
    world.write(attempt, [103])
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    assert world.rows("b") == {"b": [(1, 1), (2, 2), (3, 103)]}
    answer = world.coordinator.begin(job, day(3), OWNERS[run])
    assert isinstance(answer, AlreadyCommitted)
    assert answer.revision == 2


def test_the_first_run_is_not_told_of_its_own_commit(world: World) -> None:
    """RES9: another run has committed the epoch since; the first run's own commit counts no more."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    rolled(world.coordinator, csn)
    world.run(job, day(3), [103], owner("another"))
    answer = world.coordinator.begin(job, day(3), owner(try_number=2))
    assert isinstance(answer, Attempt)
    assert answer.revision == 3


# --- what is in the way --------------------------------------------------------------------------------------------


def _restated(world: World, base: Job) -> None:
    world.run(base, day(2), [20], owner("again"))


def _expired(world: World, _: Job) -> None:
    full = world.job("f", [world.table("f", kind="full")])
    run_days(world, (full,), range(1, 5))
    world.retention.expire(DOMAIN, "f", barrier(3))


def _dropped(world: World, _: Job) -> None:
    world.run(world.job("x"), day(1), [1])
    world.coordinator.drop(DOMAIN, world.coordinator.plan_drop(DOMAIN, "job", "x"), **WHY)


def _open_restatement(world: World, _: Job) -> None:
    span = Interval(barrier(0), barrier(1))
    world.coordinator.restatements.open(DOMAIN, ["b"], span, name="fix", **WHY)


OBSTACLES: dict[str, tuple[Callable[[World, Job], None], type[EpochError], str]] = {
    "computed again": (_restated, TopologyError, "computed again since"),
    "expired": (_expired, TopologyError, "retention has expired f at"),
    "dropped": (_dropped, TopologyError, "has dropped x"),
    "an open restatement": (_open_restatement, EpochBusy, "restatement fix"),
    "an attempt": (lambda world, base: world.begin(base, day(9)) and None, EpochBusy, "an attempt of job b"),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_what_is_in_the_way_is_named(world: World, obstacle: str) -> None:
    """R30: and nothing changes."""
    base = world.job("b")
    csn = run_days(world, (base,), range(1, 3))
    run_days(world, (base,), range(3, 5))
    act, error, words = OBSTACLES[obstacle]
    act(world, base)
    before = world.exactly()
    plan = planned(world.coordinator, csn)
    assert any(words in text for text in plan.in_the_way)
    with pytest.raises(error, match=words):
        rolled(world.coordinator, csn, plan)
    assert world.exactly() == before


def test_a_csn_that_there_is_not_is_refused(world: World) -> None:
    csn = run_days(world, (world.job("b"),), range(1, 3))
    for wrong in (-1, csn, csn + 7, True, "2"):
        with pytest.raises(InvalidInput, match="before the newest one"):
            planned(world.coordinator, wrong)  # type: ignore[arg-type]
    rolled(world.coordinator, csn - 1)
    with pytest.raises(InvalidInput, match="committed still"):
        rolled(world.coordinator, csn - 1)


CHANGES: dict[str, tuple[Callable[[World, Job], object], type[EpochError]]] = {
    "commit": (lambda world, job: world.run(job, day(5), [5]), Conflict),
    "begin": (lambda world, job: world.begin(job, day(5)), EpochBusy),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_shown_is_rolled_back_or_nothing(world: World, change: str) -> None:
    """R30: an epoch that was committed since is never taken back unseen."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 5)) - 2
    plan = planned(world.coordinator, csn)
    act, error = CHANGES[change]
    act(world, job)
    before = world.exactly()
    with pytest.raises(error):
        rolled(world.coordinator, csn, plan)
    assert world.exactly() == before


def test_a_table_that_began_since_is_empty_again(table_world: World) -> None:
    """R30: with and without a declared origin; it begins anew where its next first epoch is."""
    world = table_world
    base = world.job("b")
    csn = run_days(world, (base,), range(1, 3))
    new = world.job("n", inputs=[state(world.table("b"))])
    loose = world.job("o", origin=None)
    for number in (1, 2):
        world.run(new, day(number), [number])
    world.run(loose, day(2), [2])
    rolled(world.coordinator, csn)
    for name in ("n", "o"):
        with pytest.raises(NotReady):
            world.cut(name)
        assert world.engine_rows(name) == []
    world.run(loose, day(1), [1])
    world.run(new, day(1), [101])
    assert world.rows("b", "n", "o") == {"b": [(1, 1)], "n": [(1, 101)], "o": [(1, 1)]}


def test_a_table_that_reaches_further_back_since_is_refused(world: World) -> None:
    """R30: what was read of it as "nothing before" would be so again, and its readers are not asked."""
    job = world.job("o", origin=None)
    csn = world.run(job, day(3), [3]).csn
    world.run(job, day(2), [2])
    with pytest.raises(TopologyError, match="began later|below the beginning"):
        rolled(world.coordinator, csn)
    assert world.rows("o") == {"o": [(2, 2), (3, 3)]}


def test_a_restatement_that_was_reverted_is_not_in_the_way(world: World) -> None:
    """R30: the error names the command; the epochs that were reverted stay."""
    base, reader = world.job("b"), world.job("r", inputs=[increment(world.table("b"))])
    csn = run_days(world, (base, reader), range(1, 3))
    before = world.rows("b", "r")
    span, restatements = Interval(barrier(1), barrier(2)), world.coordinator.restatements
    restatements.open(DOMAIN, ["b"], span, name="fix", **WHY)
    for job in (base, reader):
        attempt = world.coordinator.begin_within("fix", job, day(2), owner("fix"))
        assert isinstance(attempt, Attempt)
        world.write(attempt, [20])
        world.coordinator.complete(attempt)
        world.coordinator.stage(attempt)
    restatements.publish(DOMAIN, "fix")
    run_days(world, (base, reader), range(3, 4))
    with pytest.raises(TopologyError, match="`airflow epochs restate revert .* --reason …` takes that back"):
        rolled(world.coordinator, csn)
    restatements.revert(DOMAIN, "fix", **WHY)
    told = rolled(world.coordinator, csn)
    assert {epochs.job: epochs.intervals for epochs in told.epochs} == {"b": (day(3),), "r": (day(3),)}
    assert world.rows("b", "r") == before
    assert sound(world)


def test_a_table_keeps_its_newest_state(world: World) -> None:
    """R24, R30: no rollback to a state that is expired, also where it takes back a later one only."""
    full = world.job("f", [world.table("f", kind="full")])
    csn = run_days(world, (full,), range(1, 4))
    run_days(world, (full,), [4])
    world.retention.expire(DOMAIN, "f", barrier(3))
    plan = planned(world.coordinator, csn)
    with pytest.raises(TopologyError, match="retention has expired f at"):
        rolled(world.coordinator, csn, plan)
