"""Differences between the versions of Airflow that this package runs on; no other module asks for a version.

Names that have moved come from Airflow's own provider for that, ``common-compat``. What an older version lacks is done
in another way here, or has a flag that the module which needs it refuses by. docs/decisions/airflow-versions.md has the
list.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow import __version__ as airflow_version
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_2_PLUS, AIRFLOW_V_3_3_PLUS

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        Stats,
        TaskInstanceKey,
        conf,
        determine_kwargs,
        get_listener_manager,
        mask_secret,
    )

__all__ = [
    "NOT_RESUMED",
    "STARTS_IN_TRIGGER",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "Stats",
    "TaskInstanceKey",
    "airflow_version",
    "amask_secret",
    "asset_key",
    "conf",
    "dag_bag",
    "determine_kwargs",
    "from_trigger",
    "get_listener_manager",
    "mask_secret",
    "partition_key",
]

Result = TypeVar("Result")


def __getattr__(name: str) -> Any:
    """Import a name that Airflow has moved when it is first asked for: some take longer than a DAG file takes to parse.

    :raises AttributeError: this module has no such name.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module("airflow.providers.common.compat.sdk"), name)
    globals()[name] = found
    return found


STARTS_IN_TRIGGER = AIRFLOW_V_3_3_PLUS
"""True if a task can start in the triggerer: the scheduler of an older Airflow starts each task in a worker, also one
that asks for the triggerer.
"""

NOT_RESUMED: dict[str, Any] = {"durable": False} if AIRFLOW_V_3_3_PLUS else {}
"""Arguments by which no retry of ``SparkSubmitOperator`` attaches to an earlier try's application; none does before
Airflow 3.3, where the argument is a warning.
"""


def partition_key(run: Any) -> str | None:
    """Return the partition key of *run*, a run or what a timetable says of one; none has it before Airflow 3.2."""
    return getattr(run, "partition_key", None)


async def from_trigger(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call *function*, which asks Airflow itself, in a thread, while the triggerer's loop goes on.

    In a thread of another kind the triggerer of Airflow 3.1 would read its supervisor's answer on another loop, lose
    it, and end.
    """
    from asgiref.sync import sync_to_async

    return await sync_to_async(function)(*arguments)


async def amask_secret(secret: str) -> None:
    """Let the logs of a trigger and of its supervisor mask *secret*."""
    if AIRFLOW_V_3_3_PLUS:
        from airflow.sdk.log import amask_secret as mask

        await mask(secret)
    else:
        from airflow.providers.common.compat.sdk import mask_secret

        await from_trigger(mask_secret, secret)


def asset_key(name: str, uri: str) -> Any:
    """Return the key by which Airflow's asset manager finds an asset."""
    if AIRFLOW_V_3_2_PLUS:
        from airflow.serialization.definitions.assets import SerializedAssetUniqueKey

        return SerializedAssetUniqueKey(name=name, uri=uri)
    from airflow.sdk.definitions.asset import AssetUniqueKey

    return AssetUniqueKey(name=name, uri=uri)


def dag_bag(path: Path, *, bundle_path: Path) -> Any:
    """Parse the DAG files in *path*, with *bundle_path* on Python's path; the caller takes it off again."""
    if AIRFLOW_V_3_2_PLUS:
        from airflow.dag_processing.dagbag import BundleDagBag

        return BundleDagBag(path, bundle_path=bundle_path, bundle_name="check")
    models = import_module("airflow.models.dagbag")
    return models.BundleDagBag(path, bundle_path=bundle_path)
