"""An epoch that several participants write: who begins and ends it, and each of them (R10)."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from airflow_provider.coordination.resuming import resume
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Owner
from airflow_provider.domain.errors import EpochError, Fenced, FinalError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import EpochJob, EpochTable
from airflow_provider.sources.roots import RootSources
from airflow_provider.spark import refusals
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.handles import Handle, handles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.cut import State
    from airflow_provider.tables.base import TableInfo

log = logging.getLogger(__name__)


class SharedRun(EpochRun):
    """The epoch as whoever began it holds it: its block's end checks and publishes what the participants wrote.

    :param lasts: whether the attempt outlives a block that ends with an error which another try may cure.
    """

    def __init__(
        self,
        service: EpochService,
        job: EpochJob,
        attempt: Attempt,
        *,
        spark: SparkSession | None = None,
        lasts: bool = False,
    ) -> None:
        super().__init__(service, job, attempt, spark=spark)
        self._lasts = lasts

    @property
    def handles(self) -> list[str]:
        """A short text for each participant, for :func:`~.epoch_run.epoch_participant`, there or in another process."""
        return handles(self.job, self.attempt, self.participants)

    def _once(self, table: str) -> NoReturn:
        """:raises InvalidInput: the participants write."""
        raise refusals.not_a_participant(self.attempt, table)

    def abandon(self, error: BaseException) -> None:
        """Abort the attempt because of *error*, unless it is left open for another try."""
        if self._lasts and not isinstance(error, FinalError):
            log.warning("%s is left open: %s", self.attempt, error)
            return
        super().abandon(error)

    def _check_complete(self) -> None:
        self._heartbeat.check()


class ParticipantRun(EpochRun):
    """The epoch as one of its participants holds it: the same inputs for each, and all outputs are written by each.

    The block's end says that this part is WRITTEN; an exception ends this try only, and the participant may begin
    again.

    :param owner: of this try.
    """

    def __init__(
        self,
        service: EpochService,
        job: EpochJob,
        attempt: Attempt,
        owner: Owner,
        *,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(service, job, attempt, spark=spark)
        self._owner = owner

    def abandon(self, error: BaseException) -> None:
        """End this try, and leave the attempt to the others.

        By joining once more: what was WRITTEN before *error* is deleted, and nobody publishes it for this participant.
        """
        log.warning("%s: this try of participant %d is over: %s", self.attempt, self.participant, error)
        if isinstance(error, Fenced) or self.attempt.adopted:
            return
        try:
            self._coordinator.join(self.attempt, self.participant, self._owner)
        except EpochError as problem:
            log.warning("what %s has written was not taken back: %s", self.attempt, problem)

    def _base_of(self, sink: EpochTable) -> State | None:
        base = super()._base_of(sink)
        if base is not None and self.participants > 1:
            raise refusals.shared_base(self.attempt, sink.name)
        return base

    def _siblings_use(self, known: TableInfo | None) -> bool:
        if known is None or known.version:
            return False
        attempt = self.attempt
        records = [
            one.record for one in self._coordinator.barriers(attempt.domain, attempt.job, attempt.interval)
        ]
        return any(
            one.token == attempt.token
            and one.participant != attempt.participant
            and one.committable is not None
            and one.committable.table_uuid == known.table_uuid
            for one in records
        )

    def _end(self) -> None:
        self._check_complete()
        log.info("%s: participant %d of %d has written", self.attempt, self.participant, self.participants)


def begin_shared(
    service: EpochService,
    job: EpochJob,
    interval: Interval,
    owner: Owner,
    *,
    participants: int,
    lock_ttl: timedelta | None = None,
) -> Attempt | AlreadyCommitted:
    """Begin an epoch for participants; errors are those of :meth:`Coordinator.begin`.

    :param lock_ttl: how long all of them may be silent, waiting for workers.
    """
    defaults = service.coordinator.defaults
    return service.coordinator.begin(
        job,
        interval,
        owner,
        roots=RootSources(service.sources),
        participants=participants,
        shared_ttl=defaults.shared_lock_ttl if lock_ttl is None else lock_ttl,
    )


def participate(
    service: EpochService,
    job: EpochJob,
    handle: Handle,
    *,
    owner: Owner | None = None,
    spark: SparkSession | None = None,
) -> ParticipantRun | AlreadyCommitted:
    """Join as the participant of *handle*: its own earlier tries are fenced, the others go on.

    :param owner: of this try; by default whoever began, so that a later call is a later try.
    :raises Fenced: the attempt, or this try, is over. :raises Conflict: all is written, and checked or complete.
    """
    attempt = resume(service.coordinator, job, handle.begun)
    if isinstance(attempt, AlreadyCommitted):
        return attempt
    asking = owner or attempt.owner
    if attempt.adopted:  # complete from an earlier attempt: what is written now is left out
        joined = replace(attempt, participant=handle.participant)
    else:
        joined = service.coordinator.join(attempt, handle.participant, asking)
    return ParticipantRun(service, job, joined, asking, spark=spark)
