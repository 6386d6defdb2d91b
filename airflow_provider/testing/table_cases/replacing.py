"""Cases: a table without a published epoch can be created anew with other columns, and a dropped one at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider.domain.errors import InvalidInput, SchemaMismatch
from airflow_provider.domain.topology import Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.errors import TableRecreated
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)

WRONG = pa.schema([("id", pa.string()), ("lable", pa.string())])


class ReplacingCases(TableCases):
    """Tables that a first attempt created with wrong columns."""

    def test_other_columns_take_the_place_of_unpublished_ones(
        self, publisher: Publisher, table: Table
    ) -> None:
        wrong = publisher.create(table, WRONG)
        info = publisher.format.replace(table, wrong, batch([]).schema)
        assert publisher.format.describe(table) == info == publisher.create(table)
        assert info.table_uuid != wrong.table_uuid
        assert publisher.format.arrow_schema(info.schema).names == ["id", "label", EPOCH_COLUMN]
        publisher.publish(table, day(0), [1])
        assert publisher.rows(table, 0) == expected((0, [1]))

    def test_replacing_is_done_once(self, publisher: Publisher, table: Table) -> None:
        wrong = publisher.create(table, WRONG)
        info = publisher.format.replace(table, wrong, batch([]).schema)
        assert publisher.format.replace(table, wrong, batch([]).schema) == info
        with pytest.raises(SchemaMismatch, match=r"'label'.*'lable'"):
            publisher.format.replace(table, wrong, WRONG)
        assert publisher.format.describe(table) == info

    def test_what_was_staged_for_the_replaced_table_is_refused(
        self, publisher: Publisher, table: Table
    ) -> None:
        staged = publisher.stage(table, day(0), [batch([1])])
        unpublished = publisher.create(table)
        publisher.format.replace(table, unpublished, WRONG)
        with pytest.raises(TableRecreated):
            publisher.format.prepare(publisher.publication(table, (day(0), staged)))

    def test_a_published_table_is_never_replaced(self, publisher: Publisher, table: Table) -> None:
        unpublished = publisher.create(table)
        publisher.publish(table, day(0), [1])
        info = publisher.format.describe(table)
        assert info is not None
        with pytest.raises(InvalidInput, match="published version"):
            publisher.format.replace(table, info, WRONG)
        with pytest.raises(SchemaMismatch):
            publisher.format.replace(table, unpublished, WRONG)
        assert publisher.format.describe(table) == info

    def test_a_dropped_table_is_forgotten_and_made_anew(self, publisher: Publisher, table: Table) -> None:
        dropped = publisher.publish(table, day(0), [1])
        assert publisher.format.forget(table, dropped)
        assert publisher.format.describe(table) is None
        assert publisher.format.forget(table, dropped)
        assert publisher.format.missing(table, [dropped]) == []
        made = publisher.create(table, WRONG)
        assert made.table_uuid != dropped.table_uuid
        assert not publisher.format.forget(table, dropped)
        assert publisher.format.describe(table) == made
        assert publisher.format.forget(table, None)
        assert publisher.format.describe(table) is None

    def test_rows_of_another_program_keep_their_entry(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        recorded = publisher.publish(table, day(0), [1])
        backend.commit_foreign(table, "append", {0: [7]})
        assert not publisher.format.forget(table, recorded)
        assert publisher.format.describe(table) is not None
