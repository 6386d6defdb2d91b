"""Compaction across epochs on Iceberg tables, with the catalog in the store's database and outside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.transforms import IdentityTransform

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.testing.table_cases.backend import Publisher, day
from airflow_provider.testing.table_cases.compacting import (
    DAYS,
    HIGH,
    LOW,
    CompactingBackend,
    CompactingCases,
    compact,
    loaded,
    regrouped,
    span,
    units,
)
from tests.contract.test_table_contract import IcebergBackend, operation_of
from tests.services.directories import quick_directory


class CompactingIcebergBackend(IcebergBackend, CompactingBackend):
    """Iceberg tables whose newest snapshot is asked for its operation."""

    def operation(self, table: Table) -> str:
        snapshot = self.loaded(table).current_snapshot()
        assert snapshot is not None
        return operation_of(snapshot).value


def with_epochs(rows: pa.Table, found: list[Any]) -> pa.Table:
    index = rows.schema.get_field_index(EPOCH_COLUMN)
    column = rows.schema.field(index).with_nullable(True)
    return rows.set_column(index, column, pa.array(found, column.type))


OTHER_ROWS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "it has 1 rows, and 2 were recorded": lambda rows: rows[:1],
    "it has rows of 2013-02-07": lambda rows: with_epochs(rows, [day(4).end, day(5).end]),
    "some of its rows lack their epoch": lambda rows: with_epochs(rows, [day(4).end, None]),
}
"""What a file may have become, by what is told of it."""


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

    def test_a_file_with_other_rows_than_were_recorded_is_not_copied(
        self, publisher: Publisher, table: Table
    ) -> None:
        """R41: else rows would leave the table, or come into another epoch, and nothing would tell."""
        loaded(publisher, table)
        (file,) = units(publisher, table).held(table, publisher.refs[table], day(4).end, day(4).end)
        path = file.uri.removeprefix("file://")
        rows = parquet.read_table(path, partitioning=None)
        for told, changed in OTHER_ROWS.items():
            parquet.write_table(changed(rows), path)
            with pytest.raises(Unavailable, match=told):
                regrouped(publisher, table, span(LOW, HIGH))
