"""``python -m tests.anomalies``: run the named schedules with this package and without it, and print one table."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.anomalies.collecting import Outcome, read_outcomes
from tests.anomalies.page import PAGE, page, table, without
from tests.anomalies.plain import running
from tests.anomalies.schedules import ROOT, SUITE, schedules
from tests.anomalies.schedules import modules as modules_of_schedules
from tests.anomalies.verdicts import PLAIN, STATEMENTS, STORES, Observed, Verdict, figures, save, verdicts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was chosen; return 1 unless every schedule stands as the docs say."""
    parser = argparse.ArgumentParser(prog="anomalies", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="ID", help="schedules, such as ISO6; all of them if none")
    parser.add_argument("--write", action="store_true", help="keep what ran, as the page in docs/reference")
    options = parser.parse_args(arguments)
    names = [name.upper() for name in options.names] or list(SUITE)
    if unknown := sorted(set(names) - set(SUITE)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(SUITE)}")
    if options.write and names != list(SUITE):
        parser.error("--write keeps a run of all schedules: name none")
    with with_this_package(names) as runs:
        plain = without_this_package(names)
        found = verdicts(names, [outcome for run in runs for outcome in run.ended()], plain)
    show(found)
    if options.write:
        save(found)
        PAGE.write_text(page(found))
    return int(not all(verdict.stands for verdict in found))


def without_this_package(names: Sequence[str]) -> Mapping[str, Mapping[str, Observed]]:
    """Run the schedules in plain Spark, and say what came of each when it is known."""
    plain: dict[str, Mapping[str, Observed]] = {}
    with running.session() as (spark, folder):
        for name in names:
            plain.update(running.run([name], spark, folder))
            said = [f"{title}: {without(plain[name][column])}" for column, title in PLAIN.items()]
            print(name, ", ".join(said), flush=True)
    return plain


@contextmanager
def with_this_package(names: Sequence[str]) -> Iterator[list[Run]]:
    """Run the tests that carry the ids on every store, in two processes beside the block: Spark's worlds, and others.

    Each process starts each server, or Spark, once. Those that still run at the block's end are interrupted.
    """
    others = [store for store in STORES if store not in STATEMENTS]
    with tempfile.TemporaryDirectory(prefix="epochs-anomalies-") as directory, ExitStack() as stack:
        yield [
            stack.enter_context(Run.of(names, worlds, Path(directory) / str(number)))
            for number, worlds in enumerate((sorted(STATEMENTS), others))
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A process with tests.

    :param outcomes: the file that it writes at its end. :param said: the file with what it prints.
    """

    process: subprocess.Popen[bytes]
    outcomes: Path
    said: Path

    @classmethod
    @contextmanager
    def of(cls, names: Sequence[str], worlds: Sequence[str], folder: Path) -> Iterator[Run]:
        """Start the tests of *names* in *worlds*."""
        folder.mkdir()
        outcomes, said = folder / "outcomes.json", folder / "said.txt"
        begins = [f"def test_{name.lower()}_" for name in names]
        modules = [
            str(module.relative_to(ROOT))
            for module in modules_of_schedules()
            if any(begin in module.read_text() for begin in begins)
        ]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0"]
        command += ["-p", "tests.anomalies.collecting", "-p", "no:cacheprovider", "--outcomes", str(outcomes)]
        command += ["--schedules", ",".join(names), "--worlds", ",".join(worlds), *modules]
        with (
            said.open("w") as output,
            subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as process,
        ):
            try:
                yield cls(process=process, outcomes=outcomes, said=said)
            finally:
                process.send_signal(signal.SIGINT)  # does nothing to one that has ended

    def ended(self) -> Sequence[Outcome]:
        """Wait for its end; print what pytest says, and return what came of each test."""
        self.process.wait()
        print(self.said.read_text(), flush=True)
        return read_outcomes(self.outcomes) if self.outcomes.exists() else []


def show(found: Sequence[Verdict]) -> None:
    """Print the table and the figures."""
    Console().print(table(found))
    for name, value in figures(found, schedules()).items():
        print(f"figure {name} {value}")


if __name__ == "__main__":
    sys.exit(main())
