"""Bounds of a source that is a PostgreSQL table: ranges of a column of growing ids.

PostgreSQL assigns an id before its row is visible. So the greatest visible id is read first; then the transactions
that are writing at that moment are awaited: rows that they add at or below that id are visible when rows are counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from shlex import quote as shell_quoted
from typing import TYPE_CHECKING, Any, LiteralString
from urllib.parse import quote

from airflow_provider.domain.completeness import ConditionKind
from airflow_provider.domain.errors import InvalidInput, NotReady, SourceUnavailable, Unavailable
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.source_bounds import (
    BoundsRequest,
    Late,
    Source,
    SourceBounds,
    SourceRecord,
    Span,
)
from airflow_provider.sources.reader import JdbcRows, SourceReader, span_of
from airflow_provider.stores.sql.postgresql.address import Address, parsed

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from airflow_provider.domain.interval import Interval

log = logging.getLogger(__name__)

DRIVER = "org.postgresql.Driver"
"""Class of PostgreSQL's JDBC driver, which a Spark session needs on its class path."""

PACKAGE = "org.postgresql:postgresql:42.7.8"
"""Maven coordinates of the driver, in the version that is tested."""

_CONNECT_S = 10
_STATEMENT_MS = 600_000
_WRITERS_S = 30.0
_PAUSE_S = 0.05
_FETCHED_ROWS = "10000"
_GREATEST = "SELECT (SELECT max({ids}) FROM {table}), EXISTS(SELECT 1 FROM {table} WHERE {ids} IS NULL)"
_WITHIN = """
    SELECT count(*), max({ids}) FROM {table}
    WHERE ({low}::bigint IS NULL OR {ids} > {low}::bigint) AND ({high}::bigint IS NULL OR {ids} <= {high}::bigint)
"""
_WRITERS = """
    SELECT array_agg(DISTINCT virtualtransaction) FROM pg_locks
    WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
      AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND relation IN (SELECT {name}::regclass UNION SELECT relid FROM pg_partition_tree({name}::regclass))
"""
_SPLIT_KEY = """
    SELECT min(first_id) FROM (
      SELECT min({ids}) AS first_id, max({ids}) AS last_id FROM {table}
      WHERE ({low}::bigint IS NULL OR {ids} > {low}::bigint) AND {key} IS NOT NULL GROUP BY {key}
    ) AS keys WHERE first_id <= {edge} AND last_id > {edge}
"""
_LEAST = -(2**63)
_COUNTED = """
    SELECT (SELECT count(*) FROM {table} WHERE {ids} > spans.low AND {ids} <= spans.high)
    FROM unnest({lows}::bigint[], {highs}::bigint[]) WITH ORDINALITY AS spans(low, high, number) ORDER BY number
"""
_IN_UTC = "SELECT set_config('timezone', 'UTC', true)"
_REACHED = "SELECT EXISTS(SELECT 1 FROM {table} WHERE {column} >= {moment}::timestamptz)"
_CONTINUED_KEY = """
    SELECT {key}::text, {ids} FROM {table} AS later
    WHERE {ids} > {low} AND EXISTS(
      SELECT 1 FROM {table} AS earlier WHERE earlier.{key} = later.{key} AND earlier.{ids} <= {low}
    )
    ORDER BY {ids} LIMIT 1
"""


class PostgresReader(SourceReader):
    """Reader of a :class:`~airflow_provider.domain.source_bounds.PostgresSource`."""

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return the ids after the barrier before, up to the greatest one, or to the beginning of the barrier after.

        :raises NotReady: a condition is not met, the table does not exist, or a transaction writes to it for long.
        :raises SourceUnavailable: the database does not answer.
        :raises Unavailable: an earlier span has more rows than were counted.
        :raises InvalidInput: the id column is missing, has nulls or another type.
        """
        source, low = self.source, asked.low
        with _connected(source, self._url) as ids:
            _refuse_unreached(source, asked.interval, ids)
            high = asked.high(ids.greatest() if asked.is_open else None)
            high = low if low is not None and high is not None and high < low else high
            with ids.as_of_now():
                if source.transaction_key and high is not None and asked.is_open:
                    ids.refuse_continued_key(low, asked.before)
                    high = ids.before_split_key(low, high)
                _look_for_late(asked, ids)
                rows = 0 if high == low else ids.count(low, high)
            return SourceBounds(source=source.name, span=Span(low=low, high=high, rows=rows))

    def check_unchanged(self, bounds: SourceBounds) -> None:
        """:raises Unavailable: the number of rows in the span differs from the record."""
        span = span_of(bounds)
        if span.is_empty:
            return
        with _connected(self.source, self._url) as ids:
            found = ids.count(span.low, span.high)
        if found != span.rows:
            raise _changed(self.source, span, found)

    def rows(self, bounds: SourceBounds) -> JdbcRows:
        """Return the arguments to read the rows of *bounds*; timestamps without a zone stay without one."""
        address = parsed(self._url)
        properties = {
            "driver": DRIVER,
            "fetchsize": _FETCHED_ROWS,
            "preferTimestampNTZ": "true",
            **address.tls,
            "sslmode": address.sslmode,
            **{
                name: value
                for name, value in (("user", address.user), ("password", address.password))
                if value
            },
        }
        place = address.location.removeprefix("postgresql://").partition("/")[0]
        return JdbcRows(
            url=f"jdbc:postgresql://{place}/{quote(address.database, safe='')}",
            table=".".join(map(_quoted, self.source.table.split("."))),
            predicates=predicates(self.source, span_of(bounds)),
            properties=properties,
            driver=DRIVER,
            package=PACKAGE,
        )

    def missing(self, interval: Interval, now: datetime | None) -> str:  # noqa: ARG002  (rows say the time)
        """Return why the table is not complete for *interval*; empty if it is."""
        if not self.source.complete:
            return ""
        with _connected(self.source, self._url) as ids:
            return ids.unreached(interval.end)

    def unread(
        self,
        wanted: Sequence[SourceRecord],
        records: Sequence[SourceRecord],  # noqa: ARG002  (no other span has these ids)
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return the interval and a description of each span of *wanted* that has more rows than were counted."""
        source = self.source
        with _connected(source, self._url) as ids:
            late = [
                (record.interval, f"{found} rows with {source.id_column} in {record.bounds.span}")
                for record, found in ids.grown(wanted)
                if record.interval is not None
            ]
        return late, []


def _refuse_unreached(source: Source, interval: Interval, ids: _Ids) -> None:
    """:raises NotReady: a condition of *source* is not met."""
    reason = ids.unreached(interval.end)
    if reason:
        raise NotReady.of_source(
            source.name,
            source.table,
            reason,
            interval=interval,
            next_step="wait for the source (EpochSensor waits for sources, too), or correct what the source declares.",
        )


def predicates(source: Source, span: Span) -> list[str]:
    """Return one SQL condition per partition: each row of *span* meets exactly one, any other row none."""
    name = _quoted(source.id_column)
    if span.is_empty or span.high is None:
        return ["1 = 0"]
    first = 0 if span.low is None else span.low
    width = max(span.high - first, 1)
    parts = min(source.partitions, width)
    cuts = [first + width * number // parts for number in range(1, parts)]
    edges = [span.low, *cuts, span.high]
    return [_between(name, low, high) for low, high in pairwise(edges)]


def _between(name: str, low: int | None, high: int | None) -> str:
    return " AND ".join(
        f"{name} {sign} {edge}" for sign, edge in ((">", low), ("<=", high)) if edge is not None
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _changed(source: Source, span: Span, found: int, interval: Interval | None = None) -> Unavailable:
    epoch = "" if interval is None else f" {interval.start.isoformat()}/{interval.end.isoformat()}"
    return Unavailable(
        f"source {source.name!r}: {source.table} has {found} rows with {source.id_column} in {span}: they came late, "
        "or were deleted.",
        next_step="bring the rows back as they were; or bind the source anew (`airflow epochs bind "
        f"{shell_quoted(source.name)}{epoch or ' …'} --reason …`), then clear the tasks of the epoch: they read what "
        "is there now.",
        source=source.name,
        expected=f"{span.rows} rows",
        found=f"{found} rows",
    )


def _look_for_late(asked: BoundsRequest, ids: _Ids) -> None:
    """Look for late rows: their ids lie in a span that an epoch has read, among rows that it did read.

    Counts every span within the source's window: late rows may be in any of them.

    :raises Unavailable: a span has late rows, and the source does not declare late='revision'; names the epoch.
    """
    for record, found in ids.grown(asked.before):
        span = record.bounds.span
        if span is None:
            continue
        late = _changed(asked.source, span, found, record.interval)
        if asked.source.late is not Late.REVISION:
            raise late
        log.warning("%s", late)


class _Ids:
    """Queries for the ids of a source's table."""

    def __init__(self, source: Source, connection: psycopg.Connection[Any]) -> None:
        self._source = source
        self._connection = connection

    @contextmanager
    def as_of_now(self) -> Iterator[None]:
        """Run the queries of the block on one snapshot of the database."""
        from psycopg import IsolationLevel

        self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
        with self._connection.transaction():
            yield

    def greatest(self) -> int | None:
        """Return the greatest id, after the end of all transactions that were writing when it was read."""
        source = self._source
        greatest, without = self._ask(_GREATEST)[0]
        if without or (greatest is not None and type(greatest) is not int):
            raise InvalidInput(
                field="id_column",
                value=source.id_column,
                expected=f"a column of integers in {source.table} that are never null; found "
                + ("nulls" if without else type(greatest).__name__),
                source=source.name,
            )
        # Read the writers after the greatest id: a transaction that was adding rows at or below it is among them.
        waited_for = self._writers()
        deadline = time.monotonic() + _WRITERS_S
        while waited_for & self._writers():
            if time.monotonic() > deadline:
                raise NotReady(
                    f"source {source.name!r}: transactions have been writing to {source.table} for {_WRITERS_S:.0f} s; "
                    f"they may add rows with {source.id_column} at or below {greatest}.",
                    next_step="wait for their end: `SELECT * FROM pg_stat_activity WHERE xact_start IS NOT NULL`.",
                    source=source.name,
                    missing=(Missing(name=source.table, reason="transactions are writing to it"),),
                )
            time.sleep(_PAUSE_S)
        return greatest

    def unreached(self, end: datetime) -> str:
        """Return why the rows are not complete up to *end* by the source's conditions; empty if they are."""
        for condition in self._source.complete:
            if condition.kind is ConditionKind.IDS_REACHED:
                moment = end.isoformat(sep=" ")
                with self.as_of_now():
                    self._ask(_IN_UTC)
                    reached = self._ask(_REACHED, column=condition.column, moment=moment)[0][0]
                if not reached:
                    return f"no row of {self._source.table} has a {condition.column} of {moment} or later"
        return ""

    def count(self, low: int | None, high: int | None) -> int:
        return int(self._ask(_WITHIN, low=low, high=high)[0][0])

    def grown(self, records: Sequence[SourceRecord]) -> list[tuple[SourceRecord, int]]:
        """Return the *records* whose spans have more rows than were counted, each with the number; one query."""
        asked = [record for record in records if record.bounds.span and not record.bounds.span.is_empty]
        if not asked:
            return []
        spans = [record.bounds.span for record in asked if record.bounds.span]
        lows = [_LEAST if span.low is None else span.low for span in spans]
        counts = self._ask(_COUNTED, lows=lows, highs=[span.high for span in spans])
        return [
            (record, int(count))
            for record, span, (count,) in zip(asked, spans, counts, strict=True)
            if span.rows is not None and count > span.rows
        ]

    def before_split_key(self, low: int | None, high: int) -> int | None:
        """Return the greatest id up to *high* such that no transaction key has rows on both sides of it."""
        edge: int | None = high
        while edge is not None:
            first = self._ask(_SPLIT_KEY, low=low, edge=edge)[0][0]
            if first is None:
                return edge
            edge = self._ask(_WITHIN, low=low, high=first - 1)[0][1]
        return low

    def refuse_continued_key(self, low: int | None, before: Sequence[SourceRecord]) -> None:
        """:raises Unavailable: a transaction key of rows that an epoch has read has further rows beyond *low*."""
        source = self._source
        continued = [] if low is None else self._ask(_CONTINUED_KEY, low=low)
        if continued:
            key, number = continued[0]
            read = next(
                (record.interval for record in before if record.interval and not record.bounds.is_empty), None
            )
            epoch = "INTERVAL" if read is None else f"{read.start.isoformat()}/{read.end.isoformat()}"
            raise Unavailable(
                f"source {source.name!r}: {source.transaction_key} {key} goes on at {source.id_column} {number}, and "
                f"the epoch {read or 'before'} has read its rows up to {low}.",
                next_step=f"`airflow epochs bind {shell_quoted(source.name)} {epoch} --reason …`, then clear the tasks "
                "that have read it there: they take all rows of the key.",
                source=source.name,
                key=key,
                id=number,
            )

    def _writers(self) -> set[str]:
        from psycopg.sql import Identifier

        name = Identifier(*self._source.table.split(".")).as_string(None)
        return set(self._ask(_WRITERS, name=name)[0][0] or ())

    def _ask(self, statement: LiteralString, **values: int | str | list[Any] | None) -> list[Any]:
        from psycopg.sql import SQL, Identifier, Literal

        source = self._source
        asked = SQL(statement).format(
            ids=Identifier(source.id_column),
            table=Identifier(*source.table.split(".")),
            key=Identifier(source.transaction_key),
            **{
                name: Identifier(str(value)) if name == "column" else Literal(value)
                for name, value in values.items()
            },
        )
        return self._connection.execute(asked).fetchall()


@contextmanager
def _connected(source: Source, url: str) -> Iterator[_Ids]:
    """Open a read-only connection in autocommit mode.

    :raises SourceUnavailable: the database does not answer. :raises NotReady: the table does not exist.
    :raises InvalidInput: a column does not exist, or the user must not read the table.
    """
    try:
        import psycopg
    except ImportError as error:
        raise InvalidInput(
            field="connection",
            value=source.connection,
            expected="PostgreSQL's client library",
            next_step="install the package with its extra: airflow-provider-epochs[postgres].",
        ) from error
    try:
        with psycopg.connect(**_parameters(parsed(url)), autocommit=True) as connection:
            connection.read_only = True
            yield _Ids(source, connection)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise NotReady.of_absent(source.name, source.table, place=parsed(url).location) from error
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        raise InvalidInput(
            field=f"source {source.name!r}",
            value=source.table,
            expected=f"a table that can be read with these columns; {parsed(url).location} says: {_first_line(error)}",
            next_step="correct the declaration of the source, or let its user read the table.",
        ) from error
    except psycopg.Error as error:
        raise SourceUnavailable.of(source.name, parsed(url).location, _first_line(error)) from error


def _parameters(address: Address) -> dict[str, Any]:
    given = {
        **address.places,
        "dbname": address.database,
        "user": address.user or None,
        "password": address.password or None,
        **address.tls,
        "sslmode": address.sslmode,
        "connect_timeout": _CONNECT_S,
        "application_name": "epochs",
        "options": None if address.pooled else f"-c statement_timeout={_STATEMENT_MS}",
    }
    return {name: value for name, value in given.items() if value is not None}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
