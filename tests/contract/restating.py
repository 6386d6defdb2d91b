"""Restatements of a small cascade, for the tests of R28 to R30."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.restating.restatements import Restatements
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import DependentReaders, InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, increment, previous
from tests.contract.coordination_world import DOMAIN, Backend, Rows, World, barrier, day, owner, values_of
from tests.contract.interruptions import Died, Interruption, worker
from tests.contract.server_worlds import ServerBackend

NAME = "correct"

Jobs = tuple[Job, Job, Job]

Members = dict[str, list[int]]

OLD: Rows = {
    "b": [(1, 10), (2, 20), (3, 30)],
    "d": [(1, 11), (2, 21), (3, 31)],
    "t": [(1, 12), (2, 34), (3, 78)],
}

NEW: Rows = {
    "b": [(1, 10), (2, 1000), (3, 30)],
    "d": [(1, 11), (2, 1001), (3, 31)],
    "t": [(1, 12), (2, 1014), (3, 1058)],
}

WHY = {"reason": "no more", "by": "me"}

CLEARED = owner("restate", generation=1)


def opened(world: World, job: str, first: int, last: int | None = None, **options: object) -> None:
    span = Interval(barrier(first - 1), barrier(last or first))
    told = {"name": NAME, "reason": "the source was wrong", "by": "me", **options}
    world.coordinator.restatements.open(DOMAIN, [job], span, **told)  # type: ignore[arg-type]


def within(world: World, job: Job, number: int, by: Owner | None = None, name: str = NAME) -> Attempt:
    attempt = world.coordinator.begin_within(name, job, day(number), by or owner("restate"))
    assert isinstance(attempt, Attempt), attempt
    return attempt


def restated(
    world: World,
    job: Job,
    number: int,
    values: Sequence[int] | None = None,
    by: Owner | None = None,
    *,
    name: str = NAME,
) -> Attempt:
    """Compute one member; without *values* its row is 1 more than the sum of all rows that it reads."""
    attempt = within(world, job, number, by, name)
    write(world, attempt, values)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    return attempt


def write(world: World, attempt: Attempt, values: Sequence[int] | None) -> None:
    found = values if values is not None else [sum(read(world, attempt)) + 1]
    world.write(attempt, found)


def read(world: World, attempt: Attempt) -> list[int]:
    """Values of all rows that *attempt* reads."""
    found = []
    for given in attempt.inputs:
        state, schema = world.coordinator.input(attempt, given.table)
        if state.ref is None and not state.staged:
            continue
        found += [value for _, value in values_of(world.formats[world.table_format].read(state, schema))]
    return found


def computed(
    world: World, job: Job, number: int, values: Sequence[int] | None = None, run: str = "first"
) -> None:
    """Compute one epoch by itself, as :func:`restated` does."""
    attempt = world.begin(job, day(number), owner(run))
    write(world, attempt, values)
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)


def cascade(world: World) -> tuple[Job, Job, Job]:
    """A base, a job that reads each of its days, and one that adds to its own past."""
    base = world.job("b")
    daily = world.job("d", inputs=[increment(world.table("b"))])
    total = world.job("t", inputs=[increment(world.table("d")), previous(world.table("t"))])
    return base, daily, total


def published(world: World) -> int:
    return world.coordinator.restatements.publish(DOMAIN, NAME)


def sound(world: World) -> bool:
    lost = missing_files(world.store, world.formats, DOMAIN)
    return not [*stale_reads(world.store, DOMAIN), *lost]


def members(world: World) -> Members:
    """Days of each job that the restatement computes."""
    record = world.coordinator.restatements.status(DOMAIN, NAME).record
    return {
        found.job: [(interval.end - barrier(0)).days for interval in found.intervals]
        for found in record.members
    }


def all_restated(world: World, *jobs: Job, values: Sequence[int] | None = None) -> None:
    """Compute every member of *jobs*, a job that others read before these; the first gets *values*."""
    found = members(world)
    for job in jobs:
        for number in found.get(job.name, ()):
            restated(world, job, number, values if job is jobs[0] else None)


def run_all(world: World, jobs: Sequence[Job], days: Sequence[int]) -> None:
    for number in days:
        for job in jobs:
            computed(world, job, number, [10 * number] if job is jobs[0] else None)


def planned(world: World, **options: Any) -> Jobs:
    """Three days of a cascade, and a restatement of the second."""
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    opened(world, "b", 2, **options)
    return jobs


def ready(world: World, **options: Any) -> Jobs:
    """The same with all members staged."""
    jobs = planned(world, **options)
    finished(world, jobs)
    return jobs


def finished(world: World, jobs: Jobs) -> None:
    """Compute the members that are not staged, or not any more, as their tasks do until nothing is left."""
    for job in jobs:
        for number in members(world).get(job.name, ()):
            answer = world.coordinator.begin_within(NAME, job, day(number), owner("restate"))
            if isinstance(answer, Attempt):
                if not answer.adopted:
                    write(world, answer, [1000] if (job.name, number) == ("b", 2) else None)
                world.coordinator.complete(answer)
                world.coordinator.stage(answer)


def next_day(world: World, jobs: Jobs) -> None:
    """Compute the fourth day of all jobs by normal runs."""
    for job in jobs:
        computed(world, job, 4, [40] if job is jobs[0] else None)


def extending(world: World) -> None:
    next_day(world, ready(world))


def three_days(world: World) -> Jobs:
    jobs = cascade(world)
    run_all(world, jobs, [1, 2, 3])
    return jobs


def complete_member(world: World) -> Attempt:
    base, _, _ = planned(world)
    attempt = within(world, base, 2)
    world.write(attempt, [1000])
    world.coordinator.complete(attempt)
    return attempt


def operations(world: World) -> Restatements:
    return world.coordinator.restatements


def abandoned(world: World) -> None:
    operations(world).abandon(DOMAIN, NAME, **WHY)


def seen(world: World) -> Rows:
    return world.rows("b", "d", "t")


def states(world: World) -> dict[tuple[str, int], str]:
    """How far each member is."""
    found = operations(world).status(DOMAIN, NAME).members
    return {(member.job, (member.interval.end - barrier(0)).days): str(member.state) for member in found}


def second(own: EpochService | World, names: Sequence[str] = ("d",), number: int = 2) -> None:
    service = own.coordinator if isinstance(own, World) else own
    service.restatements.open(DOMAIN, names, day(number), name="second", reason="it, too", by="you")


def usable(world: World, jobs: Jobs) -> None:
    """Normal runs go on as if the restatement had never been: they read what is committed, and nothing is left."""
    base, daily, total = jobs
    assert world.staged() == []
    newest = members_seen(world)
    with pytest.raises(DependentReaders):
        world.begin(base, day(2), owner("normal"))
    attempt = world.begin(total, day(newest), owner("restate", 9, generation=9))
    assert not attempt.adopted
    assert attempt.restatement is None
    assert all(not given.staged for given in attempt.inputs)
    write(world, attempt, None)
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    found = seen(world)
    assert {name: values[:3] for name, values in found.items()} == OLD
    assert sound(world)
    with pytest.raises(InvalidInput, match="abandoned"):
        within(world, daily, 2)


def members_seen(world: World) -> int:
    """Number of the newest day of the last table."""
    return seen(world)["t"][-1][0]


def vacuumed(world: World) -> None:
    """Two days later the orphans go."""
    world.clock.advance(timedelta(days=2))
    world.retention.vacuum(DOMAIN)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Something that may happen again and again to the same beginning: a process dies in it, or others come in between.

    :param given: what *prepare* has returned. :param work: what a process of its own does.
    """

    backend: Backend
    world: World
    given: Any
    prepare: Callable[[World], Any]
    work: Callable[[EpochService, Any], Any]

    @classmethod
    def of(
        cls, backend: Backend, prepare: Callable[[World], Any], work: Callable[[EpochService, Any], Any]
    ) -> Prepared:
        world = backend.world()
        return cls(backend, world, prepare(world), prepare, work)

    def again(self) -> tuple[World, Any]:
        """Return another world as it is before the work, and what was given; a server's is made anew."""
        if not isinstance(self.backend, ServerBackend):
            return self.backend.copy(self.world), self.given
        world = self.backend.world()
        return world, self.prepare(world)

    def calls(self) -> int:
        """Return the number of calls of the work when nothing happens to it."""
        world, given = self.again()
        counter = Interruption(-1, lambda: None)
        self.work(worker(world, counter), given)
        world.close()
        return len(counter.calls)

    def deaths(self) -> Iterator[tuple[int, World, Any]]:
        """Yield worlds in which a process has died in the work, each before another one of its calls."""

        def die() -> None:
            raise Died

        for number in range(self.calls()):
            world, given = self.again()
            with suppress(Died):
                self.work(worker(world, Interruption(number, die)), given)
            yield number, world, given
            world.close()
        self.world.close()


def publishing(own: EpochService, _: object) -> int:
    return own.restatements.publish(DOMAIN, NAME)


def abandoning(own: EpochService, _: object) -> None:
    own.restatements.abandon(DOMAIN, NAME, **WHY)
