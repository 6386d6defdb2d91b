"""R2, R17: who reads all catalog pointers in one query never sees a part of a commit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.factory import upgrade_schema
from airflow_provider.testing.arrow_attempts import write_rows
from tests.servers.postgresql import PostgresqlServer
from tests.services.postgresql import postgresql

__all__ = ["postgresql"]  # a fixture of this module

ORIGIN = datetime(2013, 2, 4, tzinfo=UTC)
EPOCHS = 21
TABLES = [Table(name, domain="shop") for name in ("orders", "lines", "totals")]
JOB = Job("sell", outputs=TABLES, cadence="@hourly", origin=ORIGIN, on_rerun="new_revision")
Seen = dict[str, dict[str, int]]
"""Rows, sum and CSN by table."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The store's URL, and the same database as a program without this package names it."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/epochs.db", f"{tmp_path}/epochs.db"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    url = server.url(server.create_database())
    upgrade_schema(url)
    return url, url.replace("postgresql+psycopg://", "postgresql://")


@contextmanager
def outsider(database: str) -> Iterator[IO[str]]:
    """Start the program; what it prints."""
    command = [sys.executable, str(Path(__file__).with_name("outsider.py")), database]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        yield program.stdout
        program.stdin.close()
    assert program.returncode == 0


def until(lines: IO[str], csn: int) -> Iterator[Seen]:
    """What the outsider saw up to a commit; it asks on while the next commit is made."""
    for line in lines:
        seen: Seen = json.loads(line)
        yield seen
        if max(table["csn"] for table in seen.values()) == csn:
            return
    raise AssertionError("the outsider ended")


def _commit(service: EpochService, number: int, revision: int) -> int:
    start = ORIGIN + timedelta(hours=number)
    owner = Owner(dag_id="d", run_id=str(number), generation=revision)
    attempt = service.begin(JOB, Interval(start, start + timedelta(hours=1)), owner)
    assert isinstance(attempt, Attempt)
    value = 10 * number + revision
    write_rows(service, attempt, "orders", pa.table({"value": [value]}))
    write_rows(service, attempt, "lines", pa.table({"value": [value - 1, 1]}))
    write_rows(service, attempt, "totals", pa.table({"value": [value, 0, 0]}))
    return service.publish(attempt).csn


def test_an_outsider_never_sees_a_part_of_a_commit(tmp_path: Path, databases: tuple[str, str]) -> None:
    """R2, R17: in one query over all pointers, after each commit."""
    url, database = databases
    settings = Settings(store_url=url, warehouse=str(tmp_path / "warehouse"))
    work = [(number, revision) for number in range(1, EPOCHS) for revision in range(1 + (number % 10 == 0))]
    with EpochService.open(settings) as service:
        csn = _commit(service, 0, 0)
        with outsider(database) as lines:
            reads = list(until(lines, csn))
            for number, revision in work:
                reads += until(lines, _commit(service, number, revision))
    for seen in reads:
        assert len({table["csn"] for table in seen.values()}) == 1, seen
        assert len({table["sum"] for table in seen.values()}) == 1, seen
        assert seen["lines"]["rows"] == 2 * seen["orders"]["rows"]
        assert seen["totals"]["rows"] == 3 * seen["orders"]["rows"]
    assert reads[-1]["orders"]["rows"] == EPOCHS
    assert len(reads) == 1 + len(work), "each commit was seen, and nothing between two of them"
