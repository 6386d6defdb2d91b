"""Every default of the package, in one place (the table in ``docs/reference/defaults.md`` is made from it)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from airflow_provider.domain.errors import InvalidInput

_NOTHING = timedelta(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """Settings of the coordination; pass another instance to change them.

    :raises InvalidInput: a duration that is not above zero, a number below one, or two values that contradict.
    """

    lock_ttl: timedelta = timedelta(minutes=2)
    """Time of silence after which another owner may take an attempt's epoch over."""
    shared_lock_ttl: timedelta = timedelta(hours=1)
    """The same for an attempt that several tasks write: between its begin and its commit they wait for workers."""
    heartbeat_interval: timedelta = timedelta(seconds=20)
    """Interval at which a running attempt renews its lock; a sixth of ``lock_ttl`` survives five lost tries."""
    future_tolerance: timedelta = timedelta(minutes=5)
    """Time by which the end of an epoch may lie beyond the store's now: the clock skew allowed between hosts."""
    read_grace: timedelta = timedelta(hours=1)
    """Time for which a READ_COMMITTED cut stays readable without a lease."""
    lease_ttl: timedelta = timedelta(hours=1)
    """Time to live of a lease that names none; renewing extends it."""
    lease_longest: timedelta = timedelta(days=31)
    """Maximum time to live of a lease: a lease without a reader keeps files for that long."""
    retention_grace: timedelta = timedelta(hours=2)
    """Minimum time for which the files of a superseded version stay; longer than ``read_grace``."""
    orphan_grace: timedelta = timedelta(days=1)
    """Time for which an attempt is silent, or over, before a vacuum deletes its staged output."""
    publish_attempts: int = 50
    """Maximum number of times that a publish decides anew, after other commits moved the head or a table."""
    publish_queue_timeout: timedelta = timedelta(milliseconds=250)
    """Time for which a publish that met another one waits for its turn before it goes on beside the others."""
    publish_timeout: timedelta = timedelta(minutes=10)
    """Time for which a publish waits while others have reserved the head of the domain, before :class:`Conflict`."""
    reservation_shortest: timedelta = timedelta(seconds=1)
    """Minimum time for which a publisher that lost its preparations reserves the head; usually five preparations."""
    reservation_longest: timedelta = timedelta(seconds=30)
    """Maximum such time: a publisher that is stopped holds up its domain for that long."""
    closing_phase: timedelta = timedelta(hours=1)
    """Time for which no epoch begins to read what a restatement replaces, after new readers held up its publish."""
    unknown_outcome_timeout: timedelta = timedelta(seconds=20)
    """Time for which the outcome behind a lost reply is looked up, before :class:`OutcomeUnknown`."""
    read_timeout: timedelta = timedelta(seconds=10)
    """Time for which cuts, waits and ``explain`` retry while the store does not answer."""
    store_timeout: timedelta = timedelta(seconds=30)
    """Time for which a store retries while others hold it, before :class:`StoreUnavailable`."""
    store_poll_shortest: timedelta = timedelta(milliseconds=10)
    """First pause of a watch on a store that has to be polled."""
    store_poll_longest: timedelta = timedelta(milliseconds=100)
    """Longest pause of such a watch."""
    wait_poll_interval: timedelta = timedelta(seconds=5)
    """Slowest poll beneath the store's watch while something waits for a barrier."""
    listed_readers: int = 20
    """Maximum number of dependent readers or missing inputs that an error lists."""
    rewrites_remembered: int = 32
    """Maximum number of rewrites in a table's log; beyond it those nearest in event time are merged."""
    versions_in_page: int = 500
    """Number of versions of a table, and of commits, that a vacuum reads at a time; the versions fit into a record."""
    most_stretches: int = 1_000
    """Maximum number of stretches of committed time, with gaps between them, of a table."""
    ranges_in_page: int = 256
    """Maximum number of expired ranges in one record of a table, beyond which it is split."""
    states_remembered: int = 8
    """Number of earlier states in a table's record, which readers get without another read."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _refuse_nonsense(field.name, getattr(self, field.name), counts=isinstance(field.default, int))
        if self.retention_grace <= self.read_grace:
            raise _apart(
                "retention_grace", self.retention_grace, f"longer than read_grace ({self.read_grace})"
            )
        if self.lease_ttl > self.lease_longest:
            raise _apart("lease_ttl", self.lease_ttl, f"lease_longest ({self.lease_longest}) at most")
        if self.reservation_shortest > self.reservation_longest:
            longest = f"reservation_longest ({self.reservation_longest}) at most"
            raise _apart("reservation_shortest", self.reservation_shortest, longest)
        if self.store_poll_shortest > self.store_poll_longest:
            longest = f"store_poll_longest ({self.store_poll_longest}) at most"
            raise _apart("store_poll_shortest", self.store_poll_shortest, longest)


def _refuse_nonsense(name: str, value: object, *, counts: bool) -> None:
    """Refuse a default of a wrong type or range.

    :raises InvalidInput: names the default.
    """
    if counts and not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        raise InvalidInput(field=name, value=value, expected="a whole number from 1 on")
    if not counts and not (isinstance(value, timedelta) and value > _NOTHING):
        raise InvalidInput(
            field=name,
            value=value,
            expected="a duration above zero",
            next_step=f"write Defaults({name}=timedelta(minutes=…)).",
        )


def _apart(name: str, value: timedelta, expected: str) -> InvalidInput:
    return InvalidInput(
        field=name, value=str(value), expected=expected, next_step="change both, so that they go together."
    )


DEFAULTS = Defaults()
