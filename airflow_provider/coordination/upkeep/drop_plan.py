"""What a drop takes from a domain, and what is in its way (R39). Read-only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider.coordination.commits.dropped import refuse_unfinished
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.pointers import as_recorded
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.slices import committed_slices
from airflow_provider.coordination.context import Context
from airflow_provider.domain.dropping import (
    LeavingTable,
    Subject,
    group_mates,
    own_sources,
    readers,
    with_tables,
)
from airflow_provider.domain.epoch import EpochRecord, LockRecord, has_expired
from airflow_provider.domain.errors import EpochBusy, ForeignCommit, TopologyError, Unavailable, UnknownName
from airflow_provider.domain.identifiers import (
    DomainName,
    JobName,
    RestatementId,
    TableName,
    job_name,
    table_name,
)
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import Stamped, restatement_key, retention_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import (
    RestatementRecord,
    RestatementState,
    lease_of_restatement,
)
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import Exists, MetadataReader, Reading, RequirementFailed, pages
from airflow_provider.tables.errors import TableDropped, TableRecreated
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.pointer_status import PointerStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class DoomedTable:
    """A table that a drop takes, with its newest rows.

    :param epochs: number of its committed epochs. :param size_bytes: of the files of their newest revisions.
    """

    name: TableName
    job: JobName
    epochs: int
    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DropPlan:
    """What a drop would take.

    :param csn: of the last commit before it. :param epochs: number of epochs of its jobs, committed or not.
    :param beyond: jobs and tables beside the named one that share tables with it: they go only with ``cascade``.
    :param readers: jobs that stay and have read its tables.
    :param mates: jobs that stay and commit in one group with it, which would wait for it.
    :param holders: live attempts, leases and open restatements, as text.
    :param foreign: tables to which other programs have written.
    :param reverts: published restatements that cannot be taken back any more.
    """

    subject: Subject
    name: str
    csn: int
    jobs: tuple[JobName, ...]
    tables: tuple[DoomedTable, ...]
    epochs: int
    beyond: tuple[str, ...]
    readers: tuple[JobName, ...]
    mates: tuple[JobName, ...]
    holders: tuple[str, ...]
    foreign: tuple[TableName, ...]
    reverts: tuple[str, ...]

    @property
    def obstacles(self) -> tuple[str, ...]:
        """What is in the way, each as text; empty if nothing is."""
        return (
            *(f"{other} shares tables with it" for other in self.beyond),
            *(f"job {reader} has read its tables" for reader in self.readers),
            *(f"the commit group of job {mate} would wait for it" for mate in self.mates),
            *(f"{holder} is in use" for holder in self.holders),
            *(f"another program has written to table {table}" for table in self.foreign),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """One look at a domain: the plan, and the records that it is based on.

    :param token: the highest token of an attempt at an epoch of its jobs.
    """

    reading: Reading
    plan: DropPlan
    jobs: tuple[Stamped[JobRecord], ...]
    tables: tuple[Stamped[TableRecord], ...]
    leaving: tuple[LeavingTable, ...]
    sources: tuple[str, ...]
    token: int


def looked_at(
    context: Context,
    domain: DomainName,
    subject: Subject,
    name: str,
    *,
    cascade: bool,
    shown: Collection[JobName] = (),
) -> Look:
    """Return what dropping *name* takes.

    :param shown: jobs that the drop takes, some of which it may have retired already.
    :raises UnknownName: the domain has no such job or table. :raises EpochBusy: an earlier drop has not ended.
    :raises RequirementFailed: jobs were registered meanwhile.
    """
    store = context.store
    reading = store.read(domain, [topology_key(domain), retention_key(domain)])
    topology = reading.get(topology_key(domain))
    refuse_sealed(domain, topology)
    refuse_elsewhere(domain, topology, context.formats)
    refuse_unfinished(domain, f"another drop in domain {domain!r}", topology)
    jobs = {stamped.record.name: stamped for stamped in pages(store, domain, JobRecord)}
    tables = {TableName(stamped.key.item): stamped for stamped in pages(store, domain, TableRecord)}
    _refuse_newer(store, domain, reading)
    records = {job: stamped.record for job, stamped in jobs.items()}
    known = {table: stamped.record for table, stamped in tables.items()}
    asked = _asked(domain, subject, name, records, known)
    names, found = with_tables(asked, records, known)
    left, mates = readers(records, names, found), group_mates(records, names, shown)
    while cascade and (left or mates):
        names, found = with_tables({*names, *left, *mates}, records, known)
        left, mates = readers(records, names, found), group_mates(records, names, shown)
    chosen = tuple(jobs[job] for job in sorted(names) if job in jobs)
    doomed = tuple(tables[table] for table in sorted(found))
    leaving = tuple(_leaving(stamped, [job.record for job in chosen]) for stamped in doomed)
    epochs, token = _epochs(store, domain, [job.record.name for job in chosen])
    plan = DropPlan(
        subject=subject,
        name=name,
        csn=reading.head.csn,
        jobs=tuple(job.record.name for job in chosen),
        tables=tuple(_doomed(store, stamped) for stamped in doomed),
        epochs=epochs,
        beyond=() if cascade else _beyond(subject, name, asked, names, found),
        readers=tuple(left),
        mates=tuple(mates),
        holders=tuple(_holders(store, topology, names, found)),
        foreign=tuple(_foreign(context.formats, doomed)),
        reverts=tuple(sorted(found for found, _ in restatements_of(store, domain, names))),
    )
    sources = own_sources(records, [job.record.name for job in chosen])
    return Look(
        reading=reading,
        plan=plan,
        jobs=chosen,
        tables=doomed,
        leaving=leaving,
        sources=sources,
        token=token,
    )


def refuse(plan: DropPlan) -> None:
    """Refuse what is in the way of *plan*.

    :raises TopologyError: jobs that stay have its tables, have read them, or commit with it. :raises EpochBusy: it is
        in use.
    :raises ForeignCommit: other programs have written to its tables.
    """
    what = f"{plan.subject} {plan.name!r}"
    if plan.beyond or plan.readers:
        also = (*plan.beyond, *(f"job {reader}" for reader in plan.readers))
        raise TopologyError(
            f"{what} cannot be dropped alone: {', '.join(also)} would lose tables that they share or have read.",
            next_step="drop all of them with --cascade; or let the jobs that go on declare other tables, and retire "
            "this one.",
            tables=tuple(table.name for table in plan.tables),
            found=", ".join(also),
        )
    if plan.mates:
        mates = ", ".join(f"job {mate}" for mate in plan.mates)
        raise TopologyError(
            f"{what} cannot be dropped alone: the commit group of {mates} would wait for it.",
            next_step="let these jobs declare no group, or one of another name without it, and run each once; or drop "
            "all of them with --cascade.",
            tables=tuple(table.name for table in plan.tables),
            found=mates,
        )
    if plan.holders:
        raise EpochBusy(
            f"{what} is in use: {'; '.join(plan.holders)}.",
            next_step="pause its DAGs and let their tasks end; publish or abandon the restatements; let the owners "
            "of the leases drop them (`airflow epochs lease drop`); then drop it.",
            holders=plan.holders,
        )
    if plan.foreign:
        raise ForeignCommit(
            f"another program has written to {', '.join(plan.foreign)}, and its rows would be lost.",
            next_step="copy these rows elsewhere, and let the catalog name the last epoch's version again "
            "(`airflow epochs doctor` says which).",
            table=plan.foreign[0],
        )


def restatements_of(
    reader: MetadataReader, domain: DomainName, jobs: set[JobName]
) -> Iterator[tuple[RestatementId, Stamped[RestatementRecord]]]:
    """Yield the published restatements with members of *jobs*: a revert would bring rows of them back."""
    for stamped in pages(reader, domain, RestatementRecord):
        record = stamped.record
        is_of = any(members.job in jobs for members in record.members) and not record.is_group
        if is_of and record.state is RestatementState.PUBLISHED:
            yield RestatementId(stamped.key.item), stamped


def _asked(
    domain: DomainName,
    subject: Subject,
    name: str,
    jobs: Mapping[JobName, JobRecord],
    tables: Mapping[TableName, TableRecord],
) -> set[JobName]:
    if not jobs:
        raise UnknownName(
            f"domain {domain!r} has no jobs.",
            next_step="see `airflow epochs status --domain …`; check the name, and --domain.",
            domain=domain,
        )
    if subject is Subject.DOMAIN:
        return {*jobs, *(record.job for record in tables.values())}
    if subject is Subject.JOB:
        job = job_name(name)
        if job not in jobs:
            raise UnknownName.of_job(name, domain)
        return {job}
    table = table_name(name)
    if table not in tables:
        raise UnknownName.of_table(table, domain)
    return {tables[table].job}


def _beyond(
    subject: Subject, name: str, asked: set[JobName], jobs: set[JobName], tables: set[TableName]
) -> tuple[str, ...]:
    others = tuple(f"job {job}" for job in sorted(jobs - asked))
    if subject is not Subject.TABLE:
        return others
    return (*others, *(f"table {table}" for table in sorted(tables) if table != name))


def _refuse_newer(reader: MetadataReader, domain: DomainName, reading: Reading) -> None:
    """:raises RequirementFailed: the topology has changed since *reading*: the lists may not belong together."""
    key = topology_key(domain)
    before, now = reading.get(key), reader.read(domain, [key]).get(key)
    if before is not None and now is not None and before.version != now.version:
        raise RequirementFailed.of(Exists(key, before.version), now.version)


def _leaving(stamped: Stamped[TableRecord], jobs: list[JobRecord]) -> LeavingTable:
    name, record = TableName(stamped.key.item), stamped.record
    declared = {table.name: table.format for job in jobs for table in job.outputs}
    # A job's record has no format of a table that the job has left: without a commit, it is that of its other tables.
    others = set(declared.values())
    unpublished = declared.get(name) or (others.pop() if len(others) == 1 else "")
    return LeavingTable(
        table=name,
        kind=record.kind,
        format=record.ref.format if record.ref else unpublished,
        ref=record.ref,
        jobs=tuple(job.name for job in jobs if name in job.all_outputs or job.name == record.job),
    )


def _doomed(reader: MetadataReader, stamped: Stamped[TableRecord]) -> DoomedTable:
    name = TableName(stamped.key.item)
    newest = {
        piece.record.interval: piece.record
        for piece in committed_slices(reader, stamped.key.domain, name)  # sorted by start, then by revision
    }
    return DoomedTable(
        name=name,
        job=stamped.record.job,
        epochs=len(newest),
        rows=sum(piece.rows for piece in newest.values()),
        files=sum(piece.files for piece in newest.values()),
        size_bytes=sum(piece.size_bytes for piece in newest.values()),
    )


def _epochs(reader: MetadataReader, domain: DomainName, jobs: list[JobName]) -> tuple[int, int]:
    """Return the number of epochs of *jobs*, and the highest token of an attempt at one of them."""
    tokens = [epoch.record.token for job in jobs for epoch in pages(reader, domain, EpochRecord, job)]
    return len(tokens), max(tokens, default=0)


def _holders(
    reader: MetadataReader,
    topology: Stamped[TopologyRecord] | None,
    jobs: set[JobName],
    tables: set[TableName],
) -> Iterator[str]:
    if topology is None:
        return
    domain = topology.key.domain
    now = reader.read(domain, []).now
    for job in sorted(jobs):
        for lock in pages(reader, domain, LockRecord, job):
            if not lock.record.ended and not has_expired(lock.at, lock.record.ttl, now):
                yield f"an attempt of job {job} at {lock.key.item} of {lock.record.owner}"
    for name in topology.record.restating:  # also those whose deadline is over, which hold staged output
        stamped = reader.read(domain, [key := restatement_key(domain, name)]).get(key)
        if stamped is not None and any(stamped.record.of(job) for job in jobs):
            yield f"restatement {name}"
    kept = {lease_of_restatement(found) for found, _ in restatements_of(reader, domain, jobs)}
    for lease in pages(reader, domain, LeaseRecord):
        if lease.key.item not in kept and not has_expired(lease.at, lease.record.ttl, now):
            names = sorted({state.table for state in lease.record.states} & tables)
            if names:
                yield f"lease {lease.key.item} of {lease.record.owner} on {', '.join(names)}"


def _foreign(formats: TableFormats, tables: tuple[Stamped[TableRecord], ...]) -> Iterator[TableName]:
    """Yield the tables whose catalog entry has rows that the store does not know."""
    for stamped in tables:
        ref = stamped.record.ref
        if ref is None:
            continue
        try:
            found = formats[ref.format].compare(as_recorded(stamped, ref), ref)
        except (TableDropped, TableRecreated, Unavailable):
            continue  # nothing of it is in the catalog, or it cannot be read
        if found.status in (PointerStatus.FOREIGN, PointerStatus.AHEAD):
            yield TableName(stamped.key.item)
