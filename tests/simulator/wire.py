"""The line between a simulated process and the store and tables: turns, faults, and an onlooker.

Each call is a step. Before it the process gives the baton back; then it may die, stand still for longer than
a TTL, lose its request, or lose its reply, as the seed says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import CommitRecord, TableRef
from airflow_provider.stores.base import MetadataStore, Reading, Receipt, StoreCapability, Transaction
from airflow_provider.tables.base import (
    Prepared,
    Publication,
    StagingLocation,
    TableFormat,
    TableInfo,
    TaskWriter,
    WrittenFile,
)
from airflow_provider.tables.errors import WarehouseUnavailable
from airflow_provider.testing.faults import Fault, Plan
from tests.simulator.events import FAULTS, Event
from tests.simulator.scheduler import Process, Scheduler, Stopped

Answer = TypeVar("Answer")
Count = Callable[[Event], None]

_STEPS_PER_FAULT = 10
_LIKELY = 0.5
_SPARE = 8
"""Faults that are kept for what is to go wrong more often."""
_SPARED = 0.7
"""Share of its faults that a process is spared which makes a hundred calls for one answer, and would come to no end."""
_PAUSES = (timedelta(seconds=5), timedelta(seconds=60), timedelta(minutes=3), timedelta(minutes=10))
_MIXES = (
    {
        Event.CRASH_BEFORE: 1,
        Event.CRASH_AFTER: 1,
        Event.REQUEST_LOST: 3,
        Event.REPLY_LOST: 4,
        Event.PAUSED: 1,
    },
    {
        Event.CRASH_BEFORE: 1,
        Event.CRASH_AFTER: 2,
        Event.REQUEST_LOST: 1,
        Event.REPLY_LOST: 2,
        Event.PAUSED: 3,
    },
    {
        Event.CRASH_BEFORE: 0,
        Event.CRASH_AFTER: 1,
        Event.REQUEST_LOST: 6,
        Event.REPLY_LOST: 9,
        Event.PAUSED: 0,
    },
)


class Weather:
    """Draws faults: never more than one in ten steps, and none once it has cleared up.

    :ivar steps: calls so far. :ivar faults: faults so far.
    """

    def __init__(self, random: Random, count: Count) -> None:
        self.steps = 0
        self.faults = 0
        self.clear = False
        self._random = random
        self._count = count
        self._mix = random.choice(_MIXES)
        self._rate = random.choice((0.07, 0.1, 0.14))

    def draw(self, likely: Event | None = None) -> Event | None:
        """Count a step; return what goes wrong with it, None for nothing.

        :param likely: goes wrong more often than other things.
        """
        self.steps += 1
        spare = 0 if likely else _SPARE
        if self.clear or (self.faults + 1 + spare) * _STEPS_PER_FAULT > self.steps:
            return None
        if likely is not None and self._random.random() < _LIKELY:
            return likely
        if self._random.random() >= self._rate:
            return None
        kinds = list(self._mix)
        return self._random.choices(kinds, [self._mix[kind] for kind in kinds])[0]

    def happened(self, event: Event) -> None:
        """Count a fault that took place."""
        assert event in FAULTS
        self.faults += 1
        self._count(event)

    def spares(self) -> bool:
        """Whether a fault does not happen to a process that meets few."""
        return self._random.random() < _SPARED

    def somewhere(self, length: int) -> int:
        """A place in a sequence of that *length*."""
        return self._random.randrange(length + 1)

    def pause(self) -> timedelta:
        """How long a process stands still."""
        return self._random.choice(_PAUSES)


@dataclass(slots=True)
class Line:
    """The line of one process: each call takes a turn and meets the weather.

    :ivar fault: what gets lost of the call that is under way. :ivar troubles: how often that happened so far.
    :ivar dies: whether that call is the process's last one. :ivar poor: whether replies to its writes are often lost.
    :ivar steady: whether it meets few faults while it reads.
    """

    process: Process
    scheduler: Scheduler
    weather: Weather
    fault: Fault | None = None
    troubles: int = 0
    dies: bool = False
    poor: bool = False
    steady: bool = False

    def before(self, label: str) -> Fault | None:
        """Take a turn before the call *label*; return how its message gets lost, if it does.

        :raises Stopped: the process dies before the call.
        """
        likely = Event.REPLY_LOST if self.poor and label == "store.transact" else None
        fate = self.weather.draw(likely)
        if self.steady and fate is not None and label != "store.transact" and self.weather.spares():
            fate = None
        self.process.sleep()
        self.scheduler.note(f"{self.process.name} {label} {fate or ''}")
        self.fault = None
        if fate is Event.CRASH_AFTER:
            self.dies = True
        elif fate is not None:
            self.weather.happened(fate)
        match fate:
            case Event.CRASH_BEFORE:
                raise Stopped
            case Event.PAUSED:
                self.process.sleep(self.weather.pause())
                self.scheduler.note(f"{self.process.name} {label} goes on")
            case Event.REQUEST_LOST:
                self.fault = Fault.REQUEST_LOST
            case Event.REPLY_LOST:
                self.fault = Fault.REPLY_LOST
        self.troubles += self.fault is not None
        return self.fault

    def torn(self, keys: Sequence[Key[Any]]) -> Iterator[Sequence[Key[Any]]]:
        """Cut *keys* in two somewhere, and let others have their turn at the cut."""
        middle = self.weather.somewhere(len(keys))
        yield keys[:middle]
        self.process.sleep()
        yield keys[middle:]

    @contextmanager
    def call(self) -> Iterator[None]:
        """Make the call.

        :raises Stopped: the process dies after it, whatever came of it.
        """
        try:
            yield
        finally:
            if self.dies:
                self.dies = False
                self.weather.happened(Event.CRASH_AFTER)
                raise Stopped


Watch = Callable[[Transaction, Callable[[], Receipt], Line], Receipt]
"""Sends a transaction by its second argument and sees what became of it."""


class WatchedStore(MetadataStore):
    """The store, with an onlooker that sees each transaction of each process.

    :param torn: whether others may come in between the records of one read, as the contract allows to stores
        without :attr:`StoreCapability.SNAPSHOT_READ`; the head is read before all of them.
    """

    def __init__(self, inner: MetadataStore, line: Line, watch: Watch, *, torn: bool = False) -> None:
        self._inner = inner
        self._line = line
        self._watch = watch
        self._torn = torn
        lacks = frozenset({StoreCapability.SNAPSHOT_READ} if torn else ())
        self.capabilities = inner.capabilities - lacks

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        with self._line.call():
            if not self._torn or not keys:
                return self._inner.read(domain, keys, pointers=pointers)
            first = self._inner.read(domain, [], pointers=pointers)
            records: dict[Key[Any], Stamped[Any]] = {}
            for some in self._line.torn(keys):
                records.update(self._inner.read(domain, some).records)
            return Reading(first.head, first.now, records, first.pointers)

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        with self._line.call():
            return self._inner.scan(
                domain, kind, partition, start=start, end=end, limit=limit, reverse=reverse
            )

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        with self._line.call():
            return self._inner.changes(domain, after, limit=limit)

    def domains(self) -> list[DomainName]:
        with self._line.call():
            return self._inner.domains()

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        """Stand still for *timeout*: a hint that comes late is one too."""
        self._line.process.sleep(timeout)
        with self._line.call():
            return self._inner.watch(domain, after, timedelta(0))

    def transact(self, transaction: Transaction) -> Receipt:
        with self._line.call():
            return self._watch(transaction, lambda: self._inner.transact(transaction), self._line)

    def close(self) -> None:
        """Nothing: the store belongs to the simulation."""


def plan_of(line: Line) -> Plan:
    """What :class:`~airflow_provider.testing.faults.FaultyStore` asks before each call of a process."""
    return lambda call: line.before(f"store.{call.method}")


RollingBack = Callable[[StagingLocation, Callable[[], None]], None]
"""Deletes what was staged by its second argument, and sees what that did."""

_NO_CALLS = frozenset({"place", "arrow_schema", "close"})
"""Methods of a table format that compute, and reach nothing."""
_NEVER_RAISES = frozenset({"published"})
"""Calls whose lost messages matter to no process: they are best effort by their contract."""


class SimulatedFormat:
    """A table format on the far side of a line: each call of it is a step, whatever calls the contract has.

    :param deleting: calls its argument, which deletes versions, and sees what that did.
    :param preparing: how long the preparation of a commit takes.
    """

    def __init__(
        self,
        inner: TableFormat,
        line: Line,
        rolling_back: RollingBack,
        *,
        deleting: Callable[[Callable[[], list[str]]], list[str]] | None = None,
        preparing: timedelta = timedelta(0),
    ) -> None:
        self._inner = inner
        self._line = line
        self._rolling_back = rolling_back
        self._deleting = deleting
        self._preparing = preparing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in _NO_CALLS or not callable(found):
            return found
        return lambda *given, **named: self._call(name, lambda: found(*given, **named))

    def task_writer(self, place: StagingLocation, info: TableInfo) -> TaskWriter:
        """The writer's work is the call, not the making of the writer."""
        write = self._inner.task_writer(place, info)

        def written(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
            return iter(self._call("write", lambda: list(write(batches))))

        return written

    def roll_back(self, place: StagingLocation) -> None:
        self._call("roll back", lambda: self._rolling_back(place, lambda: self._inner.roll_back(place)))

    def prepare(self, publication: Publication) -> Prepared:
        """Prepare a commit; a slow one is under way for a while, and others commit meanwhile."""
        prepared = self._call("prepare", lambda: self._inner.prepare(publication))
        if self._preparing:
            self._line.process.sleep(self._preparing)
        return prepared

    def vacuum(self, table: Table, expired: Sequence[TableRef], kept: Sequence[TableRef]) -> list[str]:
        deleting = self._deleting or (lambda delete: delete())
        return self._call("vacuum", lambda: deleting(lambda: self._inner.vacuum(table, expired, kept)))

    def _call(self, label: str, operation: Callable[[], Answer]) -> Answer:
        fault = self._line.before(f"table.{label}")
        lost = fault is not None and label not in _NEVER_RAISES
        if lost and fault is Fault.REQUEST_LOST:
            raise WarehouseUnavailable("the request was lost.", next_step="try again.")
        with self._line.call():
            answer = operation()
        if lost:
            raise WarehouseUnavailable("the reply was lost.", next_step="try again.")
        return answer
