"""Who changes a domain beside its tasks: authors of DAGs, and a person who operates it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.coordination.upkeep.skip import Skipped
from airflow_provider.coordination.upkeep.vacuum import Vacuumed
from airflow_provider.domain.errors import (
    EpochError,
    Fenced,
    FinalError,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    RetryableError,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key
from airflow_provider.domain.registration import JobRecord, declared
from airflow_provider.domain.topology import Job
from airflow_provider.stores.base import MetadataReader
from airflow_provider.stores.declarations import fingerprint
from tests.simulator.changing.landing import LandingSource
from tests.simulator.changing.plan import (
    DOMAIN,
    HOUR,
    ZERO,
    Change,
    Version,
    by_older_name,
    changed,
)
from tests.simulator.changing.renaming import name_to_keep
from tests.simulator.changing.sourced import BOUND
from tests.simulator.changing.world import ChangingWorld
from tests.simulator.events import Event
from tests.simulator.history import expect
from tests.simulator.scheduler import Process

_EVENTS = {
    Change.ORIGIN: Event.ORIGIN_MOVED,
    Change.FINER: Event.FINER,
    Change.COARSER: Event.COARSER,
    Change.ADDED: Event.OUTPUT_ADDED,
    Change.LEFT: Event.OUTPUT_LEFT,
    Change.BACK: Event.CAME_BACK,
    Change.RENAMED: Event.RENAMED,
}
CALENDARS = (Change.FINER, Change.COARSER)
_TURNS = 0.8
"""Share of an author's moves that give a job whose epochs fail another cadence, in domains where they fail often."""
_VACUUMED_AFTER = 40
_BEHIND_A_SKIP = "behind the skip"


def refuse_full(error: EpochError) -> None:
    """:raises Violation: a record has grown to its limit, which nothing that a person does may come to."""
    expect("too large" not in error.message, "M5", error.message)


def _span(start: str, end: str) -> Interval:
    return Interval(datetime.fromisoformat(start), datetime.fromisoformat(end))


@dataclass(slots=True)
class Deployment:
    """The declarations of one job, as its DAGs have had them.

    :ivar versions: those that were registered, oldest first. :ivar now: that of the DAG that runs; None for none yet.
    :ivar unsure: one whose registration may have been done: its answer was lost, or its program died.
    :ivar paused: whether its DAG starts nothing.
    """

    versions: list[Version]
    now: Version | None = None
    unsure: Version | None = None
    paused: bool = False

    @property
    def runs(self) -> Version | None:
        """The declaration of what its DAG starts."""
        return None if self.paused else self.now

    @property
    def newest(self) -> Version:
        return self.versions[-1]

    def settle(self, store: MetadataReader) -> None:
        """Look in the store which declaration it holds: the answer to a registration may have been lost, and
        that declaration may have come after a newer one.
        """
        unsure, self.unsure = self.unsure, None
        key = job_key(DOMAIN, JobName(self.newest.job))
        stamped = store.read(DOMAIN, [key]).get(key)
        known = [*self.versions, unsure] if unsure is not None else self.versions
        held = [] if stamped is None else [version for version in known if _is_held(version, stamped.record)]
        if held and held[-1] is not self.newest:
            self.versions = [version for version in self.versions if version is not held[-1]] + held[-1:]
            self.now = held[-1]


def _is_held(version: Version, record: JobRecord) -> bool:
    return declared(version.declaration, record, fingerprint(version.declaration)) == record


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
        more = 0 if self.world.binds or self.world.counts else 18 if self.world.turns else 3
        left = random.choice((6, 9, 12, 15)) + more
        process.sleep(timedelta(seconds=1 if self.world.binds else random.choice((1, 20, 120))))
        if self.world.binds:
            self._add_tables(coordinator.register)
        while left and not self.quiet():
            left -= 1
            if self.world.turns and random.random() < _TURNS:
                self._turn(coordinator.register, process)
                continue
            job = random.choice(list(self.deployed.values()))
            if job.now is None:
                job.now = job.newest
                self.world.count(Event.REGISTERED_LATE)
            elif job.now is not job.newest and random.random() < 0.5:
                job.now = job.newest
            else:
                self._change(coordinator.register)
            process.sleep(timedelta(seconds=random.choice((5, 30, 100))))

    def _add_tables(self, register: Callable[[Job], object]) -> None:
        """Give readers of the source a second table, which an older declaration of theirs lacks ever since."""
        for job in self.deployed.values():
            new = changed(self.world.random, job.versions, Change.ADDED, (0, self.world.length))
            if job.now is not None and job.newest.late is not None and new is not None:
                with suppress(RetryableError, OutcomeUnknown):
                    register(job.newest.declaration)
                    self._deploy(job, Change.ADDED, new, register)

    def _turn(self, register: Callable[[Job], object], process: Process) -> None:
        """Stop the DAG of a job whose epochs have failed, until what runs has ended, and give it another cadence."""
        random = self.world.random
        process.sleep(timedelta(seconds=random.choice((10, 30))))
        turns = [job for job in self.deployed.values() if job.now is job.newest and self._other_cadence(job)]
        if not turns:
            return
        job = random.choice(turns)
        job.paused = True
        process.sleep(timedelta(seconds=random.choice((40, 100))))
        other = self._other_cadence(job)
        if other is not None:
            self._deploy(job, *other, register)
        job.paused = False

    def _other_cadence(self, job: Deployment) -> tuple[Change, Version] | None:
        """Another cadence of *job*, from an epoch on of which an attempt was aborted and none is committed."""
        random = self.world.random
        hours = [
            (epoch.interval.start - ZERO) // HOUR
            for (name, _), epoch in self.world.truth.epochs.items()
            if name == job.newest.job and not epoch.committed
            if epoch.attempt is not None and epoch.attempt.aborted is not None
        ]
        drawn = ((change, self._changed(job, change, hours)) for change in random.sample(CALENDARS, 2))
        return next(((change, new) for change, new in drawn if new is not None), None)

    def _change(self, register: Callable[[Job], object]) -> None:
        """Make one of the favourite changes, of any job that can be changed so."""
        random = self.world.random
        for change in random.sample(list(self.favourites), len(self.favourites)):
            for job in random.sample(list(self.deployed.values()), len(self.deployed)):
                new = None if job.now is None else self._changed(job, change)
                if new is not None:
                    self._deploy(job, change, new, register)
                    return

    def _changed(self, job: Deployment, change: Change, at: Collection[int] | None = None) -> Version | None:
        """Another declaration of *job*, or None. :param at: the hours at which another cadence may begin."""
        job.settle(self.world.store)
        end = self.world.truth.last_end(job.newest.outputs)
        after = 0 if end is None else (end - ZERO) // HOUR
        return changed(self.world.random, job.versions, change, (after, self.world.length), at)

    def _deploy(
        self, job: Deployment, change: Change, new: Version, register: Callable[[Job], object]
    ) -> None:
        world = self.world
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
                world.count_refused(error)
                return
            job.unsure = None
            job.versions.append(new)
            job.now = new
        told = f"{new.outputs} {new.steps} {new.origin} {new.source} {new.late}"
        world.scheduler.note(f"{new.job}: {change}: {told}")
        world.count(_EVENTS[change])


@dataclass(frozen=True, slots=True)
class Operator:
    """Skips, expires, vacuums, and sometimes nothing happens for long.

    :param stuck: epochs that were refused again and again when nothing changes any more. :param missing: those that
        are to be computed. :param told: why the epochs that are left were not computed. :param habits: what this
        person does.
    """

    world: ChangingWorld
    deployed: dict[str, Deployment]
    quiet: Callable[[], bool]
    stuck: Callable[[], list[tuple[str, Interval]]]
    missing: Callable[[], list[tuple[Version, Interval]]]
    told: Callable[[], list[str]]
    habits: Sequence[str]
    _unanswered: list[tuple[str, Interval]] = field(default_factory=list)
    _followed: set[str] = field(default_factory=set)

    def run(self, process: Process) -> None:
        """Do for ever what is to be done."""
        world = self.world
        coordinator = world.undisturbed(process) if world.counts else world.coordinator(process)
        retention = world.retention(process)
        while True:
            process.sleep(
                timedelta(seconds=world.random.uniform(2, 10 if world.counts or world.binds else 40))
            )
            with suppress(RetryableError, OutcomeUnknown, Fenced):
                if world.doubted:
                    self._bind(coordinator, process)
                elif not self.quiet():
                    habit = world.random.choice(list(self.habits))
                    if habit == "bind":
                        self._bind(coordinator, process)
                    else:
                        self._do(habit, coordinator, retention)
                for job, epoch in self.stuck()[:1] if self.quiet() else ():
                    with suppress(NotReady):  # a hole below it: what the errors name may end that
                        self._declare_again(job, coordinator)
                        self.skip(coordinator.skip, job, epoch)
                for error in self.told() if self.quiet() else ():
                    self.follow(error, coordinator, process)

    def follow(self, error: str, coordinator: EpochService, process: Process) -> None:
        """Do what *error* names, where no run brings it: bind a source anew, declare a table again, deploy the newest
        declaration, or what ends one epoch.
        """
        left = re.search(r"job '?(\w+)'? .*no longer declares (\w+):", error)
        bound = re.search(r"`airflow epochs bind landing (\S+)/(\S+) --reason", error)
        older = re.search(r"^(\w+) .*this declaration of the job lacks .*, which would stay behind", error)
        job, name = name_to_keep(error)
        if older is not None:  # it was deployed late, and equals an earlier declaration
            self.deployed[older[1]].settle(self.world.store)
        elif left is not None:
            self._declare_again(left[1], coordinator, left[2])
        elif job:
            self._keep_name(job, name, coordinator)
        elif bound is not None and _BEHIND_A_SKIP not in error:
            behind = any(epoch.end.isoformat() == bound[2] for _, epoch in self.world.truth.behind())
            if behind and error in self._followed:
                return  # it is bound anew, and its epochs are being computed again
            self._followed.add(error)
            refused = self._bind_to_source(_span(bound[1], bound[2]), coordinator, process)
            if "no longer declares" in refused:
                self.follow(refused, coordinator, process)
        else:
            self._end(error, coordinator)

    def _end(self, error: str, coordinator: EpochService) -> None:
        """Take away files and ids that the source refuses, compute a skipped epoch, or skip."""
        skip = re.search(r"`airflow epochs skip (\w+) (\S+)/(\S+) --reason", error)
        copy = re.search(r"committed epochs have read it: (\w+) \[(\S+), (\S+)\) read", error)
        if "files came late" in error and len(self.world.truth.source.names) > 1:
            name = self.deployed[error.partition(" ")[0]].newest.source
            for epoch, bounds in self.world.truth.source.newest(name).items():
                self.world.landing.restore(bounds, epoch)
        elif "ids came late" in error:
            self.world.take_ids_away()
        elif copy is not None and (copy[1], _span(copy[2], copy[3])) in self.world.skipped:
            self.world.regretted.append((copy[1], _span(copy[2], copy[3])))
        elif skip is not None:
            span, missing = _span(skip[2], skip[3]), self.missing()
            waits = any(version.job == skip[1] and epoch.overlaps(span) for version, epoch in missing)
            if not waits or _BEHIND_A_SKIP in error:
                self.skip(coordinator.skip, skip[1], span)

    def _declare_again(self, name: str, coordinator: EpochService, *left: str) -> None:
        """Let a job have its tables, and those that it has *left*, by a declaration that it has not had before.

        One that equals an earlier one, as an author may write it, leaves another the newest that the store knows.
        """
        job, stored = self.deployed[name], self.world.truth.jobs.get(name)
        wanted = tuple(dict.fromkeys((*job.newest.outputs, *left)))
        if stored is None or {*wanted} <= {str(table.name) for table in stored.outputs}:
            return
        again = replace(job.newest, outputs=wanted, keeps=not job.newest.keeps)
        self._register(job, again, coordinator)

    def _keep_name(self, name: str, source: str, coordinator: EpochService) -> None:
        """Let a job read its source by the name by which it has read it before."""
        job = self.deployed[name]
        known = any(version.source == source for version in job.versions)
        if known and job.newest.source != source:
            self._register(job, by_older_name(job.newest, source, job.versions), coordinator)

    def _register(self, job: Deployment, again: Version, coordinator: EpochService) -> None:
        try:
            coordinator.register(again.declaration)
        except TopologyError as refused:
            refuse_full(refused)
            return
        job.versions.append(again)
        job.now = again

    def _do(self, habit: str, coordinator: EpochService, retention: Retention) -> None:
        match habit:
            case "vacuum":
                self.vacuum(retention.vacuum)
            case "night":
                self._pause()
                self.vacuum(retention.vacuum)
            case "expire":
                self._expire(retention.expire)
            case "skip":
                self._skip_any(coordinator.skip)
            case "pause":
                self._pause()
            case "land":
                self._land()

    def vacuum(self, vacuum: Callable[[str], Vacuumed]) -> None:
        many = self.world.truth.csn > _VACUUMED_AFTER
        vacuumed = vacuum(DOMAIN)
        if many:
            self.world.count(Event.VACUUMED_MANY)
        if vacuumed.orphans:
            self.world.count(Event.ORPHANS)

    def _expire(self, expire: Callable[[str, str, datetime], None]) -> None:
        truth, random = self.world.truth, self.world.random
        tables = sorted(truth.owners)
        table = random.choice(tables) if tables else ""
        barriers = truth.barriers(table) if table else []
        if not barriers:
            return
        barrier = random.choice(barriers)
        truth.asked.add((table, barrier))  # the reply may be lost, or the process die
        try:
            expire(DOMAIN, table, barrier)
        except (InvalidInput, Unavailable) as error:
            refuse_full(error)
            return
        truth.expire(table, barrier)
        self.world.count(Event.EXPIRED)

    def _skip_any(self, skip: Callable[..., Skipped]) -> None:
        random = self.world.random
        failed = self.world.truth.failed_in_vain() if self.world.counts else []
        if failed:
            self.skip(skip, *random.choice(failed))
        if self.world.counts:
            return
        if self._unanswered and random.random() < 0.8:
            self.skip(skip, *self._unanswered[-1])
            return
        missing = self.missing()
        if missing and random.random() < 0.8:
            full = [pair for pair in missing if self.world.has_full_table(pair[0])]
            version, epoch = random.choice(full if full and random.random() < 0.9 else missing)
            self.skip(skip, version.job, epoch)
            return
        deployed = [deployment.now for deployment in self.deployed.values() if deployment.now is not None]
        known = [(version, epoch) for version in deployed for epoch in version.epochs(self.world.length)]
        if known:
            has = self.world.truth.has
            lacking = [
                (version, epoch)
                for version, epoch in known
                if not all(has(table, epoch) for table in version.outputs)
            ]
            full = [pair for pair in lacking if self.world.has_full_table(pair[0])]
            version, epoch = random.choice((full or lacking) if lacking and random.random() < 0.8 else known)
            self.skip(skip, version.job, epoch)

    def skip(self, skip: Callable[..., Skipped], job: str, epoch: Interval) -> None:
        """Skip *epoch* of *job*, and take the answer down."""
        source = self.world.truth.source
        counted = source.counted
        counted.ask_to_skip(job, epoch)
        self._unanswered[:] = [(job, epoch)]
        try:
            answer = skip(DOMAIN, job, epoch, "nothing will come of it", by="operator")
            counted.answer(job, epoch, left=bool(answer.unread))
            if answer.published and job in counted.readers and source.has_bounds(epoch):
                self.world.count(Event.SKIPPED_FAILED)
            self._unanswered.clear()
        except FinalError as error:
            self._unanswered.clear()
            refuse_full(error)
            if (
                "has no columns yet" in str(error) and self.quiet()
            ):  # before, a later epoch may still be computed
                self.world.unwritten.add((job, epoch))
            if isinstance(error, Fenced):
                raise

    def _bind(self, coordinator: EpochService, process: Process) -> None:
        """Let a file come late, or go again, and have the epochs of its barrier read what is there then."""
        world, random = self.world, self.world.random
        epoch = self._to_bind()
        if epoch is None:
            return
        self._change(epoch)
        self._bind_to_source(epoch, coordinator, process)
        if self.quiet():  # the source changes no more since, as it was recorded then
            world.settle_landing()
        elif random.random() < 0.5:  # and no user is told
            self._change(epoch)
            readers = [job.job for job in world.jobs if job.late is not None]
            world.regretted.append((random.choice(readers), epoch))

    def _bind_to_source(self, epoch: Interval, coordinator: EpochService, process: Process) -> str:
        """Have the epochs of a barrier read what is there now; return why not, empty where they do."""
        source = LandingSource(self.world.landing, lambda: process.sleep(timedelta(seconds=0.1)))
        try:
            bind(coordinator.context, DOMAIN, "landing", epoch, source, reason=BOUND, by="operator")
        except FinalError as error:
            refuse_full(error)
            self.world.count(Event.BIND_REFUSED)
            return str(error)
        return ""

    def _to_bind(self) -> Interval | None:
        """One of the last epochs of which bounds are recorded: often one that other attempts are about to read."""
        truth, random = self.world.truth, self.world.random
        if self.world.doubted:
            return self.world.doubted.pop()
        recorded = list(truth.source.newest())[-random.choice((1, 2, 4)) :]
        opened = [
            epoch.interval
            for epoch in truth.epochs.values()
            if epoch.attempt is not None
            and epoch.attempt.aborted is None
            and epoch.attempt.inputs
            and not epoch.committed
        ]
        read = [epoch for epoch in recorded if epoch in opened]
        chosen = read or (recorded if random.random() < 0.6 else [])
        return random.choice(chosen) if chosen else None

    def _change(self, epoch: Interval) -> None:
        """Let a file of *epoch* come late; or let there be again what was recorded before."""
        world, random = self.world, self.world.random
        drawn = random.random()
        earlier = [landed for (_, end, _), landed in world.truth.source.found.items() if end == epoch.end]
        if drawn < 0.4 and len(earlier) > 1 and earlier[0].bounds.span is None:
            world.landing.restore(random.choice(earlier).bounds, epoch)
            world.count(Event.BACK_AGAIN)
        elif drawn < 0.9:
            world.landing.land(epoch.end)
            world.landing.ids.come_late()

    def _pause(self) -> None:
        """For long nothing runs: a weekend, an outage of the scheduler."""
        world = self.world
        if world.random.random() < 0.4:
            world.scheduler.clock.advance(timedelta(hours=world.random.choice((1, 3, 3, 26))))
            world.count(Event.LONG_PAUSE)

    def _land(self) -> None:
        landing, random = self.world.landing, self.world.random
        drawn = random.random()
        readers = [job for job in self.world.jobs if job.late]
        if not readers or drawn < 0.2:
            return
        if readers[0].ids:
            if landing.ids.come_late():
                self.world.count(Event.LATE_ID)
        elif drawn < 0.6:
            landing.land()
            self.world.count(Event.LATE_FILE)
        elif drawn < 0.8 and landing.replace():
            self.world.count(Event.REPLACED_FILE)
        elif landing.lose():
            self.world.count(Event.MISSING_FILE)
