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
from airflow_provider.coordination.attempts.state_log import checked_key, state_log
from airflow_provider.coordination.context import Context
from airflow_provider.domain.attempt_events import completed
from airflow_provider.domain.epoch import AlreadyStaged, Attempt, committed_csn
from airflow_provider.domain.errors import Conflict, InvalidInput
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.records import fence_of, lock_of
from airflow_provider.stores.base import Delete, Put, Reading, SameStore, Transaction, unchanged


def stage(context: Context, attempt: Attempt) -> AlreadyStaged:
    """End *attempt*, whose output is complete, and keep the output until its restatement is published or abandoned.

    Nothing renews its lock any more, and none is needed: only another attempt within the restatement replaces it.

    :raises CheckFailed: one of the job's checks refused the output (R14).
    :raises InvalidInput: it is within no restatement, or not all of its output is WRITTEN and complete.
    :raises Fenced: a newer attempt exists.
    """
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

    def run(self) -> AlreadyStaged:
        """:raises RequirementFailed: a participant was begun again: decide again."""
        store, attempt = self.context.store, self.attempt
        fence, lock = fence_of(attempt), lock_of(attempt)
        published = commit_event_key(attempt)
        reading = store.read(attempt.domain, [fence, lock, checked_key(attempt, attempt.token), published])
        refuse_unknown(store, attempt, reading)
        known = reading.of(fence).record.attempt
        if reading.get(published) is not None:  # by others, after a lost reply
            return self._answer
        if known is None or known.token != attempt.token or known.restated_by != self.restatement:
            raise fenced(store, attempt)
        if not known.staged:
            self._store(reading)
        return self._answer

    @property
    def _answer(self) -> AlreadyStaged:
        name = self.attempt
        return AlreadyStaged(
            name.domain, name.job, name.interval, name.revision, restatement=self.restatement
        )

    def _store(self, reading: Reading) -> None:
        store, attempt = self.context.store, self.attempt
        epoch, record = open_epoch(store, attempt, reading)
        log = [entry.record for entry in state_log(store, attempt)]
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
