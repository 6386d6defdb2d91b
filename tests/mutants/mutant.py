"""What a planted error is."""

from __future__ import annotations

from dataclasses import dataclass

ATTEMPTS = "tests/contract/test_coordination_attempts.py"
RACES = "tests/contract/test_coordination_races.py"
REWRITES = "tests/contract/test_coordination_rewrites.py"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """One planted error.

    :param name: what is wrong. :param rule: the protocol's rule that it breaks.
    :param file: module in the package. :param old: text that is there exactly once. :param new: what it becomes.
    :param tests: modules that run as a whole; the simulation does when they have not noticed.
    :param by: the test of theirs that is known to notice it, and runs before; empty: none is.
    :param servers: they run on PostgreSQL and ZooKeeper, too; otherwise cases that need a server are left out.
    """

    name: str
    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = (ATTEMPTS, RACES, REWRITES)
    servers: bool = False
    by: str = ""
