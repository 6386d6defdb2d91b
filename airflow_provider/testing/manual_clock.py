"""Clock that moves only by its caller, for tests and simulations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A local clock and a store's clock in one object: pass ``clock`` and ``now=clock.now``."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._elapsed = timedelta(0)

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    def sleep(self, duration: timedelta) -> None:
        self.advance(max(duration, timedelta(0)))

    def advance(self, duration: timedelta) -> None:
        """Move both clocks forward by *duration*."""
        self._now += duration
        self._elapsed += duration
