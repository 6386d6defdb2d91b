"""What only the SQLite store has: a file, a schema with versions, and Iceberg's catalog beside the records."""

from __future__ import annotations

import os
import resource
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from sqlalchemy import create_engine, inspect

from airflow_provider.domain.errors import (
    InvalidInput,
    OutcomeUnknown,
    PackageTooOld,
    StoreIncompatible,
    StoreUnavailable,
)
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, topology_key
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import SchemaRecord
from airflow_provider.stores import codec
from airflow_provider.stores.base import CATALOG_NAME, CatalogSwap, MetadataStore, Put, Transaction
from airflow_provider.stores.factory import catalog_properties, check_schema, open_store, upgrade_schema
from airflow_provider.stores.schema_status import Fit
from airflow_provider.stores.sql import migrate, sqlite_statements
from airflow_provider.stores.sql.schema import REVISIONS, VERSION_TABLE, metadata
from airflow_provider.stores.sql.sqlite import SqliteDialect
from airflow_provider.stores.sql.store import SqlStore
from airflow_provider.testing.store_cases.backend import commit, counter_key, publish, put, write
from airflow_provider.testing.store_cases.samples import sample

DOMAIN = DomainName("d")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "epochs.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def store(url: str) -> Iterator[MetadataStore]:
    with open_store(url) as store:
        yield store


def execute(path: Path, statement: str, *parameters: object) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, parameters).fetchall()


def make_older(url: str, path: Path) -> None:
    """Make a store as the first version of the package made it."""
    open_store(url).close()
    execute(path, "ALTER TABLE epochs_store DROP COLUMN lineage")
    execute(path, "UPDATE epochs_alembic_version SET version_num = ?", REVISIONS[0])


def tables(path: Path) -> set[str]:
    return {name for (name,) in execute(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


# --- the schema's versions -----------------------------------------------------------------------------------


def test_the_migrations_make_the_schema_that_the_code_uses(url: str, path: Path) -> None:
    open_store(url).close()
    assert check_schema(url).fit is Fit.CURRENT
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == REVISIONS[-1]
    engine.dispose()


def test_the_revisions_are_the_scripts() -> None:
    config = Config()
    config.set_main_option("script_location", migrate.SCRIPTS)
    scripts = ScriptDirectory.from_config(config)
    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == REVISIONS


def test_a_new_file_gets_the_schema_once(url: str, path: Path) -> None:
    start = threading.Barrier(4)

    def open_it(_: int) -> str:
        start.wait()
        with open_store(url) as store:
            return store.read(DOMAIN, []).head.incarnation

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(open_it, range(4)))) == 1
    assert path.stat().st_mode & 0o077 == 0


def test_an_older_schema_is_worked_with_and_not_upgraded_by_opening_it(url: str, path: Path) -> None:
    make_older(url, path)
    status = check_schema(url)
    assert (status.fit, status.found, status.format) == (Fit.UPGRADABLE, REVISIONS[0], 1)
    with open_store(url) as store:
        assert store.format == 1
        write(store, put(counter_key(DOMAIN)))
    assert execute(path, "SELECT substr(body, 1, 12) FROM epochs_record") == [('{"format":1,',)]
    assert execute(path, "SELECT version_num FROM epochs_alembic_version") == [(REVISIONS[0],)]


def test_records_of_a_newer_format_wait_for_the_upgrade(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R36: a store that was opened before the upgrade writes in the newer format after it."""
    make_older(url, path)
    monkeypatch.setattr(codec, "KINDS_SINCE", {Kind.TOPOLOGY: 2})
    with open_store(url) as store:
        with pytest.raises(StoreIncompatible, match="airflow epochs db upgrade"):
            write(store, put(counter_key(DOMAIN)))
        assert not store.read(DOMAIN, [counter_key(DOMAIN)]).records
        assert upgrade_schema(url).fit is Fit.CURRENT
        write(store, put(counter_key(DOMAIN)))
        assert store.format == FORMAT
    assert execute(path, "SELECT substr(body, 1, 12) FROM epochs_record") == [('{"format":2,',)]


def test_a_store_that_was_opened_before_the_upgrade_drops_no_field_after_it(url: str, path: Path) -> None:
    """R36: nor one that an older format may lack: what needs the field relies on it from the upgrade on."""
    make_older(url, path)
    key = topology_key(DOMAIN)
    known = TopologyRecord(generation=1, warehouse="file:///warehouse")
    with open_store(url) as older:
        write(older, Put(key, known))
        assert older.read(DOMAIN, [key]).of(key).record.warehouse == ""
        upgrade_schema(url)
        with open_store(url) as newer:
            write(newer, Put(key, known))
        found = older.read(DOMAIN, [key]).of(key).record
        write(older, Put(key, replace(found, generation=2)))
        assert older.read(DOMAIN, [key]).of(key).record == replace(known, generation=2)


@pytest.mark.usefixtures("store")
def test_a_newer_schema_is_left_alone(url: str, path: Path) -> None:
    execute(path, "UPDATE epochs_alembic_version SET version_num = '9999'")
    assert check_schema(url).fit is Fit.NEWER
    for use in (open_store, upgrade_schema):
        with pytest.raises(PackageTooOld, match="upgrade the package") as refused:
            use(url)
        assert (refused.value.found, refused.value.expected) == ("9999", REVISIONS[-1])


def test_opening_a_foreign_database_changes_nothing(url: str, path: Path) -> None:
    execute(path, "CREATE TABLE theirs (x)")
    with pytest.raises(StoreIncompatible, match="none of the store's"):
        open_store(url)
    assert check_schema(url).fit is Fit.ABSENT
    assert tables(path) == {"theirs"}


def test_an_upgrade_keeps_a_catalog_that_is_there_already(url: str, path: Path, tmp_path: Path) -> None:
    theirs = SqlCatalog(CATALOG_NAME, uri=url, warehouse=tmp_path.as_uri())
    theirs.create_namespace("n")
    theirs.engine.dispose()
    assert upgrade_schema(url).fit is Fit.CURRENT
    assert upgrade_schema(url).fit is Fit.CURRENT
    assert execute(path, "SELECT namespace FROM iceberg_namespace_properties") == [("n",)]
    with open_store(url) as store:
        assert publish(store, DOMAIN).csn == 1


def test_an_upgrade_that_fails_changes_nothing(url: str, path: Path) -> None:
    execute(path, "CREATE TABLE theirs (x)")
    execute(path, "CREATE TABLE epochs_head (theirs)")
    before = tables(path)
    with pytest.raises(StoreIncompatible, match="epochs_head"):
        upgrade_schema(url)
    assert tables(path) == before


def test_looking_makes_no_file(url: str, path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="unable to open"):
        check_schema(url)
    assert not path.exists()


# --- the file ------------------------------------------------------------------------------------------------


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="mkdir -p") as refused:
        open_store(f"sqlite:///{tmp_path}/missing/epochs.db")
    assert "missing" in refused.value.next_step


@pytest.mark.parametrize("place", ["/sys/epochs.db", "/proc/epochs.db"])
def test_a_place_that_cannot_be_written_is_named(place: str) -> None:
    with pytest.raises(InvalidInput, match="may write"):
        open_store(f"sqlite:///{place}")


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected a file"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_left_alone(url: str, path: Path) -> None:
    path.write_text("year,month,day\n" * 1000)
    before = path.read_bytes()
    with pytest.raises(StoreIncompatible, match="not a database"):
        open_store(url)
    assert path.read_bytes() == before


@pytest.mark.usefixtures("store")
def test_it_writes_ahead_and_waits_for_the_disk(path: Path) -> None:
    assert execute(path, "PRAGMA journal_mode") == [("wal",)]
    with SqliteDialect(path).engine().connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_file_that_vanished_is_not_made_anew(store: MetadataStore, path: Path) -> None:
    publish(store, DOMAIN)
    path.unlink()
    with pytest.raises(StoreUnavailable, match="unable to open"):
        publish(store, DOMAIN)
    assert not path.exists()


def test_a_file_that_was_replaced_is_the_store_from_then_on(
    store: MetadataStore, path: Path, tmp_path: Path
) -> None:
    publish(store, DOMAIN)
    with open_store(f"sqlite:///{tmp_path}/other.db") as other:
        incarnation = other.read(DOMAIN, []).head.incarnation
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    (tmp_path / "other.db").rename(path)
    assert (store.read(DOMAIN, []).head.incarnation, publish(store, DOMAIN).csn) == (incarnation, 1)


def test_a_restored_backup_is_read_although_it_gives_versions_again(
    store: MetadataStore, path: Path, tmp_path: Path, url: str
) -> None:
    """What a client remembers is told from it by the time of the write."""
    key = counter_key(DOMAIN)
    write(store, put(key, 1))
    backup = tmp_path / "backup.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    write(store, put(key, 2))
    lost = store.read(DOMAIN, [key]).records[key]
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    backup.rename(path)
    with open_store(url) as other:
        write(other, put(key, 3))
    found = store.read(DOMAIN, [key]).records[key]
    assert (found.record.generation, found.version) == (3, lost.version)


# --- others who write ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store")
def test_a_long_transaction_of_another_session_ends_in_a_timeout(path: Path) -> None:
    impatient = SqlStore(SqliteDialect(path, timeout=timedelta(seconds=0.2)))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert impatient.read(DOMAIN, []).head.csn == 0
        with pytest.raises(StoreUnavailable, match="locked") as refused:
            publish(impatient, DOMAIN)
        assert "fuser" in refused.value.next_step
        other.execute("ROLLBACK")
    assert publish(impatient, DOMAIN).csn == 1
    impatient.close()


def test_a_short_one_is_waited_for(store: MetadataStore, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.2, lambda: other.execute("ROLLBACK"))
    release.start()
    assert publish(store, DOMAIN).csn == 1
    release.join()
    other.close()


def test_a_full_database_changes_nothing_and_goes_on_when_there_is_room(path: Path, url: str) -> None:
    with open_store(url) as store:
        publish(store, DOMAIN)
    store = SqlStore(SqliteDialect(path))
    engine = store._dialect.engine()
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
    big = Put(Key(DOMAIN, Kind.SCHEMA, "", "big"), SchemaRecord(schema="x" * 100_000))
    with pytest.raises(StoreUnavailable, match="full") as refused:
        write(store, big, number=commit())
    assert "make room" in refused.value.next_step
    assert store.read(DOMAIN, [big.key]).records == {}
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 100000")
    assert write(store, big, number=commit()).csn == 2
    store.close()


def test_a_commit_that_the_disk_did_not_confirm_is_an_unknown_outcome(
    store: MetadataStore, path: Path
) -> None:
    publish(store, DOMAIN)
    big = Put(Key(DOMAIN, Kind.SCHEMA, "", "big"), SchemaRecord(schema="x" * 100_000))
    written = Path(f"{path}-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (written + 9000, hard))
    try:
        with pytest.raises(OutcomeUnknown, match="disk I/O error"):
            write(store, big, number=commit())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.read(DOMAIN, [big.key]).records == {}
    assert write(store, big, number=commit()).csn == 2


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_running_transactions(store: MetadataStore) -> None:
    """Threads write while their process forks: each child writes too, and nothing is lost."""
    done = threading.Event()

    def write_on() -> int:
        written = 0
        while not done.is_set():
            written += publish(store, DOMAIN) is not None
        return written

    with ThreadPoolExecutor(2) as threads:
        writers = [threads.submit(write_on) for _ in range(2)]
        for _ in range(5):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    publish(store, DOMAIN)
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        done.set()
        written = sum(writer.result() for writer in writers)
    assert store.read(DOMAIN, []).head.csn == written + 5
    assert [change.csn for change in store.changes(DOMAIN, 0, limit=100_000)] == list(range(1, written + 6))


def test_the_clock_may_be_given(url: str) -> None:
    moment = datetime(2013, 2, 8, 23, 59, 59, 999_999, tzinfo=UTC)
    with open_store(url, now=lambda: moment) as store:
        receipt = write(store, put(counter_key(DOMAIN)))
        reading = store.read(DOMAIN, [counter_key(DOMAIN)])
        assert receipt.at == reading.now == reading.records[counter_key(DOMAIN)].at == moment


# --- look-ups ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("name", ["DIFFERING", "VERSIONS", "REMOVAL"])
def test_records_are_looked_up_by_their_whole_key(path: Path, name: str) -> None:
    address = {"domain": "d", "kind": "epoch", "partition": "p", "keys": '[["epoch", "p", "i"]]'}
    statement = getattr(sqlite_statements, name)
    with closing(sqlite3.connect(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", address).fetchall()
    assert any("(domain=? AND kind=? AND partition=? AND item=?)" in row[3] for row in plan)


def test_operators_read_times_and_states(store: MetadataStore, path: Path) -> None:
    for kind in (Kind.EPOCH, Kind.SLICE):
        write(store, Put(Key(DOMAIN, kind, "job", "item"), sample(kind)), number=commit())
    interval = sample(Kind.SLICE).interval
    ends = tuple(f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z" for moment in (interval.start, interval.end))
    found = execute(path, "SELECT domain, interval_start, interval_end, csn, state FROM epochs_epochs")
    assert found == [("d", *ends, 1, str(sample(Kind.EPOCH).state))]
    found = execute(path, "SELECT domain, interval_start, interval_end, csn FROM epochs_slices")
    assert found == [("d", *ends, 2)]
    assert [csn for (csn,) in execute(path, "SELECT csn FROM epochs_commits ORDER BY csn")] == [1, 2]
    times = [(f"{change.at:%Y-%m-%dT%H:%M:%S.%f}Z",) for change in store.changes(DOMAIN, 0)]
    assert execute(path, "SELECT updated_at FROM epochs_commits ORDER BY csn") == times


# --- Iceberg's catalog ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store")
def test_the_catalogs_tables_are_pyicebergs(path: Path, tmp_path: Path) -> None:
    engines = [create_engine(f"sqlite:///{path}"), create_engine(f"sqlite:///{tmp_path}/theirs.db")]
    SqlCatalogBaseTable.metadata.create_all(engines[1])
    for name in SqlCatalogBaseTable.metadata.tables:
        ours, theirs = (
            (
                inspect(engine).get_pk_constraint(name),
                [
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in inspect(engine).get_columns(name)
                ],
            )
            for engine in engines
        )
        assert ours == theirs
    for engine in engines:
        engine.dispose()


def test_pyiceberg_sees_a_swap(store: MetadataStore, url: str, tmp_path: Path) -> None:
    catalog = SqlCatalog(CATALOG_NAME, warehouse=tmp_path.as_uri(), **catalog_properties(url))
    catalog.create_namespace("n")
    table = catalog.create_table("n.flights", schema=pa.schema([("x", pa.int64())]))
    old = table.metadata_location
    new = old.replace(".metadata.json", "-next.metadata.json")
    Path(new.removeprefix("file://")).write_text(
        Path(old.removeprefix("file://")).read_text().replace('"last-column-id":1', '"last-column-id":7')
    )
    swap = CatalogSwap("n", "flights", old, new)
    store.transact(Transaction(domain=DOMAIN, updates=(swap,), number=commit()))
    loaded = catalog.load_table("n.flights")
    assert (loaded.metadata_location, loaded.metadata.last_column_id) == (new, 7)
    loaded.append(pa.table({"x": [1]}))
    assert catalog.load_table("n.flights").scan().to_arrow().num_rows == 1
    catalog.engine.dispose()
