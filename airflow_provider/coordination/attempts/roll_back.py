"""Deletion of the orphaned output of attempts that ended without a commit (R16)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from airflow_provider.coordination.attempts.join import tries
from airflow_provider.domain.epoch import Abandoned, AttemptEvent, AttemptRecord, EpochRecord, EpochState
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.topology import Job, Table
from airflow_provider.tables.base import StagingLocation
from airflow_provider.tables.factory import TableFormats


def abandoned(
    epoch: EpochRecord | None, interval: Interval, adopts: int | None, outputs: Iterable[Table]
) -> tuple[Abandoned, ...]:
    """Return the orphaned output of the last attempt of *epoch*; empty if the next one, for *interval*, adopts it.

    :param outputs: tables that the job declares now.
    """
    if epoch is None or epoch.attempt is None:
        return ()
    left = epoch.attempt
    output = Abandoned(
        revision=left.revision,
        token=left.output_token,
        participants=left.participants,
        shared=left.shared,
        interval=None if epoch.interval == interval else epoch.interval,
        left=tuple(sorted({name for name, _ in left.baseline} - {table.name for table in outputs})),
    )
    return () if adopts == output.token else (output,)


@dataclass(frozen=True, slots=True)
class RollBack:
    """Deletion of an epoch's orphaned output, once its writers are fenced; it never was visible (R16).

    :param log: reads the epoch's state log.
    """

    formats: TableFormats
    job: Job
    interval: Interval
    log: Callable[[], Iterable[Stamped[AttemptEvent]]]

    def of(self, attempt: AttemptRecord) -> None:
        """Delete the output that *attempt*, which has begun, is to roll back; idempotent."""
        self._delete(attempt, self.interval)

    def finish(self, epoch: EpochRecord) -> None:
        """Delete the output that the last attempt of *epoch* was to roll back, if it died during its begin.

        This precedes the next begin, which adds its own: so the list never grows, however many attempts die.
        """
        left = epoch.attempt
        if left is not None and left.rolls_back and not _passed_begin(self.log(), left.token):
            self._delete(left, epoch.interval)

    def _delete(self, attempt: AttemptRecord, interval: Interval) -> None:
        for orphan in attempt.rolls_back:
            for place in self._places(orphan, orphan.interval or interval, self._tables(attempt, orphan)):
                self.formats[place.table.format].roll_back(place)

    def _places(self, left: Abandoned, interval: Interval, tables: Sequence[Table]) -> list[StagingLocation]:
        """Return every place in *tables* at which the writers of *left* may have staged."""
        return [
            self.formats[table.format].place(
                table,
                job=self.job.name,
                interval=interval,
                revision=left.revision,
                token=left.token,
                participant=participant,
                participant_attempt=participant_attempt,
            )
            for table in tables
            for participant, participant_attempt in self._tries(left)
        ]

    def _tables(self, attempt: AttemptRecord, left: Abandoned) -> list[Table]:
        """Return the job's tables, and those that it no longer declares, also since the begin of *attempt*.

        The format of the latter is not recorded: they are returned once for each format that the store can serve.
        """
        declared = {table.name for table in self.job.outputs}
        gone = {*left.left, *(name for name, _ in attempt.baseline)} - declared
        former = [
            Table(name, domain=self.job.domain, format=known)
            for name in sorted(gone)
            for known in self.formats
        ]
        return [*self.job.outputs, *former]

    def _tries(self, left: Abandoned) -> list[tuple[int, int]]:
        """Return the tries that may have written; their attempt is fenced, so that no further one can join."""
        if left.participants == 1 and not left.shared:
            return [(0, 0)]
        return tries((entry.record for entry in self.log()), left.token)


def _passed_begin(log: Iterable[Stamped[AttemptEvent]], token: int) -> bool:
    """Return True if the attempt with *token* has passed its begin, and so has rolled back its orphans.

    Its reports prove that; its end does not, since others end a silent attempt.
    """
    silent = (EpochState.OPEN, EpochState.ABORTED)
    return any(entry.record.token == token and entry.record.state not in silent for entry in log)
