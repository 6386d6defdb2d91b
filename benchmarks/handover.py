"""``bench.airflow.handover``: from an epoch's publish to the task that waited for it, over a hand-over within a DAG."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.running_airflow import finish, moment, running_airflow, settings_in, wait_for_state
from benchmarks.sizes import Size
from benchmarks.stores import directory
from demo.airflow_cluster import AirflowCluster

ROUNDS = 5
DAY = timedelta(days=1)
ORIGIN = datetime(2013, 2, 1, tzinfo=UTC)
JOB, OTHER = (
    Job(f"write_{table.name}", outputs=[table], cadence="@daily", origin=ORIGIN)
    for table in (Table("rows"), Table("rows_in_worker"))
)
_POKE_S = 60.0
"""``poke_interval`` of ``ExternalTaskSensor``, by default."""
_EVENT_TIMEOUT_S = 120.0
_UPSTREAM = {"upstream", "asset_upstream"}
"""DAGs beside those of :data:`WAYS`."""


def measure(size: Size = Size.FULL) -> None:
    """Print the median of each way, by turns, and each over the hand-over within a DAG."""
    choose = random.Random(0)  # noqa: S311
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    with (
        directory("handover") as home,
        running_airflow(home, "handover.py", {*WAYS, *_UPSTREAM}, {}) as cluster,
        EpochService.open(settings_in(home)) as service,
    ):
        for job in (JOB, OTHER):
            service.register(job)
        for number in range(size.of(ROUNDS + 1, 1)):
            for name, way in WAYS.items():
                took = way(cluster, service, number, size.of(choose.uniform(0, _POKE_S), 0.0))
                if number or size is Size.SMALLEST:  # the first run of each imports and compiles
                    spent[name].append(took)
                progress(f"hand-over, {name}: {took:.1f} s")
    middle = {name: statistics.median(found) for name, found in spent.items()}
    for name, seconds in middle.items():
        figure(f"bench.airflow.handover.{name}_s", seconds)
    for name, suffix in (
        ("after_epoch", ""),
        ("after_epoch_in_worker", ".in_worker"),
        ("after_task", ".external_task"),
        ("after_asset", ".asset"),
    ):
        figure(f"bench.airflow.handover{suffix}", middle[name] / middle["same_dag"])


def _same_dag(cluster: AirflowCluster, service: EpochService, number: int, pause_s: float) -> float:
    del service, pause_s
    run = _trigger(cluster, "same_dag", number)
    finish(cluster, "same_dag", run)
    ended = moment(cluster, "same_dag", run, "first", "end_date")
    return _seconds(ended, moment(cluster, "same_dag", run, "then", "start_date"))


@dataclass(frozen=True, slots=True)
class _AfterEpoch:
    """A task behind a sensor that waits for an epoch.

    :param state: of the sensor while it waits: "deferred", or "running" where it holds a worker.
    :param job: writes the epoch.
    """

    dag_id: str
    state: str
    job: Job

    def __call__(self, cluster: AirflowCluster, service: EpochService, number: int, pause_s: float) -> float:
        """Count from the moment before the publish begins."""
        run = _trigger(cluster, self.dag_id, number)
        wait_for_state(cluster, self.dag_id, run, "wait", self.state)
        end = _end(number)
        owner = Owner(dag_id="bench", run_id=str(number))
        attempt = service.begin(self.job, Interval(end - DAY, end), owner)
        assert isinstance(attempt, Attempt)
        (sink,) = attempt.sinks
        write_rows(service, attempt, sink.name, pa.table({"id": pa.array(range(100), pa.int64())}))
        service.complete(attempt)
        time.sleep(5 + pause_s / 10)  # it waits by now, and has become as slow to look as it gets
        published = datetime.now(UTC)
        service.publish(attempt)
        finish(cluster, self.dag_id, run)
        return _seconds(published, moment(cluster, self.dag_id, run, "then", "start_date"))


def _after_task(cluster: AirflowCluster, service: EpochService, number: int, pause_s: float) -> float:
    """The other DAG's task ends at any moment between two looks of the sensor."""
    del service
    run = _trigger(cluster, "after_task", number)
    wait_for_state(cluster, "after_task", run, "wait", "running")
    time.sleep(pause_s)
    upstream = _trigger(cluster, "upstream", number)
    finish(cluster, "upstream", upstream)
    finish(cluster, "after_task", run)
    ended = moment(cluster, "upstream", upstream, "first", "end_date")
    return _seconds(ended, moment(cluster, "after_task", run, "then", "start_date"))


def _after_asset(cluster: AirflowCluster, service: EpochService, number: int, pause_s: float) -> float:
    del service, pause_s
    before = {str(run["dag_run_id"]) for run in cluster.rest.dag_runs("after_asset")}
    upstream = _trigger(cluster, "asset_upstream", number)
    finish(cluster, "asset_upstream", upstream)
    deadline = time.monotonic() + _EVENT_TIMEOUT_S
    while not (new := {str(run["dag_run_id"]) for run in cluster.rest.dag_runs("after_asset")} - before):
        if time.monotonic() > deadline:
            raise TimeoutError("the asset's event started no run of after_asset")
        time.sleep(0.25)
    (run,) = new
    finish(cluster, "after_asset", run)
    ended = moment(cluster, "asset_upstream", upstream, "first", "end_date")
    return _seconds(ended, moment(cluster, "after_asset", run, "then", "start_date"))


WAYS: Mapping[str, Callable[[AirflowCluster, EpochService, int, float], float]] = {
    "same_dag": _same_dag,
    "after_epoch": _AfterEpoch("after_epoch", "deferred", JOB),
    "after_epoch_in_worker": _AfterEpoch("after_epoch_in_worker", "running", OTHER),
    "after_asset": _after_asset,
    "after_task": _after_task,
}
"""Seconds of one hand-over by each way; *pause_s*, up to the sensor's interval, moves its moment."""


def _trigger(cluster: AirflowCluster, dag_id: str, number: int) -> str:
    return cluster.rest.trigger(dag_id, logical_date=_end(number).isoformat())


def _end(number: int) -> datetime:
    """Return the barrier of a round."""
    return ORIGIN + (number + 1) * DAY


def _seconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds()
