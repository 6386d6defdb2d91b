"""Pointers of tables in their catalog, compared with the store's records (R17, R33).

If the catalog of a format is outside of the store's database, the store's transaction is the commit and the pointers
are moved after it. A process that dies in between leaves them behind; any later touch of the table moves them, and
:func:`~airflow_provider.coordination.upkeep.recover.recover` moves all of a domain. The tables of one commit may differ
in that: each is asked by its format.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from airflow_provider.coordination.commits.adopt import foreign_span
from airflow_provider.domain.errors import (
    StoreUnavailable,
    Unavailable,
)
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Stamped, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import TableRecord, TableRef
from airflow_provider.stores.base import MetadataReader, Reading, pages
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.checks import refuse_other_identity
from airflow_provider.tables.errors import TablesAhead, WarehouseUnavailable
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.pointer_status import Compared, PointerStatus
from airflow_provider.tables.projection import attempted, foreign_commit, stopped


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """Pointers of tables after :func:`follow`.

    :param beyond: tables whose pointers are ahead of the records read: another commit was faster, or the store was
        restored. :param unseen: tables whose pointers were found neither at the records read nor ahead of them.
    """

    beyond: list[Table]
    unseen: list[Table]


def follow(formats: TableFormats, reading: Reading, tables: Iterable[Table]) -> Followed:
    """Move the pointers of *tables* to the records in *reading*, as far as possible now, unless commits move them."""
    beyond, unseen = [], []
    for table in tables:
        ref = _ref(reading, table)
        if table.format not in formats.following:
            is_beyond = False
            unseen += [] if is_pointed(reading, table) else [table]
        elif ref is not None:
            projected = attempted(formats[ref.format], table, ref)
            is_beyond = projected is not None and projected.ahead
            unseen += [table] if projected is None else []
        else:
            is_beyond = formats[table.format].compare(table, None).status is PointerStatus.AHEAD
        if is_beyond:
            beyond.append(table)
    return Followed(beyond=beyond, unseen=unseen)


def tell_published(formats: TableFormats, prepared: Iterable[tuple[Publication, Prepared]]) -> None:
    """Tell the formats that a commit is visible: tables of one format at once where its pointers move so."""
    by_format = defaultdict[str, list[tuple[Publication, Prepared]]](list)
    for publication, version in prepared:
        by_format[publication.table.format].append((publication, version))
    for name, published in by_format.items():
        table_format = formats[name]
        if len(published) > 1 and table_format.moves_together:
            table_format.published_together(published)
            continue
        for publication, version in published:
            table_format.published(publication, version)


def is_pointed(reading: Reading, table: Table) -> bool:
    """Return whether the pointer of *table* was read with its record, and agrees with it."""
    ref = _ref(reading, table)
    return ref is not None and bool(ref.metadata) and reading.pointers.get(table.name) == ref.metadata


def _ref(reading: Reading, table: Table) -> TableRef | None:
    stamped = reading.get(table_key(table.domain, table.name))
    return None if stamped is None else stamped.record.ref


def refuse_stopped(
    formats: TableFormats, reading: Reading, tables: Iterable[Table], *, published: Collection[TableName]
) -> None:
    """Refuse to begin an epoch that could not be published, for what other programs did to *tables*.

    A table with commits is not created anew. A catalog outside of the store's database need not answer now: publish
    asks it again.

    :param tables: those that :func:`follow` reports as unseen.
    :param published: names of the tables that the epoch publishes; a fill leaves the others as they are.
    :raises TableDropped: the catalog does not know one of *tables*, of which *reading* has a commit.
    :raises TableRecreated: the catalog has another table by that name.
    :raises ForeignCommit: a published one has rows of another program that it does not adopt, or that belong to no
        committed epoch, or a layout or format version in which no epoch can be published.
    """
    committed: defaultdict[str, list[tuple[Table, TableRecord, TableRef]]] = defaultdict(list)
    for table in tables:
        stamped = reading.get(table_key(table.domain, table.name))
        if stamped is not None and stamped.record.ref is not None:
            committed[stamped.record.ref.format].append((table, stamped.record, stamped.record.ref))
    for name, known in committed.items():
        follows = name in formats.following
        # A catalog elsewhere may have some of them only.
        for together in [[entry] for entry in known] if follows else [known]:
            try:
                identities = formats[name].identities([table for table, _, _ in together])
                for (table, record, ref), identity in zip(together, identities, strict=True):
                    refuse_other_identity(table, ref, identity)
                    if table.name in published:
                        _refuse_foreign(formats[name].compare(table, ref), table, record, ref)
            except (StoreUnavailable, Unavailable, WarehouseUnavailable):
                if not follows:
                    raise
                continue


def _refuse_foreign(found: Compared, table: Table, record: TableRecord, recorded: TableRef) -> None:
    """:raises ForeignCommit: no epoch can be published on top of what was *found*."""
    if found.status is PointerStatus.FOREIGN:
        if table.on_foreign_commit is not OnForeignCommit.ADOPT:
            raise foreign_commit(table, recorded, found)
        foreign_span(table, record, found)
    if found.stops:
        raise stopped(table, recorded, found.stops)


def compare_pointer(reader: MetadataReader, formats: TableFormats, table: Table) -> Compared:
    """Compare the pointer of *table* with the store's record.

    A pointer moves with the store's record or after it. If the pointer is ahead of the record both before and after we
    read it, the store was restored from an older backup (R33); otherwise a publish moved it meanwhile.
    """
    key = table_key(table.domain, table.name)
    while True:
        before = reader.read(table.domain, [key]).get(key)
        found = formats[table.format].compare(table, None if before is None else before.record.ref)
        if found.status is not PointerStatus.AHEAD or before == reader.read(table.domain, [key]).get(key):
            return found


def ahead(reader: MetadataReader, formats: TableFormats, table: Table) -> Compared | None:
    """Return the comparison if the pointer of *table* names a commit that the store lacks (R33); otherwise None."""
    found = compare_pointer(reader, formats, table)
    return found if found.status is PointerStatus.AHEAD else None


def tables_ahead(reader: MetadataReader, formats: TableFormats) -> list[tuple[Table, Compared, str]]:
    """Return the tables of all domains that are ahead of the store, each with the metadata that it recorded (R33)."""
    found = []
    for domain in reader.domains():
        known = declared_tables(reader, domain)
        for stamped in list(pages(reader, domain, TableRecord)):
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
    """Return the tables that jobs declare, except those of retired jobs."""
    jobs = [stamped.record for stamped in pages(reader, domain, JobRecord)]
    return {table.name: table for job in jobs if not job.retired for table in job.outputs}


def as_recorded(stamped: Stamped[TableRecord], ref: TableRef) -> Table:
    """Return a table that no job declares any more, as its format needs to know it."""
    name = TableName(stamped.key.item)
    return Table(name, domain=stamped.key.domain, kind=stamped.record.kind, format=ref.format)
