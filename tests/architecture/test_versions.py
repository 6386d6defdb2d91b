"""What setup.cfg declares of Airflow and Python is what `make test-versions` and this environment run."""

from __future__ import annotations

import ast
import re

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.architecture.sources import PACKAGE, ROOT, setup_cfg
from tests.versions.cells import CELLS, LEFT_OUT, PINS, Cell, MissingPythonError, selected

OWN = Cell("3.3", "3.11")
"""What all other tasks run: versions.env."""
PYTHONS = [f"3.{minor}" for minor in range(9, 16)]
AIRFLOWS = [f"3.{minor}" for minor in range(8)]


def test_every_declared_version_is_run() -> None:
    cells = {OWN, *CELLS}
    options = setup_cfg()["options"]
    pythons = SpecifierSet(options["python_requires"])
    assert {cell.python for cell in cells} == {
        version for version in PYTHONS if pythons.contains(f"{version}.1")
    }
    named = re.findall(r"Python :: (3\.\d+)", setup_cfg()["metadata"]["classifiers"])
    assert sorted(named) == sorted({cell.python for cell in cells})
    (airflow,) = [
        requirement
        for requirement in map(Requirement, options["install_requires"].split("\n")[1:])
        if requirement.name == "apache-airflow"
    ]
    assert {cell.airflow for cell in cells} == {
        version for version in AIRFLOWS if airflow.specifier.contains(f"{version}.1")
    }


def test_the_environment_of_the_other_tasks_is_the_cell_that_is_not_run() -> None:
    versions = dict(
        line.split("=", 1) for line in (ROOT / "versions.env").read_text().splitlines() if "=" in line[1:]
    )
    assert (versions["AIRFLOW_VERSION"].rpartition(".")[0], versions["PYTHON_VERSION"]) == (
        OWN.airflow,
        OWN.python,
    )
    assert OWN not in CELLS


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_pins_of_a_cell_are_exact_name_no_address_and_have_its_airflow(cell: Cell) -> None:
    pins = cell.pins()
    assert pins["apache-airflow"] == pins["apache-airflow-core"]
    assert pins["apache-airflow"].rpartition(".")[0] == cell.airflow
    for file in PINS.glob("*.txt"):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line)] == []


def test_the_page_of_versions_names_those_that_are_run() -> None:
    page = (ROOT / "docs/reference/versions.md").read_text()
    assert [cell.name for cell in CELLS if cell.pins()["apache-airflow"] not in page] == []


def test_what_a_cell_leaves_out_exists_and_is_not_run() -> None:
    modules = {path.stem for path in (ROOT / "tests/integration").glob("test_airflow_*.py")}
    assert set(LEFT_OUT) <= modules
    assert {name for name in modules if f"tests/integration/{name}.py" not in selected()} == set(LEFT_OUT)


def test_a_python_that_is_absent_is_an_error_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_3_12", "/there/is/none")
    with pytest.raises(MissingPythonError, match=r"missing: Python 3\.12 .*PYTHON_3_12=/path/to/python3\.12"):
        Cell("3.3", "3.12").interpreter()


def test_one_module_knows_versions_of_airflow() -> None:
    """Others take what differs from it."""
    knowing = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)]
            module = node.module if isinstance(node, ast.ImportFrom) else ""
            if (module or "").startswith("airflow.providers.common.compat") or (
                module == "airflow" and "__version__" in names
            ):
                knowing.add(str(path.relative_to(PACKAGE)))
    assert knowing == {"hooks/compat.py"}
