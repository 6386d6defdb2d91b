"""A person who operates the domain: skips what checks have refused, vacuums, retires a job, thinks better of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    Fenced,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
    TopologyError,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.tables.errors import WarehouseUnavailable
from tests.simulator.cascade import DOMAIN, HOUR, JOBS, KEPT, OWNERS, SKIPPED
from tests.simulator.history import expect
from tests.simulator.model import Model
from tests.simulator.scheduler import Process

_VACUUMED = 0.03
"""Share of the looks after which what attempts have left is deleted."""
_ABANDONED = 0.15
"""Share of the looks at an open barrier of a group that end with its end; the others skip one of its jobs."""
_TRY_AGAIN = (
    Conflict,
    EpochBusy,
    Fenced,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
    UnknownName,
    WarehouseUnavailable,
)


@dataclass(slots=True)
class Intentions:
    """What the person means to do with the job that has a successor; survives the processes in which it is done.

    :ivar settled: nothing more is meant.
    """

    retires: bool
    revives: bool
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Operating:
    """One process of that person.

    :param quiet: whether nothing new is to be begun. :param length: hours of the domain.
    """

    coordinator: EpochService
    process: Process
    model: Model
    intentions: Intentions
    quiet: Callable[[], bool]
    length: int

    def run(self) -> None:
        """Do for ever what is to be done."""
        random = self.coordinator.random
        while True:
            self.process.sleep(timedelta(seconds=random.uniform(5, 40)))
            refused = self.model.refused()
            try:
                if refused and (self.quiet() or random.random() < 0.5):
                    self._skip(*random.choice(refused))
                elif not self.quiet() and random.random() < 0.1:
                    self._skip_any()
                elif self.model.groups.jobs and random.random() < 0.15:
                    self._look_at_groups()
                elif random.random() < _VACUUMED:
                    self.coordinator.retention.vacuum(DOMAIN)
                elif not self.intentions.settled:
                    self._go_on()
            except _TRY_AGAIN:
                continue

    def _look_at_groups(self) -> None:
        """Abandon a barrier of the group, skip one of its jobs, or publish what an interrupted skip has left."""
        groups, random = self.model.groups, self.coordinator.random
        opened = sorted(name for name in groups.records if groups.is_open(name))
        if not opened:
            return
        name = random.choice(opened)
        job, start = random.choice(groups.members(name))
        try:
            if self.quiet():
                self.coordinator.restatements.publish(DOMAIN, name)
                return
            abandons = random.random() < _ABANDONED
            if abandons:
                self.coordinator.restatements.abandon(DOMAIN, name, reason="once more", by="operator")
        except InvalidInput:
            if groups.is_open(name):
                raise
            return  # others have ended it meanwhile
        if abandons:
            left = [member for member in groups.members(name) if self.model.is_staged_at(*member)]
            gone = groups.is_open(name) or name in groups.csns or not left
            expect(gone, "R40", f"{name} was abandoned, and has {left} staged")
        elif (job, start) not in self.model.committed and not JOBS[job].job.sources:
            self._skip_if_known(job, Interval(start, start + HOUR))

    def _skip_any(self) -> None:
        job = JOBS[self.coordinator.random.choice(SKIPPED)]
        self._skip_if_known(job.name, self.coordinator.random.choice(job.epochs(self.length)))

    def _skip_if_known(self, job: str, epoch: Interval) -> None:
        """Skip it, unless no epoch of its job was ever committed."""
        try:
            self._skip(job, epoch)
        except InvalidInput as error:
            expect("no columns yet" in error.message, "R5", error.message)

    def _skip(self, job: str, epoch: Interval) -> None:
        before = self.model.csn
        done = self.coordinator.skip(DOMAIN, job, epoch, "nothing will come of it", by="operator")
        told = [(published.csn, published.change_set) for published in done.published]
        expect(len(told) + len(done.left) == 1, "R5", f"{job} {epoch}: {done}")
        place = job, epoch.start
        there = place in self.model.committed or self.model.rolled.last().get(place, 0) > before
        expect(there, "R5", f"{job} {epoch} was skipped, and is not there, nor was it rolled back since")
        for csn, change_set in told:
            expect(self.model.change_sets.get(change_set) == csn, "R15", f"{change_set} is not at {csn}")

    def _go_on(self) -> None:
        """Retire the job, if that is meant, and bring it back, if no other job has its table by then."""
        job, table, intentions = OWNERS[KEPT.name], str(KEPT.name), self.intentions
        mine = self.model.owners.get(table, job) == job
        if table in self.model.ended and intentions.revives:
            try:
                self.coordinator.revive(DOMAIN, job)
            except TopologyError:
                expect(self.model.owners[table] != job, "R7", f"{job} was not brought back, and has {table}")
        elif table not in self.model.ended and mine and intentions.retires and not self.quiet():
            self.coordinator.retire(DOMAIN, job, reason="another goes on", by="operator")
            intentions.settled = not intentions.revives
            return
        intentions.settled = True
