"""Reservation of a domain's head for one publisher. Pure decisions; see docs/decisions/publish-queue.md."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import has_expired
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.owner import Owner

LOST_BEFORE_RESERVING = 2
"""Number of lost preparations before a publisher reserves the head."""
QUICK_LOST_BEFORE_RESERVING = 6
"""The same, if the last one took ``QUICK_S`` at most: it lost by chance, and a reservation costs others theirs."""
QUICK_S = 0.025
_PREPARATIONS = 5
"""Length of a reservation, in preparations of the publisher."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationRecord:
    """The attempt that the others let through, until the store's stamp plus the time to live.

    :param ended: the attempt has published, or failed.
    """

    token: int
    owner: Owner
    ttl: timedelta
    ended: bool = False


def is_unlucky(lost: int, last_s: float) -> bool:
    """Return True if a publisher reserves the head before it prepares again.

    :param lost: its lost preparations. :param last_s: time of the last one, in seconds.
    """
    return lost >= (QUICK_LOST_BEFORE_RESERVING if last_s <= QUICK_S else LOST_BEFORE_RESERVING)


def reserved_for(slowest: timedelta, defaults: Defaults) -> timedelta:
    """Return the length of a reservation.

    :param slowest: longest preparation of the publisher so far.
    """
    wanted = slowest * _PREPARATIONS
    return min(max(wanted, defaults.reservation_shortest), defaults.reservation_longest)


def time_left(reservation: Stamped[ReservationRecord], now: datetime) -> timedelta | None:
    """Return the time that others have to wait, by the store's clock; None if the head is not reserved."""
    record = reservation.record
    if record.ended or has_expired(reservation.at, record.ttl, now):
        return None
    return reservation.at + record.ttl - now
