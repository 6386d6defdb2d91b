"""How far tables are behind, and which epoch holds them back, as ``airflow epochs lag`` tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.lag import DomainLag, lag
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.lag import HolderState, TableLag, tables_held
from airflow_provider.domain.records import Kind, table_key
from airflow_provider.domain.source_bounds import FileSource, SourceBounds
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, increment, previous
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, World, owner

DAY = timedelta(days=1)
DAILY = Cadence("@daily")
LAYERS = ("raw", "clean", "report")


class Days:
    """Days of a world before its store's now: day 1 is the last one that has ended, day 2 the one before."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.today = DAILY.floor(world.store.read(DOMAIN, []).now)

    def epoch(self, ago: int) -> Interval:
        return Interval(self.today - ago * DAY, self.today - (ago - 1) * DAY)

    def job(self, name: str, inputs: Any = (), *, since: int = 5, **options: Any) -> Job:
        """Declare a daily job whose first epoch is day *since*."""
        read = [self.world.table(given) if isinstance(given, str) else given for given in inputs]
        return self.world.job(name, inputs=read, origin=self.today - since * DAY, **options)

    def run(self, job: Job, *ago: int) -> None:
        for number in ago:
            self.world.run(job, self.epoch(number))

    def cascade(self) -> tuple[Job, Job, Job]:
        """Compute five days of raw data, four of what reads it, and two of the report."""
        raw, clean, report = (
            self.job(name, LAYERS[place - 1 : place] if place else ()) for place, name in enumerate(LAYERS)
        )
        for ago in (5, 4, 3, 2, 1):
            self.run(raw, ago)
            self.run(clean, *[ago] if ago > 1 else [])
            self.run(report, *[ago] if ago > 3 else [])
        return raw, clean, report


def by_name(found: DomainLag) -> dict[str, TableLag]:
    return {row.table: row for row in found.tables}


def test_lag_counts_due_epochs_and_those_whose_inputs_are_there(world: World) -> None:
    """R21: local, global and wall clock lag of each table; the slowest table comes first."""
    Days(world).cascade()
    found = lag(world.store, DOMAIN)
    rows = by_name(found)
    assert list(rows) == ["report", "clean", "raw"]
    assert {name: (row.lacking, row.ready) for name, row in rows.items()} == {
        "raw": (0, 0),
        "clean": (1, 1),
        "report": (3, 2),
    }
    assert [rows[name].local for name in LAYERS] == [0 * DAY, DAY, 3 * DAY]
    assert [rows[name].global_ for name in LAYERS] == [3 * DAY, 2 * DAY, 0 * DAY]
    assert [rows[name].wall_clock for name in LAYERS] == [
        found.at - row.watermark for name in LAYERS if (row := rows[name]).watermark
    ]
    assert rows["raw"].held_by is None


def test_each_table_is_held_back_by_the_first_epoch_upstream_that_lacks(world: World) -> None:
    """R21: a reader whose input is late names the input's epoch; of epochs that only it lacks, its own."""
    days = Days(world)
    *_, report = days.cascade()
    days.run(report, 3, 2)
    held = by_name(lag(world.store, DOMAIN))["report"].held_by
    assert held is not None
    assert (held.job, held.interval, held.state) == ("clean", days.epoch(1), HolderState.NOT_BEGUN)
    assert held.since == days.today
    ((holder, tables),) = tables_held(lag(world.store, DOMAIN).tables)
    assert (holder, tables) == (held, ["clean", "report"])


def begins(world: World, clean: Job, epoch: Interval) -> HolderState:
    world.begin(clean, epoch)
    return HolderState.RUNNING


def fails(world: World, clean: Job, epoch: Interval) -> HolderState:
    world.coordinator.abort(world.begin(clean, epoch), "SparkException: no memory")
    return HolderState.FAILED


def falls_silent(world: World, clean: Job, epoch: Interval) -> HolderState:
    hasty = world.worker()
    hasty.context = type(hasty.context).of(
        world.store, world.formats, clock=world.clock, defaults=Defaults(lock_ttl=timedelta(milliseconds=1))
    )
    hasty.begin(clean, epoch, owner())
    world.clock.advance(timedelta(seconds=1))
    return HolderState.SILENT


@pytest.mark.parametrize("happens", [begins, fails, falls_silent])
def test_the_attempt_at_the_epoch_tells_its_state(
    world: World, happens: Callable[[World, Job, Interval], HolderState]
) -> None:
    """Section 10: with the owner, since when, and why it failed."""
    days = Days(world)
    _, clean, _ = days.cascade()
    expected = happens(world, clean, days.epoch(1))
    held = by_name(lag(world.store, DOMAIN))["clean"].held_by
    assert held is not None
    assert (held.job, held.state, held.owner) == ("clean", expected, held.owner)
    assert held.owner is not None
    assert held.owner.run_id == "scheduled"
    assert held.because == ("SparkException: no memory" if expected is HolderState.FAILED else "")
    assert held.since is not None
    assert held.since >= days.today


def of_no_job(_: Days) -> str:
    return "absent"


def of_an_ended_job(days: Days) -> str:
    ends = days.job("ends")
    days.run(ends, 5, 4)
    days.world.coordinator.retire(DOMAIN, "ends", reason="renamed", by="ada")
    return "ends"


@pytest.mark.parametrize("waits_for", [of_no_job, of_an_ended_job])
def test_what_waits_in_vain_holds_its_readers_back_itself(
    world: World, waits_for: Callable[[Days], str]
) -> None:
    """R9: an input that no run brings is no epoch to look at; the reader says what it waits for."""
    days = Days(world)
    read = waits_for(days)
    waiting = days.job("waiting", [read], since=3)
    world.coordinator.register(waiting)
    world.coordinator.register(days.job("after", ["waiting"], since=3))
    rows = by_name(lag(world.store, DOMAIN, ["after", "waiting"]))
    assert rows["after"].held_by == rows["waiting"].held_by
    held = rows["after"].held_by
    assert held is not None
    assert (held.job, held.interval, held.state) == ("waiting", days.epoch(3), HolderState.WAITING)
    assert held.because.startswith(f"{read}: ")


def test_epochs_beyond_a_gap_are_not_lacking(world: World) -> None:
    """R21: the watermark stops at the gap; what lies beyond it is there."""
    days = Days(world)
    job = days.job("raw")
    days.run(job, 5, 3, 1)
    (row,) = lag(world.store, DOMAIN).tables
    assert (row.lacking, row.ready, row.watermark) == (2, 2, days.today - 4 * DAY)
    assert row.held_by is not None
    assert row.held_by.interval == days.epoch(4)


def test_end_to_end_is_the_age_of_the_oldest_source_that_is_in(world: World) -> None:
    """R21: along as_of edges and the own past; of two ways to one source the later counts."""
    days = Days(world)
    slow = days.job("slow")
    fast = days.job("fast", [FileSource("feed", "/nowhere/{start:%Y-%m-%d}")])
    total = days.job(
        "total",
        [increment(world.table("slow"), as_of=DAY), "fast", previous(world.table("total", kind="full"))],
        outputs=[world.table("total", kind=TableKind.FULL)],
        since=3,
    )
    for job in (slow, fast, total):
        for number in (5, 4, 3, 2, 1) if job is not total else (3, 2, 1):
            bounds = {"feed": SourceBounds(source="feed")} if job is fast else None
            attempt = world.begin(job, days.epoch(number), sources=bounds)
            world.write(attempt)
            world.coordinator.complete(attempt)
            world.coordinator.publish(attempt)
    found = lag(world.store, DOMAIN)
    rows = by_name(found)
    assert (rows["total"].slowest, rows["fast"].slowest) == ("job slow", "source feed")
    assert rows["total"].end_to_end == found.at - (days.today - DAY)
    assert rows["fast"].end_to_end == rows["fast"].wall_clock == found.at - days.today


def test_ended_and_inactive_tables_and_those_without_origin(world: World) -> None:
    """R7, R9: nothing is due of an ended table; without an origin no epoch can be counted."""
    days = Days(world)
    days.run(days.job("ends"), 5)
    world.coordinator.retire(DOMAIN, "ends", reason="renamed", by="ada")
    world.coordinator.register(world.job("unborn", origin=None))
    rows = by_name(lag(world.store, DOMAIN))
    ended, unborn = rows["ends"], rows["unborn"]
    assert (ended.lacking, ended.held_by, ended.ended) == (0, None, "renamed (ada)")
    assert (unborn.lacking, unborn.watermark, unborn.end_to_end) == (None, None, None)
    assert unborn.held_by is not None
    assert unborn.held_by.interval == days.epoch(1)


class Counted(FaultyStore):
    """A store that counts what is asked for. :ivar scanned: the kinds of records. :ivar reads: number of reads."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store, lambda _call: None)
        self.scanned: list[Kind] = []
        self.reads = 0

    def read(self, *arguments: Any, **options: Any) -> Any:
        self.reads += 1
        return super().read(*arguments, **options)

    def scan(self, domain: DomainName, kind: Kind, *arguments: Any, **options: Any) -> Any:
        self.scanned.append(kind)
        return super().scan(domain, kind, *arguments, **options)


def test_lag_reads_no_history(world: World) -> None:
    """Section 10: jobs, tables, and one read of the first epochs that are lacking; however long the past is."""
    Days(world).cascade()
    store = Counted(world)
    lag(store, DOMAIN)
    assert store.scanned == [Kind.JOB, Kind.TABLE]
    assert store.reads == 2


@pytest.mark.parametrize("tables", [["nix"], []])
def test_unknown_tables_and_empty_domains_are_refused(world: World, tables: list[str]) -> None:
    """Section 10: with the name that was asked for."""
    with pytest.raises(UnknownName):
        lag(world.store, DOMAIN, tables)


def test_long_backlogs_are_counted_up_to_a_thousand(world: World) -> None:
    """Section 10: of a fine calendar the first ones; the time since the first was due is whole."""
    days = Days(world)
    ticks = world.job("ticks", cadence="* * * * *", origin=days.today - 3 * DAY)
    world.coordinator.register(ticks)
    (row,) = lag(world.store, DOMAIN).tables
    assert (row.lacking, row.ready) == (1_000, 1_000)
    now: datetime = lag(world.store, DOMAIN).at
    assert row.local is not None
    assert row.local >= now - (days.today - 3 * DAY) - timedelta(minutes=2)
    assert row.overdue == now - (days.today - 3 * DAY) - timedelta(minutes=1)


def test_a_gap_that_is_a_thousand_epochs_old_is_lacking_still(world: World) -> None:
    """R21: its readers wait for it, though all later epochs are there."""
    days = Days(world)
    days.run(days.job("raw", since=1_100), 1_100)
    key = table_key(DOMAIN, TableName("raw"))
    stamped = world.store.read(DOMAIN, [key]).of(key)
    progress = stamped.record.progress.adding(Interval(days.today - 1_098 * DAY, days.today))
    written = replace(stamped.record, progress=progress)  # as after so many commits
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, written),)))
    found = lag(world.store, DOMAIN)
    (row,) = found.tables
    assert (row.lacking, row.ready, row.local) == (1, 1, 1_099 * DAY)
    assert row.overdue == found.at - (days.today - 1_098 * DAY)


def test_a_table_that_is_not_registered_has_no_lag(world: World) -> None:
    """R6: it is told with the one that is alike, and not left out of the answer."""
    world.coordinator.register(world.job("events"))
    with pytest.raises(UnknownName, match="'evnets' .*is 'events' meant"):
        lag(world.store, DOMAIN, ["events", "evnets"])
