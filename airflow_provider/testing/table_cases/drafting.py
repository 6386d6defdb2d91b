"""Cases: full tables with slices that statements made in drafts, beside slices that were written as files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from random import Random

import pyarrow as pa
import pytest

from airflow_provider.domain.columns import add, drop, widen
from airflow_provider.domain.cut import Staged, State
from airflow_provider.domain.errors import EpochError, InvalidInput, SchemaMismatch, Unavailable
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, TableRef
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.drafts import Draft, DraftingFormat
from airflow_provider.tables.errors import TableRecreated
from airflow_provider.testing.table_cases.backend import (
    COLUMNS,
    Publisher,
    TableBackend,
    TableCases,
    batch,
    day,
    expected,
)

MISUSES: dict[str, type[EpochError]] = {
    "drop": InvalidInput,
    "drop and create": TableRecreated,
    "another branch": InvalidInput,
    "rows held back": InvalidInput,
    "a file of others": InvalidInput,
    "another column": SchemaMismatch,
    "another column of that name": InvalidInput,
    "another layout": InvalidInput,
    "files without statistics": InvalidInput,
    "deletes beside files": InvalidInput,
    "a file that is not Parquet": InvalidInput,
}
"""Misuses of a draft after which it cannot be a slice, each with the error that reports it."""


class Engine(ABC):
    """Engine that runs statements on a draft; each call is one commit of the engine."""

    @abstractmethod
    def insert(self, draft: Draft, rows: pa.RecordBatch) -> None:
        """INSERT INTO."""

    @abstractmethod
    def delete(self, draft: Draft, ids: Iterable[int]) -> None:
        """DELETE FROM … WHERE id IN …, rewriting files that hold other rows, too."""

    @abstractmethod
    def files_below(self, uri: str) -> list[str]:
        """Return the URIs of all files below a directory."""

    @abstractmethod
    def misuse(self, draft: Draft, name: str) -> None:
        """Do to *draft* what :data:`MISUSES` names."""


class DraftingBackend(TableBackend):
    """A backend whose format has drafts."""

    @abstractmethod
    def engine(self) -> Engine:
        """Return the engine that writes drafts."""


class DraftingCases(TableCases):
    """Drafts: private, based on a slice, described, published as any other slice."""

    @pytest.fixture
    def engine(self, backend: DraftingBackend) -> Engine:
        """The engine under test."""
        return backend.engine()

    def test_what_statements_left_is_the_slice(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R4: no reader sees the draft before the commit; then the rows are those of the epoch."""
        draft = opened(publisher, engine, full_table, 0)
        engine.insert(draft, batch([1, 2]))
        engine.delete(draft, [1])
        engine.insert(draft, batch([3]))
        staged = drafting(publisher).describe_draft(draft)
        assert (staged.rows, staged.files) == (2, len(set(staged_files(publisher, draft, staged))))
        assert publisher.rows(full_table, 0) == []
        publish(publisher, draft, staged)
        assert publisher.rows(full_table, 0) == expected((0, [2, 3]))

    def test_a_draft_begins_with_its_base_and_shares_its_files(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R19: the slice before reads as before, though both share files; files with an epoch column are not shared."""
        publisher.publish(full_table, day(0), [1])
        first = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(first, batch([10, 11]))
        committed(publisher, first)
        second = opened(publisher, engine, full_table, 2, base=publisher.state(full_table, 1))
        engine.delete(second, [10])
        ref = committed(publisher, second)
        before, after = (set(publisher.format.files(publisher.state(full_table, until))) for until in (1, 2))
        assert len(before & after) == 1
        written = publisher.state(full_table, 0)
        assert not before & set(publisher.format.files(written))
        with pytest.raises(InvalidInput, match="say their epoch"):
            drafting(publisher).open_draft(first.place, publisher.create(full_table), written)
        assert publisher.rows(full_table, 0, ref=ref) == expected((0, [1]))
        assert publisher.rows(full_table, 1, ref=ref) == expected((1, [1, 10, 11]))
        assert publisher.rows(full_table, 2, ref=ref) == expected((2, [1, 11]))

    def test_both_ways_into_a_table_may_take_turns(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        publisher.publish(full_table, day(0), [1])
        one = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(one, batch([2]))
        committed(publisher, one)
        publisher.publish(full_table, day(2), [3])
        two = opened(publisher, engine, full_table, 3, base=publisher.state(full_table, 2))
        engine.insert(two, batch([4]))
        committed(publisher, two)
        publisher.publish(full_table, day(1), [9], replaces=True)
        wanted = {0: [1], 1: [9], 2: [3], 3: [3, 4]}
        for until, ids in wanted.items():
            assert publisher.rows(full_table, until) == expected((until, ids))

    def test_statistics_and_single_columns_are_those_of_the_slice(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R14: staged and committed, a shared file counts once; the epoch is the state's, whatever file a row is in."""
        publisher.publish(full_table, day(0), [1])
        draft = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(draft, batch([2, 3]))
        staged = drafting(publisher).describe_draft(draft)
        waiting = publisher.state(full_table, 1, staged=[Staged(interval=day(1), committable=staged)])
        publish(publisher, draft, staged)
        for state in (waiting, publisher.state(full_table, 1)):
            schema = publisher.schemas[full_table]
            found = publisher.format.statistics(state, schema)
            assert found.rows == 3
            for name, low, high in (("id", 1, 3), (EPOCH_COLUMN, day(1).end, day(1).end)):
                bounds = found.columns[name]
                assert bounds.lower is not None
                assert bounds.upper is not None
                assert (bounds.nulls, bounds.lower.as_py(), bounds.upper.as_py()) == (0, low, high)
            pieces = list(publisher.format.scan(state, schema, [EPOCH_COLUMN]))
            assert [epoch for piece in pieces for epoch in piece[EPOCH_COLUMN].to_pylist()] == [
                day(1).end
            ] * 3

    def test_an_untouched_draft_is_its_base_and_an_empty_one_is_empty(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R5: no statement, no change; all rows deleted, no rows."""
        publisher.publish(full_table, day(0), [1, 2])
        committed(publisher, opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0)))
        assert publisher.rows(full_table, 1) == expected((1, [1, 2]))
        emptied = opened(publisher, engine, full_table, 2, base=publisher.state(full_table, 1))
        engine.delete(emptied, [1, 2])
        committed(publisher, emptied)
        assert publisher.rows(full_table, 2) == []
        committed(publisher, opened(publisher, engine, full_table, 3))
        assert publisher.rows(full_table, 3) == []
        assert publisher.rows(full_table, 1) == expected((1, [1, 2]))

    def test_a_draft_has_the_columns_that_its_base_lacks(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R32: files of the base are shared unchanged: renamed columns keep their values, new columns have none."""
        first = opened(publisher, engine, full_table, 0)
        engine.insert(first, batch([1, 2]))
        committed(publisher, first)
        late = opened(publisher, engine, full_table, 2, base=publisher.state(full_table, 0))
        info = publisher.change(
            full_table, drop("label"), add("label", "string"), add("n", "int"), widen("n", "bigint")
        )
        base = publisher.state(full_table, 0)
        place = publisher.place(full_table, day(1))
        draft = drafting(publisher).open_draft(place, info, base)
        row = {"id": [3], "label": ["new"], "n": [7]}
        types = pa.schema([("id", pa.int64()), ("label", pa.string()), ("n", pa.int64())])
        engine.insert(draft, pa.RecordBatch.from_pydict(row, schema=types))
        committed(publisher, draft)
        engine.insert(late, batch([4]))
        committed(publisher, late)
        wanted = {
            1: [(1, None, None), (2, None, None), (3, "new", 7)],
            2: [(row_id, None, None) for row_id in (1, 2, 4)],
        }
        for until, values in wanted.items():
            state = publisher.state(full_table, until)
            found = publisher.format.read(state, publisher.schemas[full_table], ["id", "label", "n"])
            assert sorted(tuple(row.values()) for row in found.to_pylist()) == values
        assert set(publisher.format.files(base)) < set(publisher.format.files(publisher.state(full_table, 1)))

    def test_a_late_statement_changes_nothing(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R10: a zombie writes its draft after it was described, and after it was published."""
        draft = opened(publisher, engine, full_table, 0)
        engine.insert(draft, batch([1]))
        staged = drafting(publisher).describe_draft(draft)
        engine.insert(draft, batch([2]))
        engine.delete(draft, [1])
        publish(publisher, draft, staged)
        assert publisher.rows(full_table, 0) == expected((0, [1]))
        pointer = drafting(publisher).describe(full_table)
        engine.insert(draft, batch([3]))
        assert drafting(publisher).describe(full_table) == pointer
        assert publisher.rows(full_table, 0) == expected((0, [1]))

    def test_every_draft_is_another_one(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R16: a second try in the same place starts from the base again."""
        place = publisher.place(full_table, day(0))
        info = publisher.create(full_table)
        one, two = (drafting(publisher).open_draft(place, info, None) for _ in range(2))
        engine.insert(one, batch([1]))
        engine.insert(two, batch([2]))
        staged = drafting(publisher).describe_draft(two)
        again = drafting(publisher).describe_draft(two)
        assert (staged.rows, staged.files, staged.checksum) == (again.rows, again.files, again.checksum)
        publish(publisher, two, staged)
        assert publisher.rows(full_table, 0) == expected((0, [2]))

    def test_of_a_closed_draft_only_its_slices_files_are_left(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """I12: files that statements replaced, and the engine's own metadata, are deleted."""
        publisher.publish(full_table, day(0), [1])
        draft = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(draft, batch([2, 3]))
        engine.delete(draft, [2])
        staged = drafting(publisher).describe_draft(draft)
        for _ in range(2):
            drafting(publisher).close_draft(draft, staged)
        publish(publisher, draft, staged)
        assert set(engine.files_below(draft.uri)) <= set(
            publisher.format.files(publisher.state(full_table, 1))
        )
        assert publisher.rows(full_table, 1) == expected((1, [1, 3]))
        abandoned = opened(publisher, engine, full_table, 2, base=publisher.state(full_table, 1))
        engine.insert(abandoned, batch([4]))
        for _ in range(2):
            drafting(publisher).close_draft(abandoned, None)
        assert engine.files_below(abandoned.uri) == []
        assert publisher.rows(full_table, 1) == expected((1, [1, 3]))

    @pytest.mark.parametrize("name", MISUSES)
    def test_a_misused_draft_is_no_slice(
        self, publisher: Publisher, full_table: Table, engine: Engine, name: str
    ) -> None:
        """Rows on branches, foreign files, other columns: an error names them; the slice never omits them silently."""
        publisher.publish(full_table, day(0), [1])
        draft = opened(publisher, engine, full_table, 1, base=publisher.state(full_table, 0))
        engine.insert(draft, batch([2]))
        engine.misuse(draft, name)
        with pytest.raises(MISUSES[name]) as refused:
            drafting(publisher).describe_draft(draft)
        assert type(refused.value) is MISUSES[name]
        assert publisher.rows(full_table, 0) == expected((0, [1]))

    def test_an_incremental_table_takes_rows_not_files(
        self, publisher: Publisher, table: Table, engine: Engine
    ) -> None:
        draft = opened(publisher, engine, table, 0)
        with pytest.raises(InvalidInput, match="incremental"):
            drafting(publisher).describe_draft(draft)

    def test_a_base_that_left_the_table_is_not_built_upon(
        self, publisher: Publisher, full_table: Table, engine: Engine
    ) -> None:
        """R24: files that a slice shares with an expired slice may be deleted at any time."""
        first = opened(publisher, engine, full_table, 0)
        engine.insert(first, batch([1]))
        committed(publisher, first)
        publisher.publish(full_table, day(1), [2])
        draft = opened(publisher, engine, full_table, 2, base=publisher.state(full_table, 0))
        engine.insert(draft, batch([3]))
        staged = drafting(publisher).describe_draft(draft)
        expire(publisher, full_table, 0)
        with pytest.raises(Unavailable, match="begin again"):
            publish(publisher, draft, staged)

    @pytest.mark.parametrize("seed", range(3))
    def test_any_history_reads_as_the_model_says_and_keeps_what_is_claimed(
        self, publisher: Publisher, full_table: Table, engine: Engine, seed: int
    ) -> None:
        """R19, R24: random drafts, files and revisions; then all but some versions are deleted."""
        random = Random(seed)  # noqa: S311
        slices: dict[int, set[int]] = {}
        history: list[tuple[TableRef, dict[int, set[int]]]] = []
        for number in range(14):
            chosen = random.choice([len(slices), random.randrange(len(slices) + 1)])
            replaces = chosen in slices
            if slices.get(chosen - 1) is not None and random.random() < 0.7:
                rows = slices[chosen - 1]
                draft = opened(
                    publisher, engine, full_table, chosen, base=publisher.state(full_table, chosen - 1)
                )
                gone = set(random.sample(sorted(rows), random.randrange(len(rows) + 1)))
                engine.insert(draft, batch([number]))
                engine.delete(draft, gone)
                rows = rows - gone | {number}
                staged = drafting(publisher).describe_draft(draft)
                drafting(publisher).close_draft(draft, staged)
                ref = publish(publisher, draft, staged, replaces=replaces)
            else:
                rows = {number, number + 100}
                ref = publisher.publish(full_table, day(chosen), sorted(rows), replaces=replaces)
            slices[chosen] = rows
            history.append((ref, dict(slices)))
        kept = [*random.sample(history[:-1], 3), history[-1]]
        kept_refs = [ref for ref, _ in kept]
        gone_refs = [ref for ref, _ in history if ref not in kept_refs]
        publisher.format.vacuum(full_table, gone_refs, kept_refs)
        for ref, then in kept:
            for until, ids in then.items():
                assert publisher.rows(full_table, until, ref=ref) == expected((until, ids)), f"seed {seed}"


def drafting(publisher: Publisher) -> DraftingFormat:
    assert isinstance(publisher.format, DraftingFormat)
    return publisher.format


def opened(
    publisher: Publisher, engine: Engine, table: Table, number: int, *, base: State | None = None
) -> Draft:
    """Open a draft with the rows of *base* for the epoch of day *number*, under a new token."""
    info, place = publisher.create(table), publisher.place(table, day(number))
    shared = base if base is not None and drafting(publisher).shares(info, base) else None
    draft = drafting(publisher).open_draft(place, info, shared)
    if base is not None and shared is None:
        rows = publisher.format.read(base, info.schema, COLUMNS.names).combine_chunks()
        engine.insert(draft, *rows.to_batches())
    return draft


def staged_files(publisher: Publisher, draft: Draft, staged: Committable) -> list[str]:
    """Return the files that *staged* names."""
    interval = draft.place.interval
    state = State(
        table=draft.place.table.name,
        kind=TableKind.FULL,
        barrier=interval.end,
        low=None,
        csn=0,
        ref=None,
        staged=(Staged(interval=interval, committable=staged),),
    )
    return publisher.format.files(state)


def publish(publisher: Publisher, draft: Draft, staged: Committable, *, replaces: bool = False) -> TableRef:
    """Publish *staged* as the slice of the draft's epoch."""
    table, interval = draft.place.table, draft.place.interval
    publication = publisher.publication(table, (interval, staged), removes=[interval] if replaces else [])
    publisher.commit((publication, publisher.format.prepare(publication)))
    return publisher.refs[table]


def committed(publisher: Publisher, draft: Draft) -> TableRef:
    """Describe, close and publish *draft*."""
    staged = drafting(publisher).describe_draft(draft)
    drafting(publisher).close_draft(draft, staged)
    return publish(publisher, draft, staged)


def expire(publisher: Publisher, table: Table, number: int) -> None:
    """Remove the slice of day *number* from the table's next version, and delete the versions that have it."""
    before = publisher.refs[table]
    publication = publisher.publication(table, removes=[day(number)])
    publisher.commit((publication, publisher.format.prepare(publication)))
    publisher.format.vacuum(table, [before], [publisher.refs[table]])
