"""A stream beside the other jobs of a domain that changes: many short epochs of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.table_kind import TableKind
from tests.simulator.changing.attempts import Task, Try
from tests.simulator.changing.plan import ZERO, Version
from tests.simulator.changing.world import ChangingWorld
from tests.simulator.history import expect
from tests.simulator.scheduler import Process

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
        hands = world.hands(world.undisturbed(process), process)
        pause = random.choice((0.5, 1, 2))
        for generation, number in self._order():
            epoch = Interval(ZERO + number * _EVERY, ZERO + (number + 1) * _EVERY)
            process.sleep(timedelta(seconds=pause))
            owner = Owner(dag_id=job, run_id="stream", generation=generation)
            task = Task(version=version, run="stream", interval=epoch)
            for _ in range(3):  # it is fenced when it stood still for long
                Try(world, task, version, owner, hands, fails=False).run()
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
