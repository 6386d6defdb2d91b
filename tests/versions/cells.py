"""The versions of Airflow and of Python that the package declares, each pair that is tested a cell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.sources import ROOT

PINS = Path(__file__).parent
SELECTED = ("tests/unit", "tests/integration", "tests/architecture/test_provider.py")
"""Where the tests of a cell are; of the integration tier those whose module begins with ``test_airflow_``."""
IN_BROWSER = "tests/system/test_page_in_browser.py"
"""The page in the UI of the cell's Airflow."""
LEFT_OUT = {
    "test_airflow_decorator": "starts a Spark Connect server",
    "test_airflow_postgresql": "starts a PostgreSQL server",
    "test_airflow_spark_submit": "starts Spark for each of its tests",
}
"""Modules of these that no cell runs, each with the reason."""


class MissingPythonError(Exception):
    """An interpreter that a cell needs is not on this machine."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One version of Airflow on one of Python, such as 3.2 on 3.11."""

    airflow: str
    python: str

    @property
    def name(self) -> str:
        return f"airflow-{self.airflow}-python-{self.python}"

    def pins(self) -> dict[str, str]:
        """Return the exact version of each package: those of constraints.txt, but what this cell's own files pin."""
        found: dict[str, str] = {}
        for file in (
            ROOT / "constraints.txt",
            PINS / f"airflow-{self.airflow}.txt",
            PINS / f"python-{self.python}.txt",
        ):
            if file.exists():
                found |= dict(_pins(file))
        return found

    def interpreter(self) -> str:
        """Return the path of a Python of this cell's version, which can make virtual environments.

        :raises MissingPythonError: there is none; says how to get one.
        """
        for candidate in self._candidates():
            program = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2], sys.executable)"
            asked = [candidate, "-c", program]
            try:
                done = subprocess.run(asked, capture_output=True, text=True, check=False)
            except OSError:
                continue
            found, _, path = done.stdout.strip().partition(" ")
            if (
                found == self.python
            ):  # the path of a program that stands for one of many may be another's tomorrow
                return path
        raise MissingPythonError(
            f"missing: Python {self.python} with venv, for {self.name}. Install it (`pyenv install {self.python}`, "
            f"`uv python install {self.python}`, or your system's python{self.python} and python{self.python}-venv), "
            f"or name it: {self._variable}=/path/to/python{self.python}"
        )

    @property
    def _variable(self) -> str:
        return f"PYTHON_{self.python.replace('.', '_')}"

    def _candidates(self) -> Iterator[str]:
        program = f"python{self.python}"
        if named := os.environ.get(self._variable):
            yield named
            return
        if found := shutil.which(program):
            yield found
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
        uv = Path.home() / ".local/share/uv/python"
        for folder, pattern in ((pyenv, f"versions/{self.python}.*"), (uv, f"cpython-{self.python}.*")):
            yield from (str(path) for path in sorted(folder.glob(f"{pattern}/bin/{program}")))


def _pins(file: Path) -> Iterator[tuple[str, str]]:
    for line in file.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            yield re.sub(r"[-_.]+", "-", name).lower(), version


CELLS = (Cell("3.1", "3.11"), Cell("3.2", "3.11"), Cell("3.3", "3.12"), Cell("3.3", "3.13"))
"""What `make test-versions` runs; Airflow 3.3 on Python 3.11 is what all other tasks run."""


def selected() -> list[str]:
    """Return the tests of each cell, as arguments of pytest."""
    unit, integration, provider = SELECTED
    modules = sorted((ROOT / integration).glob("test_airflow_*.py"))
    kept = [str(module.relative_to(ROOT)) for module in modules if module.stem not in LEFT_OUT]
    return [unit, *kept, provider, IN_BROWSER]
