"""An epoch's way through a Spark program: begin, stage, publish; and everything that ends it otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from uuid6 import uuid7

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.checks import Check, is_true, no_rows, not_null
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, EpochState
from airflow_provider.domain.errors import (
    CheckFailed,
    Fenced,
    InvalidInput,
    LeaseExpired,
    NotReady,
    StoreUnavailable,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table, increment, state
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.computed import AlreadyComputed
from airflow_provider.spark.epoch_run import epoch_run, epoch_runs
from airflow_provider.testing.faults import Fault, FaultyStore
from airflow_provider.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOURLY = Table("hourly")
TOTALS = Table("totals")
DAILY = Table("daily")
BOTH = Job("both", outputs=[HOURLY, TOTALS], cadence="@hourly")
SUMS = Job("sums", inputs=[HOURLY, state(TOTALS)], outputs=[DAILY], cadence="@daily")
MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)
DAY = Interval(MIDNIGHT, MIDNIGHT + timedelta(days=1))
NIGHT = Interval(MIDNIGHT, MIDNIGHT + timedelta(hours=4))
HOUR = Interval(MIDNIGHT, MIDNIGHT + timedelta(hours=1))
RUN = Owner(dag_id="dag", run_id="run")
IMPATIENT = Defaults(unknown_outcome_timeout=timedelta(seconds=1))

on_connect = pytest.mark.parametrize("spark", ["connect"], indirect=True)
on_classic = pytest.mark.parametrize("spark", ["classic"], indirect=True)
"""One kind of session is enough where nothing differs between them."""


def compute(epoch: EpochRun, rows: int = 3) -> None:
    """Write both tables such that they agree."""
    df = rows_of(epoch, rows)
    epoch.write(HOURLY, df)
    epoch.write("totals", totals_of(df))


def rows_of(epoch: EpochRun, rows: int) -> DataFrame:
    return epoch.spark.range(rows).selectExpr("id", f"{epoch.interval.start.hour} as hour")


def totals_of(df: DataFrame) -> DataFrame:
    return df.selectExpr("count(*) as rows", "coalesce(max(hour), 0) as hour")


def begin(service: EpochService, owner: Owner, interval: Interval = HOUR, job: Job = BOTH) -> Attempt:
    attempt = service.begin(job, interval, replace(owner, request_id=str(uuid7())))
    assert isinstance(attempt, Attempt)
    return attempt


def read(service: EpochService, table: str) -> pa.Table:
    return service.cuts.read(service.cuts.cut("default", [table]), table)


def states(service: EpochService, job: Job = BOTH, interval: Interval = HOUR) -> list[tuple[str, str]]:
    """The epoch's state log in the order of its entries' times."""
    log = service.barriers(job.domain, job.name, interval)
    return [(entry.record.state, entry.record.sink) for entry in sorted(log, key=lambda entry: entry.at)]


def test_two_tables_become_visible_at_once_and_a_day_reads_its_hours(
    connect_session: SparkSession, settings: Settings, service: EpochService
) -> None:
    csns = []
    for epoch in epoch_runs(BOTH, DAY, spark=connect_session, settings=settings):
        with epoch:
            compute(epoch, rows=epoch.interval.start.hour)
        assert epoch.published is not None
        csns.append(epoch.published.csn)
    assert csns == list(range(1, 25))
    assert states(service) == [
        (EpochState.OPEN, ""),
        (EpochState.PROCESSED, "hourly"),
        (EpochState.WRITTEN, "hourly"),
        (EpochState.PROCESSED, "totals"),
        (EpochState.WRITTEN, "totals"),
        (EpochState.WRITTEN, ""),
        (EpochState.COMMIT, ""),
    ]
    with epoch_run(SUMS, DAY, spark=connect_session, settings=settings) as epoch:
        rows, totals = epoch.read(HOURLY), epoch.read("totals")
        epoch.write(
            "daily", rows.selectExpr("count(*) as rows").crossJoin(totals.selectExpr("sum(rows) as total"))
        )
    [sums] = read(service, "daily").drop_columns("_epoch").to_pylist()
    assert sums == {"rows": sum(range(24)), "total": sum(range(24))}


def test_checks_run_in_the_session_that_computed_the_rows(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R14: Spark's own functions; the outputs and the inputs of the epoch; a failed check keeps the rows."""
    good = Job(
        "both",
        outputs=[HOURLY, TOTALS],
        cadence="@hourly",
        checks=[
            not_null(HOURLY, "id"),
            no_rows("SELECT * FROM {totals} WHERE rows <> (SELECT count_if(id IS NOT NULL) FROM {hourly})"),
            is_true("SELECT array_contains(collect_set(hour), 0) FROM {hourly}"),
        ],
    )
    views = spark.catalog.listTables()
    with epoch_run(good, HOUR, spark=spark, settings=settings) as epoch:
        compute(epoch)
    assert epoch.published is not None
    sums = Job(
        "sums",
        inputs=[increment(HOURLY)],
        outputs=[DAILY],
        cadence="@hourly",
        checks=[no_rows("SELECT h.id FROM {daily} d, {hourly} h WHERE d.rows < 4 ORDER BY 1", name="four")],
    )
    with (
        pytest.raises(CheckFailed, match=r"four: 3 rows, such as \{'id': 0\}") as told,
        epoch_run(sums, HOUR, spark=spark, settings=settings) as epoch,
    ):
        epoch.write("daily", epoch.read(HOURLY).selectExpr("count(*) as rows"))
    (place,) = told.value.places
    assert spark.read.parquet(f"{place}*.parquet").count() == 1
    assert spark.catalog.listTables() == views
    assert (EpochState.CHECK_FAILED, "") in states(service, sums)
    wrong = replace_checks(sums, no_rows("SELECT nothing FROM {daily}"))
    again = Owner(dag_id="dag", run_id="again")
    with (
        pytest.raises(CheckFailed, match="cannot be answered: .*SQL that Spark runs"),
        epoch_run(wrong, HOUR, spark=spark, settings=settings, owner=again) as epoch,
    ):
        epoch.write("daily", epoch.read(HOURLY).selectExpr("count(*) as rows"))
    assert not Path(place.removeprefix("file://")).exists()
    by_zero = is_true("SELECT 1 / (rows - rows) = 1 FROM {daily}")
    twice = is_true("SELECT min(rows) > 3 AS ok, max(rows) < 4 AS ok FROM {daily}", name="twice")
    divided = replace_checks(sums, by_zero, twice)
    with (
        pytest.raises(CheckFailed, match="cannot be answered: .*DIVIDE_BY_ZERO.*twice: 1 rows of 2 columns"),
        epoch_run(divided, HOUR, spark=spark, settings=settings, owner=again) as epoch,
    ):
        epoch.write("daily", epoch.read(HOURLY).selectExpr("count(*) as rows"))


def replace_checks(job: Job, *checks: Check) -> Job:
    return Job(job.name, inputs=job.inputs, outputs=job.outputs, cadence=job.cadence, checks=checks)


def test_a_batch_goes_on_where_an_earlier_try_of_it_ended(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    computed: list[int] = []

    def run(owner: Owner, stop_at: int) -> None:
        for epoch in epoch_runs(BOTH, NIGHT, spark=spark, settings=settings, owner=owner):
            with epoch:
                if epoch.interval.start.hour == stop_at:
                    raise OSError("lost its host\nand more")
                compute(epoch)
            computed.append(epoch.interval.start.hour)

    with pytest.raises(OSError, match="lost its host"):
        run(RUN, stop_at=2)
    interval = Interval(MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=3))
    assert states(service, interval=interval)[-1] == (EpochState.ABORTED, "")
    record = service.epoch(BOTH.domain, BOTH.name, interval)
    assert record is not None
    assert record.record.attempt is not None
    assert record.record.attempt.aborted == "OSError: lost its host"
    run(replace(RUN, try_number=2), stop_at=4)
    assert computed == list(range(4))
    assert service.cuts.cut("default", ["hourly", "totals"]).csn == 4


def test_a_night_becomes_visible_at_once_and_a_retry_computes_the_rest(
    connect_session: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R2, R16: a failure publishes none of the hours; what is complete is adopted."""
    computed: list[int] = []

    def run(owner: Owner, stop_at: int) -> list[EpochRun]:
        runs = []
        for epoch in epoch_runs(
            BOTH, NIGHT, spark=connect_session, settings=settings, owner=owner, commit="together"
        ):
            with epoch:
                if epoch.interval.start.hour == stop_at:
                    raise OSError("lost its host")
                compute(epoch)
            assert epoch.published is None
            runs.append(epoch)
            computed.append(epoch.interval.start.hour)
        return runs

    with pytest.raises(OSError, match="lost its host"):
        run(RUN, stop_at=2)
    assert service.store.read("default", []).head.csn == 0
    starts = [MIDNIGHT + number * timedelta(hours=1) for number in range(4)]
    hours = [Interval(start, start + timedelta(hours=1)) for start in starts]
    states = [explain(service.store, "default", BOTH.name, hour).state for hour in hours]
    assert states == [EpochState.PRECOMMIT] * 2 + [EpochState.ABORTED] * 2
    runs = run(replace(RUN, try_number=2), stop_at=4)
    assert computed == [0, 1, 2, 3]
    assert [epoch.published.csn for epoch in runs if epoch.published] == [1, 1]
    cut = service.cuts.cut("default", ["hourly", "totals"])
    assert (cut.csn, cut.barrier) == (1, NIGHT.end)
    assert read(service, "hourly").num_rows == 12


def test_a_night_whose_last_hour_is_not_ready_keeps_no_lock(
    connect_session: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R27: all hours begin before any is computed; where the last one waits, other runs may have the others."""
    with epoch_run(BOTH, HOUR, spark=connect_session, settings=settings) as epoch:
        compute(epoch)
    copy = Job("copy", inputs=[HOURLY], outputs=[DAILY], cadence="@hourly", origin=MIDNIGHT)
    with pytest.raises(NotReady):
        next(epoch_runs(copy, NIGHT, settings=settings, commit="together"))
    assert states(service, copy) == [(EpochState.OPEN, ""), (EpochState.ABORTED, "")]
    assert isinstance(begin(service, RUN, job=copy), Attempt)


def test_a_loop_that_ends_early_publishes_none_and_says_so(
    connect_session: SparkSession,
    settings: Settings,
    service: EpochService,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for epoch in epoch_runs(BOTH, NIGHT, spark=connect_session, settings=settings, commit="together"):
        with epoch:
            compute(epoch)
        break
    assert "none of 4 epochs of both is published" in caplog.text
    assert service.store.read("default", []).head.csn == 0


def test_an_exception_leaves_no_staged_file(
    spark: SparkSession, settings: Settings, service: EpochService, tmp_path: Path
) -> None:
    def half() -> None:
        with epoch_run(BOTH, HOUR, spark=spark, settings=settings) as epoch:
            epoch.write(HOURLY, rows_of(epoch, 3))
            assert list((tmp_path / "warehouse").rglob("*.parquet"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert not list((tmp_path / "warehouse").rglob("*.parquet"))
    assert states(service)[-1] == (EpochState.ABORTED, "")
    with epoch_run(BOTH, HOUR, spark=spark, settings=settings) as epoch:
        compute(epoch)
    assert epoch.published is not None
    assert (epoch.published.csn, epoch.published.revision) == (1, 1)


def crash(service: EpochService, spark: SparkSession, *, complete: bool) -> None:
    """Write all output, then end as kill -9 would: no abort, no publish."""
    crashed = EpochRun(service, BOTH, begin(service, RUN), spark=spark)
    crashed.__enter__()
    compute(crashed, rows=5)
    if complete:
        service.complete(crashed.attempt)
    crashed._heartbeat.stop()


@on_connect
def test_complete_output_of_a_crashed_try_is_published_without_computing(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    crash(service, spark, complete=True)
    retry = replace(RUN, try_number=2)
    assert list(epoch_runs(BOTH, HOUR, spark=spark, settings=settings, owner=retry)) == []
    assert read(service, "hourly").num_rows == 5
    with pytest.raises(AlreadyComputed) as answer:
        epoch_run(BOTH, HOUR, spark=spark, settings=settings, owner=retry).__enter__()
    assert isinstance(answer.value.committed, AlreadyCommitted)


@pytest.mark.parametrize(("complete", "rows"), [(True, 5), (False, 9)])
def test_block_recomputes_only_incomplete_output(
    connect_session: SparkSession, settings: Settings, service: EpochService, complete: bool, rows: int
) -> None:
    crash(service, connect_session, complete=complete)
    owner = replace(RUN, try_number=2)
    with epoch_run(BOTH, HOUR, spark=connect_session, settings=settings, owner=owner) as epoch:
        assert epoch.attempt.adopted is complete
        compute(epoch, rows=9)
    assert read(service, "hourly").num_rows == rows


@on_connect
def test_a_newer_attempt_ends_the_older_one_which_changes_nothing(
    spark: SparkSession, service: EpochService
) -> None:
    newer: list[Attempt] = []

    def overtaken() -> None:
        with EpochRun(service, BOTH, begin(service, RUN), spark=spark) as epoch:
            epoch.write(HOURLY, rows_of(epoch, 3))
            newer.append(begin(service, replace(RUN, try_number=2)))
            epoch.write(TOTALS, totals_of(rows_of(epoch, 3)))

    with pytest.raises(Fenced):
        overtaken()
    assert (EpochState.ABORTED, "") not in states(service)
    with EpochRun(service, BOTH, newer[0], spark=spark) as epoch:
        compute(epoch)
    assert epoch.published is not None


def test_work_of_an_overtaken_attempt_comes_to_nothing(spark: SparkSession, settings: Settings) -> None:
    """It is interrupted before it has written anything, and reports nothing."""

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(120)  # interrupted long before
            yield batch

    defaults = Defaults(lock_ttl=timedelta(seconds=6))
    with EpochService.open(settings, defaults=defaults) as service:
        attempt = begin(service, RUN)
        overtake = threading.Timer(2.0, lambda: begin(service, replace(RUN, try_number=2)))
        overtake.start()

        def overtaken() -> None:
            with EpochRun(service, BOTH, attempt, spark=spark) as epoch:
                epoch.write(HOURLY, spark.range(3).mapInArrow(slowly, "id bigint"))

        with pytest.raises(Fenced):
            overtaken()
        overtake.join()
        assert not {EpochState.PROCESSED, EpochState.WRITTEN} & {state for state, _ in states(service)}
    assert not list(Path(settings.warehouse).rglob("*.parquet"))


@on_classic
def test_a_read_after_the_lock_has_ended_is_refused(spark: SparkSession, settings: Settings) -> None:
    clock = ManualClock(datetime.now(UTC))
    with EpochService.open(settings, clock=clock) as service:
        attempt = begin(service, RUN)

        def sleeper() -> None:
            with EpochRun(service, BOTH, attempt, spark=spark) as epoch:
                epoch.write(HOURLY, spark.range(3))
                clock.advance(attempt.ttl + timedelta(seconds=1))
                epoch.write(TOTALS, spark.range(1))

        with pytest.raises(LeaseExpired) as late:
            sleeper()
        assert late.value.late == timedelta(seconds=1)
        assert states(service)[-1] == (EpochState.ABORTED, "")


@on_classic
def test_a_store_that_is_away_for_less_than_the_lock_costs_nothing(
    spark: SparkSession, settings: Settings
) -> None:
    defaults = Defaults(lock_ttl=timedelta(seconds=30), heartbeat_interval=timedelta(milliseconds=50))
    with EpochService.open(settings, defaults=defaults) as service:
        attempt = begin(service, RUN)
        away = threading.Event()
        lost: list[str] = []

        def plan(call: object) -> Fault | None:
            if away.is_set():
                lost.append(str(call))
                return Fault.REQUEST_LOST
            return None

        service.context = replace(service.context, store=FaultyStore(service.store, plan))
        with EpochRun(service, BOTH, attempt, spark=spark) as epoch:
            away.set()
            while len(lost) < 3:
                time.sleep(0.02)
            away.clear()
            compute(epoch)
        assert epoch.published is not None


def test_a_store_that_is_away_at_the_end_leaves_the_output_for_the_retry(
    connect_session: SparkSession, settings: Settings
) -> None:
    with EpochService.open(settings, defaults=IMPATIENT) as service:
        lose_the_store_before_publish(service, connect_session)
        assert (EpochState.ABORTED, "") not in states(service)
        owner = replace(RUN, try_number=2)
        assert list(epoch_runs(BOTH, HOUR, spark=connect_session, settings=settings, owner=owner)) == []
        assert read(service, "hourly").num_rows == 4


def lose_the_store_before_publish(service: EpochService, spark: SparkSession) -> None:
    away = threading.Event()
    context = service.context
    faulty = FaultyStore(
        context.store,
        lambda call: Fault.REQUEST_LOST if away.is_set() and call.method == "transact" else None,
    )
    service.context = replace(context, store=faulty)
    complete = service.complete

    def complete_then_lose_the_store(attempt: Attempt) -> None:
        complete(attempt)
        away.set()

    service.complete = complete_then_lose_the_store  # type: ignore[method-assign]

    def cut_off() -> None:
        with EpochRun(service, BOTH, begin(service, RUN), spark=spark) as epoch:
            compute(epoch, rows=4)

    with pytest.raises(StoreUnavailable):
        cut_off()
    away.clear()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (lambda epoch: epoch.interval, "['hourly', 'totals'] were not written"),
        (lambda epoch: epoch.write(HOURLY, epoch.spark.range(1)), "['totals'] were not written"),
        (lambda epoch: [epoch.write(HOURLY, epoch.spark.range(1)) for _ in range(2)], "was written already"),
        (lambda epoch: epoch.write("other", epoch.spark.range(1)), "declare 'other' in the outputs"),
        (lambda epoch: epoch.read("hourly"), "declare 'hourly' in the inputs"),
        (lambda epoch: epoch.source_files("landing"), "declare FileSource('landing'"),
        (lambda epoch: epoch.write(HOURLY, epoch.spark.sql("select 1 as _epoch")), "_epoch"),
    ],
)
def test_a_block_that_does_not_keep_to_its_declaration_is_told(
    classic_session: SparkSession,
    settings: Settings,
    service: EpochService,
    body: Callable[[EpochRun], object],
    problem: str,
) -> None:
    def run() -> None:
        with epoch_run(BOTH, HOUR, spark=classic_session, settings=settings) as epoch:
            body(epoch)

    with pytest.raises(InvalidInput) as told:
        run()
    assert problem in str(told.value)
    assert states(service)[-1] == (EpochState.ABORTED, "")


def test_arguments_that_do_not_fit_are_told(classic_session: SparkSession, settings: Settings) -> None:
    def enter(job: Job | None, interval: Interval | None, where: Settings | None) -> None:
        with epoch_run(job, interval, spark=classic_session, settings=where) as epoch:
            compute(epoch)

    with pytest.raises(InvalidInput, match="job, interval, settings missing"):
        enter(None, None, None)
    with pytest.raises(InvalidInput, match="not 24.*epoch_runs"):
        enter(BOTH, DAY, settings)
    with pytest.raises(InvalidInput, match="commit: 'all'"):
        next(epoch_runs(BOTH, DAY, settings=settings, commit="all"))
    with pytest.raises(InvalidInput, match="at most 100 epochs"):
        next(epoch_runs(BOTH, "2013-02-01/2013-02-07", settings=settings, commit="together"))
    epochs = epoch_runs(BOTH, DAY, spark=classic_session, settings=settings)
    first = next(epochs)
    with pytest.raises(InvalidInput, match="not entered"):
        first.write(HOURLY, classic_session.range(1))
    with pytest.raises(InvalidInput, match="not entered"):
        next(epochs)
    with pytest.raises(NotReady) as waiting:
        epoch_run(SUMS, DAY, spark=classic_session, settings=settings).__enter__()
    assert {str(missing.table) for missing in waiting.value.missing} == {"hourly", "totals"}


def test_a_table_in_memory_is_refused(classic_session: SparkSession, service: EpochService) -> None:
    job = Job("job", outputs=[Table("t", format="memory")], cadence="@hourly")

    def run() -> None:
        with EpochRun(service, job, begin(service, RUN, job=job), spark=classic_session) as epoch:
            epoch.write("t", classic_session.range(1))

    with pytest.raises(InvalidInput, match="memory tables live in one process"):
        run()


@on_connect
def test_a_source_is_read_as_it_was_when_the_attempt_began(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """What changes meanwhile ends it; nothing stands on what it has read, so that the next try reads what is there."""
    landing = tmp_path / "landing"
    landing.mkdir()
    first = landing / "2013-02-08T00-a.csv"
    first.write_text("1\n2\n")
    job = Job(
        "loads",
        inputs=[
            FileSource("landing", location=f"{landing}/{{start:%Y-%m-%dT%H}}-*.csv", complete=none_needed())
        ],
        outputs=[HOURLY],
        cadence="@hourly",
    )

    def load(*files: Path, change: bool) -> None:
        with epoch_run(job, HOUR, spark=spark, settings=settings) as epoch:
            assert epoch.source_files("landing") == [f"file://{file}" for file in files]
            df = epoch.spark.read.schema("id int").csv(epoch.source_files("landing"))
            if change:
                first.write_text("1\n2\n3\n")
            epoch.write(HOURLY, df)

    (landing / "2013-02-08T01-a.csv").write_text("9\n")
    with pytest.raises(Unavailable, match="recorded when the epoch began"):
        load(first, change=True)
    late = landing / "2013-02-08T00-late.csv"
    late.write_text("7\n")
    load(first, late, change=False)
    with EpochService.open(settings) as service:
        found = service.cuts.read(service.cuts.cut("default", [HOURLY]), HOURLY, ["id"])
    assert sorted(found.column("id").to_pylist()) == [1, 2, 3, 7]
