"""Readers that load a table from the catalog, without a cut: what they see after each step (I10, R17).

An engine gets the rows that a cut of the table alone reads at the commit that the pointer names. In one transaction
with the store the pointer names the newest commit; elsewhere it may lag, and it never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRef
from airflow_provider.stores.memory import MemoryCatalog
from airflow_provider.tables.memory import MemoryFormat
from tests.simulator.cascade import Rows
from tests.simulator.history import expect
from tests.simulator.readers import rows_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """What a version shows. :param number: of the version among those of its table, in their order."""

    number: int
    csn: int
    rows: Rows


@dataclass(slots=True)
class Outsiders:
    """What the catalog must show of each table.

    :param follows: whether pointers follow the store, later.
    """

    catalog: MemoryCatalog
    tables: MemoryFormat
    follows: bool
    _shown: dict[str, Shown] = field(default_factory=dict)
    _newest: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    def published(self, table: str, ref: TableRef, csn: int, rows: Rows) -> None:
        """Take a version that was published; a cut of the table alone reads *rows*."""
        number = self._newest[table] = self._newest.get(table, 0) + 1
        self._shown[ref.location] = Shown(number=number, csn=csn, rows=rows)

    def look(self, table: Table) -> bool:
        """Load *table* as an engine does; say whether the pointer lagged.

        :raises Violation: it gets what no cut reads.
        """
        name = str(table.name)
        info = self.tables.describe(table)
        if info is None:
            return False
        shown = self._shown.get(info.pointer, Shown(number=0, csn=0, rows=()))
        newest = self._newest.get(name, 0)
        expect(shown.number == newest or self.follows, "I10", f"{name}: the catalog has missed a commit")
        last = self._seen.get(name, 0)
        expect(shown.number >= last, "R17", f"{name}: the pointer went back from {last} to {shown.number}")
        self._seen[name] = shown.number
        uris = self.tables.shown_files(table)
        gone = [uri for uri in uris if uri not in self.catalog.objects]
        expect(not gone, "I6", f"{name}: the catalog shows {gone}, which were deleted")
        rows = tuple(sorted(row for uri in uris for row in rows_of(self.catalog.objects[uri])))
        what = f"{name} by catalog, as of CSN {shown.csn}: {rows}, not {shown.rows}"
        expect(rows == shown.rows, "R17", what)
        return shown.number < newest
