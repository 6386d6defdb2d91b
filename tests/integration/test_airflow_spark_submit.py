"""The operator with real spark-submit, over SQLite and Iceberg."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.checks import Check, row_count
from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from demo.spark_connect import write_configuration
from tests.airflow_runs import epochs_connection, task_context

ROWS, TOTALS = Table("rows"), Table("totals")
DAILY = Job("daily", outputs=[ROWS, TOTALS], cadence="@daily", on_rerun="new_revision")
SIX_HOURLY = Job("six_hourly", outputs=[Table("quarters")], cadence="0 */6 * * *")
SEVENTH = Interval(datetime(2013, 2, 7, tzinfo=UTC), datetime(2013, 2, 8, tzinfo=UTC))

SPARK = """
import sys
from airflow_provider.spark.epoch_run import epoch_run

with epoch_run() as epoch:
    df = epoch.spark.range(int(sys.argv[1])).selectExpr("id")
    epoch.write("rows", df)
    epoch.write("totals", df.selectExpr("count(*) as n"))
"""

STAGING = """
import sys

import pyarrow as pa

from airflow_provider.coordination.service import EpochService
from airflow_provider.spark.launch_spec import received


def stage(service, attempt, rows):
    for sink in attempt.sinks:
        format, place = service.formats["iceberg"], service.place(attempt, sink.name)
        info = format.create(sink, pa.schema([("id", pa.int64())]))
        files = list(format.task_writer(place, info)([pa.RecordBatch.from_pydict({"id": list(range(rows))})]))
        service.processed(attempt, sink.name)
        service.written(attempt, sink.name, format.describe_output(place, info, files))


order = received()
"""
"""What epoch_run does, without a Spark session: most tests are about what is around it."""

ONE = (
    STAGING
    + """
with EpochService.open(order.settings) as service:
    stage(service, order.attempt, int(sys.argv[1]))
    service.complete(order.attempt)
"""
)
CHECKED = ONE.replace("service.complete", "service.check(order.attempt);service.complete")
FAILS = (
    STAGING
    + """
raise SystemExit("the program failed")
"""
)
FAILS_LATE = (
    ONE
    + """
raise SystemExit("the program failed after it had written everything")
"""
)
FORGETS = STAGING
LEAVES_EARLY = ONE.replace("service.complete(order.attempt)", "raise SystemExit(0)")
BATCH = (
    STAGING
    + """
with EpochService.open(order.settings) as service:
    for epoch in order.job.cadence.split(order.batch.interval):
        attempt = service.begin(order.job, epoch, order.batch.owner)
        stage(service, attempt, epoch.start.hour + 1)
        service.publish(attempt)
"""
)
WITHIN = (
    STAGING
    + """
with EpochService.open(order.settings) as service:
    for epoch in order.job.cadence.split(order.batch.interval):
        attempt = service.begin_within(order.batch.restatement, order.job, epoch, order.batch.owner)
        if hasattr(attempt, "token"):
            stage(service, attempt, int(sys.argv[1]))
            service.complete(attempt)
            service.stage(attempt)
"""
)
LEAVES_ONE = BATCH.replace("split(order.batch.interval)", "split(order.batch.interval)[1:]")
SLEEPS = (
    STAGING
    + """
import time

time.sleep(60)
"""
)
MUST_NOT_RUN = "raise SystemExit('must not run')"


_made: list[EpochSparkSubmitOperator] = []


@pytest.fixture(autouse=True)
def _pipes() -> Iterator[None]:
    """Close what Airflow's hook leaves to the garbage collector: the pipe of its child."""
    yield
    while _made:
        hook = _made.pop()._hook
        if hook is not None and hook._submit_sp is not None:
            hook._submit_sp.wait()
            hook._submit_sp.stdout.close()


@pytest.fixture(autouse=True)
def _connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_configuration(tmp_path / "conf")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


@pytest.fixture
def service() -> Iterator[EpochService]:
    with EpochsHook().get_conn() as opened:
        yield opened


def operator(
    tmp_path: Path, program: str, *arguments: str, job: Job = DAILY, **options: Any
) -> EpochSparkSubmitOperator:
    path = tmp_path / "program.py"
    path.write_text(program)
    task = EpochSparkSubmitOperator(
        task_id="compute", job=job, application=str(path), application_args=list(arguments), **options
    )
    _made.append(task)
    return task


def count(service: EpochService, table: str) -> int:
    return service.cuts.read(service.cuts.cut("default", [table]), table).num_rows


def states(service: EpochService, job: Job = DAILY) -> list[EpochState]:
    log = service.barriers(job.domain, job.name, job.cadence.split(SEVENTH)[0])
    return [entry.record.state for entry in sorted(log, key=lambda entry: entry.at)]


def test_spark_computes_one_epoch_that_is_published_and_announced(
    tmp_path: Path, service: EpochService
) -> None:
    context = task_context()
    operator(tmp_path, SPARK, "5").execute(context)
    assert (count(service, "rows"), count(service, "totals")) == (5, 1)
    for table in DAILY.outputs:
        event = context["outlet_events"][asset_of(table)].extra
        (entry,) = event["epochs"]
        assert event["csn"] == entry["csn"] == 1
        assert (entry["start"], entry["end"]) == (SEVENTH.start.isoformat(), SEVENTH.end.isoformat())
        assert (entry["revision"], type(entry["version"])) == (1, int)


@pytest.mark.slow
def test_try_after_a_lost_success_computes_nothing_and_emits_the_same_events(
    tmp_path: Path, service: EpochService
) -> None:
    first, second = task_context(), task_context(try_number=2)
    operator(tmp_path, ONE, "5").execute(first)
    operator(tmp_path, MUST_NOT_RUN).execute(second)
    assert second["outlet_events"][asset_of(ROWS)].extra == first["outlet_events"][asset_of(ROWS)].extra
    assert count(service, "rows") == 5


@pytest.mark.slow
def test_a_cleared_task_publishes_the_next_revision(tmp_path: Path, service: EpochService) -> None:
    operator(tmp_path, ONE, "5").execute(task_context())
    context = task_context(cleared_after=1, try_number=2)
    operator(tmp_path, ONE, "3").execute(context)
    assert count(service, "rows") == 3
    assert context["outlet_events"][asset_of(ROWS)].extra["epochs"][0]["revision"] == 2


def test_a_failed_program_aborts_and_the_next_try_computes(tmp_path: Path, service: EpochService) -> None:
    with pytest.raises(AirflowException, match="spark-submit"):
        operator(tmp_path, FAILS).execute(task_context())
    assert states(service)[-1] is EpochState.ABORTED
    operator(tmp_path, ONE, "4").execute(task_context(try_number=2))
    assert count(service, "rows") == 4
    assert list(tmp_path.glob("epochs-launch-*")) == []


@pytest.mark.slow
def test_complete_output_of_a_failed_try_is_published_by_the_next(
    tmp_path: Path, service: EpochService
) -> None:
    with pytest.raises(AirflowException, match="spark-submit"):
        operator(tmp_path, FAILS_LATE, "6").execute(task_context())
    assert EpochState.ABORTED not in states(service)
    operator(tmp_path, MUST_NOT_RUN).execute(task_context(try_number=2))
    assert count(service, "rows") == 6


def test_a_program_that_writes_nothing_is_no_success(tmp_path: Path, service: EpochService) -> None:
    with pytest.raises(AirflowFailException, match="rows, totals"):
        operator(tmp_path, FORGETS).execute(task_context())
    assert states(service)[-1] is EpochState.ABORTED


@pytest.mark.slow
def test_a_program_that_leaves_its_block_early_is_no_success(tmp_path: Path, service: EpochService) -> None:
    with pytest.raises(AirflowFailException, match="before the block"):
        operator(tmp_path, LEAVES_EARLY, "5").execute(task_context())
    assert states(service)[-1] is EpochState.ABORTED


@pytest.mark.slow
def test_a_batch_publishes_each_epoch(tmp_path: Path, service: EpochService) -> None:
    context = task_context()
    operator(tmp_path, BATCH, job=SIX_HOURLY, batch="@daily").execute(context)
    assert count(service, "quarters") == 1 + 7 + 13 + 19
    epochs = context["outlet_events"][asset_of(SIX_HOURLY.outputs[0])].extra["epochs"]
    assert [entry["csn"] for entry in epochs] == [1, 2, 3, 4]
    operator(tmp_path, MUST_NOT_RUN, job=SIX_HOURLY, batch="@daily").execute(task_context(try_number=2))


@pytest.mark.parametrize("batch", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_failed_check_in_the_program_ends_the_retries(
    tmp_path: Path, service: EpochService, batch: bool
) -> None:
    """R14: the exit code says nothing; the store says which check refused what, and no retry is burned."""
    job, table = (SIX_HOURLY, "quarters") if batch else (DAILY, "rows")
    checked = replace_checks(job, row_count(table, at_least=2))
    program, options = (BATCH, {"batch": "@daily"}) if batch else (CHECKED, {})
    with pytest.raises(AirflowFailException, match=r"CheckFailed: .* at least 2: 1 rows"):
        operator(tmp_path, program, "1", job=checked, **options).execute(task_context())
    assert service.store.read("default", []).head.csn == 0


@pytest.mark.slow
def test_a_failed_check_of_the_submitter_ends_the_retries(tmp_path: Path, service: EpochService) -> None:
    """R14: what a program left unchecked is checked before it is published."""
    checked = replace_checks(DAILY, row_count("totals", at_least=2))
    with pytest.raises(AirflowFailException, match=r"CheckFailed: .* at least 2: 1 rows"):
        operator(tmp_path, ONE, "1", job=checked).execute(task_context())
    assert states(service, checked)[-1] is EpochState.CHECK_FAILED


def replace_checks(job: Job, *checks: Check) -> Job:
    return Job(job.name, inputs=job.inputs, outputs=job.outputs, cadence=job.cadence, checks=checks)


@pytest.mark.slow
def test_a_batch_that_leaves_an_epoch_out_is_no_success(tmp_path: Path, service: EpochService) -> None:
    with pytest.raises(AirflowFailException, match="published 3 of 4 epochs"):
        operator(tmp_path, LEAVES_ONE, job=SIX_HOURLY, batch="@daily").execute(task_context())
    assert service.store.read(SIX_HOURLY.domain, []).head.csn == 3


def test_killing_the_task_ends_spark_and_aborts(tmp_path: Path, service: EpochService) -> None:
    task = operator(tmp_path, SLEEPS)
    running = ThreadPoolExecutor(max_workers=1).submit(task.execute, task_context())
    while task._hook is None or task._hook._submit_sp is None:
        time.sleep(0.1)
    process = task._hook._submit_sp
    arguments = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    assert b"store.db" not in arguments
    assert b"launch" not in arguments
    task.on_kill()
    assert isinstance(running.exception(), AirflowException)
    assert process.poll() is not None
    assert states(service)[-1] is EpochState.ABORTED


def test_a_zombie_does_not_publish(tmp_path: Path, service: EpochService) -> None:
    """While its program still runs, a later try of the same run begins, and publishes."""
    zombie = operator(tmp_path, SLEEPS)
    running = ThreadPoolExecutor(max_workers=1).submit(zombie.execute, task_context())
    while zombie._hook is None or zombie._hook._submit_sp is None:
        time.sleep(0.1)
    (tmp_path / "later").mkdir()
    operator(tmp_path / "later", ONE, "2").execute(task_context(try_number=2))
    zombie.on_kill()
    assert running.exception() is not None
    assert count(service, "rows") == 2
    assert states(service).count(EpochState.COMMIT) == 1


def test_cluster_mode_with_a_store_for_one_host_is_refused(tmp_path: Path, service: EpochService) -> None:
    with pytest.raises(AirflowFailException, match="one host only") as caught:
        operator(tmp_path, MUST_NOT_RUN, deploy_mode="cluster").execute(task_context())
    assert isinstance(caught.value.__cause__, StoreIncompatible)
    assert states(service) == []


@pytest.mark.slow
@pytest.mark.parametrize("batch", [False, True])
def test_a_run_within_a_restatement_stages_its_epochs(
    tmp_path: Path, service: EpochService, *, batch: bool
) -> None:
    """R28: one epoch that the operator hands over, and several that the program begins."""
    job, table = (SIX_HOURLY, "quarters") if batch else (DAILY, "rows")
    options: dict[str, Any] = {"job": job, "batch": "@daily"} if batch else {}
    program = WITHIN if batch else ONE
    operator(tmp_path, BATCH if batch else ONE, "5", **options).execute(task_context())
    before = count(service, table)
    service.restatements.open("default", [table], "2013-02-07", name="fix", reason="wrong", by="me")
    context = task_context(run_id="fix", conf={"restatement": "fix"})
    operator(tmp_path, program, "9", **options).execute(context)
    assert (count(service, table), states(service, job)[-1]) == (before, EpochState.WRITTEN)
    operator(tmp_path, program if batch else MUST_NOT_RUN, "9", **options).execute(context)
    service.restatements.publish("default", "fix")
    assert count(service, table) == (4 * 9 if batch else 9)
