"""Whatever is declared anew, skipped, landed late, expired and vacuumed between epochs: what is read together fits.

The rows decide: each says by its number what its writer had read, so that a cut shows by itself whether its tables
belong together. After each step that changed something, what committed epochs read is still so (I4), every file that
may be read is there (I6), and an engine that comes by the catalog sees what a cut of the table alone reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import (
    FinalError,
    InvalidInput,
    NotReady,
    RetryableError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.source_bounds import FileSource, Late
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, increment, previous, state
from airflow_provider.testing.arrow_attempts import read_rows
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, owner
from tests.property.examples import examples
from tests.simulator.changing.ids import Ids
from tests.simulator.changing.landing import Landing, LandingSource

HALF = timedelta(hours=12)
HALVES = 8
REFUSED = (RetryableError, FinalError)
"""What a person or a task may be told; any other exception is an error of the package."""

Values = dict[int, int]
"""The value of each epoch, by its end in half days."""


def at(half: int) -> datetime:
    return barrier(half / 2)


def cadences() -> list[Cadence]:
    """Days; days and then halves of days; and then days again."""
    finer = Cadence("0 */12 * * *", since=at(4), before=Cadence("@daily"))
    return [Cadence("@daily"), finer, Cadence("@daily", since=at(6), before=finer)]


def versions(world: World) -> dict[str, list[Job]]:
    """The declarations that each job may have, one after the other and back."""
    job, table = world.job, world.table
    base, own, copy = table("base"), table("own"), table("copy", kind=TableKind.FULL)
    landing = FileSource("landing", "memory:///landing/{end:%Y-%m-%dT%H}", late=Late.REVISION)
    return {
        "base": [
            job("base", cadence=cadence, origin=origin)
            for cadence in cadences()
            for origin in (None, at(4), at(0))
        ],
        "pair": [job("pair", tables, inputs=[increment(base)]) for tables in ([own], [own, copy])],
        "sum": [
            job("sum", inputs=[state(own), previous(table("sum"))], origin=origin)
            for origin in (at(2), at(0))
        ],
        "full": [job("full", [table("full", kind=TableKind.FULL)], inputs=[state(base)])],
        "loose": [job("loose", inputs=[state(base, on_upstream_revision="ignore")])],
        "feed": [job("feed", inputs=[landing])],
        "other": [job("other", inputs=[landing])],
        "both": [job("both", inputs=[increment(table("feed")), increment(table("other"))])],
    }


@dataclass(frozen=True, slots=True)
class Held:
    """A cut and the rows that it had when it was made."""

    cut: Cut
    rows: dict[str, Values]


JOBS = st.sampled_from(["base", "base", "pair", "pair", "sum", "full", "loose", "feed", "other", "both"])
CHANGED = st.sampled_from(["base", "base", "pair", "pair", "sum", "full", "loose", "other"])
"""Those that have several declarations, and those that may be registered late."""
EDGES = [
    ("pair", "base"),
    ("full", "base"),
    ("loose", "base"),
    ("sum", "pair"),
    ("feed", "other"),
    ("both", "other"),
]
BESIDE = st.sampled_from([*EDGES, *((second, first) for first, second in EDGES)])
NUMBERS = st.integers(0, HALVES - 1)
DAILY = {"own": "pair", "loose": "loose", "feed": "feed", "other": "other", "both": "both"}
"""Incremental tables of days from the first on, with their jobs."""


class Changes(RuleBasedStateMachine):
    """Jobs whose authors change them, with a folder, an operator and readers."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Backend("memory", Path(), Path()).world()
        small = replace(DEFAULTS, versions_in_page=2, ranges_in_page=1, most_stretches=3)
        self.world.retention.defaults = small
        self.world.coordinator.context = replace(self.world.coordinator.context, defaults=small)
        self.landing = Landing(Random(0), HALVES, Ids(Random(0)))
        self.source = LandingSource(self.landing, lambda: None)
        self.versions = versions(self.world)
        self.now: dict[str, Job] = {}
        self.numbers = itertools.count(1)
        self.open: list[Attempt] = []
        self.held: list[Held] = []
        self.skipped: set[tuple[str, int]] = set()
        self.expired: set[str] = set()
        self.checked = -1

    def teardown(self) -> None:
        self.world.close()

    # --- authors ----------------------------------------------------------------------------------------------

    @initialize(
        late=st.sets(st.sampled_from(["pair", "sum", "full", "loose", "other"])),
        origin=st.sampled_from([2, 1, 0, 0]),
        tables=st.integers(0, 1),
        first=st.integers(0, 2),
        days=st.integers(0, 3),
    )
    def history(self, late: set[str], origin: int, tables: int, first: int, days: int) -> None:
        """Begin where jobs have been declared and some days computed; other jobs are registered later."""
        drawn = {"base": origin, "pair": tables}
        for name in self.versions:
            if name not in late:
                self.now[name] = self.versions[name][drawn.get(name, 0)]
        for half in range(HALVES):
            self.landing.land(at(half + 1))
        self.go_on(first + days, first)

    @rule(name=CHANGED, number=st.integers(0, 8), registers=st.booleans(), days=st.integers(0, 4))
    def deploy(self, name: str, number: int, days: int, *, registers: bool) -> None:
        """Give a job another declaration, or one that it has had; a DAG may do so when it first begins."""
        declared = self.versions[name][number % len(self.versions[name])]
        if registers and not self._goes(lambda: self.world.coordinator.register(declared)):
            return
        self.now[name] = declared
        self.go_on(days)

    @rule(name=st.sampled_from(["pair", "pair", "base"]), number=st.integers(0, 8))
    def come_back(self, name: str, number: int) -> None:
        """Compute what comes next by the task of another version of the DAG, such as an old one that is cleared."""
        deployed = self.now.get(name)
        if deployed is not None:
            self.now[name] = self.versions[name][number % len(self.versions[name])]
            self.compute(name, self._next(name))
            self.now[name] = deployed

    # --- tasks ------------------------------------------------------------------------------------------------

    @rule(days=st.integers(1, HALVES // 2))
    def go_on(self, days: int, first: int = 0) -> None:
        """Compute what is missing of some days; without it few random walks come to a cut."""
        for half in range(2 * first, 2 * days):
            for name in self.now:
                if self._lacks(name, half):
                    self.compute(name, half)

    def _next(self, name: str) -> int:
        """The first half of a day that the job is to compute; the last one when there is none."""
        return next((half for half in range(HALVES) if self._lacks(name, half)), HALVES - 1)

    def _lacks(self, name: str, half: int) -> bool:
        """Whether the job is to compute the epoch, and one of its tables has not got it."""
        job, epoch = self.now.get(name), self._epoch(name, half)
        if job is None or (job.origin is not None and epoch.start < job.origin):
            return False
        known = self.world.store.scan(DOMAIN, Kind.TABLE, "")
        return not {table.name for table in job.outputs} <= {
            stored.key.item for stored in known if stored.record.progress.covers(epoch)
        }

    @rule(name=JOBS, half=NUMBERS)
    def compute(self, name: str, half: int) -> None:
        attempt = self._begin(name, half)
        if attempt is not None:
            self._finish(attempt)

    @rule(jobs=BESIDE, earlier=st.integers(0, 1), again=st.booleans())
    def overlap(self, jobs: tuple[str, str], earlier: int, *, again: bool) -> None:
        """What an attempt reads is computed again while it is under way, or what it replaces is read."""
        name, other = jobs
        half = min(self._next(name), self._next(other))
        self.compute(name if again else other, half)
        attempt = self._begin(name, half)
        if attempt is not None:
            self.compute(other, max(0, half - 2 * earlier))
            self._finish(attempt)

    @rule(name=JOBS, half=NUMBERS)
    def begin(self, name: str, half: int) -> None:
        attempt = self._begin(name, half)
        if attempt is not None:
            self.open.append(attempt)

    @rule()
    def finish(self) -> None:
        if self.open:
            self._finish(self.open.pop(0))

    def _epoch(self, name: str, half: int) -> Interval:
        """The epoch of the declaration of today that has this half of a day."""
        cadence = self.now.get(name, self.versions[name][0]).cadence
        start = cadence.floor(at(half))
        return Interval(start, cadence.next_after(start))

    def _begin(self, name: str, half: int) -> Attempt | None:
        job, epoch = self.now.get(name), self._epoch(name, half)
        if job is None:
            return None
        begun: list[Any] = []
        run = owner(f"run-{next(self.numbers)}")
        self._goes(lambda: begun.append(self.world.coordinator.begin(job, epoch, run, sources=self.source)))
        return begun[0] if begun and not isinstance(begun[0], AlreadyCommitted) else None

    def _finish(self, attempt: Attempt) -> None:
        if not self._goes(lambda: self._work(attempt)):
            self._goes(lambda: self.world.coordinator.abort(attempt, "it was refused"))

    def _work(self, attempt: Attempt) -> None:
        coordinator = self.world.coordinator
        if not attempt.adopted:
            self.world.write(attempt, [self._value(attempt)])
            coordinator.complete(attempt)
        coordinator.publish(attempt)

    def _value(self, attempt: Attempt) -> int:
        """What the job computes: from its inputs, or a number that it has never had."""
        read = {
            str(provenance.table): read_rows(self.world.coordinator, attempt, provenance.table)
            for provenance in attempt.inputs
        }
        sums = {
            table: 0 if found is None else sum(found["value"].to_pylist()) for table, found in read.items()
        }
        if attempt.job in {"feed", "other"}:
            return sum(file.modified for file in attempt.sources[0].files)
        if attempt.job == "both":
            parts = {value for value in sums.values() if value}
            return parts.pop() if len(parts) == 1 else -len(parts)
        if attempt.job == "sum":
            past = read["sum"]
            return sums["own"] * 100 + (0 if past is None else past.num_rows)
        return sums["base"] if attempt.job != "base" else next(self.numbers)

    def _goes(self, work: Callable[[], object]) -> bool:
        with suppress(*REFUSED):
            work()
            return True
        return False

    # --- the folder, an operator, and time ----------------------------------------------------------------------

    @rule(half=NUMBERS, what=st.sampled_from(["land", "land", "land", "replace", "lose"]))
    def files(self, half: int, what: str) -> None:
        """A file comes, maybe late; one is replaced; one is missing from now on."""
        if what == "land":
            self.landing.land(at(half + 1))
        elif what == "replace":
            self.landing.replace()
        else:
            self.landing.lose()

    @rule(
        half=st.sampled_from([None, *range(HALVES)]),
        late=st.sampled_from([True, True, False]),
        again=st.sampled_from(
            [("other", "both"), ("feed", "both"), ("other", "feed", "both"), ("both",), ()]
        ),
    )
    def bind(self, half: int | None, again: Sequence[str], *, late: bool) -> None:
        """Bind a folder anew, maybe after a file has come late; compute some of what is behind, and what reads it."""
        half = self._next("both") if half is None else half
        for name, until in (("feed", half + 1), ("other", half + 1), ("both", half - 1)):
            for day in range(0, until, 2):
                if self._lacks(name, day):
                    self.compute(name, day)
        epoch = self._epoch("feed", half)
        if late:
            self.landing.land(epoch.end)
        words = {"reason": "it came late", "by": "me"}
        self._goes(
            lambda: bind(self.world.coordinator.context, DOMAIN, "landing", epoch, self.source, **words)
        )
        for name in again:
            self.compute(name, half)

    @rule(name=JOBS, half=NUMBERS)
    def skip(self, name: str, half: int) -> None:
        epoch = self._epoch(name, half)
        self.skipped.add((name, _half(epoch.end)))
        self._goes(lambda: self.world.coordinator.skip(DOMAIN, name, epoch, "nothing comes", by="me"))

    @rule(table=st.sampled_from(["base", "own", "copy", "full"]), half=NUMBERS)
    def expire(self, table: str, half: int) -> None:
        if self._goes(lambda: self.world.retention.expire(DOMAIN, table, at(half))):
            self.expired.add(table)

    @rule()
    def vacuum(self) -> None:
        self.world.retention.vacuum(DOMAIN)

    @rule(minutes=st.sampled_from([1, 180, 26 * 60]))
    def wait(self, minutes: int) -> None:
        self.world.clock.advance(timedelta(minutes=minutes))

    @rule(
        tables=st.sampled_from([("base", "own"), ("own", "copy", "sum"), ("base", "full", "loose")]),
        half=NUMBERS,
    )
    def hold(self, tables: Sequence[str], half: int) -> None:
        """Keep a cut, and read it again later."""
        cut = self._cut(*tables, moment=at(half + 1))
        if cut is not None:
            self.held = [*self.held[-2:], Held(cut, self._values(cut))]

    # --- what is true -------------------------------------------------------------------------------------------

    @invariant()
    def everything_holds(self) -> None:
        now = self.world.clock.now()
        for held in self.held:
            if now < held.cut.readable_until:
                assert self._values(held.cut) == held.rows
        version = self.world.store._server.last_version  # type: ignore[attr-defined]
        if version == self.checked:
            return
        self.checked = version
        assert [str(stale_read) for stale_read in stale_reads(self.world.store, DOMAIN)] == []
        assert list(missing_files(self.world.store, self.world.formats, DOMAIN)) == []
        self.rows_fit()
        self.tables_are_whole()

    def rows_fit(self) -> None:
        """I1, I7: rows of derived tables are what the rows beside them make of them."""
        fits: dict[tuple[str, ...], Callable[..., None]] = {
            ("base", "own"): self._own,
            ("own", "copy"): self._copy,
            ("own", "sum"): self._sum,
            ("base", "full"): self._full,
            ("base", "loose"): self._loose,
            ("feed", "other"): self._sources,
            ("both",): self._both,
        }
        for tables, check in fits.items():
            cut = self._cut(*tables)
            if cut is not None:
                found = self._values(cut)
                check(cut, *(found[table] for table in tables))

    def _own(self, _: Cut, base: Values, own: Values) -> None:
        for end, value in own.items():
            assert value == base.get(end, 0) + base.get(end - 1, 0), f"own at {end}: {own}, base {base}"

    def _every_day(self, cut: Cut, job: str, values: Values) -> None:
        """Check that *values* have every day from the job's origin to the barrier."""
        for end in range(2, _half(cut.barrier) + 1, 2):
            assert end in values or (job, end) in self.skipped, (
                f"{job} at {cut.barrier} lacks {end}: {values}"
            )

    def _copy(self, cut: Cut, own: Values, copy: Values) -> None:
        last = _half(cut.barrier)
        if ("pair", last) not in self.skipped:
            assert copy == {last: own[last]}, f"{copy} beside {own}"

    def _sum(self, _: Cut, own: Values, total: Values) -> None:
        for number, (end, value) in enumerate(sorted(total.items())):
            assert value == 100 * _until(own, end) + number, f"sum at {end}: {total}, own {own}"

    def _full(self, cut: Cut, base: Values, full: Values) -> None:
        last = _half(cut.barrier)
        assert full or ("full", last) in self.skipped
        known = {_until(base, last)}
        while ("full", last) in self.skipped:
            last -= 2  # a copy of what it had before
            known.add(_until(base, last))
        assert set(full.values()) <= known, f"{full} beside {base}"

    def _loose(self, cut: Cut, base: Values, loose: Values) -> None:
        if any(value != _until(base, end) for end, value in loose.items()):
            assert [str(label.table) for label in cut.outdated] == ["loose"], f"{loose} beside {base}"

    def _sources(self, cut: Cut, feed: Values, other: Values) -> None:
        told = [label for label in cut.outdated if label.revision]
        for end in feed.keys() & other.keys():
            labelled = any(label.start < at(end) and (label.end or at(end)) >= at(end) for label in told)
            assert feed[end] == other[end] or labelled, f"two revisions at {end}: {feed}, {other}, {told}"

    def _both(self, _: Cut, both: Values) -> None:
        assert all(value >= -1 for value in both.values()), f"rows of two revisions of the folder: {both}"

    def tables_are_whole(self) -> None:
        """I1; and engines see what `docs/explanation/catalog-readers.md` promises of one table."""
        objects = self.world.pointers.objects
        for table in self.world.pointers.tables(DOMAIN):
            cut, pointer = self._cut(table), self.world.pointers.pointer(DOMAIN, table)
            read = {} if cut is None else self._values(cut)[table]
            if cut is not None and table in DAILY:
                self._every_day(cut, DAILY[table], read)
            if pointer is not None and table not in self.expired:
                seen = _by_epoch([objects[uri] for _, uri in objects[pointer].shown])
                assert seen == read, f"{table}: engines see {seen}, {cut} reads {read}"

    def _cut(self, *tables: str, moment: datetime | None = None) -> Cut | None:
        try:
            return Cuts(self.world.store, self.world.formats).cut(DOMAIN, tables, at=moment)
        except (NotReady, UnknownName, Unavailable, InvalidInput):
            return None

    def _values(self, cut: Cut) -> dict[str, Values]:
        return {str(name): _by_epoch([self.world.cuts.read(cut, name)]) for name in cut.states}


def _half(moment: datetime) -> int:
    return (moment - at(0)) // HALF


def _until(values: Values, end: int) -> int:
    return sum(value for known, value in values.items() if known <= end)


def _by_epoch(pieces: Sequence[pa.Table]) -> Values:
    """The value of each epoch; two rows of one are an error."""
    found = [(_half(row["_epoch"]), row["value"]) for piece in pieces for row in piece.to_pylist()]
    assert len(dict(found)) == len(found), found
    return dict(found)


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=examples(50), stateful_step_count=30, deadline=None)
