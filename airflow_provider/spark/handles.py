"""Handles: a short text for each participant of an epoch, to pass to another thread, process or host, or by XCom.

A handle names the attempt and the participant's number. It holds no data, no address and no secret: the participant
reads everything else from the metadata store.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

import msgspec

from airflow_provider.coordination.attempts.resume import Begun
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.domain.identifiers import domain_name, job_name, restatement_id
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job
from airflow_provider.spark.launch_spec import require_format
from airflow_provider.stores.declarations import encoded

FORMAT = 3
_DIGEST_LENGTH = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Handle:
    """One participant's part of an attempt, or of an epoch that was committed or staged already and needs none."""

    begun: Begun
    declaration: str
    participant: int

    def __str__(self) -> str:
        begun = self.begun
        message = _Message(
            format=FORMAT,
            domain=begun.domain,
            job=begun.job,
            start=begun.interval.start,
            end=begun.interval.end,
            revision=begun.revision,
            token=begun.token,
            incarnation=begun.incarnation,
            csn=begun.csn,
            staged=begun.staged,
            declaration=self.declaration,
            participant=self.participant,
        )
        return msgspec.json.encode(message).decode()


def handles(job: Job, answer: Attempt | AlreadyCommitted | AlreadyStaged, participants: int) -> list[str]:
    """Return the text of each participant's handle.

    :param answer: the answer of begin for *job*.
    """
    begun, declaration = Begun.of(answer), declaration_digest(job)
    return [
        str(Handle(begun=begun, declaration=declaration, participant=number))
        for number in range(participants)
    ]


def handle_of(text: object, job: Job) -> Handle:
    """Parse the handle of one participant of *job*.

    :raises InvalidInput: *text* is no handle, or one of another job or of another declaration of this job.
    :raises StoreIncompatible: another version of the package made it.
    """
    try:
        handle = _decoded(text.encode() if isinstance(text, str) else b"")
    except (msgspec.MsgspecError, UnicodeEncodeError, InvalidInput) as error:
        raise _no_handle(text) from error
    if (handle.begun.domain, handle.begun.job) != (job.domain, job.name):
        raise InvalidInput(
            field="job",
            value=f"{job.domain}/{job.name}",
            expected=f"{handle.begun.domain}/{handle.begun.job}, whose epoch the handle is of",
            next_step="give the participants the job that the epoch was begun for.",
        )
    if handle.declaration != declaration_digest(job):
        raise InvalidInput(
            f"{handle.begun}: job {job.name!r} is declared otherwise than when the epoch was begun.",
            next_step="begin the epoch again, with the new declaration.",
            field="job",
            value=declaration_digest(job),
            expected=handle.declaration,
        )
    return handle


def declaration_digest(job: Job) -> str:
    """Return a short digest of *job*, by which a participant checks that it has the same declaration."""
    return sha256(encoded(job)).hexdigest()[:_DIGEST_LENGTH]


def _decoded(content: bytes) -> Handle:
    require_format(content, FORMAT, what="a handle", where="wherever participants run")
    message = msgspec.json.decode(content, type=_Message)
    begun = Begun(
        domain_name(message.domain),
        job_name(message.job),
        Interval(message.start, message.end),
        message.revision,
        message.token,
        incarnation=message.incarnation,
        csn=message.csn,
        staged=None if message.staged is None else restatement_id(message.staged),
    )
    return Handle(begun=begun, declaration=message.declaration, participant=message.participant)


def _no_handle(text: object) -> InvalidInput:
    return InvalidInput(
        field="handle",
        value=shown(text),
        expected="one of the texts that the begun epoch has for its participants",
        next_step="give each participant one of epoch.handles; in a DAG, compute.expand(epoch=begin.output).",
    )


class _Message(msgspec.Struct):
    format: int
    domain: str
    job: str
    start: datetime
    end: datetime
    revision: int
    token: int
    incarnation: str
    csn: int | None
    staged: str | None
    declaration: str
    participant: int
