"""Retention: what goes, when, and whose claims keep it (R23, R24)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_provider.coordination.commits.sealed import DomainMoved
from airflow_provider.coordination.reading.wait import JobInputs, check, check_inputs, wait_for
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    InvalidInput,
    LeaseExpired,
    OutcomeUnknown,
    StoreIncompatible,
    StoreUnavailable,
    Unavailable,
)
from airflow_provider.domain.identifiers import lease_id
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.records import Kind, lease_key, topology_key
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, state
from airflow_provider.domain.topology_record import Move, MoveState, TopologyRecord
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.testing.arrow_attempts import read_rows
from airflow_provider.testing.faults import Call, Fault, FaultyStore, at
from tests.contract.coordination_world import DOMAIN, Backend, World, barrier, day, owner

PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)
DAY = timedelta(days=1)


def full_job(world: World, days: int = 0, **options: Any) -> Job:
    """Job f with a full table of its name, and its first days."""
    job = world.job("f", [world.table("f", kind=TableKind.FULL)], **options)
    for number in range(1, days + 1):
        world.run(job, day(number), [number])
    return job


def between(world: World, method: str, action: Callable[[], object]) -> FaultyStore:
    """The world's store, with *action* before its first call of *method*."""
    waiting = [action]

    def plan(call: Call) -> None:
        if call.method == method and waiting:
            waiting.pop()()

    return FaultyStore(world.store, plan)


def before_call(world: World, number: int, action: Callable[[], object]) -> FaultyStore:
    """The world's store, with *action* before its *number*-th call."""

    def plan(call: Call) -> None:
        if call.number == number:
            action()

    return FaultyStore(world.store, plan)


def held(world: World, table: str, at_barrier: datetime | None = None, name: str = "report") -> Lease:
    return world.leases.cut(DOMAIN, [table], name=name, owner="me", at=at_barrier, ttl=DAY)


def test_lea1_a_long_read_outlives_retention(table_world: World) -> None:
    """R24: its state is expired and superseded many times, and stays whole until the lease ends."""
    job = full_job(table_world, 1)
    lease = held(table_world, "f")
    for number in range(2, 12):
        table_world.run(job, day(number), [number])
        if number > 2:
            table_world.retention.expire(DOMAIN, "f", barrier(number - 1))
    table_world.retention.expire(DOMAIN, "f", barrier(1))
    table_world.clock.advance(PAST_GRACE)
    table_world.retention.vacuum(DOMAIN)
    assert table_world.rows_of(lease.cut) == {"f": [(1, 1)]}
    assert table_world.rows("f") == {"f": [(11, 11)]}
    table_world.clock.advance(DAY)
    vacuumed = table_world.retention.vacuum(DOMAIN)
    assert vacuumed.ended == ("lease report",)
    assert vacuumed.claimed == 0
    with pytest.raises(LeaseExpired):
        table_world.cuts.read(lease.cut, "f")
    assert table_world.rows("f") == {"f": [(11, 11)]}


def test_r24_grid_shows_expired_barriers(table_world: World) -> None:
    """R24: a barrier at which no cut can be had; what was published there is told all the same."""
    full_job(table_world, 3)
    table_world.retention.expire(DOMAIN, "f", barrier(2))
    (row,) = grid(table_world.store, DOMAIN).rows
    assert [cell.expired for cell in row.cells] == [False, True, False]
    assert [cell.committed is not None for cell in row.cells] == [True, True, True]


def test_lea2_an_expiry_meets_a_claim(world: World) -> None:
    """R23, R24: whichever comes first wins; there is never a claim on what is expired."""
    full_job(world, 3)
    first = world.cut("f", at=barrier(1))

    late = world.reader(between(world, "transact", lambda: world.retention.expire(DOMAIN, "f", barrier(1))))
    with pytest.raises(Unavailable) as refused:
        late.acquire(first, name="late", owner="me")
    assert refused.value.tables == ("f",)
    assert world.leases.all(DOMAIN) == []

    second = world.cut("f", at=barrier(2))
    keeper = world.keeper(
        between(world, "transact", lambda: world.leases.acquire(second, name="early", owner="me", ttl=DAY))
    )
    keeper.expire(DOMAIN, "f", barrier(2))
    world.clock.advance(PAST_GRACE)
    world.retention.vacuum(DOMAIN)
    (lease,) = world.leases.all(DOMAIN)
    assert world.rows_of(lease.cut) == {"f": [(2, 2)]}


def test_lea2_an_expiry_meets_a_new_claim(world: World) -> None:
    """R23: an expiry acts on the claim as it was judged; who took the id over meanwhile keeps what he holds."""
    full_job(world, 2)
    held(world, "f", barrier(1))
    world.clock.advance(DAY)

    def take_over() -> None:
        world.leases.cut(DOMAIN, ["f"], name="report", owner="another", at=barrier(1))

    vacuumed = world.keeper(between(world, "transact", take_over)).vacuum(DOMAIN)
    assert vacuumed.ended == ()
    (lease,) = world.leases.all(DOMAIN)
    assert (lease.owner, world.rows_of(lease.cut)) == ("another", {"f": [(1, 1)]})


def test_lea2_a_claim_appears_while_a_vacuum_looks(world: World) -> None:
    """R24: once the horizon has moved, no claim on what was superseded before it can appear; before, it is seen."""
    job = world.job("d")
    world.run(job, day(1), [1])
    old = world.cut("d")
    world.run(job, day(1), [2], owner("manual"))
    world.clock.advance(PAST_GRACE)
    claim = between(world, "transact", lambda: world.leases.acquire(old, name="old", owner="me", ttl=DAY))
    assert world.keeper(claim).vacuum(DOMAIN).claimed == 1
    (lease,) = world.leases.all(DOMAIN)
    assert world.rows_of(lease.cut) == {"d": [(1, 1)]}
    world.leases.drop(lease)
    world.retention.vacuum(DOMAIN)
    with pytest.raises(Unavailable, match="expired"):
        world.leases.acquire(old, name="old", owner="me")
    assert world.data() == world.newest_data("d")


def test_r24_table_version_at_the_horizon_can_be_claimed(world: World) -> None:
    """R24: the newest version up to the horizon is kept; those before it are gone."""
    job = world.job("d")
    cuts = []
    for number in (1, 2):
        world.run(job, day(number), [number])
        cuts.append(world.cut("d"))
    world.clock.advance(PAST_GRACE)
    world.run(job, day(3), [3])
    assert world.retention.vacuum(DOMAIN).horizon == cuts[1].csn
    lease = world.leases.acquire(cuts[1], name="at the horizon", owner="me")
    assert world.rows_of(lease.cut) == {"d": [(1, 1), (2, 2)]}
    with pytest.raises(Unavailable, match="expired"):
        world.leases.acquire(cuts[0], name="before it", owner="me")


def test_r24_a_slower_table_is_claimed_where_the_cut_has_it(world: World) -> None:
    """R23, R24: a cut may hold a table at an earlier barrier than its own; that one must still be there."""
    full = full_job(world, 1)
    for number in (1, 2):
        world.run(world.job("d"), day(number), [number])
    cut = world.cuts.cut(DOMAIN, ["d", "f"], align="floor", max_lag=DAY)
    assert (cut.barrier, dict(cut.behind)) == (barrier(2), {"f": DAY})
    world.run(full, day(2), [2])
    world.retention.expire(DOMAIN, "f", barrier(1))
    before = world.exactly()
    with pytest.raises(Unavailable, match="expired") as gone:
        world.leases.acquire(cut, name="report", owner="me")
    assert gone.value.details["tables"] == ("f",)
    assert world.exactly() == before


def test_lea8_shared_files(world: World) -> None:
    """R24: the versions before and after the one that goes share files with it, and keep them."""
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number])
    first = held(world, "d", barrier(1), name="first")
    for value in (20, 21):
        world.run(job, day(2), [value], owner(f"again-{value}"))
    last = held(world, "d", name="last")
    before = world.data()
    world.run(job, day(2), [22], owner("again-22"))
    world.clock.advance(PAST_GRACE)
    vacuumed = world.retention.vacuum(DOMAIN)
    assert world.rows_of(first.cut) == {"d": [(1, 1)]}
    assert world.rows_of(last.cut) == {"d": [(1, 1), (2, 21)]}
    assert len(before - world.data()) == 1, "only the rows 20 were unclaimed"
    assert vacuumed.claimed == 2


def test_lea9_no_row_of_today_goes(table_world: World) -> None:
    """R24: all barriers but the newest are expired, and today's state has all its rows."""
    job = table_world.job("d")
    for number in range(1, 6):
        table_world.run(job, day(number), [number])
    for number in range(1, 5):
        table_world.retention.expire(DOMAIN, "d", barrier(number))
    table_world.clock.advance(PAST_GRACE)
    table_world.retention.vacuum(DOMAIN)
    table_world.run(job, day(6), [6])
    assert table_world.rows("d") == {"d": [(number, number) for number in range(1, 7)]}


def test_lea10_the_claims_of_a_dead_attempt_end(world: World) -> None:
    """R23: its inputs are let go when its lock has ended, the epoch stays open, and a later try reads anew."""
    source = full_job(world, 1)
    reader = world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))])
    attempt = world.begin(reader, day(1))
    for number in range(2, 4):
        world.run(source, day(number), [number])
    world.run(source, day(1), [10], owner("again"))
    world.clock.advance(timedelta(seconds=90))
    world.coordinator.heartbeat(attempt)
    world.clock.advance(timedelta(seconds=90))
    assert world.retention.vacuum(DOMAIN).ended == (), "a live attempt"
    world.clock.advance(PAST_GRACE)
    vacuumed = world.retention.vacuum(DOMAIN)
    assert len(vacuumed.ended) == 1
    assert vacuumed.claimed == 0
    assert world.retention.vacuum(DOMAIN).ended == (), "once"
    with pytest.raises(LeaseExpired, match="claim on its inputs was ended"):
        world.coordinator.heartbeat(attempt)
    assert str(explain(world.store, DOMAIN, "r").interval) == str(day(1)), "it is reported as open"
    again = world.begin(reader, day(1), owner("scheduled", 2))
    assert again.inputs[0].csn > attempt.inputs[0].csn
    found = read_rows(world.coordinator, again, "f")
    assert found is not None
    assert found["value"].to_pylist() == [10]


def test_r24_the_inputs_of_a_live_attempt_stay(world: World) -> None:
    """R23: they are claims that end with its lock."""
    source = full_job(world, 1)
    reader = world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))])
    attempt = world.begin(reader, day(1))
    world.run(source, day(2), [2])
    for _ in range(100):
        world.clock.advance(DEFAULTS.lock_ttl - timedelta(seconds=1))
        world.coordinator.heartbeat(attempt)
    assert world.retention.vacuum(DOMAIN).claimed == 1
    found = read_rows(world.coordinator, attempt, "f")
    assert found is not None
    assert found["value"].to_pylist() == [1]


def test_r24_baseline_of_an_open_attempt_is_kept(world: World) -> None:
    """R24: the baseline of an attempt that is open, and silent for however long; it goes when the attempt has ended."""
    job = full_job(world, 1)
    attempt = world.begin(job, day(2))
    world.run(job, day(1), [10], owner("again"))
    world.clock.advance(PAST_GRACE)
    before = world.data()
    vacuumed = world.retention.vacuum(DOMAIN)
    assert len(vacuumed.ended) == 1, "its lock"
    assert (vacuumed.claimed, world.data()) == (1, before)
    world.coordinator.abort(attempt, "no")
    assert world.retention.vacuum(DOMAIN).claimed == 0
    assert world.data() == world.newest_data("f")
    assert world.data() < before


def test_r24_baseline_of_the_first_try_is_kept(world: World) -> None:
    """R24: a retry at the same revision keeps the baseline of the try before it, whatever was published since."""
    job = full_job(world, 1)
    world.begin(job, day(2))
    world.run(job, day(1), [10], owner("again"))
    world.begin(job, day(2), owner(try_number=2))
    world.clock.advance(PAST_GRACE)
    before = world.data()
    vacuumed = world.retention.vacuum(DOMAIN)
    assert (vacuumed.claimed, world.data()) == (1, before)


def test_und3_a_try_after_one_that_ended_has_a_baseline_of_its_own(world: World) -> None:
    """R24: nothing claimed that of the one before, so that a vacuum has deleted it; no vacuum is in its way."""
    job, other = world.job("d"), world.job("o")
    for started in (job, other):
        world.run(started, day(1), [1])
    ended = world.begin(job, day(2))
    world.coordinator.abort(ended, "the task failed")
    for number in (3, 4):
        world.run(job, day(number), [number])
    world.clock.advance(PAST_GRACE)
    assert world.retention.vacuum(DOMAIN).deleted
    world.begin(job, day(2), owner(try_number=2))
    for number in (5, 6):
        world.run(job, day(number), [number])
        world.run(other, day(number), [number])
    world.clock.advance(PAST_GRACE)
    assert world.retention.vacuum(DOMAIN).deleted
    assert {number for number, _ in world.rows("d")["d"]} == {1}


def test_r23_waiting_run_begins_once_claims_of_a_silent_attempt_are_ended(world: World) -> None:
    """R23: to end what it claims does not let its lock begin anew."""
    job = full_job(world)
    world.begin(job, day(1))
    world.clock.advance(PAST_GRACE)
    assert len(world.retention.vacuum(DOMAIN).ended) == 1
    assert world.begin(job, day(1), owner("another")).token == 2


def test_r24_an_expiry_meets_a_begin(world: World) -> None:
    """R23, R24: an epoch whose input is expired between its look and its claim does not begin."""
    full_job(world, 2)
    reader = world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))])
    for number in (1, 2):
        world.run(reader, day(number), [number])
    store = between(world, "transact", lambda: world.retention.expire(DOMAIN, "f", barrier(1)))
    with pytest.raises(Unavailable, match="expired: f"):
        world.worker(store).begin(reader, day(1), owner("again"))


def test_r24_an_expired_barrier_has_no_cut(world: World) -> None:
    """R24: Unavailable, with the nearest barriers that are kept; neither a lease nor an epoch gets it."""
    source = full_job(world, 5)
    world.run(world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))]), day(1), [1])
    world.run(world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))]), day(2), [1])
    world.run(world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))]), day(3), [1])
    before = world.cut("f", at=barrier(3))
    for number in (2, 3):
        world.retention.expire(DOMAIN, "f", barrier(number))
    for read in (
        lambda: world.cut("f", at=barrier(3)),
        lambda: world.cut("f", "r", at=barrier(3)),
        lambda: world.leases.cut(DOMAIN, ["f"], name="report", owner="me", at=barrier(2)),
    ):
        with pytest.raises(Unavailable) as refused:
            read()
        assert refused.value.kept == (barrier(1), barrier(4))
    assert world.rows_of(before) == {"f": [(3, 3)]}, "what was returned stays readable"
    with pytest.raises(Unavailable, match="expired: f"):
        world.begin(
            world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))]), day(3), owner("again")
        )
    assert world.cut("f").barrier == barrier(5)
    world.retention.expire(DOMAIN, "f", barrier(3))
    assert len(world.commits()) == 10, "again it is no commit"
    assert world.begin(source, day(6)).revision == 1


def test_r24_barriers_that_come_after_an_expiry_are_expired_too(world: World) -> None:
    """R24: also where the range that the table's record has of its expired barriers ends before them."""
    source = full_job(world, 3)
    world.retention.expire(DOMAIN, "f", barrier(1))
    for number in (4, 5, 6):
        world.run(source, day(number), [number])
    world.retention.expire(DOMAIN, "f", barrier(4))
    with pytest.raises(Unavailable):
        world.cut("f", at=barrier(4))


def test_a_vacuum_of_a_domain_that_is_moved_meanwhile(world: World) -> None:
    """R24, R33: it looked before the domain was sealed: no horizon that the other store lacks, and nothing goes."""
    for number in (1, 2):
        world.run(world.job("d"), day(number), [number])
    world.clock.advance(PAST_GRACE)
    left = Move(state=MoveState.GONE, place="elsewhere", incarnation="another")

    def seal() -> None:
        put = Put(topology_key(DOMAIN), TopologyRecord(generation=9, move=left))
        world.store.transact(Transaction(domain=DOMAIN, updates=(put,)))

    before = set(world.pointers.objects)
    with pytest.raises(DomainMoved):
        world.keeper(between(world, "transact", seal)).vacuum(DOMAIN)
    assert world.store.scan(DOMAIN, Kind.RETENTION, "") == []
    assert set(world.pointers.objects) == before


def test_r24_wait_for_an_expired_barrier_fails(world: World) -> None:
    """R24: waiting says which table, and what is kept, instead of "ready"; a job's wait asks what its begin does."""
    full_job(world, 4)
    daily = world.job("d")
    for number in range(1, 5):
        world.run(daily, day(number), [number])
    for table in ("f", "d"):
        world.retention.expire(DOMAIN, table, barrier(2))
    full = state(world.table("f", kind=TableKind.FULL))
    rows = state(world.table("d"))
    asked: list[tuple[str, Callable[[], object]]] = [
        ("f", lambda: check(world.store, DOMAIN, ["f"], barrier(2))),
        ("d", lambda: check(world.store, DOMAIN, ["d"], barrier(2))),
        ("f", lambda: check_inputs(world.store, DOMAIN, JobInputs(edges=(full,), interval=day(2)))),
        ("f", lambda: check_inputs(world.store, DOMAIN, JobInputs(edges=(rows, full), interval=day(2)))),
    ]
    for table, ask in asked:
        with pytest.raises(Unavailable, match=f"{table}: .* expired") as refused:
            ask()
        assert refused.value.kept == (barrier(1), barrier(3))
    with pytest.raises(Unavailable):
        wait_for(world.store, DOMAIN, ["d"], barrier(2), timeout=DAY, clock=world.clock)
    assert check_inputs(world.store, DOMAIN, JobInputs(edges=(rows,), interval=day(2))).ready
    assert check(world.store, DOMAIN, ["d", "f"], barrier(3)).ready
    assert "no barrier of its cadence" in str(check(world.store, DOMAIN, ["d"], barrier(1.5)))


def test_r24_job_that_reads_with_a_lag_waits_for_the_lagged_barrier(world: World) -> None:
    """R24: it is told of what is expired there, and not of what is expired at its own barrier."""
    full = full_job(world, 4).outputs[0]
    for number in (1, 3):
        world.retention.expire(DOMAIN, "f", barrier(number))
    late = world.job("late", inputs=[state(full, as_of=DAY)])
    with pytest.raises(Unavailable, match="expired"):
        check_inputs(world.store, DOMAIN, JobInputs.of(late, day(2)))
    assert check_inputs(world.store, DOMAIN, JobInputs.of(late, day(3))).ready


def test_r24_a_job_reads_an_incremental_table_where_a_barrier_is_expired(world: World) -> None:
    """R24: only the barrier is gone; all rows up to it are in the newest version."""
    for number in (1, 2):
        world.run(world.job("d"), day(number), [number])
    world.retention.expire(DOMAIN, "d", barrier(1))
    attempt = world.begin(world.job("r", inputs=[world.table("d")]), day(1))
    found = read_rows(world.coordinator, attempt, "d")
    assert found is not None
    assert found["value"].to_pylist() == [1]


def test_r24_explain_names_expired_states(world: World) -> None:
    """R24: of the epoch's own tables, and of what an epoch that no run began would read."""
    full_job(world, 4)
    reader = world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))], inactive_after=1)
    world.run(reader, day(1))
    world.clock.advance(2 * DAY)
    world.retention.expire(DOMAIN, "f", barrier(2))
    assert explain(world.store, DOMAIN, "f", day(2)).expired == ("f",)
    assert explain(world.store, DOMAIN, "f", day(3)).expired == ()
    told = explain(world.store, DOMAIN, "r", day(2))
    assert told.waiting_for == (f"f: what it had at {barrier(2).isoformat()} is expired",)
    assert "airflow epochs skip" in told.next_step


@pytest.mark.parametrize("number", [5, 6, 4.5, 3, 4])
def test_r24_needed_states_are_not_expired(world: World, number: float) -> None:
    """R24: the newest state, no state at all, and one that a job has yet to read are refused by name."""
    full_job(world, 5)
    world.run(world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))]), day(1), [1])
    world.run(world.job("r", inputs=[state(world.table("f", kind=TableKind.FULL))]), day(2), [1])
    before = world.exactly()
    with pytest.raises(InvalidInput, match="cannot be expired") as refused:
        world.retention.expire(DOMAIN, "f", barrier(number))
    assert world.exactly() == before
    assert ("airflow epochs retire r" in refused.value.next_step) == (number in (3, 4))
    world.retention.expire(DOMAIN, "f", barrier(2))


def test_r24_after_retention_the_warehouse_has_only_kept_versions(world: World) -> None:
    """I12: revisions and expired days are gone, and nothing else."""
    full, incremental = full_job(world, 4), world.job("d")
    for number in (1, 2, 3):
        world.run(incremental, day(number), [number])
    for value in (5, 6):
        world.run(incremental, day(2), [value], owner(f"again-{value}"))
    world.run(full, day(4), [40], owner("again"))
    for number in (1, 3):
        world.retention.expire(DOMAIN, "f", barrier(number))
    everything = world.data()
    world.retention.vacuum(DOMAIN)
    assert world.data() == everything, "cuts without a lease may still be read"
    world.clock.advance(PAST_GRACE)
    vacuumed = world.retention.vacuum(DOMAIN)
    assert world.data() == world.newest_data("d", "f")
    assert everything - world.data() == {uri for uri in vacuumed.deleted if uri in everything}
    assert world.rows("d") == {"d": [(1, 1), (2, 6), (3, 3)]}
    assert world.rows("f", at=barrier(2)) == {"f": [(2, 2)]}
    again = world.retention.vacuum(DOMAIN)
    assert (again.deleted, again.claimed) == ((), 0)


def test_r19_vacuum_keeps_versions_readable_without_a_lease(world: World) -> None:
    """R19, R24: what stood when the grace began may have been read since: it stays, however old its own commit is."""
    job = world.job("d")
    world.run(job, day(1), [1])
    world.clock.advance(PAST_GRACE)
    cut = world.cut("d")
    world.run(job, day(1), [2], owner("again"))
    assert world.retention.vacuum(DOMAIN).horizon == 1
    assert world.rows_of(cut) == {"d": [(1, 1)]}
    world.clock.advance(PAST_GRACE)
    assert world.retention.vacuum(DOMAIN).horizon == 2
    assert world.data() == world.newest_data("d")


@pytest.mark.parametrize("in_page", [1, DEFAULTS.versions_in_page], ids=["in another page", "in one page"])
def test_r19_such_a_read_keeps_the_files_that_it_shares_with_older_versions(
    world: World, in_page: int
) -> None:
    """R19, R24: the version before it goes; a file of that, which only this read still has, does not."""
    world.retention.defaults = replace(DEFAULTS, versions_in_page=in_page)
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number])
    world.clock.advance(PAST_GRACE)
    cut = world.cut("d")
    world.run(job, day(1), [10], owner("again"))
    assert world.retention.vacuum(DOMAIN).horizon == 2
    assert world.rows_of(cut) == {"d": [(1, 1), (2, 2)]}
    world.clock.advance(PAST_GRACE)
    world.retention.vacuum(DOMAIN)
    assert world.data() == world.newest_data("d")


def test_r23_a_claim_that_cannot_be_read_stops_the_sweep(world: World) -> None:
    """R23: nothing is deleted while vacuum cannot tell what is claimed."""
    job = world.job("d")
    world.run(job, day(1), [1])
    held(world, "d")
    world.run(job, day(1), [2], owner("again"))
    world.plant(lease_key(DOMAIN, lease_id("report")), b"garbage")
    world.clock.advance(10 * DAY)
    before = world.data()
    with pytest.raises(StoreIncompatible):
        world.retention.vacuum(DOMAIN)
    assert world.data() == before


@pytest.mark.parametrize("fault", list(Fault))
def test_r15_expiring_and_vacuuming_survive_lost_messages(backend: Backend, fault: Fault) -> None:
    """R15: each message lost once; repeated, they end alike, and no claimed row is lost on the way."""
    for number in range(0, 200, 1 if backend.name == "memory" else 4):
        world = backend.world()
        try:
            job = full_job(world, 3)
            lease = held(world, "f", barrier(1))
            world.run(job, day(3), [30], owner("again"))
            store = FaultyStore(world.store, at(number, fault))
            keeper = world.keeper(store)
            for request in (
                lambda keeper=keeper: keeper.expire(DOMAIN, "f", barrier(2)),
                lambda world=world: world.clock.advance(PAST_GRACE),
                lambda keeper=keeper: keeper.vacuum(DOMAIN),
            ):
                try:
                    request()
                except (StoreUnavailable, OutcomeUnknown):
                    request()
            assert len(world.commits()) == 5
            assert world.rows_of(lease.cut) == {"f": [(1, 1)]}
            world.leases.drop(lease)
            world.retention.vacuum(DOMAIN)
            assert world.data() == world.newest_data("f")
            if number >= len(store.calls):
                return
        finally:
            world.close()
    pytest.fail("the operations never ended without a fault")


def test_r24_another_vacuum_at_each_call_of_a_sweep(backend: Backend) -> None:
    """R24: what the first found claimed, or newest, goes meanwhile: it decides anew, and the newest rows stay."""
    for number in range(0, 200, 1 if backend.name == "memory" else 6):
        world = backend.world()
        try:
            job = full_job(world, 1)
            leases = [held(world, "f", name=f"report-{revision}") for revision in range(2)]
            for value in (2, 3, 4):
                world.run(job, day(1), [value], owner(f"again-{value}"))
                world.clock.advance(PAST_GRACE)
            world.leases.drop(leases[1])

            def other(world: World = world, job: Job = job, lease: Lease = leases[0]) -> None:
                world.leases.drop(lease)
                world.run(job, day(1), [5], owner("again-5"))
                world.clock.advance(PAST_GRACE)
                world.keeper(seed=1).vacuum(DOMAIN)

            store = before_call(world, number, other)
            world.keeper(store).vacuum(DOMAIN)
            if number >= len(store.calls):
                return
            world.clock.advance(PAST_GRACE)
            world.retention.vacuum(DOMAIN)
            assert world.data() == world.newest_data("f")
        finally:
            world.close()
    pytest.fail("the vacuum never ended by itself")
