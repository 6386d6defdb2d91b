"""One half of the demo: a pipeline's DAGs over their days, while readers read."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from demo.figures import BY_CATALOG, Least, ReadCounts, count_reads
from demo.processes import ManagedProcess, ask_to_end, end
from demo.progress import Moment, Progress, RunStates
from demo.readers.reading import FAILED, RETRY_FOR_S, WRONG
from demo.source import Days
from demo.stack import DemoStack

POLL_S = 3.0
READ_ON_FOR_S = 120.0
"""So long readers may go on after the last run to read what is promised, on a busy machine too."""
FAILED_RUN = "failed"
FINISHED = ("success", FAILED_RUN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """The DAGs of one half.

    :param family: ``epochs`` or ``twin``: whose readers read, and are counted.
    :param title: shown above the progress.
    :param dags: in the order in which data flows, each with the days that its runs compute: all, the last of each
        week, or the first one.
    :param days: that the pipeline computes.
    :param run_date_lag: from a day to the logical date of the run that computes it.
    :param max_active_runs: of each DAG.
    :param read_period_s: seconds from one read's start to the same reader's next.
    :param stops_at_failure: whether a failed run ends the half; else what can go on goes on.
    :param by_catalog_period_s: the same of one reader more, of the same tables by the REST catalog; None without it.
    :param beside: further families, each with one reader of its own tables, and that one's seconds between reads.
    """

    family: str
    title: str
    dags: Mapping[str, Collection[date]]
    days: Days
    run_date_lag: timedelta
    max_active_runs: int
    read_period_s: float
    stops_at_failure: bool
    by_catalog_period_s: float | None = None
    beside: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How one half ended.

    :param counts: of the reads.
    :param waits: tasks that were seen deferred: (DAG, run, task).
    :param failed_runs: runs that failed, as text.
    """

    counts: ReadCounts
    waits: frozenset[tuple[str, str, str]]
    failed_runs: tuple[str, ...]


class Phase:
    """Runs one half.

    :param stack: started.
    :param pipeline: what runs.
    :param progress: shows it.
    :param least: what each family's readers go on for.
    :param readers: number of ad-hoc readers.
    :param notes: further facts to show, asked for at each poll.
    """

    def __init__(
        self,
        *,
        stack: DemoStack,
        pipeline: Pipeline,
        progress: Progress,
        least: Mapping[str, Least],
        readers: int,
        notes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._stack = stack
        self._pipeline = pipeline
        self._progress = progress
        families = (pipeline.family, *pipeline.beside)
        self._least = {family: least[family] for family in families}
        self._readers = [
            stack.reader(pipeline.family, f"adhoc-{number}", period_s=pipeline.read_period_s)
            for number in range(1, readers + 1)
        ]
        if pipeline.by_catalog_period_s is not None:
            self._readers.append(stack.reader("catalog", BY_CATALOG, period_s=pipeline.by_catalog_period_s))
        self._readers += [
            stack.reader(family, "adhoc-1", period_s=period) for family, period in pipeline.beside.items()
        ]
        self._notes = notes
        self._waits: set[tuple[str, str, str]] = set()

    def run(self) -> Outcome:
        """Start the readers and the DAGs; end when all runs and enough reads are done.

        :raises ProcessFailedError: when Airflow, Spark or a reader ends.
        """
        for reader in self._readers:
            reader.start()
        self._start_dags()
        expected = sum(map(len, self._pipeline.dags.values()))
        runs: RunStates = {}
        while sum(state in FINISHED for state in runs.values()) < expected:
            runs = self._watch()
            if self._pipeline.stops_at_failure and FAILED_RUN in runs.values():
                break
            time.sleep(POLL_S)
        self._read_on(runs)
        _stop(self._readers)
        failed = tuple(f"{dag} of {day}" for (dag, day), state in runs.items() if state == FAILED_RUN)
        counts = count_reads(self._stack.reads, self._pipeline.family)
        return Outcome(counts=counts, waits=frozenset(self._waits), failed_runs=failed)

    def _start_dags(self) -> None:
        rest = self._stack.airflow.rest
        rest.wait_for_dags(set(self._pipeline.dags))
        for dag, days in self._pipeline.dags.items():
            rest.backfill(
                dag,
                first=min(days) + self._pipeline.run_date_lag,
                last=max(days) + self._pipeline.run_date_lag,
                max_active_runs=self._pipeline.max_active_runs,
            )
        for dag in self._pipeline.dags:
            rest.unpause(dag)

    def _watch(self) -> RunStates:
        """Look at all parts once and show what is there."""
        self._stack.check()
        for reader in self._readers:
            reader.check()
        rest = self._stack.airflow.rest
        for task in rest.task_instances(state="deferred"):
            if task["dag_id"] in self._pipeline.dags:
                self._waits.add((task["dag_id"], task["dag_run_id"], task["task_id"]))
        runs = self._run_states()
        self._show(runs)
        return runs

    def _run_states(self) -> RunStates:
        found: dict[tuple[str, date], str] = {}
        for run in self._stack.airflow.rest.dag_runs():
            if run["dag_id"] in self._pipeline.dags and run["logical_date"]:
                run_date = datetime.fromisoformat(run["logical_date"]).date()
                found[run["dag_id"], run_date - self._pipeline.run_date_lag] = run["state"]
        return found

    def _show(self, runs: RunStates) -> None:
        counts = count_reads(self._stack.reads, self._pipeline.family)
        reads = f"{counts.reads} reads: {counts.outcomes[WRONG]} wrong, {counts.outcomes[FAILED]} failed"
        self._progress.show(Moment(title=self._pipeline.title, runs=runs, notes=(reads, *self._notes())))

    def _read_on(self, runs: RunStates) -> None:
        """Let the readers of every family read what they must; they see the last state then."""
        deadline = time.monotonic() + READ_ON_FOR_S
        while time.monotonic() < deadline and not self._have_read_enough():
            self._show(runs)
            time.sleep(POLL_S)

    def _have_read_enough(self) -> bool:
        reads = self._stack.reads
        return all(least.reached(count_reads(reads, family)) for family, least in self._least.items())


def _stop(readers: list[ManagedProcess]) -> None:
    """Let every reader finish the read that goes on."""
    ask_to_end(readers)
    end(readers, grace_s=RETRY_FOR_S + 5)
