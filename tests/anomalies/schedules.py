"""The named schedules: which there are, how docs/anomalies.md says that each stands, and which test runs which."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATED = ROOT / "docs" / "anomalies.md"
SUITE = (
    *(f"ISO{number}" for number in range(1, 11)),
    *(f"DER{number}" for number in range(1, 16)),
    *(f"ATT{number}" for number in range(1, 18)),
    *(f"UND{number}" for number in (1, 2, 3, 6, 7, 8)),
    *(f"LEA{number}" for number in (1, 2, 3, 4, 5, 8, 9, 10)),
    *(f"CAT{number}" for number in (1, 2)),
    *(f"HA{number}" for number in (1, 2)),
    "FORK1",
    *(f"CHG{number}" for number in (1, 2, 3, 4, 5)),
    *(f"SRC{number}" for number in (1, 2, 3, 4)),
    "AST1",
    *(f"LIV{number}" for number in (1, 2)),
    *(f"RES{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9)),
)
"""What `make anomalies` runs, in its order."""
OF_ROWS = frozenset(
    {
        *(f"ISO{number}" for number in (1, 2, 3, 6, 9, 10)),
        *(f"DER{number}" for number in (1, 3, 9)),
        *(f"ATT{number}" for number in (1, 4, 9, 12, 13, 14, 15, 16)),
        *(f"UND{number}" for number in (1, 2, 7, 8)),
        "LEA1",
        "LEA9",
        "CAT1",
        "CHG2",
    }
)
"""Those in which it matters how rows get into a table; in the others records, clocks and claims meet.

LEA1 has a full table, whose rows stay in the draft's own files: it is about when those are deleted.
"""
ONLY_ON = {
    "HA1": frozenset({"postgresql"}),
    "HA2": frozenset({"postgresql"}),
    "FORK1": frozenset({"sqlite", "postgresql", "zookeeper"}),
}
"""Where a schedule can run, if not everywhere: standbys are PostgreSQL's, and children do not share memory."""
_CONTRACT = ROOT / "tests" / "contract"
_ROW = re.compile(r"^\| ([A-Z]{2,4}\d+) ([^|]+?) \| ([^|]*?) \| ([^|]*?) \| ([^|]*?) \|$", re.MULTILINE)
_TEST = re.compile(r"test_([a-z]{2,4}\d+)_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """A row of docs/anomalies.md.

    :param name: such as "ISO1". :param title: its short name. :param course: what happens.
    :param standing: "prevented", "prevented from RC", "in part", "not yet". :param mechanism: what prevents it.
    """

    name: str
    title: str
    course: str
    standing: str
    mechanism: str

    @property
    def is_prevented(self) -> bool:
        """Whether the page claims that no case is left."""
        return self.standing.startswith("prevented")


def modules() -> list[Path]:
    """The modules whose tests may carry the name of a schedule."""
    beside = ("test_forked_attempts.py", "test_postgresql_failover.py")
    return sorted([*_CONTRACT.glob("test_coordination_*.py"), *(_CONTRACT / name for name in beside)])


def schedules() -> dict[str, Schedule]:
    """Every schedule that docs/anomalies.md has, by name."""
    found = _ROW.findall(STATED.read_text())
    return {
        name: Schedule(name=name, title=title, course=course, standing=standing, mechanism=mechanism)
        for name, title, course, standing, mechanism in found
    }


def schedule_of(test: str) -> str | None:
    """Name the schedule that a test's function runs: "ISO1" for test_iso1_dirty_write."""
    found = _TEST.match(test)
    return found.group(1).upper() if found else None
