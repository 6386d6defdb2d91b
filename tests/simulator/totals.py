"""Many seeds, on several processors, and what they come to together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context

from tests.simulator.events import PROMISED, Event
from tests.simulator.outcome import Outcome
from tests.simulator.run import simulate

WHOLE_RUN = 300_000
"""Faults of a run that proves something: it meets each promised event fifty times."""
_TIMES_IN_A_WHOLE_RUN = 50
_AHEAD = 16
"""Seeds that are given out for each process: few would leave processes idle behind a long cascade, whose turn it is."""


@dataclass(slots=True)
class Totals:
    """Sums over seeds. :ivar broken: the outcomes that violate something."""

    seeds: int = 0
    steps: int = 0
    faults: int = 0
    epochs: int = 0
    seconds: float = 0.0
    events: Counter[Event] = field(default_factory=Counter)
    broken: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.steps += outcome.steps
        self.faults += outcome.faults
        self.epochs += outcome.epochs
        self.seconds += outcome.seconds
        self.events.update(outcome.events)
        if outcome.violation:
            self.broken.append(outcome)

    @property
    def rarest(self) -> tuple[int, Event]:
        """The promised event that was met least often, and how often."""
        return min((self.events[event], event) for event in PROMISED)

    def short_of(self, faults: int) -> list[str]:
        """Return the promises of a run until so many *faults* that this one has not kept.

        A shorter run than a whole one promises seven eighths of the events: some need a rare domain, and whether few
        seeds have such a domain is chance.
        """
        number, event = self.rarest
        unmet = sorted(event for event in PROMISED if not self.events[event])
        promises = {
            f"{self.faults} faults of {faults}": self.faults >= faults,
            # Members of groups and restatements meet faults of several attempts.
            f"{self.epochs} epochs, expected {faults // 12}": self.epochs >= faults // 12,
            f"{self.steps} steps, expected ten for each fault": self.steps >= 10 * self.faults,
            f"{event}: {number} times, expected {_TIMES_IN_A_WHOLE_RUN}": faults < WHOLE_RUN
            or number >= _TIMES_IN_A_WHOLE_RUN,
            f"not met: {', '.join(unmet)}": len(unmet) <= len(PROMISED) // 8,
        }
        return [words for words, kept in promises.items() if not kept]


def hush() -> None:
    """Let the package's warnings about what is simulated go nowhere."""
    logging.getLogger("airflow_provider").addHandler(logging.NullHandler())


def simulate_all(
    seeds: Iterable[int], *, faults: int | None, processes: int, told: Callable[[Totals], None]
) -> Totals:
    """Simulate *seeds* in their order until so many *faults* were injected, or one seed violates something.

    The outcome does not depend on *processes*: seeds beyond the last one that counts are thrown away.

    :param faults: None to go through all seeds.
    :param told: is called after each seed that counts.
    """
    totals = Totals()
    for outcome in _outcomes(iter(seeds), processes):
        totals.add(outcome)
        told(totals)
        if outcome.violation or (faults is not None and totals.faults >= faults):
            break
    return totals


def _outcomes(seeds: Iterator[int], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(simulate, seeds)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=hush) as pool:
        waiting: list[Future[Outcome]] = [
            pool.submit(simulate, seed) for seed in islice(seeds, _AHEAD * processes)
        ]
        try:
            while waiting:
                yield waiting.pop(0).result()
                waiting += [pool.submit(simulate, seed) for seed in islice(seeds, 1)]
        finally:
            for outcome in waiting:
                outcome.cancel()
