"""A fill adds tables to a committed epoch from what the commit has read, or the epoch is computed whole (R7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.attempts.rerun import refuse_reruns
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import AlreadyCommitted
from airflow_provider.domain.errors import DependentReaders, FinalError, StoreIncompatible
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import epoch_key, source_key
from airflow_provider.domain.source_bounds import FileSource, Source
from airflow_provider.domain.topology import Job, Table, increment, previous, state, window
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import Delete, Transaction
from airflow_provider.stores.codec import encode
from airflow_provider.testing.arrow_attempts import read_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner

FILES = SourceReaders()
DAY = timedelta(days=1)


class Load:
    """Job ``load``, which writes one row a day to each of its tables: the number of files and rows that it reads."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.directory = world, directory

    def table(self, name: str) -> Table:
        return self.world.table(name)

    def source(self, name: str, folder: str = "in", **options: Any) -> Source:
        (self.directory / folder).mkdir(exist_ok=True)
        location = f"{self.directory}/{folder}/{{start:%Y-%m-%d}}/*.csv"
        return FileSource(name, location, **{"complete": none_needed(), **options})

    def job(self, tables: str, *inputs: Any, **options: Any) -> Job:
        outputs = [self.world.table(name) for name in tables.split()]
        return self.world.job("load", outputs, inputs=inputs, **options)

    def land(self, number: int, *names: str, folder: str = "in") -> None:
        for name in names:
            path = self.directory / folder / f"{day(number).start:%Y-%m-%d}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)

    def run(self, job: Job, epoch: Interval, by: str = "scheduled") -> list[str]:
        """Compute *epoch*; return the tables that it publishes."""
        coordinator = self.world.coordinator
        attempt = self.world.begin(job, epoch, owner(by), sources=FILES)
        read = [read_rows(coordinator, attempt, provenance.table) for provenance in attempt.inputs]
        values = sum(sum(rows["value"].to_pylist()) for rows in read if rows is not None)
        self.world.write(attempt, [values + sum(len(source.files) for source in attempt.sources)])
        coordinator.complete(attempt)
        return [name for name, _ in coordinator.publish(attempt).tables]

    def rolls_back(self, old: Job, new: Job) -> None:
        """Day 1 is computed by the *new* version of the DAG, day 2 by the *old*; each day has a file."""
        self.world.coordinator.register(old)
        for number, job in ((1, new), (2, old)):
            self.land(number, "file.csv")
            self.run(job, day(number))

    def values(self, number: int, *tables: str) -> list[int]:
        """What *tables* have of a day; no label says that they do not belong together."""
        cut = self.world.cut(*tables)
        assert not cut.outdated
        assert not cut.notes
        rows = self.world.rows_of(cut)
        return [dict(rows[name])[number] for name in tables]


@pytest.fixture
def load(world: World, tmp_path: Path) -> Load:
    return Load(world, tmp_path)


Sides = tuple[list[Any], list[Any]]

CHANGES: dict[str, Callable[[Load], Sides]] = {
    "renamed": lambda load: ([load.source("feed")], [load.source("feed_2")]),
    "two renamed, both empty": lambda load: (
        [load.source("feed"), load.source("notes", "empty")],
        [load.source("feed_2"), load.source("notes_2", "empty")],
    ),
    "renamed, another is empty": lambda load: (
        [load.source("feed")],
        [load.source("feed_2"), load.source("notes", "empty")],
    ),
    "source to table": lambda load: ([load.source("feed")], [increment(load.table("a"))]),
    "table to source": lambda load: ([increment(load.table("a"))], [load.source("feed")]),
    "table to table": lambda load: ([increment(load.table("a"))], [increment(load.table("b"))]),
    "source added": lambda load: (
        [increment(load.table("a"))],
        [increment(load.table("a")), load.source("feed")],
    ),
    "old name beside the new one": lambda load: (
        [load.source("feed")],
        [load.source("feed"), load.source("feed_2")],
    ),
    "edge of another kind": lambda load: ([increment(load.table("a"))], [previous(load.table("a"))]),
    "longer window": lambda load: (
        [window(load.table("a"), length=DAY)],
        [window(load.table("a"), length=2 * DAY)],
    ),
    "a lag": lambda load: ([increment(load.table("a"))], [increment(load.table("a"), as_of=DAY)]),
    "a longer lag": lambda load: (
        [state(load.table("a"), as_of=DAY)],
        [state(load.table("a"), as_of=2 * DAY)],
    ),
}
"""What ``load`` reads before a change, and from then on."""


@pytest.mark.parametrize("change", CHANGES)
def test_epoch_that_reads_another_source_is_no_fill(load: Load, change: str) -> None:
    """R7, I7: all tables of the epoch are computed again together; none is added from other rows than the others."""
    world = load.world
    before, after = CHANGES[change](load)
    old, new = (
        load.job(tables, *reads, origin=barrier(3)) for tables, reads in (("t1", before), ("t1 t2", after))
    )
    sources = [world.job("a"), world.job("b")]
    for job in (*sources, old):
        world.coordinator.register(job)
    for number in range(1, 6):
        for job, value in zip(sources, (10, 200), strict=True):
            world.run(job, day(number), [value**number])
        if "empty" not in change:
            load.land(number, "file.csv")
    load.run(new, day(4))
    load.run(old, day(5))
    load.land(5, "late.csv")
    assert load.run(new, day(5), "cleared") == ["t1", "t2"]
    one, other = load.values(5, "t1", "t2")
    assert one == other


def test_several_epochs_of_which_one_is_a_fill(load: Load) -> None:
    """R5: by on_rerun="fail" none of them begins; the begin of the fill would be refused, too."""
    world, feed = load.world, load.source("feed")
    old, new = load.job("t1", feed, on_rerun="fail"), load.job("t1 t2", feed, on_rerun="fail")
    world.coordinator.register(old)
    for number in (1, 2, 3):
        load.land(number, "file.csv")
    load.run(new, day(1))
    load.run(old, day(2))
    with pytest.raises(FinalError, match="none was begun"):
        refuse_reruns(world.store, new, [day(2), day(3)], owner("both"))


@pytest.mark.parametrize("reads", ["less", "the same"])
def test_epoch_that_reads_no_other_source_is_a_fill(load: Load, reads: str) -> None:
    """R7: also where the declaration has left a source since."""
    feed, notes = load.source("feed"), load.source("notes", "notes")
    old = load.job("t1", feed, notes)
    new = load.job("t1 t2", *((feed,) if reads == "less" else (feed, notes)))
    load.rolls_back(old, new)
    load.land(2, "late.csv")
    assert load.run(new, day(2), "cleared") == ["t2"]
    assert load.values(2, "t1", "t2") == [1, 1]


def test_an_epoch_whose_bounds_are_lost_is_not_filled(load: Load) -> None:
    """R7, I11: the added table would have other rows than those that stay were computed from."""
    world, feed = load.world, load.source("feed")
    old, new = load.job("t1", feed), load.job("t1 t2", feed)
    load.rolls_back(old, new)
    lost = source_key(DOMAIN, feed.name, day(2).end, 1)
    world.store.transact(Transaction(domain=DOMAIN, updates=(Delete(lost),)))
    load.land(2, "late.csv")
    with pytest.raises(StoreIncompatible, match="the bounds of source 'feed' that the commit of load"):
        world.begin(new, day(2), owner("cleared"), sources=FILES)


@pytest.mark.parametrize("left", ["t2", "t1"])
def test_an_epoch_with_rows_that_stayed_is_computed_whole(load: Load, left: str) -> None:
    """R7, R18: its commit names what they were computed from among what the other tables were; a table more would be
    of either.
    """
    world = load.world
    old = load.job("t1" if left == "t2" else "t2", load.source("feed"))
    both = load.job("t1 t2", load.source("feed_2"))
    new = load.job("t1 t2 t3", load.source("feed_2"))
    for job in (old, both, new):
        world.coordinator.register(job)
    for number in (1, 2):
        load.land(number, "file.csv")
    load.run(new, day(1))
    load.run(both, day(2))
    load.land(2, "late.csv")
    load.run(old, day(2), "by the oldest version")
    assert [row.table for row in world.cut("t1", "t2").outdated] == [left]
    assert load.run(new, day(2), "cleared") == ["t1", "t2", "t3"]
    assert load.values(2, "t1", "t2", "t3") == [1, 1, 1], "late.csv is day 3's"


def test_a_commit_that_names_no_sources_is_not_filled(load: Load) -> None:
    """R7: in a store that an older version of the package uses, commits do not tell what they have read."""
    world = load.world
    old, new = load.job("t1", load.source("feed")), load.job("t1 t2", load.source("feed_2"))
    load.rolls_back(old, new)
    key = epoch_key(DOMAIN, old.name, day(2).start)
    record = world.store.read(DOMAIN, [key]).records[key].record
    older = replace(record, committed=replace(record.committed, names_sources=False))
    world.plant(key, encode(key, older))
    load.land(2, "late.csv")
    assert load.run(new, day(2), "cleared") == ["t1", "t2"]
    assert load.values(2, "t1", "t2") == [2, 2]


def test_an_epoch_that_is_no_fill_is_kept_where_its_job_says_so(load: Load) -> None:
    """R7: by on_rerun="keep" the epoch stays as it is, and doctor goes on to name the table."""
    world = load.world
    old, new = (
        load.job(tables, load.source(source), on_rerun="keep")
        for tables, source in (("t1", "feed"), ("t1 t2", "feed_2"))
    )
    load.rolls_back(old, new)
    assert isinstance(world.coordinator.begin(new, day(2), owner("cleared"), sources=FILES), AlreadyCommitted)
    (found,) = [
        symptom
        for symptom in examine(world.store, world.formats, DOMAIN).symptoms
        if symptom.subject == "table t2"
    ]
    assert "with on_rerun='new_revision' where the job reads other sources since" in found.next_step


def test_an_epoch_that_is_no_fill_and_was_read_is_refused(load: Load) -> None:
    """R5, R7: nothing is written."""
    world = load.world
    old, new = load.job("t1", load.source("feed")), load.job("t1 t2", load.source("feed_2"))
    load.rolls_back(old, new)
    reader = world.job("r", inputs=[increment(world.table("t1"))])
    for number in (1, 2):
        world.run(reader, day(number))
    before = world.exactly()
    with pytest.raises(DependentReaders):
        world.begin(new, day(2), owner("cleared"), sources=FILES)
    assert world.exactly() == before
