"""What another instance of the defaults may say."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import InvalidInput

NAMES = [field.name for field in dataclasses.fields(Defaults)]
COUNTS = [name for name in NAMES if isinstance(getattr(DEFAULTS, name), int)]
DURATIONS = [name for name in NAMES if name not in COUNTS]


@pytest.mark.parametrize("value", [timedelta(-1), timedelta(0), 5, 5.0, "5m", None])
def test_a_duration_is_above_zero(value: object) -> None:
    refused("lock_ttl", {"lock_ttl": value})


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "5", None, timedelta(1)])
def test_a_number_is_one_at_least(value: object) -> None:
    refused("listed_readers", {"listed_readers": value})


def test_every_default_is_held_to_its_rule() -> None:
    for name in NAMES:
        refused(name, {name: 0 if name in COUNTS else timedelta(0)})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("retention_grace", {"retention_grace": DEFAULTS.read_grace}),
        ("retention_grace", {"read_grace": DEFAULTS.retention_grace}),
        ("lease_ttl", {"lease_ttl": DEFAULTS.lease_longest + timedelta(seconds=1)}),
        ("lease_ttl", {"lease_longest": DEFAULTS.lease_ttl - timedelta(seconds=1)}),
        (
            "reservation_shortest",
            {"reservation_shortest": DEFAULTS.reservation_longest + timedelta(seconds=1)},
        ),
        ("reservation_shortest", {"reservation_longest": DEFAULTS.reservation_shortest / 2}),
        ("store_poll_shortest", {"store_poll_shortest": timedelta(seconds=1)}),
        ("store_poll_shortest", {"store_poll_longest": timedelta(milliseconds=1)}),
    ],
)
def test_two_that_do_not_go_together_are_refused(name: str, given: dict[str, Any]) -> None:
    refused(name, given)


def test_consistent_defaults_are_accepted() -> None:
    smallest = timedelta(microseconds=1)
    given = dict.fromkeys(DURATIONS, smallest) | dict.fromkeys(COUNTS, 1)
    taken = Defaults(**{**given, "retention_grace": 2 * smallest})
    assert (taken.lock_ttl, taken.retention_grace, taken.listed_readers) == (smallest, 2 * smallest, 1)


def refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Defaults(**given)
    assert caught.value.details["field"] == name
    assert caught.value.next_step
