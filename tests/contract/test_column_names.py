"""Any name that a column may have goes through writer, manifests, other engines and drafts as it is."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from airflow_provider.coordination.reading.queries import _duckdb_type, _of_files
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.drafts import DraftingFormat
from airflow_provider.testing.table_cases.backend import Publisher, day, new_publisher
from airflow_provider.testing.table_cases.writing import HOSTILE_COLUMNS
from tests.contract.test_table_contract import IcebergBackend
from tests.services.directories import quick_directory


@pytest.fixture
def backend() -> Iterator[IcebergBackend]:
    with quick_directory("epochs-tables-") as folder, IcebergBackend(folder) as backend:
        yield backend


@pytest.fixture
def publisher(backend: IcebergBackend) -> Publisher:
    return new_publisher(backend)


def rows_of(name: str) -> pa.RecordBatch:
    return pa.record_batch([["a", "b", None], [1, 2, 3]], names=[name, "number"])


@pytest.mark.parametrize("name", HOSTILE_COLUMNS)
def test_other_engines_read_a_column_of_any_name(publisher: Publisher, name: str) -> None:
    table = publisher.table(declared={"partition_by": (name,), "sort_by": (name,)})
    staged = publisher.stage(table, day(0), [rows_of(name)])
    publication = publisher.publication(table, (day(0), staged))
    publisher.commit((publication, publisher.format.prepare(publication)))
    state, schema = publisher.state(table, 0), publisher.format.arrow_schema(publisher.schemas[table])
    with duckdb.connect() as engine:
        found = engine.sql(_of_files(schema, state, publisher.format.sized(state))).to_arrow_table()
    assert found.column_names == [name, "number", EPOCH_COLUMN]
    assert sorted(found.column("number").to_pylist()) == [1, 2, 3]
    outside = StaticTable.from_metadata(publisher.refs[table].metadata)
    assert outside.spec().fields[1].source_id == outside.schema().find_field(name).field_id
    assert sorted(outside.scan().to_arrow().select([name]).to_pylist(), key=str) == sorted(
        rows_of(name).select([name]).to_pylist(), key=str
    )


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.list_(pa.float16()), pa.struct([("a", pa.null())])])
def test_a_type_that_duckdb_has_not_is_named(kind: pa.DataType) -> None:
    """R22: its values would be read as others."""
    with pytest.raises(InvalidInput, match="a type that DuckDB has"):
        _duckdb_type(kind)


@pytest.mark.parametrize("name", HOSTILE_COLUMNS)
def test_a_draft_has_columns_of_any_name(backend: IcebergBackend, publisher: Publisher, name: str) -> None:
    table = publisher.table(kind=TableKind.FULL)
    drafts = publisher.format
    assert isinstance(drafts, DraftingFormat)
    draft = drafts.open_draft(
        publisher.place(table, day(0)), publisher.create(table, rows_of(name).schema), None
    )
    backend.engine().insert(draft, rows_of(name))
    assert drafts.describe_draft(draft).rows == 3
