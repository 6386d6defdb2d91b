"""Operations whose replies get lost, or that others are faster than (R15)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from airflow_provider.coordination.retrying import retry
from airflow_provider.domain.clock import SystemClock
from airflow_provider.domain.errors import Conflict, EpochError, OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import topology_key
from airflow_provider.stores.base import Absent, RequirementFailed
from airflow_provider.testing.manual_clock import ManualClock

TIMEOUT = timedelta(seconds=10)
LOST = OutcomeUnknown("the reply was lost.")
AWAY = StoreUnavailable("the request was lost.")


def asked(*errors: EpochError, until: timedelta = timedelta(0)) -> tuple[str, ManualClock]:
    """Settle an operation that answers after *errors*; the last one repeats for as long as *until*."""
    clock, left = ManualClock(), list(errors)
    clock.advance(timedelta(days=1))
    began = clock.now()

    def operation() -> str:
        if len(left) > 1 or (left and clock.now() - began < until):
            raise left.pop(0) if len(left) > 1 else left[0]
        return "answer"

    return retry(operation, clock=clock, random=Random(0), timeout=TIMEOUT), clock


@pytest.mark.parametrize("errors", [(LOST,), (AWAY,), (LOST, AWAY), (AWAY, LOST), (AWAY, LOST, AWAY)])
def test_a_timeout_begins_with_the_call(errors: tuple[EpochError, ...]) -> None:
    """R15: however long the process has run before it."""
    assert asked(*errors, until=TIMEOUT - timedelta(seconds=2))[0] == "answer"


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        ((LOST,), LOST),
        ((AWAY,), AWAY),
        ((LOST, AWAY), LOST),
        ((AWAY, LOST), LOST),
        ((AWAY, LOST, AWAY), LOST),
    ],
)
def test_a_timeout_says_whether_a_change_was_sent(errors: tuple[EpochError, ...], told: EpochError) -> None:
    """R15: unknown if one request may have arrived, whatever came after it; unavailable if none did."""
    with pytest.raises(type(told)) as raised:
        asked(*errors, until=timedelta(days=1))
    assert raised.value is told


def test_a_pause_below_zero_is_none() -> None:
    """What is left of a wait may be: the last request took longer than it."""
    SystemClock().sleep(timedelta(seconds=-1))


def test_others_may_be_faster_many_times_but_not_for_ever() -> None:
    """R15: what was decided on has changed: it is decided anew, and at last the caller hears of it."""
    faster = RequirementFailed.of(Absent(topology_key(DomainName("d"))), 1)
    lost = Conflict("others were faster.")

    def after(times: int) -> Callable[[], int]:
        left = iter(range(times))

        def operation() -> int:
            if next(left, None) is not None:
                raise faster
            return times

        return operation

    def ran(operation: Callable[[], int]) -> int:
        return retry(operation, clock=ManualClock(), random=Random(0), timeout=TIMEOUT, lost=lost)

    assert [ran(after(times)) for times in (0, 1, 20)] == [0, 1, 20]
    with pytest.raises(Conflict) as raised:
        ran(after(10_000))
    assert raised.value is lost
