"""Access to the sources of roots: their present bounds, whether these still hold, the rows within them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput, SourceUnavailable, Unavailable
from airflow_provider.domain.roots import Asked, Root, RootBounds, RootKind, RootRecord, Span
from airflow_provider.sources import between, files
from airflow_provider.sources.folders import missing_folder
from airflow_provider.sources.locations import location_of

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from airflow_provider.domain.interval import Cadence, Interval
    from airflow_provider.sources.postgresql import JdbcRead


class RootSources:
    """Sources of roots by their kind; opens no connection before a method needs it.

    :param urls: URLs of databases, by connection id; may hold passwords.
    """

    def __init__(self, urls: Mapping[str, str] | None = None) -> None:
        self._urls = urls or {}

    def bounds(self, asked: Asked) -> RootBounds:
        """See :class:`~airflow_provider.coordination.attempts.bounds.RootSource`."""
        match asked.root.kind:
            case RootKind.FILES:
                with _answering(asked.root):
                    return files.bounds(asked)
            case RootKind.ICEBERG:
                from airflow_provider.sources import iceberg

                return iceberg.bounds(asked, self._catalog_url(asked.root))
            case RootKind.JDBC:
                from airflow_provider.sources import postgresql

                return postgresql.bounds(asked, self._url(asked.root))

    def holds(self, asked: Asked, recorded: RootBounds) -> bool:
        """See :class:`~airflow_provider.coordination.attempts.bounds.RootSource`."""
        if asked.root.kind is RootKind.FILES:
            with _answering(asked.root):
                return files.holds(asked, recorded)
        try:
            self.check_unchanged(asked.root, recorded)
        except Unavailable:
            return False
        return True

    def missing(self, root: Root, interval: Interval, now: datetime | None) -> str:
        """Return why *root* is not complete for *interval* by its declared conditions; empty if it is.

        :raises SourceUnavailable: the source does not answer.
        """
        match root.kind:
            case RootKind.FILES:
                with _answering(root):
                    return files.missing(root, interval, now)
            case RootKind.JDBC:
                from airflow_provider.sources import postgresql

                return postgresql.missing(root, interval, self._url(root)) if root.complete else ""
            case RootKind.ICEBERG:
                return ""

    def unread(
        self, root: Root, wanted: Sequence[RootRecord], records: Sequence[RootRecord]
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return data in the bounds of epochs that no epoch reads, with its interval, and the files replaced since.

        :param wanted: records of the epochs to check. :param records: newest revisions of records around them.
        :raises SourceUnavailable: the source does not answer.
        """
        match root.kind:
            case RootKind.FILES:
                with _answering(root):
                    return files.unread(root, wanted, records)
            case RootKind.JDBC:
                from airflow_provider.sources import postgresql

                return postgresql.unread(root, wanted, self._url(root)), []
            case RootKind.ICEBERG:
                return [], []

    def refuse_missing_folder(self, root: Root) -> None:
        """:raises SourceUnavailable: the folder that holds the files of all epochs does not exist."""
        if root.kind is RootKind.FILES and not root.is_older:
            with _answering(root):
                folder = missing_folder(root)
            if folder:
                raise SourceUnavailable(
                    f"root {root.name!r}: there is no folder {folder}.",
                    next_step="check that it is mounted and that this host may read it; or correct the location.",
                    root=root.name,
                )

    def between(self, root: Root, interval: Interval, cadence: Cadence) -> list[str]:
        """Return the files at locations of parts of *interval* that no epoch of *cadence* reads.

        :raises SourceUnavailable: the source does not answer.
        """
        if root.kind is not RootKind.FILES or root.is_older:
            return []
        with _answering(root):
            return between.files_between(root, interval, cadence)

    def place(self, root: Root, interval: Interval) -> str:
        """Return the location of the files of *root* for *interval*."""
        return location_of(root, interval)

    def check_unchanged(self, root: Root, bounds: RootBounds) -> None:
        """Compare *bounds* with the present state of the source.

        :raises Unavailable: the source differs from the record; names the file, the snapshot, or the ids.
        :raises SourceUnavailable: the source does not answer.
        """
        match root.kind:
            case RootKind.FILES:
                with _answering(root):
                    files.check_unchanged(bounds)
            case RootKind.ICEBERG:
                from airflow_provider.sources import iceberg

                iceberg.check_unchanged(root, _span(bounds), self._catalog_url(root))
            case RootKind.JDBC:
                from airflow_provider.sources import postgresql

                postgresql.check_unchanged(root, _span(bounds), self._url(root))

    def files(self, root: Root, bounds: RootBounds) -> tuple[list[str], pa.Schema]:
        """Return the Parquet files that hold the rows within *bounds* of an Iceberg table, and their columns with ids.

        :raises Unavailable: as in :meth:`check_unchanged`.
        :raises InvalidInput: the table has delete files, or data files that are not Parquet.
        """
        from airflow_provider.sources import iceberg

        return iceberg.files(root, _span(bounds), self._catalog_url(root))

    def jdbc(self, root: Root, bounds: RootBounds) -> JdbcRead:
        """Return the arguments of Spark's JDBC reader for the rows within *bounds*."""
        from airflow_provider.sources import postgresql

        return postgresql.jdbc(root, _span(bounds), self._url(root))

    def _catalog_url(self, root: Root) -> str | None:
        return self._url(root) if root.source else None

    def _url(self, root: Root) -> str:
        if root.source not in self._urls:
            raise InvalidInput(
                field=f"source of root {root.name!r}",
                value=root.source,
                expected=f"one of the sources that are known here: {sorted(self._urls)}",
                next_step=f"make the Airflow connection {root.source!r}; without Airflow, pass its URL: "
                f"Settings(sources={{{root.source!r}: 'postgresql+psycopg://…'}}).",
            )
        return self._urls[root.source]


@contextmanager
def _answering(root: Root) -> Iterator[None]:
    """Translate errors of the file system of *root* into an error of the family *retry*.

    :raises SourceUnavailable: the file system failed. Its own text is left out: it may contain addresses.
    """
    try:
        yield
    except OSError as error:
        raise SourceUnavailable(
            f"root {root.name!r}: {root.place} did not answer: {type(error).__name__}.",
            next_step="check that it exists and that this host may read it; the task tries again.",
            root=root.name,
        ) from error


def _span(bounds: RootBounds) -> Span:
    if bounds.span is None:
        raise InvalidInput(
            field="roots",
            value=bounds.root,
            expected="a span: the root was files when its bounds were recorded",
            next_step="declare it as a root of another name.",
        )
    return bounds.span
