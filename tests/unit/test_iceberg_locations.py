"""Where tables lie: any name inside the warehouse, any warehouse that all readers understand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.factory import open_formats
from airflow_provider.tables.locations import checked_warehouse, path_name


@pytest.mark.parametrize("name", ["flights", "flights_clean", "a.b-c", "2013"])
def test_plain_names_are_themselves(name: str) -> None:
    assert path_name(name) == name


@given(st.text(min_size=1, max_size=300))
def test_any_name_is_one_safe_part(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    part = path_name(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9_.~-]*", part)
    assert len(part) <= 80
    assert ".." not in part or part == name


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_two_names_have_two_parts_also_without_case(one: str, other: str) -> None:
    if one != other:
        assert path_name(one).casefold() != path_name(other).casefold()


@pytest.mark.parametrize(
    ("given_one", "uri"),
    [
        ("/data/warehouse", "file:///data/warehouse"),
        (Path("/data/ware house/"), "file:///data/ware house"),
        ("file:///data/warehouse/", "file:///data/warehouse"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/prefix/", "gs://bucket/prefix"),
    ],
)
def test_warehouses(given_one: Any, uri: str) -> None:
    assert checked_warehouse(given_one) == uri


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        "warehouse",
        "./warehouse",
        "~/warehouse",
        "/",
        "file:///",
        "file://host/x",
        "file:/x",
        "//host/x",
        "/data/../etc",
        "/data/./x",
        "/data//x",
        "/data/100%",
        "/data/a#b",
        "/data/a?b",
        "/data/*",
        "/data/a\nb",
        "/data/a\0b",
        "s3:///prefix",
        "/" + "x" * 600,
    ],
)
def test_other_warehouses_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="warehouse"):
        checked_warehouse(bad)


@pytest.mark.parametrize("scheme", ["gcs", "abfs", "abfss", "hdfs", "viewfs", "oss"])
def test_a_warehouse_that_cannot_be_served_is_refused_before_anything_opens(scheme: str) -> None:
    """Arrow ends the process, or waits for minutes, where such a store is opened without its settings."""
    uri = f"{scheme}://bucket/warehouse"
    with pytest.raises(
        InvalidInput, match=r"schemes file, s3, s3a, s3n, gs\b.*Next step: set the warehouse"
    ) as refused:
        open_formats("sqlite:////srv/epochs.db", uri)
    assert (refused.value.field, refused.value.value) == ("warehouse", uri)
    assert (f"tables on {scheme}:// are not supported yet" in str(refused.value)) is (scheme != "oss")
