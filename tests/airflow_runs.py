"""What Airflow gives to a task, made without a scheduler: its own classes, filled in."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from airflow.models.dag import DagModel
from airflow.sdk.api.datamodels._generated import (
    AssetEventDagRunReference,
    AssetReferenceAssetEventDagRun,
    DagRun,
    DagRunState,
    DagRunType,
)
from airflow.sdk.execution_time.context import OutletEventAccessors
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from airflow_provider.cli.program import parser
from tests.airflow_versions import AIRFLOW

DAY_END = datetime(2013, 2, 8, tzinfo=UTC)


def task_context(
    *,
    run_date: datetime | None = DAY_END,
    data_interval: tuple[datetime, datetime] | None = None,
    partition_key: str | None = None,
    dag_id: str = "pipeline",
    run_id: str = "scheduled__2013-02-08",
    cleared_after: int = 0,
    try_number: int = 1,
    retries: int = 2,
    run_type: DagRunType = DagRunType.SCHEDULED,
    events: Sequence[Mapping[str, Any]] = (),
    conf: Mapping[str, Any] | None = None,
) -> Any:
    """The context of a run; without a data interval of its own it has Airflow 3's empty one.

    :param cleared_after: tries that the task had when it was cleared.
    :param events: the extras of the assets' events that have started it: then it has no date.
    """
    if events:
        run_date, run_type = None, DagRunType.ASSET_TRIGGERED
    start, end = data_interval or (run_date, run_date)
    run = DagRun(
        dag_id=dag_id,
        run_id=run_id,
        logical_date=run_date,
        data_interval_start=start,
        data_interval_end=end,
        run_after=run_date or DAY_END,
        start_date=DAY_END,
        end_date=None,
        clear_number=1 if cleared_after else 0,
        run_type=run_type,
        state=DagRunState.RUNNING,
        consumed_asset_events=[_event(extra) for extra in events],
        **({} if AIRFLOW < (3, 2) else {"partition_key": partition_key}),
        conf=None if conf is None else dict(conf),
    )
    return {
        "dag_run": run,
        "ti": SimpleNamespace(
            id=UUID(int=try_number),
            try_number=try_number,
            max_tries=cleared_after + retries,
            task=SimpleNamespace(retries=retries),
        ),
        "outlet_events": OutletEventAccessors(),
    }


def published(table: str, *intervals: tuple[datetime, datetime], domain: str = "default") -> dict[str, Any]:
    """The extra of the event that tells of *table*'s epochs."""
    epochs = [{"start": start.isoformat(), "end": end.isoformat(), "revision": 1} for start, end in intervals]
    return {"domain": domain, "table": table, "job": "maker", "csn": 1, "epochs": epochs}


def _event(extra: Mapping[str, Any]) -> AssetEventDagRunReference:
    name = str(extra.get("table", "an asset of others"))
    return AssetEventDagRunReference(
        asset=AssetReferenceAssetEventDagRun(name=name, uri=f"x://{name}", extra={}),
        extra=dict(extra),
        source_task_id=None,
        source_dag_id=None,
        source_run_id=None,
        source_map_index=None,
        source_aliases=[],
        timestamp=DAY_END,
    )


def epochs_connection(folder: Path) -> str:
    """The environment's form of a connection to a store of the test's own."""
    return json.dumps(
        {
            "conn_type": "epochs",
            "host": f"{folder}/store.db",
            "extra": {"backend": "sqlite", "warehouse": f"file://{folder}/warehouse"},
        }
    )


def airflow_database() -> Callable[[], AbstractContextManager[Session]]:
    """Return what opens sessions, as Airflow's ``create_session`` does, of an empty database of Airflow in memory."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    DagModel.metadata.create_all(engine)
    return sessionmaker(engine).begin


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def typed(*arguments: str) -> Done:
    """Run ``airflow epochs …`` as Airflow's own entry point does, in this process."""
    code: Any = 0
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            given = parser().parse_args(["epochs", *arguments])
            given.func(given)
        except SystemExit as end:
            code = end.code
    return Done(code, out.getvalue(), err.getvalue())
