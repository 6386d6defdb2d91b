"""Cases: commits of other programs are recognised as compactions or as foreign rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider.domain.errors import ForeignCommit, Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.tables.errors import TableDropped, TableRecreated
from airflow_provider.tables.pointer_status import PointerStatus
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)


class ForeignCases(TableCases):
    """Compactions, and commits of other rows."""

    def test_a_compaction_is_another_representation(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: the same rows in other files: publishing continues, and both versions read as before."""
        for number in range(3):
            publisher.publish(table, day(number), [number, 10 + number])
        before = publisher.refs[table]
        backend.commit_foreign(table, "replace", {number: [number, 10 + number] for number in range(3)})
        found = publisher.format.compare(table, before)
        assert (found.status, found.foreign.operations) == (PointerStatus.COMPACTED, ("replace",))
        assert not publisher.format.project(table, before).moved
        files = publisher.format.files(publisher.state(table, 2))
        publisher.publish(table, day(1), [1], replaces=True)
        assert publisher.rows(table, 2) == expected((0, [0, 10]), (1, [1]), (2, [2, 12]))
        assert not set(files) & set(publisher.format.files(publisher.state(table, 2)))
        assert publisher.rows(table, 2, ref=before) == expected((0, [0, 10]), (1, [1, 11]), (2, [2, 12]))
        assert publisher.format.compare(table, publisher.refs[table]).status is PointerStatus.CURRENT

    def test_several_compactions_in_a_row(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: the last of them has to have the rows; what lay in between is gone."""
        publisher.publish(table, day(0), [1, 2])
        for number in (0, 1, 0):
            backend.commit_foreign(table, "replace", {number: [2, 1]})
        assert publisher.format.compare(table, publisher.refs[table]).status is PointerStatus.COMPACTED
        publisher.publish(table, day(1), [3])
        assert publisher.rows(table, 1) == expected((0, [1, 2]), (1, [3]))

    @pytest.mark.parametrize("rows", [{0: [1]}, {0: [1, 2, 3]}, {1: [1, 2]}, {}])
    def test_a_compaction_that_is_none_is_foreign(
        self, backend: TableBackend, publisher: Publisher, table: Table, rows: dict[int, list[int]]
    ) -> None:
        """R17: a commit that claims to keep the rows must have the same number of rows in each epoch."""
        before = publisher.publish(table, day(0), [1, 2])
        backend.commit_foreign(table, "replace", rows)
        found = publisher.format.compare(table, before)
        assert found.status is PointerStatus.FOREIGN
        assert set(found.foreign.epochs) == {day(number).end for number in {0, *rows}}
        self._refused(publisher, table, found.version)

    @pytest.mark.parametrize("operation", ["append", "overwrite", "delete"])
    def test_other_rows_are_foreign(
        self, backend: TableBackend, publisher: Publisher, table: Table, operation: str
    ) -> None:
        """R17: the comparison names the operation and the epochs; the published version reads as before."""
        publisher.publish(table, day(0), [1])
        before = publisher.publish(table, day(1), [2])
        backend.commit_foreign(table, operation, {1: [] if operation == "delete" else [7]})
        found = publisher.format.compare(table, before)
        touched = (day(1).end,) if operation == "append" else (day(0).end, day(1).end)
        assert (found.status, found.foreign.operations) == (PointerStatus.FOREIGN, (operation,))
        assert (found.foreign.epochs, found.foreign.obstacle) == (touched, "")
        self._refused(publisher, table, found.version)
        with pytest.raises(ForeignCommit, match=operation):
            publisher.format.project(table, before)
        assert publisher.rows(table, 1) == expected((0, [1]), (1, [2]))

    def test_a_table_that_was_dropped_is_named_and_restored(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: publishing creates no table in its place; restoring replaces an empty table of that name."""
        publisher.publish(table, day(0), [1])
        staged = publisher.stage(table, day(1), [batch([2])])
        recorded = publisher.refs[table]
        assert not publisher.format.restore(table, recorded)
        for made_again in (False, True):
            backend.drop(table)
            publication = publisher.publication(table, (day(1), staged))
            for touch in (
                lambda: publisher.format.prepare(publication),  # noqa: B023 - called at once
                lambda: publisher.format.compare(table, recorded),
                lambda: publisher.format.project(table, recorded),
            ):
                with pytest.raises(TableDropped, match="airflow epochs recover"):
                    touch()
            if made_again:
                publisher.create(table)
            assert publisher.format.restore(table, recorded)
            assert not publisher.format.restore(table, recorded)
        publication = publisher.publication(table, (day(1), staged))
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert backend.engine_rows(table) == publisher.rows(table, 1) == expected((0, [1]), (1, [2]))

    def test_a_table_with_rows_of_its_own_is_not_replaced_by_one_that_was_dropped(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        recorded = publisher.publish(table, day(0), [1])
        backend.drop(table)
        publisher.create(table)
        backend.commit_foreign(table, "append", {0: [7]})
        with pytest.raises(TableRecreated, match="put them elsewhere"):
            publisher.format.restore(table, recorded)
        assert backend.engine_rows(table) == expected((0, [7]))
        backend.drop(table)
        assert publisher.format.restore(table, recorded)

    def test_a_table_whose_metadata_is_gone_is_not_restored(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        recorded = publisher.publish(table, day(0), [1])
        backend.drop(table)
        backend.lose(recorded.metadata)
        with pytest.raises(Unavailable):
            backend.format().restore(table, recorded)
        assert publisher.format.describe(table) is None

    def test_what_is_behind_a_compaction_is_seen(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: a compaction after or before other rows does not hide them."""
        publisher.publish(table, day(0), [1])
        publisher.publish(table, day(1), [2])
        backend.commit_foreign(table, "replace", {0: [1], 1: [2]})
        backend.commit_foreign(table, "append", {1: [7]})
        backend.commit_foreign(table, "replace", {0: [1], 1: [7, 2]})
        found = publisher.format.compare(table, publisher.refs[table])
        assert found.status is PointerStatus.FOREIGN
        assert found.foreign.operations == ("replace", "append", "replace")
        assert found.foreign.epochs == (day(1).end,)

    def test_other_rows_of_the_same_number_are_seen_behind_a_compaction(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: a compaction promises the rows of the commit before it, whatever that was."""
        publisher.publish(table, day(0), [1])
        backend.commit_foreign(table, "overwrite", {0: [7]})
        backend.commit_foreign(table, "replace", {0: [7]})
        found = publisher.format.compare(table, publisher.refs[table])
        assert (found.status, found.foreign.epochs) == (PointerStatus.FOREIGN, (day(0).end,))

    def test_rows_of_others_are_taken_over_when_they_are_named(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: a publication names the version that it adopts; a later version of the other program is refused."""
        publisher.publish(table, day(0), [1])
        backend.commit_foreign(table, "append", {0: [7]})
        found = publisher.format.compare(table, publisher.refs[table])
        adopting = replace(publisher.publication(table), adopts=found.version)
        publisher.commit((adopting, publisher.format.prepare(adopting)))
        assert publisher.rows(table, 0) == expected((0, [1, 7]))
        assert publisher.format.compare(table, publisher.refs[table]).status is PointerStatus.CURRENT
        backend.commit_foreign(table, "append", {0: [8]})
        with pytest.raises(ForeignCommit):
            publisher.format.prepare(replace(publisher.publication(table), adopts=found.version))

    def test_rows_in_a_table_that_was_never_published(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: they are foreign, since the store has no version to compare them with."""
        assert publisher.format.compare(table, None).status is PointerStatus.CURRENT
        publisher.create(table)
        assert publisher.format.compare(table, None).status is PointerStatus.CURRENT
        backend.commit_foreign(table, "append", {0: [1]})
        found = publisher.format.compare(table, None)
        assert (found.status, found.foreign.epochs) == (PointerStatus.FOREIGN, (day(0).end,))

    def test_a_commit_that_the_store_does_not_know_is_ahead(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R33: also below another program's compaction, and if the store knows no commit of the table."""
        first = publisher.publish(table, day(0), [1])
        publisher.publish(table, day(1), [2])
        backend.commit_foreign(table, "replace", {0: [1], 1: [2]})
        for known in (first, None):
            found = publisher.format.compare(table, known)
            head = publisher.store.read(publisher.domain, []).head
            assert (found.status, found.csn) == (PointerStatus.AHEAD, 2)
            assert found.incarnation == head.incarnation

    def _refused(self, publisher: Publisher, table: Table, version: int) -> None:
        staged = publisher.stage(table, day(5), [batch([5])])
        with pytest.raises(ForeignCommit) as refused:
            publisher.format.prepare(publisher.publication(table, (day(5), staged)))
        assert refused.value.found == str(version)
