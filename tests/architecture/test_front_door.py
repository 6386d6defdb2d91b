"""The front door: light at import, true to its modules, and all that documents and pipelines import."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider
from airflow_provider.domain.errors import EpochError
from tests.architecture.sources import PACKAGE, ROOMS, ROOT, imports_of, module_name, modules
from tests.documents import blocks, pages

FRONT = PACKAGE / "__init__.py"
HOMES: dict[str, str] = airflow_provider._HOMES
REFERENCE = ROOT / "docs" / "reference" / "python.md"

AIRFLOWS_OWN = ("operators", "sensors", "hooks", "triggers")
"""Where Airflow, and the people who write DAGs, look for classes of a provider."""
FOR_TESTS = ("testing.pytest_plugin", "testing.store_contract", "testing.table_contract")
"""Pytest loads a plugin by its module's name; contract suites are modules that bring pytest along."""
INTERNAL_ERRORS = {"RequirementFailed", "PageBusy", "NotAllowed"}
"""Errors that no call of a name of the front door raises: coordination tries again; the page answers 503 or 403."""


def _loaded_by(program: str) -> set[str]:
    """The libraries that a process of its own has loaded after *program*."""
    text = f"import sys; before = set(sys.modules); {program}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_loads_the_standard_library_only() -> None:
    loaded = _loaded_by("import airflow_provider; dir(airflow_provider); airflow_provider.__version__")
    assert loaded - sys.stdlib_module_names == {"airflow_provider"}


def test_declarations_in_a_dag_file_load_neither_spark_nor_arrow() -> None:
    declaring = [name for name, home in HOMES.items() if home.startswith("domain.")]
    assert {"Job", "Table", "increment", "row_count", "NotReady"} <= set(declaring)
    loaded = _loaded_by(f"from airflow_provider import {', '.join(declaring)}")
    heavy = {"pyspark", "pyarrow", "airflow", "sqlalchemy", "kazoo", "pandas", "pyiceberg", "msgspec"}
    assert loaded & heavy == set()


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_name_is_the_object_of_its_module(name: str) -> None:
    found = getattr(airflow_provider, name)
    assert found is getattr(importlib.import_module(f"airflow_provider.{HOMES[name]}"), name)
    assert inspect.getdoc(found)


def test_an_unknown_name_is_an_error_that_says_where_the_names_are() -> None:
    with pytest.raises(AttributeError, match=r"'EpochTabel'.*dir\(airflow_provider\)"):
        _ = airflow_provider.EpochTabel
    with pytest.raises(ImportError, match="EpochTabel"):
        importlib.import_module("airflow_provider.EpochTabel")


def test_the_three_lists_of_names_agree() -> None:
    """The one that is loaded from, the one that type checkers read, and ``__all__``."""
    types_only = {
        alias.name: (node.module or "").removeprefix("airflow_provider.")
        for block in ast.parse(FRONT.read_text()).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert types_only == HOMES
    assert airflow_provider.__all__ == sorted(HOMES)
    assert set(airflow_provider.__all__) <= set(dir(airflow_provider))


def test_no_name_is_a_modules() -> None:
    """Importing the module would put it in the place of the object."""
    assert set(HOMES) & {*ROOMS, *(path.stem for path in PACKAGE.glob("*.py"))} == set()


def test_every_error_of_the_package_is_offered() -> None:
    for name in modules("domain", "stores", "tables", "sources", "coordination", "spark", "client"):
        importlib.import_module(name)

    def below(kind: type[EpochError]) -> Iterator[type[EpochError]]:
        for subclass in kind.__subclasses__():
            yield from (subclass, *below(subclass))

    errors = {
        error.__name__ for error in below(EpochError) if error.__module__.startswith("airflow_provider.")
    }
    assert errors - INTERNAL_ERRORS - set(HOMES) == set()


def test_no_module_of_the_package_imports_through_the_front_door() -> None:
    """Internal imports name the module that they need: layers and circles stay visible."""
    through = [
        f"{module_name(path)}:{line} imports {name}"
        for path in PACKAGE.rglob("*.py")
        for line, name in imports_of(path)
        if name.removeprefix("airflow_provider.") in HOMES
    ]
    assert through == []


# --- what users read -------------------------------------------------------------------------------------------


def _back_doors(text: str) -> list[str]:
    """The modules of the package that *text* imports from, and users must not."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "airflow_provider":
            unknown = [alias.name for alias in node.names if alias.name not in HOMES]
            found += [f"airflow_provider has no {name}" for name in unknown]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [
            name
            for name in names
            if name.startswith("airflow_provider.")
            and name.split(".")[1] not in AIRFLOWS_OWN
            and name.removeprefix("airflow_provider.") not in FOR_TESTS
        ]
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_import_the_front_door_and_airflows_classes_only(page: Path) -> None:
    assert [found for block in blocks(page, "python") for found in _back_doors(block.text)] == []


@pytest.mark.parametrize("folder", ["dags", "spark_jobs", "demo/readers", "airflow_provider_epochs"])
def test_pipelines_and_readers_import_the_front_door_and_airflows_classes_only(folder: str) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    assert {path.name: found for path in files if (found := _back_doors(path.read_text()))} == {}


def test_the_reference_lists_every_name_once() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", REFERENCE.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == list(HOMES), "docs/reference/python.md: in the order of _HOMES"
    assert [name for name, line in rows if not line.strip().endswith(".")] == []
