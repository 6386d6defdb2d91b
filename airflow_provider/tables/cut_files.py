"""Cut files: a state as a metadata file of its own, which other engines open without the package and without a catalog.

See docs/decisions/cut-files.md.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from airflow_provider.domain.cut import State
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.capabilities import TableCapability, refuse_without

TABLE_UUID = "epochs.table-uuid"
"""Property of a cut file: the identity of the table, which its states share; each file has a UUID of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CutFile:
    """Metadata file of one state.

    :param snapshot_id: the only one of the file; states of one table have different ones.
    :param rows: number of the state's rows. :param files: number of its data files.
    :param metadata: content of the file: a table's metadata in Iceberg's form.
    """

    uri: str
    snapshot_id: int
    rows: int
    files: int
    metadata: Mapping[str, Any] = field(compare=False, repr=False)


class CutFileFormat(TableFormat):
    """Format with :attr:`~airflow_provider.tables.capabilities.TableCapability.CUT_FILES`."""

    @abstractmethod
    def cut_file(self, state: State, schema: str) -> CutFile:
        """Write the metadata file of *state*, unless it is there, and return it.

        An engine that opens the file as a table gets the rows of :meth:`TableFormat.read`, with the same columns: no
        other slices, so that no filter is needed. Idempotent; calls may run at once, also in several processes.
        :meth:`TableFormat.vacuum` deletes the file with the version of the state.

        :param schema: schema of the version, as text of the format.
        :raises InvalidInput: *state* has no version, or unpublished output.
        :raises Unavailable: a metadata file of the state is missing.
        """


def with_cut_files(table_format: TableFormat, table: str) -> CutFileFormat:
    """Return *table_format*, the format of *table*.

    :raises InvalidInput: it has no cut files.
    """
    refuse_without(TableCapability.CUT_FILES, table_format, table)
    return cast("CutFileFormat", table_format)
