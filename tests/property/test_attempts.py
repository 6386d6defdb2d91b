"""Any order of attempts, retries, takeovers, zombies, aborts and clearings keeps the protocol's invariants."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from airflow_provider.domain.cut import Level
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Owner
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    Fenced,
    InvalidInput,
    NotReady,
    UnknownName,
)
from airflow_provider.domain.records import Kind
from airflow_provider.stores.base import pages
from tests.property.pipeline import DOMAIN, EPOCHS, JOBS, TABLES, Cascade, check_cut


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
        self.sessions: dict[str, Any] = {}

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
        try:
            attempt = self.coordinator.begin(JOBS[job], epoch, owner)
        except (NotReady, EpochBusy, Fenced, DependentReaders):
            return multiple()
        if isinstance(attempt, AlreadyCommitted):
            assert self.published[attempt.change_set] == attempt.csn
            return multiple()
        assert attempt.token > self.tokens.get((job, epoch), 0)
        self.tokens[job, epoch] = attempt.token
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
            try:
                self.coordinator.processed(attempt, name)
                self.coordinator.written(attempt, name, output[name])
            except Fenced:
                assert self._over(attempt)
            except InvalidInput as error:
                assert error.details["field"] == "committable"

    @rule(attempt=attempts)
    def write_everything(self, attempt: Attempt) -> None:
        if attempt.adopted:
            return
        self.stage(attempt)
        for number in range(len(attempt.sinks)):
            self.report(attempt, number, 1)

    @rule(attempt=attempts)
    def complete(self, attempt: Attempt) -> None:
        try:
            self.coordinator.complete(attempt)
        except Fenced:
            assert self._over(attempt)

    @rule(attempt=attempts, repeat=st.integers(1, 2))
    def publish(self, attempt: Attempt, repeat: int) -> None:
        for _ in range(repeat):
            try:
                published = self.coordinator.publish(attempt)
            except Fenced:
                assert self._over(attempt)
                return
            except (InvalidInput, Conflict, DependentReaders):
                assert attempt.change_set not in self.published
                return
            assert self.published.setdefault(published.change_set, published.csn) == published.csn

    @rule(attempt=attempts)
    def abort(self, attempt: Attempt) -> None:
        try:
            self.coordinator.abort(attempt, "the test says so")
        except Fenced:
            assert self._over(attempt)

    @rule(attempt=attempts)
    def heartbeat(self, attempt: Attempt) -> None:
        try:
            self.coordinator.heartbeat(attempt)
        except Fenced:
            assert self._over(attempt)

    @rule(minutes=st.sampled_from([1, 3]))
    def time_passes(self, minutes: int) -> None:
        self.cascade.clock.advance(timedelta(minutes=minutes))

    def _over(self, attempt: Attempt) -> bool:
        """Whether the store has ended *attempt*: another token, an abort, or its commit."""
        epoch = self.coordinator.epoch(attempt.domain, attempt.job, attempt.interval)
        assert epoch is not None
        newest = epoch.record.attempt
        return epoch.record.token != attempt.token or newest is None or newest.aborted is not None

    @invariant()
    def commits_have_no_gap(self) -> None:
        commits = list(pages(self.cascade.store, DOMAIN, Kind.COMMIT, ""))
        assert [one.csn for one in commits] == list(range(1, len(commits) + 1))
        assert {one.record.change_set: one.csn for one in commits} == self.published

    @invariant()
    def watermarks_do_not_go_back(self) -> None:
        for stamped in self.cascade.store.scan(DOMAIN, Kind.TABLE, ""):
            watermark = stamped.record.progress.watermark
            before = self.watermarks.get(stamped.key.item)
            assert before is None or (watermark is not None and watermark >= before)
            self.watermarks[stamped.key.item] = watermark

    @invariant()
    def every_cut_is_closed(self) -> None:
        for tables in (TABLES, TABLES[:3], TABLES[1:]):
            try:
                cut = self.cascade.cuts.cut(DOMAIN, tables)
            except (NotReady, UnknownName):
                continue
            check_cut(self.cascade, cut)

    @invariant()
    def uncommitted_reads_never_fail(self) -> None:
        try:
            cut = self.cascade.cuts.cut(DOMAIN, ["base"], level=Level.READ_UNCOMMITTED)
        except (NotReady, UnknownName):
            return
        self.cascade.cuts.read(cut, "base")


TestAttempts = Attempts.TestCase
TestAttempts.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


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
