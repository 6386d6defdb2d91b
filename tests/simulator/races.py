"""The race for the head of a domain, as an onlooker sees it: who reserves it, and who loses in spite of that (R11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.epoch import AttemptEvent
from airflow_provider.domain.records import Kind
from airflow_provider.domain.reservation import ReservationRecord
from airflow_provider.stores.base import Put, Receipt, Transaction
from tests.simulator.history import expect
from tests.simulator.wire import Line

MOST_LOST = 2
"""Number of preparations that a publisher loses to others before it reserves the head: here, none is quick."""
MOST_BEATEN = 2
"""Number of preparations that it loses while its reservation lasts: registrations do not wait for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """What is written on the head, and which process wrote it."""

    process: str
    record: ReservationRecord
    at: datetime

    def lasts(self, now: datetime) -> bool:
        return not self.record.ended and now < self.at + self.record.ttl

    def is_of(self, process: str, token: int) -> bool:
        return (self.process, self.record.token) == (process, token)

    def is_for(self, transaction: Transaction) -> bool:
        """Return True if it was made to commit this: jobs of a group may publish their barrier at the same time."""
        reserved = self.record.token, self.record.owner
        return any((event.token, event.owner) == reserved for event in _events(transaction))


@dataclass(slots=True)
class Races:
    """Counts what each publisher has lost: one attempt, since the next one of its epoch has a publish of its own.

    A preparation that took longer than its reservation counts for nothing: another may have reserved the head since.
    So does what a process lost before one of its messages was lost, or in an earlier command: then it begins to publish
    again.

    A commit that read the head before there was any reservation does not require that there is none. It requires the
    head as it read it, so that the first commit after the first reservation may be such a commit, and no other.
    """

    newest: Reservation | None = None
    _is_unseen: bool = False
    _took: dict[str, Reservation] = field(default_factory=dict)
    _lost: Counter[tuple[str, str, int, int, int]] = field(default_factory=Counter)
    _beaten: Counter[tuple[str, str, int, int, int]] = field(default_factory=Counter)

    def applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:
        """Take a transaction that the store has applied.

        :raises Violation: a publisher went before the one that has reserved the head.
        """
        name, reserved = line.process.name, self.newest
        if _publishes(transaction) and reserved is not None and reserved.lasts(receipt.at):
            foreign = not reserved.is_for(transaction) and not self._is_unseen
            expect(not foreign, "R11", f"{name} publishes while the head is reserved: {reserved}")
        if transaction.number is not None:
            self._is_unseen = False
        for put in transaction.updates:
            if isinstance(put, Put) and put.key.kind is Kind.RESERVATION:
                self._reserve(put.record, receipt.at, name)

    def _reserve(self, record: ReservationRecord, at: datetime, name: str) -> None:
        self._is_unseen = self._is_unseen or self.newest is None
        self.newest = Reservation(process=name, record=record, at=at)
        if record.ended:
            self._took.pop(name, None)
        else:
            self._took[name] = self.newest

    def refused(self, transaction: Transaction, now: datetime, line: Line) -> None:
        """Take one that the store has refused.

        :raises Violation: the publisher has lost more than it may.
        """
        if transaction.number is None or not _publishes(transaction):
            return
        name, token = line.process.name, _token(transaction)
        change_set = str(transaction.number.commit.change_set)
        race = name, change_set, token, line.process.commands, line.troubles
        took = self._took.pop(name, None)
        if took is None or not took.is_of(name, token):
            self._lost[race] += 1
            what = f"{race} has lost {self._lost[race]} preparations to others, and reserves nothing"
            expect(self._lost[race] <= MOST_LOST, "R11", what)
        elif took.lasts(now):
            self._beaten[race] += 1
            what = f"{race} has lost {self._beaten[race]} preparations although the head was its own"
            expect(self._beaten[race] <= MOST_BEATEN, "R11", what)


def _publishes(transaction: Transaction) -> bool:
    return transaction.number is not None and bool(transaction.number.commit.members)


def _token(transaction: Transaction) -> int:
    """The token of the attempt that publishes, as its log says."""
    return next(event.token for event in _events(transaction))


def _events(transaction: Transaction) -> Iterator[AttemptEvent]:
    for update in transaction.updates:
        if isinstance(update, Put) and update.key.kind is Kind.EVENT:
            yield update.record
