"""The same random epochs on every store: equal answers, equal records, equal rows after each step.

What the protocol does above the stores is one code; that it comes to the same on each of them is seen here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import RLock
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.moved_records import records
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, LockRecord
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, previous
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import MetadataStore, StoreCapability, pages
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.memory import MemoryCatalog, MemoryStore
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.arrow_attempts import stage_rows, write_rows
from tests.contract.coordination_world import DOMAIN, ORIGIN, day
from tests.servers.pointers import StoreCatalog
from tests.services.stores import EVERY_STORE, empty_store

STEPS = 60
MOST_STEPS = 10 * STEPS
UNHURRIED = Defaults(lock_ttl=timedelta(hours=1))
TABLES = {name: Table(name, domain=DOMAIN, format="memory") for name in ("raw", "clean", "bad", "sums")}
JOBS = (
    Job("load", outputs=[TABLES["raw"]], cadence="@daily", origin=ORIGIN, on_rerun="new_revision"),
    Job(
        "clean",
        inputs=[TABLES["raw"]],
        outputs=[TABLES["clean"], TABLES["bad"]],
        cadence="@daily",
        origin=ORIGIN,
        on_rerun="new_revision",
    ),
    Job(
        "add",
        inputs=[TABLES["clean"], previous(TABLES["sums"])],
        outputs=[TABLES["sums"]],
        cadence="@daily",
        origin=ORIGIN,
        on_rerun="new_revision",
    ),
)


@dataclass(slots=True)
class Side:
    """A store with its tables, and the attempts that were begun there."""

    store: MetadataStore
    catalog: MemoryCatalog
    attempts: list[Attempt] = field(default_factory=list)
    coordinator: EpochService = field(init=False)
    cuts: Cuts = field(init=False)

    def __post_init__(self) -> None:
        swaps = StoreCapability.CATALOG_SWAP in self.store.capabilities
        tables = MemoryFormat(self.catalog, swaps=swaps)
        formats = TableFormats({"memory": lambda: tables}, following=() if swaps else {"memory"})
        self.coordinator = EpochService(self.store, formats, random=Random(1), defaults=UNHURRIED)
        self.cuts = Cuts(self.store, formats)

    def holds(self) -> Any:
        """All records but for their stamps' versions and times."""
        locks = [lock for job in JOBS for lock in pages(self.store, DOMAIN, LockRecord, job.name)]
        every = (*records(self.store, DOMAIN), *locks, *pages(self.store, DOMAIN, CommitRecord))
        return {stamped.key: (stamped.record, stamped.csn) for stamped in every}

    def reads(self, tables: list[str]) -> Any:
        """The rows of a cut."""
        cut = self.cuts.cut(DOMAIN, tables)
        rows = {name: sorted(self.cuts.read(cut, name, ["x"])["x"].to_pylist()) for name in tables}
        return cut.csn, cut.barrier, rows


Step = Callable[[Side], Any]


class Run:
    """Random steps of a cascade, each done on a store and on the memory store."""

    def __init__(self, side: Side, model: Side, rng: Random) -> None:
        self.sides = (model, side)
        self.rng = rng
        self.happened: dict[str, int] = {}

    def step(self) -> None:
        choice = self.rng.choices((self.begin, self.go_on), (1, 1))[0]
        self.both(choice())
        tables = self.rng.sample(sorted(TABLES), self.rng.randrange(1, 4))
        self.both(lambda side: side.reads(tables))
        model, found = (side.holds() for side in self.sides)
        assert found == model

    def both(self, step: Step) -> None:
        model, found = (self.answer(step, side) for side in self.sides)
        assert found == model
        self.happened[model[0]] = self.happened.get(model[0], 0) + 1

    def answer(self, step: Step, side: Side) -> Any:
        try:
            answer = step(side)
        except EpochError as error:
            return type(error).__name__, getattr(error, "field", None)
        return type(answer).__name__, answer

    def begin(self) -> Step:
        """Begin an epoch, for one of two runs, now and then cleared or tried again."""
        rng = self.rng
        job, epoch = rng.choices(JOBS, (5, 3, 2))[0], day(rng.choices((1, 2, 3), (5, 3, 1))[0])
        generation, try_number = rng.choice((0, 0, 0, 1)), rng.choice((1, 1, 2))
        owner = Owner(
            dag_id="dag",
            run_id=rng.choice(("one", "one", "two")),
            generation=generation,
            try_number=try_number,
        )

        def step(side: Side) -> Any:
            found = side.coordinator.begin(job, epoch, owner)
            if isinstance(found, AlreadyCommitted):
                return found
            side.attempts.append(found)
            return found.token, found.revision, found.adopted, found.inputs, found.owner

        return step

    def go_on(self) -> Step:
        """Let an attempt do something, mostly the newest one and what comes next for it."""
        rng = self.rng
        count = len(self.sides[0].attempts)
        if count == 0:
            return self.begin()
        at = count - 1 if rng.random() < 0.8 else rng.randrange(count)
        sink, value = rng.random(), rng.randrange(100)
        what = rng.choices(
            ("all", "written", "processed", "complete", "publish", "abort", "heartbeat"),
            (12, 2, 2, 1, 4, 1, 1),
        )[0]

        def step(side: Side) -> Any:
            return what, self.do(side, side.attempts[at], what, sink, value)

        return step

    def do(self, side: Side, attempt: Attempt, what: str, sink: float, value: int) -> Any:
        coordinator, rows = side.coordinator, pa.table({"x": [value]})
        name = attempt.sinks[int(sink * len(attempt.sinks))].name
        match what:
            case "all":
                for output in attempt.sinks:
                    write_rows(coordinator, attempt, output.name, rows)
                return coordinator.publish(attempt).csn
            case "written":
                return write_rows(coordinator, attempt, name, rows).rows
            case "processed":
                stage_rows(coordinator, attempt, name, rows)
                return coordinator.processed(attempt, name)
            case "complete":
                return coordinator.complete(attempt)
            case "publish":
                published = coordinator.publish(attempt)
                return published.csn, published.revision, published.tables
            case "abort":
                return coordinator.abort(attempt, "by chance")
            case _:
                return coordinator.heartbeat(attempt)


@pytest.fixture(params=EVERY_STORE)
def side(request: Any, quick_path: Path) -> Iterator[Side]:
    """One of each store, empty."""
    if request.param == "memory":
        store = MemoryStore()
        yield Side(store, store.catalog)
        return
    url = empty_store(request.param, request, quick_path)
    catalog = MemoryCatalog(RLock()) if request.param.startswith("zookeeper") else StoreCatalog(url)
    with open_store(url) as store:
        yield Side(store, catalog)
    if isinstance(catalog, StoreCatalog):
        catalog.close()


def test_epochs_come_to_the_same_on_every_store(side: Side, request: pytest.FixtureRequest) -> None:
    """The same steps for every store of a run: they follow from the seed that the run prints."""
    with MemoryStore() as model:
        rng = Random(f"{request.config.getoption('hypothesis_seed')} epochs")
        run = Run(side, Side(model, model.catalog), rng)
        for number in range(MOST_STEPS):
            run.step()
            committed = run.sides[0].store.read(DOMAIN, []).head.csn > 0
            met = run.happened.get("Fenced", 0) + run.happened.get("EpochBusy", 0) > 0
            if number >= STEPS and committed and met:  # by chance no two attempts may have met yet
                return
        raise AssertionError(run.happened)
