"""One try at one epoch of a job whose declaration may have changed since it was scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Owner, Published
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    EpochError,
    Fenced,
    FinalError,
    NotReady,
    OutcomeUnknown,
    RetryableError,
    StoreUnavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.version import Committable
from airflow_provider.tables.base import WarehouseUnavailable
from airflow_provider.testing.simulation.cascade import Rows, output
from airflow_provider.testing.simulation.changing.landing import LandingSource, unchanged
from airflow_provider.testing.simulation.changing.plan import Version
from airflow_provider.testing.simulation.changing.truth import labels
from airflow_provider.testing.simulation.changing.world import ChangingWorld
from airflow_provider.testing.simulation.events import Event
from airflow_provider.testing.simulation.history import expect
from airflow_provider.testing.simulation.readers import rows_of
from airflow_provider.testing.simulation.scheduler import Process


class Failed(Exception):
    """The code of the task fails."""


@dataclass(slots=True)
class Task:
    """A task of a run, as Airflow sees it.

    :param version: the declaration that its DAG had when this try began.
    :ivar process: the one that Airflow believes in. :ivar after: seconds of virtual time before which it is not tried.
    :ivar refused: how often it was refused for good, since it was last committed. :ivar answered: it is committed.
    """

    version: Version
    run: str
    interval: Interval
    generation: int = 0
    tries: int = 0
    process: Process | None = None
    after: float = 0.0
    refused: int = 0
    answered: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Try:
    """One process of a task.

    :param version: the declaration that it runs with. :param fails: whether its code fails in the end.
    """

    world: ChangingWorld
    coordinator: Coordinator
    task: Task
    version: Version
    owner: Owner
    process: Process
    fails: bool

    def run(self) -> None:
        """Go the whole way; remember in the task what became of it."""
        task = self.task
        task.answered = False
        try:
            attempt = self._begin()
            if attempt is not None:
                self._compute(attempt)
        except Fenced:
            self.world.count(Event.FENCED)
        except DependentReaders as error:
            self.world.count(Event.READERS_REFUSED)
            task.refused, task.reason = task.refused + 1, str(error)
        except (RetryableError, OutcomeUnknown) as error:
            task.reason = str(error)
        except FinalError as error:
            self.world.count(Event.DECLARATION_REFUSED)
            task.refused, task.reason = task.refused + 1, str(error)
        except Failed:
            task.reason = "its code failed"
            if not self.world.weather.clear:
                task.after = self.world.scheduler.clock.monotonic() + self.world.random.choice(
                    (10, 300, 4000)
                )

    def _begin(self) -> Attempt | None:
        job = self.version.declaration
        source = LandingSource(self.world.landing, lambda: self.process.sleep(timedelta(seconds=0.1)))
        try:
            begun = self.coordinator.begin(job, self.task.interval, self.owner, roots=source)
        except NotReady:
            self.world.count(Event.NOT_READY)
            raise
        except EpochBusy:
            self.world.count(Event.BUSY)
            raise
        if isinstance(begun, AlreadyCommitted):
            self._check_answer(begun)
            self.task.answered = True
            return None
        self.world.begin(begun, self.version, self.process)
        return begun

    def _compute(self, attempt: Attempt) -> None:
        try:
            if attempt.adopted:
                self.world.count(Event.ADOPTED)
            else:
                self._write_all(attempt)
            published = self.coordinator.publish(attempt)
        except (Fenced, OutcomeUnknown):
            raise
        except Failed:
            self._abort(attempt, "the code failed")
            raise
        except EpochError as error:
            self._look_at(attempt, error)
            self._abort(attempt, type(error).__name__)
            raise
        self._check_answer(published)
        self.world.published = published
        if str(attempt.job) == self.world.slow:
            self.world.count(Event.SLOW_PUBLISHED)
        self.task.answered, self.task.refused = True, 0

    def _look_at(self, attempt: Attempt, error: EpochError) -> None:
        """A conflict is true: an input that minds it has changed, or may be about to (R13)."""
        named = getattr(error, "inputs", None)
        if isinstance(error, Conflict) and named:
            self.world.count(Event.INPUTS_REWRITTEN)
            for one in named:
                changed = self.world.truth.changed_since(str(one.table), one.low, one.high, one.csn)
                expect(changed, "R13", f"{attempt}: {error}, and nothing of {one.table} has changed")

    def _write_all(self, attempt: Attempt) -> None:
        inputs = {str(one.table): self._read(attempt, str(one.table)) for one in attempt.inputs}
        bound = [one for bounds in attempt.roots for one in bounds.files]
        if not unchanged(self.world.landing, bound):
            raise Failed
        files = labels(bound)
        for sink in attempt.sinks:
            self._work(attempt)
            values = output(str(attempt.job), str(sink.name), attempt.interval, inputs, files)
            self._write(attempt, str(sink.name), values)
        self._work(attempt)
        if self.fails and self.world.random.random() < 0.5:
            raise Failed
        self.coordinator.complete(attempt)
        if self.fails:
            raise Failed

    def _read(self, attempt: Attempt, table: str) -> Rows:
        state, schema = self.coordinator.input(attempt, table)
        if state.ref is None:
            return ()
        return rows_of(self.coordinator.formats[state.ref.format].read(state, schema))

    def _work(self, attempt: Attempt) -> None:
        random = self.world.random
        self.process.sleep(timedelta(seconds=random.choice((0.5, 2, 10, 30))))
        if random.random() < 0.5:
            self.coordinator.heartbeat(attempt)

    def _write(self, attempt: Attempt, sink: str, values: Sequence[int]) -> None:
        staged = self._stage(attempt, sink, values)
        self.coordinator.processed(attempt, sink)
        self.coordinator.written(attempt, sink, staged)

    def _stage(self, attempt: Attempt, sink: str, values: Sequence[int]) -> Committable:
        table = attempt.sink(sink)
        tables = self.coordinator.formats[table.format]
        rows = pa.table({"value": pa.array(values, pa.int64())})
        info = tables.create(table, rows.schema)
        place = self.coordinator.place(attempt, sink)
        files = list(tables.task_writer(place, info)(rows.to_batches()))
        return tables.describe_output(place, info, files)

    def _abort(self, attempt: Attempt, reason: str) -> None:
        try:
            self.coordinator.abort(attempt, reason)
        except (Fenced, StoreUnavailable, OutcomeUnknown, WarehouseUnavailable):
            return
        self.world.count(Event.ABORTED)

    def _check_answer(self, answer: Published | AlreadyCommitted) -> None:
        """What the caller is told was committed is there, at that CSN (R15)."""
        found = self.world.truth.change_sets.get(answer.change_set)
        expect(
            found == answer.csn, "R15", f"{self.owner}: {answer.change_set} at {answer.csn}, is at {found}"
        )
