"""One try at one epoch of a job whose declaration may have changed since it was scheduled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, Published
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
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from tests.simulator.cascade import output
from tests.simulator.changing.landing import LandingSource
from tests.simulator.changing.plan import Version
from tests.simulator.changing.world import ChangingWorld
from tests.simulator.events import Event
from tests.simulator.history import expect
from tests.simulator.scheduler import Process
from tests.simulator.working import Hands


class Failed(Exception):
    """The code of the task fails."""


@dataclass(slots=True)
class Task:
    """A task of a run, as Airflow sees it.

    :param version: the declaration that its DAG had when this try began. :param more: further epochs of the job, which
        it computes too, and commits together with the first.
    :ivar process: the one that Airflow believes in. :ivar after: seconds of virtual time before which it is not tried.
    :ivar refused: how often it was refused for good, since it was last committed. :ivar answered: it is committed.
    """

    version: Version
    run: str
    interval: Interval
    more: tuple[Interval, ...] = ()
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
    task: Task
    version: Version
    owner: Owner
    hands: Hands
    fails: bool

    @property
    def coordinator(self) -> EpochService:
        return self.hands.coordinator

    def run(self) -> None:
        """Go the whole way; remember in the task what became of it."""
        task = self.task
        task.answered = False
        try:
            begun = [self._begin(epoch) for epoch in (task.interval, *task.more)]
            attempts = [attempt for attempt in begun if attempt is not None]
            if attempts:
                self._compute(attempts)
            task.answered = True
        except Fenced:
            self.world.count(Event.FENCED)
        except DependentReaders as error:
            self.world.count(Event.READERS_REFUSED)
            task.refused, task.reason = task.refused + 1, str(error)
        except (RetryableError, OutcomeUnknown) as error:
            task.reason = str(error)
        except FinalError as error:
            self.world.count_refused(error)
            task.refused, task.reason = task.refused + 1, str(error)
        except Failed:
            task.reason = "its code failed"
            if not self.world.weather.clear:
                task.after = self.world.scheduler.clock.monotonic() + self.world.random.choice(
                    (10, 300, 4000)
                )

    def _begin(self, epoch: Interval) -> Attempt | None:
        job = self.version.declaration
        source = LandingSource(self.world.landing, lambda: self.hands.process.sleep(timedelta(seconds=0.1)))
        try:
            begun = self.coordinator.begin(job, epoch, self.owner, sources=source)
        except NotReady as error:
            behind = "bound anew as revision" in error.message
            self.world.count(Event.BEHIND_REFUSED if behind else Event.NOT_READY)
            raise
        except EpochBusy:
            self.world.count(Event.BUSY)
            raise
        if isinstance(begun, AlreadyCommitted):
            self.hands.check_answer(begun)
            return None
        assert isinstance(begun, Attempt), begun
        self.world.begin(begun, self.version, self.hands.process)
        return begun

    def _compute(self, attempts: list[Attempt]) -> None:
        try:
            for attempt in attempts:
                if attempt.adopted:
                    self.world.count(Event.ADOPTED)
                else:
                    self._write_all(attempt)
            answers = self.coordinator.publish_together(attempts)
        except (Fenced, OutcomeUnknown):
            raise
        except Failed:
            for attempt in attempts:
                self.hands.abort(attempt, "the code failed")
            raise
        except EpochError as error:
            self._look_at(attempts, error)
            for attempt in attempts:
                self.hands.abort(attempt, type(error).__name__)
            raise
        self._take(answers)

    def _take(self, answers: tuple[Published, ...]) -> None:
        for published in answers:
            self.hands.check_answer(published)
        expect(len({published.csn for published in answers}) == 1, "R2", f"{answers}")
        if len(answers) > 1:
            self.world.count(Event.TOGETHER)
        if self.version.job == self.world.slow:
            self.world.count(Event.SLOW_PUBLISHED)
        self.world.published, self.task.refused = answers[0], 0

    def _look_at(self, attempts: list[Attempt], error: EpochError) -> None:
        """A conflict is true: an input that minds it has changed, or may be about to (R13).

        Of a table with more rewrites than its log tells apart, those next to each other are as new as the newest.
        """
        if not isinstance(error, Conflict):
            return
        if "were bound anew meanwhile" in error.message:
            self.world.count(Event.BEHIND_LOST)
        elif ": its inputs " in error.message:
            self.world.count(Event.INPUTS_REWRITTEN)
            truth, remembered = self.world.truth, self.world.defaults.rewrites_remembered
            refused = [attempt for attempt in attempts if str(attempt) in error.message]
            expect(bool(refused), "R13", f"{error}: names none of {attempts}")
            for read in (
                provenance
                for attempt in refused
                for provenance in attempt.inputs
                if provenance.table in error.tables
            ):
                table = str(read.table)
                changed = truth.changed_since(table, read.low, read.high, read.csn)
                merged = truth.rewrites(table) > remembered
                expect(changed or merged, "R13", f"{error}: nothing of {table} has changed")

    def _write_all(self, attempt: Attempt) -> None:
        inputs = self.hands.read_all(attempt)
        landing = self.world.landing
        if not all(landing.is_unchanged(source) for source in attempt.sources):
            raise Failed
        files = [label for bounds in attempt.sources for label in landing.labels(bounds)]
        for sink in attempt.sinks:
            self.hands.work(attempt)
            values = output(str(attempt.job), str(sink.name), attempt.interval, inputs, files)
            self.hands.write(attempt, str(sink.name), values)
        self.hands.work(attempt)
        if self.fails and self.world.random.random() < 0.5:
            raise Failed
        self.coordinator.complete(attempt)
        if self.fails:
            raise Failed
        if attempt.inputs and not attempt.sources and self.world.doubt(attempt.interval):
            # Long enough for a person to bind the source anew before this is published.
            self.hands.process.sleep(timedelta(seconds=self.world.random.choice((40, 60, 80))))
