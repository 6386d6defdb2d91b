"""The rules of the test run itself, each seen at work in a run of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import pytest

from tests.architecture.sources import ROOT
from tests.tiers import ORDER_OF_WORKERS, SPARK_MODULES, TIERS, covered
from tests.workers import in_turn

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a module of tests under this project's conftest, in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv(
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"
    )  # others take longer to import than the run takes
    monkeypatch.delenv("CI", raising=False)
    plugins = [
        word for name in ("xdist", "_hypothesis_pytestplugin", "tests.conftest") for word in ("-p", name)
    ]

    def start(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess(*plugins, "--strict-markers", "-rA", *arguments)

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
        """,
        "--budgets",
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
        """,
        "--budgets",
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["tier unit: *OVER ITS BUDGET"])


def test_a_run_of_some_tests_says_nothing_of_budgets(run: Run) -> None:
    """A budget is for a whole tier; only who runs one asks."""
    result = run("import pytest\n@pytest.mark.unit\ndef test_quick(): pass")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("tier *")
    told = [line for line in (ROOT / "Makefile").read_text().splitlines() if "--budgets" in line]
    assert [re.findall(r"-m '([\w ]+)' .*--budgets", line) for line in told] == [
        ["not slow"],
        ["slow or property"],
    ]


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


def test_a_unit_test_starts_nothing(run: Run) -> None:
    result = run(
        """
        import pytest, socket, sqlite3, subprocess, sys
        pytestmark = pytest.mark.unit
        def test_socket(): socket.create_connection(("127.0.0.1", 9))
        def test_database(): sqlite3.connect(":memory:")
        def test_process(): subprocess.run([sys.executable, "-V"])
        """
    )
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*RuntimeError: *test_socket did socket.connect*",
            "*RuntimeError: *test_database did sqlite3.connect*",
            "*RuntimeError: *test_process did subprocess.Popen*",
        ]
    )


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


# --- two workers ---------------------------------------------------------------------------------------------


def test_workers_share_modules_keep_a_tier_whole_and_leave_another_alone(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each test writes down its worker when it begins and when it ends; two modules are named to run together."""
    book = pytester.path / "book"
    monkeypatch.setenv("BOOK", str(book))
    pytester.makeconftest(
        """
        import dataclasses, os, pytest
        from tests.tiers import TIERS
        together = frozenset({"test_d", "test_e"})
        TIERS["integration"] = dataclasses.replace(TIERS["integration"], together=together)
        @pytest.fixture(autouse=True)
        def _book(request):
            def write(what):
                with open(os.environ["BOOK"], "a") as book:
                    print(what, request.node.name, os.environ["PYTEST_XDIST_WORKER"], file=book)
            write("begin")
            yield
            write("end")
        """
    )
    for tier, modules in {"unit": "abc", "integration": "deh", "slow": "fg"}.items():
        for module in modules:
            source = "\n".join(f"def test_{module}{number}(): pass" for number in range(4))
            path = pytester.mkpydir(f"{tier}_of_{module}") / tier / f"test_{module}.py"
            path.parent.mkdir()
            path.write_text(f"import pytest\npytestmark = pytest.mark.{tier}\n{source}\n")
    result = run("", "-n", "2", "--import-mode=importlib")
    result.assert_outcomes(passed=32)
    told = [line.split() for line in book.read_text().splitlines()]
    worker_of = {name: worker for _, name, worker in told}
    for together in ("test_a", "test_b", "test_c", "test_h", "test_[de]", "test_[fg]"):
        assert len({worker for name, worker in worker_of.items() if re.match(together, name)}) == 1, told
    assert set(worker_of.values()) == {"gw0", "gw1"}
    names = [name for what, name, _ in told if what == "begin"]
    first_of_each = [next(name for name in names if worker_of[name] == worker) for worker in ("gw0", "gw1")]
    assert "test_d0" in first_of_each, "what runs together begins at once"
    alone = told.index(next(line for line in told if line[1][5] in "fg"))
    running = [name for what, name, _ in told[:alone] if what == "begin"]
    late = [name for name in names if name[5] not in "fg" and name not in running]
    assert len(late) <= 1, "the other worker had one test left: it held that back until there was no more"


WAITING = """
import pytest
from pathlib import Path
from time import sleep
pytestmark = pytest.mark.contract
def test_waiting(request):
    told = Path(request.config.workerinput["end"])
    while not any(told.iterdir()):
        sleep(0.01)
@pytest.mark.parametrize("number", range(9))
def test_many(number): pass
"""
"""A module whose first test waits until its worker is told to end, and which has many more."""


def test_a_failure_ends_the_other_worker_too_when_one_is_enough(run: Run, pytester: pytest.Pytester) -> None:
    """The other is in the first of many tests that it was given, and waits until it is told to end."""
    pytester.makepyfile(
        test_other="""
        import pytest
        @pytest.mark.contract
        def test_failing(): assert False
        """
    )
    result = run(
        WAITING,
        "-n",
        "2",
        "-x",
    )
    result.assert_outcomes(failed=1, passed=1)


def test_a_worker_that_is_killed_is_a_failure_with_the_name_of_its_test(
    run: Run, pytester: pytest.Pytester
) -> None:
    """No new worker takes its place, and the other worker ends too."""
    pytester.makepyfile(
        test_other="""
        import os, pytest, signal
        pytestmark = pytest.mark.contract
        def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
        @pytest.mark.parametrize("number", range(9))
        def test_never(number): pass
        """
    )
    result = run(
        WAITING,
        "-n",
        "2",
    )
    result.assert_outcomes(failed=1, passed=1)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running '*::test_killed'*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_workers_report_the_error_that_stops_the_run(run: Run) -> None:
    result = run("def test_homeless(): pass", "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*tests without a tier: *::test_homeless*"])


def test_overlapping_work_of_two_workers_counts_once() -> None:
    assert covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.5)]) == 4.0
    assert covered([]) == 0.0


def test_workers_have_an_order_for_every_tier() -> None:
    assert sorted(ORDER_OF_WORKERS) == sorted(TIERS)


def test_workers_get_the_longest_modules_first() -> None:
    """Spark's modules, then tiers in their order for workers, in each the modules with the most tests."""
    given = [
        ("tests/contract/test_few.py::test_1", "contract"),
        ("tests/contract/test_many.py::test_1", "contract"),
        ("tests/contract/test_many.py::test_2", "contract"),
        ("tests/integration/test_plain.py::test_1", "integration"),
        ("tests/integration/test_spark_reads.py::test_1", "integration"),
        ("tests/system/test_s.py::test_1", "system"),
        ("tests/unit/test_u.py::test_1", "unit"),
    ]
    assert in_turn(given) == [4, 6, 5, 3, 1, 2, 0]


def test_modules_that_use_sparks_sessions_run_together() -> None:
    """In another worker each would start Spark once more."""
    found = set()
    for path in (ROOT / "tests" / "integration").glob("test_*.py"):
        functions = [
            function
            for function in ast.walk(ast.parse(path.read_text()))
            if isinstance(function, ast.FunctionDef)
        ]
        asked = {argument.arg for function in functions for argument in function.args.args}
        if asked & {"spark", "classic_session", "connect_session", "connect_server"}:
            found.add(path.stem)
    assert found == SPARK_MODULES
