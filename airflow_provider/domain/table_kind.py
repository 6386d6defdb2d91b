"""Kinds of tables: what a slice adds, which slices a state has, and what the slice of a skipped epoch is."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum


class TableKind(StrEnum):
    """Relation of a table's state to its slices.

    Code asks the kind for what it needs to know, never which member it is: a further kind answers here.
    """

    INCREMENTAL = "incremental"
    """The table is the sum of its slices, one slice per epoch."""
    FULL = "full"
    """Each slice is the whole state."""

    @property
    def accumulates(self) -> bool:
        """True if a state has the slices of all epochs up to its barrier; False if that of its own epoch only."""
        return self is TableKind.INCREMENTAL

    @property
    def may_lag(self) -> bool:
        """True if a cut may have an older state of the table than the cut's barrier (``align="floor"``)."""
        return not self.accumulates

    @property
    def loses_expired(self) -> bool:
        """True if the rows of an expired barrier leave the table; False if later states have them, too."""
        return not self.accumulates

    @property
    def copies_when_skipped(self) -> bool:
        """True if the slice of a skipped epoch repeats the state before it (R5); False if it is empty."""
        return not self.accumulates

    @property
    def shares_files(self) -> bool:
        """True if slices may share a file: its rows do not say their epoch, and readers take it from the slice."""
        return not self.accumulates

    def low(self, origin: datetime | None) -> datetime | None:
        """Return the start of a state's rows in a table that begins at *origin*; None for no bound but the slice."""
        return origin if self.accumulates else None

    def has(self, end: datetime, *, low: datetime | None, barrier: datetime) -> bool:
        """Return True if the slice that ends at *end* belongs to the state at *barrier* with rows from *low* on."""
        if not self.accumulates:
            return end == barrier
        return end <= barrier and (low is None or end > low)
