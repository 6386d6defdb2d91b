"""Position of a table's pointer in the catalog relative to the store's record, and changes by other programs (R17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_SHOWN = 5
"""Maximum number of epochs that a message lists."""


class PointerStatus(StrEnum):
    """Relation of the version that the pointer names to the version that the store recorded."""

    CURRENT = "current"
    """The recorded version itself."""
    BEHIND = "behind"
    """A version that the recorded one was made from, or its rows in other files: the next touch moves the pointer."""
    AHEAD = "ahead"
    """A version that this package published and that the store had not recorded when it was read."""
    COMPACTED = "compacted"
    """The recorded rows in other files: another representation of the same state."""
    FOREIGN = "foreign"
    """Another program's version: it has other rows, or does not descend from the recorded version."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Result of :meth:`~airflow_provider.tables.base.TableFormat.compare`.

    :param pointer: the pointer that was compared. :param version: the version that it names, 0 for none.
    :param csn: CSN of the newest commit in that version by this package, 0 for none.
    :param incarnation: incarnation of the store that made that commit (R33).
    :param foreign: commits of other programs, if any.
    """

    status: PointerStatus
    pointer: str
    version: int
    csn: int = 0
    incarnation: str = ""
    foreign: Foreign = Foreign()
