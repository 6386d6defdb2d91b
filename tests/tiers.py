"""The tiers that tests belong to: their order, what each may use, how workers share it, and its budget of time.

A budget is a promise to the person who waits for the run, not a limit: a tier that takes longer is named in the last
lines of the run and nothing fails, since a busy machine is no defect of the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Share(Enum):
    """How the workers of ``pytest -n 2`` share a tier."""

    MODULES = "each module goes to whichever worker is free"
    ALONE = "one worker runs all of it, while nothing else runs: it needs the whole machine"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """One tier of the tests.

    :param name: the marker's name, and the folder's under ``tests/``.
    :param meaning: what a test of this tier may use.
    :param budget_s: seconds in which some test of the tier runs: what `make test` should stay within on two cores.
    :param share: how workers share it.
    :param together: modules that one worker runs, and begins with: they share servers that take long to start.
    """

    name: str
    meaning: str
    budget_s: float
    share: Share = Share.MODULES
    together: frozenset[str] = frozenset()


SPARK_MODULES = frozenset(
    {
        "test_airflow_decorator",
        "test_anomalies_plain",
        "test_benchmarks_with_spark",
        "test_demo_statements",
        "test_demo_transforms",
        "test_demo_twin",
        "test_readme",
        "test_spark_added_files",
        "test_spark_bad_input",
        "test_spark_columns",
        "test_spark_compaction",
        "test_spark_cut_files",
        "test_spark_drafts",
        "test_spark_drafts_changing",
        "test_spark_epoch_run",
        "test_spark_filters",
        "test_spark_participants",
        "test_spark_read_source",
        "test_spark_readers",
        "test_spark_reads",
        "test_spark_rest_catalog",
        "test_spark_restating",
        "test_spark_runtime",
        "test_spark_sinks",
        "test_spark_views",
    }
)
"""The modules of the integration tier that use its Spark sessions; a test compares them with their fixtures."""

TIERS: dict[str, Tier] = {
    tier.name: tier
    for tier in (
        Tier(name="architecture", meaning="the code's own shape: imports, pins, packaging", budget_s=90),
        Tier(name="unit", meaning="one module; no Spark, socket, process or database", budget_s=30),
        Tier(name="property", meaning="random inputs against a model; the seed is printed", budget_s=60),
        Tier(name="contract", meaning="one suite for every backend of an interface", budget_s=180),
        Tier(
            name="simulation",
            meaning="the real coordination under injected faults, in virtual time",
            budget_s=120,
        ),
        Tier(
            name="integration",
            meaning="several rooms with real Spark or servers",
            budget_s=300,
            together=SPARK_MODULES,
        ),
        Tier(
            name="system",
            meaning="everything as a user starts it, the demo among it",
            budget_s=480,
        ),
        Tier(
            name="slow",
            meaning="long runs: kills in every window; `make test-slow`",
            budget_s=3600,
            share=Share.ALONE,
        ),
    )
}
"""Every tier by name, in the order in which they run."""

ORDER_OF_WORKERS = (
    "architecture", "unit", "property", "system", "simulation", "integration", "contract", "slow",
)  # fmt: skip
"""The same for workers: few long modules go before many short ones, with which both end at about the same time."""


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """How long at least one of *spans* (begin, end) lasted: what happens at the same time counts once."""
    seconds, until = 0.0, 0.0
    for begin, end in sorted(spans):
        seconds += max(0.0, end - max(begin, until))
        until = max(until, end)
    return seconds
