"""Live progress: a grid of DAGs and days, and the readers' counts; without a terminal, lines."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table

LINE_EVERY_S = 10.0
MARKS = {"success": "[green]●[/]", "running": "[yellow]◐[/]", "failed": "[red]✗[/]", "queued": "[dim]○[/]"}
ABSENT = "[dim]·[/]"

RunStates = Mapping[tuple[str, date], str]
"""State of a DAG's run by DAG and day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """What is shown at one time.

    :param title: of the phase.
    :param runs: states of the DAG runs.
    :param notes: short facts, shown beside the grid.
    """

    title: str
    runs: RunStates
    notes: tuple[str, ...]


def clock(started: float) -> str:
    """Return the minutes and seconds since *started*, of ``time.monotonic()``."""
    minutes, seconds = divmod(int(time.monotonic() - started), 60)
    return f"{minutes:02d}:{seconds:02d}"


class Progress:
    """Shows moments, on a terminal as a grid that is redrawn.

    :param console: where to.
    :param dags: rows of the grid, each with the days that its runs compute.
    :param days: columns of the grid.
    :param started: ``time.monotonic()`` at the demo's start.
    """

    def __init__(
        self, *, console: Console, dags: Mapping[str, Collection[date]], days: list[date], started: float
    ) -> None:
        self._console = console
        self._dags = dags
        self._days = days
        self._started = started
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next_line_at = 0.0

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, moment: Moment) -> None:
        """Show one moment."""
        if self._live:
            self._live.update(self._grid(moment), refresh=True)
        else:
            self._line(moment)

    def _grid(self, moment: Moment) -> Table:
        grid = Table(title=f"{clock(self._started)}  {moment.title}", title_justify="left")
        grid.add_column("DAG")
        for day in self._days:
            grid.add_column(f"{day:%d %b}", justify="center")
        for dag in self._dags:
            states = [moment.runs.get((dag, day)) for day in self._days]
            grid.add_row(dag, *[MARKS.get(state or "", ABSENT) for state in states])
        grid.caption = "\n".join(moment.notes)
        grid.caption_justify = "left"
        return grid

    def _line(self, moment: Moment) -> None:
        """Print a line now and then, also when nothing has changed: the user sees that it goes on."""
        if time.monotonic() < self._next_line_at:
            return
        self._next_line_at = time.monotonic() + LINE_EVERY_S
        done = sum(state == "success" for state in moment.runs.values())
        running = sorted(
            f"{dag} {day:%d %b}" for (dag, day), state in moment.runs.items() if state == "running"
        )
        facts = [f"{done}/{sum(map(len, self._dags.values()))} runs done", *moment.notes]
        if running:
            facts.append("running " + ", ".join(running[:4]))
        self._console.print(f"{clock(self._started)} {moment.title}: " + "; ".join(facts), soft_wrap=True)
