"""Sensors that start and end in the triggerer, without a worker.

Airflow's scheduler asks the serialized task for ``start_from_trigger`` and ``start_trigger_args``. What they are
depends on the whole DAG, which is known when it is serialized, and not when the sensor is made
(docs/decisions/without-worker.md).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from airflow.sdk import AssetAlias
from airflow.sdk.definitions.asset import AssetRef
from airflow.triggers.base import StartTriggerArgs

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.hooks.arguments import is_left_to_the_run
from airflow_provider.hooks.compat import STARTS_IN_TRIGGER, airflow_version

Value = TypeVar("Value")

_EVERY_TASK = f"Airflow {airflow_version} starts every task in a worker, and 3.3 is the first that does not"


class OfInstances(Generic[Value]):
    """Attribute that is computed for an instance, and has a constant value on the class.

    Airflow reads the class's attribute for a mapped task, which has no instance when its DAG is serialized.
    """

    def __init__(self, compute: Callable[[Any], Value], of_class: Value) -> None:
        self._compute = compute
        self._of_class = of_class

    def __get__(self, instance: Any, owner: type) -> Value:
        return self._of_class if instance is None else self._compute(instance)


def starts_in_trigger(sensor: Any) -> bool:
    """Return whether *sensor* starts in the triggerer.

    :raises InvalidInput: its author says that it does, and it cannot.
    """
    return _decided(sensor, "start_from_trigger", why_not_start)


def ends_in_trigger(sensor: Any) -> bool:
    """Return whether *sensor* ends in the triggerer; errors as :func:`starts_in_trigger`."""
    return _decided(sensor, "end_from_trigger", why_not_end)


def refuse_start(given: bool | None) -> None:
    """:raises InvalidInput: *given* says that a sensor starts in the triggerer, and no task does in this Airflow."""
    if given and not STARTS_IN_TRIGGER:
        raise _refused("start_from_trigger", _EVERY_TASK)


def _refused(option: str, reason: str) -> InvalidInput:
    return InvalidInput(
        field=option, value=True, expected=f"False or None, since {reason}", next_step="leave it out."
    )


def _decided(sensor: Any, option: str, why_not: Callable[[Any], str]) -> bool:
    given: dict[str, bool | None] | None = getattr(sensor, "without_worker", None)
    if given is None or given[option] is False:  # Airflow asks while the sensor is being made, too
        return False
    reason = why_not(sensor)
    if reason and given[option]:
        raise _refused(option, reason)
    return not reason


def why_not_start(sensor: Any) -> str:
    """Return why *sensor* cannot start in the triggerer; empty text if it can."""
    if not STARTS_IN_TRIGGER:
        return _EVERY_TASK
    if not sensor.deferrable:
        return "the sensor is not deferrable"
    if is_left_to_the_run(sensor.at):
        return "at= is a template, which is rendered in a worker"
    if sensor.has_on_execute_callback or sensor._pre_execute_hook is not None:  # noqa: SLF001 - there is no other way
        return "on_execute_callback and pre_execute are called in a worker"
    if any(isinstance(inlet, AssetAlias | AssetRef) for inlet in sensor.inlets):
        return "an AssetAlias or a reference among the inlets is resolved in a worker"
    if sensor.params or (sensor.has_dag() and sensor.dag.params):
        return "the DAG has params, of which one without a default would end the whole triggerer"
    return ""


def why_not_end(sensor: Any) -> str:
    """Return why *sensor* cannot end in the triggerer; empty text if it can."""
    if not sensor.deferrable:
        return "the sensor is not deferrable"
    if sensor.outlets:
        return "events of outlets are sent by a worker"
    if not sensor.do_xcom_push:
        return "do_xcom_push is off"
    if sensor.multiple_outputs:
        return "multiple_outputs are pushed by a worker"
    if sensor.has_dag() and next(sensor.iter_mapped_dependants(), None) is not None:
        return "a mapped task depends on its result, whose length is pushed by a worker"
    if sensor._post_execute_hook is not None:  # noqa: SLF001 - there is no other way
        return "post_execute is called in a worker"
    return ""


def start_trigger_args(sensor: Any) -> StartTriggerArgs | None:
    """Return what the scheduler needs to start *sensor* in the triggerer; None if it starts in a worker."""
    from airflow_provider.triggers.epochs import GRACE, EpochTrigger

    if not starts_in_trigger(sensor):
        return None
    timeout = timedelta(seconds=sensor.timeout)
    return StartTriggerArgs(
        trigger_cls=f"{EpochTrigger.__module__}.{EpochTrigger.__qualname__}",
        trigger_kwargs=sensor.trigger_of_any_run(timeout).serialize()[1],
        next_method="resumed",
        next_kwargs=None,
        timeout=timeout + GRACE,
    )
