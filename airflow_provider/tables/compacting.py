"""Compaction across epochs: the rows of many epochs in one file, and back (docs/decisions/unit-files.md)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import cast

from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import HeldFile, TableRef
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.capabilities import TableCapability, refuse_without
from airflow_provider.tables.written import Group as Group  # noqa: PLC0414  (a part of the contract)
from airflow_provider.tables.written import Regrouped as Regrouped  # noqa: PLC0414


class CompactingFormat(TableFormat):
    """Format with :attr:`~airflow_provider.tables.capabilities.TableCapability.UNIT_FILES`."""

    @abstractmethod
    def held(self, table: Table, base: TableRef, low: datetime, high: datetime) -> list[HeldFile]:
        """Return the files of all slices of the head with epochs that end from *low* to *high*, in this order.

        :param base: the current version by the store's record; the head is that of :meth:`TableFormat.prepare`.
        :raises ForeignCommit: another program has changed rows. :raises Unavailable: a metadata file is missing.
        """

    @abstractmethod
    def unit_place(self, table: Table, name: str) -> str:
        """Return the URI of the folder for the files of the compaction *name*; creates nothing."""

    @abstractmethod
    def regroup(
        self, table: Table, base: TableRef, files: Sequence[HeldFile], groups: Sequence[Group], place: str
    ) -> Regrouped:
        """Write the rows of *files*, as :meth:`held` returned them, to new files in the folder *place*.

        No reader can reach them. A :class:`~airflow_provider.tables.base.Publication` that ``regroups`` them is
        prepared as any other: :meth:`TableFormat.prepare` refuses it as Unavailable if one of the files has left the
        head meanwhile, another file has come between them, or columns have changed.

        :param groups: in the order of time; each row belongs to one of them.
        :raises Unavailable: a file is missing, or does not have the rows that it should have.
        """

    @abstractmethod
    def discard(self, place: str) -> None:
        """Delete the folder *place*, of a compaction without a commit; idempotent."""


def with_units(table_format: TableFormat, table: str) -> CompactingFormat:
    """Return *table_format*, the format of *table*.

    :raises InvalidInput: its files are of one epoch each.
    """
    refuse_without(TableCapability.UNIT_FILES, table_format, table)
    return cast("CompactingFormat", table_format)
