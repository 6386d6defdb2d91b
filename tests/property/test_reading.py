"""What a cut resolves to, compared with a search over every hour; what a session has seen; how long a lease lasts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.alignment import aligned, published_by_all
from airflow_provider.domain.cut import nearest_kept, reached
from airflow_provider.domain.identifiers import DomainName, JobName, LeaseId, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.lease import LeaseRecord, released, renewed
from airflow_provider.domain.read_options import Align
from airflow_provider.domain.records import Stamped, lease_key
from airflow_provider.domain.retention import RetentionRecord
from airflow_provider.domain.session import Seen, Session
from airflow_provider.domain.staleness import staleness, too_old
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.version import TableRecord, TableVersion
from airflow_provider.domain.watermark import Progress, merged

HOUR = timedelta(hours=1)
START = datetime(2024, 1, 1, tzinfo=UTC)
HOURS = 60
MOMENTS = [START + number * HOUR for number in range(HOURS + 1)]
CADENCES = [Cadence("@hourly"), Cadence("0 */3 * * *"), Cadence("@daily")]

VersionedTables = dict[TableName, tuple[TableRecord, TableVersion]]


@st.composite
def table(draw: st.DrawFn) -> tuple[TableRecord, TableVersion]:
    """A table with some committed epochs of its cadence, or none."""
    cadence = draw(st.sampled_from(CADENCES))
    epochs = cadence.split(Interval(START, START + HOURS // 24 * 24 * HOUR))
    committed = draw(st.lists(st.sampled_from(epochs), max_size=8))
    start = draw(st.integers(0, len(epochs) - 1))
    committed += epochs[start : start + draw(st.integers(0, 60))]
    islands = merged(committed)
    origin = draw(st.sampled_from([START, islands[0].start])) if islands else None
    progress = Progress(origin=origin, islands=islands, declared=True)
    kind = draw(st.sampled_from(list(TableKind)))
    record = TableRecord(job=JobName("j"), kind=kind, cadence=cadence, progress=progress)
    return record, TableVersion(csn=1, origin=progress.origin, watermark=progress.watermark, ref=None)


@st.composite
def tables(draw: st.DrawFn) -> VersionedTables:
    many = draw(st.integers(1, 3))
    return {TableName(f"t{number}"): draw(table()) for number in range(many)}


def own(stood: tuple[TableRecord, TableVersion], barrier: datetime) -> datetime | None:
    """The last barrier at or before *barrier* that a table has reached."""
    return max((moment for moment in MOMENTS if moment <= barrier and reached(*stood, moment)), default=None)


def searched(found: VersionedTables, at: datetime | None, max_lag: timedelta) -> datetime | None:
    """The greatest barrier at which exact tables are, and full ones not too far behind."""
    for moment in reversed(MOMENTS):
        if at is not None and moment > at:
            continue
        exact = [stood for stood in found.values() if stood[0].kind is TableKind.INCREMENTAL]
        leading = exact or [stood for stood in found.values() if reached(*stood, moment)]
        behind = [own(stood, moment) for stood in found.values() if stood[0].kind is TableKind.FULL]
        if (
            leading
            and all(reached(*stood, moment) for stood in leading)
            and all(barrier is not None and moment - barrier <= max_lag for barrier in behind)
        ):
            return moment
    return None


@given(tables(), st.sampled_from([None, *MOMENTS]), st.sampled_from([0, 1, 3, 6, 24, 48]))
def test_r19_floor_is_the_greatest_barrier_that_fits(
    found: VersionedTables, at: datetime | None, lag: int
) -> None:
    """R19: each full table at its own last barrier, none further behind than allowed."""
    answer = aligned(found, at, Align.FLOOR, lag * HOUR)
    wanted = searched(found, at, lag * HOUR)
    assert (answer.barrier if answer else None) == wanted
    if answer:
        for name, stood in found.items():
            exact = stood[0].kind is TableKind.INCREMENTAL
            assert answer.tables[name] == (answer.barrier if exact else own(stood, answer.barrier))


@given(tables(), st.sampled_from([None, *MOMENTS]))
def test_r3_exact_is_the_greatest_common_barrier(found: VersionedTables, at: datetime | None) -> None:
    """R3: all tables have reached it, and no later one."""
    answer = aligned(found, at, Align.EXACT, None)
    common = [
        moment
        for moment in MOMENTS
        if (at is None or moment <= at) and all(reached(*stood, moment) for stood in found.values())
    ]
    assert (answer.barrier if answer else None) == max(common, default=None)


@given(tables())
def test_der4_barriers_published_by_the_whole_domain(found: VersionedTables) -> None:
    """Up to the limit, and not beyond, every table with a commit has all barriers of its calendar."""
    limit = published_by_all(found.values())
    counted = [stood for stood in found.values() if stood[0].progress.islands]

    def published(moment: datetime) -> bool:
        return all(
            record.cadence.floor(moment) <= (moved.watermark or moved.origin or START)
            for record, moved in counted
        )

    for moment in MOMENTS:
        assert published(moment) == (limit is None or moment <= limit)


@given(tables(), st.data())
def test_r24_the_nearest_barriers_that_are_kept(found: VersionedTables, data: st.DataObject) -> None:
    """R24: of the common barriers that are not expired, the last before and the first after."""
    common = [moment for moment in MOMENTS if all(reached(*stood, moment) for stood in found.values())]
    retention, expired = RetentionRecord(), set()
    for name, (record, _) in found.items():
        barriers = [moment for moment in MOMENTS[1:] if record.cadence.is_barrier(moment)]
        for barrier in data.draw(st.lists(st.sampled_from(barriers), max_size=12), label=name):
            retention = retention.expiring(name, record.cadence.ending_at(barrier))
            expired.add((name, barrier))
            assert retention.range_at(name, barrier) is not None
    kept = [barrier for barrier in common if not any(retention.range_at(name, barrier) for name in found)]
    assert kept == [barrier for barrier in common if not any((name, barrier) in expired for name in found)]
    for asked in common:
        near = [
            *[barrier for barrier in kept if barrier <= asked][-1:],
            *[barrier for barrier in kept if barrier >= asked][:1],
        ]
        assert nearest_kept(found, retention, asked) == tuple(dict.fromkeys(near))


@given(tables(), st.integers(0, HOURS), st.integers(1, HOURS))
def test_r21_too_old_is_told_by_age_alone(found: VersionedTables, now: int, limit: int) -> None:
    """R21: some table is named exactly when one is older; its lags add up to at most its age."""
    answer = aligned(found, None, Align.EXACT, None)
    if answer is None:
        return
    moment = max(answer.barrier, START + now * HOUR)
    lags = too_old(found, answer.tables, moment, limit * HOUR)
    assert bool(lags) == (moment - answer.barrier > limit * HOUR)
    for record, moved in found.values():
        age = staleness(record, moved, answer.barrier, moment)
        assert age.wall_clock == moment - answer.barrier
        assert age.local >= timedelta(0)
        assert age.global_ >= timedelta(0)
        if moved.watermark is not None and moved.watermark <= moment:
            assert age.local + age.global_ <= age.wall_clock


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9), st.integers(0, HOURS)), max_size=12)
)
def test_r20_a_session_only_goes_forward(seen: Sequence[tuple[str, int, int]]) -> None:
    """R20, I8: whatever it has seen, a cut below is refused, and one at or above it is not."""
    session = Session.of("d")
    for name, csn, hour in seen:
        session = Session(
            domain=session.domain,
            seen=session._with({TableName(name): Seen(csn=csn, barrier=MOMENTS[hour])}),
            csn=max(session.csn, csn),
        )
    assert Session.parse(session.text()) == session
    csn = max((number for _, number, _ in seen), default=0)
    for name in {name for name, _, _ in seen}:
        barrier = max(MOMENTS[hour] for other, _, hour in seen if other == name)
        key = TableName(name)
        assert session.behind(csn, {key: barrier}) == ()
        assert len(session.behind(csn - 1, {key: barrier})) == 1
        assert len(session.behind(csn, {key: barrier - HOUR})) == 1
    assert session.behind(csn, {TableName("unseen"): MOMENTS[0]}) == ()
    assert len(session.behind(csn - 1, {TableName("unseen"): MOMENTS[0]})) == 1


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100)), min_size=1, max_size=20))
def test_lea3_a_lease_never_ends_earlier_than_it_did(steps: Sequence[tuple[int, int]]) -> None:
    """R23: renewals of any length at any time; giving up a table moves its end neither way."""
    key = lease_key(DomainName("d"), LeaseId("l"))
    now, end = START, START + HOUR
    record = LeaseRecord(owner="me", ttl=HOUR, csn=1, barrier=START, states=())
    stamped = Stamped(key, record, 1, None, now)
    for waited, ttl in steps:
        now += timedelta(minutes=waited)
        if now >= end:
            return
        renewal = renewed(stamped, ttl * HOUR, now)
        stamped = Stamped(key, renewal, 1, None, now)
        assert now + renewal.ttl == max(end, now + ttl * HOUR)
        end = now + renewal.ttl
        assert released(stamped, [TableName("t")], now) is None, "there is nothing left to hold"
