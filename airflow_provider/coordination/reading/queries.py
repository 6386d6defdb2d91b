"""A cut as text: for each table a query of its rows in one engine's SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.engine_names import refuse_names_alike
from airflow_provider.domain.cut import Cut, State
from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.read_options import Level
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.capabilities import TableCapability, refuse_without

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider.tables.statistics import SizedFiles


class Engine(StrEnum):
    """SQL engine that runs the text."""

    DUCKDB = "duckdb"
    """Names the cut's files; columns by id. Needs no catalog, and reads every kept version."""
    SPARK = "spark"
    """Travels to the cut's snapshot in an Iceberg catalog of the session; for the table's last 20 commits."""
    TRINO = "trino"
    """Likewise, in Trino."""


def queries(cuts: Cuts, cut: Cut, engine: Engine | str, *, catalog: str = "epochs") -> dict[TableName, str]:
    """Return for each table of *cut* a SELECT of its rows, columns named, :data:`EPOCH_COLUMN` last.

    The text keeps nothing readable: hold the cut by a lease, and call ``cuts.check(cut)`` when the queries are done.

    :param catalog: name of the store's Iceberg catalog in the engine; DuckDB needs none.
    :raises LeaseExpired: the cut's time is over.
    :raises InvalidInput: unknown engine, a format that it cannot read, unpublished output; for Spark and Trino, an
        older state of a full table, which no snapshot of the catalog shows.
    """
    chosen = choice(Engine, engine, "engine")
    if cut.level is Level.READ_UNCOMMITTED:
        raise InvalidInput(field="cut", value=cut.level.value, expected="a cut of committed rows")
    cuts.check(cut)
    return {table: _query(cuts, cut, state, chosen, catalog) for table, state in cut.states.items()}


def script(cuts: Cuts, cut: Cut, engine: Engine | str, *, catalog: str = "epochs") -> str:
    """Return statements that make a temporary view of each table, named as the table.

    :raises InvalidInput: as :func:`queries`; Trino, which has no temporary views; names of two tables that differ only
        in case.
    """
    dialect = _DIALECTS[choice(Engine, engine, "engine")]
    if not dialect.view:
        raise InvalidInput(
            field="engine",
            value=str(engine),
            expected="duckdb or spark",
            next_step="put queries(…) into WITH clauses: Trino has no temporary views.",
        )
    refuse_names_alike(cut.states)
    texts = queries(cuts, cut, engine, catalog=catalog)
    return "".join(f"{dialect.view} {dialect.quoted(table)} AS\n{text};\n" for table, text in texts.items())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Dialect:
    """Spelling of names, views, versions and times in an engine's SQL."""

    quote: str
    view: str
    travel: Callable[[int], str]
    moment: Callable[[datetime], str]

    def quoted(self, name: str) -> str:
        return f"{self.quote}{name.replace(self.quote, 2 * self.quote)}{self.quote}"


def _timestamp(moment: datetime) -> str:
    return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f} UTC'"


_DIALECTS: Mapping[Engine, _Dialect] = {
    Engine.DUCKDB: _Dialect(
        quote='"',
        view="CREATE OR REPLACE TEMP VIEW",
        travel=lambda _: "",
        moment=lambda moment: f"TIMESTAMPTZ '{moment.isoformat(sep=' ')}'",
    ),
    Engine.SPARK: _Dialect(
        quote="`",
        view="CREATE OR REPLACE TEMPORARY VIEW",
        travel=lambda version: f"VERSION AS OF {version}",
        moment=_timestamp,
    ),
    Engine.TRINO: _Dialect(
        quote='"', view="", travel=lambda version: f"FOR VERSION AS OF {version}", moment=_timestamp
    ),
}


def _query(cuts: Cuts, cut: Cut, state: State, engine: Engine, catalog: str) -> str:
    table_format, version = cuts.format_of(state), state.ref.version if state.ref else 0
    refuse_without(_NEEDED[engine], table_format, state.table)
    schema = table_format.arrow_schema(cuts.schema(cut.domain, state))
    if engine is Engine.DUCKDB:
        found = table_format.sized(state)
        _refuse_added(found, state)
        return _of_files(schema, state, found)
    if not table_format.is_shown(state):
        raise InvalidInput(
            f"{state.table} at {state.barrier.isoformat()}: {engine} cannot travel there: version {version} "
            "shows the table's newest state, and this is an older one.",
            next_step="make the cut at the table's newest barrier, or read its files: cut[table].files(), or the text "
            "for engine='duckdb'.",
            field="cut",
            value=state.barrier.isoformat(),
            expected="a state that the catalog shows",
        )
    return _of_snapshot(cut.domain, state, schema, _DIALECTS[engine], catalog)


def _refuse_added(found: SizedFiles, state: State) -> None:
    """:raises InvalidInput: *state* has files of other programs, which do not say all of their rows."""
    if found.added:
        raise InvalidInput(
            field="engine",
            value="duckdb",
            expected=f"a table of files that this package wrote; {state.table} has others, which were added",
            next_step=f"iceberg_scan(cut[{str(state.table)!r}].metadata_location()), or cut[…].to_arrow().",
        )


_NEEDED: Mapping[Engine, TableCapability] = {
    Engine.DUCKDB: TableCapability.SHARED_FILES,
    Engine.SPARK: TableCapability.CATALOG_SNAPSHOTS,
    Engine.TRINO: TableCapability.CATALOG_SNAPSHOTS,
}


def _conditions(state: State, dialect: _Dialect) -> str:
    """Return the condition by which rows of a version are those of *state*."""
    epoch, barrier = dialect.quoted(EPOCH_COLUMN), dialect.moment(state.barrier)
    conditions = [f"{epoch} <= {barrier}" if state.kind.accumulates else f"{epoch} = {barrier}"]
    if state.low is not None and state.kind.accumulates:
        conditions.append(f"{epoch} > {dialect.moment(state.low)}")
    return " AND ".join(conditions)


def _of_snapshot(domain: DomainName, state: State, schema: pa.Schema, dialect: _Dialect, catalog: str) -> str:
    columns = ", ".join(dialect.quoted(field.name) for field in schema)
    table = ".".join(dialect.quoted(name) for name in (catalog, domain, state.table))
    version = dialect.travel(state.ref.version if state.ref else 0)
    return f"SELECT {columns}\nFROM {table} {version}\nWHERE {_conditions(state, dialect)}"


def _of_files(schema: pa.Schema, state: State, found: SizedFiles) -> str:
    dialect, files = _DIALECTS[Engine.DUCKDB], found.files
    types = [(field, _duckdb_type(field.type)) for field in schema]
    if not files:
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {dialect.quoted(field.name)}" for field, kind in types)
        return f"SELECT {nothing}\nWHERE false"
    columns = ", ".join(_of_state(field, state, dialect) for field in schema)
    by_id = ", ".join(
        f"{int(field.metadata[b'PARQUET:field_id'])}: "
        f"{{name: {_text(field.name)}, type: {_text(kind)}, default_value: NULL}}"
        for field, kind in types
    )
    listed = ",\n  ".join(_text(_literal_path(uri)) for uri in files)
    own = "" if found.clip is None else f"\nWHERE {_conditions(state, dialect)}"
    return f"SELECT {columns}\nFROM read_parquet([\n  {listed}\n], schema = MAP {{{by_id}}}){own}"


def _of_state(field: pa.Field, state: State, dialect: _Dialect) -> str:
    """Return a column of *state* as SQL: rows of a full table are of its barrier, whenever their file was written.

    DuckDB passes over parts of files by bounds that leave NaN out, and finds a maximum there: an expression has none.
    """
    import pyarrow as pa

    column = dialect.quoted(field.name)
    if field.name == EPOCH_COLUMN and state.kind.shares_files:
        return f"{dialect.moment(state.barrier)} AS {column}"
    if pa.types.is_floating(field.type):
        return f"CASE WHEN isnan({column}) THEN 'nan' ELSE {column} END AS {column}"
    return column


def _literal_path(uri: str) -> str:
    """Return *uri* as a pattern that matches only itself."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in uri)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _duckdb_type(kind: pa.DataType) -> str:
    """Return *kind* as a type of DuckDB, which matches the fields of structs by name.

    :raises InvalidInput: DuckDB has no such type.
    """
    import pyarrow as pa

    plain: Mapping[Any, str] = {
        pa.bool_(): "BOOLEAN",
        pa.int32(): "INTEGER",
        pa.int64(): "BIGINT",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.date32(): "DATE",
        pa.time64("us"): "TIME",
        pa.string(): "VARCHAR",
        pa.large_string(): "VARCHAR",
        pa.binary(): "BLOB",
        pa.large_binary(): "BLOB",
    }
    if kind in plain:
        return plain[kind]
    if pa.types.is_fixed_size_binary(kind):
        return "BLOB"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz else "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_struct(kind):
        parts = ", ".join(
            f"{_DIALECTS[Engine.DUCKDB].quoted(part.name)} {_duckdb_type(part.type)}" for part in kind
        )
        return f"STRUCT({parts})"
    if pa.types.is_map(kind):
        return f"MAP({_duckdb_type(kind.key_type)}, {_duckdb_type(kind.item_type)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_duckdb_type(kind.value_type)}[]"
    raise InvalidInput(field="type", value=str(kind), expected="a type that DuckDB has")
