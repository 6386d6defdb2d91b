"""Waiting of operators that begin epochs: while an epoch is busy or not ready, they wait instead of using up retries.

They wait in the triggerer or in the worker, by ``[operators] default_deferrable``. Only the answer of a begin counts:
an operator that is woken begins again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar

from airflow_provider.coordination.commits.group_declarations import refuse_endless_wait
from airflow_provider.coordination.reading.bringers import bringers, told_wait
from airflow_provider.coordination.reading.wait import (
    JobInputs,
    Readiness,
    begin_readiness,
    check_inputs,
)
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import EpochBusy, NotReady, RetryableError
from airflow_provider.domain.group import epoch_of_group
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.hooks.task_run import (
    final_errors_end_retries,
    task_owner,
    warn_of_ended_runs,
)
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.triggers.epochs import GRACE, EpochTrigger, as_plain_values

Run = TypeVar("Run")


class Held(Exception):
    """An epoch cannot begin yet. Ends the work of this try, never the task: see :func:`waiting`.

    :ivar restatement: the restatement within which it is to begin; None for an epoch that its run publishes.
    """

    def __init__(
        self, error: RetryableError, epoch: Interval, restatement: RestatementId | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.epoch = epoch
        self.restatement = restatement

    def within(self, job: Job) -> RestatementId | None:
        """Return the restatement, or the barrier of the group of *job*, within which the epoch is to begin."""
        return within(job, self.epoch, self.restatement)


def within(job: Job, epoch: Interval, restatement: RestatementId | None) -> RestatementId | None:
    """Return *restatement*, or else the barrier of the group of *job* that *epoch* ends at."""
    return epoch_of_group(job.group, epoch) if restatement is None and job.group is not None else restatement


@contextmanager
def begins(
    left: Callable[[], Sequence[Interval]], restatement: RestatementId | None = None
) -> Iterator[None]:
    """Turn ``EpochBusy`` and ``NotReady`` into :class:`Held`, for a block that does nothing but begin epochs.

    :param left: returns the epochs that are not published; the first of them is begun, or each of them in turn where
        they are published together.
    """
    try:
        yield
    except (EpochBusy, NotReady) as error:
        unpublished = left()
        epoch = next((epoch for epoch in unpublished if epoch == error.interval), unpublished[0])
        raise Held(error, epoch, restatement) from error


def begun(
    runs: Iterator[Run], left: Callable[[], Sequence[Interval]], restatement: RestatementId | None = None
) -> Run | None:
    """Return the next of *runs*, whose epoch has begun; None after the last.

    :raises Held: an epoch of *left* cannot begin yet.
    """
    with begins(left, restatement):
        return next(runs, None)


def refuse_held(
    service: EpochService,
    job: Job,
    epoch: Interval,
    owner: Owner,
    restatement: RestatementId | None = None,
) -> None:
    """Ask whether *epoch* can begin, before Spark starts for it.

    :raises Held: it cannot begin yet, by the records of the store and the answers of the job's sources.
    :raises TopologyError: it would wait for a commit group that waits for it.
    """
    refuse_endless_wait(service.store, job)
    run, source_readers = (owner.dag_id, owner.run_id), SourceReaders(service.connections)
    inputs = JobInputs.of(job, epoch)
    answer = begin_readiness(
        service.store,
        job.domain,
        job.name,
        inputs,
        run,
        source_readers=source_readers,
        restatement=within(job, epoch, restatement),
    )
    if not answer.ready:
        raise Held(
            NotReady(
                f"{job.name} {epoch} cannot begin: {answer}.",
                next_step="wait for it (EpochSensor), or see `airflow epochs explain`.",
                job=job.name,
                interval=epoch,
                missing=answer.missing,
            ),
            epoch,
            restatement,
        )


def waiting(
    operator: Any, context: Mapping[str, Any], since: str | None, compute: Callable[[Any], Any]
) -> Any:
    """Call *compute*, again after each wait for an epoch that could not begin; return its result.

    :param operator: object with ``job``, ``epochs_conn_id``, ``deferrable``, ``wait_timeout`` and a method ``resumed``.
    :param since: time, in ISO 8601, at which this try of the task began to wait; None if it has not waited.
    :raises NotReady, EpochBusy: the waits of this try have lasted ``wait_timeout`` together.
    """
    with final_errors_end_retries():
        started = datetime.now(UTC) if since is None else datetime.fromisoformat(since)
        while True:
            try:
                return compute(context)
            except Held as held:
                left = started + operator.wait_timeout - datetime.now(UTC)
                if left <= timedelta(0):
                    raise held.error from held
                _wait(operator, context, held, started, left)


def _wait(operator: Any, context: Mapping[str, Any], held: Held, started: datetime, left: timedelta) -> None:
    """Wait until the epoch may begin, or *left* is over; a deferrable task leaves its worker instead of returning."""
    job: Job = operator.job
    owner = task_owner(context)
    operator.log.info("Waiting, %s at most, without spending a retry: %s", _rounded(left), held.error.message)
    hook, inputs = EpochsHook(operator.epochs_conn_id), JobInputs.of(job, held.epoch)
    source_readers = SourceReaders(hook.connection_urls(inputs.connections))
    with hook.get_reader() as reader:
        answer = check_inputs(reader, job.domain, inputs, source_readers)
        tables = {edge.table for edge in inputs.edges}
        told = bringers(reader, job.domain, [lag.table for lag in answer.missing if lag.table in tables])
        if answer.missing:
            operator.log.info("%s", told_wait(answer, sorted(tables), told, started + operator.wait_timeout))
        warn_of_ended_runs(operator.log, told, context)
        if not operator.deferrable:
            run = (owner.dag_id, owner.run_id)
            _wait_here(
                lambda: begin_readiness(
                    reader,
                    job.domain,
                    job.name,
                    inputs,
                    run,
                    source_readers=source_readers,
                    restatement=held.within(job),
                ),
                left,
            )
            return
    _defer(operator, context, held, started, left)


def _wait_here(ask: Callable[[], Readiness], left: timedelta) -> None:
    until, pause = time.monotonic() + left.total_seconds(), DEFAULTS.wait_poll_interval
    while True:
        time.sleep(min(pause.total_seconds(), max(until - time.monotonic(), 0)))
        if time.monotonic() >= until or ask().ready:
            return


def _defer(
    operator: Any, context: Mapping[str, Any], held: Held, started: datetime, left: timedelta
) -> NoReturn:
    job: Job = operator.job
    owner, inputs = task_owner(context), JobInputs.of(job, held.epoch)
    operator.defer(
        trigger=EpochTrigger(
            epochs_conn_id=operator.epochs_conn_id,
            domain=job.domain,
            tables=[edge.table for edge in inputs.edges],
            barrier=held.epoch.end.isoformat(),
            job=job.name,
            run=[owner.dag_id, owner.run_id],
            until=(datetime.now(UTC) + left).isoformat(),
            restatement=held.within(job),
            **as_plain_values(inputs),
        ),
        method_name="resumed",
        kwargs={"since": started.isoformat()},
        timeout=left + GRACE,
    )
    raise AssertionError  # defer never returns


def _rounded(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds()))
