"""Estimate the servers' time on a client; the estimate is never ahead of it."""

from __future__ import annotations

from datetime import datetime
from threading import Lock
from time import monotonic

from airflow_provider.domain.interval import from_micros

STALE_S = 30.0
"""Seconds without a write after which the clock is read again, since two clocks drift apart."""


class ServerClock:
    """The time of the client's latest write, plus the time since its reply arrived."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._written_ms = 0
        self._heard = 0.0
        self._generation = -1

    def hear(self, at_ms: int, generation: int) -> datetime:
        """Learn the time *at_ms* of a write whose reply has just arrived; return it as a time.

        :param generation: of the connection: behind another one the servers' clock may be an earlier one.
        """
        with self._lock:
            if at_ms >= self._written_ms or generation != self._generation:
                self._written_ms, self._heard, self._generation = at_ms, monotonic(), generation
        return moment(at_ms)

    def is_stale(self, generation: int) -> bool:
        """Return whether the servers' time should be read again before :meth:`now`."""
        with self._lock:
            return self._generation != generation or monotonic() - self._heard > STALE_S

    def now(self) -> datetime:
        """Return a lower bound of the servers' time, in whole milliseconds like their stamps."""
        with self._lock:
            return moment(self._written_ms + int((monotonic() - self._heard) * 1000))


def moment(at_ms: int) -> datetime:
    """Convert a time of ZooKeeper, milliseconds since 1970."""
    return from_micros(at_ms * 1000)
