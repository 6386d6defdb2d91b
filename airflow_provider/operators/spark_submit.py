"""Operator that computes epochs with ``spark-submit``."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from airflow_provider.domain.errors import EpochError, FinalError
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.together import refuse_batch
from airflow_provider.domain.topology import Job, as_job, connections_of
from airflow_provider.domain.watermark import merged
from airflow_provider.hooks.arguments import (
    WAIT_TIMEOUT,
    checked_wait,
    default_deferrable,
    is_parsed,
    known_interval,
    refuse_connections,
)
from airflow_provider.hooks.compat import NOT_RESUMED, AirflowException
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.schedules import refuse_schedule
from airflow_provider.hooks.task_run import (
    as_cadence,
    asked_intervals,
    grid_query,
    hull,
    named,
    task_cause,
    task_intervals,
    task_owner,
    task_restatement,
)
from airflow_provider.links.epochs import EpochGridLink
from airflow_provider.operators.assets import announce, with_assets, withhold
from airflow_provider.operators.openlineage import WithLineage, note_begin, note_published

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.coordination.service import EpochService, Settings
    from airflow_provider.domain.epoch import Attempt
    from airflow_provider.spark.launch_spec import Batch, LaunchSpec


class EpochSparkSubmitOperator(WithLineage, SparkSubmitOperator):
    """Compute the epochs of one job with a Spark program that uses ``epoch_run`` or ``epoch_runs``.

    One epoch: the operator begins it, hands it over, renews its lock while Spark runs, checks the barriers in the
    store when Spark has ended, and publishes. Several epochs (*batch*, or an interval of several): the program
    begins and publishes each of them, and the operator checks that all are committed.

    A retry never attaches to the Spark application of an earlier try (``durable`` is off): it begins its own attempt,
    whose token fences the earlier one. Complete output of the earlier attempt is published as it is.

    :param job: the declaration. :param application: the Spark program (templated), and so on for all parameters
        of Airflow's own operator.
    :param interval: interval to compute (templated); None for the interval of the run: its partition key, its data
        interval, or the last interval that ended at its date.
    :param batch: calendar of the runs, if one run computes several epochs: ``@daily`` over an hourly job.
    :param deferrable: wait in the triggerer while an epoch is busy or not ready, instead of in the worker; the default
        is ``[operators] default_deferrable``. :param wait_timeout: longest time for all waits of a try together.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "interval")
    operator_extra_links = (EpochGridLink(),)
    ui_color = "#e8dcf5"

    def __init__(
        self,
        *,
        job: Job,
        interval: ExplicitInterval | None = None,
        batch: Cadence | str | None = None,
        deferrable: bool | None = None,
        wait_timeout: timedelta = WAIT_TIMEOUT,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        job = as_job(job)
        super().__init__(**{**kwargs, "outlets": with_assets(job, kwargs.get("outlets")), **NOT_RESUMED})
        self.job = job
        self.interval = interval
        self.batch = as_cadence(batch, "batch")
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        self.wait_timeout = checked_wait(wait_timeout)
        if is_parsed(self):
            known_interval(job.cadence, interval, self.batch)
            refuse_schedule(self, job, self.batch, interval)
            refuse_batch(job, self.batch)
            refuse_connections(epochs_conn_id=epochs_conn_id)
        self.epochs_conn_id = epochs_conn_id
        self.grid_query: dict[str, str] = {}
        self._killed = False

    def execute(self, context: Context) -> None:
        """Compute and publish the run's epochs.

        :raises AirflowFailException: for an error that no retry can cure.
        """
        from airflow_provider.operators.waiting import waiting

        waiting(self, context, None, self._run)

    def resumed(self, context: Context, event: Mapping[str, Any] | None = None, since: str = "") -> None:  # noqa: ARG002
        """Continue after a wait: ask the store again, since the event is a hint."""
        from airflow_provider.operators.waiting import waiting

        waiting(self, context, since or None, self._run)

    def _run(self, context: Context) -> None:
        from airflow_provider.coordination.service import EpochService
        from airflow_provider.operators import restating

        refuse_schedule(self, self.job, self.batch, self.interval)
        intervals = task_intervals(context, self.job, explicit=self.interval, batch=self.batch)
        epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
        self.grid_query = grid_query(self.epochs_conn_id, self.job, hull(intervals))
        owner = task_owner(context)
        self.log.info("%s: %d epochs of %s, for %s", self.job.name, len(epochs), named(intervals), owner)
        hook = EpochsHook(self.epochs_conn_id)
        with EpochService.open(
            settings := hook.get_settings(connections=connections_of(self.job))
        ) as service:
            self._refuse_cluster_mode(service)
            note_begin(self, service, self.job)
            wanted = task_restatement(context)
            why = task_cause(context)
            asked = asked_intervals(context, self.job, explicit=self.interval, batch=self.batch)
            found = restating.run_epochs(
                self.log, service, self.job, epochs, owner, named=wanted, cause=why, asked=asked
            )
            for restatement, members in found.within.items():
                self._restate(context, service, settings, members, restatement)
            if found.alone:
                self._compute(context, service, settings, found.alone, owner)
            else:
                withhold(self, self.job)

    def _compute(
        self,
        context: Context,
        service: EpochService,
        settings: Settings,
        intervals: Sequence[Interval],
        owner: Owner,
    ) -> None:
        """Compute and publish the epochs of *intervals*, and announce them."""
        from airflow_provider.coordination.attempts.rerun import refuse_reruns
        from airflow_provider.operators import outcome
        from airflow_provider.spark.launch_spec import Batch, LaunchSpec

        epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
        kept = outcome.kept_epochs(service.store, self.job, epochs, owner)
        outcome.tell_kept(self.log, self.job, kept)
        refuse_reruns(service.store, self.job, epochs, owner)
        published = outcome.published_epochs(service.store, self.job, epochs, owner)
        if len(published) == len(epochs):
            outcome.tell_done(self.log, self.job, published, kept)
        elif self.job.group is not None or (self.batch is None and len(epochs) == 1):
            for epoch in outcome.unpublished_epochs(service.store, self.job, epochs, owner):
                self._compute_one(context, service, settings, epoch, owner)
        else:
            for interval in intervals:
                batch = Batch(interval=interval, owner=owner)
                order = LaunchSpec(settings=settings, job=self.job, batch=batch)
                self._compute_batch(context, service, order, self.job.cadence.split(interval), owner)
        outcome.tell_ignored(self.log, service, self.job, epochs[-1].end)
        # Also what an earlier try, or another job of the group, has published: no other task announces it.
        published, staged = outcome.outcome_of(service.store, self.job, epochs, owner)
        outcome.refuse_unpublished(self.job, sorted({*epochs} - {*staged}), published, self.application)
        announce(context, self.job, published, staged)
        note_published(self, service, self.job, published)

    def on_kill(self) -> None:
        """Stop Spark; the attempt is aborted when ``execute`` sees it end."""
        from airflow_provider.operators import spark_cluster

        self._killed = True
        hook = self._hook
        if hook is not None and hook._connection["deploy_mode"] == spark_cluster.MODE:  # noqa: SLF001
            # Airflow's operator would ask YARN's REST service, whose address the hook does not know here.
            hook.on_kill()
        else:
            super().on_kill()

    def _restate(
        self,
        context: Context,
        service: EpochService,
        settings: Settings,
        members: Sequence[Interval],
        restatement: RestatementId,
    ) -> None:
        """Compute *members* within *restatement*, which publishes them; nothing is announced before."""
        from airflow_provider.operators import restating
        from airflow_provider.spark.launch_spec import Batch

        owner = task_owner(context)
        if self.batch is None and len(members) == 1:
            self._stage_one(context, service, settings, members[0], owner, restatement=restatement)
        else:
            for interval in merged(members):
                order = Batch(interval=interval, owner=owner, restatement=restatement)
                self._stage_batch(context, service, settings, order, restatement)
        restating.refuse_uncomputed(service, self.job, members, restatement, self.application)
        restating.tell_staged(self.log, service, self.job, members, restatement, conn_id=self.epochs_conn_id)

    def _stage_batch(
        self,
        context: Context,
        service: EpochService,
        settings: Settings,
        order: Batch,
        restatement: RestatementId,
    ) -> None:
        from airflow_provider.coordination.restating.members import uncomputed
        from airflow_provider.operators.waiting import refuse_held
        from airflow_provider.spark.launch_spec import LaunchSpec

        epochs = self.job.cadence.split(order.interval)
        left = partial(uncomputed, service.store, self.job, epochs, restatement)
        if waiting_for := left():
            refuse_held(service, self.job, waiting_for[0], order.owner, restatement)
        try:
            self._submit(context, LaunchSpec(settings=settings, job=self.job, batch=order))
        except AirflowException as error:
            self._refuse_check_failed(service, epochs, order.owner, error)
            if missing := left():
                refuse_held(service, self.job, missing[0], order.owner, restatement)
            raise

    # --- one epoch ---------------------------------------------------------------------------------------

    def _compute_one(
        self, context: Context, service: EpochService, settings: Settings, interval: Interval, owner: Owner
    ) -> None:
        """Compute an epoch, and publish it, or stage it for its group."""
        from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged
        from airflow_provider.operators.waiting import begins
        from airflow_provider.sources.readers import SourceReaders
        from airflow_provider.spark.launch_spec import LaunchSpec
        from airflow_provider.tables.capabilities import TableCapability

        service.formats.require(self.job.outputs, TableCapability.SHARED_FILES)
        with begins(lambda: [interval]):
            answer = service.begin(self.job, interval, owner, sources=SourceReaders(service.connections))
        if isinstance(answer, AlreadyCommitted):
            self.log.info("Committed already, at CSN %d: %s", answer.csn, answer)
            return
        if isinstance(answer, AlreadyStaged):
            self.log.info("Staged already for its group: %s", answer)
            return
        if answer.adopted:
            self.log.info("An earlier try left complete output; it is published as it is: %s", answer)
        else:
            self.log.info("Begun: %s, for %s", answer, owner)
            order = LaunchSpec(settings=settings, job=self.job, attempt=answer, publishes=False)
            self._run_attempt(context, service, order, answer)
        if answer.restatement is not None:
            self.log.info("Staged for its group: %s", service.stage(answer))
            return
        self._publish(service, answer)

    def _stage_one(
        self,
        context: Context,
        service: EpochService,
        settings: Settings,
        interval: Interval,
        owner: Owner,
        *,
        restatement: RestatementId,
    ) -> None:
        from airflow_provider.domain.epoch import Attempt
        from airflow_provider.operators.waiting import begins
        from airflow_provider.sources.readers import SourceReaders
        from airflow_provider.spark.launch_spec import LaunchSpec
        from airflow_provider.tables.capabilities import TableCapability

        service.formats.require(self.job.outputs, TableCapability.SHARED_FILES)
        with begins(lambda: [interval], restatement):
            answer = service.begin_within(
                restatement, self.job, interval, owner, sources=SourceReaders(service.connections)
            )
        if not isinstance(answer, Attempt):
            self.log.info("Computed already within restatement %s: %s", restatement, answer)
            return
        if not answer.adopted:
            self.log.info("Begun within restatement %s: %s, for %s", restatement, answer, owner)
            order = LaunchSpec(settings=settings, job=self.job, attempt=answer, publishes=False)
            self._run_attempt(context, service, order, answer)
        service.stage(answer)
        self.log.info("Staged for restatement %s: %s", restatement, answer)

    def _run_attempt(
        self, context: Context, service: EpochService, order: LaunchSpec, attempt: Attempt
    ) -> None:
        """Run Spark while a heartbeat renews the attempt's lock; return when the output is complete."""
        from airflow_provider.operators import outcome
        from airflow_provider.spark.heartbeat import Heartbeat

        heartbeat = Heartbeat(service, attempt, super().on_kill)
        try:
            heartbeat.start()
            self._submit(context, order)
            heartbeat.check()
            outcome.refuse_incomplete(service.store, attempt, self.application)
        except BaseException as error:
            self._abort(service, attempt, error, keep_complete=not isinstance(error, FinalError))
            self._refuse_check_failed(service, [attempt.interval], attempt.owner, error)
            raise
        finally:
            heartbeat.stop()

    def _publish(self, service: EpochService, attempt: Attempt) -> None:
        try:
            published = service.publish(attempt)
        except FinalError as error:
            self._abort(service, attempt, error)
            raise
        self.log.info("Published at CSN %d: %s", published.csn, attempt)

    def _abort(
        self, service: EpochService, attempt: Attempt, error: BaseException, *, keep_complete: bool = False
    ) -> None:
        """Abort the attempt because of *error*; never raises, so that the task fails with *error*.

        :param keep_complete: do not abort if the output is complete: the next try publishes it.
        """
        from airflow_provider.operators import outcome
        from airflow_provider.spark import refusals

        try:
            if keep_complete and outcome.is_complete(service.store, attempt):
                return
            service.abort(attempt, reason := refusals.reason_of(error))
            self.log.warning("Aborted: %s: %s", attempt, reason)
        except EpochError as problem:
            self.log.warning("Not aborted: %s: %s", attempt, problem)

    # --- several epochs ----------------------------------------------------------------------------------

    def _compute_batch(
        self,
        context: Context,
        service: EpochService,
        order: LaunchSpec,
        epochs: Sequence[Interval],
        owner: Owner,
    ) -> None:
        from airflow_provider.operators import outcome
        from airflow_provider.operators.waiting import refuse_held

        left = partial(outcome.unpublished_epochs, service.store, self.job, epochs, owner)
        if not left():
            return
        refuse_held(service, self.job, left()[0], owner)
        try:
            self._submit(context, order)
        except AirflowException as error:
            self._refuse_check_failed(service, epochs, owner, error)
            # The exit code does not tell either whether the program found an epoch busy or not ready: ask the store.
            if missing := left():
                refuse_held(service, self.job, missing[0], owner)
            raise
        published = outcome.published_epochs(service.store, self.job, epochs, owner)
        outcome.refuse_unpublished(self.job, epochs, published, self.application)
        self.log.info("All %d epochs are committed, the last at CSN %d", len(epochs), published[-1].csn)

    def _refuse_check_failed(
        self, service: EpochService, epochs: Sequence[Interval], owner: Owner, error: BaseException
    ) -> None:
        """Raise the failed check of the program, whose exit code does not tell it: no retry cures a failed check."""
        from airflow_provider.coordination.attempts.check import refuse_check_failed

        try:
            refuse_check_failed(service.store, self.job, epochs, owner)
        except FinalError as failed:
            raise failed from error

    # --- Spark -------------------------------------------------------------------------------------------

    def _submit(self, context: Context, order: LaunchSpec) -> None:
        """Run ``spark-submit`` until it ends; meanwhile *order* is in a file that only this user can read."""
        from airflow_provider.operators import spark_cluster
        from airflow_provider.spark.launch_spec import VARIABLE

        if self._killed:
            raise AirflowException("The task was ended before Spark started.")
        if self._mode() == spark_cluster.MODE:
            with _private_file(order) as path, spark_cluster.shipped(self, path, VARIABLE):
                super().execute(context)
        else:
            with _handed_over(order):
                super().execute(context)

    def _mode(self) -> str | None:
        """Return the deploy mode of the task's argument, else of its Spark connection."""
        mode: str | None = self._get_hook()._connection["deploy_mode"]  # noqa: SLF001 - no public way to ask
        return mode

    def _refuse_cluster_mode(self, service: EpochService) -> None:
        """Refuse to start a driver on another host that would reach neither the store nor the launch spec.

        :raises StoreIncompatible: the store is for one host. :raises InvalidInput: Spark does not run on YARN, or with
            settings that lose the driver.
        """
        from airflow_provider.operators import spark_cluster

        if self._mode() == spark_cluster.MODE:
            spark_cluster.refuse_store(self.epochs_conn_id, service)
            spark_cluster.refuse(self, self._get_hook())


@contextmanager
def _private_file(order: LaunchSpec) -> Iterator[Path]:
    """Keep *order* in a file that only this user can read."""
    folder = Path(tempfile.mkdtemp(prefix="epochs-launch-"))
    try:
        yield order.write(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _handed_over(order: LaunchSpec) -> Iterator[None]:
    """Keep *order* in a private file; only an environment variable of ``spark-submit`` names it."""
    from airflow_provider.spark.launch_spec import VARIABLE

    with _private_file(order) as path:
        try:
            os.environ[VARIABLE] = str(path)
            yield
        finally:
            os.environ.pop(VARIABLE, None)
