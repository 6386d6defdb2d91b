"""The same without this package."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from benchmarks.cascade_rows import write_plain

if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    write_plain(session, *sys.argv[1:])
    session.stop()
