"""``python -m tests.versions``: install the wheel on each declared version of Airflow and Python, and run its tests.

A cell's environment and its copy of the tests are in ``.versions/``; the environment stays, and is made anew when the
pins change. The tests import the package from the wheel: their copy of the checkout has links to it in its place.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.architecture.sources import ROOT, tracked_files
from tests.versions.cells import CELLS, LEFT_OUT, Cell, MissingPythonError, selected

HOME = ROOT / ".versions"
PACKAGES = ("airflow_provider", "airflow_provider_epochs")
EXTRAS = "demo,dev,duckdb,glue,hive,postgres,zookeeper"
FILTERS = (
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore:unclosed database:ResourceWarning",
)
"""Warnings that are no errors in a cell: what an older Airflow is told by newer libraries, and what Python 3.13
says of connections to SQLite that are left to its garbage collector, as older ones do not. No class of Airflow is
among them: to find it, pytest would import Airflow before the tests have given it a home.
"""


def main() -> int:
    """Run all cells, or those that are named; return 0 if every one passed."""
    options = _options()
    cells = [cell for cell in CELLS if not options.cell or cell.name in options.cell]
    try:
        pythons = {cell: cell.interpreter() for cell in cells}
    except MissingPythonError as error:
        print(error)
        return 1
    HOME.mkdir(exist_ok=True)
    wheel = _wheel()
    for module, why in LEFT_OUT.items():
        print(f"left out in every cell: {module}, which {why}", flush=True)
    results = {cell: _run(cell, pythons[cell], wheel, options) for cell in cells}
    print()
    for cell, (passed, told) in results.items():
        print(f"{'ok    ' if passed else 'FAILED'} {cell.name}: {told}")
    return 0 if all(passed for passed, _ in results.values()) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    names = [cell.name for cell in CELLS]
    parser.add_argument("--cell", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--workers", default="2", help="processes that share a cell's tests; default: 2")
    parser.add_argument("tests", nargs="*", help="tests, in place of those that each cell has")
    return parser.parse_args()


def _run(cell: Cell, python: str, wheel: Path, options: argparse.Namespace) -> tuple[bool, str]:
    """Install the wheel and run the tests in *cell*; return whether they passed, and pytest's last line."""
    place = HOME / cell.name
    venv = _environment(cell, python, place, wheel)
    tree = _tree(place, venv)
    mine = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PYTHON", "AIRFLOW", "PYSPARK"))
    }
    environment = {**mine, "CI": "true", "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    words = ["-m", "pytest", "-q", "-n", options.workers, "-p", "no:cacheprovider"]
    words += [word for filtered in FILTERS for word in ("-W", filtered)]
    log = place / "tests.log"
    print(f"{cell.name}: {wheel.name}, {_said(venv)}; tests in {log}", flush=True)
    started = time.monotonic()
    with log.open("w") as out:
        done = subprocess.run(
            [str(venv / "bin/python"), *words, *(options.tests or selected())],
            cwd=tree, env=environment, stdout=out, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    lines = [line.strip("= ") for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if done.returncode:
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))))
    told = (
        "; ".join([*(line for line in lines if line.startswith("left out: ")), *lines[-1:]]) or "no test ran"
    )
    print(f"{cell.name}: {told}", flush=True)
    return done.returncode == 0, f"{told} ({time.monotonic() - started:.0f} s)"


def _said(venv: Path) -> str:
    """Return the versions that are there: not those that were asked for."""
    program = (
        "import sys, importlib.metadata as m; "
        "print('Airflow', m.version('apache-airflow-core') + ', Python', sys.version.split()[0])"
    )
    return subprocess.run(
        [str(venv / "bin/python"), "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


def _wheel() -> Path:
    """Build the wheel from the files that git has."""
    source = HOME / "source"
    shutil.rmtree(source, ignore_errors=True)
    _copy(source, [path for path in tracked_files() if path.relative_to(ROOT).parts[0] != "tests"])
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    done = subprocess.run([sys.executable, *words], cwd=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the wheel cannot be built:\n{done.stdout}{done.stderr}")
    (wheel,) = (source / "dist").glob("*.whl")
    return wheel


def _copy(folder: Path, paths: list[Path]) -> None:
    for path in paths:
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def _environment(cell: Cell, python: str, place: Path, wheel: Path) -> Path:
    """Make the environment of *cell*, unless it is there as the pins say; install the wheel; return its folder."""
    venv, stamp, pins = place / "venv", place / "pins.txt", place / "constraints.txt"
    wanted = "".join(f"{name}=={version}\n" for name, version in sorted(cell.pins().items()))
    wanted += f"# {python} {(ROOT / 'setup.cfg').read_text()}".replace("\n", "\n# ")
    place.mkdir(parents=True, exist_ok=True)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"{cell.name}: installing {len(cell.pins())} packages for {python}", flush=True)
        stamp.unlink(missing_ok=True)
        pins.write_text("".join(f"{name}=={version}\n" for name, version in cell.pins().items()))
        subprocess.run([python, "-m", "venv", "--clear", str(venv)], check=True)
        subprocess.run([*pip, "-c", str(pins), f"{wheel}[{EXTRAS}]"], check=True)
        subprocess.run([str(venv / "bin/python"), "-m", "pip", "check"], check=True)
        stamp.write_text(wanted)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
    return venv


def _tree(place: Path, venv: Path) -> Path:
    """Make a copy of what the tests need, in which the package is the one that was installed; return its folder."""
    tree = place / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    _copy(tree, [path for path in tracked_files() if path.relative_to(ROOT).parts[0] not in PACKAGES])
    (site,) = venv.glob("lib/python*/site-packages")
    for package in PACKAGES:
        (tree / package).symlink_to(site / package)
    return tree


if __name__ == "__main__":
    sys.exit(main())
