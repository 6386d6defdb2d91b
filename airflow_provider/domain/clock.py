"""The local clock, for waiting only: expiry is judged by the metadata store's clock (R23)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Protocol


class Clock(Protocol):
    """Monotonic time and sleep; an argument of all code that waits, so that a simulation can own both."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start; never less than before."""

    def sleep(self, duration: timedelta) -> None:
        """Return after *duration*, at once if it is not positive."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, duration: timedelta) -> None:
        time.sleep(max(0.0, duration.total_seconds()))
