"""Owner, interval and failure of a task run, from Airflow's context; for operators, decorators and sensors alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import EpochError, FinalError, InvalidInput, LeaseExpired, StoreReplaced
from airflow_provider.domain.identifiers import DomainName, RestatementId, TableName, restatement_id
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.schedule import (
    ExplicitInterval,
    caused_intervals,
    on_calendar,
    published_intervals,
    run_barrier,
    run_interval,
)
from airflow_provider.domain.topology import EdgeKind, Job
from airflow_provider.hooks.compat import AirflowFailException, AirflowSkipException, Stats, partition_key

if TYPE_CHECKING:
    from airflow_provider.coordination.reading.bringers import Bringer

RESTATEMENT = "restatement"
"""Key of a run's configuration that names the restatement within which the run computes its epochs, and of the extra
of the event that tells of a restatement's commit.
"""
ERRORS = "epochs.errors"
"""Counter: errors of this package that have ended a task's try; tag ``error``, the class, such as ``Conflict``."""
_ASSET_TRIGGERED = "asset_triggered"
_BACKFILL = "backfill"
_BY_HAND = frozenset({"manual", "operator_triggered", "asset_materialization", "scheduled", _BACKFILL})
"""Types of runs whose ``run_after`` stands in for a missing logical date; unknown types of later Airflow versions have
no date then.
"""


def task_owner(context: Mapping[str, Any]) -> Owner:
    """Return the owner of this task run's attempts.

    Its generation rises when this task is cleared, by hand or by ``airflow backfill create``. Clearing grants a task
    its retries anew, so that ``max_tries`` exceeds the task's own retries by the number of tries before.
    """
    run, instance = context["dag_run"], context["ti"]
    # The run's own count of clearings does not serve: it rises for other tasks, too, and would make a retry of this
    # one a new generation. But while it is 0, no task was cleared, and the author has lowered retries between tries.
    granted = instance.max_tries - instance.task.retries
    clearings = getattr(run, "clear_number", None)
    return Owner(
        dag_id=run.dag_id,
        run_id=run.run_id,
        generation=max(granted, 0) if clearings else 0,
        try_number=instance.try_number,
        max_tries=instance.max_tries,
        clear_number=clearings,
    )


def task_restatement(context: Mapping[str, Any]) -> RestatementId | None:
    """Return the restatement within which this run computes its epochs: ``restatement`` in the run's configuration.

    None for a run that publishes its epochs.

    :raises InvalidInput: not a valid name.
    """
    given = (getattr(context["dag_run"], "conf", None) or {}).get(RESTATEMENT)
    return None if given is None else restatement_id(given)


def task_cause(context: Mapping[str, Any]) -> str:
    """Return why this task run may ask for a committed epoch again: the reason of a restatement that it opens.

    A run that a backfill has started stays one of a backfill when its task is cleared later, and who has cleared a task
    only Airflow's audit log says.
    """
    run = context["dag_run"]
    kind, user = _type_of(run), getattr(run, "triggering_user_name", None)
    started = f", which {user} has started," if user else ""
    if kind == _BACKFILL:
        cause = f"a backfill of the DAG{started} or a clearing of its task"
    elif task_owner(context).generation:
        cause = "its task was cleared and"
    else:
        cause = f"a run of type {kind}{started}"
    return f"{cause} asks for what committed epochs have read"


def task_intervals(
    context: Mapping[str, Any],
    job: Job,
    *,
    explicit: ExplicitInterval | None = None,
    batch: Cadence | None = None,
    cadence: Cadence | None = None,
) -> list[Interval]:
    """Return the intervals of *job* that this task run computes, earliest first, no two of them adjacent.

    A run that asset events have started computes the epochs that they name (R37); every other run has one interval.

    :param cadence: calendar of the intervals; by default the job's.
    :raises AirflowSkipException: the events complete no interval of the calendar yet, or name time before the job's
        origin alone.
    :raises InvalidInput: as :func:`task_interval`; or events started the run, and none names an epoch.
    """
    run, cadence = context["dag_run"], cadence or job.cadence
    if is_set(explicit) or partition_key(run) or not started_by_assets(run):
        return [task_interval(context, cadence, explicit=explicit, batch=batch)]
    found = _caused(run, batch or cadence, cadence, job.domain, leave_out=_not_driving(job))
    return found if job.origin is None else _from_origin(found, job.origin)


def asked_intervals(
    context: Mapping[str, Any],
    job: Job,
    *,
    explicit: ExplicitInterval | None = None,
    batch: Cadence | None = None,
) -> list[Interval] | None:
    """Return those intervals of a run that ask for committed epochs of *job* again; None for all of them.

    The event of a restatement asks for none: it has computed its members, and what it left alone stays, whatever
    ``on_rerun`` says. A run that such events alone have started computes what the job's tables lack.
    """
    run = context["dag_run"]
    if not started_by_assets(run):
        return None
    extras = [extra for extra in _extras(run) if not extra.get(RESTATEMENT)]
    if is_set(explicit) or partition_key(run):
        return None if extras else []
    return caused_intervals(batch or job.cadence, _named(extras, job.domain, leave_out=_not_driving(job)))


def task_interval(
    context: Mapping[str, Any],
    cadence: Cadence,
    *,
    explicit: ExplicitInterval | None = None,
    batch: Cadence | None = None,
) -> Interval:
    """Return the interval that this task run computes, by the rules of :func:`run_interval`.

    :raises InvalidInput: the run names no interval, or one that does not consist of whole epochs.
    """
    run = context["dag_run"]
    return run_interval(
        cadence,
        explicit=explicit,
        partition_key=partition_key(run),
        data_interval=_data_interval(run),
        run_date=_run_date(run),
        batch=batch,
    )


def calendar_interval(context: Mapping[str, Any], cadence: Cadence, domain: DomainName) -> Interval:
    """Return the interval of *cadence* that this task run is about, whether or not it computes a job.

    :param domain: domain whose events count, if assets have started the run. Errors are those of :func:`task_barrier`.
    """
    run = context["dag_run"]
    if not partition_key(run) and started_by_assets(run):
        return hull(_caused(run, cadence, cadence, domain))
    return task_interval(context, cadence)


def task_barrier(
    context: Mapping[str, Any],
    cadence: Cadence | None = None,
    *,
    explicit: Interval | datetime | str | None = None,
    domain: DomainName | None = None,
) -> datetime:
    """Return the barrier at which this task run reads, by the rules of :func:`run_barrier`.

    :param domain: domain of the tables that it reads; events of other domains do not count.
    :raises AirflowSkipException: as :func:`task_intervals`.
    :raises InvalidInput: the run names no time.
    """
    run = context["dag_run"]
    if not is_set(explicit) and not partition_key(run) and domain and started_by_assets(run):
        if cadence is None:
            return max(event.end for event in _named_epochs(run, domain))
        return _caused(run, cadence, cadence, domain)[-1].end
    return run_barrier(
        cadence,
        explicit=explicit,
        partition_key=partition_key(run),
        data_interval=_data_interval(run),
        run_date=_run_date(run),
    )


def hull(intervals: Sequence[Interval]) -> Interval:
    """Return the interval from the start of the first to the end of the last of *intervals*, which are in order."""
    return Interval(intervals[0].start, intervals[-1].end)


def named(intervals: Sequence[Interval]) -> str:
    """Return *intervals* as text for a log line."""
    return ", ".join(map(str, intervals))


def started_by_assets(run: Any) -> bool:
    """Return whether asset events have started *run*: then no clock says what it computes."""
    return _type_of(run) == _ASSET_TRIGGERED


def is_set(value: object) -> bool:
    """Return whether an argument is given; a template may render to empty text, which counts as absent."""
    return value is not None and value != ""


@contextmanager
def final_errors_end_retries() -> Iterator[None]:
    """Turn an error that no retry can cure into ``AirflowFailException``, at which Airflow stops retrying.

    Two final errors stay as they are, because the task's next try begins anew: a claim that has ended (the next try
    makes its own), and a store that was restored or taken over by a standby (the next try begins in it).

    Each error that ends a try is counted in Airflow's metrics, as :data:`ERRORS`.
    """
    try:
        yield
    except EpochError as error:
        Stats.incr(ERRORS, tags={"error": type(error).__name__})
        if not isinstance(error, FinalError) or isinstance(error, LeaseExpired | StoreReplaced):
            raise
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def warn_of_ended_runs(log: Any, found: Iterable[Bringer], context: Mapping[str, Any]) -> None:
    """Warn of each run that has ended and left an epoch open that is waited for."""
    for bringer in found:
        owner = bringer.owner if bringer.is_open and bringer.owner and bringer.owner.names_dag else None
        ended = _ended_as(context.get("ti"), owner) if owner else None
        if ended and owner:
            log.warning("%s", told_end(owner, ended))


def told_end(owner: Owner, state: str) -> str:
    """Return the warning that the run of an open epoch has ended as *state*."""
    return (
        f"Run {owner.run_id} of DAG {owner.dag_id} ended as {state} while its epoch is open: its task was marked so by "
        "hand, or its worker was lost. Nothing was published: clear that task."
    )


def _ended_as(instance: Any, owner: Owner) -> str | None:
    """Return the state in which the run has ended; None while it runs, or if Airflow does not know the run."""
    try:
        state = instance.get_dagrun_state(owner.dag_id, owner.run_id)
    except Exception:  # noqa: BLE001 - a hint: whatever Airflow has to say, the wait goes on
        return None
    return str(state) if str(state) in ("success", "failed") else None


def as_cadence(value: Cadence | str | None, field: str) -> Cadence | None:
    """Return *value*, a cron expression or a cadence, as a cadence.

    :raises InvalidInput: it is neither; names *field*.
    """
    if value is None or isinstance(value, Cadence):
        return value
    if isinstance(value, str):
        return Cadence(value)
    raise InvalidInput(field=field, value=value, expected="a cron expression, such as @daily, or a Cadence")


def grid_query(conn_id: str, job: Job, interval: Interval) -> dict[str, str]:
    """Return the query with which the page of tables and epochs shows a task's epochs."""
    return {
        "conn_id": conn_id,
        "domain": job.domain,
        "job": job.name,
        "from": interval.start.isoformat(),
        "to": interval.end.isoformat(),
    }


def _caused(
    run: Any,
    calendar: Cadence,
    cadence: Cadence,
    domain: DomainName,
    *,
    leave_out: frozenset[TableName] = frozenset(),
) -> list[Interval]:
    events = _named_epochs(run, domain, leave_out=leave_out)
    found = caused_intervals(calendar, events)
    if not found:
        newest = max(epoch.end for epoch in events)
        raise AirflowSkipException(
            f"The events that started this run name epochs up to {newest.isoformat()}, with "
            f"which no interval of {calendar} ends: the run whose event completes it computes it."
        )
    return [on_calendar(cadence, interval, "batch", str(calendar)) for interval in found]


def _from_origin(intervals: Sequence[Interval], origin: datetime) -> list[Interval]:
    """Return what of *intervals* lies at or after the *origin* of the job, which has no epochs before it.

    :raises AirflowSkipException: nothing does.
    """
    found = [Interval(max(each.start, origin), each.end) for each in intervals if each.end > origin]
    if not found:
        raise AirflowSkipException(
            f"The events that started this run name epochs up to {intervals[-1].end.isoformat()}, and the job begins "
            f"at its origin, {origin.isoformat()}."
        )
    return found


def _named_epochs(
    run: Any, domain: DomainName, *, leave_out: frozenset[TableName] = frozenset()
) -> list[Interval]:
    """Return the published epochs of *domain* that the events of *run* name.

    :raises InvalidInput: no event names one.
    """
    found = _named(_extras(run), domain, leave_out=leave_out)
    if found:
        return found
    events = _events(run)
    names = sorted({str(getattr(event.asset, "name", event.asset)) for event in events})
    raise InvalidInput(
        f"run {run.run_id!r} was started by {len(events)} asset events, and none says which epoch of domain "
        f"{domain!r} it is about: {', '.join(names) or 'no event is known'}.",
        next_step="let the DAG follow assets of tables of this domain that the job reads at its own barrier, or run "
        "it by a calendar and wait with EpochSensor, or pass interval= to the task.",
        field="run",
        value=names,
        expected="an event whose extra names epochs, as the tables' assets send it",
    )


def _named(
    extras: Iterable[Mapping[str, Any]], domain: DomainName, *, leave_out: frozenset[TableName]
) -> list[Interval]:
    return [
        epoch
        for extra in extras
        if extra.get("domain") == domain and extra.get("table") not in leave_out
        for epoch in published_intervals(extra)
    ]


def _events(run: Any) -> list[Any]:
    return list(getattr(run, "consumed_asset_events", None) or ())


def _extras(run: Any) -> list[Mapping[str, Any]]:
    return [event.extra or {} for event in _events(run)]


def _not_driving(job: Job) -> frozenset[TableName]:
    """Return the tables that *job* reads, but never at its own barrier: their events say nothing about its epochs."""
    at_barrier = {
        edge.table for edge in job.edges if edge.kind is not EdgeKind.PREVIOUS and edge.as_of is None
    }
    return frozenset({edge.table for edge in job.edges} - at_barrier)


def _run_date(run: Any) -> datetime | None:
    """Return the logical date of *run*; for a run started by hand without one, the time at which it was started."""
    return run.logical_date or (run.run_after if _type_of(run) in _BY_HAND else None)


def _type_of(run: Any) -> str:
    kind = getattr(run, "run_type", None)
    return str(getattr(kind, "value", kind))


def _data_interval(run: Any) -> tuple[datetime, datetime] | None:
    if run.data_interval_start is None or run.data_interval_end is None:
        return None
    return run.data_interval_start, run.data_interval_end
