"""Whatever is committed, corrected, skipped, expired and rolled back: a rollback gives the rows of its CSN, or nothing.

Every commit is remembered with the rows that cuts at each barrier got after it, and engines without cuts (R30). What is
taken back is computed again, by each run that asks for it, and no file of what is committed is ever missing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import DependentReaders, EpochError, InvalidInput, NotReady, Unavailable
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import increment, previous
from airflow_provider.testing.arrow_attempts import read_rows
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, Rows, barrier, day, owner
from tests.property.examples import examples

LAST = 5
NUMBERS = st.integers(1, LAST)
JOBS = st.sampled_from(["base", "copy", "sum", "loose"])
TABLES = ("base", "copy", "sum", "loose")


class Rollbacks(RuleBasedStateMachine):
    """A base, a copy by an edge that ignores revisions, a sum over its own past, and a job without an origin."""

    def __init__(self) -> None:
        super().__init__()
        self.world = world = Backend("memory", Path(), Path()).world()
        full = world.table("sum", kind=TableKind.FULL)
        ignoring = increment(world.table("base"), on_upstream_revision="ignore")
        self.jobs = {
            "base": world.job("base"),
            "copy": world.job("copy", inputs=[ignoring]),
            "sum": world.job("sum", [full], inputs=[increment(world.table("copy")), previous(full)]),
            "loose": world.job("loose", origin=None),
        }
        self.known: dict[int, Any] = {}
        self.value = 0
        self.open: list[Attempt] = []
        self.kept: list[tuple[Cut, Rows]] = []
        for job in self.jobs.values():
            world.coordinator.register(job)

    @initialize()
    def two_days(self) -> None:
        self.remember()
        self.go_on(2)

    def teardown(self) -> None:
        self.world.close()

    def seen(self) -> Any:
        """The rows of every table at every barrier, and what engines get."""
        found: dict[object, object] = {}
        for table in TABLES:
            for number in range(1, LAST + 1):
                with suppress(NotReady, Unavailable):
                    found[table, number] = self.world.rows(table, at=barrier(number))[table]
            if self.world.pointers.pointer(DOMAIN, table) is not None:
                found[table, "engine"] = self.world.engine_rows(table)
            found.setdefault((table, "engine"), [])
        return found

    @property
    def csn(self) -> int:
        return self.world.store.read(DOMAIN, []).head.csn

    @invariant()
    def remember(self) -> None:
        self.known.setdefault(self.csn, self.seen())
        assert self.seen() == self.known[self.csn]

    # --- who works ------------------------------------------------------------------------------------------------

    def write(self, attempt: Attempt) -> None:
        self.value += 1
        read = [read_rows(self.world.coordinator, attempt, given.table) for given in attempt.inputs]
        values = [sum(rows["value"].to_pylist()) for rows in read if rows is not None] or [self.value]
        self.world.write(attempt, [sum(values)])
        self.world.coordinator.complete(attempt)

    @rule(job=JOBS, number=NUMBERS)
    def run(self, job: str, number: int) -> None:
        with suppress(NotReady, DependentReaders, Unavailable):
            attempt = self.world.begin(self.jobs[job], day(number), owner(f"run {self.value}"))
            if not attempt.adopted:
                self.write(attempt)
            self.world.coordinator.publish(attempt)

    @rule(count=st.integers(1, 3))
    def go_on(self, count: int) -> None:
        """Compute the next days of the base, and what reads them."""
        for _ in range(count):
            done = [number for number in range(1, LAST + 1) if self._has("base", number)]
            number = min(max(done, default=0) + 1, LAST)
            for job in self.jobs:
                if not self._has(job, number):
                    self.run(job, number)
                    self.remember()

    def _has(self, table: str, number: int) -> bool:
        try:
            return bool(self.world.cut(table, at=barrier(number)).states)
        except (NotReady, Unavailable):
            return False

    @rule(job=JOBS, number=NUMBERS)
    def begin(self, job: str, number: int) -> None:
        """An attempt that is silent from now on, and publishes much later, if it still may."""
        with suppress(NotReady, DependentReaders, Unavailable):
            attempt = self.world.begin(self.jobs[job], day(number), owner(f"run {self.value}"))
            if not attempt.adopted:
                self.write(attempt)
            self.open.append(attempt)
        self.world.clock.advance(PAST_TTL)

    @rule()
    def publish(self) -> None:
        if self.open:
            with suppress(EpochError):
                self.world.coordinator.publish(self.open.pop())

    @rule(job=JOBS, number=NUMBERS)
    def skip(self, job: str, number: int) -> None:
        with suppress(NotReady, InvalidInput, Unavailable):
            self.world.coordinator.skip(DOMAIN, job, day(number), reason="no data", by="me")

    @rule(number=NUMBERS, reverts=st.booleans())
    def correct(self, number: int, *, reverts: bool) -> None:
        """Compute a day of the copy again with all sums that have read it; perhaps take that back."""
        self.value += 1
        name, restatements = f"fix {self.value}", self.world.coordinator.restatements
        why = {"reason": "it was wrong", "by": "me"}
        with suppress(EpochError):
            restatements.open(DOMAIN, ["copy"], day(number), name=name, **why)
            try:
                epochs = restatements.status(DOMAIN, name).record.epochs
                for job, interval in sorted(epochs, key=lambda epoch: (epoch[1].end, epoch[0])):
                    attempt = self.world.coordinator.begin_within(name, self.jobs[job], interval, owner(name))
                    if isinstance(attempt, Attempt):  # a skipped copy is staged with the epoch before it
                        self.write(attempt)
                        self.world.coordinator.stage(attempt)
                restatements.publish(DOMAIN, name)
            except EpochError:
                restatements.abandon(DOMAIN, name, **why)
                raise
            self.remember()
            if reverts:
                restatements.revert(DOMAIN, name, **why)

    @rule(table=st.sampled_from(TABLES), number=NUMBERS)
    def expire(self, table: str, number: int) -> None:
        with suppress(InvalidInput):
            self.world.retention.expire(DOMAIN, table, barrier(number))

    @rule()
    def vacuum(self) -> None:
        self.world.retention.vacuum(DOMAIN)

    @rule()
    def read(self) -> None:
        with suppress(NotReady, Unavailable):
            cut = self.world.cut("base", "copy", "sum")
            self.kept.append((cut, self.world.rows_of(cut)))

    # --- who takes back -------------------------------------------------------------------------------------------

    @rule(back=st.integers(1, 9))
    def roll_back(self, back: int) -> None:
        to, context = self.csn - back, self.world.coordinator.context
        if to < 0:
            return
        before, commits = self.world.exactly(), self.csn
        try:
            plan = plan_rollback(context, DOMAIN, to)
            rollback(context, plan, reason="it was wrong", by="me")
        except EpochError:
            assert self.world.exactly() == before
            return
        assert self.csn == commits + 1
        assert self.seen() == self._without_expired(self.known[to])
        assert not list(stale_reads(self.world.store, DOMAIN))

    def _without_expired(self, rows: Any) -> Any:
        """*rows* without the barriers that were expired since: they stay so."""
        gone = set()
        for table in TABLES:
            for number in range(1, LAST + 1):
                try:
                    self.world.cut(table, at=barrier(number))
                except Unavailable:
                    gone.add((table, number))
                except NotReady:
                    continue
        return {place: found for place, found in rows.items() if place not in gone}

    @invariant()
    def nothing_is_lost(self) -> None:
        assert not list(missing_files(self.world.store, self.world.formats, DOMAIN))
        for cut, rows in self.kept:
            if self.world.store.read(DOMAIN, []).now < cut.readable_until:
                assert self.world.rows_of(cut) == rows


TestRollbacks = Rollbacks.TestCase
TestRollbacks.settings = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)
