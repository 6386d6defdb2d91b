"""Files at several places are those at each of them, whatever the places share; folders are listed once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.sources import between
from airflow_provider.sources.between import files_at
from airflow_provider.sources.locations import listing, matches

NAMES = ["a", "b", "aa", "_a", ".b", "a.csv", "b.csv", "_a.csv"]
FIXED = st.sampled_from([*NAMES, "*", "**", "*.csv", "?", "a*", "[ab]"])
VARIED = st.sampled_from(["{}", "{}.csv", "{}*", "*{}", "_{}", "{}?", "a{}"])
PARTS = st.lists(st.one_of(FIXED, VARIED), min_size=1, max_size=4)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders in folders, each with some files, of names that patterns leave out, too."""
    directory = tmp_path_factory.mktemp("tree")
    folders = [Path(), *(Path(name) for name in NAMES[:5])]
    folders += [first / second for first in folders[1:] for second in NAMES[:5]]
    for folder in folders:
        (directory / folder).mkdir(exist_ok=True)
        for name in NAMES[5:]:
            (directory / folder / name).touch()
        if len(folder.parts) == 2:
            (directory / folder / "a").touch()
    return directory


@given(PARTS, st.lists(st.sampled_from(["a", "b", "aa", "c", "1"]), min_size=1, unique=True), st.booleans())
def test_files_at_places_are_those_at_each(
    tree: Path, parts: list[str], texts: list[str], is_local: bool
) -> None:
    """I11: folders, wildcards and hidden names are taken as by the location of an epoch, on disks and object stores."""
    local = pafs.LocalFileSystem()
    store = local if is_local else pafs.SubTreeFileSystem(str(tree), local)
    base = f"{tree}/" if is_local else ""
    paths = list(dict.fromkeys(base + "/".join(parts).replace("{}", text) for text in texts))
    found = [info.path for info in files_at(store, paths)]
    each: list[str] = []
    for path in paths:
        with suppress(NotADirectoryError):
            each += [info.path for info in matches(store, path)]
    assert set(found) == set(each)


def test_each_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A2: a day of hours, of which none is there, costs one listing, also beside other folders."""
    for name in ("2024-05-01T00", "2024-05-02T00", "other"):
        (tmp_path / name).mkdir()
    listed: list[str] = []

    def counted(store: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
        listed.append(folder)
        return listing(store, folder)

    monkeypatch.setattr(between, "listing", counted)
    paths = [f"{tmp_path}/2024-05-01T{hour:02}/*.csv" for hour in range(1, 24)]
    assert list(files_at(pafs.LocalFileSystem(), paths)) == []
    assert listed == [str(tmp_path)]
