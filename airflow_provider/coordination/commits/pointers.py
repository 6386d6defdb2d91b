"""The pointers of tables in their catalog, beside what the store recorded (R17, R33).

Where tables lie in a catalog outside of the store's database, the store's transaction is the commit and the pointers
are moved after it. A process that dies in between leaves them behind; any later touch of the table moves them, and
:func:`~airflow_provider.coordination.upkeep.recover.recover` moves all of a domain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from airflow_provider.domain.errors import (
    StoreUnavailable,
    Unavailable,
)
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Kind, Stamped, table_key
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import MetadataReader, Reading, pages
from airflow_provider.tables.base import TablesAhead
from airflow_provider.tables.checks import refuse_other_identity
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.pointer_status import Compared, PointerStatus
from airflow_provider.tables.projection import attempted


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """Where the pointers of tables are after :func:`follow`.

    :param beyond: tables whose pointers are beyond what was read: somebody was faster, or the store was restored.
    :param unseen: tables whose pointers were not seen at what was read, or beyond.
    """

    beyond: list[Table]
    unseen: list[Table]


def follow(formats: TableFormats, reading: Reading, tables: Iterable[Table]) -> Followed:
    """Let the pointers of *tables* follow what *reading* has of them, as far as possible now."""
    if not formats.projected:
        return Followed(beyond=[], unseen=[one for one in tables if not is_pointed(reading, one)])
    beyond, unseen = [], []
    for table in tables:
        ref = _ref(reading, table)
        if ref is not None:
            projected = attempted(formats[ref.format], table, ref)
            is_beyond = projected is not None and projected.ahead
            unseen += [table] if projected is None else []
        else:
            is_beyond = formats[table.format].compare(table, None).status is PointerStatus.AHEAD
        if is_beyond:
            beyond.append(table)
    return Followed(beyond=beyond, unseen=unseen)


def is_pointed(reading: Reading, table: Table) -> bool:
    """Whether the pointer of *table* was read with its record, and names what that says."""
    ref = _ref(reading, table)
    return ref is not None and bool(ref.metadata) and reading.pointers.get(table.name) == ref.metadata


def _ref(reading: Reading, table: Table) -> TableRef | None:
    stamped: Stamped[TableRecord] | None = reading.get(table_key(table.domain, table.name))
    return None if stamped is None else stamped.record.ref


def refuse_lost(formats: TableFormats, reading: Reading, tables: Iterable[Table]) -> None:
    """Refuse to begin what could not be published: a table with commits is not made anew.

    A catalog outside of the store's database need not answer now: publish asks it again.

    :param tables: those that :func:`follow` has not seen.
    :raises TableDropped: the catalog does not know one of *tables*, of which *reading* has a commit.
    :raises TableRecreated: it has another one by that name.
    """
    committed: defaultdict[str, list[tuple[Table, TableRef]]] = defaultdict(list)
    for table in tables:
        ref = _ref(reading, table)
        if ref is not None:
            committed[ref.format].append((table, ref))
    for name, known in committed.items():
        # A catalog elsewhere may have some of them only.
        for together in [[one] for one in known] if formats.projected else [known]:
            try:
                identities = formats[name].identities([table for table, _ in together])
            except (StoreUnavailable, Unavailable):
                if not formats.projected:
                    raise
                continue
            for (table, ref), identity in zip(together, identities, strict=True):
                refuse_other_identity(table, ref, identity)


def compare_pointer(reader: MetadataReader, formats: TableFormats, table: Table) -> Compared:
    """Where the pointer of *table* stands, seen from what the store has of it.

    A pointer moves with the store's record or after it: one that is beyond what was recorded before it was
    looked at, and after, is of a store that knew more (R33). Other ones were moved by a publish meanwhile.
    """
    key = table_key(table.domain, table.name)
    while True:
        before = reader.read(table.domain, [key]).get(key)
        found = formats[table.format].compare(table, None if before is None else before.record.ref)
        if found.status is not PointerStatus.AHEAD or before == reader.read(table.domain, [key]).get(key):
            return found


def ahead(reader: MetadataReader, formats: TableFormats, table: Table) -> Compared | None:
    """What the pointer of *table* names when that is a commit which the store does not have (R33)."""
    found = compare_pointer(reader, formats, table)
    return found if found.status is PointerStatus.AHEAD else None


def tables_ahead(reader: MetadataReader, formats: TableFormats) -> list[tuple[Table, Compared, str]]:
    """The tables of all domains that are ahead of the store, with what the store recorded of each (R33)."""
    found = []
    for domain in reader.domains():
        known = declared_tables(reader, domain)
        for stamped in list(pages(reader, domain, Kind.TABLE, "")):
            ref = stamped.record.ref
            table = known.get(TableName(stamped.key.item)) or (as_recorded(stamped, ref) if ref else None)
            beyond = None if table is None else ahead(reader, formats, table)
            if table is not None and beyond is not None:
                found.append((table, beyond, ref.metadata if ref is not None else "no commit"))
    return found


def refuse_ahead(reader: MetadataReader, formats: TableFormats, table: Table) -> None:
    """:raises TablesAhead: *table* was published with a number that the store has not given out to it."""
    found = ahead(reader, formats, table)
    if found is not None:
        head = reader.read(table.domain, []).head
        raise TablesAhead(
            f"table {table.name!r} was published with CSN {found.csn} by incarnation {found.incarnation} of the store; "
            f"this one is {head.incarnation}, its last commit is {head.csn}, and it does not have that one: it was "
            "restored from a backup.",
            next_step="`airflow epochs doctor` lists the tables; `airflow epochs db restored` says what to do.",
            table=table.name,
            expected=head.csn,
            found_csn=found.csn,
            incarnation=found.incarnation,
        )


def declared_tables(reader: MetadataReader, domain: DomainName) -> dict[TableName, Table]:
    """The tables of all jobs as they are declared."""
    jobs = [one.record for one in pages(reader, domain, Kind.JOB, "")]
    return {table.name: table for job in jobs if not job.retired for table in job.outputs}


def as_recorded(stamped: Stamped[TableRecord], ref: TableRef) -> Table:
    """A table as its format needs to know it, where nobody declares it any more."""
    name = TableName(stamped.key.item)
    return Table(name, domain=stamped.key.domain, kind=stamped.record.kind, format=ref.format)
