"""``bench.parse``: how long Airflow parses the demo's DAG files over its twin's; what the plugin adds to a process."""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.figures import figure, progress
from benchmarks.sizes import Size
from benchmarks.stores import directory
from demo.airflow_cluster import AirflowCluster, own_environment
from tests.servers.ports import free_port

ROOT = Path(__file__).parent.parent
RUNS = 5
TWIN = "twin_"
"""Beginning of the names of the twin's DAG files, which have the same tasks without this package."""
LOADED = {
    "plugins.epochs_plugin": "from airflow.sdk.plugins_manager import AirflowPlugin",
    "links.epochs": "from airflow.sdk import BaseOperatorLink",
    "cli.definition": "import airflow.cli.cli_config",
}
"""Modules that Airflow loads in each task process or at each command, and what it has loaded before."""


def measure(size: Size = Size.FULL) -> None:
    """Print the ratio of Airflow's own figures, and the milliseconds that modules of each process take."""
    runs = size.of(RUNS, 1)
    with directory("parse") as path:
        cluster = AirflowCluster(
            home=path, dags=ROOT / "dags", port=free_port(), python_path=[ROOT], quick=False
        )
        cluster.migrate()
        spent: defaultdict[bool, list[float]] = defaultdict(list)
        for number in range(runs + 1):
            told = cluster.run("dag-processor", "--num-runs", "1")
            if told.returncode:
                raise RuntimeError(told.stderr)
            found = _durations(path / "airflow" / "airflow.db")
            for name, seconds in found.items() if number or not runs > 1 else ():  # the first one compiles
                spent[name.startswith(TWIN)].append(seconds)
            progress(f"parse: {number + 1} of {runs + 1} runs, {len(found)} DAG files")
    ours, twins = (statistics.median(spent[is_twin]) for is_twin in (False, True))
    progress(f"parse: {ours * 1000:.0f} ms a file, the twin's {twins * 1000:.0f} ms")
    figure("bench.parse.ratio", ours / twins)
    figure("bench.import_ms", sum(_import_ms(name, before, runs) for name, before in LOADED.items()))


def _durations(database: Path) -> Mapping[str, float]:
    """Return the seconds that the last parsing of each DAG file took, as Airflow has noted them."""
    with closing(sqlite3.connect(database)) as connection:
        rows: Sequence[tuple[str, float]] = connection.execute(
            "SELECT relative_fileloc, last_parse_duration FROM dag WHERE last_parse_duration IS NOT NULL"
        ).fetchall()
    return dict(rows)


def _import_ms(module: str, before: str, rounds: int) -> float:
    program = (
        f"import time; {before}; began = time.perf_counter(); "
        f"import airflow_provider.{module}; print(time.perf_counter() - began)"
    )
    command = [sys.executable, "-c", program]
    spent = [
        float(
            subprocess.run(  # noqa: S603  (our own interpreter)
                command, capture_output=True, text=True, check=True, cwd=ROOT, env=own_environment([ROOT])
            ).stdout.splitlines()[-1]
        )
        for _ in range(rounds + 1)
    ]
    return 1000 * statistics.median(spent[1:])
