"""Declarations and registrations: what a domain refuses, and what it says then (R6, R7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider.domain.checks import (
    Check,
    accepted,
    in_range,
    is_true,
    no_rows,
    not_null,
    row_count,
    unique,
)
from airflow_provider.domain.completeness import ids_reached, marker, min_files, none_needed, quiet_for
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.errors import InvalidInput, TopologyError
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.registration import (
    JobRecord,
    check_registration,
    serves_once,
)
from airflow_provider.domain.source_bounds import FileSource, IcebergSource, Late, PostgresSource
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.together import refuse_batch, refuse_together
from airflow_provider.domain.topology import (
    Group,
    Job,
    Table,
    connections_of,
    increment,
    previous,
    state,
    window,
)
from tests.declarations import declared

A, B, C = (Table(name) for name in "abc")
FULL = Table("full", kind=TableKind.FULL)


def job(
    name: str,
    inputs: list[Any],
    outputs: list[Table],
    cadence: Cadence | str = "@daily",
    **options: Any,
) -> Job:
    return Job(name, inputs=inputs, outputs=outputs, cadence=cadence, **options)


def checked(*checks: Check) -> Job:
    return Job("j", outputs=[A], inputs=[B], cadence="@daily", checks=checks)


def records(*jobs: Job) -> dict[Any, JobRecord]:
    return {job.name: declared(job, None) for job in jobs}


def register(new: Job, *others: Job) -> None:
    check_registration(declared(new, None), records(*others), None)


BAD_DECLARATIONS: dict[str, tuple[Callable[[], object], str]] = {
    "no outputs": (lambda: job("j", [], []), "outputs"),
    "outputs of other types": (lambda: job("j", [], ["a"]), "outputs"),  # type: ignore[list-item]
    "an output twice": (lambda: job("j", [], [A, A]), "outputs"),
    "outputs of two domains": (lambda: job("j", [], [A, Table("b", domain="other")]), "outputs"),
    "an input of another domain": (lambda: job("j", [Table("b", domain="other")], [A]), "inputs"),
    "an edge to another domain": (lambda: job("j", [state(Table("b", domain="other"))], [A]), "inputs"),
    "an input twice": (lambda: job("j", [B, state(B)], [A]), "inputs"),
    "an input that is text": (lambda: job("j", ["b"], [A]), "inputs"),
    "the increment of a full table": (lambda: increment(FULL), "inputs"),
    "the window of a full table": (lambda: window(FULL, timedelta(days=1)), "inputs"),
    "a window without length": (lambda: window(A, timedelta(0)), "length"),
    "a negative as_of": (lambda: state(A, as_of=-timedelta(days=1)), "as_of"),
    "a window beyond all times": (lambda: window(A, timedelta.max), "length"),
    "an as_of beyond all times": (lambda: state(A, as_of=timedelta.max), "as_of"),
    "an unknown policy": (lambda: state(A, on_upstream_revision="maybe"), "on_upstream_revision"),
    "an origin without zone": (
        lambda: Job("j", outputs=[A], cadence="@daily", origin=datetime(2013, 2, 1)),  # noqa: DTZ001
        "origin",
    ),
    "an origin off the cadence": (
        lambda: Job("j", outputs=[A], cadence="@daily", origin=datetime(2013, 2, 1, 5, tzinfo=UTC)),
        "origin",
    ),
    "an unknown on_rerun": (
        lambda: Job("j", outputs=[A], cadence="@daily", on_rerun="twice"),
        "on_rerun",
    ),
    "an unknown kind": (lambda: Table("a", kind="partial"), "kind"),  # type: ignore[arg-type]
    "columns as one text": (lambda: Table("a", partition_by="x"), "partition_by"),  # type: ignore[arg-type]
    "a check of another table": (lambda: checked(row_count("b", at_least=1)), "checks"),
    "a check against another table": (lambda: checked(row_count(A, at_least=1, of="c")), "checks"),
    "SQL over another table": (lambda: checked(no_rows("SELECT * FROM {c}")), "checks"),
    "a check that is none": (lambda: checked("SELECT 1"), "checks"),  # type: ignore[arg-type]
    "a check twice": (lambda: checked(not_null(A, "x"), not_null(A, "x")), "checks"),
    "a count without bounds": (lambda: row_count(A), "at_least"),
    "a negative count": (lambda: row_count(A, at_least=-1), "at_least"),
    "bounds that cross": (lambda: in_range(A, "x", at_least=2, at_most=1), "at_most"),
    "small bounds that cross": (lambda: row_count(A, at_least=1, at_most=1e-5), "at_most"),
    "no number": (lambda: row_count(A, at_least=Decimal("NaN")), "at_least"),  # type: ignore[arg-type]
    "no finite number": (lambda: in_range(A, "x", at_most=Decimal("Infinity")), "at_most"),
    "a bound that is no number": (lambda: in_range(A, "x", at_least=float("nan")), "at_least"),
    "a value of another type": (lambda: accepted(A, "x", [b"x"]), "values"),  # type: ignore[list-item]
    "no accepted value": (lambda: accepted(A, "x", []), "values"),
    "accepted values as one text": (lambda: accepted(A, "x", "abc"), "values"),
    "no column": (lambda: unique(A), "columns"),
    "SQL without a table": (lambda: no_rows("SELECT 1"), "sql"),
    "SQL with a width beside a table": (lambda: no_rows("SELECT * FROM {a} JOIN {a:>9}"), "sql"),
    "SQL with a format beside a table": (lambda: no_rows("SELECT * FROM {a} JOIN {a!r}"), "sql"),
    "SQL with braces": (lambda: is_true("SELECT '{' FROM {a}"), "sql"),
    "SQL with a width": (lambda: is_true("SELECT true FROM {a:>9}"), "sql"),
    "SQL with a format": (lambda: is_true("SELECT count(*) > 1 FROM {a!r}"), "sql"),
    "a job that is inactive at once": (
        lambda: Job("j", outputs=[A], cadence="@daily", inactive_after=0),
        "inactive_after",
    ),
    "a source without a name": (lambda: FileSource("", "/in"), "table"),
    "a policy that there is not": (lambda: FileSource("r", "/{start}", late="never"), "late"),  # type: ignore[arg-type]
    "late files of no interval": (
        lambda: FileSource("r", "/in/*.csv", late=Late.NEXT, complete=none_needed()),
        "late",
    ),
    "late files of intervals that come again": (lambda: FileSource("r", "/in/{start:%d}.csv"), "late"),
    "late files that are not declared": (lambda: FileSource("r", "/in.csv"), "late"),
    "files without a condition": (lambda: FileSource("r", "/in/{start}/*.csv"), "complete"),
    "a folder without a condition": (lambda: FileSource("r", "/in/{start}/"), "complete"),
    "no condition and one": (
        lambda: FileSource("r", "/{start}", complete=[none_needed(), marker()]),
        "complete",
    ),
    "a condition that is none": (lambda: FileSource("r", "/{start}", complete="_SUCCESS"), "complete"),  # type: ignore[arg-type]
    "a column of files": (lambda: FileSource("r", "/{start}", complete=ids_reached("c")), "complete"),
    "no file at least": (lambda: FileSource("r", "/{start}", complete=min_files(0)), "min_files"),
    "quiet for no time": (lambda: FileSource("r", "/{start}", complete=quiet_for(timedelta(0))), "quiet_for"),
    "a window of no time": (lambda: FileSource("r", "/{start}", late_window=timedelta(0)), "late_window"),
    "a table without its catalog": (lambda: IcebergSource("r", "market.prices"), "table"),
    "a table with an empty part": (lambda: IcebergSource("r", "lake..prices"), "table"),
    "what there is not to be read": (lambda: IcebergSource("r", "l.m.p", reads="window"), "reads"),
    "snapshots that are refused": (lambda: IcebergSource("r", "l.m.p", late="refuse"), "late"),
    "ids that are ignored": (
        lambda: PostgresSource("r", "t", connection="s", id_column="id", late="ignore"),
        "late",
    ),
    "rows of nowhere": (lambda: PostgresSource("r", "t", connection="", id_column="id"), "connection"),
    "rows of a URL": (
        lambda: PostgresSource("r", "t", connection="postgresql://ada:pw@db/x", id_column="id"),
        "connection",
    ),
    "rows of a table in a catalog": (
        lambda: PostgresSource("r", "a.b.c", connection="s", id_column="id"),
        "table",
    ),
    "rows without ids": (lambda: PostgresSource("r", "t", connection="s", id_column=""), "column"),
    "no partition": (
        lambda: PostgresSource("r", "t", connection="s", id_column="id", partitions=0),
        "partitions",
    ),
}


def test_bounds_of_texts_are_compared_as_texts() -> None:
    """R14: only the column says what they mean."""
    assert in_range(A, "x", at_least="10", at_most="9").at_most == "9"


@pytest.mark.parametrize("case", sorted(BAD_DECLARATIONS))
def test_a_bad_declaration_names_its_field(case: str) -> None:
    make, field = BAD_DECLARATIONS[case]
    with pytest.raises(InvalidInput) as refused:
        make()
    assert refused.value.details["field"] == field
    assert "expected" in str(refused.value)


def test_the_default_edge_follows_the_kind_of_the_table() -> None:
    made = job("j", [A, FULL], [B])
    assert [edge.kind.value for edge in made.edges] == ["increment", "state"]


def test_a_second_owner_is_refused_with_both_names() -> None:
    with pytest.raises(TopologyError, match=r"'b'.*'first'.*'second'"):
        register(job("second", [], [B]), job("first", [], [B]))


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_a_cycle_is_refused_and_shown(length: int) -> None:
    tables = [Table(f"t{number}") for number in range(length)]
    jobs = [job(f"j{number}", [tables[number - 1]], [tables[number]]) for number in range(length)]
    with pytest.raises(TopologyError) as refused:
        register(jobs[-1], *jobs[:-1])
    cycle = refused.value.details["cycle"]
    assert len(cycle) == length + 1
    assert cycle[0] == cycle[-1]
    assert set(cycle) == {reader.name for reader in jobs}


def since(name: str, inputs: list[Any], outputs: list[Table]) -> Job:
    origin = datetime(2013, 2, 1, tzinfo=UTC)
    return Job(name, inputs=inputs, outputs=outputs, cadence="@daily", origin=origin)


def test_a_previous_edge_may_close_a_cycle() -> None:
    register(since("j1", [previous(B)], [A]), since("j2", [A], [B]))
    register(since("j", [previous(A)], [A]))


def test_the_past_of_a_table_needs_declared_origins() -> None:
    with pytest.raises(TopologyError, match="origin"):
        register(job("r", [previous(A)], [B]), since("o", [], [A]))
    with pytest.raises(TopologyError, match="origin"):
        register(since("r", [previous(A)], [B]), job("o", [], [A]))


@pytest.mark.parametrize(("location", "cadence"), [("/b", "@daily"), ("/a", "@hourly")])
def test_a_shared_source_is_one_location_at_one_cadence(location: str, cadence: str) -> None:
    mine = job("a", [FileSource("r", "/a", late="ignore")], [A], "@daily")
    with pytest.raises(TopologyError, match="source"):
        register(mine, job("b", [FileSource("r", location, late="ignore")], [B], cadence))
    register(mine, job("b", [FileSource("r", "/a", late="ignore")], [B], "@daily"))


def test_only_a_retired_job_shares_a_source_with_a_later_calendar() -> None:
    """R6, R7, I11: of two jobs at work each barrier has one interval."""
    then = datetime(2024, 3, 1, tzinfo=UTC)
    changed = Cadence("@hourly", since=then, before=Cadence("@daily"))
    mine = declared(job("a", [FileSource("r", "/a", late="ignore")], [A], changed), None)
    theirs = declared(job("b", [FileSource("r", "/a", late="ignore")], [B]), None)
    with pytest.raises(TopologyError, match="source"):
        check_registration(mine, {theirs.name: theirs}, None)
    check_registration(mine, {theirs.name: replace(theirs, retired="over")}, None)


def test_a_job_that_reads_files_is_the_one_that_it_was() -> None:
    """A later option of sources is part of a declaration only where it is used: no user has to register anew."""
    of_files = declared(job("j", [FileSource("r", "/a", late="ignore")], [A], on_rerun="new_revision"), None)
    assert of_files.fingerprint == "ce0fc10a118f94511d7a51da2343061b"
    later = [
        FileSource("r", "/{start}", late=Late.NEXT),
        IcebergSource("r", "l.m.p"),
        IcebergSource("r", "l.m.q"),
    ]
    assert len({declared(job("j", [source], [A]), None).fingerprint for source in later}) == 3
    assert JobDeclaration.of(of_files).job().sources == (FileSource("r", "/a", late="ignore"),)


def test_earlier_inputs_of_a_job_are_kept() -> None:
    first = declared(job("j", [A, B], [C]), None)
    second = declared(job("j", [state(A)], [C]), first)
    third = declared(job("j", [state(A)], [Table("d")]), second)
    edges = {(edge.table, edge.kind.value) for edge in third.all_edges}
    assert edges == {("a", "state"), ("a", "increment"), ("b", "increment")}
    assert set(third.all_outputs) == {"c", "d"}


def test_earlier_outputs_and_sources_of_a_job_are_kept() -> None:
    """R7, I11: of all earlier revisions; what is declared again is no past."""
    feeds = {name: FileSource(name, f"/{name}", late="ignore") for name in "xyz"}
    record = None
    for table, feed in ((A, "x"), (B, "y"), (C, "z")):
        record = declared(job("j", [feeds[feed]], [table]), record)
    assert record is not None
    assert set(record.past_outputs) == {"a", "b"}
    assert set(record.past_sources) == {"x", "y"}
    again = declared(job("j", [feeds["x"], feeds["z"]], [A]), record)
    assert (again.all_outputs[0], set(again.past_outputs)) == ("a", {"b", "c"})
    assert (set(again.past_sources), set(again.all_sources)) == ({"y"}, {"x", "y", "z"})
    assert (set(record.left_sources), again.left_sources) == ({feeds["x"], feeds["y"]}, (feeds["y"],))


def test_checks_are_part_of_the_declaration() -> None:
    """R14, R7: another check makes the next revision; a job without any keeps the identity that it always had."""
    plain = declared(Job("j", outputs=[A], inputs=[B], cadence="@daily"), None)
    assert declared(checked(), plain) is plain
    one = declared(checked(row_count(A, at_least=1), not_null(A, "x")), plain)
    assert (one.revision, [check.kind for check in one.checks]) == (2, ["row_count", "not_null"])
    assert declared(checked(not_null(A, "x"), row_count(A, at_least=1)), one) is one
    assert declared(checked(row_count(A, at_least=2), not_null(A, "x")), one).revision == 3
    assert serves_once(declared(checked(), one))


def test_a_deep_chain_and_a_diamond_are_no_cycle() -> None:
    chain = [job(f"j{n}", [Table(f"t{n}")], [Table(f"t{n + 1}")]) for n in range(2000)]
    register(chain[-1], *chain[:-1])
    register(job("d", [B, C], [Table("d")]), job("b", [A], [B]), job("c", [A], [C]))


@pytest.mark.parametrize(
    ("reader", "owner"),
    [
        ("5 * * * *", "0 * * * *"),
        ("0 0 * * *", Cadence("0 0 * * *", "Europe/Berlin")),
        (Cadence("0 0 * * *", "America/New_York"), Cadence("0 0 * * *", "Europe/Berlin")),
        ("@hourly", "@daily"),
        ("@weekly", "@monthly"),
        ("@daily", Cadence("@daily", "Europe/London")),
    ],
)
def test_calendars_that_do_not_meet_are_refused_and_shown(reader: Any, owner: Any) -> None:
    with pytest.raises(TopologyError) as refused:
        register(job("reader", [A], [B], reader), job("owner", [], [A], owner))
    assert {"job", "owner", "barrier", "expected", "found"} <= set(refused.value.details)
    with pytest.raises(TopologyError):
        register(job("owner", [], [A], owner), job("reader", [A], [B], reader))


@pytest.mark.parametrize(
    ("reader", "owner"), [("@daily", "@hourly"), ("@weekly", "@daily"), ("@monthly", "@daily")]
)
def test_a_coarser_reader_meets_its_input(reader: str, owner: str) -> None:
    register(job("reader", [A], [B], reader), job("owner", [], [A], owner))


@pytest.mark.parametrize("who_changes", ["reader", "owner"])
def test_calendars_that_part_when_one_of_them_changes_are_refused(who_changes: str) -> None:
    """R6: however late, the barriers after a change are looked at."""
    then = datetime(2031, 3, 1, tzinfo=UTC)
    hourly, daily = Cadence("@hourly"), Cadence("@daily")
    reader, owner = (
        (Cadence("@hourly", since=then, before=daily), daily)
        if who_changes == "reader"
        else (hourly, Cadence("@daily", since=then, before=hourly))
    )
    with pytest.raises(TopologyError) as refused:
        register(job("reader", [A], [B], reader), job("owner", [], [A], owner))
    assert refused.value.details["barrier"] == datetime(2031, 3, 1, 1, tzinfo=UTC)


def test_as_of_reads_a_slower_table_at_its_last_barrier() -> None:
    register(job("reader", [state(A, as_of=timedelta(0))], [B], "@hourly"), job("owner", [], [A], "@daily"))


def test_a_changed_cadence_or_kind_is_refused() -> None:
    before = declared(job("j", [], [A]), None)
    with pytest.raises(TopologyError, match="cadence"):
        check_registration(declared(job("j", [], [A], "@hourly"), before), {}, before)
    changed = job("j", [], [Table("a", kind=TableKind.FULL)])
    with pytest.raises(TopologyError, match="full"):
        check_registration(declared(changed, before), {}, before)


def test_a_changed_format_is_refused() -> None:
    """R7: the files of before are of the other one."""
    before = declared(job("j", [], [A]), None)
    changed = declared(job("j", [], [Table("a", format="memory")]), before)
    with pytest.raises(TopologyError, match="incremental/iceberg; it cannot become incremental/memory"):
        check_registration(changed, {}, before)


def test_revisions_of_a_declaration() -> None:
    first = declared(job("j", [], [A]), None)
    assert declared(job("j", [], [A]), first) == first
    second = declared(job("j", [B], [A]), first)
    assert (first.revision, second.revision) == (1, 2)
    old = declared(job("j", [], [A]), second)
    assert serves_once(old)
    assert not serves_once(second)
    assert old.revision == 1
    third = declared(job("j", [C], [A]), second)
    assert [declared(job("j", inputs, [A]), third).revision for inputs in ([], [B], [C])] == [1, 2, 3]


def test_declared_outputs_and_connections_are_found_by_job_name() -> None:
    """Its outputs, and the connections that lead to its sources: each once, none for files."""
    sources = [
        FileSource("files", "/data/{start}"),
        *(
            PostgresSource(name, name, connection=connection, id_column="id")
            for name, connection in (("p", "x"), ("q", "y"))
        ),
        IcebergSource("i", "lake.db.t", connection="x"),
    ]
    made = Job("j", inputs=[*sources, increment(B)], outputs=[A, C], cadence="@daily")
    assert (made.output(A.name), made.output(C.name)) == (A, C)
    with pytest.raises(InvalidInput) as refused:
        made.output(B.name)
    assert (refused.value.field, refused.value.value) == ("output", B.name)
    assert connections_of(made) == ("x", "y")
    assert [source.is_repeatable for source in made.sources] == [True, False, False, True]


def test_the_epochs_of_a_group_are_its_own_commits() -> None:
    """R27, R40: a task with several would wait for a commit that waits for tasks after this one."""
    job = Job("j", outputs=[Table("t")], cadence="@daily", group=Group("g", jobs=["j", "k"]))
    with pytest.raises(InvalidInput, match="belongs to group 'g', which publishes each of its epochs"):
        refuse_together(job, [Interval(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC))])
    refuse_batch(job, None)
    with pytest.raises(InvalidInput, match="tasks of group 'g' compute one epoch each"):
        refuse_batch(job, Cadence("@weekly"))
