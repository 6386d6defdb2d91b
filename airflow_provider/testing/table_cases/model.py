"""Cases: after any history of commits, the rows read are those of the protocol's ``state``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import ALL_SHOWN, Shown, TableRef
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

DAYS = 4
Slice = tuple[int, int]
"""Day of an epoch and its number of rows."""


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit of the model: its slices, and the version that the format made of it."""

    slices: tuple[Slice, ...]
    ref: TableRef


def ids_of(commit: int, number: int, rows: int) -> list[int]:
    """Return ids that no other slice has."""
    return [commit * 1000 + number * 100 + row for row in range(rows)]


def state(kind: TableKind, commits: list[Committed], until: int, csn: int, low: int | None) -> list[Row]:
    """Return the protocol's ``state(table, b, c)``: the newest slice with CSN ≤ c of each epoch that belongs to it."""
    newest: dict[int, list[int]] = {}
    for position, commit in enumerate(commits[:csn]):
        for number, rows in commit.slices:
            newest[number] = ids_of(position, number, rows)
    days = {until} if kind is TableKind.FULL else range(0 if low is None else low + 1, until + 1)
    return expected(*((number, ids) for number, ids in newest.items() if number in days))


SLICES = st.tuples(st.integers(0, DAYS - 1), st.integers(0, 2))
CHANGE_SETS = st.lists(SLICES, min_size=1, max_size=2, unique_by=lambda added: added[0]).map(tuple)
HISTORIES = st.lists(CHANGE_SETS, min_size=1, max_size=6)


class ModelCases(TableCases):
    """The format against the reference model."""

    examples = 60
    """Number of random histories; a suite whose requests take long sets fewer."""

    def test_rows_read_are_the_models_state(self, backend: TableBackend) -> None:
        """R19, I1: after any history, each version at each barrier, from any lower bound, has the model's rows."""

        @settings(max_examples=self.examples)
        @given(kind=st.sampled_from(TableKind), history=HISTORIES)
        def rows_read_are_the_models_state(kind: TableKind, history: list[tuple[Slice, ...]]) -> None:
            publisher = new_publisher(backend)
            table = publisher.table(kind=kind)
            commits = published(publisher, table, history)
            lows = cycle((None, *range(DAYS)))
            for csn, commit in enumerate(commits, start=1):
                for until, low in zip(range(DAYS), lows, strict=False):
                    found = publisher.rows(table, until, since=low, ref=commit.ref)
                    wanted = state(kind, commits, until, csn, low)
                    assert found == wanted, f"day {until}, CSN {csn}: {found} instead of {wanted}"

        rows_read_are_the_models_state()


def published(
    publisher: Publisher,
    table: Table,
    history: list[tuple[Slice, ...]],
    shown: Sequence[Shown] = (),
) -> list[Committed]:
    """Publish the change sets of *history* in their order.

    :param shown: the rows that each commit shows; all slices by default.
    """
    commits: list[Committed] = []
    known: set[int] = set()
    for position, slices in enumerate(history):
        adds = [
            (day(number), publisher.stage(table, day(number), [batch(ids_of(position, number, rows))]))
            for number, rows in slices
        ]
        removes = [day(number) for number, _ in slices if number in known]
        shows = shown[position] if shown else ALL_SHOWN
        publication = publisher.publication(table, *adds, removes=removes, shows=shows)
        publisher.commit((publication, publisher.format.prepare(publication)))
        commits.append(Committed(slices, publisher.refs[table]))
        known.update(number for number, _ in slices)
    return commits
