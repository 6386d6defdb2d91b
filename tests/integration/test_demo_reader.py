"""The demo's reader with the package, over a real store and tables of three cadences whose rows a test gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider import Epochs, connect
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.local_epochs import LocalEpochs
from demo import figures
from demo.readers import catalog
from demo.readers.catalog import CutsByAddress
from demo.readers.epochs import AdHocReader, by_cuts, read_all, read_day
from demo.readers.reading import Seen
from demo.source import midnight
from demo.totals import TABLES, SourceTotals
from spark_jobs import nyc_tables
from tests.services.catalog_server import application, served

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
SATURDAY, SUNDAY = date(2013, 2, 9), date(2013, 2, 10)
FLIGHTS = {SATURDAY: 2, SUNDAY: 3}
"""Each cancelled, 10 miles long and in the first hour of its day, which has clear weather."""


def end_of(day: date) -> datetime:
    return midnight(day + DAY)


def totals() -> SourceTotals:
    return SourceTotals(
        {
            midnight(day): {"reports": 1, "flights": count, "cancelled": count, "distance": 10 * count}
            for day, count in FLIGHTS.items()
        }
    )


def counted(flights: int) -> dict[str, list[int]]:
    return {"flights": [flights], "cancelled": [flights], "distance": [10 * flights]}


def rows(day: date) -> dict[str, pa.Table]:
    """What each table of the day's jobs has of its epoch."""
    flights, to_date = FLIGHTS[day], sum(count for other, count in FLIGHTS.items() if other <= day)
    ways = {f"{name}_by_{way}": [to_date] for name in ("flights", "cancelled") for way in WAYS}
    return {
        "flights": pa.table({"cancelled": [True] * flights, "distance_mi": [10] * flights}),
        "carrier_daily": pa.table(counted(flights)),
        "route_daily": pa.table(counted(flights)),
        "delay_by_weather": pa.table({"visibility": ["clear"], **counted(to_date)}),
        "daily_report": pa.table(ways),
        "carrier_to_date": pa.table(counted(to_date)),
        "carrier_three_days": pa.table(counted(to_date)),
    }


WAYS = ("carrier", "route", "weather")


def begun(job: Job, origin: datetime) -> Job:
    """The demo's job over these two days."""
    return Job(job.name, outputs=job.outputs, cadence=job.cadence, origin=origin)


def commit_day(epochs: LocalEpochs, day: date, *, leave_out: str | None = None) -> None:
    found = rows(day)
    for job in nyc_tables.JOBS:
        tables: list[Table] = [table for table in job.outputs if table.name in found]
        if tables and job.name != leave_out:
            epoch = Interval(midnight(day), end_of(day))
            epochs.commit(
                begun(job, midnight(SATURDAY)), epoch, {table: found[table.name] for table in tables}
            )
    first = Interval(midnight(day), midnight(day) + HOUR)
    reports = {nyc_tables.WEATHER: pa.table({"visibility_mi": [10.0]})}
    epochs.commit(begun(nyc_tables.WEATHER_JOB, midnight(SATURDAY)), first, reports)
    rest = Interval(first.end, end_of(day))
    epochs.service.skip(nyc_tables.DOMAIN, "weather", rest, "one report a day", by="test")


def commit_week(epochs: LocalEpochs, flights: int) -> None:
    week = pa.table({**counted(flights), "reports": [1], "low_visibility_reports": [0]})
    start = datetime(2013, 2, 3, tzinfo=UTC)
    epochs.commit(
        begun(nyc_tables.AIRPORT_WEEK_JOB, start),
        Interval(start, end_of(SATURDAY)),
        {nyc_tables.AIRPORT_WEEKLY: week},
    )


@pytest.fixture
def epochs(tmp_path: Path) -> Iterator[LocalEpochs]:
    with LocalEpochs(tmp_path) as opened:
        commit_day(opened, SATURDAY)
        yield opened


@pytest.fixture
def reading(epochs: LocalEpochs) -> Iterator[Epochs]:
    """The same, as the demo's readers open it."""
    with connect(local=epochs, domain=nyc_tables.DOMAIN) as opened:
        yield opened


@pytest.fixture
def cuts(epochs: LocalEpochs) -> Iterator[CutsByAddress]:
    """The same by the REST catalog."""
    with served(application(epochs.service)) as uri:
        yield CutsByAddress(totals(), uri=uri, token="anything")  # noqa: S106 - this server asks for none


@pytest.fixture(params=["by cuts", "by addresses"])
def reader(request: pytest.FixtureRequest) -> AdHocReader:
    ends = [end_of(SATURDAY)]
    if request.param == "by cuts":
        return by_cuts(request.getfixturevalue("reading"), totals(), ends=ends, name="adhoc-1")
    found: CutsByAddress = request.getfixturevalue("cuts")
    return AdHocReader(
        found.read_day, found.read_all, is_early=catalog.is_early, ends=ends, name=figures.BY_CATALOG
    )


def test_tables_of_three_cadences_are_judged_where_each_stands(
    epochs: LocalEpochs, reader: AdHocReader
) -> None:
    before = [reader.read() for _ in range(3)]
    assert {(judged.barrier, judged.tables, len(judged.wrong)) for judged in before} == {
        (end_of(SATURDAY), len(TABLES) - 1, 0)
    }, "there is no week yet"

    commit_week(epochs, FLIGHTS[SATURDAY])
    at_its_end = [reader.read() for _ in range(3)][-1]
    assert (at_its_end.barrier, at_its_end.tables, at_its_end.wrong) == (end_of(SATURDAY), len(TABLES), {})

    commit_day(epochs, SUNDAY)
    newest, earlier, day_later = (reader.read() for _ in range(3))
    assert [judged.barrier for judged in (newest, earlier, day_later)] == [
        end_of(SUNDAY),
        end_of(SATURDAY),
        end_of(SUNDAY),
    ]
    assert [judged.tables for judged in (newest, earlier, day_later)] == [8, 8, 9]
    assert [judged.wrong for judged in (newest, earlier, day_later)] == [{}, {}, {}]


def test_a_week_that_is_not_the_source_s_is_wrong(
    epochs: LocalEpochs, reading: Epochs, cuts: CutsByAddress
) -> None:
    commit_week(epochs, FLIGHTS[SATURDAY] + FLIGHTS[SUNDAY])
    for seen in (read_all(reading, totals()), cuts.read_all()):
        assert set(seen.wrong) == {"airport_weekly"}
        assert seen.wrong["airport_weekly"]["flights"] == (5, 2)
    for seen in (read_day(reading, totals()), cuts.read_day()):
        assert (seen.tables, seen.wrong) == (8, {})


def test_a_full_table_that_stays_behind_is_judged_where_it_stands(
    epochs: LocalEpochs, cuts: CutsByAddress
) -> None:
    """A cut of all tables may have its trends of the day before; a day's cut has all of its day."""
    commit_week(epochs, FLIGHTS[SATURDAY])
    commit_day(epochs, SUNDAY, leave_out="carrier_trends")
    newest, day = cuts.read_all(), cuts.read_day()
    assert (newest.barrier, newest.tables, newest.wrong) == (end_of(SUNDAY), 9, {})
    assert (day.barrier, day.tables, day.wrong) == (end_of(SATURDAY), 8, {})


def test_answers_of_the_catalog_are_early_or_to_be_asked_again(tmp_path: Path) -> None:
    """Nothing committed, a week that is missing; no server, a wrong address."""
    with LocalEpochs(tmp_path) as local, served(application(local.service)) as uri:
        empty = CutsByAddress(totals(), uri=uri, token="anything")  # noqa: S106
        before = raised(empty.read_day)
        commit_day(local, SATURDAY)
        assert empty.read_day().tables == 8
        no_week = raised(empty.read_all)
    gone = raised(empty.read_day)
    assert [catalog.is_early(error) for error in (before, no_week, gone)] == [True, True, False]
    assert [catalog.is_retryable(error) for error in (before, no_week, gone)] == [False, False, True]
    for lasting in (ValueError("a defect"), FileNotFoundError("a file of a cut that is held")):
        assert not catalog.is_retryable(lasting)


def raised(read: Callable[[], Seen]) -> Exception:
    with pytest.raises(Exception) as found:  # noqa: PT011 - which, is what the test asks
        read()
    return found.value
