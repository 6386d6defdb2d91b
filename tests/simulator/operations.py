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
from tests.simulator.cascade import DOMAIN, JOBS, KEPT, OWNERS, SKIPPED
from tests.simulator.history import expect
from tests.simulator.model import Model
from tests.simulator.scheduler import Process

_VACUUMED = 0.03
"""Share of the looks after which what attempts have left is deleted."""
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
                elif random.random() < _VACUUMED:
                    self.coordinator.retention.vacuum(DOMAIN)
                elif not self.intentions.settled:
                    self._go_on()
            except _TRY_AGAIN:
                continue

    def _skip_any(self) -> None:
        job = JOBS[self.coordinator.random.choice(SKIPPED)]
        epoch = self.coordinator.random.choice(job.epochs(self.length))
        try:
            self._skip(job.name, epoch)
        except InvalidInput as error:
            expect("no columns yet" in error.message, "R5", error.message)

    def _skip(self, job: str, epoch: Interval) -> None:
        done = self.coordinator.skip(DOMAIN, job, epoch, "nothing will come of it", by="operator")
        told = [(one.csn, one.change_set) for one in done.published]
        expect(len(told) + len(done.left) == 1, "R5", f"{job} {epoch}: {done}")
        expect(
            (job, epoch.start) in self.model.committed, "R5", f"{job} {epoch} was skipped, and is not there"
        )
        for csn, change_set in told:
            expect(self.model.change_sets.get(change_set) == csn, "R15", f"{change_set} is not at {csn}")

    def _go_on(self) -> None:
        """Retire the job, if that is meant, and bring it back, if nobody has its table by then."""
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
