"""Staging: the end of an attempt within a restatement, which is published with the other members (R28)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider.coordination.attempts.check import check, refuse_unchecked
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.join import unjoined
from airflow_provider.coordination.attempts.member import (
    commit_event_key,
    open_epoch,
    refuse_unknown,
    whole_output,
)
from airflow_provider.coordination.attempts.state_log import (
    checked_key,
    completed_key,
    state_log,
    written_keys,
)
from airflow_provider.coordination.context import Context
from airflow_provider.domain.attempt_events import completed
from airflow_provider.domain.epoch import AlreadyStaged, Attempt, AttemptEvent, AttemptRecord, committed_csn
from airflow_provider.domain.errors import Conflict, InvalidInput
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.records import Key, Stamped, fence_of, lock_of, restatement_key
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.stores.base import Delete, Put, Reading, SameStore, Transaction, unchanged


def stage(context: Context, attempt: Attempt) -> AlreadyStaged:
    """End *attempt*, whose output is complete, and keep the output until its restatement is published or abandoned.

    Nothing renews its lock any more, and none is needed: only another attempt within the restatement replaces it.

    :raises CheckFailed: one of the job's checks refused the output (R14).
    :raises InvalidInput: it is within no restatement, or not all of its output is WRITTEN and complete.
    :raises Fenced: a newer attempt exists.
    """
    return stage_within(context, attempt)[0]


def stage_within(context: Context, attempt: Attempt) -> tuple[AlreadyStaged, Stamped[RestatementRecord]]:
    """Do as :func:`stage`; return beside it the record of the restatement, as it was before."""
    if attempt.restatement is None:
        raise InvalidInput(
            field="attempt",
            value=str(attempt),
            expected="an attempt within a restatement",
            next_step="publish it.",
        )
    check(context, attempt)
    lost = Conflict.of_others(str(attempt), "changing the epoch", job=attempt.job)
    return context.retry(_Stage(context, attempt, attempt.restatement).run, lost)


@dataclass(frozen=True, slots=True)
class _Stage:
    """One request to stage; ``run`` may be repeated with the same answer."""

    context: Context
    attempt: Attempt
    restatement: RestatementId

    def run(self) -> tuple[AlreadyStaged, Stamped[RestatementRecord]]:
        """:raises RequirementFailed: a participant was begun again: decide again."""
        store, attempt = self.context.store, self.attempt
        fence, published = fence_of(attempt), commit_event_key(attempt)
        within = restatement_key(attempt.domain, self.restatement)
        reading = store.read(attempt.domain, [fence, lock_of(attempt), published, within, *self._reports])
        refuse_unknown(store, attempt, reading)
        answer = self._answer, reading.of(within)
        known = reading.of(fence).record.attempt
        if reading.get(published) is not None:  # by others, after a lost reply
            return answer
        if known is None or known.token != attempt.token or known.restated_by != self.restatement:
            raise fenced(store, attempt)
        if not known.staged:
            self._store(reading)
        return answer

    @property
    def _reports(self) -> list[Key[AttemptEvent]]:
        """Keys of all reports of the only writer, but for those of output that it has adopted."""
        attempt = self.attempt
        token = attempt.token
        return [*written_keys(attempt, token), completed_key(attempt), checked_key(attempt, token)]

    def _log(self, record: AttemptRecord, reading: Reading) -> list[AttemptEvent]:
        if self.attempt.is_shared or record.adopts is not None:
            return [entry.record for entry in state_log(self.context.store, self.attempt)]
        return [reading.of(key).record for key in self._reports if key in reading.records]

    @property
    def _answer(self) -> AlreadyStaged:
        name = self.attempt
        return AlreadyStaged(
            name.domain, name.job, name.interval, name.revision, restatement=self.restatement
        )

    def _store(self, reading: Reading) -> None:
        store, attempt = self.context.store, self.attempt
        epoch, record = open_epoch(store, attempt, reading)
        log = self._log(record, reading)
        whole_output(attempt, record, log)
        refuse_unchecked(store, attempt, reading, record)
        if not completed(log, record.output_token):
            raise InvalidInput(
                f"{attempt}: its code has not come to its end.",
                next_step="call complete before stage.",
                field="attempt",
                value=str(attempt),
                expected="complete output",
            )
        now = replace(epoch.record, attempt=replace(record, staged=True), committed_csn=committed_csn(epoch))
        store.transact(
            Transaction(
                domain=attempt.domain,
                store=SameStore(attempt.incarnation),
                requires=(unchanged(reading, fence_of(attempt)), *unjoined(attempt, log)),
                updates=(Put(fence_of(attempt), now), Delete(lock_of(attempt))),
            )
        )
