"""Declarations of roots: sources outside the domain, read through bounds that are recorded once (section 4).

A root is files, an Iceberg table that another program writes, or the rows of a database's table by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.completeness import CHOICES, FOR_FILES, FOR_ROWS, Condition, checked_conditions
from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.identifiers import column_name, kept_text, table_name
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.record_format import since

_MOST_PARTITIONS = 10_000
_SAMPLED = datetime(2024, 1, 1, tzinfo=UTC)
_SOURCE = re.compile(r"[\w#!()\-.:/\\]{0,250}")
LATE_WINDOW = timedelta(days=7)
"""Time after its barrier in which a begin looks for late data, unless the root declares another one."""
_LONGEST_WINDOW = timedelta(days=366)
_WILD = re.compile(r"[*?\[]|/$")


class RootKind(StrEnum):
    """The kinds of roots."""

    FILES = "files"
    ICEBERG = "iceberg"
    JDBC = "jdbc"


class RootReads(StrEnum):
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


_POLICIES = {
    RootKind.FILES: tuple(Late),
    RootKind.ICEBERG: (Late.NEXT, Late.REVISION),
    RootKind.JDBC: (Late.NEXT, Late.REVISION),
}
_PARTS = {
    RootKind.ICEBERG: (range(3, 100), "CATALOG.NAMESPACE.TABLE"),
    RootKind.JDBC: (range(1, 3), "TABLE or SCHEMA.TABLE"),
}


@dataclass(frozen=True, slots=True, init=False)
class Root:
    """A source outside the domain: files here; :func:`iceberg_root` and :func:`jdbc_root` declare the others.

    :param name: unique in the domain; jobs that name the same root share its bounds.
    :param location: URI or glob of the files; the files there at the first begin of a barrier are its bounds.
    :param late: policy for files that arrive later at the location of an interval: by default the next epoch reads
        them. A location that is the same for several intervals must be declared with ``ignore``.
    :param complete: conditions under which all files of an interval are there
        (:mod:`airflow_provider.domain.completeness`); a location with a wildcard needs them, or ``none_needed()``.
    :param late_window: time after its barrier in which late data is looked for.
    :raises InvalidInput: names the field.
    """

    name: str
    location: str = ""
    late: Late = field(default=Late.IGNORE, repr=False)
    kind: RootKind = field(default=RootKind.FILES, repr=False)
    table: str = field(default="", repr=False)
    source: str = field(default="", repr=False)
    reads: RootReads = field(default=RootReads.INCREMENT, repr=False)
    id_column: str = field(default="", repr=False)
    transaction_key: str = field(default="", repr=False)
    partitions: int = field(default=1, repr=False)
    complete: tuple[Condition, ...] = field(default=(), repr=False, metadata=since(2, optional=True))
    late_window: timedelta | None = field(default=None, repr=False, metadata=since(2, optional=True))

    def __init__(
        self,
        name: str,
        location: str = "",
        late: Late | str | None = None,
        *,
        complete: Condition | Iterable[Condition] = (),
        late_window: timedelta | None = None,
        kind: RootKind | str = RootKind.FILES,
        table: str = "",
        source: str = "",
        reads: RootReads | str = RootReads.INCREMENT,
        id_column: str = "",
        transaction_key: str = "",
        partitions: int = 1,
    ) -> None:
        """Declare a root.

        The codec does not call it: stored roots of older versions, which this refuses, stay readable.
        """
        of_files = kind == RootKind.FILES
        if of_files and late_window is None:
            late_window = LATE_WINDOW
        given = {
            "name": name,
            "location": location,
            "late": Late.NEXT if late is None else late,
            "kind": kind,
            "table": table,
            "source": source,
            "reads": reads,
            "id_column": id_column,
            "transaction_key": transaction_key,
            "partitions": partitions,
            "complete": complete,
            "late_window": late_window,
        }
        for attribute, value in given.items():
            object.__setattr__(self, attribute, value)
        self.__post_init__()
        if of_files:
            self._refuse_unsaid(late)

    def _refuse_unsaid(self, late: Late | str | None) -> None:
        """Refuse a folder without a completeness condition, and a policy for late files that its location rules out."""
        if self.is_pattern and not self.complete:
            raise incomplete_declaration(self, "a wildcard or a folder")
        problem = unlike_intervals(self.location) if self.late is not Late.IGNORE else ""
        if problem:
            raise InvalidInput(
                field="late",
                value=None if late is None else self.late.value,
                expected=f"'ignore', since the location {self.location!r} of root {self.name!r} {problem}",
                next_step="let the location say the interval, such as {start:%Y-%m-%d} for days; or declare "
                "late='ignore': each epoch reads the files that are there when it begins first.",
            )

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", table_name(self.name))
        kept_text(self.location, "location")
        object.__setattr__(self, "kind", choice(RootKind, self.kind, "kind"))
        object.__setattr__(self, "reads", choice(RootReads, self.reads, "reads"))
        late = choice(Late, self.late, "late")
        object.__setattr__(self, "late", late)
        allowed_here = {RootKind.FILES: FOR_FILES, RootKind.JDBC: FOR_ROWS}.get(self.kind, frozenset())
        object.__setattr__(self, "complete", checked_conditions(self.complete, allowed_here))
        window = self.late_window
        if window is not None and not (
            isinstance(window, timedelta) and timedelta(0) < window <= _LONGEST_WINDOW
        ):
            raise InvalidInput(
                field="late_window",
                value=window,
                expected=f"a timedelta above zero, at most {_LONGEST_WINDOW.days} days",
            )
        allowed = _POLICIES[self.kind]
        if late not in allowed:
            raise InvalidInput(
                field="late",
                value=late.value,
                expected=f"one of {[policy.value for policy in allowed]} for {self.kind} root {self.name!r}",
            )
        self._check_fields()

    def _check_fields(self) -> None:
        if self.kind is RootKind.FILES:
            self._check_location()
        else:
            self._check_table()
        if self.kind is RootKind.JDBC:
            column_name(self.id_column)
            if self.transaction_key != "":
                column_name(self.transaction_key)
        elif self.transaction_key or self.id_column:
            given = "transaction_key" if self.transaction_key else "id_column"
            raise InvalidInput(
                field=given,
                value=getattr(self, given),
                expected=f"nothing for {self.kind} root {self.name!r}: a file and a snapshot are never split",
                next_step="declare it with jdbc_root, or leave it out.",
            )
        if type(self.partitions) is not int or self.partitions not in range(1, _MOST_PARTITIONS + 1):
            raise InvalidInput(
                field="partitions", value=self.partitions, expected=f"a number from 1 to {_MOST_PARTITIONS}"
            )

    def _check_location(self) -> None:
        for name in ("table", "source"):
            if getattr(self, name) != "":
                raise InvalidInput(
                    field=name, value=getattr(self, name), expected="nothing for a root of files"
                )

    def _check_table(self) -> None:
        counts, form = _PARTS[self.kind]
        parts = kept_text(self.table, "table", limit=1000).split(".")
        if len(parts) not in counts or not all(part and part == part.strip() for part in parts):
            raise InvalidInput(field="table", value=self.table, expected=form)
        if self.location:
            raise InvalidInput(field="location", value=self.location, expected="nothing: the table is named")
        needed = self.kind is RootKind.JDBC
        given = isinstance(self.source, str) and _SOURCE.fullmatch(self.source) is not None
        if not given or (needed and not self.source):
            raise InvalidInput(
                field="source",
                value=self.source,
                expected="the id of a connection"
                + ("" if needed else ", or nothing: pyiceberg's own configuration"),
            )

    @property
    def place(self) -> str:
        """Location, or connection id and table, for messages: it has no secrets."""
        return self.location or ":".join(part for part in (self.source, self.table) if part)

    @property
    def has_spans(self) -> bool:
        return self.kind is not RootKind.FILES

    @property
    def is_increment(self) -> bool:
        """True if an epoch reads the rows since the barrier before, and not all rows."""
        return self.has_spans and self.reads is not RootReads.STATE

    @property
    def is_repeatable(self) -> bool:
        """True if rows within bounds cannot change unnoticed: of a database only the number of rows is compared."""
        return self.kind is not RootKind.JDBC

    @property
    def looks_around(self) -> bool:
        """True if bounds depend on those of other barriers: then they form a chain."""
        return self.has_spans or self.late in (Late.NEXT, Late.REFUSE)

    @property
    def window(self) -> timedelta:
        """Time after its barrier in which late data is looked for."""
        return self.late_window or LATE_WINDOW

    def reach(self, cadence: Cadence) -> timedelta:
        """Return the distance to the farthest barriers whose bounds matter for an epoch of *cadence*.

        Late files are looked for within the window, and always at the epoch before, however long it is. The reach is
        the same for all epochs of a calendar, so that each sees every other epoch that may read the same late file.
        """
        return max(self.window, cadence.longest) if self.kind is RootKind.FILES else self.window

    @property
    def is_pattern(self) -> bool:
        """True if the location may have any number of files: a wildcard or a folder."""
        return self.kind is RootKind.FILES and _WILD.search(self.location) is not None

    @property
    def is_older(self) -> bool:
        """True if it was declared by an older version of the package, without conditions and windows."""
        return self.kind is RootKind.FILES and self.late_window is None

    def shares(self, other: Root) -> bool:
        """Return True if a job that declares this may share its bounds with one that declares *other*.

        Of a declaration by an older version only name, location and kind are compared: jobs are upgraded one by one.
        """
        if self.is_older or other.is_older:
            return (self.name, self.location, self.kind) == (other.name, other.location, other.kind)
        return self == other

    def unlike(self, before: Root) -> str:
        """Return the field of the declaration *before* that cannot change once bounds are recorded; empty if none does.

        Late data is found by comparison with the bounds of the barriers around: all of them must follow one rule.
        """
        for name in ("kind", "location", "table", "id_column", "reads") if before.looks_around else ():
            if getattr(self, name) != getattr(before, name):
                return name
        if before.late is Late.NEXT and self.late is not Late.NEXT:
            return "late"
        return "late_window" if before.late_window and self.window < before.late_window else ""

    @property
    def more(self) -> tuple[tuple[str, str], ...]:
        """Fields beyond name and location that differ from their defaults: (name, value)."""
        beyond = ((option, getattr(self, option.name)) for option in fields(self) if not option.repr)
        return tuple(
            (option.name, ", ".join(map(str, value)) if isinstance(value, tuple) else str(value))
            for option, value in beyond
            if value not in (option.default, LATE_WINDOW)
        )


def incomplete_declaration(root: Root, what: str) -> InvalidInput:
    """Return the error for a root without a completeness condition.

    :param what: reason why its location needs one, such as "a wildcard or a folder".
    """
    return InvalidInput(
        field="complete",
        value=None,
        expected=f"conditions, since the location {root.location!r} of root {root.name!r} is {what}: when are all "
        "files of an interval there?",
        next_step=f"declare complete={CHOICES}, or several; or none_needed(): whatever is there counts.",
        root=root.name,
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


def iceberg_root(
    name: str,
    table: str,
    *,
    source: str = "",
    reads: RootReads | str = RootReads.INCREMENT,
    late: Late | str = Late.NEXT,
) -> Root:
    """Declare an Iceberg table that another program writes.

    :param table: ``CATALOG.NAMESPACE.TABLE``. :param source: id of the connection to the database of its SQL catalog;
        without it, pyiceberg's own configuration says where the catalog is.
    :param reads: the rows appended since the barrier before, or the whole table.
    :raises InvalidInput: names the field.
    """
    return Root(
        name,
        kind=RootKind.ICEBERG,
        table=table,
        source=source,
        reads=choice(RootReads, reads, "reads"),
        late=choice(Late, late, "late"),
    )


def jdbc_root(
    name: str,
    table: str,
    *,
    source: str,
    id_column: str,
    transaction_key: str = "",
    partitions: int = 1,
    late: Late | str = Late.NEXT,
    complete: Condition | Iterable[Condition] = (),
    late_window: timedelta | None = None,
) -> Root:
    """Declare the rows of a table in PostgreSQL, in the order of a column of ids that only grow.

    :param source: id of the connection to the database. :param table: ``TABLE`` or ``SCHEMA.TABLE``.
    :param id_column: integers, unique and never null; later rows have greater ones.
    :param transaction_key: column whose equal values bounds never split: all those rows are read by one epoch.
    :param partitions: of the DataFrame: ranges of ids that Spark reads at a time.
    :param complete: ``ids_reached(column)``, where rows say up to when the table is complete.
    :param late_window: time after their barriers in which each begin counts again the rows that earlier epochs have
        read; 7 days by default.
    :raises InvalidInput: names the field.
    """
    return Root(
        name,
        kind=RootKind.JDBC,
        table=table,
        source=source,
        id_column=id_column,
        transaction_key=transaction_key,
        partitions=partitions,
        late=choice(Late, late, "late"),
        complete=complete,
        late_window=late_window,
    )
