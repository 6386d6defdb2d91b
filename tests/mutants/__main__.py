"""``python -m tests.mutants``: plant each wrong rule in a copy of the project; something must fail.

The unchanged code runs first. It must pass, and it says how long a run takes: a mutant that takes several times
as long counts as found, by a run that did not end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from tests.mutants.planted import PLANTED, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider"
COPIED = (PACKAGE, "tests", "demo", "setup.cfg", "pyproject.toml")
PATIENCE = 6
SHORTEST_LIMIT_S = 60.0
SIMULATION = ("-m", f"{PACKAGE}.testing.simulation", "--seeds", "0:12", "--processes", "1")
TESTING = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
NO_SERVERS = ("-k", "not postgresql and not zookeeper")


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a command.

    :param failure: how it failed, or that it did not end; empty when all was well.
    """

    failure: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which the simulation, and the tests of a mutant, are taken for endless."""

    simulation_s: float
    tests_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What noticed a mutant; empty when nothing did."""

    mutant: Mutant
    killer: str
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all mutants, print who killed each and the figures; return 1 when one survives."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name or rule contains this")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    chosen = [one for one in PLANTED if options.only in one.name or options.only == one.rule]
    print("first the simulation and the tests with nothing planted, one to three minutes", flush=True)
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="epochs-mutants-") as directory:
        limits = _limits(_copy(Path(directory), "unchanged"), chosen)
        if limits is None:
            return 1
        with ThreadPoolExecutor(options.processes) as pool:
            verdicts = list(pool.map(lambda one: _told(_judged(Path(directory), one, limits)), chosen))
    survivors = [one for one in verdicts if not one.killer]
    print(f"figure mutants.planted {len(verdicts)}")
    print(f"figure mutants.killed {len(verdicts) - len(survivors)}")
    return 1 if survivors else 0


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    """End as Ctrl-C in a terminal does: what runs ends, and the copies are removed."""
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    raise KeyboardInterrupt


def planted_text(mutant: Mutant, root: Path = ROOT) -> str:
    """The module with the error in it.

    :raises ValueError: the text to change is not there exactly once: the mutant has to follow the code.
    """
    text = (root / PACKAGE / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} is {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def run(place: Path, command: Sequence[str], limit_s: float | None = None) -> Ran:
    """Run Python with *command* in *place*; after *limit_s* end it, with all that it started."""
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    started = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return Ran(f"did not end within {limit_s:.0f} s", time.monotonic() - started)
        finally:
            if process.poll() is None:
                root = psutil.Process(process.pid)
                for one in (root, *root.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        one.kill()
    failure = "" if process.returncode == 0 else _first_failure(said)
    return Ran(failure, time.monotonic() - started)


def testing(tests: Sequence[str], *, servers: bool) -> tuple[str, ...]:
    """Return what runs *tests*, on servers, too, or only where none is needed."""
    return (*TESTING, *(() if servers else NO_SERVERS), *tests)


def _first_failure(said: str) -> str:
    """The seed that violates something, or the test that fails."""
    lines = said.splitlines()
    return next((one for one in lines if one.startswith(("seed ", "FAILED", "ERROR"))), said[-150:])[:150]


def _limits(unchanged: Path, chosen: Sequence[Mutant]) -> Limits | None:
    """How long a run may take, from what the unchanged code takes; None when that fails."""
    commands: list[tuple[str, Sequence[str]]] = [("simulation", SIMULATION)]
    for servers in (False, True):
        tests = sorted({test for one in chosen if one.servers is servers for test in one.tests})
        if tests:
            commands.append(("tests on servers" if servers else "tests", testing(tests, servers=servers)))
    found: list[float] = []
    for what, command in commands:
        ran = run(unchanged, command)
        if ran.failure:
            print(f"the code fails before anything is planted: {what}, {ran.failure}")
            return None
        found.append(max(SHORTEST_LIMIT_S, PATIENCE * ran.seconds))
        print(
            f"{ran.seconds:5.0f} s  nothing planted: {what} passed; "
            f"a mutant's that take over {found[-1]:.0f} s count as endless",
            flush=True,
        )
    return Limits(found[0], max(found[1:]))


def _judged(directory: Path, mutant: Mutant, limits: Limits) -> Verdict:
    started = time.monotonic()
    place = _copy(directory, f"mutant-{PLANTED.index(mutant)}")
    (place / PACKAGE / mutant.file).write_text(planted_text(mutant, place))
    killer, failure = (
        "test",
        run(place, testing(mutant.tests, servers=mutant.servers), limits.tests_s).failure,
    )
    if not failure:
        killer, failure = "simulation", run(place, SIMULATION, limits.simulation_s).failure
    shutil.rmtree(place)
    return Verdict(mutant, f"{killer}, {failure}" if failure else "", time.monotonic() - started)


def _told(verdict: Verdict) -> Verdict:
    said = f"killed by {verdict.killer}" if verdict.killer else "SURVIVED"
    print(f"{verdict.seconds:5.0f} s  {verdict.mutant.rule:4} {verdict.mutant.name}: {said}", flush=True)
    return verdict


def _copy(directory: Path, name: str) -> Path:
    place = directory / name
    place.mkdir()
    for one in COPIED:
        source = ROOT / one
        if source.is_dir():
            shutil.copytree(source, place / one, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place / one)
    return place


if __name__ == "__main__":
    sys.exit(main())
