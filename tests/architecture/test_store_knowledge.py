"""No module above ``stores/`` names a store; which modules of it may be imported is in setup.cfg."""

from __future__ import annotations

import ast
import re

import pytest

from airflow_provider.stores.factory import _STORES, backends
from tests.architecture.sources import PACKAGE, module_name, texts_in

_SCHEMES = "|".join(re.escape(scheme) for scheme in _STORES)
_BACKENDS = "|".join(re.escape(name) for name in backends())
NAMES_A_STORE = re.compile(rf"(?<![\w+])(?:{_SCHEMES}):|(?<!\w)(?:{_BACKENDS})(?!\w)", re.IGNORECASE)
"""The beginning of a store's URL, or a backend's name as a word; ``memory`` is a table format, too."""

EXCEPTIONS = {
    "sources": "asks databases and catalogs of others, of no store",
    "tables.memory": "memory tables have URIs of their own, in the memory of the store",
    "domain.identifiers": "refuses a name that one of the stores keeps for itself, so that domains can be moved",
}
"""Rooms and modules that may, and why."""


def _found() -> dict[str, list[str]]:
    above = {
        module_name(path).removeprefix("airflow_provider."): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "stores")
    }
    assert len(above) > 100, "the package was not read"
    found = {
        name: [f"{line}: {text[:60]!r}" for line, text in texts_in(tree) if NAMES_A_STORE.search(text)]
        for name, tree in above.items()
    }
    return {name: lines for name, lines in found.items() if lines}


def _exception_for(name: str) -> str | None:
    return next((known for known in EXCEPTIONS if name == known or name.startswith(f"{known}.")), None)


def test_no_module_above_the_stores_names_one() -> None:
    found = _found()
    assert {name: lines for name, lines in found.items() if _exception_for(name) is None} == {}
    assert set(EXCEPTIONS) - set(map(_exception_for, found)) == set(), "an exception that nothing needs"


@pytest.mark.parametrize(
    "text", ["sqlite:", "memory://here", "postgresql+psycopg", "PostgreSQL", "is on zookeeper", "postgresql"]
)
def test_a_text_that_names_a_store_is_found(text: str) -> None:
    assert NAMES_A_STORE.search(text)


@pytest.mark.parametrize("text", ["memory", "file:///srv", "sqlite3", "iceberg"])
def test_text_without_a_store_is_not_matched(text: str) -> None:
    assert not NAMES_A_STORE.search(text)
