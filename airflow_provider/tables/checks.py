"""What every format checks the same way, and the values that they make alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import pyarrow as pa

from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import ForeignCommit, InvalidInput, Unavailable, UnknownName
from airflow_provider.domain.topology import EpochTable, TableKind
from airflow_provider.domain.version import Committable, Part, TableRef
from airflow_provider.tables import storage
from airflow_provider.tables.base import (
    Place,
    Publication,
    TableDropped,
    TableInfo,
    TableRecreated,
    WarehouseUnavailable,
    WrittenFile,
)

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """What a published version says about itself (R33)."""

    domain: str
    incarnation: str
    csn: int

    @classmethod
    def of(cls, publication: Publication) -> Marks:
        return cls(domain=publication.table.domain, incarnation=publication.incarnation, csn=publication.csn)

    def precedes(self, other: Marks) -> bool:
        """Whether the same store published it before *other*."""
        same = (self.domain, self.incarnation) == (other.domain, other.incarnation)
        return same and self.csn < other.csn


def existing(found: Found | None, table: EpochTable, recorded: TableRef | None = None) -> Found:
    """Return what the catalog has of *table*.

    :param recorded: its last commit in the store, None where there is none, or where nobody knows.
    :raises UnknownName: nothing. :raises TableDropped: nothing, although there is a commit.
    """
    if found is not None:
        return found
    if recorded is not None:
        raise dropped(table, recorded)
    raise UnknownName(
        f"table {table.name!r} of domain {table.domain!r} is not in the catalog.",
        next_step="begin again: a table without commits is made by its first write. If it had commits, another "
        f"program dropped it: `airflow epochs recover --domain {table.domain}` registers it again.",
        table=table.name,
        domain=table.domain,
    )


def same_table(table: EpochTable, recorded: TableRef, info: TableInfo | None) -> TableInfo:
    """Return *info*, what the catalog has of a table with commits, if it is that table.

    :raises TableDropped: it is gone. :raises TableRecreated: it is another one.
    """
    found = existing(info, table, recorded)
    refuse_other_identity(table, recorded, found.table_uuid)
    return found


def refuse_other_identity(table: EpochTable, recorded: TableRef, identity: str | None) -> None:
    """Refuse a table with commits unless the catalog has it as *identity*.

    :raises TableDropped: it is gone. :raises TableRecreated: it is another one.
    """
    if existing(identity, table, recorded) != recorded.table_uuid:
        raise recreated(table, recorded.table_uuid, str(identity))


def dropped(table: EpochTable, recorded: TableRef) -> TableDropped:
    """The error for a table with commits that the catalog does not know."""
    return TableDropped(
        f"table {table.name!r} of domain {table.domain!r} is not in the catalog, and the store has commits of it (the "
        f"last one: {recorded.metadata or recorded.location}): another program dropped it.",
        next_step=f"`airflow epochs recover --domain {table.domain}` registers it again, as of its last commit; its "
        "rows and files stay, and cuts read them meanwhile.",
        table=table.name,
        domain=table.domain,
        metadata=recorded.metadata,
    )


def refuse_other_table(publication: Publication, table_uuid: str) -> None:
    """:raises TableRecreated: the base or a slice belongs to another table of that name."""
    base = () if publication.base is None else (publication.base.table_uuid,)
    for expected in (*base, *(one.table_uuid for _, one in publication.adds)):
        if expected != table_uuid:
            raise recreated(publication.table, expected, table_uuid)


def recreated(table: EpochTable, expected: str, found: str) -> TableRecreated:
    """The error for a table that is another one than the store or a slice names."""
    return TableRecreated(
        f"table {table.name!r} of domain {table.domain!r} is {found} in the catalog, "
        f"but {expected} was written: it was dropped and made again.",
        next_step="begin the epoch again if the table had no commit. Otherwise "
        f"`airflow epochs recover --domain {table.domain}` registers the recorded table again; "
        "if the new one has rows, put them elsewhere and drop it from the catalog first.",
        table=table.name,
        expected=expected,
        found=found,
    )


def refuse_published(info: TableInfo) -> None:
    """:raises InvalidInput: only a table that was never published may be replaced."""
    if info.version:
        raise InvalidInput(
            field="table",
            value=info.name,
            expected=f"a table without a published version; it is at version {info.version}",
            next_step="select and cast the columns of the table, or write to another one.",
        )


def refuse_other_place(place: Place, own: Place) -> None:
    """:raises InvalidInput: *place* is not where this format would stage; nothing there is ours to delete."""
    if place.uri != own.uri:
        raise InvalidInput(field="place", value=place.uri, expected=f"the attempt's own place {own.uri}")


def refuse_foreign_files(place: Place, files: Sequence[WrittenFile]) -> None:
    """:raises InvalidInput: a file outside of *place*, or one named twice."""
    seen = set()
    for one in files:
        if not one.uri.startswith(place.uri) or one.uri in seen:
            raise InvalidInput(
                field="files",
                value=one.uri,
                expected=f"each file once, below {place.uri}",
                table=place.table.name,
            )
        seen.add(one.uri)


def committable(
    name: str,
    place: Place,
    info: TableInfo,
    files: Sequence[WrittenFile],
    parts: tuple[Part, ...],
    *,
    version: int,
) -> Committable:
    """Sum up *files*; the order in which tasks ended does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for checksum in sorted(one.checksum for one in files):
        digest.update(checksum.encode())
    return Committable(
        format=name,
        table_uuid=info.table_uuid,
        place=place.uri,
        version=version,
        parts=parts,
        rows=sum(one.rows for one in files),
        files=len(files),
        size_bytes=sum(one.size_bytes for one in files),
        checksum=digest.hexdigest(),
        schema_id=info.schema_id,
    )


def in_state(state: State, barrier: datetime) -> bool:
    """Whether the slice that ends at *barrier* belongs to *state*."""
    if state.kind is TableKind.FULL:
        return barrier == state.barrier
    return barrier <= state.barrier and (state.low is None or barrier > state.low)


def known_columns(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """:raises InvalidInput: a column that *schema* lacks."""
    for column in columns:
        if column not in schema.names:
            raise InvalidInput(field="columns", value=column, expected=f"one of {schema.names}")
    return list(columns)


@contextmanager
def translated(warehouse: str) -> Iterator[None]:
    """Let no error of a file system out.

    :raises Unavailable: a file that should be there is not.
    :raises WarehouseUnavailable: anything else; a place that cannot be written is told apart.
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
    """The error for a file that is there and cannot be read."""
    return Unavailable(
        f"{uri} is damaged ({error}): the state that contains it cannot be read whole.",
        next_step="restore the file or compute its epoch again.",
        uri=uri,
    )


def missing_file(uri: str) -> Unavailable:
    """The error for a state that cannot be read whole any more."""
    return Unavailable(
        f"{uri} is missing: the state that contains it cannot be read whole, so nothing of it is returned.",
        next_step="resolve a newer cut; if that fails too, restore the file or compute its epoch again.",
        uri=uri,
    )


def lost_output(table: EpochTable, uri: str) -> Unavailable:
    """The error for staged output that is no longer whole."""
    return Unavailable(
        f"{uri}, which was staged for table {table.name!r}, is missing or has changed; nothing was published.",
        next_step="look who deletes files in the warehouse, then clear the task: it is computed again.",
        uri=uri,
        table=table.name,
    )


def refuse_elsewhere(table: EpochTable, wanted: str, found: str) -> None:
    """:raises ForeignCommit: the catalog has *table*, and not where it is *wanted*."""
    if found != wanted:
        raise ForeignCommit(
            f"table {table.name!r} is in this catalog already, at {found}.",
            next_step="remove that table from the catalog, or use another catalog.",
            table=table.name,
            expected=wanted,
            found=found,
        )
