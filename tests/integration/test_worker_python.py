"""``scripts/worker-python``: Spark's workers find what Spark gives them to import, without its archives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "worker-python"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_a_worker_finds_all_but_sparks_archives(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("own code", "*", "more.zip")]
    archives = [
        f"{tmp_path}/python/lib/pyspark.zip",
        f"{tmp_path}/python/lib/py4j-0.10-src.zip",
        "/x/spark.jar",
    ]
    path = os.pathsep.join([*archives[:2], folders[0], archives[2], *folders[1:]])
    shown = run(
        "-S", "-c", "import os, sys; print(os.environ['PYTHONPATH']); print(sys.argv[1:])", "a b", "",
        PYTHONPATH=path, PYSPARK_DRIVER_PYTHON=sys.executable,
    )  # fmt: skip
    assert shown.stdout.splitlines() == [os.pathsep.join(folders), "['a b', '']"], shown.stderr


def test_missing_interpreter_is_named() -> None:
    refused = run("-c", "print('started')")
    assert refused.returncode != 0
    assert refused.stdout == ""
    assert "PYSPARK_DRIVER_PYTHON: is not set" in refused.stderr
