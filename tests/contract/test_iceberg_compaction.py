"""Compaction across epochs on Iceberg tables, with the catalog in the store's database and outside of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyiceberg.transforms import IdentityTransform

from airflow_provider.domain.topology import Table
from airflow_provider.testing.table_cases.backend import Publisher, day
from airflow_provider.testing.table_cases.compacting import (
    DAYS,
    CompactingBackend,
    CompactingCases,
    compact,
    loaded,
)
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

    def test_another_layout_gives_way_to_that_of_single_epochs(
        self, backend: CompactingIcebergBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17, R41: never to that of unit files, by which other programs would write files without an epoch."""
        loaded(publisher, table)
        compact(publisher, table)
        backend.change_layout(table, "replaced")
        publisher.publish(table, day(DAYS), [7])
        assert backend.loaded(table).spec().fields[0].transform == IdentityTransform()
        assert backend.default_spec(table) == ["_epoch"]
