"""The named schedules of restatements (docs/anomalies.md): torn, half done, concurrent, already read, taken back."""

from __future__ import annotations

import pytest

from airflow_provider.domain.errors import Conflict, DependentReaders, NotReady
from airflow_provider.domain.topology import OnUpstreamRevision, increment, state
from tests.contract.coordination_world import DOMAIN, Rows, World, barrier, day, owner
from tests.contract.restating import (
    NAME,
    cascade,
    computed,
    opened,
    published,
    restated,
    sound,
    within,
)

WHY = {"reason": "it was right before", "by": "me"}


def test_res1_torn_backfill(table_world: World) -> None:
    """R28: while days of D are computed again one by one, a reader of D gets all old ones; after the commit all new."""
    world = table_world
    base, *_ = cascade(world)
    for number in range(1, 7):
        computed(world, base, number, [number])
    old: Rows = {"b": [(number, number) for number in range(1, 7)]}
    held = world.leases.cut(DOMAIN, ["b"], name="held", owner="report")
    opened(world, "b", 1, 6)
    for number in range(1, 7):
        restated(world, base, number, [10 * number])
        assert world.rows("b") == old
    published(world)
    assert world.rows("b") == {"b": [(number, 10 * number) for number in range(1, 7)]}
    assert world.rows_of(held.cut) == old
    assert sound(world)


def test_res2_torn_cascade(table_world: World) -> None:
    """R18, R28: B, D and what sums D up are of one version in every cut, before and after the commit."""
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2):
        for job in (base, daily, total):
            computed(world, job, number, [number] if job is base else None)
    old = world.rows("b", "d", "t")
    opened(world, "b", 1)
    for job, number in ((base, 1), (daily, 1), (total, 1), (total, 2)):
        restated(world, job, number, [100] if job is base else None)
        assert world.rows("b", "d", "t") == old
    published(world)
    assert world.rows("b", "d", "t") == {
        "b": [(1, 100), (2, 2)],
        "d": [(1, 101), (2, 3)],
        "t": [(1, 102), (2, 106)],
    }
    assert sound(world)


def test_res3_failure_half_way(table_world: World) -> None:
    """R28: a member that fails keeps all back; what is staged is not computed again when it is mended."""
    world = table_world
    base, daily, _ = cascade(world)
    for job in (base, daily):
        computed(world, job, 1, [1] if job is base else None)
    old = world.rows("b", "d")
    opened(world, "b", 1)
    restated(world, base, 1, [100])
    for number in range(3):
        attempt = within(world, daily, 1, owner("restate", number + 1))
        world.coordinator.abort(attempt, "it fails")
        with pytest.raises(NotReady):
            published(world)
        assert world.rows("b", "d") == old
    token = world.coordinator.epoch(DOMAIN, base.name, day(1))
    restated(world, daily, 1, by=owner("restate", 9))
    assert world.coordinator.epoch(DOMAIN, base.name, day(1)) == token
    published(world)
    assert world.rows("b", "d") == {"b": [(1, 100)], "d": [(1, 101)]}


def test_res4_concurrent_epoch(table_world: World) -> None:
    """R28: the next epoch commits while earlier ones are computed again; the rows of both stay."""
    world = table_world
    base, daily, _ = cascade(world)
    for number in (1, 2):
        for job in (base, daily):
            computed(world, job, number, [number] if job is base else None)
    opened(world, "b", 1)
    restated(world, base, 1, [100])
    for job in (base, daily):
        computed(world, job, 3, [3] if job is base else None)
    restated(world, daily, 1)
    published(world)
    assert world.rows("b", "d") == {"b": [(1, 100), (2, 2), (3, 3)], "d": [(1, 101), (2, 3), (3, 4)]}
    assert sound(world)


@pytest.mark.parametrize("policy", ["cascade", "ignore"])
def test_res5_roll_up_already_fired(table_world: World, policy: str) -> None:
    """R18, R28: what has summed the day up follows it; by an edge that ignores revisions it is labelled."""
    world = table_world
    base = world.job("b")
    edge = state(world.table("b"), on_upstream_revision=OnUpstreamRevision(policy))
    roll_up = world.job("r", inputs=[edge])
    for number in (1, 2):
        computed(world, base, number, [number])
        computed(world, roll_up, number)
    opened(world, "b", 1)
    restated(world, base, 1, [100])
    for number in (1, 2):
        if policy == "cascade":
            restated(world, roll_up, number)
    published(world)
    cut = world.cut("b", "r")
    assert bool(cut.outdated) == (policy == "ignore")
    assert world.rows_of(cut)["r"] == ([(1, 101), (2, 103)] if policy == "cascade" else [(1, 2), (2, 4)])
    assert sound(world)


def test_res6_cumulative_tail(table_world: World) -> None:
    """R28: of a table that builds on its own past all later epochs follow, also those that are committed meanwhile."""
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2, 3):
        for job in (base, daily, total):
            computed(world, job, number, [number] if job is base else None)
    opened(world, "b", 1)
    for job, number in ((base, 1), (daily, 1), (total, 1), (total, 2), (total, 3)):
        restated(world, job, number, [100] if job is base else None)
    for job in (base, daily, total):
        computed(world, job, 4, [4] if job is base else None)
    with pytest.raises(NotReady, match="They are its members now"):
        published(world)
    restated(world, total, 4)
    published(world)
    assert world.rows("t") == {"t": [(1, 102), (2, 106), (3, 213), (4, 427)]}
    assert sound(world)


@pytest.mark.parametrize("decision", ["join", "release"])
def test_res7_hold(table_world: World, decision: str) -> None:
    """R18, R28: nothing is published while no user decides, however long, and everything else goes on."""
    world = table_world
    base, daily, _ = cascade(world)
    report = world.job("h", inputs=[state(world.table("b"), on_upstream_revision="hold")])
    for job in (base, daily, report):
        computed(world, job, 1, [1] if job is base else None)
    opened(world, "b", 1)
    for job in (base, daily):
        restated(world, job, 1, [100] if job is base else None)
    for number in range(2, 42):
        for job in (base, daily):
            computed(world, job, number, [number] if job is base else None)
        if number % 20 == 0:
            with pytest.raises(NotReady, match="hold it"):
                published(world)
    assert world.rows("b", "d", at=barrier(1)) == {"b": [(1, 1)], "d": [(1, 2)]}
    decide = getattr(world.coordinator.restatements, decision)
    decide(DOMAIN, NAME, ["h"], reason="the report is out", by="me")
    if decision == "join":
        restated(world, report, 1)
    csn = published(world)
    cut = world.cut("b", "d", "h")
    assert [label.csn for label in cut.outdated] == ([csn] if decision == "release" else [])
    expected = {"b": [(1, 100)], "d": [(1, 101)], "h": [(1, 101 if decision == "join" else 2)]}
    assert world.rows_of(cut) == expected
    assert sound(world)


@pytest.mark.parametrize("is_read", [False, True])
def test_res8_bad_restatement(table_world: World, *, is_read: bool) -> None:
    """R30: all of it is taken back by one commit; once another epoch has read it, that is refused with the list."""
    world = table_world
    base, daily, _ = cascade(world)
    late = world.job("late", inputs=[increment(world.table("b"))])
    for job in (base, daily):
        computed(world, job, 1, [1] if job is base else None)
    old = world.rows("b", "d")
    opened(world, "b", 1)
    restated(world, base, 1, [100])
    restated(world, daily, 1)
    published(world)
    bad = world.rows("b", "d")
    operations = world.coordinator.restatements
    if is_read:
        computed(world, late, 1)
        with pytest.raises(DependentReaders, match="late"):
            operations.revert(DOMAIN, NAME, **WHY)
        assert world.rows("b", "d") == bad
        return
    attempt = world.begin(late, day(1), owner("late"))
    operations.revert(DOMAIN, NAME, **WHY)
    assert world.rows("b", "d") == old
    world.write(attempt)
    with pytest.raises(Conflict):
        world.coordinator.publish(attempt)
    assert sound(world)
