"""The act after each half: past days are corrected at the source, and computed again while readers read.

With the package by one command, ``airflow epochs backfill``, and then taken back; the naive twin by clearing tasks, as
Airflow's documentation has it.
"""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from demo.figures import Figures, ReadCounts, count_reads
from demo.phase import FINISHED, POLL_S
from demo.processes import ManagedProcess, ask_to_end, end
from demo.progress import LINE_EVERY_S
from demo.readers.reading import FAILED, RETRY_FOR_S, WRONG
from demo.readers.restated import NEW, OLD
from demo.stack import DemoStack

DOMAIN = "nyc"
NAME = "corrected"
READERS = 2
LEAST_READS = 25
"""Reads before the first change, and of each state that there is to be read."""
READ_ON_FOR_S = 120.0
EPOCHS, TWIN = "restated", "twin_restated"
"""The readers' families."""
_REASON = "the airport had sent a tenth of the flights by mistake"

Say = Callable[[str], None]


class CorrectionFailedError(RuntimeError):
    """A command of the act failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrected:
    """What the act with the package gave.

    :param epochs: that were computed again. :param csns: of the swap, and of the commit that took it back.
    """

    counts: ReadCounts
    epochs: int
    csns: tuple[int, ...]
    mixed: int

    @property
    def figures(self) -> Figures:
        return {
            "demo.restate.reads": self.counts.reads,
            "demo.restate.inconsistent": self.counts.outcomes[WRONG] + self.mixed,
            "demo.restate.failed": self.counts.outcomes[FAILED],
            "demo.restate.epochs": self.epochs,
            "demo.restate.swaps": len(self.csns),
        }


def correct_with_epochs(stack: DemoStack, say: Say, *, period_s: float) -> Corrected:
    """Correct days at the source, restate them through all DAGs, and take it back, while readers read.

    :param period_s: seconds from one read's start to the same reader's next.
    :raises CorrectionFailedError: a command failed.
    """
    days = stack.plan.corrected
    readers = _started(stack, EPOCHS, period_s)
    until = _Reads(stack.reads, EPOCHS, readers)
    until.have_read(LEAST_READS)
    stack.correct(days)
    say(f"Corrected the flights of {days[0]} to {days[-1]} at the source.")
    span = f"{days[0]}/{days[-1] + timedelta(days=1)}"
    words = [
        "flights",
        "--interval",
        span,
        "--name",
        NAME,
        "--reason",
        _REASON,
        "--max-active-runs",
        "2",
        "--yes",
    ]
    with _telling(say, lambda: f"Computing them again, {until.told()}."):
        swapped = json.loads(_typed(stack, say, "backfill", *words))
    say(
        f"Computed {swapped['epochs']} epochs of {len(swapped['dags'])} DAGs again: visible at CSN {swapped['csn']}."
    )
    until.have_read(LEAST_READS, since=int(swapped["csn"]))
    reverted = json.loads(_typed(stack, say, "restate", "revert", NAME, "--reason", "to show it"))
    say(f"Taken back: the former rows are visible again at CSN {reverted['csn']}.")
    stack.take_back(days)
    until.have_read(LEAST_READS, since=int(reverted["csn"]))
    _stopped(readers)
    csns = int(swapped["csn"]), int(reverted["csn"])
    return Corrected(
        counts=count_reads(stack.reads, EPOCHS),
        epochs=int(swapped["epochs"]),
        csns=csns,
        mixed=_of_another_version(stack.reads, csns),
    )


def correct_the_twin(stack: DemoStack, say: Say, dags: Sequence[str], *, period_s: float) -> ReadCounts:
    """Correct the twin's days at the source, and clear the tasks of all its runs, while readers read.

    :param dags: in the order in which data flows.
    """
    rest, readers = stack.airflow.rest, _started(stack, TWIN, period_s)
    until = _Reads(stack.reads, TWIN, readers)
    until.have_read(LEAST_READS)
    stack.correct(stack.plan.twin_corrected)
    say(f"Corrected the flights of {' and '.join(map(str, stack.plan.twin_corrected))} at the source.")
    runs = [(dag, str(run["dag_run_id"])) for dag in dags for run in rest.dag_runs(dag)]
    with _telling(say, lambda: f"Clearing the tasks of {len(runs)} runs of the twin, {until.told()}."):
        for dag, run in runs:
            rest.clear(dag, run)
    say(f"Cleared the tasks of {len(runs)} runs of the twin.")
    next_line_at = time.monotonic() + LINE_EVERY_S
    while left := sum(run["state"] not in FINISHED for dag in dags for run in rest.dag_runs(dag)):
        stack.check()
        if time.monotonic() >= next_line_at:
            say(f"{len(runs) - left} of {len(runs)} runs of the twin are done again, {until.told()}.")
            next_line_at += LINE_EVERY_S
        time.sleep(POLL_S)
    _stopped(readers)
    return count_reads(stack.reads, TWIN)


@contextmanager
def _telling(say: Say, told: Callable[[], str]) -> Iterator[None]:
    """Say *told* every ten seconds while the block runs."""
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(LINE_EVERY_S):
            say(told())

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class _Reads:
    folder: Path
    family: str
    readers: Sequence[ManagedProcess]

    def have_read(self, number: int, *, since: int = 0) -> None:
        """Wait until so many reads were of CSN *since* or later, or two minutes are over.

        :raises ProcessFailedError: a reader ended.
        """
        deadline = time.monotonic() + READ_ON_FOR_S
        while time.monotonic() < deadline:
            for reader in self.readers:
                reader.check()
            if self.count(since=since) >= number:
                return
            time.sleep(1.0)

    def told(self) -> str:
        """Return the number of reads, and of the wrong ones, as text."""
        counts = count_reads(self.folder, self.family)
        return f"{counts.reads} reads until now, {counts.bad} of them wrong or failed"

    def count(self, *, since: int = 0) -> int:
        """Return how many reads were of CSN *since* or later."""
        return sum((read["csn"] or 0) >= since for read in _lines(self.folder, self.family))


def _started(stack: DemoStack, family: str, period_s: float) -> list[ManagedProcess]:
    readers = [stack.reader(family, f"adhoc-{number}", period_s=period_s) for number in range(1, READERS + 1)]
    for reader in readers:
        reader.start()
    return readers


def _stopped(readers: list[ManagedProcess]) -> None:
    ask_to_end(readers)
    end(readers, grace_s=RETRY_FOR_S + 5)


def _typed(stack: DemoStack, say: Say, *words: str) -> str:
    """Run ``airflow epochs`` as a user would; say the command, and return what it prints as JSON.

    :raises CorrectionFailedError: its exit code is not 0.
    """
    command = ("epochs", *words, "--domain", DOMAIN)
    say(f"$ airflow {shlex.join(command)}")
    done = stack.airflow.run(*command, "-o", "json")
    if done.returncode:
        raise CorrectionFailedError(f"airflow {shlex.join(command)}: {done.stderr[-2000:]}")
    return done.stdout


def _of_another_version(folder: Path, csns: tuple[int, int]) -> int:
    """Count the reads that saw right totals of the rows that were not visible at their CSN."""
    swapped, reverted = csns
    expected = (
        (read, NEW if swapped <= (read["csn"] or 0) < reverted else OLD) for read in _lines(folder, EPOCHS)
    )
    return sum(bool(read["versions"]) and version not in read["versions"] for read, version in expected)


def _lines(folder: Path, family: str) -> list[dict[str, Any]]:
    found = (
        path.read_text(encoding="utf-8").splitlines() for path in sorted(folder.glob(f"{family}-*.jsonl"))
    )
    return [json.loads(line) for lines in found for line in lines]
