"""The demo from its start to its end: with the package, then without, then the figures."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

from rich.console import Console

from airflow_provider.coordination.service import Settings
from demo import figures
from demo.figures import BUDGET_S, FIRST_PUBLISH_BUDGET_S, Figures
from demo.phase import Outcome, Phase, Pipeline
from demo.progress import Progress
from demo.published import Published, published
from demo.stack import DemoStack, Plan

DOMAIN = "nyc"
READERS = 2
READ_PERIOD_S = 0.4

EPOCHS_DAGS = (
    "nyc_weather",
    "nyc_flights",
    "nyc_scorecards",
    "nyc_delay_by_weather",
    "nyc_report",
    "nyc_reader",
)
TWIN_DAGS = (
    "twin_weather",
    "twin_flights",
    "twin_scorecards",
    "twin_delay_by_weather",
    "twin_report",
    "twin_reader",
)
EPOCHS_A_DAY = 24 + 4
"""Hourly weather, and a day's flights, scorecards, delays by weather and report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What both halves gave.

    :param epochs: the half with the package.
    :param twin: the half without.
    :param published: what the package's store says at the end.
    """

    epochs: Outcome
    twin: Outcome
    published: Published


def run(*, home: Path, plan: Plan) -> int:
    """Run the demo.

    :param home: folder of all that is written; emptied first.
    :param plan: days and ports.
    :returns: 0 when every promise was kept, else 1.
    :raises PortInUseError: before anything was started.
    :raises ProcessFailedError: when a part ends that should go on.
    """
    console = Console(highlight=False, soft_wrap=True)
    started, started_at = time.monotonic(), datetime.now(UTC)
    stack = DemoStack(home=home, plan=plan)
    stack.require_nothing_in_the_way()
    console.print(
        f"Budget: {BUDGET_S // 60} minutes on 2 cores, the first published epoch within "
        f"{FIRST_PUBLISH_BUDGET_S // 60}. Everything that is written lies in {home}."
    )
    stack.clear()
    with _stopped_at_the_end(stack, console):
        _prepare(stack, console)
        result = _both_halves(stack, console, started)
    found: Figures = {
        **figures.reading_figures("twin", result.twin.counts),
        **figures.reading_figures("epochs", result.epochs.counts),
        "demo.epochs.published": result.published.epochs,
        "demo.epochs.cuts": result.epochs.counts.cuts,
        "demo.waits.deferred": len(result.epochs.waits),
        "demo.seconds": round(time.monotonic() - started, 1),
        "demo.first_publish_seconds": _seconds_to_first(result.published, started_at),
    }
    return _conclude(console, stack, result, found)


def _prepare(stack: DemoStack, console: Console) -> None:
    days = stack.plan.epochs
    files = stack.land()
    console.print(f"Landed {files} files of flights and weather of New York, {days.first} to {days.last}.")
    console.print("Starting Airflow (API server, scheduler, DAG processor, triggerer) and Spark Connect ...")
    stack.start()
    console.print(f"Airflow is up: {stack.airflow.base_url}")


def _both_halves(stack: DemoStack, console: Console, started: float) -> Result:
    plan = stack.plan
    settings = Settings(store_url=stack.store_url, warehouse=stack.warehouse)

    def notes() -> tuple[str, ...]:
        return (f"{published(settings, DOMAIN).epochs}/{EPOCHS_A_DAY * plan.days} epochs published",)

    epochs = _half(stack, console, started, _with_epochs(plan), notes)
    twin = _half(stack, console, started, _twin(plan), tuple)
    return Result(epochs=epochs, twin=twin, published=published(settings, DOMAIN))


def _with_epochs(plan: Plan) -> Pipeline:
    return Pipeline(
        family="epochs",
        title="With epochs",
        dags=EPOCHS_DAGS,
        days=plan.epochs,
        run_date_lag=timedelta(days=1),
        max_active_runs=1,
        stops_at_failure=True,
    )


def _twin(plan: Plan) -> Pipeline:
    return Pipeline(
        family="twin",
        title="Plain Airflow and Spark",
        dags=TWIN_DAGS,
        days=plan.twin,
        run_date_lag=timedelta(0),
        max_active_runs=1,
        stops_at_failure=False,
    )


def _half(
    stack: DemoStack,
    console: Console,
    started: float,
    pipeline: Pipeline,
    notes: Callable[[], tuple[str, ...]],
) -> Outcome:
    days = list(pipeline.days)
    share = min(1.0, stack.plan.days / figures.WHOLE_DEMO_DAYS)
    with Progress(console=console, dags=list(pipeline.dags), days=days, started=started) as progress:
        phase = Phase(
            stack=stack,
            pipeline=pipeline,
            progress=progress,
            least_reads=int(figures.LEAST_READS * share),
            readers=READERS,
            period_s=READ_PERIOD_S,
            notes=notes,
        )
        return phase.run()


def _seconds_to_first(found: Published, started_at: datetime) -> float:
    if found.first_at is None:
        return float("nan")
    return round((found.first_at - started_at).total_seconds(), 1)


def _conclude(console: Console, stack: DemoStack, result: Result, found: Figures) -> int:
    """Print the table, where to look, and the figures.

    :returns: the exit code.
    """
    plan = stack.plan
    console.print(
        figures.side_by_side(
            result.epochs.counts,
            result.twin.counts,
            [
                ("days computed", plan.days, plan.twin_days),
                ("DAG runs that failed", len(result.epochs.failed_runs), len(result.twin.failed_runs)),
            ],
        )
    )
    if example := figures.describe_example(result.twin.counts):
        console.print(f"One of the wrong reads, judged at {result.twin.counts.example_barrier}:")
        console.print("\n".join(f"  {line}" for line in example))
    console.print(
        f"Look around: `make up`, then {stack.airflow.base_url} (DAGs nyc_* and twin_*, page Epochs); "
        f"`make down` stops it. Logs are in {stack.home / 'logs'}, every read in {stack.reads}."
    )
    broken = figures.broken_promises(found, days=plan.days, twin_days=plan.twin_days)
    if (expected := EPOCHS_A_DAY * plan.days) != result.published.epochs:
        broken.append(f"demo.epochs.published is {result.published.epochs}, promised {expected}")
    broken += [f"a run with epochs failed: {one}" for one in result.epochs.failed_runs]
    for line in (*[f"broken promise: {one}" for one in broken], *figures.over_budget(found)):
        console.print(line)
    for name, value in found.items():
        console.print(f"figure {name} {value:g}")
    return 1 if broken else 0


@contextmanager
def _stopped_at_the_end(stack: DemoStack, console: Console) -> Iterator[None]:
    """Stop all processes at the end, also after Ctrl-C and SIGTERM; a second Ctrl-C does not interrupt that."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        console.print("Stopping everything ...")
        stack.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    raise KeyboardInterrupt
