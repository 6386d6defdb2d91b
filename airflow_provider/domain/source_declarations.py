"""Declarations of sources: sources outside the domain, read through bounds that are recorded once (section 4).

A source is files, an Iceberg table that another program writes, or the rows of a database's table by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar

from airflow_provider.domain.completeness import (
    CHOICES,
    FOR_FILES,
    FOR_ROWS,
    Condition,
    ConditionKind,
    checked_conditions,
)
from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.format_marks import formerly, since
from airflow_provider.domain.identifiers import source_column_name, table_name, validate_text
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.local_paths import is_plain

_MOST_PARTITIONS = 10_000
_SAMPLED = datetime(2024, 1, 1, tzinfo=UTC)
_CONNECTION = re.compile(r"[\w#!()\-.:/\\]{0,250}")
LATE_WINDOW = timedelta(days=7)
"""Time after its barrier in which a begin looks for late data, unless the source declares another one."""
_LONGEST_WINDOW = timedelta(days=366)
_WILD = re.compile(r"[*?\[]|/$")


class SourceKind(StrEnum):
    """The kinds of sources."""

    FILES = "files"
    ICEBERG = "iceberg"
    JDBC = "jdbc"


class SourceReads(StrEnum):
    """The part of an Iceberg table that an epoch reads."""

    INCREMENT = "increment"
    """The rows appended since the barrier before; the first epoch reads all rows."""
    STATE = "state"
    """The whole table as it is at the barrier."""


class Late(StrEnum):
    """Policy for data that arrives after the bounds of its barrier were recorded."""

    IGNORE = "ignore"
    """No epoch reads it (files only); ``explain`` and ``doctor`` list it."""
    NEXT = "next"
    """The next epoch reads it."""
    REVISION = "revision"
    """A new revision of the epoch reads it, within new bounds."""
    REFUSE = "refuse"
    """The next begin fails and names it (files only: ids that come late among others are always refused)."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Source:
    """Data from outside the domain: :class:`FileSource`, :class:`IcebergSource` or :class:`PostgresSource`.

    A record has the fields of all kinds; a kind leaves those of others at their defaults. The codec decodes a stored
    source to this class, and it takes the class of its kind then: docs/decisions/source-classes.md.
    """

    has_spans: ClassVar[bool] = True
    """True if bounds are a span of ids or snapshots; False if they are a list of files."""
    is_repeatable: ClassVar[bool] = True
    """True if rows within bounds cannot change unnoticed."""
    _policies: ClassVar[tuple[Late, ...]] = (Late.NEXT, Late.REVISION)
    _conditions: ClassVar[frozenset[ConditionKind]] = frozenset()

    name: str
    location: str = ""
    late: Late = Late.IGNORE
    kind: SourceKind = SourceKind.FILES
    table: str = ""
    connection: str = field(default="", metadata=formerly("source"))
    reads: SourceReads = SourceReads.INCREMENT
    id_column: str = ""
    transaction_key: str = ""
    partitions: int = 1
    complete: tuple[Condition, ...] = field(default=(), metadata=since(2, optional=True))
    late_window: timedelta | None = field(default=None, metadata=since(2, optional=True))

    def _declare(self, **given: object) -> None:
        """Set the *given* fields, leave the others at their defaults, and check all of them."""
        for option in fields(self):
            object.__setattr__(self, option.name, given.get(option.name, option.default))
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields. The codec calls it, too: what constructors refuse beyond this stays readable."""
        object.__setattr__(self, "kind", choice(SourceKind, self.kind, "kind"))
        if type(self) is Source:
            object.__setattr__(self, "__class__", _CLASSES[self.kind])
        object.__setattr__(self, "name", table_name(self.name))
        object.__setattr__(self, "reads", choice(SourceReads, self.reads, "reads"))
        object.__setattr__(self, "late", choice(Late, self.late, "late"))
        object.__setattr__(self, "complete", checked_conditions(self.complete, self._conditions))
        self._check_late()
        self._check_place()

    def _check_late(self) -> None:
        window = self.late_window
        if window is not None and not (
            isinstance(window, timedelta) and timedelta(0) < window <= _LONGEST_WINDOW
        ):
            raise InvalidInput(
                field="late_window",
                value=window,
                expected=f"a timedelta above zero, at most {_LONGEST_WINDOW.days} days",
            )
        if self.late not in self._policies:
            raise InvalidInput(
                field="late",
                value=self.late.value,
                expected=f"one of {[policy.value for policy in self._policies]} for {self.kind} source {self.name!r}",
            )

    def _check_place(self) -> None:
        """Check the fields that say where the source is and how it is read.

        :raises InvalidInput: names the field.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.place!r})"

    @property
    def place(self) -> str:
        """Location, or connection id and table, for messages: it has no secrets."""
        return self.location or ":".join(part for part in (self.connection, self.table) if part)

    @property
    def is_increment(self) -> bool:
        """True if an epoch reads the rows since the barrier before, and not all rows."""
        return self.has_spans and self.reads is not SourceReads.STATE

    @property
    def looks_around(self) -> bool:
        """True if bounds depend on those of other barriers: then they form a chain."""
        return True

    @property
    def window(self) -> timedelta:
        """Time after its barrier in which late data is looked for."""
        return self.late_window or LATE_WINDOW

    def reach(self, cadence: Cadence) -> timedelta:  # noqa: ARG002  (files depend on it)
        """Return the distance to the farthest barriers whose bounds matter for an epoch of *cadence*."""
        return self.window

    @property
    def is_pattern(self) -> bool:
        """True if the location may have any number of files: a wildcard or a folder."""
        return False

    @property
    def is_older(self) -> bool:
        """True if it was declared by an older version of the package, without conditions and windows."""
        return False

    def shares(self, other: Source) -> bool:
        """Return True if a job that declares this may share its bounds with one that declares *other*.

        Of a declaration by an older version only name, location and kind are compared: jobs are upgraded one by one.
        """
        if self.is_older or other.is_older:
            return (self.name, self.location, self.kind) == (other.name, other.location, other.kind)
        return self == other

    def unlike(self, before: Source) -> str:
        """Return the field of the declaration *before* that cannot change once bounds are recorded; empty if none does.

        Late data is found by comparison with the bounds of the barriers around: all of them must follow one rule. What
        an epoch has read at another place is found by the names of sources: of each, all bounds are of one place.
        """
        for name in ("kind", "location", "table", "id_column", "reads"):
            if getattr(self, name) != getattr(before, name):
                return name
        if before.late is Late.NEXT and self.late is not Late.NEXT:
            return "late"
        return "late_window" if before.late_window and self.window < before.late_window else ""

    @property
    def more(self) -> tuple[tuple[str, str], ...]:
        """Fields beyond name and location that differ from their defaults: (name, value)."""
        beyond = (
            (option, getattr(self, option.name))
            for option in fields(self)
            if option.name not in {"name", "location"}
        )
        return tuple(
            (option.name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
            for option, value in beyond
            if value not in (option.default, LATE_WINDOW)
        )


class FileSource(Source):
    """Files that land at a location; the files there at the first begin of a barrier are its bounds.

    :param name: unique in the domain; jobs that name the same source share its bounds.
    :param location: absolute path or URI, with ``{start}`` and ``{end}`` of the interval, and wildcards.
    :param late: policy for files that arrive later at the location of an interval: by default the next epoch reads
        them. A location that is the same for several intervals must be declared with ``ignore``.
    :param complete: conditions under which all files of an interval are there
        (:mod:`airflow_provider.domain.completeness`); a location with a wildcard needs them, or ``none_needed()``.
    :param late_window: time after its barrier in which late files are looked for; 7 days by default.
    :raises InvalidInput: names the field.
    """

    __slots__ = ()
    has_spans = False
    _policies = tuple(Late)
    _conditions = FOR_FILES

    def __init__(
        self,
        name: str,
        location: str,
        late: Late | str | None = None,
        *,
        complete: Condition | Iterable[Condition] = (),
        late_window: timedelta | None = None,
    ) -> None:
        self._declare(
            name=name,
            kind=SourceKind.FILES,
            location=location,
            late=Late.NEXT if late is None else late,
            complete=complete,
            late_window=LATE_WINDOW if late_window is None else late_window,
        )
        self._refuse_unsaid(late)

    def _refuse_unsaid(self, late: Late | str | None) -> None:
        """Refuse what the location rules out: another spelling, no completeness condition, a policy for late files."""
        if not is_plain(self.location):
            raise InvalidInput(
                field="location",
                value=self.location,
                expected="a local path without '//', '/./' and '/../': files are known by their path",
                next_step="spell the folder by its plain path.",
            )
        if self.is_pattern and not self.complete:
            raise incomplete_declaration(self, "a wildcard or a folder")
        problem = unlike_intervals(self.location) if self.late is not Late.IGNORE else ""
        if problem:
            raise InvalidInput(
                field="late",
                value=None if late is None else self.late.value,
                expected=f"'ignore', since the location {self.location!r} of source {self.name!r} {problem}",
                next_step="let the location say the interval, such as {start:%Y-%m-%d} for days; or declare "
                "late='ignore': each epoch reads the files that are there when it begins first.",
            )

    def _check_place(self) -> None:
        validate_text(self.location, "location")

    @property
    def looks_around(self) -> bool:
        """True if an epoch reads or refuses late files: then its bounds depend on those of other barriers."""
        return self.late in (Late.NEXT, Late.REFUSE)

    def reach(self, cadence: Cadence) -> timedelta:
        """Return the distance to the farthest barriers whose bounds matter for an epoch of *cadence*.

        Late files are looked for within the window, and always at the epoch before, however long it is. The reach is
        the same for all epochs of a calendar, so that each sees every other epoch that may read the same late file.
        """
        return max(self.window, cadence.longest)

    @property
    def is_pattern(self) -> bool:
        """True if the location may have any number of files: a wildcard or a folder."""
        return _WILD.search(self.location) is not None

    @property
    def is_older(self) -> bool:
        """True if it was declared by an older version of the package, without conditions and windows."""
        return self.late_window is None


class IcebergSource(Source):
    """An Iceberg table that another program writes; two snapshots are its bounds.

    :param name: unique in the domain; jobs that name the same source share its bounds.
    :param table: ``CATALOG.NAMESPACE.TABLE``.
    :param connection: id of the connection to the database of its SQL catalog; without it, pyiceberg's own
        configuration says where the catalog is.
    :param reads: the rows appended since the barrier before, or the whole table.
    :param late: ``next``, or ``revision``: a new revision of an epoch reads within new bounds.
    :raises InvalidInput: names the field.
    """

    __slots__ = ()

    def __init__(
        self,
        name: str,
        table: str,
        *,
        connection: str = "",
        reads: SourceReads | str = SourceReads.INCREMENT,
        late: Late | str = Late.NEXT,
    ) -> None:
        self._declare(
            name=name, kind=SourceKind.ICEBERG, table=table, connection=connection, reads=reads, late=late
        )

    def _check_place(self) -> None:
        _check_table(self.table, range(3, 100), "CATALOG.NAMESPACE.TABLE")
        if self.connection != "":
            _check_connection(
                self.connection, "the id of a connection, or nothing: pyiceberg's own configuration"
            )


class PostgresSource(Source):
    """Rows of a table in PostgreSQL, in the order of a column of ids that only grow; a range of ids is its bounds.

    :param name: unique in the domain; jobs that name the same source share its bounds.
    :param table: ``TABLE`` or ``SCHEMA.TABLE``. :param connection: id of the connection to the database.
    :param id_column: integers, unique and never null; later rows have greater ones.
    :param transaction_key: column whose equal values bounds never split: all those rows are read by one epoch.
    :param partitions: of the DataFrame: ranges of ids that Spark reads at a time.
    :param late: ``next``, or ``revision``: a new revision of an epoch reads the rows that came late among its own.
    :param complete: ``ids_reached(column)``, where rows say up to when the table is complete.
    :param late_window: time after their barriers in which each begin counts again the rows that earlier epochs have
        read; 7 days by default.
    :raises InvalidInput: names the field.
    """

    __slots__ = ()
    is_repeatable = False
    _conditions = FOR_ROWS

    def __init__(
        self,
        name: str,
        table: str,
        *,
        connection: str,
        id_column: str,
        transaction_key: str = "",
        partitions: int = 1,
        late: Late | str = Late.NEXT,
        complete: Condition | Iterable[Condition] = (),
        late_window: timedelta | None = None,
    ) -> None:
        self._declare(
            name=name,
            kind=SourceKind.JDBC,
            table=table,
            connection=connection,
            id_column=id_column,
            transaction_key=transaction_key,
            partitions=partitions,
            late=late,
            complete=complete,
            late_window=late_window,
        )

    def _check_place(self) -> None:
        _check_table(self.table, range(1, 3), "TABLE or SCHEMA.TABLE")
        _check_connection(self.connection, "the id of a connection")
        source_column_name(self.id_column)
        if self.transaction_key != "":
            source_column_name(self.transaction_key)
        if type(self.partitions) is not int or self.partitions not in range(1, _MOST_PARTITIONS + 1):
            raise InvalidInput(
                field="partitions", value=self.partitions, expected=f"a number from 1 to {_MOST_PARTITIONS}"
            )


_CLASSES: Mapping[SourceKind, type[Source]] = {
    SourceKind.FILES: FileSource,
    SourceKind.ICEBERG: IcebergSource,
    SourceKind.JDBC: PostgresSource,
}


def _check_table(table: object, counts: range, form: str) -> None:
    """:raises InvalidInput: *table* does not have the *form*, whose number of parts is one of *counts*."""
    parts = validate_text(table, "table", limit=1000).split(".")
    if len(parts) not in counts or not all(part and part == part.strip() for part in parts):
        raise InvalidInput(field="table", value=table, expected=form)


def _check_connection(connection: object, expected: str) -> None:
    """:raises InvalidInput: *connection* cannot be the id of a connection of Airflow, such as a URL."""
    if not isinstance(connection, str) or not connection or _CONNECTION.fullmatch(connection) is None:
        raise InvalidInput(field="connection", value=connection, expected=expected)


def incomplete_declaration(source: Source, what: str) -> InvalidInput:
    """Return the error for a source without a completeness condition.

    :param what: reason why its location needs one, such as "a wildcard or a folder".
    """
    return InvalidInput(
        field="complete",
        value=None,
        expected=f"conditions, since the location {source.location!r} of source {source.name!r} is {what}: when are "
        "all files of an interval there?",
        next_step=f"declare complete={CHOICES}, or several; or none_needed(): whatever is there counts.",
        source=source.name,
    )


def unlike_intervals(location: str) -> str:
    """Return the reason why *location* is the same for several intervals; empty if it differs.

    Sampled: each hour of two days, each day of two months, each month of three years.
    """
    if "{" not in location:
        return "says nothing of the interval"
    hours = [_SAMPLED + timedelta(hours=number) for number in range(48)]
    days = [_SAMPLED + timedelta(days=number) for number in range(62)]
    months = [_SAMPLED.replace(year=2024 + number // 12, month=number % 12 + 1) for number in range(36)]
    for moments in (hours, days, months):
        seen: dict[str, datetime] = {}
        last = ""
        for moment in moments:
            try:
                found = location.format(start=moment, end=moment)
            except (KeyError, IndexError, ValueError, AttributeError):
                return ""  # told when it is used
            if found != last and found in seen:
                return f"is the same at {seen[found].isoformat()} and at {moment.isoformat()}, with others between"
            seen[found] = moment
            last = found
    return ""
