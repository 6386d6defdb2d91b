"""People who correct what is committed: each opens a restatement, looks at what is staged, and publishes or abandons.

The tasks of its members are the supervisor's, as all others are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    Fenced,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
    TopologyError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import RestatementRecord, RestatementState, epochs_of
from airflow_provider.tables.errors import WarehouseUnavailable
from tests.simulator.cascade import CUTS, DOMAIN, HOUR, JOBS, declared
from tests.simulator.events import Event
from tests.simulator.history import Committed, expect
from tests.simulator.model import Model
from tests.simulator.readers import rows_of
from tests.simulator.restated import Epoch
from tests.simulator.scheduler import Process
from tests.simulator.workers import Task

_TRY_AGAIN = (Conflict, EpochBusy, Fenced, NotReady, OutcomeUnknown, StoreUnavailable, WarehouseUnavailable)
_BY = "somebody"


@dataclass(slots=True)
class Correction:
    """What a person means to correct; survives the processes in which it is done.

    :param until: how many members are computed before it is abandoned; None to publish it.
    :param forgotten: then it is not abandoned but forgotten: its deadline ends it.
    :ivar tasks: of its members. :ivar clears: how often one of these is still to be cleared.
    :ivar waits: how often it still waits, once all is staged, until others are at work on what it changes.
    :ivar ready: all is staged, and was looked at. :ivar settled: nothing more is to be done.
    :param reverts: the restatement that it takes back. :param copied: members of that, which no task computes.
    :ivar with_readers: what has read its rows is taken along. :ivar rests: looks before it begins, unless
        it has later readers before.
    """

    name: str
    job: str
    span: Interval
    until: int | None
    forgotten: bool
    needs_approval: bool
    lifetime: timedelta
    tasks: dict[Epoch, Task] = field(default_factory=dict)
    clears: int = 1
    waits: int = 6
    ready: bool = False
    settled: bool = False
    reverts: str | None = None
    copied: frozenset[Epoch] = frozenset()
    with_readers: bool = False
    rests: int = 0

    @classmethod
    def drawn(cls, random: Random, number: int, epoch: Committed) -> Correction:
        """One that begins with *epoch*, and sometimes has the next one of its job, too."""
        job, span = epoch.job, epoch.interval
        longer = random.random() < 0.3
        fate = random.random()
        forgotten = fate < 0.33 and job != "keeper"
        return cls(
            name=f"correction-{number}",
            job=job,
            span=Interval(span.start, span.end + JOBS[job].hours * HOUR) if longer else span,
            until=random.randrange(4) if fate < 0.45 else None,
            forgotten=forgotten,
            needs_approval=random.random() < 0.6,
            lifetime=timedelta(minutes=random.choice((10, 20))) if forgotten else timedelta(days=1),
            clears=random.choice((0, 1, 2, 2)),
        )

    @classmethod
    def of_revert(cls, random: Random, regretted: Correction, members: Iterable[Epoch]) -> Correction:
        """One that takes *regretted* back, which has *members*: at once, or after others have read it."""
        return cls(
            name=f"{regretted.name}-reverted",
            job=regretted.job,
            span=regretted.span,
            until=random.randrange(1, 4) if random.random() < 0.5 else None,
            forgotten=False,
            needs_approval=False,
            lifetime=timedelta(days=7),
            clears=0,
            reverts=regretted.name,
            copied=frozenset(members),
            with_readers=random.random() < 0.9,
            rests=random.choice((0, 400, 400, 400, 400, 400)),
        )

    @classmethod
    def of_rerun(cls, random: Random, name: str, record: RestatementRecord) -> Correction:
        """One that a run has opened: a user finds it, and goes on with it."""
        (job, span), *_ = epochs_of(record.asked)
        return cls(
            name=name,
            job=job,
            span=span,
            until=random.randrange(4) if random.random() < 0.25 else None,
            forgotten=False,
            needs_approval=False,
            lifetime=timedelta(days=1),
        )


@dataclass(frozen=True, slots=True)
class Restating:
    """One process of such a person.

    :param ask: has the supervisor run a task. :param now: the store's time. :param quiet: whether the faults are over.
    """

    coordinator: EpochService
    process: Process
    model: Model
    correction: Correction
    ask: Callable[[Task], None]
    count: Callable[[Event], None]
    now: Callable[[], datetime]
    quiet: Callable[[], bool]

    @property
    def _operations(self) -> Restatements:
        return self.coordinator.restatements

    @property
    def _random(self) -> Random:
        return self.coordinator.random

    def run(self) -> None:
        """Go on until it is published, abandoned or forgotten."""
        while not self.correction.settled:
            self.process.sleep(
                timedelta(seconds=self._random.uniform(5, 15 if self.correction.ready else 40))
            )
            self.process.commands += 1
            try:
                self._go_on()
            except _TRY_AGAIN:
                continue
            except InvalidInput:
                if not self.model.restated.is_over(self.correction.name, self.now()):
                    raise
                self.count(Event.DEADLINE_PASSED)

    def _go_on(self) -> None:
        correction, restated = self.correction, self.model.restated
        if correction.reverts is not None:
            self._take_back(correction.reverts)
        elif correction.name not in restated.records:
            self._open()
        elif not restated.is_open(correction.name):
            self._end()
        elif self._is_lost():
            if correction.forgotten and self._random.random() < 0.9:
                correction.settled = True  # others compute its members in other ways
            else:
                self._abandon("nothing will come of it")
        else:
            self._work()

    def _open(self) -> None:
        correction = self.correction
        if self.quiet():
            correction.settled = True
            return
        try:
            record = self._operations.open(
                DOMAIN,
                [correction.job],
                correction.span,
                name=correction.name,
                reason="it was wrong",
                by=_BY,
                needs_approval=correction.needs_approval,
                lifetime=correction.lifetime,
            )
        except (TopologyError, InvalidInput):
            self.count(Event.RESTATEMENT_REFUSED)
            correction.settled = True
            return
        known = self.model.restated.records[correction.name]
        ended = known.state is not RestatementState.OPEN  # by a user in whose way it was
        expect(ended or record == known, "R15", f"{correction.name}: {record}")

    def _is_lost(self) -> bool:
        """Whether it was meant to be abandoned, is over, or has a member that its checks refuse."""
        correction, over = self.correction, self.model.restated.is_over(self.correction.name, self.now())
        if correction.forgotten and not over:
            return False
        staged = self.model.staged(correction.name)
        enough = correction.until is not None and len(staged) >= correction.until
        return over or enough or self.model.is_refused(correction.name)

    def _abandon(self, reason: str) -> None:
        name = self.correction.name
        self._operations.abandon(DOMAIN, name, reason=reason, by=_BY)
        expect(not self.model.staged(name), "R28", f"{name} was abandoned, and has {self.model.staged(name)}")
        self.correction.settled = True

    def _end(self) -> None:
        """An earlier process of this person has ended it, perhaps not completely."""
        name = self.correction.name
        if self.model.restated.records[name].state is RestatementState.PUBLISHED:
            self._published(self._operations.publish(DOMAIN, name))
        else:
            self._abandon("once more")

    def _published(self, csn: int) -> None:
        name = self.correction.name
        found = self.model.restated.csns.get(name)
        expect(found == csn, "R15", f"{name} was published at {csn}, is at {found}")
        self.correction.settled = True

    def _work(self) -> None:
        correction, model = self.correction, self.model
        name = correction.name
        self._ask_for_all()
        if self._random.random() < 0.3:
            self._decide()
        staged = model.staged(name)
        whole = len(staged) == len(model.restated.members(name))
        correction.ready = whole and correction.ready
        if (
            staged
            and correction.clears
            and not self.quiet()
            and self._random.random() < (0.5 if whole else 0.1)
        ):
            correction.clears -= 1
            task = correction.tasks[min(staged, key=lambda place: (place[1], place[0]))]
            task.generation, task.done = task.generation + 1, False
            self._look()
        elif correction.forgotten and len(staged) >= (correction.until or 0):
            correction.settled = self.quiet() and self._random.random() < 0.5
        elif whole and not correction.ready:
            self._make_ready()
        elif whole and (correction.waits == 0 or self.quiet() or model.has_readers(name)):
            self._publish()
        elif whole:
            correction.waits -= 1

    def _make_ready(self) -> None:
        """Look at what is staged, and sometimes approve it, before all of it is published."""
        name = self.correction.name
        if self._random.random() < 0.5:
            self._look()
        if self.correction.needs_approval and self._random.random() < 0.7:
            output = self._operations.status(DOMAIN, name).output
            if not output:
                return  # a member is computed again meanwhile
            self._operations.approve(DOMAIN, name, output=output, by=_BY)
        self.correction.ready = True

    def _ask_for_all(self) -> None:
        """Have all members computed that are not, or that are to be computed again."""
        correction = self.correction
        places = self.model.restated.members(correction.name)
        for job, start in (place for place in places if place not in correction.copied):
            present = self.model.groups.declared(declared(job, slowed=job in self.model.slowed))
            if (job, start) not in correction.tasks:
                epoch, run = self.model.epochs[job, start].interval, f"restate {correction.name}"
                task = correction.tasks[job, start] = Task(present, run, epoch, restatement=correction.name)
                self.ask(task)
            correction.tasks[job, start].job = present
        doubts = self.model.unstaged(correction.name) or self._random.random() < 0.15
        # A reader that waits is not done either: in the end it is enough that a member it reads is not staged any more.
        if doubts and (self.quiet() or all(task.done for task in correction.tasks.values())):
            for member in self._operations.status(DOMAIN, correction.name).members:
                known = correction.tasks.get((str(member.job), member.interval.start))
                if known is not None and member.state in (MemberState.OUTDATED, MemberState.WAITING):
                    known.done = False  # an epoch that joined meanwhile is asked for at the next look

    def _publish(self) -> None:
        name, restated = self.correction.name, self.model.restated
        before = len(restated.members(name))
        try:
            csn = self._operations.publish(DOMAIN, name)
        except NotReady as error:
            if len(restated.members(name)) > before:
                self.count(Event.MEMBERS_JOINED)
            if "hold it" in error.message:
                self._decide()
            raise
        except Conflict as error:
            if "computed again" in error.message:
                self.count(Event.MEMBER_OUTDATED)
            raise
        except InvalidInput as error:
            if "is published once approved" not in error.message:
                raise
            expect(self.correction.needs_approval, "R29", error.message)
            self.correction.ready = False
            self.count(Event.UNAPPROVED)
        except TopologyError as error:
            expect("cannot be computed again together" in error.message, "R28", error.message)
            self._abandon(error.message)
        else:
            self._published(csn)

    # --- a revert ----------------------------------------------------------------------------------------------

    def _take_back(self, reverts: str) -> None:
        """Revert: what it is refused for stays, and an abandoned one may be opened anew (R30)."""
        correction, restated = self.correction, self.model.restated
        has_readers = self.model.closure(correction.copied) - correction.copied
        if correction.rests and not has_readers and not self.quiet():
            correction.rests -= 1
            return
        if restated.is_open(correction.name):
            if self._is_lost():
                self._abandon("it is right after all")
                correction.settled, correction.until = self._random.random() < 0.1, None
                return
            self._ask_for_all()
            for place in self.model.unstaged(correction.name) & set(correction.tasks):
                correction.tasks[place].done = False  # what it had staged may have gone with an abandoned one
        elif correction.name in restated.csns:
            correction.settled = True
            return
        self._revert(reverts)

    def _revert(self, reverts: str) -> None:
        correction, restated = self.correction, self.model.restated
        try:
            csn = self._operations.revert(
                DOMAIN, reverts, reason="it was right", by=_BY, with_readers=correction.with_readers
            )
        except NotReady as error:
            if "hold it" in error.message:
                self._decide()
            raise
        except DependentReaders:
            expect(not correction.with_readers, "R30", f"{correction.name} is refused with its readers")
            self.count(Event.REVERT_REFUSED)
            correction.with_readers = True
            correction.settled = self._random.random() < 0.1
        except (TopologyError, Unavailable):
            self.count(Event.REVERT_REFUSED)
            if restated.is_open(correction.name):
                self._abandon("it cannot be taken back")
            correction.settled = True
        else:
            self._reverted(csn)

    def _reverted(self, csn: int) -> None:
        self.count(Event.REVERTED)
        if set(self.model.restated.members(self.correction.name)) - self.correction.copied:
            self.count(Event.REVERTED_WITH_READERS)
        self._published(csn)

    # --- held epochs -------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Decide about the epochs that hold it, job by job: they join, or are released (R28)."""
        name = self.correction.name
        for job in dict.fromkeys(held.job for held in self._operations.status(DOMAIN, name).held):
            self.count(Event.RESTATEMENT_HELD)
            if self._random.random() < 0.5:
                with suppress(TopologyError):  # they are members of another restatement
                    self._operations.join(DOMAIN, name, [job], by=_BY)
                    continue
            self._operations.release(DOMAIN, name, [job], reason="they were sent", by=_BY)

    # --- what is staged ----------------------------------------------------------------------------------------

    def _look(self) -> None:
        """A cut has the staged rows in place of the committed ones, and so have the differences (R29)."""
        name = self.correction.name
        staged = self.model.staged(name)
        outputs = {str(output.name) for job, _ in staged for output in JOBS[job].job.outputs}
        changed = [tables for tables in CUTS if outputs & set(tables)]
        tables = self._random.choice(changed or CUTS)
        try:
            cut = self._operations.cut(DOMAIN, name, tables)
            if self.model.staged(name) != staged:
                return
            if self._random.random() < 0.8:
                self.process.sleep(timedelta(seconds=self._random.uniform(1, 90)))
            for table in cut.states:
                expected = self.model.state_with(str(table), cut.barrier, cut.csn, staged)
                found = rows_of(self.coordinator.cuts.read(cut, table))
                expect(found == expected, "R29", f"{table} in {name}: {found}, not {expected}")
            self.count(Event.STAGED_READ)
            self._compare(staged)
        except (NotReady, UnknownName):
            return
        except Unavailable:
            gone = self.model.staged(name) != staged
            expect(gone, "I6", f"{name}: staged rows are gone, and no task has computed them again")
            self.count(Event.STAGED_GONE)

    def _compare(self, staged: dict[Epoch, int]) -> None:
        name, csn = self.correction.name, self.model.csn
        found = self._operations.differences(DOMAIN, name)
        if self.model.csn != csn or self.model.staged(name) != staged:
            return
        for table, difference in found.items():
            chain = self.model.chain(str(table), csn)
            assert chain is not None
            old = Counter(self.model.state(str(table), chain[1], csn))
            new = Counter(self.model.state_with(str(table), chain[1], csn, staged))
            told = [Counter(rows_of(rows)) for rows in (difference.removed, difference.added)]
            expect(told == [old - new, new - old], "R29", f"{table} in {name}: {told}, not {old} to {new}")
