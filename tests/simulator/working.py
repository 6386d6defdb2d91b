"""The hands of a simulated try: how it reads its inputs, stages its output and reports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Published
from airflow_provider.domain.errors import Fenced, OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.version import Committable
from airflow_provider.tables.errors import WarehouseUnavailable
from tests.simulator.cascade import Rows
from tests.simulator.events import Event
from tests.simulator.history import History, expect
from tests.simulator.readers import rows_of
from tests.simulator.scheduler import Process

Count = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Hands:
    """What the tries of all simulated jobs do alike.

    :param history: what the answers are compared with.
    """

    coordinator: EpochService
    process: Process
    random: Random
    history: History
    count: Count

    def read_all(self, attempt: Attempt) -> Mapping[str, Rows]:
        """The rows of each input, by table."""
        return {str(read.table): self._read(attempt, str(read.table)) for read in attempt.inputs}

    def _read(self, attempt: Attempt, table: str) -> Rows:
        state, schema = self.coordinator.input(attempt, table)
        if state.ref is None and not state.staged:
            return ()
        table_format = state.ref.format if state.ref else "memory"
        return rows_of(self.coordinator.formats[table_format].read(state, schema))

    def work(self, attempt: Attempt) -> None:
        """Take some time, and sometimes tell the store that the process is alive."""
        self.process.sleep(timedelta(seconds=self.random.choice((0.5, 2, 10, 30))))
        if self.random.random() < 0.5:
            self.coordinator.heartbeat(attempt)

    def write(self, attempt: Attempt, sink: str, values: Sequence[int]) -> None:
        """Stage *values* and report them."""
        if attempt.restatement is not None:
            name = str(attempt.job), attempt.interval.start, attempt.token, sink
            self.history.written[name] = tuple(values)
        staged = self.stage(attempt, sink, values)
        self.coordinator.processed(attempt, sink)
        self.coordinator.written(attempt, sink, staged)

    def stage(self, attempt: Attempt, sink: str, values: Sequence[int]) -> Committable:
        table = attempt.sink(sink)
        tables = self.coordinator.formats[table.format]
        rows = pa.table({"value": pa.array(values, pa.int64())})
        info = tables.create(table, rows.schema)
        place = self.coordinator.place(attempt, sink)
        files = list(tables.task_writer(place, info)(rows.to_batches()))
        return tables.describe_output(place, info, files)

    def abort(self, attempt: Attempt, reason: str) -> None:
        """Give the attempt up, if the store answers."""
        try:
            self.coordinator.abort(attempt, reason)
        except (Fenced, StoreUnavailable, OutcomeUnknown, WarehouseUnavailable):
            return
        self.count(Event.ABORTED)

    def check_answer(self, answer: Published | AlreadyCommitted) -> None:
        """What the caller is told was committed is there, at that CSN (R15)."""
        found = self.history.change_sets.get(answer.change_set)
        told = f"{self.process.name}: {answer.change_set} at {answer.csn}, is at {found}"
        expect(found == answer.csn, "R15", told)
