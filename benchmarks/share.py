"""``bench.protocol.share``: how much of a day of the flights cascade is the protocol's, the rest being Spark's."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.spark import session
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.connect import connected
from benchmarks.figures import figure, progress
from benchmarks.sizes import Size
from benchmarks.stores import directory
from demo import landing
from demo.airflow_cluster import own_environment
from demo.source import Days, midnight
from demo.spark_connect import SparkConnectServer, write_configuration
from tests.servers.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 4
"""The first one is not counted: Spark's server loads its classes."""
DAY = timedelta(days=1)
HOURLY = "weather"
"""The job with 24 epochs a day; the others have one."""
_COORDINATOR = (
    "begin",
    "heartbeat",
    "input",
    "columns",
    "processed",
    "written",
    "complete",
    "check",
    "publish",
    "abort",
)
_FORMAT = ("describe", "create", "replace", "describe_output")
_SETTINGS = ("session", "check")
"""Functions that look whether the session's settings are such that a read is whole (R22); a plain job asks nothing."""

Compute = Callable[[EpochRun], None]


class Stopwatch:
    """Adds up how long the thread that made it waits for calls."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._inside = False
        self._thread = threading.get_ident()

    def watch(self, target: object, names: tuple[str, ...]) -> None:
        """Count the methods *names* of *target* from now on; what one calls of the others counts once."""
        for name in names:
            setattr(target, name, self.timed(getattr(target, name)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of a block; not what other threads do: publish prepares tables, locks are renewed."""
        if self._inside or threading.get_ident() != self._thread:
            yield
            return
        self._inside = True
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s += time.perf_counter() - began
            self._inside = False

    def timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return *method* such that its time is counted."""

        def timed(*arguments: Any, **options: Any) -> Any:
            with self.running():
                return method(*arguments, **options)

        return timed


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Seconds of the protocol and of the table format, and of all that the epochs did."""

    protocol: float = 0.0
    whole: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(protocol=self.protocol + other.protocol, whole=self.whole + other.whole)


def measure(size: Size = Size.FULL, server: SparkConnectServer | None = None) -> None:
    """Print the share of the cascade's daily epochs, of its hourly ones, and of whole days.

    :param server: to be used; None for one of its own.
    """
    days = Days.through_blizzard(size.of(DAYS, 1))
    jobs = slice(None) if size is Size.FULL else slice(1, 2)  # one daily epoch
    with directory("share") as path:
        landing.land(path / "landing", days)
        os.environ["NYC_LANDING"] = str(path / "landing")
        os.environ["NYC_ORIGIN"] = days.start.isoformat()
        settings = Settings(store_url=f"sqlite:///{path}/store.db", warehouse=(path / "warehouse").as_uri())
        with nullcontext(server) if server else _spark(path) as running:
            spent = [
                _day(settings, running, Interval(midnight(day), midnight(day) + DAY), jobs) for day in days
            ]
    counted = spent[1:] or spent
    hourly = sum((day.get(HOURLY, Spent()) for day in counted), Spent())
    daily = sum((took for day in counted for job, took in day.items() if job != HOURLY), Spent())
    for name, found in (("", daily), (".hourly", hourly), (".day", daily + hourly)):
        if found.whole:
            figure(f"bench.protocol.share{name}", found.protocol / found.whole)
            figure(f"bench.protocol.share{name}.ms", found.protocol * 1000 / len(counted))


@contextmanager
def _spark(path: Path) -> Iterator[SparkConnectServer]:
    """A Connect server as the demo has it."""
    write_configuration(path / "spark")
    environment = {
        **own_environment([Path(__file__).parent.parent]),
        "SPARK_CONF_DIR": str(path / "spark"),
        "PYSPARK_PYTHON": sys.executable,  # as each user has it
    }
    server = SparkConnectServer(home=path, port=free_port(), environment=environment)
    server.start()
    try:
        server.wait_until_ready()
        progress("Spark Connect is running")
        yield server
    finally:
        server.stop()


def _day(settings: Settings, server: SparkConnectServer, day: Interval, jobs: slice) -> dict[str, Spent]:
    """Compute a day of all jobs; return what each has spent."""
    spent = {str(job.name): _task(settings, server, job, day, compute) for job, compute in _cascade()[jobs]}
    told = (f"{job} {part.whole:.2f} s ({part.protocol:.3f} s)" for job, part in spent.items())
    progress(f"share: {day.start.date()}, and the protocol's part: {', '.join(told)}")
    return spent


def _task(settings: Settings, server: SparkConnectServer, job: Job, day: Interval, compute: Compute) -> Spent:
    """Compute the day of one job as its Airflow task does: with a store and a Spark session of its own.

    Not counted: what Airflow does to start the task.
    """
    watch, began = Stopwatch(), time.perf_counter()
    with ExitStack() as opened:
        with watch.running():
            service = EpochService.open(settings)
        opened.callback(watch.timed(service.close))
        watch.watch(service, _COORDINATOR)
        watch.watch(service.formats["iceberg"], _FORMAT)
        spark = opened.enter_context(connected(server.url))
        for looked_at, names in ((session, _SETTINGS), (SourceReaders, ("check_unchanged",))):
            for name in names:
                opened.enter_context(patch.object(looked_at, name, watch.timed(getattr(looked_at, name))))
        for epoch in job.cadence.split(day):
            _epoch(service, job, epoch, spark, compute)
    return Spent(protocol=watch.spent_s, whole=time.perf_counter() - began)


def _cascade() -> list[tuple[Job, Compute]]:
    from spark_jobs import (  # declared with the landing zone of this run
        nyc_landing,
        nyc_tables,
        nyc_transforms,
    )

    def weather(run: EpochRun) -> None:
        landed = nyc_landing.weather(run.spark, run.source_files("landed_weather"))
        run.write("weather", nyc_transforms.weather(landed))

    def flights(run: EpochRun) -> None:
        landed = nyc_landing.flights(run.spark, run.source_files("landed_flights"))
        run.write("flights", nyc_transforms.flights(landed))

    def scorecards(run: EpochRun) -> None:
        rows = run.read("flights")
        run.write("carrier_daily", nyc_transforms.carrier_daily(rows))
        run.write("route_daily", nyc_transforms.route_daily(rows))

    def delay_by_weather(run: EpochRun) -> None:
        last_day = (run.interval.end - DAY).date()
        read = (run.read("flights"), run.read("weather"))
        run.write("delay_by_weather", nyc_transforms.delay_by_weather(*read, last_day=last_day))

    def daily_report(run: EpochRun) -> None:
        last_day = (run.interval.end - DAY).date()
        read = (run.read("carrier_daily"), run.read("route_daily"), run.read("delay_by_weather"))
        run.write("daily_report", nyc_transforms.daily_report(*read, last_day=last_day))

    def carrier_trends(run: EpochRun) -> None:
        last_day = (run.interval.end - DAY).date()
        recent = run.read("carrier_daily")
        before = run.read("carrier_to_date", schema=nyc_transforms.CARRIER_TO_DATE)
        today = recent.where(recent["day"] == last_day)
        run.write("carrier_to_date", nyc_transforms.carrier_to_date(before, today))
        run.write("carrier_three_days", nyc_transforms.carrier_three_days(recent, last_day=last_day))

    return [
        (nyc_tables.WEATHER_JOB, weather),
        (nyc_tables.FLIGHTS_JOB, flights),
        (nyc_tables.SCORECARDS_JOB, scorecards),
        (nyc_tables.DELAY_BY_WEATHER_JOB, delay_by_weather),
        (nyc_tables.DAILY_REPORT_JOB, daily_report),
        (nyc_tables.CARRIER_TRENDS_JOB, carrier_trends),
    ]


def _epoch(service: EpochService, job: Job, epoch: Interval, spark: SparkSession, compute: Compute) -> None:
    owner = Owner(dag_id="bench", run_id=str(epoch))
    attempt = service.begin(job, epoch, owner, sources=SourceReaders())
    assert isinstance(attempt, Attempt), attempt
    with EpochRun(service, job, attempt, spark=spark) as run:
        compute(run)
