"""Cases of compaction: the rows of many epochs in one file are those that each state had before."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pytest

from airflow_provider.domain.columns import add
from airflow_provider.domain.cut import Staged
from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import ALL_SHOWN, TableRef
from airflow_provider.tables import storage
from airflow_provider.tables.base import Publication
from airflow_provider.tables.compacting import CompactingFormat, Group, Regrouped, with_units
from airflow_provider.tables.pointer_status import PointerStatus
from airflow_provider.testing.table_cases.backend import (
    COLUMNS,
    Publisher,
    Row,
    TableCases,
    batch,
    day,
    expected,
    rows_of,
)
from airflow_provider.testing.table_cases.cut_files import CutFileBackend, cut_file

DAYS = 10
LOW, HIGH = 2, 7
"""Days whose rows come into one file."""


class CompactingBackend(CutFileBackend):
    """Backend of a format with unit files, and cut files."""

    @abstractmethod
    def operation(self, table: Table) -> str:
        """Return what other programs are told of the newest version of *table*: the snapshot's operation."""


def span(low: int, high: int) -> Group:
    """Return the group of the epochs of the days *low* to *high*."""
    return day(low).end, day(high).end


def units(publisher: Publisher, table: Table) -> CompactingFormat:
    return with_units(publisher.format, table.name)


def regrouped(publisher: Publisher, table: Table, *groups: Group) -> Regrouped:
    """Write the rows of *groups* to new files, which no version has yet."""
    table_format, base = units(publisher, table), publisher.refs[table]
    place = table_format.unit_place(table, uuid.uuid4().hex)
    files = table_format.held(table, base, groups[0][0], groups[-1][1])
    return table_format.regroup(table, base, files, groups, place)


def commit(publisher: Publisher, table: Table, found: Regrouped) -> TableRef:
    publication = replace(publisher.publication(table), regroups=found)
    publisher.commit((publication, publisher.format.prepare(publication)))
    return publisher.refs[table]


def compact(publisher: Publisher, table: Table, *groups: Group) -> TableRef:
    return commit(publisher, table, regrouped(publisher, table, *(groups or (span(LOW, HIGH),))))


def lose_unit(publisher: Publisher, table: Table) -> str:
    """Delete the file with the rows of many epochs; return its URI."""
    every = units(publisher, table).held(table, publisher.refs[table], day(0).end, day(DAYS).end)
    (unit,) = (file for file in every if file.low < file.high)
    filesystem, path = storage.filesystem(unit.uri)
    filesystem.delete_file(path)
    return unit.uri


def loaded(publisher: Publisher, table: Table, days: int = DAYS) -> list[Row]:
    """Publish *days* days of one row, or of two rows, or of none; return all rows."""
    rows = [(number, [10 * number, 10 * number + 1][: (number + 1) % 3]) for number in range(days)]
    for number, ids in rows:
        publisher.publish(table, day(number), ids)
    return expected(*rows)


def within(rows: Sequence[Row], low: datetime | None, high: datetime) -> list[Row]:
    return [row for row in rows if (low is None or low < row[0]) and row[0] <= high]


class CompactingCases(TableCases):
    """The format's own reading, cut files, the catalog, later commits and a vacuum, all after a compaction."""

    def test_every_state_has_the_rows_that_it_had(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        """Whole, cut by a barrier, from any lower bound; a state of before has its own files."""
        rows = loaded(publisher, table)
        before = publisher.refs[table]
        assert len(publisher.format.files(publisher.state(table, DAYS))) == 7
        compact(publisher, table)
        assert backend.operation(table) == "replace"
        assert len(publisher.format.files(publisher.state(table, DAYS))) == 4
        assert backend.engine_rows(table) == rows
        schema = publisher.schemas[table]
        for until in range(DAYS):
            assert publisher.rows(table, until, ref=before) == within(rows, None, day(until).end)
            for since in (None, 0, LOW, 4, HIGH):
                state = publisher.state(table, until, since=since)
                wanted = within(rows, None if since is None else day(since).end, day(until).end)
                assert publisher.rows(table, until, since=since) == wanted
                found = publisher.format.statistics(state, schema)
                assert found.rows == len(wanted)
                assert found.columns["id"].nulls in {0, None}
                only = publisher.format.read(state, schema, ["label"])
                assert (only.column_names, only.num_rows) == (["label"], len(wanted))
                sized = publisher.format.sized(state)
                assert sized.clip is not None or sum(map(_rows, sized.files)) == len(wanted)
                if until in {1, 4, HIGH, 9}:
                    cut = cut_file(publisher, table, state)
                    assert (rows_of(backend.opened(cut.uri)), cut.rows) == (wanted, len(wanted))

    def test_a_clipped_state_is_shown_by_the_catalog(self, publisher: Publisher, table: Table) -> None:
        loaded(publisher, table)
        compact(publisher, table)
        assert publisher.format.is_shown(publisher.state(table, 4))

    def test_staged_output_replaces_rows_of_a_unit(self, publisher: Publisher, table: Table) -> None:
        rows = loaded(publisher, table)
        compact(publisher, table)
        staged = publisher.stage(table, day(4), [batch([99])])
        output = [Staged(interval=day(4), committable=staged)]
        wanted = sorted([*(row for row in rows if row[0] != day(4).end), (day(4).end, 99)])
        assert publisher.rows(table, DAYS, staged=output) == wanted

    def test_an_epoch_of_a_unit_is_replaced_once_it_is_apart(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        rows = loaded(publisher, table)
        compact(publisher, table)
        staged = (day(4), publisher.stage(table, day(4), [batch([99])]))
        for adds, removes in (([staged], [day(4)]), ([staged], []), ([], [day(4)])):
            with pytest.raises(Unavailable, match="compacted"):
                publisher.format.prepare(publisher.publication(table, *adds, removes=removes))
        compact(publisher, table, span(LOW, 3), span(4, 4), span(5, HIGH))
        assert backend.operation(table) == "replace"
        assert publisher.rows(table, DAYS) == rows
        publisher.publish(table, day(4), [99], replaces=True)
        wanted = sorted([*(row for row in rows if row[0] != day(4).end), (day(4).end, 99)])
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
        compact(publisher, table)
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
        compact(publisher, table, *(span(number, number) for number in range(LOW, HIGH + 1)))
        assert publisher.rows(table, DAYS) == wanted
        assert all(
            file.low == file.high
            for file in units(publisher, table).held(table, publisher.refs[table], day(0).end, day(DAYS).end)
        )

    def test_a_unit_whose_file_is_lost_is_replaced_whole(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        """Its rows are gone, and none of its epochs stays: nothing needs to be read."""
        loaded(publisher, table)
        compact(publisher, table)
        lost = lose_unit(publisher, table)
        (gone,) = publisher.format.missing(table, [publisher.refs[table]])
        assert (gone.uri, gone.since, gone.barrier) == (lost, *span(LOW, HIGH))
        numbers = range(LOW, HIGH + 1)
        staged = [(day(number), publisher.stage(table, day(number), [batch([number])])) for number in numbers]
        for some in (numbers[1:], [number for number in numbers if number != 4]):
            adds = [slice_ for slice_ in staged if slice_[0] in [day(number) for number in some]]
            with pytest.raises(Unavailable, match="compacted"):
                publisher.format.prepare(publisher.publication(table, *adds, removes=[day(n) for n in some]))
        publication = publisher.publication(table, *staged, removes=[day(number) for number in numbers])
        publisher.commit((publication, publisher.format.prepare(publication)))
        wanted = expected((0, [0]), (1, [10, 11]), *((number, [number]) for number in numbers), (9, [90]))
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
        assert publisher.format.missing(table, [publisher.refs[table]]) == []

    @pytest.mark.parametrize("change", ["epoch", "removal", "columns", "compaction"])
    def test_files_that_others_have_replaced_are_not_committed(
        self, publisher: Publisher, table: Table, change: str
    ) -> None:
        rows = loaded(publisher, table)
        found = regrouped(publisher, table, span(LOW, HIGH))
        if change == "epoch":
            publisher.publish(table, day(4), [41, 42], replaces=True)
            rows = sorted([*(row for row in rows if row[0] != day(4).end), *expected((4, [41, 42]))])
        elif change == "removal":
            publication = publisher.publication(table, removes=[day(4)])
            publisher.commit((publication, publisher.format.prepare(publication)))
            rows = [row for row in rows if row[0] != day(4).end]
        elif change == "columns":
            publisher.change(table, add("more", "bigint"))
        else:
            compact(publisher, table)
        with pytest.raises(Unavailable):
            publisher.format.prepare(replace(publisher.publication(table), regroups=found))
        assert publisher.rows(table, DAYS) == rows

    def test_epochs_that_come_meanwhile_stay(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        rows = loaded(publisher, table)
        found = regrouped(publisher, table, span(LOW, HIGH))
        publisher.publish(table, day(DAYS), [7])
        commit(publisher, table, found)
        wanted = sorted([*rows, *expected((DAYS, [7]))])
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted

    def test_columns_and_partitions_stay(self, backend: CompactingBackend, publisher: Publisher) -> None:
        """A file of a unit has one value of each further partition; rows of before a column have none."""
        table = publisher.table(declared={"partition_by": ("bucket(2, id)",)})
        rows = loaded(publisher, table)
        publisher.change(table, add("more", "bigint"))
        wide = pa.record_batch([[5], ["row 5"], [50]], schema=COLUMNS.append(pa.field("more", pa.int64())))
        staged = publisher.stage(table, day(DAYS), [wide])
        publication = publisher.publication(table, (day(DAYS), staged))
        publisher.commit((publication, publisher.format.prepare(publication)))
        compact(publisher, table, span(LOW, DAYS))
        wanted = sorted([*rows, *expected((DAYS, [5]))])
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
        found = publisher.format.read(publisher.state(table, DAYS), publisher.schemas[table], ["id", "more"])
        assert {row["id"]: row["more"] for row in found.to_pylist() if row["more"]} == {5: 50}
        files = units(publisher, table).held(table, publisher.refs[table], day(LOW).end, day(DAYS).end)
        assert len(files) == len({file.partition for file in files}) == 2

    def test_a_vacuum_deletes_replaced_files_alone(self, publisher: Publisher, table: Table) -> None:
        rows = loaded(publisher, table)
        before = publisher.refs[table]
        old = set(publisher.format.files(publisher.state(table, DAYS)))
        after = compact(publisher, table)
        new = set(publisher.format.files(publisher.state(table, DAYS)))
        assert publisher.format.vacuum(table, [], [before, after]) == []
        deleted = publisher.format.vacuum(table, [before], [after])
        assert old - new <= set(deleted)
        assert not new & set(deleted)
        assert publisher.format.missing(table, [after]) == []
        assert publisher.rows(table, DAYS) == rows
        compact(publisher, table, *(span(number, number) for number in range(LOW, HIGH + 1)))
        publisher.format.vacuum(table, [after], [publisher.refs[table]])
        assert publisher.rows(table, DAYS) == rows

    @pytest.mark.parametrize("more", [[], [99]])
    def test_another_program_compacts_a_unit(
        self, backend: CompactingBackend, publisher: Publisher, table: Table, more: list[int]
    ) -> None:
        """R17: its rows are counted by epoch."""
        loaded(publisher, table)
        compact(publisher, table)
        slices = {number: [10 * number, 10 * number + 1][: (number + 1) % 3] for number in range(DAYS)}
        changed = {number: [*ids, *(more if number == 4 else [])] for number, ids in slices.items()}
        backend.commit_foreign(table, "replace", {number: ids for number, ids in changed.items() if ids})
        found = publisher.format.compare(table, publisher.refs[table])
        if more:
            assert (found.status, found.foreign.epochs) == (PointerStatus.FOREIGN, (day(4).end,))
            return
        assert found.status is PointerStatus.COMPACTED
        publisher.publish(table, day(DAYS), [7])
        wanted = expected(*slices.items(), (DAYS, [7]))
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
        compact(publisher, table)
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted

    def test_rows_of_another_program_come_beside_a_unit(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17: adopted into an epoch of it; both are compacted, and separated, together."""
        rows = loaded(publisher, table)
        compact(publisher, table)
        backend.commit_foreign(table, "append", {4: [99]})
        found = publisher.format.compare(table, publisher.refs[table])
        assert found.foreign.epochs == (day(4).end,)
        publisher.follow(table, found, shows=ALL_SHOWN)
        wanted = sorted([*rows, (day(4).end, 99)])
        for groups in ([span(LOW, 3), span(4, 4), span(5, HIGH)], [span(LOW, HIGH)]):
            assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
            assert publisher.rows(table, 4, since=3) == [row for row in wanted if row[0] == day(4).end]
            compact(publisher, table, *groups)
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted

    def test_a_file_beside_a_unit_may_stay(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        """R17, R41: as it does where its rows cannot be copied. A file that came since may not."""
        rows = loaded(publisher, table)
        compact(publisher, table)
        before = publisher.refs[table]
        backend.commit_foreign(table, "append", {4: [99]})
        publisher.follow(table, publisher.format.compare(table, before), shows=ALL_SHOWN)
        table_format, base = units(publisher, table), publisher.refs[table]
        held = table_format.held(table, base, *span(LOW, HIGH))
        own, (beside,) = ([file for file in held if (file.low < file.high) is many] for many in (True, False))
        groups, place = [span(LOW, 3), span(4, 4), span(5, HIGH)], table_format.unit_place(table, "apart")
        found = table_format.regroup(table, base, own, groups, place)
        with pytest.raises(Unavailable, match="another file"):
            publisher.format.prepare(replace(publisher.publication(table), regroups=found))
        commit(publisher, table, replace(found, beside=frozenset({beside.uri})))
        wanted = sorted([*rows, (day(4).end, 99)])
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted
        publisher.publish(table, day(4), [5], replaces=True)
        wanted = sorted([*(row for row in rows if row[0] != day(4).end), (day(4).end, 5)])
        assert publisher.rows(table, DAYS) == backend.engine_rows(table) == wanted

    def test_hidden_epochs_are_not_in_sight(
        self, backend: CompactingBackend, publisher: Publisher, table: Table
    ) -> None:
        """A unit is shown or hidden as a whole: a version that would show a part of it is refused."""
        from airflow_provider.testing.table_cases.showing import days

        loaded(publisher, table)
        compact(publisher, table)
        inside: Publication = publisher.publication(table, shows=days(0, 4))
        with pytest.raises(Unavailable, match="compacted"):
            publisher.format.prepare(inside)
        whole = publisher.publication(table, shows=days(HIGH + 1, DAYS))
        publisher.commit((whole, publisher.format.prepare(whole)))
        assert {row[0] for row in backend.engine_rows(table)} == {day(9).end}


def _rows(uri: str) -> int:
    from pyarrow import parquet

    filesystem, path = storage.filesystem(uri)
    return int(parquet.read_metadata(path, filesystem=filesystem).num_rows)
