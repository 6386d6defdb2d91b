"""Every default of the package, in one place (the table in ``docs/reference/defaults.md`` is made from it)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from airflow_provider.domain.errors import InvalidInput

_NOTHING = timedelta(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Defaults:
    """Settings of the coordination; give another instance to change them.

    :raises InvalidInput: a duration that is not above zero, a number below one, or two that do not go together.
    """

    lock_ttl: timedelta = timedelta(minutes=2)
    """How long an attempt may be silent before another owner may take its epoch over."""
    shared_lock_ttl: timedelta = timedelta(hours=1)
    """The same for an attempt that several tasks write: between its begin and its commit they wait for workers."""
    heartbeat_interval: timedelta = timedelta(seconds=20)
    """How often a running attempt renews its lock; a sixth of ``lock_ttl`` survives five lost tries."""
    future_tolerance: timedelta = timedelta(minutes=5)
    """How far the end of an epoch may lie beyond the store's now: the skew allowed between hosts."""
    read_grace: timedelta = timedelta(hours=1)
    """How long what a READ_COMMITTED cut returned stays readable without a lease."""
    lease_ttl: timedelta = timedelta(hours=1)
    """How long a lease lasts when none is asked for; renewing it makes it longer."""
    lease_longest: timedelta = timedelta(days=31)
    """The longest time to live that a lease may have: an orphan holds files for so long."""
    retention_grace: timedelta = timedelta(hours=2)
    """How long the files of a superseded version stay at least; longer than ``read_grace``."""
    leftover_grace: timedelta = timedelta(days=1)
    """How long an attempt may be silent, or over, before a sweep deletes what it staged."""
    publish_attempts: int = 50
    """How often a publish is decided anew when others moved the head or a table meanwhile."""
    publish_turn: timedelta = timedelta(milliseconds=250)
    """How long a publish that met another one waits for its turn before it goes on beside the others."""
    publish_patience: timedelta = timedelta(minutes=10)
    """How long a publish waits for others that have reserved the head of the domain, before :class:`Conflict`."""
    reservation_shortest: timedelta = timedelta(seconds=1)
    """The shortest time for which a publisher that lost its preparations reserves the head; else five of them."""
    reservation_longest: timedelta = timedelta(seconds=30)
    """The longest such time: so long a publisher that is stopped holds up its domain."""
    unknown_outcome_patience: timedelta = timedelta(seconds=20)
    """How long a lost reply is asked about before :class:`OutcomeUnknown` reaches the caller."""
    read_patience: timedelta = timedelta(seconds=10)
    """How long cuts, waits and ``explain`` ask again while the store does not answer."""
    store_patience: timedelta = timedelta(seconds=30)
    """How long a store keeps trying while others hold it, before :class:`StoreUnavailable`."""
    store_poll_shortest: timedelta = timedelta(milliseconds=10)
    """First pause of a watch on a store that has to be polled."""
    store_poll_longest: timedelta = timedelta(milliseconds=100)
    """Longest pause of such a watch."""
    wait_poll_interval: timedelta = timedelta(seconds=5)
    """Slowest poll beneath the store's watch while something waits for a barrier."""
    listed_readers: int = 20
    """How many dependent readers or missing inputs an error lists."""
    rewrites_remembered: int = 32
    """How many rewrites a table's fence tells apart; older ones count as one over all that they touched."""
    versions_in_page: int = 500
    """How many versions of a table, and how many commits, a sweep takes at a time: so many fit into one record."""
    most_stretches: int = 1_000
    """How many stretches of committed time, with gaps between them, a table may have."""
    ranges_in_page: int = 256
    """How many withdrawn ranges of a table one record has before it is split."""
    states_remembered: int = 8
    """How many earlier states a table's record answers from without another read."""

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
    """:raises InvalidInput: naming the default."""
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
