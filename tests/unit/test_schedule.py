"""Which interval a run computes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.schedule import run_barrier, run_interval

HOURLY = Cadence("@hourly")
DAILY = Cadence("@daily")
NEW_YORK = Cadence("@daily", "America/New_York")
NEW_YORK_HOURLY = Cadence("@hourly", "America/New_York")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def interval(start: str, end: str) -> Interval:
    return Interval(at(start), at(end))


SEVENTH = interval("2013-02-07", "2013-02-08")


# --- which source decides ------------------------------------------------------------------------------------


def test_a_daily_run_at_8_february_computes_7_february() -> None:
    """Airflow 3's @daily gives a data interval of zero length at the run's date."""
    midnight = at("2013-02-08")
    assert run_interval(DAILY, data_interval=(midnight, midnight), run_date=midnight) == SEVENTH


def test_a_manual_run_computes_the_last_interval_that_ended() -> None:
    assert run_interval(DAILY, run_date=at("2013-02-08T13:05:17.5")) == SEVENTH


def test_a_data_interval_that_is_not_empty_decides_over_the_date() -> None:
    given = (at("2013-02-07"), at("2013-02-08"))
    assert run_interval(DAILY, data_interval=given, run_date=at("2013-02-07")) == SEVENTH


def test_a_partition_key_decides_over_the_data_interval() -> None:
    given = (at("2013-02-01"), at("2013-02-02"))
    assert run_interval(DAILY, partition_key="2013-02-07", data_interval=given) == SEVENTH


def test_explicit_interval_of_the_author_takes_precedence() -> None:
    given = (at("2013-02-01"), at("2013-02-02"))
    found = run_interval(DAILY, explicit=SEVENTH, partition_key="2013-02-03", data_interval=given)
    assert found == SEVENTH


def test_a_template_that_renders_to_nothing_is_no_interval() -> None:
    assert run_interval(DAILY, explicit="", run_date=at("2013-02-08")) == SEVENTH


def test_a_run_that_says_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="interval") as caught:
        run_interval(DAILY)
    assert "interval=" in caught.value.next_step


# --- batches: one run, many epochs ---------------------------------------------------------------------------


def test_a_daily_run_of_an_hourly_job_has_24_epochs() -> None:
    found = run_interval(HOURLY, run_date=at("2013-02-08"), batch=DAILY)
    assert found == SEVENTH
    epochs = HOURLY.split(found)
    assert len(epochs) == 24
    assert (epochs[0].start, epochs[-1].end) == (found.start, found.end)


def test_without_batch_a_daily_run_of_an_hourly_job_has_one_epoch() -> None:
    assert run_interval(HOURLY, run_date=at("2013-02-08")) == interval("2013-02-07T23", "2013-02-08")


def test_a_daily_data_interval_of_an_hourly_job_has_24_epochs() -> None:
    found = run_interval(HOURLY, data_interval=(at("2013-02-07"), at("2013-02-08")))
    assert len(HOURLY.split(found)) == 24


def test_a_batch_that_cuts_through_an_epoch_is_refused() -> None:
    with pytest.raises(InvalidInput, match="batch"):
        run_interval(DAILY, run_date=at("2013-02-08T13:00"), batch=HOURLY)


@pytest.mark.parametrize(
    ("run_date", "hours"),
    [("2013-03-11T04:00", 23), ("2013-11-04T05:00", 25), ("2013-02-08T05:00", 24)],
    ids=["spring", "autumn", "ordinary"],
)
def test_days_of_23_and_25_hours_keep_every_hour_once(run_date: str, hours: int) -> None:
    found = run_interval(NEW_YORK_HOURLY, run_date=at(run_date), batch=NEW_YORK)
    epochs = NEW_YORK_HOURLY.split(found)
    assert len(epochs) == hours
    assert all(epoch.end - epoch.start == timedelta(hours=1) for epoch in epochs)
    assert [epoch.end for epoch in epochs[:-1]] == [epoch.start for epoch in epochs[1:]]


# --- partition keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "cadence", "expected"),
    [
        ("2013-02-07T00:00:00", DAILY, SEVENTH),
        ("2013-02-07T00:00:00+00:00", DAILY, SEVENTH),
        ("2013-02-07T01:00:00+01:00", DAILY, SEVENTH),
        ("2013-02-07T00:00:00Z", DAILY, SEVENTH),
        ("2013-02-07 00:00", DAILY, SEVENTH),
        ("20130207", DAILY, SEVENTH),
        ("20130207T000000", DAILY, SEVENTH),
        (" 2013-02-07 ", DAILY, SEVENTH),
        ("2013-02-07T05", HOURLY, interval("2013-02-07T05", "2013-02-07T06")),
        ("2013-02-07", HOURLY, SEVENTH),
        ("2013-02-07/2013-02-09", DAILY, interval("2013-02-07", "2013-02-09")),
        ("2013-02-07T05/2013-02-07T08", HOURLY, interval("2013-02-07T05", "2013-02-07T08")),
        ("2013-02-04 (W06)", DAILY, interval("2013-02-04", "2013-02-11")),
        ("2013-W06", DAILY, interval("2013-02-04", "2013-02-11")),
        ("2013-02", DAILY, interval("2013-02-01", "2013-03-01")),
        ("2013-12", DAILY, interval("2013-12-01", "2014-01-01")),
        ("2013-Q4", DAILY, interval("2013-10-01", "2014-01-01")),
        ("2013", Cadence("@monthly"), interval("2013-01-01", "2014-01-01")),
        ("2013-02-01", Cadence("@monthly"), interval("2013-02-01", "2013-03-01")),
        ("2012-02-29", DAILY, interval("2012-02-29", "2012-03-01")),
        ("2013-02-07", NEW_YORK, interval("2013-02-07T05:00", "2013-02-08T05:00")),
        ("2013-03-10", NEW_YORK, interval("2013-03-10T05:00", "2013-03-11T04:00")),
    ],
)
def test_a_partition_key_names_the_interval_that_starts_there(
    key: str, cadence: Cadence, expected: Interval
) -> None:
    assert run_interval(cadence, partition_key=key) == expected


def test_a_key_with_a_time_names_one_interval_of_the_runs_calendar() -> None:
    assert run_interval(HOURLY, partition_key="2013-02-07T00:00:00", batch=DAILY) == SEVENTH


@pytest.mark.parametrize(
    "key",
    [
        "yesterday", "2013-02-30", "2013-13", "2013-Q5", "2013-W60", "2013-02-04 (W09)", "2013-02-07T25",
        "/", "2013-02-07/", "a/b", "2013-02-08/2013-02-07", "2013-02-07/2013-02-07", "0000", "9999",
        "9999-12-31", "١٢٣٤", "2013-02-07\x00", "2013-02-07; DROP TABLE", "../2013", "-1", "1e3",
    ],
)  # fmt: skip
def test_a_key_that_cannot_be_read_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        run_interval(DAILY, partition_key=key)
    assert caught.value.details["field"] in {"partition_key", "interval", "time", "start", "end"}


@pytest.mark.parametrize(
    ("key", "cadence"),
    [
        ("2013-02-07T05:00:00", DAILY),
        ("2013-02-07", Cadence("@monthly")),
        ("2013-02-04 (W06)", Cadence("@weekly")),
        ("2013-02-07T05:30", HOURLY),
    ],
)
def test_a_key_off_the_calendar_is_refused_with_the_calendar(key: str, cadence: Cadence) -> None:
    with pytest.raises(InvalidInput, match="partition_key") as caught:
        run_interval(cadence, partition_key=key)
    assert str(cadence) in str(caught.value)


@pytest.mark.parametrize("key", ["2013-11-03T01:00:00", "2013-03-10T02:00:00"], ids=["twice", "never"])
def test_a_local_time_that_clocks_change_at_needs_its_offset(key: str) -> None:
    with pytest.raises(InvalidInput, match="clocks change") as caught:
        run_interval(NEW_YORK_HOURLY, partition_key=key)
    assert "offset" in caught.value.next_step


def test_a_local_time_with_its_offset_is_one_hour() -> None:
    first = run_interval(NEW_YORK_HOURLY, partition_key="2013-11-03T01:00:00-04:00")
    second = run_interval(NEW_YORK_HOURLY, partition_key="2013-11-03T01:00:00-05:00")
    assert first.end == second.start


# --- explicit intervals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        SEVENTH,
        (SEVENTH.start, SEVENTH.end),
        [SEVENTH.start.isoformat(), SEVENTH.end.isoformat()],
        ("2013-02-07", "2013-02-08"),
        "2013-02-07",
        "2013-02-07/2013-02-08",
        f"{SEVENTH.start.isoformat()}/{SEVENTH.end.isoformat()}",
    ],
)
def test_an_explicit_interval_may_be_written_in_several_ways(given: object) -> None:
    assert run_interval(DAILY, explicit=given) == SEVENTH  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        (datetime(2013, 2, 7), datetime(2013, 2, 8)),  # noqa: DTZ001
        (SEVENTH.end, SEVENTH.start),
        (SEVENTH.start, SEVENTH.start),
        (SEVENTH.start,),
        (1, 2),
        (None, None),
        42,
        0,
        {"start": "2013-02-07"},
        Interval(SEVENTH.start, SEVENTH.end - timedelta(hours=1)),
    ],
)
def test_an_explicit_interval_that_is_none_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput):
        run_interval(DAILY, explicit=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("run_date", [datetime(2013, 2, 8), "2013-02-08", 0])  # noqa: DTZ001
def test_a_run_date_without_a_zone_is_refused(run_date: object) -> None:
    with pytest.raises(InvalidInput, match="run_date"):
        run_interval(DAILY, run_date=run_date)  # type: ignore[arg-type]


# --- barriers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "barrier"),
    [
        ({"run_date": at("2013-02-08")}, "2013-02-08"),
        ({"run_date": at("2013-02-08T13:05"), "cadence": DAILY}, "2013-02-08"),
        (
            {"data_interval": (at("2013-02-08"), at("2013-02-08")), "run_date": at("2013-02-08T13:05")},
            "2013-02-08",
        ),
        (
            {"data_interval": (at("2026-11-27T18:58"), at("2026-11-27T18:58")), "run_date": at("2013-02-08")},
            "2013-02-08",
        ),
        ({"data_interval": (at("2013-02-07"), at("2013-02-08")), "run_date": at("2013-02-07")}, "2013-02-08"),
        ({"partition_key": "2013-02-07"}, "2013-02-08"),
        ({"partition_key": "2013-02-07T05", "cadence": HOURLY}, "2013-02-07T06"),
        ({"explicit": "2013-02-08", "partition_key": "2013-02-01"}, "2013-02-08"),
        ({"explicit": at("2013-02-08T06:00")}, "2013-02-08T06"),
        ({"explicit": SEVENTH}, "2013-02-08"),
        ({"explicit": "", "run_date": at("2013-02-08")}, "2013-02-08"),
        ({"explicit": "2013-02-08", "cadence": NEW_YORK}, "2013-02-08T05:00"),
    ],
)
def test_a_run_reads_at_the_end_of_its_interval(given: dict[str, object], barrier: str) -> None:
    assert run_barrier(**given) == at(barrier)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"explicit": "noon"},
        {"explicit": 5},
        {"explicit": datetime(2013, 2, 8)},  # noqa: DTZ001
        {"partition_key": "2013-02-07T05"},
        {"partition_key": "x"},
        {"run_date": datetime(2013, 2, 8)},  # noqa: DTZ001
    ],
)
def test_a_barrier_that_cannot_be_read_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        run_barrier(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["noon", "2013-02-07/2013-02-08"])
def test_invalid_barrier_is_refused_with_the_format_of_a_time(text: str) -> None:
    """Not how an interval is, which would not be accepted either."""
    with pytest.raises(InvalidInput, match="a time, written like 2013-02-08") as refused:
        run_barrier(explicit=text)
    assert refused.value.field == "at"
