"""Processes that take turns, in virtual time.

A process gives the baton back at each call of the store or of a table format, and when it sleeps. Who goes on
is drawn from the seed, so that one seed is one order, on every machine.

Each process has a stack of its own (a greenlet), so that the code that runs needs no ``await``. Threads would
do too; but each turn would wait for the operating system, some milliseconds when the machine is busy.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import blake2b
from random import Random

from greenlet import getcurrent, greenlet

from airflow_provider.testing.manual_clock import ManualClock

_STEP_MS = (20, 100, 300, 600)
_NO_TIME = timedelta(0)


class Stopped(BaseException):
    """The process ends here, as after ``kill -9``: nothing that it had in mind happens, no handler catches this."""


class Process:
    """A program that runs while it has the baton.

    :ivar wakes: when it may run again. :ivar seen: when it last ran. :ivar commands: number that its body has begun,
        each of which may publish.
    :ivar error: what its body raised, other than :class:`Stopped`.
    """

    def __init__(self, scheduler: Scheduler, name: str, body: Callable[[Process], None]) -> None:
        self.name = name
        self.wakes = self.seen = scheduler.clock.now()
        self.commands = 0
        self.error: Exception | None = None
        self._scheduler = scheduler
        self._body = body
        self._stack = greenlet(self._live, parent=scheduler.stack)

    @property
    def over(self) -> bool:
        return bool(self._stack.dead)

    def sleep(self, duration: timedelta = _NO_TIME) -> None:
        """Give the baton back; return when it is this process's turn, not before *duration* has passed.

        :raises Stopped: the process is to end.
        """
        self.wakes = self._scheduler.clock.now() + max(duration, _NO_TIME)
        self._scheduler.stack.switch()

    def go(self) -> None:
        """Give it the baton; return when it gives it back (the scheduler's side)."""
        self.seen = self._scheduler.clock.now()
        self._stack.switch()

    def stop(self) -> None:
        """End it where it stands (the scheduler's side)."""
        if self._stack:  # it has begun, and has not ended
            self._stack.throw(Stopped)

    def _live(self) -> None:
        try:
            self._body(self)
        except Stopped:
            pass
        except Exception as error:  # noqa: BLE001 - the simulation reports it
            self.error = error


class Scheduler:
    """Owns the baton, the virtual time and the trace.

    :param lines: is filled with the trace as text.
    :ivar clock: the store's clock, and what the processes' own clocks are made of. :ivar stack: its own, to which each
        process gives the baton back, also one that another process has started.
    """

    def __init__(self, random: Random, start: datetime, lines: list[str] | None = None) -> None:
        self.random = random
        self.clock = ManualClock(start)
        self.processes: list[Process] = []
        self.stack = getcurrent()
        self._trace = blake2b(digest_size=16)
        self._lines = lines

    @property
    def trace_hash(self) -> str:
        """Hash over everything that has happened: equal for equal seeds."""
        return self._trace.hexdigest()

    def note(self, text: str) -> None:
        """Append a line to the trace."""
        line = f"{self.clock.monotonic():.3f} {text}"
        self._trace.update(line.encode())
        if self._lines is not None:
            self._lines.append(line)

    def spawn(self, name: str, body: Callable[[Process], None]) -> Process:
        """Start a process; it runs when its turn comes."""
        process = Process(self, name, body)
        self.processes.append(process)
        return process

    def step(self) -> Process:
        """Let one process run until it gives the baton back; time goes on a little.

        When all sleep, time goes on to the first that wakes.
        """
        now = self.clock.now()
        ready = [process for process in self.processes if process.wakes <= now]
        if not ready:
            self.clock.advance(min(process.wakes for process in self.processes) - now)
            now = self.clock.now()
            ready = [process for process in self.processes if process.wakes <= now]
        process = self.random.choice(ready)
        process.go()
        if process.over:
            self.processes.remove(process)
        self.clock.advance(timedelta(milliseconds=self.random.choice(_STEP_MS)))
        return process

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.stop()
        self.processes.clear()


class OwnClock:
    """The clock of one process: off by *offset*, and *rate* times as fast as the store's."""

    def __init__(self, process: Process, true: ManualClock, *, offset: float, rate: float) -> None:
        self._process = process
        self._true = true
        self._offset = offset
        self._rate = rate

    def monotonic(self) -> float:
        return self._offset + self._rate * self._true.monotonic()

    def sleep(self, duration: timedelta) -> None:
        self._process.sleep(duration / self._rate)
