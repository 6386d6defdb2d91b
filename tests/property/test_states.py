"""Whatever is committed in whatever order, what a reader gets from Iceberg is the protocol's ``state``.

Everything goes the way that a user's calls go: epochs begun and published by the service on SQLite, cuts resolved by
it, rows read by it. The model beside it remembers for each job which epoch holds which rows, and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import NotReady, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.local_epochs import LocalEpochs
from tests.property.examples import examples
from tests.services.directories import quick_directory

START = datetime(2024, 1, 1, tzinfo=UTC)
HALF_DAY, DAY = timedelta(hours=12), timedelta(days=1)
DAYS = 4
Rows = list[tuple[datetime, int]]
"""Barrier of its epoch, and number, of each row."""

_domains = itertools.count()


@dataclass
class Model:
    """One job: what its epochs hold, by their barriers, and from where on they must follow each other.

    :param declared: whether the job has an origin; otherwise it is the start of the epoch that commits first.
    """

    job: Job
    length: timedelta
    declared: bool
    held: dict[datetime, list[int]] = field(default_factory=dict)
    first: datetime | None = None

    def committed(self, barrier: datetime, ids: list[int]) -> None:
        if self.first is None:
            self.first = START if self.declared else barrier - self.length
        self.held[barrier] = ids

    @property
    def begin(self) -> datetime | None:
        """Where the table's state begins: at the job's first epoch, or at an earlier epoch without a gap before it."""
        begin = self.first
        while begin is not None and begin in self.held:
            begin -= self.length
        return begin

    def reached(self, moment: datetime) -> bool:
        """Whether every epoch up to *moment* is there, from where the state begins."""
        begin = self.begin
        if begin is None or (moment - START) % self.length:
            return False
        chain = range(1, (moment - begin) // self.length + 1)
        return bool(chain) and all(begin + number * self.length in self.held for number in chain)

    def state(self, kind: TableKind, barrier: datetime) -> Rows:
        """What the protocol calls ``state(table, barrier, c)`` for the newest commit c: nothing of before a gap."""
        begin = barrier - self.length if kind is TableKind.FULL else self.begin
        barriers = [at for at in self.held if begin is not None and begin < at <= barrier]
        return sorted((at, number) for at in barriers for number in self.held[at])


class World:
    """Two jobs of one domain and their models: one writes a table each half day, the other two at once each day."""

    def __init__(self, epochs: LocalEpochs) -> None:
        domain = f"states-{next(_domains)}"
        often = Table("often", domain=domain)
        parts, whole = Table("parts", domain=domain), Table("whole", domain=domain, kind="full")
        half_daily = Job("half_daily", outputs=[often], cadence="0 */12 * * *")
        daily = Job("daily", outputs=[parts, whole], cadence="@daily", origin=START)
        self.epochs = epochs
        self.tables = {table.name: table for table in (often, parts, whole)}
        first, second = Model(half_daily, HALF_DAY, declared=False), Model(daily, DAY, declared=True)
        self.models = {often.name: first, parts.name: second, whole.name: second}
        self.jobs = (first, second)
        self.numbers = itertools.count()

    def commit(self, job: int, epoch: int, rows: int) -> None:
        """Publish an epoch with *rows* new rows, whether it was there or not."""
        model = self.jobs[job]
        start = START + epoch % (DAYS * DAY // model.length) * model.length
        ids = [next(self.numbers) for _ in range(rows)]
        output = {table: pa.table({"id": pa.array(ids, pa.int64())}) for table in model.job.outputs}
        self.epochs.commit(model.job, Interval(start, start + model.length), output)
        model.committed(start + model.length, ids)

    def read(self, names: Sequence[str], at: datetime | None) -> tuple[Cut, dict[str, Rows]] | None:
        """Make a cut at the barrier that the model says; return it and the model's rows. None when there is none."""
        models = [self.models[name] for name in names]
        moments = [START + number * HALF_DAY for number in range(2 * DAYS + 1)]
        common = [moment for moment in moments if all(model.reached(moment) for model in models)]
        wanted = max((moment for moment in common if at is None or moment <= at), default=None)
        tables, cuts = [self.tables[name] for name in names], self.epochs.service.cuts
        if wanted is None:
            with pytest.raises((NotReady, UnknownName)):
                cuts.cut(tables[0].domain, tables, at=at)
            return None
        cut = cuts.cut(tables[0].domain, tables, at=at)
        assert cut.barrier == wanted
        return cut, {
            name: model.state(self.tables[name].kind, wanted)
            for name, model in zip(names, models, strict=True)
        }

    def rows(self, cut: Cut, name: str) -> Rows:
        found = self.epochs.service.cuts.read(cut, name).to_pylist()
        return sorted((row["_epoch"], row["id"]) for row in found)


@pytest.fixture(scope="module")
def epochs() -> Iterator[LocalEpochs]:
    """One store for all examples: each has a domain of its own."""
    with quick_directory("epochs-states-") as folder, LocalEpochs(folder) as opened:
        yield opened


COMMITS = st.tuples(st.integers(0, 1), st.integers(0, 2 * DAYS - 1), st.integers(0, 2))
"""A job, an epoch, and how many rows."""
ASKED = st.tuples(
    st.lists(st.sampled_from(["often", "parts", "whole"]), min_size=1, unique=True),
    st.none() | st.integers(0, 4 * DAYS + 2).map(lambda quarter: START + quarter * timedelta(hours=6)),
)
"""Tables, and the time that a reader asks for: a barrier, a moment between two, before the first, after the last."""


@settings(max_examples=examples(20))
@example(grown=0, steps=[((0, 2, 0), (["often"], None)), ((0, 0, 1), (["often"], None))])
@given(grown=st.integers(0, 3), steps=st.lists(st.tuples(COMMITS, ASKED), min_size=1, max_size=8))
def test_rows_read_are_the_state_at_any_time(
    epochs: LocalEpochs,
    grown: int,
    steps: list[tuple[tuple[int, int, int], tuple[list[str], datetime | None]]],
) -> None:
    """R3, R19, I1: in each cut, at once and after all that is committed later, each table has the model's rows."""
    world = World(epochs)
    for number in range(grown):  # or few random histories would come to a common barrier
        for job, epoch in ((0, 2 * number), (0, 2 * number + 1), (1, number)):
            world.commit(job, epoch, 1)
    made = []
    for (job, epoch, rows), (names, at) in steps:
        world.commit(job, epoch, rows)
        found = world.read(names, at)
        if found is not None:
            cut, wanted = found
            assert {name: world.rows(cut, name) for name in names} == wanted
            made.append(found)
    for cut, wanted in made:
        assert {name: world.rows(cut, name) for name in wanted} == wanted
