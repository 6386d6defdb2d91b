"""Who may begin, what a cut resolves to, and what a rewrite invalidates."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from airflow_provider.domain.admission import Beginning, check_interval, decide
from airflow_provider.domain.beginning import resolve_inputs
from airflow_provider.domain.cut import as_of, edge_range, lagging, nearest_kept, reached, resolve
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AttemptRecord, Commitment, EpochRecord, LockRecord, Provenance
from airflow_provider.domain.errors import EpochBusy, Fenced, FinalError, InvalidInput
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.outdated import known_rewrites
from airflow_provider.domain.owner import Owner, as_owner
from airflow_provider.domain.publishing import moved_table, succeeding
from airflow_provider.domain.records import Stamped, lock_key, rewrite_log_key, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.retention import RetentionRecord, Version, VersionsRecord, still_needed
from airflow_provider.domain.rewrites import (
    realigned_since,
    rewritten_since,
    with_binds,
    with_calendar,
    with_rewrite,
)
from airflow_provider.domain.staleness import too_old
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.together import MOST_TOGETHER, refuse_together
from airflow_provider.domain.topology import (
    Edge,
    EdgeKind,
    Job,
    OnRerun,
    Table,
    increment,
    previous,
    state,
    window,
)
from airflow_provider.domain.version import RewriteLog, TableRecord, TableRef
from airflow_provider.domain.watermark import Progress
from tests.declarations import declared

START = datetime(2013, 2, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DOMAIN = DomainName("default")
TABLE = Table("a")
JOB = Job("j", outputs=[TABLE], cadence="@daily", origin=START)


def at(number: float) -> datetime:
    return START + number * DAY


def epoch(number: int) -> Interval:
    return Interval(at(number), at(number + 1))


# --- who may begin -----------------------------------------------------------------------------------------

MINE = Owner(dag_id="d", run_id="r1", request_id="5")
OTHER = Owner(dag_id="d", run_id="r2", request_id="5")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def attempt(owner: Owner, token: int = 3, aborted: str | None = None) -> AttemptRecord:
    return AttemptRecord(
        revision=1,
        token=token,
        owner=owner,
        inputs=(),
        input_generation=1,
        sources=(),
        baseline=(),
        job_revision=1,
        aborted=aborted,
    )


def lock(owner: Owner, age: timedelta, token: int = 3) -> Stamped[LockRecord]:
    record = LockRecord(token=token, owner=owner, ttl=timedelta(minutes=2))
    return Stamped(lock_key(DOMAIN, JOB.name, START), record, 1, None, NOW - age)


def committed(owner: Owner) -> EpochRecord:
    done = Commitment(
        revision=1, token=3, output_token=3, owner=owner, change_set=ChangeSetId("c"), inputs=()
    )
    return EpochRecord(interval=epoch(0), token=3, committed=done)


def opened(owner: Owner, aborted: str | None = None) -> EpochRecord:
    return EpochRecord(interval=epoch(0), token=3, attempt=attempt(owner, aborted=aborted))


def asked(
    owner: Owner, record: EpochRecord | None, held: Any = None, on_rerun: str = "new_revision"
) -> Beginning:
    job = declared(Job("j", outputs=[TABLE], cadence="@daily", on_rerun=on_rerun), None)
    return decide(job, record, held, owner, NOW)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dag_id", " "),
        ("run_id", ""),
        ("run_id", 7),
        ("run_id", "ü" * 501),
        ("generation", -1),
        ("try_number", True),
        ("try_number", "1"),
    ],
)
def test_an_owner_that_cannot_be_told_apart_is_refused(field: str, value: Any) -> None:
    """R10: who is the same, and which try is older, is decided by these."""
    assert as_owner(MINE) is MINE
    with pytest.raises(InvalidInput) as refused:
        as_owner(replace(MINE, **{field: value}))
    assert (refused.value.field, refused.value.value) == (field, value)


def test_epoch_without_an_attempt_is_open() -> None:
    assert asked(MINE, None) is Beginning.OPEN


def test_the_same_request_gets_the_same_attempt() -> None:
    assert asked(MINE, opened(MINE)) is Beginning.SAME
    assert asked(replace(MINE, request_id="6"), opened(MINE)) is Beginning.OPEN


@pytest.mark.parametrize("age", [0, 119])
def test_another_runs_live_attempt_is_not_overtaken(age: int) -> None:
    with pytest.raises(EpochBusy) as busy:
        asked(OTHER, opened(MINE), lock(MINE, timedelta(seconds=age)))
    assert busy.value.details["holder"] == MINE
    assert busy.value.details["until"] == NOW - timedelta(seconds=age) + timedelta(minutes=2)


def test_another_runs_silent_or_ended_attempt_is_overtaken() -> None:
    assert asked(OTHER, opened(MINE), lock(MINE, timedelta(seconds=120))) is Beginning.OPEN
    assert asked(OTHER, opened(MINE), None) is Beginning.OPEN
    assert asked(OTHER, opened(MINE), lock(MINE, timedelta(0), token=2)) is Beginning.OPEN
    assert asked(OTHER, opened(MINE, aborted="why"), lock(MINE, timedelta(0))) is Beginning.OPEN


def test_the_same_run_supersedes_its_own_live_attempt() -> None:
    newer = replace(MINE, try_number=2)
    assert asked(newer, opened(MINE), lock(MINE, timedelta(0))) is Beginning.OPEN


@pytest.mark.parametrize("change", [{"try_number": 2}, {"generation": 1}])
def test_an_older_attempt_of_the_same_run_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Fenced):
        asked(MINE, opened(replace(MINE, **change)))
    with pytest.raises(Fenced):
        asked(MINE, opened(replace(MINE, **change), aborted="why"))


def test_an_older_try_than_the_commit_is_refused_also_after_another_runs_attempt() -> None:
    """R10: the newest attempt is not the only one that may be newer than its own run's tries."""
    done = committed(replace(MINE, generation=1))
    with pytest.raises(Fenced):
        asked(MINE, replace(done, token=4, attempt=attempt(OTHER, token=4, aborted="why")))


def test_a_committed_epoch() -> None:
    retry, cleared = replace(MINE, try_number=2), replace(MINE, generation=1)
    assert asked(retry, committed(MINE)) is Beginning.COMMITTED
    assert asked(cleared, committed(MINE)) is Beginning.OPEN
    assert asked(OTHER, committed(MINE)) is Beginning.OPEN
    assert asked(OTHER, committed(MINE), on_rerun="keep") is Beginning.COMMITTED
    with pytest.raises(FinalError, match="on_rerun"):
        asked(OTHER, committed(MINE), on_rerun="fail")
    with pytest.raises(Fenced):
        asked(MINE, committed(cleared))


@pytest.mark.parametrize(
    ("interval", "now", "field_part"),
    [
        (Interval(at(0), at(2)), at(9), "one epoch"),
        (Interval(at(0.5), at(1)), at(9), "one epoch"),
        (Interval(at(0.5), at(1.5)), at(9), "barrier"),
        (epoch(-1), at(9), "origin"),
        (epoch(3), at(3.9), "tolerance"),
    ],
)
def test_an_interval_that_is_no_epoch_is_refused(interval: Interval, now: datetime, field_part: str) -> None:
    with pytest.raises(InvalidInput, match=field_part):
        check_interval(declared(JOB, None), interval, now=now, tolerance=timedelta(minutes=5))


def test_an_epoch_may_end_within_the_tolerance() -> None:
    check_interval(
        declared(JOB, None), epoch(0), now=at(1) - timedelta(minutes=5), tolerance=timedelta(minutes=5)
    )


# --- cuts --------------------------------------------------------------------------------------------------


def ref(version: int) -> TableRef:
    return TableRef(format="memory", table_uuid="u", version=version, location=f"v{version}", schema_id=0)


def table(
    *epochs: int, cadence: str = "@daily", csn: int | None = None, kind: TableKind = TableKind.INCREMENTAL
) -> Stamped[TableRecord]:
    progress = Progress(origin=START)
    calendar = Cadence(cadence)
    for number in epochs:
        end = START
        for _ in range(number + 1):
            end = calendar.next_after(end)
        progress = progress.adding(calendar.ending_at(end))
    record = TableRecord(job=JobName("j"), kind=kind, cadence=calendar, progress=progress, ref=ref(csn or 0))
    return Stamped(table_key(DOMAIN, TableName("a")), record, 1, csn, NOW)


def found(**tables: Stamped[TableRecord]) -> dict[TableName, Any]:
    answer = {}
    for name, stamped in tables.items():
        moved = as_of(stamped, 100)
        assert moved is not None
        answer[TableName(name)] = (stamped.record, moved)
    return answer


def test_the_nearest_kept_barriers_of_calendars_that_meet_seldom() -> None:
    """R24: every second hour and every third one meet every sixth."""
    second = table(*range(24), cadence="0 */2 * * *", csn=5)
    third = table(*range(16), cadence="0 */3 * * *", csn=6)
    tables, noon = found(a=second, b=third), at(0.5)
    gone = RetentionRecord().expiring(TableName("a"), Cadence("0 */2 * * *").ending_at(noon))
    assert nearest_kept(tables, gone, noon) == (at(0.25), at(0.75))
    assert nearest_kept(tables, RetentionRecord(), noon) == (noon,)
    all_later = RetentionRecord().expiring(TableName("b"), Interval(at(0.4), at(2)))
    assert nearest_kept(tables, all_later, noon) == (at(0.25),), "nothing later is kept"


def test_versions_go_that_were_not_the_newest_at_the_horizon_any_more() -> None:
    """R24: cuts that were resolved at it or later read the newest one up to it, or one after it."""
    (versions,) = VersionsRecord().with_commits([Version(csn=csn, ref=ref(csn)) for csn in (1, 3, 5, 8)], 9)
    superseded = [
        [version.csn for version in versions.superseded(horizon, versions.newest_at(horizon))]
        for horizon in range(10)
    ]
    assert superseded == [[], [], [], [1], [1], [1, 3], [1, 3], [1, 3], [1, 3, 5], [1, 3, 5]]


@pytest.mark.parametrize(
    ("before", "added", "pages"),
    [
        ((), (), [()]),
        ((), (1, 2, 3), [(1, 2, 3)]),
        ((), (1, 2, 3, 4), [(1, 2, 3), (4,)]),
        ((2,), (1, 2, 5), [(2, 5)]),
        ((1, 2, 3), (3, 4, 5, 6, 7), [(1, 2, 3), (4, 5, 6), (7,)]),
        ((1, 2, 3, 4), (4, 5), [(1, 2, 3, 4), (5,)]),
    ],
)
def test_versions_are_written_in_pages(
    before: tuple[int, ...], added: tuple[int, ...], pages: list[tuple[int, ...]]
) -> None:
    """R24: what is known already is not written again, and a page that is full stays as it is."""
    page, *commits = (tuple(Version(csn=csn, ref=ref(csn)) for csn in csns) for csns in (before, added))
    found = VersionsRecord(versions=page).with_commits(commits[0], 3)
    assert [tuple(version.csn for version in record.versions) for record in found] == pages


def test_a_state_without_a_version_can_always_be_claimed() -> None:
    """R24: it reads nothing, so that nothing of it can be gone; another version than the newest can."""
    gone = RetentionRecord(horizon=9)
    assert not gone.superseded(1, None, ref(5))
    assert not gone.superseded(1, None, None)
    assert gone.superseded(1, ref(1), ref(5))
    assert gone.superseded(1, ref(1), None)
    assert not gone.superseded(1, ref(5), ref(5))
    assert not gone.superseded(9, ref(1), ref(5))


@pytest.mark.parametrize(
    ("epochs", "barrier", "needed"),
    [
        ((2, 2), 2, False),
        ((2, 2), 3, True),
        ((2, 4), 3, True),
        ((4, 4), 4, False),
        ((None, 4), 1, True),
        ((None, 4), 0, False),
        ((None, None), 1, True),
    ],
)
def test_a_barrier_is_needed_by_the_next_epoch_of_the_slowest_table(
    epochs: tuple[int | None, ...], barrier: int, needed: bool
) -> None:
    """R24: of a table of the job that has nothing yet, it is the first from the origin on."""
    full = Table("full", kind=TableKind.FULL)
    sinks = [Table("x"), Table("y")]
    job = declared(Job("r", outputs=sinks, inputs=[state(full)], cadence="@daily", origin=START), None)
    outputs = [table(*range(many or 0)).record for many in epochs]
    held = table(*range(9), kind=TableKind.FULL).record
    assert still_needed(job, outputs, full.name, held, at(barrier)) == needed
    assert not still_needed(job, outputs, TableName("other"), held, at(9)), "it does not read that one"


@pytest.mark.parametrize(
    ("epochs", "barrier", "needed"), [((2, None), 2, False), ((2, None), 3, True), ((None, None), 1, False)]
)
def test_a_job_without_an_origin_needs_what_its_committed_tables_read_next(
    epochs: tuple[int | None, ...], barrier: int, needed: bool
) -> None:
    """R24: a new output, which begins at its first commit, frees nothing; a job that may begin anywhere keeps none."""
    full = Table("full", kind=TableKind.FULL)
    sinks = [Table("x"), Table("y")]
    job = declared(Job("r", outputs=sinks, inputs=[state(full)], cadence="@daily"), None)
    outputs = [table(*range(many or 0)).record for many in epochs]
    held = table(*range(9), kind=TableKind.FULL).record
    assert still_needed(job, outputs, full.name, held, at(barrier)) == needed


def test_tables_that_delay_a_cut_are_named() -> None:
    """R21: tables that are behind themselves, the slowest first; else those that the cut reads at too old a barrier."""
    names = [TableName(name) for name in ("a", "b", "c")]

    def blamed(barriers: tuple[float, ...], watermarks: tuple[int, ...]) -> list[str]:
        tables = found(**{name: table(*range(days)) for name, days in zip(names, watermarks, strict=True)})
        old = too_old(
            tables, {name: at(barrier) for name, barrier in zip(names, barriers, strict=True)}, at(9), 2 * DAY
        )
        assert all(delay.wanted == at(7) and delay.reason == str(delay.staleness) for delay in old)
        return [delay.table for delay in old]

    assert blamed((7, 7, 7), (7, 8, 9)) == [], "exactly as old as it may be"
    assert blamed((6, 7, 8), (9, 9, 9)) == ["a"], "who is young enough is not named beside who is not"
    assert blamed((6, 6, 6), (7, 8, 9)) == ["a", "b", "c"], "the calendars keep them apart"
    assert blamed((5, 5, 5), (6, 5, 9)) == ["b", "a"]
    assert blamed((5, 6, 6), (7, 6, 9)) == ["b"], (
        "who is behind itself, not who is read at an earlier barrier"
    )


def test_the_common_barrier_of_hours_and_days() -> None:
    hours = table(*range(40), cadence="@hourly", csn=5)
    days = table(0, 1, 2, csn=6)
    assert resolve(found(h=hours, d=days)) == at(1)
    assert resolve(found(h=hours)) == at(40 / 24)
    assert resolve(found(d=days), at=at(2.7)) == at(2)
    assert resolve(found(d=days), at=at(0.5)) is None
    assert resolve(found(d=table(csn=1), h=hours)) is None
    assert resolve({}) is None


def test_a_barrier_beyond_a_gap_is_not_reached() -> None:
    record, moved = found(a=table(0, 1, 3, csn=4))[TableName("a")]
    assert [reached(record, moved, at(number)) for number in (0, 1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert not reached(record, moved, at(1.5))
    assert lagging({TableName("a"): (record, moved)}, at(1.5))[0].reason.startswith("2013-02-02T12")
    assert "watermark" in lagging({TableName("a"): (record, moved)}, at(4))[0].reason
    assert "origin" in lagging({TableName("a"): (record, moved)}, at(0))[0].reason


def test_a_record_answers_for_older_heads_until_it_forgets() -> None:
    """R3: a reader of an older head gets the state of that head, or is told to read again."""
    stamped = table(csn=None)
    for csn in range(1, 13):
        moved = succeeding(stamped, moved_table(stamped.record, [epoch(csn - 1)], ref(csn)), DEFAULTS)
        stamped = Stamped(stamped.key, moved, csn, csn, NOW)
    assert [as_of(stamped, csn) and as_of(stamped, csn).ref.version for csn in (12, 11, 4)] == [12, 11, 4]  # type: ignore[union-attr]
    assert as_of(stamped, 3) is None
    assert len(stamped.record.earlier) == DEFAULTS.states_remembered


def test_a_copy_is_never_resolved_at_a_head_before_its_epoch() -> None:
    """R5: records of a reading may be later than its head: the copy would be that of a state without the epoch."""
    stamped = table(csn=1, kind=TableKind.FULL)
    moved = succeeding(stamped, moved_table(stamped.record, [epoch(0)], ref(2)), DEFAULTS)
    later = Stamped(stamped.key, moved, 2, 2, NOW)
    edges = [Edge(TableName("a"), EdgeKind.PREVIOUS)]
    assert resolve_inputs(edges, epoch(1), {TableName("a"): later}, 1, copies=True) == ([], [], True)
    found, missing, stale = resolve_inputs(edges, epoch(1), {TableName("a"): later}, 2, copies=True)
    assert ([version.csn for version in found], missing, stale) == ([2], [], False)


def test_increments_as_of_a_lag_tile_the_time() -> None:
    berlin = Table("a")
    calendar = Cadence("@daily", "Europe/Berlin")
    record = TableRecord(job=JobName("j"), kind=berlin.kind, cadence=calendar, progress=Progress())
    edge = increment(berlin, as_of=DAY)
    days = calendar.split(
        Interval(datetime(2013, 3, 27, 23, tzinfo=UTC), datetime(2013, 4, 3, 22, tzinfo=UTC))
    )
    ranges = [edge_range(edge, day, record) for day in days]
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


@pytest.mark.parametrize("edge", [window(TABLE, length=9_999 * DAY), increment(TABLE, as_of=9_999 * DAY)])
def test_an_edge_reads_no_time_before_all_time(edge: Edge) -> None:
    """R6: no range of event time is cut short."""
    early = Interval(datetime(9, 1, 1, tzinfo=UTC), datetime(9, 1, 2, tzinfo=UTC))
    with pytest.raises(InvalidInput, match="a time that has one"):
        edge_range(edge, early, table().record)


def test_an_increment_from_before_an_undeclared_origin_is_not_ready() -> None:
    edges = Job("x", inputs=[TABLE], outputs=[Table("c")], cadence="@daily").edges
    hours = table(*range(5, 30), cadence="@hourly", csn=1)
    undeclared = Progress(origin=at(5 / 24), islands=hours.record.progress.islands)
    late = replace(hours, record=replace(hours.record, progress=undeclared))
    _, missing, _ = resolve_inputs(edges, epoch(0), {TableName("a"): late}, 1)
    assert "declares no origin" in missing[0].reason
    declared_late = replace(late, record=replace(late.record, progress=replace(undeclared, declared=True)))
    _, missing, _ = resolve_inputs(edges, epoch(0), {TableName("a"): declared_late}, 1)
    assert not missing


def test_the_past_of_a_table_is_empty_only_where_it_declares_its_origin() -> None:
    edges = Job("x", inputs=[previous(TABLE)], outputs=[Table("c")], cadence="@daily").edges
    for progress, ready in [(Progress(origin=START, declared=True), True), (Progress(), False)]:
        record = replace(table().record, progress=progress, ref=None)
        stamped = Stamped(table_key(DOMAIN, TableName("a")), record, 1, None, NOW)
        found_inputs, missing, _ = resolve_inputs(edges, epoch(0), {TableName("a"): stamped}, 1)
        assert bool(found_inputs) is ready
        assert bool(missing) is not ready


def test_calendars_that_never_meet_end_the_search() -> None:
    year = replace(Progress(origin=START), islands=(Interval(START, at(365)),))
    both = {
        name: replace(stamped, record=replace(stamped.record, progress=year))
        for name, stamped in {
            "a": table(0, cadence="@hourly", csn=1),
            "b": table(0, cadence="5 * * * *", csn=2),
        }.items()
    }
    assert resolve(found(**both)) is None


@pytest.mark.parametrize(
    ("edge", "low", "high"),
    [
        (state(TABLE), None, at(3)),
        (previous(TABLE), None, at(2)),
        (window(TABLE, 2 * DAY), at(0), at(3)),
        (state(TABLE, as_of=DAY), None, at(2)),
        (state(TABLE, as_of=timedelta(hours=1)), None, at(2)),
        (window(TABLE, DAY, as_of=DAY), at(0), at(2)),
    ],
)
def test_the_range_of_an_edge(edge: Any, low: datetime | None, high: datetime) -> None:
    assert edge_range(edge, epoch(2), table().record) == (low, high)


def test_a_full_table_is_read_at_one_slice() -> None:
    full = table(0, kind=TableKind.FULL).record
    assert edge_range(state(TABLE), epoch(2), full) == (at(2), at(3))


def test_inputs_are_listed_one_by_one_when_missing() -> None:
    other = Table("b")
    edges = Job("x", inputs=[TABLE, other], outputs=[Table("c")], cadence="@daily").edges
    ready, missing, stale = resolve_inputs(edges, epoch(1), {TableName("a"): table(0, csn=1)}, 1)
    assert not ready
    assert not stale
    assert ["2013-02-03" in missing[0].reason, "no owner yet" in missing[1].reason] == [True, True]


# --- rewrites ----------------------------------------------------------------------------------------------


def stamped_log(record: RewriteLog, csn: int | None) -> Stamped[RewriteLog]:
    return Stamped(rewrite_log_key(DOMAIN, TableName("a")), record, 1, csn, NOW)


def test_rewrite_affects_only_earlier_reads_of_its_interval() -> None:
    """R13: and only where the interval that was read meets the rewritten one."""
    mark = with_rewrite(stamped_log(RewriteLog(), None), epoch(3), DEFAULTS)
    stamped = stamped_log(mark, 10)
    assert rewritten_since(stamped, 9, at(3), at(4)) is not None
    assert rewritten_since(stamped, 9, None, at(9)) is not None
    assert rewritten_since(stamped, 10, at(3), at(4)) is None
    assert rewritten_since(stamped, 9, at(4), at(5)) is None
    assert rewritten_since(stamped, 9, None, at(3)) is None


def test_an_earlier_rewrite_still_counts_after_a_later_one() -> None:
    """R13: what was read before any of the rewrites since is no longer what is there."""
    first = stamped_log(with_rewrite(stamped_log(RewriteLog(), None), epoch(3), DEFAULTS), 10)
    second = stamped_log(with_rewrite(first, epoch(7), DEFAULTS), 20)
    hit = rewritten_since(second, 9, at(3), at(4))
    assert hit is not None
    assert hit.csn == 10
    assert rewritten_since(second, 10, at(3), at(4)) is None


def test_many_rewrites_are_remembered_together() -> None:
    """R13: as one that touches all that they touched, and as late as the latest of them."""
    stamped = stamped_log(RewriteLog(), None)
    many = DEFAULTS.rewrites_remembered + 5
    for number in range(many):
        stamped = stamped_log(with_rewrite(stamped, epoch(number), DEFAULTS), number + 1)
    assert len(stamped.record.earlier) == DEFAULTS.rewrites_remembered
    for number in range(many):
        assert rewritten_since(stamped, number, at(number), at(number + 1)) is not None
    assert rewritten_since(stamped, 0, at(500), at(501)) is None
    assert rewritten_since(stamped, many, at(0), at(500)) is None


def test_a_cut_knows_a_rewrite_that_a_later_one_was_merged_with() -> None:
    """R18: the cut has taken its CSN before the later rewrite, and reads the log of rewrites after it."""
    few = replace(DEFAULTS, rewrites_remembered=1)
    stamped = stamped_log(RewriteLog(), None)
    for csn, number in ((10, 3), (20, 3), (30, 7), (40, 3)):
        stamped = stamped_log(with_rewrite(stamped, epoch(number), few), csn)
    assert [rewrite.csn for rewrite in known_rewrites(stamped, 15)] == [15]
    assert known_rewrites(stamped, 9) == []


def test_time_between_rewrites_stays_unchanged() -> None:
    """R13: time that no rewrite touched stays as it was read, however many there were elsewhere."""
    stamped = stamped_log(RewriteLog(), None)
    sides = [number for pair in zip(range(20), range(60, 80), strict=True) for number in pair]
    for csn, number in enumerate(sides, start=1):
        stamped = stamped_log(with_rewrite(stamped, epoch(number), DEFAULTS), csn)
    assert rewritten_since(stamped, 0, at(20), at(60)) is None
    for csn, number in enumerate(sides):
        assert rewritten_since(stamped, csn, at(number), at(number + 1)) is not None
    csns = [rewrite.csn for rewrite in stamped.record.earlier]
    assert csns == sorted(csns, reverse=True)


def aligned_read(high: int, csn: int, kind: EdgeKind = EdgeKind.STATE) -> Provenance:
    return Provenance(table=TableName("a"), kind=kind, low=None, high=at(high), csn=csn, ref=None)


def test_a_change_of_calendar_concerns_readers_that_asked_for_a_later_barrier() -> None:
    """R13: those who were given the barrier at which it changes, or a later one, before it changed."""
    log = with_calendar(stamped_log(RewriteLog(), None), at(3), 10, DEFAULTS)
    assert realigned_since(log, aligned_read(3, 9), epoch(4)) is not None
    assert realigned_since(log, aligned_read(4, 9), epoch(5)) is not None
    assert realigned_since(log, aligned_read(3, 10), epoch(4)) is None
    assert realigned_since(log, aligned_read(2, 9), epoch(4)) is None
    exact, before = epoch(2), aligned_read(3, 9, EdgeKind.PREVIOUS)
    assert exact.end == at(3)
    assert realigned_since(log, aligned_read(3, 9), exact) is None
    assert realigned_since(log, before, epoch(3)) is None
    assert realigned_since(log, before, epoch(4)) is not None


def test_changes_of_calendar_are_told_apart_and_stay() -> None:
    """R13: also beside rewrites, which keep their own CSN; beyond the limit the earliest are merged."""
    few = replace(DEFAULTS, rewrites_remembered=2)
    stamped = stamped_log(with_rewrite(stamped_log(RewriteLog(), None), epoch(1), few), 10)
    for csn, number in ((20, 5), (30, 3), (40, 7)):
        stamped = stamped_log(with_calendar(stamped, at(number), csn, few), csn)
    assert [(change.csn, change.low) for change in stamped.record.calendars] == [(40, at(7)), (30, at(3))]
    assert rewritten_since(stamped, 9, at(1), at(2)) is not None
    assert rewritten_since(stamped, 10, at(1), at(2)) is None
    later = with_binds(stamped_log(with_rewrite(stamped, epoch(2), few), 50), 1, few)
    assert later.calendars == stamped.record.calendars
    merged = with_calendar(stamped_log(later, 60), at(9), 70, few).calendars
    assert [(change.csn, change.low) for change in merged] == [(70, at(9)), (40, at(3))]


def test_jobs_keep_their_rerun_policy() -> None:
    record: JobRecord = declared(Job("j", outputs=[TABLE], cadence="@daily", on_rerun="keep"), None)
    assert record.on_rerun is OnRerun.KEEP


def test_epochs_that_read_each_other_are_not_committed_together() -> None:
    """R27: a job over its own past; and more epochs than one transaction writes."""
    table = Table("t")
    own = Job("j", outputs=[table], inputs=[previous(table)], cadence="@daily", origin=epoch(0).start)
    with pytest.raises(InvalidInput, match=r"reads its own output \(t\)"):
        refuse_together(own, [epoch(1)])
    job = Job("j", outputs=[table], cadence="@daily")
    refuse_together(job, [epoch(number) for number in range(MOST_TOGETHER)])
    with pytest.raises(InvalidInput, match="101 epochs"):
        refuse_together(job, [epoch(number) for number in range(MOST_TOGETHER + 1)])
