"""Access to the sources of roots, each by the reader of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider.domain.roots import Asked, Root, RootBounds, RootKind, RootRecord

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider.domain.interval import Cadence, Interval
    from airflow_provider.sources.reader import Rows, SourceReader


class RootSources:
    """Readers of sources, by the declarations of the sources; opens no connection before a method needs it.

    Each method does what the reader's method of that name does: :class:`~airflow_provider.sources.reader.SourceReader`.

    :param urls: URLs of databases, by connection id; may hold passwords.
    """

    def __init__(self, urls: Mapping[str, str] | None = None) -> None:
        self._urls = urls or {}

    def reader(self, root: Root) -> SourceReader:
        """Return the reader of *root*. Client libraries are loaded here: pyiceberg for Iceberg tables only."""
        match root.kind:
            case RootKind.FILES:
                from airflow_provider.sources.files import FileReader

                return FileReader(root, self._urls)
            case RootKind.ICEBERG:
                from airflow_provider.sources.iceberg import IcebergReader

                return IcebergReader(root, self._urls)
            case RootKind.JDBC:
                from airflow_provider.sources.postgresql import PostgresReader

                return PostgresReader(root, self._urls)

    def bounds(self, asked: Asked) -> RootBounds:
        """Return what the epoch of *asked* reads."""
        return self.reader(asked.root).bounds(asked)

    def holds(self, asked: Asked, recorded: RootBounds) -> bool:
        """Return whether the source still has exactly what is within *recorded*."""
        return self.reader(asked.root).holds(asked, recorded)

    def check_unchanged(self, root: Root, bounds: RootBounds) -> None:
        """:raises Unavailable: the source differs from *bounds*; names the file, the snapshot, or the ids."""
        self.reader(root).check_unchanged(bounds)

    def rows(self, root: Root, bounds: RootBounds) -> Rows:
        """Return the rows within *bounds* in a form that Spark reads."""
        return self.reader(root).rows(bounds)

    def missing(self, root: Root, interval: Interval, now: datetime | None) -> str:
        """Return why *root* is not complete for *interval*; empty if it is."""
        return self.reader(root).missing(interval, now)

    def unread(
        self, root: Root, wanted: Sequence[RootRecord], records: Sequence[RootRecord]
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return data in the bounds of epochs that no epoch reads, with its interval, and the files replaced since."""
        return self.reader(root).unread(wanted, records)

    def between(self, root: Root, interval: Interval, cadence: Cadence) -> list[str]:
        """Return the files at locations of parts of *interval* that no epoch of *cadence* reads."""
        return self.reader(root).between(interval, cadence)

    def refuse_missing_folder(self, root: Root) -> None:
        """:raises SourceUnavailable: the folder that holds the files of all epochs does not exist."""
        self.reader(root).refuse_missing_folder()

    def place(self, root: Root, interval: Interval) -> str:
        """Return where the data of *interval* lies."""
        return self.reader(root).place(interval)
