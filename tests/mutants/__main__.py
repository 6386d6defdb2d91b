"""``python -m tests.mutants``: plant each wrong rule in a copy of the project; something must fail.

The test that is known to notice it runs first; when it does not, the modules that it is one of run as a whole, and
then the simulation. Each of these runs on the unchanged code, too. It must pass there, and that says how long it
takes: a mutant that takes several times as long counts as found, by a run that did not end. The known tests run on
the unchanged code at the end, too: any failure finds a mutant, and a server or library that is gone fails all tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from threading import Lock
from types import FrameType

import psutil

from tests.mutants.planted import PLANTED, Mutant

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider"
COPIED = (PACKAGE, "tests", "demo", "scripts", "setup.cfg", "pyproject.toml", "versions.env")
JARS = ".jars"
TIMEOUT = 6
SHORTEST_LIMIT_S = 60.0
SIMULATION = ("-m", "tests.simulator", "--seeds", "0:12", "--processes", "1")
TESTING = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0")
NO_SERVERS = "not postgresql and not zookeeper"
ITS_TEST = "its test"
NO_TEST_RAN = 5
"""The exit code of pytest that says nothing of the code."""

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a command.

    :param failure: how it failed, or that it did not end; empty when all was well.
    """

    failure: str
    seconds: float


class BrokenBeforeError(RuntimeError):
    """The code fails although nothing is planted."""


class Unchanged:
    """The project with nothing planted: what runs on a mutant must pass here.

    :param place: its copy.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._limits: dict[Command, float] = {}
        self._one_at_a_time = Lock()

    def run(self, what: str, command: Command) -> float:
        """Run a command and return after how many seconds a mutant's counts as endless.

        :raises BrokenBeforeError: it fails.
        """
        ran = run(self.place, command)
        if ran.failure:
            raise BrokenBeforeError(f"the code fails before anything is planted: {what}, {ran.failure}")
        limit_s = max(SHORTEST_LIMIT_S, TIMEOUT * ran.seconds)
        print(
            f"{ran.seconds:5.0f} s  nothing planted: {what} passed; over {limit_s:.0f} s is endless",
            flush=True,
        )
        return limit_s

    def limit_s(self, what: str, command: Command) -> float:
        """The same, but each command runs only once."""
        with self._one_at_a_time:
            if command not in self._limits:
                self._limits[command] = self.run(what, command)
            return self._limits[command]


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
    parser.add_argument(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="K/N",
        help="the Kth of N parts: all of them take an hour",
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    number, parts = options.part
    chosen = [mutant for mutant in PLANTED if options.only in mutant.name or options.only == mutant.rule]
    chosen = chosen[(number - 1) * len(chosen) // parts : number * len(chosen) // parts]
    signal.signal(signal.SIGTERM, _interrupt)
    with (
        tempfile.TemporaryDirectory(prefix="epochs-mutants-") as directory,
        ThreadPoolExecutor(options.processes) as pool,
    ):
        Path(directory).chmod(0o755)  # servers have users of their own
        unchanged = Unchanged(_copied(ROOT, Path(directory) / "unchanged"))
        try:
            known_tests = _known_tests(chosen)
            first = list(pool.map(lambda command: unchanged.run("known tests", command), known_tests))
            judge = Judge(Path(directory), unchanged, known_s=max(first, default=SHORTEST_LIMIT_S))
            verdicts = list(pool.map(lambda mutant: _told(judge.verdict_on(mutant)), chosen))
            list(pool.map(lambda command: unchanged.run("known tests, once more", command), known_tests))
        except BrokenBeforeError as broken:
            pool.shutdown(cancel_futures=True)
            print(broken)
            return 1
    survivors = [verdict for verdict in verdicts if not verdict.killer]
    print(f"figure mutants.planted {len(verdicts)}")
    print(f"figure mutants.killed {len(verdicts) - len(survivors)}")
    return 1 if survivors else 0


def _part(text: str) -> tuple[int, int]:
    """Return K and N of ``K/N``."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r}; expected K/N with K from 1 to N, such as 2/4")
    return int(match[1]), int(match[2])


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    """End as Ctrl-C in a terminal does: what runs ends, and the copies are removed."""
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
    raise KeyboardInterrupt


def planted_text(mutant: Mutant, source: Path = ROOT) -> str:
    """The module with the error in it.

    :raises ValueError: the text to change is not there exactly once: the mutant has to follow the code.
    """
    text = (source / PACKAGE / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} is {text.count(mutant.old)} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


def run(place: Path, command: Command, limit_s: float | None = None) -> Ran:
    """Run Python with *command* in *place*; after *limit_s* end it, with all that it started.

    :raises ValueError: no test is what the command asks for.
    """
    # What is killed leaves files: they lie beside the copies, and go with them.
    environment = {
        **os.environ,
        "PYTHONPATH": str(place),
        "CI": "true",  # a known test that is skipped, for lack of a server's program, fails before anything is planted
        "TMPDIR": str(place.parent),
    }
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
                source = psutil.Process(process.pid)
                for started_by in (source, *source.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        started_by.kill()
    if process.returncode == NO_TEST_RAN:
        raise ValueError(f"nothing ran: {' '.join(command)}: {said[-300:]}")
    failure = "" if process.returncode == 0 else _first_failure(said) or f"exit code {process.returncode}"
    return Ran(failure, time.monotonic() - started)


def known(chosen: Sequence[Mutant]) -> Command:
    """Return what runs the tests that are known to notice *chosen*, which all need servers or all need none.

    Cases of the slow tier are left out: the same test runs on other stores.
    """
    modules = sorted({module for mutant in chosen for module in mutant.tests})
    names = " or ".join(sorted({mutant.by for mutant in chosen}))
    where = "" if chosen[0].servers else f" and {NO_SERVERS}"
    return (*TESTING, "-m", "not slow", "-k", f"({names}){where}", *modules)


def whole(mutant: Mutant) -> Command:
    """Return what runs a mutant's modules as a whole."""
    return (*TESTING, *(() if mutant.servers else ("-k", NO_SERVERS)), *mutant.tests)


def _known_tests(chosen: Sequence[Mutant]) -> list[Command]:
    """Return what runs all known tests: those on servers, which take longest, and two halves of the others."""
    plain = sorted(
        (mutant for mutant in chosen if mutant.by and not mutant.servers), key=lambda mutant: mutant.tests
    )
    on_servers = [mutant for mutant in chosen if mutant.by and mutant.servers]
    middle = len(plain) // 2
    return [known(some) for some in (on_servers, plain[:middle], plain[middle:]) if some]


def _first_failure(said: str) -> str:
    """The seed that violates something, or the test that fails."""
    lines = said.splitlines()
    return next((line for line in lines if line.startswith(("seed ", "FAILED", "ERROR"))), said[-150:])[:150]


@dataclass(frozen=True, slots=True)
class Judge:
    """Looks what notices a mutant.

    :param directory: of the copies. :param known_s: after so long a known test counts as endless.
    """

    directory: Path
    unchanged: Unchanged
    known_s: float

    def verdict_on(self, mutant: Mutant) -> Verdict:
        """Plant it in a copy, and run what may notice it until something does."""
        started = time.monotonic()
        place = _copied(self.unchanged.place, self.directory / f"mutant-{PLANTED.index(mutant)}")
        planted_in = place / PACKAGE / mutant.file
        planted_in.write_text(planted_text(mutant, place))
        Path(cache_from_source(planted_in)).unlink(missing_ok=True)
        killer = failure = ""
        for killer, command in self._in_turn(mutant):
            limit_s = self.known_s if killer == ITS_TEST else self.unchanged.limit_s(killer, command)
            failure = run(place, command, limit_s).failure
            if failure:
                break
        shutil.rmtree(place)
        return Verdict(mutant, f"{killer}, {failure}" if failure else "", time.monotonic() - started)

    def _in_turn(self, mutant: Mutant) -> Iterator[tuple[str, Command]]:
        if mutant.by:
            yield ITS_TEST, known([mutant])
        yield "its modules", whole(mutant)
        yield "the simulation", SIMULATION


def _told(verdict: Verdict) -> Verdict:
    said = f"killed by {verdict.killer}" if verdict.killer else "SURVIVED"
    print(f"{verdict.seconds:5.0f} s  {verdict.mutant.rule:4} {verdict.mutant.name}: {said}", flush=True)
    return verdict


def _copied(source: Path, place: Path) -> Path:
    """Copy what the tests need. Files keep their times, so that bytecode made in *source* is used in *place*, too."""
    place.mkdir()
    for name in COPIED:
        if (source / name).is_dir():
            ignored = "__pycache__" if source == ROOT else "*.pyc.*"  # what another run is writing
            shutil.copytree(source / name, place / name, ignore=shutil.ignore_patterns(ignored))
        else:
            shutil.copy(source / name, place / name)
    (ROOT / JARS).mkdir(exist_ok=True)
    (place / JARS).symlink_to(ROOT / JARS)  # what a test fetches there serves all copies
    return place


if __name__ == "__main__":
    sys.exit(main())
