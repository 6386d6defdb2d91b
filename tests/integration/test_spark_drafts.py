"""Spark SQL into epochs: statements of Iceberg's own Spark runtime on drafts, published like any other rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pyiceberg.table import StaticTable
from uuid6 import uuid7

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.checks import no_rows, not_null
from airflow_provider.domain.epoch import Attempt, EpochState
from airflow_provider.domain.errors import CheckFailed, Fenced, InvalidInput, SchemaMismatch
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.spark import drafts
from airflow_provider.spark.attempt_run import EpochRun
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.stores.factory import upgrade_schema
from tests.servers.postgresql import PostgresqlServer
from tests.services import iceberg_runtime
from tests.services.postgresql import postgresql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgresql"]  # a fixture of this module

ACCOUNTS = Table("accounts", kind="full", partition_by=("branch",))
BOOKINGS = Table("bookings")
MIDNIGHT = datetime(2013, 2, 8, tzinfo=UTC)
KEEP = Job(
    "keep",
    inputs=[previous(ACCOUNTS)],
    outputs=[ACCOUNTS, BOOKINGS],
    cadence="@hourly",
    origin=MIDNIGHT,
    on_rerun="new_revision",
)
REPORT = Job("report", inputs=[state(ACCOUNTS)], outputs=[Table("report")], cadence="@hourly")
COLUMNS = "id bigint, branch string, amount decimal(10,2)"
RUN = Owner(dag_id="dag", run_id="run")
ODD = "p@ss:w/rd%20#?&é"

on_classic = pytest.mark.parametrize("spark", ["classic"], indirect=True)
on_connect = pytest.mark.parametrize("spark", ["connect"], indirect=True)


@pytest.fixture(autouse=True)
def _runtime() -> None:
    if iceberg_runtime.jar() is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central, or its mirror, does not answer")


def hour(number: int) -> Interval:
    return Interval(MIDNIGHT + timedelta(hours=number), MIDNIGHT + timedelta(hours=number + 1))


def owner(number: int, try_number: int = 1) -> Owner:
    return Owner(dag_id="dag", run_id=f"run {number}", try_number=try_number)


def keep(epoch: EpochRun, *statements: str) -> None:
    """Run *statements* on the accounts, and note in the bookings how many they were."""
    with epoch.draft(ACCOUNTS, schema=COLUMNS) as accounts:
        for statement in statements:
            epoch.spark.sql(statement.format(accounts=accounts))
    epoch.write(BOOKINGS, epoch.spark.range(len(statements)))


def kept(service: EpochService, number: int, table: str = "accounts") -> list[Any]:
    """The accounts at the end of an hour, as the newest cut has them."""
    cut = service.cuts.cut("default", [table], at=hour(number).end)
    rows = service.cuts.read(cut, table)
    assert set(rows.column("_epoch").to_pylist()) <= {hour(number).end}
    return sorted((row["id"], row["branch"], row["amount"]) for row in rows.to_pylist())


def account(number: int, branch: str, amount: str) -> tuple[int, str, Decimal]:
    return number, branch, Decimal(amount)


ADD = "INSERT INTO {accounts} VALUES ({0}, 'north', {0})"
OPENING = "INSERT INTO {accounts} VALUES (1, 'north', 10), (2, 'north', 20), (3, 'so/u=t%20h', 30)"
UPDATE = "UPDATE {accounts} SET amount = -1 WHERE id = 2"
ALL_GONE = "DELETE FROM {accounts}"
FAILS = "INSERT INTO {accounts} SELECT id, raise_error('no rows'), 1 FROM range(3)"
DELETE = "DELETE FROM {accounts} WHERE id = 4"
CHANGES = """
    MERGE INTO {accounts} AS t USING (
        SELECT 1L AS id, 'north' AS branch, 5.5 AS amount UNION ALL SELECT 4L, 'west', 40
    ) AS s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET amount = t.amount + s.amount WHEN NOT MATCHED THEN INSERT *
"""


def test_every_statement_is_in_the_slice_and_in_one_commit_with_rows_that_were_written(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R2, R4: INSERT, MERGE, UPDATE and DELETE; earlier barriers keep their rows, untouched files are shared."""
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        keep(epoch, OPENING)
    with epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch:
        with epoch.draft("accounts") as accounts:
            spark.sql(CHANGES.format(accounts=accounts))
            for statement in (UPDATE, DELETE, "INSERT INTO {accounts} SELECT 5, 'west', 50"):
                spark.sql(statement.format(accounts=accounts))
            assert kept(service, 0)[0] == account(1, "north", "10")
            assert service.cuts.cut("default", ["accounts"]).csn == 1
        epoch.write(BOOKINGS, spark.range(4))
    assert epoch.published is not None
    assert epoch.published.csn == 2
    south = account(3, "so/u=t%20h", "30")
    assert kept(service, 0) == [account(1, "north", "10"), account(2, "north", "20"), south]
    after = [account(1, "north", "15.5"), account(2, "north", "-1"), south, account(5, "west", "50")]
    assert kept(service, 1) == after
    first, second = (
        set(service.cuts.files(service.cuts.cut("default", ["accounts"], at=hour(number).end), "accounts"))
        for number in (0, 1)
    )
    assert len(first & second) == 1
    with epoch_run(REPORT, hour(1), spark=spark, settings=settings) as report:
        found = report.read(ACCOUNTS, with_epoch=True)
        assert {row["_epoch"].astimezone(UTC) for row in found.collect()} == {hour(1).end}
        report.write("report", report.read(ACCOUNTS))
    assert seen_by_others(spark, service) == [after, after]


def seen_by_others(spark: SparkSession, service: EpochService) -> list[list[Any]]:
    """The newest accounts as pyiceberg and as Spark's own Iceberg runtime read the table."""
    info = service.formats["iceberg"].describe(ACCOUNTS)
    assert info is not None
    newest = "_epoch = '2013-02-08T02:00:00+00:00'"
    by_pyiceberg = StaticTable.from_metadata(info.pointer).scan(row_filter=newest).to_arrow().to_pylist()
    by_runtime = (
        spark.read.format("iceberg").load(info.pointer).where("_epoch = timestamp'2013-02-08 02:00:00Z'")
    )
    rows = [by_pyiceberg, [row.asDict() for row in by_runtime.collect()]]
    return [sorted((row["id"], row["branch"], row["amount"]) for row in found) for found in rows]


@on_classic
def test_a_statement_that_fails_leaves_nothing_and_the_block_may_be_tried_again(
    spark: SparkSession, settings: Settings, service: EpochService, tmp_path: Path
) -> None:
    """R16: the second try begins with the base, not with what the first one did."""
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        with suppress(ArithmeticError), epoch.draft(ACCOUNTS, schema=COLUMNS) as accounts:
            spark.sql(OPENING.format(accounts=accounts))
            raise ArithmeticError
        assert not list((tmp_path / "warehouse").rglob("*.parquet"))
        keep(epoch, "INSERT INTO {accounts} VALUES (7, 'north', 7)")
    assert kept(service, 0) == [account(7, "north", "7")]

    def fails() -> None:
        with epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch:
            keep(epoch, OPENING, "INSERT INTO {accounts} SELECT id, raise_error('no'), 1 FROM range(3)")

    with pytest.raises(Exception, match="no"):
        fails()
    assert states(service, hour(1))[-1] == (EpochState.ABORTED, "")
    files = [path for path in (tmp_path / "warehouse").rglob("*.parquet") if "T020000" in str(path)]
    assert files == []


def states(service: EpochService, interval: Interval) -> list[tuple[str, str]]:
    log = service.barriers(KEEP.domain, KEEP.name, interval)
    return [(entry.record.state, entry.record.sink) for entry in sorted(log, key=lambda entry: entry.at)]


def begun(service: EpochService, who: Owner, interval: Interval) -> Attempt:
    attempt = service.begin(KEEP, interval, replace(who, request_id=str(uuid7())))
    assert isinstance(attempt, Attempt)
    return attempt


def test_an_overtaken_attempt_writes_on_and_changes_nothing(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R10, ATT1: statements of a zombie go to a draft that no reader looks at; its end is refused."""
    newer: list[Attempt] = []
    names: list[str] = []

    def overtaken() -> None:
        with (
            EpochRun(service, KEEP, begun(service, RUN, hour(0)), spark=spark) as epoch,
            epoch.draft(ACCOUNTS, schema=COLUMNS) as accounts,
        ):
            spark.sql(OPENING.format(accounts=accounts))
            newer.append(begun(service, replace(RUN, try_number=2), hour(0)))
            names.append(accounts)
            with suppress(Exception):  # its directory is gone
                spark.sql(OPENING.format(accounts=accounts))

    with pytest.raises(Fenced):
        overtaken()
    with EpochRun(service, KEEP, newer[0], spark=spark) as epoch:
        keep(epoch, "INSERT INTO {accounts} VALUES (8, 'north', 8)")
    with suppress(Exception):
        spark.sql(OPENING.format(accounts=names[0]))
    assert kept(service, 0) == [account(8, "north", "8")]
    with epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch:
        keep(epoch, "INSERT INTO {accounts} VALUES (9, 'north', 9)")
    assert kept(service, 1) == [account(8, "north", "8"), account(9, "north", "9")]


def test_rows_that_were_written_are_copied_into_the_first_draft(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """Their files say their epoch; from then on files are shared."""
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        epoch.write(ACCOUNTS, spark.sql("SELECT 1L id, 'north' branch, cast(1 AS decimal(10,2)) amount"))
        epoch.write(BOOKINGS, spark.range(1))
    for number in (1, 2):
        with epoch_run(KEEP, hour(number), spark=spark, settings=settings) as epoch:
            keep(epoch, ADD.format(number + 1, accounts="{accounts}"))
    assert [row[0] for row in kept(service, 2)] == [1, 2, 3]
    files = [
        set(service.cuts.files(service.cuts.cut("default", ["accounts"], at=hour(number).end), "accounts"))
        for number in range(3)
    ]
    assert not files[0] & files[1]
    assert files[1] < files[2]


@on_classic
def test_checks_see_base_rows_and_statements(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R14: rows of the base and of statements alike; a failed check leaves nothing to read."""
    all_known = no_rows("SELECT * FROM {accounts} WHERE branch IS NULL")
    checked = Job(
        "keep",
        inputs=KEEP.inputs,
        outputs=KEEP.outputs,
        cadence="@hourly",
        origin=MIDNIGHT,
        checks=[not_null(ACCOUNTS, "branch"), all_known],
    )
    with epoch_run(checked, hour(0), spark=spark, settings=settings) as epoch:
        keep(epoch, OPENING)
    with (
        pytest.raises(CheckFailed) as check_failed,
        epoch_run(checked, hour(1), spark=spark, settings=settings) as epoch,
    ):
        keep(epoch, "UPDATE {accounts} SET branch = null WHERE id = 3")
    assert len(check_failed.value.findings) == 2
    assert service.cuts.cut("default", ["accounts"]).csn == 1


@on_classic
def test_a_table_is_written_once_and_in_one_way(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R1: neither a second draft nor rows beside it; statements after the block change nothing."""

    def refused(epoch: EpochRun) -> None:
        with pytest.raises(InvalidInput, match="once"), epoch.draft("accounts", schema=COLUMNS):
            pytest.fail("a second draft")
        with pytest.raises(InvalidInput, match="once"):
            epoch.write(ACCOUNTS, spark.sql("SELECT 9L id, 'north' branch, cast(9 AS decimal(10,2)) amount"))

    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        with epoch.draft("accounts", schema=COLUMNS) as accounts:
            refused(epoch)
            spark.sql(OPENING.format(accounts=accounts))
        refused(epoch)
        late = (
            ADD.format(9, accounts=accounts),
            ALL_GONE.format(accounts=accounts),
            f"DROP TABLE {accounts}",
            f"DROP TABLE {accounts} PURGE",
            f"ALTER TABLE {accounts} ADD COLUMN more int",
        )
        for statement in late:
            with suppress(Exception):
                spark.sql(statement)
        epoch.write(BOOKINGS, spark.range(1))
    for statement in late:
        with suppress(Exception):
            spark.sql(statement)
    assert [row[0] for row in kept(service, 0)] == [1, 2, 3]


@on_classic
def test_a_draft_without_a_statement_and_one_of_which_a_statement_failed(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R16: the first keeps the rows of the barrier before; in the second each statement is whole, or nothing."""
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        keep(epoch, OPENING)
    with epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch:
        keep(epoch)
    assert kept(service, 1) == kept(service, 0)
    with epoch_run(KEEP, hour(2), spark=spark, settings=settings) as epoch:
        with epoch.draft(ACCOUNTS) as accounts:
            with pytest.raises(Exception, match="no rows"):
                spark.sql(FAILS.format(accounts=accounts))
            spark.sql(DELETE.replace("4", "2").format(accounts=accounts))
        epoch.write(BOOKINGS, spark.range(1))
    assert [row[0] for row in kept(service, 2)] == [1, 3]


@on_connect
def test_a_revision_begins_with_the_barrier_before_it_again(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R11: neither the epoch's own earlier slice nor anything later is in what it starts from."""
    for number in range(2):
        with epoch_run(KEEP, hour(number), spark=spark, settings=settings, owner=owner(number)) as epoch:
            keep(epoch, ADD.format(number, accounts="{accounts}"))
    again = Owner(dag_id="dag", run_id="run 1", generation=1)
    with epoch_run(KEEP, hour(1), spark=spark, settings=settings, owner=again) as epoch:
        keep(epoch, "INSERT INTO {accounts} VALUES (11, 'north', 11)")
    assert epoch.published is not None
    assert epoch.published.revision == 2
    assert kept(service, 1) == [account(0, "north", "0"), account(11, "north", "11")]


@on_connect
@pytest.mark.parametrize("complete", [True, False])
def test_a_retry_adopts_a_complete_draft_or_makes_another_one(
    spark: SparkSession, settings: Settings, service: EpochService, complete: bool
) -> None:
    crashed = EpochRun(service, KEEP, begun(service, RUN, hour(0)), spark=spark)
    crashed.__enter__()
    keep(crashed, OPENING)
    if complete:
        service.complete(crashed.attempt)
    crashed._heartbeat.stop()
    retry = replace(RUN, try_number=2)
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings, owner=retry) as epoch:
        assert epoch.attempt.adopted is complete
        keep(epoch, "INSERT INTO {accounts} VALUES (9, 'north', 9)")
    assert [row[0] for row in kept(service, 0)] == ([1, 2, 3] if complete else [9])


def test_settings_of_write_audit_publish_neither_leak_nor_lose_rows(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R4: the session's branch changes nothing; a draft that is made to obey it would lose rows, and is refused."""
    spark.conf.set("spark.wap.branch", "audit")
    try:
        with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
            keep(
                epoch,
                OPENING,
                "DELETE FROM {accounts} WHERE id = 2",
                "DELETE FROM {accounts} WHERE branch = 'north'",
            )
        assert [row[0] for row in kept(service, 0)] == [3]

        def obeys() -> None:
            with epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch:
                enabled = "ALTER TABLE {accounts} SET TBLPROPERTIES ('write.wap.enabled'='true')"
                keep(epoch, enabled, OPENING)

        with pytest.raises(Exception, match="audit"):
            obeys()
    finally:
        spark.conf.unset("spark.wap.branch")
    assert service.cuts.cut("default", ["accounts"]).csn == 1


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (
            [
                "ALTER TABLE {accounts} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')",
                "DELETE FROM {accounts} WHERE id = 2",
            ],
            (InvalidInput, "deletes beside files"),
        ),
        (["ALTER TABLE {accounts} ADD COLUMN more int"], (SchemaMismatch, "more")),
        (["ALTER TABLE {accounts} RENAME COLUMN amount TO total"], (SchemaMismatch, "amount|total")),
        (
            [
                "ALTER TABLE {accounts} RENAME COLUMN amount TO total",
                "ALTER TABLE {accounts} ADD COLUMN amount decimal(10,2)",
                "ALTER TABLE {accounts} DROP COLUMN total",
            ],
            (InvalidInput, "dropped and added again"),
        ),
        (["CREATE OR REPLACE TABLE {accounts} USING iceberg AS SELECT 1L AS id"], (SchemaMismatch, "branch")),
        (["DROP TABLE {accounts}"], (InvalidInput, "dropped")),
        (
            ["ALTER TABLE {accounts} SET TBLPROPERTIES ('write.format.default'='orc')", OPENING],
            (InvalidInput, "not Parquet"),
        ),
    ],
)
@on_classic
def test_unsupported_statements_of_a_slice_are_named(
    spark: SparkSession,
    settings: Settings,
    service: EpochService,
    statements: list[str],
    told: tuple[type[Exception], str],
) -> None:
    def misused() -> None:
        with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
            keep(epoch, OPENING, *statements)

    with pytest.raises(told[0], match=told[1]):
        misused()
    assert states(service, hour(0))[-1] == (EpochState.ABORTED, "")


@on_classic
def test_no_statement_may_purge_or_expire_files_of_the_base(
    spark: SparkSession, settings: Settings, service: EpochService
) -> None:
    """R24: the rows of the barrier before are not the draft's to delete."""
    with epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch:
        keep(epoch, OPENING)
    with (
        pytest.raises(Exception, match="GC is disabled"),
        epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch,
    ):
        keep(epoch, "DROP TABLE {accounts} PURGE")
    with (
        pytest.raises(InvalidInput, match="dropped"),
        epoch_run(KEEP, hour(1), spark=spark, settings=settings) as epoch,
    ):
        keep(epoch, "DELETE FROM {accounts}", "DROP TABLE {accounts}")
    assert [row[0] for row in kept(service, 0)] == [1, 2, 3]


@on_classic
def test_every_type_and_name_comes_back_and_an_incremental_table_gets_rows(
    spark: SparkSession, settings: Settings
) -> None:
    columns = """`a.b` int, `x y` float, d double, m decimal(38,18), day date, at timestamp, wall timestamp_ntz,
        s string, `ä` binary, l array<struct<z: int>>, `map` map<string, bigint>, flag boolean"""
    row = """1, 1.5, 2.5, -1e-18, date'1582-10-04', timestamp'1883-11-18 00:00:00.000001Z',
        timestamp_ntz'2013-03-10 02:30:00', 'ünï \\u0000', X'00ff', array(named_struct('z', 3), null),
        map('k', 4L), true"""
    table = Table(
        "ty`pes ä=%20", kind="full", partition_by=("day", "m", "hour(at)", "truncate(2, s)"), sort_by=("s",)
    )
    rows = Table("rows", partition_by=("day", "bucket(4, a.b)", "day(wall)"))
    job = Job("types", inputs=[previous(table)], outputs=[table, rows], cadence="@hourly", origin=MIDNIGHT)
    elsewhere = replace(settings, warehouse=f"{settings.warehouse} of others")
    with EpochService.open(elsewhere) as service:
        for number in range(2):
            with epoch_run(job, hour(number), spark=spark, settings=elsewhere) as epoch:
                for sink in (table, rows):
                    with epoch.draft(sink, schema=columns) as name:
                        spark.sql(f"INSERT INTO {name} SELECT {row}")
        cut = service.cuts.cut("default", [table, "rows"])
        full, incremental = (service.cuts.read(cut, name) for name in (table.name, "rows"))
    [first, second] = full.drop_columns("_epoch").to_pylist()
    assert first == second
    assert first["m"] == Decimal("-1e-18")
    assert (first["a.b"], first["s"], first["l"], first["map"]) == (1, "ünï \0", [{"z": 3}, None], [("k", 4)])
    assert incremental.drop_columns("_epoch").to_pylist() == [first, first]
    assert sorted(incremental.column("_epoch").to_pylist()) == [hour(0).end, hour(1).end]


@on_classic
@pytest.mark.parametrize("column", ["d", "st.`x.y`"])
def test_statements_compare_floating_point_numbers_as_spark_does(
    spark: SparkSession, settings: Settings, service: EpochService, column: str
) -> None:
    """NaN is the greatest number, and -0.0 equals 0.0: in a file of the base, and in one of the draft."""
    table = Table("levels", kind="full")
    job = Job("levels", inputs=[previous(table)], outputs=[table], cadence="@hourly", origin=MIDNIGHT)
    rows = "SELECT /*+ COALESCE(1) */ id, d, named_struct('x.y', float(d)) FROM VALUES {0} AS v(id, d)"
    files = [
        rows.format(values) for values in ("(1, 1D), (2, double('nan')), (3, 5D)", "(4, -0.0D), (5, -1D)")
    ]
    left = {"> 100": [1, 3, 4, 5], "= 0": [1, 3, 5], "< 5": [3]}
    for number in range(2):
        with epoch_run(job, hour(number), spark=spark, settings=settings) as epoch:
            schema = "id int, d double, st struct<`x.y`: float>"
            with epoch.draft(table, schema=schema, empty=number == 0) as levels:
                for values in files:
                    spark.sql(f"INSERT INTO {levels} {values}")
                for condition, ids in left.items() if number else ():
                    spark.sql(f"DELETE FROM {levels} WHERE {column} {condition}")  # noqa: S608
                    assert sorted(row.id for row in spark.table(levels).collect()) == sorted(2 * ids)
    found = service.cuts.read(service.cuts.cut("default", ["levels"]), "levels", ["id"])
    assert found["id"].to_pylist() == [3, 3]


@on_classic
def test_missing_requirements_are_named_before_any_work(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drafted(job: Job, **options: Any) -> None:
        with (
            epoch_run(job, hour(0), spark=spark, settings=settings) as epoch,
            epoch.draft(job.outputs[0], **options),
        ):
            pytest.fail("the block was entered")

    with pytest.raises(InvalidInput, match="schema="):
        drafted(KEEP)
    with (
        pytest.raises(InvalidInput, match="declare 'other'"),
        epoch_run(KEEP, hour(0), spark=spark, settings=settings) as epoch,
        epoch.draft("other"),
    ):
        pytest.fail("the block was entered")
    fresh = Job("fresh", outputs=[replace(ACCOUNTS, name=TableName("fresh"))], cadence="@hourly")
    with pytest.raises(InvalidInput, match="or begin with none"):
        drafted(fresh, schema=COLUMNS)
    monkeypatch.setattr(drafts, "RUNTIME", "org.apache.iceberg.spark.Absent")
    with pytest.raises(InvalidInput, match="--packages org.apache.iceberg:iceberg-spark-runtime"):
        drafted(KEEP, schema=COLUMNS)
    monkeypatch.setattr(drafts, "has_file_system", lambda *_: False)
    with pytest.raises(InvalidInput, match="epoch.write works on every warehouse"):
        drafted(KEEP, schema=COLUMNS)
    assert not list(Path(settings.warehouse).rglob("draft-*"))


@pytest.fixture
def on_postgresql(postgresql: PostgresqlServer, tmp_path: Path) -> Iterator[EpochService]:
    """A service whose store asks for a password with every odd character."""
    database = postgresql.create_database()
    with postgresql.connect() as connection:
        connection.execute(f"CREATE ROLE \"u-{database}\" LOGIN SUPERUSER PASSWORD '{ODD}'")  # type: ignore[call-overload]
    server = f"127.0.0.1:{postgresql.port}/{database}?sslmode=disable"
    url = f"postgresql+psycopg://u-{database}:{quote(ODD, safe='')}@{server}"
    upgrade_schema(url)
    with EpochService.open(Settings(store_url=url, warehouse=f"{tmp_path}/warehouse")) as service:
        yield service


@on_classic
def test_on_postgresql_spark_never_hears_of_the_database(
    spark: SparkSession, on_postgresql: EpochService
) -> None:
    """R2: pointers and records in one SQL transaction, and no address, user or password in Spark."""
    for number, statement in enumerate((OPENING, CHANGES)):
        with EpochRun(
            on_postgresql, KEEP, begun(on_postgresql, RUN_OF[number], hour(number)), spark=spark
        ) as epoch:
            keep(epoch, statement)
            known = [
                *(f"{name}={value}" for name, value in spark.sparkContext.getConf().getAll()),
                *(f"{row['key']}={row['value']}" for row in spark.sql("SET").collect()),
                *(command for path in Path("/proc").glob("[0-9]*/cmdline") for command in [command_of(path)]),
            ]
    assert [row[0] for row in kept(on_postgresql, 1)] == [1, 2, 3, 4]
    secrets = (ODD, quote(ODD, safe=""), json.dumps(ODD)[1:-1])
    assert not [text for text in known if any(secret in text for secret in secrets)]
    assert any("spark.sql.catalog.epochs_" in text for text in known)


RUN_OF = [owner(0), owner(1)]


def command_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
