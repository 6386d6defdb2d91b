"""Waiting for a cut with a reader's options: it is ready exactly where a reader gets the cut at that barrier."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.cut_readiness import cut_readiness
from airflow_provider.domain.cut_request import ROLLING, as_plain_request, cut_request, request_of_plain
from airflow_provider.domain.errors import InvalidInput, NotReady
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.table_kind import TableKind
from tests.contract.coordination_world import DOMAIN, ORIGIN, World, barrier, day

HOUR = timedelta(hours=1)
AGES = timedelta(days=100_000)
HALF_DAYS = [barrier(half / 2) for half in range(1, 8)]


def domain(world: World) -> None:
    """Make a fast table, a full one that is slower, and one that no reader asks for and that is slower still."""
    fast = world.job("d", cadence="0 */12 * * *")
    for half in range(6):
        world.run(fast, Interval(ORIGIN + half * 12 * HOUR, ORIGIN + (half + 1) * 12 * HOUR), [half])
    full = world.job("f", [world.table("f", kind=TableKind.FULL)])
    for number in (1, 2):
        world.run(full, day(number), [number])
    world.run(world.job("e"), day(1), [1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"align": "floor", "max_lag": 12 * HOUR},
        {"align": "floor", "max_lag": 24 * HOUR},
        {"align": "floor", "max_lag": timedelta(0)},
        {"consistency": "altogether"},
        {"align": "floor", "max_lag": 24 * HOUR, "consistency": "altogether"},
    ],
)
@pytest.mark.parametrize("tables", [["d"], ["f"], ["d", "f"], ["d", "e", "f"]])
def test_it_is_ready_where_a_reader_gets_the_cut(
    world: World, tables: list[str], options: dict[str, Any]
) -> None:
    domain(world)
    request = cut_request(**options)
    assert request_of_plain(as_plain_request(request)) == request
    assert (request == ROLLING) == (options == {})
    for wanted in HALF_DAYS:
        answer = cut_readiness(world.store, DOMAIN, tables, wanted, request)
        try:
            gets = world.cuts.cut(DOMAIN, tables, at=wanted, **options).barrier == wanted
        except NotReady:
            gets = False
        assert answer.ready == gets, (wanted, answer)
        assert answer.barrier == wanted
        assert answer.ready or all(lag.reason for lag in answer.missing)


def test_with_a_highest_age_a_later_barrier_serves_and_an_old_one_does_not(world: World) -> None:
    domain(world)
    young, old = cut_request(max_staleness=AGES), cut_request(max_staleness=HOUR)
    assert cut_readiness(world.store, DOMAIN, ["d"], barrier(1), young).barrier == barrier(3)
    assert not cut_readiness(world.store, DOMAIN, ["d"], barrier(4), young).ready
    assert not cut_readiness(world.store, DOMAIN, ["d"], barrier(1), old).ready
    assert "lag" in str(cut_readiness(world.store, DOMAIN, ["d"], barrier(1), old))


def test_a_table_that_is_not_registered_is_waited_for(world: World) -> None:
    domain(world)
    answer = cut_readiness(
        world.store, DOMAIN, ["d", "none"], barrier(1), cut_request(consistency="altogether")
    )
    assert [lag.name for lag in answer.missing] == ["none"]


@pytest.mark.parametrize(
    "options",
    [{"align": "ceiling"}, {"max_lag": HOUR}, {"align": "floor"}, {"max_staleness": -HOUR}, {"consistency": "any"}],
)  # fmt: skip
def test_options_that_no_reader_has_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(options)).replace("align", "align|max_lag")):
        cut_request(**options)
