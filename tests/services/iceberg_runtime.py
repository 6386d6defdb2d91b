"""Iceberg's own Spark runtime: a jar that is fetched once."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def jar() -> Path | None:
    """Fetch the pinned jar unless it is there; return where it is, None where it cannot be had."""
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run([ROOT / "scripts/prepare-iceberg"], env=environment, check=False)
    found = sorted((ROOT / ".jars").glob("iceberg-spark-runtime-*.jar"))
    return found[-1] if done.returncode == 0 and found else None
