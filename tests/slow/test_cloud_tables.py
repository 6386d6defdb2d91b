"""The table contract with the warehouse in Google's object store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.tables import storage
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.testing.table_cases.backend import batch, day, new_publisher
from airflow_provider.testing.table_contract import TableBackend, TableContract
from tests.contract.test_table_contract import IcebergBackend
from tests.servers.clouds import GoogleEmulator
from tests.services.directories import quick_directory


class CloudBackend(IcebergBackend):
    """Iceberg tables in a bucket, beside a SQLite store."""

    def __init__(self, folder: Path, cloud: GoogleEmulator, bucket: str) -> None:
        super().__init__(folder)
        self._warehouse = f"{cloud.root(bucket)}ware house"

    def lose(self, uri: str) -> None:
        found, path = storage.filesystem(uri)
        found.delete_file(path)

    def _outsider(self) -> SqlCatalog:
        """Another program, which has this package's file access: pyiceberg's own has other settings."""
        io = "airflow_provider.tables.iceberg.file_io.DurableFileIO"
        return SqlCatalog(CATALOG_NAME, uri=self.catalog_url, **{"py-io-impl": io})


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleEmulator]:
    """An emulator; this process's environment leads to it, too."""
    with pytest.MonkeyPatch.context() as patch, GoogleEmulator(tmp_path_factory.mktemp("cloud")) as server:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def bucket(cloud: GoogleEmulator) -> str:
    name = f"epochs-{uuid.uuid4().hex[:12]}"
    cloud.make_bucket(name)
    return name


class TestIcebergTablesInClouds(TableContract):
    """Iceberg on gs://."""

    examples = 3

    @pytest.fixture
    def backend(self, cloud: GoogleEmulator, bucket: str) -> Iterator[TableBackend]:
        with quick_directory("epochs-tables-") as folder, CloudBackend(folder, cloud, bucket) as backend:
            yield backend


def test_rollback_deletes_only_files_of_its_attempt(cloud: GoogleEmulator, bucket: str) -> None:
    """It finds the attempt among the job's first: no object stands for a directory in Google's store."""
    with quick_directory("epochs-tables-") as folder, CloudBackend(folder, cloud, bucket) as backend:
        publisher = new_publisher(backend)
        table = publisher.table()
        publisher.publish(table, day(0), [1, 2])
        before = cloud.keys(bucket)
        place = publisher.place(table, day(1))
        publisher.stage(table, day(1), [batch([3])], [batch([4])], place=place)
        assert len(cloud.keys(bucket)) == len(before) + 3
        name = place.uri.rstrip("/").rpartition("/")[2]
        assert name in storage.folders(place.uri.rstrip("/").rpartition("/")[0])
        publisher.format.roll_back(place)
        publisher.format.roll_back(place)
        assert cloud.keys(bucket) == before


def test_a_directory_that_another_program_marked_goes_as_a_whole(cloud: GoogleEmulator, bucket: str) -> None:
    """Hadoop makes objects that stand for directories."""
    root = f"{cloud.root(bucket)}marked"
    found, path = storage.filesystem(root)
    found.create_dir(f"{path}/a/b", recursive=True)
    storage.write_whole(found, f"{path}/a/c.json", b"{}")
    assert storage.folders(root) == ["a"]
    storage.remove_folder(found, f"{path}/a")
    assert storage.folders(root) == []
    with pytest.raises(FileNotFoundError):
        storage.remove_folder(found, f"{path}/a")


def test_a_file_is_replaced_and_read_in_parts(cloud: GoogleEmulator, bucket: str) -> None:
    found, path = storage.filesystem(f"{cloud.root(bucket)}numbers")
    storage.write_whole(found, path, b"earlier")
    storage.write_whole(found, path, b"0123456789" * 1_000_000)
    with found.open_input_file(path) as file:
        file.seek(7_654_321)
        assert file.read(5) == b"12345"
    uri = f"{cloud.root(bucket)}numbers"
    assert storage.sizes([uri, f"{uri}.missing"]) == {uri: 10_000_000}
    assert storage.remove(found, path)
    assert not storage.remove(found, path)


def test_a_bucket_that_is_missing_is_told_by_name(cloud: GoogleEmulator) -> None:
    with (
        quick_directory("epochs-tables-") as folder,
        CloudBackend(folder, cloud, "no-such-bucket") as backend,
    ):
        publisher = new_publisher(backend)
        with pytest.raises(WarehouseUnavailable, match="no-such-bucket"):
            publisher.create(publisher.table())
