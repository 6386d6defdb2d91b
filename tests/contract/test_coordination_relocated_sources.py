"""Sources that get another name and, with it, another location or window, on each store (I11)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain import sizes, source_declarations
from airflow_provider.domain.errors import RecordFull, TopologyError
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.landings import BY_END, FILES, Landing


@pytest.fixture
def landing(world: World, tmp_path: Path) -> Landing:
    return Landing(world, tmp_path)


@pytest.mark.parametrize("who", ["load", "a successor"])
@pytest.mark.parametrize(
    ("old_late", "new_late"),
    [("revision", "revision"), ("ignore", "ignore"), ("refuse", "ignore"), ("next", "next")],
)
def test_a_new_name_with_another_location_reads_no_file_twice(
    landing: Landing, who: str, old_late: str, new_late: str
) -> None:
    """I11: the folder of an epoch's end is that of the next one's start, whichever rule either name has."""
    world, old = landing.world, landing.job("feed", BY_END, late=old_late)
    new = landing.job("feed_2", late=new_late)
    for number in range(1, 5):
        landing.land(number, f"{number}.csv")
    assert [landing.run(old, day(number)) for number in (1, 2)] == [["2.csv"], ["3.csv"]]
    if who == "a successor":
        world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
        new = world.job("successor", [world.table("load")], inputs=new.sources)
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"3\.csv, that \[2024-01-02.* has read as source 'feed'"):
        world.begin(new, day(3), sources=FILES)
    assert world.exactly() == before
    assert landing.run(new, day(4)) == ["4.csv"]


def test_an_older_declaration_reads_no_file_of_the_new_location(landing: Landing) -> None:
    """I11: the other way round: a task of the older version of the DAG, tried again after the new one began."""
    old, new = landing.job("feed", BY_END, late="revision"), landing.job("feed_2", late="revision")
    for number in range(1, 5):
        landing.land(number, f"{number}.csv")
    landing.run(old, day(1))
    assert landing.run(new, day(4)) == ["4.csv"]
    with pytest.raises(TopologyError, match=r"4\.csv, that \[2024-01-04.* has read as source 'feed_2'"):
        landing.world.begin(old, day(3), owner("older"), sources=FILES)


@pytest.mark.parametrize("late", ["revision", "ignore"])
def test_an_epoch_beside_that_begins_by_another_location_meanwhile_is_seen(
    landing: Landing, late: str
) -> None:
    """I11: of two begins that find one file by two names the later one is refused; neither depends on a chain."""
    old, new = landing.job("feed", BY_END, late=late), landing.job("feed_2", late=late)
    for number in range(1, 4):
        landing.land(number, f"{number}.csv")
    landing.run(old, day(1))
    landing.world.coordinator.register(new)
    with pytest.raises(TopologyError, match=r"3\.csv, that \[2024-01-02"):
        landing.begin_while(new, day(3), meanwhile=lambda: landing.begin(old, day(2)))


def test_a_far_epoch_that_begins_by_another_location_meanwhile_is_seen(landing: Landing) -> None:
    """I11: each epoch of the old name reads all files of its year, and none of the two names has a chain."""
    old = landing.job("dump", "{start:%Y}*.csv", late="ignore")
    new = landing.job("daily", "{start:%Y-%m-%d}.csv", late="ignore")
    (landing.directory / "2024-01-02.csv").write_text("x")
    landing.run(old, day(2))
    (landing.directory / f"{day(50).start:%Y-%m-%d}.csv").write_text("x")
    landing.world.coordinator.register(new)
    with pytest.raises(TopologyError, match=r"02-19\.csv, that \[2024-01-20.* has read as source 'dump'"):
        landing.begin_while(new, day(50), meanwhile=lambda: landing.begin(old, day(20)))


def test_a_location_that_shares_no_file_is_read(landing: Landing) -> None:
    """I11: a source that moves to another folder goes on; what its epochs share by declaration is no other's file."""
    landing.land(1, "1.csv")
    landing.run(landing.job("feed", BY_END, late="ignore"), day(1))
    (landing.directory / "all").mkdir()
    (landing.directory / "all" / "x.csv").write_text("x")
    assert landing.run(landing.job("feed_2", "all/*.csv", late="ignore"), day(2)) == ["x.csv"]
    assert landing.run(landing.job("feed_3", "all/*", late="ignore"), day(3)) == ["x.csv"]


@pytest.mark.parametrize("longer", ["feed", "feed_2"])
def test_a_longer_window_reads_no_file_that_the_other_name_has_read_late(
    landing: Landing, longer: str
) -> None:
    """I11: the name with the longer window looks at folders of which the other has read files in epochs that are
    beyond the other's window.
    """
    window = {"late_window": timedelta(days=30)}
    old = landing.job("feed", **(window if longer == "feed" else {}))
    new = landing.job("feed_2", **(window if longer == "feed_2" else {}))
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.run(new, day(1), owner("again"))
    landing.land(1, "late.csv")
    short, long = (new, old) if longer == "feed" else (old, new)
    assert landing.run(short, day(2)) == ["late.csv"]
    landing.world.coordinator.register(long)
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-02"):
        landing.world.begin(long, day(25), sources=FILES)


@pytest.mark.parametrize("way", ["at once", "by way of another name"])
@pytest.mark.parametrize("late", ["ignore", "revision", "refuse", "next"])
def test_a_name_keeps_its_location_once_bounds_are_recorded(landing: Landing, late: str, way: str) -> None:
    """I11: under the same name no begin compares what an epoch has read at the other location."""
    world, old, new = landing.world, landing.job("feed", BY_END, late=late), landing.job("feed", late=late)
    for number in range(1, 5):
        landing.land(number, f"{number}.csv")
    assert landing.run(old, day(1)) == ["2.csv"]
    if way == "by way of another name":
        world.coordinator.register(landing.job("feed_2", "none-{start:%Y-%m-%d}.csv", late=late))
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"source 'feed' has location '.*end:.*cannot become") as refused:
        world.begin(new, day(2), sources=FILES)
    assert "declare a source of another name" in refused.value.next_step
    assert world.exactly() == before


@pytest.mark.parametrize("who", ["load", "a successor"])
@pytest.mark.parametrize("late", ["ignore", "revision", "next"])
def test_a_folder_that_a_change_of_location_passes_by_is_named(landing: Landing, late: str, who: str) -> None:
    """I11: by neither name it is the folder of an epoch; it is told once, also where another file comes late."""
    world, old, new = landing.world, landing.job("feed", late=late), landing.job("feed_2", BY_END, late=late)
    for number in range(1, 6):
        landing.land(number, f"{number}.csv")
    assert [landing.run(old, day(number)) for number in (1, 2)] == [["1.csv"], ["2.csv"]]
    if who == "a successor":
        world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
        new = world.job("successor", [world.table("load")], inputs=new.sources)
    assert landing.run(new, day(3)) == ["4.csv"]
    (text,) = landing.texts()
    assert "3.csv" in text
    assert "1 lie where it looks for epochs that were computed by another source and are read by no" in text
    assert "move them to where a coming epoch looks; nothing, if they are copies" in text
    landing.land(2, "late.csv")
    told = landing.texts()
    assert sum("3.csv" in text for text in told) == 1
    assert sum("late.csv" in text for text in told) == 1
    path = landing.directory / "2024-01-03" / "3.csv"
    path.rename(landing.directory / "2024-01-05" / "3.csv")
    assert landing.run(new, day(4)) == ["3.csv", "5.csv"]
    assert not any("3.csv" in text for text in landing.texts())


def test_a_folder_that_was_passed_by_is_named_after_the_next_change_of_location(landing: Landing) -> None:
    """I11: by a source that the job has left since; what lies where a left one would look later is not named."""
    old, new = landing.job("feed"), landing.job("feed_2", BY_END)
    newest = landing.job("feed_3", "all/*.csv", late="ignore")
    for number in range(1, 6):
        landing.land(number, f"{number}.csv")
    assert [landing.run(old, day(number)) for number in (1, 2)] == [["1.csv"], ["2.csv"]]
    assert landing.run(new, day(3)) == ["4.csv"]
    (landing.directory / "all").mkdir()
    (landing.directory / "all" / "x.csv").write_text("x")
    assert landing.run(newest, day(4)) == ["x.csv"]
    told = landing.texts()
    assert sum("3.csv" in text for text in told) == 1
    assert not any("5.csv" in text for text in told)


def test_file_of_an_epoch_recomputed_from_another_location_is_named(landing: Landing) -> None:
    """I11: the old name has read it for that epoch; the new one looks there for the epoch that the old one keeps."""
    old, new = landing.job("feed", BY_END), landing.job("feed_2")
    for number in range(1, 6):
        landing.land(number, f"{number}.csv")
    assert [landing.run(old, day(number)) for number in (1, 2)] == [["2.csv"], ["3.csv"]]
    assert landing.texts() == []
    assert landing.run(new, day(1), owner("again")) == ["1.csv"]
    (text,) = landing.texts()
    assert "2.csv" in text


def test_files_that_the_next_epoch_reads_by_another_location_are_not_named(landing: Landing) -> None:
    """I11: a folder that all epochs share is no place of an epoch that was computed by the other name."""
    (landing.directory / "all").mkdir()
    landing.land(1, "1.csv")
    assert landing.run(landing.job("feed"), day(1)) == ["1.csv"]
    new = landing.job("feed_2", "all/*.csv", late="ignore")
    landing.world.coordinator.register(new)
    (landing.directory / "all" / "x.csv").write_text("x")
    assert landing.texts() == []
    assert landing.run(new, day(2)) == ["x.csv"]
    assert landing.texts() == []


@pytest.mark.parametrize("spelling", ["/", "../{}/", "./"])
@pytest.mark.parametrize("late", ["ignore", "next"])
def test_files_of_another_spelling_that_was_recorded_are_known(
    landing: Landing, monkeypatch: pytest.MonkeyPatch, late: str, spelling: str
) -> None:
    """I11: an older version of the package took it; its declaration stays readable."""
    with monkeypatch.context() as older:
        older.setattr(source_declarations, "is_plain", lambda _: True)
        feed = landing.job("feed", spelling.format(landing.directory.name) + BY_END, late=late)
    landing.land(3, "3.csv")
    assert landing.run(feed, day(2)) == ["3.csv"]
    landing.world.coordinator.register(new := landing.job("feed_2", late=late))
    with pytest.raises(TopologyError, match=r"3\.csv, that \[2024-01-02.* has read as source 'feed'"):
        landing.world.begin(new, day(3), sources=FILES)


def test_a_name_may_get_another_location_before_any_bounds(landing: Landing) -> None:
    """I11: a location that was mistyped is corrected."""
    landing.land(1, "1.csv")
    landing.world.coordinator.register(landing.job("feed", "{start:%Y-%d-%m}.csv", late="ignore"))
    assert landing.run(landing.job("feed", late="ignore"), day(1)) == ["1.csv"]


@pytest.mark.parametrize("who", ["load", "a successor"])
@pytest.mark.parametrize(
    ("backlog", "file", "number"),
    [
        ("*.csv", "{start:%Y-%m-%d}", 12),
        ("*.csv", "{start:%Y-%m-%d}", 500),
        ("{start:%Y}*.csv", "{start:%Y-%m-%d}", 360),
        ("{start:%Y-%m}*.csv", "{start:%Y-%m-%d}", 31),
        ("{start:%m}*.csv", "{start:%m-%d}", 370),
    ],
)
def test_a_new_name_reads_nothing_of_a_backlog_beyond_the_window(
    landing: Landing, who: str, backlog: str, file: str, number: int
) -> None:
    """I11: an epoch has read what lies at places of far ones, since its location is the same for all of them."""
    world, old = landing.world, landing.job("dump", backlog, late="ignore")
    new = landing.job("daily", f"{file}.csv", late="ignore")
    for at in (day(1), day(number)):
        (landing.directory / f"{file.format(start=at.start)}.csv").write_text("x")
    assert len(landing.run(old, day(1))) == 2
    if who == "a successor":
        world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
        new = world.job("successor", [world.table("load")], inputs=new.sources)
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"csv, that \[2024-01-01.* has read as source 'dump'"):
        world.begin(new, day(number), sources=FILES)
    assert world.exactly() == before


def test_a_new_name_for_a_whole_year_reads_no_file_of_a_far_day(landing: Landing) -> None:
    """I11: the other way round: the new name's location is the same for all epochs; and each file is read once."""
    for number in (1, 20):
        (landing.directory / f"{day(number).start:%Y-%m-%d}.csv").write_text("x")
    landing.run(landing.job("daily", "{start:%Y-%m-%d}.csv"), day(1))
    landing.world.coordinator.register(new := landing.job("dump", "{start:%Y}*.csv"))
    with pytest.raises(TopologyError, match=r"01\.csv, that \[2024-01-01.* has read as source 'daily'"):
        landing.world.begin(new, day(30), sources=FILES)


@pytest.mark.parametrize("who", ["load", "a successor"])
def test_no_source_that_a_job_has_left_is_forgotten(
    landing: Landing, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """I11: beyond the limit another name is refused; what the oldest has read late would be read again."""
    world = landing.world
    monkeypatch.setattr(sizes, "MOST_LEFT_SOURCES", 2)
    landing.land(1, "a.csv")
    landing.run(landing.job("feed"), day(1))
    landing.land(1, "late.csv")
    assert landing.run(landing.job("feed"), day(2)) == ["late.csv"]
    for name in ("feed_2", "feed_3"):
        world.coordinator.register(landing.job(name))
    job = landing.job("feed_4")
    if who == "a successor":
        world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
        job = world.job("successor", [world.table("load")], inputs=job.sources)
    before = world.exactly()
    with pytest.raises(RecordFull, match="sources that were left of job .* 3 would exceed .* 2") as refused:
        world.begin(job, day(3), sources=FILES)
    assert "by one of the names that it has had" in refused.value.next_step
    assert world.exactly() == before


def test_late_file_read_for_the_own_table_is_named_for_the_taken_over_table(
    landing: Landing,
) -> None:
    """I11: its epoch has read the late file, and has written no row of the table that it took over since."""
    world, job = landing.world, landing.job("feed")
    tables, inputs = [world.table("own"), world.table("load")], [landing.source("feed_2")]
    alone, both = (world.job("successor", own, inputs=inputs) for own in (tables[:1], tables))
    landing.land(1, "a.csv")
    for number in (1, 2):
        landing.run(job, day(number))
    landing.run(alone, day(1))
    landing.land(1, "late.csv")
    assert landing.run(alone, day(2)) == ["late.csv"]
    world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
    landing.land(3, "c.csv")
    assert landing.run(both, day(3)) == ["c.csv"]
    for text in (*landing.texts(), explain(world.store, DOMAIN, "successor", day(1)).summary):
        assert (
            "late.csv; they were read for other tables, and those that job successor took over lack them"
            in text
        )
    (text,) = landing.texts()
    assert "comes to all tables of job successor" in text
    landing.land(4, "late.csv")
    assert landing.run(both, day(4)) == ["late.csv"]
    (landing.directory / "2024-01-01" / "late.csv").unlink()
    assert landing.texts() == []


def test_late_file_read_after_a_table_was_given_away_is_named_for_it(landing: Landing) -> None:
    """I11: the job goes on with its other table, and is ahead of the successor."""
    world, feed = landing.world, [landing.source("feed")]
    tables = [world.table("kept"), world.table("load")]
    both, kept = (world.job("load", own, inputs=feed) for own in (tables, tables[:1]))
    for number in (1, 2):
        landing.run(both, day(number))
    world.coordinator.register(kept)
    world.coordinator.retire(DOMAIN, "load", table="load", reason="renamed", by="ada")
    successor = world.job("successor", [world.table("load")], inputs=[landing.source("feed_2")])
    landing.run(successor, day(3))
    landing.run(kept, day(3))
    landing.land(1, "late.csv")
    assert landing.run(kept, day(4)) == ["late.csv"]
    (text,) = landing.texts()
    assert (
        "late.csv; they were read for other tables, and those that job successor took over lack them" in text
    )
    landing.run(successor, day(4))
    (text,) = landing.texts()
    assert "late.csv" in text


def test_late_file_read_for_the_taken_over_table_is_not_named(landing: Landing) -> None:
    """I11: by its own name for the folder, and beside what the job before has read."""
    world, job = landing.world, landing.job("feed")
    tables, inputs = [world.table("own"), world.table("load")], [landing.source("feed_2")]
    alone, both = (world.job("successor", own, inputs=inputs) for own in (tables[:1], tables))
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.run(alone, day(1))
    landing.land(1, "late.csv")
    world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
    assert landing.run(both, day(2)) == ["late.csv"]
    assert landing.texts() == []
