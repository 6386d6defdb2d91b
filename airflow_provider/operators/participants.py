"""One epoch that several tasks write: a task begins it, mapped tasks write its output, and a task commits it.

.. code-block:: python

    @epoch_task_group(job=clean, participants=4)
    def compute(epoch):
        share = f"pmod(hash(id), {epoch.participants}) = {epoch.participant}"
        epoch.write("flights_clean", epoch.read(flights).where(share))

    compute()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import BaseOperator, TaskGroup
from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory

from airflow_provider.domain.checks import CheckKind
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt, Published
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.participation import refuse_participants, refuse_shared_ttl
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.topology import Job, as_job, connections_of
from airflow_provider.hooks.arguments import (
    WAIT_TIMEOUT,
    checked_wait,
    default_deferrable,
    is_left_to_the_run,
    is_parsed,
    known_interval,
    refuse_connections,
)
from airflow_provider.hooks.compat import AirflowSkipException
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.schedules import refuse_schedule
from airflow_provider.hooks.task_run import (
    asked_intervals,
    final_errors_end_retries,
    grid_query,
    hull,
    task_cause,
    task_intervals,
    task_owner,
    task_restatement,
)
from airflow_provider.links.epochs import EpochGridLink
from airflow_provider.operators.assets import announce, with_assets, withhold
from airflow_provider.operators.decorator import (
    EPOCH_PARAMETER,
    EpochFunctionOperator,
    expect_epoch,
    spark_of,
)
from airflow_provider.operators.openlineage import WithLineage, note_begin, note_published

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.coordination.service import EpochService
    from airflow_provider.spark.handles import Handle

_SQL = frozenset({CheckKind.NO_ROWS, CheckKind.IS_TRUE})
_Ended = Published | AlreadyCommitted | AlreadyStaged


class EpochBeginOperator(BaseOperator):
    """Begin the run's epoch for participants, and return a handle for each of them: ``expand(epoch=begin.output)``.

    A retry, or a clearing, begins a new attempt, which fences the participants of the previous attempt.

    :param job: the declaration.
    :param participants: number of tasks that write: a number, a template, or the output of another task.
    :param interval: the epoch (templated); None for the epoch of the run.
    :param lock_ttl: longest time without a heartbeat of any participant, such as while they wait for workers, before
        another run may take the epoch over; by default an hour.
    :param deferrable: wait in the triggerer while the epoch is busy or not ready, instead of in the worker; the default
        is ``[operators] default_deferrable``. :param wait_timeout: longest time for all waits of a try together.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("participants", "interval")
    operator_extra_links = (EpochGridLink(),)
    ui_color = "#e8dcf5"

    def __init__(
        self,
        *,
        job: Job,
        participants: Any,
        interval: ExplicitInterval | None = None,
        lock_ttl: timedelta | None = None,
        deferrable: bool | None = None,
        wait_timeout: timedelta = WAIT_TIMEOUT,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        job = as_job(job)
        super().__init__(**kwargs)
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        self.wait_timeout = checked_wait(wait_timeout)
        self.job = job
        self.participants = participants
        self.interval = interval
        self.lock_ttl = lock_ttl
        if is_parsed(self):
            if not is_left_to_the_run(participants):
                refuse_participants(_number(participants), job)
            _refuse_several(job, known_interval(job.cadence, interval))
            refuse_schedule(self, job, None, interval)
            refuse_shared_ttl(lock_ttl, DEFAULTS)
            refuse_connections(epochs_conn_id=epochs_conn_id)
        self.epochs_conn_id = epochs_conn_id
        self.grid_query: dict[str, str] = {}

    def execute(self, context: Context) -> list[str]:
        """Begin; return each participant's handle, also if the epoch is committed already.

        :raises AirflowFailException: for an error that no retry can cure.
        """
        from airflow_provider.operators.waiting import waiting

        return list(waiting(self, context, None, self._run))

    def resumed(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,  # noqa: ARG002
        since: str = "",
    ) -> list[str]:
        """Continue after a wait: ask the store again, since the event is a hint."""
        from airflow_provider.operators.waiting import waiting

        return list(waiting(self, context, since or None, self._run))

    def _run(self, context: Context) -> list[str]:
        from airflow_provider.operators import outcome, restating
        from airflow_provider.operators.waiting import begins
        from airflow_provider.spark.handles import handles
        from airflow_provider.spark.shared_run import begin_shared  # pyspark: not at each parse of a DAG

        number = _number(self.participants)
        refuse_schedule(self, self.job, None, self.interval)
        intervals = task_intervals(context, self.job, explicit=self.interval)
        self.grid_query = grid_query(self.epochs_conn_id, self.job, hull(intervals))
        asked = asked_intervals(context, self.job, explicit=self.interval)
        if asked is None:
            _refuse_several(self.job, hull(intervals))
        epochs = [epoch for interval in intervals for epoch in self.job.cadence.split(interval)]
        with _opened(self.epochs_conn_id, self.job) as service:
            owner, ttl = task_owner(context), self.lock_ttl
            named, why = task_restatement(context), task_cause(context)
            found = restating.run_epochs(
                self.log, service, self.job, epochs, owner, named=named, cause=why, asked=asked
            )
            members = [epoch for own in found.within.values() for epoch in own]
            if not members and not found.alone:
                raise AirflowSkipException(_nothing(intervals, named))
            interval, within = hull([*members, *found.alone]), next(iter(found.within), None)
            _refuse_several(self.job, interval)
            if within is None:
                outcome.tell_kept(
                    self.log, self.job, outcome.kept_epochs(service.store, self.job, [interval], owner)
                )
            with begins(lambda: [interval], within):
                answer = begin_shared(
                    service, self.job, interval, owner, participants=number, lock_ttl=ttl, restatement=within
                )
        self.log.info("Handed to %d participants: %s, for %s", number, answer, owner)
        return handles(self.job, answer, number)


class EpochParticipantOperator(EpochFunctionOperator):
    """Call a function that writes one participant's part of an epoch; its argument ``epoch`` is a ``ParticipantRun``.

    The DAG passes a handle as ``epoch``: ``expand(epoch=begin.output)``. A retry begins this participant again and
    fences its own earlier tries only. If the epoch is committed, or complete, the function is not called.

    Parameters are those of :class:`EpochFunctionOperator`.
    """

    custom_operator_name = "@task.epoch_participant"
    template_fields: Sequence[str] = DecoratedOperator.template_fields

    def execute(self, context: Context) -> Any:
        """Write this participant's part; return the function's return value.

        :raises AirflowFailException: for an error that no retry can cure.
        """
        from airflow_provider.spark.handles import handle_of

        with final_errors_end_retries():
            handle = handle_of(self.op_kwargs.get(EPOCH_PARAMETER), self.job)
            self.grid_query = grid_query(self.epochs_conn_id, self.job, handle.begun.interval)
            with _opened(self.epochs_conn_id, self.job) as service:
                found = service.resume(self.job, handle.begun)
                if isinstance(found, AlreadyStaged):
                    self.log.info("Staged already: %s; to compute it anew, clear what begins it", found)
                    return None
                if isinstance(found, AlreadyCommitted):
                    self.log.info(
                        "Committed already, at CSN %d: %s; to compute it anew, clear what begins it",
                        found.csn,
                        found,
                    )
                    return None
                if found.adopted:
                    self.log.info("Complete from an earlier attempt; the commit publishes it: %s", found)
                    return None
                return self._participate(context, service, handle)

    def _participate(self, context: Context, service: EpochService, handle: Handle) -> Any:
        from airflow_provider.spark.shared_run import (  # pyspark: not at each parse
            ParticipantRun,
            participate,
        )

        with spark_of(self.spark_conn_id) as spark:
            self._spark = spark
            try:
                epoch = participate(service, self.job, handle, owner=task_owner(context), spark=spark)
                if not isinstance(epoch, ParticipantRun):
                    return None
                with epoch:
                    returned = self._call(context, epoch)
                self.log.info("Written: %s", epoch.attempt)
                return returned
            finally:
                self._spark = None


class EpochCommitOperator(WithLineage, BaseOperator):
    """Check and publish the output of all participants of an epoch at once, and announce its tables.

    If a participant has not written, the task fails with ``NotReady`` and leaves the epoch open: run that participant
    again, then this task. If the epoch is committed already, the task announces that commit. Within a restatement it
    stages the output, and announces nothing.

    :param job: the declaration. :param epoch: the output of :class:`EpochBeginOperator` (templated).
    :param spark_conn_id: as for ``@task.epoch``; opened only if the job has checks in SQL.
    :param epochs_conn_id: connection of the metadata store.
    """

    template_fields: Sequence[str] = ("epoch",)
    operator_extra_links = (EpochGridLink(),)
    ui_color = "#e8dcf5"

    def __init__(
        self,
        *,
        job: Job,
        epoch: Any,
        spark_conn_id: str = SparkConnectHook.default_conn_name,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        job = as_job(job)
        super().__init__(**{**kwargs, "outlets": with_assets(job, kwargs.get("outlets"))})
        self.job = job
        self.epoch = epoch
        if is_parsed(self):
            if not isinstance(epoch, str | list | tuple) and not is_left_to_the_run(epoch):
                expected = "what EpochBeginOperator returned"
                raise InvalidInput(
                    field="epoch", value=epoch, expected=expected, next_step="give it begin.output."
                )
            refuse_connections(spark_conn_id=spark_conn_id, epochs_conn_id=epochs_conn_id)
        self.spark_conn_id = spark_conn_id
        self.epochs_conn_id = epochs_conn_id
        self.grid_query: dict[str, str] = {}

    def execute(self, context: Context) -> None:
        """Publish the epoch.

        :raises AirflowFailException: for an error that no retry can cure.
        """
        from airflow_provider.domain.group import publishes
        from airflow_provider.operators import outcome, restating
        from airflow_provider.spark.handles import handle_of

        with final_errors_end_retries():
            given = self.epoch[0] if isinstance(self.epoch, list | tuple) and self.epoch else self.epoch
            handle = handle_of(given, self.job)
            self.grid_query = grid_query(self.epochs_conn_id, self.job, handle.begun.interval)
            epoch = handle.begun.interval
            with _opened(self.epochs_conn_id, self.job) as service:
                note_begin(self, service, self.job)
                found = service.resume(self.job, handle.begun)
                within = None if isinstance(found, AlreadyCommitted) else found.restatement
                ended = self._end(service, found) if isinstance(found, Attempt) else found
                if within is not None and not publishes(self.job.group, within, epoch):
                    restating.tell_staged(
                        self.log, service, self.job, [epoch], within, conn_id=self.epochs_conn_id
                    )
                    withhold(self, self.job)
                    return
                published, staged = self._outcome(service, ended, epoch, task_owner(context))
                note_published(self, service, self.job, published)
                outcome.tell_ignored(self.log, service, self.job, epoch.end)
            announce(context, self.job, published, staged)

    def _outcome(
        self, service: EpochService, found: _Ended, epoch: Interval, owner: Owner
    ) -> tuple[list[Published], list[Interval]]:
        """Return *epoch* as published, or as staged for the commit of the job's group."""
        from airflow_provider.operators import outcome

        if isinstance(found, Published):
            return [found], []
        if isinstance(found, AlreadyCommitted):
            self.log.info("Committed already, at CSN %d: %s", found.csn, found)
            return [outcome.published_before(service.store, found)], []
        return outcome.outcome_of(service.store, self.job, [epoch], owner)

    def _end(self, service: EpochService, attempt: Attempt) -> Published | AlreadyStaged:
        """Check the output of all participants, and publish it, or stage it for its restatement."""
        from airflow_provider.spark.shared_run import SharedRun  # pyspark: not at each parse of a DAG

        with ExitStack() as stack:
            asks_spark = any(check.kind in _SQL for check in attempt.checks)
            spark = stack.enter_context(spark_of(self.spark_conn_id)) if asks_spark else None
            with SharedRun(service, self.job, attempt, spark=spark, lasts=True) as run:
                self.log.info("%d participants of %s", run.participants, attempt)
        if attempt.restatement is not None:
            return service.stage(attempt)
        published = run.published or service.publish(attempt)
        self.log.info("Published at CSN %d: %s", published.csn, attempt)
        return published


def epoch_participant_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    **kwargs: Any,
) -> TaskDecorator:
    """Turn a function into a task that writes a participant's part; Airflow offers it as ``@task.epoch_participant``.

    Parameters are those of :class:`EpochParticipantOperator` and of every operator.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=EpochParticipantOperator,
        **kwargs,
    )


def epoch_task_group(
    *,
    job: Job,
    participants: Any,
    group_id: str | None = None,
    interval: ExplicitInterval | None = None,
    lock_ttl: timedelta | None = None,
    deferrable: bool | None = None,
    wait_timeout: timedelta = WAIT_TIMEOUT,
    spark_conn_id: str = SparkConnectHook.default_conn_name,
    epochs_conn_id: str = DEFAULT_CONN_ID,
    **kwargs: Any,
) -> Callable[[Callable[..., Any]], Callable[..., TaskGroup]]:
    """Turn a function into a task group that computes one epoch: ``begin``, ``write`` (mapped) and ``commit``.

    Each of the *participants* calls the function with its ``epoch``, in a task and a Spark session of its own, and is
    retried by itself.

    :param participants: number of participants: a number, a template, or the output of another task.
    :param group_id: by default the function's name.
    :param deferrable: as for :class:`EpochBeginOperator`; ``begin`` is the only task that waits.
    :param wait_timeout: likewise.
    :param kwargs: arguments of all three tasks: ``retries``, ``pool``, ``queue`` and so on.
    :return: a function that makes the group when a DAG calls it; it takes the other arguments of the decorated
        function by name.
    """

    job = as_job(job)

    own: dict[str, Any] = {"job": job, "epochs_conn_id": epochs_conn_id, **kwargs}
    spark: dict[str, Any] = {"spark_conn_id": spark_conn_id}

    def decorate(function: Callable[..., Any]) -> Callable[..., TaskGroup]:
        expect_epoch(function)

        def group(**arguments: Any) -> TaskGroup:
            with TaskGroup(group_id=group_id or function.__name__, add_suffix_on_collision=True) as made:
                begin = EpochBeginOperator(
                    task_id="begin",
                    participants=participants,
                    interval=interval,
                    lock_ttl=lock_ttl,
                    deferrable=deferrable,
                    wait_timeout=wait_timeout,
                    **own,
                )
                write = epoch_participant_task(task_id="write", **own, **spark)(function)
                given = write.partial(**arguments) if arguments else write
                commit = EpochCommitOperator(task_id="commit", epoch=begin.output, **own, **spark)
                given.expand(**{EPOCH_PARAMETER: begin.output}) >> commit
            return made

        return group

    return decorate


def _opened(conn_id: str, job: Job) -> EpochService:
    from airflow_provider.coordination.service import EpochService

    return EpochService.open(EpochsHook(conn_id).get_settings(connections=connections_of(job)))


def _number(participants: object) -> Any:
    """Return the number in *participants*, since a template renders to text; begin refuses anything else."""
    return int(participants) if isinstance(participants, str) and participants.isdecimal() else participants


def _nothing(intervals: Sequence[Interval], named: RestatementId | None) -> str:
    """Return why a run of *intervals* computes nothing. :param named: the restatement in its configuration."""
    told = ", ".join(map(str, intervals))
    if named is not None:
        return f"{told} is committed, and no member of restatement {named}, which the configuration of this run names."
    return f"The tables lack none of {told}, and events of restatements alone name it: nothing is to be computed."


def _refuse_several(job: Job, interval: Interval | None) -> None:
    """Refuse an interval of several epochs; None, for an interval that only the run knows, passes.

    :raises InvalidInput: *interval* holds no or several epochs.
    """
    epochs = 1 if interval is None else len(job.cadence.split(interval))
    if epochs != 1:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"one epoch of {job.name!r} ({job.cadence}), not {epochs}",
            next_step="let one run compute one epoch, or give several epochs to one task: @task.epoch(batch=…).",
        )
