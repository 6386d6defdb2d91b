"""Access to sources, each by the reader of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider.domain.source_bounds import (
    BoundsRequest,
    Source,
    SourceBounds,
    SourceKind,
    SourceRecord,
)

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider.domain.interval import Cadence, Interval
    from airflow_provider.sources.reader import Rows, SourceReader


class SourceReaders:
    """Readers of sources, by the declarations of the sources; opens no connection before a method needs it.

    Each method does what the reader's method of that name does: :class:`~airflow_provider.sources.reader.SourceReader`.

    :param urls: URLs of databases, by connection id; may hold passwords.
    """

    def __init__(self, urls: Mapping[str, str] | None = None) -> None:
        self._urls = urls or {}

    def reader(self, source: Source) -> SourceReader:
        """Return the reader of *source*. Client libraries are loaded here: pyiceberg for Iceberg tables only."""
        match source.kind:
            case SourceKind.FILES:
                from airflow_provider.sources.files import FileReader

                return FileReader(source, self._urls)
            case SourceKind.ICEBERG:
                from airflow_provider.sources.iceberg import IcebergReader

                return IcebergReader(source, self._urls)
            case SourceKind.JDBC:
                from airflow_provider.sources.postgresql import PostgresReader

                return PostgresReader(source, self._urls)

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return what the epoch of *asked* reads."""
        return self.reader(asked.source).bounds(asked)

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        """Return whether the source still has exactly what is within *recorded*."""
        return self.reader(asked.source).holds(asked, recorded)

    def check_unchanged(self, source: Source, bounds: SourceBounds) -> None:
        """:raises Unavailable: the source differs from *bounds*; names the file, the snapshot, or the ids."""
        self.reader(source).check_unchanged(bounds)

    def check_there(self, source: Source, bounds: SourceBounds) -> None:
        """:raises Unavailable: data within *bounds* is gone; names the file, the snapshot, or the ids."""
        self.reader(source).check_there(bounds)

    def rows(self, source: Source, bounds: SourceBounds) -> Rows:
        """Return the rows within *bounds* in a form that Spark reads."""
        return self.reader(source).rows(bounds)

    def missing(self, source: Source, interval: Interval, now: datetime | None) -> str:
        """Return why *source* is not complete for *interval*; empty if it is."""
        return self.reader(source).missing(interval, now)

    def unread(
        self, source: Source, wanted: Sequence[SourceRecord], records: Sequence[SourceRecord]
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return data in the bounds of epochs that no epoch reads, with its interval, and the files replaced since."""
        return self.reader(source).unread(wanted, records)

    def between(self, source: Source, interval: Interval, cadence: Cadence) -> list[str]:
        """Return the files at locations of parts of *interval* that no epoch of *cadence* reads."""
        return self.reader(source).between(interval, cadence)

    def refuse_missing_folder(self, source: Source) -> None:
        """:raises SourceUnavailable: the folder that holds the files of all epochs does not exist."""
        self.reader(source).refuse_missing_folder()

    def place(self, source: Source, interval: Interval) -> str:
        """Return where the data of *interval* lies."""
        return self.reader(source).place(interval)
