"""Airflow, as far as the simulation needs it: tasks, tries, lost heartbeats, clearings and other runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Owner
from airflow_provider.testing.simulation.cascade import JOBS, OWNERS, reads
from airflow_provider.testing.simulation.scheduler import Process
from airflow_provider.testing.simulation.workers import Attempting, Task
from airflow_provider.testing.simulation.world import World

_READERS = 2
_SCHEDULED = "scheduled"
_SILENT = timedelta(seconds=90)


class Supervisor:
    """Starts what is to run, and believes that a process is dead when it has been silent for long.

    :ivar tasks: all tasks so far.
    """

    def __init__(self, world: World, random: Random, length: int) -> None:
        self.world = world
        self.random = random
        self.tasks = [
            Task(name, _SCHEDULED, interval) for name, job in JOBS.items() for interval in job.epochs(length)
        ]
        self.quiet = False
        self._known = 0
        self._counted, self._left = -1, 0
        self._extra = 2 * length
        self._processes = 0
        self._readers: list[Process] = []
        self._attempts: list[Process] = []

    @property
    def finished(self) -> bool:
        """Whether all tasks are done and all their processes have ended."""
        return all(task.done for task in self.tasks) and all(one.over for one in self._attempts)

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
            self._attempts = [one for one in self._attempts if not one.over]
            process.sleep(timedelta(seconds=self.random.uniform(0.5, 3)))

    def calm(self) -> None:
        """The faults have stopped: nothing new is asked for, who stands still goes on within half a TTL."""
        self.quiet = self.world.weather.clear = True
        soon = self.world.scheduler.clock.now() + DEFAULTS.lock_ttl / 2
        for process in self.world.scheduler.processes:
            process.wakes = min(process.wakes, soon)

    def _look_at(self, task: Task, supervisor: Process, now: float) -> None:
        running = task.process
        if running is not None:
            if running.over:
                task.process, task.after = None, now + self.random.uniform(1, 30)
                return
            if supervisor.seen - running.seen <= _SILENT:
                return
            task.process, task.after = None, now
        ready = self._ready(task)
        if self.quiet and not ready and not task.job.certain:
            task.done = True
        elif ready or self.random.random() < 0.001:
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
        for table, (_, high) in reads(task.name, task.interval).items():
            origin = JOBS[OWNERS[table]].job.origin
            if origin is not None and high <= origin:
                continue
            chain = model.chain(table, model.csn)
            if chain is None or chain[1] < high or chain[0] >= high:
                return False
        return True

    def _start(self, task: Task) -> None:
        owner = Owner(dag_id=task.name, run_id=task.run, generation=task.generation, try_number=task.tries)

        def body(process: Process) -> None:
            world = self.world
            Attempting(
                world.coordinator(process), task, owner, process, self.random, world.model, world.count
            ).run()

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
            self.tasks.append(Task(task.name, f"manual {len(self.tasks)}", task.interval))

    def _keep_readers(self) -> None:
        self._readers = [one for one in self._readers if not one.over]
        while len(self._readers) < _READERS:
            self._readers.append(self._spawn("reader", self._read))

    def _read(self, process: Process) -> None:
        self.world.reading(process).run()
