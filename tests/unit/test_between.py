"""The locations of parts of an epoch: none where a location says no more than the calendar, all of them otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain import between
from airflow_provider.domain.between import MOST_PLACES, neighbours, places_between
from airflow_provider.domain.interval import Cadence, Interval

MINUTE = timedelta(minutes=1)
DAY = Interval(datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 2, tzinfo=UTC))
MOMENTS = st.integers(0, 10 * 366 * 1440).map(
    lambda number: datetime(2020, 1, 1, tzinfo=UTC) + number * MINUTE
)
CALENDARS = [
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "0 6 * * *",
    "30 */6 * * *",
    "0 9-17 * * 1-5",
    "0 0 15 * *",
]
TEXTS = {"@hourly": "%Y-%m-%dT%H", "@daily": "%Y/%m/%d", "0 0 * * 1": "%G-W%V", "@monthly": "%Y-%m"}
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]


def epoch_at(cadence: Cadence, moment: datetime) -> Interval:
    start = cadence.floor(moment)
    return Interval(start, cadence.next_after(start))


@given(st.sampled_from(sorted(TEXTS)), st.sampled_from(ZONES), MOMENTS, st.sampled_from(["start", "end"]))
def test_a_location_as_fine_as_its_calendar_has_none(
    expression: str, zone: str, moment: datetime, edge: str
) -> None:
    """I11: in any zone that is whole hours away: what the epoch meets besides its own location is its neighbours'."""
    cadence = Cadence(expression, timezone=zone)
    location = f"/landing/{{{edge}:{TEXTS[expression]}}}/*.csv"
    for coarser in (location, "/landing/*.csv", "/landing/{start:%Y}/*.csv", "/landing/{start:%Y}/{end:%Y}"):
        assert places_between(coarser, epoch_at(cadence, moment), cadence) == ()


@given(
    st.sampled_from(CALENDARS),
    st.sampled_from(ZONES),
    MOMENTS,
    st.sampled_from(["%d-%m-%Y", "%Y/%m/%dT%H", "%j %I%p"]),
)
def test_all_texts_within_the_epoch_but_those_of_epochs(
    expression: str, zone: str, moment: datetime, text: str
) -> None:
    """I11: a model that formats each half hour: by the start, and by the end."""
    cadence = Cadence(expression, timezone=zone)
    epoch = epoch_at(cadence, moment)
    epochs = (epoch, *neighbours(cadence, epoch))
    halves = int((epoch.end - epoch.start) / (30 * MINUTE))
    moments = [epoch.start + number * 30 * MINUTE for number in range(halves)]
    for edge in ("start", "end"):
        location = f"s3://landing/{{{edge}:{text}}}"
        own = {location.format(start=neighbour.start, end=neighbour.end) for neighbour in epochs}
        found = places_between(location, epoch, cadence)
        assert len(set(found)) == len(found)
        assert set(found) == {location.format(start=start, end=start) for start in moments} - own


@pytest.mark.parametrize(
    ("location", "count", "some"),
    [
        ("/l/{start:%Y-%m-%dT%H}/*", 23, "/l/2024-05-01T01/*"),
        ("/l/{end:%Y-%m-%dT%H}.csv", 23, "/l/2024-05-01T23.csv"),
        ("/l/{start:%p}", 1, "/l/PM"),
        ("/l/{start.hour}", 23, "/l/13"),
        ("/l/{start!s:.16}", 1439, "/l/2024-05-01 23:59"),
        ("/l/{start:%H%M%S}", 86_399, "/l/235959"),
        ("/l/{start:%dT%H}-{end:%dT%H}", 24 * 25 // 2 - 1, "/l/01T03-01T09"),
        ("/l/{start:%d}/{end:%H}", 23, "/l/01/07"),
        ("/l/{start:%dT%H%M%S}-{end:%dT%H%M%S}", MOST_PLACES, "/l/01T000001-01T000002"),
    ],
)
def test_places_of_a_day(location: str, count: int, some: str) -> None:
    """I11: as fine as the text tells; where it tells both ends, those of every part, the shortest first."""
    found = places_between(location, DAY, Cadence("@daily"))
    assert len(found) == count
    assert some in found
    assert location.format(start=DAY.start, end=DAY.end) not in found


def test_a_coarser_step_where_there_would_be_too_many() -> None:
    """A2: a month of seconds is looked at by the minute, a year of them by the hour."""
    for cadence, count in (("@monthly", 31 * 1440 - 1), ("@yearly", 366 * 24 - 1)):
        epoch = epoch_at(Cadence(cadence), datetime(2024, 1, 1, tzinfo=UTC))
        assert len(places_between("/l/{start:%Y%m%dT%H%M%S}", epoch, Cadence(cadence))) == count


def test_a_location_no_finer_than_its_calendar_is_formatted_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A2: the usual begin does not pay."""
    formats: list[datetime] = []
    place = between._place

    def counted(location: str, start: datetime, end: datetime) -> str:
        formats.append(start)
        return place(location, start, end)

    monkeypatch.setattr(between, "_place", counted)
    assert places_between("/l/{start:%Y-%m-%d}/*.csv", DAY, Cadence("@daily")) == ()
    assert len(formats) < 20


def test_neighbours_end_where_times_end() -> None:
    """A2: the first and the last epoch that can be have one."""
    first = Interval(datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC))
    last = Interval(datetime(9999, 12, 30, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
    assert len(neighbours(Cadence("@daily"), first)) == 1
    assert len(neighbours(Cadence("@daily"), last)) == 1
    assert neighbours(None, DAY) == ()
