"""Rollback of a domain to an earlier CSN: what is remembered of it for those who have seen more (R20, R30).

Pure values; see docs/decisions/rollback.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider.domain.compaction import COMPACTED
from airflow_provider.domain.identifiers import TableName

ROLLED_BACK = "#rolled back"
"""End of the ids of the change sets of rollbacks."""
HARMLESS = ("#columns", "#expired", COMPACTED, ROLLED_BACK)
"""Ends of the ids of change sets that change no row of an epoch: what they have changed stays."""
MOST_REMEMBERED = 50
"""Maximum number of remembered rollbacks. Beyond it the two oldest count as one."""
MOST_TABLES = 500
"""Maximum number of tables that they name together. Beyond it the oldest count as rollbacks of all tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolledTable:
    """A table whose epochs were taken back. :param since: CSN of the first commit of these epochs."""

    table: TableName
    since: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollback:
    """A rollback of a domain.

    :param to: CSN whose rows the tables have again. :param csn: CSN of the rollback's own commit.
    :param tables: those that it has changed; empty for any.
    :param why: reason and author.
    """

    to: int
    csn: int
    tables: tuple[RolledTable, ...]
    why: str

    def has_taken(self, table: TableName, csn: int) -> bool:
        """Return True if a reader of *table* at *csn* may have seen rows that were taken back."""
        if not self.tables:
            return self.to < csn < self.csn
        return any(taken.table == table and taken.since <= csn < self.csn for taken in self.tables)


def remembered(known: Sequence[Rollback], new: Rollback) -> tuple[Rollback, ...]:
    """Return *known* and *new*, oldest first, as far as the domain's record holds them.

    What is merged covers more than was taken back, never less: a session may be told in vain.
    """
    found = [*known, new]
    while len(found) > MOST_REMEMBERED:
        first, second, *rest = found
        merged = Rollback(to=min(first.to, second.to), csn=second.csn, tables=(), why=second.why)
        found = [merged, *rest]
    for place, entry in enumerate(found):
        if sum(len(each.tables) for each in found) <= MOST_TABLES:
            break
        found[place] = replace(entry, tables=())
    return tuple(found)
