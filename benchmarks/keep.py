"""``bench.keep``: what a policy costs to choose among a year of hourly states, and to expire a part of them (R25)."""

from __future__ import annotations

import tempfile
import time
from datetime import timedelta

import pyarrow as pa

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.keep import Keep
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size

STATES = 300
YEAR = 8_760
KEEP = Keep(newest=48, each={"@daily": 30, "@monthly": 24})


def measure(size: Size = Size.FULL) -> None:
    """Print both: choosing, and each expiry of a full Iceberg table on SQLite."""
    hours = size.of(YEAR, 60)
    barriers = [ORIGIN + number * HOUR for number in range(1, hours + 1)]
    began = time.perf_counter()
    stay = KEEP.kept(barriers, KEEP.moments(barriers[-1]))
    figure("bench.keep.choose_ms", (time.perf_counter() - began) * 1000)
    figure("bench.keep.kept", len(stay))
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store_url=f"sqlite:///{folder}/store.db", warehouse=f"file://{folder}/warehouse")
        with EpochService.open(settings) as service:
            _expire(service, size.of(STATES, 5))


def _expire(service: EpochService, states: int) -> None:
    table = Table("hours", kind="full")
    job = Job("job", outputs=[table], cadence="@hourly", origin=ORIGIN)
    for number in range(states):
        epoch = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
        attempt = service.begin(job, epoch, Owner(dag_id="bench", run_id=str(number)))
        assert isinstance(attempt, Attempt), attempt
        write_rows(service, attempt, table.name, pa.table({"number": [number]}))
        service.publish(attempt)
    progress(f"keep: {states} states of a full table are committed")
    began = time.perf_counter()
    done = service.retention.keep(table.domain, Keep())
    took = timedelta(seconds=time.perf_counter() - began)
    assert len(done.expired) == states - 2, done
    figure("bench.keep.expire_ms", took / timedelta(milliseconds=1) / len(done.expired))
