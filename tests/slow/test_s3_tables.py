"""The table contract with the warehouse on S3."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.testing.table_cases.backend import batch, day, new_publisher
from airflow_provider.testing.table_contract import TableBackend, TableContract
from tests.contract.test_table_contract import IcebergBackend
from tests.servers.aws import S3Emulator
from tests.services.directories import quick_directory


class S3Backend(IcebergBackend):
    """Iceberg tables in a bucket, beside a SQLite store."""

    def __init__(self, folder: Path, s3: S3Emulator, bucket: str) -> None:
        super().__init__(folder)
        self._warehouse = f"s3://{bucket}/ware house"
        self._s3 = s3

    def lose(self, uri: str) -> None:
        self._s3.filesystem().delete_file(uri.removeprefix("s3://"))

    def _outsider(self) -> SqlCatalog:
        given = self._s3.environment
        return SqlCatalog(
            CATALOG_NAME,
            uri=self.catalog_url,
            **{"s3.endpoint": given["AWS_ENDPOINT_URL"], "s3.region": given["AWS_REGION"]},
        )


@pytest.fixture(scope="module")
def bucket(s3: S3Emulator) -> str:
    name = f"epochs-{uuid.uuid4().hex[:12]}"
    s3.make_bucket(name)
    return name


class TestIcebergTablesOnS3(TableContract):
    """Iceberg on S3."""

    examples = 3

    @pytest.fixture
    def backend(self, s3: S3Emulator, bucket: str) -> Iterator[TableBackend]:
        with quick_directory("epochs-tables-") as folder, S3Backend(folder, s3, bucket) as backend:
            yield backend


def test_rollback_deletes_only_files_of_its_attempt(s3: S3Emulator, bucket: str) -> None:
    with quick_directory("epochs-tables-") as folder, S3Backend(folder, s3, bucket) as backend:
        publisher = new_publisher(backend)
        table = publisher.table()
        publisher.publish(table, day(0), [1, 2])
        before = s3.keys(bucket)
        place = publisher.place(table, day(1))
        publisher.stage(table, day(1), [batch([3])], [batch([4])], place=place)
        assert len(s3.keys(bucket)) == len(before) + 3
        publisher.format.roll_back(place)
        publisher.format.roll_back(place)
        assert s3.keys(bucket) == before


def test_a_bucket_that_is_missing_is_told_by_name(s3: S3Emulator) -> None:
    with quick_directory("epochs-tables-") as folder, S3Backend(folder, s3, "nobody-made-it") as backend:
        publisher = new_publisher(backend)
        with pytest.raises(WarehouseUnavailable, match="nobody-made-it"):
            publisher.create(publisher.table())
