"""Files that another program wrote, taken into a table as they are: nothing is copied or rewritten."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable
from airflow_provider.tables.base import StagingLocation, TableFormat, TableInfo

if TYPE_CHECKING:
    import pyarrow as pa


class FileScan(Protocol):
    """Scan of an Iceberg table by pyiceberg (``table.scan(row_filter=…)``)."""

    @property
    def table_metadata(self) -> Any: ...

    def plan_files(self) -> Iterable[Any]: ...

    def projection(self) -> Any: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesToAdd:
    """Parquet files whose rows are all of one epoch.

    :param uris: URIs of the files. :param columns: the columns that the files have together, with their ids if the
        files have ids. :param in_paths: those whose values only the folders' names tell (``day=2024-05-01``), a part
        of *columns*. :param footers: what the files say of themselves, by URI, as the format read it.
    :param has_ids: they are files of an Iceberg table, with the ids of its columns.
    """

    uris: Sequence[str]
    columns: pa.Schema
    in_paths: Sequence[str]
    footers: Mapping[str, Any] = field(repr=False)
    has_ids: bool


class FileAddingFormat(TableFormat):
    """Format whose tables may have files of other programs. The files stay their owner's: none is ever deleted."""

    @abstractmethod
    def look_at(
        self,
        table: Table,
        files: Sequence[str] | FileScan,
        in_paths: Mapping[str, pa.DataType],
    ) -> FilesToAdd:
        """Read the footers of *files*: URIs or absolute paths, or the files of a scan.

        :param in_paths: types of columns whose values are in the folders' names.
        :raises InvalidInput: there is no file, or no Parquet in one; a file is named twice, lies within the table's own
            folder or where no reader gets to it, has other columns than the others, a column of a type that tables
            cannot have, or no value in its path; or the scan takes some rows of a file only, or files do not tell all
            of its rows.
        """

    @abstractmethod
    def create_for(self, table: Table, files: FilesToAdd, *, keep: bool = False) -> TableInfo:
        """Create the empty table for *files*, with their column ids if they have any; or return the existing one.

        A table that was never published and has other columns is created anew.

        :param keep: never create it anew: another participant has staged rows for it.
        :raises SchemaMismatch: the table exists with other columns; names the first difference.
        :raises InvalidInput: as in :meth:`create`.
        """

    @abstractmethod
    def describe_added(self, place: StagingLocation, info: TableInfo, files: FilesToAdd) -> Committable:
        """Turn *files* into the committable that WRITTEN records, as :meth:`describe_output` does for written ones.

        :raises SchemaMismatch: the files have other columns than the table, or other ids or types; names the first.
        :raises InvalidInput: a file has several values of a column that partitions the table.
        """


def with_added_files(table_format: TableFormat, table: Table) -> FileAddingFormat:
    """Return *table_format* as one whose tables may have files of other programs.

    :raises InvalidInput: it is none.
    """
    if not isinstance(table_format, FileAddingFormat):
        raise InvalidInput(
            field="format",
            value=table_format.name,
            expected="a format whose tables can have files of other programs",
            next_step="declare the table with format='iceberg', or write the rows.",
            table=table.name,
        )
    return table_format
