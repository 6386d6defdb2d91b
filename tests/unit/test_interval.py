"""Intervals and calendars: touching, daylight saving, the ends of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence, Interval, as_utc, from_micros, micros, time_key

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")


def day(number: int) -> datetime:
    return datetime(2013, 2, number, tzinfo=UTC)


def test_touching_intervals_do_not_overlap() -> None:
    assert not Interval(day(1), day(2)).overlaps(Interval(day(2), day(3)))
    assert Interval(day(1), day(3)).overlaps(Interval(day(2), day(4)))


@pytest.mark.parametrize(("start", "end"), [(day(2), day(2)), (day(3), day(2))])
def test_an_empty_or_backward_interval_is_refused(start: datetime, end: datetime) -> None:
    with pytest.raises(InvalidInput, match="interval"):
        Interval(start, end)


@pytest.mark.parametrize("value", [datetime(2013, 2, 1), "2013-02-01", 5, None])  # noqa: DTZ001 - naive on purpose
def test_a_time_without_zone_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        as_utc(value, "start")
    assert refused.value.details["field"] == "start"


def test_a_time_that_utc_cannot_express_is_refused() -> None:
    with pytest.raises(InvalidInput):
        as_utc(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))


def test_a_time_of_another_zone_keeps_its_microseconds() -> None:
    precise = datetime(2013, 2, 1, 12, 30, 15, 123456, tzinfo=timezone(HOUR))
    assert as_utc(precise) == precise
    assert as_utc(precise).isoformat() == "2013-02-01T11:30:15.123456+00:00"


def test_both_sides_of_a_fold_stay_different() -> None:
    first = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=0)
    second = datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1)
    assert as_utc(second) - as_utc(first) == HOUR


@given(st.datetimes(timezones=st.just(UTC)))
def test_microseconds_and_keys_keep_time_and_order(moment: datetime) -> None:
    assert from_micros(micros(moment)) == moment
    later = moment + timedelta(microseconds=1) if moment < datetime.max.replace(tzinfo=UTC) else moment
    assert time_key(moment) <= time_key(later)
    assert len(time_key(moment)) == len(time_key(day(1)))


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "hourly",
        "* * * *",
        "61 * * * *",
        "@never",
        "* * * * * *",
        None,
        3,
        "R * * * *",
        "H 0 * * *",
        "0 R * * *",
        "0 6,R * * *",
        "0 0 31 2 *",
    ],
)
def test_a_cadence_that_cannot_be_read_is_refused(expression: object) -> None:
    with pytest.raises(InvalidInput, match="cadence"):
        Cadence(expression)  # type: ignore[arg-type]


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="timezone"):
        Cadence("@daily", "Mars/Olympus")


def test_days_of_a_clock_change_have_23_and_25_hours() -> None:
    cadence = Cadence("@daily", "Europe/Berlin")
    spring = cadence.split(
        Interval(datetime(2024, 3, 29, 23, tzinfo=UTC), datetime(2024, 4, 1, 22, tzinfo=UTC))
    )
    autumn = cadence.split(
        Interval(datetime(2024, 10, 25, 22, tzinfo=UTC), datetime(2024, 10, 28, 23, tzinfo=UTC))
    )
    assert [epoch.end - epoch.start for epoch in spring] == [DAY, DAY - HOUR, DAY]
    assert [epoch.end - epoch.start for epoch in autumn] == [DAY, DAY + HOUR, DAY]


def test_hours_of_a_clock_change_are_neither_lost_nor_doubled() -> None:
    cadence = Cadence("@hourly", "Europe/Berlin")
    for month, last in ((3, 31), (10, 27)):
        start = datetime(2024, month, last, tzinfo=UTC)
        hours = cadence.split(Interval(start, start + DAY))
        assert [hour.end - hour.start for hour in hours] == [HOUR] * 24


def test_hours_begin_where_the_clocks_of_the_zone_say() -> None:
    """Half past, by UTC, where a zone is half an hour off."""
    hours = Cadence("@hourly", "Asia/Kolkata")
    assert hours.ended_by(day(7)) == Interval(day(7) - 1.5 * HOUR, day(7) - 0.5 * HOUR)
    assert hours.next_after(day(7)) == day(7) + HOUR / 2


@pytest.mark.parametrize(
    ("preset", "barriers"),
    [
        ("@hourly", ["2013-02-07T06", "2013-02-07T07"]),
        ("@daily", ["2013-02-08T00", "2013-02-09T00"]),
        ("@weekly", ["2013-02-10T00", "2013-02-17T00"]),
        ("@monthly", ["2013-03-01T00", "2013-04-01T00"]),
        ("@quarterly", ["2013-04-01T00", "2013-07-01T00", "2013-10-01T00", "2014-01-01T00"]),
        ("@yearly", ["2014-01-01T00", "2015-01-01T00"]),
    ],
)
def test_the_barriers_of_a_preset(preset: str, barriers: list[str]) -> None:
    moment = datetime(2013, 2, 7, 5, 30, tzinfo=UTC)
    for barrier in barriers:
        moment = Cadence(preset).next_after(moment)
        assert moment == datetime.fromisoformat(f"{barrier}:00+00:00")


def test_an_hour_that_a_clock_change_skips_is_no_barrier() -> None:
    """Nor is the one that clocks show in its place: every other hour goes on at four."""
    cadence = Cadence("0 */2 * * *", "Europe/Berlin")
    midnight, end = (datetime(2024, 3, day, hour, tzinfo=UTC) for day, hour in ((30, 23), (31, 4)))
    hours = [hour.end.astimezone(BERLIN).hour for hour in cadence.split(Interval(midnight, end))]
    assert hours == [4, 6]


@given(
    st.sampled_from(
        [
            "@hourly",
            "@daily",
            "@weekly",
            "@monthly",
            "30 6 * * *",
            "*/15 * * * *",
            "0 0 1 */3 *",
            "0 0,12 * * *",
            "0 */6 * * *",
        ]
    ),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
    st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2040, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_neighbours_enclose_every_moment(expression: str, zone: str, moment: datetime) -> None:
    cadence = Cadence(expression, zone)
    before, after = cadence.last_before(moment), cadence.next_after(moment)
    assert before < moment < after
    assert cadence.is_barrier(after)
    assert cadence.floor(moment) <= moment
    assert cadence.floor(after) == after
    assert cadence.ending_at(after).end == after
    assert cadence.split(cadence.ending_at(after)) == [cadence.ending_at(after)]
    assert cadence.next_after(before) == (moment if cadence.is_barrier(moment) else after)


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]
)
@pytest.mark.parametrize(
    "expression", ["0 0,12 * * *", "0 */6 * * *", "30 2 * * *", "0 * * * *", "*/20 * * * *"]
)
def test_epochs_around_a_clock_change_are_one_chain(expression: str, zone: str) -> None:
    cadence = Cadence(expression, zone)
    for month in (3, 10):
        moment = cadence.next_after(datetime(2013, month, 27, tzinfo=UTC))
        for _ in range(30):
            following = cadence.next_after(moment)
            assert cadence.ending_at(following) == Interval(moment, following)
            moment = following


def test_an_interval_off_the_cadence_is_not_split() -> None:
    with pytest.raises(InvalidInput, match="start"):
        Cadence("@daily").split(Interval(day(1) + HOUR, day(2)))
    with pytest.raises(InvalidInput, match="end"):
        Cadence("@daily").split(Interval(day(1), day(2) + HOUR))
    with pytest.raises(InvalidInput, match="barrier"):
        Cadence("@daily").ending_at(day(1) + HOUR)


def test_absurd_numbers_of_epochs_are_refused_at_once() -> None:
    """Such as of a year that was mistyped: the hours of 2,000 years would fill the memory."""
    with pytest.raises(InvalidInput, match="at most 100000 epochs"):
        Cadence("@hourly").split(Interval(datetime(24, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC)))
    decade = Interval(datetime(2014, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC))
    assert len(Cadence("@hourly").split(decade)) == 87_648


def test_the_ends_of_time_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="time"):
        Cadence("@daily").next_after(datetime.max.replace(tzinfo=UTC))
    with pytest.raises(InvalidInput, match="time"):
        Cadence("@daily").floor(datetime.min.replace(tzinfo=UTC))


def test_leap_days_are_days() -> None:
    leap = datetime(2024, 2, 29, tzinfo=UTC)
    assert Cadence("@daily").ending_at(leap + DAY) == Interval(leap, leap + DAY)


@given(moment=st.datetimes(datetime(2024, 2, 25), datetime(2024, 3, 10), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_calendar_that_changes_is_one_chain(moment: datetime) -> None:
    """R7: before the change it is the old one, then the new one, and no epoch lies across the change."""
    since = datetime(2024, 3, 1, tzinfo=UTC)
    changed = Cadence("0 */6 * * *", since=datetime(2024, 3, 5, tzinfo=UTC), before=_hourly_since(since))
    after, before = changed.next_after(moment), changed.last_before(moment)
    assert before < moment < after
    assert changed.last_before(after) == (moment if changed.is_barrier(moment) else before)
    piece = (
        _DAILY if moment < since else Cadence("@hourly") if moment < changed.since else Cadence("0 */6 * * *")
    )
    assert changed.next_after(moment) == piece.next_after(moment)
    epochs = changed.split(Interval(since - timedelta(days=2), since + timedelta(days=5)))
    assert [epoch.start for epoch in epochs[1:]] == [epoch.end for epoch in epochs[:-1]]
    assert len(epochs) == 2 + 4 * 24 + 4
    assert changed.changes == (changed.since, since)


def test_a_calendar_that_changed_twice_knows_until_when_it_was_each() -> None:
    """R7: an old declaration may be two changes old."""
    first, second = datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 5, tzinfo=UTC)
    hourly = _hourly_since(first)
    now = Cadence("0 */6 * * *", since=second, before=hourly)
    assert (now.until(_DAILY), now.until(hourly), now.until(now)) == (first, second, None)
    assert now.until(Cadence("@hourly")) is None


_DAILY = Cadence("@daily")


def _hourly_since(since: datetime) -> Cadence:
    return Cadence("@hourly", since=since, before=_DAILY)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"since": datetime(2024, 3, 1, tzinfo=UTC)}, "cadence"),
        ({"before": "@daily"}, "cadence"),
        ({"since": datetime(2024, 3, 1, 5, tzinfo=UTC), "before": "@daily"}, "since"),
        ({"since": datetime(2024, 3, 1, 0, 30, tzinfo=UTC), "before": "*/30 * * * *"}, "since"),
        ({"since": datetime(2024, 3, 1), "before": "@daily"}, "since"),  # noqa: DTZ001
        (
            {
                "since": datetime(2024, 2, 1, tzinfo=UTC),
                "before": _hourly_since(datetime(2024, 3, 1, tzinfo=UTC)),
            },
            "since",
        ),
        (
            {
                "since": datetime(2024, 3, 1, tzinfo=UTC),
                "before": _hourly_since(datetime(2024, 3, 1, tzinfo=UTC)),
            },
            "since",
        ),
    ],
)
def test_a_change_that_does_not_fit_is_refused(options: dict[str, Any], field: str) -> None:
    """R7: both calendars have the barrier at which one follows the other."""
    with pytest.raises(InvalidInput) as refused:
        Cadence("@hourly", **options)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    ("cadence", "longest"),
    [
        (Cadence("@hourly"), timedelta(hours=1)),
        (Cadence("@monthly"), timedelta(days=31)),
        (Cadence("0 9-17 * * 1-5"), timedelta(hours=64)),
        (Cadence("*/5 9-17 * * 1-5"), timedelta(hours=63, minutes=5)),
        (Cadence("*/15 6-22 * * *"), timedelta(hours=7, minutes=15)),
        (Cadence("*/5 * 1-20 * *"), timedelta(days=11, minutes=5)),
        (Cadence("0 9-17 * 1,7 *"), timedelta(days=153, hours=16)),
        (Cadence("*/7 * * * *"), timedelta(minutes=7)),
        (
            Cadence("@hourly", since=datetime(2024, 2, 1, tzinfo=UTC), before=Cadence("@monthly")),
            timedelta(days=31),
        ),
    ],
)
def test_the_longest_epoch_is_one_of_any_piece_of_the_calendar(cadence: Cadence, longest: timedelta) -> None:
    """I11: as far back a begin looks for late files."""
    assert cadence.longest == longest


def test_days_of_summer_time_are_no_longer_than_the_longest() -> None:
    """I11: 27 October 2024 had 25 hours in Berlin."""
    days = Cadence("@daily", "Europe/Berlin")
    assert days.longest >= timedelta(hours=25)


@pytest.mark.parametrize(
    ("preset", "same"),
    [("@hourly", "*/60 * * * *"), ("@daily", "0 0 */1 * *"), ("@weekly", "0 0 * * 7")],
)
@pytest.mark.parametrize(
    "moment", ["1969-12-30T23:59:59", "1970-01-04T00:00:00", "2013-02-10T00:00:00.000001"]
)
def test_calendars_of_equal_epochs_are_those_of_cron(preset: str, same: str, moment: str) -> None:
    """The presets are computed without cron, which takes longer."""
    at = datetime.fromisoformat(f"{moment}+00:00")
    assert Cadence(preset).next_after(at) == Cadence(same).next_after(at)
    assert Cadence(preset).last_before(at) == Cadence(same).last_before(at)
