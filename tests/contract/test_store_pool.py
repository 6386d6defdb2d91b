"""A store's pool of connections."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest
from sqlalchemy import Engine, create_engine

from airflow_provider.stores.sql.pool import StorePool


@pytest.fixture
def opened() -> list[sqlite3.Connection]:
    """What was ever opened."""
    return []


@pytest.fixture
def engine(opened: list[sqlite3.Connection]) -> Iterator[Engine]:
    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(":memory:", check_same_thread=False))
        return opened[-1]

    engine = create_engine("sqlite://", creator=connect, poolclass=StorePool, pool_size=8)
    yield engine
    engine.dispose()


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_connection_is_used_again(engine: Engine, opened: list[sqlite3.Connection]) -> None:
    for _ in range(3):
        with engine.connect():
            pass
    assert [is_open(connection) for connection in opened] == [True]


def test_one_in_use_when_the_pool_ends_is_closed_when_it_comes_back(
    engine: Engine, opened: list[sqlite3.Connection]
) -> None:
    with engine.connect() as connection:
        engine.dispose()
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        with engine.connect():
            pass
    assert [is_open(connection) for connection in opened] == [False, True]


def test_nothing_is_said_of_it_in_the_logs_of_tasks(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with engine.connect():
        pass
    engine.dispose()
    assert caplog.messages == []


def test_none_stays_open_however_many_come_back_while_it_ends(
    engine: Engine, opened: list[sqlite3.Connection]
) -> None:
    users, rounds = 6, 50
    together = Barrier(users + 1, timeout=60)

    def use() -> None:
        for _ in range(rounds):
            with engine.connect():
                together.wait()

    threads = [Thread(target=use) for _ in range(users)]
    for thread in threads:
        thread.start()
    for _ in range(rounds):
        together.wait()
        engine.dispose()
    for thread in threads:
        thread.join()
    engine.dispose()
    assert len(opened) >= users
    assert not any(is_open(connection) for connection in opened)
