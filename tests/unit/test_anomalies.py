"""Every named schedule has a test, and the verdicts say no more than what ran."""

from __future__ import annotations

import ast
import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.anomalies.collecting import Outcome
from tests.anomalies.page import PAGE, cell, on_stores, page, table, with_package, without
from tests.anomalies.plain.running import ABSENT, FORMATS, functions
from tests.anomalies.schedules import OF_ROWS, SUITE, modules, schedule_of, schedules
from tests.anomalies.verdicts import PLAIN, STATEMENTS, STORES, Observed, Verdict, figures, load, verdicts
from tests.rules import tags_of


def _tests() -> set[str]:
    """The functions that the suite can run."""
    return {
        node.name
        for module in modules()
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_schedule_is_stated_and_has_a_test() -> None:
    carried = {schedule_of(name) for name in _tests()}
    assert [name for name in SUITE if name not in schedules()] == []
    assert [name for name in SUITE if name not in carried] == []


@pytest.mark.parametrize(
    ("test", "schedule"),
    [("test_iso1_dirty_write", "ISO1"), ("test_iso10_revision", "ISO10"), ("test_a_cut", None)],
)
def test_a_test_names_its_schedule(test: str, schedule: str | None) -> None:
    assert schedule_of(test) == schedule


def ran(*, without: str = "", failed: str = "", schedule: str = "ISO6") -> list[Outcome]:
    return [
        Outcome(
            schedule=schedule,
            store=store,
            test="m.py::test_iso6_x",
            outcome="failed" if store == failed else "passed",
        )
        for store in STORES
        if store != without
    ]


@pytest.mark.parametrize(
    ("outcomes", "said", "shown"),
    [
        (ran(), "prevented from RC", "1"),
        (ran(without="zookeeper x3"), "not run everywhere", "–"),
        (ran(failed="zookeeper x3"), "FAILED", "1 of 1 FAILED"),
        ([], "not run everywhere", "–"),
    ],
)
def test_a_verdict_claims_only_schedules_run_in_every_world(
    outcomes: list[Outcome], said: str, shown: str
) -> None:
    (verdict,) = verdicts(["ISO6"], outcomes, {})
    assert with_package(verdict, schedules()["ISO6"]) == said
    assert cell(verdict, "zookeeper x3") == shown
    assert verdict.is_prevented(schedules()["ISO6"]) is (said == "prevented from RC")


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        (ran(), "1 on 9"),
        ([*ran(), *ran()[:1]], "1–2 on 9"),
        (ran(without="zookeeper x3"), "1 on 8; ZooKeeper x3: not run"),
        ([*ran(), *ran(failed="sqlite")], "2 on 8; SQLite: 1 of 2 FAILED"),
        ([], "not run"),
    ],
)
def test_a_terminal_is_told_where_something_is_amiss(outcomes: list[Outcome], told: str) -> None:
    (verdict,) = verdicts(["ISO6"], outcomes, {})
    assert on_stores(verdict) == told


@pytest.mark.parametrize(("columns", "lines_each"), [(80, 2), (120, 1)])
def test_the_table_fits_a_terminal(columns: int, lines_each: int) -> None:
    """Nothing is cut off: every word of every row is there, in so many lines at most."""
    found = load()
    lines = _in_terminal(found, columns)
    assert max(map(len, lines)) <= columns
    assert len(lines) <= len(found) * lines_each + 6
    for verdict in found:
        schedule = schedules()[verdict.name]
        words = [verdict.name, *schedule.title.split(), *with_package(verdict, schedule).split()]
        words += [word for column in PLAIN for word in without(verdict.plain[column]).split()]
        shown = "\n".join(_in_terminal([verdict], columns))
        assert [word for word in (*words, on_stores(verdict)) if word not in shown] == []


def _in_terminal(found: list[Verdict], columns: int) -> list[str]:
    output = io.StringIO()
    Console(file=output, width=columns).print(table(found))
    return output.getvalue().splitlines()


@pytest.mark.parametrize(("schedule", "prevented"), [("ISO6", False), ("ISO7", True)])
def test_schedules_of_rows_run_by_statements_too(schedule: str, prevented: bool) -> None:
    outcomes = [outcome for outcome in ran(schedule=schedule) if outcome.store not in STATEMENTS]
    (verdict,) = verdicts([schedule], outcomes, {})
    assert verdict.is_prevented(schedules()[schedule]) is prevented
    assert set(SUITE) > OF_ROWS


def test_partly_prevented_anomaly_is_not_counted() -> None:
    partly = replace(schedules()["ISO6"], standing="in part")
    found = verdicts(["ISO6"], ran(), {"ISO6": {"parquet": Observed(seen="D, then E", holds=False)}})
    assert with_package(found[0], partly) == "in part"
    counted = figures(found, {"ISO6": partly})
    assert (counted["anomalies.run"], counted["anomalies.prevented"]) == (1, 0)
    assert counted["anomalies.plain_parquet.prevented"] == 0
    (failed,) = verdicts(["ISO6"], ran(failed="sqlite"), {})
    assert [found[0].stands, failed.stands] == [True, False], "the command fails where a part does"


def test_every_schedule_runs_without_the_package_or_says_why_not() -> None:
    known = functions()
    for column in FORMATS:
        assert set(known) | set(ABSENT[column]) == set(SUITE)
        assert set(ABSENT[column]) <= set(SUITE)
    assert [name for name, function in known.items() if not function.__doc__] == []


def test_anomalies_page_matches_the_recorded_run() -> None:
    found = load()
    assert [verdict.name for verdict in found] == list(SUITE)
    assert PAGE.read_text() == page(found), "run: python -m tests.anomalies.page"
    assert [verdict.name for verdict in found if not tags_of(verdict.tests)] == [], (
        "a schedule that no rule is about"
    )
    assert [verdict.name for verdict in found if set(verdict.plain) != set(FORMATS)] == []


def test_the_record_names_tests_that_exist() -> None:
    recorded = {test.partition("::")[2] for verdict in load() for test in verdict.tests}
    assert recorded - _tests() == set(), "run: make anomalies ARGS=--write"
