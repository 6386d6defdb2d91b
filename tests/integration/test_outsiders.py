"""R2, R17: who reads all catalog pointers in one query never sees a part of a commit."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt, Owner
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import EpochJob, EpochTable
from airflow_provider.testing.arrow_attempts import write_rows

ORIGIN = datetime(2013, 2, 4, tzinfo=UTC)
COMMITS = 50
TABLES = [EpochTable(name, domain="shop") for name in ("orders", "lines", "totals")]
JOB = EpochJob("sell", outputs=TABLES, cadence="@hourly", origin=ORIGIN)


def _commit(service: EpochService, number: int, revision: int) -> None:
    start = ORIGIN + timedelta(hours=number)
    owner = Owner(dag_id="d", run_id=str(number), generation=revision)
    attempt = service.coordinator.begin(JOB, Interval(start, start + timedelta(hours=1)), owner)
    assert isinstance(attempt, Attempt)
    value = 10 * number + revision
    write_rows(service.coordinator, attempt, "orders", pa.table({"value": [value]}))
    write_rows(service.coordinator, attempt, "lines", pa.table({"value": [value - 1, 1]}))
    write_rows(service.coordinator, attempt, "totals", pa.table({"value": [value, 0, 0]}))
    service.coordinator.publish(attempt)


def test_an_outsider_never_sees_a_part_of_a_commit(tmp_path: Path) -> None:
    database, stop = tmp_path / "epochs.db", tmp_path / "stop"
    settings = Settings(store_url=f"sqlite:///{database}", warehouse=str(tmp_path / "warehouse"))
    with EpochService.open(settings) as service:
        _commit(service, 0, 0)
        outsider = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("outsider.py")), str(database), str(stop)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(1, COMMITS):
            _commit(service, number, 0)
            if number % 10 == 0:
                _commit(service, number, 1)
        stop.touch()
        output, _ = outsider.communicate(timeout=120)
    assert outsider.returncode == 0
    reads = [json.loads(line) for line in output.splitlines()]
    for seen in reads:
        assert len({table["sum"] for table in seen.values()}) == 1, seen
        assert len({table["csn"] for table in seen.values()}) == 1, seen
        assert seen["lines"]["rows"] == 2 * seen["orders"]["rows"]
        assert seen["totals"]["rows"] == 3 * seen["orders"]["rows"]
    assert reads[-1]["orders"]["rows"] == COMMITS
    assert len({seen["orders"]["csn"] for seen in reads}) > 5, "the outsider read only few of the commits"
