"""Sensor that waits until tables have a consistent cut at the run's barrier."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider.domain.cut_request import ROLLING, as_plain_request, cut_request
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.durations import checked_ttl
from airflow_provider.domain.errors import FinalError, InvalidInput, StoreUnavailable, choice
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.read_options import Align, Consistency
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.upstream import OnUpstreamFailure
from airflow_provider.hooks.arguments import default_deferrable, is_parsed, refuse_barrier, refuse_connections
from airflow_provider.hooks.assets import asset_of
from airflow_provider.hooks.compat import AirflowException, AirflowSensorTimeout, AirflowSkipException
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook, default_consistency
from airflow_provider.hooks.task_run import (
    as_cadence,
    final_errors_end_retries,
    hull,
    started_by_assets,
    task_intervals,
    warn_of_ended_runs,
)
from airflow_provider.links.epochs import EpochGridLink, tables_query
from airflow_provider.sensors.without_worker import (
    OfInstances,
    ends_in_trigger,
    refuse_start,
    start_trigger_args,
    starts_in_trigger,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider.coordination.reading.wait import JobInputs, Readiness
    from airflow_provider.hooks.awaited import Awaited
    from airflow_provider.stores.base import MetadataReader
    from airflow_provider.triggers.epochs import EpochTrigger

_SHORTEST_PAUSE_S = 1.0
"""Time between two questions of a worker in a domain that commits all the time."""


class EpochSensor(BaseSensorOperator):
    """Wait until all tables have reached the run's barrier, so that one cut holds all of them.

    If retention has expired the barrier, the task fails for good; the error names the nearest barriers that are kept.

    Asks at once, defers only if it must wait, and asks again when it is woken; a worker that waits (``mode="poke"``)
    is woken, too. In all modes the answer comes from :mod:`airflow_provider.coordination.reading.wait`.

    :param tables: tables to wait for. :param job: instead of them a job, whose inputs are waited for, each where the
        job's epochs read it: up to the barrier, up to ``as_of`` before it, or up to the start of the run's interval
        (``previous``); its sources until they are complete for each epoch of the run.
    :param at: barrier to wait for (templated); None for the end of the run's interval: of its partition key, its data
        interval, or its date.
    :param cadence: calendar of the runs, if a run's date alone does not lie on the tables' barriers; by default the
        ``batch`` of the downstream task that computes the job, or the job's own.
    :param epochs_conn_id: connection of the metadata store.
    :param deferrable: wait in the triggerer instead of holding a worker; the default is ``[operators]
        default_deferrable``. ``timeout`` counts all waits of a try together.
    :param align: as for a reader's cut, and so are *max_lag*, *max_staleness* and *consistency*, whose default is
        ``[epochs] read_consistency``; with *max_staleness* a later barrier serves, too. All of them with *tables* only.
    :param lease: time to live of a lease on the cut, made when it is there; the tasks after it read that cut by
        ``epochs.held(found)``.
    :param on_upstream_failure: ``fail`` fails the try as soon as the newest attempt at an epoch that is waited for was
        aborted, or its checks failed; ``wait`` waits on, for a retry or a cleared task.
    :param start_from_trigger: begin in the triggerer, without a worker; by default a deferrable sensor does where it
        loses nothing by it (docs/decisions/without-worker.md). :param end_from_trigger: end there, likewise.
    """

    start_from_trigger = OfInstances(starts_in_trigger, of_class=False)
    start_trigger_args = OfInstances(start_trigger_args, of_class=None)

    template_fields: Sequence[str] = ("at",)
    operator_extra_links = (EpochGridLink(),)
    ui_color = "#d7ebe6"

    def __init__(
        self,
        *,
        tables: Iterable[Table] | Table = (),
        job: Job | None = None,
        at: Interval | datetime | str | None = None,
        cadence: Cadence | str | None = None,
        epochs_conn_id: str = DEFAULT_CONN_ID,
        deferrable: bool | None = None,
        poke_interval: timedelta | float = DEFAULTS.wait_poll_interval,
        align: Align | str = Align.EXACT,
        max_lag: timedelta | None = None,
        max_staleness: timedelta | None = None,
        consistency: Consistency | str | None = None,
        lease: timedelta | None = None,
        on_upstream_failure: OnUpstreamFailure | str = OnUpstreamFailure.WAIT,
        start_from_trigger: bool | None = None,
        end_from_trigger: bool | None = None,
        **kwargs: Any,
    ) -> None:
        waited = _waited(tables, job)
        self.job = job
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.inlets = [*self.inlets, *(asset for asset in map(asset_of, waited) if asset not in self.inlets)]
        self.at = at
        self.domain = job.domain if job is not None else waited[0].domain
        self.tables = [table.name for table in waited]
        self.cadence = as_cadence(cadence, "cadence")
        if is_parsed(self):
            refuse_barrier(at, self.cadence)
            refuse_connections(epochs_conn_id=epochs_conn_id)
        self.epochs_conn_id = epochs_conn_id
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        self.cut = cut_request(
            align=align,
            max_lag=max_lag,
            max_staleness=max_staleness,
            consistency=consistency or (default_consistency() if job is None else Consistency.ROLLING),
        )
        self.lease = None if lease is None else checked_ttl(lease, DEFAULTS.lease_longest)
        if job is not None and (self.cut != ROLLING or lease is not None):
            raise InvalidInput(
                field="job",
                value=job.name,
                expected="tables=, where align, max_lag, max_staleness, consistency or lease is given: a job reads "
                "each input where its edge says",
            )
        refuse_start(start_from_trigger)
        self.on_upstream_failure = choice(OnUpstreamFailure, on_upstream_failure, "on_upstream_failure")
        self.without_worker = {
            "start_from_trigger": start_from_trigger,
            "end_from_trigger": end_from_trigger,
        }
        self._told = False
        self._seen = 0
        self.grid_query: dict[str, str] = {}

    def execute(self, context: Context) -> Any:
        """Ask; then defer, poke or reschedule as configured.

        :return: ``domain``, ``barrier`` and ``csn`` at which the tables were ready; with a lease also ``lease``,
            ``owner`` and ``until``.
        """
        with final_errors_end_retries():
            if not self.deferrable:
                return super().execute(context)
            try:
                return self._found_or_defer(self._request(context), context, datetime.now(UTC))
            except (AirflowException, FinalError) as error:  # as where it is woken: resume_execution
                if self.soft_fail or self.never_fail:
                    raise AirflowSkipException(
                        f"Skipped, as soft_fail or never_fail says: {error}"
                    ) from error
                raise

    def poke(self, context: Context) -> PokeReturnValue:
        """Ask once."""
        request = self._request(context)
        answer = self._ask(request, context)
        self._seen = answer.csn
        found = self._found(answer, request, context) if answer.ready else None
        return PokeReturnValue(is_done=answer.ready, xcom_value=found)

    def _get_next_poke_interval(self, *arguments: Any) -> float:
        """Return the seconds to the next question; a worker that is held spends them in the store's watch.

        A commit ends them, at most once a second. A wait for sources does not watch: listing them has its price.
        """
        pause = float(super()._get_next_poke_interval(*arguments))
        asks_sources = self.job is not None and bool(self.job.sources)
        if self.reschedule or asks_sources or pause <= _SHORTEST_PAUSE_S:
            return pause
        began = time.monotonic()
        with suppress(StoreUnavailable), EpochsHook(self.epochs_conn_id).get_reader() as reader:
            reader.watch(domain_name(self.domain), self._seen, timedelta(seconds=pause))
            pause = _SHORTEST_PAUSE_S
        return max(pause - (time.monotonic() - began), 0.0)

    def resumed(self, context: Context, event: Any = None, since: str | None = None) -> Any:
        """Ask again: the event is a hint, and a table may have been rolled back since.

        :param since: time at which this try began to wait; None for a wait that began in the triggerer, whose event
            says it, and for one that an earlier version of this package began.
        """
        with final_errors_end_retries():
            since = since or (event.get("since") if isinstance(event, Mapping) else None)
            started = datetime.now(UTC) if since is None else datetime.fromisoformat(since)
            return self._found_or_defer(self._request(context), context, started)

    def trigger_of_any_run(self, timeout: timedelta) -> EpochTrigger:
        """Return the trigger with which Airflow's scheduler starts this task without a worker."""
        from airflow_provider.triggers.epochs import GRACE, EpochTrigger

        airflows = timeout + GRACE
        if self.execution_timeout is not None:
            airflows = min(airflows, self.execution_timeout)
        return EpochTrigger(
            epochs_conn_id=self.epochs_conn_id,
            domain=self.domain,
            tables=self.tables,
            poll_interval=self.poke_interval,
            awaited=self._awaited().as_plain(),
            timeout=timeout.total_seconds(),
            trigger_timeout=airflows.total_seconds(),
            on_upstream_failure=self.on_upstream_failure,
            cut=as_plain_request(self.cut),
            lease=None if self.lease is None else self.lease.total_seconds(),
            ends=ends_in_trigger(self),
        )

    def _awaited(self) -> Awaited:
        from airflow_provider.hooks.awaited import Awaited, ReadByJob

        calendar = self.cadence
        if self.job is not None:
            calendar = calendar or self._batch(self.job) or self.job.cadence
        return Awaited(
            domain=self.domain,
            tables=tuple(self.tables),
            at=self.at,
            calendar=calendar,
            job=None if self.job is None else ReadByJob.of(self.job),
        )

    def _request(self, context: Context) -> datetime | JobInputs:
        """Return the barrier to wait for, or the inputs of the job's epochs; also sets the query of the grid link."""
        from airflow_provider.coordination.reading.wait import JobInputs

        awaited = self._awaited()
        if self.job is not None and not self.at and started_by_assets(context["dag_run"]):
            epochs = task_intervals(context, self.job, cadence=awaited.calendar)
            request: datetime | JobInputs = JobInputs.of(self.job, hull(epochs))
        else:
            request = awaited.of_run(context)
        barrier = request.interval.end if isinstance(request, JobInputs) else request
        self.grid_query = tables_query(self.epochs_conn_id, self.domain, self.tables, barrier)
        return request

    def _batch(self, job: Job) -> Cadence | None:
        """Return the ``batch`` of a downstream task that computes *job*; None without one."""
        below = self.get_flat_relatives(upstream=False) if self.has_dag() else ()  # type: ignore[no-untyped-call]
        batches = (getattr(task, "batch", None) for task in below if getattr(task, "job", None) == job)
        return next((batch for batch in batches if batch is not None), None)

    def _ask(
        self, request: datetime | JobInputs, context: Mapping[str, Any], started: datetime | None = None
    ) -> Readiness:
        from airflow_provider.coordination.commits.group_declarations import refuse_endless_wait
        from airflow_provider.coordination.reading.bringers import refuse_failed, with_failures
        from airflow_provider.coordination.reading.cut_readiness import cut_readiness
        from airflow_provider.coordination.reading.wait import JobInputs, check_inputs
        from airflow_provider.coordination.retrying_reader import retrying_reader
        from airflow_provider.sources.readers import SourceReaders

        hook = EpochsHook(self.epochs_conn_id)
        try:
            with hook.get_reader() as reader:
                if self.job is not None:
                    refuse_endless_wait(reader, self.job)
                if isinstance(request, JobInputs):
                    source_readers = SourceReaders(hook.connection_urls(request.connections))
                    answer = check_inputs(reader, self.domain, request, source_readers)
                else:
                    answer = cut_readiness(
                        retrying_reader(reader), self.domain, self.tables, request, self.cut
                    )
                if self.on_upstream_failure is OnUpstreamFailure.FAIL:
                    answer = with_failures(reader, self.domain, answer, self.tables)
                self._tell(reader, answer, context, started)
        except StoreUnavailable as error:
            if not error.absent:
                raise
            self.log.warning("%s", error)  # the store is a file, which the first run of a job creates
            return self._nothing_yet(request, error)
        self._told = True
        refuse_failed(answer)
        return answer

    def _tell(
        self, reader: MetadataReader, answer: Readiness, context: Mapping[str, Any], started: datetime | None
    ) -> None:
        """Log what the task waits for; the first time also which DAG brings it."""
        from airflow_provider.coordination.reading.bringers import bringers, told_wait

        if answer.ready or self._told:
            self.log.info("%s at %s: %s", ", ".join(self.tables), answer.barrier.isoformat(), answer)
            return
        tables = [lag.table for lag in answer.missing if lag.table in self.tables]
        found = bringers(reader, self.domain, tables)
        until = None if started is None else started + timedelta(seconds=self.timeout)
        names = self.tables or [lag.table for lag in answer.missing]
        self.log.info("%s", told_wait(answer, names, found, until))
        warn_of_ended_runs(self.log, found, context)

    def _nothing_yet(self, request: datetime | JobInputs, error: StoreUnavailable) -> Readiness:
        from airflow_provider.coordination.reading.wait import JobInputs, Readiness

        barrier = request.interval.end if isinstance(request, JobInputs) else request
        missing = (Missing(name=name, wanted=barrier, reason=error.message) for name in self.tables)
        return Readiness(barrier=barrier, csn=0, missing=tuple(missing))

    def _found(
        self, answer: Readiness, request: datetime | JobInputs, context: Mapping[str, Any]
    ) -> dict[str, Any]:
        from airflow_provider.coordination.reading.wait import JobInputs
        from airflow_provider.hooks.leased import LeaseOf, leased_cut

        if self.lease is None or isinstance(request, JobInputs):
            return {"domain": self.domain, "barrier": answer.barrier.isoformat(), "csn": answer.csn}
        leased = leased_cut(
            EpochsHook(self.epochs_conn_id).get_settings(),
            LeaseOf.of(context["ti"], context["dag_run"]),
            domain=self.domain,
            tables=self.tables,
            barrier=request,
            request=self.cut,
            ttl=self.lease,
        )
        self.log.info("Leased as %s until %s", leased["lease"], leased["until"])
        return dict(leased)

    def _found_or_defer(
        self, request: datetime | JobInputs, context: Mapping[str, Any], started: datetime
    ) -> dict[str, Any]:
        from airflow_provider.coordination.reading.wait import JobInputs
        from airflow_provider.triggers.epochs import as_plain_values

        answer = self._ask(request, context, started)
        if not answer.ready:
            self._defer(answer, as_plain_values(request) if isinstance(request, JobInputs) else {}, started)
        return self._found(answer, request, context)

    def _defer(self, answer: Readiness, inputs: Mapping[str, Any], started: datetime) -> NoReturn:
        from airflow_provider.triggers.epochs import GRACE, EpochTrigger

        left = started + timedelta(seconds=self.timeout) - datetime.now(UTC)
        if left <= timedelta(0):
            raise AirflowSensorTimeout(f"Not within {timedelta(seconds=self.timeout)}: {answer}.")
        self.defer(
            trigger=EpochTrigger(
                epochs_conn_id=self.epochs_conn_id,
                domain=self.domain,
                tables=self.tables,
                barrier=answer.barrier.isoformat(),
                poll_interval=self.poke_interval,
                until=(started + timedelta(seconds=self.timeout)).isoformat(),
                ends=ends_in_trigger(self),
                on_upstream_failure=self.on_upstream_failure,
                cut=as_plain_request(self.cut),
                lease=None if self.lease is None else self.lease.total_seconds(),
                **inputs,
            ),
            method_name="resumed",
            kwargs={"since": started.isoformat()},
            timeout=left + GRACE,
        )


def _waited(tables: Iterable[Table] | Table, job: Job | None) -> list[Table]:
    """Return the tables to wait for, each once.

    :raises InvalidInput: no or both of *tables* and *job*, a value of another type, or tables of several domains.
    """
    given = [tables] if isinstance(tables, Table) else list(tables)
    if job is not None and not isinstance(job, Job):
        raise InvalidInput(field="job", value=job, expected="a Job")
    if bool(given) == (job is not None):
        raise InvalidInput(field="tables", value=given, expected="either tables or a job to wait for")
    if job is not None and job.group is not None:
        raise InvalidInput(
            field="job",
            value=str(job.name),
            expected=f"tables, or a job outside of groups: those of {job.group.name!r} read what is not committed yet",
            next_step="leave the sensor out: the task of the job waits by itself.",
        )
    if job is not None:
        given = [Table(edge.table, job.domain) for edge in job.edges]
        if not given and job.sources:
            return []
    if not given or not all(isinstance(table, Table) for table in given):
        raise InvalidInput(field="tables", value=given, expected="one Table or more that is read")
    if len({table.domain for table in given}) > 1:
        raise InvalidInput(
            field="tables", value=[table.uri for table in given], expected="tables of one domain"
        )
    return list(dict.fromkeys(given))
