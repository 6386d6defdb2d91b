"""Cases: the catalog's pointer follows the store's record: forward only, never ahead, repaired by any touch.

For formats whose catalog is outside of the store's database (``Prepared.swap`` is None).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider.domain.columns import rename
from airflow_provider.domain.errors import ForeignCommit, StoreUnavailable
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRef
from airflow_provider.tables import projection
from airflow_provider.tables.base import EPOCH_COLUMN, Prepared, Publication, TableInfo
from airflow_provider.tables.errors import TableRecreated
from airflow_provider.tables.pointer_status import PointerStatus
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)


def prepared(publisher: Publisher, table: Table, number: int) -> tuple[Publication, Prepared]:
    """Stage one row of a day and prepare its publication."""
    staged = publisher.stage(table, day(number), [batch([number])])
    publication = publisher.publication(table, (day(number), staged))
    return publication, publisher.format.prepare(publication)


def recorded(publisher: Publisher, table: Table, *numbers: int) -> list[TableRef]:
    """Commit one row for each of the days; each time the process dies before the pointer moves."""
    found = []
    for number in numbers:
        publisher.record(prepared(publisher, table, number))
        found.append(publisher.refs[table])
    return found


def pointed(publisher: Publisher, table: Table) -> TableInfo:
    """Return the table as a program sees it that loads it from the catalog."""
    info = publisher.format.describe(table)
    assert info is not None
    return info


class ProjectingCases(TableCases):
    """Pointers that follow, lag, race and are moved by others."""

    def test_the_transaction_moves_no_pointer(self, publisher: Publisher, table: Table) -> None:
        _, one = prepared(publisher, table, 0)
        assert one.swap is None

    def test_a_catalog_that_moves_no_pointer_is_asked_a_few_times(
        self, publisher: Publisher, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """R17: and not for ever; the commit stands, and the next touch moves it."""
        publisher.create(table)
        (ref,) = recorded(publisher, table, 0)
        monkeypatch.setattr(projection, "_PAUSES", (0.0,) * 3)
        asked: list[str] = []

        def refuse(pointer: str) -> bool:
            asked.append(pointer)
            return False

        with pytest.raises(StoreUnavailable, match="did not move the pointer of table"):
            projection.project(publisher.format, table, ref, refuse)
        assert asked == [pointed(publisher, table).pointer] * 3
        assert publisher.format.project(table, ref).moved

    def test_the_pointer_is_never_ahead_of_the_store(self, publisher: Publisher, table: Table) -> None:
        """R17, I10: it moves after the commit, not before."""
        before = publisher.create(table)
        publication, one = prepared(publisher, table, 0)
        assert pointed(publisher, table) == before, "nothing is committed yet"
        publisher.record((publication, one))
        assert pointed(publisher, table) == before, "the store has it, and the process died"
        assert publisher.rows(table, 0) == expected((0, [0])), "cuts do not look at the pointer"
        publisher.format.published(publication, one)
        assert pointed(publisher, table).version == one.ref.version

    def test_a_pointer_that_lags_is_moved_by_the_next_touch(self, publisher: Publisher, table: Table) -> None:
        """R17: by any caller that has read the record."""
        _, newest = recorded(publisher, table, 0, 1)
        found = publisher.format.project(table, newest)
        assert (found.moved, found.csn) == (True, 2)
        assert (pointed(publisher, table).version, pointed(publisher, table).pointer) == (
            newest.version,
            newest.metadata,
        )
        again = publisher.format.project(table, newest)
        assert (again.moved, again.csn) == (False, 2)

    def test_columns_change_with_the_pointer_that_follows(self, publisher: Publisher, table: Table) -> None:
        """R17, R32: a process dies after the commit; the next change starts from the store's record."""
        publisher.publish(table, day(0), [1])
        lagging = pointed(publisher, table)
        for change in (rename("label", "title"), rename("title", "heading")):
            publication = publisher.publication(table, changes=[change])
            publisher.record((publication, publisher.format.prepare(publication)))
        assert pointed(publisher, table) == lagging
        assert publisher.format.project(table, publisher.refs[table]).moved
        names = publisher.format.arrow_schema(pointed(publisher, table).schema).names
        assert names == ["id", "heading", EPOCH_COLUMN]

    def test_a_pointer_never_goes_back(self, publisher: Publisher, table: Table) -> None:
        """R17: a late projection of an older version moves nothing."""
        first, second, newest = recorded(publisher, table, 0, 1, 2)
        assert publisher.format.project(table, second).moved
        assert publisher.format.project(table, newest).moved
        late = [publisher.format.project(table, ref) for ref in (first, second)]
        assert [(projected.moved, projected.csn) for projected in late] == [(False, 3), (False, 3)]
        assert pointed(publisher, table).version == newest.version

    def test_racing_projections_end_at_the_newest(self, publisher: Publisher, table: Table) -> None:
        """R17: in any order."""
        refs = recorded(publisher, table, *range(6))
        with ThreadPoolExecutor(4) as pool:
            moved = list(pool.map(lambda ref: publisher.format.project(table, ref).moved, refs * 2))
        assert any(moved)
        assert pointed(publisher, table).version == refs[-1].version

    def test_publications_go_on_while_the_pointer_lags(self, publisher: Publisher, table: Table) -> None:
        """R17: each starts from the store's record."""
        refs = recorded(publisher, table, *range(4))
        assert pointed(publisher, table).version == 0
        wanted = [expected(*((day, [day]) for day in range(number + 1))) for number in range(4)]
        assert [publisher.rows(table, 3, ref=ref) for ref in refs] == wanted
        publisher.publish(table, day(2), [20, 21], replaces=True)
        assert publisher.rows(table, 3) == expected((0, [0]), (1, [1]), (2, [20, 21]), (3, [3]))
        assert pointed(publisher, table).version == publisher.refs[table].version

    def test_a_pointer_that_lags_by_far_is_moved_too(self, publisher: Publisher, table: Table) -> None:
        publisher.publish(table, day(0), [0])
        refs = recorded(publisher, table, *range(1, 31))
        assert publisher.format.project(table, refs[-1]).moved
        assert publisher.rows(table, 30) == expected(*((number, [number]) for number in range(31)))

    def test_a_renamed_column_stays_renamed(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        publisher.publish(table, day(0), [0])
        backend.rename_column(table, "label", "title")
        renamed = pointed(publisher, table)
        assert not publisher.format.project(table, publisher.refs[table]).moved
        publication = publisher.publication(table)
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert pointed(publisher, table).schema == renamed.schema
        assert "title" in publisher.format.arrow_schema(publisher.schemas[table]).names

    def test_a_change_on_a_pointer_that_lags_is_refused(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        publisher.publish(table, day(0), [0])
        (newest,) = recorded(publisher, table, 1)
        staged = publisher.stage(table, day(2), [batch([2])])
        backend.rename_column(table, "label", "title")
        with pytest.raises(ForeignCommit, match="another program"):
            publisher.format.project(table, newest)
        with pytest.raises(ForeignCommit, match="another program"):
            publisher.format.prepare(publisher.publication(table, (day(2), staged)))
        assert publisher.rows(table, 1) == expected((0, [0]), (1, [1]))

    def test_a_compaction_that_a_commit_overtook_is_left(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: it was made of the version before the last commit, and has no rows that the commit lacks."""
        publisher.publish(table, day(0), [1, 2])
        (newest,) = recorded(publisher, table, 1)
        backend.commit_foreign(table, "replace", {0: [2, 1]})
        assert publisher.format.compare(table, newest).status is PointerStatus.BEHIND
        assert publisher.format.project(table, newest).moved
        assert pointed(publisher, table).version == newest.version
        publisher.publish(table, day(2), [2])
        assert publisher.rows(table, 2) == expected((0, [1, 2]), (1, [1]), (2, [2]))

    def test_other_rows_that_a_commit_overtook_are_refused(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: moving the pointer would drop another program's rows."""
        publisher.publish(table, day(0), [1, 2])
        (newest,) = recorded(publisher, table, 1)
        backend.commit_foreign(table, "append", {0: [3]})
        with pytest.raises(ForeignCommit, match="does not come from"):
            publisher.format.project(table, newest)

    def test_a_table_made_again_is_not_projected(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: the pointer belongs to another table."""
        (newest,) = recorded(publisher, table, 0)
        backend.drop(table)
        again = publisher.create(table)
        with pytest.raises(TableRecreated):
            publisher.format.project(table, newest)
        assert pointed(publisher, table) == again

    def test_a_table_that_is_published_while_it_is_replaced_stays(
        self, publisher: Publisher, table: Table
    ) -> None:
        unpublished = publisher.create(table)
        publication, one = prepared(publisher, table, 0)
        publisher.record((publication, one))
        replaced = publisher.format.replace(table, unpublished, batch([]).rename_columns(["id", "no"]).schema)
        assert replaced.table_uuid != unpublished.table_uuid
        publisher.format.published(publication, one)
        assert pointed(publisher, table).table_uuid == unpublished.table_uuid
        publisher.publish(table, day(1), [1])
        assert publisher.rows(table, 1) == expected((0, [0]), (1, [1]))
