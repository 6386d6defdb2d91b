"""The reader with the package: one cut of all tables, judged at the cut's own barrier."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import cycle
from random import Random

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import RetryableError, UnknownName
from demo.connection import settings_from_environment
from demo.measures import COLUMNS, measure
from demo.readers.reading import FAILED, WRONG, ReaderSettings, ReadLog, Seen, compare, read_until_told
from demo.source import midnight
from demo.totals import TABLES, SourceTotals

DOMAIN = "nyc"


def read_cut(service: EpochService, totals: SourceTotals, *, at: datetime | None = None) -> Seen:
    """Read all tables at one cut and compare them with the source at its barrier.

    :param at: the greatest barrier wanted; None for the newest.
    """
    cut = service.cuts.cut(DOMAIN, list(TABLES), at=at)
    seen = {table: measure(table, service.cuts.read(cut, table, COLUMNS[table])) for table in TABLES}
    return Seen(barrier=cut.barrier, csn=cut.csn, wrong=compare(seen, totals, cut.barrier))


def is_retryable(error: Exception) -> bool:
    """Whether the error's family says that the read may be tried again."""
    return isinstance(error, RetryableError)


def is_early(error: Exception) -> bool:
    """Whether nothing is published yet: no common barrier, or jobs that never ran."""
    return isinstance(error, RetryableError | UnknownName)


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM; the ad-hoc reader, which asks for the newest barrier and for earlier ones by turns."""
    settings = ReaderSettings.from_environment("epochs")
    totals = SourceTotals.load(settings.totals)
    random = Random(reader)  # noqa: S311 - chooses what to read
    ends = [midnight(day + timedelta(days=1)) for day in settings.days]
    wants_newest = cycle((True, False))

    def read() -> Seen:
        return read_cut(service, totals, at=None if next(wants_newest) else random.choice(ends))

    with EpochService.open(settings_from_environment()) as service:
        read_until_told(
            ReadLog(settings, family="epochs", reader=reader),
            read,
            is_early=is_early,
            is_retryable=is_retryable,
            period_s=period_s,
        )


def read_at_run(barrier: datetime) -> None:
    """Read once, in the downstream DAG, at the barrier that its sensor waited for."""
    settings = ReaderSettings.from_environment("epochs")
    totals = SourceTotals.load(settings.totals)
    with EpochService.open(settings_from_environment()) as service:
        done = ReadLog(settings, family="epochs", reader="dag").perform(
            lambda: read_cut(service, totals, at=barrier), is_retryable=is_retryable
        )
    if done.outcome in (WRONG, FAILED):
        print(f"This read was {done.outcome}: {done.wrong or done.error}")
