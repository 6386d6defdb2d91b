"""Names of Airflow that only tests need, where each version that the package runs on has them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_2_PLUS, get_base_airflow_version_tuple

AIRFLOW: tuple[int, int] = get_base_airflow_version_tuple()[:2]
"""Version of Airflow here: (3, 3)."""


def _found(name: str, module: str, before_3_2: str, old_name: str = "") -> Any:
    """Return *name* of *module*; before Airflow 3.2 another module had it, maybe by another name."""
    if AIRFLOW_V_3_2_PLUS:
        return getattr(import_module(module), name)
    return getattr(import_module(before_3_2), old_name or name)


AssetOrTimeSchedule = _found("AssetOrTimeSchedule", "airflow.sdk", "airflow.timetables.assets")
CronDataIntervalTimetable = _found("CronDataIntervalTimetable", "airflow.sdk", "airflow.timetables.interval")
CronTriggerTimetable = _found("CronTriggerTimetable", "airflow.sdk", "airflow.timetables.trigger")
DagSerialization = _found(
    "DagSerialization",
    "airflow.serialization.serialized_objects",
    "airflow.serialization.serialized_objects",
    "SerializedDAG",
)
integrate_macros_plugins = _found(
    "integrate_macros_plugins", "airflow.sdk.plugins_manager", "airflow.plugins_manager"
)
MultipleCronTriggerTimetable = _found(
    "MultipleCronTriggerTimetable", "airflow.sdk", "airflow.timetables.trigger"
)
RunTrigger = _found("RunTrigger", "airflow.executors.workloads.trigger", "airflow.executors.workloads")
TaskInstanceDTO = _found(
    "TaskInstanceDTO",
    "airflow.executors.workloads.task",
    "airflow.executors.workloads",
    "TaskInstance",
)


def since(major: int, minor: int) -> pytest.MarkDecorator:
    """Return the mark of a test of what Airflow has from this version on; another Airflow's run leaves it out."""
    return pytest.mark.airflow(major, minor)


def partitioned(expression: str, **options: Any) -> Any:
    """Return a timetable whose runs have partition keys; None before Airflow 3.2, which has none."""
    if not AIRFLOW_V_3_2_PLUS:
        return None
    from airflow.sdk import CronPartitionTimetable

    return CronPartitionTimetable(expression, **options)


def hooks_of_connections() -> Any:
    """Return the hooks that Airflow finds, by the types of their connections."""
    if AIRFLOW_V_3_2_PLUS:
        return import_module("airflow.sdk.providers_manager_runtime").ProvidersManagerTaskRuntime().hooks
    return import_module("airflow.providers_manager").ProvidersManager().hooks
