"""Rides and their totals, whose days two DAGs have computed, and restatements of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, state
from airflow_provider.testing.arrow_attempts import read_rows, write_rows

ORIGIN = datetime(2013, 2, 1, tzinfo=UTC)
WHY = "the harbour sent a ride twice"
DECISIONS = tuple(f"/api/restatement/{what}" for what in ("approve", "publish", "abandon", "revert"))
"""Routes of the page that change one."""


class Rides:
    """Rides of each day, and a full table that counts them: jobs ``load_rides`` and ``count_rides`` of one domain."""

    def __init__(self, service: EpochService, domain: str, *, counts: str = "cascade") -> None:
        """:param counts: what a revision of the rides does to the counts."""
        self.service, self.domain = service, domain
        rides = Table("rides", domain=domain)
        totals = Table("station_totals", domain=domain, kind="full")
        self.load = Job("load_rides", outputs=[rides], cadence="@daily", origin=ORIGIN)
        read = state(rides, on_upstream_revision=counts)
        self.count = Job("count_rides", inputs=[read], outputs=[totals], cadence="@daily", origin=ORIGIN)

    def commit(self, *numbers: int) -> None:
        """Commit *numbers* of February of both jobs, each by its own DAG."""
        for number in numbers:
            for job in (self.load, self.count):
                self.commit_one(job, number)

    def commit_one(self, job: Job, number: int) -> None:
        attempt = self.service.begin(job, day(number), owner(job))
        assert isinstance(attempt, Attempt)
        self._write(attempt, 3)
        self.service.publish(attempt)

    def open(self, name: str, number: int = 1, *, needs_approval: bool = False) -> None:
        """Open a restatement of the rides of one day."""
        span = day(number)
        self.service.restatements.open(
            self.domain,
            ["rides"],
            f"{span.start.isoformat()}/{span.end.isoformat()}",
            name=name,
            reason=WHY,
            by="ada",
            needs_approval=needs_approval,
        )

    def stage(self, name: str, *numbers: int) -> None:
        """Stage the members of *name* of both jobs for *numbers* of February, with a ride less than is committed."""
        record = self.service.restatements.status(self.domain, name).record
        for number in numbers:
            for job in (self.load, self.count):
                if record.has(job.name, day(number)):
                    self.stage_one(name, job, number)

    def begin(self, name: str, job: Job, number: int, *, generation: int = 0) -> Attempt:
        """Begin one member. :param generation: a higher one computes a staged member again."""
        by = owner(job, run="restated", generation=generation)
        attempt = self.service.begin_within(name, job, day(number), by)
        assert isinstance(attempt, Attempt)
        return attempt

    def stage_one(self, name: str, job: Job, number: int, *, generation: int = 0) -> None:
        """Stage one member; *generation* as in :meth:`begin`."""
        attempt = self.begin(name, job, number, generation=generation)
        self._write(attempt, 2)
        self.service.stage(attempt)

    def output(self, name: str) -> str:
        """Return the digest of what *name* has staged."""
        return self.service.restatements.status(self.domain, name).output

    def _write(self, attempt: Attempt, rides: int) -> None:
        """Write *rides* of a day, or the number of rows that the attempt reads."""
        if attempt.job == self.load.name:
            rows = pa.table({"station": ["Harbour"] * rides})
        else:
            (read,) = (read_rows(self.service, attempt, str(entry.table)) for entry in attempt.inputs)
            assert read is not None
            rows = pa.table({"station": ["Harbour"], "count": [read.num_rows]})
        for sink in attempt.sinks:
            write_rows(self.service, attempt, sink.name, rows)
        self.service.complete(attempt)


def day(number: int) -> Interval:
    start = ORIGIN + timedelta(days=number - 1)
    return Interval(start, start + timedelta(days=1))


def owner(job: Job, *, run: str = "run", generation: int = 0) -> Owner:
    return Owner(dag_id=job.name, run_id=run, generation=generation)
