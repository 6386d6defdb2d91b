"""Roots: sources outside of the domain, read through bounds that are recorded once (protocol sections 4 and 5, I11).

A root is files, an Iceberg table that somebody else writes, or the rows of a database's table by their ids. What the
last two have at a barrier is a *span*, and spans form a chain: each begins where the one of the barrier before ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.file_lists import (
    PLAIN_FILES,
    digest_of,
    packed,
    unpacked,
)
from airflow_provider.domain.file_lists import BoundFile as BoundFile  # noqa: PLC0414  (part of what roots have)
from airflow_provider.domain.identifiers import JobName, column_name, kept_text, table_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.record_format import since

_MOST_PARTITIONS = 10_000
_SOURCE = re.compile(r"[\w#!()\-.:/\\]{0,250}")
LOOK_AROUND = 31
"""At so many barriers before its own an epoch looks for data that came late."""


class RootKind(StrEnum):
    """What a root is made of."""

    FILES = "files"
    ICEBERG = "iceberg"
    JDBC = "jdbc"


class RootReads(StrEnum):
    """What an epoch reads of an Iceberg table of others."""

    INCREMENT = "increment"
    """The rows that were appended since the barrier before; the first epoch reads all that is there."""
    STATE = "state"
    """The whole table as it is at the barrier."""


class Late(StrEnum):
    """What becomes of data that comes after the bounds of its barrier were recorded."""

    IGNORE = "ignore"
    """Nobody reads it (files only)."""
    NEXT = "next"
    """The next epoch reads it."""
    REVISION = "revision"
    """A new revision of the epoch does: it records bounds of its own."""
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


@dataclass(frozen=True, slots=True)
class Root:
    """A source outside the domain: files here; :func:`iceberg_root` and :func:`jdbc_root` declare the others.

    :param name: unique in the domain; jobs that name the same root share its bounds.
    :param location: URI or glob of the files; what lies there at the first begin of a barrier is the bound.
    :param late: what becomes of files that come later under the location of an interval.
    :raises InvalidInput: naming the field.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", table_name(self.name))
        kept_text(self.location, "location")
        object.__setattr__(self, "kind", choice(RootKind, self.kind, "kind"))
        object.__setattr__(self, "reads", choice(RootReads, self.reads, "reads"))
        late = choice(Late, self.late, "late")
        object.__setattr__(self, "late", late)
        allowed = _POLICIES[self.kind]
        if late not in allowed:
            raise InvalidInput(
                field="late",
                value=late.value,
                expected=f"one of {[one.value for one in allowed]} for {self.kind} root {self.name!r}",
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
        if self.looks_around and "{" not in self.location:
            raise InvalidInput(
                field="late",
                value=self.late.value,
                expected="a location with {start} or {end}: without one nobody can tell late files from others; "
                f"it is {self.location!r}",
                next_step="let the location say the interval, or leave late= out.",
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
        """Where it is, as it may be shown: a connection is named by its id."""
        return self.location or ":".join(one for one in (self.source, self.table) if one)

    @property
    def has_spans(self) -> bool:
        return self.kind is not RootKind.FILES

    @property
    def is_repeatable(self) -> bool:
        """Whether what lies within bounds cannot change unnoticed: ids are only counted, and an update is not seen."""
        return self.kind is not RootKind.JDBC

    @property
    def looks_around(self) -> int:
        """How many barriers on each side of its own a bound depends on; with one at least, bounds form a chain."""
        return LOOK_AROUND if self.has_spans or self.late in (Late.NEXT, Late.REFUSE) else 0

    @property
    def more(self) -> tuple[tuple[str, str], ...]:
        """What is declared beyond name and location, where it is not as by default."""
        beyond = ((one, getattr(self, one.name)) for one in fields(self) if not one.repr)
        return tuple((one.name, str(value)) for one, value in beyond if value != one.default)


def iceberg_root(
    name: str,
    table: str,
    *,
    source: str = "",
    reads: RootReads | str = RootReads.INCREMENT,
    late: Late | str = Late.NEXT,
) -> Root:
    """Declare an Iceberg table that somebody else writes.

    :param table: ``CATALOG.NAMESPACE.TABLE``. :param source: id of the connection to the database of its SQL catalog;
        without it, pyiceberg's own configuration says where the catalog is.
    :param reads: the rows appended since the barrier before, or the whole table.
    :raises InvalidInput: naming the field.
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
) -> Root:
    """Declare the rows of a table in PostgreSQL, in the order of a column of ids that only grow.

    :param source: id of the connection to the database. :param table: ``TABLE`` or ``SCHEMA.TABLE``.
    :param id_column: integers, unique and never null; later rows have greater ones.
    :param transaction_key: column whose equal values bounds never split: all those rows are read by one epoch.
    :param partitions: of the DataFrame: ranges of ids that Spark reads at a time.
    :raises InvalidInput: naming the field.
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
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """What an epoch reads of a root that is a sequence: all after *low* up to *high*, ids or snapshots.

    :param low: None for the beginning. :param high: None when there is nothing yet.
    :param rows: how many there were, where nothing else tells whether they still are the same.
    :param identity: of the source, where it has one: a table that was made anew is another one.
    """

    low: int | None
    high: int | None
    rows: int | None = None
    identity: str = ""

    @property
    def is_empty(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        counted = "" if self.rows is None else f", {self.rows} rows"
        return (
            f"({'…' if self.low is None else self.low}, {'…' if self.high is None else self.high}]{counted}"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RootBounds:
    """What every job and attempt reads of a root for one interval (I11).

    :param files: of a root that is files. :param span: of any other.
    :param revision: 1 for those that were recorded first at the barrier.
    :param digest: of the files, where the files themselves stand in the root's own record; then it is a *reference*.
    :param count: number of these files.
    """

    root: str
    files: tuple[BoundFile, ...] = ()
    span: Span | None = None
    revision: int = 1
    digest: str = field(default="", metadata=since(2))
    count: int = field(default=0, metadata=since(2))

    @property
    def reference(self) -> RootBounds:
        """What names these bounds in the records of attempts: a list of files is kept once."""
        if not self.files:
            return self
        return replace(self, files=(), digest=digest_of(self.files), count=len(self.files))

    def same_as(self, other: RootBounds) -> bool:
        """Whether an epoch reads the same within both, whichever revision they are."""
        return (self.root, self.files, self.span) == (other.root, other.files, other.span)


@dataclass(frozen=True, kw_only=True, slots=True)
class RootRecord:
    """Bounds of a root for one interval; never changed. Older records do not say for which one.

    :param bounds: without their files where those are packed. :param packed: a long list of files.
    :param job: which began, or declares the root. :param reason: why they were bound anew. :param by: who did it.
    """

    bounds: RootBounds
    job: JobName
    interval: Interval | None = None
    packed: bytes = field(default=b"", metadata=since(2))
    reason: str = field(default="", metadata=since(2))
    by: str = field(default="", metadata=since(2))

    @classmethod
    def of(
        cls,
        bounds: RootBounds,
        job: JobName,
        interval: Interval,
        *,
        reason: str = "",
        by: str = "",
        packs: bool = True,
    ) -> RootRecord:
        """Return the record of *bounds*.

        :param packs: whether a long list of files is packed: not where older versions read the store.
        """
        is_long = packs and len(bounds.files) > PLAIN_FILES
        return cls(
            bounds=bounds.reference if is_long else bounds,
            job=job,
            interval=interval,
            packed=packed(bounds.files) if is_long else b"",
            reason=reason,
            by=by,
        )

    @property
    def whole(self) -> RootBounds:
        """The bounds with their files."""
        if not self.packed:
            return self.bounds
        return replace(self.bounds, files=unpacked(self.packed), digest="", count=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is asked of a root's source: the bounds of one barrier.

    :param before: what is recorded at earlier barriers, the nearest first, each in its newest revision: as many as
        the root looks at. :param after: likewise at later ones.
    """

    root: Root
    interval: Interval
    before: tuple[RootRecord, ...] = ()
    after: tuple[RootRecord, ...] = ()

    @property
    def low(self) -> int | None:
        """Where the span begins: at the end of the one before."""
        span = self.before[0].bounds.span if self.before else None
        return span.high if span else None

    @property
    def ends_at(self) -> Span | None:
        """The span of a later barrier, which has what this one does not; None when this is the newest barrier."""
        return self.after[0].bounds.span if self.after else None

    def high(self, newest: int | None) -> int | None:
        """Where the span ends: at the *newest* of the source, or where the one after begins."""
        later = self.ends_at
        if later is not None:
            return later.low
        return self.low if newest is None else newest


def check_bounds(asked: Asked, bounds: RootBounds) -> None:
    """Refuse bounds that would leave a row out, or give it to two barriers.

    :raises InvalidInput: naming what does not fit.
    """
    root, span = asked.root, bounds.span
    if bounds.root != root.name or (span is not None) != root.has_spans:
        raise InvalidInput(
            field="roots", value=bounds, expected=f"bounds of the {root.kind} root {root.name!r}"
        )
    if span is None:
        return
    later = asked.ends_at
    if span.low != asked.low or (later is not None and span.high != later.low):
        raise InvalidInput(
            field="roots",
            value=str(span),
            expected=f"a span of {root.name!r} from {asked.low}" + (f" to {later.low}" if later else ""),
            next_step="ask the source again.",
        )


def asks_again(late: Late, newest: int, *, opened: int, committed: int, others: bool) -> bool:
    """Whether a begin asks a root's source although bounds are recorded at its barrier.

    Bounds bind those who stand on them: epochs that are committed or open. An epoch that is computed again reads what
    it has read, unless revisions are made of the root; while nothing stands on the newest bounds they are taken anew.

    :param newest: the newest revision that is recorded. :param opened: the one that this epoch's own open attempt
        reads, 0 for none. :param committed: the one that its committed revision has read, 0 for none.
    :param others: epochs of other jobs stand on the newest.
    """
    if opened == newest:
        return False
    if committed == newest:
        return late is Late.REVISION
    return not others
