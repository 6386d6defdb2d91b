"""Airflow, as far as the simulation needs it: tasks, tries, lost heartbeats, clearings and other runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from airflow_provider.domain.owner import Owner
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
from tests.simulator.operations import Intentions, Operating
from tests.simulator.scheduler import Process
from tests.simulator.workers import Attempting, Task
from tests.simulator.working import Hands
from tests.simulator.world import World

_READERS = 2
_SCHEDULED = "scheduled"
_SILENT = timedelta(seconds=90)
_REFUSED_LONGER = 15
_OFTEN_LATE = "loose"
"""A job for which only cuts of the whole domain wait, until it is inactive."""
_LATER_S = 5400
"""Seconds after which the second half of the hours is computed in every second domain, and that job's in twice as many:
it is inactive then, and cuts of the whole domain go on without it."""


class Supervisor:
    """Starts what is to run, and believes that a process is dead when it has been silent for long.

    :ivar tasks: all tasks so far. :ivar hours: how long the domain's time is.
    """

    def __init__(self, world: World, random: Random, length: int) -> None:
        self.world = world
        self.random = random
        self.tasks = [
            Task(job, run, interval)
            for job, run in (*((one, _SCHEDULED) for one in JOBS.values()), (SLOWED, "slowed"))
            for interval in job.epochs(length)
        ]
        second_half_s = random.choice((0, _LATER_S))
        for task in self.tasks:
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
        self._extra = 2 * length
        self._processes = 0
        self._readers: list[Process] = []
        self._operator: Process | None = None
        self._attempts: list[Process] = []

    @property
    def finished(self) -> bool:
        """Whether all tasks are done, their processes have ended, and nothing is left for a person to do."""
        ended = all(task.done for task in self.tasks) and all(one.over for one in self._attempts)
        return ended and self._intentions.settled and not self.world.model.refused()

    def left(self) -> int:
        """How many epochs that must be committed are not."""
        committed = self.world.model.committed
        if self._counted != self.world.model.csn:
            wanted = {(one.name, one.interval.start) for one in self.tasks if one.job.certain}
            self._counted, self._left = self.world.model.csn, sum(one not in committed for one in wanted)
        return self._left

    def live(self, process: Process) -> None:
        """What the supervising process does."""
        while True:
            now = self.world.scheduler.clock.monotonic()
            for task in self.tasks:
                if not task.done and (task.process is not None or now >= task.after):
                    self._look_at(task, process, now)
            if not self.quiet:
                self._think_again()
            self._keep_readers()
            self._keep_operator()
            self._attempts = [one for one in self._attempts if not one.over]
            process.sleep(timedelta(seconds=self.random.uniform(1, 6)))

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
        ready = self._ready(task)
        if self.quiet and self._intentions.settled and not ready and not task.job.certain:
            task.done = True
        elif ready or (task.job is not SLOWED and self.random.random() < 0.001):
            task.tries += 1
            self._start(task)

    def _ready(self, task: Task) -> bool:
        """Whether the inputs of *task* are there; asked once for each commit."""
        csn = self.world.model.csn
        if task.asked != csn:
            task.asked, task.ready = csn, self._has_inputs(task)
        return task.ready

    def _has_inputs(self, task: Task) -> bool:
        model = self.world.model
        if task.name in CHANGING:
            return self._may_run(task)
        for table, (_, high) in reads(task.name, task.interval).items():
            origin = JOBS[OWNERS[table]].job.origin
            if origin is not None and high <= origin:
                continue
            chain = model.chain(table, model.csn)
            if chain is None or chain[1] < high or chain[0] >= high:
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
            hands = Hands(world.coordinator(process), process, self.random, world.model, world.count)
            Attempting(task, owner, hands).run()

        task.last = self.quiet and self._intentions.settled
        task.process = self._spawn(f"{task.name} {task.interval.start:%d %H} {task.run} {task.tries}", body)
        self._attempts.append(task.process)

    def _spawn(self, name: str, body: Callable[[Process], None]) -> Process:
        self._processes += 1
        return self.world.scheduler.spawn(f"#{self._processes} {name}", body)

    def _think_again(self) -> None:
        """Somebody clears a task that has committed, or starts a run of their own."""
        if self.world.model.csn == self._known or not self._extra:
            return
        self._known = self.world.model.csn
        task = self.random.choice(self.tasks[-40:] if self.random.random() < 0.3 else self.tasks)
        committed = (task.name, task.interval.start) in self.world.model.committed
        if not committed and self.random.random() < 0.5:
            return
        self._extra -= 1
        if task.done and task.run == _SCHEDULED and self.random.random() < 0.6:
            task.generation, task.done = task.generation + 1, False
        else:
            self.tasks.append(Task(task.job, f"manual {len(self.tasks)}", task.interval))

    def _keep_readers(self) -> None:
        self._readers = [one for one in self._readers if not one.over]
        while len(self._readers) < _READERS:
            self._readers.append(self._spawn("reader", self._read))

    def _keep_operator(self) -> None:
        if self._operator is None or self._operator.over:
            self._operator = self._spawn("operator", self._operate)

    def _operate(self, process: Process) -> None:
        coordinator, model = self.world.coordinator(process), self.world.model
        Operating(coordinator, process, model, self._intentions, lambda: self.quiet, self.hours).run()

    def _read(self, process: Process) -> None:
        self.world.reading(process).run()
