"""The end of an attempt without a commit: aborted, or vetoed by a check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider.domain.checks import Finding
from airflow_provider.domain.epoch import Attempt, BarrierRecord, committed_csn
from airflow_provider.domain.records import barrier_key, epoch_key, lock_key
from airflow_provider.stores.base import Delete, Exists, Put, RequirementFailed, SameStore, Transaction

if TYPE_CHECKING:
    from airflow_provider.coordination.coordinator import Coordinator


@dataclass(frozen=True, slots=True)
class End:
    """One request to end an attempt; ``run`` may be repeated.

    :param findings: of the checks that refused its output: then it is vetoed (R14).
    """

    coordinator: Coordinator
    attempt: Attempt
    reason: str
    findings: tuple[Finding, ...] = ()

    def run(self) -> bool:
        """End the attempt; return whether its staged output may be deleted.

        :raises Fenced: a newer attempt exists; it has ended this one already.
        """
        attempt, store = self.attempt, self.coordinator.store
        key = epoch_key(attempt.domain, attempt.job, attempt.interval.start)
        lock = lock_key(attempt.domain, attempt.job, attempt.interval.start)
        reading = store.read(attempt.domain, [key])
        epoch = reading.get(key)
        if (
            epoch is None
            or epoch.record.token != attempt.token
            or reading.head.incarnation != attempt.incarnation
        ):
            raise self.coordinator.fenced(attempt)
        newest = epoch.record.attempt
        if newest is None or newest.aborted is not None:
            return newest is not None and not newest.vetoed
        ended = replace(newest, aborted=self.reason, vetoed=bool(self.findings))
        log = BarrierRecord(
            state=ended.end,
            sink="",
            token=attempt.token,
            participant=0,
            owner=attempt.owner,
            note=self.reason,
            findings=self.findings,
        )
        log_key = barrier_key(
            attempt.domain, attempt.job, attempt.interval.start, token=attempt.token, sink="", state=log.state
        )
        now = replace(epoch.record, attempt=ended, committed_csn=committed_csn(epoch))
        try:
            store.transact(
                Transaction(
                    domain=attempt.domain,
                    store=SameStore(attempt.incarnation),
                    requires=(Exists(key, epoch.version),),
                    updates=(Put(key, now), Put(log_key, log), Delete(lock)),
                )
            )
        except RequirementFailed as error:
            raise self.coordinator.fenced(attempt) from error
        return not self.findings
