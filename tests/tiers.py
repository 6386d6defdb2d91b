"""The tiers that tests belong to: their order, what each may use, and the time each should stay within.

A budget is a promise to whoever waits for the run, not a limit: a tier that takes longer is named in the last
lines of the run and nothing fails, since a busy machine is no defect of the code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tier:
    """One tier of the tests.

    :param name: the marker's name, and the folder's under ``tests/``.
    :param meaning: what a test of this tier may use.
    :param budget_s: seconds of wall time that the whole tier should stay within on two cores.
    """

    name: str
    meaning: str
    budget_s: float


TIERS: dict[str, Tier] = {
    tier.name: tier
    for tier in (
        Tier(name="architecture", meaning="the code's own shape: imports, pins, packaging", budget_s=90),
        Tier(name="unit", meaning="one module; no Spark, socket, process or database", budget_s=30),
        Tier(name="property", meaning="random inputs against a model; the seed is printed", budget_s=60),
        Tier(name="contract", meaning="one suite for every backend of an interface", budget_s=300),
        Tier(
            name="simulation",
            meaning="the real coordination under injected faults, in virtual time",
            budget_s=120,
        ),
        Tier(name="integration", meaning="several rooms with real Spark or servers", budget_s=300),
        Tier(name="system", meaning="everything as a user starts it, the demo among it", budget_s=480),
        Tier(name="slow", meaning="long runs: kills in every window; `make test-slow`", budget_s=3600),
    )
}
"""Every tier by name, in the order in which they run."""
