"""Who changes a domain beside its tasks: authors of DAGs, a person who operates it, and readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.cuts import Cuts
from airflow_provider.coordination.retention import Retention
from airflow_provider.domain.alignment import Consistency
from airflow_provider.domain.epoch import Owner
from airflow_provider.domain.errors import (
    EpochError,
    Fenced,
    FinalError,
    InvalidInput,
    LeaseExpired,
    NotReady,
    OutcomeUnknown,
    RetryableError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key
from airflow_provider.domain.registration import declared
from airflow_provider.domain.topology import EpochJob, TableKind
from airflow_provider.stores.base import MetadataReader
from airflow_provider.testing.simulation.changing.attempts import Task, Try
from airflow_provider.testing.simulation.changing.plan import (
    DOMAIN,
    HOUR,
    ZERO,
    Change,
    Version,
    changed,
    hour,
)
from airflow_provider.testing.simulation.changing.world import ChangingWorld
from airflow_provider.testing.simulation.events import Event
from airflow_provider.testing.simulation.history import expect
from airflow_provider.testing.simulation.readers import rows_of
from airflow_provider.testing.simulation.scheduler import Process

_EVENTS = {
    Change.ORIGIN: Event.ORIGIN_MOVED,
    Change.FINER: Event.FINER,
    Change.COARSER: Event.COARSER,
    Change.ADDED: Event.OUTPUT_ADDED,
    Change.LEFT: Event.OUTPUT_LEFT,
    Change.BACK: Event.CAME_BACK,
}
_SWEPT_AFTER = 40


def refuse_full(error: EpochError) -> None:
    """:raises Violation: a record has grown to its limit, which nothing that a person does may come to."""
    expect("too large" not in error.message, "M5", error.message)


@dataclass(slots=True)
class Deployment:
    """The declarations of one job, as its DAGs have had them.

    :ivar versions: those that were registered, oldest first. :ivar now: that of the DAG that runs; None for none yet.
    :ivar unsure: one whose registration may have been done: its answer was lost, or its program died.
    """

    versions: list[Version]
    now: Version | None = None
    unsure: Version | None = None

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def settle(self, store: MetadataReader) -> None:
        """Look in the store whether the registration that nobody heard of was done; then it is the newest."""
        version, self.unsure = self.unsure, None
        if version is None:
            return
        key = job_key(DOMAIN, JobName(version.job))
        stamped = store.read(DOMAIN, [key]).get(key)
        if stamped is not None and declared(version.declaration, stamped.record) == stamped.record:
            self.versions.append(version)
            self.now = version


@dataclass(frozen=True, slots=True)
class Author:
    """Changes declarations.

    :param favourites: the changes that are made in this domain.
    """

    world: ChangingWorld
    deployed: dict[str, Deployment]
    favourites: Sequence[Change]
    quiet: Callable[[], bool]

    def run(self, process: Process) -> None:
        """Change one declaration after the other."""
        random = self.world.random
        coordinator = self.world.coordinator(process)
        left = random.choice((6, 9, 12, 15))
        process.sleep(timedelta(seconds=random.choice((1, 20, 120))))
        while left and not self.quiet():
            left -= 1
            job = random.choice(list(self.deployed.values()))
            change = random.choice(list(self.favourites))
            if job.now is None:
                job.now = job.newest
                self.world.count(Event.REGISTERED_LATE)
            elif job.now is not job.newest and random.random() < 0.7:
                job.now = job.newest
            else:
                self._change(job, change, coordinator.register)
            process.sleep(timedelta(seconds=random.choice((5, 30, 100))))

    def _change(self, job: Deployment, change: Change, register: Callable[[EpochJob], object]) -> None:
        job.settle(self.world.store)
        world, now = self.world, job.newest
        end = world.truth.last_end(now.outputs)
        after = 0 if end is None else (end - ZERO) // HOUR
        new = changed(world.random, job.versions, change, (after, world.length))
        if new is None:
            return
        if change is Change.BACK:
            job.now = new
        else:
            job.unsure = new
            try:
                register(new.declaration)
            except (RetryableError, OutcomeUnknown):
                return
            except FinalError as error:
                job.unsure = None
                refuse_full(error)
                world.count(Event.DECLARATION_REFUSED)
                return
            job.unsure = None
            job.versions.append(new)
            job.now = new
        world.scheduler.note(f"{new.job}: {change}: {new.outputs} {new.steps} {new.origin}")
        world.count(_EVENTS[change])


@dataclass(frozen=True, slots=True)
class Operator:
    """Skips, withdraws, sweeps, and sometimes nothing happens for long.

    :param stuck: epochs that were refused again and again when nothing changes any more. :param missing: those that
        are to be computed. :param habits: what this person does.
    """

    world: ChangingWorld
    deployed: dict[str, Deployment]
    quiet: Callable[[], bool]
    stuck: Callable[[], list[tuple[str, Interval]]]
    missing: Callable[[], list[tuple[Version, Interval]]]
    habits: Sequence[str]

    def run(self, process: Process) -> None:
        """Do for ever what is to be done."""
        world = self.world
        coordinator, retention = world.coordinator(process), world.retention(process)
        while True:
            process.sleep(timedelta(seconds=world.random.uniform(2, 40)))
            with suppress(RetryableError, OutcomeUnknown, Fenced):
                if not self.quiet():
                    self._do(world.random.choice(list(self.habits)), coordinator, retention)
                for job, epoch in self.stuck()[:1] if self.quiet() else ():
                    self._skip(coordinator.skip, job, epoch)

    def _do(self, habit: str, coordinator: Coordinator, retention: Retention) -> None:
        match habit:
            case "sweep":
                self._sweep(retention.sweep)
            case "night":
                self._pause()
                self._sweep(retention.sweep)
            case "withdraw":
                self._withdraw(retention.withdraw)
            case "skip":
                self._skip_any(coordinator.skip)
            case "pause":
                self._pause()
            case "land":
                self._land()

    def _sweep(self, sweep: Callable[[str], object]) -> None:
        many = self.world.truth.csn > _SWEPT_AFTER
        swept = sweep(DOMAIN)
        if many:
            self.world.count(Event.SWEPT_MANY)
        if getattr(swept, "leftovers", ()):
            self.world.count(Event.LEFTOVERS)

    def _withdraw(self, withdraw: Callable[[str, str, datetime], None]) -> None:
        truth, random = self.world.truth, self.world.random
        tables = sorted(truth.owners)
        table = random.choice(tables) if tables else ""
        barriers = truth.barriers(table) if table else []
        if not barriers:
            return
        barrier = random.choice(barriers)
        truth.asked.add((table, barrier))  # the reply may be lost, or the process die
        try:
            withdraw(DOMAIN, table, barrier)
        except (InvalidInput, Unavailable) as error:
            refuse_full(error)
            return
        truth.withdraw(table, barrier)
        self.world.count(Event.WITHDRAWN)

    def _skip_any(self, skip: Callable[..., object]) -> None:
        random = self.world.random
        missing = self.missing()
        if missing and random.random() < 0.6:
            version, epoch = random.choice(missing)
            self._skip(skip, version.job, epoch)
            return
        deployed = [one.now for one in self.deployed.values() if one.now is not None]
        known = [(one, epoch) for one in deployed for epoch in one.epochs(self.world.length)]
        if known:
            version, epoch = random.choice(known)
            self._skip(skip, version.job, epoch)

    def _skip(self, skip: Callable[..., object], job: str, epoch: Interval) -> None:
        try:
            skip(DOMAIN, job, epoch, "nothing will come of it", by="operator")
        except FinalError as error:
            refuse_full(error)
            if isinstance(error, Fenced):
                raise

    def _pause(self) -> None:
        """For long nothing runs: a weekend, an outage of the scheduler."""
        world = self.world
        if world.random.random() < 0.4:
            world.scheduler.clock.advance(timedelta(hours=world.random.choice((1, 3, 3, 26))))
            world.count(Event.LONG_PAUSE)

    def _land(self) -> None:
        landing, random = self.world.landing, self.world.random
        drawn = random.random()
        if not any(one.late for one in self.world.jobs) or drawn < 0.4:
            return
        if drawn < 0.8:
            landing.land()
            self.world.count(Event.LATE_FILE)
        elif drawn < 0.9 and landing.replace():
            self.world.count(Event.REPLACED_FILE)
        elif landing.lose():
            self.world.count(Event.MISSING_FILE)


@dataclass(slots=True)
class Reader:
    """Reads several tables together, and remembers what it has seen."""

    world: ChangingWorld
    cuts: Cuts
    process: Process
    random: Random
    together: dict[tuple[str, ...], datetime] = field(default_factory=dict)

    def run(self) -> None:
        """Read for ever."""
        while True:
            self.process.sleep(timedelta(seconds=self.random.uniform(2, 40)))
            known = sorted(self.world.truth.owners)
            if not known:
                continue
            tables = tuple(sorted(self.random.sample(known, min(len(known), self.random.choice((1, 2, 3))))))
            try:
                if self.random.random() < 0.5:
                    self._read(tables)
                else:
                    self._read_together(tables)
            except (RetryableError, OutcomeUnknown, UnknownName, Unavailable, LeaseExpired):
                continue

    def _read(self, tables: tuple[str, ...]) -> None:
        truth, before = self.world.truth, self.world.truth.csn
        at = hour(self.random.randrange(1, self.world.length + 1)) if self.random.random() < 0.4 else None
        try:
            cut = self.cuts.cut(DOMAIN, tables, at=at)
        except NotReady:
            barrier = truth.common_barrier(tables, before, at)
            expect(barrier is None or truth.csn != before, "R3", f"{tables} at {at}: {barrier} is complete")
            return
        expect(before <= cut.csn <= truth.csn, "R3", f"a cut at CSN {cut.csn} after {before}")
        wanted = truth.common_barrier(tables, cut.csn, at)
        expect(cut.barrier == wanted, "R3", f"{tables} at {at}, CSN {cut.csn}: {cut.barrier}, not {wanted}")
        for name in cut.states:
            found = rows_of(self.cuts.read(cut, name))
            expected = truth.state(str(name), cut.barrier, cut.csn)
            expect(
                found == expected, "R4", f"{name} at {cut.barrier}, CSN {cut.csn}: {found}, not {expected}"
            )
        self.world.count(Event.CUT_READ)

    def _read_together(self, tables: tuple[str, ...]) -> None:
        """What was there altogether stays there (I8)."""
        found = self.cuts.cut(DOMAIN, tables, consistency=Consistency.ALTOGETHER).barrier
        last = self.together.get(tables, found)
        expect(found >= last, "I8", f"{tables} altogether: {found} after {last}")
        self.together[tables] = found


_STREAMED = ("stream", "s1")
_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Stream:
    """A job of short epochs in one long process: it commits often, not always in order, and comes back to some."""

    world: ChangingWorld
    quiet: Callable[[], bool]

    def run(self, process: Process) -> None:
        """Compute one epoch after the other."""
        world, (job, table) = self.world, _STREAMED
        random = world.random
        version = stream_version(job, table)
        coordinator = world.undisturbed(process)
        pause = random.choice((0.5, 1, 2))
        for generation, number in self._order():
            epoch = Interval(ZERO + number * _EVERY, ZERO + (number + 1) * _EVERY)
            process.sleep(timedelta(seconds=pause))
            owner = Owner(dag_id=job, run_id="stream", generation=generation)
            task = Task(version=version, run="stream", interval=epoch)
            for _ in range(3):  # it is fenced when it stood still for long
                Try(world, coordinator, task, version, owner, process, fails=False).run()
                if task.answered or task.refused:
                    break
            expect(task.answered or task.refused > 0, "I9", f"{job} {epoch}: {task.reason}")
            if self.quiet():
                return

    def _order(self) -> Iterator[tuple[int, int]]:
        """Epochs as (generation, number): sometimes every second one first, some of them again and again."""
        random = self.world.random
        numbers = list(range(self.world.streams))
        if random.random() < 0.3:
            numbers = [*numbers[::2], *numbers[1::2]]
        again = random.choice((0.0, 0.4))
        for count, number in enumerate(numbers):
            yield 0, number
            if random.random() < again:
                yield count + 1, random.choice(numbers[max(0, count - 12) : count + 1])


def stream_version(job: str, table: str) -> Version:
    """What a stream declares."""
    return Version(
        job=job,
        outputs=(table,),
        kinds={table: TableKind.INCREMENTAL},
        steps=((0, 0),),
        origin=0,
        keeps=False,
    )
