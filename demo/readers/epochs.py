"""The reader with the package: one cut of many tables, judged at the barriers of the cut itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from random import Random

from airflow_provider import Align, Epochs, NotReady, ReadableCut, RetryableError, UnknownName, connect
from demo.connection import settings_from_environment
from demo.measures import COLUMNS, measure
from demo.readers.reading import FAILED, WRONG, ReaderSettings, ReadLog, Seen, compare, read_until_told
from demo.totals import TABLES, WEEKLY_TABLES, Measures, SourceTotals

DOMAIN = "nyc"
DAILY_TABLES = [table for table in TABLES if table not in WEEKLY_TABLES]
"""Those that have each midnight as a barrier."""
MOST_BEHIND = timedelta(days=6)
"""So much earlier than the day of a cut its week may have ended: it is the last one that did."""


def read_day(epochs: Epochs, totals: SourceTotals, *, at: datetime | None = None) -> Seen:
    """Read the tables that have a barrier each day, all at one, and compare them with the source there.

    :param at: the greatest barrier wanted; None for the newest.
    """
    return _seen(epochs.cut(DAILY_TABLES, at=at), totals)


def read_all(epochs: Epochs, totals: SourceTotals) -> Seen:
    """Read all tables at the newest day: the weekly ones at the end of the last week, each judged where it stands.

    :raises NotReady: no week has been published.
    """
    return _seen(epochs.cut(TABLES, align=Align.FLOOR, max_lag=MOST_BEHIND), totals)


def measured(cut: ReadableCut) -> tuple[dict[str, Measures], dict[str, timedelta]]:
    """Read the tables of *cut*; return their measures, and by how much some of them are behind its barrier."""
    tables = map(str, cut)
    found = {table: measure(table, cut[table].to_arrow(COLUMNS[table])) for table in tables}
    return found, {str(table): lag for table, lag in cut.behind.items()}


def _seen(cut: ReadableCut, totals: SourceTotals) -> Seen:
    found, behind = measured(cut)
    wrong = compare(found, totals, cut.barrier, behind=behind)
    return Seen(barrier=cut.barrier, tables=len(found), csn=cut.csn, wrong=wrong)


def is_retryable(error: Exception) -> bool:
    """Whether the error's family says that the read may be tried again."""
    return isinstance(error, RetryableError)


def is_early(error: Exception) -> bool:
    """Whether nothing is published yet: no common barrier, or jobs that never ran."""
    return isinstance(error, RetryableError | UnknownName)


class AdHocReader:
    """Asks by turns for the newest day, for an earlier one, and for the newest with the last week beside it.

    :param read_day: reads the tables that have a barrier each day, at the newest one or at one up to a time.
    :param read_all: reads all tables at the newest day.
    :param is_early: whether an error of the latter means that no week has been published.
    :param ends: of the days, from which an earlier one is chosen. :param name: makes its choices its own.
    """

    def __init__(
        self,
        read_day: Callable[[datetime | None], Seen],
        read_all: Callable[[], Seen],
        *,
        is_early: Callable[[Exception], bool],
        ends: Sequence[datetime],
        name: str,
    ) -> None:
        self._read_day = read_day
        self._read_all = read_all
        self._is_early = is_early
        self._ends = ends
        self._random = Random(name)  # noqa: S311 - chooses what to read
        self._turns: cycle[Callable[[], Seen]] = cycle((self._newest, self._earlier, self._with_the_week))
        self._has_week = False

    def read(self) -> Seen:
        """Read what it is the turn of."""
        return next(self._turns)()

    def _newest(self) -> Seen:
        return self._read_day(None)

    def _earlier(self) -> Seen:
        return self._read_day(self._random.choice(self._ends))

    def _with_the_week(self) -> Seen:
        """Read all tables; without the weekly ones as long as there is no week."""
        try:
            seen = self._read_all()
        except Exception as error:
            if self._has_week or not self._is_early(error):
                raise
            return self._newest()
        self._has_week = True
        return seen


def by_cuts(epochs: Epochs, totals: SourceTotals, *, ends: Sequence[datetime], name: str) -> AdHocReader:
    """Make the reader that asks the package for its cuts.

    :param ends: as :class:`AdHocReader` has it. :param name: likewise.
    """
    return AdHocReader(
        lambda at: read_day(epochs, totals, at=at),
        lambda: read_all(epochs, totals),
        is_early=lambda error: isinstance(error, NotReady | UnknownName),
        ends=ends,
        name=name,
    )


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM; the ad-hoc reader."""
    settings = ReaderSettings.from_environment("epochs")
    totals = SourceTotals.load(settings.totals)
    with connect(settings_from_environment(), domain=DOMAIN) as epochs:
        read_until_told(
            ReadLog(settings, family="epochs", reader=reader),
            by_cuts(epochs, totals, ends=settings.days.ends, name=reader).read,
            is_early=is_early,
            is_retryable=is_retryable,
            period_s=period_s,
        )


def read_at_run(barrier: datetime) -> None:
    """Read once, in the downstream DAG, at the barrier that its sensor waited for."""
    settings = ReaderSettings.from_environment("epochs")
    totals = SourceTotals.load(settings.totals)
    with connect(settings_from_environment(), domain=DOMAIN) as epochs:
        done = ReadLog(settings, family="epochs", reader="dag").perform(
            lambda: read_day(epochs, totals, at=barrier), is_retryable=is_retryable
        )
    if done.outcome in (WRONG, FAILED):
        print(f"This read was {done.outcome}: {done.wrong or done.error}")
