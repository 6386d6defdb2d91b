"""Outcome of a task by the store's records of its epochs. They decide whether the task succeeded, not an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from shlex import quote
from typing import Any

from airflow_provider.coordination.attempts.fill import fills_of, keys_of_fill
from airflow_provider.coordination.attempts.state_log import own_commits, state_log
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.unread import ignored
from airflow_provider.domain.admission import computes_again
from airflow_provider.domain.attempt_events import completed, written_output
from airflow_provider.domain.behind import is_behind
from airflow_provider.domain.epoch import (
    AlreadyCommitted,
    Attempt,
    AttemptEvent,
    EpochRecord,
    Published,
    committed_csn,
)
from airflow_provider.domain.epoch_id import EpochId, RevisionId
from airflow_provider.domain.errors import EpochError, FinalError, InvalidInput
from airflow_provider.domain.group import epoch_of_group, publishes
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, fence_of
from airflow_provider.domain.restatement import ChangeSetKind, change_set_of_restatement
from airflow_provider.domain.source_bounds import Late
from airflow_provider.domain.topology import Job, OnRerun
from airflow_provider.domain.version import CommitRecord
from airflow_provider.hooks.compat import Stats
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, Reading, commit_key

IGNORED = "epochs.source.ignored_files"
"""Gauge: number of files within a source's ``late_window`` that ``late="ignore"`` leaves unread; tags ``domain`` and
``source``.
"""


def published_epochs(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], owner: Owner, *, by_group: bool = False
) -> list[Published]:
    """Return those of *epochs* that are committed for *owner*, by time.

    A commit for another owner or generation counts in two cases: the job keeps committed epochs, and the epoch was not
    skipped and lacks no table; or *owner* committed the epoch before the other one did.

    :param by_group: the commit of the job's group counts for any owner: its begin found the epoch staged.
    """
    reading, found = _read(reader, job, epochs)
    done = [
        stamped
        for stamped in found
        if (by_group and _is_of_group(job, stamped.record))
        or _fulfilled(reader, job, stamped, owner, stays=_stays(reading, job, stamped.record))
    ]
    csns = {stamped.key: committed_csn(stamped) or 0 for stamped in done}
    commits = reader.read(job.domain, [commit_key(job.domain, csn) for csn in set(csns.values())])
    here = reading.head.incarnation
    return sorted(
        (
            _published(
                job,
                stamped,
                csns[stamped.key],
                commits.of(commit_key(job.domain, csns[stamped.key])),
                here,
            )
            for stamped in done
        ),
        key=lambda epoch: epoch.interval,
    )


def unpublished_epochs(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], owner: Owner
) -> list[Interval]:
    """Return those of *epochs* that are not published for *owner*, by time: also those that are staged for a group.

    A begin leaves what is staged, unless its task was cleared or its inputs have changed since; and it publishes a
    group whose last job was interrupted.
    """
    done = {published.interval for published in published_epochs(reader, job, epochs, owner)}
    return [epoch for epoch in epochs if epoch not in done]


def staged_epochs(reader: MetadataReader, job: Job, epochs: Sequence[Interval]) -> list[Interval]:
    """Return those of *epochs* that wait for other jobs of their group: its commit brings them."""
    if job.group is None:
        return []
    found = _read(reader, job, epochs)[1]
    waits = ((stamped.record, stamped.record.attempt) for stamped in found)
    return sorted(
        record.interval
        for record, attempt in waits
        if attempt is not None
        and attempt.staged
        and attempt.restated_by
        and publishes(job.group, attempt.restated_by, record.interval)
    )


def outcome_of(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval], owner: Owner
) -> tuple[list[Published], list[Interval]]:
    """Return those of *epochs* that are published for *owner*, and those that wait for other jobs of their group.

    For a task that has computed what is to be computed. What is staged is read first: an epoch that its group publishes
    between the two reads is found published.
    """
    staged = staged_epochs(reader, job, epochs)
    published = published_epochs(reader, job, epochs, owner, by_group=True)
    done = {epoch.interval for epoch in published}
    return published, [epoch for epoch in staged if epoch not in done]


def kept_epochs(reader: MetadataReader, job: Job, epochs: Sequence[Interval], owner: Owner) -> list[Interval]:
    """Return those of *epochs* that another owner or generation has committed, and that the job keeps."""
    reading, found = _read(reader, job, epochs)
    records = [stamped.record for stamped in found if _stays(reading, job, stamped.record)]
    return sorted(record.interval for record in records if computes_again(record, owner))


def _read(
    reader: MetadataReader, job: Job, epochs: Sequence[Interval]
) -> tuple[Reading, list[Stamped[EpochRecord]]]:
    """Read the records of *epochs* and of the job's tables.

    :return: the reading, and the epochs' records that exist.
    """
    keys = {fence_of(job.epoch(epoch)): epoch for epoch in epochs}
    reading = reader.read(job.domain, [*keys, *keys_of_fill(job)])
    found = [(reading.get(key), epoch) for key, epoch in keys.items()]
    # A key holds the epoch's start only: after a change of the cadence its record may be of another interval.
    return reading, [
        stamped for stamped, epoch in found if stamped is not None and stamped.record.interval == epoch
    ]


def _stays(reading: Reading, job: Job, epoch: EpochRecord) -> bool:
    """Return whether the job keeps committed *epoch*: not if it was skipped, lacks a table (R7), or is behind."""
    if job.on_rerun is not OnRerun.KEEP or epoch.committed is None or epoch.committed.skipped:
        return False
    if is_behind(behind_of(reading, job.domain), job.name, epoch.interval):
        return False
    return not fills_of(reading, job, epoch, epoch.interval)


def tell_kept(log: Any, job: Job, kept: Sequence[Interval]) -> None:
    """Log the epochs that are not computed again, and the way to have them computed."""
    late = [source.name for source in job.sources if source.late is Late.REVISION]
    bind = f"; files that came late are read after `airflow epochs bind {quote(late[0])} …`" if late else ""
    if kept:
        log.warning(
            "Kept as committed, not computed again: %d epochs of %s, %s to %s. Job %r keeps what is committed "
            "(on_rerun='keep'); to compute them again declare on_rerun='new_revision' and clear this task%s.",
            len(kept), job.name, kept[0].start.isoformat(), kept[-1].end.isoformat(), str(job.name), bind,
        )  # fmt: skip


def tell_done(log: Any, job: Job, published: Sequence[Published], kept: Sequence[Interval]) -> None:
    """Log the epochs that an earlier try of the same run has committed. :param kept: those of other runs."""
    done = [epoch for epoch in published if epoch.interval not in kept]
    if done:
        log.info(
            "Committed by an earlier try of this run, not computed again: %d epochs of %s, the last one at CSN %d, %s. "
            "A run that was deleted and made again under the same id counts as the same one: clear its task to have "
            "them computed.",
            len(done), job.name, done[-1].csn, done[-1].at.isoformat(timespec="seconds"),
        )  # fmt: skip


def tell_ignored(log: Any, service: EpochService, job: Job, until: datetime) -> None:
    """Count the late files that the job's sources ignore, for a warning in the log and the gauge :data:`IGNORED`.

    A hint: the epochs are published already, and an error of a source is only logged.
    """
    source_readers = SourceReaders(service.connections)
    for source in job.sources:
        if source.late is not Late.IGNORE:
            continue
        try:
            found = ignored(service.store, job.domain, source, source_readers, until)
        except EpochError as error:
            log.warning("Source %s: late files were not counted: %s", source.name, error)
            continue
        Stats.gauge(IGNORED, len(found), tags={"domain": str(job.domain), "source": str(source.name)})
        if found:
            log.warning(
                "Source %s: %d files came late and are read by no epoch, as late='ignore' says, such as %s",
                source.name, len(found), found[0],
            )  # fmt: skip


def published_before(reader: MetadataReader, answer: AlreadyCommitted) -> Published:
    """Return the publication of an earlier try, whose reply was lost, or whose task ended before it announced it."""
    key = commit_key(answer.domain, answer.csn)
    reading = reader.read(answer.domain, [key])
    commit = reading.of(key)
    return Published.of(answer, answer.csn, commit.record.tables, commit.at, reading.head.incarnation)


def refuse_unpublished(
    job: Job, epochs: Sequence[Interval], published: Sequence[Published], program: str
) -> None:
    """Refuse the success of a program that left epochs out.

    :raises InvalidInput: *program* ended without an error, and epochs are not published; names them.
    """
    left = sorted(set(epochs) - {done.interval for done in published})
    if left:
        raise InvalidInput(
            f"{program} ended without an error and published {len(published)} of {len(epochs)} epochs of job "
            f"{job.name!r}; the first one missing is {left[0]}.",
            next_step="let it run every epoch of epoch_runs(), each in its own `with` block.",
            field="application",
            value=program,
            expected=f"{len(epochs)} epochs published",
            missing=tuple(map(str, left)),
        )


def is_complete(reader: MetadataReader, attempt: Attempt) -> bool:
    """Return whether every output of *attempt* is WRITTEN and its block has ended: then a later try may adopt it."""
    log = _log(reader, attempt)
    return not _unwritten(log, attempt) and completed(log, attempt.token)


def refuse_incomplete(reader: MetadataReader, attempt: Attempt, program: str) -> None:
    """Refuse the success of a program that left outputs, or the end of the epoch's block, out.

    :raises InvalidInput: *program* ended without an error, and *attempt* is not complete; names the outputs.
    """
    log = _log(reader, attempt)
    left = _unwritten(log, attempt)
    if left:
        raise InvalidInput(
            f"{program} ended without an error and has not written {', '.join(left)} of {attempt}.",
            next_step="call epoch.write for every declared output inside `with epoch_run() as epoch:`; "
            "an epoch without rows writes an empty DataFrame.",
            field="application",
            value=program,
            expected=f"all of {[str(sink.name) for sink in attempt.sinks]} written",
            missing=tuple(left),
        )
    if not completed(log, attempt.token):
        raise InvalidInput(
            f"{program} ended without an error and before the block of {attempt} did.",
            next_step="let `with epoch_run() as epoch:` end by itself; do not leave the program inside it.",
            field="application",
            value=program,
            expected="the end of the epoch's block",
        )


def _unwritten(log: Sequence[AttemptEvent], attempt: Attempt) -> list[str]:
    """Return the names of the outputs of *attempt* that are not WRITTEN."""
    names = [sink.name for sink in attempt.sinks]
    written = written_output(log, names, token=attempt.token, participants=attempt.participants)
    return [name for name in names if name not in written]


def _is_of_group(job: Job, epoch: EpochRecord) -> bool:
    """Return True if the group of *job* has committed *epoch*, of which there is no later revision."""
    if job.group is None or epoch.committed is None:
        return False
    name = epoch_of_group(job.group, epoch.interval)
    return epoch.committed.change_set == change_set_of_restatement(name, ChangeSetKind.GROUP)


def _fulfilled(
    reader: MetadataReader, job: Job, stamped: Stamped[EpochRecord], owner: Owner, *, stays: bool
) -> bool:
    committed = stamped.record.committed
    if committed is None:
        return False
    if stays or committed.owner.same_generation(owner):
        return True
    # A commit of this owner may have been followed by one of another: this task's own work is done all the same.
    return any(own_commits(reader, job.epoch(stamped.record.interval), stamped.record, owner))


def _log(reader: MetadataReader, epoch: EpochId) -> list[AttemptEvent]:
    return [stamped.record for stamped in state_log(reader, epoch)]


def _published(
    job: Job, stamped: Stamped[EpochRecord], csn: int, commit: Stamped[CommitRecord], incarnation: str
) -> Published:
    committed = stamped.record.committed
    if committed is None:
        raise FinalError(f"{stamped.key}: not committed.")
    name = RevisionId(job.domain, job.name, stamped.record.interval, committed.revision)
    return Published.of(name, csn, commit.record.tables, commit.at, incarnation)
