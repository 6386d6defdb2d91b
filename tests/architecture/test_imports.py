"""Which libraries are required, and what must work where one is absent; who may import one is in setup.cfg."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.sources import PACKAGE, ROOMS, ROOT, imports_of, modules, setup_cfg

AIRFLOW_ROOMS = frozenset({"hooks", "operators", "sensors", "triggers", "links", "plugins", "cli"})

DISTRIBUTIONS = {
    "airflow": "apache-airflow",
    "hive_metastore": "pyiceberg",
    "openlineage": "openlineage-python",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
}
"""Distributions whose name is not the import's."""

FEATURES = ("postgres", "zookeeper", "duckdb", "hive", "glue", "openlineage")
"""Extras that bring what a user asks for; what needs one imports it on demand."""


def _required(section: str, key: str) -> set[str]:
    lines = setup_cfg()[section][key].splitlines()
    return {canonicalize_name(Requirement(line).name) for line in lines if line.strip()}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("airflow_provider", ()),
        ("airflow_provider_epochs", ()),
        ("demo", ("demo",)),
        ("dags", ("demo",)),
        ("spark_jobs", ("demo",)),
        ("benchmarks", ("dev", "demo")),
        ("tests", ("dev", "demo")),
    ],
)
def test_every_imported_library_is_required_by_name(folder: str, extras: tuple[str, ...]) -> None:
    """What merely comes along with another package today may be gone with its next release."""
    required = _required("options", "install_requires").union(
        *(_required("options.extras_require", extra) for extra in (*extras, *FEATURES))
    )
    for_authors_of_backends = required | _required("options.extras_require", "testing")
    own = {"airflow_provider", "airflow_provider_epochs", "demo", "dags", "spark_jobs", "benchmarks", "tests"}
    undeclared = {
        library: f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / folder).rglob("*.py")
        for line, name in imports_of(path)
        if (library := name.split(".")[0]) not in sys.stdlib_module_names | own
        and canonicalize_name(DISTRIBUTIONS.get(library, library))
        not in (for_authors_of_backends if path.is_relative_to(PACKAGE / "testing") else required)
    }
    assert undeclared == {}


def test_modules_read_by_every_airflow_process_import_no_heavy_library() -> None:
    """The connection's form comes from the stores themselves, which say it without their libraries."""
    program = (
        "import sys; before = set(sys.modules); from airflow_provider import provider_info; "
        "provider_info.get_provider_info(); print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    loaded = {word.split(".")[0] for word in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"airflow_provider"}


# --- what lives without a library ----------------------------------------------------------------------------

_IMPORT_ALL = """
import importlib, json, sys

class Blocked:
    def __init__(self, names):
        self.names = names

    def find_spec(self, fullname, path=None, target=None):
        if fullname.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"{fullname} is blocked", name=fullname)
        return None

asked = json.load(sys.stdin)
sys.meta_path.insert(0, Blocked(set(asked["blocked"])))
failed = {}
for module in asked["modules"]:
    try:
        importlib.import_module(module)
    except Exception as error:
        failed[module] = f"{type(error).__name__}: {error}"
print(json.dumps(failed))
"""


def _import_without(blocked: tuple[str, ...], names: list[str]) -> dict[str, str]:
    """Import *names* in a process of their own where *blocked* are absent; tell which failed, and why."""
    asked = json.dumps({"blocked": blocked, "modules": names})
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL], input=asked, capture_output=True, text=True, cwd=ROOT, check=True
    )
    failed: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return failed


def _rooms_without(*absent: str) -> tuple[str, ...]:
    return tuple(room for room in ROOMS if room not in absent)


PURE_STORES = ("stores.base", "stores.memory", "stores.factory", "stores.codec", "stores.declarations")
PURE_TABLES = ("tables.base", "tables.memory", "tables.factory")

LIVES_WITHOUT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "airflow": (("airflow",), _rooms_without(*AIRFLOW_ROOMS)),
    "spark": (("pyspark", "py4j"), _rooms_without(*AIRFLOW_ROOMS, "spark")),
    "sql": (
        ("sqlalchemy", "alembic", "psycopg"),
        ("domain", "coordination", "testing", "spark", *PURE_STORES, *PURE_TABLES),
    ),
    "postgresql": (
        ("psycopg",),
        ("domain", "coordination", "testing", "spark", "tables", *PURE_STORES, "stores.sql.sqlite", "hooks"),
    ),
    "zookeeper": (("kazoo",), _rooms_without("stores", *AIRFLOW_ROOMS) + PURE_STORES + ("stores.sql",)),
    "iceberg": (("pyiceberg",), ("domain", "coordination", "testing", "spark", "stores", *PURE_TABLES)),
    "everything": (
        (
            "airflow",
            "pyspark",
            "py4j",
            "sqlalchemy",
            "alembic",
            "kazoo",
            "pyiceberg",
            "pyarrow",
            "pandas",
            "msgspec",
        ),
        ("domain", "provider_info"),
    ),
}
"""Name of a case, the libraries that are absent, the rooms and modules that must still import."""


@pytest.mark.parametrize("case", sorted(LIVES_WITHOUT))
def test_rooms_import_where_a_library_is_absent(case: str) -> None:
    blocked, prefixes = LIVES_WITHOUT[case]
    names = modules(*prefixes)
    assert names, f"no module is left in {prefixes}"
    assert _import_without(blocked, names) == {}


def test_the_block_itself_works() -> None:
    assert _import_without(("kazoo",), ["kazoo.client", "json"]).keys() == {"kazoo.client"}


DECLARING = [
    name
    for room in ("operators", "sensors", "hooks.epochs", "links")
    for name in modules(room)
    if not name.endswith(("operators.outcome", "operators.restating", "operators.waiting"))
]
"""Modules that a DAG file may import; the others are imported by a task that runs."""


def test_a_dag_file_loads_declarations_and_no_more() -> None:
    """Airflow's processor forks for each file, and every half a minute: what a file imports, it pays each time."""
    program = "import sys; from airflow.sdk import DAG; before = set(sys.modules); " + "; ".join(
        f"import {name}" for name in DECLARING
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(*sorted(set(sys.modules) - before))"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    loaded = done.stdout.split()
    assert {"pyarrow", "numpy", "msgspec", "sqlalchemy"}.isdisjoint(word.split(".")[0] for word in loaded)
    working = (
        "coordination",
        "spark",
        "sources",
        "tables",
        "stores.codec",
        "domain.records",
        "domain.session",
    )
    assert [
        name for name in loaded if name.startswith(tuple(f"airflow_provider.{room}" for room in working))
    ] == []


_LOAD_PLUGINS = """
import os, sys
sys.argv = ["airflow", sys.argv[1]]
from airflow.jobs.job import Job
from airflow.plugins_manager import ensure_plugins_loaded
before, threads = set(sys.modules), len(os.listdir("/proc/self/task"))
ensure_plugins_loaded()
print(len(os.listdir("/proc/self/task")) - threads, *sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    ("component", "is_on", "is_ahead"),
    [("dag-processor", True, True), ("dag-processor", False, False), ("scheduler", True, False)],
)
def test_the_dag_processor_loads_ahead_what_dag_files_import(
    component: str, is_on: bool, is_ahead: bool, tmp_path: Path
) -> None:
    """It starts no thread, which its forks would lack. Forks of the scheduler load the whole package from the disk."""
    done = subprocess.run(
        [sys.executable, "-c", _LOAD_PLUGINS, component],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__DAG_PROCESSOR__PARSING_PRE_IMPORT_MODULES": str(is_on),
        },
    )
    threads, *loaded = done.stdout.splitlines()[-1].split()
    assert threads == "0"
    assert {"pyarrow", "numpy", "pyspark", "grpc"}.isdisjoint(word.split(".")[0] for word in loaded)
    own = {*DECLARING} - {"airflow_provider.operators.spark_cluster"}  # a task of a remote cluster imports it
    assert own & set(loaded) == (own if is_ahead else set())


LIGHT = {
    "plugins.epochs_plugin": "from airflow.sdk.plugins_manager import AirflowPlugin",
    "links.epochs": "from airflow.sdk import BaseOperatorLink",
    "cli.definition": "import airflow.cli.cli_config",
}
"""Modules that Airflow loads in every task process or at every command, and what it has loaded by then."""


@pytest.mark.parametrize("name", sorted(LIGHT))
def test_modules_loaded_by_every_airflow_process_are_light(name: str) -> None:
    program = (
        f"import sys; {LIGHT[name]}; before = set(sys.modules); "
        f"import airflow_provider.{name}; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    heavy = {
        "asgiref",
        "fastapi",
        "pyspark",
        "pyarrow",
        "pandas",
        "pyiceberg",
        "sqlalchemy",
        "alembic",
        "msgspec",
        "rich",
    }
    assert heavy.isdisjoint(word.split(".")[0] for word in done.stdout.split())
