"""A pytest plugin: run the tests of named schedules only, and write down what came of each on each store.

``pytest -p tests.anomalies.collecting --schedules ISO1,ATT3 --outcomes FILE``
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.anomalies.schedules import schedule_of
from tests.services.spark import UNCLOSED

_WORSE = ("passed", "skipped", "failed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of one test. :ivar store: where its world was. :ivar outcome: "passed", "skipped" or "failed"."""

    schedule: str
    store: str
    test: str
    outcome: str


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--schedules", default="", help="names of schedules, with commas between")
    parser.addoption("--worlds", default="", help="stores of the worlds, with commas between")
    parser.addoption("--outcomes", type=Path, help="the file to write")


def pytest_configure(config: pytest.Config) -> None:
    """Collect in the process that all reports reach."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Collector(config.getoption("outcomes")), "anomalies")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of a schedule that have a world; each says in its reports which schedule and store."""
    wanted = set(config.getoption("schedules").split(","))
    stores = set(config.getoption("worlds").split(","))
    kept = []
    for item in items:
        schedule = schedule_of(getattr(item, "originalname", item.name))
        callspec = getattr(item, "callspec", None)
        store = callspec.params.get("backend") if callspec is not None else None
        if schedule in wanted and store in stores:
            item.user_properties += [("schedule", schedule), ("store", store)]
            item.add_marker(pytest.mark.filterwarnings(UNCLOSED))
            kept.append(item)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


class _Collector:
    """Keeps the worst phase of each test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Outcome] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = dict(report.user_properties)
        before = self.found.get(report.nodeid)
        if before is not None and _WORSE.index(before.outcome) >= _WORSE.index(report.outcome):
            return
        self.found[report.nodeid] = Outcome(
            schedule=str(said["schedule"]),
            store=str(said["store"]),
            test=report.nodeid.partition("[")[0],
            outcome=report.outcome,
        )

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps([asdict(outcome) for outcome in self.found.values()]))


def read_outcomes(path: Path) -> Sequence[Outcome]:
    """What a run of the plugin wrote."""
    return [Outcome(**fields) for fields in json.loads(path.read_text())]
