"""Spellings of local paths in locations of sources (I11)."""

from __future__ import annotations

import pytest

from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.local_paths import plain
from airflow_provider.domain.source_bounds import FileSource


@pytest.mark.parametrize("scheme", ["", "file://", "FILE://"])
@pytest.mark.parametrize(
    "path", ["//a", "/a//b", "/a/./b", "/a/../a", "/a/..", "/a/.", "/../a", "/a//", "//"]
)
def test_another_spelling_of_a_local_folder_is_refused(scheme: str, path: str) -> None:
    """I11: a file is known by its path; by another spelling of its folder it would be read again."""
    with pytest.raises(InvalidInput, match="a local path without '//', '/./' and '/../'") as refused:
        FileSource("feed", f"{scheme}{path}", late="ignore", complete=none_needed())
    assert refused.value.field == "location"
    assert "plain path" in refused.value.next_step


@pytest.mark.parametrize(
    "location",
    ["/", "/a", "/a/", "/a/..b/.c/d..", "/a/**/*", "file:///a/b/", "s3://b//a/./../c", "s3a://b//"],
)
def test_a_plain_path_and_any_key_of_an_object_store_are_taken(location: str) -> None:
    source = FileSource("feed", location, late="ignore", complete=none_needed())
    assert source.location == location


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///a/b", "file:///a/b"),
        ("file:////a//x/../b", "file:///a/b"),
        ("/a/./b", "file:///a/b"),
        ("s3://b//a/../c", "s3://b//a/../c"),
    ],
)
def test_a_local_file_has_one_plain_spelling(uri: str, expected: str) -> None:
    assert plain(uri) == expected
