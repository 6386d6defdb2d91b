"""``python -m tests.anomalies``: run the named schedules with this package and without it, and print one table."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.anomalies.collecting import Outcome, read_outcomes
from tests.anomalies.page import PAGE, cell, page, with_package, without
from tests.anomalies.plain.running import run, session
from tests.anomalies.schedules import ROOT, SUITE, schedules
from tests.anomalies.verdicts import PLAIN, STORES, Observed, Verdict, figures, save, verdicts

MODULES = "test_coordination_*.py"


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
    plain = without_this_package(names)
    found = verdicts(names, with_this_package(names), plain)
    show(found)
    if options.write:
        save(found)
        PAGE.write_text(page(found))
    known = schedules()
    return int(any(known[one.name].is_prevented and not one.is_prevented(known[one.name]) for one in found))


def without_this_package(names: Sequence[str]) -> Mapping[str, Mapping[str, Observed]]:
    """Run the schedules in plain Spark, and say what came of each when it is known."""
    plain: dict[str, Mapping[str, Observed]] = {}
    with session() as (spark, folder):
        for name in names:
            plain.update(run([name], spark, folder))
            said = [f"{title}: {without(plain[name][column])}" for column, title in PLAIN.items()]
            print(name, ", ".join(said), flush=True)
    return plain


def with_this_package(names: Sequence[str]) -> Sequence[Outcome]:
    """Run the tests that carry the ids on every store; print what pytest says of failures."""
    with tempfile.TemporaryDirectory(prefix="epochs-anomalies-") as directory:
        path = Path(directory) / "outcomes.json"
        modules = [str(one.relative_to(ROOT)) for one in sorted((ROOT / "tests/contract").glob(MODULES))]
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(min(2, os.cpu_count() or 1))]
        command += ["-p", "tests.anomalies.collecting", "-p", "no:cacheprovider", "--outcomes", str(path)]
        command += ["--schedules", ",".join(names), "--worlds", ",".join(STORES)]
        subprocess.run([*command, *modules], cwd=ROOT, check=False)
        return read_outcomes(path) if path.exists() else []


def show(found: Sequence[Verdict]) -> None:
    """Print the table and the figures."""
    known = schedules()
    table = Table("id", "with", *STORES.values(), *PLAIN.values(), title="Named schedules")
    for one in found:
        schedule = known[one.name]
        table.add_row(
            f"{one.name} {schedule.title}",
            with_package(one, schedule),
            *(cell(one, store) for store in STORES),
            *(without(one.plain.get(column)) for column in PLAIN),
        )
    Console(width=max(160, Console().width)).print(table)
    for name, value in figures(found, known).items():
        print(f"figure {name} {value}")


if __name__ == "__main__":
    sys.exit(main())
