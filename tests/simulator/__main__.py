"""``python -m tests.simulator``: simulate seeds and say what came of them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import count

from airflow_provider.domain.errors import InvalidInput
from tests.simulator.events import PROMISED, Event
from tests.simulator.outcome import Outcome
from tests.simulator.run import simulate
from tests.simulator.totals import WHOLE_RUN, Totals, hush, simulate_all

_TOLD_EVERY_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the counts and, as the last lines, the figures; return 1 when an invariant was violated.

    Without seeds by name it also returns 1 when it has met less than it promises: then it has shown nothing.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    hush()
    if options.trace is not None:
        return _show(options.trace)
    try:
        seeds, faults = _seeds(options.seeds), None if options.seeds else options.faults
    except InvalidInput as error:
        parser.error(str(error))
    started = time.monotonic()
    totals = simulate_all(seeds, faults=faults, processes=options.processes, told=_Progress(started, faults))
    short = [] if faults is None or totals.broken else totals.short_of(faults)
    _print(totals, time.monotonic() - started, short)
    return 1 if totals.broken or short else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument(
        "--seeds", default="", help="such as 7, 0:200 or 3,5,8; the first ones until --faults"
    )
    parser.add_argument("--faults", type=int, default=WHOLE_RUN, help="how many faults, without --seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", type=int, metavar="SEED", help="print all that happens in one seed")
    return parser


def _seeds(text: str) -> Iterable[int]:
    """The seeds that *text* names; all of them, from 0 on, when it is empty."""
    if not text:
        return count()
    try:
        low, _, high = text.partition(":")
        return range(int(low), int(high)) if high else [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise InvalidInput(
            field="seeds", value=text, expected="a number, numbers with commas, or FIRST:END"
        ) from error


class _Progress:
    """Says every few seconds how far it has come."""

    def __init__(self, started: float, faults: int | None) -> None:
        self._started = self._said = started
        self._wanted = f" of {faults}" if faults else ""

    def __call__(self, totals: Totals) -> None:
        now = time.monotonic()
        if now - self._said >= _TOLD_EVERY_S:
            self._said = now
            print(
                f"{now - self._started:5.0f} s: {totals.seeds} seeds, {totals.faults}{self._wanted} faults, "
                f"{totals.epochs} epochs, {totals.seconds / 3600:.0f} simulated hours",
                flush=True,
            )


def _print(totals: Totals, took: float, short: Sequence[str]) -> None:
    for outcome in totals.broken:
        _print_broken(outcome)
    print(
        f"{totals.seeds} seeds, {totals.steps} steps, one fault in {totals.steps / max(1, totals.faults):.1f}, "
        f"{totals.seconds / 3600:.0f} simulated hours in {took:.0f} s"
    )
    for event in Event:
        print(f"  {totals.events[event]:7d}  {event}{'  (promised)' if event in PROMISED else ''}")
    number, rarest = totals.rarest
    print(f"the rarest of those promised: {rarest}")
    for words in short:
        print(f"less than promised: {words}")
    print(f"figure simulate.faults {totals.faults}")
    print(f"figure simulate.epochs {totals.epochs}")
    print(f"figure simulate.violations {len(totals.broken)}")
    print(f"figure simulate.rarest_event {number}")


def _print_broken(outcome: Outcome) -> None:
    print(f"seed {outcome.seed}: {outcome.violation}")
    print(f"  all of it: python -m tests.simulator --trace {outcome.seed}")


def _show(seed: int) -> int:
    lines: list[str] = []
    outcome = simulate(seed, trace=lines)
    print("\n".join(lines))
    print(f"trace {outcome.trace}")
    if outcome.violation:
        _print_broken(outcome)
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main())
