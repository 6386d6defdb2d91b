"""Checks, errors and values that all formats share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TypeVar

import pyarrow as pa

from airflow_provider.domain.errors import ForeignCommit, InvalidInput, Unavailable, UnknownName
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, Part, TableRef
from airflow_provider.tables import storage
from airflow_provider.tables.base import Publication, StagingLocation, TableInfo, WrittenFile
from airflow_provider.tables.errors import TableDropped, TableRecreated, WarehouseUnavailable

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """Commit that a published version carries in its metadata (R33)."""

    domain: str
    incarnation: str
    csn: int

    @classmethod
    def of(cls, publication: Publication) -> Marks:
        return cls(domain=publication.table.domain, incarnation=publication.incarnation, csn=publication.csn)

    def precedes(self, other: Marks) -> bool:
        """Return whether the same store made this commit before *other*."""
        same = (self.domain, self.incarnation) == (other.domain, other.incarnation)
        return same and self.csn < other.csn


def existing(found: Found | None, table: Table, recorded: TableRef | None = None) -> Found:
    """Return *found*, the catalog's entry of *table*, unless it is None.

    :param recorded: the table's last commit in the store; None if there is none, or it was not read.
    :raises UnknownName: the catalog lacks the table. :raises TableDropped: it lacks it although there is a commit.
    """
    if found is not None:
        return found
    if recorded is not None:
        raise dropped(table, recorded)
    raise UnknownName(
        f"table {table.name!r} of domain {table.domain!r} is not in the catalog.",
        next_step="begin again: a table without commits is made by its first write. If it had commits, another "
        f"program dropped it: `airflow epochs recover --domain {quote(table.domain)}` registers it again.",
        table=table.name,
        domain=table.domain,
    )


def same_table(table: Table, recorded: TableRef, info: TableInfo | None) -> TableInfo:
    """Return *info*, the catalog's entry of a table with commits, if its identity is the recorded one.

    :raises TableDropped: the catalog lacks the table. :raises TableRecreated: it has another identity.
    """
    known = existing(info, table, recorded)
    refuse_other_identity(table, recorded, known.table_uuid)
    return known


def refuse_other_identity(table: Table, recorded: TableRef, identity: str | None) -> None:
    """Refuse a table with commits unless *identity*, the catalog's, is the recorded one.

    :raises TableDropped: *identity* is None. :raises TableRecreated: it is another one.
    """
    if existing(identity, table, recorded) != recorded.table_uuid:
        raise recreated(table, recorded.table_uuid, str(identity))


def dropped(table: Table, recorded: TableRef) -> TableDropped:
    """Build the error for a table with commits that the catalog lacks."""
    return TableDropped(
        f"table {table.name!r} of domain {table.domain!r} is not in the catalog, and the store has commits of it (the "
        f"last one: {recorded.metadata or recorded.location}): another program dropped it.",
        next_step=f"`airflow epochs recover --domain {quote(table.domain)}` registers it again, as of its last commit; "
        "its rows and files stay, and cuts read them meanwhile.",
        table=table.name,
        domain=table.domain,
        metadata=recorded.metadata,
    )


def refuse_other_table(publication: Publication, table_uuid: str) -> None:
    """:raises TableRecreated: the base or a slice belongs to another table of the same name."""
    base = () if publication.base is None else (publication.base.table_uuid,)
    for expected in (*base, *(added.table_uuid for _, added in publication.adds)):
        if expected != table_uuid:
            raise recreated(publication.table, expected, table_uuid)


def recreated(table: Table, expected: str, found: str) -> TableRecreated:
    """Build the error for a table whose identity differs from that in the store or in a slice."""
    return TableRecreated(
        f"table {table.name!r} of domain {table.domain!r} is {found} in the catalog, "
        f"but {expected} was written: it was dropped and made again.",
        next_step="begin the epoch again if the table had no commit. Otherwise "
        f"`airflow epochs recover --domain {quote(table.domain)}` registers the recorded table again; "
        "if the new one has rows, put them elsewhere and drop it from the catalog first.",
        table=table.name,
        expected=expected,
        found=found,
    )


def refuse_published(info: TableInfo) -> None:
    """:raises InvalidInput: the table was published, so that it must not be replaced."""
    if info.version:
        raise InvalidInput(
            field="table",
            value=info.name,
            expected=f"a table without a published version; it is at version {info.version}",
            next_step="select and cast the columns of the table, or write to another one.",
        )


def refuse_other_place(place: StagingLocation, own: StagingLocation) -> None:
    """:raises InvalidInput: *place* differs from *own*, this format's staging directory: it must not be deleted."""
    if place.uri != own.uri:
        raise InvalidInput(field="place", value=place.uri, expected=f"the attempt's own place {own.uri}")


def refuse_foreign_files(place: StagingLocation, files: Sequence[WrittenFile]) -> None:
    """:raises InvalidInput: a file lies outside of *place*, or occurs twice."""
    seen = set()
    for file in files:
        if not file.uri.startswith(place.uri) or file.uri in seen:
            raise InvalidInput(
                field="files",
                value=file.uri,
                expected=f"each file once, below {place.uri}",
                table=place.table.name,
            )
        seen.add(file.uri)


def committable(
    name: str,
    place: StagingLocation,
    info: TableInfo,
    files: Sequence[WrittenFile],
    parts: tuple[Part, ...],
    *,
    version: int,
) -> Committable:
    """Build the committable of *files*; its checksum does not depend on the order in which tasks ended."""
    digest = hashlib.blake2b(digest_size=16)
    for checksum in sorted(file.checksum for file in files):
        digest.update(checksum.encode())
    return Committable(
        format=name,
        table_uuid=info.table_uuid,
        place=place.uri,
        version=version,
        parts=parts,
        rows=sum(file.rows for file in files),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        checksum=digest.hexdigest(),
        schema_id=info.schema_id,
    )


def chosen(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return *columns* of *schema*; all of them if *columns* is None.

    :raises InvalidInput: *schema* lacks a column.
    """
    if columns is None:
        return schema
    return pa.schema([schema.field(name) for name in known_columns(schema, columns)])


def known_columns(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Return *columns* if all are in *schema*.

    :raises InvalidInput: *schema* lacks a column, or none is named: rows without columns are none in a table of Arrow.
    """
    if isinstance(columns, str) or not columns:
        raise InvalidInput(
            field="columns", value=columns, expected=f"a list of one or more of {schema.names}"
        )
    for column in columns:
        if column not in schema.names:
            raise InvalidInput(field="columns", value=column, expected=f"one of {schema.names}")
    return list(columns)


@contextmanager
def translated(warehouse: str) -> Iterator[None]:
    """Translate errors of the file system.

    :raises Unavailable: a file is missing.
    :raises WarehouseUnavailable: any other error; the message says whether the warehouse cannot be written.
    """
    try:
        yield
    except storage.NotWritable as error:
        raise WarehouseUnavailable(
            f"the warehouse {warehouse} cannot be written: {error.filename}: {error.strerror}.",
            next_step="let this user write there (permissions, mounts, read-only disks), or correct the warehouse of "
            "the connection, then try again; nothing was published.",
            warehouse=warehouse,
            path=str(error.filename),
        ) from error
    except FileNotFoundError as error:
        raise missing_file(str(error.filename or error)) from error
    except OSError as error:
        raise WarehouseUnavailable(
            f"the warehouse {warehouse} cannot be read or written: {error}",
            next_step="look at its disk, permissions and network, then try again; nothing was published.",
            warehouse=warehouse,
        ) from error


def damaged_file(uri: str, error: Exception) -> Unavailable:
    """Build the error for a file that exists and cannot be read."""
    return Unavailable(
        f"{uri} is damaged ({error}): the state that contains it cannot be read whole.",
        next_step="restore the file or compute its epoch again.",
        uri=uri,
    )


def unnumbered_file(uri: str) -> Unavailable:
    """Build the error for a file of another program whose columns have no ids."""
    return Unavailable(
        f"{uri} has no column ids: which of the table's columns it holds cannot be told, so nothing of it is returned.",
        next_step="let the owner of the table rewrite its files (rewrite_data_files with rewrite-all), or compute the "
        "epoch again.",
        uri=uri,
    )


def missing_file(uri: str) -> Unavailable:
    """Build the error for a state that has lost a file."""
    return Unavailable(
        f"{uri} is missing: the state that contains it cannot be read whole, so nothing of it is returned.",
        next_step="resolve a newer cut; if that fails too, restore the file or compute its epoch again.",
        uri=uri,
    )


def lost_output(table: Table, uri: str) -> Unavailable:
    """Build the error for staged output that has lost a file before it was published."""
    return Unavailable(
        f"{uri}, which was staged for table {table.name!r}, is missing or has changed; nothing was published.",
        next_step="find out what deletes files in the warehouse, then clear the task: it is computed again.",
        uri=uri,
        tables=(table.name,),
    )


def refuse_elsewhere(table: Table, wanted: str, found: str) -> None:
    """:raises ForeignCommit: the catalog has *table* with another pointer than *wanted*."""
    if found != wanted:
        raise ForeignCommit(
            f"table {table.name!r} is in this catalog already, at {found}.",
            next_step="remove that table from the catalog, or use another catalog.",
            table=table.name,
            expected=wanted,
            found=found,
        )


def refuse_outside(path: str, warehouse: str) -> None:
    """:raises InvalidInput: a symbolic link leads from *path* out of the warehouse: its target is other data."""
    real = Path(path).resolve()
    if not real.is_relative_to(Path(warehouse).resolve()) or Path(path).is_symlink():
        raise InvalidInput(
            field="place",
            value=path,
            expected=f"a directory inside the warehouse; it leads to {real}",
            next_step="remove the link by hand after looking where it leads.",
        )
