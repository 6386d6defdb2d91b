"""Where the one file interface finds files: an S3 store by the environment, under AWS's own names; local ones."""

from __future__ import annotations

import pyarrow.fs as pafs
import pytest

from airflow_provider.tables import storage
from airflow_provider.tables.iceberg.file_io import DurableFileIO

NAMES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION")


def s3(endpoint: str | None, region: str, scheme: str = "https") -> pafs.S3FileSystem:
    return pafs.S3FileSystem(
        endpoint_override=endpoint,
        scheme=scheme,
        region=region,
        connect_timeout=10,
        request_timeout=60,
        allow_delayed_open=True,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"AWS_ENDPOINT_URL": "http://s3:8333", "AWS_REGION": "r1"}, s3("s3:8333", "r1", "http")),
        ({"AWS_ENDPOINT_URL": "s3.example", "AWS_DEFAULT_REGION": "r2"}, s3("s3.example", "r2")),
        (
            {"AWS_ENDPOINT_URL_S3": "https://a", "AWS_ENDPOINT_URL": "http://b", "AWS_REGION": "r3"},
            s3("a", "r3"),
        ),
        ({"AWS_REGION": "eu-central-1"}, s3(None, "eu-central-1")),
    ],
)
@pytest.mark.parametrize("scheme", sorted(storage.S3_SCHEMES))
def test_an_s3_store_is_where_the_environment_says(
    given: dict[str, str], expected: pafs.S3FileSystem, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found, path = storage.filesystem(f"{scheme}://bucket/a b/c%20d.parquet")
    assert path == "bucket/a b/c%20d.parquet"
    assert found.equals(expected)
    opened = DurableFileIO().new_input(f"{scheme}://bucket/metadata.json")
    assert opened._filesystem.equals(expected)


def test_settings_that_differ_are_told_apart() -> None:
    """What the test above compares with is no constant."""
    assert not s3("a", "r").equals(s3("b", "r"))
    assert not s3("a", "r").equals(s3("a", "r", "http"))


@pytest.mark.parametrize("uri", ["file:/a b/c%20d.parquet", "file:///a b/c%20d.parquet"])
def test_a_local_file_is_found_by_each_of_its_names(uri: str) -> None:
    """Hadoop, hence a compaction by Spark, writes one slash; a path is literal."""
    assert storage.as_uri(uri) == "file:///a b/c%20d.parquet"
    assert storage.split(uri) == ("file:///", "/a b/c%20d.parquet")
    assert storage.as_uri("s3://bucket/a") == "s3://bucket/a"
