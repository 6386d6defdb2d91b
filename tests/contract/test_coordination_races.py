"""Something changes between what an operation has read and its transaction: it decides anew, or is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    Fenced,
    InvalidInput,
    LeaseExpired,
    TopologyError,
)
from airflow_provider.domain.records import Kind
from airflow_provider.domain.source_bounds import BoundFile, FileSource, SourceBounds
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import previous, state
from airflow_provider.stores.base import Receipt, Transaction
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner
from tests.contract.interruptions import interrupted
from tests.contract.lakes import Lake, prices


class AnyNumber(FaultyStore):
    """A store that gives a commit the next number, whichever it was meant to have."""

    def transact(self, transaction: Transaction) -> Receipt:
        """Pass the change on without that requirement."""
        number = transaction.number and replace(transaction.number, expected=None)
        return super().transact(replace(transaction, number=number))


@pytest.fixture(params=["its number", "any number"])
def racing(request: pytest.FixtureRequest, world: World) -> World:
    """A world twice: with any number, nothing but what publish requires by version holds it back (R3)."""
    if request.param == "any number":
        world.store = AnyNumber(world.store, lambda _: None)
        world.coordinator = world.worker()
    return world


def test_att2_a_holder_that_wakes_in_time_is_not_overtaken(world: World) -> None:
    """R23: the lock had ended when it was read; its holder renews it before the takeover is written."""
    job = world.job("d")
    holder = world.begin(job, day(1))
    world.clock.advance(PAST_TTL)
    other = interrupted(world, lambda: world.coordinator.heartbeat(holder))
    with pytest.raises(EpochBusy):
        other.begin(job, day(1), owner("manual"))
    world.write(holder)
    world.coordinator.publish(holder)


def test_att2_late_heartbeat_revives_no_attempt(world: World) -> None:
    """R10: the holder is overtaken between the read and the write of its heartbeat."""
    job = world.job("d")
    holder = world.begin(job, day(1))
    world.clock.advance(PAST_TTL)
    taken: list[object] = []

    def take_over() -> None:
        taken.append(world.begin(job, day(1), owner("manual")))
        taken.append(world.exactly())

    with pytest.raises(Fenced):
        interrupted(world, take_over).heartbeat(holder)
    assert world.exactly() == taken[1]


def test_lea10_a_heartbeat_after_the_end_of_its_claims_is_told(world: World) -> None:
    """R23: retention ends what an attempt claims between the read and the write of its heartbeat."""
    attempt = world.begin(world.job("d"), day(1))
    world.clock.advance(PAST_TTL)
    ended = interrupted(world, lambda: world.retention.vacuum(DOMAIN))
    with pytest.raises(LeaseExpired, match="was silent"):
        ended.heartbeat(attempt)


def test_att2_late_abort_does_not_end_the_successor(world: World) -> None:
    """R10: the attempt is overtaken between the read and the write of its abort; the other's rows stay."""
    job = world.job("d")
    zombie = world.begin(job, day(1))
    world.write(zombie, [1])
    world.coordinator.complete(zombie)
    taken: list[Attempt] = []
    with pytest.raises(Fenced):
        interrupted(world, lambda: taken.append(world.begin(job, day(1), owner(try_number=2)))).abort(
            zombie, "too late"
        )
    assert taken[0].adopted
    world.coordinator.publish(taken[0])
    assert world.rows("d") == {"d": [(1, 1)]}


def test_att1_a_publish_that_was_decided_before_its_fence(world: World) -> None:
    """R10: the attempt is overtaken between the read and the write of its publish."""
    job = world.job("d")
    zombie = world.begin(job, day(1))
    world.write(zombie, [1])
    taken: list[Attempt] = []
    with pytest.raises(Fenced):
        interrupted(world, lambda: taken.append(world.begin(job, day(1), owner(try_number=2)))).publish(
            zombie
        )
    assert world.commits() == []
    world.write(taken[0], [2])
    world.coordinator.publish(taken[0])
    assert world.rows("d") == {"d": [(1, 2)]}


def test_der13_two_registrations_that_close_a_cycle_together(world: World) -> None:
    """R6: each alone is fine; the one that comes second is refused, and what it decided on is looked at again."""
    d, e = world.table("d"), world.table("e")
    one, two = world.job("j1", [d], inputs=[e]), world.job("j2", [e], inputs=[d])
    with pytest.raises(TopologyError, match="j1"):
        interrupted(world, lambda: world.coordinator.register(two)).register(one)
    assert [job.record.name for job in world.store.scan(DOMAIN, Kind.JOB, "")] == ["j2"]


def test_der8_shared_source(world: World) -> None:
    """I11: of two jobs that begin at once with other bounds of one source, both read those that came first."""
    jobs = [world.job(name, inputs=[FileSource("landing", "/landing", late="ignore")]) for name in ("a", "b")]
    bounds = [
        {"landing": SourceBounds(source="landing", files=(BoundFile(uri=uri, size_bytes=1),))}
        for uri in ("x", "y")
    ]
    for job in jobs:
        world.coordinator.register(job)
    first: list[Attempt] = []
    second = interrupted(world, lambda: first.append(world.begin(jobs[0], day(1), sources=bounds[0]))).begin(
        jobs[1], day(1), owner(), sources=bounds[1]
    )
    assert isinstance(second, Attempt)
    assert second.sources == first[0].sources == (bounds[0]["landing"],)
    assert world.begin(jobs[1], day(1), owner(try_number=2)).sources == second.sources
    with pytest.raises(InvalidInput, match="bounds of the source 'landing'"):
        world.begin(jobs[0], day(2))


def spans(lake: Lake, attempt: Attempt) -> list[int]:
    """The rows of others that the attempt reads."""
    span = attempt.sources[0].span
    assert span is not None
    return lake.values(prices(), span)


def test_of_two_begins_at_neighbouring_barriers_the_second_looks_again(world: World, lake: Lake) -> None:
    """I11: both have asked the source when one records: the other's rows begin where that one's end."""
    job = world.job("a", inputs=[prices()])
    lake.append(1)
    world.begin(job, day(1), sources=lake.sources())
    lake.append(2)
    first: list[Attempt] = []

    def meanwhile() -> None:
        first.append(world.begin(job, day(2), sources=lake.sources()))
        lake.append(3)

    second = interrupted(world, meanwhile).begin(job, day(3), owner(), sources=lake.sources())
    assert isinstance(second, Attempt)
    assert (spans(lake, first[0]), spans(lake, second)) == ([2], [3])


def test_of_two_revisions_of_a_source_one_is_recorded(world: World, lake: Lake) -> None:
    """I11: two jobs whose attempts failed begin again at once; both read what was recorded first."""
    jobs = [world.job(name, inputs=[prices(late="revision")]) for name in ("a", "b")]
    lake.append(1)
    for job in jobs:
        world.coordinator.abort(world.begin(job, day(1), sources=lake.sources()), "it failed")
    lake.append(2)
    first: list[Attempt] = []

    def meanwhile() -> None:
        first.append(world.begin(jobs[0], day(1), owner("manual"), sources=lake.sources()))
        lake.append(3)

    second = interrupted(world, meanwhile).begin(jobs[1], day(1), owner("manual"), sources=lake.sources())
    assert isinstance(second, Attempt)
    assert second.sources == first[0].sources
    assert spans(lake, second) == [1, 2]


def test_iso7_a_rewrite_between_the_check_and_the_commit(racing: World) -> None:
    """R3, R13: what the attempt read is computed again after its inputs were validated and before its transaction."""
    world = racing
    source, reader = world.job("d"), world.job("r", inputs=[state(world.table("d"))])
    world.run(source, day(1), [1])
    attempt = world.begin(reader, day(1))
    world.write(attempt)
    own = interrupted(world, lambda: world.run(source, day(1), [2], owner("manual")))
    with pytest.raises(Conflict, match="computed again"):
        own.publish(attempt)
    assert len(world.commits()) == 2


@pytest.mark.parametrize("registered", [True, False], ids=["known-reader", "new-reader"])
def test_iso7_a_reader_between_the_check_and_the_commit(racing: World, registered: bool) -> None:
    """R3, R13, R18: a reader commits after a revision looked for readers and before its transaction."""
    world = racing
    source, reader = world.job("d"), world.job("r", inputs=[world.table("d")])
    world.run(source, day(1), [1])
    if registered:
        world.coordinator.register(reader)
    revision = world.begin(source, day(1), owner("manual"))
    world.write(revision, [2])
    with pytest.raises(DependentReaders):
        interrupted(world, lambda: world.run(reader, day(1), [1])).publish(revision)
    assert world.rows("d", "r") == {"d": [(1, 1)], "r": [(1, 1)]}


def test_a_reader_by_an_earlier_declaration_commits_beside_a_rewrite(racing: World) -> None:
    """R7, R18: an attempt that began when its job had the edge commits while what it read is replaced."""
    world = racing
    job, table = world.job("d"), world.table("d")
    world.run(job, day(1), [1])
    reader = world.begin(world.job("e", inputs=[table]), day(1))
    world.write(reader)
    world.coordinator.register(world.job("e"))
    revision = world.begin(job, day(1), owner("rerun"))
    world.write(revision, [2])
    other = interrupted(world, lambda: world.coordinator.publish(reader))
    with pytest.raises(DependentReaders):
        other.publish(revision)
    assert world.rows("d") == {"d": [(1, 1)]}


def test_att13_others_commit_between_the_check_and_the_commit(table_world: World) -> None:
    """R11: another epoch of the table commits first: this one is put on the new head."""
    another_epoch_between(table_world)


def test_att13_the_table_itself_is_required(racing: World) -> None:
    """R3, R11: likewise when no number and no pointer would tell."""
    another_epoch_between(racing)


def another_epoch_between(world: World) -> None:
    """Publish one epoch, and another one between its decision and its transaction."""
    job = world.job("d")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    published = interrupted(world, lambda: world.run(job, day(3), [3])).publish(attempt)
    assert published.csn == 3
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3)]}


def test_a_table_that_moved_alone_is_read_again(world: World) -> None:
    """R11: retention publishes to one of two tables while both are prepared: both are put on the new head."""
    full = world.table("e", kind=TableKind.FULL)
    job = world.job("d", [world.table("d"), full])
    for number in (1, 2):
        world.run(job, day(number), [number])
    attempt = world.begin(job, day(3))
    world.write(attempt, [3])
    own = interrupted(
        world, lambda: world.retention.expire(DOMAIN, "e", barrier(1)), "table.prepare", number=1
    )
    assert own.publish(attempt).csn == 4
    assert world.rows("d", "e") == {"d": [(1, 1), (2, 2), (3, 3)], "e": [(3, 3)]}


def test_a_table_carries_the_number_of_its_commit(world: World) -> None:
    """R33: another table's commit takes the number that was meant for this one: it is prepared anew."""
    job, other = world.job("d"), world.job("e")
    attempt = world.begin(job, day(1))
    world.write(attempt)
    published = interrupted(world, lambda: world.run(other, day(1))).publish(attempt)
    version = world.pointers.objects[str(world.pointers.pointer(DOMAIN, "d"))]
    assert (published.csn, version.marks.csn) == (2, 2)


def test_output_of_inputs_that_were_computed_again_is_not_adopted(world: World) -> None:
    """R16, section 5: a complete try read what is no longer so: its output is rolled back, inputs resolved anew."""
    source, reader = world.job("d"), world.job("r", inputs=[world.table("d")])
    world.run(source, day(1), [1])
    dead = world.begin(reader, day(1))
    world.write(dead, [1])
    world.coordinator.complete(dead)
    world.run(source, day(1), [2], owner("manual"))
    retry = world.begin(reader, day(1), owner(try_number=2))
    assert not retry.adopted
    assert world.staged() == []
    assert retry.inputs[0].csn == 2


def test_der10_gap_holds_back_jobs_that_read_their_past(world: World) -> None:
    """R12: a job with a past stops at the epoch that is missing; others of the domain go on."""
    job, other = world.job("d", inputs=[previous(world.table("d"))]), world.job("e")
    world.run(job, day(1))
    for number in (1, 2, 3):
        world.run(other, day(number))
    with pytest.raises(Exception, match="d: needs"):
        world.begin(job, day(3))
    world.run(job, day(2))
    world.run(job, day(3))


def test_ended_attempts_leave_no_lock(world: World) -> None:
    """I9: neither a commit nor an abort leaves a lock behind."""
    job = world.job("d")
    world.run(job, day(1))
    world.coordinator.abort(world.begin(job, day(2)), "no")
    assert world.store.scan(DOMAIN, Kind.LOCK, job.name) == []


def test_an_attempt_of_a_restored_store_is_over(world: World) -> None:
    """R33: tokens carry the incarnation: after a restore, an attempt of before changes nothing, by no call."""
    attempt = world.begin(world.job("d", [world.table("d"), world.table("d2")]), day(1))
    committable = world.write(attempt, sinks=["d"])["d"]
    world.restore()
    own: EpochService = world.coordinator
    before = world.exactly()
    for call in (
        lambda: own.processed(attempt, "d2"),
        lambda: own.written(attempt, "d2", committable),
        lambda: own.complete(attempt),
        lambda: own.heartbeat(attempt),
        lambda: own.publish(attempt),
        lambda: own.abort(attempt, "no"),
    ):
        with pytest.raises(Fenced):
            call()
    assert world.exactly() == before
    world.clock.advance(timedelta(hours=1))
    world.run(world.job("d", [world.table("d"), world.table("d2")]), day(1), [2], owner(try_number=2))
