"""Cases: expired versions of a table lose the files that only they have; all other files stay (R24)."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRef
from airflow_provider.testing.table_cases.backend import (
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)


def files_of(publisher: Publisher, table: Table, ref: TableRef, until: int = 50) -> set[str]:
    """Return all data files of a version of an incremental table."""
    return set(publisher.format.files(publisher.state(table, until, ref=ref)))


class VacuumingCases(TableCases):
    """Expired versions are deleted with the files that only they have; the rows of all other versions stay."""

    def test_files_of_expired_versions_alone_are_deleted(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        first = publisher.publish(table, day(0), [1])
        second = publisher.publish(table, day(1), [2])
        replaced = files_of(publisher, table, first)
        newest = publisher.publish(table, day(0), [9], replaces=True)
        deleted = publisher.format.vacuum(table, [first, second], [newest])
        assert replaced <= set(deleted)
        assert {first.location, second.location} <= set(deleted)
        assert not set(deleted) & files_of(publisher, table, newest)
        assert publisher.rows(table, 1) == expected((0, [9]), (1, [2]))
        fresh = Publisher(backend.format(), publisher.store, publisher.domain)
        fresh.refs, fresh.schemas = publisher.refs, publisher.schemas
        assert fresh.rows(table, 1) == expected((0, [9]), (1, [2]))
        with pytest.raises(Unavailable):
            fresh.rows(table, 1, ref=first)
        assert publisher.format.vacuum(table, [first, second], [newest]) == []

    def test_the_version_between_two_that_share_files_goes(self, publisher: Publisher, table: Table) -> None:
        one = publisher.publish(table, day(0), [1])
        two = publisher.publish(table, day(1), [2])
        own = files_of(publisher, table, two) - files_of(publisher, table, one)
        three = publisher.publish(table, day(1), [3], replaces=True)
        deleted = publisher.format.vacuum(table, [two], [one, three])
        assert own <= set(deleted)
        assert publisher.rows(table, 1, ref=one) == expected((0, [1]))
        assert publisher.rows(table, 1, ref=three) == expected((0, [1]), (1, [3]))

    def test_the_catalogs_own_version_stays_whatever_is_asked(
        self, publisher: Publisher, table: Table
    ) -> None:
        older = publisher.publish(table, day(0), [1])
        newest = publisher.publish(table, day(1), [2])
        publisher.format.vacuum(table, [older, newest], [])
        assert publisher.rows(table, 1) == expected((0, [1]), (1, [2]))
        publisher.publish(table, day(2), [3])
        assert publisher.rows(table, 2) == expected((0, [1]), (1, [2]), (2, [3]))

    def test_staged_output_is_not_looked_at(self, publisher: Publisher, table: Table) -> None:
        older = publisher.publish(table, day(0), [1])
        staged = publisher.stage(table, day(1), [batch([2])])
        publisher.publish(table, day(0), [9], replaces=True)
        publisher.format.vacuum(table, [older], [])
        publication = publisher.publication(table, (day(1), staged))
        publisher.commit((publication, publisher.format.prepare(publication)))
        assert publisher.rows(table, 1) == expected((0, [9]), (1, [2]))

    def test_nothing_goes_when_a_kept_version_cannot_be_read(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        older = publisher.publish(table, day(0), [1])
        kept = publisher.publish(table, day(1), [2])
        publisher.publish(table, day(0), [9], replaces=True)
        files = files_of(publisher, table, older)
        backend.lose(kept.location)
        with pytest.raises(Unavailable):
            backend.format().vacuum(table, [older], [kept])
        assert files_of(publisher, table, older) == files
        assert publisher.rows(table, 0, ref=older) == expected((0, [1]))

    def test_an_interrupted_deletion_is_completed(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        older = publisher.publish(table, day(0), [1])
        first = publisher.format.files(publisher.state(table, 0))
        publisher.publish(table, day(0), [9], replaces=True)
        backend.lose(first[0])
        deleted = backend.format().vacuum(table, [older], [])
        assert older.location in deleted
        assert first[0] not in deleted

    def test_files_that_are_missing_are_named(
        self, backend: TableBackend, publisher: Publisher, table: Table
    ) -> None:
        """I6: files of versions and of staged output, each with its epoch if a manifest names it."""
        older = publisher.publish(table, day(0), [1])
        newest = publisher.publish(table, day(1), [2])
        staged = publisher.stage(table, day(2), [batch([3])])
        fresh = backend.format()
        assert fresh.missing(table, [older, newest], [staged]) == []
        first = files_of(publisher, table, older)
        backend.lose(next(iter(first)))
        backend.lose(staged.parts[0].uri)
        backend.lose(older.location)
        found = {file.uri: file.barrier for file in fresh.missing(table, [older, newest], [staged])}
        assert found == {next(iter(first)): day(0).end, older.location: None, staged.parts[0].uri: None}
        assert {file.uri for file in fresh.missing(table, [newest])} == first

    @pytest.mark.parametrize("seed", range(3))
    def test_any_kept_versions_stay_whole(self, publisher: Publisher, table: Table, seed: int) -> None:
        """Random histories, long enough that manifests are merged; any of their versions expire."""
        random = Random(seed)  # noqa: S311
        rows: dict[int, int] = {}
        history: list[tuple[TableRef, dict[int, int]]] = []
        for number in range(25):
            chosen = random.choice([number, random.randrange(number + 1)])
            ref = publisher.publish(table, day(chosen), [number], replaces=chosen in rows)
            rows[chosen] = number
            history.append((ref, dict(rows)))
        kept = [*random.sample(history[:-1], random.randrange(6)), history[-1]]
        gone = [version for version in history if version not in kept]
        publisher.format.vacuum(table, [ref for ref, _ in gone], [ref for ref, _ in kept])
        for ref, then in kept:
            assert publisher.rows(table, 50, ref=ref) == _expected(then), f"seed {seed}"

    def test_a_slice_that_leaves_a_full_table_goes(self, publisher: Publisher, full_table: Table) -> None:
        publisher.publish(full_table, day(0), [1])
        older = publisher.publish(full_table, day(1), [2])
        publication = publisher.publication(full_table, removes=[day(0)])
        publisher.commit((publication, publisher.format.prepare(publication)))
        first = publisher.format.files(publisher.state(full_table, 0, ref=older))
        assert publisher.rows(full_table, 0) == []
        assert set(first) <= set(publisher.format.vacuum(full_table, [older], []))
        assert publisher.rows(full_table, 1) == expected((1, [2]))


def _expected(rows: dict[int, int]) -> list[tuple[object, int]]:
    days: Iterable[tuple[int, list[int]]] = [(number, [row_id]) for number, row_id in rows.items()]
    return [*expected(*days)]
