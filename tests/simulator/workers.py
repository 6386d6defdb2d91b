"""The tasks that are simulated, and one try of them: what the operator and the Spark job do together."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.coordination.restating.members import joined
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import (
    CheckFailed,
    Conflict,
    DependentReaders,
    EpochBusy,
    EpochError,
    Fenced,
    InvalidInput,
    LeaseExpired,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.tables.errors import WarehouseUnavailable
from tests.simulator.cascade import (
    CHANGING,
    SimulatedJob,
    code_of,
    output,
    proposal,
)
from tests.simulator.events import Event
from tests.simulator.history import Violation, expect
from tests.simulator.model import Model
from tests.simulator.scheduler import Process
from tests.simulator.working import Hands

_NEVER_COMPUTED = -1
_LINGERS = 8
_LURKS = 0.8
"""Share of the attempts under way that are silent while the DAGs are paused."""
_LURKS_S = 1800


@dataclass(slots=True)
class Task:
    """A task of a run, as Airflow sees it.

    :param job: with the declaration that its DAG has. :param restatement: its run computes the members of that.
    :ivar patient: it waits while what it reads is restated.
    :ivar restates: it asks for what others have read within the restatement of its DAG, as the operators do.
    :ivar within: the restatement within which its newest try computes.
    :ivar tries: how many processes it has had. :ivar process: the one that it believes in.
    :ivar after: seconds of virtual time before which it is not tried again.
    :ivar asked: the CSN at which it was last asked whether its inputs are there; -1 for never. :ivar ready: the answer.
    :ivar last: nothing will change any more: when the topology refuses it now, it is done. :ivar refused: it did.
    :ivar cleared: CSN of the rollback after which it was last cleared.
    :ivar has_readers: it was refused for those who have read what it would change.
    """

    job: SimulatedJob
    run: str
    interval: Interval
    restatement: str | None = None
    generation: int = 0
    patient: bool = False
    restates: bool = False
    within: str | None = None
    tries: int = 0
    process: Process | None = None
    after: float = 0.0
    done: bool = False
    asked: int = -1
    ready: bool = False
    last: bool = False
    refused: bool = False
    cleared: int = 0
    has_readers: bool = False

    @property
    def name(self) -> str:
        return self.job.name


@dataclass(frozen=True, slots=True)
class Attempting:
    """One try of a task: what the operator and the Spark job do together."""

    task: Task
    owner: Owner
    hands: Hands
    model: Model

    @property
    def coordinator(self) -> EpochService:
        return self.hands.coordinator

    def count(self, event: Event) -> None:
        self.hands.count(event)

    @property
    def of_group(self) -> bool:
        """Whether the job belongs to a commit group."""
        return self.task.name in self.model.groups.jobs

    def run(self) -> None:
        """Go the whole way; leave the task done when there is nothing more to do."""
        try:
            attempt = self._begin()
            if attempt is not None:
                self._compute(attempt)
        except DependentReaders:
            self.count(Event.READERS_REFUSED)
            self.task.done = self.task.has_readers = True
        except Conflict as error:
            self.task.done = self._has_stalled(error)
        except (NotReady, EpochBusy, StoreUnavailable, OutcomeUnknown, WarehouseUnavailable):
            return
        except CheckFailed:
            self.task.done = True
        except Unavailable:
            if not (self.task.within or self.of_group):
                raise
            self.count(Event.STAGED_GONE)  # another member, which it reads, is computed again
        except (TopologyError, InvalidInput) as error:
            self._refused(error)
        except (Fenced, LeaseExpired):
            self.count(Event.FENCED)

    def _refused(self, error: EpochError) -> None:
        """Take *error*, if the topology or the end of a change set may have caused it."""
        if self.of_group:
            return  # its barrier was abandoned meanwhile
        # A later try of the task may have left the restatement that this one has asked for.
        has_ended = isinstance(error, InvalidInput) and error.field == "restatement"
        if not (self.task.name in CHANGING or self.task.within or has_ended):
            raise error
        self.count(Event.TOPOLOGY_REFUSED)
        self.task.refused, self.task.done = True, self.task.last

    def _within(self) -> str | None:
        """Return the restatement within which the task computes; a rerun may open one (R28)."""
        if self.task.restatement or not self.task.restates:
            return self.task.restatement
        job, epochs = self.task.job.job, [self.task.interval]
        for name in joined(self.coordinator.store, job, epochs, self.owner):
            return name
        return self.coordinator.restatements.of_rerun(
            job, epochs, self.owner, reason="it was asked for again"
        )

    def _begin(self) -> Attempt | None:
        job = self.task.job
        try:
            within = self.task.within = self._within()
        except TopologyError:
            self.count(Event.RESTATEMENT_REFUSED)
            self.task.done = True
            return None
        bounds = {source.name: proposal(self.task.interval, self.task.tries) for source in job.job.sources}
        before = self.model.csn
        try:
            begun: Attempt | AlreadyCommitted | AlreadyStaged = (
                self.coordinator.begin_within(within, job.job, self.task.interval, self.owner, sources=bounds)
                if within
                else self.coordinator.begin(
                    job.job, self.task.interval, self.owner, sources=bounds, participants=job.participants
                )
            )
        except NotReady:
            self.count(Event.NOT_READY)
            raise
        except EpochBusy as error:
            self.count(_why_busy(error))
            raise
        if isinstance(begun, AlreadyCommitted):
            self.hands.check_answer(begun)
            gone = self.model.rolled.is_gone(begun.change_set, before)
            expect(not gone, "R30", f"{self.task.name} {self.task.interval}: {begun} was taken back")
            self.count(Event.ALREADY_COMMITTED)
        if isinstance(begun, AlreadyStaged) and self.of_group:
            self.coordinator.restatements.publish_if_whole(begun)
        if not isinstance(begun, Attempt):
            self.task.done = True
            return None
        return begun

    def _compute(self, attempt: Attempt) -> None:
        try:
            if attempt.adopted:
                self.count(Event.ADOPTED)
            else:
                self._write_all(attempt)
            if attempt.restatement:
                self._stage(attempt)
                return
            self._linger(attempt)
            published = self.coordinator.publish(attempt)
        except (Fenced, OutcomeUnknown):
            raise
        except EpochError as error:
            if isinstance(error, Conflict):
                self.count(Event.INPUTS_REWRITTEN)
                self._check_conflict(attempt, error)
                if not attempt.restatement and self.model.is_restated(attempt.inputs):
                    self.count(Event.RESTATED_MEANWHILE)
            self.hands.abort(attempt, type(error).__name__)
            raise
        self.hands.check_answer(published)
        self.task.done = True

    def _check_conflict(self, attempt: Attempt, error: Conflict) -> None:
        """It says that inputs were rolled back where they were (R13)."""
        if "were rolled back" in error.message:
            expect(self.model.takes_back(attempt.inputs), "R13", f"{attempt}: {error.message}")
            self.count(Event.INPUT_TAKEN_BACK)

    def _stage(self, attempt: Attempt) -> None:
        """Let it wait for the others. Of a group, the last one publishes, or fails for members that are outdated."""
        try:
            self.coordinator.stage(attempt)
        except Conflict as error:
            if not self._has_stalled(error):
                raise
        self.task.done = True

    def _has_stalled(self, error: Conflict) -> bool:
        """Return True if the task fails for outdated members of its group: people clear these, and this task, too."""
        if not (self.of_group and "is staged, and not published" in error.message):
            return False
        self.count(Event.GROUP_STALLED)
        return True

    def _linger(self, attempt: Attempt) -> None:
        """Take so long that what was read is restated, or rolled back, more often than not, before it is published."""
        lurks = self.model.rolled.paused and not attempt.is_shared
        if lurks and self.hands.random.random() < _LURKS:
            for _ in range(_LURKS_S // 5):
                if not self.model.rolled.paused:
                    return
                self.hands.process.sleep(timedelta(seconds=5))  # and its lock expires
        for _ in range(_LINGERS):
            if not self.model.reads_restated(self.task.name, attempt.interval):
                return
            self.hands.process.sleep(timedelta(seconds=20))
            self.coordinator.heartbeat(attempt)

    def _write_all(self, attempt: Attempt) -> None:
        inputs = self.hands.read_all(attempt)
        files = [file.uri for bounds in attempt.sources for file in bounds.files]
        for sink in attempt.sinks:
            self.hands.work(attempt)
            name, parts = str(sink.name), attempt.participants
            code = code_of(self.task.name, attempt.revision)
            values = output(self.task.name, name, attempt.interval, inputs, files, code=code)
            for number in range(parts):
                writer = self._joined(attempt, name, number) if attempt.is_shared else attempt
                self.hands.write(writer, name, values[number::parts])
        self.hands.work(attempt)
        self.coordinator.complete(attempt)

    def _joined(self, attempt: Attempt, sink: str, number: int) -> Attempt:
        """Let a participant join; sometimes twice, when the first try staged other rows and reports them too late."""
        writer = self.coordinator.join(attempt, number, self.owner)
        if self.hands.random.random() < 0.7:
            return writer
        staged = self.hands.stage(writer, sink, [_NEVER_COMPUTED])
        self.coordinator.processed(writer, sink)
        self.hands.work(writer)
        again = self.coordinator.join(attempt, number, self.owner)
        try:
            self.coordinator.written(writer, sink, staged)
        except Fenced:
            self.count(Event.PARTICIPANT_RETRIED)
            return again
        raise Violation("R10", f"{writer} reported after {again} had joined")


def _why_busy(error: EpochBusy) -> Event:
    if "is about to replace" in error.message:
        return Event.CLOSING
    return Event.HELD if "by restatement" in error.message else Event.BUSY
