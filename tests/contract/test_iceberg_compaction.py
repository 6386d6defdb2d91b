"""Compaction across epochs on Iceberg tables, with the catalog in the store's database and outside of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider.domain.topology import Table
from airflow_provider.testing.table_cases.compacting import CompactingBackend, CompactingCases
from tests.contract.test_table_contract import IcebergBackend, operation_of
from tests.services.directories import quick_directory


class CompactingIcebergBackend(IcebergBackend, CompactingBackend):
    """Iceberg tables whose newest snapshot is asked for its operation."""

    def operation(self, table: Table) -> str:
        snapshot = self.loaded(table).current_snapshot()
        assert snapshot is not None
        return operation_of(snapshot).value


@pytest.mark.parametrize("backend", [False, True], indirect=True, ids=["own catalog", "elsewhere"])
class TestCompaction(CompactingCases):
    @pytest.fixture
    def backend(self, request: pytest.FixtureRequest) -> Iterator[CompactingIcebergBackend]:
        with (
            quick_directory("epochs-tables-") as folder,
            CompactingIcebergBackend(folder, elsewhere=request.param) as found,
        ):
            yield found
