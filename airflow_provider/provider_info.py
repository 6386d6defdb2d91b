"""Provider information for Airflow: it names every class by its path, so that listing imports nothing heavy.

The connection's form has the fields of all connections, and the fields that each backend declares.
"""

from __future__ import annotations

from typing import Any

from airflow_provider import __version__
from airflow_provider.stores.factory import backends
from airflow_provider.tables.iceberg.catalogs.connecting import catalogs

INTEGRATION = "Epochs"


def get_provider_info() -> dict[str, Any]:
    """Describe the provider in the form of Airflow's ``provider_info.schema.json``.

    The plugin is not named here but in the ``airflow.plugins`` entry point: Airflow reads this dictionary's
    ``plugins`` only when ``[core] lazy_discover_providers`` is off, and then would load the plugin a second time
    and report the second as an import error.

    :return: a new dictionary at each call.
    """
    return {
        "package-name": "airflow-provider-epochs",
        "name": "Epochs",
        "description": (
            "Consistent cascades of Spark jobs: epoch barriers, atomic publish of several tables, consistent cuts."
        ),
        "versions": [__version__],
        "integrations": [{"integration-name": INTEGRATION, "tags": ["apache", "software"]}],
        "operators": [
            _modules(
                "airflow_provider.operators.spark_submit",
                "airflow_provider.operators.decorator",
                "airflow_provider.operators.participants",
                "airflow_provider.operators.restatements",
                "airflow_provider.operators.lag",
                "airflow_provider.operators.retention",
                "airflow_provider.operators.compacting",
                "airflow_provider.operators.skipping",
                "airflow_provider.operators.leases",
            )
        ],
        "sensors": [_modules("airflow_provider.sensors.epochs")],
        "triggers": [_modules("airflow_provider.triggers.epochs")],
        "hooks": [_modules("airflow_provider.hooks.epochs")],
        "task-decorators": [
            {"name": "epoch", "class-name": "airflow_provider.operators.decorator.epoch_task"},
            {
                "name": "epoch_participant",
                "class-name": "airflow_provider.operators.participants.epoch_participant_task",
            },
        ],
        "extra-links": ["airflow_provider.links.epochs.EpochGridLink"],
        "cli": ["airflow_provider.cli.definition.get_cli_commands"],
        "connection-types": [_connection_type()],
        "config": {"epochs": _config_section()},
    }


def _modules(*names: str) -> dict[str, Any]:
    return {"integration-name": INTEGRATION, "python-modules": list(names)}


def _connection_type() -> dict[str, Any]:
    known = backends() | catalogs()
    return {
        "connection-type": "epochs",
        "hook-class-name": "airflow_provider.hooks.epochs.EpochsHook",
        "hook-name": "Epochs metadata store",
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"host": "File or host", "schema": "Database"},
            "placeholders": {name: _placeholder(name) for name in _PLACES},
        },
        "conn-fields": {
            "backend": {
                "label": "Backend",
                "description": "; ".join(f"{name}: {backend.summary}" for name, backend in known.items())
                + ".",
                "schema": {"type": "string", "enum": list(known), "default": next(iter(known))},
            },
            "require": {
                "label": "Required",
                "description": "Capabilities without which the store is refused, for example cluster-wide.",
                "schema": {"type": ["array", "null"], "items": {"type": "string"}},
            },
            **{name: _text(label, description) for name, (label, description) in _TEXT_FIELDS.items()},
            **{
                name: _text(field.label, f"{backend}: {field.description}")
                for backend, connection in known.items()
                for name, field in connection.extras.items()
            },
        },
    }


_PLACES = ("host", "schema", "login", "password", "port")
"""Airflow's own fields of a connection."""

_TEXT_FIELDS = {
    "warehouse": (
        "Warehouse",
        "URI under which tables are written, for example file:///srv/epochs/warehouse.",
    ),
    "catalog": (
        "Catalog",
        "Connection to the Iceberg catalog elsewhere; a store that holds none needs one.",
    ),
}
"""Text fields of every connection, each with its label and description."""


def _placeholder(place: str) -> str:
    """Return the placeholder of the field *place*: an example for each backend that uses the field."""
    used = {
        name: backend.places[place]
        for name, backend in (backends() | catalogs()).items()
        if place in backend.places
    }
    return "; ".join(f"{name}: {example}" for name, example in used.items())


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}


def _config_section() -> dict[str, Any]:
    return {
        "description": "Settings of the epochs provider.",
        "options": {
            "conn_id": {
                "description": (
                    "Connection that the commands and the page of tables and epochs use when none is named."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": None,
                "default": "epochs_default",
            },
            "read_level": {
                "description": "Isolation of reads that do not name one: read_committed or read_uncommitted.",
                "version_added": "0.1.0",
                "type": "string",
                "example": None,
                "default": "read_committed",
            },
            "read_consistency": {
                "description": (
                    "Consistency of cuts that do not name one: rolling (barriers that their own tables have reached) "
                    "or altogether (barriers that the whole domain has reached)."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "altogether",
                "default": "rolling",
            },
            "connections": {
                "description": (
                    "Connections whose tables and epochs the page in Airflow's UI shows, separated by commas; "
                    "it shows no other connection."
                ),
                "version_added": "0.1.0",
                "type": "string",
                "example": "epochs_default,epochs_finance",
                "default": "epochs_default",
            },
        },
    }
