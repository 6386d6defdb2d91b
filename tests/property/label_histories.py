"""Random histories of a cascade whose jobs let their inputs be computed again, declare other edges and leave tables.

``base`` writes one table; ``pair`` reads it and writes an incremental and a full table, until ``successor`` takes them
over; ``next`` and ``last`` read all of them and their own past. Each epoch writes one row per table, of known lineage.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.errors import EpochError, FinalError, RetryableError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Edge, Job, Table, increment, previous, state, window
from airflow_provider.testing.arrow_attempts import read_rows, write_rows
from tests.contract.coordination_world import DOMAIN, ORIGIN, Backend, barrier, day, owner, rows, values_of
from tests.property.lineage import Content, Lineage, Read, Reason

DAYS = 6
LATER_ORIGIN = barrier(1)
REFUSED = (RetryableError, FinalError)
"""What a person or a task may be told; any other exception is an error of the package."""

OUTPUTS = {
    "base": ("facts",),
    "pair": ("daily", "whole"),
    "successor": ("daily", "whole"),
    "next": ("derived",),
    "last": ("summary",),
}
INPUTS = {
    "base": (),
    "pair": ("facts",),
    "successor": ("facts",),
    "next": ("facts", "daily", "whole"),
    "last": ("daily", "whole", "derived"),
}
FULL = ("whole", "summary")
TABLES = ("facts", "daily", "whole", "derived", "summary")
FIRST_JOBS = ("base", "pair", "next", "last")
BOTH = OUTPUTS["pair"]


class LabelHistory:
    """One random history, in memory; each of its steps ends with a comparison of labels and lineage.

    :ivar moves: what has happened, to be printed when a comparison fails.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.world = Backend("memory", Path(), Path()).world()
        self.service = self.world.coordinator
        self.lineage = Lineage()
        self.moves: list[str] = []
        self.declarations: dict[str, list[Job]] = {}
        self.unpublished: list[Attempt] = []
        self.pair = "pair"
        self.runs = 0
        origins = (ORIGIN, ORIGIN, ORIGIN, ORIGIN, LATER_ORIGIN, None)
        self.origins = {job: self.random.choice(origins) for job in OUTPUTS}
        self.last_day = {job: 1 if origin == LATER_ORIGIN else 0 for job, origin in self.origins.items()}
        for job in FIRST_JOBS:
            self._declare(job, OUTPUTS[job])
        for job in FIRST_JOBS:
            self._try(lambda job=job: self._next(job, skips=False))

    def run(self, steps: int) -> None:
        """Make *steps* moves, and compare after each that changed something."""
        compared = 0
        for _ in range(steps):
            self.move()
            if self.head != compared:
                self.compare()
                compared = self.head

    @property
    def head(self) -> int:
        """Version of the newest record."""
        return self.world.store._server.last_version  # type: ignore[attr-defined]

    # --- moves ---------------------------------------------------------------------------------------------------

    def move(self) -> None:
        """Make one random move, or be refused."""
        moves = {
            self.go_on: 4,
            self.compute_again: 6,
            self.skip: 3,
            self.declare: 4,
            self.run_older_declaration: 1,
            self.leave_unpublished: 1,
            self.publish_late: 1,
            self.retire: 1,
            self.vacuum: 1,
        }
        move = self.random.choices(list(moves), list(moves.values()))[0]
        self.moves.append(move.__name__)
        self._try(move)

    def go_on(self) -> None:
        """Compute or skip the next epoch of each job."""
        for job in ("base", self.pair, "next", "last"):
            if self.last_day[job] < DAYS:
                skips = self.random.random() < 0.25
                self._try(lambda job=job, skips=skips: self._next(job, skips=skips))

    def _next(self, job: str, *, skips: bool) -> None:
        if skips:
            self._skip(job, self.last_day[job] + 1)
        else:
            self._compute(self.declarations[job][-1], self.last_day[job] + 1)

    def compute_again(self) -> None:
        """Compute a past epoch of a job again."""
        job = self.random.choice(("base", self._job()))
        self._compute(self.declarations[job][-1], self._past_day(job))

    def skip(self) -> None:
        """Skip the next epoch of a job, or a past epoch that one of its tables lacks."""
        job = self._job()
        self._skip(job, self.random.choice([self.last_day[job] + 1, self._past_day(job)]))

    def declare(self) -> None:
        """Register other edges, outputs or another origin of a job."""
        job = self._job()
        if self.random.random() < 0.15:
            self.origins[job] = ORIGIN
        outputs = self.random.choice([BOTH, BOTH[:1], BOTH[1:]]) if job == self.pair else OUTPUTS[job]
        self.service.register(self._declare(job, outputs))

    def run_older_declaration(self) -> None:
        """Compute an epoch by a declaration that a job has had."""
        job = self._job()
        number = self.random.choice([self.last_day[job] + 1, self._past_day(job)])
        self._compute(self.random.choice(self.declarations[job]), number)

    def leave_unpublished(self) -> None:
        """Write an epoch, and publish it later."""
        job = self._job()
        attempt = self._written(self.declarations[job][-1], day(self._past_day(job)))
        if attempt is not None:
            self.unpublished.append(attempt)

    def publish_late(self) -> None:
        """Publish an epoch that was written earlier."""
        if self.unpublished:
            self._publish(self.unpublished.pop())

    def retire(self) -> None:
        """Retire a table that ``pair`` has left; or ``pair``, whose tables ``successor`` takes over."""
        who = {"reason": "it ends", "by": "me"}
        declared = {table.name for table in self.declarations[self.pair][-1].outputs}
        left = [table for table in BOTH if table not in declared]
        if left:
            self.service.retire(DOMAIN, self.pair, table=left[0], **who)
        elif self.pair == "pair":
            self.service.retire(DOMAIN, "pair", **who)
            self.pair, self.last_day["successor"] = "successor", self.last_day["pair"]
            self.service.register(self._declare("successor", BOTH))

    def vacuum(self) -> None:
        """Let locks end, and delete what nothing reads any more."""
        self.world.clock.advance(timedelta(hours=self.random.choice([1, 30])))
        self.world.retention.vacuum(DOMAIN)

    def _try(self, move: Callable[[], None]) -> None:
        try:
            move()
        except REFUSED as error:
            self.moves.append(f"  {type(error).__name__}: {str(error)[:110]}")

    def _job(self) -> str:
        return self.random.choice(("base", self.pair, self.pair, self.pair, "next", "last"))

    def _past_day(self, job: str) -> int:
        return self.random.randint(1, max(1, self.last_day[job]))

    # --- declarations --------------------------------------------------------------------------------------------

    def _declare(self, job: str, outputs: tuple[str, ...]) -> Job:
        """Declare *job* with random edges; the declaration is registered when the job next begins."""
        edges = [self._edge(job, table) for table in INPUTS[job] if self.random.random() < 0.75]
        if self.origins[job] and self.random.random() < 0.2:
            edges += [previous(self._table(table), on_upstream_revision=self._policy()) for table in outputs]
        tables = [self._table(table) for table in outputs]
        declared = self.world.job(job, tables, inputs=edges, origin=self.origins[job])
        self.declarations.setdefault(job, []).append(declared)
        shown = ", ".join(f"{edge.kind}({edge.table}, {edge.on_upstream_revision})" for edge in edges)
        self.moves.append(f"  {job} writes {', '.join(outputs)} from {shown}, origin {declared.origin}")
        return declared

    def _edge(self, job: str, name: str) -> Edge:
        table, policy = self._table(name), self._policy()
        lag = timedelta(days=1) if self.random.random() < 0.15 else None
        kind = self.random.choice((state, previous) if name in FULL else (increment, state, window, previous))
        if kind is previous and not all(self.origins[end] for end in (job, *self._writers(name))):
            kind = state  # `previous` needs the origins of both jobs
        if kind is previous:
            return previous(table, on_upstream_revision=policy)
        if kind is window:
            return window(table, timedelta(days=1), as_of=lag, on_upstream_revision=policy)
        return kind(table, as_of=lag, on_upstream_revision=policy)

    def _writers(self, table: str) -> list[str]:
        return [job for job, outputs in OUTPUTS.items() if table in outputs]

    def _policy(self) -> str:
        return self.random.choice(("cascade", *["ignore"] * 9))

    def _table(self, name: str) -> Table:
        return self.world.table(name, kind=TableKind.FULL if name in FULL else TableKind.INCREMENTAL)

    # --- epochs --------------------------------------------------------------------------------------------------

    def _compute(self, job: Job, number: int) -> None:
        attempt = self._written(job, day(number))
        if attempt is not None:
            self._publish(attempt)

    def _written(self, job: Job, interval: Interval) -> Attempt | None:
        """Begin an epoch and write one row into each table, with what it was computed from."""
        self.runs += 1
        attempt = self.service.begin(job, interval, owner(f"run-{self.runs}"))
        if isinstance(attempt, AlreadyCommitted):
            return None
        if not attempt.adopted:
            reads = tuple(Read.of(read, self._read(attempt, read.table)) for read in attempt.inputs)
            for sink in attempt.sinks:
                number = self.lineage.wrote(attempt, sink.name, reads)
                write_rows(self.service, attempt, sink.name, rows([number], attempt.token))
            self.service.complete(attempt)
        return attempt

    def _read(self, attempt: Attempt, table: str) -> Content:
        found = read_rows(self.service, attempt, table)
        return frozenset() if found is None else frozenset(values_of(found))

    def _publish(self, attempt: Attempt) -> None:
        published = self.service.publish(attempt)
        job, interval = str(attempt.job), attempt.interval
        tables = {str(table) for table, _ in published.tables}
        fills = bool(self.service.epoch(DOMAIN, job, interval).record.committed.fills)
        self.lineage.committed(job, interval, tables, fills=fills)
        self._reached(job, interval)
        self.moves.append(f"  {job} {interval.end:%d} publishes {', '.join(sorted(tables))}")

    def _skip(self, job: str, number: int) -> None:
        skipped = self.service.skip(DOMAIN, job, day(number), reason="nothing comes", by="me")
        if skipped.published:
            self._reached(job, day(number))
            self.moves.append(f"  {job} {day(number).end:%d} is skipped")

    def _reached(self, job: str, interval: Interval) -> None:
        self.last_day[job] = max(self.last_day[job], (interval.end - ORIGIN).days)

    # --- labels --------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """R18, I4: each outdated row of each readable state has a label, and none was read by a ``cascade`` edge."""
        readable = Readable(self)
        reason = self.lineage.outdated(readable.current)
        for table in TABLES:
            for cut in readable.states(table):
                for number_of_day, row in readable.rows(cut, table):
                    why = reason(row)
                    if why is not None:
                        self._expect_label(cut, table, number_of_day, why)

    def _expect_label(self, cut: Cut, table: str, number: int, why: Reason) -> None:
        what = f"the row of {table} of day {number}, in a cut at {cut.barrier}: {why.text}"
        assert not why.violates_cascade, self._story(f"changed under a cascade edge: {what}")
        labelled = any(
            label.table == table
            and label.is_read_at(cut.states[label.table].kind, cut.states[label.table].barrier)
            and (
                table in FULL
                or (label.start < barrier(number) and (label.end is None or barrier(number) <= label.end))
            )
            for label in cut.outdated
        )
        told = "; ".join(str(label) for label in cut.outdated) or "no label"
        assert labelled, self._story(f"no label for {what}; the cut says: {told}")

    def _story(self, problem: str) -> str:
        return "\n".join([f"seed {self.seed}: {problem}", *self.moves])


class Readable:
    """The states that can be read now; each is looked up once."""

    def __init__(self, history: LabelHistory) -> None:
        self._world = history.world
        self._cuts: dict[tuple[str, datetime | None], Cut | None] = {}
        self._rows: dict[tuple[str, datetime], Content] = {}

    def states(self, table: str) -> list[Cut]:
        """Return the newest state of *table*, and those of a full table at earlier barriers."""
        newest = self._cut(table, None)
        if newest is None or table not in FULL:
            return [newest] if newest is not None else []
        days = range(1, (newest.barrier - ORIGIN).days)
        return [newest, *(cut for number in days if (cut := self._at(table, barrier(number))) is not None)]

    def rows(self, cut: Cut, table: str) -> Content:
        """Return the rows of *table* in *cut*."""
        place = table, cut.barrier
        if place not in self._rows:
            self._rows[place] = frozenset(self._world.rows_of(cut)[table])
        return self._rows[place]

    def current(self, read: Read) -> Content | None:
        """Return what *read* returns now."""
        if read.table in FULL:
            cut = self._at(read.table, read.high)
            return None if cut is None else self.rows(cut, read.table)
        newest = self._cut(read.table, None)
        if newest is None or newest.barrier < read.high:
            return None
        found = self.rows(newest, read.table)
        return frozenset(
            row
            for row in found
            if (read.low is None or read.low < barrier(row[0])) and barrier(row[0]) <= read.high
        )

    def _at(self, table: str, moment: datetime) -> Cut | None:
        """Return the cut at *moment* itself."""
        cut = self._cut(table, moment)
        return cut if cut is not None and cut.barrier == moment else None

    def _cut(self, table: str, moment: datetime | None) -> Cut | None:
        place = table, moment
        if place not in self._cuts:
            try:
                self._cuts[place] = self._world.cut(table, at=moment)
            except EpochError:
                self._cuts[place] = None
        return self._cuts[place]
