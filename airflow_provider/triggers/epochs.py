"""Trigger that waits for a barrier.

It wakes the task, which asks the store again: an event is a hint (R35), and Airflow may run a trigger twice or lose it.
A sensor's trigger may end the task itself, by the same decision on one reading (docs/decisions/without-worker.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time.xcom import XCom
from airflow.triggers.base import BaseTaskEndEvent, BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_provider.domain.cut_request import request_of_plain
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    EpochError,
    FinalError,
    PackageTooOld,
    RetryableError,
    UnknownConnection,
)
from airflow_provider.domain.identifiers import TableName, domain_name
from airflow_provider.domain.interval import Cadence, Interval, as_utc
from airflow_provider.domain.source_bounds import Source
from airflow_provider.domain.topology import Edge
from airflow_provider.domain.upstream import OnUpstreamFailure
from airflow_provider.hooks.compat import from_trigger, get_listener_manager, partition_key
from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook
from airflow_provider.hooks.task_run import started_by_assets
from airflow_provider.links.epochs import EpochGridLink, grid_link, tables_query

if TYPE_CHECKING:
    from airflow_provider.coordination.reading.wait import JobInputs, Readiness
    from airflow_provider.sources.readers import SourceReaders
    from airflow_provider.stores.base import MetadataReader
    from airflow_provider.triggers.shared_reader import SharedReader

GRACE = timedelta(minutes=10)
"""Time that a busy triggerer may be late by before Airflow itself ends a wait. The task says what is missing."""


class EpochTrigger(BaseTrigger):
    """Fire when all tables have reached a barrier.

    It outlives outages of the store: while the store does not answer, it asks again at each interval. It keeps names
    and times in Airflow's database, never an address or a password.

    :param epochs_conn_id: the connection, looked up anew whenever the store has to be opened.
    :param domain: domain of the tables. :param tables: their names.
    :param barrier: barrier to wait for, in ISO 8601 with an offset.
    :param poll_interval: longest time in seconds between two questions; the store's watch wakes the trigger earlier.
    :param edges: edges of a job on the tables, in the form of :func:`as_plain_values`; then each table is waited for
        where the job reads it.
    :param start: start of the interval that the job computes, in the form of *barrier*.
    :param job: job that is to begin: then its epoch's lock is waited for, too. :param run: ids of the DAG and the run
        that wait.
    :param until: time at which waiting ends without success, in the form of *barrier*; None if only Airflow ends it.
    :param sources: sources that the job reads, as it declares them. :param cadence: cadence of its epochs.
    :param restatement: the restatement within which the epoch is to begin.
    :param awaited: in place of *barrier* and all that goes with it, for a trigger that no worker has started: what the
        sensor waits for, in the form of :meth:`Awaited.as_plain`. :param timeout: longest wait of the sensor in
        seconds. :param trigger_timeout: time in seconds after which Airflow ends the trigger.
    :param ends: end the task with success, with the sensor's return value, instead of waking it.
    :param on_upstream_failure: as for the sensor: ``fail`` wakes it when what it waits for has failed.
    :param cut: options of the cut of *tables*, in the form of :func:`as_plain_request`.
    :param lease: time to live, in seconds, of the lease that a trigger which ends the task makes; None for no lease.
    :param later: fields of later versions of this package; a triggerer that is not upgraded yet ignores them.
    """

    def __init__(
        self,
        *,
        domain: str,
        tables: Sequence[str],
        barrier: str = "",
        epochs_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = DEFAULTS.wait_poll_interval.total_seconds(),
        edges: Sequence[Mapping[str, Any]] = (),
        start: str | None = None,
        job: str | None = None,
        run: Sequence[str] = (),
        until: str | None = None,
        sources: Sequence[Mapping[str, Any]] = (),
        cadence: Mapping[str, Any] | None = None,
        restatement: str | None = None,
        awaited: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        trigger_timeout: float | None = None,
        ends: bool = False,
        on_upstream_failure: str = OnUpstreamFailure.WAIT,
        cut: Mapping[str, Any] | None = None,
        lease: float | None = None,
        **later: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.epochs_conn_id = epochs_conn_id
        self.domain = domain
        self.tables = list(tables)
        self.barrier = barrier
        self.poll_interval = poll_interval
        self.edges = [dict(edge) for edge in edges]
        self.start = start
        self.job = job
        self.run_ids = list(run)
        self.until = until
        self.sources = [dict(source) for source in sources]
        self.cadence = None if cadence is None else dict(cadence)
        self.restatement = restatement
        self.awaited = None if awaited is None else dict(awaited)
        self.timeout = timeout
        self.trigger_timeout = trigger_timeout
        self.ends = ends
        self.on_upstream_failure = OnUpstreamFailure(on_upstream_failure)
        self.cut = None if cut is None else dict(cut)
        self.lease = lease
        self.later = later
        self.timeout_after: datetime | None = None  # set by the triggerer
        self._context: Mapping[str, Any] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and the arguments that make an equal trigger."""
        started = {
            "awaited": self.awaited,
            "timeout": self.timeout,
            "trigger_timeout": self.trigger_timeout,
        }
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "epochs_conn_id": self.epochs_conn_id,
                "domain": self.domain,
                "tables": self.tables,
                "barrier": self.barrier,
                "poll_interval": self.poll_interval,
                "edges": self.edges,
                "start": self.start,
                "job": self.job,
                "run": self.run_ids,
                "until": self.until,
                **({} if self.restatement is None else {"restatement": self.restatement}),
                **({"sources": self.sources, "cadence": self.cadence} if self.sources else {}),
                **({} if self.awaited is None else started),
                **({"ends": True} if self.ends else {}),
                **({"on_upstream_failure": "fail"} if self._fails else {}),
                **({} if not self.cut else {"cut": self.cut}),
                **({} if self.lease is None else {"lease": self.lease}),
            },
        )

    def render_template_fields(self, context: Any, jinja_env: Any = None) -> None:  # noqa: ARG002
        """Keep the run's context, which Airflow has for a trigger that no worker has started; there is no template."""
        self._context = context

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: success of the task, or one with a status.

        ``ready``: the barrier is reached. ``error``: waiting can never succeed. ``waited``: the time of *until* is
        over; the task asks once more, and reports what is missing. ``ask``: only a worker can find out what to wait
        for. ``failed``: an epoch that it waits for has failed. ``since`` is the time at which the wait began, if no
        worker has begun it.
        """
        began = self._begin()
        try:
            event = self._of_run()
            if event is None:
                async with asyncio.timeout(self._left()):
                    event = await self._event()
        except TimeoutError:
            event = TriggerEvent({"status": "waited", "barrier": self.barrier})
        if began is not None and not isinstance(event, BaseTaskEndEvent):
            event = TriggerEvent({**event.payload, "since": began.isoformat()})
        yield event

    def _begin(self) -> datetime | None:
        """Return when the wait of a trigger that no worker has started began; set *until* by it."""
        if self.awaited is None or self.timeout is None:
            return None
        began = datetime.now(UTC)
        if self.timeout_after is not None and self.trigger_timeout is not None:
            # The same time whenever, and in whichever triggerer, it runs again.
            began = as_utc(self.timeout_after, "timeout") - timedelta(seconds=self.trigger_timeout)
        self.until = (began + timedelta(seconds=self.timeout)).isoformat()
        return began

    def _of_run(self) -> TriggerEvent | None:
        """Find out what the run waits for, if no worker has; return an event if that cannot be known here."""
        from airflow_provider.coordination.reading.wait import JobInputs
        from airflow_provider.hooks.awaited import Awaited

        if self.awaited is None:
            return None
        run: Any = {} if self._context is None else self._context["dag_run"]
        if self._context is None or (started_by_assets(run) and not partition_key(run)):
            return TriggerEvent({"status": "ask"})  # Airflow does not tell a trigger the events
        try:
            request = Awaited.of_plain(self.awaited).of_run(self._context)
        except FinalError as error:
            return TriggerEvent({"status": "error", "message": str(error)})
        if isinstance(request, JobInputs):
            plain = as_plain_values(request)
            self.edges, self.start = plain["edges"], plain["start"]
            self.sources, self.cadence = plain.get("sources", []), plain.get("cadence")
            request = request.interval.end
        self.barrier = request.isoformat()
        return None

    def _left(self) -> float | None:
        if self.until is None:
            return None
        return max((datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds(), 0.0)

    async def _event(self) -> TriggerEvent:
        barrier = as_utc(datetime.fromisoformat(self.barrier), "barrier")
        while True:
            try:
                answer = await self._wait(barrier)
            except UnknownConnection:
                raise  # waiting would hide the missing connection until the task times out
            except PackageTooOld as error:  # another host may have the newer one: its worker asks again
                return TriggerEvent({"status": "error", "message": str(error)})
            except RetryableError as error:
                self.log.warning("The metadata store is asked again in %s s: %s", self.poll_interval, error)
                await asyncio.sleep(self.poll_interval)
            except FinalError as error:
                return TriggerEvent({"status": "error", "message": str(error)})
            else:
                return await self._ready(answer)

    async def _ready(self, answer: Readiness) -> TriggerEvent:
        if answer.failed:
            return TriggerEvent({"status": "failed", "barrier": self.barrier, "message": answer.failed})
        instance = self.task_instance
        if not self.ends or instance is None or await asyncio.to_thread(_is_for_workers):
            return TriggerEvent({"status": "ready", "barrier": self.barrier, "csn": answer.csn})
        found: dict[str, Any] = {
            "domain": self.domain,
            "barrier": answer.barrier.isoformat(),
            "csn": answer.csn,
        }
        if self.lease is not None:
            try:
                found |= await self._leased(timedelta(seconds=self.lease))
            except EpochError as error:  # a worker makes it, or fails by the error
                self.log.warning("The cut was not leased: %s", error)
                return TriggerEvent({"status": "ready", "barrier": self.barrier, "csn": answer.csn})
        query = tables_query(self.epochs_conn_id, self.domain, self.tables, answer.barrier)
        self.log.info("Ready at %s (CSN %d)", answer.barrier.isoformat(), answer.csn)
        try:
            await from_trigger(_push, instance, BaseXCom.XCOM_RETURN_KEY, found)
            await from_trigger(_push, instance, EpochGridLink().xcom_key, grid_link(query))
        except Exception as error:  # noqa: BLE001 - whatever Airflow has to say: a worker stores them, and ends the task
            self.log.warning("The result was not stored: %s", error)
            return TriggerEvent({"status": "ready", "barrier": self.barrier, "csn": answer.csn})
        return TaskSuccessEvent()

    async def _leased(self, ttl: timedelta) -> Mapping[str, Any]:
        from airflow_provider.hooks.leased import LeaseOf, leased_cut

        settings = await EpochsHook(self.epochs_conn_id).aget_settings()
        instance = self.task_instance
        return await asyncio.to_thread(
            leased_cut,
            settings,
            LeaseOf.of(instance, instance),
            domain=self.domain,
            tables=self.tables,
            barrier=as_utc(datetime.fromisoformat(self.barrier), "barrier"),
            request=request_of_plain(self.cut or {}),
            ttl=ttl,
        )

    async def _wait(self, barrier: datetime) -> Readiness:
        """Ask until the barrier is reached; each call that may block runs in a thread."""
        from airflow_provider.sources.readers import SourceReaders
        from airflow_provider.triggers.shared_reader import shared_reader

        inputs = self._inputs(barrier)
        wanted = inputs.connections if inputs else ()
        settings = await EpochsHook(self.epochs_conn_id).aget_settings(connections=wanted)
        ask = partial(
            self._ask, barrier=barrier, inputs=inputs, source_readers=SourceReaders(settings.connections)
        )
        timeout = timedelta(seconds=self.poll_interval)
        async with shared_reader(settings.store_url, domain_name(self.domain)) as shared:
            if self.sources:  # listing files may take long: not in the thread of the others' questions
                answer = await asyncio.to_thread(ask, shared.reader)
                is_first = answer.is_over
                await self._tell(shared, answer)
                while not answer.is_over:
                    await shared.later_than(answer.csn, timeout)
                    answer = await asyncio.to_thread(ask, shared.reader)
            else:
                tell = partial(self._tell, shared)
                answer, is_first = await shared.questions.ready(ask, every=timeout, tell=tell)
        if is_first and self.job is not None:
            # A begin found what this does not see: let it try again, but not without a pause.
            await asyncio.sleep(self.poll_interval)
        return answer

    async def _tell(self, shared: SharedReader, answer: Readiness) -> None:
        """Log what a task waits for that no worker has begun: a worker logs it itself."""
        from airflow_provider.coordination.reading.bringers import told_wait

        if answer.is_over or self.awaited is None or self.until is None:
            return
        until = datetime.fromisoformat(self.until)
        missing = tuple(lag.table for lag in answer.missing if lag.table in self.tables)
        found = await shared.bringers(missing)
        names = self.tables or [lag.name for lag in answer.missing]
        self.log.info("%s", told_wait(answer, names, found, until))

    @property
    def _fails(self) -> bool:
        return self.on_upstream_failure is OnUpstreamFailure.FAIL

    def _ask(self, reader: MetadataReader, **given: Any) -> Readiness:
        from airflow_provider.coordination.reading.bringers import with_failures

        answer = self._readiness(reader, **given)
        if self._fails and not answer.ready:
            return with_failures(reader, self.domain, answer, map(TableName, self.tables))
        return answer

    def _readiness(
        self,
        reader: MetadataReader,
        *,
        barrier: datetime,
        inputs: JobInputs | None,
        source_readers: SourceReaders,
    ) -> Readiness:
        from airflow_provider.coordination.reading.cut_readiness import cut_readiness
        from airflow_provider.coordination.reading.wait import begin_readiness, inputs_readiness

        if inputs is None:
            request = request_of_plain(self.cut or {})
            return cut_readiness(reader, self.domain, self.tables, barrier, request)
        if self.job is not None:
            dag_id, run_id = self.run_ids
            return begin_readiness(
                reader,
                self.domain,
                self.job,
                inputs,
                (dag_id, run_id),
                source_readers=source_readers,
                restatement=self.restatement,
            )
        return inputs_readiness(reader, self.domain, inputs, source_readers)

    def _inputs(self, barrier: datetime) -> JobInputs | None:
        """Return the job's inputs that the trigger waits for; None if it waits for tables."""
        from airflow_provider.coordination.reading.wait import JobInputs

        if self.start is None:
            return None
        start = as_utc(datetime.fromisoformat(self.start), "start")
        return JobInputs(
            edges=tuple(msgspec.convert(edge, Edge, strict=False) for edge in self.edges),
            interval=Interval(start, barrier),
            sources=tuple(msgspec.convert(source, Source, strict=False) for source in self.sources),
            cadence=None if self.cadence is None else msgspec.convert(self.cadence, Cadence, strict=False),
        )


def _push(instance: Any, key: str, value: Any) -> None:
    """Store a result of a task, as a worker does: those that an event brings are stored as text (Airflow 3.3.2)."""
    XCom.set(
        key,
        value,
        dag_id=instance.dag_id,
        task_id=instance.task_id,
        run_id=instance.run_id,
        map_index=instance.map_index,
    )


def _is_for_workers() -> bool:
    """Return whether something hears of the end of a task in workers only: a plugin's listener, a backend of XComs."""
    return get_listener_manager().has_listeners or XCom is not BaseXCom


def as_plain_values(inputs: JobInputs) -> dict[str, Any]:
    """Return a job's *inputs* as arguments of :class:`EpochTrigger`, which Airflow stores as JSON."""
    found: dict[str, Any] = {
        "edges": [msgspec.to_builtins(edge) for edge in inputs.edges],
        "start": inputs.interval.start.isoformat(),
    }
    if inputs.sources:
        found["sources"] = [msgspec.to_builtins(source) for source in inputs.sources]
        found["cadence"] = msgspec.to_builtins(inputs.cadence)
    return found
