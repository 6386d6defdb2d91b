"""Several epochs of one run, which become visible at one CSN: ``epoch_runs(commit="together")``.

See docs/decisions/several-epochs.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import EpochError, OutcomeUnknown, StoreUnavailable
from airflow_provider.spark import refusals
from airflow_provider.spark.attempt_run import EpochRun

log = logging.getLogger(__name__)


class MemberRun(EpochRun):
    """Block of an epoch that is published with others: its lock outlives the block, which publishes nothing."""

    def hold(self) -> None:
        """Renew the lock from now on. :raises Fenced: a newer attempt exists."""
        self._heartbeat.start()

    def release(self) -> None:
        """End the renewal; the lock stays as it is."""
        self._heartbeat.stop()

    def abort(self, error: Exception) -> None:
        """Abort the attempt because of *error*. :raises EpochError: it is not aborted."""
        self._service.abort(self.attempt, refusals.reason_of(error))

    def __enter__(self) -> Self:
        self._heartbeat.check()
        self.entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.abandon(error)
            return
        self._end()


def each_and_publish(service: EpochService, runs: Sequence[MemberRun]) -> Iterator[MemberRun]:
    """Yield the epochs that are to be computed, and publish all of *runs* after the last.

    An adopted epoch is not yielded. If an epoch fails, or the caller stops, nothing is published; a retry of the run
    adopts what is complete, and epochs that were not computed yet are aborted, so that no run waits for their locks.

    :raises Fenced: an epoch was aborted, or computed by another attempt.
    """
    if not runs:
        return
    is_published = False
    try:
        for run in runs:
            run.hold()
        for run in runs:
            if not run.attempt.adopted:
                yield from run.offered()
        _publish(service, runs)
        is_published = True
    finally:
        for run in runs:
            run.release()
        if not is_published:
            abandon_all(
                (run, refusals.not_reached(run.attempt))
                for run in runs
                if not (run.entered or run.attempt.adopted)
            )
            log.warning("none of %d epochs of %s is published", len(runs), runs[0].job.name)


def abandon_all(runs: Iterable[tuple[MemberRun, Exception]]) -> None:
    """Abort *runs*, each for its error; never raises. A store that does not answer is not asked for all of them."""
    for run, error in runs:
        try:
            run.abort(error)
        except (StoreUnavailable, OutcomeUnknown) as problem:
            log.warning("Not aborted: %s, and what comes after it: %s", run.attempt, problem)
            return
        except EpochError as problem:
            log.warning("Not aborted: %s: %s", run.attempt, problem)


def _publish(service: EpochService, runs: Sequence[MemberRun]) -> None:
    attempts: list[Attempt] = [run.attempt for run in runs]
    for run, published in zip(runs, service.publish_together(attempts), strict=True):
        run.published = published
    log.info("published %d epochs of %s at CSN %d", len(runs), attempts[0].job, published.csn)
