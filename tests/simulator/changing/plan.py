"""The pipelines that are simulated while their authors change them, drawn from a seed.

A job is a chain of *versions*, each a declaration that a DAG has for a while. What an epoch reads follows from its
version by the arithmetic here, a second time beside the package's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from random import Random

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.source_bounds import FileSource, Late, PostgresSource, Source
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import EdgeKind, Job, Table, increment, previous, state, window

DOMAIN = DomainName("changing")
ZERO = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LOCATION = "memory:///landing/{end:%Y-%m-%d/%H}"
_CRONS = {0: "*/5 * * * *", 1: "0 * * * *", 2: "0 */2 * * *", 3: "0 */3 * * *"}
_LATER = 0.3
"""Share of the changes of an origin that move it to a later barrier, where R7 allows that."""
_DIVISORS = {1: (1,), 2: (1, 2), 3: (1, 3)}


class Change(StrEnum):
    """How an author changes a job."""

    ORIGIN = "origin moved"
    FINER = "cadence made finer"
    COARSER = "cadence made coarser"
    ADDED = "output added"
    LEFT = "output left"
    BACK = "older declaration came back"
    RENAMED = "source by another name"


def hour(number: int) -> datetime:
    """The barrier *number* hours after the domain's first moment."""
    return ZERO + number * HOUR


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """What an edge reads for one epoch: barriers in ``(low, high]``; of a full table its state at *high*."""

    low: datetime | None
    high: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """An edge. ``hours`` is the length of a window."""

    table: str
    kind: EdgeKind
    hours: int = 0
    ignores: bool = False

    def range(self, epoch: Interval) -> Range:
        match self.kind:
            case EdgeKind.INCREMENT:
                return Range(low=epoch.start, high=epoch.end)
            case EdgeKind.WINDOW:
                return Range(low=epoch.start - self.hours * HOUR, high=epoch.end)
            case EdgeKind.STATE:
                return Range(low=None, high=epoch.end)
            case EdgeKind.PREVIOUS:
                return Range(low=None, high=epoch.start)


@dataclass(frozen=True, kw_only=True, eq=False)
class Version:
    """One declaration of a job.

    :param steps: hours of an epoch, each from its hour on, the first from the beginning of time; 0 for five minutes.
    :param origin: the hour at which it begins; None when it is not declared.
    :param late: its policy for late data; None when it reads no source. :param ids: whether that is a table of ids.
    :param source: the name of its source.
    """

    job: str
    outputs: tuple[str, ...]
    kinds: Mapping[str, TableKind]
    steps: tuple[tuple[int, int], ...]
    origin: int | None
    reads: tuple[Read, ...] = ()
    late: Late | None = None
    ids: bool = False
    source: str = "landing"
    keeps: bool = False

    @cached_property
    def declaration(self) -> Job:
        make = {EdgeKind.INCREMENT: increment, EdgeKind.STATE: state, EdgeKind.PREVIOUS: previous}
        inputs: list[object] = []
        for read in self.reads:
            policy = "ignore" if read.ignores else "cascade"
            table = table_of(read.table, self.kinds[read.table])
            if read.kind is EdgeKind.WINDOW:
                inputs.append(window(table, read.hours * HOUR, on_upstream_revision=policy))
            else:
                inputs.append(make[read.kind](table, on_upstream_revision=policy))
        if self.late is not None:
            inputs.append(self._source(self.late))
        return Job(
            self.job,
            inputs=inputs,  # type: ignore[arg-type]
            outputs=[table_of(output, self.kinds[output]) for output in self.outputs],
            cadence=self._cadence,
            origin=None if self.origin is None else hour(self.origin),
            on_rerun="keep" if self.keeps else "new_revision",
        )

    def _source(self, late: Late) -> Source:
        if not self.ids:
            return FileSource(self.source, LOCATION, late=late)
        policy = Late.REVISION if late is Late.REVISION else Late.NEXT
        return PostgresSource(self.source, "landing", connection="simulated", id_column="id", late=policy)

    @property
    def _cadence(self) -> Cadence:
        (_, first), *later = self.steps
        cadence = Cadence(_CRONS[first])
        for since, step in later:
            cadence = Cadence(_CRONS[step], since=hour(since), before=cadence)
        return cadence

    def step_at(self, number: int) -> int:
        """Hours of the epoch that begins at hour *number*."""
        return next(step for since, step in reversed(self.steps) if since <= number)

    def epochs(self, length: int) -> Sequence[Interval]:
        """The epochs of the calendar in the domain's *length* hours; those before a declared origin are none."""
        known = self._known.get(length)
        if known is None:
            known = self._known[length] = tuple(self._epochs(length))
        return known

    @cached_property
    def _known(self) -> dict[int, Sequence[Interval]]:
        return {}

    def _epochs(self, length: int) -> Iterator[Interval]:
        start = 0 if self.origin is None else self.origin
        while (end := start + self.step_at(start)) <= length:
            yield Interval(hour(start), hour(end))
            start = end

    def has_epoch(self, epoch: Interval) -> bool:
        return epoch in self.epochs((epoch.end - ZERO) // HOUR)


def table_of(name: str, kind: TableKind) -> Table:
    return Table(name, domain=DOMAIN, kind=kind, format="memory")


def draw_jobs(random: Random, streamed: str) -> list[Version]:
    """The jobs of a domain, each reading from those before it.

    :param streamed: a table that a stream fills, which one of them reads, too; empty for none.
    """
    jobs: list[Version] = []
    ignoring = random.choice((0.0, 0.2, 0.9))
    late = random.choice((None, Late.REVISION, Late.REVISION, Late.NEXT, Late.REFUSE, Late.IGNORE))
    ids = random.random() < 0.4
    for name in ("a", "b", "c", "d")[: random.choice((2, 3, 4, 4))]:
        jobs.append(replace(_draw_job(random, name, jobs, late, ignoring), ids=ids))
    if streamed:
        job = jobs.pop()
        kinds = {**job.kinds, streamed: TableKind.INCREMENTAL}
        reads = (*job.reads, Read(table=streamed, kind=EdgeKind.INCREMENT))
        jobs.append(replace(job, kinds=kinds, reads=reads))
    return jobs


def draw_sharing(random: Random, *, counted: bool = False, renamed: bool = False) -> list[Version]:
    """Two jobs that read one source, one that reads both of them, and one that reads anything.

    :param counted: each row of the source is to be read once: often it is a table of ids, and one job alone reads it.
    :param renamed: likewise, and the source changes its name: seldom it is a table of ids.
    """
    counted = counted or renamed
    step, late = (
        1 if counted else random.choice((1, 1, 2)),
        random.choice((Late.REVISION, Late.REVISION, Late.NEXT)),
    )
    ids = random.random() < (0.2 if renamed else 0.9 if counted else 0.25)
    ignoring = random.choice((0.0, 0.0, 0.3))
    alone = counted and random.random() < 0.8
    if renamed:
        late = random.choice((*(Late.NEXT,) * 5, *Late))
    elif counted:
        late = random.choice((Late.REVISION, Late.NEXT))
    jobs: list[Version] = []
    for name in ("a", "b"):
        read = None if alone and name == "b" else late
        drawn = replace(_draw_job(random, name, (), late, 0.0), late=read, ids=ids, origin=0)
        if counted:
            drawn = replace(drawn, kinds=dict.fromkeys(drawn.kinds, TableKind.INCREMENTAL))
        past = drawn.reads if random.random() < 0.3 else ()
        jobs.append(replace(drawn, reads=past, steps=((0, step),), keeps=random.random() < 0.5))
    kinds = {table: kind for job in jobs for table, kind in job.kinds.items()}
    for name in ("c",) if counted else ("c", "d"):
        drawn = _draw_job(random, name, jobs, None, ignoring)
        kinds = {**kinds, **drawn.kinds}
        tables = [job.outputs[0] for job in jobs[:2]]
        both = tuple(_draw_read(random, table, kinds, ignoring) for table in tables)
        reads = both if name == "c" or random.random() < 0.5 else drawn.reads
        jobs.append(replace(drawn, reads=reads, kinds=kinds, steps=((0, step),), origin=0))
    return jobs


def draw_turning(random: Random) -> list[Version]:
    """Two jobs whose cadence is to change: mostly of epochs that may be computed in any order."""
    jobs: list[Version] = []
    for name in ("a", "b"):
        drawn = _draw_job(random, name, (), None, 0.0)
        past = drawn.reads if random.random() < 0.2 else ()
        jobs.append(replace(drawn, reads=past, steps=((0, random.choice((1, 2, 2, 3))),), origin=0))
    if random.random() < 0.2 and jobs[0].steps == jobs[1].steps:
        kinds = {**jobs[0].kinds, **jobs[1].kinds}
        read = _draw_read(random, jobs[0].outputs[0], kinds, 0.0)
        jobs[1] = replace(jobs[1], kinds=kinds, reads=(*jobs[1].reads, read))
    return jobs


def _draw_job(
    random: Random, name: str, before: Sequence[Version], late: Late | None, ignoring: float
) -> Version:
    kinds = {table: kind for version in before for table, kind in version.kinds.items()}
    for table in (f"{name}1", f"{name}2"):
        kinds[table] = TableKind.FULL if random.random() < 0.4 else TableKind.INCREMENTAL
    step = random.choice((1, 1, 1, 2, 3))
    declares = random.random() < 0.75
    origin = random.choice((0, step, step, 2 * step)) if declares else None
    reads: list[Read] = []
    readable = [version for version in before if version.steps[0][1] in _DIVISORS[step]]
    inputs = random.sample(readable, min(len(readable), random.choice((1, 1, 2))))
    reads += [_draw_read(random, random.choice(version.outputs), kinds, ignoring) for version in inputs]
    if declares and random.random() < 0.4:
        reads.append(Read(table=f"{name}1", kind=EdgeKind.PREVIOUS))
    return Version(
        job=name,
        outputs=(f"{name}1", f"{name}2") if random.random() < 0.3 else (f"{name}1",),
        kinds=kinds,
        steps=((0, step),),
        origin=origin,
        reads=tuple(reads),
        late=late if _may_share(before, step) and (not reads or random.random() < 0.25) else None,
        keeps=random.random() < 0.15,
    )


def _may_share(before: Sequence[Version], step: int) -> bool:
    """Whether a job of that *step* may read the source: those that do have one calendar."""
    return all(version.late is None or version.steps[0][1] == step for version in before)


def _draw_read(random: Random, table: str, kinds: Mapping[str, TableKind], ignoring: float) -> Read:
    ignores = random.random() < ignoring
    if kinds[table] is TableKind.FULL:
        return Read(table=table, kind=EdgeKind.STATE, ignores=ignores)
    kind = random.choice((EdgeKind.INCREMENT, EdgeKind.INCREMENT, EdgeKind.WINDOW, EdgeKind.STATE))
    return Read(table=table, kind=kind, hours=random.choice((1, 2)), ignores=ignores)


def changed(
    random: Random,
    versions: Sequence[Version],
    change: Change,
    hours: tuple[int, int],
    at: Collection[int] | None = None,
) -> Version | None:
    """Another declaration of the job; None when the newest of its *versions* cannot be changed so.

    :param hours: the one before which the cadence is history, and the last of the domain. :param at: the hours at
        which another cadence may begin; None for any.
    """
    now, earlier = versions[-1], versions[:-1]
    match change:
        case Change.ORIGIN if now.origin is not None and not hours[0] and random.random() < _LATER:
            return replace(now, origin=now.origin + now.steps[0][1])  # nothing is committed as yet
        case Change.ORIGIN if now.origin:
            step = now.steps[0][1]
            return replace(now, origin=random.randrange(0, now.origin, step))
        case Change.FINER | Change.COARSER:
            return _other_cadence(random, now, change, hours, at)
        case Change.ADDED if len(now.outputs) == 1:
            return replace(now, outputs=(*now.outputs, f"{now.job}2"))
        case Change.LEFT if len(now.outputs) == 2:
            return replace(now, outputs=now.outputs[:1])
        case Change.BACK if earlier:
            return random.choice(earlier)
        case Change.RENAMED if now.late is not None:
            return _renamed(random, now, versions)
    return None


def _other_cadence(
    random: Random, now: Version, change: Change, hours: tuple[int, int], at: Collection[int] | None
) -> Version | None:
    (after, length), (since, step) = hours, now.steps[-1]
    wanted = [
        choice for choice in (1, 2, 3) if (choice > step) == (change is Change.COARSER) and choice != step
    ]
    if not wanted:
        return None
    new = random.choice(wanted)
    least = max(after, since + 1, now.origin or 0)
    places = [place for place in range(least, length) if place % new == 0 and place % step == 0]
    if at is not None:
        places = [place for place in places if place in at]
    return replace(now, steps=(*now.steps, (random.choice(places[:2]), new))) if places else None


def _renamed(random: Random, now: Version, versions: Sequence[Version]) -> Version:
    """Read the source by a new name, now and then by another rule for late data; or by one that the job had before."""
    known = {version.source: version.late for version in versions}
    older = [name for name in known if name != now.source]
    if older and random.random() < 0.4:
        return by_older_name(now, random.choice(older), versions)
    late = now.late if random.random() < 0.7 else random.choice(list(Late))
    return replace(now, source=f"landing_{len(known) + 1}", late=late)


def by_older_name(now: Version, name: str, versions: Sequence[Version]) -> Version:
    """Return a declaration that differs from those before it, so that it is the newest."""
    late = next(version.late for version in reversed(versions) if version.source == name)
    return replace(now, source=name, late=late, keeps=not now.keeps)
