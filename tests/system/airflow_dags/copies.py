"""DAGs for the test of runs: one makes rows, one waits for them and copies them; in one two tasks write an epoch."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_3_PLUS
from airflow.sdk import DAG

from airflow_provider.domain.topology import Job, Table
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.participants import epoch_task_group
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from airflow_provider.sensors.epochs import EpochSensor

ROWS, COPIES, SHARES = Table("rows"), Table("copies"), Table("shares")
ORIGIN = datetime(2013, 2, 7, tzinfo=UTC)
MAKE = Job("make", outputs=[ROWS], cadence="@daily", origin=ORIGIN, on_rerun="new_revision")
COPY = Job("copy", inputs=[ROWS], outputs=[COPIES], cadence="@daily", origin=ORIGIN, on_rerun="new_revision")
SHARE = Job("share", outputs=[SHARES], cadence="@daily", origin=ORIGIN)
FOLLOW = Job("follow", inputs=[SHARES], outputs=[Table("follows")], cadence="@daily", origin=ORIGIN)
SPLIT = Job("split", outputs=[Table("splits")], cadence="@daily", origin=ORIGIN, on_rerun="new_revision")
GATHER = Job(
    "gather",
    inputs=SPLIT.outputs,
    outputs=[Table("gathers")],
    cadence="@daily",
    origin=ORIGIN,
    on_rerun="new_revision",
)
TALLY = Job("tally", inputs=[ROWS, COPIES], outputs=[Table("tallies")], cadence="@daily", origin=ORIGIN)
RUNS = {
    "schedule": "@daily",
    "start_date": datetime(2013, 2, 8, tzinfo=UTC),
    "end_date": datetime(2013, 2, 20, tzinfo=UTC),
    "catchup": False,
    "default_args": {"retries": 2, "retry_delay": timedelta(0)},
}
PROGRAM = os.environ["EPOCHS_TEST_PROGRAM"]

with DAG("make", **RUNS):
    EpochSparkSubmitOperator(
        task_id="make", job=MAKE, application=PROGRAM, application_args=["{{ ti.try_number }}"]
    )

with DAG("copy", **RUNS):
    wait = EpochSensor(task_id="wait", tables=[ROWS], cadence="@daily")
    wait >> EpochSparkSubmitOperator(
        task_id="copy", job=COPY, application=PROGRAM, application_args=["{{ ti.try_number }}"]
    )

with DAG("share", **RUNS):

    @epoch_task_group(job=SHARE, participants=2, spark_conn_id="spark_default")
    def share(epoch: Any, ti: Any) -> None:
        """Write one row for each try; the first try of the second participant fails when it has written."""
        numbers = epoch.spark.range(epoch.participant, epoch.participant + 1)
        epoch.write(SHARES, numbers.selectExpr(f"cast(id * 10 + {ti.try_number} as bigint) as day"))
        if (epoch.participant, ti.try_number) == (1, 1):
            raise RuntimeError("the first try of participant 1 fails")

    share()

# No run of a calendar: the event of a share, which tells of a day in 2013, starts it now.
with DAG("follow", schedule=[asset_of(SHARES)], catchup=False, default_args=RUNS["default_args"]):
    EpochSparkSubmitOperator(
        task_id="follow", job=FOLLOW, application=PROGRAM, application_args=["{{ ti.try_number }}"]
    )

# Airflow backfills no DAG without a calendar: the runs that computed an epoch are cleared instead.
with DAG("tally", schedule=None, default_args=RUNS["default_args"]):
    EpochSparkSubmitOperator(
        task_id="tally", job=TALLY, application=PROGRAM, application_args=["{{ ti.try_number }}"]
    )

if AIRFLOW_V_3_3_PLUS:
    from airflow.sdk import CronPartitionTimetable, PartitionedAssetTimetable

    # The scheduler starts its runs, one for each day, which begins with the partition's key.
    with DAG(
        "split",
        schedule=CronPartitionTimetable("@daily", timezone="UTC", run_offset=-1),
        start_date=RUNS["start_date"],
        end_date=datetime(2013, 2, 9, tzinfo=UTC),
        catchup=True,
        default_args=RUNS["default_args"],
    ):
        EpochSparkSubmitOperator(
            task_id="split", job=SPLIT, application=PROGRAM, application_args=["{{ ti.try_number }}"]
        )

    # The event of a split starts its runs, each with the key of the run that it comes from.
    with DAG(
        "gather",
        schedule=PartitionedAssetTimetable(assets=asset_of(SPLIT.outputs[0])),
        catchup=False,
        default_args=RUNS["default_args"],
    ):
        EpochSparkSubmitOperator(
            task_id="gather", job=GATHER, application=PROGRAM, application_args=["{{ ti.try_number }}"]
        )
