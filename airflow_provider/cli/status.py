"""``airflow epochs status``."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, heading, indented, lines, moment, table, tied
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.upkeep.grid import Grid, Row, grid
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import InvalidInput

_SKIPPED = EpochState.SKIPPED
_OPEN = (EpochState.OPEN, EpochState.PRECOMMIT)
_MAX_HOURS = 24 * 366
_FINEST_PER_HOUR = 60
"""Number of epochs of the finest cadence in an hour, so that the grid counts all epochs of the hours."""
_COUNTS = {
    "committed": "committed",
    "skipped": "skipped",
    "open": "open",
    "aborted": "aborted",
    "check_failed": "check_failed",
    "nothing": "not begun",
}
"""Counts of epochs, and their names in the output for people."""


@command
def status(arguments: Namespace) -> None:
    """List the tables of a domain and the states of their epochs."""
    hours = _hours(arguments.hours)
    with hook_of(arguments).get_reader() as reader:
        most = hours * _FINEST_PER_HOUR
        found = grid(reader, arguments.domain, span=timedelta(hours=hours), max_cells=most)
        others = [name for name in reader.domains() if name != arguments.domain]
    if not found.rows and arguments.output == "table":
        known = f" Domains in this store: {', '.join(others)}." if others else ""
        raise InvalidInput(
            f"domain {found.domain!r} has no table yet.{known}",
            next_step="run the first task of a job: a job registers its tables when it runs.",
            field="--domain",
            value=found.domain,
            expected="a domain that has tables",
        )
    rows = [_line(row) for row in found.rows]
    told = {"domain": found.domain, "csn": found.csn, "at": found.now.isoformat(), "tables": rows}
    columns = ["job and tables", "complete to (UTC)", "CSN", "cadence and epochs"]
    answer(arguments, told, lines(*_titles(found)), table(columns, list(_by_job(found.rows))))


def _hours(text: str) -> int:
    """Parse the option ``--hours``.

    :raises InvalidInput: it is not a number from 1 to the hours of a leap year.
    """
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= _MAX_HOURS:
        raise InvalidInput(field="--hours", value=text, expected=f"a number from 1 to {_MAX_HOURS}")
    return int(text)


def _titles(found: Grid) -> Iterator[RenderableType]:
    yield heading(f"domain {found.domain}, CSN {found.csn} as of {moment(found.now, seconds=True)} UTC")
    yield heading(f"epochs from {moment(found.shown.start)} to {moment(found.shown.end)} UTC")


def _by_job(rows: Sequence[Row]) -> Iterator[Sequence[object]]:
    """Yield a row for each job with its cadence, and below it a row for each of its tables."""
    for job in dict.fromkeys(row.job for row in rows):
        own = [row for row in rows if row.job == job]
        yield job, None, None, own[0].cadence
        for row in own:
            yield indented(row.table.name), moment(row.watermark), row.csn, _epochs(row)


def _epochs(row: Row) -> str:
    """Return the counts of the table's epochs that are not zero, and whether its job is inactive or retired."""
    line = _line(row)
    told = [tied(f"{line[name]} {words}") for name, words in _COUNTS.items() if line[name]]
    if row.inactive is not None:
        told.append(f"inactive since {moment(row.inactive)} UTC")
    if row.retired:
        told.append(f"retired: {row.retired}")
    return ", ".join(told) or "none"


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
        "check_failed": counts[EpochState.CHECK_FAILED],
        "nothing": counts[EpochState.NOTHING],
        "inactive": None if row.inactive is None else row.inactive.isoformat(),
        "retired": row.retired or None,
    }
