"""Drafts: an engine's statements fill a slice by way of a table that is private to the attempt."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from airflow_provider.domain.cut import State
from airflow_provider.domain.version import Committable
from airflow_provider.tables.base import StagingLocation, TableFormat, TableInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """Private table in the staging directory of an attempt.

    It has the columns of the table except :data:`~airflow_provider.tables.base.EPOCH_COLUMN`. Only the attempt knows
    of it: no reader sees its rows, and a late statement cannot change recorded output.

    :param info: the table whose slice the draft becomes. :param table_uuid: identity of the draft itself.
    :param warehouse: URI of the warehouse. :param path: names of the directories from there to the draft.
    :param base: the state whose rows the draft starts with; None for no rows.
    """

    place: StagingLocation
    info: TableInfo
    table_uuid: str
    warehouse: str
    path: tuple[str, ...]
    base: State | None

    @property
    def uri(self) -> str:
        """URI of the draft's directory, without a trailing slash."""
        return "/".join((self.warehouse, *self.path))


class DraftingFormat(TableFormat):
    """Format whose full tables can be written by an engine's statements (INSERT, UPDATE, DELETE, MERGE)."""

    @abstractmethod
    def shares(self, info: TableInfo, base: State) -> bool:
        """Return whether a draft can start with the files of *base*: none of them has an epoch column of its own.

        Otherwise start a draft without rows, and write those of *base* into it.

        :raises Unavailable: a metadata file of *base* is missing.
        """

    @abstractmethod
    def open_draft(self, place: StagingLocation, info: TableInfo, base: State | None) -> Draft:
        """Create a private table below *place* that starts with the rows of *base*; each call creates another one.

        The draft refers to the files of *base* until a statement replaces them; the files are never changed.

        :param base: a state of the same table without staged output, for which :meth:`shares` is true; or None.
        :raises InvalidInput: *base* cannot be shared, or its layout differs from the table's present one.
        :raises Unavailable: a metadata file of *base* is missing.
        """

    @abstractmethod
    def describe_draft(self, draft: Draft) -> Committable:
        """Turn the present rows of a full table's draft into the committable that WRITTEN records.

        Unchanged files of the base are referred to, not copied; for publish see :meth:`TableFormat.prepare`. Later
        statements on the draft have no effect on it. On a local disk, all files are synced. A repeated call returns
        an equal committable, as :meth:`TableFormat.describe_output` does.

        :raises InvalidInput: the table is incremental: its files hold their epoch, so that its rows must be written.
            Or the draft has what no slice can have (delete files, other branches, files of other programs, another
            layout), or was dropped.
        :raises SchemaMismatch: statements changed its columns.
        :raises TableRecreated: statements dropped it and created it again.
        """

    @abstractmethod
    def close_draft(self, draft: Draft, kept: Committable | None) -> None:
        """Delete *draft* except the files of *kept*; idempotent, best effort, never raises."""
