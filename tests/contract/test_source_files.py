"""Bounds of sources made of files: which files are theirs, and what is refused."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import BoundsRequest, FileSource, Source, SourceBounds
from airflow_provider.sources.readers import SourceReaders

START = datetime(2013, 2, 8, 13, tzinfo=UTC)
HOUR = Interval(START, START + timedelta(hours=1))
FILES = (
    "weather/2013-02-08T13.csv",
    "weather/2013-02-08T14.csv",
    "weather/2013-02-08T13.json",
    "weather/_SUCCESS",
    "weather/.hidden.csv",
    "flights/2013-02-08/JFK/a b%20c#d.csv",
    "flights/2013-02-08/LGA/x.csv",
    "flights/2013-02-08/LGA/_temporary/y.csv",
    "flights/2013-02-09/LGA/x.csv",
)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def landed(location: str) -> Source:
    return FileSource("landing", location, late="ignore", complete=none_needed())


def check_unchanged(bounds: SourceBounds) -> None:
    SourceReaders().check_unchanged(landed("/"), bounds)


def bounds_of(location: str) -> SourceBounds:
    """What lies at *location* now."""
    return SourceReaders().bounds(BoundsRequest(source=landed(location), interval=HOUR))


def names(bounds: SourceBounds, landing: Path) -> list[str]:
    assert all(file.uri.startswith("file:///") for file in bounds.files)
    return [file.uri.removeprefix(f"file://{landing}/") for file in bounds.files]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("weather/{start:%Y-%m-%dT%H}.csv", FILES[:1]),
        ("weather/{start:%Y-%m-%dT%H}.*", (FILES[0], FILES[2])),
        ("weather/*T1[34].csv", FILES[:2]),
        ("weather/*T?9.csv", ()),
        ("nowhere-{start:%Y}/*.csv", ()),
        ("weather", (FILES[0], FILES[2], FILES[1])),
        ("flights/{start:%Y-%m-%d}", FILES[5:7]),
        ("flights/**/*.csv", (*FILES[5:7], FILES[8])),
        ("flights/*/LGA/*", (FILES[6], FILES[8])),
        ("flights/**/**/x.csv", (FILES[6], FILES[8])),
        ("**/flights/**", (*FILES[5:7], FILES[8])),
        ("flights/{end:%Y-%m-%d}/LGA/x.csv", FILES[6:7]),
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_location_stands_for_files(
    landing: Path, location: str, expected: tuple[str, ...], scheme: str
) -> None:
    bounds = bounds_of(f"{scheme}{landing}/{location}")
    assert names(bounds, landing) == list(expected)
    assert [file.size_bytes for file in bounds.files] == [len(name) for name in expected]
    check_unchanged(bounds)


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("", "it has none"),
        ("relative/*.csv", "neither an absolute path nor a URI"),
        ("/landing/{day}.csv", "only {start} and {end}"),
        ("/landing/{start:%Y", "only {start} and {end}"),
        ("/landing/{0}", "only {start} and {end}"),
        ("carrier-pigeon://loft/*.csv", "carrier-pigeon"),
        ("/landing/_*.csv", "names like _*.csv"),
        ("/landing/*/_x.csv", "names like _x.csv"),
    ],
)
def test_a_location_that_cannot_be_read_is_refused(location: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match="landing") as refused:
        bounds_of(location)
    assert problem in str(refused.value)


def test_a_file_that_is_not_there_yet_is_waited_for(landing: Path) -> None:
    with pytest.raises(NotReady, match="nothing lies at") as waiting:
        bounds_of(f"{landing}/weather/2014.csv")
    assert [entry.name for entry in waiting.value.missing] == [f"file://{landing}/weather/2014.csv"]


def test_a_name_that_spark_takes_for_a_pattern_is_refused(landing: Path) -> None:
    (landing / "weather" / "a{b}.csv").touch()
    with pytest.raises(InvalidInput, match="rename the file"):
        bounds_of(f"{landing}/weather/*.csv")


@pytest.mark.parametrize("name", ["_x.csv", ".x.csv", "x.csv._COPYING_"])
def test_a_name_that_spark_passes_over_is_left_out_by_patterns_and_refused(landing: Path, name: str) -> None:
    """A1: Spark reads such a file as if it had no rows."""
    (landing / "weather" / name).touch()
    assert len(bounds_of(f"{landing}/weather/*csv*").files) == 2
    with pytest.raises(InvalidInput, match="Spark passes over such files"):
        bounds_of(f"{landing}/weather/{name}")


def test_a_program_reads_its_files_by_itself(landing: Path) -> None:
    """A1: their format is not known here, so that no rows are given out as those of a table."""
    source = landed(f"{landing}/weather/*.csv")
    with pytest.raises(InvalidInput, match=r"read its files: epoch\.source_files\('landing'\)"):
        SourceReaders().rows(source, bounds_of(source.location))


def test_another_size_time_or_no_file_is_told(landing: Path) -> None:
    bounds = bounds_of(f"{landing}/weather/*.csv")
    changed = landing / FILES[0]
    before = changed.stat()
    changed.write_text("x" * len(FILES[0]))
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))
    with pytest.raises(Unavailable, match="2013-02-08T13.csv is not the file"):
        check_unchanged(bounds)
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    check_unchanged(bounds)
    changed.unlink()
    with pytest.raises(Unavailable, match="found nothing"):
        check_unchanged(bounds)
