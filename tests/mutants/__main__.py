"""``python -m tests.mutants``: plant each wrong rule in a copy of the project; something must fail."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.planted import PLANTED, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider"
COPIED = (PACKAGE, "tests", "setup.cfg", "pyproject.toml")
SEEDS = "0:12"


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
    with tempfile.TemporaryDirectory(prefix="epochs-mutants-") as directory:
        unchanged = _copy(Path(directory), "unchanged")
        failed = _simulated(unchanged)
        if failed:
            print(f"the code fails before anything is planted: {failed}")
            return 1
        with ThreadPoolExecutor(options.processes) as pool:
            verdicts = list(pool.map(lambda one: _told(_judged(Path(directory), one)), chosen))
    survivors = [one for one in verdicts if not one.killer]
    print(f"figure mutants.planted {len(verdicts)}")
    print(f"figure mutants.killed {len(verdicts) - len(survivors)}")
    return 1 if survivors else 0


def planted_text(mutant: Mutant, root: Path = ROOT) -> str:
    """The module with the error in it.

    :raises ValueError: the text to change is not there exactly once: the mutant has to follow the code.
    """
    text = (root / PACKAGE / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} is {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def _judged(directory: Path, mutant: Mutant) -> Verdict:
    started = time.monotonic()
    place = _copy(directory, f"mutant-{PLANTED.index(mutant)}")
    (place / PACKAGE / mutant.file).write_text(planted_text(mutant, place))
    killer = _simulated(place) or _tested(place, mutant.tests)
    shutil.rmtree(place)
    return Verdict(mutant, killer, time.monotonic() - started)


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


def _simulated(place: Path) -> str:
    """The violation that a short simulation finds."""
    command = ["-m", f"{PACKAGE}.testing.simulation", "--seeds", SEEDS, "--processes", "1"]
    code, said = _run(place, command)
    if code == 0:
        return ""
    found = [line for line in said.splitlines() if line.startswith("seed ")]
    return f"simulation, {found[0][:150]}" if found else f"simulation: {said[-150:]}"


def _tested(place: Path, tests: Sequence[str]) -> str:
    """The first test that fails."""
    code, said = _run(place, ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests])
    failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if code == 0 else f"test, {failed[0][:150]}" if failed else f"tests: {said[-150:]}"


def _run(place: Path, command: list[str]) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
