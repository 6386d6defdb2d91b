"""What a job's program is given by mistake: each is told in words, and the epoch is left as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table, previous
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.epoch_run import epoch_run
from tests.hostile import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2013, 2, 8, tzinfo=UTC)
HOUR = Interval(START, START + timedelta(hours=1))
TABLE = Table("t", kind="full")


def drafted(epoch: EpochRun, table: Any = TABLE, schema: Any = "id bigint", empty: Any = True) -> None:
    with suppress(ArithmeticError), epoch.draft(table, schema=schema, empty=empty):
        raise ArithmeticError  # entered: nothing was refused


CALLS: dict[str, tuple[Callable[[EpochRun, Any], object], Iterable[str]]] = {
    "read: table": (lambda epoch, value: epoch.read(value), []),
    "read: schema": (lambda epoch, value: epoch.read(TABLE, schema=value), []),
    "source_files: source": (lambda epoch, value: epoch.source_files(value), []),
    "write: table": (lambda epoch, value: epoch.write(value, epoch.spark.range(1)), []),
    "write: df": (lambda epoch, value: epoch.write(TABLE, value), []),
    "draft: table": (lambda epoch, value: drafted(epoch, table=value), []),
    "draft: schema": (lambda epoch, value: drafted(epoch, schema=value), []),
    "draft: empty": (lambda epoch, value: drafted(epoch, empty=value), ["true"]),
}


@pytest.mark.parametrize("what", sorted(CALLS))
def test_invalid_argument_is_refused_and_the_program_goes_on(
    spark: SparkSession, settings: Settings, service: EpochService, tmp_path: Path, what: str
) -> None:
    """R1: of every call of a job's program; afterwards it goes on, and writes."""
    landed = FileSource("r", f"{tmp_path}/*.json", late="ignore", complete=none_needed())
    job = Job(
        "j", inputs=[previous(TABLE), landed], outputs=[TABLE], cadence="@hourly",
        origin=START,
    )  # fmt: skip
    call, good = CALLS[what]
    with epoch_run(job, HOUR, spark=spark, settings=settings) as epoch:
        before = service.barriers(job.domain, job.name, HOUR)
        refused(lambda value: call(epoch, value), good)
        assert service.barriers(job.domain, job.name, HOUR) == before
        assert [entry.record.state for entry in before] == [EpochState.OPEN]
        assert not list(tmp_path.rglob("*.parquet"))
        epoch.write(TABLE, spark.range(1))
    assert epoch.published is not None
