"""Where the one file interface finds files: an S3 store by the environment, under AWS's own names; local ones."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from airflow_provider.domain.errors import ForeignCommit, Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.tables import checks, storage
from airflow_provider.tables.errors import WarehouseUnavailable
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


class Googles:
    """Google's store as Arrow shows it, without a bucket."""

    type_name = "gcs"

    def open_output_stream(self, path: str) -> None:
        raise FileNotFoundError(path)

    def get_file_info(self, asked: Any) -> Any:
        return [] if isinstance(asked, pafs.FileSelector) else pafs.FileInfo(asked, pafs.FileType.NotFound)


def test_a_bucket_that_is_not_there_takes_no_file() -> None:
    """Arrow says that a file is missing, as it does of one that is to be read."""
    with pytest.raises(storage.NotWritable) as refused:
        storage.create(Googles(), "bucket/a.parquet")
    assert (refused.value.errno, refused.value.strerror) == (errno.ENOENT, "no such bucket")
    with pytest.raises(FileNotFoundError):
        storage.remove_folder(Googles(), "bucket/folder")


@pytest.mark.parametrize("name", ["x" * 300, f"{'y' * 300}/x", "file/x"], ids=["file", "folder", "no folder"])
def test_a_file_that_cannot_be_made_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    """It is the warehouse that cannot be written: no file of a state is missing."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(WarehouseUnavailable, match="cannot be written") as refused,
        checks.translated("w"),
    ):
        storage.create(pafs.LocalFileSystem(), str(tmp_path / name))
    assert str(refused.value.path) in {str(tmp_path / name), str((tmp_path / name).parent)}


def test_a_file_that_is_missing_is_no_warehouse_that_does_not_answer(tmp_path: Path) -> None:
    """I6: it is not tried again, as an outage would be: the state cannot be read."""
    with pytest.raises(Unavailable, match=r"gone\.avro is missing"), checks.translated("w"):
        (tmp_path / "gone.avro").read_bytes()


def test_a_table_that_the_catalog_has_elsewhere_is_not_registered() -> None:
    """R17: the pointer of another table would be taken for its own."""
    checks.refuse_elsewhere(Table("t"), "file:///1", "file:///1")
    with pytest.raises(ForeignCommit, match="in this catalog already, at file:///2"):
        checks.refuse_elsewhere(Table("t"), "file:///1", "file:///2")
