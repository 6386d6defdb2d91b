"""``bench.catalog``: what engines wait for at the REST catalog, in a domain of many tables over one of one table."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from datetime import timedelta
from typing import Any

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.testing.arrow_attempts import write_rows
from benchmarks.figures import figure, progress
from benchmarks.iceberg_job import iceberg_coordinator
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size
from benchmarks.stores import directory
from tests.services.catalog_server import application, served

TABLES = 1_000
TABLES_OF_A_JOB = 100
ROUNDS = 9
ROWS = pa.table({"id": [1, 2, 3]})
BARRIER = ORIGIN + HOUR


def measure(size: Size = Size.FULL) -> None:
    """Print the ratios of a new session, and of loads of tables by a session and by a namespace."""
    with directory("catalog") as path, iceberg_coordinator(path) as service:
        number = size.of(TABLES, 2)
        _fill(service, "many", number)
        _fill(service, "single", 1)
        progress(f"catalog: {number} tables are written")
        with served(application(service)) as uri:
            many, single = (_waits(uri, domain, size) for domain in ("many", "single"))
    for name, seconds in many.items():
        progress(f"catalog: {name} {seconds * 1000:.0f} ms, with one table {single[name] * 1000:.0f} ms")
        figure(f"bench.catalog.{name}.tables_1000", seconds / single[name])


def _fill(service: EpochService, domain: str, number: int) -> None:
    for first in range(0, number, TABLES_OF_A_JOB):
        names = [f"t{index}" for index in range(first, min(first + TABLES_OF_A_JOB, number))]
        tables = [Table(name, domain=domain, format="iceberg") for name in names]
        job = Job(f"job_{first}", outputs=tables, cadence="@hourly", origin=ORIGIN)
        attempt = service.begin(job, Interval(ORIGIN, BARRIER), Owner(dag_id="bench", run_id="0"))
        assert isinstance(attempt, Attempt)
        for name in names:
            write_rows(service, attempt, name, ROWS)
        service.publish(attempt)


def _waits(uri: str, domain: str, size: Size) -> dict[str, float]:
    """Return the median seconds of each kind of request about *domain*; the first of each is not counted."""
    seconds: dict[str, list[float]] = {"session": [], "held": [], "newest": []}
    for turn in range(size.of(ROUNDS, 1) + 1):
        ttl = timedelta(hours=1) + timedelta(minutes=turn)
        config = f"/v1/config?warehouse={domain}%3Fttl={ttl // timedelta(minutes=1)}m"
        prefix = _timed(uri + config, seconds["session"])["overrides"]["prefix"]
        for kind, base in (("held", f"/v1/{prefix}"), ("newest", "/v1")):
            _timed(f"{uri}{base}/namespaces/{domain}/tables/t0", seconds[kind])
    return {kind: statistics.median(found[1:]) for kind, found in seconds.items()}


def _timed(url: str, seconds: list[float]) -> Any:
    began = time.perf_counter()
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - of this host
        found = json.load(answer)
    seconds.append(time.perf_counter() - began)
    return found
