"""``@task.epoch``: compute epochs in the task itself, over Spark Connect."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import BaseHook
from airflow.sdk.bases.decorator import (
    DecoratedOperator,
    TaskDecorator,
    task_decorator_factory,
)

from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.together import CommitMode, refuse_batch, refuse_together
from airflow_provider.domain.topology import Job, as_job, connections_of
from airflow_provider.hooks.arguments import (
    WAIT_TIMEOUT,
    checked_wait,
    default_deferrable,
    is_parsed,
    known_interval,
    refuse_connections,
)
from airflow_provider.hooks.compat import AirflowException, AirflowNotFoundException, determine_kwargs
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
    from airflow_provider.spark.attempt_run import EpochRun

EPOCH_PARAMETER = "epoch"


class EpochFunctionOperator(DecoratedOperator):
    """Call a function with an epoch in Spark; base of ``@task.epoch`` and ``@task.epoch_participant``.

    :param job: the declaration.
    :param spark_conn_id: connection of type ``spark_connect``; or of type ``spark`` with a master such as
        ``local[2]``, for tests and work on one host: then Spark runs in the task's own process.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields_renderers: ClassVar[dict[str, str]] = dict(DecoratedOperator.template_fields_renderers)
    operator_extra_links = (EpochGridLink(),)
    ui_color = "#e8dcf5"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        job: Job,
        spark_conn_id: str = SparkConnectHook.default_conn_name,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        job = as_job(job)
        expect_epoch(python_callable)
        super().__init__(python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, **kwargs)
        self.job = job
        self.spark_conn_id = spark_conn_id
        self.epochs_conn_id = epochs_conn_id
        if is_parsed(self):
            refuse_connections(spark_conn_id=spark_conn_id, epochs_conn_id=epochs_conn_id)
        self.grid_query: dict[str, str] = {}
        self._killed = False
        self._spark: Any = None

    def on_kill(self) -> None:
        """Cancel this task's Spark jobs; the function then fails, which aborts its epoch."""
        self._killed = True
        if self._spark is not None:
            # The signal may have come in the middle of a call to the server: ask from another thread.
            Thread(target=self._spark.interruptAll, name="epochs-interrupt", daemon=True).start()

    def _call(self, context: Context, epoch: Any) -> Any:
        if self._killed:
            raise AirflowException("The task was ended.")
        named = inspect.signature(self.python_callable).bind_partial(*self.op_args).arguments
        given = {**context, **self.op_kwargs, **named, EPOCH_PARAMETER: epoch}
        return self.python_callable(**determine_kwargs(self.python_callable, (), given))


class EpochDecoratedOperator(WithLineage, EpochFunctionOperator):
    """Call a function once for each epoch of the run, with its :class:`EpochRun` as the argument ``epoch``.

    All epochs of the task share one session on a Spark Connect server, which stays up: no JVM starts. Each epoch
    begins before the call and is published after it; committed epochs are left out.

    :param interval: interval to compute (templated); None for the interval of the run.
    :param batch: calendar of the runs, if one run computes several epochs.
    :param commit: ``each`` of several epochs becomes visible by itself, or all of them ``together``, in one commit
        after the last call (:func:`~airflow_provider.epoch_runs`).
    :param deferrable: wait in the triggerer while an epoch is busy or not ready, instead of in the worker; the default
        is ``[operators] default_deferrable``. :param wait_timeout: longest time for all waits of a try together.
    Further parameters are those of :class:`EpochFunctionOperator`.
    """

    custom_operator_name = "@task.epoch"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, "interval")

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        job: Job,
        interval: ExplicitInterval | None = None,
        batch: Cadence | str | None = None,
        commit: CommitMode | str = CommitMode.EACH,
        deferrable: bool | None = None,
        wait_timeout: timedelta = WAIT_TIMEOUT,
        **kwargs: Any,
    ) -> None:
        outlets = with_assets(as_job(job), kwargs.get("outlets"))
        super().__init__(python_callable=python_callable, job=job, **{**kwargs, "outlets": outlets})
        self.interval = interval
        self.batch = as_cadence(batch, "batch")
        self.commit = choice(CommitMode, commit, "commit")
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        self.wait_timeout = checked_wait(wait_timeout)
        if is_parsed(self):
            known_interval(self.job.cadence, interval, self.batch)
            if self.commit is CommitMode.TOGETHER:
                refuse_together(self.job, [])
            refuse_schedule(self, self.job, self.batch, interval)
            refuse_batch(self.job, self.batch)

    def execute(self, context: Context) -> Any:
        """Compute and publish the run's epochs.

        :return: the function's return value for the run's epoch; a list of them if there are several epochs.
        :raises AirflowFailException: for an error that no retry can cure.
        """
        from airflow_provider.operators.waiting import waiting

        return waiting(self, context, None, self._run)

    def resumed(self, context: Context, event: Mapping[str, Any] | None = None, since: str = "") -> Any:  # noqa: ARG002
        """Continue after a wait: ask the store again, since the event is a hint."""
        from airflow_provider.operators.waiting import waiting

        return waiting(self, context, since or None, self._run)

    def _run(self, context: Context) -> Any:
        from airflow_provider.coordination.service import EpochService
        from airflow_provider.operators import restating

        refuse_schedule(self, self.job, self.batch, self.interval)
        intervals = task_intervals(context, self.job, explicit=self.interval, batch=self.batch)
        self.grid_query = grid_query(self.epochs_conn_id, self.job, hull(intervals))
        owner = task_owner(context)
        settings = EpochsHook(self.epochs_conn_id).get_settings(connections=connections_of(self.job))
        epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
        self.log.info("%s: %d epochs of %s, for %s", self.job.name, len(epochs), named(intervals), owner)
        with EpochService.open(settings) as service:
            note_begin(self, service, self.job)
            returned: list[Any] = []
            wanted = task_restatement(context)
            why = task_cause(context)
            asked = asked_intervals(context, self.job, explicit=self.interval, batch=self.batch)
            found = restating.run_epochs(
                self.log, service, self.job, epochs, owner, named=wanted, cause=why, asked=asked
            )
            for restatement, members in found.within.items():
                returned += self._restate(context, service, settings, members, restatement)
            if found.alone:
                returned += self._publish(context, service, settings, found.alone, owner)
            else:
                withhold(self, self.job)
        if self.batch is None and len(epochs) == 1:
            return returned[0] if returned else None
        return returned

    def _publish(
        self,
        context: Context,
        service: EpochService,
        settings: Settings,
        intervals: Sequence[Interval],
        owner: Owner,
    ) -> list[Any]:
        """Compute and publish the epochs of *intervals*, and announce them."""
        from airflow_provider.coordination.attempts.rerun import refuse_reruns
        from airflow_provider.operators import outcome
        from airflow_provider.operators.waiting import refuse_held

        epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
        kept = outcome.kept_epochs(service.store, self.job, epochs, owner)
        outcome.tell_kept(self.log, self.job, kept)
        refuse_reruns(service.store, self.job, epochs, owner)
        left = partial(outcome.unpublished_epochs, service.store, self.job, epochs, owner)
        returned: list[Any] = []
        if waiting_for := left():
            refuse_held(service, self.job, waiting_for[0], owner)
            returned = self._compute(context, intervals, settings, owner, left)
        else:
            outcome.tell_done(
                self.log, self.job, outcome.published_epochs(service.store, self.job, epochs, owner), kept
            )
        published, staged = outcome.outcome_of(service.store, self.job, epochs, owner)
        others = [epoch for epoch in epochs if epoch not in staged]
        outcome.refuse_unpublished(self.job, others, published, f"function {self.python_callable.__name__}")
        outcome.tell_ignored(self.log, service, self.job, epochs[-1].end)
        announce(context, self.job, published, staged)
        note_published(self, service, self.job, published)
        return returned

    def _restate(
        self,
        context: Context,
        service: EpochService,
        settings: Settings,
        members: Sequence[Interval],
        restatement: RestatementId,
    ) -> list[Any]:
        """Compute *members* within *restatement*, which publishes them; nothing is announced before."""
        from airflow_provider.coordination.restating.members import uncomputed
        from airflow_provider.operators import restating
        from airflow_provider.operators.waiting import refuse_held

        left = partial(uncomputed, service.store, self.job, members, restatement)
        owner = task_owner(context)
        if waiting_for := left():
            refuse_held(service, self.job, waiting_for[0], owner, restatement)
        returned = self._compute(context, members, settings, owner, left, restatement=restatement)
        restating.refuse_uncomputed(
            service, self.job, members, restatement, f"function {self.python_callable.__name__}"
        )
        restating.tell_staged(self.log, service, self.job, members, restatement, conn_id=self.epochs_conn_id)
        return returned

    def _compute(
        self,
        context: Context,
        intervals: Sequence[Interval],
        settings: Settings,
        owner: Owner,
        left: Callable[[], Sequence[Interval]],
        *,
        restatement: RestatementId | None = None,
    ) -> list[Any]:
        from airflow_provider.operators.waiting import begun

        returned = []
        try:
            with spark_of(self.spark_conn_id) as self._spark:
                for runs in self._runs(intervals, settings, owner, restatement):
                    while (epoch := begun(runs, left, restatement)) is not None:
                        self.log.info("Begun: %s, for %s", epoch.attempt, owner)
                        with epoch:
                            returned.append(self._call(context, epoch))
                        if epoch.published:
                            self.log.info("Published at CSN %d: %s", epoch.published.csn, epoch.attempt)
                        else:
                            self.log.info("Computed: %s", epoch.attempt)
        finally:
            self._spark = None
        return returned

    def _runs(
        self,
        intervals: Sequence[Interval],
        settings: Settings,
        owner: Owner,
        restatement: RestatementId | None,
    ) -> Iterator[Iterator[EpochRun]]:
        """Yield the runs of the epochs of each of *intervals*, or of all that one commit publishes."""
        from airflow_provider.spark.epoch_run import (  # pyspark: not at each parse of a DAG
            epoch_runs,
            together_runs,
        )

        if self.commit is CommitMode.TOGETHER and restatement is None:
            epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
            yield together_runs(self.job, epochs, spark=self._spark, owner=owner, settings=settings)
            return
        for interval in intervals:
            yield epoch_runs(
                self.job,
                interval,
                spark=self._spark,
                owner=owner,
                settings=settings,
                restatement=restatement,
            )


@contextmanager
def spark_of(conn_id: str) -> Iterator[Any]:
    """Open the Spark session of the connection: on a Connect server that stays up, or in this process.

    :raises InvalidInput: Airflow does not know the connection, or it leads to another kind of master.
    """
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # slow: it loads requests

    from airflow_provider.spark import refusals
    from airflow_provider.spark.connect import connected
    from airflow_provider.spark.session import is_in_process, session

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise refusals.no_spark(conn_id) from error
    if connection.conn_type != SparkSubmitHook.conn_type:
        with connected(SparkConnectHook(conn_id).get_connection_url()) as spark:
            yield spark
    elif is_in_process(connection.host):
        yield session(master=connection.host)
    else:
        raise refusals.not_local(conn_id, connection.host)


def expect_epoch(python_callable: Callable[..., Any]) -> None:
    """Give the parameter ``epoch`` a default, since the DAG calls the function without it: the task passes it by name.

    :raises InvalidInput: the function has no such parameter, or a parameter that cannot be passed by name.
    """
    signature = inspect.signature(python_callable)
    parameters = signature.parameters
    nameless = [
        parameter.name
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
    ]
    if EPOCH_PARAMETER not in parameters or nameless:
        raise InvalidInput(
            field="python_callable",
            value=f"{getattr(python_callable, '__name__', python_callable)}{signature}",
            expected=f"a function with a parameter named {EPOCH_PARAMETER!r}, all parameters with names of their own",
            next_step="write `def compute(epoch): epoch.write(…, transform(epoch.read(…)))`.",
        )
    ours = parameters[EPOCH_PARAMETER].replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None)
    others = [parameter for parameter in parameters.values() if parameter.name != EPOCH_PARAMETER]
    keywords = [parameter for parameter in others if parameter.kind is parameter.VAR_KEYWORD]
    rest = [parameter for parameter in others if parameter.kind is not parameter.VAR_KEYWORD]
    python_callable.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*rest, ours, *keywords]
    )


def epoch_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> TaskDecorator:
    """Turn a function into a task that computes epochs; Airflow offers it as ``@task.epoch``.

    Parameters are those of :class:`EpochDecoratedOperator` and of every operator.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=EpochDecoratedOperator,
        **kwargs,
    )
