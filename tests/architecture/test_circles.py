"""No module imports itself by way of others, also where the import is for type checkers only."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.architecture.sources import PACKAGE, imports_of, module_name

FRONT_DOOR = "airflow_provider"
"""It names every room for type checkers, and loads a room on use; import-linter leaves it out, too."""


def _graph() -> dict[str, set[str]]:
    """The modules of the package that each of its modules imports, inside functions and for types, too."""
    paths = {name: path for path in PACKAGE.rglob("*.py") if (name := module_name(path)) != FRONT_DOOR}
    return {
        name: {found for _, full in imports_of(path) if (found := _module(full, paths)) not in ("", name)}
        for name, path in paths.items()
    }


def _module(full: str, known: Mapping[str, object]) -> str:
    """Return the module that an import of *full* runs: itself, or its parent; empty for another package."""
    return next((name for name in (full, full.rpartition(".")[0]) if name in known), "")


def _circle(graph: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_goes_in_a_circle() -> None:
    graph = _graph()
    assert sum(map(len, graph.values())) > len(graph), "nothing was read"
    assert _circle(graph) == [], "take what both need out of the two, or describe it by a protocol"


@pytest.mark.parametrize(
    ("graph", "length"), [({"a": {"b"}, "b": {"c"}, "c": {"a"}}, 4), ({"a": {"b", "c"}, "b": {"c"}}, 0)]
)
def test_a_circle_is_found(graph: dict[str, set[str]], length: int) -> None:
    assert len(_circle(graph)) == length
