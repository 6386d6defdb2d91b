"""What is wrong with a compose file: held against the published schema, the pins, the code, Airflow and Spark.

What a service must have is derived from what reads it: a connection goes through the hook's own parser and is held
against the roles that PostgreSQL's script makes; a command goes through Airflow's own parser, its options through
Spark's own classes; whom a service must wait for follows from the addresses in its settings. Facts about other
people's images are in one place, ``images``.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from tests.architecture.deployment.addresses import address_problems
from tests.architecture.deployment.commands import command_problems, health_problems
from tests.architecture.deployment.confidential import PAGE, samples, secret_names, secret_problems
from tests.architecture.deployment.connections import connection_problems, ensemble_problems
from tests.architecture.deployment.images import image_problems
from tests.architecture.deployment.logins import readiness_problems
from tests.architecture.deployment.model import Deployment, Finding, listens
from tests.architecture.deployment.mounts import mount_problems
from tests.architecture.deployment.order import order_problems
from tests.architecture.deployment.settings import setting_problems
from tests.architecture.deployment.spark import cluster_problems
from tests.services import compose
from tests.services.compose import Document

__all__ = ["PAGE", "Finding", "listens", "problems", "samples", "secret_names"]

SCHEMA = Path(__file__).parents[1] / "compose_spec" / "compose-spec.json"
_CHECKS = (
    image_problems,
    health_problems,
    mount_problems,
    setting_problems,
    connection_problems,
    ensemble_problems,
    readiness_problems,
    address_problems,
    order_problems,
    command_problems,
    cluster_problems,
)
_READ = {
    "image", "build", "entrypoint", "command", "environment", "volumes", "depends_on", "ports", "restart",
    "healthcheck", "stop_grace_period",
}  # fmt: skip
"""What a service may say: each of it is read by a check. Whatever else Compose knows (limits, networks, profiles,
users, replicas, ``tmpfs``) changes what the checks believe: a check learns it first."""

_FORMS = {"environment": dict, "command": list, "volumes": list, "depends_on": dict, "entrypoint": list}
"""Of the forms that Compose takes, the one in which this file is written and read here."""


def problems(raw: Document) -> list[Finding]:
    """Everything that is wrong with *raw*, a compose file whose variables are not yet put in."""
    mismatch = next(_schema().iter_errors(raw), None)
    if mismatch is not None:
        _, service, *setting = [*map(str, mismatch.absolute_path), "", ""][:3]
        return [
            Finding(service, ".".join(setting), f"schema: {mismatch.json_path}: {mismatch.message[:200]}")
        ]
    found = [*secret_problems(raw), *_form_problems(raw)]
    try:
        document = compose.interpolated(raw, {**samples(), **compose.versions()})
    except ValueError as error:
        return [*found, Finding("", "variables", str(error))]
    deployment = Deployment(document)
    return [*found, *(finding for check in _CHECKS for finding in check(deployment))]


@cache
def _schema() -> Any:
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text()))


def _form_problems(raw: Document) -> list[Finding]:
    unread = [(name, setting) for name, given in raw["services"].items() for setting in set(given) - _READ]
    unread += [("volumes", name) for name, given in raw.get("volumes", {}).items() if given]
    unread += [("", name) for name in set(raw) - {"name", "services", "volumes"} if not name.startswith("x-")]
    return [Finding(*where, "no check reads what this changes") for where in sorted(unread)] + [
        Finding(name, setting, f"is written as a {type(given[setting]).__name__}; here as a {form.__name__}")
        for name, given in raw["services"].items()
        for setting, form in _FORMS.items()
        if not isinstance(given.get(setting, form()), form)
    ]
