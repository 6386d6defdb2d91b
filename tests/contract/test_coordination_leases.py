"""Leases on cuts: who holds what, until when, and what a reader is told when it is over (R19, R22, R23)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from airflow_provider.coordination.commits.sealed import DomainMoved, DomainMoving
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    InvalidInput,
    LeaseExpired,
    LeaseHeld,
    StoreIncompatible,
    Unavailable,
)
from airflow_provider.domain.identifiers import lease_id
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import Lease, derived_id
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import lease_key, topology_key
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology_record import Move, MoveState, TopologyRecord
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.testing.faults import Fault, FaultyStore, at
from tests.contract.coordination_world import (
    DOMAIN,
    Backend,
    World,
    barrier,
    day,
    owner,
    side_by_side,
    values_of,
)
from tests.contract.interruptions import STORE_CALLS, Interrupted, Interruption

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def cascade(world: World, days: int = 2) -> None:
    """Tables d and e, e computed from d, with their first days."""
    d = world.job("d")
    e = world.job("e", inputs=[world.table("d")])
    for number in range(1, days + 1):
        world.run(d, day(number), [number])
        world.run(e, day(number), [10 * number])


def leased(world: World, name: str = "report", by: str = "me", ttl: timedelta = HOUR) -> Lease:
    return world.leases.cut(DOMAIN, ["d", "e"], name=name, owner=by, ttl=ttl)


def test_iso5_predicate(world: World) -> None:
    """R19: a task reads a table twice, epochs are committed between: under a lease it lists the same ones."""
    cascade(world)
    lease = leased(world)
    before = world.rows_of(lease.cut)
    assert lease.cut.level is Level.REPEATABLE_READ
    world.run(world.job("d"), day(3), [3])
    world.run(world.job("e", inputs=[world.table("d")]), day(3), [30])
    assert world.rows_of(lease.cut) == before == {"d": [(1, 1), (2, 2)], "e": [(1, 10), (2, 20)]}
    assert leased(world).cut.states == lease.cut.states, "asked for again, the same cut is returned"
    assert world.cut("d", "e").barrier == barrier(3)


def test_iso5_a_revision_between_two_reads(table_world: World) -> None:
    """R19: a revision of what is read is not seen under the lease, and is seen without."""
    job = table_world.job("d")
    table_world.run(job, day(1), [1])
    lease = table_world.leases.cut(DOMAIN, ["d"], name="report", owner="me")
    table_world.run(job, day(1), [2], owner("manual"))
    assert table_world.rows_of(lease.cut) == {"d": [(1, 1)]}
    assert table_world.rows("d") == {"d": [(1, 2)]}


def test_lea3_a_shorter_renewal_shortens_nothing(world: World) -> None:
    """R23: renewal only extends."""
    cascade(world)
    lease = leased(world, ttl=DAY)
    same = world.leases.renew(lease, MINUTE)
    assert same.until == lease.until
    world.clock.advance(HOUR)
    assert world.leases.renew(same, MINUTE).until == lease.until
    longer = world.leases.renew(same, DAY)
    assert longer.until == lease.until + HOUR
    assert world.leases.find(DOMAIN, "report") == longer


def test_lea4_reader_with_an_ended_lease_gets_an_error(world: World) -> None:
    """R22: no rows after the end of the lease, nor of a READ_COMMITTED cut after its grace."""
    cascade(world)
    lease, plain = leased(world), world.cut("d", "e")
    world.clock.advance(HOUR - timedelta(microseconds=1))
    assert world.rows_of(lease.cut) == world.rows_of(plain)
    renewed = world.leases.renew(lease)
    world.clock.advance(timedelta(microseconds=1))
    assert world.rows_of(lease.cut) == world.rows_of(renewed.cut), (
        "the holder of the cut profits from the renewal"
    )
    with pytest.raises(LeaseExpired, match="was readable until"):
        world.cuts.read(plain, "d")
    world.clock.advance(HOUR)
    for read in (world.cuts.read, world.cuts.files):
        with pytest.raises(LeaseExpired, match="'report' ended at"):
            read(lease.cut, "d")
    with pytest.raises(LeaseExpired, match="has ended"):
        world.leases.renew(renewed)
    assert world.leases.all(DOMAIN) == []


def test_lea4_the_lease_ends_while_rows_are_read(world: World) -> None:
    """R22: it is checked at the end of the read, too: rows that were read already are not returned."""
    cascade(world)
    lease = leased(world)
    tables = world.formats[world.table_format]
    read = tables.read
    try:
        tables.read = lambda *given: (read(*given), world.clock.advance(HOUR))[0]  # type: ignore[method-assign]
        with pytest.raises(LeaseExpired, match="ended at"):
            world.cuts.read(lease.cut, "d")
    finally:
        tables.read = read  # type: ignore[method-assign]


def test_lea5_a_retry_finds_the_lease_of_a_killed_reader(world: World) -> None:
    """R23: by the id that task, epoch, revision and input generation give; no other owner gets it before its end."""
    cascade(world)
    name = derived_id("dag.report", day(2), revision=1, input_generation=1)
    lease = leased(world, name)
    world.run(world.job("d"), day(3), [3])
    other_process = world.reader(seed=1)
    again = other_process.cut(DOMAIN, ["d", "e"], name=name, owner="me")
    assert again.cut.states == lease.cut.states
    with pytest.raises(LeaseHeld) as held:
        other_process.cut(DOMAIN, ["d", "e"], name=name, owner="somebody")
    assert (held.value.holder, held.value.until) == ("me", lease.until)
    world.clock.advance(HOUR)
    taken = other_process.cut(DOMAIN, ["d"], name=name, owner="somebody")
    assert taken.cut.barrier == barrier(3)
    with pytest.raises(LeaseExpired):
        world.leases.renew(again)
    with pytest.raises(LeaseExpired, match="no longer holds d, e"):
        world.cuts.check(again.cut)
    world.leases.drop(again)
    assert world.leases.find(DOMAIN, name) == taken, "the old owner ends nothing of the new one's"


def test_r23_a_held_id_stands_for_one_cut(world: World) -> None:
    """R23: the same owner gets what it holds by an id, and nothing else by it."""
    cascade(world)
    lease = leased(world)
    before = world.exactly()
    for ask in (
        lambda: world.leases.cut(DOMAIN, ["d"], name="report", owner="me"),
        lambda: world.leases.cut(DOMAIN, ["d", "e"], name="report", owner="me", at=barrier(1)),
        lambda: world.leases.acquire(world.cut("d", "e", at=barrier(1)), name="report", owner="me"),
    ):
        with pytest.raises(InvalidInput, match="'report' of 'me' holds d, e at 2024-01-03"):
            ask()
    assert world.exactly() == before
    for again in (
        world.leases.acquire(lease.cut, name="report", owner="me"),
        world.leases.cut(DOMAIN, ["d", "e"], name="report", owner="me", at=lease.cut.barrier),
    ):
        assert again.cut.states == lease.cut.states


def test_r20_a_held_cut_is_not_given_to_a_session_that_has_seen_more(world: World) -> None:
    """R20: a session goes back neither in a table nor to an earlier commit, also where a cut is held already."""
    cascade(world)
    lease = leased(world)
    ask = partial(world.leases.cut, DOMAIN, ["d", "e"], name="report", owner="me")
    session = Session.of(DOMAIN).after(lease.cut)
    assert ask(session=session).cut.states == lease.cut.states, "a retry knows what its lease holds"
    world.run(world.job("d"), day(3), [3])
    for later in (session.after(world.cut("d")), session.after(world.cut("d", at=barrier(1)))):
        with pytest.raises(InvalidInput, match="holds d, e .* not a cut for this session: d: .* has seen"):
            ask(session=later)
    with pytest.raises(InvalidInput, match="session of the domain"):
        ask(session=Session.of("other"))
    assert ask().cut.states == lease.cut.states
    world.restore()
    with pytest.raises(Unavailable, match="restored"):
        ask(session=session)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": ""}, "lease"),
        ({"name": "a/b"}, "lease"),
        ({"owner": " "}, "owner"),
        ({"ttl": timedelta(0)}, "ttl"),
        ({"ttl": DEFAULTS.lease_longest + MINUTE}, "ttl"),
        ({"ttl": 60}, "ttl"),
    ],
)
def test_r23_bad_requests_are_refused(world: World, given: dict[str, object], field: str) -> None:
    """R23: a lease that no user could end, or find, is refused by name, and nothing is written."""
    cascade(world)
    before = world.exactly()
    with pytest.raises(InvalidInput) as refused:
        world.leases.cut(DOMAIN, ["d"], **{"name": "report", "owner": "me", **given})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert world.exactly() == before


def test_r23_unpublished_output_cannot_be_leased(world: World) -> None:
    """R23: a lease keeps no output that is not published."""
    cascade(world)
    dirty = world.cut("d", level=Level.READ_UNCOMMITTED)
    with pytest.raises(InvalidInput, match="read_uncommitted"):
        world.leases.acquire(dirty, name="report", owner="me")
    assert world.leases.all(DOMAIN) == []


def test_r23_release_gives_up_some_tables(world: World) -> None:
    """R23: what is released is no longer held, the rest ends when it did."""
    cascade(world)
    lease = leased(world)
    world.clock.advance(MINUTE)
    left = world.leases.release(lease, ["e"])
    assert left is not None
    assert (set(left.cut.states), left.until) == ({"d"}, lease.until)
    assert world.rows_of(left.cut) == {"d": [(1, 1), (2, 2)]}
    with pytest.raises(LeaseExpired, match="no longer holds e"):
        world.cuts.read(lease.cut, "e")
    assert world.leases.release(left, ["d"]) is None
    assert world.leases.all(DOMAIN) == []
    with pytest.raises(LeaseExpired):
        world.leases.release(lease, ["e"])


def test_r23_only_the_owner_changes_a_lease(world: World) -> None:
    """R23: a handle with another owner's name ends and extends nothing."""
    cascade(world)
    lease = leased(world)
    stranger = replace(lease, owner="stranger")
    world.leases.drop(stranger)
    for change in (lambda: world.leases.renew(stranger), lambda: world.leases.release(stranger, ["d"])):
        with pytest.raises(LeaseExpired):
            change()
    assert world.leases.all(DOMAIN) == [lease]
    world.leases.drop(lease)
    world.leases.drop(lease)
    assert world.leases.all(DOMAIN) == []


def test_r23_an_ended_lease_is_not_the_one_that_its_owner_has_made_since(world: World) -> None:
    """R23: a reader that stood still until its retry holds a later cut neither gets that cut nor takes it away."""
    cascade(world)
    ended = leased(world)
    world.clock.advance(HOUR)
    world.run(world.job("d"), day(3), [3])
    world.run(world.job("e", inputs=[world.table("d")]), day(3), [30])
    retried = leased(world)
    assert retried.cut.barrier == barrier(3)
    for change in (
        lambda: world.leases.renew(ended),
        lambda: world.leases.release(ended, ["e"]),
    ):
        with pytest.raises(LeaseExpired, match="has ended"):
            change()
    world.leases.drop(ended)
    assert world.leases.release(ended, ["d", "e"]) is None
    assert world.leases.find(DOMAIN, "report") == retried
    assert world.rows_of(world.leases.renew(retried, DAY).cut)["d"] == [(1, 1), (2, 2), (3, 3)]


def test_r23_a_lease_that_cannot_be_read_stops_everything(world: World) -> None:
    """R23: it is neither skipped, nor taken over, nor listed."""
    cascade(world)
    leased(world)
    world.plant(lease_key(DOMAIN, lease_id("report")), b"garbage")
    for ask in (lambda: leased(world), lambda: world.leases.all(DOMAIN)):
        with pytest.raises(StoreIncompatible):
            ask()


def test_r23_of_two_owners_one_gets_the_id(world: World) -> None:
    """R23: two readers ask for one id at one time."""
    cascade(world)
    readers = [world.reader(seed=number) for number in (1, 2)]
    found = side_by_side(
        *(
            lambda reader=reader, by=by: reader.cut(DOMAIN, ["d", "e"], name="report", owner=by)
            for reader, by in zip(readers, ("one", "two"), strict=True)
        )
    )
    winners = [answer for answer in found if isinstance(answer, Lease)]
    losers = [answer for answer in found if isinstance(answer, LeaseHeld)]
    assert (len(winners), len(losers)) == (1, 1), found
    assert world.leases.all(DOMAIN) == winners


def test_r23_repeated_lease_takes_its_new_duration(world: World) -> None:
    """R23: the retry of a short read may be a long one."""
    cascade(world)
    lease = leased(world, ttl=MINUTE)
    now = lease.until - MINUTE
    for hours, again in (
        (2, lambda: leased(world, ttl=2 * HOUR)),
        (3, lambda: world.leases.acquire(lease.cut, name="report", owner="me", ttl=3 * HOUR)),
    ):
        assert again().until == now + hours * HOUR
    longest = world.leases.renew(lease, DEFAULTS.lease_longest)
    assert longest.until == now + DEFAULTS.lease_longest
    world.clock.advance(DEFAULTS.lease_longest)
    assert world.leases.find(DOMAIN, "report") is None


def test_r23_cut_reads_its_tables_that_are_still_leased(world: World) -> None:
    """R22, R23: of the cut that was leased only what was released is over."""
    cascade(world)
    lease = leased(world)
    world.leases.release(lease, ["e"])
    assert values_of(world.cuts.read(lease.cut, "d")) == [(1, 1), (2, 2)]
    assert len(world.cuts.files(lease.cut, "d")) == 2
    with pytest.raises(LeaseExpired, match="no longer holds e"):
        world.cuts.check(lease.cut)


def test_lea5_ids_that_are_derived_never_meet() -> None:
    """R23: another task, epoch, revision, or inputs that were resolved anew are another read."""
    ids = {
        derived_id(task, interval, revision=revision, input_generation=generation)
        for task in ("dag.one", "dag.two")
        for interval in (day(1), day(2), Interval(barrier(0), barrier(2)))
        for revision in (1, 2)
        for generation in (1, 2)
    }
    assert len(ids) == 24


@pytest.mark.parametrize("by", ["me", "somebody"])
@pytest.mark.parametrize(
    ("way", "call", "number"),
    [
        ("cut", "read", 1),
        ("cut", "read", 2),
        ("cut", "transact", 0),
        ("acquire", "read", 1),
        ("acquire", "transact", 0),
    ],
)
def test_r23_an_id_that_was_taken_since_the_look_is_not_claimed(
    world: World, way: str, call: str, number: int, by: str
) -> None:
    """R19, R23: what its holder reads stays claimed; another try of the same owner gets that, and no newer cut."""
    cascade(world)
    holders = []

    def take() -> None:
        holders.append(leased(world, by="me"))
        for name, value in (("d", 3), ("e", 30)):
            world.run(world.job(name, inputs=[world.table("d")] if name == "e" else []), day(3), [value])

    interruption = Interruption(number, take, f"store.{call}")
    reader = world.reader(Interrupted(world.store, "store", STORE_CALLS, interruption))
    older = world.cut("d", "e", at=barrier(1))

    def ask() -> Lease:
        if way == "cut":
            return reader.cut(DOMAIN, ["d", "e"], name="report", owner=by)
        return reader.acquire(older, name="report", owner=by)

    if by == "me" and way == "cut":
        assert ask().cut.states == holders[0].cut.states
    else:
        with pytest.raises(LeaseHeld if by == "somebody" else InvalidInput, match="'report'"):
            ask()
    assert world.rows_of(holders[0].cut) == {"d": [(1, 1), (2, 2)], "e": [(1, 10), (2, 20)]}
    assert [lease.cut.states for lease in world.leases.all(DOMAIN)] == [holders[0].cut.states]


@pytest.mark.parametrize("fault", list(Fault))
def test_r15_leases_survive_lost_messages(backend: Backend, fault: Fault) -> None:
    """R15: each message of each operation lost once: the answer is the same."""
    with_faults = 0
    for number in range(100):
        world = backend.world()
        try:
            cascade(world, days=1)
            store = FaultyStore(world.store, at(number, fault))
            reader = world.reader(store)
            lease = reader.cut(DOMAIN, ["d", "e"], name="report", owner="me")
            assert reader.acquire(lease.cut, name="report", owner="me").cut.states == lease.cut.states
            assert reader.renew(lease, DAY).until >= lease.until
            left = reader.release(lease, ["e"])
            assert left is not None
            assert set(left.cut.states) == {"d"}
            assert reader.release(left, ["d"]) is None
            assert world.leases.all(DOMAIN) == []
            with_faults += number < len(store.calls)
            if number >= len(store.calls):
                break
        finally:
            world.close()
    assert with_faults > 10


def sealed(world: World, state: MoveState) -> None:
    """Let the domain be moved elsewhere, as far as *state* says."""
    move = Move(state=state, place="postgresql://elsewhere", incarnation="another")
    record = TopologyRecord(generation=99, move=move)
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(topology_key(DOMAIN), record),)))


def test_nothing_is_claimed_of_a_domain_that_is_moved(world: World) -> None:
    """The owner of a lease may read in peace, and a move has looked for leases already: there can be no new one."""
    world.run(world.job("t"), day(1))
    cut = world.cut("t")
    kept = world.leases.acquire(cut, name="before", owner="me")
    sealed(world, MoveState.LEAVING)
    with pytest.raises(DomainMoving, match="elsewhere"):
        world.leases.acquire(cut, name="late", owner="me")
    sealed(world, MoveState.GONE)
    with pytest.raises(DomainMoved, match="elsewhere"):
        world.leases.cut(DOMAIN, ["t"], name="later", owner="me")
    assert [lease.id for lease in world.leases.all(DOMAIN)] == [kept.id]
    world.leases.drop(kept)


@pytest.mark.parametrize("kind", ["incremental", "full"])
@pytest.mark.parametrize("what", ["acquire", "expire"])
def test_transaction_decided_before_a_move_is_refused(world: World, what: str, kind: str) -> None:
    """Between the look and the transaction the domain is sealed: what was decided is not done."""
    job = world.job("t", [world.table("t", kind=kind)])
    world.run(job, day(1))
    world.run(job, day(2))
    cut = world.cut("t")
    interruption = Interruption(0, lambda: sealed(world, MoveState.LEAVING), "store.transact")
    store = Interrupted(world.store, "store", STORE_CALLS, interruption)
    changes = {
        "acquire": lambda: world.reader(store).acquire(cut, name="late", owner="me"),
        "expire": lambda: world.keeper(store).expire(DOMAIN, "t", barrier(1)),
    }
    with pytest.raises(DomainMoving):
        changes[what]()
    assert not world.leases.all(DOMAIN)
    assert world.cut("t", at=barrier(1)).barrier == barrier(1)
    assert len(world.commits()) == 2
