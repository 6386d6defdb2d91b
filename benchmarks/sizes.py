"""How much a run measures: all of it, or the least that runs every line, so that a test can."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

Of = TypeVar("Of", int, float)


class Size(Enum):
    """The size of a run."""

    FULL = "full"
    SMALLEST = "smallest"
    """Its figures mean nothing: `make test` runs it so that the measurements cannot rot."""

    def of(self, full: Of, smallest: Of) -> Of:
        """Return *full*, or *smallest* in the smallest run."""
        return full if self is Size.FULL else smallest
