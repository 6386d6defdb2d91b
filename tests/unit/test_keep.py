"""Which states of full tables a policy keeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.keep import MOST_KEPT, Keep

NEWEST = datetime(2024, 3, 20, 5, tzinfo=UTC)
HOURS = [NEWEST - timedelta(hours=number) for number in range(24 * 100, -1, -1)]


def days(*numbers: int) -> set[datetime]:
    """Midnights of March 2024."""
    return {datetime(2024, 3, number, tzinfo=UTC) for number in numbers}


def kept(keep: Keep, barriers: list[datetime] = HOURS) -> set[datetime]:
    return keep.kept(barriers, keep.moments(NEWEST))


def test_the_newest_states_and_those_of_each_calendar_stay() -> None:
    two = {NEWEST, NEWEST - timedelta(hours=1)}
    assert kept(Keep()) == two
    assert kept(Keep(newest=3)) == two | {NEWEST - timedelta(hours=2)}
    assert kept(Keep(each={"@daily": 3})) == two | days(18, 19, 20)
    monthly = {datetime(2024, month, 1, tzinfo=UTC) for month in (1, 2, 3)}
    assert kept(Keep(each={"@daily": 2, "@monthly": 3})) == two | days(19, 20) | monthly
    vienna = datetime(2024, 3, 19, 23, tzinfo=UTC)
    assert kept(Keep(each={Cadence("@daily", "Europe/Vienna"): 1})) == two | {vienna}


def test_a_table_of_longer_epochs_keeps_its_state_at_each_barrier_that_stays() -> None:
    """A cut at any of them has it, aligned to its last barrier before; it is kept once for all of them."""
    sundays = [datetime(2024, 3, day, tzinfo=UTC) for day in (3, 10, 17)]
    assert kept(Keep(each={"@daily": 5}), sundays) == {*sundays[1:]}
    assert kept(Keep(each={"@daily": 20}), sundays) == {*sundays}
    assert kept(Keep(each={"@daily": 5}), sundays[:1]) == {sundays[0]}
    assert kept(Keep(each={"@daily": 5}), []) == set()


@given(
    st.integers(2, 30), st.dictionaries(st.sampled_from(["@hourly", "@daily", "@weekly"]), st.integers(1, 40))
)
def test_what_stays_is_enough_for_every_moment_of_the_policy(newest: int, each: dict[Any, int]) -> None:
    keep = Keep(newest=newest, each=each)
    stay = kept(keep)
    assert set(HOURS[-newest:]) <= stay <= set(HOURS)
    assert set(keep.moments(NEWEST)) & set(HOURS) <= stay
    assert len(stay) <= newest + sum(each.values())


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"newest": 1}, "newest"),
        ({"newest": True}, "newest"),
        ({"each": {"@daily": 0}}, "each"),
        ({"each": {"@daily": MOST_KEPT + 1}}, "each"),
        (
            {"each": {"@yearly": MOST_KEPT}},
            r"each\['@yearly'\]: 10000 is not accepted; expected a number from 1 to 1000",
        ),
        ({"each": {"@daily": 3, "0 0 29 2 *": 400}}, r"each\['0 0 29 2 \*'\]"),
        ({"each": {"daily": 3}}, "cadence"),
        ({"each": {5: 3}}, "each"),
    ],
)
def test_a_policy_that_keeps_too_little_or_has_no_calendar_is_refused(options: Any, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        Keep(**options)


def test_a_policy_reaches_back_as_far_as_there_is_time() -> None:
    """No barrier lies before the year 1."""
    for calendar, number in (("@yearly", 900), ("@monthly", MOST_KEPT), ("@hourly", MOST_KEPT)):
        moments = Keep(each={calendar: number}).moments(NEWEST)
        assert len(moments) == number


@pytest.mark.parametrize(
    ("newest", "each"), [("x", []), ("2", ["@daily"]), ("2", ["@daily=x"]), ("2", ["=3"])]
)
def test_a_policy_in_words_is_refused_by_name(newest: str, each: list[str]) -> None:
    with pytest.raises(InvalidInput):
        Keep.parsed(newest, each)
    assert Keep.parsed("3", ["0 0 * * 0=2"]) == Keep(newest=3, each={"0 0 * * 0": 2})
