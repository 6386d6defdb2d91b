"""A simulated site: one store, its tables, the lines over which processes reach them, and looks at what is there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import cast

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.domain.cut import State
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Kind
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.base import (
    CatalogSwap,
    Exists,
    MetadataStore,
    Number,
    Receipt,
    RequirementFailed,
    Transaction,
)
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.tables.base import StagingLocation, TableFormat
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.faults import FaultyStore
from tests.simulator.cascade import FAR, Rows
from tests.simulator.events import Event
from tests.simulator.history import History, Violation, expect
from tests.simulator.outcome import Outcome
from tests.simulator.outsiders import Outsiders
from tests.simulator.races import Races
from tests.simulator.readers import rows_of
from tests.simulator.scheduler import OwnClock, Process, Scheduler
from tests.simulator.wire import Line, SimulatedFormat, WatchedStore, Weather, plan_of
from tests.simulator.working import Hands

CONSULTED = 0.05
"""The share of commits after which doctor is asked."""


class Site(ABC):
    """What processes share.

    :param defaults: of every process here.
    :ivar events: how often what happened.
    """

    def __init__(self, scheduler: Scheduler, random: Random, defaults: Defaults = DEFAULTS) -> None:
        self.scheduler = scheduler
        self.random = random
        self.defaults = defaults
        self.events: Counter[Event] = Counter()
        self.weather = Weather(random, self.count)
        self.store = MemoryStore(now=scheduler.clock.now)
        self._projected = random.random() < 0.5
        self.tables = MemoryFormat(self.store.catalog, swaps=not self._projected)
        self._torn = random.random() < 0.5
        self._races = Races()
        self.outsiders = Outsiders(self.store.catalog, self.tables, follows=self._projected)

    @property
    @abstractmethod
    def history(self) -> History:
        """What the store must hold."""

    def count(self, event: Event) -> None:
        self.events[event] += 1
        self.scheduler.note(f"event {event}")

    # --- how it goes on ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let one process run.

        :raises Violation: an invariant does not hold any more, or the process ended as no process should.
        """
        process = self.scheduler.step()
        if isinstance(process.error, Violation):
            raise process.error
        if process.error is not None:
            raise Violation("error", f"{process.name}: {type(process.error).__name__}: {process.error}")

    def calm(self) -> None:
        """Let no fault happen from now on; a process that stands still goes on within half a TTL."""
        self.weather.clear = True
        soon = self.scheduler.clock.now() + DEFAULTS.lock_ttl / 2
        for process in self.scheduler.processes:
            process.wakes = min(process.wakes, soon)

    def outcome(self, seed: int, violation: str) -> Outcome:
        return Outcome(
            seed=seed,
            steps=self.weather.steps,
            faults=self.weather.faults,
            epochs=len(self.history.change_sets),
            events=dict(self.events),
            seconds=self.scheduler.clock.monotonic(),
            trace=self.scheduler.trace_hash,
            violation=violation,
        )

    # --- what a process gets -----------------------------------------------------------------------------------

    def coordinator(
        self,
        process: Process,
        preparing: timedelta = timedelta(0),
        *,
        poor: bool = False,
        steady: bool = False,
    ) -> EpochService:
        """The coordinator of a process of its own, with a clock that is off.

        :param preparing: how long the preparation of a commit takes it. :param poor, steady: see :class:`~.wire.Line`.
        """
        line = self._line(process)
        line.poor, line.steady = poor, steady
        return EpochService(
            self._wire(line),
            self._formats(line, preparing),
            clock=self._clock(process),
            random=self._random_of_process(),
            defaults=self.defaults,
        )

    def hands(self, coordinator: EpochService, process: Process) -> Hands:
        return Hands(coordinator, process, self.random, self.history, self.count)

    def readers(self, process: Process) -> tuple[Cuts, Leases]:
        """What a reading process has."""
        line = self._line(process)
        store: MetadataStore = self._wire(line)
        clock = self._clock(process)
        cuts = Cuts(store, self._formats(line), clock=clock, random=self._own_random())
        return cuts, Leases(store, cuts, clock=clock, random=self._own_random())

    def plain_formats(self) -> TableFormats:
        """The tables without a line: no turn, no fault."""
        return TableFormats(
            {self.tables.name: lambda: self.tables}, following={"memory"} if self._projected else ()
        )

    def _line(self, process: Process) -> Line:
        return Line(process, self.scheduler, self.weather)

    def _clock(self, process: Process) -> OwnClock:
        return OwnClock(
            process,
            self.scheduler.clock,
            offset=self.random.uniform(-1e6, 1e6),
            rate=self.random.choice((0.5, 1.0, 1.0, 1.0, 2.0)),
        )

    def _own_random(self) -> Random:
        return Random(self.random.getrandbits(64))

    def _random_of_process(self) -> Random:
        """The randomness of a process that has a coordinator."""
        return self._own_random()

    def _wire(self, line: Line) -> FaultyStore:
        return FaultyStore(WatchedStore(self.store, line, self._watch, torn=self._torn), plan_of(line))

    def _formats(self, line: Line, preparing: timedelta = timedelta(0)) -> TableFormats:
        simulated = SimulatedFormat(
            self.tables, line, self._roll_back, deleting=self._vacuum, preparing=preparing
        )
        tables = cast("TableFormat", simulated)
        return TableFormats({tables.name: lambda: tables}, following={"memory"} if self._projected else ())

    # --- what is looked at -------------------------------------------------------------------------------------

    def consult_doctor(self, domain: DomainName) -> None:
        """Let doctor look for what was read and has changed (I4), and for files that are missing (I6)."""
        found = [
            *stale_reads(self.store, domain),
            *missing_files(self.store, self.plain_formats(), domain, defaults=self.defaults),
        ]
        expect(not found, "doctor", "; ".join(map(str, found)))
        self.count(Event.DOCTOR)

    def _watch(self, transaction: Transaction, send: Callable[[], Receipt], line: Line) -> Receipt:
        try:
            receipt = send()
        except RequirementFailed as error:
            self.scheduler.note("refused")
            self._races.refused(transaction, self.scheduler.clock.now(), line)
            self._refused(transaction)
            if _lost_the_head(transaction, error.requirement):
                self.count(Event.HEAD_LOST)
            raise
        self.scheduler.note(f"applied {receipt.csn or ''}")
        self._races.applied(transaction, receipt, line)
        self._applied(transaction, receipt, line)
        return receipt

    @abstractmethod
    def _applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:
        """Look at a transaction that the store has applied."""

    @abstractmethod
    def _refused(self, transaction: Transaction) -> None:
        """Look at one that it has refused."""

    @abstractmethod
    def _roll_back(self, place: StagingLocation, roll_back: Callable[[], None]) -> None:
        """Let what was staged be deleted, and look at what went."""

    def _vacuum(self, delete: Callable[[], list[str]]) -> list[str]:
        """Let versions be deleted, and look at what went."""
        return delete()

    def load_by_catalog(self, table: Table) -> None:
        """Read *table* without a cut."""
        if self.outsiders.look(table):
            self.count(Event.LAGGING_POINTER)
        self.count(Event.SEEN_BY_CATALOG)

    def rows_at(self, table: Table, ref: TableRef, csn: int) -> Rows:
        """All rows of one version of *table*, read past all lines."""
        info = self.tables.describe(table)
        assert info is not None
        return rows_of(self.tables.read(everything(table.name, ref, csn), info.schema))

    def refuse_ahead(self, table: Table, ref: TableRef) -> None:
        """Compare the catalog's pointer with what was published (I10)."""
        info = self.tables.describe(table)
        assert info is not None
        told = f"{table.name} points at {info.version}, published is {ref.version}"
        expect(info.version <= ref.version, "I10", told)


def everything(table: TableName, ref: TableRef, csn: int, until: datetime = FAR) -> State:
    """All slices of one version, of a full table too."""
    return State(table=table, kind=TableKind.INCREMENTAL, barrier=until, low=None, csn=csn, ref=ref)


def _lost_the_head(transaction: Transaction, requirement: object) -> bool:
    if transaction.number is None:
        return False
    table = isinstance(requirement, Exists) and requirement.key.kind is Kind.TABLE
    return table or isinstance(requirement, Number | CatalogSwap)
