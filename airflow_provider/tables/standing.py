"""Where a table's pointer in the catalog stands, seen from what the store recorded, and what others did to it (R17)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_SHOWN = 5
"""So many epochs are told in a message."""


class Standing(StrEnum):
    """What the pointer names."""

    CURRENT = "current"
    """The version that the store recorded."""
    BEHIND = "behind"
    """One that the recorded version was made from, or the same rows in other files: the next touch moves it."""
    AHEAD = "ahead"
    """A version of the protocol's own that the store had not recorded when it was asked."""
    COMPACTED = "compacted"
    """The recorded rows in other files: another representation of the same state."""
    FOREIGN = "foreign"
    """Other rows, or a version that does not come from the recorded one: another program's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Foreign:
    """What other programs committed since the version that the store recorded.

    :param operations: of their commits, oldest first, as the format calls them; empty when they cannot be followed.
    :param epochs: barriers whose rows they changed, sorted.
    :param obstacle: why the result cannot be taken over; empty when it can.
    """

    operations: tuple[str, ...] = ()
    epochs: tuple[datetime, ...] = ()
    obstacle: str = ""

    @property
    def same_rows(self) -> bool:
        return not self.epochs and not self.obstacle

    def __str__(self) -> str:
        did = ", ".join(self.operations)
        touched = f" on {', '.join(one.isoformat() for one in self.epochs[:_SHOWN])}" if self.epochs else ""
        more = f" and {len(self.epochs) - _SHOWN} more epochs" if len(self.epochs) > _SHOWN else ""
        return "; ".join(one for one in (f"{did}{touched}{more}", self.obstacle) if one)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Answer of :meth:`~airflow_provider.tables.base.TableFormat.compare`.

    :param pointer: what was compared. :param version: that it names, 0 for none.
    :param csn: of the newest commit in it that is the protocol's own, 0 for none.
    :param incarnation: of the store that made that commit (R33).
    :param foreign: what others did, where they did something.
    """

    standing: Standing
    pointer: str
    version: int
    csn: int = 0
    incarnation: str = ""
    foreign: Foreign = Foreign()
