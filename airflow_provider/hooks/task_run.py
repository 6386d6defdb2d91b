"""What a task run says about itself: who it is, which interval it computes, and how it ends on an error.

Pure functions of Airflow's context, for operators, decorators and sensors alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider.domain.epoch import Owner
from airflow_provider.domain.errors import FinalError, InvalidInput, LeaseExpired
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.schedule import ExplicitInterval, run_barrier, run_interval
from airflow_provider.domain.topology import EpochJob


def task_owner(context: Mapping[str, Any]) -> Owner:
    """Return whose attempts this task run's are.

    The generation rises when this task is cleared, by hand or by ``airflow backfill create``: clearing grants a
    task its retries anew, so what it may try in all exceeds its own retries by the tries before. (The run's own
    count of clearings rises for other tasks too: it would make a retry of this one a new wish.)
    """
    run, instance = context["dag_run"], context["ti"]
    granted = instance.max_tries - instance.task.retries
    return Owner(
        dag_id=run.dag_id,
        run_id=run.run_id,
        generation=max(granted, 0),
        try_number=instance.try_number,
    )


def task_interval(
    context: Mapping[str, Any],
    cadence: Cadence,
    *,
    explicit: ExplicitInterval | None = None,
    batch: Cadence | None = None,
) -> Interval:
    """Return the interval that this task run computes, as :func:`run_interval` says.

    :raises InvalidInput: the run names no interval, or one that is not made of whole epochs.
    """
    run = context["dag_run"]
    return run_interval(
        cadence,
        explicit=explicit,
        partition_key=run.partition_key,
        data_interval=_data_interval(run),
        run_date=run.logical_date or run.run_after,
        batch=batch,
    )


def task_barrier(
    context: Mapping[str, Any],
    cadence: Cadence | None = None,
    *,
    explicit: Interval | datetime | str | None = None,
) -> datetime:
    """Return the barrier at which this task run reads, as :func:`run_barrier` says.

    :raises InvalidInput: the run names no time.
    """
    run = context["dag_run"]
    return run_barrier(
        cadence,
        explicit=explicit,
        partition_key=run.partition_key,
        data_interval=_data_interval(run),
        run_date=run.logical_date or run.run_after,
    )


@contextmanager
def final_errors_end_retries() -> Iterator[None]:
    """Turn an error that no retry can cure into the one at which Airflow stops retrying.

    A claim that ended is none of them: the next try begins with a claim of its own.
    """
    try:
        yield
    except LeaseExpired:
        raise
    except FinalError as error:
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error


def as_cadence(value: Cadence | str | None, field: str) -> Cadence | None:
    """Read what a DAG's author wrote for a calendar.

    :raises InvalidInput: naming *field*.
    """
    if value is None or isinstance(value, Cadence):
        return value
    if isinstance(value, str):
        return Cadence(value)
    raise InvalidInput(field=field, value=value, expected="a cron expression, such as @daily, or a Cadence")


def grid_query(conn_id: str, job: EpochJob, interval: Interval) -> dict[str, str]:
    """Return what the page of tables and epochs is to show of a task."""
    return {
        "conn_id": conn_id,
        "domain": job.domain,
        "job": job.name,
        "from": interval.start.isoformat(),
        "to": interval.end.isoformat(),
    }


def _data_interval(run: Any) -> tuple[datetime, datetime] | None:
    if run.data_interval_start is None or run.data_interval_end is None:
        return None
    return run.data_interval_start, run.data_interval_end
