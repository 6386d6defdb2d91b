"""Cases: the rows that an engine without cuts sees when it loads a table from the catalog (R17)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Shown
from airflow_provider.tables.pointer_status import PointerStatus
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    Row,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
    new_publisher,
)
from airflow_provider.testing.table_cases.model import DAYS, HISTORIES, Committed, Slice, published, state

NOTHING = Shown(day(0).start, day(0).start)


def days(first: int, last: int) -> Shown:
    """Show the rows of the days from *first* to *last*."""
    return Shown(day(first).start, day(last).end)


def only(number: int) -> Shown:
    """Show the rows of one day."""
    return days(number, number)


Bounds = tuple[int, int]
"""The day before the first that is shown, and the last one."""
BOUNDS = st.tuples(st.integers(-1, DAYS - 1), st.integers(0, DAYS - 1))


def shows(bounds: Bounds) -> Shown:
    return Shown(day(bounds[0]).end, day(bounds[1]).end)


def shown_rows(commits: list[Committed], csn: int, bounds: Bounds) -> list[Row]:
    """Return the model's rows that the version of *csn* shows."""
    low, high = bounds
    everything = state(TableKind.INCREMENTAL, commits, DAYS, csn, None)
    return [row for row in everything if day(low).end < row[0] <= day(high).end]


class ShowingCases(TableCases):
    """The current version shows the rows that its publication names; states find all slices."""

    shown_examples = 10

    def test_the_newest_state_of_a_full_table_is_shown_alone(
        self, backend: TableBackend, publisher: Publisher, full_table: Table
    ) -> None:
        for number in range(3):
            publisher.publish(full_table, day(number), [number, 10 + number], shows=only(number))
            assert backend.engine_rows(full_table) == expected((number, [number, 10 + number]))
        for number in range(3):
            assert publisher.rows(full_table, number) == expected((number, [number, 10 + number]))
            assert publisher.format.is_shown(publisher.state(full_table, number)) is (number == 2)

    def test_an_older_state_that_is_computed_again_stays_out_of_sight(
        self, backend: TableBackend, publisher: Publisher, full_table: Table
    ) -> None:
        publisher.publish(full_table, day(0), [1], shows=only(0))
        publisher.publish(full_table, day(1), [2], shows=only(1))
        publisher.publish(full_table, day(0), [3], replaces=True, shows=only(1))
        assert backend.engine_rows(full_table) == expected((1, [2]))
        assert publisher.rows(full_table, 0) == expected((0, [3]))
        assert publisher.rows(full_table, 1) == expected((1, [2]))

    def test_what_is_beyond_a_gap_appears_when_the_gap_is_filled(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        publisher.publish(table, day(1), [2], shows=NOTHING)
        assert backend.engine_rows(table) == []
        publisher.publish(table, day(3), [4], shows=NOTHING)
        publisher.publish(table, day(0), [1], shows=days(0, 1))
        assert backend.engine_rows(table) == expected((0, [1]), (1, [2]))
        assert publisher.rows(table, 3) == expected((0, [1]), (1, [2]), (3, [4]))
        publisher.publish(table, day(2), [3], shows=days(0, 3))
        assert backend.engine_rows(table) == expected(*((number, [number + 1]) for number in range(4)))

    def test_a_version_that_showed_everything_is_followed_by_one_that_does_not(
        self, backend: TableBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """Tables of earlier releases show all states until their next commit."""
        for number in range(14):  # enough that their manifests are merged
            publisher.publish(full_table, day(number), [number])
        assert len(backend.engine_rows(full_table)) == 14
        older = publisher.refs[full_table]
        publication = publisher.publication(full_table, shows=only(5))
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert backend.engine_rows(full_table) == expected((5, [5]))
        for number in range(14):
            assert publisher.rows(full_table, number) == expected((number, [number]))
            assert publisher.rows(full_table, number, ref=older) == expected((number, [number]))

    @pytest.mark.parametrize("adopted", [False, True])
    def test_what_another_program_does_to_the_shown_rows_leaves_the_others(
        self, backend: TableBackend, publisher: Publisher, full_table: Table, adopted: bool
    ) -> None:
        """R17: a compaction of the newest state, or adopted rows in it."""
        publisher.publish(full_table, day(0), [1], shows=only(0))
        before = publisher.publish(full_table, day(1), [2, 3], shows=only(1))
        ids = [7, 8] if adopted else [3, 2]
        backend.commit_foreign(full_table, "overwrite" if adopted else "replace", {1: ids})
        found = publisher.format.compare(full_table, before)
        assert found.status is (PointerStatus.FOREIGN if adopted else PointerStatus.COMPACTED)
        if adopted:
            assert found.foreign.epochs == (day(1).end,)
        publisher.follow(full_table, found, shows=only(1))
        assert backend.engine_rows(full_table) == expected((1, ids))
        assert publisher.rows(full_table, 0) == expected((0, [1]))
        assert publisher.rows(full_table, 1) == expected((1, ids))
        publisher.publish(full_table, day(2), [4], shows=only(2))
        assert [publisher.rows(full_table, until) for until in range(3)] == [
            expected((0, [1])),
            expected((1, ids)),
            expected((2, [4])),
        ]

    def test_slices_out_of_sight_go_with_the_last_version_that_has_them(
        self, backend: TableBackend, publisher: Publisher, full_table: Table
    ) -> None:
        """R24: a kept version keeps them."""
        publisher.publish(full_table, day(0), [1], shows=only(0))
        older = publisher.publish(full_table, day(1), [2], shows=only(1))
        files = publisher.format.files(publisher.state(full_table, 0))
        newest = publisher.publish(full_table, day(2), [3], shows=only(2))
        publisher.format.vacuum(full_table, [older], [newest])
        assert publisher.rows(full_table, 0) == expected((0, [1]))
        publication = publisher.publication(full_table, removes=[day(0)], shows=only(2))
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert set(files) <= set(publisher.format.vacuum(full_table, [newest], [publisher.refs[full_table]]))
        assert publisher.rows(full_table, 1) == expected((1, [2]))
        assert backend.engine_rows(full_table) == expected((2, [3]))

    def test_the_current_version_stays_with_what_it_does_not_show(
        self, publisher: Publisher, full_table: Table
    ) -> None:
        """R24: no caller has to name it."""
        publisher.publish(full_table, day(0), [1], shows=only(0))
        newest = publisher.publish(full_table, day(1), [2], shows=only(1))
        publisher.format.vacuum(full_table, [newest], [])
        assert publisher.rows(full_table, 0) == expected((0, [1]))

    def test_engines_see_the_models_rows(self, backend: TableBackend) -> None:
        """R17, R19: after any history, with any rows shown at each commit."""

        @settings(max_examples=self.shown_examples)
        @given(kind=st.sampled_from(TableKind), history=HISTORIES, data=st.data())
        def engines_see_the_models_rows(
            kind: TableKind, history: list[tuple[Slice, ...]], data: st.DataObject
        ) -> None:
            publisher = new_publisher(backend)
            table = publisher.table(kind=kind)
            drawn = [data.draw(BOUNDS) for _ in history]
            commits = published(publisher, table, history, [shows(bounds) for bounds in drawn])
            assert backend.engine_rows(table) == shown_rows(commits, len(commits), drawn[-1])
            for until in range(DAYS):
                found = publisher.rows(table, until)
                assert found == state(kind, commits, until, len(commits), None)

        engines_see_the_models_rows()

    def test_the_files_that_are_shown_are_named(self, publisher: Publisher, table: Table) -> None:
        publisher.publish(table, day(0), [1], shows=days(0, 0))
        publisher.publish(table, day(2), [3], shows=days(0, 0))
        shown = publisher.format.shown_files(table)
        assert shown == publisher.format.files(publisher.state(table, 0))
        assert publisher.format.is_shown(publisher.state(table, 1))
        assert not publisher.format.is_shown(publisher.state(table, 2))

    def test_staged_output_is_shown_to_nobody(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """R4: engines do not see it either."""
        publisher.publish(table, day(0), [1])
        publisher.stage(table, day(1), [batch([2])])
        assert backend.engine_rows(table) == expected((0, [1]))
