"""The naive twin's reader: pyarrow over the Parquet folders of the six tables that the twin has.

It has no barrier to ask for, so it is judged in its favour. The dated tables (weather, flights, carrier_daily,
route_daily) are cut at a day, as a careful analyst would; delay_by_weather and daily_report are to date and are taken
as they are. A read is right when *any* day of the demo makes all six agree with the source, however old that day is.
An error (a folder emptied, a file gone) is retried.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from demo.measures import COLUMNS, measure
from demo.readers.reading import (
    FAILED,
    WRONG,
    Differences,
    ReaderSettings,
    ReadLog,
    Seen,
    compare,
    read_until_told,
)
from demo.source import midnight
from demo.totals import Measures, SourceTotals

DATED = ("weather", "flights", "carrier_daily", "route_daily")
TO_DATE = ("delay_by_weather", "daily_report")
DAY = "day"


def read_tables(warehouse: str) -> dict[str, pa.Table]:
    """Read every table whole.

    :raises OSError: when a folder or file is gone.
    :raises pyarrow.ArrowException: when a folder or file is not readable as the table.
    """
    return {table: _read(warehouse, table) for table in (*DATED, *TO_DATE)}


def judge(rows: dict[str, pa.Table], totals: SourceTotals, days: Iterable[date]) -> Seen:
    """Find the day at which the tables agree best with the source.

    :returns: the newest day without a difference; else the one with the fewest tables that differ.
    """
    candidates = []
    for day in days:
        barrier = midnight(day + timedelta(days=1))
        candidates.append((compare(measures_at(rows, day), totals, barrier), barrier))
    wrong, barrier = min(reversed(candidates), key=lambda candidate: len(candidate[0]))
    return Seen(barrier=barrier, tables=len(rows), wrong=wrong)


def measures_at(rows: dict[str, pa.Table], day: date) -> dict[str, Measures]:
    """Measure the dated tables up to a day and the others as they are."""
    cut = {
        table: read.filter(pc.less_equal(read[DAY], day.isoformat())) if table in DATED else read
        for table, read in rows.items()
    }
    return {table: measure(table, read) for table, read in cut.items()}


def is_retryable(error: Exception) -> bool:
    """Whether a naive reader would try again: files and folders come and go under it."""
    return isinstance(error, OSError | pa.ArrowException)


def read_all_the_time(*, reader: str, period_s: float) -> None:
    """Read until SIGTERM; the ad-hoc reader."""
    settings = ReaderSettings.from_environment("twin")
    totals = SourceTotals.load(settings.totals)
    read_until_told(
        ReadLog(settings, family="twin", reader=reader),
        lambda: judge(read_tables(settings.warehouse), totals, settings.days),
        is_early=is_retryable,
        is_retryable=is_retryable,
        period_s=period_s,
    )


def read_at_run(barrier: datetime | None) -> None:
    """Read once, in the downstream DAG, and judge at that run's own day: it waited for it.

    :param barrier: the end of the run's data interval.
    """
    if barrier is None:
        raise ValueError("barrier is None, expected the end of the run's data interval")
    settings = ReaderSettings.from_environment("twin")
    totals = SourceTotals.load(settings.totals)

    def read() -> Seen:
        seen = measures_at(read_tables(settings.warehouse), (barrier - timedelta(days=1)).date())
        wrong: Differences = compare(seen, totals, barrier)
        return Seen(barrier=barrier, tables=len(seen), wrong=wrong)

    done = ReadLog(settings, family="twin", reader="dag").perform(read, is_retryable=is_retryable)
    if done.outcome in (WRONG, FAILED):
        print(f"This read was {done.outcome}: {done.wrong or done.error}")


def _read(warehouse: str, table: str) -> pa.Table:
    dated = [DAY] if table in DATED else []
    partitioning = ds.partitioning(pa.schema([(DAY, pa.string())]), flavor="hive")
    folder = ds.dataset(f"{warehouse}/{table}", format="parquet", partitioning=partitioning)
    return folder.to_table(columns=[*COLUMNS[table], *dated])
