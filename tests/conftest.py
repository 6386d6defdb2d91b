"""What every test gets: a tier, an environment of its own, and no silent skip in CI."""

from __future__ import annotations

import atexit
import os
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.rules import tags
from tests.servers.directories import shared_memory
from tests.tiers import TIERS, covered

TESTS = Path(__file__).parent
NO_CONNECTION_TIERS = frozenset({"unit"})
CONNECTION_EVENTS = frozenset({"socket.connect", "socket.bind", "sqlite3.connect", "subprocess.Popen"})

pytest.register_assert_rewrite(
    "airflow_provider.testing.store_cases",
    "airflow_provider.testing.table_cases",
    "tests.contract.differential",
)
hypothesis.settings.register_profile(
    "epochs",
    deadline=None,
    print_blob=True,
    derandomize=False,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],  # a busy machine is no finding
)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("epochs"), max_examples=20)
hypothesis.settings.load_profile("epochs")


_SEED = "1"
"""Seed of a run that gives none: one commit passes or fails everywhere alike. `make test-slow` draws another one."""
_ROOM_BYTES = 8 * 2**30
"""Room that a whole run of the tests may take."""


def _files_in_memory() -> None:
    """Keep the files of this run in memory where there is room: a disk's fsync is a sixth of the time of a run."""
    memory = shared_memory()
    if "TMPDIR" in os.environ or memory is None:
        return
    found = os.statvfs(memory)
    if found.f_bavail * found.f_frsize >= _ROOM_BYTES and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(memory)
        tempfile.tempdir = None


def _own_environment() -> None:
    """Give this run an Airflow home and Spark settings of its own, before anything imports Airflow."""
    for name in [name for name in os.environ if name.startswith(("AIRFLOW_", "EPOCHS_", "SPARK_CONF"))]:
        del os.environ[name]
    home = tempfile.mkdtemp(prefix="epochs-tests-airflow-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["AIRFLOW_HOME"] = home
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"] = "True"
    os.environ["PYSPARK_PYTHON"] = str(Path(__file__).parents[1] / "scripts" / "worker-python")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


_files_in_memory()
_own_environment()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests of one rule be chosen, and a run of whole tiers be measured."""
    parser.addoption("--rule", default="", help="run only the tests that carry this rule or invariant: R13")
    parser.addoption(
        "--budgets", action="store_true", help="end with how long each tier took, beside its budget"
    )


# --- rules ---------------------------------------------------------------------------------------------------


def _keep_rule(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave only the tests whose docstring begins with the rule that was asked for."""
    wanted = config.getoption("--rule")
    if not wanted:
        return
    kept = [item for item in items if wanted in tags(getattr(getattr(item, "obj", None), "__doc__", None))]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


# --- versions of Airflow -------------------------------------------------------------------------------------


LEFT_OUT_KEY = pytest.StashKey[int]()


def _keep_of_this_airflow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of what a later Airflow than this one has; the run's end counts them."""
    asked = {item: marker.args for item in items if (marker := item.get_closest_marker("airflow"))}
    if not asked:
        return
    from tests.airflow_versions import AIRFLOW

    later = [item for item, version in asked.items() if version > AIRFLOW]
    config.hook.pytest_deselected(items=later)
    items[:] = [item for item in items if item not in later]
    config.stash[LEFT_OUT_KEY] = len(later)
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = len(later)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the number from a worker: all of them leave out the same tests."""
    node.config.stash[LEFT_OUT_KEY] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were left out."""
    if count := terminalreporter.config.stash.get(LEFT_OUT_KEY, 0):
        terminalreporter.write_line(f"left out: {count} tests of what a later Airflow has")


# --- tiers ---------------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register a marker for each tier, take the seed of this run, and let no worker be replaced."""
    for tier in TIERS.values():
        config.addinivalue_line("markers", f"{tier.name}: {tier.meaning}")
    config.addinivalue_line(
        "markers", "thorough: repeats on more stores, seeds or crashes what `make test-quick` runs"
    )
    config.addinivalue_line(
        "markers",
        "airflow(major, minor): of what Airflow has from this version on; another one leaves it out",
    )
    if config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = _SEED
    config.option.maxworkerrestart = "0"  # xdist would ask a new one to run tests before it has collected any


def pytest_report_header(config: pytest.Config) -> str:
    """Print the seed, so that any random run can be repeated."""
    seed = config.getoption("hypothesis_seed")
    return f"random seed: {seed} (repeat with --hypothesis-seed={seed})"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Give a test randomness of its own, made from the seed that the run prints."""
    return random.Random(f"{request.config.getoption('hypothesis_seed')} {request.node.nodeid}")


@pytest.fixture
def nothing_handed_over(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process to which nothing was handed over yet, as each Spark program is when it starts."""
    from airflow_provider.spark import launch_spec

    monkeypatch.delenv(launch_spec.VARIABLE, raising=False)
    launch_spec.received.cache_clear()
    yield
    launch_spec.received.cache_clear()


def _tier_of(item: pytest.Item) -> str | None:
    """Name a test's tier: ``slow`` when marked so, else its own marker, else the folder that it is in."""
    marked = {name for name in TIERS if item.get_closest_marker(name)}
    if "slow" in marked:
        return "slow"
    if marked:
        return min(marked)
    try:
        folder = item.path.relative_to(TESTS).parts[0]
    except ValueError:
        return None
    return folder if folder in TIERS else None


TIER_KEY = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, refuse one that has none, and order the run by tier.

    :raises pytest.UsageError: a test is in no tier, or in two.
    """
    _keep_rule(config, items)
    _keep_of_this_airflow(config, items)
    homeless, torn = [], []
    for item in items:
        tier = _tier_of(item)
        marked = {name for name in TIERS if item.get_closest_marker(name)} - {"slow"}
        if tier is None:
            homeless.append(item.nodeid)
            continue
        if len(marked) > 1:
            torn.append(f"{item.nodeid} ({', '.join(sorted(marked))})")
        item.stash[TIER_KEY] = tier
        item.add_marker(tier)
    if homeless:
        _refuse(
            config,
            items,
            f"tests without a tier: {', '.join(homeless)}. Put them in one of tests/"
            f"{{{','.join(TIERS)}}}/ or mark them, for example with pytest.mark.unit",
        )
    if torn:
        _refuse(config, items, f"tests in more than one tier: {', '.join(torn)}. Leave one marker on each")
    if hasattr(config, "workerinput"):
        from tests.workers import in_turn

        items[:] = [items[at] for at in in_turn([(item.nodeid, item.stash[TIER_KEY]) for item in items])]
    else:
        order = list(TIERS)
        items.sort(key=lambda item: order.index(item.stash[TIER_KEY]))


def _refuse(config: pytest.Config, items: list[pytest.Item], why: str) -> None:
    """Stop the run; a worker tells the run's own process *why*, and runs nothing.

    :raises pytest.UsageError: here is no worker.
    """
    if not hasattr(config, "workerinput"):
        raise pytest.UsageError(why)
    config.hook.pytest_collectreport(
        report=pytest.CollectReport(nodeid="tests", outcome="failed", longrepr=why, result=[])
    )
    items.clear()


class _TierClock:
    """Measures how long tests of each tier ran, and prints it beside the tier's budget."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of one test."""
        tier = next((name for name in report.keywords if name == "slow"), None) or next(
            (name for name in TIERS if name in report.keywords), None
        )
        if tier is None:
            return
        self.spans[tier].append((report.start, report.stop))
        self.tests[tier] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line per tier that ran."""
        if not self.tests:
            return
        terminalreporter.section("tiers")
        for tier in TIERS.values():
            if count := self.tests[tier.name]:
                took = covered(self.spans[tier.name])
                over = took > tier.budget_s
                terminalreporter.write_line(
                    f"tier {tier.name}: {count} tests, {took:.1f} s of {tier.budget_s:.0f} s"
                    + ("  OVER ITS BUDGET" if over else ""),
                    yellow=over,
                )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Start counting, if it was asked for; let workers share the run."""
    if session.config.getoption("budgets"):
        session.config.pluginmanager.register(_TierClock(), "tier-clock")
    if session.config.pluginmanager.has_plugin("xdist"):
        from tests.workers import Sharing

        session.config.pluginmanager.register(Sharing(session), "sharing")


# --- a skip in CI is a failure -------------------------------------------------------------------------------


def _refuse_skip(report: Any) -> None:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and CI must skip nothing: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one in CI."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a skipped module into a failed one in CI."""
    report = yield
    _refuse_skip(report)
    return report


# --- unit tests start nothing --------------------------------------------------------------------------------

_tier_without_connections: list[str] = []


def _watch_connections(event: str, args: tuple[object, ...]) -> None:
    if event in CONNECTION_EVENTS and _tier_without_connections:
        what = args[1] if event.startswith("socket.") else args[0]
        raise RuntimeError(
            f"{_tier_without_connections[-1]} did {event} ({what!r}): a unit test starts no Spark, socket, "
            "process or database; move it to another tier"
        )


sys.addaudithook(_watch_connections)


@pytest.fixture(autouse=True)
def _no_connections(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let no unit test open a socket, a database or a process."""
    if request.node.stash[TIER_KEY] not in NO_CONNECTION_TIERS:
        yield
        return
    _tier_without_connections.append(request.node.nodeid)
    try:
        yield
    finally:
        _tier_without_connections.pop()
