"""The store contract behind a real PgBouncer, in both of the modes that serve transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pyarrow as pa
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.base import MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.stores.sql.postgresql.address import parsed
from airflow_provider.stores.sql.postgresql.dialect import PostgresqlDialect
from airflow_provider.stores.sql.store import SqlStore
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.store_cases.backend import counter_key, publish, put, write
from airflow_provider.testing.store_contract import StoreBackend, StoreContract
from tests.contract.coordination_world import DOMAIN, ORIGIN, day, owner
from tests.contract.test_postgresql_contract import PostgresqlBackend
from tests.servers.directories import guarded_directory
from tests.servers.pgbouncer import MODES, PgBouncer, pgbouncer
from tests.servers.postgresql import PostgresqlServer
from tests.services.directories import quick_directory

pytestmark = pytest.mark.thorough

TIMEOUT = timedelta(seconds=1.5)


class PooledBackend(PostgresqlBackend):
    """A database of a server, reached through a pooler."""

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__(server)
        self.direct = self.url


@pytest.fixture(scope="module")
def pooled(postgresql: PostgresqlServer) -> PooledBackend:
    """One database for the whole module; :attr:`url` is set by each suite."""
    return PooledBackend(postgresql)


@pytest.fixture(scope="module")
def pooler(pooled: PooledBackend) -> Iterator[PgBouncer]:
    """A pooler that offers it in each mode, under the mode's name."""
    program = pgbouncer()
    if program is None:
        pytest.skip("no PgBouncer is installed: apt-get install pgbouncer")
    databases = {mode: (pooled.database, mode) for mode in MODES}
    with (
        guarded_directory("epochs-pgb-") as directory,
        PgBouncer(program=program, server=pooled.server, databases=databases, directory=directory) as running,
    ):
        yield running


class TestSessionMode(StoreContract):
    """A session for as long as a client is connected."""

    @pytest.fixture
    def backend(self, pooled: PooledBackend, pooler: PgBouncer) -> StoreBackend:
        pooled.url = pooler.url("session")
        return pooled


class TestTransactionMode(StoreContract):
    """Each transaction meets the session that is free."""

    @pytest.fixture
    def backend(self, pooled: PooledBackend, pooler: PgBouncer) -> StoreBackend:
        pooled.url = pooler.url("transaction")
        return pooled


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_pooler_that_the_address_does_not_mention_is_named(pooler: PgBouncer, mode: str) -> None:
    with pytest.raises(StoreIncompatible, match="a connection pooler") as refused:
        open_store(pooler.url(mode, options=""))
    assert "pooled=true" in refused.value.next_step


def test_an_address_may_say_pooled_where_no_pooler_is(pooled: PooledBackend) -> None:
    with open_store(f"{pooled.direct}?pooled=true") as store:
        publish(store, DOMAIN)


def test_many_threads_publish_side_by_side(pooler: PgBouncer, mode: str) -> None:
    """R2: no statement of one transaction goes to another's session, and what was prepared there is not asked for."""
    with open_store(pooler.url(mode)) as store, ThreadPoolExecutor(6) as threads:

        def work(thread: int) -> int:
            for number in range(20):
                key = counter_key(DOMAIN, f"{mode}-{thread}-{number}")
                write(store, put(key, number))
                publish(store, DOMAIN)
                assert store.read(DOMAIN, [key]).records[key].record.generation == number
            return thread

        assert list(threads.map(work, range(6))) == list(range(6))


def test_a_client_that_stops_in_a_transaction_loses_it(pooler: PgBouncer, mode: str) -> None:
    """R23: limits hold for each transaction, whatever the session was told before."""
    url = pooler.url(mode)
    stopped = SqlStore(PostgresqlDialect(parsed(url), timeout=TIMEOUT)).open()
    publish(stopped, DOMAIN, "before")
    address = parsed(url)
    with psycopg.connect(
        host=address.host, port=address.port, dbname=mode, user=address.user, password=address.password,
        prepare_threshold=None,
    ) as client:  # fmt: skip
        statements = stopped._dialect
        assert isinstance(statements, PostgresqlDialect)
        limits = statements.limits.settings()
        client.execute(
            "SELECT " + ", ".join(f"set_config('{name}', '{limits[name]}', true)" for name in limits)
        )
        client.execute("UPDATE epochs_head SET csn = csn")
        began = time.monotonic()
        publish(stopped, DOMAIN, "after")
        assert time.monotonic() - began < 2 * TIMEOUT.total_seconds()
        with pytest.raises(psycopg.Error):
            client.execute("SELECT 1")
    stopped.close()


def test_limits_hold_in_reads_and_changes(pooler: PgBouncer, mode: str) -> None:
    with open_store(pooler.url(mode)) as store:
        assert isinstance(store, SqlStore)
        dialect = store._dialect
        assert isinstance(dialect, PostgresqlDialect)
        told = store._run(lambda connection: shown(connection, "lock_timeout"))
        assert told == f"{dialect.limits.lock.total_seconds():.0f}s"


def shown(connection: object, name: str) -> str:
    """What a session of the pooler believes of a setting."""
    driver = connection.connection.driver_connection  # type: ignore[attr-defined]
    return str(driver.execute(f"SHOW {name}").fetchone()[0])


def test_epochs_and_their_catalog_go_through_the_pooler(
    pooler: PgBouncer, mode: str, pooled: PooledBackend
) -> None:
    """R2: pointers are read and moved through the same connections."""
    name, domain = f"numbers_{mode}", DomainName(f"pooled_{mode}")  # each has files in a folder of its own
    job = Job(name, outputs=[Table(name, domain=domain, format="iceberg")], cadence="@daily", origin=ORIGIN)
    with quick_directory("epochs-tables-") as folder:
        settings = Settings(store_url=pooler.url(mode), warehouse=f"file://{folder}")
        with EpochService.open(settings) as service:
            for number in (1, 2):
                attempt = service.begin(job, day(number), owner())
                assert isinstance(attempt, Attempt)
                write_rows(service, attempt, name, pa.table({"number": [number]}))
                service.publish(attempt)
            found = service.cuts.read(service.cuts.cut(domain, [name]), name, columns=["number"])
            assert sorted(found["number"].to_pylist()) == [1, 2]
        assert pooled.pointer(domain, name) is not None


def watched(store: MetadataStore, after: int) -> int:
    return store.watch(DOMAIN, after, timedelta(seconds=20))


def test_a_watch_looks_instead_of_listening(pooler: PgBouncer, mode: str) -> None:
    with open_store(pooler.url(mode)) as store, ThreadPoolExecutor(1) as thread:
        before = store.read(DOMAIN, []).head.csn
        waiting = thread.submit(watched, store, before)
        publish(store, DOMAIN)
        assert waiting.result(20) == before + 1
