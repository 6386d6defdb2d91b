"""The local clock: only for waiting. What expires is judged by the metadata store's clock (R23)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Protocol


class Clock(Protocol):
    """Monotonic time and sleep, given to whatever waits, so that a simulation can own both."""

    def monotonic(self) -> float:
        """:return: seconds from an arbitrary start; never goes back."""

    def sleep(self, duration: timedelta) -> None:
        """Return after *duration*, or at once when it is not positive."""


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, duration: timedelta) -> None:
        time.sleep(max(0.0, duration.total_seconds()))
