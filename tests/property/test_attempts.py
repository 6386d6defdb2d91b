"""Any order of attempts, retries, takeovers, zombies, aborts and clearings keeps the protocol's invariants.

So it does when any message between the coordinator and the store gets lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    Fenced,
    InvalidInput,
    NotReady,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Kind, epoch_key
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import pages
from airflow_provider.testing.faults import Fault
from tests.property.examples import examples
from tests.property.pipeline import DOMAIN, EPOCHS, JOBS, TABLES, Cascade, check_closure, check_cut

HISTORIES = [set(JOBS), {"base", "side"}, {"base", "side", "pair"}]


class Attempts(RuleBasedStateMachine):
    """Each attempt goes its own steps; any may stop for ever, repeat itself, or wake after its fence."""

    attempts = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.cascade = Cascade()
        self.coordinator = self.cascade.coordinator
        self.tokens: dict[tuple[str, Any], int] = {}
        self.staged: dict[Attempt, dict[str, Any]] = {}
        self.published: dict[str, int] = {}
        self.watermarks: dict[str, Any] = {}
        self.checked = 0

    @rule(
        target=attempts,
        job=st.sampled_from(sorted(JOBS)),
        epoch=st.sampled_from(EPOCHS),
        run=st.sampled_from(["scheduled", "manual"]),
        generation=st.integers(0, 2),
        try_number=st.integers(1, 3),
    )
    def begin(self, job: str, epoch: Any, run: str, generation: int, try_number: int) -> Any:
        owner = Owner(dag_id=job, run_id=run, generation=generation, try_number=try_number)
        attempt = self._begin(job, epoch, owner)
        return multiple() if attempt is None else attempt

    def _begin(self, job: str, epoch: Interval, owner: Owner) -> Attempt | None:
        try:
            attempt = self.coordinator.begin(JOBS[job], epoch, owner)
        except (NotReady, EpochBusy, Fenced, DependentReaders):
            return None
        if isinstance(attempt, AlreadyCommitted):
            assert self.published[attempt.change_set] == attempt.csn
            return None
        assert attempt.token > self.tokens.get((job, epoch), 0)
        self.tokens[job, epoch] = attempt.token
        return attempt

    @initialize(target=attempts, count=st.integers(0, 3), jobs=st.sampled_from(HISTORIES))
    def history(self, count: int, jobs: set[str]) -> Any:
        """Begin where some jobs, and what they read, have been computed up to some epoch."""
        for epoch in EPOCHS[:count]:
            for job in JOBS:
                if job in jobs:
                    self.compute(job, epoch, "scheduled", 0)
        return multiple()

    @rule(
        target=attempts,
        job=st.sampled_from(sorted(JOBS)),
        epoch=st.sampled_from(EPOCHS),
        run=st.sampled_from(["scheduled", "manual", "late"]),
        generation=st.integers(0, 2),
    )
    def compute(self, job: str, epoch: Any, run: str, generation: int) -> Any:
        """Go all the way at once; without such runs few random walks come to a commit."""
        attempt = self._begin(job, epoch, Owner(dag_id=job, run_id=run, generation=generation, try_number=4))
        if attempt is None:
            return multiple()
        self.write_everything(attempt)
        self.complete(attempt)
        self.publish(attempt, 1)
        return attempt

    @rule(
        target=attempts,
        job=st.sampled_from(sorted(JOBS)),
        epoch=st.sampled_from(EPOCHS),
        other=st.sampled_from(sorted(JOBS)),
        earlier=st.integers(0, 1),
        run=st.sampled_from(["scheduled", "manual", "late"]),
    )
    def overlap(self, job: str, epoch: Any, other: str, earlier: int, run: str) -> Any:
        """Another job, or run, computes the same or the epoch before while an attempt is under way."""
        attempt = self._begin(job, epoch, Owner(dag_id=job, run_id=run, generation=2, try_number=5))
        if attempt is None:
            return multiple()
        self.write_everything(attempt)
        self.compute(other, EPOCHS[max(0, EPOCHS.index(epoch) - earlier)], "late", 1)
        self.publish(attempt, 1)
        return attempt

    @rule(attempt=attempts)
    def stage(self, attempt: Attempt) -> None:
        self.staged[attempt] = self.cascade.stage(attempt, attempt.token * 7 + EPOCHS.index(attempt.interval))

    @rule(attempt=attempts, sink=st.integers(0, 1), repeat=st.integers(1, 2))
    def report(self, attempt: Attempt, sink: int, repeat: int) -> None:
        name = attempt.sinks[sink % len(attempt.sinks)].name
        output = self.staged.get(attempt)
        if output is None:
            return
        for _ in range(repeat):
            for report in (
                lambda: self.coordinator.processed(attempt, name),
                lambda: self.coordinator.written(attempt, name, output[name]),
            ):
                with self._may_be_fenced(attempt), _may_differ():
                    report()

    @rule(attempt=attempts)
    def write_everything(self, attempt: Attempt) -> None:
        if attempt.adopted:
            return
        self.stage(attempt)
        for number in range(len(attempt.sinks)):
            self.report(attempt, number, 1)

    @rule(attempt=attempts)
    def complete(self, attempt: Attempt) -> None:
        with self._may_be_fenced(attempt):
            self.coordinator.complete(attempt)

    @rule(attempt=attempts, repeat=st.integers(1, 2))
    def publish(self, attempt: Attempt, repeat: int) -> None:
        for _ in range(repeat):
            with self._may_be_fenced(attempt):
                try:
                    published = self.coordinator.publish(attempt)
                except (InvalidInput, Conflict, DependentReaders):
                    assert attempt.change_set not in self.published
                    return
                assert self.published.setdefault(published.change_set, published.csn) == published.csn

    @rule(attempt=attempts)
    def abort(self, attempt: Attempt) -> None:
        with self._may_be_fenced(attempt):
            self.coordinator.abort(attempt, "the test says so")

    @rule(attempt=attempts)
    def heartbeat(self, attempt: Attempt) -> None:
        with self._may_be_fenced(attempt):
            self.coordinator.heartbeat(attempt)

    @rule(minutes=st.sampled_from([1, 3]))
    def time_passes(self, minutes: int) -> None:
        self.cascade.clock.advance(timedelta(minutes=minutes))

    @rule(after=st.integers(0, 7), fault=st.sampled_from(Fault))
    def lose_a_message(self, after: int, fault: Fault) -> None:
        self.cascade.lose(after, fault)

    @contextmanager
    def _may_be_fenced(self, attempt: Attempt) -> Iterator[None]:
        """R10: who is refused as fenced is over, and has changed nothing."""
        before = self.cascade.version()
        try:
            yield
        except Fenced:
            assert self._over(attempt)
            assert self.cascade.version() == before

    def _over(self, attempt: Attempt) -> bool:
        """Whether the store has ended *attempt*: another token, an abort, or its commit."""
        key = epoch_key(attempt.domain, attempt.job, attempt.interval.start)
        epoch = self.cascade.store.read(key.domain, [key]).records[key]
        newest = epoch.record.attempt
        return epoch.record.token != attempt.token or newest is None or newest.aborted is not None

    @invariant()
    def everything_holds(self) -> None:
        """Check all invariants after each step that changed something."""
        if self.cascade.version() != self.checked:
            self.commits_have_no_gap()
            self.watermarks_do_not_go_back()
            self.every_cut_is_closed()
            self.uncommitted_reads_never_fail()
            check_closure(self.cascade)
        self.checked = self.cascade.version()

    def commits_have_no_gap(self) -> None:
        commits = list(pages(self.cascade.store, DOMAIN, CommitRecord))
        assert [commit.csn for commit in commits] == list(range(1, len(commits) + 1))
        assert {commit.record.change_set: commit.csn for commit in commits} == self.published

    def watermarks_do_not_go_back(self) -> None:
        for stamped in self.cascade.store.scan(DOMAIN, Kind.TABLE, ""):
            watermark = stamped.record.progress.watermark
            before = self.watermarks.get(stamped.key.item)
            assert before is None or (watermark is not None and watermark >= before)
            self.watermarks[stamped.key.item] = watermark

    def every_cut_is_closed(self) -> None:
        for tables in (TABLES, TABLES[:3], TABLES[1:]):
            try:
                cut = self.cascade.cuts.cut(DOMAIN, tables)
            except (NotReady, UnknownName):
                continue
            check_cut(self.cascade, cut)

    def uncommitted_reads_never_fail(self) -> None:
        try:
            cut = self.cascade.cuts.cut(DOMAIN, ["base"], level=Level.READ_UNCOMMITTED)
        except (NotReady, UnknownName):
            return
        self.cascade.cuts.read(cut, "base")


@contextmanager
def _may_differ() -> Iterator[None]:
    """R1: other content than was recorded first is refused."""
    try:
        yield
    except InvalidInput as error:
        if error.details["field"] != "committable":
            raise


TestAttempts = Attempts.TestCase
TestAttempts.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)


def test_a_cascade_runs_through() -> None:
    cascade = Cascade()
    for epoch in EPOCHS:
        for name, job in JOBS.items():
            owner = Owner(dag_id=name, run_id=str(epoch.end))
            attempt = cascade.coordinator.begin(job, epoch, owner)
            assert isinstance(attempt, Attempt)
            for sink, committable in cascade.stage(attempt, EPOCHS.index(epoch) + 1).items():
                cascade.coordinator.processed(attempt, sink)
                cascade.coordinator.written(attempt, sink, committable)
            published = cascade.coordinator.publish(attempt)
            assert cascade.coordinator.publish(attempt) == published
            again = cascade.coordinator.begin(job, epoch, replace(owner, try_number=2))
            assert isinstance(again, AlreadyCommitted)
            assert again.csn == published.csn
    check_cut(cascade, cascade.cuts.cut(DOMAIN, TABLES))
