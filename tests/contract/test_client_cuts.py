"""Cuts with methods and leases as readers in plain Python hold them: what is read, and when no more ."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_provider.client.cuts import ReadableCut
from airflow_provider.client.epochs import Epochs
from airflow_provider.domain.columns import add
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    InvalidInput,
    LeaseExpired,
    LeaseHeld,
    MissingLibrary,
    NotReady,
)
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Table
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, values_of

PAST_READING = DEFAULTS.read_grace + timedelta(seconds=1)

READS: dict[str, Callable[[ReadableCut], object]] = {
    "arrow": lambda cut: cut["d"].to_arrow(),
    "pandas": lambda cut: cut["d"].to_pandas(),
    "files": lambda cut: cut["d"].files(),
    "sql": lambda cut: cut.sql("SELECT * FROM d"),
    "register": lambda cut: cut.register(duckdb.connect()),
    "difference": lambda cut: cut - cut,
    "queries": lambda cut: cut.queries("duckdb"),
    "script": lambda cut: cut.script("duckdb"),
    "check": lambda cut: cut.check(),
}


@pytest.fixture(params=["memory", "sqlite", "iceberg"])
def world(request: pytest.FixtureRequest, quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """An empty domain; where rows are read, once with each kind of store and table."""
    world = Backend(request.param, quick_path, empty_sqlite).world()
    yield world
    world.close()


@pytest.fixture
def quick_world(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """An empty domain in memory, where store and table make no difference."""
    world = Backend("memory", quick_path, empty_sqlite).world()
    yield world
    world.close()


def opened(world: World) -> Epochs:
    """The world as a reader has it open."""
    return Epochs(world.worker(), DOMAIN)


def two_days(world: World) -> Epochs:
    """Two tables of one job, each with two days."""
    job = world.job("j", [world.table("d"), world.table("e", kind="full")])
    for number in (1, 2):
        world.run(job, day(number), [number, 10 * number])
    return opened(world)


def test_tables_of_a_cut_in_every_form(world: World) -> None:
    """The rows of all forms are those of ``Cuts.read``, at the newest barrier and at an earlier one."""
    epochs = two_days(world)
    for number in (1, 2):
        cut = epochs.cut(["d", "e"], at=barrier(number))
        expected = world.rows("d", "e", at=barrier(number))
        assert {table: values_of(cut[table].to_arrow()) for table in cut} == expected
        assert sorted(cut["d"].to_pandas()["value"]) == sorted(value for _, value in expected["d"])
        assert cut["d"].files() == world.cuts.files(cut.record, "d")
        assert (cut.barrier, cut.csn, len(cut)) == (barrier(number), 2, 2)
        assert cut["e"].to_arrow(["value"]).column_names == ["value"]
    declared = world.table("d")
    assert values_of(epochs.cut(declared)[declared].to_arrow()) == world.rows("d")["d"]


@pytest.mark.parametrize("columns", [[], (), "value"])
@pytest.mark.parametrize("filters", [None, [("value", ">", 0)]], ids=["all rows", "some rows"])
def test_rows_without_columns_are_refused(world: World, columns: Any, filters: Any) -> None:
    """There were none of them, so that a count of the rows was zero."""
    table = two_days(world).cut("d")["d"]
    for read in (table.to_arrow, table.to_pandas):
        with pytest.raises(InvalidInput, match="one or more of") as refused:
            read(columns, filters)
        assert refused.value.field == "columns"


def test_tables_are_named_by_the_cut(quick_world: World) -> None:
    epochs = two_days(quick_world)
    cut = epochs.cut("d")
    assert ("d" in cut, "e" in cut, Table("d", "other") in cut) == (True, False, False)
    with pytest.raises(InvalidInput, match="when the cut is made"):
        cut["e"]
    other = Table("d", "other")
    lease = epochs.lease(cut, name="report")
    for ask in (
        lambda: cut[other],
        lambda: cut.register(duckdb.connect(), [other]),
        lambda: cut.difference(cut, [other]),
        lambda: lease.release([other]),
    ):
        with pytest.raises(InvalidInput, match=r"other\.d"):
            ask()
    assert [*lease.cut] == ["d"]


@pytest.mark.parametrize(
    ("tables", "domain"),
    [
        ([Table("d", DOMAIN), Table("d", "other")], None),
        ([Table("d", "other"), "e"], None),
        ([Table("d", "other")], DOMAIN),
        ([], None),
        (None, None),
    ],
)
def test_a_cut_has_tables_of_one_domain(quick_world: World, tables: Any, domain: str | None) -> None:
    """A declaration of another domain is not taken for the table of that name in the reader's."""
    epochs = two_days(quick_world)
    for ask in (epochs.cut, lambda given, **more: epochs.lease(given, name="l", **more)):
        with pytest.raises(InvalidInput) as refused:
            ask(tables, domain=domain)
        assert refused.value.field == "tables"


def test_sql_joins_a_cut(world: World) -> None:
    """Whichever case and quotes the query has; a table that it does not name is not read."""
    epochs = two_days(world)
    cut = epochs.cut(["d", "e"], at=barrier(1))
    joined = cut.sql(
        'SELECT count(*) AS many, sum(value) AS total FROM D JOIN "e" USING (value)', engine="duckdb"
    )
    assert joined.to_pylist() == [{"many": 2, "total": 11}]
    assert cut.sql("SELECT 1 AS x").to_pylist() == [{"x": 1}]
    for uri in cut["e"].files():
        world.lose(uri)
    assert cut.sql("FROM d SELECT max(value) AS value").to_pylist() == [{"value": 10}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM dd",
        "SELECT * FROM rows",
        "SELEC",
        "CREATE TABLE x AS FROM d",
        "SELECT value + 'x' FROM d",
    ],
)
def test_sql_sees_the_tables_of_the_cut_only(quick_world: World, query: str) -> None:
    """No variable of Python, no file: the error names the tables."""
    rows = two_days(quick_world).cut("d")["d"].to_arrow()
    assert rows.num_rows
    with pytest.raises(InvalidInput, match="DuckDB runs over d") as refused:
        opened(quick_world).cut("d").sql(query)
    assert refused.value.field == "query"


@pytest.mark.parametrize(
    ("engine", "step"), [("spark", "cut.views"), ("trino", "queries"), ("ducks", "views")]
)
def test_sql_runs_in_duckdb_only(quick_world: World, engine: str, step: str) -> None:
    with pytest.raises(InvalidInput, match=step):
        two_days(quick_world).cut("d").sql("SELECT 1", engine=engine)


def test_tables_that_duckdb_takes_for_one_are_refused(quick_world: World) -> None:
    """It keeps the last one registered and reads its rows for both."""
    world = quick_world
    world.run(world.job("j", [world.table("d"), world.table("D")]), day(1), [1])
    cut = opened(world).cut(["d", "D"])
    for read in (
        lambda: cut.sql("SELECT * FROM d"),
        lambda: cut.register(duckdb.connect()),
        lambda: cut.script("duckdb"),
    ):
        with pytest.raises(InvalidInput, match="more than case"):
            read()
    assert cut["D"].to_arrow().num_rows == 1


NUMBERS = [1.0, 200.0, float("nan"), None, -0.0, 0.0]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT n FROM d WHERE x > 100", [2, 3]),
        ("SELECT n FROM d WHERE NOT x <= 100 ", [2, 3]),
        ("SELECT n FROM d WHERE x IN (0, 200)", [2, 5, 6]),
        ("SELECT n FROM d WHERE x > 1000", [3]),
        ("SELECT n FROM d WHERE isnan(x)", [3]),
        ("SELECT CAST(isnan(max(x)) AS INTEGER) FROM d", [1]),
        ("SELECT a.n FROM d AS a JOIN d AS b ON a.x = b.x", [1, 2, 3, 5, 5, 6, 6]),
    ],
    ids=str,
)
def test_numbers_compare_in_duckdb_as_in_spark(world: World, query: str, found: list[int]) -> None:
    """NaN is the greatest number and equals itself, and -0.0 equals 0.0: neither a condition nor a join loses rows."""
    attempt = world.begin(world.job("d"), day(1))
    rows = {"n": range(1, 7), "x": pa.array(NUMBERS), "f": pa.array(NUMBERS, pa.float32())}
    parts = pa.array([{"x": value} for value in NUMBERS])
    write_rows(world.coordinator, attempt, "d", pa.table({**rows, "part": parts}))
    world.coordinator.publish(attempt)
    cut = opened(world).cut(["d"])
    for column in ("x", "f", "part.x"):
        asked = re.sub(r"\bx\b", column, query)
        assert sorted(cut.sql(asked)[0].to_pylist()) == found, asked
    if world.table_format != "iceberg":
        return
    with duckdb.connect() as connection:
        connection.execute(cut.script("duckdb"))
        kinds = connection.execute("SELECT DISTINCT typeof(x), typeof(f), typeof(part) FROM d").fetchall()
        assert kinds == [("DOUBLE", "FLOAT", "STRUCT(x DOUBLE)")]
        for column in ("x", "f", "part.x"):
            asked = re.sub(r"\bx\b", column, query)
            assert sorted(n for (n,) in connection.execute(asked).fetchall()) == found, asked


def test_a_connection_gets_the_rows_of_later_cuts(quick_world: World) -> None:
    """In place of those of before, also once the table has got a column of floating point numbers."""
    world, plain = quick_world, pa.table({"n": [1]})
    with duckdb.connect() as connection:
        for number in (1, 2, 3):
            table = world.table("d", column_changes=[add("x", "double")] if number > 1 else [])
            attempt = world.begin(world.job("d", [table]), day(number))
            rows = plain if number == 1 else plain.append_column("x", pa.array([0.5]))
            write_rows(world.coordinator, attempt, "d", rows)
            world.coordinator.publish(attempt)
            opened(world).cut(["d"]).register(connection)
            assert connection.execute("SELECT count(*) FROM d").fetchall() == [(number,)]
        opened(world).cut(["d"], at=barrier(1)).register(connection)
        assert connection.execute("SELECT count(*) FROM d").fetchall() == [(1,)]


def test_a_difference_is_one_of_two_cuts(world: World) -> None:
    epochs = two_days(world)
    first, last = (epochs.cut(["d", "e"], at=barrier(number)) for number in (1, 2))
    changed = last - first
    assert values_of(changed["d"].added) == [(2, 2), (2, 20)]
    assert changed["d"].removed.num_rows == 0
    assert values_of(changed["e"].removed) == [(1, 1), (1, 10)]
    assert set(last.difference(first, ["e"])) == {"e"}
    with pytest.raises(TypeError):
        _ = last - barrier(1)  # type: ignore[operator]


@pytest.mark.parametrize("read", sorted(READS))
def test_a_cut_that_is_over_is_not_read(world: World, read: str) -> None:
    """R22: neither when its time is over nor when its lease is dropped, whichever form is asked for."""
    epochs = two_days(world)
    cut, lease = epochs.cut("d"), epochs.lease("d", name="report", owner="me", ttl=3 * PAST_READING)
    held = lease.cut
    world.clock.advance(PAST_READING)
    for over in (cut, held):
        if over is held:
            lease.drop()
        with pytest.raises(LeaseExpired):
            READS[read](over)


def test_rows_of_a_cut_that_ends_while_they_are_read_are_not_returned(
    quick_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R22: neither as rows nor as the answer of a query."""
    epochs = two_days(quick_world)
    cut = epochs.cut("d")
    table_format = quick_world.cuts.format_of(cut["d"].state)
    read = table_format.read

    def slow(*given: Any) -> Any:
        quick_world.clock.advance(PAST_READING)
        return read(*given)

    monkeypatch.setattr(table_format, "read", slow)
    with pytest.raises(LeaseExpired):
        cut.sql("SELECT * FROM d")


# --- leases ------------------------------------------------------------------------------------------------------


def test_a_lease_holds_its_cut_for_the_block(quick_world: World) -> None:
    epochs = two_days(quick_world)
    with epochs.lease(["d", "e"], name="report", owner="run", ttl=timedelta(hours=2)) as lease:
        quick_world.clock.advance(PAST_READING)
        assert values_of(lease.cut["d"].to_arrow()) == quick_world.rows("d")["d"]
        assert [held.id for held in epochs.leases()] == [lease.name] == ["report"]
        lease.renew(timedelta(hours=5))
        assert lease.until == quick_world.clock.now() + timedelta(hours=5)
        before = lease.cut
        lease.release("e")
        assert set(lease.cut) == {"d"}
        with pytest.raises(LeaseExpired, match="no longer holds e"):
            before["e"].to_arrow()
    assert epochs.leases() == []
    with pytest.raises(LeaseExpired):
        lease.renew()


def test_a_block_that_failed_keeps_the_cut_for_its_retry(quick_world: World) -> None:
    """Only where its owner was named: without the name no retry could ask for it."""
    epochs = two_days(quick_world)
    with pytest.raises(ZeroDivisionError), epochs.lease("e", name="report", owner="run") as lease:
        _ = 1 / 0
    quick_world.run(
        quick_world.job("j", [quick_world.table("d"), quick_world.table("e", kind="full")]), day(3)
    )
    with pytest.raises(LeaseHeld):
        epochs.lease("e", name="report")
    with epochs.lease("e", name="report", owner="run") as again:
        assert again.cut.record.states == lease.cut.record.states
    with pytest.raises(ZeroDivisionError), epochs.lease("e", name="report"):
        _ = 1 / 0
    assert epochs.leases() == []


def test_a_cut_that_is_there_is_held(quick_world: World) -> None:
    epochs = two_days(quick_world)
    cut = epochs.cut(["d", "e"], at=barrier(1))
    with epochs.lease(cut, name="report") as lease:
        assert lease.cut.states == cut.states
        assert lease.cut.level == "repeatable_read"
    with pytest.raises(InvalidInput) as refused:
        epochs.lease(cut, name="report", at=barrier(1))
    assert refused.value.field == "tables"


def test_a_session_goes_on_from_cut_to_cut(quick_world: World) -> None:
    """R20: also through its text."""
    epochs = two_days(quick_world)
    session = Session.of(DOMAIN).after(epochs.cut("d"))
    assert epochs.cut("d", session=Session.parse(session.text())).barrier == barrier(2)
    with pytest.raises(NotReady):
        epochs.cut("d", at=barrier(1), session=session)


# --- libraries ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "read", "command"),
    [
        ("duckdb", lambda cut: cut.sql("SELECT 1"), r"pip install 'airflow-provider-epochs\[duckdb\]'"),
        ("pandas", lambda cut: cut["d"].to_pandas(), "pip install 'pandas"),
        ("polars", lambda cut: cut["d"].to_polars(), "pip install polars"),
    ],
)
def test_a_library_that_is_missing_is_named_with_its_command(
    quick_world: World, monkeypatch: pytest.MonkeyPatch, name: str, read: Any, command: str
) -> None:
    cut = two_days(quick_world).cut("d")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingLibrary, match=command) as missing:
        read(cut)
    assert missing.value.library == name


def test_polars_gets_the_rows_as_arrow(quick_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars is no requirement of this package: its one function that is called is stood in for."""
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda rows: ("frame", rows)))
    kind, rows = two_days(quick_world).cut("d")["d"].to_polars(["value"])
    assert (kind, rows.column_names, rows.num_rows) == ("frame", ["value"], 4)
