"""How long the head of a domain is kept for one publisher. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Owner, expired
from airflow_provider.domain.records import Stamped

_PREPARATIONS = 5
"""Number of its preparations that a publisher reserves the head for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReservationRecord:
    """Says which attempt the others let through: until the store's stamp plus the time to live.

    :param ended: it has published, or failed.
    """

    token: int
    owner: Owner
    ttl: timedelta
    ended: bool = False


def reserved_for(slowest: timedelta, defaults: Defaults) -> timedelta:
    """How long a publisher reserves the head whose preparations took *slowest* at most."""
    wanted = slowest * _PREPARATIONS
    return min(max(wanted, defaults.reservation_shortest), defaults.reservation_longest)


def time_left(reservation: Stamped[ReservationRecord], now: datetime) -> timedelta | None:
    """How long others have to wait, by the store's clock; None when the head is not reserved."""
    record = reservation.record
    if record.ended or expired(reservation.at, record.ttl, now):
        return None
    return reservation.at + record.ttl - now
