"""Errors as a caller in another process gets them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider.domain.epoch import Owner
from airflow_provider.domain.errors import EpochError, InvalidInput


def _kinds(source: type[EpochError] = EpochError) -> Iterator[type[EpochError]]:
    yield source
    for kind in source.__subclasses__():
        yield from _kinds(kind)


@pytest.mark.parametrize("kind", dict.fromkeys(_kinds()))
def test_errors_survive_pickling_to_another_process(kind: type[EpochError]) -> None:
    """Spark's workers and Airflow's triggerer hand errors on: message, next step, data and kind stay."""
    details: dict[str, Any] = {"field": "table", "found": (1, 2), "by": Owner(dag_id="d", run_id="r")}
    error = kind("t: it is not so.", next_step="make it so.", **details)
    arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - the test's own bytes
    assert type(arrived) is kind
    assert str(arrived) == str(error) == "t: it is not so. Next step: make it so."
    assert (arrived.message, arrived.next_step, arrived.details) == (error.message, "make it so.", details)
    assert arrived.by == error.by
    assert arrived.family == kind.family


def test_an_attribute_that_an_error_does_not_have() -> None:
    """Asking for one that was not given is an AttributeError, as with any object, before and after the way."""
    error = pickle.loads(pickle.dumps(InvalidInput(field="f", value=1, expected="2")))  # noqa: S301
    assert (error.field, error.value, error.expected) == ("f", 1, "2")
    assert not hasattr(error, "holder")
