"""The end of an attempt without a commit: aborted, or ended by a failed check."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider.coordination.attempts import staging
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.give_back import give_back
from airflow_provider.coordination.attempts.join import overtaken, refuse_alone, tries
from airflow_provider.coordination.attempts.state_log import state_log
from airflow_provider.coordination.context import Context
from airflow_provider.domain.checks import Finding
from airflow_provider.domain.epoch import (
    Attempt,
    AttemptEvent,
    EpochState,
    LockRecord,
    committed_csn,
)
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.records import Kind, Stamped, entry_key, fence_of, lock_of
from airflow_provider.stores.base import (
    Absent,
    Delete,
    Exists,
    MetadataStore,
    Put,
    RequirementFailed,
    SameStore,
    Transaction,
)
from airflow_provider.tables.base import StagingLocation


def abort(context: Context, attempt: Attempt, reason: str, *, staged: bool = False) -> None:
    """End an attempt without a commit and delete its staged output; do nothing after its commit.

    After a failed check nothing is deleted either: the output stays for inspection (R14). The bounds that a run of a
    skipped epoch has recorded are given back, also after a failed check.

    :param staged: end it also if it is staged, which only the end of its restatement does.
    :raises Fenced: a newer attempt exists; it has ended this one already.
    """
    refuse_alone(attempt)
    if context.retry(End(context, attempt, reason, staged=staged).run):
        staging.roll_back(context.formats, context.retry(lambda: _places(context, attempt)))
    if attempt.sources:
        context.retry(lambda: give_back(context, attempt))


def _places(context: Context, attempt: Attempt) -> list[StagingLocation]:
    """Return all places of *attempt*, of every try of each participant."""
    writers = [attempt]
    if attempt.is_shared:
        log = state_log(context.store, attempt)
        found = tries((entry.record for entry in log), attempt.token)
        writers = [
            replace(attempt, participant=number, participant_attempt=participant_attempt)
            for number, participant_attempt in found
        ]
    return [staging.place(context.formats, writer, sink.name) for writer in writers for sink in attempt.sinks]


@dataclass(frozen=True, slots=True)
class End:
    """One request to end an attempt; ``run`` may be repeated.

    :param findings: of failed checks; empty for an abort (R14).
    :param without: newer tries of participants, required to be absent: they replace the checked output (R10).
    :param staged: see :func:`abort`.
    """

    context: Context
    attempt: Attempt
    reason: str
    findings: tuple[Finding, ...] = ()
    without: tuple[Absent, ...] = ()
    staged: bool = False

    def run(self) -> bool:
        """End the attempt; return whether its staged output may be deleted.

        :raises Fenced: a newer attempt exists, which has ended this one already; or this one ended before its findings
            were recorded.
        :raises Conflict: a participant was begun again before the findings were recorded.
        """
        attempt, store = self.attempt, self.context.store
        key = fence_of(attempt)
        lock = lock_of(attempt)
        reading = store.read(attempt.domain, [key])
        epoch = reading.get(key)
        if (
            epoch is None
            or epoch.record.token != attempt.token
            or reading.head.incarnation != attempt.incarnation
        ):
            raise fenced(self.context.store, attempt)
        newest = epoch.record.attempt
        if newest is None or newest.aborted is not None:
            if self.findings and not (newest is not None and newest.check_failed):
                raise fenced(self.context.store, attempt)
            return newest is not None and not newest.check_failed
        if newest.staged and not self.staged:
            return False
        ended = replace(newest, aborted=self.reason, check_failed=bool(self.findings))
        log = AttemptEvent(
            state=ended.end,
            sink="",
            token=attempt.token,
            participant=0,
            owner=attempt.owner,
            note=self.reason,
            findings=self.findings,
        )
        now = replace(epoch.record, attempt=ended, committed_csn=committed_csn(epoch))
        try:
            store.transact(
                Transaction(
                    domain=attempt.domain,
                    store=SameStore(attempt.incarnation),
                    requires=(Exists(key, epoch.version), *self.without),
                    updates=(Put(key, now), Put(entry_key(attempt, log), log), Delete(lock)),
                )
            )
        except RequirementFailed as error:
            raise overtaken(self.context.store, attempt, self.without) from error
        return not self.findings


def fence_silent(store: MetadataStore, lock: Stamped[LockRecord], reason: str) -> None:
    """End the attempt of *lock*: should it wake up, it is fenced.

    :raises RequirementFailed: the attempt was not silent.
    """
    domain, key = lock.key.domain, lock.key._replace(kind=Kind.EPOCH)
    reading = store.read(domain, [key])
    epoch = reading.get(key)
    updates: list[Put | Delete] = [Delete(lock.key)]
    # A heartbeat writes the lock anew: this version is the proof that the attempt has been silent.
    requires = [Exists(lock.key, lock.version)]
    if epoch is not None and epoch.record.attempt is not None:
        left = epoch.record.attempt
        ended = replace(
            epoch.record,
            attempt=replace(left, aborted=left.aborted or reason),
            committed_csn=committed_csn(epoch),
        )
        log = AttemptEvent(
            state=EpochState.ABORTED, sink="", token=left.token, participant=0, owner=left.owner, note=reason
        )
        name = EpochId(domain, JobName(key.partition), epoch.record.interval)
        requires.append(Exists(key, epoch.version))
        updates += [Put(key, ended), Put(entry_key(name, log), log)]
    try:
        store.transact(
            Transaction(
                domain=domain,
                store=SameStore(reading.head.incarnation),
                requires=tuple(requires),
                updates=tuple(updates),
            )
        )
    except RequirementFailed:
        # Without a lock the attempt has ended or published meanwhile: there is nothing to fence.
        if store.read(domain, [lock.key]).get(lock.key) is not None:
            raise
