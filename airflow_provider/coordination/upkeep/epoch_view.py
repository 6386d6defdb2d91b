"""All that the store has of one epoch: what ``airflow epochs show`` prints. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from shlex import quote

from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.commits.slices import newest_slice
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.attempt_state import epoch_state
from airflow_provider.domain.checks import Finding
from airflow_provider.domain.epoch import (
    AttemptEvent,
    AttemptRecord,
    Commitment,
    EpochState,
    Provenance,
    committed_csn,
    has_expired,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import NotReady, UnknownName
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name, job_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, fence_of, job_key, lock_of, slice_writer, source_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceBounds
from airflow_provider.stores.base import MetadataReader, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownAttempt:
    """An attempt at the epoch, as its log tells it.

    :param state: in which it ended; OPEN or PRECOMMIT while it has not; NOTHING if a newer attempt has replaced it.
    :param ended: time of its end, or of its last entry; None while it has not ended.
    :param log: its entries, oldest first. :param findings: of the checks that refused its output.
    :param is_silent: it has not ended, and its lock has expired.
    :param is_staged: its output waits for the publish of a restatement, or of its group.
    """

    token: int
    owner: Owner
    state: EpochState
    begun: datetime
    ended: datetime | None
    log: tuple[Stamped[AttemptEvent], ...]
    findings: tuple[Finding, ...] = ()
    is_silent: bool = False
    is_staged: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownSlice:
    """The slice that a table has of the epoch. :param job: that has computed it."""

    table: TableName
    job: JobName
    revision: int
    csn: int
    at: datetime
    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownEpoch:
    """One epoch.

    :param committed: the newest committed revision. :param csn: of its commit.
    :param inputs: of the open attempt, or of the commit. :param sources: likewise, with their bounds.
    :param checks: that the job declares. :param attempts: oldest first.
    """

    domain: DomainName
    job: JobName
    interval: Interval
    at: datetime
    committed: Commitment | None
    csn: int | None
    inputs: tuple[Provenance, ...]
    sources: tuple[SourceBounds, ...]
    checks: tuple[str, ...]
    slices: tuple[ShownSlice, ...]
    attempts: tuple[ShownAttempt, ...]


def shown_epoch(reader: MetadataReader, domain: str, job: str, interval: Interval) -> ShownEpoch:
    """Return all that the store has of the epoch *interval* of *job*.

    :raises UnknownName: no such job in the domain. :raises NotReady: the epoch has not begun.
    :raises StoreUnavailable: the store did not answer for longer than readers wait (``read_timeout``).
    """
    reader, epoch = retrying_reader(reader), EpochId(domain_name(domain), job_name(job), interval)
    own, fence, lock = job_key(epoch.domain, epoch.job), fence_of(epoch), lock_of(epoch)
    reading = reader.read(epoch.domain, [own, fence, lock])
    declared, stamped = reading.get(own), reading.get(fence)
    if declared is None:
        raise UnknownName.of_job(job, domain)
    if stamped is None:
        missing = Missing(name=f"{job} {interval}", wanted=interval.end, reason="it has not begun")
        step = f"see `airflow epochs explain {quote(job)} {interval.start.isoformat()}/{interval.end.isoformat()}`."
        raise NotReady.of_tables((missing,), next_step=step)
    record, newest = stamped.record, stamped.record.attempt
    work = record.committed if newest is None or newest.aborted is not None else newest
    return ShownEpoch(
        domain=epoch.domain,
        job=epoch.job,
        interval=record.interval,
        at=reading.now,
        committed=record.committed,
        csn=committed_csn(stamped),
        inputs=() if work is None else work.inputs,
        sources=_sources(reader, epoch, declared.record, work),
        checks=tuple(str(check) for check in declared.record.checks),
        slices=tuple(_slices(reader, epoch, declared.record)),
        attempts=tuple(_attempts(reader, epoch, declared.record, newest, reading)),
    )


def _sources(
    reader: MetadataReader, epoch: EpochId, job: JobRecord, work: AttemptRecord | Commitment | None
) -> tuple[SourceBounds, ...]:
    """Return the bounds that an attempt reads, or that a commit has read, with their files."""
    if work is None:
        return ()
    if isinstance(work, AttemptRecord):
        revisions = {bounds.source: bounds.revision for bounds in work.sources}
    else:
        revisions = {source: work.revision_of(source) for source in job.all_sources}
    end = epoch.interval.end
    keys = [source_key(epoch.domain, name, end, revision) for name, revision in revisions.items() if revision]
    reading = reader.read(epoch.domain, keys)
    return tuple(stamped.record.whole for stamped in map(reading.get, keys) if stamped is not None)


def _slices(reader: MetadataReader, epoch: EpochId, job: JobRecord) -> Sequence[ShownSlice]:
    """Return the newest slice that each table of the job has of the epoch."""
    found = []
    for table in job.all_outputs:
        newest = newest_slice(reader, epoch.domain, table, epoch.interval.start)
        if newest is not None:
            record = newest.record
            found.append(
                ShownSlice(
                    table=table,
                    job=slice_writer(newest.key),
                    revision=record.revision,
                    csn=newest.csn or 0,
                    at=newest.at,
                    rows=record.rows,
                    files=record.files,
                    size_bytes=record.size_bytes,
                )
            )
    return found


def _attempts(
    reader: MetadataReader, epoch: EpochId, job: JobRecord, newest: AttemptRecord | None, reading: Reading
) -> Sequence[ShownAttempt]:
    lock, found = reading.get(lock_of(epoch)), []
    log = sorted(state_log(reader, epoch), key=_order)
    sinks = [table.name for table in job.outputs]
    for token, entries in groupby(log, key=lambda event: event.record.token):
        own = tuple(entries)
        last = own[-1]
        ends = [event for event in own if event.record.state in _ENDS and not event.record.sink]
        over = ends[-1] if ends else None
        state = EpochState.NOTHING if over is None else over.record.state
        is_open = over is None and newest is not None and newest.token == token
        if is_open and newest is not None:
            state = epoch_state([event.record for event in log], sinks, newest)
        alive = lock is not None and not has_expired(lock.at, lock.record.ttl, reading.now)
        staged = newest is not None and newest.staged
        found.append(
            ShownAttempt(
                token=token,
                owner=own[0].record.owner,
                state=state,
                begun=own[0].at,
                ended=None if is_open else (over or last).at,
                log=own,
                findings=next((event.record.findings for event in own if event.record.findings), ()),
                is_silent=is_open and not alive and not staged,
                is_staged=is_open and staged,
            )
        )
    return found


_ENDS = (
    EpochState.COMMIT,
    EpochState.SKIPPED,
    EpochState.ABORTED,
    EpochState.CHECK_FAILED,
    EpochState.ROLLED_BACK,
)
"""States in which an attempt ends; after its commit it may be rolled back."""
_RANKS = {EpochState.OPEN: 0, EpochState.PROCESSED: 1, EpochState.WRITTEN: 2, EpochState.CHECKED: 4}


def _order(event: Stamped[AttemptEvent]) -> tuple[int, datetime, int]:
    """Return the sort key of an entry; entries of one moment are in the order in which an attempt makes them."""
    entry = event.record
    rank = _RANKS.get(entry.state, 5)
    return entry.token, event.at, rank + (entry.state is EpochState.WRITTEN and not entry.sink)
