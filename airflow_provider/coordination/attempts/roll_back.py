"""What an attempt that ended without a commit left, and where it lies (R16)."""

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
    """What the last attempt of *epoch* leaves to be deleted, nothing when the next one, for *interval*, adopts it.

    :param outputs: of the job as it is declared now.
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
    """Deletes what is to be undone of one epoch, once those who wrote it are fenced; it never was visible (R16).

    :param log: reads the epoch's state log.
    """

    formats: TableFormats
    job: Job
    interval: Interval
    log: Callable[[], Iterable[Stamped[AttemptEvent]]]

    def of(self, attempt: AttemptRecord) -> None:
        """Delete what *attempt*, which has begun, is to undo; idempotent."""
        self._delete(attempt, self.interval)

    def finish(self, epoch: EpochRecord) -> None:
        """Delete what the last attempt of *epoch* was to undo, if it died on the way.

        Before the next begin adds its own: so what is left to undo never grows, however many tries die.
        """
        left = epoch.attempt
        if left is not None and left.rolls_back and not _passed_begin(self.log(), left.token):
            self._delete(left, epoch.interval)

    def _delete(self, attempt: AttemptRecord, interval: Interval) -> None:
        for one in attempt.rolls_back:
            for place in self._places(one, one.interval or interval, self._tables(attempt, one)):
                self.formats[place.table.format].roll_back(place)

    def _places(self, left: Abandoned, interval: Interval, tables: Sequence[Table]) -> list[StagingLocation]:
        """Every place in *tables* at which those who *left* may have staged."""
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
        """The job's tables, and those that it has left, also since *attempt* was to undo what *left* says.

        Nobody kept of which format those were: of each.
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
        """Those that may have written; whoever began them is fenced, so that their log is at its end."""
        if left.participants == 1 and not left.shared:
            return [(0, 0)]
        return tries((one.record for one in self.log()), left.token)


def _passed_begin(log: Iterable[Stamped[AttemptEvent]], token: int) -> bool:
    """Whether the attempt with *token* came past its begin, hence has undone what it was to undo.

    What it reported says so; that it was ended does not, since others end a silent one.
    """
    silent = (EpochState.OPEN, EpochState.ABORTED)
    return any(one.record.token == token and one.record.state not in silent for one in log)
