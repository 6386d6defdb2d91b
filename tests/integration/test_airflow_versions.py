"""What differs between versions of Airflow, on the one that is here."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from airflow import __version__
from airflow.jobs.triggerer_job_runner import TriggerCommsDecoder
from airflow.sdk.execution_time.comms import GetVariable, _RequestFrame, _ResponseFrame
from msgspec import msgpack

from airflow_provider.cli.program import parser
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Table
from airflow_provider.hooks import compat
from airflow_provider.sensors.epochs import EpochSensor
from tests.airflow_versions import AIRFLOW


def test_a_sensor_is_told_when_the_dag_is_parsed_that_no_task_starts_in_the_triggerer() -> None:
    asked = {"task_id": "wait", "tables": [Table("a")], "deferrable": True, "start_from_trigger": True}
    if AIRFLOW >= (3, 3):
        assert EpochSensor(**asked).start_from_trigger
        return
    with pytest.raises(
        InvalidInput, match=f"start_from_trigger: True .*Airflow {__version__} starts every task"
    ):
        EpochSensor(**asked)
    assert not EpochSensor(**{**asked, "start_from_trigger": None}).start_from_trigger


def test_the_program_has_the_commands_and_airflows_own() -> None:
    assert parser().parse_args(["epochs", "explain", "job"]).interval is None
    assert parser().parse_args(["dags", "list"])


def test_a_run_without_a_partition_key_has_none() -> None:
    assert compat.partition_key(SimpleNamespace()) is None
    assert compat.partition_key(SimpleNamespace(partition_key="2013-02-07")) == "2013-02-07"


def test_a_folder_is_parsed_and_what_is_wrong_in_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from airflow.sdk import DAG\nraise RuntimeError('planted')\n")
    (tmp_path / "good.py").write_text("from airflow.sdk import DAG\ndag = DAG('good', schedule=None)\n")
    bag = compat.dag_bag(tmp_path, bundle_path=tmp_path)
    assert sorted(bag.dags) == ["good"]
    assert ["planted" in error for error in bag.import_errors.values()] == [True]


def test_a_trigger_that_asks_airflow_in_a_thread_leaves_the_triggerer_its_answers() -> None:
    """By the triggerer's own channel to its supervisor, on which it asks again by itself."""
    ours, theirs = socket.socketpair()
    answering = Thread(target=_answer, args=(theirs, 4), daemon=True)
    answering.start()
    asyncio.run(asyncio.wait_for(_ask(ours), timeout=20))
    answering.join(10)
    assert not answering.is_alive()


async def _ask(channel: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=channel)
    decoder: Any = TriggerCommsDecoder(socket=channel, async_writer=writer, async_reader=reader)
    if AIRFLOW >= (3, 2):
        await decoder.start_reader()
    message = GetVariable(key="any")
    for _ in range(2):
        assert await compat.from_trigger(decoder.send, message) is None
        assert await decoder.asend(message) is None
    if AIRFLOW >= (3, 2):
        decoder._reader_task.cancel()
    writer.close()
    await writer.wait_closed()


def _answer(channel: socket.socket, number: int) -> None:
    """Answer *number* questions, each with nothing, as a supervisor does."""
    for _ in range(number):
        length = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), byteorder="big")
        asked = msgpack.decode(channel.recv(length, socket.MSG_WAITALL), type=_RequestFrame)
        time.sleep(0.1)  # an answer that is there before it is waited for is lost by no one
        channel.sendall(_ResponseFrame(id=asked.id).as_bytes())
    channel.close()
