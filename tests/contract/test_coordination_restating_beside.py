"""Restatements beside normal runs and readers (R18, R28, R29)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from airflow_provider.coordination.attempts.resume import Begun
from airflow_provider.coordination.reading.wait import JobInputs, Readiness, begin_readiness
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    Fenced,
    InvalidInput,
    NotReady,
)
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import increment, previous, state
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner
from tests.contract.interruptions import interrupted
from tests.contract.restating import (
    CLEARED,
    NAME,
    NEW,
    OLD,
    Jobs,
    cascade,
    computed,
    extending,
    finished,
    members,
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
    within,
    write,
)


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
    assert [(missing.name, missing.wanted) for missing in refused.value.missing] == [("t", barrier(4))]
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


def test_a_member_that_has_read_what_joins_later_is_computed_again(world: World) -> None:
    """R28: it has read rows as they were committed, which are replaced together with its own."""
    base, daily, _ = planned(world)
    late = world.job("n", inputs=[increment(world.table("d"))])
    for number in (1, 2, 3):
        computed(world, late, number)
    edges = [increment(world.table("d")), previous(world.table("t")), increment(world.table("n"))]
    wider = world.job("t", inputs=edges)
    restated(world, base, 2, [1000])
    restated(world, daily, 2)
    for number in (2, 3):
        restated(world, wider, number)
    with pytest.raises(NotReady, match="They are its members now"):
        published(world)
    restated(world, late, 2)
    with pytest.raises(Conflict, match="n was computed again"):
        published(world)
    for number in (2, 3):
        restated(world, wider, number)
    published(world)
    assert world.rows("n", "t") == {
        "n": [(1, 12), (2, 1002), (3, 32)],
        "t": [(1, 12), (2, 12 + 1001 + 1002 + 1), (3, 12 + 2016 + 31 + 32 + 1)],
    }
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
        assert [(label.table, label.csn) for label in world.cut("r").outdated] == [("r", csn)]
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
    assert [member.revision for member in world.commits()[-1].record.members if member.job == "t"] == [2, 3]
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
    return sorted((member.job, (member.interval.end - barrier(0)).days) for member in found)


@pytest.mark.parametrize("what", ["complete", "staged"])
@pytest.mark.parametrize("together", [False, True])
def test_a_member_is_not_published_by_itself(world: World, what: str, *, together: bool) -> None:
    """R28: by publish or publish_together; a process that resumes what is staged gets no attempt to publish."""
    base, _, total = planned(world)
    attempt = within(world, base, 2)
    world.write(attempt, [1000])
    world.coordinator.complete(attempt)
    if what == "staged":
        staged = world.coordinator.stage(attempt)
        assert world.coordinator.resume(base, Begun.of(attempt)) == staged
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
    """R15, R28: a run that has computed it, normally or within, is told that it is committed."""
    _, daily, _ = ready(world)
    csn = published(world)
    if by != "other":
        found = world.coordinator.begin(daily, day(2), owner(by, 2))
        assert isinstance(found, AlreadyCommitted)
        assert found.csn == (csn if by == "restate" else 5)
    again = world.coordinator.begin_within(NAME, daily, day(2), owner(by))
    assert isinstance(again, AlreadyCommitted)
    assert again.csn == csn


def test_two_publishers_find_the_same_new_reader(world: World) -> None:
    """R28: both are told that it is a member now, which a task waits for; none of them fails for good."""
    extending(world)

    def other() -> None:
        with pytest.raises(NotReady):
            published(world)

    slow = interrupted(world, other)
    with pytest.raises(NotReady):
        slow.restatements.publish(DOMAIN, NAME)


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


def _closing(world: World) -> Jobs:
    """A restatement that a new reader has kept from being published."""
    jobs = ready(world)
    run_all(world, jobs, [4])
    with pytest.raises(NotReady, match=r"No further epoch begins to read that before 2030-01-01T01:00"):
        published(world)
    return jobs


@pytest.mark.parametrize("policy", ["cascade", "hold", "ignore"])
def test_no_epoch_begins_to_read_what_is_about_to_be_replaced(table_world: World, policy: str) -> None:
    """R28: but what reads nothing of it begins, and what ignores revisions; the publish meets no new reader."""
    world = table_world
    reader = world.job("r", inputs=[increment(world.table("d"), on_upstream_revision=policy)])
    base, daily, total = _closing(world)
    for job in (base, daily):
        computed(world, job, 5, [50] if job is base else None)
    with pytest.raises(
        EpochBusy, match=r"t \S+ \S+ reads t, which restatement 'correct' is about to replace"
    ) as busy:
        world.begin(total, day(5), owner("first"))
    assert busy.value.until == world.clock.now() + DEFAULTS.closing_phase
    assert busy.value.holders == ("restatement correct",)
    computed(world, reader, 1)
    if policy == "ignore":
        computed(world, reader, 2)
    else:
        with pytest.raises(EpochBusy, match="reads d, which"):
            world.begin(reader, day(2), owner("first"))
    restated(world, total, 4)
    published(world)
    computed(world, total, 5)
    assert sound(world)


@pytest.mark.parametrize("policy", ["cascade", "ignore"])
def test_a_task_waits_until_a_restatement_has_closed(world: World, policy: str) -> None:
    """R28: it asks what begin would say; otherwise it would be told to begin, and be refused, again and again."""
    reader = world.job("r", inputs=[increment(world.table("d"), on_upstream_revision=policy)])
    _closing(world)

    def ask(number: int, restatement: str | None = None) -> Readiness:
        inputs, run = JobInputs.of(reader, day(number)), ("dag", "run")
        return begin_readiness(world.store, DOMAIN, "r", inputs, run, restatement=restatement)

    assert ask(1).ready
    assert ask(2, NAME).missing == ()
    answer = ask(2)
    assert answer.ready is (policy == "ignore")
    if policy == "cascade":
        assert answer.ends_by_clock
        assert "is about to replace: until 2030-01-01T01:00" in answer.missing[0].reason
        with pytest.raises(EpochBusy, match="is about to replace"):
            world.begin(reader, day(2))
    world.clock.advance(DEFAULTS.closing_phase)
    assert ask(2).ready
    world.begin(reader, day(2))


def test_closing_ends_and_readers_go_on_for_as_long(world: World) -> None:
    """R28: a restatement that is never finished stops its readers half of the time, at most."""
    jobs = _closing(world)
    world.clock.advance(DEFAULTS.closing_phase)
    for number in (5, 6, 7):
        finished(world, jobs)
        run_all(world, jobs, [number])
        with pytest.raises(NotReady, match="They are its members now") as refused:
            published(world)
        assert ("No further epoch begins" in refused.value.message) is (number == 7)
        world.clock.advance(DEFAULTS.closing_phase / 2)
    run_all(world, jobs[:2], [8])
    with pytest.raises(EpochBusy, match="about to replace"):
        world.begin(jobs[2], day(8), owner("first"))
    operations(world).abandon(DOMAIN, NAME, reason="no more", by="me")
    computed(world, jobs[2], 8)
    assert sound(world)


def test_a_skip_waits_while_a_restatement_closes(world: World) -> None:
    """R5, R28: a skipped epoch of a full table copies the state before, which is about to be replaced."""
    base, daily, _ = cascade(world)
    latest = world.job("f", [world.table("f", kind="full")], inputs=[increment(world.table("d"))])
    run_all(world, [base, daily, latest], [1, 2])
    opened(world, "b", 2)
    finished(world, (base, daily, latest))
    run_all(world, [base, daily], [3])
    late = world.job("l", inputs=[increment(world.table("d"))])
    for number in (1, 2):
        computed(world, late, number)
    with pytest.raises(NotReady, match="They are its members now"):
        published(world)
    with pytest.raises(EpochBusy, match="reads f, which restatement"):
        world.coordinator.skip(DOMAIN, "f", day(3), "no data", by="me")
    restated(world, late, 2)
    published(world)
    world.coordinator.skip(DOMAIN, "f", day(3), "no data", by="me")
    assert sound(world)
