"""What ``test_kill_spark`` kills: it stops where it is told to, once, and waits for its end.

Without arguments it is a Spark program that computes what was handed over to it. ``kill_job.py task EPOCHS`` executes
``@task.epoch``, as the process does that Airflow starts for a task.

Only this program has places to stop at; the package knows nothing of them. A store around the store stops in the
transactions of begin, of the barriers and of publish; a function in front of the sink stops inside a Spark task.

:Environment: ``KILL_FOLDER`` holds ``plan.json`` (a list of stops, one for each epoch) and the files by which this
    program and the test tell each other how far they are; ``KILL_TRY`` is this process's number. ``KILL_COMMIT`` is
    "together" where all epochs of the task become visible in one commit.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider.coordination import service
from airflow_provider.domain.epoch import AttemptEvent, EpochState
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.version import CommitRecord
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.epoch_run import epoch_runs
from airflow_provider.stores.base import MetadataStore, Put, Reading, Receipt, Transaction
from tests.slow.kill_plan import DRAFTED, JOB, span

FOLDER = Path(os.environ["KILL_FOLDER"])
TRY = os.environ["KILL_TRY"]


def stop_at(epoch: int, place: str) -> None:
    """Say that *place* is reached and wait for leave to go on, if the plan has it for *epoch* and this is its turn."""
    if json.loads((FOLDER / "plan.json").read_text())[epoch] == place:
        wait_for_leave(str(FOLDER), epoch, TRY)


def wait_for_leave(folder: str, epoch: int, number: str) -> None:
    """Runs in the driver and in Spark's workers; stops once for each epoch, in the newest process only."""
    if Path(folder, "current").read_text() != number:
        return
    try:
        Path(folder, f"reached-{epoch}").touch(exist_ok=False)
    except FileExistsError:
        return
    while not Path(folder, f"go-{epoch}").exists():
        time.sleep(0.02)


class StoppingStore(MetadataStore):
    """Passes everything on to *inner* and stops before or after the transactions of the plan."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner
        self.capabilities = inner.capabilities

    def transact(self, transaction: Transaction) -> Receipt:
        step = _step(transaction)
        if step is None:
            return self._inner.transact(transaction)
        name, epoch = step
        stop_at(epoch, f"before {name}")
        receipt = self._inner.transact(transaction)
        stop_at(epoch, f"after {name}")
        return receipt

    def read(self, domain: DomainName, keys: Sequence[Key], **options: Any) -> Reading:
        return self._inner.read(domain, keys, **options)

    def scan(self, domain: DomainName, kind: Kind, partition: str, **options: Any) -> list[Stamped[Any]]:
        return self._inner.scan(domain, kind, partition, **options)

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self._inner.changes(domain, after, limit=limit)

    def domains(self) -> list[DomainName]:
        return self._inner.domains()

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        return self._inner.watch(domain, after, timeout)

    def close(self) -> None:
        self._inner.close()


def _step(transaction: Transaction) -> tuple[str, int] | None:
    """Which step of which epoch (its hour) a transaction is; the publish of several comes after all of them."""
    if transaction.number is not None:
        hours = [hour_of(member.interval.start) for member in transaction.number.commit.members]
        return "publish", hours[0] if len(hours) == 1 else hours[-1] + 1  # after the stops in its epochs
    for update in transaction.updates:
        if isinstance(update, Put) and isinstance(update.record, AttemptEvent):
            state, sink = update.record.state, update.record.sink
            name = "begin" if state is EpochState.OPEN else f"{state} {sink}".strip()
            return name, _hour_in(update.key.partition)
    return None


def hour_of(moment: Any) -> int:
    """Number of an epoch: hours since the first one."""
    return (moment.day - 1) * 24 + int(moment.hour)


def _hour_in(partition: str) -> int:
    stamp = partition.rpartition("/")[2]
    return (int(stamp[6:8]) - 1) * 24 + int(stamp[9:11])


def compute(epoch: EpochRun) -> None:
    """Write two tables that must agree: rows, and their count."""
    hour = hour_of(epoch.interval.start)
    rows = epoch.spark.range(0, 10 + hour, 1, 2).selectExpr("id", f"{hour} as hour")
    epoch.write("hourly", rows.mapInArrow(stopping("hourly", hour), "id bigint, hour int"))
    totals = rows.selectExpr("count(*) as rows", f"{hour} as hour")
    epoch.write("totals", totals.mapInArrow(stopping("totals", hour), "rows bigint, hour int"))


def draft(epoch: EpochRun) -> None:
    """Write the same with statements, two for each table."""
    hour = hour_of(epoch.interval.start)
    rows = epoch.spark.range(0, 10 + hour, 1, 2).selectExpr("id", f"{hour} as hour")
    rows.mapInArrow(stopping("hourly", hour), "id bigint, hour int").createOrReplaceTempView("new_rows")
    with epoch.draft("hourly", schema="id bigint, hour int") as hourly:
        epoch.spark.sql(f"INSERT INTO {hourly} SELECT -1L, {hour}")
        stop_at(hour, "between statements of hourly")
        epoch.spark.sql(f"DELETE FROM {hourly} WHERE id < 0")  # noqa: S608
        epoch.spark.sql(f"INSERT INTO {hourly} SELECT * FROM new_rows")  # noqa: S608
    totals = rows.selectExpr("count(*) as rows", f"{hour} as hour")
    totals.mapInArrow(stopping("totals", hour), "rows bigint, hour int").createOrReplaceTempView("new_total")
    with epoch.draft("totals", schema="rows bigint, hour int") as kept:
        epoch.spark.sql(f"INSERT INTO {kept} SELECT 0L, {hour}")
        stop_at(hour, "between statements of totals")
        merged = "WHEN MATCHED THEN UPDATE SET rows = t.rows + s.rows WHEN NOT MATCHED THEN INSERT *"
        epoch.spark.sql(f"MERGE INTO {kept} AS t USING new_total AS s ON t.hour = s.hour {merged}")


def stopping(table: str, epoch: int) -> Any:
    """Pass batches on; in the plan's epoch, stop in the middle of the task."""
    planned = json.loads((FOLDER / "plan.json").read_text())[epoch] == f"in a task of {table}"
    folder, number = str(FOLDER), TRY

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path
        from time import sleep

        for batch in batches:
            yield batch
            current, reached = Path(folder, "current"), Path(folder, f"reached-{epoch}")
            if planned and current.read_text() == number and not reached.exists():
                reached.touch()
                while not Path(folder, f"go-{epoch}").exists():
                    sleep(0.02)

    return run


def execute_task(epochs: int) -> None:
    """Execute the task of a DAG; its connections are in the environment."""
    from airflow.sdk import DAG, task

    from tests.airflow_runs import task_context

    with DAG("dag", schedule=None) as dag:
        task.epoch(job=JOB, interval=span(epochs), commit=os.environ.get("KILL_COMMIT", "each"))(compute)()
    (operator,) = dag.tasks
    operator.execute(task_context(dag_id="dag", run_id="run", try_number=int(TRY), retries=10 * epochs))


def main(arguments: Sequence[str]) -> None:
    """Compute what was handed over, or what the task is for."""
    (FOLDER / f"driver-{TRY}").write_text(str(os.getpid()))
    opened = service.open_store
    service.open_store = lambda *args, **options: StoppingStore(opened(*args, **options))
    if arguments:
        execute_task(int(arguments[1]))
        return
    for epoch in epoch_runs():
        with epoch:
            (draft if epoch.job.name == DRAFTED.name else compute)(epoch)


if __name__ == "__main__":
    main(sys.argv[1:])
