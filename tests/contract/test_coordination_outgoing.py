"""Delivery of commits to others: at least once, in order, after they are visible (R35)."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest

from airflow_provider.coordination.reading.change_feed import Event, Position, events, followed
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.columns import add
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import state
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, side_by_side
from tests.contract.restating import NAME, opened, published, restated


def pair(world: World, *numbers: int) -> None:
    """Commit days of a job with two tables."""
    job = world.job("job", [world.table("right"), world.table("left")])
    for number in numbers:
        world.run(job, day(number), [number] * number)


def keys(found: list[Event]) -> list[tuple[int, str]]:
    return [(event.csn, event.table) for event in found]


def test_events_come_in_the_order_of_commits(world: World) -> None:
    """R35: keyed by domain, incarnation, CSN and table; what one says can be asked of a cut."""
    pair(world, 1, 2)
    found = list(events(world.store, DOMAIN))
    assert keys(found) == [(1, "left"), (1, "right"), (2, "left"), (2, "right")]
    head = world.store.read(DOMAIN, []).head
    assert {(event.domain, event.incarnation) for event in found} == {(DOMAIN, head.incarnation)}
    assert (found[-1].interval, found[-1].watermark, found[-1].rows) == (day(2), barrier(2), 2)
    assert found[-1].position == Position(incarnation=head.incarnation, csn=2)
    commits = world.commits()
    assert [(event.by, event.at) for event in found] == [
        (commit.record.by, commit.at) for commit in commits for _ in range(2)
    ]


@pytest.mark.parametrize("taken", range(5))
def test_restarted_consumer_gets_the_remaining_events(world: World, taken: int) -> None:
    """R35: a consumer that kept the position of the last event it took care of misses none, wherever it died."""
    pair(world, 1, 2)
    first = list(islice(events(world.store, DOMAIN), taken))
    kept = Position.parsed(str(first[-1].position)) if first else None
    second = list(events(world.store, DOMAIN, kept))
    assert set(keys(first)) | set(keys(second)) == set(keys(list(events(world.store, DOMAIN))))
    again = set(keys(first)) & set(keys(second))
    assert again == ({first[-1:][0] and (first[-1].csn, "left")} if taken % 2 else set())


def test_follower_gets_later_commits(world: World) -> None:
    """R35: it waits without asking all the time; a registration is a commit of no table."""
    pair(world, 1)
    heard: list[Event] = []

    def listen() -> None:
        heard.extend(islice(followed(world.store, DOMAIN, None, timedelta(seconds=30)), 4))

    def work() -> None:
        world.coordinator.register(world.job("other"))
        pair(world, 2)

    side_by_side(listen, work)
    assert [event.table for event in heard] == ["left", "right"] * 2
    assert heard[-1].interval == day(2)


def test_a_position_of_another_store_is_refused(world: World) -> None:
    """R33, R35: numbers of a history that was lost, or is elsewhere, say nothing here."""
    pair(world, 1)
    here = world.store.read(DOMAIN, []).head.incarnation
    for strange in (Position(incarnation="another", csn=1), Position(incarnation=here, csn=2)):
        with pytest.raises(Unavailable, match="not of this store"):
            list(events(world.store, DOMAIN, strange))


@pytest.mark.parametrize("text", ["", "1", ":1", "x:", "x:-1", "x:1.5", "x:٣", f"x:{'9' * 30}"])
def test_a_position_that_is_none_is_named(text: str) -> None:
    """R35: nothing is delivered from a guess."""
    with pytest.raises(InvalidInput, match="position: .* is not accepted"):
        Position.parsed(text)


class ShortPages(FaultyStore):
    """A store of which each look at its commits has one."""

    def changes(self, domain: Any, after: int, *, limit: int = 1) -> Any:
        """One commit at most."""
        return super().changes(domain, after, limit=min(limit, 1))


def test_all_pages_of_commits_are_delivered(world: World) -> None:
    """R35: of commits that do not fit one page none is missed, whose tables come with their own revision."""
    pair(world, 1, 2)
    again = world.job("job", [world.table("right"), world.table("left")])
    world.run(again, day(1), [3], owner("again"))
    store = ShortPages(world.store, lambda _call: None)
    found = list(events(store, DOMAIN))
    assert found == list(events(world.store, DOMAIN))
    assert [(event.csn, event.revision) for event in found] == [
        (1, 1),
        (1, 1),
        (2, 1),
        (2, 1),
        (3, 2),
        (3, 2),
    ]
    assert keys(list(events(store, DOMAIN, found[2].position))) == keys(found[2:])


class Watched(FaultyStore):
    """A store that remembers from where on it was watched."""

    def __init__(self, inner: Any, plan: Any) -> None:
        super().__init__(inner, plan)
        self.since: list[int] = []

    def watch(self, domain: Any, after: int, timeout: timedelta) -> int:
        """Remember, then watch."""
        self.since.append(after)
        return super().watch(domain, after, timeout)


def test_a_commit_before_the_wait_is_not_waited_for(world: World) -> None:
    """R35: who follows has seen all commits so far when another one comes, and waits from where he has looked on."""
    pair(world, 1)
    before: list[str] = []

    def commits(call: Call) -> Fault | None:
        if before[-1:] == ["changes"] and call.method != "changes" and len(world.commits()) == 1:
            pair(world, 2)
        before.append(call.method)
        return None

    store = Watched(world.store, commits)
    found = list(islice(followed(store, DOMAIN, None, timedelta(0)), 4))
    assert keys(found) == [(1, "left"), (1, "right"), (2, "left"), (2, "right")]
    assert store.since == [1]


def mirrored(world: World, after: Position | None, mirror: dict[int, list[int]]) -> Position:
    """Bring *mirror* up to date by the events since *after*: it gets the rows of their days that a cut has."""
    found = list(events(world.store, DOMAIN, after))
    rows: list[tuple[int, int]] = []
    with suppress(NotReady):
        rows = world.rows("t")["t"]
    for event in found:
        assert event.interval is not None
        told = [
            number for number in range(1, 10) if event.interval.start < barrier(number) <= event.interval.end
        ]
        mirror |= {number: [value for each, value in rows if each == number] for number in told}
    return found[-1].position


def test_epochs_below_the_origin_are_told_once_they_are_read(world: World) -> None:
    """R7, R35: when they were committed readers saw nothing of them, and they come with the last one of the gap."""
    job, mirror, position = world.job("t", origin=None), dict[int, list[int]](), None
    for number in (4, 1, 2, 3):
        world.run(job, day(number), [number])
        position = mirrored(world, position, mirror)
    assert mirror == {1: [1], 2: [2], 3: [3], 4: [4]}
    *_, told = events(world.store, DOMAIN)
    assert (told.interval, told.revision) == (Interval(barrier(0), barrier(3)), None)


def test_epochs_beyond_a_gap_are_told_once_they_are_read(world: World) -> None:
    """R12, R35: of epochs that are published in any order, whether or not the table's beginning is declared."""
    job, mirror, position = world.job("t"), dict[int, list[int]](), None
    for number in (3, 5, 1, 2, 4):
        world.run(job, day(number), [number])
        position = mirrored(world, position, mirror)
    assert mirror == {number: [number] for number in range(1, 6)}
    told = [(event.interval, event.revision) for event in events(world.store, DOMAIN)]
    assert told[2:] == [
        (day(1), 1),
        (Interval(barrier(1), barrier(3)), None),
        (Interval(barrier(3), barrier(5)), None),
    ]


def test_epochs_beyond_those_that_are_rolled_back_are_told(world: World) -> None:
    """R30, R35: readers do not see them any more, and see them again with the epoch before."""
    job, mirror = world.job("t"), dict[int, list[int]]()
    for number in (1, 3):
        world.run(job, day(number), [number])
    context, to = world.coordinator.context, len(world.commits())
    world.run(job, day(2), [2])
    position = mirrored(world, None, mirror)
    rollback(context, plan_rollback(context, DOMAIN, to), reason="wrong", by="ada")
    position = mirrored(world, position, mirror)
    assert mirror == {1: [1], 2: [], 3: []}
    world.run(job, day(2), [20], owner("again"))
    mirrored(world, position, mirror)
    assert mirror == {1: [1], 2: [20], 3: [3]}


def test_a_drop_is_told_of_each_table(world: World) -> None:
    """R35, R39: who mirrors a table takes its rows away, before those of a later table of its name come."""
    pair(world, 1)
    service = world.coordinator
    plan = service.plan_drop(DOMAIN, "job", "job")
    service.drop(DOMAIN, plan, reason="the declarations were wrong", by="ada")
    pair(world, 1)
    found = [(event.table, event.interval, event.rows) for event in events(world.store, DOMAIN)]
    pairs = [(table, day(1), 1) for table in ("left", "right")]
    assert found == [*pairs, ("left", None, 0), ("right", None, 0), *pairs]
    (drop,) = {event.csn for event in events(world.store, DOMAIN) if event.interval is None}
    csns = {event.csn for event in events(world.store, DOMAIN)}
    assert min(csns) < drop < max(csns)


def test_several_epochs_of_a_table_have_no_revision(world: World) -> None:
    """R35: all hours of a day, though the day is one epoch of another table in the same commit."""
    hourly = world.job("h", cadence="@hourly")
    daily = world.job("d", inputs=[state(world.table("h"))])
    hours = hourly.cadence.split(day(1))
    for hour in hours:
        world.run(hourly, hour)
    world.run(daily, day(1))
    opened(world, "h", 1)
    for job, epoch in [*((hourly, hour) for hour in hours), (daily, day(1))]:
        attempt = world.coordinator.begin_within(NAME, job, epoch, owner("restate"))
        assert isinstance(attempt, Attempt)
        world.write(attempt)
        world.coordinator.complete(attempt)
        world.coordinator.stage(attempt)
    csn = published(world)
    told = {
        event.table: (event.interval, event.revision)
        for event in events(world.store, DOMAIN)
        if event.csn == csn
    }
    assert told == {"h": (day(1), None), "d": (day(1), 2)}


def test_a_restatement_is_told_whatever_its_name(world: World) -> None:
    """R35: the change sets of compactions, which are not told, end with the same letters."""
    job = world.job("t")
    world.run(job, day(1), [1])
    name = "fix#compacted"
    opened(world, "t", 1, name=name)
    restated(world, job, 1, [2], name=name)
    csn = world.coordinator.restatements.publish(DOMAIN, name)
    assert [(event.csn, event.revision) for event in events(world.store, DOMAIN)] == [(1, 1), (csn, 2)]


def test_a_change_of_columns_is_told_of_all_epochs(world: World) -> None:
    """R32, R35: their rows have other columns; the epoch whose begin makes the change may never be committed."""
    for number in (1, 2):
        world.run(world.job("t"), day(number), [number])
    world.begin(world.job("t", [world.table("t", column_changes=[add("tip", "double")])]), day(3))
    *_, told = events(world.store, DOMAIN)
    assert (told.interval, told.revision, told.rows) == (Interval(barrier(0), barrier(2)), None, 0)
