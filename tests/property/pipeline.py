"""A small cascade over the memory store, and what is true of it whatever happens.

``base`` writes one row an epoch; ``pair`` reads its increment and writes ``left`` and ``right``; ``total``
reads the state of ``left`` and ``right`` and its own past. ``side`` declares no origin, so that its past may grow,
and ``tail`` reads its state. Every row says which attempt wrote it and carries a number from which the reader can
tell what its writer had read.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import pages
from airflow_provider.stores.memory import MemoryStore
from airflow_provider.tables.factory import open_formats
from airflow_provider.testing.arrow_attempts import read_rows, stage_rows
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from airflow_provider.testing.manual_clock import ManualClock

DOMAIN = "sim"
ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
EPOCHS = [Interval(ORIGIN + timedelta(days=n), ORIGIN + timedelta(days=n + 1)) for n in range(4)]

_numbers = itertools.count()


def _table(name: str) -> Table:
    return Table(name, domain=DOMAIN, format="memory")


BASE, LEFT, RIGHT, TOTAL = (_table(name) for name in ("base", "left", "right", "total"))
SIDE, TAIL = _table("side"), _table("tail")
JOBS = {
    "base": Job("base", outputs=[BASE], cadence="@daily", origin=ORIGIN, on_rerun="new_revision"),
    "pair": Job(
        "pair", inputs=[BASE], outputs=[LEFT, RIGHT], cadence="@daily", origin=ORIGIN, on_rerun="new_revision"
    ),
    "total": Job(
        "total",
        inputs=[state(LEFT), state(RIGHT), previous(TOTAL)],
        outputs=[TOTAL],
        cadence="@daily",
        origin=ORIGIN,
        on_rerun="new_revision",
    ),
    "side": Job("side", outputs=[SIDE], cadence="@daily", on_rerun="new_revision"),
    "tail": Job("tail", inputs=[state(SIDE)], outputs=[TAIL], cadence="@daily", on_rerun="new_revision"),
}
TABLES = [BASE, LEFT, RIGHT, TOTAL]


class Cascade:
    """The pipeline with a store, a clock and a seed of its own."""

    def __init__(self, seed: int = 0) -> None:
        name = f"cascade-{next(_numbers)}"
        self.clock = ManualClock()
        self.store = MemoryStore(name, now=self.clock.now)
        self.formats = open_formats(f"memory://{name}", "memory:///warehouse")
        self.wire = FaultyStore(self.store, self._fault)
        self.faults: dict[int, Fault] = {}
        self.coordinator = EpochService(self.wire, self.formats, clock=self.clock, random=Random(seed))
        self.cuts = Cuts(self.store, self.formats)

    def lose(self, after: int, fault: Fault) -> None:
        """Lose one message of the coordinator: that of its call after *after* others."""
        self.faults[len(self.wire.calls) + after] = fault

    def _fault(self, call: Call) -> Fault | None:
        return self.faults.pop(call.number, None)

    def version(self) -> int:
        """Grows with every change of the store."""
        return self.store._server.last_version

    def stage(self, attempt: Attempt, seed: int) -> dict[str, object]:
        """Compute the attempt's output from its inputs and stage it; nothing is reported."""
        values = self._compute(attempt, seed)
        return {
            name: stage_rows(
                self.coordinator, attempt, name, pa.table({"value": [value], "by": [attempt.token]})
            )
            for name, value in values.items()
        }

    def _compute(self, attempt: Attempt, seed: int) -> dict[str, int]:
        if attempt.job in {"base", "side"}:
            return {attempt.job: seed}
        if attempt.job == "tail":
            return {"tail": self._sum(attempt, "side")}
        if attempt.job == "pair":
            value = self._sum(attempt, "base")
            return {"left": value, "right": -value}
        past = read_rows(self.coordinator, attempt, "total")
        count = 0 if past is None else past.num_rows
        return {"total": self._sum(attempt, "left") * 100 + count}

    def _sum(self, attempt: Attempt, table: str) -> int:
        rows = read_rows(self.coordinator, attempt, table)
        return 0 if rows is None else sum(rows["value"].to_pylist())

    def values(self, cut: Cut, table: str) -> dict[datetime, int]:
        """The value of each epoch of *table* in *cut*; two rows of one epoch are an error."""
        rows = self.cuts.read(cut, table).to_pylist()
        found = {row["_epoch"]: row["value"] for row in rows}
        assert len(found) == len(rows), f"{table} has an epoch twice: {rows}"
        return found


def check_cut(cascade: Cascade, cut: Cut) -> None:
    """I7 and R18: rows of derived tables are what their recorded inputs in the same cut make of them."""
    values = {name: cascade.values(cut, name) for name in cut.states}
    for name, found in values.items():
        expected = {epoch.end for epoch in EPOCHS if epoch.end <= cut.barrier}
        assert set(found) == expected, f"{name} at {cut.barrier}: {sorted(found)}"
    if {"base", "left", "right"} <= set(values):
        assert values["left"] == values["base"]
        assert values["right"] == {epoch: -value for epoch, value in values["base"].items()}
    if {"left", "total"} <= set(values):
        ordered = sorted(values["left"])
        for number, epoch in enumerate(ordered):
            expected_sum = sum(values["left"][earlier] for earlier in ordered[: number + 1])
            assert values["total"][epoch] == expected_sum * 100 + number


def check_closure(cascade: Cascade) -> None:
    """R18: what a committed epoch read has not changed since, by the commits alone, whatever fences say."""
    commits = list(pages(cascade.store, DOMAIN, CommitRecord))
    for job in JOBS:
        for epoch in cascade.store.scan(DOMAIN, Kind.EPOCH, job):
            done = epoch.record.committed
            for read in done.inputs if done else ():
                for commit in commits:
                    for delta in commit.record.tables:
                        changed = commit.csn > read.csn and delta.table == read.table
                        assert not (changed and delta.interval.meets(read.low, read.high)), (
                            f"{job} {epoch.record.interval} read {read.table} at CSN {read.csn}; "
                            f"{delta.interval} of it changed at CSN {commit.csn}"
                        )
