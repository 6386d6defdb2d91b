"""Every store answers as the memory store does, and holds the same after each operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryStore
from tests.contract.differential import DOMAINS, TABLES, Twin
from tests.servers.pointers import StoreCatalog
from tests.services.stores import EVERY_STORE, empty_store

STEPS, MOST_STEPS = 120, 1200
REFUSED = {f"RequirementFailed {kind}" for kind in ("Exists", "Absent", "Number")}
"""Kinds of refusals that each run has to meet; a seed with a rare kind takes more steps, up to MOST_STEPS."""


@dataclass(frozen=True, slots=True)
class Place:
    """A running store. :param catalog: where its transactions find pointers; None when they move none."""

    url: str
    catalog: Any = None


@pytest.fixture(params=EVERY_STORE)
def place(request: Any, quick_path: Path) -> Place:
    """One place of each store, empty."""
    if request.param == "memory":
        return Place("memory")
    url = empty_store(request.param, request, quick_path)
    return Place(url, None if request.param.startswith("zookeeper") else StoreCatalog(url))


@pytest.fixture
def store(place: Place) -> Iterator[MetadataStore]:
    store = MemoryStore() if place.url == "memory" else open_store(place.url)
    with store:
        yield store
    with suppress(AttributeError):
        place.catalog.close()


def test_a_store_answers_as_its_model_does(
    place: Place, store: MetadataStore, request: pytest.FixtureRequest
) -> None:
    """The same operations for every store of a run: they follow from the seed that the run prints."""
    with MemoryStore() as model:
        rng = Random(f"{request.config.getoption('hypothesis_seed')} differential")
        twin = Twin(store, model, rng)
        if twin.swaps:
            for catalog in (model.catalog, place.catalog or getattr(store, "catalog", None)):
                for namespace in DOMAINS:
                    for table in TABLES:
                        catalog.create(namespace, table, "v0")
        for step in range(MOST_STEPS):
            twin.step()
            if step >= STEPS and twin.happened.keys() >= REFUSED:
                break
        twin.compare(*DOMAINS)
        assert twin.happened["applied"] > STEPS / 6, twin.happened
        assert twin.happened.keys() >= REFUSED, twin.happened
        if twin.swaps:
            catalog = place.catalog or store.catalog  # type: ignore[attr-defined]
            found = {(space, table): catalog.pointer(space, table) for space, table in twin.pointers}
            assert found == twin.pointers
