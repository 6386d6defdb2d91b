"""The PostgreSQL store's schema, its views, roles and encryption, and Iceberg's catalog beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier, Event
from time import sleep
from typing import Any

import pyarrow as pa
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from sqlalchemy import Connection, create_engine, inspect

from airflow_provider.domain.errors import PackageTooOld, StoreIncompatible, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import CATALOG_NAME, Delete, Exists, Put, Transaction
from airflow_provider.stores.factory import check_schema, open_store, upgrade_schema
from airflow_provider.stores.requests import checked
from airflow_provider.stores.schema_status import Fit, SchemaStatus
from airflow_provider.stores.sql import migrate
from airflow_provider.stores.sql.postgresql import statements
from airflow_provider.stores.sql.schema import REVISIONS, VERSION_TABLE, metadata
from airflow_provider.testing.store_cases.backend import commit, counter_key, publish, put, write
from airflow_provider.testing.store_cases.samples import sample
from tests.documents import ROOT, blocks
from tests.servers.postgresql import SERVER_USER, PostgresqlServer

DOMAIN = DomainName("d")
HOW_TO = ROOT / "docs" / "how-to" / "postgresql.md"


@pytest.fixture
def database(postgresql: PostgresqlServer) -> str:
    """An empty database of its own."""
    return postgresql.create_database()


@pytest.fixture
def url(postgresql: PostgresqlServer, database: str) -> str:
    return postgresql.url(database)


def execute(server: PostgresqlServer, database: str, statement: str, *parameters: object) -> list[Any]:
    with server.connect(database) as connection:
        cursor = connection.execute(statement, parameters or None)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []


# --- versions ------------------------------------------------------------------------------------------------


def test_opening_makes_no_schema(url: str) -> None:
    with pytest.raises(StoreIncompatible, match="airflow epochs db upgrade"):
        open_store(url)
    assert check_schema(url).fit is Fit.EMPTY


def test_the_migrations_make_the_schema_that_the_code_uses(url: str) -> None:
    assert upgrade_schema(url).fit is Fit.CURRENT
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == REVISIONS[-1]
        keys = inspect(connection).get_columns("epochs_record")[:4]
        assert [column["type"].collation for column in keys] == ["C"] * 4  # type: ignore[attr-defined]
    engine.dispose()


def test_upgrades_side_by_side_make_one_schema(url: str) -> None:
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: upgrade_schema(url), range(3)))
    assert {check.fit for check in found if check} == {Fit.CURRENT}
    with open_store(url) as store:
        assert publish(store, DOMAIN).csn == 1


@pytest.mark.parametrize("options", ["", "?pooled=true"])
@pytest.mark.parametrize("table", ["epochs_head", "epochs_record", "epochs_store"])
def test_a_migration_beside_publishers_waits_for_them_and_they_for_it(
    postgresql: PostgresqlServer, database: str, monkeypatch: pytest.MonkeyPatch, table: str, options: str
) -> None:
    """R11, R36: it holds the store's lock when it alters a table; neither is taken for a deadlock's victim."""
    url = postgresql.url(database, options=options)
    upgrade_schema(url)
    numbers: list[int] = []
    altered, under_way = Event(), Barrier(5)

    def migrated(connection: Connection, location: str) -> SchemaStatus:
        sleep(0.3)  # until the publishers wait for it
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN more integer")
        sleep(0.1)
        return migrate.status(connection, location)

    def publishing(name: str) -> None:
        with open_store(url) as store:
            under_way.wait(10)
            while not altered.is_set():
                numbers.append(publish(store, DOMAIN, f"{name}-{len(numbers)}").csn or 0)
            numbers.append(publish(store, DOMAIN, f"{name}-last").csn or 0)

    def writing(name: str) -> None:
        with open_store(url) as store:
            under_way.wait(10)
            while not altered.is_set():
                write(store, put(counter_key(DOMAIN, name)))
                store.read(DOMAIN, [counter_key(DOMAIN, name)])

    monkeypatch.setattr(migrate, "upgrade", migrated)
    with ThreadPoolExecutor(4) as threads:
        works = [threads.submit(publishing, name) for name in "abc"] + [threads.submit(writing, "d")]
        under_way.wait(10)
        try:
            upgrade_schema(url)
        finally:
            altered.set()
        for work in works:
            work.result(20)
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    with open_store(url) as store:
        assert [change.csn for change in store.changes(DOMAIN, 0, limit=10_000)] == sorted(numbers)
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert execute(postgresql, database, deadlocks) == [(0,)]


def test_a_newer_schema_is_left_alone(postgresql: PostgresqlServer, database: str, url: str) -> None:
    upgrade_schema(url)
    execute(postgresql, database, "UPDATE epochs_alembic_version SET version_num = '9999'")
    for use in (open_store, upgrade_schema):
        with pytest.raises(PackageTooOld, match="upgrade the package"):
            use(url)


def test_an_upgrade_that_fails_changes_nothing(postgresql: PostgresqlServer, database: str, url: str) -> None:
    execute(postgresql, database, "CREATE TABLE epochs_head (theirs integer)")
    with pytest.raises(StoreIncompatible, match="epochs_head"):
        upgrade_schema(url)
    assert check_schema(url).fit is Fit.ABSENT
    found = execute(postgresql, database, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert found == [("epochs_head",)]


# --- what is in it -------------------------------------------------------------------------------------------


def test_operators_read_times_and_states(postgresql: PostgresqlServer, database: str, url: str) -> None:
    upgrade_schema(url)
    with open_store(url) as store:
        for kind in (Kind.EPOCH, Kind.SLICE):
            write(store, Put(Key(DOMAIN, kind, "job", "item"), sample(kind)), number=commit())
    interval = sample(Kind.SLICE).interval
    ((start, end, csn, state),) = execute(
        postgresql, database, "SELECT interval_start, interval_end, csn, state FROM epochs_epochs"
    )
    assert (start, end, csn, state) == (interval.start, interval.end, 1, str(sample(Kind.EPOCH).state))
    ((at,),) = execute(postgresql, database, "SELECT updated_at FROM epochs_commits WHERE csn = 2")
    assert abs((datetime.now(UTC) - at).total_seconds()) < 600


def test_records_are_looked_up_by_their_whole_key(
    postgresql: PostgresqlServer, database: str, url: str
) -> None:
    """Also in a table that the planner knows nothing about yet, among many records of the domain."""
    upgrade_schema(url)
    with open_store(url) as store:
        write(store, *(put(counter_key(DOMAIN, f"{number:05d}")) for number in range(2000)))
    keys = [counter_key(DOMAIN, f"{number:05d}") for number in range(500)]
    kept = Transaction(domain=DOMAIN, requires=tuple(Exists(key, 1) for key in keys))
    changed = Transaction(domain=DOMAIN, updates=tuple(Delete(key) for key in keys))
    for statement, parameters in (
        (statements.LOOK, statements.looked_for(DOMAIN, keys, {})),
        (statements.HOLD, statements.held(checked(kept, ()))),
        (statements.HOLD, statements.held(checked(changed, ()))),
    ):
        with postgresql.connect(database) as connection:
            plan = connection.execute(f"EXPLAIN {statement}", parameters).fetchall()  # type: ignore[call-overload]
        text = "\n".join(str(line) for (line,) in plan)
        assert "Seq Scan on epochs_record" not in text
        conditions = [line for line in text.splitlines() if "Index Cond:" in line]
        whole = ("(domain = ", "(kind = ", "(partition = ", "(item = ")
        assert any(all(part in line for part in whole) for line in conditions), text


def test_the_catalogs_tables_are_pyicebergs(postgresql: PostgresqlServer, url: str) -> None:
    upgrade_schema(url)
    engines = [create_engine(url), create_engine(postgresql.url(postgresql.create_database()))]
    SqlCatalogBaseTable.metadata.create_all(engines[1])
    for name in SqlCatalogBaseTable.metadata.tables:
        ours, theirs = (
            [
                (column["name"], str(column["type"]), column["nullable"])
                for column in inspect(engine).get_columns(name)
            ]
            for engine in engines
        )
        assert ours == theirs
    for engine in engines:
        engine.dispose()


# --- roles and encryption ------------------------------------------------------------------------------------


def test_the_how_to_makes_roles_that_can_do_their_work_and_no_more(
    postgresql: PostgresqlServer, tmp_path: Path
) -> None:
    by_file = {block.file: block.text for block in blocks(HOW_TO, "sql")}
    for file, database in (("roles.sql", "postgres"), ("grants.sql", "epochs")):
        for statement in filter(str.strip, by_file[file].split(";")):
            execute(postgresql, database, statement)
    place = f"127.0.0.1:{postgresql.port}/epochs"
    admin = f"postgresql+psycopg://epochs_admin:change%20me@{place}"
    task = f"postgresql+psycopg://epochs_task:change%20me%20too@{place}"
    assert upgrade_schema(admin).fit is Fit.CURRENT
    with open_store(task) as store:
        assert publish(store, DOMAIN).csn == 1
    catalog = SqlCatalog(CATALOG_NAME, uri=task, warehouse=tmp_path.as_uri(), init_catalog_tables="false")
    catalog.create_namespace("n")
    catalog.create_table("n.flights", schema=pa.schema([("x", pa.int64())]))
    catalog.engine.dispose()
    with pytest.raises(StoreIncompatible, match="permission denied"):
        upgrade_schema(
            postgresql.url("postgres").replace(
                f"epochs:{postgresql.password}", "epochs_task:change%20me%20too"
            )
        )


@pytest.fixture
def authority(postgresql: PostgresqlServer) -> Iterator[Path]:
    """The server with encryption, and the certificate of who vouches for it."""
    certificate, key = postgresql.directory / "server.crt", postgresql.directory / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    if os.geteuid() == 0:
        shutil.chown(key, SERVER_USER)
    settings = {"ssl_cert_file": certificate, "ssl_key_file": key, "ssl": "on"}
    for name, value in settings.items():
        execute(postgresql, "postgres", f"ALTER SYSTEM SET {name} = '{value}'")
    postgresql.restart()
    yield certificate
    execute(postgresql, "postgres", "ALTER SYSTEM RESET ALL")
    postgresql.restart()


def test_encrypted_connection_verifies_host_and_certificate(url: str, authority: Path) -> None:
    secure = f"?sslmode=verify-full&sslrootcert={authority}"
    named = url.replace("127.0.0.1", "localhost")
    assert upgrade_schema(named + secure).fit is Fit.CURRENT
    with open_store(named + secure) as store:
        assert publish(store, DOMAIN).csn == 1
    with pytest.raises(StoreUnavailable, match="does not match host name"):
        open_store(url + secure)
    (stranger := authority.with_name("stranger.crt")).write_text("")
    with pytest.raises(StoreUnavailable, match="certificate"):
        open_store(f"{named}?sslmode=verify-full&sslrootcert={stranger}")
