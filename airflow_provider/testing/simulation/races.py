"""The race for the head of a domain, as an onlooker sees it: who reserves it, and who loses in spite of that (R11)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.records import Kind
from airflow_provider.domain.reservation import ReservationRecord
from airflow_provider.stores.base import Put, Receipt, Transaction
from airflow_provider.testing.simulation.history import expect
from airflow_provider.testing.simulation.wire import Line

MOST_LOST = 2
"""Number of preparations that a publisher loses to others before it reserves the head: here, none is quick."""
MOST_BEATEN = 2
"""Number of preparations that it loses while its reservation lasts: registrations do not wait for it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """What is written on the head. :ivar first: no other was before it: commits do not require that there is none."""

    process: str
    record: ReservationRecord
    at: datetime
    first: bool

    def lasts(self, now: datetime) -> bool:
        return not self.record.ended and now < self.at + self.record.ttl


@dataclass(slots=True)
class Races:
    """Counts what each publisher has lost.

    A preparation that took longer than its reservation counts for nothing: another may have reserved the head since.
    So does what a process lost before one of its messages was lost: then it begins to publish again.
    """

    newest: Reservation | None = None
    _took: dict[str, Reservation] = field(default_factory=dict)
    _lost: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    _beaten: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:
        """Take a transaction that the store has applied.

        :raises Violation: a publisher went before the one that has reserved the head.
        """
        name, reserved = line.process.name, self.newest
        if _publishes(transaction) and reserved is not None and reserved.lasts(receipt.at):
            foreign = reserved.process != name and not reserved.first
            expect(not foreign, "R11", f"{name} publishes while the head is reserved: {reserved}")
        for put in transaction.updates:
            if isinstance(put, Put) and put.key.kind is Kind.RESERVATION:
                self._reserve(put.record, receipt.at, name)

    def _reserve(self, record: ReservationRecord, at: datetime, name: str) -> None:
        self.newest = Reservation(process=name, record=record, at=at, first=self.newest is None)
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
        name = line.process.name
        race = name, str(transaction.number.commit.change_set), line.troubles
        took = self._took.pop(name, None)
        if took is None:
            self._lost[race] += 1
            what = f"{race} has lost {self._lost[race]} preparations to others, and reserves nothing"
            expect(self._lost[race] <= MOST_LOST, "R11", what)
        elif took.lasts(now):
            self._beaten[race] += 1
            what = f"{race} has lost {self._beaten[race]} preparations although the head was its own"
            expect(self._beaten[race] <= MOST_BEATEN, "R11", what)


def _publishes(transaction: Transaction) -> bool:
    return transaction.number is not None and bool(transaction.number.commit.members)
