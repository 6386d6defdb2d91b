"""Whether every service waits for what it connects to, and for what others make ready for it."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tests.architecture.deployment.addresses import addresses
from tests.architecture.deployment.model import (
    COMPONENTS,
    CONNECT,
    LANDS,
    MIGRATES,
    SCHEDULER,
    UPGRADES,
    WORKER,
    Deployment,
    Finding,
    Findings,
    Service,
)

_OWN = ("AIRFLOW__DATABASE__",)
_STORES = (*_OWN, "AIRFLOW_CONN_EPOCHS_")
_OPENS: dict[str, tuple[str, ...]] = {
    MIGRATES: _OWN,
    UPGRADES: _STORES,
    **dict.fromkeys(COMPONENTS, (*_STORES, "AWS_")),
    SCHEDULER: ("AIRFLOW_", "AWS_"),
    WORKER: ("command", "AWS_"),
    CONNECT: ("command", "AWS_"),
}
"""With which settings' addresses a role connects. Tasks, which use all of them, run in the scheduler."""


def order_problems(deployment: Deployment) -> Findings:
    waits = {
        name: {one for one in service.needs if one in deployment.services}
        for name, service in deployment.services.items()
    }
    try:
        TopologicalSorter(waits).prepare()
    except CycleError as error:
        yield Finding(error.args[1][0], "depends_on", f"they wait for each other: {error.args[1]}")
        return
    for name, service in deployment.services.items():
        yield from _condition_problems(service, deployment)
        ready = _ready(service, deployment)
        for needed, why in _needed(service, deployment):
            if needed != name and needed not in ready and needed in deployment.services:
                yield Finding(name, "depends_on", f"{name} does not wait for {needed}, {why}")


def _condition_problems(service: Service, deployment: Deployment) -> Findings:
    for needed, condition in service.needs.items():
        if needed not in deployment.services:
            yield Finding(service.name, f"depends_on.{needed}", f"depends on {needed}, which does not exist")
        elif condition == "service_healthy" and "healthcheck" not in deployment.services[needed].given:
            yield Finding(
                service.name, f"depends_on.{needed}", f"waits until {needed} is healthy, which has no check"
            )
        elif condition == "service_started":
            yield Finding(service.name, f"depends_on.{needed}", f"{needed} that has started is not ready yet")


def _ready(service: Service, deployment: Deployment) -> set[str]:
    """What is ready when *service* starts: what it waits for, and what those waited for."""
    found: set[str] = set()
    left = [service]
    while left:
        for name, condition in left.pop().needs.items():
            if name in deployment.services and condition != "service_started" and name not in found:
                found.add(name)
                left.append(deployment.services[name])
    return found


def _needed(service: Service, deployment: Deployment) -> Iterator[tuple[str, str]]:
    for address in addresses(service):
        if address.host != "localhost" and address.setting.startswith(_OPENS.get(service.role, ())):
            yield address.host, f"which it connects to by {address.setting}"
    if service.role in COMPONENTS | {UPGRADES}:
        yield from ((one.name, "which makes Airflow's tables") for one in deployment.with_role(MIGRATES))
    if service.role in COMPONENTS:
        yield from ((one.name, "which makes the store's schema") for one in deployment.with_role(UPGRADES))
        if "NYC_LANDING" in service.environment:
            yield from ((one.name, "which lands its files") for one in deployment.with_role(LANDS))
    if service.role == CONNECT:
        # what starts before all workers are registered takes all cores of those that are
        yield from ((one.name, "whose cores it shares") for one in deployment.with_role(WORKER))
