"""Jars for Spark that are fetched once: Iceberg's own runtime, and the driver of its JDBC catalog."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def jar() -> Path | None:
    """Iceberg's Spark runtime; None where it cannot be had."""
    return fetched("ICEBERG_SPARK_RUNTIME", "iceberg-spark-runtime-*.jar")


@functools.cache
def driver() -> Path | None:
    """The JDBC driver for PostgreSQL; None where it cannot be had."""
    return fetched("POSTGRES_JDBC", "postgresql-*.jar")


@functools.cache
def s3() -> tuple[Path, ...] | None:
    """The jars by which Hadoop opens S3, 640 MB; None where they cannot be had."""
    found = (fetched("HADOOP_AWS", "hadoop-aws-*.jar"), fetched("AWS_SDK", "bundle-*.jar"))
    return tuple(jar for jar in found if jar is not None) if all(found) else None


def fetched(pin: str, name: str) -> Path | None:
    """Fetch the pinned jar unless it is there; return where it is."""
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run([ROOT / "scripts/prepare-iceberg", pin], env=environment, check=False)
    found = sorted((ROOT / ".jars").glob(name))
    return found[-1] if done.returncode == 0 and found else None
