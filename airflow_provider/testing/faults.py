"""A store that loses requests and replies at chosen calls, to test that callers survive it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from threading import Lock
from typing import Any, TypeVar

from airflow_provider.domain.errors import OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import MetadataStore, Reading, Receipt, Transaction

_Answer = TypeVar("_Answer")


class Fault(StrEnum):
    """Fault of one call."""

    REQUEST_LOST = "request lost"
    """The request does not reach the store: the caller gets ``StoreUnavailable``."""
    REPLY_LOST = "reply lost"
    """The store applies the request, and the reply is lost: the caller of a change gets ``OutcomeUnknown``."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store: the *number*-th (from 0), of *method*."""

    number: int
    method: str


Plan = Callable[[Call], Fault | None]


def at(number: int, fault: Fault) -> Plan:
    """Return a plan with *fault* for the *number*-th call only."""
    return lambda call: fault if call.number == number else None


def first(method: str, fault: Fault) -> Plan:
    """Return a plan with *fault* for the first call of *method* only."""
    met: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if call.method != method or met:
            return None
        met.append(call)
        return fault

    return plan


class FaultyStore(MetadataStore):
    """Store that passes calls on to *inner*, except those for which *plan* has a fault.

    :attr:`calls` lists the calls, so that a test can put a fault at each of them in turn.
    """

    def __init__(self, inner: MetadataStore, plan: Plan) -> None:
        self._inner = inner
        self._plan = plan
        self._lock = Lock()
        self.calls: list[Call] = []
        self.capabilities = inner.capabilities

    @property
    def format(self) -> int:
        return self._inner.format

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        return self._reading("read", lambda: self._inner.read(domain, keys, pointers=pointers))

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        return self._reading(
            "scan",
            lambda: self._inner.scan(
                domain, kind, partition, start=start, end=end, limit=limit, reverse=reverse
            ),
        )

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self._reading("changes", lambda: self._inner.changes(domain, after, limit=limit))

    def domains(self) -> list[DomainName]:
        return self._reading("domains", self._inner.domains)

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        return self._reading("watch", lambda: self._inner.watch(domain, after, timeout))

    def transact(self, transaction: Transaction) -> Receipt:
        fault = self._fault("transact")
        if fault is Fault.REQUEST_LOST:
            raise StoreUnavailable("the request was lost.", next_step="try again.")
        receipt = self._inner.transact(transaction)
        if fault is Fault.REPLY_LOST:
            raise OutcomeUnknown("the reply was lost.", next_step="read what it would have changed.")
        return receipt

    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:
        return self._inner.publish_queue(domain, timeout)

    def close(self) -> None:
        self._inner.close()

    def _reading(self, method: str, call: Callable[[], _Answer]) -> _Answer:
        """Call a read; a lost request and a lost reply are the same error, since a read changes nothing."""
        fault = self._fault(method)
        if fault is not None:
            raise StoreUnavailable(f"the {fault}.", next_step="try again.")
        return call()

    def _fault(self, method: str) -> Fault | None:
        with self._lock:
            call = Call(len(self.calls), method)
            self.calls.append(call)
            return self._plan(call)
