"""Members of a restatement that has ended without a commit: their attempts end, and their output is deleted (R28)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider.coordination.attempts.end import abort
from airflow_provider.coordination.attempts.resume import attempt_of
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.coordination.upkeep.bounds_back import bring_bounds_back
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.errors import Conflict, Fenced
from airflow_provider.domain.identifiers import DomainName, RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, fence_of, job_key, restatement_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord, RestatementState, is_over
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import Exists, MetadataReader, Put, Reading, SameStore, Transaction

_PAGE = 500


def end_members(context: Context, domain: DomainName, name: RestatementId, record: RestatementRecord) -> None:
    """End the attempts of all members of the abandoned restatement *name*; may be repeated after an interruption.

    A group's barrier may be opened anew while a slow process is still here: another has ended all members by then, and
    what they hold belongs to the new run of the barrier, which is left alone.
    """
    reader, why = _reader(context), f"restatement {name} was abandoned"
    lost = Conflict.of_others(f"restatement {name!r}", "changing its epochs")
    for epochs in record.members:
        stamped = reader.read(domain, [key := job_key(domain, epochs.job)]).get(key)
        if stamped is None:
            continue  # a job of a group that has never run, or that was dropped since another process has ended them
        known = stamped.record
        job = JobDeclaration.of(known).job()
        for interval in _held(reader, job, epochs.intervals, name):
            context.retry(lambda job=job, interval=interval: _end(context, job, interval, name), lost)  # type: ignore[misc]
        bring_bounds_back(context, known, epochs.intervals, why)
    context.retry(lambda: _forget(context, domain, name), lost)


def end_left_over(context: Context, domain: DomainName) -> list[str]:
    """End the restatements whose time is over, and those whose abandoning was interrupted; return their names."""
    reader = _reader(context)
    reading = reader.read(domain, [key := topology_key(domain)])
    topology = reading.get(key)
    ended = []
    for name in () if topology is None else topology.record.restating:
        lost = Conflict.of_others(f"restatement {name!r}", "changing it")
        record = context.retry(lambda name=name: _abandoned(context, domain, name), lost)  # type: ignore[misc]
        if record is not None:
            end_members(context, domain, name, record)
            ended.append(f"restatement {name}")
    return ended


def _abandoned(context: Context, domain: DomainName, name: RestatementId) -> RestatementRecord | None:
    """Return the record of a restatement that is over, marked as abandoned; None for one that is not over."""
    key = restatement_key(domain, name)
    reading = context.store.read(domain, [key])
    stamped = reading.of(key)
    record: RestatementRecord = stamped.record
    if not is_over(record, incarnation=reading.head.incarnation, now=reading.now):
        return None
    if record.state is not RestatementState.OPEN:
        return record if record.state is RestatementState.ABANDONED else None
    record = replace(record, state=RestatementState.ABANDONED, ended="its time was over")
    context.store.transact(
        Transaction(
            domain=domain,
            store=SameStore(reading.head.incarnation),
            requires=(Exists(key, stamped.version),),
            updates=(Put(key, record),),
        )
    )
    return record


def _held(
    reader: MetadataReader, job: Job, intervals: Sequence[Interval], name: RestatementId
) -> Iterator[Interval]:
    """Yield those of *intervals* whose newest attempt is of *name*; of most members none has begun when it ends early.

    Asked page by page: the restatement's record, which names all members, is read again for each that is ended.
    """
    for start in range(0, len(intervals), _PAGE):
        keys = {fence_of(job.epoch(interval)): interval for interval in intervals[start : start + _PAGE]}
        reading = reader.read(job.domain, list(keys))
        for key, interval in keys.items():
            stamped = reading.get(key)
            attempt = None if stamped is None else stamped.record.attempt
            if attempt is not None and attempt.restatement == name:
                yield interval


def _end(context: Context, job: Job, interval: Interval, name: RestatementId) -> None:
    """End the attempt at one member; idempotent, also after the attempt has ended.

    An attempt that is read beside the abandoned record is ended before the barrier is opened anew: its token is enough.

    :raises ReadAgain: it was staged, or begun again, meanwhile.
    """
    key, ended = fence_of(job.epoch(interval)), restatement_key(job.domain, name)
    reading = context.store.read(job.domain, [key, ended])
    stamped = reading.get(key)
    record = stamped.record.attempt if stamped else None
    if stamped is None or record is None or record.restatement != name or _was_opened_anew(reading, ended):
        return
    attempt = attempt_of(
        job,
        stamped.record.interval,
        record,
        record.sources,
        incarnation=reading.head.incarnation,
        fence=stamped.version,
        ttl=context.defaults.lock_ttl,
    )
    try:
        abort(context, attempt, f"restatement {name} was abandoned", staged=True)
    except Fenced as error:
        raise ReadAgain from error


def _forget(context: Context, domain: DomainName, name: RestatementId) -> None:
    """Take *name* out of the domain's record: nothing of the restatement is left."""
    key, ended = topology_key(domain), restatement_key(domain, name)
    reading = context.store.read(domain, [key, ended])
    topology = reading.of(key)
    # Opening it anew writes the domain's record, too: the required version tells the two apart.
    if name not in topology.record.restating or _was_opened_anew(reading, ended):
        return
    context.store.transact(
        Transaction(
            domain=domain,
            store=SameStore(reading.head.incarnation),
            requires=(Exists(key, topology.version),),
            updates=(Put(key, topology.record.without(name)),),
        )
    )


def _was_opened_anew(reading: Reading, key: Key[RestatementRecord]) -> bool:
    """Return whether the abandoned barrier was opened anew."""
    stamped = reading.get(key)
    return stamped is not None and stamped.record.state is not RestatementState.ABANDONED


def _reader(context: Context) -> MetadataReader:
    return retrying_reader(
        context.store, clock=context.clock, random=context.random, defaults=context.defaults
    )
