"""Airflow, as far as the simulation needs it: tasks, tries, lost heartbeats, clearings and other runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import Random

from airflow_provider.domain.owner import Owner
from airflow_provider.domain.restatement import RestatementState
from tests.simulator.cascade import (
    CHANGING,
    HOUR,
    JOBS,
    KEPT,
    ORIGIN,
    OWNERS,
    SLOWED,
    SLOWED_AT,
    is_barrier,
    reads,
)
from tests.simulator.events import Event
from tests.simulator.operations import Intentions, Operating
from tests.simulator.regretting import Regret, Regretting
from tests.simulator.restated import Epoch
from tests.simulator.restating import Correction, Restating
from tests.simulator.scheduler import Process, Stopped
from tests.simulator.workers import Attempting, Task
from tests.simulator.working import Hands
from tests.simulator.world import World

_READERS = 2
_SCHEDULED = "scheduled"
_SLOWED = "slowed"
_SILENT = timedelta(seconds=90)
_REFUSED_LONGER = 15
_OFTEN_LATE = "loose"
"""A job for which only cuts of the whole domain wait, until it is inactive."""
_LATER_S = 5400
"""Seconds after which three of four domains compute the second half of the hours, and that job in twice as many: it is
inactive then, and cuts of the whole domain go on without it."""
_AT_ONCE = 3
"""Restatements that people work on at the same time."""
_OPENED = 0.03
"""Share of the looks after which a person finds a committed epoch wrong."""
_GIVEN_UP = 0.8
"""Share of these epochs that a restatement holds which is over, where there are any."""
_NEWEST = 0.9
"""Share of the others that were committed last."""
_TAKEN_BACK = 0.9
"""Share of the published restatements that are taken back."""
_RESTATES = 0.5
"""Share of the tasks that restate what others have read; the rest are refused, as runs of participants are."""
_ASKS_FOR_READ = 0.3
"""Share of the commits after which a user asks for an epoch that others have read, by a task that restates it."""
_CLEARED_EARLY = 0.02
"""Share of the looks after which a task is cleared whose output is staged for its group."""
_CLEARED_UNDER = 0.15
"""The same where another job of the group has staged what it computed of that output: it may outlive its input."""
_REGRETTED = 0.04
"""Share of the looks after which a user means to roll the domain back."""
_REGRETTED_AFTER = 12
"""Commits before the first time."""
_BY_HAND = 0.002
"""Share of the looks after which a task runs although its DAG is paused."""
_PATIENT = 0.3
"""Share of the tasks before which a user finds wrong what they are about to read: they wait for that to be staged."""


class Supervisor:
    """Starts what is to run, and believes that a process is dead when it has been silent for long.

    :ivar tasks: all tasks so far. :ivar hours: how long the domain's time is.
    :ivar corrections: what people mean to restate, each with the newest process of theirs.
    """

    def __init__(
        self, world: World, random: Random, length: int, group: tuple[str, ...] = (), *, regrets: bool = False
    ) -> None:
        self.world = world
        self.random = random
        world.model.groups.jobs = group
        world.model.rolled.intended = regrets
        self.tasks = [
            Task(world.model.groups.declared(job), run, interval)
            for job, run in (*((simulated, _SCHEDULED) for simulated in JOBS.values()), (SLOWED, _SLOWED))
            for interval in job.epochs(length)
        ]
        second_half_s = random.choice((0, _LATER_S, _LATER_S, _LATER_S))
        for task in self.tasks:
            task.patient, task.restates = random.random() < _PATIENT, random.random() < _RESTATES
            stray = task.name == "pace" and task.job is not SLOWED and task.interval.end > SLOWED_AT
            if stray:
                task.after = random.uniform(600, 3600)
            elif task.name == _OFTEN_LATE or (
                task.name == OWNERS[KEPT.name] and task.interval.start > ORIGIN
            ):
                task.after = random.uniform(0, 900 if task.name == _OFTEN_LATE else 1800)
            if second_half_s and task.interval.start >= ORIGIN + length // 2 * HOUR:
                task.after += second_half_s * (2 if task.name == _OFTEN_LATE else 1)
        self.hours = length
        self._intentions = Intentions(retires=random.random() < 0.97, revives=random.random() < 0.1)
        self.quiet = False
        self._known = 0
        self._counted, self._left = -1, 0
        self._extra, self._reruns = 2 * length, length
        self._processes = 0
        self._readers: list[Process] = []
        self._operator: Process | None = None
        self._attempts: list[Process] = []
        self.corrections: list[tuple[Correction, Process | None]] = []
        self._regrets = 0
        self._regret: Regret | None = None
        self._regretting: Process | None = None

    @property
    def finished(self) -> bool:
        """Whether all tasks are done, their processes have ended, and nothing is left for a person to do."""
        ended = all(task.done for task in self.tasks) and all(attempt.over for attempt in self._attempts)
        corrected = all(correction.settled for correction, _ in self.corrections) and self._regret is None
        return ended and corrected and self._intentions.settled and not self.world.model.refused()

    def left(self) -> int:
        """How many epochs that must be committed are not."""
        committed = self.world.model.committed
        if self._counted != self.world.model.csn:
            wanted = {(task.name, task.interval.start) for task in self.tasks if task.job.certain}
            self._counted, self._left = self.world.model.csn, sum(place not in committed for place in wanted)
        return self._left

    def live(self, process: Process) -> None:
        """What the supervising process does."""
        while True:
            now = self.world.scheduler.clock.monotonic()
            for task in self.tasks:
                if not task.done and (task.process is not None or now >= task.after):
                    self._look_at(task, process, now)
            if not (self.quiet or self._paused):
                self._think_again()
            self._keep_readers()
            self._keep_operator()
            self._keep_restating()
            self._keep_group()
            if self.world.model.rolled.intended:
                self._keep_regretting()
            self._attempts = [attempt for attempt in self._attempts if not attempt.over]
            process.sleep(timedelta(seconds=self.random.uniform(1, 6)))

    @property
    def _paused(self) -> bool:
        """Whether the DAGs are paused: only what was begun goes on, and runs that people start by hand."""
        return self.world.model.rolled.paused

    def calm(self) -> None:
        """The faults have stopped: nothing new is asked for, who stands still goes on within half a TTL."""
        self.quiet = True
        now = self.world.scheduler.clock.monotonic()
        for task in self.tasks:
            task.after = min(task.after, now + _REFUSED_LONGER)
        self.world.calm()

    def _look_at(self, task: Task, supervisor: Process, now: float) -> None:
        running = task.process
        if running is not None:
            if running.over:
                pause = self.random.uniform(1, 30) * (_REFUSED_LONGER if task.refused else 1)
                task.process, task.after, task.refused = None, now + pause, False
                return
            if supervisor.seen - running.seen <= _SILENT:
                return
            task.process, task.after = None, now
        if task.restatement:
            self._look_at_member(task, task.restatement, now)
            return
        if self._paused and not self._is_begun(task) and self.random.random() > _BY_HAND:
            return
        ready = self._ready(task)
        if self.quiet and self._intentions.settled and not ready and not task.job.certain:
            task.done = True
        elif (ready and not self._waits(task)) or (task.job is not SLOWED and self.random.random() < 0.001):
            task.tries += 1
            self._start(task)

    def _is_begun(self, task: Task) -> bool:
        """Whether *task* has an attempt, or its barrier waits for it: its tries end also while the DAG is paused."""
        now, place, groups = (
            self.world.scheduler.clock.now(),
            (task.name, task.interval.start),
            self.world.model.groups,
        )
        waits = any(groups.is_open(name) and place in groups.members(name) for name in groups.records)
        return waits or self.world.model.rolled.was_held(place, now, now)

    def _waits(self, task: Task) -> bool:
        """Whether what *task* reads is restated, or about to be, and not ready to be published."""
        model = self.world.model
        if self.quiet or not task.patient:
            return False
        read, restated = model.read_by(task.name, task.interval, minds=True), model.restated
        if task.tries == 0 and read & {*model.committed}:
            task.tries += 1
            newest = max(read & {*model.committed}, key=lambda epoch: model.committed[epoch].csn)
            self._correct(newest)
        return any(
            read & {(correction.job, correction.span.start), *restated.members(correction.name)}
            for correction, _ in self.corrections
            if not (correction.settled or correction.ready)
        )

    def _look_at_member(self, task: Task, name: str, now: float) -> None:
        """A restatement's run ends with it; until then it goes on when the members that a task reads are staged."""
        model = self.world.model
        if model.restated.is_over(name, self.world.scheduler.clock.now()) and self.random.random() < 0.5:
            task.done = True
        elif self.random.random() < 0.02 or not (
            model.unstaged(name) & model.read_by(task.name, task.interval)
        ):
            task.tries += 1
            self._start(task)
        else:
            task.after = now + self.random.uniform(1, 10)

    def _ready(self, task: Task) -> bool:
        """Whether the inputs of *task* are there; asked once for each commit."""
        csn = self.world.model.csn
        if task.asked != csn or task.name in self.world.model.groups.jobs:
            task.asked, task.ready = csn, self._has_inputs(task)
        return task.ready

    def _has_inputs(self, task: Task) -> bool:
        model = self.world.model
        if task.name in CHANGING:
            return self._may_run(task)
        start, end = task.interval.start, task.interval.end
        for table, (_, high) in reads(task.name, task.interval).items():
            of_group = high == end and model.groups.stages_first(task.name, start, table, model.committed)
            if of_group and not model.is_staged_at(OWNERS[table], start):
                return False
            until, origin = (start if of_group else high), JOBS[OWNERS[table]].job.origin
            if origin is not None and until <= origin:
                continue
            chain = model.chain(table, model.csn)
            if chain is None or chain[1] < until or chain[0] >= until:
                return False
        return True

    def _may_run(self, task: Task) -> bool:
        """Whether the topology will let *task* run, as it stands."""
        model = self.world.model
        if task.name == "pace":
            return (
                task.name in model.heard
                if task.job is SLOWED
                else is_barrier("pace", task.interval.end, slowed="pace" in model.slowed)
            )
        return model.owners.get("kept", "keeper") == task.name or (
            task.name == "successor" and "kept" in model.ended
        )

    def _start(self, task: Task) -> None:
        owner = Owner(dag_id=task.name, run_id=task.run, generation=task.generation, try_number=task.tries)

        def body(process: Process) -> None:
            world = self.world
            hands = Hands(
                world.coordinator(process, poor=task.name in world.model.groups.jobs),
                process,
                self.random,
                world.model,
                world.count,
            )
            with self._crashing(task.restatement), self._crashing_beside(task):
                Attempting(task, owner, hands, world.model).run()

        task.last = self.quiet and self._intentions.settled
        task.process = self._spawn(f"{task.name} {task.interval.start:%d %H} {task.run} {task.tries}", body)
        self._attempts.append(task.process)

    def _spawn(self, name: str, body: Callable[[Process], None]) -> Process:
        self._processes += 1
        return self.world.scheduler.spawn(f"#{self._processes} {name}", body)

    def _think_again(self) -> None:
        """A user clears a task that has committed, or starts another run."""
        if self.world.model.csn == self._known:
            return
        self._known = self.world.model.csn
        read = self._read_by_others() if self._reruns and self.random.random() < _ASKS_FOR_READ else None
        if read is not None:
            self._reruns -= 1
            self._ask_again(read, restates=True)
            return
        if not self._extra:
            return
        task = self.random.choice(self.tasks[-40:] if self.random.random() < 0.3 else self.tasks)
        committed = (task.name, task.interval.start) in self.world.model.committed
        if not committed and self.random.random() < 0.5:
            return
        self._extra -= 1
        self._ask_again(task, restates=self.random.random() < _RESTATES)

    def _ask_again(self, task: Task, *, restates: bool) -> None:
        if task.done and task.run == _SCHEDULED and self.random.random() < 0.6:
            task.generation, task.done = task.generation + 1, False
        else:
            self.tasks.append(Task(task.job, f"manual {len(self.tasks)}", task.interval, restates=restates))

    def _read_by_others(self) -> Task | None:
        """A task that restates what others have read, of a DAG that has an open restatement if there is one."""
        model = self.world.model
        opened = [
            record for record in model.restated.records.values() if record.state is RestatementState.OPEN
        ]
        dags = {record.rerun_of for record in opened}
        members = {(str(job), interval) for record in opened for job, interval in record.epochs}
        some = [task for task in self.tasks if task.restates and (task.name, task.interval) not in members]
        self.random.shuffle(some)
        for task in sorted(some, key=lambda candidate: candidate.name not in dags):
            is_committed = (task.name, task.interval.start) in model.committed
            if is_committed and model.is_read(task.name, task.interval):
                return task
        return None

    def _keep_readers(self) -> None:
        self._readers = [reader for reader in self._readers if not reader.over]
        while len(self._readers) < _READERS:
            self._readers.append(self._spawn("reader", self._read))

    def _keep_restating(self) -> None:
        """Let people go on with what they correct, and others begin."""
        committed = self.world.model.committed
        if committed and self.random.random() < _OPENED:
            self._correct(self.random.choice(self._given_up() or self._newest() or sorted(committed)))
        known = {correction.name for correction, _ in self.corrections}
        for name, record in self.world.model.restated.records.items():
            if record.rerun_of and name not in known:
                self.corrections.append((Correction.of_rerun(self.random, name, record), None))
        self.corrections += [(revert, None) for revert in self._regretted()]
        for place, (correction, process) in enumerate(self.corrections):
            if not correction.settled and (process is None or process.over):
                self.corrections[place] = (
                    correction,
                    self._spawn(correction.name, partial(self._restate, correction)),
                )

    def _given_up(self) -> list[Epoch]:
        """Return, mostly, the committed epochs that a restatement holds which is over: its attempts were not ended."""
        if self.random.random() >= _GIVEN_UP:
            return []
        model, now = self.world.model, self.world.scheduler.clock.now()
        held = {place: model.epochs[place].attempt for place in model.committed if place in model.epochs}
        names = {place: attempt.restated_by for place, attempt in held.items() if attempt is not None}
        return sorted(
            place
            for place, name in names.items()
            if name in model.restated.records and model.restated.is_over(name, now)
        )

    def _newest(self) -> list[Epoch]:
        """Return, mostly, the epochs that were committed last: others will read them."""
        if self.random.random() >= _NEWEST:
            return []
        committed = self.world.model.committed
        return sorted(committed, key=lambda place: (committed[place].csn, place))[-5:]

    def _regretted(self) -> Iterator[Correction]:
        """Yield the reverts of corrections that turn out wrong. Drawn apart: other draws are the same without them."""
        restated = self.world.model.restated
        known = {correction.name for correction, _ in self.corrections}
        for correction, _ in self.corrections:
            csn = restated.csns.get(correction.name)
            if correction.reverts or csn is None or f"{correction.name}-reverted" in known:
                continue
            random = Random(f"{correction.name} at {csn}")
            if random.random() < _TAKEN_BACK:
                yield Correction.of_revert(random, correction, restated.members(correction.name))

    def _correct(self, place: Epoch) -> None:
        """A person finds a committed epoch wrong, unless enough are being corrected.

        A revert that waits for later readers is no work yet.
        """
        restated = self.world.model.restated
        at_work = sum(
            not correction.settled and (correction.reverts is None or restated.is_open(correction.name))
            for correction, _ in self.corrections
        )
        idle = self.quiet or self._paused
        if not idle and len(self.corrections) < 2 * self.hours and at_work < _AT_ONCE:
            epoch = self.world.model.committed[place]
            drawn = Correction.drawn(self.random, len(self.corrections), epoch)
            self.corrections.append((drawn, None))

    def _restate(self, correction: Correction, process: Process) -> None:
        world = self.world
        with self._crashing(correction.name):
            Restating(
                world.coordinator(process, poor=True),
                process,
                world.model,
                correction,
                self.tasks.append,
                world.count,
                world.scheduler.clock.now,
                lambda: self.quiet or self._paused,
            ).run()

    def _keep_regretting(self) -> None:
        """Let a person go on with what is to be rolled back, or begin; have computed again what was taken back."""
        model = self.world.model
        if self._regret is None:
            able = not self.quiet and self._regrets < 2 * self.hours and model.csn > _REGRETTED_AFTER
            if able and self.random.random() < _REGRETTED:
                self._regrets += 1
                self._regret = Regret.drawn(self.random, self._regrets)
        elif self._regretting is None or self._regretting.over:
            done, self._regretting = self._regret.settled, None
            if done:
                self._regret, model.rolled.paused = None, False
            else:
                self._regretting = self._spawn(self._regret.why, partial(self._roll_back, self._regret))
        if self._paused:
            return
        last = model.rolled.last()
        newest = max(last.values(), default=0)
        for task in self.tasks if last else ():
            place, over = (task.name, task.interval.start), task.process is None or task.process.over
            if task.done and over and task.run in (_SCHEDULED, _SLOWED) and place not in model.committed:
                self._clear_gone(task, last.get(place, 0))
                if task.has_readers and newest > task.cleared:  # they may be gone
                    task.has_readers = False
                    _clear(task, newest)

    def _clear_gone(self, task: Task, csn: int) -> None:
        """Clear a task whose epoch the rollback *csn* has taken back: once, if its job need not compute each epoch."""
        waits = self.world.model.is_staged_at(task.name, task.interval.start)  # for the others of its group
        if not waits and csn > (0 if task.job.certain else task.cleared):
            _clear(task, csn)

    def _roll_back(self, regret: Regret, process: Process) -> None:
        world = self.world
        now = world.scheduler.clock.now
        coordinator = world.coordinator(process, poor=True, steady=True)
        Regretting(
            coordinator, process, world.model, regret, world.count, now, lambda: self.quiet, world.lags
        ).run()

    @contextmanager
    def _crashing(self, restatement: str | None) -> Iterator[None]:
        """Count a crash of a process that computes, or publishes, a restatement of which a part is staged."""
        model = self.world.model
        try:
            yield
        except Stopped:
            if restatement and model.restated.is_open(restatement):
                staged, all_of_it = model.staged(restatement), model.restated.members(restatement)
                if 0 < len(staged) < len(all_of_it):
                    self.world.count(Event.HALF_RESTATED)
                    if model.restated.records[restatement].reverts:
                        self.world.count(Event.HALF_REVERTED)
            raise

    @contextmanager
    def _crashing_beside(self, task: Task) -> Iterator[None]:
        """Count a crash of a process that computes a member of a group of which a part is staged."""
        model = self.world.model
        try:
            yield
        except Stopped:
            if task.name in model.groups.jobs:
                staged = [model.is_staged_at(job, task.interval.start) for job in model.groups.jobs]
                if any(staged):
                    self.world.count(Event.HALF_GROUP)
            raise

    def _keep_group(self) -> None:
        """Let a user clear the tasks of a barrier that waits for what no task computes any more.

        No user does where all members are staged by what is staged now: then the last one must have published.
        """
        groups = self.world.model.groups
        mine = [task for task in self.tasks if task.name in groups.jobs and task.run == _SCHEDULED]
        for start in sorted({task.interval.start for task in mine}):
            tasks = [
                task
                for task in mine
                if task.interval.start == start and (task.name, start) not in self.world.model.committed
            ]
            ended = all(task.done and (task.process is None or task.process.over) for task in tasks)
            self._clear_early(tasks)
            if not (self.quiet or self.random.random() < 0.1):
                continue
            for job in self.world.model.stalled(start):
                task = next(task for task in tasks if task.name == job)
                over = task.process is None or task.process.over
                if task.done and over and (ended or not self.world.model.is_staged_at(job, start)):
                    task.generation, task.done = task.generation + 1, False

    def _clear_early(self, tasks: list[Task]) -> None:
        """Sometimes clear a task whose output is staged while its barrier waits for others."""
        staged = [
            task
            for task in tasks
            if task.done and self.world.model.is_staged_at(task.name, task.interval.start)
        ]
        for place, task in enumerate(staged, start=1):
            share = _CLEARED_UNDER if place < len(staged) else _CLEARED_EARLY
            if not self.quiet and self.random.random() < share:
                task.generation, task.done = task.generation + 1, False

    def _keep_operator(self) -> None:
        if self._operator is None or self._operator.over:
            self._operator = self._spawn("operator", self._operate)

    def _operate(self, process: Process) -> None:
        coordinator, model = self.world.coordinator(process), self.world.model
        Operating(coordinator, process, model, self._intentions, lambda: self.quiet, self.hours).run()

    def _read(self, process: Process) -> None:
        self.world.reading(process).run()


def _clear(task: Task, csn: int) -> None:
    """Clear *task* after the rollback *csn*."""
    task.cleared, task.generation, task.done = csn, task.generation + 1, False
