"""Explanation of one epoch: the inputs that it waits for, and the runs that bring them (protocol section 10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.attempts.check import kept_places
from airflow_provider.coordination.attempts.missing_inputs import Resolving, with_way_out
from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.expired_states import ExpiredStates, expired_states
from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.commits.staged import with_staged
from airflow_provider.coordination.reading.bringers import Bringer, bringers
from airflow_provider.coordination.reading.outdated import OutdatedRows
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.coordination.upkeep.barrier_state import barrier_state, members_of_group
from airflow_provider.coordination.upkeep.unread import unread
from airflow_provider.domain.attempt_state import epoch_state
from airflow_provider.domain.beginning import expired_inputs, resolve_inputs
from airflow_provider.domain.behind import Behind
from airflow_provider.domain.checks import Finding
from airflow_provider.domain.cut import State, as_of
from airflow_provider.domain.epoch import (
    AttemptEvent,
    EpochRecord,
    EpochState,
    LockRecord,
    committed_csn,
    has_expired,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.filling import skip_of_rest
from airflow_provider.domain.group import group_of
from airflow_provider.domain.identifiers import DomainName, domain_name, job_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import (
    Stamped,
    fence_of,
    job_key,
    lock_of,
    retention_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import OnRerun
from airflow_provider.domain.version import TableRecord
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, Reading, scan


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """State of one epoch, its open inputs, and the next step.

    :param state: of the newest attempt, or COMMIT. :param waiting_for: a line for each open input.
    :param log: the state log, oldest first.
    :param expired: tables whose state at the epoch's barrier is expired (R24).
    :param retired: reason for which the job was retired; empty for other jobs.
    :param inactive: time since which the job is inactive, and other jobs no longer wait for it (R9).
    :param findings: of the checks that refused the newest output. :param places: folders of that output.
    :param outdated: rows of its tables and inputs that stand on an earlier state of an input (R18), a line each.
    :param owner: of its attempt that has not ended. :param brought_by: runs of the tables that it waits for.
    """

    domain: DomainName
    job: str
    interval: Interval
    state: EpochState
    revision: int | None
    csn: int | None
    summary: str
    waiting_for: tuple[str, ...]
    next_step: str
    log: tuple[Stamped[AttemptEvent], ...]
    findings: tuple[Finding, ...] = ()
    places: tuple[str, ...] = ()
    inactive: datetime | None = None
    expired: tuple[str, ...] = ()
    retired: str = ""
    outdated: tuple[str, ...] = ()
    owner: Owner | None = None
    brought_by: tuple[Bringer, ...] = ()

    @property
    def holders(self) -> tuple[Owner, ...]:
        """Runs with an open attempt at an awaited table, or at the epoch itself."""
        others = (bringer.owner for bringer in self.brought_by if bringer.is_open)
        return tuple(dict.fromkeys(owner for owner in (self.owner, *others) if owner is not None))


def explain(
    reader: MetadataReader,
    domain: str,
    job: str,
    interval: Interval | None = None,
    *,
    source_readers: SourceReaders | None = None,
    at_sources: bool = True,
) -> Explanation:
    """Explain one epoch of *job*; without *interval* the first one that is not committed.

    :param source_readers: asks sources for late data of the epoch; by default those that need no connection.
    :param at_sources: False where files are out of reach: sources are not asked.
    :raises UnknownName: no such job in the domain.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    reader = retrying_reader(reader)
    name, owner = domain_name(domain), job_name(job)
    stamped = reader.read(name, [job_key(name, owner)]).get(job_key(name, owner))
    if stamped is None:
        raise UnknownName.of_job(job, domain)
    record = stamped.record
    epoch = interval or _first_open(reader, name, record)
    asked = EpochId(name, owner, epoch)
    own, lock = fence_of(asked), lock_of(asked)
    tables = [table_key(name, edge.table) for edge in record.edges]
    tables += [table_key(name, table) for table in record.all_outputs]
    reading = reader.read(name, [own, lock, retention_key(name), topology_key(name), *dict.fromkeys(tables)])
    retention = expired_states(reader, name, reading)
    log = tuple(sorted(state_log(reader, asked), key=lambda event: event.at))
    found = reading.get(own)
    if found is None or (found.record.attempt is None and found.record.committed is None):
        explained = replace(_not_begun(reader, record, epoch, reading, retention), log=log)
        explained = _with_job_before(explained, record, reading)
    else:
        explained = _begun(record, found, reading.get(lock), reading.now, log)
    if found is not None and found.record.attempt is None and found.record.committed is not None:
        explained = _with_later_tables(explained, record, _lacking(name, record, epoch, reading))
        explained = _with_source(
            explained, [entry for entry in behind_of(reading, name) if entry.is_of(owner, epoch)]
        )
    if at_sources and found is not None and found.record.committed is not None and record.all_sources:
        names = set(record.all_sources)
        late = unread(reader, name, source_readers or SourceReaders(), at=epoch, names=names)
        told = [f"source {found.source.name}: {found}" for found in late]
        explained = replace(explained, summary="; ".join([explained.summary, *told]))
    explained = replace(explained, outdated=_outdated(reader, name, record, epoch, reading))
    explained = _in_its_group(reader, explained, record, None if found is None else found.record)
    gone = retention.expired_at({table.name: epoch.end for table in record.outputs})
    if record.retired:
        step = f"nothing; `airflow epochs revive {quote(owner)}` brings the job back."
        waiting = () if explained.csn else (f"nothing: the job is retired: {record.retired}",)
        return replace(explained, retired=record.retired, expired=gone, waiting_for=waiting, next_step=step)
    return replace(explained, inactive=inactive_jobs(reader, name).get(owner), expired=gone)


def _first_open(reader: MetadataReader, domain: DomainName, job: JobRecord) -> Interval:
    """Return the first epoch that one of the job's tables lacks, each counted from its beginning."""
    reading = reader.read(domain, [table_key(domain, table.name) for table in job.outputs])
    marks = (table.record.progress.next_missing for table in reading.records.values())
    start = min((mark for mark in marks if mark is not None), default=job.origin)
    if start is None:
        return job.cadence.ended_by(reading.now)
    return Interval(start, job.cadence.next_after(start))


def _in_its_group(
    reader: MetadataReader, explained: Explanation, job: JobRecord, epoch: EpochRecord | None
) -> Explanation:
    """Add the state of the barrier over the group that publishes the epoch, and who brings it on."""
    group = group_of(job, epoch)
    if group is None:
        return explained
    found = barrier_state(reader, explained.domain, group, explained.interval)
    own = dict(found.jobs).get(job.name)
    if job.name in dict(found.outdated):
        return replace(explained, summary=f"staged; {found}", next_step=found.next_step)
    if own is not EpochState.WRITTEN:
        return replace(explained, summary=f"{explained.summary}; {found}")
    is_whole = found.state is EpochState.WRITTEN
    step = (
        f"`airflow epochs restate publish {quote(found.name)}`, or run the task again: the last job was interrupted."
        if is_whole
        else found.next_step
        or f"run the tasks of the other jobs; `airflow epochs restate status {quote(found.name)}` shows each."
    )
    return replace(
        explained,
        state=EpochState.WRITTEN,
        summary=f"staged; {found}",
        waiting_for=() if is_whole else (str(found),),
        next_step=step,
    )


def _outdated(
    reader: MetadataReader, domain: DomainName, job: JobRecord, epoch: Interval, reading: Reading
) -> tuple[str, ...]:
    """Return outdated rows at *epoch* in the tables that the job reads, writes, or has left."""
    names = (*job.all_outputs, *(edge.table for edge in job.edges))
    csn = reading.head.csn
    states = {}
    for table in names:
        stamped = reading.get(table_key(domain, table))
        if stamped is not None:
            kind = stamped.record.kind
            states[table] = State(table=table, kind=kind, barrier=epoch.end, low=None, csn=csn, ref=None)
    found = OutdatedRows(reader).of(domain, reading.get(topology_key(domain)), states, csn)
    return tuple(str(rows) for rows in found)


def _lacking(domain: DomainName, job: JobRecord, epoch: Interval, reading: Reading) -> list[str]:
    """Return the job's tables that lack *epoch* although they begin no later than it."""
    records = [reading.get(table_key(domain, table.name)) for table in job.outputs]
    known = [stamped for stamped in records if stamped is not None]
    return [stamped.key.item for stamped in known if stamped.record.progress.lacks(epoch)]


def _with_later_tables(explained: Explanation, job: JobRecord, lacking: list[str]) -> Explanation:
    """Add tables that the commit lacks: its attempt began before the job had them (R7)."""
    if not lacking:
        return explained
    revised = (
        "" if job.on_rerun is not OnRerun.FAIL else f"declare on_rerun={OnRerun.NEW_REVISION.value!r} and "
    )
    return replace(
        explained,
        summary=f"{explained.summary}, by an attempt that began before the job had {', '.join(lacking)}",
        next_step=f"{revised}clear the task of the job for it: the next revision adds these tables; what is committed "
        "stays. Where the job reads other sources since, it computes all tables again, by "
        f"on_rerun={OnRerun.NEW_REVISION.value!r} alone.",
    )


def _with_job_before(explained: Explanation, job: JobRecord, reading: Reading) -> Explanation:
    """Add tables for which another job computed the epoch before this job took them over (R7)."""
    domain, epoch = explained.domain, explained.interval
    own = {table.name: reading.get(table_key(domain, table.name)) for table in job.outputs}
    had = [name for name, table in own.items() if table is not None and table.record.progress.covers(epoch)]
    if not had:
        return explained
    summary = f"{', '.join(had)} had it before the job took over, which cannot compute it"
    step = f"{skip_of_rest(job.name, epoch, own) or 'nothing to do'}."
    return replace(explained, summary=summary, waiting_for=(), next_step=step, brought_by=())


def _with_source(explained: Explanation, behind: list[Behind]) -> Explanation:
    """Add sources that were bound anew since the commit, which is behind them."""
    if not behind:
        return explained
    return replace(
        explained,
        summary=f"{explained.summary}; but {'; '.join(entry.why for entry in behind)}",
        next_step=f"{behind[0].way_out}; until then what reads it waits.",
    )


def _not_begun(
    reader: MetadataReader,
    job: JobRecord,
    epoch: Interval,
    reading: Reading,
    retention: ExpiredStates,
) -> Explanation:
    domain = retention.domain
    tables = {edge.table: reading.get(table_key(domain, edge.table)) for edge in job.edges}
    behind = behind_of(reading, domain)
    group = group_of(job, None)
    members = None if group is None else members_of_group(reader, domain, group, epoch)
    known = tables if members is None else with_staged(tables, members)
    ready, missing, _ = resolve_inputs(job.edges, epoch, known, reading.head.csn, behind=behind)
    missing += [] if members is None else members.missing(ready, tables)
    gone = expired_inputs(ready, tables, retention)
    resolving = Resolving(
        domain=domain,
        job=job.name,
        interval=epoch,
        outputs=job.outputs,
        edges=job.edges,
        csn=reading.head.csn,
    )
    told = with_way_out(reader, resolving, missing, tables)
    waiting = tuple(map(str, told))
    span = f"{epoch.start.isoformat()}/{epoch.end.isoformat()}"
    skip = f"`airflow epochs skip {quote(job.name)} {span} --reason …`"
    if gone:
        lost = (f"{read.table}: what it had at {read.high.isoformat()} is expired" for read in gone)
        waiting = (*lost, *waiting)
        step = f"{skip}: what it would read was taken back by retention."
    elif waiting:
        step = f"run or repair the jobs that write these tables; if their data never comes, {skip}."
        ways_out = [need.way_out for need in told if need.way_out]
        step = f"{'; '.join(dict.fromkeys(ways_out))}." if ways_out else step
    elif epoch.end > reading.now:
        waiting = (f"time: it ends at {epoch.end.isoformat()}",)
        step = "nothing: it is not due yet."
    else:
        step = f"run the task of job {job.name!r} for it; its inputs are ready."
    return Explanation(
        domain=domain,
        job=job.name,
        interval=epoch,
        state=EpochState.NOTHING,
        revision=None,
        csn=None,
        summary="not begun",
        waiting_for=waiting,
        next_step=step,
        log=(),
        brought_by=tuple(bringers(reader, domain, [need.table for need in missing])),
    )


def _begun(
    job: JobRecord,
    stamped: Stamped[EpochRecord],
    lock: Stamped[LockRecord] | None,
    now: datetime,
    log: tuple[Stamped[AttemptEvent], ...],
) -> Explanation:
    epoch = stamped.record
    waiting: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    places: tuple[str, ...] = ()
    restating = epoch.attempt.restated_by if epoch.attempt is not None else None
    done = epoch.committed
    # A first revision within the barrier of a group is an attempt like others until it is staged.
    if epoch.attempt is None or (restating is not None and done is not None):
        state, revision = (done.state, done.revision) if done else (EpochState.NOTHING, None)
        summary = f"committed by {done.owner if done else 'no attempt'}"
        step = "nothing to do."
        if done is not None and done.skipped:
            summary = f"skipped by {done.owner}: {done.skipped}"
            step = "nothing, or run the task of the job for it after all: that makes the next revision."
            if done.fills:
                summary += f" (for {', '.join(done.fills)})"
                step += " It is refused where another job has computed the epoch for other tables."
        if restating is not None:
            summary += f"; restatement {restating!r} computes it again, visible once that is published"
            step = f"`airflow epochs restate status {quote(restating)}` shows how far it is."
    else:
        revision = epoch.attempt.revision
        sinks = [table.name for table in job.outputs]
        state = epoch_state([event.record for event in log], sinks, epoch.attempt)
        alive = lock is not None and not has_expired(lock.at, lock.record.ttl, now)
        until = (lock.at + lock.record.ttl).isoformat() if lock is not None else ""
        if state is EpochState.CHECK_FAILED:
            records = [event.record for event in log]
            findings = next((event.findings for event in reversed(records) if event.findings), ())
            places = kept_places(records, epoch.attempt.token)
            summary = f"check failed: {epoch.attempt.aborted}"
            step = "look at the rows that are kept; then mend the job, its data or the check, and clear the task."
        elif state is EpochState.ABORTED:
            summary, step = f"aborted: {epoch.attempt.aborted}", "repair the cause and run the task again."
        elif alive:
            summary, step = f"computed by {epoch.attempt.owner}", "wait for that attempt."
            waiting = (f"attempt of {epoch.attempt.owner}, alive until {until} at least",)
        else:
            summary = f"the attempt of {epoch.attempt.owner} is silent since {until or 'it ended'}"
            step = "run the task again: the next attempt takes over."
    return Explanation(
        domain=stamped.key.domain,
        job=job.name,
        interval=epoch.interval,
        state=state,
        revision=revision,
        csn=committed_csn(stamped),
        summary=summary,
        waiting_for=waiting,
        next_step=step,
        log=log,
        findings=findings,
        places=places,
        owner=epoch.attempt.owner if epoch.attempt is not None and epoch.attempt.aborted is None else None,
    )


def watermarks(reader: MetadataReader, domain: str) -> dict[str, datetime | None]:
    """Return the watermark of every table of *domain* at its head."""
    name = domain_name(domain)
    found = {}
    reading = reader.read(name, [])
    for stamped in scan(reader, name, TableRecord):
        moved = as_of(stamped, reading.head.csn) or as_of(stamped, stamped.csn or 0)
        found[stamped.key.item] = moved.watermark if moved else None
    return found
