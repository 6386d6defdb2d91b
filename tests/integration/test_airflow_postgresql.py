"""A connection to PostgreSQL, whose password has every odd character: schema, sensor, trigger and page over it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.sensors.epochs import EpochSensor
from airflow_provider.triggers.epochs import EpochTrigger
from tests.airflow_runs import DAY_END, task_context, typed
from tests.servers.postgresql import PostgresqlServer
from tests.services.postgresql import postgresql

__all__ = ["postgresql"]  # a fixture of this module

A = Table("a")
SEVENTH = Interval(DAY_END - timedelta(days=1), DAY_END)
JOB = Job("make_a", outputs=[A], cadence="@daily", origin=SEVENTH.start)
ODD = "p@ss:w/rd%20#?&é'"


@pytest.fixture(autouse=True)
def connection_fields(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    database = postgresql.create_database()
    user = f"odd@user:{database}"
    with postgresql.connect() as connection:
        quoted = ODD.replace("'", "''")
        connection.execute(f"CREATE ROLE \"{user}\" LOGIN SUPERUSER PASSWORD '{quoted}'")  # type: ignore[call-overload]
    fields = {
        "conn_type": "epochs",
        "host": "127.0.0.1",
        "port": postgresql.port,
        "schema": database,
        "login": user,
        "password": ODD,
        "extra": {"backend": "postgresql", "warehouse": f"file://{tmp_path}/warehouse", "sslmode": "disable"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps(fields))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    return fields


def publish() -> None:
    with EpochsHook().get_conn() as service:
        attempt = service.begin(JOB, SEVENTH, Owner(dag_id="dag", run_id="run"))
        assert isinstance(attempt, Attempt)
        data, place = service.formats["iceberg"], service.place(attempt, "a")
        info = data.create(A, pa.schema([("x", pa.int64())]))
        files = list(data.task_writer(place, info)([pa.RecordBatch.from_pydict({"x": [1]})]))
        service.processed(attempt, "a")
        service.written(attempt, "a", data.describe_output(place, info, files))
        service.publish(attempt)


def test_from_an_empty_database_to_a_woken_trigger() -> None:
    empty = typed("db", "check")
    assert empty.returncode == 1
    assert "airflow epochs db upgrade" in empty.stderr
    with pytest.raises(AirflowFailException, match="airflow epochs db upgrade"):
        EpochSensor(task_id="wait", tables=A).execute(task_context())
    assert typed("db", "upgrade").returncode == 0
    assert typed("db", "check").returncode == 0
    assert EpochsHook().test_connection()[0]

    async def wait() -> Any:
        trigger = EpochTrigger(
            domain="default", tables=["a"], barrier=DAY_END.isoformat(), poll_interval=3600
        )
        waiting = asyncio.create_task(anext(trigger.run()))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await asyncio.to_thread(publish)
        return (await waiting).payload

    assert asyncio.run(wait()) == {"status": "ready", "barrier": DAY_END.isoformat(), "csn": 1}
    assert EpochSensor(task_id="wait", tables=A).execute(task_context())["csn"] == 1
    with EpochsHook().get_reader() as reader:
        (row,) = grid(reader, "default", end=datetime(2013, 2, 8, tzinfo=UTC)).rows
    assert row.cells[-1].committed is not None


def test_a_wrong_password_is_told_once_and_without_it(
    connection_fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**connection_fields, "password": "planted-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", json.dumps(wrong))
    done = typed("status")
    assert done.returncode == 1
    assert "planted-secret" not in done.stderr + done.stdout
    assert connection_fields["schema"] in done.stderr
    assert done.stderr.count("\n") == 1
