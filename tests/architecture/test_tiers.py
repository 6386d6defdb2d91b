"""The rules of the test run itself, each seen at work in a run of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.architecture.sources import ROOT

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a module of tests under this project's conftest, in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CI", raising=False)

    def start(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess("-p", "tests.conftest", "--strict-markers", "-rA", *arguments)

    return start


def test_a_test_without_a_tier_stops_the_run(run: Run) -> None:
    result = run("def test_homeless(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*tests without a tier: *::test_homeless*"])


def test_a_test_in_two_tiers_stops_the_run(run: Run) -> None:
    result = run("import pytest\n@pytest.mark.unit\n@pytest.mark.system\ndef test_torn(): pass")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*more than one tier: *::test_torn (system, unit)*"])


def test_tiers_run_in_order_and_print_their_time_and_budget(run: Run) -> None:
    result = run(
        """
        import pytest
        @pytest.mark.integration
        def test_later(): pass
        @pytest.mark.slow
        @pytest.mark.integration
        def test_last(): pass
        @pytest.mark.unit
        def test_first(): pass
        """
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "tier unit: 1 tests, * s of * s",
            "tier integration: 1 tests, * s of * s",
            "tier slow: 1 tests, * s of * s",
        ]
    )


def test_a_tier_over_its_budget_is_named_and_nothing_fails(run: Run) -> None:
    result = run(
        """
        import dataclasses, pytest
        from tests.tiers import TIERS
        TIERS["unit"] = dataclasses.replace(TIERS["unit"], budget_s=0.0)
        @pytest.mark.unit
        def test_quick(): pass
        """
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["tier unit: *OVER ITS BUDGET"])


SKIPS = """
import pytest
pytestmark = pytest.mark.unit
def test_skipped(): pytest.skip("no server")
@pytest.mark.skip(reason="marked")
def test_marked(): pass
@pytest.mark.xfail(raises=ZeroDivisionError, reason="a known gap")
def test_gap(): 1 / 0
"""


def test_a_skip_is_told_by_name_at_home(run: Run) -> None:
    result = run(SKIPS)
    result.assert_outcomes(skipped=2, xfailed=1)


def test_a_skip_fails_in_ci(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = run(SKIPS)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert outcomes["xfailed"] == 1
    assert "skipped" not in outcomes
    result.stdout.fnmatch_lines(["*test_skipped was skipped, and CI must skip nothing: *no server*"])


def test_a_skipped_module_fails_in_ci(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    result = run("import pytest\npytest.importorskip('no_such_module')")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*was skipped, and CI must skip nothing: *no_such_module*"])


@pytest.mark.parametrize(
    ("statement", "event"),
    [
        ("import socket; socket.create_connection(('127.0.0.1', 9))", "socket.connect"),
        ("import sqlite3; sqlite3.connect(':memory:')", "sqlite3.connect"),
        ("import subprocess, sys; subprocess.run([sys.executable, '-V'])", "subprocess.Popen"),
    ],
)
def test_a_unit_test_starts_nothing(run: Run, statement: str, event: str) -> None:
    source = "import pytest\n@pytest.mark.{tier}\ndef test_one():\n    {statement}"
    refused = run(source.format(tier="unit", statement=statement))
    refused.assert_outcomes(failed=1)
    refused.stdout.fnmatch_lines([f"*RuntimeError: *test_one did {event}*"])


def test_another_tier_may_open_a_database(run: Run) -> None:
    run(
        "import pytest, sqlite3\n@pytest.mark.contract\ndef test_one(): sqlite3.connect(':memory:').close()"
    ).assert_outcomes(passed=1)


def test_a_random_run_can_be_repeated_from_its_first_lines(run: Run) -> None:
    source = """
import pytest
from hypothesis import given, strategies as st
pytestmark = pytest.mark.property
def test_own(rng): print("own", rng.random())
@given(st.integers(0, 10**9))
def test_drawn(number): print("drawn", number)
"""
    first = run(source)
    (header,) = [line for line in first.outlines if line.startswith("random seed: ")]
    seed = header.split()[2]

    def drawn(result: pytest.RunResult) -> list[str]:
        return [line for line in result.outlines if line.startswith(("own ", "drawn "))]

    second, other = (
        run(source, f"--hypothesis-seed={seed}"),
        run(source, f"--hypothesis-seed={int(seed) + 1}"),
    )
    assert drawn(first) == drawn(second)
    assert len(drawn(first)) > 50
    assert drawn(first) != drawn(other)


def test_the_tests_of_one_rule_can_be_chosen(run: Run) -> None:
    source = '''
import pytest
pytestmark = pytest.mark.unit
def test_carries_it():
    """R13, R18: something"""
def test_speaks_of_it():
    """As R13 says."""
'''
    run(source, "--rule", "R13").assert_outcomes(passed=1, deselected=1)
    run(source).assert_outcomes(passed=2)
