"""What Airflow is told about the package is true: entry points, class paths, names, schema."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_provider import __version__
from airflow_provider.hooks.connection import COMMON_EXTRAS
from airflow_provider.provider_info import get_provider_info
from airflow_provider.stores.factory import backends
from airflow_provider.tables.iceberg.catalogs.connecting import catalogs
from tests.airflow_versions import AIRFLOW, hooks_of_connections

DISTRIBUTION = "airflow-provider-epochs"
INFO = get_provider_info()


def _resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _class_paths() -> list[str]:
    return [
        *(decorator["class-name"] for decorator in INFO["task-decorators"]),
        *(connection["hook-class-name"] for connection in INFO["connection-types"]),
        *INFO["extra-links"],
        *INFO["cli"],
    ]


def _module_names() -> list[str]:
    kinds = ("operators", "sensors", "triggers", "hooks")
    return [name for kind in kinds for entry in INFO[kind] for name in entry["python-modules"]]


def test_the_description_fits_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


def test_the_description_uses_only_keys_that_airflow_reads() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    not_yet = set() if AIRFLOW >= (3, 2) else {"cli"}
    assert INFO.keys() - schema["properties"].keys() == {"versions"} | not_yet


@pytest.mark.parametrize("group", ["apache_airflow_provider", "airflow.plugins"])
def test_entry_points_resolve(group: str) -> None:
    (entry,) = [
        entry_point
        for entry_point in importlib.metadata.distribution(DISTRIBUTION).entry_points
        if entry_point.group == group
    ]
    assert callable(entry.load())


def test_the_package_name_is_the_distributions() -> None:
    """Another name stops Airflow's discovery of every provider."""
    assert INFO["package-name"] == importlib.metadata.distribution(DISTRIBUTION).name
    assert importlib.metadata.version(DISTRIBUTION) == __version__


@pytest.mark.parametrize("path", _class_paths())
def test_class_paths_resolve(path: str) -> None:
    assert callable(_resolve(path))


@pytest.mark.parametrize("name", _module_names())
def test_named_modules_import(name: str) -> None:
    importlib.import_module(name)


def test_the_hook_has_the_connection_type_that_is_declared() -> None:
    (declared,) = INFO["connection-types"]
    hook = _resolve(declared["hook-class-name"])
    assert hook.conn_type == declared["connection-type"]
    assert hook.hook_name == declared["hook-name"]
    assert hook.default_conn_name == INFO["config"]["epochs"]["options"]["conn_id"]["default"]


def test_airflow_finds_the_provider() -> None:
    manager = ProvidersManager()
    manager.initialize_providers_list()
    assert manager.providers[DISTRIBUTION].data["name"] == INFO["name"]
    assert hooks_of_connections()["epochs"] is not None


def test_the_connections_form_has_every_field_of_every_backend() -> None:
    fields = INFO["connection-types"][0]["conn-fields"]
    known = backends() | catalogs()
    assert fields["backend"]["schema"]["enum"] == list(known)
    assert list(known) == ["sqlite", "postgresql", "zookeeper", "hive", "glue", "rest"]
    assert set(fields) == set(COMMON_EXTRAS).union(*(backend.extras for backend in known.values()))
    places = INFO["connection-types"][0]["ui-field-behaviour"]["placeholders"]
    assert set(places) == set().union(*(backend.places for backend in known.values()))
