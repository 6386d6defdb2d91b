"""Commits of other programs (R17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_SHOWN = 5
"""Maximum number of epochs that a message lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreign:
    """Commits of other programs since the version that the store recorded.

    :param operations: the operation of each commit, oldest first, in the format's words; empty if the history is lost.
    :param epochs: barriers whose rows changed, sorted.
    :param obstacle: why the result cannot be adopted; empty if it can.
    """

    operations: tuple[str, ...] = ()
    epochs: tuple[datetime, ...] = ()
    obstacle: str = ""

    @property
    def same_rows(self) -> bool:
        return not self.epochs and not self.obstacle

    def __str__(self) -> str:
        did = ", ".join(self.operations)
        touched = (
            f" on {', '.join(epoch.isoformat() for epoch in self.epochs[:_SHOWN])}" if self.epochs else ""
        )
        more = f" and {len(self.epochs) - _SHOWN} more epochs" if len(self.epochs) > _SHOWN else ""
        return "; ".join(part for part in (f"{did}{touched}{more}", self.obstacle) if part)
