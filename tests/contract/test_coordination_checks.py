"""Checks between WRITTEN and publish (R14): what they refuse, what is kept, and who gets past them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_provider.coordination.attempts.check import refuse_check_failed
from airflow_provider.coordination.attempts.end import End
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.checks import (
    Check,
    Finding,
    accepted,
    in_range,
    is_true,
    no_rows,
    not_null,
    row_count,
    unique,
)
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt, EpochState
from airflow_provider.domain.errors import CheckFailed, Fenced, InvalidInput
from airflow_provider.domain.topology import Determinism, Job, previous
from airflow_provider.tables.expectations import violated
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.hostile import undecodable

FLIGHTS = pa.schema([("id", pa.int64()), ("carrier", pa.string()), ("miles", pa.float64())])

Row = tuple[int | None, str | None, float | None]
GOOD: list[Row] = [(1, "UA", 500.0), (2, "AA", 700.5), (3, None, None)]


def flights(rows: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(FLIGHTS.names, row, strict=True)) for row in rows], schema=FLIGHTS)


def job(world: World, *checks: Check, **options: Any) -> Job:
    return world.job("flights", checks=checks, **options)


def written(world: World, declared: Job, rows: Sequence[Row], number: int = 1, **by: Any) -> Attempt:
    attempt = world.begin(declared, day(number), owner(**by))
    write_rows(world.coordinator, attempt, "flights", flights(rows))
    return attempt


def refused(world: World, *checks: Check, rows: Sequence[Row]) -> CheckFailed:
    """What publishing *rows* under *checks* is told."""
    attempt = written(world, job(world, *checks), rows)
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(attempt)
    assert world.commits() == []
    return told.value


PASSING: dict[str, Check] = {
    "rows": row_count("flights", at_least=1, at_most=3),
    "not null": not_null("flights", "id"),
    "unique": unique("flights", "id"),
    "unique pair": unique("flights", "carrier", "miles"),
    "range": in_range("flights", "id", at_least=1, at_most=3),
    "range of floats": in_range("flights", "miles", at_least=500, at_most=700.5),
    "half a range": in_range("flights", "miles", at_most=1000),
    "range between whole numbers": in_range("flights", "id", at_least=0.5, at_most=3.5),
    "accepted": accepted("flights", "carrier", ["UA", "AA", "B6"]),
    "accepted numbers": accepted("flights", "id", [1, 2, 3, 4]),
    "sql": no_rows("SELECT * FROM {flights} WHERE miles < 0"),
    "sql with an end": no_rows("SELECT * FROM {flights} WHERE miles < 0;", name="short"),
    "sql with a remark": no_rows("SELECT * FROM {flights} WHERE miles < 0 -- there is no way back"),
    "sql that is true": is_true("SELECT count(*) = 3 FROM {flights}"),
    "sql with braces": no_rows("SELECT * FROM {flights} WHERE carrier = '{{'"),
}

FAILING: dict[str, tuple[Check, str, str]] = {
    "too few rows": (row_count("flights", at_least=4), "3 rows", ""),
    "too many rows": (row_count("flights", at_most=2), "3 rows", ""),
    "nulls": (not_null("flights", "id", "carrier"), "1 nulls in 3 rows", "{'id': 3, 'carrier': None}"),
    "not unique": (
        unique("flights", "kind"),
        "cannot be answered: column: 'kind' is not accepted; expected one of",
        "",
    ),
    "below": (in_range("flights", "miles", at_least=600), "1 values in 3 rows", "{'miles': 500.0}"),
    "above": (in_range("flights", "id", at_most=2), "1 values in 3 rows", "{'id': 3}"),
    "not accepted": (accepted("flights", "carrier", ["UA"]), "1 values in 3 rows", "{'carrier': 'AA'}"),
    "not a number": (in_range("flights", "id", at_most="many"), "cannot be answered", ""),
    "rows of a query": (
        no_rows("SELECT id FROM {flights} WHERE miles > 600", name="short"),
        "1 rows",
        "{'id': 2}",
    ),
    "more rows of a query than are shown": (
        no_rows("SELECT a.id FROM {flights} AS a, {flights} AS b, {flights} AS c ORDER BY id", name="many"),
        "27 rows",
        "{'id': 1}",
    ),
    "false": (is_true("SELECT count(*) = 4 FROM {flights}"), "False", ""),
    "a long answer": (is_true("SELECT repeat('x', 3000000) FROM {flights} LIMIT 1"), "xxx", ""),
    "null": (is_true("SELECT NULL FROM {flights} LIMIT 1"), "None", ""),
    "true more than once": (is_true("SELECT true FROM {flights}"), "3 rows of 1 columns", ""),
    "true and more": (is_true("SELECT true, id FROM {flights} LIMIT 1"), "1 rows of 2 columns", ""),
    "two of one name, the last true": (
        is_true("SELECT min(miles) > 600 AS ok, max(miles) < 1000 AS ok FROM {flights}"),
        "1 rows of 2 columns",
        "",
    ),
    "no single value": (is_true("SELECT id, miles FROM {flights}"), "3 rows of 2 columns", ""),
    "the reserved column": (no_rows("SELECT _epoch FROM {flights}"), "cannot be answered", ""),
    "no SQL": (no_rows("SELEC {flights}"), "cannot be answered", ""),
    "a file of the host": (
        no_rows("SELECT * FROM {flights}, read_csv('/etc/hosts')"),
        "cannot be answered",
        "",
    ),
}


def test_output_that_passes_its_checks_is_published(table_world: World) -> None:
    """R14: all kinds of checks on rows that keep them; the log says so."""
    published = table_world.coordinator.publish(
        written(table_world, job(table_world, *PASSING.values()), GOOD)
    )
    assert published.csn == 1
    log = explain(table_world.store, DOMAIN, "flights", day(1)).log
    notes = {entry.record.state: entry.record.note for entry in log}
    assert notes[EpochState.CHECKED] == f"{len(PASSING)} checks passed"


def test_nothing_to_look_at_keeps_all_but_counts(table_world: World) -> None:
    """R14, R5: an epoch without rows breaks no expectation of columns."""
    checks = [check for check in PASSING.values() if check.kind not in ("row_count", "is_true")]
    attempt = written(table_world, job(table_world, *checks), [])
    assert table_world.coordinator.publish(attempt).csn == 1


@pytest.mark.parametrize("case", list(FAILING))
def test_output_that_fails_a_check_is_refused(world: World, case: str) -> None:
    """R14: the error names the check, the figure and a row; nothing is published."""
    check, figure, sample = FAILING[case]
    error = refused(world, not_null("flights", "id"), check, rows=GOOD)
    (finding,) = error.findings
    assert (finding.check, finding.sample[:1]) == (check.name, (sample,) if sample else ())
    assert finding.figure.startswith(figure)
    assert check.name in str(error)
    assert "clear the task" in error.next_step


@pytest.mark.parametrize("case", ["nulls", "below", "above", "not accepted", "rows of a query"])
def test_files_with_statistics_refuse_the_same(table_world: World, case: str) -> None:
    """R14: what statistics cannot prove is read."""
    check, figure, sample = FAILING[case]
    (finding,) = refused(table_world, check, rows=GOOD).findings
    assert (finding.figure, finding.sample[0]) == (figure, sample)


def test_the_rows_of_all_participants_are_looked_at(table_world: World) -> None:
    """R14, R10: a null in the part of one, and a key that is in the parts of two."""
    world = table_world
    attempt = world.begin(
        job(world, not_null("flights", "carrier"), unique("flights", "id")), day(1), participants=2
    )
    for number, part in enumerate((GOOD[:2], [(2, None, 1.0)])):
        writer = world.coordinator.join(attempt, number, owner())
        write_rows(world.coordinator, writer, "flights", flights(part))
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(attempt)
    assert [finding.figure for finding in told.value.findings] == [
        "1 nulls in 3 rows",
        "1 keys of 3 rows occur more than once",
    ]


def test_equal_rows_and_nan_are_found(table_world: World) -> None:
    """R14: equal keys across files of one slice; a NaN is in no range, and no statistics know it."""
    checks = (unique("flights", "id", "carrier"), in_range("flights", "miles", at_least=0, at_most=10))
    error = refused(table_world, *checks, rows=[(1, None, 1.0), (1, None, float("nan")), (2, "UA", 2.0)])
    assert [finding.figure for finding in error.findings] == [
        "1 keys of 3 rows occur more than once",
        "1 values in 3 rows",
    ]


def test_zero_and_minus_zero_are_one_value(table_world: World) -> None:
    """R14: as in SQL; so are the filters of readers."""
    checks = (unique("flights", "miles"), accepted("flights", "miles", [0, 2]))
    error = refused(table_world, *checks, rows=[(1, None, 0.0), (2, None, -0.0), (3, None, 2.0)])
    assert [finding.figure for finding in error.findings] == ["1 keys of 3 rows occur more than once"]


@pytest.mark.parametrize(
    "check",
    [
        accepted("flights", "carrier", ["UA"]),
        unique("flights", "carrier"),
        in_range("flights", "carrier", at_most="Z"),
    ],
    ids=lambda check: check.kind,
)
def test_text_that_is_no_utf8_is_told_by_its_bytes(table_world: World, check: Check) -> None:
    """R14: Spark's strings may hold any bytes."""
    attempt = table_world.begin(job(table_world, check), day(1))
    batch = pa.table({"id": [1, 2], "carrier": undecodable([b"a\xff"] * 2), "miles": [1.0, 2.0]})
    write_rows(table_world.coordinator, attempt, "flights", batch)
    with pytest.raises(CheckFailed, match=r"b'a.+xff'"):
        table_world.coordinator.publish(attempt)


def test_a_query_over_an_input_that_has_no_columns_yet_has_not_passed(world: World) -> None:
    """R14: an input without a commit is nothing to ask; its count is 0."""
    source = world.job("source")
    world.coordinator.register(source)
    checks = [row_count("flights", of="source", at_most=1), is_true("SELECT count(*) = 0 FROM {source}")]
    attempt = written(world, job(world, *checks, inputs=map(previous, source.outputs)), [])
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(attempt)
    (finding,) = told.value.findings
    assert "an input with a commit: its columns are not known yet" in finding.figure


def test_rows_of_a_table_that_was_made_anew_have_not_passed(table_world: World) -> None:
    """R14, R32: the names of their columns are gone."""
    world = table_world
    declared = job(world, not_null("flights", "id"))
    late = written(world, declared, GOOD)
    table_format, (table,) = world.formats[world.table_format], declared.outputs
    info = table_format.describe(table)
    assert info is not None
    table_format.replace(table, info, pa.schema([("id", pa.int64()), ("other", pa.int64())]))
    with pytest.raises(CheckFailed, match="the table that the rows were written to"):
        world.coordinator.publish(late)
    assert world.commits() == []


def test_a_query_without_an_engine_has_not_passed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R14: what is missing is named."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    error = refused(world, no_rows("SELECT * FROM {flights} WHERE miles < 0"), rows=GOOD)
    assert "a Spark session, or DuckDB" in error.findings[0].figure


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())])], ids=str)
def test_keys_have_plain_columns(kind: pa.DataType) -> None:
    """R14: what cannot be counted is no key that occurs once."""
    rows = pa.table({"key": pa.nulls(2, kind)})
    with pytest.raises(InvalidInput, match="key is .* expected plain columns"):
        violated(unique("flights", "key"), [rows], rows.schema)


def test_counts_are_compared_with_inputs_and_outputs(table_world: World) -> None:
    """R14: a share of what the epoch read, as it read it, and of what it wrote beside it."""
    source = table_world.job("source")
    for number in (1, 2):
        table_world.run(source, day(number), range(4))
    two = [table_world.table("kept"), table_world.table("dropped")]
    checks = [
        row_count("kept", of="source", at_least=0.5, at_most=1),
        row_count("dropped", of="kept", at_most=0.5),
        is_true("SELECT (SELECT count(*) FROM {kept}) <= (SELECT count(*) FROM {source})"),
    ]
    declared = table_world.job("split", two, inputs=source.outputs, checks=checks)
    attempt = table_world.begin(declared, day(2))
    write_rows(table_world.coordinator, attempt, "kept", flights(GOOD))
    write_rows(table_world.coordinator, attempt, "dropped", flights(GOOD[:2]))
    with pytest.raises(
        CheckFailed, match=r"dropped at most 0.5 times those of kept: 2 rows, kept has 3"
    ) as told:
        table_world.coordinator.publish(attempt)
    assert len(told.value.findings) == 1


def test_a_share_of_nothing_is_nothing(world: World) -> None:
    """R14, R5: where the input has no row, none is expected, and one would be too many."""
    source = world.job("source")
    for number in (1, 2):
        world.run(source, day(number), [])
    checks = [row_count("part", of="source", at_least=0.5, at_most=1)]
    declared = world.job("part", inputs=source.outputs, checks=checks)
    assert world.run(declared, day(1), []).csn == 3
    with pytest.raises(CheckFailed, match="1 rows, source has 0"):
        world.run(declared, day(2), [1])


def test_output_that_failed_a_check_is_kept_and_not_read(world: World) -> None:
    """R14, R4: it stays until the epoch is begun again; an abort that follows the error does not delete it."""
    declared = job(world, not_null("flights", "carrier"))
    attempt = written(world, declared, GOOD)
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(attempt)
    world.coordinator.abort(attempt, "CheckFailed: as every publisher does after an error")
    kept = world.staged()
    assert kept
    assert all(uri.startswith(told.value.places[0]) for uri in kept)
    found = explain(world.store, DOMAIN, "flights", day(1))
    assert (found.state, found.findings, found.places) == (
        EpochState.CHECK_FAILED,
        told.value.findings,
        told.value.places,
    )
    assert "1 nulls in 3 rows" in found.summary
    (row,) = grid(world.store, DOMAIN).rows
    assert [(cell.state, cell.silent) for cell in row.cells] == [(EpochState.CHECK_FAILED, False)]
    with pytest.raises(Exception, match="nothing is committed"):
        world.cut("flights")


def test_of_several_failed_checks_the_newest_is_told(world: World) -> None:
    """R14: its findings, and where its output is kept; that of earlier tries is gone."""
    declared = job(world, not_null("flights", "carrier"), row_count("flights", at_most=2))
    for number, rows in enumerate(([*GOOD], [*GOOD, *GOOD]), start=1):
        with pytest.raises(CheckFailed) as told:
            world.coordinator.publish(written(world, declared, rows, try_number=number))
    found = explain(world.store, DOMAIN, "flights", day(1))
    assert (found.findings, found.places) == (told.value.findings, told.value.places)
    assert "2 nulls in 6 rows" in found.summary
    (place,) = found.places
    assert all(uri.startswith(place) for uri in world.staged())


def test_a_failed_check_is_told_again(world: World) -> None:
    """R14, R15: the repetition of a publish that was refused is refused with the same words."""
    attempt = written(world, job(world, not_null("flights", "carrier")), GOOD)
    errors = []
    for _ in range(2):
        with pytest.raises(CheckFailed) as told:
            world.coordinator.publish(attempt)
        errors.append(str(told.value))
    assert errors[0] == errors[1]


def test_a_failed_check_is_told_to_the_try_that_it_ended(world: World) -> None:
    """R14: whose program said something else at its end; no other try and no other run hears of it."""
    declared = job(world, not_null("flights", "carrier"))
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(written(world, declared, GOOD))
    with pytest.raises(CheckFailed) as again:
        refuse_check_failed(world.store, declared, [day(2), day(1)], owner())
    assert again.value.details == told.value.details
    for other in (owner(try_number=2), owner(generation=1), owner("manual")):
        refuse_check_failed(world.store, declared, [day(2), day(1)], other)
    written(world, declared, GOOD[:2], 2)
    world.coordinator.publish(written(world, declared, GOOD[:2], 3))
    world.coordinator.abort(written(world, declared, GOOD[:2], 4), "it failed")
    refuse_check_failed(world.store, declared, [day(2), day(3), day(4)], owner())


def test_a_retry_never_adopts_refused_output(world: World) -> None:
    """R14, R16: also of a job that keeps its first output; its begin deletes what was kept."""
    declared = job(world, not_null("flights", "carrier"), determinism=Determinism.KEEP_FIRST)
    attempt = written(world, declared, GOOD)
    world.coordinator.complete(attempt)
    with pytest.raises(CheckFailed):
        world.coordinator.publish(attempt)
    again = world.begin(declared, day(1), owner(try_number=2))
    assert not again.adopted
    assert world.staged() == []
    write_rows(world.coordinator, again, "flights", flights(GOOD[:2]))
    assert world.coordinator.publish(again).revision == 1


def test_adopted_output_is_checked_before_publish(world: World) -> None:
    """R14, R16: complete output whose writer died before the checks does not slip past them."""
    declared = job(world, not_null("flights", "carrier"))
    attempt = written(world, declared, GOOD)
    world.coordinator.complete(attempt)
    again = world.begin(declared, day(1), owner(try_number=2))
    assert again.adopted
    with pytest.raises(CheckFailed) as told:
        world.coordinator.publish(again)
    assert world.staged()
    assert all(uri.startswith(told.value.places[0]) for uri in world.staged())
    third = world.begin(declared, day(1), owner(try_number=3))
    assert not third.adopted
    assert world.staged() == []


def test_checked_output_is_not_checked_again(world: World) -> None:
    """R14: by the retry that adopts it, and after the publish."""
    asked: list[str] = []

    def query(sql: str, _: Any) -> tuple[int, tuple[dict[str, object], ...]]:
        asked.append(sql)
        return 0, ()

    declared = job(world, no_rows("SELECT * FROM {flights} WHERE a_function_of_spark(id)"))
    attempt = written(world, declared, GOOD)
    world.coordinator.check(attempt, query)  # type: ignore[arg-type]
    world.coordinator.complete(attempt)
    again = world.begin(declared, day(1), owner(try_number=2))
    assert again.adopted
    first = world.coordinator.publish(again)
    assert world.coordinator.publish(again) == first
    assert len(asked) == 1


def test_another_check_is_another_declaration(world: World) -> None:
    """R14, R7: output under the old checks is not adopted; the new ones judge what is computed anew."""
    attempt = written(world, job(world, not_null("flights", "carrier")), GOOD)
    world.coordinator.complete(attempt)
    with pytest.raises(CheckFailed):
        world.coordinator.publish(attempt)
    milder = job(world, not_null("flights", "id"))
    again = world.begin(milder, day(1), owner(generation=1))
    assert not again.adopted
    write_rows(world.coordinator, again, "flights", flights(GOOD))
    assert world.coordinator.publish(again).csn == 1
    assert isinstance(world.coordinator.begin(milder, day(1), owner(generation=1)), AlreadyCommitted)


def test_output_passed_by_earlier_checks_is_not_adopted_under_new_checks(world: World) -> None:
    """R14, R16: the checks that judge an output are those of the declaration under which it is published."""
    attempt = written(world, job(world, not_null("flights", "id")), GOOD)
    world.coordinator.check(attempt)
    world.coordinator.complete(attempt)
    again = world.begin(job(world, not_null("flights", "carrier")), day(1), owner(try_number=2))
    assert not again.adopted


def test_sql_sees_the_rows_of_the_epoch_in_an_output_that_its_job_reads(world: World) -> None:
    """R14: a table that is both an output and an input stands for what is to be published."""
    check = no_rows("SELECT * FROM {d} WHERE value < 0")
    declared = world.job("d", inputs=[previous(world.table("d"))], checks=[check])
    world.run(declared, day(1), [1])
    with pytest.raises(CheckFailed, match="1 rows"):
        world.run(declared, day(2), [-1])


def test_sql_takes_days_and_hours_in_utc(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R14: whatever the time zone of the host is, so that a check finds the same wherever it runs."""
    connect = duckdb.connect

    def far_away() -> duckdb.DuckDBPyConnection:
        connection = connect()
        connection.execute("SET TimeZone = 'America/New_York'")
        return connection

    monkeypatch.setattr(duckdb, "connect", far_away)
    declared = job(world, no_rows("SELECT * FROM {flights} WHERE started >= '2024-01-02'"))
    attempt = world.begin(declared, day(1))
    times = pa.array([datetime(2024, 1, 2, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    write_rows(world.coordinator, attempt, "flights", pa.table({"started": times}))
    with pytest.raises(CheckFailed, match="1 rows"):
        world.coordinator.publish(attempt)


def test_sql_finds_rows_with_nan(world: World) -> None:
    """R14: it is the greatest number in DuckDB as in Spark, so that a check finds the same in both."""
    attempt = world.begin(job(world, no_rows("SELECT * FROM {flights} WHERE miles > 5000")), day(1))
    write_rows(world.coordinator, attempt, "flights", pa.table({"miles": [1.0, float("nan")]}))
    with pytest.raises(CheckFailed, match="1 rows"):
        world.coordinator.publish(attempt)


def test_failed_check_of_a_revision_keeps_the_committed_revision(world: World) -> None:
    """R14, R4: readers go on with revision 1."""
    declared = job(world, row_count("flights", at_most=2))
    world.coordinator.publish(written(world, declared, GOOD[:1]))
    with pytest.raises(CheckFailed):
        world.coordinator.publish(written(world, declared, GOOD, generation=1))
    assert world.cuts.read(world.cut("flights"), "flights").num_rows == 1
    (row,) = grid(world.store, DOMAIN).rows
    (cell,) = row.cells
    assert (cell.state, cell.committed is not None) == (EpochState.CHECK_FAILED, True)


def test_a_fenced_attempt_fails_no_check(world: World) -> None:
    """R14, R10: checks of a stale token change nothing."""
    declared = job(world, row_count("flights", at_most=2))
    attempt = written(world, declared, GOOD)
    newer = world.begin(declared, day(1), owner(try_number=2))
    with pytest.raises(Fenced):
        world.coordinator.publish(attempt)
    found = world.coordinator.epoch(DOMAIN, declared.name, day(1))
    assert found is not None
    assert found.record.attempt is not None
    assert (found.record.attempt.token, found.record.attempt.aborted) == (newer.token, None)


def test_an_aborted_attempt_fails_no_check(world: World) -> None:
    """R14, R10: its output was given up while its checks ran; the log does not say that it is kept."""
    attempt = written(world, job(world, row_count("flights", at_least=9)), GOOD)
    world.coordinator.abort(attempt, "given up")
    log = explain(world.store, DOMAIN, "flights", day(1)).log
    with pytest.raises(Fenced, match="this attempt is over"):
        End(
            world.coordinator.context,
            attempt,
            "too late",
            (Finding(check="rows", table="flights", figure="3"),),
        ).run()
    assert explain(world.store, DOMAIN, "flights", day(1)).log == log


def test_nothing_unchecked_is_published(world: World) -> None:
    """R14: publish itself requires the verdict in the log, whatever its caller left out."""
    from airflow_provider.coordination.attempts.publish import Publish

    attempt = written(world, job(world, not_null("flights", "id")), GOOD)
    with pytest.raises(InvalidInput, match="checks have not passed"):
        Publish(world.coordinator.context, (attempt,)).run()


@pytest.mark.parametrize("lost", range(3))
@pytest.mark.parametrize(("id_", "verdict"), [(1, EpochState.CHECKED), (None, EpochState.CHECK_FAILED)])
def test_a_lost_reply_to_a_verdict_is_resolved(
    world: World, lost: int, id_: int | None, verdict: EpochState
) -> None:
    """R14, R15: whichever write of the check and the publish gets no answer, both end as the check says."""
    declared = job(world, not_null("flights", "id"))
    attempt = written(world, declared, [(id_, "UA", 1.0)])
    changes: list[Call] = []

    def plan(call: Call) -> Fault | None:
        if call.method != "transact":
            return None
        changes.append(call)
        return Fault.REPLY_LOST if len(changes) == lost + 1 else None

    worker = world.worker(FaultyStore(world.store, plan))
    if verdict is EpochState.CHECKED:
        assert worker.publish(attempt).csn == 1
    else:
        with pytest.raises(CheckFailed):
            worker.publish(attempt)
    states = [barrier.record.state for barrier in world.coordinator.barriers(DOMAIN, declared.name, day(1))]
    assert states.count(verdict) == 1
    assert len(world.commits()) == (verdict is EpochState.CHECKED)
