"""Files between the locations of epochs, where a location says more of the time than its calendar, on each store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from airflow_provider.coordination.reading.wait import JobInputs, check_inputs
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.completeness import marker, none_needed
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput, NotReady
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.source_bounds import BoundsRequest, FileSource, Source
from airflow_provider.domain.topology import Job
from airflow_provider.sources.readers import SourceReaders
from tests.contract.coordination_world import DOMAIN, World, day, owner

FILES = SourceReaders()
DATE = "2024-01-01"
HOUR = timedelta(hours=1)
RULES = ("next", "revision", "refuse", "ignore")


def land(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def loading(world: World, location: str, *, cadence: str | Cadence = "@daily", **options: object) -> Job:
    source = FileSource("landing", location, **{"complete": none_needed(), **options})  # type: ignore[arg-type]
    calendar = cadence if isinstance(cadence, Cadence) else Cadence(cadence)
    return world.job("load", inputs=[source], cadence=calendar, origin=calendar.floor(day(1).start))


def begun(world: World, job: Job, epoch: Interval, run: str = "scheduled") -> Attempt:
    return world.begin(job, epoch, owner(run), sources=FILES)


def names(attempt: Attempt, directory: Path) -> list[str]:
    return [file.uri.removeprefix(f"file://{directory}/") for file in attempt.sources[0].files]


@pytest.mark.parametrize("late", RULES)
def test_folders_shorter_than_the_epochs_are_refused(world: World, tmp_path: Path, late: str) -> None:
    """I11, A1: a day over folders of hours would read the first one only: nothing is recorded, the files are named."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m-%dT%H}}/*.csv", late=late)
    world.coordinator.register(job)
    land(tmp_path, *(f"{DATE}T{hour:02}/a.csv" for hour in range(24)), "2024-01-02T01/a.csv")
    before = world.exactly()
    with pytest.raises(InvalidInput) as refused:
        begun(world, job, day(1))
    assert refused.value.field == "location of source 'landing'"
    assert refused.value.value == job.sources[0].location
    assert f"23 files, such as file://{tmp_path}/{DATE}T01/a.csv" in refused.value.expected
    assert "{start:%Y-%m-%d}T00" in refused.value.next_step
    assert world.exactly() == before
    assert check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).ready


@pytest.mark.parametrize(
    ("location", "cadence", "landed"),
    [
        ("{start:%Y-%m-%d}/*.csv", "@monthly", ["2024-01-01/a.csv", "2024-01-31/a.csv"]),
        ("{start:%Y-%m-%d}", "@weekly", ["2023-12-31/a.csv", "2024-01-03/deep/a.csv"]),
        ("{start:%Y/%m/%d/%H}/*.csv", "@monthly", ["2024/01/01/00/a.csv", "2024/01/31/23/a.csv"]),
        ("{end:%Y-%m-%dT%H}.csv", "@daily", ["2024-01-02T00.csv", "2024-01-01T01.csv"]),
        ("{start:%dT%H}-{end:%dT%H}.csv", "@daily", ["01T00-02T00.csv", "01T06-01T12.csv"]),
        ("{start:%m-%dT%H}-{end:%m-%d}*", "@daily", ["01-01T00-01-02", "01-01T07-01-01.csv"]),
        ("**/{start:%Y-%m-%dT%H}.csv", "@daily", ["a/b/2024-01-01T00.csv", "c/2024-01-01T05.csv"]),
        ("{start:%Y-%m-%dT%H%M}-*.csv", "@hourly", ["2024-01-01T0000-a.csv", "2024-01-01T0059-a.csv"]),
        ("{start:%dT%H%M%S}-*.csv", "@hourly", ["01T000000-a.csv", "01T000001-a.csv"]),
        ("{start:%Y-%m-%dT%H}/*/a.csv", "@daily", ["2024-01-01T00/x/a.csv", "2024-01-01T23/y/a.csv"]),
        ("{start}.csv", "@daily", ["2024-01-01 00:00:00+00:00.csv", "2024-01-01 12:00:00+00:00.csv"]),
    ],
)
def test_every_form_of_a_finer_location(
    world: World, tmp_path: Path, location: str, cadence: str, landed: list[str]
) -> None:
    """I11: days, hours, minutes and seconds, by the start, the end or both; the first one alone is read."""
    job = loading(world, f"{tmp_path}/{location}", cadence=cadence, late="ignore")
    start = Cadence(cadence).floor(day(1).start)
    epoch = Interval(start, Cadence(cadence).next_after(start))
    own, between = landed
    land(tmp_path, own, between)
    with pytest.raises(InvalidInput, match="1 file") as refused:
        begun(world, job, epoch)
    assert between in refused.value.expected
    (tmp_path / between).unlink()
    assert names(begun(world, job, epoch), tmp_path) == [own]


def test_midnight_in_the_names_of_daily_files_is_read(world: World, tmp_path: Path) -> None:
    """I11: the format alone does not tell: one file a day may carry its hour; what lies elsewhere disturbs nothing."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m-%dT%H}}*.csv")
    land(tmp_path, "2024-01-01T00-a.csv", "2024-01-01T00-b.csv", "2024-01-02T00.csv", "2024-01-01T07.json")
    land(tmp_path, "2024-01-01T31.csv", "_2024-01-01T07.csv", ".2024-01-01T07.csv", "2024-01-01T07/a.csv")
    assert names(begun(world, job, day(1)), tmp_path) == ["2024-01-01T00-a.csv", "2024-01-01T00-b.csv"]


@pytest.mark.parametrize(
    ("location", "cadence", "read"),
    [
        ("{start:%Y-%m-%d}.csv", Cadence("0 6 * * *"), "2024-01-01.csv"),
        ("{end:%Y-%m-%d}.csv", Cadence("0 6 * * *"), "2024-01-02.csv"),
        ("{start:%Y-%m-%d}.csv", Cadence("@daily", timezone="Europe/Berlin"), "2024-01-01.csv"),
        ("{end:%Y-%m-%d}.csv", Cadence("@daily"), "2024-01-02.csv"),
    ],
)
def test_the_location_of_the_epoch_beside_is_no_place_in_between(
    world: World, tmp_path: Path, location: str, cadence: Cadence, read: str
) -> None:
    """I11: an epoch that begins at six, or at midnight in Berlin, has two dates; the other one is its neighbour's."""
    job = loading(world, f"{tmp_path}/{location}", cadence=cadence)
    start = cadence.next_after(day(1).start - 1 * HOUR)
    land(tmp_path, "2024-01-01.csv", "2024-01-02.csv")
    assert names(begun(world, job, Interval(start, cadence.next_after(start))), tmp_path) == [read]


def test_a_calendar_that_was_made_longer_reads_no_part_of_its_folders(world: World, tmp_path: Path) -> None:
    """I11, R7: hours that became days: their last hour is read as it was, the first day is refused."""
    location = f"{tmp_path}/{{start:%Y-%m-%dT%H}}/*.csv"
    land(tmp_path, *(f"2024-01-0{number}T{hour:02}/a.csv" for number in (1, 2) for hour in range(24)))
    hourly = loading(world, location, cadence="@hourly")
    last = Interval(day(1).end - HOUR, day(1).end)
    attempt = begun(world, hourly, last)
    assert names(attempt, tmp_path) == ["2024-01-01T23/a.csv"]
    world.write(attempt)
    world.coordinator.publish(attempt)
    daily = loading(world, location, cadence=Cadence("@daily", since=day(2).start, before=Cadence("@hourly")))
    with pytest.raises(InvalidInput, match="23 files, such as .*2024-01-02T01/a.csv"):
        begun(world, daily, day(2))


def test_committed_epoch_keeps_its_bounds(world: World, tmp_path: Path) -> None:
    """I11, A2: files that come to places in between later refuse a new taking of bounds, and no attempt at the old."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m-%dT%H}}/*.csv")
    land(tmp_path, f"{DATE}T00/a.csv")
    attempt = begun(world, job, day(1))
    world.write(attempt)
    world.coordinator.publish(attempt)
    land(tmp_path, f"{DATE}T01/a.csv")
    again = begun(world, job, day(1), "again")
    assert names(again, tmp_path) == [f"{DATE}T00/a.csv"]
    before = world.exactly()
    with pytest.raises(InvalidInput, match="1 file, such as"):
        bind(world.coordinator.context, DOMAIN, "landing", day(1), FILES, reason="the hours, too", by="ada")
    assert world.exactly() == before


def test_a_declaration_of_an_older_version_reads_on_as_it_did(tmp_path: Path) -> None:
    """R7, A2: a source that knows neither conditions nor windows reads its first hour."""
    location = f"{tmp_path}/{{start:%Y-%m-%dT%H}}/*.csv"
    land(tmp_path, f"{DATE}T00/a.csv", f"{DATE}T01/a.csv")
    older = msgspec.convert(
        {"name": "landing", "location": location, "late": "ignore", "kind": "files"}, Source
    )
    assert older.is_older
    (file,) = FILES.bounds(BoundsRequest(source=older, interval=day(1), cadence=Cadence("@daily"))).files
    assert file.uri.endswith(f"{DATE}T00/a.csv")


def test_a_source_that_is_not_complete_waits(world: World, tmp_path: Path) -> None:
    """I11, A2: what lies in between is told once the source is complete: until then nothing is read at all."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m-%dT%H}}/*.csv", complete=marker())
    land(tmp_path, f"{DATE}T00/a.csv", f"{DATE}T01/a.csv")
    with pytest.raises(NotReady):
        begun(world, job, day(1))
    land(tmp_path, f"{DATE}T00/_SUCCESS")
    with pytest.raises(InvalidInput, match="1 file, such as"):
        begun(world, job, day(1))


def test_late_files_of_a_part_of_an_epoch_are_named(world: World, tmp_path: Path) -> None:
    """I11, A1: no begin looks there again; doctor does, also for a source that ignores what comes late."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m-%dT%H}}.csv", late="ignore")
    land(tmp_path, f"{DATE}T00.csv")
    attempt = begun(world, job, day(1))
    world.write(attempt)
    world.coordinator.publish(attempt)
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()
    land(tmp_path, f"{DATE}T07.csv")
    (symptom,) = examine(world.store, world.formats, DOMAIN).symptoms
    assert symptom.urgent
    assert (
        f"1 lie at locations of parts of epochs and are read by no epoch, such as file://{tmp_path}"
        in symptom.found
    )
    assert symptom.next_step.startswith("move them to where a coming epoch looks")


def test_files_at_parts_of_a_skipped_epoch_are_named(world: World, tmp_path: Path) -> None:
    """I11, R5: a begin is refused because of them, and the epoch is skipped: a later epoch goes on."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m-%dT%H}}.csv")
    land(tmp_path, f"{DATE}T00.csv", "2024-01-02T00.csv", "2024-01-02T05.csv")
    for number in (1, 2):
        try:
            attempt = begun(world, job, day(number))
        except InvalidInput:
            world.coordinator.skip(DOMAIN, "load", day(number), "a strange delivery", by="ada")
        else:
            world.write(attempt)
            world.coordinator.publish(attempt)
    found = [symptom.found for symptom in examine(world.store, world.formats, DOMAIN).symptoms]
    assert len(found) == 2
    assert "1 lie at locations of parts of epochs" in found[0]
    assert "2024-01-02T05.csv" in found[0]
    assert "1 are of skipped epochs" in found[1]
