"""A person who rolls the domain back: pauses its DAGs, looks at what would go, and takes that back (R30)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.rollback import RolledBack, plan_rollback, rollback
from airflow_provider.coordination.upkeep.rollback_plan import RollbackPlan, refuse
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    InvalidInput,
    OutcomeUnknown,
    StoreUnavailable,
    TopologyError,
)
from airflow_provider.tables.errors import WarehouseUnavailable
from tests.simulator.cascade import DOMAIN
from tests.simulator.events import Event
from tests.simulator.history import expect
from tests.simulator.model import Model
from tests.simulator.rollbacks import check_holders, check_plan, facts, obstacles
from tests.simulator.rolled import Made
from tests.simulator.scheduler import Process, Stopped

_TRY_AGAIN = (Conflict, OutcomeUnknown, StoreUnavailable, WarehouseUnavailable)
_FARTHEST = 16
"""Commits that are taken back at most."""
_BOLD = 0.8
_PATIENCE = 25
"""Looks after which change sets that are still open are abandoned."""
_REPEATS = 5
"""Calls of a repeated command, each of which may be lost, after which no pointer may be behind."""
_ENOUGH = 15
"""Looks after which it is let be."""
_LONGEST = 200
"""The same, with those at which the person waits."""
_WAITS = 0.9
"""Share of the looks at which the person waits for the attempts under way."""


@dataclass(slots=True)
class Regret:
    """What a person means to take back; survives the processes in which it is done.

    :param why: told as the reason. :param blind: the CSN is any, not one that nothing keeps from being gone back to.
    :param hasty: the DAGs go on once it was looked at what would go.
    :ivar to: the CSN, once chosen. :ivar waits: how often the person has looked at what is under way.
    :ivar looks: how often at what would go. :ivar settled: nothing more is meant.
    """

    why: str
    blind: bool
    hasty: bool
    to: int | None = None
    waits: int = 0
    looks: int = 0
    settled: bool = False

    @classmethod
    def drawn(cls, random: Random, number: int) -> Regret:
        return cls(why=f"regret {number}", blind=random.random() < 0.2, hasty=random.random() < 0.25)


@dataclass(frozen=True, slots=True)
class Regretting:
    """One process of that person.

    :param now: the store's time. :param quiet: whether nothing new is to be begun. :param lags: whether the catalog is
        behind what was committed of any of these tables.
    """

    coordinator: EpochService
    process: Process
    model: Model
    regret: Regret
    count: Callable[[Event], None]
    now: Callable[[], datetime]
    quiet: Callable[[], bool]
    lags: Callable[[Collection[str]], bool]

    @property
    def _random(self) -> Random:
        return self.coordinator.random

    def run(self) -> None:
        """Go on until it is taken back, or let be; then the DAGs run again."""
        while not self.regret.settled:
            self.process.sleep(timedelta(seconds=self._random.uniform(3, 12)))
            try:
                self._go_on()
            except _TRY_AGAIN:
                continue
        self.model.rolled.paused = False

    def _go_on(self) -> None:
        regret, rolled = self.regret, self.model.rolled
        regret.waits += 1
        if rolled.by(regret.why):
            self._repeat()
        elif self.quiet() or regret.looks > _ENOUGH or regret.waits > _LONGEST:
            regret.settled = True
        else:
            rolled.paused = rolled.paused or regret.to is None
            self._clear_the_way()
            if rolled.held(self.now(), self.now()) and self._random.random() < _WAITS:
                return
            regret.looks += 1
            if regret.to is None or self._random.random() < 0.3:
                regret.to = self._choose()
            if regret.to is not None:
                self._roll_back(regret.to)

    def _choose(self) -> int | None:
        """A CSN of before the last commits, which the domain can go back to, unless the person is blind.

        Mostly one that takes back what attempts under way have read.
        """
        head = self.model.csn
        some = range(max(0, head - _FARTHEST), head)
        good = [to for to in some if self.model.rolled.since(to, self.model.committed)]
        if not self.regret.blind:
            good = [to for to in good if not obstacles(self.model, to)]
        bold = [to for to in good if self.model.would_outdate(to)] if self._random.random() < _BOLD else []
        return self._random.choice(bold or good) if good else None

    def _clear_the_way(self) -> None:
        """Abandon what does not end by itself, or was abandoned in part: nothing is rolled back beside it."""
        model, patient = self.model, self.regret.waits < _PATIENCE
        for name in sorted(model.rolled.opened(self.now())):
            if name in model.groups.records:
                waits = patient and model.groups.is_open(name)
            else:
                waits = patient and not model.restated.is_over(name, self.now())
            if not waits:
                self._abandon(name)

    def _abandon(self, name: str) -> None:
        try:
            self.coordinator.restatements.abandon(DOMAIN, name, reason="in the way", by="ada")
        except InvalidInput:
            ended = not (self.model.restated.is_open(name) or name in self.model.groups.csns)
            expect(ended or name in self.model.groups.csns, "R28", f"{name} is open, and is not abandoned")

    # --- the command -------------------------------------------------------------------------------------------

    def _plan(self, to: int) -> RollbackPlan:
        before, since = facts(self.model), self.now()
        plan = plan_rollback(self.coordinator.context, str(DOMAIN), to)
        check_plan(self.model, plan, before, since, self.now())
        return plan

    def _roll_back(self, to: int) -> None:
        """Look, and take back what was shown."""
        since, before = self.now(), facts(self.model)
        plan = self._plan(to)
        if not plan.epochs:
            self.regret.to = None  # others have taken it back
            return
        try:
            refuse(plan)
            if self.regret.hasty:
                self.model.rolled.paused = False
                self.process.sleep(timedelta(seconds=self._random.uniform(0, 4)))
            told = self._call(plan)
        except TopologyError as error:
            moved = facts(self.model) != before
            expect(
                moved or bool(obstacles(self.model, to)),
                "R30",
                f"to {to} at {self.model.csn}: {error.message}",
            )
            self.count(Event.ROLLBACK_REFUSED)
            self.regret.to = None
        except EpochBusy as error:
            check_holders(self.model, error.holders, since, self.now())
            self.count(Event.ROLLBACK_REFUSED)
            self.model.rolled.paused, self.regret.hasty = True, False
        except Conflict:
            expect(
                self.model.csn > plan.csn, "R30", f"nothing has changed since {plan.csn}, and it is refused"
            )
            self.count(Event.ROLLBACK_REFUSED)
            self.model.rolled.paused = True
        else:
            self._check(told)
            self.regret.settled = True

    def _call(self, plan: RollbackPlan) -> RolledBack:
        try:
            return rollback(self.coordinator.context, plan, reason=self.regret.why, by="ada")
        except Stopped:
            self.count(Event.ROLLBACK_CRASHED)
            raise

    def _check(self, told: RolledBack) -> None:
        """What the person is told was taken back by that commit (R15)."""
        made = self.model.rolled.by(self.regret.why)
        epochs = {(str(of_job.job), each.start) for of_job in told.epochs for each in of_job.intervals}
        known = [
            (rollback.to, rollback.csn, set(rollback.epochs), sorted(rollback.since)) for rollback in made
        ]
        answer = told.to, told.csn, epochs, sorted(told.tables)
        expect(known == [answer], "R15", f"{self.regret.why}: {answer}, not {known}")

    def _repeat(self) -> None:
        """The command once more, whose reply was lost: nothing is left, and the pointers follow (R17).

        A pointer whose call is lost stays behind with a warning, and the person tries again.
        """
        (made,) = self.model.rolled.by(self.regret.why)
        since, before = self.now(), facts(self.model)
        plan = self._plan(made.to)
        if not plan.epochs:
            tries = 0
            while tries == 0 or (self.model.csn == made.csn and self.lags(made.since)):
                expect(tries < _REPEATS, "R17", f"{made}: a pointer is behind")
                self._call_again(plan, made, since, before)
                tries += 1
            self.count(Event.ROLLBACK_REPEATED)
        self.regret.settled = True

    def _call_again(self, plan: RollbackPlan, made: Made, since: datetime, before: tuple[Any, ...]) -> None:
        """:param since: a time before *plan* was made, which names those who were at work then.

        :param before: the facts of that time.
        """
        try:
            refused = bool(self._call(plan))
        except InvalidInput as error:
            refused = "committed still" not in error.message
        except EpochBusy as error:
            refused = not error.holders
            check_holders(self.model, error.holders, since, self.now())
        except TopologyError:
            refused = facts(self.model) == before and not obstacles(self.model, made.to)
        expect(not refused, "R30", f"{made} once more")
