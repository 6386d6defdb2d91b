"""A step of a restatement, in a process that is killed before or after one of its calls that change something.

Usage: killed_restatement.py STORE_URL WAREHOUSE STEP NUMBER. The process ends by SIGKILL at the moment with NUMBER
(from 0), or by itself where the step has no such moment any more. The package knows nothing of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import AlreadyStaged, Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, increment, previous
from airflow_provider.testing.arrow_attempts import read_rows, write_rows

DOMAIN, NAME = "default", "correct"
START = datetime(2024, 1, 1, tzinfo=UTC)
JOBS = (
    Job("b", outputs=[Table("b")], cadence="@daily", origin=START),
    Job("d", outputs=[Table("d")], inputs=[increment(Table("b"))], cadence="@daily", origin=START),
    Job(
        "t",
        outputs=[Table("t", kind="full")],
        inputs=[increment(Table("d")), previous(Table("t", kind="full"))],
        cadence="@daily",
        origin=START,
    ),
)
"""A base, its copy, and a full table that adds to its own past."""
MEMBERS = ((JOBS[0], 2), (JOBS[1], 2), (JOBS[2], 2), (JOBS[2], 3))
OLD = {"b": [10, 20, 30], "d": [11, 21, 31], "t": [66]}
NEW = {"b": [10, 30, 2000], "d": [11, 31, 2001], "t": [2046]}
"""Values of all tables before and after day 2 is computed again."""
CHANGES = ("create", "describe_output", "prepare", "published")
"""The calls of a table format that change something."""


def day(number: int) -> Interval:
    return Interval(START + timedelta(days=number - 1), START + timedelta(days=number))


def compute(service: EpochService, attempt: Attempt, value: int | None) -> None:
    """Write one row: *value*, or one more than the sum of all that the attempt reads."""
    if attempt.adopted:
        return
    read = [read_rows(service, attempt, given.table) for given in attempt.inputs]
    found = sum(sum(rows["value"].to_pylist()) for rows in read if rows is not None) + 1
    rows = pa.table({"value": pa.array([found if value is None else value], pa.int64())})
    write_rows(service, attempt, attempt.sinks[0].name, rows)
    service.complete(attempt)


def committed(service: EpochService) -> None:
    """Compute three days."""
    for number in (1, 2, 3):
        for job in JOBS:
            attempt = service.begin(job, day(number), Owner(dag_id="dag", run_id="first"))
            assert isinstance(attempt, Attempt)
            compute(service, attempt, 10 * number if job is JOBS[0] else None)
            service.publish(attempt)


def plan(service: EpochService) -> None:
    """Plan the restatement, and open it."""
    service.restatements.plan(DOMAIN, ["b"], day(2))
    service.restatements.open(DOMAIN, ["b"], day(2), name=NAME, reason="it was wrong", by="me")


def run(service: EpochService) -> None:
    """Compute all members, as the retry of their tasks does."""
    for job, number in MEMBERS:
        attempt = service.begin_within(NAME, job, day(number), Owner(dag_id="dag", run_id="restate"))
        if isinstance(attempt, AlreadyStaged):
            continue
        assert isinstance(attempt, Attempt)
        compute(service, attempt, 2000 if job is JOBS[0] else None)
        service.stage(attempt)


def publish(service: EpochService) -> None:
    service.restatements.publish(DOMAIN, NAME)


def revert(service: EpochService) -> None:
    service.restatements.revert(DOMAIN, NAME, reason="it was right before", by="me")


STEPS: Mapping[str, Callable[[EpochService], None]] = {
    "plan": plan,
    "run": run,
    "publish": publish,
    "revert": revert,
}


def values(service: EpochService) -> dict[str, list[int]]:
    """Return the values that a cut of all tables has."""
    cut = service.cuts.cut(DOMAIN, [job.name for job in JOBS])
    return {str(name): sorted(service.cuts.read(cut, name)["value"].to_pylist()) for name in cut.states}


@dataclass
class Death:
    """Counter of moments, at one of which the process ends. :param left: number of those before it."""

    left: int

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return *call* with a moment before it and one after it."""

        def called(*given: Any, **named: Any) -> Any:
            self.moment()
            found = call(*given, **named)
            self.moment()
            return found

        return called

    def moment(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def main() -> None:
    store_url, warehouse, step, number = sys.argv[1:]
    with EpochService.open(Settings(store_url=store_url, warehouse=warehouse)) as service:
        death = Death(int(number))
        store: Any = service.context.store
        store.transact = death.around(store.transact)
        tables: Any = service.formats["iceberg"]
        for name in CHANGES:
            setattr(tables, name, death.around(getattr(tables, name)))
        STEPS[step](service)


if __name__ == "__main__":
    main()
