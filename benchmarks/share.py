"""``bench.protocol.share``: how much of a daily epoch is the protocol's, the rest being Spark's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt, Owner
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import EpochJob
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.connect import connected
from airflow_provider.spark.roots import ListedRoots
from airflow_provider.testing.servers.ports import free_port
from benchmarks.figures import figure, progress
from benchmarks.stores import directory
from demo import landing
from demo.airflow_cluster import own_environment
from demo.source import Days, midnight
from demo.spark_connect import SparkConnectServer, write_configuration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 4
"""The first one is not counted: Spark's server loads its classes."""
DAY = timedelta(days=1)
_TIMED = ("begin", "input", "processed", "written", "complete", "check", "publish", "abort")


class TimedCoordinator(Coordinator):
    """A coordinator that adds up how long its caller waits for it: the protocol, and the publish of the tables."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.spent_s = 0.0
        self._inside = False
        for name in _TIMED:
            setattr(self, name, self._timed(getattr(self, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._inside:  # publish checks, too
                return method(*arguments, **options)
            self._inside = True
            began = time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.spent_s += time.perf_counter() - began
                self._inside = False

        return timed


def measure() -> None:
    """Print the share of days of the demo's flights and scorecards, computed through Spark Connect."""
    days = Days.around_blizzard(DAYS)
    with directory("share") as path:
        landing.land(path / "landing", days)
        os.environ["NYC_LANDING"] = str(path / "landing")
        os.environ["NYC_ORIGIN"] = days.start.isoformat()
        settings = Settings(store_url=f"sqlite:///{path}/store.db", warehouse=(path / "warehouse").as_uri())
        with _spark(path) as spark, EpochService.open(settings) as service:
            spent = [_day(service, spark, Interval(midnight(day), midnight(day) + DAY)) for day in days]
    protocol, whole = (sum(one) for one in zip(*spent[1:], strict=True))
    figure("bench.protocol.share", protocol / whole)
    figure("bench.protocol.share.epoch_ms", protocol * 1000 / (len(spent) - 1))


@contextmanager
def _spark(path: Path) -> Iterator[SparkSession]:
    """A session on a Connect server as the demo has it."""
    write_configuration(path / "spark")
    environment = {
        **own_environment([Path(__file__).parent.parent]),
        "SPARK_CONF_DIR": str(path / "spark"),
    }
    server = SparkConnectServer(home=path, port=free_port(), environment=environment)
    server.start()
    try:
        server.wait_until_ready()
        progress("Spark Connect is running")
        with connected(server.url) as spark:
            yield spark
    finally:
        server.stop()


def _day(service: EpochService, spark: SparkSession, epoch: Interval) -> tuple[float, float]:
    """Compute a day of flights, then of the scorecards; return the seconds of the protocol, and all of them."""
    from spark_jobs import (  # declared with the landing zone of this run
        nyc_landing,
        nyc_tables,
        nyc_transforms,
    )

    def flights(run: EpochRun) -> None:
        landed = nyc_landing.flights(run.spark, run.root_files("landed_flights"))
        run.write("flights", nyc_transforms.flights(landed))

    def scorecards(run: EpochRun) -> None:
        rows = run.read("flights")
        run.write("carrier_daily", nyc_transforms.carrier_daily(rows))
        run.write("route_daily", nyc_transforms.route_daily(rows))

    timed = TimedCoordinator(service.store, service.formats)
    began = time.perf_counter()
    for job, compute in ((nyc_tables.FLIGHTS_JOB, flights), (nyc_tables.SCORECARDS_JOB, scorecards)):
        _epoch(replace(service, coordinator=timed), job, epoch, spark, compute)
    whole = time.perf_counter() - began
    progress(f"share: {epoch.start.date()} took {whole:.2f} s, the protocol {timed.spent_s:.3f} s of it")
    return timed.spent_s, whole


def _epoch(
    service: EpochService,
    job: EpochJob,
    epoch: Interval,
    spark: SparkSession,
    compute: Callable[[EpochRun], None],
) -> None:
    owner = Owner(dag_id="bench", run_id=str(epoch))
    attempt = service.coordinator.begin(job, epoch, owner, roots=ListedRoots(job.roots, epoch))
    assert isinstance(attempt, Attempt), attempt
    with EpochRun(service, job, attempt, spark=spark) as run:
        compute(run)
