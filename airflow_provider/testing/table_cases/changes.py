"""Cases of what programs that follow the catalog's snapshots are told of each version (R17)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Shown, TableRef
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    Row,
    TableBackend,
    TableCases,
    day,
    expected,
    new_publisher,
)
from airflow_provider.testing.table_cases.model import HISTORIES, Slice, published
from airflow_provider.testing.table_cases.showing import BOUNDS, days, only, shown_rows, shows

Change = tuple[int, Row]
"""1 and a row that came, or -1 and a row that left."""


class ChangesBackend(TableBackend):
    """Backend of a format whose snapshots say what they change."""

    @abstractmethod
    def changes(self, table: Table, after: int) -> list[Change]:
        """Return what a program that follows the catalog's snapshots is told of those after the version *after*."""


def changed(backend: ChangesBackend, table: Table, since: TableRef) -> tuple[list[Row], list[Row]]:
    """Return the rows that came since the version *since*, and those that left, as followers of changes are told."""
    total: Counter[Row] = Counter()
    for sign, row in backend.changes(table, since.version):
        total[row] += sign
    return sorted((+total).elements()), sorted((-total).elements())


def remove(publisher: Publisher, table: Table, number: int, shows: Shown) -> None:
    """Publish a version without the slice of one day."""
    publication = publisher.publication(table, removes=[day(number)], shows=shows)
    publisher.commit((publication, publisher.format.prepare(publication)))


class ChangesCases(TableCases):
    """The changes of versions add up to the rows that engines see."""

    histories = 10
    """Random histories that are followed."""

    def test_what_a_revision_replaces_leaves(
        self, backend: ChangesBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: programs that follow changes are told so, and of an expiry."""
        publisher.publish(table, day(0), [0, 1, 2])
        first = publisher.publish(table, day(1), [10])
        second = publisher.publish(table, day(0), [100, 101], replaces=True)
        assert changed(backend, table, first) == (expected((0, [100, 101])), expected((0, [0, 1, 2])))
        remove(publisher, table, 1, days(0, 1))
        assert changed(backend, table, second) == ([], expected((1, [10])))
        assert changed(backend, table, first) == (
            expected((0, [100, 101])),
            expected((0, [0, 1, 2]), (1, [10])),
        )

    def test_the_state_before_leaves_when_the_next_one_is_shown(
        self, backend: ChangesBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R17: the same rows at another barrier are others; a state that is shown again comes again."""
        refs = [
            publisher.publish(full_table, day(number), [number, number + 1], shows=only(number))
            for number in range(3)
        ]
        newest, before = expected((2, [2, 3])), expected((1, [1, 2]))
        assert changed(backend, full_table, refs[1]) == (newest, before)
        assert changed(backend, full_table, refs[0]) == (newest, expected((0, [0, 1])))
        publication = publisher.publication(full_table, shows=only(1))
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert changed(backend, full_table, refs[2]) == (before, newest)
        assert changed(backend, full_table, refs[1]) == ([], [])

    def test_rows_come_when_the_gap_before_them_is_filled(
        self, backend: ChangesBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: no follower has to look at the commit that wrote them out of its sight."""
        first = publisher.publish(table, day(0), [1], shows=days(0, 0))
        second = publisher.publish(table, day(2), [3], shows=days(0, 0))
        assert changed(backend, table, first) == ([], [])
        publisher.publish(table, day(1), [2], shows=days(0, 2))
        assert changed(backend, table, second) == (expected((1, [2]), (2, [3])), [])

    def test_what_happens_out_of_sight_is_no_change(
        self, backend: ChangesBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R17: an older state is computed again, or expires."""
        publisher.publish(full_table, day(0), [1], shows=only(0))
        older = publisher.publish(full_table, day(1), [2], shows=only(1))
        publisher.publish(full_table, day(0), [3], replaces=True, shows=only(1))
        remove(publisher, full_table, 0, only(1))
        assert changed(backend, full_table, older) == ([], [])
        assert backend.engine_rows(full_table) == expected((1, [2]))

    def test_changes_go_through_commits_of_other_programs(
        self, backend: ChangesBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R17: a compaction changes no rows; adopted rows are told of once, by the commit that wrote them."""
        first = publisher.publish(full_table, day(0), [1, 2], shows=only(0))
        for operation, ids in (("replace", [2, 1]), ("overwrite", [7, 8])):
            backend.commit_foreign(full_table, operation, {0: ids})
            found = publisher.format.compare(full_table, publisher.refs[full_table])
            publisher.follow(full_table, found, shows=only(0))
            wanted = ([], []) if operation == "replace" else (expected((0, [7, 8])), expected((0, [1, 2])))
            assert changed(backend, full_table, first) == wanted
        publisher.publish(full_table, day(1), [9], shows=only(1))
        assert changed(backend, full_table, first) == (expected((1, [9])), expected((0, [1, 2])))

    def test_changes_add_up_to_what_engines_see(self, backend: ChangesBackend) -> None:
        """R17: between any two versions of any history, with any rows shown at each commit."""

        @settings(max_examples=self.histories)
        @given(kind=st.sampled_from(TableKind), history=HISTORIES, data=st.data())
        def changes_add_up(kind: TableKind, history: list[tuple[Slice, ...]], data: st.DataObject) -> None:
            publisher = new_publisher(backend)
            table = publisher.table(kind=kind)
            drawn = [data.draw(BOUNDS) for _ in history]
            commits = published(publisher, table, history, [shows(bounds) for bounds in drawn])
            csn = data.draw(st.integers(1, len(commits)))
            then, now = (
                Counter(shown_rows(commits, number, drawn[number - 1])) for number in (csn, len(commits))
            )
            found = changed(backend, table, commits[csn - 1].ref)
            assert found == (sorted((now - then).elements()), sorted((then - now).elements()))

        changes_add_up()
