"""``airflow epochs status``."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from datetime import timedelta
from typing import Any

from airflow_provider.cli.command import answer_json, answer_table, command, hook_of
from airflow_provider.coordination.grid import Row, grid
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import InvalidInput

_SKIPPED = EpochState.SKIPPED
_OPEN = (EpochState.OPEN, EpochState.PRECOMMIT)
_MAX_HOURS = 24 * 366
_FINEST_PER_HOUR = 60
"""Epochs of the finest cadence: all of the hours are counted."""


@command
def status(arguments: Namespace) -> None:
    """List the tables of a domain and what became of their epochs."""
    hours = _hours(arguments.hours)
    with hook_of(arguments).get_reader() as reader:
        most = hours * _FINEST_PER_HOUR
        found = grid(reader, arguments.domain, span=timedelta(hours=hours), max_cells=most)
        others = [name for name in reader.domains() if name != arguments.domain]
    rows = [_line(row) for row in found.rows]
    if arguments.output == "json":
        answer_json({"domain": found.domain, "csn": found.csn, "at": found.now.isoformat(), "tables": rows})
        return
    if not rows:
        known = f" Domains in this store: {', '.join(others)}." if others else ""
        raise InvalidInput(
            f"domain {found.domain!r} has no table yet.{known}",
            next_step="run the first task of a job: a job registers its tables when it runs.",
            field="--domain",
        )
    answer_table(
        [
            "table",
            "job",
            "cadence",
            "complete to",
            "CSN",
            "committed",
            "skipped",
            "open",
            "aborted",
            "vetoed",
            "nothing",
            "lapsed since",
            "retired",
        ],
        [list(row.values()) for row in rows],
        title=f"domain {found.domain}, CSN {found.csn}, epochs from {found.shown.start:%Y-%m-%d %H:%M} "
        f"to {found.shown.end:%Y-%m-%d %H:%M} UTC",
    )


def _hours(text: str) -> int:
    """:raises InvalidInput: no number, or one that nobody can look at."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= _MAX_HOURS:
        raise InvalidInput(field="--hours", value=text, expected=f"a number from 1 to {_MAX_HOURS}")
    return int(text)


def _line(row: Row) -> dict[str, Any]:
    counts = Counter(cell.state for cell in row.cells)
    return {
        "table": row.table.name,
        "job": row.job,
        "cadence": str(row.cadence),
        "complete_to": None if row.watermark is None else row.watermark.isoformat(),
        "csn": row.csn,
        "committed": sum(
            1 for cell in row.cells if cell.committed is not None and cell.state is not _SKIPPED
        ),
        "skipped": counts[_SKIPPED],
        "open": sum(counts[state] for state in _OPEN),
        "aborted": counts[EpochState.ABORTED],
        "vetoed": counts[EpochState.VETOED],
        "nothing": counts[EpochState.NOTHING],
        "lapsed": None if row.lapsed is None else row.lapsed.isoformat(),
        "retired": row.retired or None,
    }
