"""The servers' time, as a client knows it: never later than it is there."""

from __future__ import annotations

from datetime import datetime
from threading import Lock
from time import monotonic

from airflow_provider.domain.interval import from_micros

STALE_S = 30.0
"""After so many seconds without a write the clock is set again: two clocks drift apart."""


class ServerClock:
    """The time of the latest own write, plus what passed since its reply arrived."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._written_ms = 0
        self._heard = 0.0
        self._generation = -1

    def hear(self, at_ms: int, generation: int) -> datetime:
        """Learn that a write, the reply to which has just come, was made at *at_ms*; return that time."""
        with self._lock:
            if at_ms >= self._written_ms or generation != self._generation:
                self._written_ms, self._heard, self._generation = at_ms, monotonic(), generation
        return moment(at_ms)

    def is_stale(self, generation: int) -> bool:
        """Whether it should be set again before it is asked."""
        with self._lock:
            return self._generation != generation or monotonic() - self._heard > STALE_S

    def now(self) -> datetime:
        """A lower bound of the servers' time, in whole milliseconds as they stamp them."""
        with self._lock:
            return moment(self._written_ms + int((monotonic() - self._heard) * 1000))


def moment(at_ms: int) -> datetime:
    """A time as ZooKeeper gives it: milliseconds since 1970."""
    return from_micros(at_ms * 1000)
