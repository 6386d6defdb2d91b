"""A commit group of three jobs, for the tests of R40."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Any

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import NotReady, UnknownName
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Group, Job, increment, previous
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.restating import read

WHY = {"reason": "no more", "by": "me"}
DAY_1, DAY_2 = "flights 2024-01-02T00:00:00Z", "flights 2024-01-03T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Chain:
    """A group of three: a base, a job that reads its day, and one that adds to its own past; and who reads outside."""

    world: World
    jobs: tuple[Job, Job, Job]

    @classmethod
    def of(cls, world: World, **options: Any) -> Chain:
        group = Group("flights", jobs=["b", "d", "t"])
        return cls(world, declared(world, group, **options))

    def stage(
        self,
        job: Job,
        number: int = 1,
        by: Owner | None = None,
        values: list[int] | None = None,
    ) -> Attempt:
        attempt = self.world.begin(job, day(number), by)
        if not attempt.adopted:
            found = [10 * number] if job is self.jobs[0] else [sum(read(self.world, attempt)) + 1]
            self.world.write(attempt, values or found)
            self.world.coordinator.complete(attempt)
        self.world.coordinator.stage(attempt)
        return attempt

    def run(self, *numbers: int) -> None:
        for number in numbers:
            for job in self.jobs:
                self.stage(job, number)

    def ask(self, job: Job, number: int = 1, by: Owner | None = None) -> object:
        return self.world.coordinator.begin(job, day(number), by or owner("other"))


def declared(world: World, group: Group | None, **options: Any) -> tuple[Job, Job, Job]:
    base = world.job("b", group=group, **options)
    daily = world.job("d", inputs=[increment(world.table("b"))], group=group, **options)
    inputs = [increment(world.table("d")), previous(world.table("t"))]
    return base, daily, world.job("t", inputs=inputs, group=group, **options)


def states(world: World, name: str = DAY_1) -> dict[str, MemberState]:
    status = world.coordinator.restatements.status(DOMAIN, name)
    return {member.job: member.state for member in status.members}


def committed(world: World) -> list[list[str]]:
    """The jobs of each commit with members, in their order."""
    found = ([str(member.job) for member in commit.record.members] for commit in world.commits())
    return [sorted(jobs) for jobs in found if jobs]


def work(
    own: EpochService,
    world: World,
    jobs: tuple[Job, ...],
    by: Owner,
    number: int = 1,
    *,
    only: Job | None = None,
) -> None:
    """Compute the epochs of a day, or *only* one, in a process of its own, as the tasks of the jobs do."""
    twin = copy(world)
    twin.coordinator = own
    for job in jobs if only is None else [only]:
        attempt = own.begin(job, day(number), by)
        if not isinstance(attempt, Attempt):
            continue
        if not attempt.adopted:
            twin.write(attempt, [10 * number] if job is jobs[0] else [sum(read(twin, attempt)) + 1])
            own.complete(attempt)
        own.stage(attempt)


def parts_seen(world: World) -> set[str]:
    """The tables with a commit of the first day, each read by itself."""
    found = set()
    for name in "bdt":
        with suppress(NotReady, UnknownName):
            world.cut(name)
            found.add(name)
    return found
