"""Protocol of a source's reader: bounds, whether they still hold, and the rows within them. One class per kind.

Its contract suite is :mod:`airflow_provider.testing.source_contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.source_bounds import BoundsRequest, Source, SourceBounds, SourceRecord, Span

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from airflow_provider.domain.interval import Cadence, Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetRows:
    """Rows as whole Parquet files.

    :param columns: with the ids by which each file's columns are matched.
    :param rows: number of all rows, for Spark's optimizer. :param size_bytes: size of all files, likewise.
    """

    files: Sequence[str]
    columns: pa.Schema
    rows: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class IcebergRows:
    """Rows that only Iceberg's Spark runtime reads right, from the table's metadata file.

    :param why: what the table has that its plain files do not tell.
    :param metadata: URI of the metadata file. :param low: the snapshot after which the rows were appended; None for all
        rows of *high*. :param high: the snapshot that they end with.
    :param names: name of each of *columns* in what the runtime returns.
    :param columns: as for :class:`ParquetRows`: names and types that the rows have.
    """

    why: str
    metadata: str
    low: int | None
    high: int
    names: Sequence[str]
    columns: pa.Schema


@dataclass(frozen=True, kw_only=True, slots=True)
class JdbcRows:
    """Rows as arguments of Spark's JDBC reader; the properties hold the password.

    :param predicates: one per partition. :param driver: class of the driver. :param package: its Maven coordinates.
    """

    url: str
    table: str
    predicates: list[str]
    properties: Mapping[str, str] = field(repr=False)
    driver: str
    package: str


Rows = ParquetRows | IcebergRows | JdbcRows


class SourceReader(ABC):
    """Reader of one source. It changes nothing there, keeps nothing open between calls, and may be used by any thread.

    Each method may raise :class:`SourceUnavailable` when the source does not answer (its text holds no password), and
    :class:`InvalidInput` when the declaration does not fit the source or the connection is not known here.

    :param urls: URLs of databases, by connection id; may hold passwords.
    """

    def __init__(self, source: Source, urls: Mapping[str, str]) -> None:
        self.source = source
        self._urls = urls

    @abstractmethod
    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return what the epoch of *asked* reads: what is there now and belongs to no bounds around it.

        Precondition: *asked* is of this source, and holds the bounds recorded around its barrier. Repeatable: while
        the source stays as it is, the same request gives equal bounds. Spans form a chain: each begins where the span
        before ends, and a span between two recorded ones ends where the later one begins.

        :raises NotReady: a condition is not met, or the folder or table does not exist.
        :raises Unavailable: data of earlier bounds changed, or came late and is refused; names it.
        """

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        """Return whether the source still has exactly what is within *recorded*, the bounds at the barrier of *asked*.

        :raises Unavailable: further data came late, and the source refuses it.
        """
        del asked
        try:
            self.check_unchanged(recorded)
        except Unavailable:
            return False
        return True

    @abstractmethod
    def check_unchanged(self, bounds: SourceBounds) -> None:
        """Compare *bounds* with the present state of the source. What came later outside of them does not count.

        :raises Unavailable: data within the bounds differs from the record; names the file, the snapshot or the ids.
        :raises InvalidInput: the bounds are of another kind of source.
        """

    def check_there(self, bounds: SourceBounds) -> None:
        """Look for the data within *bounds*. Only files can be replaced by others of their names.

        :raises Unavailable: as in :meth:`check_unchanged`.
        """
        self.check_unchanged(bounds)

    @abstractmethod
    def rows(self, bounds: SourceBounds) -> Rows:
        """Return the rows within *bounds* in a form that Spark reads. Reading them gives exactly those, or an error.

        :raises Unavailable: as in :meth:`check_unchanged`, as far as it shows without reading.
        :raises InvalidInput: the program reads this source itself, or its rows cannot be read as files.
        """

    def missing(self, interval: Interval, now: datetime | None) -> str:  # noqa: ARG002
        """Return why the source is not complete for *interval* by its declared conditions; empty if it is.

        :param now: time by the store's clock; None for this host's.
        """
        return ""

    def unread(
        self,
        wanted: Sequence[SourceRecord],  # noqa: ARG002
        records: Sequence[SourceRecord],  # noqa: ARG002
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return data in the bounds of epochs that no epoch reads, with its interval, and the files replaced since.

        Nothing where no data can come late within bounds.

        :param wanted: records of the epochs to check. :param records: newest revisions of records around them.
        """
        return [], []

    def between(self, interval: Interval, cadence: Cadence) -> list[str]:  # noqa: ARG002
        """Return the files at locations of parts of *interval* that no epoch of *cadence* reads; nothing for tables."""
        return []

    def refuse_missing_folder(self) -> None:  # noqa: B027  (a table has none)
        """Refuse a source whose folder, which holds the files of all epochs, does not exist.

        :raises SourceUnavailable: names the folder.
        """

    def place(self, interval: Interval) -> str:  # noqa: ARG002
        """Return where the data of *interval* lies; a table is the same for all intervals."""
        return self.source.place

    @property
    def _url(self) -> str:
        """URL of the source's database. :raises InvalidInput: its connection is not known here."""
        connection = self.source.connection
        if connection not in self._urls:
            raise InvalidInput(
                field=f"connection of source {self.source.name!r}",
                value=connection,
                expected=f"one of the connections that are known here: {sorted(self._urls)}",
                next_step=f"make the Airflow connection {connection!r}; without Airflow, pass its URL: "
                f"Settings(connections={{{connection!r}: 'postgresql+psycopg://…'}}).",
            )
        return self._urls[connection]


def span_of(bounds: SourceBounds) -> Span:
    """Return the span of *bounds*.

    :raises InvalidInput: they are a list of files.
    """
    if bounds.span is None:
        raise other_kind(bounds, "a span: the source was files when its bounds were recorded")
    return bounds.span


def other_kind(bounds: SourceBounds, expected: str) -> InvalidInput:
    """Return the error for *bounds* that were recorded for a source of another kind."""
    return InvalidInput(
        field="sources",
        value=bounds.source,
        expected=expected,
        next_step="declare it as a source of another name.",
    )
