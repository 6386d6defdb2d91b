"""The simulation itself: many faults and no violation, the same history for the same seed, and eyes that see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from airflow_provider.coordination.service import EpochService
from tests.simulator import __main__ as command
from tests.simulator.run import Outcome, simulate
from tests.simulator.scheduler import Process, Scheduler
from tests.simulator.totals import Totals, simulate_all

FAULTS = 6_000
BY_ANOTHER_PROCESS = """
import json, sys
from tests.simulator.run import simulate
print(json.dumps([simulate(int(seed)).trace for seed in sys.argv[1:]]))
"""


def test_faults_without_end_violate_nothing() -> None:
    """R1, R2, R3, R5, R7, R9, R10, R11, R13, R14, R15, R16, R18, R19, R20, R22, R23, R24, R28, R29, R30, R40, I1, I2,
    I3, I4, I5, I6, I7, I8, I9, I10, I11: six thousand faults; seven eighths of the kinds of trouble were met.
    """
    totals = simulate_all(_all_seeds(), faults=FAULTS, processes=2, told=_show)
    assert [(outcome.seed, outcome.violation) for outcome in totals.broken] == []
    assert totals.short_of(FAULTS) == []


def _all_seeds() -> Sequence[int]:
    return range(10**6)


def _show(totals: Totals) -> None:
    print(f"seeds {totals.seeds}: {totals.faults} faults")


def test_a_seed_is_one_history() -> None:
    """The same seed gives the same trace, in another process with other hashes too; another seed another."""
    seeds = (3, 4)
    here = [simulate(seed).trace for seed in seeds]
    environment = {**os.environ, "PYTHONHASHSEED": "42"}
    told = subprocess.run(
        [sys.executable, "-c", BY_ANOTHER_PROCESS, *map(str, seeds)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(told.stdout) == here
    assert len(set(here)) == len(seeds)


def test_a_process_that_another_has_started_waits_like_any() -> None:
    """Each sleeps for as long as it says: what a child does wakes no parent."""
    woken: list[float] = []
    scheduler = Scheduler(Random(0), datetime(2024, 1, 1, tzinfo=UTC))

    def child(process: Process) -> None:
        for _ in range(20):
            process.sleep(timedelta(seconds=1))

    def parent(process: Process) -> None:
        scheduler.spawn("child", child)
        for _ in range(2):
            process.sleep(timedelta(seconds=10))
            woken.append(scheduler.clock.monotonic())

    scheduler.spawn("parent", parent)
    while scheduler.processes:
        scheduler.step()
    assert woken[0] >= 10
    assert woken[1] >= woken[0] + 10


def test_trace_lists_the_events() -> None:
    lines: list[str] = []
    outcome = simulate(3, trace=lines)
    assert simulate(3).trace == outcome.trace
    assert sum("applied" in line for line in lines) > outcome.epochs
    assert outcome.events
    told = {event: sum(f"event {event}" in line for line in lines) for event in outcome.events}
    assert told == outcome.events


def test_an_error_in_the_coordination_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no process expects ends the run, with its name."""

    def broken(*_given: object, **_named: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(EpochService, "complete", broken)
    assert "RuntimeError: planted" in simulate(0).violation


def test_the_command_prints_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "1", "--processes", "1"]) == 0
    figures = dict(line.split()[1:] for line in capsys.readouterr().out.splitlines()[-4:])
    assert list(figures) == [
        "simulate.faults",
        "simulate.epochs",
        "simulate.violations",
        "simulate.rarest_event",
    ]
    outcome = simulate(1)
    assert int(figures["simulate.faults"]) == outcome.faults
    assert int(figures["simulate.epochs"]) == outcome.epochs
    assert figures["simulate.violations"] == "0"


def test_a_violation_fails_the_command_and_says_how_to_see_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Outcome(
        seed=7, steps=10, faults=1, epochs=0, events={}, seconds=1.0, trace="", violation="I2: a gap"
    )
    monkeypatch.setattr("tests.simulator.totals.simulate", lambda _seed: broken)
    assert command.main(["--seeds", "7:9", "--processes", "1"]) == 1
    said = capsys.readouterr().out
    assert "seed 7: I2: a gap" in said
    assert "--trace 7" in said
    assert "figure simulate.violations 1" in said


def test_a_run_that_has_met_too_little_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing violated and nothing tried is no proof; what is missing is named."""
    idle = Outcome(seed=0, steps=9, faults=2000, epochs=1, events={}, seconds=1.0, trace="", violation="")
    monkeypatch.setattr("tests.simulator.totals.simulate", lambda _seed: idle)
    assert command.main(["--faults", "4000", "--processes", "1"]) == 1
    said = capsys.readouterr().out
    assert "less than promised: 2 epochs, expected 333\n" in said
    assert "less than promised: 18 steps, expected ten for each fault\n" in said
    assert "not met: " in said
    assert "epoch skipped" in said
    assert "expected 50" not in said, "so few faults promise no rates"
    assert "faults of" not in said, "there were as many as asked for"
    assert command.main(["--seeds", "0", "--processes", "1"]) == 0, "who names seeds wants these"
    whole = replace(idle, faults=100_000)
    monkeypatch.setattr("tests.simulator.totals.simulate", lambda _seed: whole)
    assert command.main(["--processes", "1"]) == 1
    assert ": 0 times, expected 50\n" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["x", "1:y", "1,,2"])
def test_seeds_that_are_none_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--seeds", text])
    assert ended.value.code == 2
    assert f"seeds: {text!r} is not accepted; expected a number" in capsys.readouterr().err
