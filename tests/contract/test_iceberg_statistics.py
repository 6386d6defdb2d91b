"""R14: statistics of Iceberg's files prove only what they say; files of other programs may keep few or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestEntry

from airflow_provider.domain.checks import in_range, not_null
from airflow_provider.domain.columns import add
from airflow_provider.domain.cut import State
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import ALL_SHOWN
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.tables.drafts import DraftingFormat
from airflow_provider.tables.expectations import proven
from airflow_provider.tables.filters import FilterTuple, filters_on
from airflow_provider.tables.iceberg import manifest_files
from airflow_provider.tables.statistics import ColumnBounds
from airflow_provider.testing.table_cases.backend import Publisher, batch, day, expected, new_publisher
from airflow_provider.testing.table_cases.drafting import committed, opened
from tests.contract.outside_commits import commit_outside
from tests.contract.test_table_contract import IcebergBackend
from tests.services.directories import quick_directory

DEFAULT = "write.metadata.metrics.default"
UNCOUNTED = {
    "no column": {DEFAULT: "none"},
    "other columns only": {"write.metadata.metrics.column.id": "none"},
    "the epoch's column only": {DEFAULT: "none", "write.metadata.metrics.column._epoch": "full"},
}
"""Columns of which another program keeps counts, and the properties of the table that tell it so."""


@pytest.fixture
def backend() -> Iterator[IcebergBackend]:
    with quick_directory("epochs-tables-") as folder, IcebergBackend(folder) as backend:
        yield backend


@pytest.fixture
def publisher(backend: IcebergBackend) -> Publisher:
    return new_publisher(backend)


def compact(backend: IcebergBackend, table: Table, properties: dict[str, str]) -> None:
    """Rewrite all shown rows as another program that follows *properties* does."""
    outside = SqlCatalog(CATALOG_NAME, uri=backend.catalog_url).load_table((table.domain, table.name))
    with outside.transaction() as transaction:
        transaction.set_properties(properties)
    commit_outside(outside, "replace", [outside.scan().to_arrow()])


def column(publisher: Publisher, table: Table, state: State, name: str) -> ColumnBounds:
    found = publisher.format.statistics(state, publisher.schemas[table])
    return found.columns.get(name) or ColumnBounds()


@pytest.mark.parametrize("properties", UNCOUNTED.values(), ids=UNCOUNTED)
def test_files_without_counts_prove_nothing(
    backend: IcebergBackend, publisher: Publisher, properties: dict[str, str]
) -> None:
    table = publisher.table()
    publisher.publish(table, day(0), [1, 2, 3])
    compact(backend, table, properties)
    publisher.publish(table, day(1), [4])
    state, schema = publisher.state(table, 1), publisher.schemas[table]
    assert publisher.rows(table, 1) == expected((0, [1, 2, 3]), (1, [4]))
    found = publisher.format.statistics(state, schema)
    columns = publisher.format.arrow_schema(schema)
    assert found.rows == 4
    assert column(publisher, table, state, "id") == ColumnBounds()
    assert not proven(in_range("flights", "id", at_least=4), found, columns)
    assert not proven(not_null("flights", "id"), found, columns)


def test_files_are_left_out_by_bounds_that_are_known(backend: IcebergBackend, publisher: Publisher) -> None:
    """Those of another program that keeps no counts are opened."""
    table = publisher.table()
    publisher.publish(table, day(0), [1, 2])
    compact(backend, table, {DEFAULT: "none"})
    for number in (1, 2):
        publisher.publish(table, day(number), [10 * number])
    state, schema = publisher.state(table, 2), publisher.schemas[table]
    cases: list[tuple[list[FilterTuple], int]] = [
        ([("id", "=", 20)], 2),
        ([("id", "in", [10, 20])], 3),
        ([("id", ">", 20)], 1),
        ([("label", "=", "row 10")], 2),
        ([("label", "=", "row 10"), ("id", "=", 20)], 1),
    ]
    for filters, number in cases:
        conditions = filters_on(filters, publisher.format.arrow_schema(schema), schema)
        assert len(publisher.format.sized(state, conditions).files) == number, filters


def test_a_column_that_came_later_is_not_taken_for_absent(
    backend: IcebergBackend, publisher: Publisher
) -> None:
    """Iceberg's own programs count the first hundred columns unless the table says otherwise."""
    table = publisher.table()
    publisher.publish(table, day(0), [1])
    publisher.change(table, add("price", "bigint"))
    compact(backend, table, {"write.metadata.metrics.column.price": "none"})
    publisher.follow(table, publisher.format.compare(table, publisher.refs[table]), shows=ALL_SHOWN)
    assert column(publisher, table, publisher.state(table, 0), "price").nulls is None


def test_new_tables_ask_for_counts_of_all_columns(backend: IcebergBackend, publisher: Publisher) -> None:
    table = publisher.table()
    publisher.publish(table, day(0), [1, 2])
    outside = SqlCatalog(CATALOG_NAME, uri=backend.catalog_url).load_table((table.domain, table.name))
    assert outside.properties[DEFAULT] == "truncate(16)"


@pytest.mark.parametrize("says", ["a size", "nothing"])
def test_files_that_do_not_say_that_they_lack_the_epoch_are_not_shared(
    backend: IcebergBackend, publisher: Publisher, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    """Rows of a slice that another program rewrote are copied into a draft: its files have the epoch column.

    pyiceberg keeps the sizes of columns whatever its settings; Iceberg's Java programs leave them out.
    """
    table = publisher.table(kind=TableKind.FULL)
    drafts = publisher.format
    assert isinstance(drafts, DraftingFormat)
    engine = backend.engine()
    first = opened(publisher, engine, table, 0)
    engine.insert(first, batch([1]))
    committed(publisher, first)
    info = publisher.create(table)
    assert drafts.shares(info, publisher.state(table, 0))
    compact(backend, table, {DEFAULT: "none"})
    publisher.follow(table, publisher.format.compare(table, publisher.refs[table]), shows=ALL_SHOWN)
    if says == "nothing":
        entries = manifest_files.entries

        def without_sizes(*given: Any) -> list[ManifestEntry]:
            found = entries(*given)
            for entry in found:
                entry.data_file[manifest_files.COLUMN_SIZES] = None
            return found

        monkeypatch.setattr(manifest_files, "entries", without_sizes)
    assert not drafts.shares(info, publisher.state(table, 0))
