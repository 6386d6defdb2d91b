"""Ending an open attempt by hand: another process gives it the end that its own program would give it (R10).

Its program learns of it at its next heartbeat, read or write, or when it publishes: then it is fenced.
"""

from __future__ import annotations

from shlex import quote

from airflow_provider.coordination.attempts.end import abort
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.resume import attempt_of
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.commits.source_dependents import whole_sources
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.skip import require_text
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt, EpochRecord
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, fence_of, lock_of
from airflow_provider.stores.base import MetadataReader


def open_attempt(reader: MetadataReader, domain: str, job: str, interval: Interval) -> Attempt:
    """Return the attempt at an epoch that has not ended, silent ones included.

    :raises UnknownName: no such job in the domain.
    :raises InvalidInput: none is open, or its output is staged and waits for a restatement.
    """
    record = registered(reader, domain, job)
    epoch = EpochId(domain_name(domain), record.name, interval)
    fence, lock = fence_of(epoch), lock_of(epoch)
    reading = reader.read(epoch.domain, [fence, lock])
    stamped, locked = reading.get(fence), reading.get(lock)
    newest = None if stamped is None else stamped.record.attempt
    if stamped is None or newest is None or newest.aborted is not None:
        raise _none_open(epoch, stamped)
    if newest.staged:
        raise InvalidInput(
            f"{epoch.job} {epoch.interval} is staged, and waits for restatement {newest.restatement!r}.",
            next_step=f"`airflow epochs restate abandon {quote(newest.restatement or '')} --reason …` ends all of its "
            "epochs.",
            field="interval",
            value=str(epoch.interval),
            expected="an epoch whose attempt has not ended",
        )
    return attempt_of(
        JobDeclaration.of(record).job(),
        stamped.record.interval,
        newest,
        whole_sources(reader, epoch, newest.sources),
        incarnation=reading.head.incarnation,
        fence=stamped.version,
        ttl=DEFAULTS.lock_ttl if locked is None else locked.record.ttl,
    )


def _none_open(epoch: EpochId, stamped: Stamped[EpochRecord] | None) -> InvalidInput:
    record = None if stamped is None else stamped.record
    found = "has not begun"
    if record is not None and record.attempt is not None:
        found = f"has ended: {record.attempt.aborted}"
    elif record is not None and record.committed is not None:
        found = "is committed"
    span = f"{epoch.interval.start.isoformat()}/{epoch.interval.end.isoformat()}"
    return InvalidInput(
        f"{epoch.job} {epoch.interval} {found}: no attempt at it is open.",
        next_step=f"see `airflow epochs locks`, or `airflow epochs explain {quote(epoch.job)} {span}`.",
        field="interval",
        value=str(epoch.interval),
        expected="an epoch whose attempt has not ended",
    )


def end_attempt(context: Context, attempt: Attempt, *, reason: str, by: str) -> None:
    """End *attempt* without a commit, delete its staged output, and give back what it has bound, as its program would.

    Its record, which every change of the attempt requires, changes first: whatever its program does afterwards is
    refused, and what it still writes is an orphan. May be repeated.

    :param attempt: of :func:`open_attempt`: no later one is ended.
    :raises Fenced: it has published, has ended otherwise, or a newer attempt exists; nothing was changed.
    """
    require_text(reason=reason, by=by)
    why = f"{reason.strip()} ({by.strip()})"
    abort(context, attempt, why)
    key = fence_of(attempt)
    stamped = context.store.read(attempt.domain, [key]).get(key)
    newest = None if stamped is None else stamped.record.attempt
    if newest is None or newest.token != attempt.token or newest.aborted != why:
        raise fenced(context.store, attempt)
