"""A job of ``bench.airflow.epoch`` as a Spark program of its own."""

from __future__ import annotations

import sys

from airflow_provider import epoch_run
from benchmarks.cascade_rows import write_epoch

if __name__ == "__main__":
    with epoch_run() as epoch:
        write_epoch(epoch, sys.argv[1])
