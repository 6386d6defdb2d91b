"""Nothing of one person's machine is in the repository: no home folder, no address of a package registry."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.sources import ROOT, tracked_files

OF_ONE_MACHINE = re.compile(
    r"/(?:root|home/[a-z][a-z0-9_-]*|Users/[A-Za-z][A-Za-z0-9_-]*)/"
    r"|(?:registry|index-url|find-links|resolved)[\"'= :]+.{0,3}https?://"
    r"|https?://(?:files\.pythonhosted|pypi|registry|repo1?\.maven|proxy\.golang)\."
)


def _texts() -> list[tuple[str, str]]:
    texts = []
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content[:8192]:
            texts.append((str(path.relative_to(ROOT)), content.decode()))
    return texts


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in _texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_pattern_finds_machine_paths_and_registries() -> None:
    home, scheme = "/home/", "https://"
    for text in (
        f"{home}ann/epochs",
        f"index-url = {scheme}example.org/simple",
        f"{scheme}pypi.example/simple",
    ):
        assert OF_ONE_MACHINE.search(text), text
    assert not OF_ONE_MACHINE.search("sqlite:////srv/epochs/epochs.db")


def test_no_path_or_registry_of_one_machine_is_tracked() -> None:
    assert _lines_with(OF_ONE_MACHINE) == []


def test_the_checkouts_own_place_is_not_tracked() -> None:
    places = [str(place) for place in (ROOT, Path.home()) if len(place.parts) > 2]
    assert _lines_with(re.compile("|".join(re.escape(place) for place in places) or r"(?!)")) == []


def test_files_that_are_no_text_are_pictures_and_recordings() -> None:
    """A wheel or a server that a command left in the checkout is one `git add` away from the history."""
    others = [path for path in tracked_files() if b"\0" in path.read_bytes()[:8192]]
    assert [path.name for path in others if path.suffix not in (".png", ".xz")] == []


def test_texts_end_with_one_newline_and_hold_no_trailing_space() -> None:
    untidy = [
        name
        for name, text in _texts()
        if text
        and name.endswith((".py", ".cfg", ".toml", ".md", ".txt", ".env"))
        and (not text.endswith("\n") or text.endswith("\n\n") or re.search(r"[ \t]$", text, re.MULTILINE))
    ]
    assert untidy == []
