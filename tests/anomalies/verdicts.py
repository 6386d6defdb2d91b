"""What a run says of each schedule: with this package on each store, and without it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.anomalies.collecting import Outcome
from tests.anomalies.schedules import OF_ROWS, ONLY_ON, Schedule

RECORD = Path(__file__).parent / "ran.json"
STORES = {
    "memory": "memory",
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "zookeeper": "ZooKeeper x1",
    "zookeeper x3": "ZooKeeper x3",
    "iceberg": "Iceberg on SQLite",
    "iceberg postgresql": "Iceberg on PostgreSQL",
    "iceberg statements": "Spark SQL on SQLite",
    "iceberg statements postgresql": "Spark SQL on PostgreSQL",
}
"""Where a schedule runs with this package: memory tables on five stores; Iceberg tables, written as files and by
statements of Iceberg's Spark runtime, on two.
"""
STATEMENTS = frozenset(store for store in STORES if "statements" in store)
"""Where only the schedules of rows run."""
PLAIN = {"parquet": "plain Parquet", "iceberg": "plain Iceberg"}
"""The columns without this package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What came of a schedule without this package.

    :param seen: a sentence of what was there, made from the rows; or why there is no counterpart.
    :param holds: whether what must hold did; None when there is no counterpart.
    """

    seen: str
    holds: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A row of the table.

    :param passed, failed: tests by store; what was skipped is in neither.
    :param tests: which ones. :param plain: what came of it without this package, by column.
    """

    name: str
    passed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    plain: dict[str, Observed] = field(default_factory=dict)

    def is_prevented(self, schedule: Schedule) -> bool:
        """Return True if the docs claim that it is prevented and its tests show it."""
        return schedule.is_prevented and self.stands

    @property
    def stands(self) -> bool:
        """Return True if its tests ran on every store of :func:`stores_of` and none failed."""
        return not self.failed and all(self.passed.get(store) for store in stores_of(self.name))


def stores_of(schedule: str) -> list[str]:
    """Where *schedule* has to run: on every store that can show it, and by statements if it is one of rows."""
    if schedule in ONLY_ON:
        return [store for store in STORES if store in ONLY_ON[schedule]]
    return [store for store in STORES if store not in STATEMENTS or schedule in OF_ROWS]


def verdicts(
    names: Sequence[str], outcomes: Sequence[Outcome], plain: Mapping[str, Mapping[str, Observed]]
) -> list[Verdict]:
    """Put together what ran; *plain* has columns by name of schedule."""
    found = {name: Verdict(name=name, plain=dict(plain.get(name, {}))) for name in names}
    for outcome in outcomes:
        verdict = found[outcome.schedule]
        if outcome.test not in verdict.tests:
            verdict.tests.append(outcome.test)
        counts = {"passed": verdict.passed, "failed": verdict.failed}.get(outcome.outcome)
        if counts is not None:
            counts[outcome.store] = counts.get(outcome.store, 0) + 1
    for verdict in found.values():
        verdict.tests.sort()
    return list(found.values())


def figures(found: Sequence[Verdict], known: Mapping[str, Schedule]) -> dict[str, int]:
    """The last lines of a run."""
    return {
        "anomalies.run": sum(bool(verdict.passed or verdict.failed) for verdict in found),
        "anomalies.prevented": sum(verdict.is_prevented(known[verdict.name]) for verdict in found),
        **{
            f"anomalies.plain_{column}.prevented": sum(
                column in verdict.plain and verdict.plain[column].holds is True for verdict in found
            )
            for column in PLAIN
        },
    }


def save(found: Sequence[Verdict], path: Path = RECORD) -> None:
    """Keep what ran, for the page."""
    ordered = [
        {**asdict(verdict), "passed": _by_store(verdict.passed), "failed": _by_store(verdict.failed)}
        for verdict in found
    ]
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def _by_store(counts: Mapping[str, int]) -> dict[str, int]:
    return {store: counts[store] for store in STORES if store in counts}


def load(path: Path = RECORD) -> list[Verdict]:
    """What the last run whose record was kept says."""
    return [
        Verdict(**{**fields, "plain": {column: Observed(**said) for column, said in fields["plain"].items()}})
        for fields in json.loads(path.read_text())
    ]
