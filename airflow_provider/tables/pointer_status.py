"""Position of a table's pointer in the catalog relative to the store's record, and changes by other programs (R17)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_provider.domain.foreign import Foreign


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
class Compared:
    """Result of :meth:`~airflow_provider.tables.base.TableFormat.compare`.

    :param pointer: the pointer that was compared. :param version: the version that it names, 0 for none.
    :param csn: CSN of the newest commit in that version by this package, 0 for none.
    :param incarnation: incarnation of the store that made that commit (R33).
    :param foreign: commits of other programs, if any.
    :param stops: why no epoch can be published to the version that the pointer names; empty if one can, and if the
        pointer is behind or ahead.
    :param undo: statement that takes another program's commits back; empty if there is none.
    :param unprotected: setting by which other programs' cleanups may delete files of cuts; empty if they refuse to run.
    """

    status: PointerStatus
    pointer: str
    version: int
    csn: int = 0
    incarnation: str = ""
    foreign: Foreign = Foreign()  # noqa: RUF009 - it is frozen
    stops: str = ""
    undo: str = ""
    unprotected: str = ""
