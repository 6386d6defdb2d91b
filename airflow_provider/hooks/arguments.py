"""Checks of operators' arguments when the DAG is parsed: a value that can never be right is refused there.

Values that only a run knows are left to the run: text with a template, and the output of another task.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval, as_utc
from airflow_provider.domain.schedule import ExplicitInterval, run_barrier, run_interval
from airflow_provider.hooks.compat import conf
from airflow_provider.hooks.connection import checked_conn_id

WAIT_TIMEOUT = timedelta(days=7)
"""The default timeout of Airflow's sensors."""
_TEMPLATES = ("{{", "{%", "{#")


def is_parsed(operator: object) -> bool:
    """Return whether *operator* is constructed while the DAG is parsed.

    Airflow constructs a mapped task again in its run, with its own values: if one is wrong, ``execute`` refuses it,
    because only there an error can end the retries.
    """
    # Airflow's own decorated operators ask by the same private attribute.
    return not getattr(operator, "_BaseOperator__from_mapped", False)


def known_interval(
    cadence: Cadence, value: ExplicitInterval | None, batch: Cadence | None = None
) -> Interval | None:
    """Return the interval that *value* fixes for all runs; None if each run has its own.

    :raises InvalidInput: no run can compute *value*.
    """
    if value is None or value == "" or is_left_to_the_run(value):
        return None
    if isinstance(value, list | tuple) and len(value) == 2 and any(map(is_left_to_the_run, value)):
        for bound in value:
            if not isinstance(bound, str) and not is_left_to_the_run(bound):
                as_utc(bound, "interval")
        return None
    return run_interval(cadence, explicit=value, batch=batch)


def refuse_barrier(value: Interval | datetime | str | None, cadence: Cadence | None) -> None:
    """Refuse a barrier that can never be right; a value that only the run knows passes.

    :raises InvalidInput: *value* is no time, or no barrier of *cadence*.
    """
    if value is not None and value != "" and not is_left_to_the_run(value):
        run_barrier(cadence, explicit=value)


def refuse_connections(**conn_ids: object) -> None:
    """Refuse ids that no connection can have.

    :raises InvalidInput: an id is not one; names the argument.
    """
    for argument, value in conn_ids.items():
        checked_conn_id(value, argument)


def default_deferrable() -> bool:
    """Return ``[operators] default_deferrable``: whether tasks wait in the triggerer by default."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def is_left_to_the_run(value: Any) -> bool:
    """Return whether Airflow replaces *value* when the task runs, as it does in templated fields."""
    if isinstance(value, str):
        return any(mark in value for mark in _TEMPLATES)
    return callable(value) or (hasattr(value, "resolve") and not isinstance(value, os.PathLike))


def checked_wait(value: object) -> timedelta:
    """Return *value* as the longest time to wait.

    :raises InvalidInput: it is not a timedelta, or is negative.
    """
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    raise InvalidInput(
        field="wait_timeout", value=value, expected="a timedelta, such as timedelta(hours=6), or timedelta(0)"
    )
