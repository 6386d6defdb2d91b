"""A simulated site: one store, its tables, and the lines over which processes reach them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import cast

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.stores.base import Receipt, RequirementFailed, Transaction
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.tables.base import Place, TableFormat
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.memory import MemoryFormat
from airflow_provider.testing.faults import FaultyStore
from airflow_provider.testing.simulation.events import Event
from airflow_provider.testing.simulation.scheduler import OwnClock, Process, Scheduler
from airflow_provider.testing.simulation.wire import Line, SimulatedFormat, WatchedStore, Weather, plan_of


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

    def count(self, event: Event) -> None:
        self.events[event] += 1
        self.scheduler.note(f"event {event}")

    # --- what a process gets -----------------------------------------------------------------------------------

    def coordinator(self, process: Process) -> Coordinator:
        """The coordinator of a process of its own, with a clock that is off."""
        line = self._line(process)
        return Coordinator(
            self._wire(line),
            self._formats(line),
            clock=self._clock(process),
            random=self._own_random(),
            defaults=self.defaults,
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
        return Random(self.random.getrandbits(64))  # noqa: S311 - drawn from the seed

    def _wire(self, line: Line) -> FaultyStore:
        return FaultyStore(WatchedStore(self.store, line, self._watch, torn=self._torn), plan_of(line))

    def _formats(self, line: Line) -> TableFormats:
        tables = cast("TableFormat", SimulatedFormat(self.tables, line, self._discard))
        return TableFormats({tables.name: lambda: tables}, projected=self._projected)

    # --- what is looked at -------------------------------------------------------------------------------------

    def _watch(self, transaction: Transaction, send: Callable[[], Receipt], line: Line) -> Receipt:
        try:
            receipt = send()
        except RequirementFailed as error:
            self._refused(transaction, error.requirement)
            raise
        self.scheduler.note(f"applied {receipt.csn or ''}")
        self._applied(transaction, receipt, line)
        return receipt

    @abstractmethod
    def _applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:
        """Look at a transaction that the store has applied."""

    @abstractmethod
    def _refused(self, transaction: Transaction, requirement: object) -> None:
        """Look at one that it has refused."""

    @abstractmethod
    def _discard(self, place: Place, discard: Callable[[], None]) -> None:
        """Let what was staged be deleted, and look at what went."""
