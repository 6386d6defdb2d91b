"""Cuts as users take them: pandas, DuckDB, SQL text, and what changed between two (R22)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from airflow_provider.coordination.reading.differences import diff
from airflow_provider.coordination.reading.queries import Engine, queries, script
from airflow_provider.domain.errors import InvalidInput, LeaseExpired
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, owner, values_of
from tests.hostile import undecodable


@pytest.fixture
def iceberg(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """A domain with Iceberg tables on SQLite."""
    world = Backend("iceberg", quick_path, empty_sqlite).world()
    yield world
    world.close()


def two_tables(world: World) -> None:
    """An incremental d of three days, one of them computed again, and a full f of two."""
    d, f = world.job("d"), world.job("f", [world.table("f", kind=TableKind.FULL)])
    for number in (1, 2, 3):
        world.run(d, day(number), [number])
    world.run(d, day(1), [10], owner("again"))
    for number in (1, 2):
        world.run(f, day(number), [100 * number])


def rows(found: pa.Table) -> list[tuple[int, int]]:
    """Rows as (number of the day, value), sorted; from any engine."""
    return values_of(found.select(["_epoch", "value"]))


def test_r22_pandas_keeps_types_and_checks_the_lease(table_world: World) -> None:
    """The same rows as Arrow, whole numbers as such; none after the lease."""
    two_tables(table_world)
    lease = table_world.leases.cut(DOMAIN, ["d", "f"], name="report", owner="me")
    frame = table_world.cuts.read(lease.cut, "d", ["value", "_epoch"]).to_pandas(types_mapper=pd.ArrowDtype)
    assert str(frame["value"].dtype) == "int64[pyarrow]"
    assert sorted(frame["value"].tolist()) == [2, 10]
    table_world.clock.advance(timedelta(hours=1))
    with pytest.raises(LeaseExpired):
        table_world.cuts.read(lease.cut, "d")


def test_r22_duckdb_joins_a_cut(table_world: World) -> None:
    """All tables of a cut under their names, at one barrier."""
    two_tables(table_world)
    cut = table_world.cut("d", "f")
    with duckdb.connect() as connection:
        table_world.cuts.duckdb(cut, connection)
        found = connection.sql("SELECT f.value, sum(d.value) FROM d, f GROUP BY f.value").fetchall()
    assert found == [(200, 12)]
    table_world.clock.advance(timedelta(hours=1))
    with duckdb.connect() as connection:
        with pytest.raises(LeaseExpired):
            table_world.cuts.duckdb(cut, connection)
        assert connection.sql("SHOW TABLES").fetchall() == []


def test_r22_tables_that_an_engine_takes_for_one_are_refused(table_world: World) -> None:
    """It keeps the last one, and would read its rows for both."""
    job = table_world.job("j", [table_world.table("d"), table_world.table("D")])
    table_world.run(job, day(1), [1])
    cut = table_world.cut("d", "D")
    with duckdb.connect() as connection:
        with pytest.raises(InvalidInput, match="more than case"):
            table_world.cuts.duckdb(cut, connection)
        table_world.cuts.duckdb(cut, connection, ["D"])
        assert rows(connection.sql("SELECT * FROM d").to_arrow_table()) == [(1, 1)]
    for engine in ("duckdb", "spark"):
        with pytest.raises(InvalidInput, match="more than case"):
            script(table_world.cuts, cut, engine)


def test_the_text_for_duckdb_gives_the_rows_of_the_cut(iceberg: World) -> None:
    """Run by DuckDB itself: the newest cut, an older barrier, and one before a revision, under its lease."""
    two_tables(iceberg)
    before = iceberg.leases.cut(DOMAIN, ["d"], name="before", owner="me").cut
    iceberg.run(iceberg.job("d"), day(2), [20], owner("again"))
    for cut in (iceberg.cut("d", "f"), iceberg.cut("d", "f", at=barrier(1)), before):
        with duckdb.connect() as connection:
            connection.execute(script(iceberg.cuts, cut, "duckdb"))
            found = {name: rows(connection.sql(f'FROM "{name}"').to_arrow_table()) for name in cut.states}
        assert found == iceberg.rows_of(cut)


def test_the_text_for_duckdb_has_every_type(iceberg: World) -> None:
    """Columns by id and with their types; an empty table has its columns too."""
    types = {
        "flag": (pa.bool_(), True),
        "small": (pa.int32(), 7),
        "value": (pa.int64(), 2**53 + 1),
        "ratio": (pa.float64(), 0.5),
        "price": (pa.decimal128(38, 10), None),
        "on": (pa.date32(), None),
        "seen": (pa.timestamp("us", "UTC"), None),
        "wall": (pa.timestamp("us"), None),
        'o\'name "x"': (pa.string(), 'o\'Hara "x"'),
        "raw": (pa.binary(), b"\x00"),
        "fixed": (pa.binary(2), b"\x00a"),
        "st": (pa.struct([("a b", pa.int32())]), {"a b": 1}),
        "tags": (pa.list_(pa.string()), ["x", None]),
        "counts": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    }
    schema = pa.schema([(name, kind) for name, (kind, _) in types.items()])
    given = pa.table({name: pa.array([value], kind) for name, (kind, value) in types.items()}, schema=schema)
    job = iceberg.job("t")
    for number, written in ((1, given.slice(0, 0)), (2, given)):
        attempt = iceberg.begin(job, day(number))
        write_rows(iceberg.coordinator, attempt, "t", written)
        iceberg.coordinator.publish(attempt)
    for at, expected in ((barrier(1), []), (None, given.to_pylist())):
        text = queries(iceberg.cuts, iceberg.cut("t", at=at), Engine.DUCKDB)["t"]
        with duckdb.connect() as connection:
            found = connection.sql(text).to_arrow_table().drop_columns(["_epoch"])
        assert found.to_pylist() == expected
        assert found.schema.names == schema.names


def test_the_text_for_engines_with_the_catalog(iceberg: World) -> None:
    """They travel to the snapshot of the cut and choose its epochs; names are quoted."""
    two_tables(iceberg)
    cut = iceberg.cut("d", "f", at=barrier(2))
    versions = {name: state.ref.version for name, state in cut.states.items() if state.ref}
    spark = queries(iceberg.cuts, cut, "spark", catalog="my`catalog")
    assert spark["d"] == (
        "SELECT `value`, `by`, `_epoch`\n"
        f"FROM `my``catalog`.`cascade`.`d` VERSION AS OF {versions['d']}\n"
        "WHERE `_epoch` <= TIMESTAMP '2024-01-03 00:00:00.000000 UTC'"
        " AND `_epoch` > TIMESTAMP '2024-01-01 00:00:00.000000 UTC'"
    )
    trino = queries(iceberg.cuts, cut, "trino")
    assert f'"epochs"."cascade"."f" FOR VERSION AS OF {versions["f"]}\nWHERE "_epoch" = ' in trino["f"]
    assert script(iceberg.cuts, cut, "spark").startswith("CREATE OR REPLACE TEMPORARY VIEW `d` AS\nSELECT")


def test_engines_travel_to_states_that_the_catalog_shows_and_to_no_others(iceberg: World) -> None:
    """R22: a snapshot that lacks the rows of a state is no answer."""
    world = iceberg
    job = world.job("d", [world.table("d", kind="full"), world.table("e")])
    for number in (1, 2):
        world.run(job, day(number), [number])
    assert "VERSION AS OF" in queries(world.cuts, world.cut("d", "e"), "spark")["d"]
    assert "VERSION AS OF" in queries(world.cuts, world.cut("e", at=barrier(1)), "trino")["e"]
    older = world.cut("d", at=barrier(1))
    with pytest.raises(InvalidInput, match="shows the table's newest state"):
        queries(world.cuts, older, "spark")
    assert "read_parquet" in queries(world.cuts, older, "duckdb")["d"]


def test_r22_unreadable_states_have_no_query_text(world: World, iceberg: World) -> None:
    """An unknown engine, no view in Trino, memory tables, unpublished output, a cut that is over."""
    two_tables(world)
    two_tables(iceberg)
    cut = iceberg.cut("d")
    for ask, field in (
        (lambda: queries(iceberg.cuts, cut, "oracle"), "engine"),
        (lambda: script(iceberg.cuts, cut, "trino"), "engine"),
        (lambda: queries(world.cuts, world.cut("d"), "duckdb"), "format"),
        (lambda: queries(iceberg.cuts, iceberg.cut("d", level=Level.READ_UNCOMMITTED), "spark"), "cut"),
    ):
        with pytest.raises(InvalidInput) as refused:
            ask()
        assert refused.value.field == field
    iceberg.clock.advance(timedelta(hours=1))
    with pytest.raises(LeaseExpired):
        queries(iceberg.cuts, cut, "spark")


def changed(world: World, before: Any, after: Any) -> dict[str, tuple[list[Any], list[Any]]]:
    """What was added and removed, per table."""
    found = diff(world.cuts, before, after)
    return {name: (rows(difference.added), rows(difference.removed)) for name, difference in found.items()}


def test_diff_of_two_cuts(table_world: World) -> None:
    """Grown, revised, both, a full table, nothing: each with exactly the rows that differ.

    Of a full table at two barriers, the barrier of a row is no difference.
    """
    d, f = table_world.job("d"), table_world.job("f", [table_world.table("f", kind=TableKind.FULL)])
    for number in (1, 2):
        table_world.run(d, day(number), [number, 7])
        table_world.run(f, day(number), [number, 7])
    first, second = table_world.cut("d", "f", at=barrier(1)), table_world.cut("d", "f")
    both = [(2, 2), (2, 7)]
    assert changed(table_world, first, second) == {"d": (both, []), "f": ([(2, 2)], [(1, 1)])}
    assert changed(table_world, second, second) == {"d": ([], []), "f": ([], [])}
    table_world.run(d, day(1), [1, 7, 7], owner("again"))
    third = table_world.cut("d", "f")
    difference = diff(table_world.cuts, second, third, ["d"])["d"]
    assert (rows(difference.added), difference.removed.num_rows) == ([(1, 1), (1, 7), (1, 7)], 2), (
        "the rows of the revision carry their attempt"
    )
    table_world.run(d, day(3), [3])
    table_world.run(f, day(3), [3])
    back = changed(table_world, table_world.cut("d", "f"), third)
    assert back == {"d": ([], [(3, 3)]), "f": (both, [(3, 3)])}


def test_diff_of_text_that_is_no_utf8(table_world: World) -> None:
    """R22: texts are equal if their bytes are."""
    job, cuts = table_world.job("d"), []
    for number, texts in enumerate(([b"a\xff", b"b"], [b"b", b"c\xff"])):
        attempt = table_world.begin(job, day(1), owner(f"run {number}"))
        write_rows(table_world.coordinator, attempt, "d", pa.table({"text": undecodable(texts)}))
        table_world.coordinator.publish(attempt)
        cuts.append(table_world.cut("d"))
    difference = diff(table_world.cuts, *cuts)["d"]
    found = [
        side.column("text").cast(pa.binary()).to_pylist() for side in (difference.added, difference.removed)
    ]
    assert found == [[b"c\xff"], [b"a\xff"]]


def test_diff_names_files_that_came_to_an_empty_epoch(table_world: World) -> None:
    """R5: all files of before are there still; of those that came, not all are of later epochs."""
    job = table_world.job("d")
    table_world.run(job, day(1), [1])
    table_world.run(job, day(2), [])
    before = table_world.cut("d")
    table_world.run(job, day(2), [2], owner("again"))
    table_world.run(job, day(3), [3])
    assert changed(table_world, before, table_world.cut("d")) == {"d": ([(2, 2), (3, 3)], [])}


def test_diff_counts_equal_rows_and_knows_nan(world: World) -> None:
    """A row that is there twice and then once is removed once; NaN equals NaN, a list its equal."""
    job = world.job("t")
    schema = pa.schema([("x", pa.float64()), ("tags", pa.list_(pa.int64()))])
    same = {"x": math.nan, "tags": [1]}
    for generation, written in enumerate(
        ([same, same, {"x": None, "tags": []}], [same, {"x": 1.0, "tags": None}])
    ):
        attempt = world.begin(job, day(1), owner("run", generation=generation))
        write_rows(world.coordinator, attempt, "t", pa.Table.from_pylist(written, schema=schema))
        if generation == 0:
            world.coordinator.publish(attempt)
            before = world.leases.cut(DOMAIN, ["t"], name="before", owner="me").cut
        else:
            world.coordinator.publish(attempt)
    found = diff(world.cuts, before, world.cut("t"))["t"]
    assert found.added.select(["x", "tags"]).to_pylist() == [{"x": 1.0, "tags": None}]
    removed = found.removed.select(["x", "tags"]).to_pylist()
    assert sorted(map(repr, removed)) == sorted(map(repr, [same, {"x": None, "tags": []}]))


def test_diff_needs_tables_that_both_have(world: World) -> None:
    """Another table, or a cut that is over, is refused by name."""
    two_tables(world)
    with pytest.raises(InvalidInput, match="tables"):
        diff(world.cuts, world.cut("d"), world.cut("d", "f"), ["f"])
    with pytest.raises(InvalidInput, match="of one domain"):
        diff(world.cuts, world.cut("d"), replace(world.cut("d"), domain=DomainName("another")))
    old = world.cut("d")
    world.clock.advance(timedelta(hours=1))
    with pytest.raises(LeaseExpired):
        diff(world.cuts, old, world.cut("d"))


@pytest.mark.parametrize("ends", ["before", "after"])
def test_diff_of_a_cut_that_ends_while_it_is_read(world: World, ends: str) -> None:
    """R22: no difference is returned when one of both was over by the time of its last row."""
    two_tables(world)
    leases = {
        name: world.leases.cut(
            DOMAIN, ["d"], name=name, owner="me", at=at, ttl=timedelta(minutes=1 if name == ends else 9)
        )
        for name, at in (("before", barrier(2)), ("after", None))
    }
    tables = world.formats[world.table_format]
    read = tables.read
    try:
        tables.read = lambda *given: (read(*given), world.clock.advance(timedelta(minutes=1)))[0]  # type: ignore[method-assign]
        with pytest.raises(LeaseExpired, match=f"'{ends}' ended at"):
            diff(world.cuts, leases["before"].cut, leases["after"].cut)
    finally:
        tables.read = read  # type: ignore[method-assign]
