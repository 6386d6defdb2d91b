"""States of a table as they were at an earlier CSN, while the files of their versions are kept. Read-only."""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from airflow_provider.coordination.commits.expired_states import expired_states
from airflow_provider.coordination.commits.history import last_change
from airflow_provider.coordination.commits.places import refuse_other_warehouse
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.commits.versions import version_pages
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.resolve import refuse_expired
from airflow_provider.domain.cut import Cut, State, as_of, lagging, reached
from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable, UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name, table_name
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Stamped, retention_key, table_key, topology_key
from airflow_provider.domain.retention import NOTHING_EXPIRED
from airflow_provider.domain.version import SliceRecord, TableRecord, TableRef, TableVersion
from airflow_provider.domain.watermark import merged
from airflow_provider.stores.base import MetadataReader, Reading, pages

_LEASED = "compare with a later CSN; cuts that are to be compared later are held by a lease."


def state_at(
    cuts: Cuts, domain: str, table: str, *, at: datetime | None = None, csn: int | None = None
) -> Cut:
    """Return the state of *table* at the barrier *at* and the commit *csn*, as a cut of this table alone.

    :param at: exactly this barrier; None for the newest that the table had reached.
    :param csn: None for the newest commit.
    :raises InvalidInput: a CSN that the domain has not reached. :raises UnknownName: no such table.
    :raises NotReady: the table had not reached *at*; ``missing`` says why.
    :raises Unavailable: the state has expired, its version was deleted, or the table was dropped since.
    """
    name, wanted = domain_name(domain), table_name(table)
    keys = (table_key(name, wanted), topology_key(name), retention_key(name))
    reading = cuts.reader.read(name, keys)
    asked = checked_csn(csn, name, reading)
    stamped = reading.get(keys[0])
    if stamped is None:
        raise UnknownName.of_table(wanted, name, meant=meant(cuts.reader, name, wanted))
    refuse_other_warehouse(name, reading.get(keys[1]), cuts.formats.warehouse)
    barrier, moved = _state(cuts.reader, name, stamped, asked, None if at is None else as_utc(at, "at"))
    record = stamped.record
    refuse_expired(expired_states(cuts.reader, name, reading), {wanted: (record, moved)}, {wanted: barrier})
    state = State(
        table=wanted,
        kind=record.kind,
        barrier=barrier,
        low=record.kind.low(moved.origin),
        csn=asked,
        ref=moved.ref,
    )
    _refuse_deleted(cuts.reader, name, state, record.ref, reading)
    return Cut(
        domain=name,
        incarnation=reading.head.incarnation,
        csn=asked,
        barrier=barrier,
        level=Level.READ_COMMITTED,
        states={wanted: state},
        readable_until=reading.now + cuts.defaults.read_grace,
    )


def checked_csn(csn: int | None, domain: DomainName, reading: Reading, field: str = "csn") -> int:
    """Return *csn*, by default that of the last commit.

    :raises InvalidInput: the domain has no such commit.
    """
    head = reading.head.csn
    if csn is None:
        return head
    if isinstance(csn, bool) or not isinstance(csn, int) or not 0 <= csn <= head:
        raise InvalidInput(
            field=field,
            value=csn,
            expected=f"the CSN of a commit of domain {domain!r}, whose last one is {head}",
            next_step=f"`airflow epochs changes --domain {quote(domain)}` lists the commits.",
        )
    return csn


def _state(
    reader: MetadataReader, domain: DomainName, stamped: Stamped[TableRecord], csn: int, at: datetime | None
) -> tuple[datetime, TableVersion]:
    """Return the barrier that is read, and what the table was at *csn*.

    :raises NotReady: nothing was committed then, or the table had not reached *at*.
    """
    table, record = TableName(stamped.key.item), stamped.record
    moved = _version(reader, domain, stamped, csn)
    if moved is None or moved.watermark is None or moved.origin is None:
        raise NotReady.of_tables(
            (Missing(name=table, reason=f"nothing that readers see was committed up to CSN {csn}"),),
            next_step=f"name a later CSN: `airflow epochs changes --domain {quote(domain)}` lists the commits.",
        )
    barrier = moved.watermark if at is None else at
    if not reached(record, moved, barrier):
        raise NotReady.of_tables(
            lagging({table: (record, moved)}, barrier),
            why=f"at CSN {csn}: ",
            next_step="name a barrier that it had reached: "
            f"{record.cadence.floor(min(barrier, moved.watermark)).isoformat()}.",
        )
    return barrier, moved


def _version(
    reader: MetadataReader, domain: DomainName, stamped: Stamped[TableRecord], csn: int
) -> TableVersion | None:
    """Return origin, watermark and version of a table at *csn*; None if it had none.

    The table's record has its last few commits; before them the commits and the slices tell.
    """
    table = TableName(stamped.key.item)
    if csn < stamped.record.born:
        raise Unavailable(
            f"table {table!r} was dropped by CSN {stamped.record.born}: what has its name now is another table than "
            f"at CSN {csn}.",
            next_step="name a later CSN.",
            tables=(table,),
        )
    known = as_of(stamped, csn)
    if known is not None:
        return known
    found = last_change(reader, domain, table, csn)
    watermark = None if found is None else found[1].watermark
    if found is None or watermark is None:
        return None
    origin = _origin(reader, domain, table, csn, watermark)
    return TableVersion(csn=found[0], origin=origin, watermark=watermark, ref=found[1].ref)


def _origin(
    reader: MetadataReader, domain: DomainName, table: TableName, csn: int, watermark: datetime
) -> datetime:
    """Return the start of the chain of epochs that ended at *watermark* at *csn*, by the slices committed until then.

    A rollback moves no origin, but the slices that it takes back lose their own CSN: a chain that begins where one of
    these ends may have begun before it.
    """
    slices = [*pages(reader, domain, SliceRecord, table)]
    then = [piece.record for piece in slices if (piece.csn or 0) <= csn]
    unknown = [
        piece.record.interval for piece in slices if piece.record.taken_back and (piece.csn or 0) > csn
    ]
    for chain in merged(piece.interval for piece in then if not piece.taken_back):
        is_known = not any(gone.start < chain.start <= gone.end for gone in unknown)
        if is_known and chain.start < watermark <= chain.end:
            return chain.start
    raise Unavailable(
        f"where {table} began at CSN {csn} is not recorded any more: its domain was rolled back since.",
        next_step=_LEASED,
        tables=(table,),
    )


def _refuse_deleted(
    reader: MetadataReader, domain: DomainName, state: State, newest: TableRef | None, reading: Reading
) -> None:
    """:raises Unavailable: a vacuum has deleted the version of *state*. :param newest: the table's version now."""
    retained = reading.get(retention_key(domain))
    retention = NOTHING_EXPIRED if retained is None else retained.record
    if state.ref is None or not retention.superseded(state.csn, state.ref, newest):
        return
    wanted = state.ref.lasting()
    for page in version_pages(reader, domain, state.table):
        if any(version.ref.lasting() == wanted for version in page.record.versions):
            return  # claimed, or the newest one when the vacuum looked
    raise Unavailable(
        f"the version that {state.table} had at CSN {state.csn} was deleted by a vacuum, which keeps those since CSN "
        f"{retention.horizon}, and earlier ones that a lease or a job needs.",
        next_step=_LEASED,
        tables=(state.table,),
    )
