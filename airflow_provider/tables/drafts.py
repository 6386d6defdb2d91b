"""The second way of rows into a slice: statements of an engine, in a private table of the attempt's own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from airflow_provider.domain.cut import State
from airflow_provider.domain.version import Committable
from airflow_provider.tables.base import Place, TableFormat, TableInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A private table in the place of an attempt.

    It has the columns of the table but :data:`~airflow_provider.tables.base.EPOCH_COLUMN`. Nobody but the attempt
    knows of it: nothing in it can be seen, and nothing done to it late can change what was recorded.

    :param info: the table whose slice it is to become. :param table_uuid: its own identity.
    :param warehouse: URI of the warehouse. :param path: names of the directories from there to it.
    :param base: the state that it began with; None for no rows.
    """

    place: Place
    info: TableInfo
    table_uuid: str
    warehouse: str
    path: tuple[str, ...]
    base: State | None

    @property
    def uri(self) -> str:
        """URI of its directory, without a slash at its end."""
        return "/".join((self.warehouse, *self.path))


class DraftingFormat(TableFormat):
    """A format whose full tables take what an engine's own statements (INSERT, UPDATE, DELETE, MERGE) left."""

    @abstractmethod
    def shares(self, info: TableInfo, base: State) -> bool:
        """Whether a draft can begin with the files of *base*: none of them says itself of which epoch its rows are.

        Otherwise let a draft begin with no rows, and write those of *base* into it.

        :raises Unavailable: what describes *base* is missing.
        """

    @abstractmethod
    def open_draft(self, place: Place, info: TableInfo, base: State | None) -> Draft:
        """Make a private table below *place*, beginning with the rows of *base*; each call makes another one.

        It consists of the files of *base* until a statement replaces them; they themselves are never changed.

        :param base: a state of the same table without staged output, which can be shared; None for none.
        :raises InvalidInput: it cannot be shared, or has another layout than the table is written with now.
        :raises Unavailable: what describes *base* is missing.
        """

    @abstractmethod
    def describe_draft(self, draft: Draft) -> Committable:
        """Turn the rows that the draft of a full table has now into what WRITTEN records.

        Files of the base that are still whole are named again, not copied; for publish see
        :meth:`TableFormat.prepare`. What is done to the draft afterwards changes nothing. On a local disk, all
        files are synced. Repeating it makes an equal committable, as :meth:`TableFormat.describe_output` does.

        :raises InvalidInput: an incremental table, whose files say their epoch: its rows are to be written. Or
            statements left what no slice can have: deletes beside files, other branches, files of others, another
            layout; or dropped the draft.
        :raises SchemaMismatch: they changed its columns.
        :raises TableRecreated: they dropped it and made it again.
        """

    @abstractmethod
    def close_draft(self, draft: Draft, kept: Committable | None) -> None:
        """Delete *draft* but for the files of *kept*; idempotent, best effort, never raises."""
