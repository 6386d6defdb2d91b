"""The race for a domain's head: other publishers wait for one that keeps losing.

A preparation that takes longer than the time between two commits of others would lose every race. So a publisher that
has lost repeatedly writes a lock on the head, with a short time to live by the store's clock. The others read it with
all else that they decide on, wait before they prepare anything, and require the version that they read: a commit that
was being prepared when the lock was written loses, and not its holder. The holder's publish ends the lock; a stopped
holder costs the time to live. Correctness does not depend on it: see docs/decisions/publish-queue.md.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TypeVar

from airflow_provider.coordination.context import Context
from airflow_provider.domain.clock import Clock
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, EpochError
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Stamped, fence_of, reservation_key
from airflow_provider.domain.reservation import ReservationRecord, is_unlucky, reserved_for, time_left
from airflow_provider.stores.base import (
    Exists,
    MetadataReader,
    Put,
    Reading,
    RequirementFailed,
    SameStore,
    Transaction,
    unchanged,
)

Answer = TypeVar("Answer")

FORMAT = 2
"""First format of a store's records that has reservations."""
_SHORTEST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.25


class Reserved(Exception):
    """Another publisher has reserved the head, for at most ``left``."""

    def __init__(self, left: timedelta) -> None:
        super().__init__(left)
        self.left = left


@dataclass(slots=True)
class Race:
    """Lost races of one publish, and the reservation that it holds.

    :ivar lost: number of lost preparations. :ivar slowest_s: time of the slowest one. :ivar last_s: time of the last
        one. Both exclude the time in the publish queue and the time in which another publisher had reserved the head.
    """

    context: Context
    attempt: Attempt
    lost: int = 0
    slowest_s: float = 0.0
    last_s: float = 0.0
    waited_s: float = 0.0
    _held: Stamped[ReservationRecord] | None = field(default=None, repr=False)

    def run(self, publish: Callable[[Race], Answer | None]) -> Answer:
        """Call *publish*, which returns None after a lost race, until it has published.

        :raises Conflict: it has lost ``publish_attempts`` times.
        """
        most = self.context.defaults.publish_attempts
        try:
            while self.lost < most:
                try:
                    answer = self._try(publish)
                except Reserved as reserved:
                    self._wait(reserved)
                else:
                    if answer is not None:
                        return answer
            raise Conflict(
                f"{self.attempt}: other commits were faster {most} times.",
                next_step="publish again; nothing was lost.",
            )
        except EpochError:
            self.release()
            raise

    def _try(self, publish: Callable[[Race], Answer | None]) -> Answer | None:
        """Try once more: directly, in the publish queue if there is contention, or with the head reserved.

        :raises Reserved: another publisher has reserved the head.
        """
        context, domain = self.context, self.attempt.domain
        if self.is_unlucky:
            self.take()
            return self._timed(publish)
        if not self.lost and not context.is_contended(domain):
            return self._timed(publish)
        with context.store.publish_queue(domain, context.defaults.publish_queue_timeout):
            answer = None
            while answer is None and not self.is_unlucky:
                answer = self._timed(publish)
            return answer

    def _timed(self, publish: Callable[[Race], Answer | None]) -> Answer | None:
        clock = self.context.clock
        began = clock.monotonic()
        answer = publish(self)
        if answer is None:
            self.lost += 1
            self.last_s = clock.monotonic() - began
            self.slowest_s = max(self.slowest_s, self.last_s)
        return answer

    @property
    def is_unlucky(self) -> bool:
        """True after enough lost races to reserve the head."""
        return is_unlucky(self.lost, self.last_s)

    @property
    def key(self) -> Key[ReservationRecord]:
        return reservation_key(self.attempt.domain)

    def look(self, reading: Reading) -> tuple[Exists, ...]:
        """Return the requirements of a publish that is decided on *reading*.

        :raises Reserved: another publisher has reserved the head.
        """
        stamped = reading.get(self.key)
        if stamped is None:
            return ()
        self._held = stamped if self._is_own(stamped.record) else None
        left = None if self._held else time_left(stamped, reading.now)
        if left is not None:
            raise Reserved(left)
        # Also an ended or expired reservation: a new one overwrites it, and has to win against this publish.
        return (Exists(stamped.key, stamped.version),)

    def ending(self) -> tuple[Put, ...]:
        """Return the update with which the publish ends its reservation; empty without one."""
        return () if self._held is None else (Put(self.key, replace(self._held.record, ended=True)),)

    def take(self) -> None:
        """Reserve the head, or renew the reservation.

        :raises Reserved: another publisher has reserved it.
        """
        store, attempt = self.context.store, self.attempt
        if store.format < FORMAT:  # older versions of the package may use the store, and know no reservation
            return
        reading = store.read(attempt.domain, [self.key, fence_of(attempt)])
        epoch = reading.get(fence_of(attempt))
        if epoch is None or epoch.version != attempt.fence:
            return  # over, or published by a request with a lost reply: the publish itself finds out
        self.look(reading)
        ttl = reserved_for(timedelta(seconds=self.slowest_s), self.context.defaults)
        try:
            store.transact(
                Transaction(
                    domain=attempt.domain,
                    store=SameStore(attempt.incarnation),
                    requires=(Exists(fence_of(attempt), attempt.fence), unchanged(reading, self.key)),
                    updates=(
                        Put(self.key, ReservationRecord(token=attempt.token, owner=attempt.owner, ttl=ttl)),
                    ),
                )
            )
        except RequirementFailed:
            raise Reserved(timedelta(0)) from None

    def _wait(self, reserved: Reserved) -> None:
        """Wait a short time, at most as long as the head is reserved.

        :raises Conflict: one reservation followed another for longer than ``publish_timeout``.
        """
        context = self.context
        longest_s = min(_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S + self.waited_s)
        pause_s = min(max(reserved.left.total_seconds(), _SHORTEST_PAUSE_S), longest_s)
        pause_s *= context.random.uniform(0.5, 1.0)
        context.clock.sleep(timedelta(seconds=pause_s))
        self.waited_s += pause_s
        if self.waited_s > context.defaults.publish_timeout.total_seconds():
            raise Conflict(
                f"{self.attempt}: others reserved the head of the domain one after the other for "
                f"{context.defaults.publish_timeout}.",
                next_step="publish again; nothing was lost. Let fewer jobs publish at the same time.",
            )

    def release(self) -> None:
        """End the reservation after an error; if that fails, it expires by itself."""
        if self._held is None:
            return
        ended = Put(self.key, replace(self._held.record, ended=True))
        with suppress(EpochError):
            self.context.store.transact(
                Transaction(
                    domain=self.attempt.domain,
                    store=SameStore(self.attempt.incarnation),
                    requires=(Exists(self.key, self._held.version),),
                    updates=(ended,),
                )
            )
        self._held = None

    def _is_own(self, record: ReservationRecord) -> bool:
        attempt = self.attempt
        return not record.ended and (record.token, record.owner) == (attempt.token, attempt.owner)


@dataclass(frozen=True, slots=True)
class Races:
    """Races of one command, by attempt.

    A command decides anew when others have changed what it reads. It takes no lost race back then: else it would never
    reserve the head.
    """

    context: Context
    _known: dict[tuple[JobName, Interval, int], Race] = field(default_factory=dict, repr=False)

    def of(self, attempt: Attempt) -> Race:
        """Return the race of *attempt*, with what it has lost so far."""
        return self._known.setdefault(
            (attempt.job, attempt.interval, attempt.token), Race(self.context, attempt)
        )


def await_unreserved(reader: MetadataReader, domain: DomainName, clock: Clock, random: Random) -> None:
    """Wait while a publisher has reserved the head, before a commit of another kind is prepared."""
    key = reservation_key(domain)
    while True:
        reading = reader.read(domain, [key])
        stamped = reading.get(key)
        left = None if stamped is None else time_left(stamped, reading.now)
        if left is None:
            return
        pause_s = min(_LONGEST_PAUSE_S, max(left.total_seconds(), _SHORTEST_PAUSE_S))
        clock.sleep(timedelta(seconds=pause_s * random.uniform(0.5, 1.0)))
