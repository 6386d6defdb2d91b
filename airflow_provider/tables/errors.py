"""Errors of tables, their catalog and their warehouse."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.domain.errors import FinalError, RetryableError


@dataclass(kw_only=True, eq=False, repr=False)
class TablesAhead(FinalError):
    """The table's metadata carries a CSN that the store has not issued (R33).

    :param table: name of the table. :param tables: addresses of the tables, where there are several.
    :param expected: CSN of the store's last commit. :param found_csn: the CSN in the table's metadata.
    :param incarnation: incarnation of the store that issued that CSN.
    """

    table: str = ""
    tables: tuple[str, ...] = ()
    expected: int | None = None
    found_csn: int | None = None
    incarnation: str = ""


@dataclass(kw_only=True, eq=False, repr=False)
class TableDropped(FinalError):
    """The store has commits of the table and the catalog lacks it: another program dropped it.

    :param table: name of the table. :param domain: name of its domain.
    :param metadata: URI of the metadata of its last commit; empty for a format without such files.
    """

    table: str
    domain: str
    metadata: str


@dataclass(kw_only=True, eq=False, repr=False)
class TableRecreated(FinalError):
    """The table was dropped and created again: its identity differs from the recorded one.

    :param table: name of the table. :param expected: the recorded identity. :param found: the one in the catalog.
    """

    table: str
    expected: str
    found: str


@dataclass(kw_only=True, eq=False, repr=False)
class WarehouseUnavailable(RetryableError):
    """The warehouse's files cannot be read or written now (disk full, no permission, no network).

    :param warehouse: URI of the warehouse. :param path: the file that cannot be written, if it is known.
    """

    warehouse: str = ""
    path: str = ""
