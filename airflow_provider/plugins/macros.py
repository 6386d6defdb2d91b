"""Macros for templates: ``{{ macros.epochs.interval("@daily") }}`` and others. Nothing is opened before one is called.

Airflow gives them to each task's templates under the name of the plugin. Every task process loads this module, so it
imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import pass_context

if TYPE_CHECKING:
    from airflow_provider.domain.interval import Interval
    from airflow_provider.stores.base import MetadataReader

_DOMAIN = "default"


class Span(str):
    """An interval as text, ``start/end``, which ``interval=`` and all commands take.

    :ivar start: its start, in UTC. :ivar end: its end.
    """

    __slots__ = ("end", "start")

    start: datetime
    end: datetime

    @classmethod
    def of(cls, interval: Interval) -> Span:
        """Return *interval* as text."""
        span = cls(f"{interval.start.isoformat()}/{interval.end.isoformat()}")
        span.start, span.end = interval.start, interval.end
        return span


class ReachedCut(NamedTuple):
    """Barrier that tables have reached, and the newest CSN at which they had."""

    barrier: datetime
    csn: int


@pass_context
def interval(context: Any, cadence: str | None = None, domain: str = _DOMAIN) -> Span:
    """Return the interval that the run is about: of the task's own job, or of the calendar *cadence*.

    :param cadence: cron expression, such as ``@daily``. :param domain: domain whose asset events count.
    :raises InvalidInput: the task computes no job, and no calendar is given; or the run names no interval.
    """
    with _errors_of_a_task():
        return Span.of(_interval(context, cadence, domain))


@pass_context
def barrier(context: Any, cadence: str | None = None, domain: str = _DOMAIN) -> datetime:
    """Return the end of :func:`interval`: the barrier at which the run reads."""
    with _errors_of_a_task():
        return _interval(context, cadence, domain).end


@pass_context
def watermark(context: Any, table: str, domain: str = _DOMAIN, conn_id: str | None = None) -> datetime | None:
    """Return the time up to which *table* is complete now; None without a commit that readers see.

    :param conn_id: connection of the store; by default the task's ``epochs_conn_id``, or ``[epochs] conn_id``.
    :raises UnknownName: no such table. :raises UnknownConnection: Airflow does not know the connection.
    """
    from airflow_provider.coordination.commits.similar_names import meant
    from airflow_provider.domain.errors import UnknownName
    from airflow_provider.domain.identifiers import domain_name, table_name
    from airflow_provider.domain.records import table_key

    with _errors_of_a_task(), _reader(context, conn_id) as reader:
        key = table_key(domain_name(domain), table_name(table))
        stamped = reader.read(key.domain, [key]).get(key)
        if stamped is None:
            raise UnknownName.of_table(table, domain, meant=meant(reader, key.domain, table_name(table)))
        return stamped.record.progress.watermark


@pass_context
def cut(
    context: Any,
    *tables: str,
    at: datetime | str | None = None,
    cadence: str | None = None,
    domain: str = _DOMAIN,
    conn_id: str | None = None,
) -> ReachedCut:
    """Return barrier and CSN of the newest cut of *tables* at the run's barrier. It never waits.

    :param at: the barrier; by default that of the run. :param cadence: as of :func:`interval`.
    :param conn_id: as of :func:`watermark`.
    :raises NotReady: a table has not reached the barrier. :raises Unavailable: its state there has expired.
    """
    from airflow_provider.coordination.reading.wait import check
    from airflow_provider.domain.errors import NotReady
    from airflow_provider.domain.schedule import run_barrier

    with _errors_of_a_task(), _reader(context, conn_id) as reader:
        wanted = run_barrier(explicit=at) if at else _interval(context, cadence, domain).end
        found = check(reader, domain, tables, wanted)
        if not found.ready:
            raise NotReady.of_tables(
                found.missing, next_step="let an EpochSensor of these tables precede the task."
            )
        return ReachedCut(found.barrier, found.csn)


MACROS = (interval, barrier, watermark, cut)


def _interval(context: Any, cadence: str | None, domain: str) -> Interval:
    from airflow_provider.domain.errors import InvalidInput
    from airflow_provider.domain.identifiers import domain_name
    from airflow_provider.domain.topology import Job
    from airflow_provider.hooks.task_run import as_cadence, calendar_interval, hull, task_intervals

    task = context.get("task")
    job, calendar = getattr(task, "job", None), as_cadence(cadence, "cadence")
    if calendar is not None:
        return calendar_interval(context, calendar, domain_name(domain))
    if isinstance(job, Job):
        return hull(task_intervals(context, job, batch=getattr(task, "batch", None)))
    raise InvalidInput(
        field="cadence",
        value=cadence,
        expected="the calendar of the epochs, since the task computes no job",
        next_step='write it in the template: macros.epochs.interval("@daily").',
    )


@contextmanager
def _reader(context: Any, conn_id: str | None) -> Iterator[MetadataReader]:
    from airflow_provider.hooks.compat import conf
    from airflow_provider.hooks.epochs import DEFAULT_CONN_ID, EpochsHook

    own = conn_id or getattr(context.get("task"), "epochs_conn_id", None)
    hook = EpochsHook(own or str(conf.get("epochs", "conn_id", fallback=DEFAULT_CONN_ID)))
    with hook.get_reader() as reader:
        yield reader


@contextmanager
def _errors_of_a_task() -> Iterator[None]:
    from airflow_provider.hooks.task_run import final_errors_end_retries

    with final_errors_end_retries():
        yield
