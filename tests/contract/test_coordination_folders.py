"""Sources of files whose folder is not there, on each store."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from airflow_provider.coordination.reading.wait import JobInputs, check_inputs
from airflow_provider.domain.completeness import Condition, marker, none_needed
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.source_bounds import FileSource, Source
from airflow_provider.domain.topology import Job
from airflow_provider.sources.folders import missing_folder
from airflow_provider.sources.readers import SourceReaders
from tests.contract.coordination_world import DOMAIN, World, day

FILES = SourceReaders()
PATTERNS = {
    "wildcard": "*.csv",
    "folder": "",
    "folder of each epoch": "{start:%Y-%m-%d}/*.csv",
    "field in a name": "landing-{start:%Y}/{start:%m-%d}-*",
}


def loading(world: World, location: str, complete: Condition) -> Job:
    late = "next" if "{" in location else "ignore"
    return world.job("load", inputs=[FileSource("landing", location, late, complete=complete)])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_folder_that_is_not_there_is_no_empty_epoch(world: World, tmp_path: Path, pattern: str) -> None:
    """I11: begin and sensors name the folder, also where no condition is declared, and nothing is recorded.

    Once it is there, an epoch for which nothing lies in it is empty.
    """
    folder = tmp_path / "lading"
    job = loading(world, f"{folder}/{PATTERNS[pattern]}", none_needed())
    before = world.exactly()
    with pytest.raises(NotReady, match=f"there is no folder {folder}: ") as refused:
        world.begin(job, day(1), sources=FILES)
    assert "correct the location of the source, or create the folder" in refused.value.message
    assert world.exactly() == before
    world.coordinator.register(job)
    (lag,) = check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).missing
    assert lag.table == "landing"
    assert lag.reason in refused.value.message
    folder.mkdir()
    assert check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).ready
    assert world.begin(job, day(1), sources=FILES).sources[0].files == ()


def test_a_missing_folder_is_named_before_the_marker_in_it(world: World, tmp_path: Path) -> None:
    """I11: also where the job waits for a marker that no program will ever put there."""
    job = loading(world, f"{tmp_path}/lading/{{start:%Y-%m-%d}}/*", marker())
    with pytest.raises(NotReady, match=f"there is no folder {tmp_path}/lading: "):
        world.begin(job, day(1), sources=FILES)


def test_a_source_of_an_older_version_takes_a_missing_folder_for_empty(tmp_path: Path) -> None:
    """R36: what an older version of the package declared is read as that version read it."""
    stored = {"name": "landing", "location": f"{tmp_path}/lading/*", "late": "ignore", "kind": "files"}
    source = msgspec.convert(stored, Source)
    assert source.is_older
    assert FILES.missing(source, day(1), None) == ""


def test_only_the_part_that_all_epochs_share_must_be_there(tmp_path: Path) -> None:
    """I11: up to the first wildcard and the first field; object stores have no folders."""
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()
    (tmp_path / "file").touch()
    found = {
        f"{there}/{{start:%Y/%m}}/*": "",
        f"{gone}-{{start:%Y}}/*": "",
        f"{there}/x?/gone/*": "",
        f"{there}/list.csv": "",
        f"{gone}/list.csv": str(gone),
        f"file://{gone}/a/*": f"{gone}/a",
        f"{tmp_path}/file/*": f"{tmp_path}/file",
        "/*": "",
        "s3://bucket/gone/*": "",
        "landing/*": "",
    }
    for location, folder in found.items():
        source = FileSource("landing", location, "ignore", complete=none_needed())
        assert missing_folder(source) == folder, location
