"""What only the PostgreSQL store has: sessions, locks and a network, each of which may fail."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from airflow_provider.domain.errors import InvalidInput, OutcomeUnknown, StoreIncompatible, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import Absent, Delete, Exists, RequirementFailed, Transaction
from airflow_provider.stores.factory import catalog_engine, open_store, upgrade_schema
from airflow_provider.stores.requests import CheckedTransaction, checked
from airflow_provider.stores.sql import pool, rows
from airflow_provider.stores.sql.dialect import Held, Purpose
from airflow_provider.stores.sql.postgresql.address import parsed
from airflow_provider.stores.sql.postgresql.connections import MOST_CONNECTIONS
from airflow_provider.stores.sql.postgresql.dialect import PostgresqlDialect
from airflow_provider.stores.sql.store import SqlStore
from airflow_provider.testing.store_cases.backend import LATER, commit, counter_key, publish, put, write
from tests.servers.postgresql import PostgresqlServer
from tests.services.proxy import Loss, Proxy

DOMAIN = DomainName("d")
COMMIT = b"\0COMMIT\0"
"""As a message has it."""
TIMEOUT = timedelta(seconds=1.2)
SOON_S = 12.0
"""Far more than the timeout, also on a busy machine, and less than the 15 and 30 s of a store that was told none."""


@pytest.fixture(scope="module")
def template(postgresql: PostgresqlServer) -> str:
    """A database with the schema and nothing in it, to which no process connects."""
    name = postgresql.create_database()
    upgrade_schema(postgresql.url(name))
    return name


@pytest.fixture
def database(postgresql: PostgresqlServer, template: str) -> str:
    """A database of its own, with the schema."""
    return postgresql.create_database(template=template)


@pytest.fixture
def url(postgresql: PostgresqlServer, database: str) -> str:
    return postgresql.url(database)


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    store = open_with(url, timedelta(seconds=30))
    yield store
    store.close()


@pytest.fixture
def proxy(postgresql: PostgresqlServer) -> Iterator[Proxy]:
    with Proxy(postgresql.port) as proxy:
        yield proxy


def open_with(url: str, timeout: timedelta = TIMEOUT) -> SqlStore:
    """A store that gives up soon."""
    return SqlStore(PostgresqlDialect(parsed(url), timeout=timeout)).open()


@pytest.fixture
def far_store(postgresql: PostgresqlServer, database: str, proxy: Proxy) -> Iterator[SqlStore]:
    """An impatient store behind a network."""
    store = open_with(postgresql.url(database, port=proxy.port))
    yield store
    store.close()


# --- a network ------------------------------------------------------------------------------------------------


def test_a_read_is_one_message_and_a_transaction_two(far_store: SqlStore, proxy: Proxy) -> None:
    keys = [counter_key(DOMAIN, f"{number}") for number in range(50)]
    write(far_store, *(put(key) for key in keys))
    read = far_store.read(DOMAIN, keys)
    proxy.round_trips = 0
    far_store.read(DOMAIN, keys)
    assert proxy.round_trips == 1
    requires = [Exists(record.key, record.version) for record in read.records.values()]
    write(far_store, *(put(key, 2) for key in keys[::2]), requires=requires, number=commit())
    assert proxy.round_trips == 3
    far_store.scan(DOMAIN, Kind.TOPOLOGY, "")
    assert proxy.round_trips == 4


def test_a_transaction_that_only_puts_is_one_message(far_store: SqlStore, proxy: Proxy) -> None:
    old, new = counter_key(DOMAIN, "old"), counter_key(DOMAIN, "new")
    version = write(far_store, put(old)).versions[old]
    proxy.round_trips = 0
    receipt = write(far_store, put(old, 2), put(new, 2), requires=[Exists(old, version), Absent(new)])
    assert proxy.round_trips == 1
    with pytest.raises(RequirementFailed) as failed:
        write(far_store, put(old, 3), put(new, 3), requires=[Exists(old, receipt.versions[old]), Absent(new)])
    assert proxy.round_trips == 2
    assert (failed.value.expected, failed.value.found) == (None, receipt.versions[new])
    found = far_store.read(DOMAIN, [old, new]).records
    assert {
        key: (stamped.version, stamped.record.generation, stamped.at) for key, stamped in found.items()
    } == {key: (receipt.versions[key], 2, receipt.at) for key in (old, new)}


@pytest.mark.parametrize("hang", [True, False])
@pytest.mark.parametrize("reply", [True, False])
def test_one_message_without_an_answer_is_an_unknown_outcome(
    far_store: SqlStore, store: SqlStore, proxy: Proxy, reply: bool, hang: bool
) -> None:
    key = counter_key(DOMAIN)
    proxy.loss = Loss(when=b"WITH held", reply=reply, hang=hang)
    with pytest.raises(OutcomeUnknown, match="not confirmed"):
        write(far_store, put(key), requires=[Absent(key)])
    assert (key in store.read(DOMAIN, [key]).records) is reply
    write(far_store, put(key, 2))
    assert store.read(DOMAIN, [key]).records[key].record.generation == 2


@pytest.mark.parametrize("reply", [True, False])
def test_a_commit_without_an_answer_is_an_unknown_outcome(
    far_store: SqlStore, store: SqlStore, proxy: Proxy, reply: bool
) -> None:
    publish(far_store, DOMAIN)
    proxy.loss = Loss(when=COMMIT, reply=reply, hang=False)
    with pytest.raises(OutcomeUnknown, match="not confirmed"):
        publish(far_store, DOMAIN)
    assert store.read(DOMAIN, []).head.csn == 1 + reply
    assert publish(far_store, DOMAIN).csn == 2 + reply


@pytest.mark.parametrize("reply", [True, False])
def test_a_black_hole_ends_a_commit_at_the_deadline(
    far_store: SqlStore, store: SqlStore, proxy: Proxy, reply: bool
) -> None:
    publish(far_store, DOMAIN)
    proxy.loss = Loss(when=COMMIT, reply=reply, hang=True)
    began = time.monotonic()
    with pytest.raises(OutcomeUnknown, match="did not answer in time"):
        publish(far_store, DOMAIN)
    assert time.monotonic() - began < SOON_S
    head = publish(store, DOMAIN).csn
    assert head == 2 + reply, "the lost transaction was rolled back, or is there whole"


@pytest.mark.parametrize("reply", [True, False])
def test_a_black_hole_before_the_commit_changes_nothing(
    far_store: SqlStore, store: SqlStore, proxy: Proxy, reply: bool
) -> None:
    proxy.loss = Loss(when=b"INSERT INTO epochs_head", reply=reply, hang=True)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer in time"):
        publish(far_store, DOMAIN)
    assert time.monotonic() - began < SOON_S
    assert publish(store, DOMAIN).csn == 1


def test_a_black_hole_ends_a_read_at_the_deadline(far_store: SqlStore, proxy: Proxy) -> None:
    proxy.loss = Loss(when=b"clock_timestamp", reply=True, hang=True)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer in time") as failed:
        far_store.read(DOMAIN, [])
    assert time.monotonic() - began < SOON_S
    assert "host, port" in failed.value.next_step
    assert far_store.read(DOMAIN, []).head.csn == 0


def test_a_connection_lost_before_the_commit_is_opened_again(far_store: SqlStore, proxy: Proxy) -> None:
    publish(far_store, DOMAIN)
    for when in (b"INSERT INTO epochs_head", b"clock_timestamp"):
        proxy.lost.clear()
        proxy.loss = Loss(when=when, reply=False, hang=False)
        for _ in range(2):  # by then the statement is prepared under a name; the second pool is not
            publish(far_store, DOMAIN)
            far_store.read(DOMAIN, [])
        assert proxy.lost.is_set()
    assert far_store.read(DOMAIN, []).head.csn == 5


def test_a_call_that_was_lost_is_made_up_for_by_looking(
    far_store: SqlStore, store: SqlStore, proxy: Proxy
) -> None:
    """The listening connection goes silent; the watch sees the commit nevertheless."""
    proxy.loss = Loss(when=b"LISTEN", reply=False, hang=True)
    with ThreadPoolExecutor(1) as threads:
        watch = threads.submit(far_store.watch, DOMAIN, 0, LATER)
        assert proxy.lost.wait(10)
        publish(store, DOMAIN)
        assert watch.result(10) == 1


def test_more_watches_than_connections_wake_up(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    count = MOST_CONNECTIONS + 4
    head, looked, all_wait = store._head, set(), threading.Event()

    def counted(domain: DomainName) -> int:
        csn = head(domain)
        looked.add(threading.get_ident())
        if len(looked) == count:
            all_wait.set()
        return csn

    monkeypatch.setattr(store, "_head", counted)
    with ThreadPoolExecutor(count) as threads:
        watches = [threads.submit(store.watch, DOMAIN, 0, LATER) for _ in range(count)]
        assert all_wait.wait(60), "each has seen that there is nothing yet"
        publish(store, DOMAIN)
        assert {watch.result(10) for watch in watches} == {1}


def test_a_key_that_no_index_can_keep_is_refused(store: SqlStore, rng: random.Random) -> None:
    partition, item = ("".join(chr(rng.randrange(0x400, 0x500)) for _ in range(512)) for _ in range(2))
    key = Key(DomainName(item), Kind.TOPOLOGY, partition, item)
    with pytest.raises(InvalidInput, match="shorter names"):
        write(store, put(key), requires=[Absent(key)])
    assert store.domains() == []


# --- a server that is stopped --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_is_restarted_in_the_middle_loses_nothing(
    postgresql: PostgresqlServer, store: SqlStore, mode: str
) -> None:
    publish(store, DOMAIN)
    done = threading.Event()
    works = threading.Semaphore(0)

    def work(number: int) -> tuple[list[int], int]:
        acknowledged, unknown = [], 0
        while not done.is_set():
            try:
                receipt = write(store, put(counter_key(DOMAIN, str(number))), number=commit(f"by {number}"))
            except OutcomeUnknown:
                unknown += 1
            else:
                acknowledged.append(receipt.csn or 0)
                works.release()
        return acknowledged, unknown

    with ThreadPoolExecutor(3) as threads:
        workers = [threads.submit(work, number) for number in range(3)]
        try:
            for _ in range(30):
                assert works.acquire(timeout=60), "commits before the restart"
            postgresql.restart(mode)
            while works.acquire(blocking=False):
                pass
            for _ in range(30):
                assert works.acquire(timeout=60), "commits after the restart"
        finally:
            done.set()
        results = [worker.result() for worker in workers]
    acknowledged = sorted(csn for csns, _ in results for csn in csns)
    kept = [change.csn for change in store.changes(DOMAIN, 1, limit=100_000)]
    assert kept == list(range(2, len(kept) + 2))
    assert set(acknowledged) <= set(kept)
    assert len(acknowledged) == len(set(acknowledged))
    assert len(kept) - len(acknowledged) <= sum(unknown for _, unknown in results)


def test_sessions_that_were_ended_are_opened_again(
    postgresql: PostgresqlServer, database: str, store: SqlStore
) -> None:
    publish(store, DOMAIN)
    with ThreadPoolExecutor(1) as threads:
        watch = threads.submit(store.watch, DOMAIN, 1, LATER)
        while postgresql.kill_sessions(database) < 2:
            time.sleep(0.05)
        assert store.read(DOMAIN, []).head.csn == 1
        assert publish(store, DOMAIN).csn == 2
        assert watch.result(10) == 2


def test_a_session_in_use_when_its_pool_ends_is_closed_with_its_use(url: str) -> None:
    engine = PostgresqlDialect(parsed(url), timeout=TIMEOUT).engine()
    with engine.connect() as connection:
        session = connection.connection.driver_connection
        engine.dispose()
        connection.exec_driver_sql("SELECT 1")
    assert session is not None
    assert session.closed
    engine.dispose()


def test_a_server_that_is_not_there_is_said_at_once(postgresql: PostgresqlServer) -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="refused") as failed:
        open_store(postgresql.url("postgres", port=1))
    assert time.monotonic() - began < SOON_S
    assert "login and password" in failed.value.next_step
    assert postgresql.password not in str(failed.value)


def written_by(request: CheckedTransaction, held: Held) -> list[dict[str, Any]]:
    return rows.written(request, version=held.version, csn=held.csn, at_us=held.at_us)


# --- others who hold locks -----------------------------------------------------------------------------------


def test_a_long_transaction_of_another_session_ends_in_a_timeout(
    postgresql: PostgresqlServer, database: str, url: str
) -> None:
    impatient = open_with(url)
    publish(impatient, DOMAIN)
    with postgresql.connect(database) as other, other.transaction():
        other.execute("SELECT * FROM epochs_head FOR UPDATE")
        assert impatient.read(DOMAIN, []).head.csn == 1
        with pytest.raises(StoreUnavailable, match="lock timeout") as refused:
            publish(impatient, DOMAIN)
        assert "pg_stat_activity" in refused.value.next_step
    assert publish(impatient, DOMAIN).csn == 2
    impatient.close()


def await_end(postgresql: PostgresqlServer, session: int) -> None:
    """Return when the session whose process has this number is over."""
    with postgresql.connect() as other:
        while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (session,)).fetchone():
            time.sleep(0.01)


def test_client_stopped_in_a_transaction_blocks_others_only_briefly(
    postgresql: PostgresqlServer, url: str, store: SqlStore
) -> None:
    stopped = open_with(url)
    dialect = stopped._dialect
    request = checked(Transaction(domain=DOMAIN, number=commit()), stopped.capabilities)
    with (  # noqa: PT012
        pytest.raises(DBAPIError, match="closed the connection|idle-in-transaction") as ended,
        dialect.engine().connect() as connection,
        dialect.transaction(connection, Purpose.WRITE),
    ):
        held = dialect.hold(connection, request)
        session = connection.connection.driver_connection.info.backend_pid
        assert publish(store, DOMAIN).csn == 1
        await_end(postgresql, session)  # the locks are free a little before it is over
        dialect.write(connection, request, written_by(request, held))
    assert dialect.is_transient(ended.value, committing=True)
    assert publish(stopped, DOMAIN).csn == 2
    stopped.close()


def test_absence_is_safe_also_when_nothing_is_made(store: SqlStore, url: str) -> None:
    """Another process makes the key between our look and our commit: we fail, or it comes after us."""
    key, mark = counter_key(DOMAIN, "absent"), counter_key(DOMAIN, "mark")
    dialect = store._dialect
    request = checked(
        Transaction(domain=DOMAIN, requires=(Absent(key),), updates=(put(mark),)), store.capabilities
    )
    with (  # noqa: PT012
        pytest.raises(DBAPIError, match="duplicate key"),
        dialect.engine().connect() as connection,
        dialect.transaction(connection, Purpose.WRITE),
    ):
        held = dialect.hold(connection, request)
        assert held.versions == {}
        with open_store(url) as other:
            write(other, put(key))
        dialect.write(connection, request, written_by(request, held))
    assert store.read(DOMAIN, [mark]).records == {}
    with pytest.raises(RequirementFailed):
        write(store, put(mark), requires=[Absent(key)])
    store.transact(Transaction(domain=DOMAIN, updates=(Delete(key),)))
    write(store, put(mark), requires=[Absent(key)])
    assert store.read(DOMAIN, [key]).records == {}


def test_transactions_that_require_each_others_records_do_not_deadlock(store: SqlStore) -> None:
    """Each requires both records and changes one of them: some fail, none waits for a lock for ever."""
    keys = [counter_key(DOMAIN, name) for name in "ab"]
    write(store, *(put(key, 0) for key in keys))

    def work(number: int) -> int:
        done = 0
        for _ in range(40):
            records = store.read(DOMAIN, keys).records
            mine = keys[number % 2]
            requires = [Exists(key, records[key].version) for key in keys]
            try:
                write(store, put(mine, records[mine].record.generation + 1), requires=requires)
            except RequirementFailed:
                continue
            done += 1
        return done

    with ThreadPoolExecutor(4) as threads:
        done = sum(threads.map(work, range(4)))
    records = store.read(DOMAIN, keys).records
    assert sum(stored.record.generation for stored in records.values()) == done > 0


# --- who we are ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong", "field"),
    [
        ("epochs:{password}@", "epochs:wr%40ng@", "login, password"),
        ("epochs:{password}@", "epochs@", "login, password"),
        ("epochs:{password}@", "nobody:{password}@", "login, password"),
        ("/{database}", "/nosuch", "schema"),
        ("/{database}", "/{database}?sslmode=require", "sslmode"),
        ("127.0.0.1", "2130706433", "sslmode"),  # 127.0.0.1 under a name that does not look like this host's
    ],
)
def test_an_address_that_the_server_refuses_is_final_and_names_the_field(
    postgresql: PostgresqlServer, database: str, right: str, wrong: str, field: str
) -> None:
    """A second try cannot cure it, so none is made; what was open before goes on."""
    known = {"password": postgresql.password, "database": database}
    url = postgresql.url(database).replace(right.format(**known), wrong.format(**known))
    with pytest.raises(InvalidInput, match="epochs_default") as refused:
        open_store(url)
    assert (refused.value.field, refused.value.family) == (field, "stop")
    for shown in (str(refused.value), repr(refused.value.details)):
        assert postgresql.password not in shown
        assert "wr@ng" not in shown
        assert "nobody" not in shown


def test_a_changed_password_ends_the_retries(postgresql: PostgresqlServer, database: str) -> None:
    """A store that was open tries a restarted server again; one that refuses its password it does not."""
    with postgresql.connect() as connection:
        connection.execute("CREATE ROLE rotated SUPERUSER LOGIN PASSWORD 'before'")
    store = open_with(
        postgresql.url(database).replace(f"epochs:{postgresql.password}", "rotated:before"),
        timeout=timedelta(hours=1),
    )
    with postgresql.connect() as connection:
        connection.execute("ALTER ROLE rotated PASSWORD 'after'")
    postgresql.kill_sessions(database)
    with pytest.raises(InvalidInput) as refused:
        store.read(DOMAIN, [])
    assert refused.value.field == "login, password"
    store.close()
    with postgresql.connect() as connection:
        connection.execute("DROP ROLE rotated")


def test_the_password_comes_from_the_address_only(
    postgresql: PostgresqlServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    open_store(url).close()
    with pytest.raises(InvalidInput, match="login, password is not accepted"):
        open_store(url.replace(f":{postgresql.password}", ""))


def test_role_without_rights_gets_the_missing_grants(postgresql: PostgresqlServer, database: str) -> None:
    with postgresql.connect(database) as connection:
        connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    url = postgresql.url(database).replace(f"epochs:{postgresql.password}", "reader:reader")
    with open_store(url) as reader:
        assert reader.read(DOMAIN, []).head.csn == 0
        with pytest.raises(StoreIncompatible, match="permission denied") as refused:
            publish(reader, DOMAIN)
        assert "SELECT, INSERT, UPDATE and DELETE on its tables" in refused.value.next_step
    with postgresql.connect(database) as connection:
        connection.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM reader")
        connection.execute("DROP ROLE reader")


# --- how many connections -------------------------------------------------------------------------------------


def sessions(postgresql: PostgresqlServer, database: str) -> int:
    """How many sessions *database* has."""
    with postgresql.connect() as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
        found = connection.execute(asked, (database,)).fetchone()
    assert found is not None
    return int(str(found[0]))


def settled(postgresql: PostgresqlServer, database: str, at_most: int) -> bool:
    """Whether there are soon no more sessions: the server ends one some time after its client."""
    deadline = time.monotonic() + SOON_S
    while sessions(postgresql, database) > at_most:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_stores_and_catalogs_of_a_process_share_two_connections(
    postgresql: PostgresqlServer, database: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(url) as one, open_store(url) as other, ThreadPoolExecutor(6) as threads:
        engine = catalog_engine(url)
        list(threads.map(lambda number: publish((one, other)[number % 2], DOMAIN), range(30)))
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT metadata_location FROM iceberg_tables")
        assert settled(postgresql, database, at_most=2)
        monkeypatch.setattr(pool, "LONGEST_IDLE_S", 0.02)
        time.sleep(0.05)
        one.read(DOMAIN, [])
        assert settled(postgresql, database, at_most=1)
        assert other.read(DOMAIN, []).head.csn == 30
