"""An epoch that several participants write: the run that begins and ends it, and the run of each participant (R10)."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import EpochError, Fenced, FinalError
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.sources.readers import SourceReaders
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
    """The run of the program that began the epoch; the end of its block checks and publishes the participants' output.

    :param lasts: leave the attempt open if the block ends with an error that another try may cure.
    """

    def __init__(
        self,
        service: EpochService,
        job: Job,
        attempt: Attempt,
        *,
        spark: SparkSession | None = None,
        lasts: bool = False,
    ) -> None:
        super().__init__(service, job, attempt, spark=spark)
        self._lasts = lasts

    @property
    def handles(self) -> list[str]:
        """The handles of the participants, for :func:`~.epoch_run.epoch_participant` in this or another process."""
        return handles(self.job, self.attempt, self.participants)

    def _once(self, table: str) -> NoReturn:
        """Refuse to write.

        :raises InvalidInput: always; only participants write.
        """
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
    """The run of one participant: it reads the same inputs as the others, and writes its part of every output.

    The block's end requires every output to be WRITTEN. An exception ends this try only, and the participant may begin
    again.

    :param owner: owner of this try.
    """

    def __init__(
        self,
        service: EpochService,
        job: Job,
        attempt: Attempt,
        owner: Owner,
        *,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(service, job, attempt, spark=spark)
        self._owner = owner

    def abandon(self, error: BaseException) -> None:
        """End this try, and leave the attempt to the other participants.

        Joining once more raises this participant's number of tries, which deletes the output that this try has WRITTEN
        and keeps it from being published.
        """
        log.warning("%s: this try of participant %d is over: %s", self.attempt, self.participant, error)
        if isinstance(error, Fenced) or self.attempt.adopted:
            return
        try:
            self._service.join(self.attempt, self.participant, self._owner)
        except EpochError as problem:
            log.warning("what %s has written was not taken back: %s", self.attempt, problem)

    def _base_of(self, sink: Table) -> State | None:
        base = super()._base_of(sink)
        if base is not None and self.participants > 1:
            raise refusals.shared_base(self.attempt, sink.name)
        return base

    def _siblings_use(self, known: TableInfo | None) -> bool:
        if known is None or known.version:
            return False
        attempt = self.attempt
        records = [
            stamped.record
            for stamped in self._service.barriers(attempt.domain, attempt.job, attempt.interval)
        ]
        return any(
            record.token == attempt.token
            and record.participant != attempt.participant
            and record.committable is not None
            and record.committable.table_uuid == known.table_uuid
            for record in records
        )

    def _end(self) -> None:
        try:
            self._check_complete()
        except Exception as problem:
            self.abandon(problem)  # its rows may come from a source that has changed: they are WRITTEN by now
            raise
        log.info("%s: participant %d of %d has written", self.attempt, self.participant, self.participants)


def begin_shared(
    service: EpochService,
    job: Job,
    interval: Interval,
    owner: Owner,
    *,
    participants: int,
    lock_ttl: timedelta | None = None,
    restatement: RestatementId | None = None,
) -> Attempt | AlreadyCommitted | AlreadyStaged:
    """Begin an epoch for participants; errors are those of :meth:`EpochService.begin`.

    :param lock_ttl: longest time without a heartbeat of any participant, such as while they wait for workers.
    :param restatement: begin within it, as :meth:`EpochService.begin_within` does.
    """
    ttl = service.defaults.shared_lock_ttl if lock_ttl is None else lock_ttl
    begin = service.begin if restatement is None else partial(service.begin_within, restatement)
    sources = SourceReaders(service.connections)
    return begin(job, interval, owner, sources=sources, participants=participants, shared_ttl=ttl)


def participate(
    service: EpochService,
    job: Job,
    handle: Handle,
    *,
    owner: Owner | None = None,
    spark: SparkSession | None = None,
) -> ParticipantRun | AlreadyCommitted | AlreadyStaged:
    """Join as the participant of *handle*: fences its own earlier tries, and no other participant's.

    :param owner: owner of this try; by default the owner that began, so that a later call is a later try.
    :raises Fenced: the attempt, or this try, is over.
    :raises Conflict: all participants have written, and their output is checked or complete.
    """
    attempt = service.resume(job, handle.begun)
    if not isinstance(attempt, Attempt):
        return attempt
    asking = owner or attempt.owner
    if (
        attempt.adopted
    ):  # complete from an earlier attempt: writes of this run are skipped, so it needs no token
        joined = replace(attempt, participant=handle.participant)
    else:
        joined = service.join(attempt, handle.participant, asking)
    return ParticipantRun(service, job, joined, asking, spark=spark)
