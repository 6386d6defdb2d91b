"""The demo from its start to its end: with the package, then without, then the figures."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType

from rich.console import Console

from airflow_provider import RetryableError
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.stores.factory import redacted
from demo import figures
from demo.books import A_DAY
from demo.correction import Corrected, correct_the_twin, correct_with_epochs
from demo.faults import Aim
from demo.figures import Figures, ReadCounts, budgets_s
from demo.phase import Outcome, Phase, Pipeline
from demo.progress import Progress, clock
from demo.published import Published, cuts_there, published
from demo.source import Days
from demo.stack import DemoStack, Plan

DOMAIN, WORDS_DOMAIN = "nyc", "words"
READERS = 2
READ_PERIOD_S = 0.3
WORDS_READ_PERIOD_S = 0.5
"""Longer: the words are published in the first minutes, and all later reads find the same cuts."""
CATALOG_READ_PERIOD_S = 2.0
"""Longer: Airflow's API server, which all tasks talk to, answers ten requests for a read."""
TWIN_READ_PERIOD_S = 0.1
"""Shorter: the twin's tables can be read only late in its two days, and nothing is to be seen after them."""

EPOCHS_DAGS = (
    "nyc_weather",
    "nyc_flights",
    "nyc_scorecards",
    "nyc_delay_by_weather",
    "nyc_report",
    "nyc_trends",
    "nyc_reader",
)
WEEKLY_DAGS, WEEKLY_JOBS = ("nyc_weekly",), ("airport_week",)
WORD_DAGS = ("words",)
"""Of one day, on which eight books land: the first."""
TWIN_DAGS = (
    "twin_weather",
    "twin_flights",
    "twin_scorecards",
    "twin_delay_by_weather",
    "twin_report",
    "twin_reader",
)
PUBLISHING_JOBS = ("scorecards", "delay_by_weather", "daily_report", "carrier_trends", "weather")
"""The jobs whose programs publish what they wrote at once. The flights' program leaves that to its Airflow task."""
FAULTS = 2
MOST_STRIKES = 10

EPOCHS_A_DAY = 24 + 5
"""Hourly weather, and a day's flights, scorecards, delays by weather, report and trends."""


EPOCHS_OF_BOOKS = 3 * A_DAY
"""Three jobs for each book of a day."""


def epochs_of(days: Days) -> int:
    """Count what the jobs publish: the days', and one a week that ends with one of them."""
    return EPOCHS_A_DAY * days.count + len(days.last_of_weeks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What both halves gave.

    :param epochs: the half with the package.
    :param twin: the half without; None when it did not run.
    :param words: what was read of the word tables meanwhile.
    :param published: what the package's store says of New York at the end. :param published_words: of the books.
    :param cuts_there: different cuts of New York's daily tables that could be read at some time.
    :param corrected: what the correction of past days gave with the package; None for a demo of one day.
    :param twin_corrected: reads of the twin's tables meanwhile; None without one, or with one day.
    """

    epochs: Outcome
    twin: Outcome | None
    words: ReadCounts
    published: Published
    published_words: int
    cuts_there: int
    corrected: Corrected | None = None
    twin_corrected: ReadCounts | None = None

    @property
    def correction_figures(self) -> Figures:
        twin = self.twin_corrected
        return {
            **(self.corrected.figures if self.corrected else {}),
            **(figures.reading_figures("twin.restate", twin) if twin else {}),
        }

    @property
    def facts_of_corrections(self) -> list[tuple[str, int, int | None]]:
        """Rows of the table that ends a demo; none where nothing was corrected."""
        corrected, twin = self.corrected, self.twin_corrected
        if corrected is None:
            return []
        reads, bad = (None, None) if twin is None else (twin.reads, twin.bad)
        return [
            ("reads while days were corrected", corrected.counts.reads, reads),
            ("of these, wrong or failed", corrected.counts.bad + corrected.mixed, bad),
        ]


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds that each stage of a demo took, in order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[stage] = time.monotonic() - began

    @property
    def figures(self) -> Figures:
        return {f"demo.seconds.{stage}": round(seconds, 1) for stage, seconds in self.seconds.items()}

    def __str__(self) -> str:
        return ", ".join(f"{seconds:.0f} s {_STAGES[stage]}" for stage, seconds in self.seconds.items())


_STAGES = {
    "start": "to start Airflow, Spark and the store",
    "epochs": "with epochs",
    "correction": "to correct past days, and to take that back",
    "twin": "of the naive twin",
    "twin_correction": "to correct the twin's days",
    "stop": "to stop everything",
}


def run(*, home: Path, plan: Plan, fault: bool = False) -> int:
    """Run the demo.

    :param home: folder of all that is written; emptied first.
    :param plan: days, ports and store.
    :param fault: whether the store's server is broken while epochs are in publish.
    :returns: 0 when every promise was kept, else 1.
    :raises StillRunningError: another demo has the home.
    :raises PortInUseError: another demo, or anything else, has a port.
    :raises ProcessFailedError: when a part ends that should go on.
    """
    console = Console(highlight=False, soft_wrap=True)
    started, started_at = time.monotonic(), datetime.now(UTC)
    stages = Stages()
    stack = DemoStack(home=home, plan=plan)
    with stack.claimed():
        whole_s, first_s = budgets_s(plan.days, pace=stack.warehouse.pace).values()
        console.print(
            f"Budget: {whole_s // 60} minutes on 2 quiet cores, the first published epoch within "
            f"{first_s} seconds. Everything that is written lies in {home}."
        )
        stack.clear()
        with _stopped_at_the_end(stack, console, stages):
            with stages.measured("start"):
                _prepare(stack, console)
            result = _both_halves(stack, console, started, stages, fault=fault)
    found: Figures = {
        **(figures.reading_figures("twin", result.twin.counts) if result.twin else {}),
        **figures.reading_figures("epochs", result.epochs.counts),
        **figures.reading_figures("words", result.words),
        **figures.cut_figures(result.epochs.counts, result.words),
        "demo.epochs.cuts_there": result.cuts_there,
        "demo.epochs.published": result.published.epochs,
        "demo.words.published": result.published_words,
        "demo.waits.deferred": len(result.epochs.waits),
        **result.correction_figures,
        **({"demo.faults": stack.faults.counted} if stack.faults else {}),
        **stages.figures,
        "demo.seconds": round(time.monotonic() - started, 1),
        "demo.first_publish_seconds": _seconds_to_first(result.published, started_at),
    }
    return _conclude(console, stack, result, found, stages, faults=FAULTS if fault else 0)


def _prepare(stack: DemoStack, console: Console) -> None:
    days = stack.plan.epochs
    files = stack.land()
    console.print(f"Landed {files} files of flights and weather of New York, {days.first} to {days.last}.")
    console.print("Starting Airflow (API server, scheduler, DAG processor, triggerer) and Spark Connect ...")
    stack.start()
    console.print(f"Metadata: {redacted(stack.store.settings.store_url)}")
    console.print(f"Tables: {stack.warehouse.uri}")
    console.print(f"Airflow is up: {stack.airflow.base_url}")


def _both_halves(
    stack: DemoStack, console: Console, started: float, stages: Stages, *, fault: bool
) -> Result:
    plan = stack.plan

    def notes() -> tuple[str, ...]:
        try:
            count = published(stack.store.settings, DOMAIN).epochs
        except RetryableError:
            return ("the store does not answer",)
        told = [f"{count}/{epochs_of(plan.epochs)} epochs published"]
        if stack.faults:
            told.append(
                f"{stack.faults.strikes} faults, {stack.faults.counted} while an epoch was in publish"
            )
        return tuple(told)

    if fault:
        stack.start_faults(aim_of(plan, reads=stack.reads), console.print)
    with stages.measured("epochs"):
        epochs = _half(stack, console, started, _with_epochs(plan, stack.warehouse.pace), notes)
    if stack.faults:
        stack.faults.stop()
        stack.faults.check()
    settings = stack.store.settings
    found = published(settings, DOMAIN), published(settings, WORDS_DOMAIN).epochs
    there = cuts_there(settings, DOMAIN, days=plan.epochs.ends, a_day=EPOCHS_A_DAY, besides=WEEKLY_JOBS)

    def say(words: str) -> None:
        console.print(f"{clock(started)} {words}", soft_wrap=True)

    corrected, twin, twin_corrected = None, None, None
    if plan.corrected and not epochs.failed_runs:
        with stages.measured("correction"):
            period_s = READ_PERIOD_S / stack.warehouse.pace
            corrected = correct_with_epochs(stack, say, period_s=period_s)
    if plan.twin:
        with stages.measured("twin"):
            twin = _half(stack, console, started, _twin(plan.twin, stack.warehouse.pace), tuple)
        if plan.twin_corrected and not twin.failed_runs:
            with stages.measured("twin_correction"):
                period_s = TWIN_READ_PERIOD_S / stack.warehouse.pace
                twin_corrected = correct_the_twin(stack, say, TWIN_DAGS[:-1], period_s=period_s)
    return Result(
        epochs=epochs,
        twin=twin,
        words=figures.count_reads(stack.reads, "words"),
        published=found[0],
        published_words=found[1],
        cuts_there=there,
        corrected=corrected,
        twin_corrected=twin_corrected,
    )


def aim_of(plan: Plan, *, reads: Path) -> Aim:
    """Strike from the first counted read on, so that a fault meets readers.

    One day can be read at once when its last job has committed, and nothing is in publish then: it is struck before.
    """

    def ready() -> bool:
        return plan.days == 1 or figures.count_reads(reads, "epochs").reads > 0

    return Aim(
        domain=DomainName(DOMAIN),
        jobs=[JobName(name) for name in PUBLISHING_JOBS],
        ready=ready,
        wanted=FAULTS,
        most=MOST_STRIKES,
    )


def _with_epochs(plan: Plan, pace: float) -> Pipeline:
    days = plan.epochs
    return Pipeline(
        family="epochs",
        title="With epochs",
        dags={
            **dict.fromkeys(EPOCHS_DAGS, tuple(days)),
            **dict.fromkeys(WEEKLY_DAGS, days.last_of_weeks),
            **dict.fromkeys(WORD_DAGS, tuple(plan.books)),
        },
        days=days,
        run_date_lag=timedelta(days=1),
        max_active_runs=2,
        read_period_s=READ_PERIOD_S / pace,
        stops_at_failure=True,
        by_catalog_period_s=CATALOG_READ_PERIOD_S / pace,
        beside={"words": WORDS_READ_PERIOD_S / pace},
    )


def _twin(days: Days, pace: float) -> Pipeline:
    return Pipeline(
        family="twin",
        title="Plain Airflow and Spark",
        dags=dict.fromkeys(TWIN_DAGS, tuple(days)),
        days=days,
        run_date_lag=timedelta(0),
        max_active_runs=1,
        read_period_s=TWIN_READ_PERIOD_S / pace,
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
    with Progress(console=console, dags=pipeline.dags, days=days, started=started) as progress:
        phase = Phase(
            stack=stack,
            pipeline=pipeline,
            progress=progress,
            least=figures.least_of(stack.plan.days, pace=stack.warehouse.pace),
            readers=READERS,
            notes=notes,
        )
        return phase.run()


def _seconds_to_first(found: Published, started_at: datetime) -> float:
    if found.first_at is None:
        return float("nan")
    return round((found.first_at - started_at).total_seconds(), 1)


def _conclude(
    console: Console, stack: DemoStack, result: Result, found: Figures, stages: Stages, *, faults: int
) -> int:
    """Print the table, where to look, and the figures.

    :param faults: how many were promised.
    :returns: the exit code.
    """
    plan, twin = stack.plan, result.twin
    twin_facts = (plan.twin_days, len(twin.failed_runs)) if twin else (None, None)
    facts = [
        ("days computed", plan.days, twin_facts[0]),
        ("DAG runs that failed", len(result.epochs.failed_runs), twin_facts[1]),
        *result.facts_of_corrections,
    ]
    console.print(figures.side_by_side(result.epochs.counts, twin.counts if twin else None, facts))
    console.print(
        f"The word tables meanwhile: {result.words.reads} reads of {result.words.cuts} different cuts, "
        f"{result.words.bad} of them wrong or failed."
    )
    if twin and (example := figures.describe_example(twin.counts)):
        judged = twin.counts.example_barrier
        console.print(f"One of the wrong reads of plain Airflow and Spark, judged at {judged}:")
        console.print("\n".join(f"  {line}" for line in example))
    console.print(
        f"Look around: `make up`, then {stack.airflow.base_url} (DAGs nyc_*, words and twin_*, page Epochs); "
        f"`make down` stops it. Logs are in {stack.home / 'logs'}, every read in {stack.reads}."
    )
    console.print(f"Where the time went: {stages}.")
    broken = figures.broken_promises(
        found, days=plan.days, twin_days=plan.twin_days, faults=faults, pace=stack.warehouse.pace
    )
    broken += _unpublished(found, plan)
    broken += [f"a run with epochs failed: {failed}" for failed in result.epochs.failed_runs]
    slow = figures.over_budget(found, days=plan.days, pace=stack.warehouse.pace)
    for line in (*[f"broken promise: {promise}" for promise in broken], *slow):
        console.print(line)
    if not broken:
        console.print("All promises were kept.")
    for name, value in found.items():
        console.print(f"figure {name} {value:g}")
    return 1 if broken else 0


def _unpublished(found: Figures, plan: Plan) -> list[str]:
    """Say which epochs are missing, or too many."""
    promised = {
        "demo.epochs.published": epochs_of(plan.epochs),
        "demo.words.published": EPOCHS_OF_BOOKS * plan.books.count,
    }
    return [
        f"{name} is {found[name]:g}, promised {expected}"
        for name, expected in promised.items()
        if found[name] != expected
    ]


@contextmanager
def _stopped_at_the_end(stack: DemoStack, console: Console, stages: Stages) -> Iterator[None]:
    """Stop all processes at the end, also after Ctrl-C and SIGTERM; a second Ctrl-C does not interrupt that."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        console.print("Stopping everything ...")
        with stages.measured("stop"):
            stack.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    raise KeyboardInterrupt
