"""The cascade that is simulated, and what each of its rows must be.

Every kind of edge is there, a job with two sinks, one that builds on its own past, two cadences, a full table, a
lag, an edge that ignores revisions and two that hold them, two participants, and a table without an origin; a job
whose checks refuse some epochs, one that falls silent, one whose table goes to a successor, and one whose cadence
changes. A row's value is a hash of everything that its writer read, so that who read anything else is found out.

What a job reads is written down here a second time, by hand, so that an error in the package's own arithmetic
does not hide itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zlib import crc32

from airflow_provider.domain.checks import row_count
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Cadence, Interval, micros
from airflow_provider.domain.source_bounds import BoundFile, FileSource, SourceBounds
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, Table, increment, previous, state, window

DOMAIN = DomainName("simulated")
ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
_SLOW = 3
MOST_ROWS = 2
"""More of them are refused by the checks of one job."""
_HOURLY = "@hourly"
_EVERY_THIRD = "0 */3 * * *"

Rows = tuple[tuple[datetime, int], ...]
"""Rows as (barrier of their epoch, value), sorted."""
Range = tuple[datetime | None, datetime]


def _table(name: str, kind: TableKind = TableKind.INCREMENTAL) -> Table:
    return Table(name, domain=DOMAIN, kind=kind, format="memory")


BASE, LEFT, RIGHT, TOTAL = (_table(name) for name in ("base", "left", "right", "total"))
ROLL, RECENT, LAGGED, LOOSE = (_table(name) for name in ("roll", "recent", "lagged", "loose"))
SNAP = _table("snap", TableKind.FULL)
SIDE, TAIL = _table("side"), _table("tail")
PICKY, KEPT, PACE = _table("picky"), _table("kept"), _table("pace")
FEED = FileSource("feed", "memory:///feed", late="ignore")


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedJob:
    """A job with what the simulation must know of it beside its declaration.

    :param hours: length of its epochs. :param skips: hours of the domain's time before its first epoch.
    :param hours_at_most: it has no epoch that ends later, counted from the domain's first hour.
    :param certain: whether each of its epochs must be committed in the end. Without a declared origin an epoch
        before the first commit may be refused for good, since others have read "nothing there" (R13).
    """

    job: Job
    hours: int = 1
    skips: int = 0
    hours_at_most: int = 1_000
    participants: int = 1
    certain: bool = True

    @property
    def name(self) -> str:
        return str(self.job.name)

    def epochs(self, length: int) -> list[Interval]:
        """Its epochs in the first *length* hours."""
        starts = range(self.skips, min(length, self.hours_at_most) - self.hours + 1, self.hours)
        return [Interval(ORIGIN + start * HOUR, ORIGIN + (start + self.hours) * HOUR) for start in starts]


def _job(name: str, **declared: Any) -> Job:
    """Declare a job that computes again what it is asked for again, unless it says else."""
    return Job(name, **{"on_rerun": "new_revision", **declared})


JOBS: dict[str, SimulatedJob] = {
    str(simulated.job.name): simulated
    for simulated in (
        SimulatedJob(
            job=_job("base", inputs=[FEED], outputs=[BASE], cadence=_HOURLY, origin=ORIGIN),
        ),
        SimulatedJob(
            job=_job("pair", inputs=[BASE], outputs=[LEFT, RIGHT], cadence=_HOURLY, origin=ORIGIN),
        ),
        SimulatedJob(
            job=_job(
                "total",
                inputs=[state(LEFT), previous(TOTAL)],
                outputs=[TOTAL],
                cadence=_HOURLY,
                origin=ORIGIN,
            ),
        ),
        SimulatedJob(
            job=_job(
                "roll",
                inputs=[increment(RIGHT)],
                outputs=[ROLL],
                cadence=_EVERY_THIRD,
                origin=ORIGIN,
                determinism="keep_first",
            ),
            hours=_SLOW,
            participants=2,
        ),
        SimulatedJob(
            job=_job(
                "snap",
                inputs=[state(BASE), previous(SNAP)],
                outputs=[SNAP],
                cadence=_EVERY_THIRD,
                origin=ORIGIN,
                on_rerun="keep",
            ),
            hours=_SLOW,
        ),
        SimulatedJob(
            job=_job(
                "recent",
                inputs=[window(LEFT, 2 * HOUR, on_upstream_revision="hold")],
                outputs=[RECENT],
                cadence=_HOURLY,
                origin=ORIGIN,
                inactive_after=1,
            ),
        ),
        SimulatedJob(
            job=_job(
                "loose",
                inputs=[increment(RECENT, on_upstream_revision="ignore")],
                outputs=[LOOSE],
                cadence=_HOURLY,
                origin=ORIGIN,
                inactive_after=1,
            ),
        ),
        SimulatedJob(
            job=_job(
                "lagged",
                inputs=[state(BASE, as_of=HOUR, on_upstream_revision="hold")],
                outputs=[LAGGED],
                cadence=_HOURLY,
                origin=ORIGIN + HOUR,
                determinism="replace_cascade",
                inactive_after=1,
            ),
            skips=1,
        ),
        SimulatedJob(
            job=_job(
                "picky",
                inputs=[BASE],
                outputs=[PICKY],
                cadence=_HOURLY,
                origin=ORIGIN,
                checks=[row_count(PICKY, at_most=MOST_ROWS)],
                inactive_after=1,
            ),
        ),
        SimulatedJob(
            job=_job("keeper", outputs=[KEPT], cadence=_HOURLY, origin=ORIGIN, inactive_after=1),
            certain=False,
        ),
        SimulatedJob(
            job=_job("successor", outputs=[KEPT], cadence=_HOURLY, origin=ORIGIN, inactive_after=1),
            certain=False,
        ),
        SimulatedJob(
            job=_job("pace", outputs=[PACE], cadence=_HOURLY, origin=ORIGIN),
            hours_at_most=_SLOW + 1,
            certain=False,
        ),
        SimulatedJob(job=_job("side", outputs=[SIDE], cadence=_HOURLY, inactive_after=1), certain=False),
        SimulatedJob(
            job=_job("tail", inputs=[state(SIDE)], outputs=[TAIL], cadence=_HOURLY, inactive_after=1),
            certain=False,
        ),
    )
}

SLOWED = SimulatedJob(
    job=_job(
        "pace",
        outputs=[PACE],
        cadence=Cadence(_EVERY_THIRD, since=ORIGIN + _SLOW * HOUR, before=Cadence(_HOURLY)),
        origin=ORIGIN,
    ),
    hours=_SLOW,
    skips=_SLOW,
    certain=False,
)
"""Another declaration of a job: its epochs become longer, unless the first one has computed beyond the change."""
SLOWED_AT = SLOWED.skips * HOUR + ORIGIN
"""From here on; so far the table of that job is complete in the end, whichever declaration came first."""


def declared(job: str, *, slowed: bool) -> SimulatedJob:
    """The newest declaration of *job*, whose cadence may have been *slowed* down."""
    return SLOWED if slowed and job == SLOWED.name else JOBS[job]


OWNERS = {
    str(table.name): name
    for name, simulated in JOBS.items()
    for table in simulated.job.outputs
    if name != "successor"
}
"""Whose each table is at first."""
LAPSING = {
    name: simulated.job.inactive_after for name, simulated in JOBS.items() if simulated.job.inactive_after
}
CHANGING = frozenset({"keeper", "successor", "pace"})
"""Jobs that the topology may refuse by the time they run."""
SKIPPED = ("picky", "snap", "lagged")
"""Jobs of which a person skips epochs: those of the first where its checks refuse them."""
KINDS = {str(table.name): table.kind for simulated in JOBS.values() for table in simulated.job.outputs}
TABLES = {str(table.name): table for simulated in JOBS.values() for table in simulated.job.outputs}
IGNORED = frozenset({("loose", "recent")})
"""Edges whose reader does not mind that its input is computed again."""
HOLDING = frozenset({("recent", "left"), ("lagged", "base")})
"""Edges whose input is published again only after a user has decided about the reader."""
CUTS = (
    ("base", "left", "right"),
    ("base", "left", "total", "recent"),
    ("right", "roll"),
    ("base", "snap", "roll"),
    ("base", "lagged"),
    ("left", "recent", "loose"),
    ("side", "tail"),
    ("base", "picky"),
    ("kept", "pace"),
    ("base", "left", "right", "total", "roll", "snap"),
)
"""Which tables readers read together."""


@lru_cache(maxsize=1_000)
def reads(job: str, epoch: Interval) -> Mapping[str, Range]:
    """The range of each table that *job* reads for *epoch*."""
    start, end = epoch.start, epoch.end
    found: dict[str, Mapping[str, Range]] = {
        "base": {},
        "pair": {"base": (start, end)},
        "total": {"left": (None, end), "total": (None, start)},
        "roll": {"right": (start, end)},
        "snap": {"base": (None, end), "snap": (start - _SLOW * HOUR, start)},
        "recent": {"left": (start - 2 * HOUR, end)},
        "loose": {"recent": (start, end)},
        "lagged": {"base": (None, end - HOUR)},
        "side": {},
        "tail": {"side": (None, end)},
        "picky": {"base": (start, end)},
        "keeper": {},
        "successor": {},
        "pace": {},
    }
    return found[job]


@lru_cache(maxsize=1_000)
def reads_of_skip(job: str, epoch: Interval) -> Mapping[str, Range]:
    """The same of an epoch that is skipped: what its full table had."""
    return {
        table: span
        for table, span in reads(job, epoch).items()
        if table == job and KINDS[table] is TableKind.FULL
    }


def is_barrier(table: str, moment: datetime, *, slowed: bool = False) -> bool:
    """Whether *moment* is the end of an epoch of *table*'s calendar, which may have been *slowed* down."""
    return (moment - ORIGIN) % (_hours(table, moment, slowed) * HOUR) == timedelta(0)


def barrier_after(table: str, moment: datetime, *, slowed: bool = False) -> datetime:
    """The next barrier of *table* after its barrier *moment*."""
    return moment + _hours(table, moment + HOUR, slowed) * HOUR


def _hours(table: str, moment: datetime, slowed: bool) -> int:
    return _SLOW if slowed and moment > SLOWED_AT else JOBS[OWNERS[table]].hours


def within(rows: Rows, low: datetime | None, high: datetime) -> Rows:
    """Those of *rows* whose epochs lie in ``[low, high)`` of time: their barriers are above *low*."""
    return tuple(row for row in rows if row[0] <= high and (low is None or row[0] > low))


def output(
    job: str,
    sink: str,
    epoch: Interval,
    inputs: Mapping[str, Rows],
    files: Sequence[str] = (),
    *,
    code: int = 0,
) -> list[int]:
    """The values that *job* writes to *sink* when it has read *inputs*; a quarter of all slices is empty.

    :param code: version of the job's code, of which it makes other rows.
    """
    read = [
        (name, [(micros(barrier), value) for barrier, value in rows]) for name, rows in sorted(inputs.items())
    ]
    mended = f"|{code}" if code else ""
    value = crc32(f"{job}|{sink}|{micros(epoch.end)}|{read}|{sorted(files)}{mended}".encode())
    return [value + number for number in range(value % 4)]


def code_of(job: str, revision: int) -> int:
    """The version of *job*'s code that computes *revision*: who reads no table makes other rows each time."""
    return 0 if JOBS[job].job.edges else revision - 1


def proposal(epoch: Interval, number: int) -> SourceBounds:
    """What attempt *number* finds at the source's location; each one finds something else."""
    uri = f"{FEED.location}/{micros(epoch.end)}-{number}"
    return SourceBounds(source=FEED.name, files=(BoundFile(uri=uri, size_bytes=number),))
