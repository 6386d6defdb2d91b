"""Cuts with methods: tables as Arrow, pandas, Polars, SQL or Spark views. The record of a cut stays a pure value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider.client.libraries import library
from airflow_provider.coordination.reading import cut_files, queries
from airflow_provider.coordination.reading.cuts import state_in
from airflow_provider.coordination.reading.differences import Difference, diff
from airflow_provider.coordination.reading.queries import Engine
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut, State
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.outdated import Outdated
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.topology import Table

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from airflow_provider.tables.filters import FilterTuple


class CutTable:
    """One table in a cut.

    Every read checks the cut before its first row and after its last (R22), because files may be deleted during it.
    """

    def __init__(self, service: EpochService, cut: Cut, state: State) -> None:
        self._service = service
        self._cut = cut
        self.state = state

    @property
    def name(self) -> TableName:
        """Name of the table."""
        return self.state.table

    def to_arrow(
        self, columns: Sequence[str] | None = None, filters: Sequence[FilterTuple] | None = None
    ) -> pa.Table:
        """Return all rows.

        :param columns: columns to read; None for all of the table's and, last, ``_epoch``.
        :param filters: tuples of column, operator (``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``) and value,
            which all hold for the rows returned; a file whose bounds say that it has no such row is not opened.
        :raises LeaseExpired: the cut is no longer readable, or was not when the last row was read.
        :raises Unavailable: a file of the cut is missing.
        :raises InvalidInput: the table lacks a column, or a filter's value is of another type than its column.
        """
        return self._service.cuts.read(self._cut, self.name, columns, filters)

    def to_pandas(
        self, columns: Sequence[str] | None = None, filters: Sequence[FilterTuple] | None = None
    ) -> pd.DataFrame:
        """Return all rows for pandas, with Arrow's types: integers with nulls stay integers, times keep their zone.

        Parameters and errors are those of :meth:`to_arrow`.

        :raises MissingLibrary: pandas is not installed.
        """
        pandas = library("pandas", "to_pandas()")
        frame: pd.DataFrame = self.to_arrow(columns, filters).to_pandas(types_mapper=pandas.ArrowDtype)
        return frame

    def to_polars(
        self, columns: Sequence[str] | None = None, filters: Sequence[FilterTuple] | None = None
    ) -> Any:
        """Return all rows as a Polars DataFrame.

        Parameters and errors are those of :meth:`to_arrow`.

        :raises MissingLibrary: Polars is not installed.
        """
        polars = library("polars", "to_polars()")
        return polars.from_arrow(self.to_arrow(columns, filters))

    def files(self) -> list[str]:
        """Return the URIs of the data files. Call :meth:`ReadableCut.check` after reading them.

        :raises LeaseExpired: the cut is no longer readable.
        :raises InvalidInput: files have rows of later epochs, too, since the table was compacted.
        """
        return self._service.cuts.files(self._cut, self.name)

    def metadata_location(self) -> str:
        """Return the URI of an Iceberg metadata file that any engine opens as a table: these rows and no others.

        The first call for a state writes the file, into the warehouse. It does not keep the cut readable: hold the cut
        by a lease, and call :meth:`ReadableCut.check` after reading.

        :raises LeaseExpired: the cut is no longer readable.
        :raises InvalidInput: a cut of READ_UNCOMMITTED, or a table whose format has no such files.
        :raises WarehouseUnavailable: this process may not write to the warehouse.
        """
        return cut_files.cut_file(self._service.cuts, self._cut, self.name).uri

    def __repr__(self) -> str:
        return f"<table {self.name} at {self.state.barrier.isoformat()}, CSN {self.state.csn}>"


class ReadableCut:
    """One state of each table, all at one barrier and one CSN; ``cut["flights"]`` is the state of one table.

    :ivar record: the cut as a value.
    """

    def __init__(self, service: EpochService, record: Cut) -> None:
        self._service = service
        self.record = record

    # --- the tables ------------------------------------------------------------------------------------------

    def __getitem__(self, table: str | Table) -> CutTable:
        """Return *table* in this cut.

        :raises InvalidInput: the cut was made without it.
        """
        (name,) = names_within(self.domain, [table])
        return CutTable(self._service, self.record, state_in(self.record, name))

    def __iter__(self) -> Iterator[TableName]:
        return iter(self.record.states)

    def __len__(self) -> int:
        return len(self.record.states)

    def __contains__(self, table: object) -> bool:
        if isinstance(table, Table):
            return table.domain == self.domain and table.name in self.record.states
        return table in self.record.states

    # --- fields of the record --------------------------------------------------------------------------------

    @property
    def domain(self) -> DomainName:
        """Domain of the tables."""
        return self.record.domain

    @property
    def incarnation(self) -> str:
        """Incarnation of the store in which the cut was made."""
        return self.record.incarnation

    @property
    def csn(self) -> int:
        """Commit sequence number: everything committed up to it is in the cut."""
        return self.record.csn

    @property
    def barrier(self) -> datetime:
        """Time up to which the tables are read."""
        return self.record.barrier

    @property
    def level(self) -> Level:
        """Isolation level of the cut."""
        return self.record.level

    @property
    def states(self) -> Mapping[TableName, State]:
        """State of each table."""
        return self.record.states

    @property
    def readable_until(self) -> datetime:
        """Time, by the store's clock, until which the cut may be read, unless its lease is renewed."""
        return self.record.readable_until

    @property
    def outdated(self) -> tuple[Outdated, ...]:
        """Rows that were computed from an earlier state of an input."""
        return self.record.outdated

    @property
    def behind(self) -> Mapping[TableName, timedelta]:
        """Tables that are read at an earlier barrier than the cut's, each with the difference."""
        return self.record.behind

    @property
    def begins(self) -> Mapping[TableName, datetime]:
        """Time from which each incremental table has rows, if that differs between the tables; otherwise empty."""
        return self.record.begins

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for people: tables that begin later than others, and outdated rows."""
        return self.record.notes

    def check(self) -> None:
        """Raise if this cut is no longer readable. Needed only after reading files or queries with other programs.

        :raises LeaseExpired: the cut is no longer readable; the message has the reason.
        """
        self._service.cuts.check(self.record)

    # --- all tables together ---------------------------------------------------------------------------------

    def sql(self, query: str, *, engine: Engine | str = Engine.DUCKDB) -> pa.Table:
        """Run one SELECT over the tables, under their names, and return its rows.

        The tables that *query* names are read whole, into memory. For larger ones see :meth:`script` and :meth:`views`.

        :param engine: ``duckdb``, the only engine that runs in this process; its time zone is UTC.
        :raises InvalidInput: another engine, or SQL that DuckDB does not run over these tables alone.
        :raises MissingLibrary: DuckDB is not installed.
        :raises LeaseExpired: the cut is no longer readable.
        """
        if engine != Engine.DUCKDB:
            raise InvalidInput(
                field="engine",
                value=str(engine),
                expected="duckdb",
                next_step="in Spark: with cut.views() as spark: spark.sql(…). cut.queries(engine) gives the text for "
                "Spark and Trino.",
            )
        if not isinstance(query, str):
            raise InvalidInput(field="query", value=query, expected="one SELECT, as text")
        duckdb = library("duckdb", "sql()")
        named = [table for table in self if _names(query, table)]
        with duckdb.connect() as connection:
            if named:
                self._service.cuts.duckdb(self.record, connection, named)
            try:
                # A misspelt table must not be found among Python's variables or in a file.
                connection.execute(
                    "SET python_enable_replacements = false; SET enable_external_access = false"
                )
                connection.execute("SET TimeZone = 'UTC'")
                found = connection.sql(query)
            except duckdb.Error as error:
                raise self._not_run(query, str(error)) from error
            if found is None:
                raise self._not_run(query, "the statement returns no rows")
            try:
                rows: pa.Table = found.to_arrow_table()
            except duckdb.Error as error:
                raise self._not_run(query, str(error)) from error
            return rows

    def _not_run(self, query: str, why: str) -> InvalidInput:
        return InvalidInput(
            field="query",
            value=query,
            expected=f"one SELECT that DuckDB runs over {', '.join(sorted(self))}: {why}",
        )

    def register(
        self, connection: duckdb.DuckDBPyConnection, tables: Iterable[str | Table] | None = None
    ) -> None:
        """Read *tables*, all by default, and register them in your DuckDB connection, under their names.

        :raises InvalidInput: two tables whose names differ only in case, which DuckDB ignores.
        :raises LeaseExpired: the cut is no longer readable.
        """
        names = None if tables is None else names_within(self.domain, tables)
        self._service.cuts.duckdb(self.record, connection, names)

    def views(
        self, spark: SparkSession | None = None, *, prefix: str = "", with_epoch: bool = False
    ) -> AbstractContextManager[SparkSession]:
        """Create a temporary view of each table in Spark, for a ``with`` block. Run every action inside the block.

        :param spark: the session; by default the running one, else a new one.
        :param prefix: text before each table's name. :param with_epoch: give the views the column ``_epoch``, too.
        :raises LeaseExpired: the cut is no longer readable, or was not when the block ended.
        :raises InvalidInput: a session whose settings may lose rows, a table that Spark cannot reach, or a name that is
            taken.
        """
        from airflow_provider.spark.views import cut_views

        return cut_views(self._service.cuts, self.record, spark, prefix=prefix, with_epoch=with_epoch)

    def queries(self, engine: Engine | str, *, catalog: str = "epochs") -> dict[TableName, str]:
        """Return for each table a SELECT of its rows in the SQL of *engine*: ``duckdb``, ``spark`` or ``trino``.

        The queries do not keep the cut readable: hold it by a lease, and call :meth:`check` after running them.

        :param catalog: name of the store's Iceberg catalog in the engine; DuckDB needs none.
        :raises InvalidInput: an unknown engine, or a state that it cannot read.
        :raises LeaseExpired: the cut is no longer readable.
        """
        return queries.queries(self._service.cuts, self.record, engine, catalog=catalog)

    def script(self, engine: Engine | str, *, catalog: str = "epochs") -> str:
        """Return statements that create a temporary view of each table, for ``duckdb`` or ``spark``.

        Parameters and errors are those of :meth:`queries`.
        """
        return queries.script(self._service.cuts, self.record, engine, catalog=catalog)

    def __sub__(self, earlier: object) -> dict[TableName, Difference]:
        """Return the differences from *earlier*, by table: rows that only one of the two cuts has.

        :raises LeaseExpired: one of the cuts is no longer readable. :raises InvalidInput: a cut of another domain.
        """
        if not isinstance(earlier, ReadableCut):
            return NotImplemented
        return self.difference(earlier)

    def difference(
        self, earlier: ReadableCut, tables: Iterable[str | Table] | None = None
    ) -> dict[TableName, Difference]:
        """Return the same as ``self - earlier``, for *tables* only.

        :param tables: tables to compare; None for all that both cuts have.
        :raises InvalidInput: a table that one of the cuts lacks, or a cut of another domain.
        """
        names = None if tables is None else names_within(self.domain, tables)
        return diff(self._service.cuts, earlier.record, self.record, names)

    def __repr__(self) -> str:
        tables = ", ".join(self)
        return f"<cut of {tables} in {self.domain} at {self.barrier.isoformat()}, CSN {self.csn}>"


def names_within(domain: DomainName, tables: str | Table | Iterable[str | Table]) -> list[TableName]:
    """Return the names of *tables*, which must all be of *domain*.

    :raises InvalidInput: no table, a value that is no name, or a declaration of another domain.
    """
    if isinstance(tables, str | Table):
        tables = [tables]
    given = list(tables) if isinstance(tables, Iterable) else tables
    names = names_of(given)
    for table in given:
        if isinstance(table, Table) and table.domain != domain:
            raise InvalidInput(
                field="tables",
                value=f"{table.domain}.{table.name}",
                expected=f"tables of the domain {domain!r}: CSNs of two domains say nothing about each other",
                next_step="make a cut for each domain.",
            )
    return names


def _names(query: str, table: TableName) -> bool:
    """Return whether *query* may name *table*: its name occurs as whole words, plain or quoted, in any case.

    May be true for a text that only mentions the name, such as a comment; then the table is read in vain.
    """
    quoted = table.replace('"', '""')
    words = "|".join(re.escape(name.casefold()) for name in (table, quoted))
    return re.search(rf"(?<!\w)(?:{words})(?!\w)", query.casefold()) is not None
