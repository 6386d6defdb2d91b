"""One seed of a domain that changes, from its first step to its last check."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import NotReady
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.stores import codec
from tests.simulator.changing.attempts import Task, Try
from tests.simulator.changing.people import CALENDARS, Author, Deployment, Operator
from tests.simulator.changing.plan import DOMAIN, ZERO, Change, Version, hour
from tests.simulator.changing.reading import Reader
from tests.simulator.changing.renaming import read_by
from tests.simulator.changing.streaming import Stream
from tests.simulator.changing.world import (
    SMALL_RECORD_BYTES,
    ChangingWorld,
    small_records,
)
from tests.simulator.history import Violation, expect
from tests.simulator.outcome import Outcome
from tests.simulator.scheduler import Process, Scheduler

_MOST_TURNS = 4_000
_TIMEOUT = 40 * DEFAULTS.lock_ttl
"""How long nothing may be committed while something is left, once no fault comes any more."""
_MOST = 5 * _TIMEOUT
"""How long it may take until nothing is left: many that are computed at once are slow beside each other."""
_DUE = timedelta(days=2)
_SLOWLY = timedelta(seconds=8)
_SILENT = timedelta(seconds=90)
_CLEARED = 3
"""How often an epoch that lacks a table is cleared before a person does what doctor says."""
_BATCHES = 0.3
"""How often a run computes several epochs, and commits them together."""
_OUT_OF_TURN = 0.01
"""How often an epoch is begun before the last that is missing, where the last runs first."""
_BY_OLDER_NAME = 0.5
"""How often an epoch is run by the declaration that a refusal names."""
_HABITS = ("vacuum", "night", "expire", "skip", "pause", "land")
_MORE = (("skip",), ("skip", "skip"), ("skip", "skip", "skip", "land"))
_BINDING, _BINDS = 5, 2
"""Every so many domains have a source that several jobs share, and that a person binds anew: those of these seeds."""
_COUNTS = 4
"""In half as many, a source of which attempts have recorded bounds that come to nothing."""
_RENAMES = 9
"""In half as many, a source that jobs read by one name after the other."""
_TURNS = (1, 3)
"""In twice as many, epochs that fail often, and another cadence from where they failed; often the last runs first."""


def simulate_changing(seed: int, *, trace: list[str] | None = None) -> Outcome:
    """Run the history of *seed*; the same again whenever it is asked for.

    :param trace: is filled with a line for each thing that happens.
    """
    random = Random(seed)
    scheduler = Scheduler(random, ZERO + _DUE + timedelta(minutes=random.randrange(45, 60)), trace)
    defaults = replace(
        DEFAULTS,
        rewrites_remembered=random.choice((3, 32)),
        orphan_grace=timedelta(hours=2),
        versions_in_page=10,
    )
    violation = ""
    with small_records(random.choice((SMALL_RECORD_BYTES, codec.MAX_RECORD_BYTES))):
        kind = seed % _BINDING
        rare = seed % (2 * _BINDING)
        world = ChangingWorld(
            scheduler,
            random,
            defaults,
            binds=kind == _BINDS,
            counts=rare == _COUNTS,
            renames=rare == _RENAMES,
            turns=kind in _TURNS,
        )
        try:
            _live(world, Airflow(world))
        except Violation as found:
            violation = str(found)
        finally:
            scheduler.close()
    return world.outcome(seed, violation)


_BEHIND = "behind"
"""Runs that compute what stands behind its source."""
_REGRET = "regret"
"""Runs that compute what was skipped: they wait until its inputs are there."""


def _early(world: ChangingWorld, job: Version) -> float:
    """How likely *job* is there from the start: readers come late where a source is to be bound anew before."""
    return 0.3 if world.binds and job.late is None else 0.75


_PARTING = [Change.ADDED, Change.ADDED, Change.BACK, Change.BACK, Change.LEFT]
_TIMES = [*(Change.FINER,) * 4, *(Change.COARSER,) * 2, *(Change.ORIGIN,) * 3]
_EMPHASES = (_TIMES, _TIMES, _PARTING)
"""What a domain's author is fond of: a change that is rare among six shows nothing."""


class Airflow:
    """Starts what is to run, tries again what failed, and lets people do what they do."""

    def __init__(self, world: ChangingWorld) -> None:
        self.world = world
        random = world.random
        self.deployed = {
            job.job: Deployment([job], job if random.random() < _early(world, job) else None)
            for job in world.jobs
        }
        self._tasks: dict[tuple[str, Interval], Task] = {}
        self._again: list[Task] = []
        self._told: dict[tuple[str, Interval], str] = {}
        self._asked: object = None
        self._missing: list[tuple[Version, Interval]] = []
        self._left: list[tuple[Version, Interval]] = []
        self._extra = 3 * world.length
        self._running: list[Process] = []
        self._processes = 0
        self.quiet = False
        most = 6 if world.turns else world.length
        self.due = 2 if world.counts or world.renames else random.randrange(1, most + 1)
        self._pace = 0.2 if world.counts else 0.1 if world.renames else 0.06
        often = (0.2, 0.4, 0.6) if world.counts else (0.3, 0.5, 0.7) if world.turns else (0.0, 0.1, 0.2, 0.5)
        self._fails = random.choice(often)
        self._backwards = world.turns and random.random() < 0.9
        for barrier in range(1, world.length + 1):
            if random.random() < 0.9:
                world.landing.land(hour(barrier))
        changes = random.sample(list(Change), random.choice((1, 2, 3, len(Change))))
        emphasis = random.choice(_EMPHASES)
        changes += emphasis
        self._parts = emphasis is _PARTING and not (world.binds or world.counts)
        habits = [*random.sample(_HABITS, random.choice((1, 2, 3, len(_HABITS)))), *random.choice(_MORE)]
        if world.counts:
            habits = [*habits, *("skip",) * (len(habits) + 1), "land"]
            changes = [change for change in changes if change not in CALENDARS]
        if world.binds:
            habits = [*habits, *("bind",) * (len(habits) + 2)]
            changes = [
                change for change in changes if change not in (*CALENDARS, Change.ORIGIN, Change.RENAMED)
            ]
        if world.renames:
            habits = [*habits, *("land",) * (len(habits) + 2), "skip", "skip"]
            changes = [change for change in changes if change not in (*CALENDARS, Change.RENAMED)]
            changes += [Change.RENAMED] * (2 * len(changes) + 1)
        author = Author(world, self.deployed, changes, lambda: self.quiet)
        quiet, told = (lambda: self.quiet), self.reasons
        self.operator = Operator(world, self.deployed, quiet, self.stuck, self.missing, told, habits)
        world.scheduler.spawn("author", author.run)
        self._stream: Process | None = None
        if world.streams:
            self._stream = world.scheduler.spawn("stream", Stream(world, lambda: self.quiet).run)
        world.scheduler.spawn("airflow", self._live)
        self._operating: Process | None = None
        self._reading: Process | None = None

    # --- what is left ------------------------------------------------------------------------------------------

    def missing(self) -> list[tuple[Version, Interval]]:
        """Epochs of the newest declarations that some table lacks, and whose inputs are there."""
        refused = sum(task.refused for task in self._tasks.values()) if self.quiet else 0
        now = tuple(deployment.runs for deployment in self.deployed.values())
        asked = self.world.truth.changes, refused, self.due, len(self.world.unwritten), now
        if asked != self._asked:
            self._asked, self._missing = asked, self._look_for_missing()
            self._left = self._look_for_left()
        return self._missing

    def left(self) -> list[tuple[Version, Interval]]:
        """Those of them that must be computed: nothing visible stands before them."""
        self.missing()
        return self._left

    def behind(self) -> list[tuple[str, Interval]]:
        """Committed epochs that must be computed again: their source was bound anew."""
        return sorted(self.world.truth.behind())

    def _look_for_missing(self) -> list[tuple[Version, Interval]]:
        found = []
        for job in self.deployed.values():
            version = job.runs
            if version is not None:
                found += [
                    (version, epoch) for epoch in version.epochs(self.due) if self._lacks(version, epoch)
                ]
        return found

    def _lacks(self, version: Version, epoch: Interval) -> bool:
        truth = self.world.truth
        if any(truth.overlapped(table, epoch) for table in version.outputs):
            return False
        lacking = [output for output in version.outputs if not truth.has(output, epoch)]
        fresh = [
            read for read in version.reads if read.table in version.outputs and read.table not in truth.owners
        ]
        if fresh and version.origin is not None and epoch.start > hour(version.origin):
            return False  # its own past is to be computed first
        reads = [read for read in version.reads if read not in fresh]
        return bool(lacking) and truth.ready(reads, epoch)

    def _look_for_left(self) -> list[tuple[Version, Interval]]:
        truth, found = self.world.truth, []
        for version, epoch in self._missing:
            if version.job not in truth.jobs and self.quiet and self._refused(version):
                continue  # the topology does not hold it
            if self._waits_for_columns(version, epoch):
                continue
            computed = (version.job, epoch.start) in truth.committed
            origins = [truth.origin(table, truth.csn) for table in version.outputs]
            early = any(origin is not None and epoch.start < origin for origin in origins)
            for table, origin in zip(version.outputs, origins, strict=True):
                begins = origin <= epoch.start if origin is not None else not (computed or early)
                if not truth.has(table, epoch) and begins:
                    found.append((version, epoch))
                    break
        return found

    def _waits_for_columns(self, version: Version, epoch: Interval) -> bool:
        """Whether it, or one it waits for, is to be skipped once a later one has written all tables of its job."""
        if (version.job, epoch) in self.world.unwritten:
            return True
        task = self._tasks.get((version.job, epoch))
        skips = [f"skip {job} {span.start.isoformat()}/" for job, span in self.world.unwritten]
        return task is not None and any(skip in (task.reason or "") for skip in skips)

    def _refused(self, version: Version) -> bool:
        return any(task.refused > 1 for (job, _), task in self._tasks.items() if job == version.job)

    def stuck(self) -> list[tuple[str, Interval]]:
        """Epochs that were refused, or cleared and kept as they are, again and again; the earliest first."""
        left = {(version.job, epoch) for version, epoch in self.left()}
        kept = {name for name, task in self._tasks.items() if task.generation > _CLEARED}
        stuck = [
            name for name, task in self._tasks.items() if (task.refused > 1 or name in kept) and name in left
        ]
        return sorted(stuck, key=lambda name: name[1].start)  # later ones may wait for them

    @property
    def finished(self) -> bool:
        self._running = [process for process in self._running if not process.over]
        streams = self._stream is not None and not self._stream.over
        return not self._running and not streams and not self.left() and not self.behind()

    def reasons(self) -> list[str]:
        """Why what is left was not computed."""
        names = [(version.job, epoch) for version, epoch in self.left()]
        told = {name: task.reason for name, task in self._tasks.items()} | self._told
        named = dict.fromkeys((*names[:3], *self.behind()[:3]))
        return [f"{job} {epoch}: {told[job, epoch]}" for job, epoch in named if (job, epoch) in told]

    def calm(self) -> None:
        """The faults have stopped, and what is declared stays."""
        self.quiet = True
        self.world.calm()
        for deployment in self.deployed.values():
            deployment.settle(self.world.store)
            deployment.now = deployment.now and deployment.newest
        self._fails = 0.0
        self.due = self.world.length
        self._again.clear()
        for job in self.deployed.values():
            job.now, job.paused = job.newest, False
        self.world.settle_landing()

    # --- what runs ---------------------------------------------------------------------------------------------

    def _live(self, process: Process) -> None:
        while True:
            now = self.world.scheduler.clock.monotonic()
            for version, epoch in self._in_turn():
                task = self._tasks.setdefault(
                    (version.job, epoch), Task(version=version, run="scheduled", interval=epoch)
                )
                if task.answered:  # it is committed, and a table lacks it: it is cleared
                    task.generation, task.answered = task.generation + 1, False
                self._look_at(task, version, process, now)
            for task in self._again:
                self._look_at(task, task.version, process, now)
            self._told |= {
                (task.version.job, task.interval): task.reason for task in self._again if task.refused
            }
            self._again = [
                task
                for task in self._again
                if not task.answered and task.tries < self._tries(task) and not task.refused
            ]
            for job, epoch in self.behind():
                if self.quiet or self.world.random.random() < 0.06:
                    self._ask_again(job, epoch, run=f"{_BEHIND} {self._processes}")
            if self.world.regretted:
                self._ask_again(*self.world.regretted.pop(), run=_REGRET)
            self._go_on()
            self._keep()
            process.sleep(timedelta(seconds=self.world.random.uniform(1, 8)))

    def _in_turn(self) -> list[tuple[Version, Interval]]:
        """What is missing; where the last runs first, of a job whose cadence was changed the last epoch alone."""
        missing = self.missing()
        if self.quiet or not self._backwards or self.world.random.random() < _OUT_OF_TURN:
            return missing
        last = dict(missing)
        return [pair for pair in missing if len(pair[0].steps) == 1 or last[pair[0]] == pair[1]]

    def _look_at(self, task: Task, version: Version, airflow: Process, now: float) -> None:
        running = task.process
        if running is not None:
            if running.over:
                pause = self.world.random.uniform(1, 30) * (1 + 4 * min(task.refused, 20))
                task.process, task.after = None, max(0 if self.quiet else task.after, now + pause)
            elif airflow.seen - running.seen > _SILENT:
                task.process, task.after = None, now
            return
        if now < task.after:
            return
        task.tries += 1
        self._start(task, version)

    def _start(self, task: Task, version: Version) -> None:
        world, random = self.world, self.world.random
        task.version = version
        older = [
            declaration
            for declaration in self.deployed[version.job].versions
            if declaration.has_epoch(task.interval)
        ]
        named = [declaration for declaration in older if declaration.source == read_by(task.reason)]
        if named and random.random() < _BY_OLDER_NAME:
            version = random.choice(named)
        elif older and not self.quiet and (task.version.job, task.interval) in world.truth.behind():
            version = random.choice((older[0], version))  # computes a part, unless it is refused
        elif older and not self.quiet and random.random() < (0.3 if world.renames else 0.1):
            version = random.choice(older)
        # Programs outside Airflow do not number their tries: one that seemed dead has the owner of the next.
        number = 1 if world.forks else task.tries
        owner = Owner(dag_id=version.job, run_id=task.run, generation=task.generation, try_number=number)
        fails = random.random() < self._fails

        def body(process: Process) -> None:
            preparing = _SLOWLY if version.job == world.slow else timedelta(0)
            hands = world.hands(world.coordinator(process, preparing), process)
            Try(world, task, version, owner, hands, fails).run()

        self._processes += 1
        name = f"#{self._processes} {version.job} {task.interval.start:%H:%M} {task.run} {task.tries}"
        task.process = world.scheduler.spawn(name, body)
        self._running.append(task.process)

    def _think_again(self) -> None:
        """A task is cleared, or run by another: of a committed epoch, one beside a skipped one, or one under way."""
        random = self.world.random
        if self._parts and random.random() < 0.3 and (apart := self._apart()):
            version, epoch = random.choice(apart)
            self._ask_again(version.job, epoch, run="parting", version=version)
            return
        if not self._extra or random.random() > 0.15 or not self.world.truth.committed:
            return
        self._extra -= 1
        drawn = random.random()
        if drawn < 0.4 and self.world.skipped:
            job, epoch = random.choice(self.world.skipped)
            epoch = self._before(job, epoch) if random.random() < 0.4 else epoch
        elif drawn < 0.6 and self.missing():
            version, epoch = random.choice(self.missing())
            job = version.job
        else:
            known = list(self.world.truth.committed)
            if self.world.counts:  # an end that may move is that of the last one
                known = sorted(known, key=lambda name: name[1])[-2:]
            job, start = random.choice(known)
            epoch = self.world.truth.committed[job, start].interval
        self._ask_again(job, epoch)

    def _go_on(self) -> None:
        """Let a run take several epochs; until the last fault let people think again, and the next epochs be due."""
        random = self.world.random
        if not self.world.counts and random.random() < _BATCHES:
            self._together()
        if self.quiet:
            return
        self._think_again()
        if self.due < self.world.length and random.random() < self._pace:
            self.due += 1

    def _together(self) -> None:
        """Let a run compute several epochs that are missing, and commit them together."""
        deployed = [deployment.now for deployment in self.deployed.values() if deployment.now is not None]
        apart = [
            declaration
            for declaration in deployed
            if not {*declaration.outputs} & {read.table for read in declaration.reads}
        ]
        missing = {
            declaration.job: [epoch for version, epoch in self.missing() if version.job == declaration.job]
            for declaration in apart
        }
        jobs = [declaration for declaration in apart if len(missing[declaration.job]) > 1]
        if jobs and not any(task.more for task in self._again):
            version = self.world.random.choice(jobs)
            first, *more = missing[version.job][: self.world.random.choice((2, 3, 5))]
            run = f"batch {self._processes}"
            self._again.append(Task(version=version, run=run, interval=first, more=tuple(more)))
            for epoch in (
                () if self.quiet else (first, *more)
            ):  # most often nothing else computes them meanwhile
                task = self._tasks.setdefault((version.job, epoch), Task(version, "scheduled", epoch))
                task.after = self.world.scheduler.clock.monotonic() + self.world.random.choice((0, 60, 120))

    def _apart(self) -> list[tuple[Version, Interval]]:
        """Epochs, unread as yet, each with a version that sets its tables apart, as it lacks one, or joins them."""
        truth, found = self.world.truth, []
        stayed = truth.mixing.stayed.at(truth, truth.csn)
        every = (read for reads in truth.reads.values() for read in reads if not read.ignores)
        known = {(read.table, end) for read in every for end, _ in read.slices}
        for job, epoch in self._known_epochs():
            has = {table for table, owner in truth.owners.items() if owner == job and truth.has(table, epoch)}
            for version in self.deployed[job].versions if job in self.deployed else ():
                lacks, joins = (
                    has - {*version.outputs},
                    {table for table in has if (table, epoch.end) in stayed},
                )
                unread = not any((table, epoch.end) in known for table in version.outputs)
                if unread and version.has_epoch(epoch) and lacks != joins:
                    found.append((version, epoch))
        return found

    def _ask_again(
        self, job: str, epoch: Interval, run: str = "manual", version: Version | None = None
    ) -> None:
        """Let another run ask for an epoch, unless one does. :param version: of its DAG; None for what is deployed."""
        version_now = version or (self.deployed[job].now if job in self.deployed else None)
        asked = any(task.interval == epoch and task.version.job == job for task in self._again)
        if version_now is not None and version_now.has_epoch(epoch) and not asked:
            self._again.append(
                Task(version=version_now, run=f"{run} {self._extra}.{len(self._again)}", interval=epoch)
            )

    def _tries(self, task: Task) -> int:
        if task.run.startswith(_REGRET):
            return 40
        # A task that is asked for until its epoch is computed has several: else each look would start another run.
        return 1 if self.world.counts and not task.run.startswith(_BEHIND) else 4

    def _before(self, job: str, epoch: Interval) -> Interval:
        """The epoch of *job* before *epoch*, or itself when it is the first."""
        ends = {known.end: known for name, known in self._known_epochs() if name == job}
        return ends.get(epoch.start, epoch)

    def _known_epochs(self) -> list[tuple[str, Interval]]:
        return [(job, committed.interval) for (job, _), committed in self.world.truth.committed.items()]

    def _keep(self) -> None:
        world = self.world
        if self._operating is None or self._operating.over:
            self._operating = world.scheduler.spawn("operator", self.operator.run)
        if self._reading is None or self._reading.over:
            self._reading = world.scheduler.spawn("reader", self._read)

    def _read(self, process: Process) -> None:
        Reader(self.world, *self.world.readers(process), process, self.world.random).run()


def _live(world: ChangingWorld, airflow: Airflow) -> None:
    """Go on with faults until little is left, then without until all has ended (I9)."""
    least = world.random.choice((2000, 3000) if world.turns else (1000, 2000, 3000))
    turns = 0
    while (world.weather.steps < least or len(airflow.left()) > 2) and turns < _MOST_TURNS:
        turns += 1
        world.step()
    airflow.calm()
    calm = moved = world.scheduler.clock.now()
    csn = world.truth.csn
    while not airflow.finished:
        now = world.scheduler.clock.now()
        if world.truth.csn > csn:
            csn, moved = world.truth.csn, now
        late = now > max(moved, world.doubted_at) + _TIMEOUT or now > max(calm, world.doubted_at) + _MOST
        expect(
            not late,
            "I9",
            f"{(now - calm) // DEFAULTS.lock_ttl} TTLs: {airflow.reasons()} {airflow.behind()}",
        )
        world.step()
    expect(not airflow.left(), "I9", airflow.reasons())
    expect(not airflow.behind(), "I9", airflow.behind())
    _skip_again(world, airflow)
    world.check_counted()
    _clean_up(world, airflow)
    world.consult_doctor(DOMAIN)
    world.check_restored()


def _skip_again(world: ChangingWorld, airflow: Airflow) -> None:
    """A person reads what the doctor says of runs that died, and skips their epochs again (I11)."""
    world.scheduler.clock.advance(timedelta(hours=1))

    def skip(process: Process) -> None:
        coordinator = world.coordinator(process)
        for job, epoch in world.truth.failed_in_vain(skipped=True):
            try:
                airflow.operator.skip(coordinator.skip, job, epoch)
            except (
                NotReady
            ) as error:  # a table has a hole below it: the error names the command that ends both
                airflow.operator.follow(str(error), coordinator, process)

    asked = world.scheduler.spawn("skip again", skip)
    while not asked.over:
        world.step()


def _clean_up(world: ChangingWorld, airflow: Airflow) -> None:
    """A weekend later a vacuum goes through, whatever the week was like (I12)."""
    vacuumed: list[Process] = []

    def vacuum(process: Process) -> None:
        airflow.operator.vacuum(world.retention(process).vacuum)
        vacuumed.append(process)

    for _ in range(2):
        world.scheduler.clock.advance(timedelta(hours=3))
        wanted = len(vacuumed) + 1
        world.scheduler.spawn("vacuum", vacuum)
        while len(vacuumed) < wanted:
            world.step()
