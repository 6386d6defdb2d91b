"""What a DAG's author gives an operator, looked at when the DAG is parsed: what can never be right is told there.

What only a run can say is left to the run: text with a template, and what another task returns.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from airflow.sdk.configuration import conf

from airflow_provider.domain.interval import Cadence, Interval, as_utc
from airflow_provider.domain.schedule import ExplicitInterval, run_barrier, run_interval
from airflow_provider.hooks.connection import checked_conn_id

_TEMPLATES = ("{{", "{%", "{#")


def is_parsed(operator: object) -> bool:
    """Whether *operator* is made where the DAG is parsed.

    A mapped task is made again in its run, with its share of what it is mapped over: if that is wrong, ``execute``
    says so, where it also ends the retries.
    """
    return not getattr(
        operator, "_BaseOperator__from_mapped", False
    )  # as Airflow's own decorated operators ask


def known_interval(
    cadence: Cadence, value: ExplicitInterval | None, batch: Cadence | None = None
) -> Interval | None:
    """Return what *value* lets all runs compute; None where each run says it.

    :raises InvalidInput: no run can compute it.
    """
    if value is None or value == "" or is_left_to_the_run(value):
        return None
    if isinstance(value, list | tuple) and len(value) == 2 and any(map(is_left_to_the_run, value)):
        for one in value:
            if not isinstance(one, str) and not is_left_to_the_run(one):
                as_utc(one, "interval")
        return None
    return run_interval(cadence, explicit=value, batch=batch)


def refuse_barrier(value: Interval | datetime | str | None, cadence: Cadence | None) -> None:
    """:raises InvalidInput: no run can read at *value*."""
    if value is not None and value != "" and not is_left_to_the_run(value):
        run_barrier(cadence, explicit=value)


def refuse_connections(**conn_ids: object) -> None:
    """:raises InvalidInput: no connection can have the id; naming the argument."""
    for argument, value in conn_ids.items():
        checked_conn_id(value, argument)


def default_deferrable() -> bool:
    """Return whether tasks wait in the triggerer unless they say else: ``[operators] default_deferrable``."""
    return bool(conf.getboolean("operators", "default_deferrable", fallback=False))


def is_left_to_the_run(value: Any) -> bool:
    """Whether Airflow makes another value of it when the task runs, as it does of templated fields."""
    if isinstance(value, str):
        return any(mark in value for mark in _TEMPLATES)
    return callable(value) or (hasattr(value, "resolve") and not isinstance(value, os.PathLike))
