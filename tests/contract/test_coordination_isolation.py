"""Isolation: the named schedules ISO1 to ISO9 on each store."""

from __future__ import annotations

from itertools import permutations

import pytest

from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, DependentReaders, NotReady, TopologyError, Unavailable
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.topology import previous, state
from airflow_provider.testing.arrow_attempts import read_rows, stage_rows
from tests.contract.coordination_world import World, barrier, day, owner, rows, side_by_side

EMPTY = r"nothing is committed|no common barrier"


@pytest.mark.parametrize("order", [(0, 1, 0, 1), (0, 1, 1, 0), (1, 0, 0, 1)])
def test_iso1_dirty_write_two_attempts_never_mix(world: World, order: tuple[int, ...]) -> None:
    """R2, R10: of two attempts that write D and D2 in turns, both tables come from the newer one."""
    job = world.job("j1", [world.table("d"), world.table("d2")])
    attempts = [world.begin(job, day(1), owner(try_number=number)) for number in (1, 2)]
    sinks = [["d", "d2"], ["d", "d2"]]
    for who in order:
        attempt, sink = attempts[who], sinks[who].pop(0)
        committable = stage_rows(world.coordinator, attempt, sink, rows([attempt.token], attempt.token))
        if who == 1:
            world.coordinator.processed(attempt, sink)
            world.coordinator.written(attempt, sink, committable)
        else:
            with pytest.raises(Exception, match="this attempt is over"):
                world.coordinator.written(attempt, sink, committable)
    with pytest.raises(Exception, match="this attempt is over"):
        world.coordinator.publish(attempts[0])
    world.coordinator.publish(attempts[1])
    assert world.rows("d", "d2") == {"d": [(1, 2)], "d2": [(1, 2)]}


def test_iso2_aborted_read(world: World) -> None:
    """R4: what an attempt wrote and took back was visible to READ_UNCOMMITTED alone."""
    job = world.job("d")
    attempt = world.begin(job, day(1))
    world.write(attempt, [7])
    with pytest.raises(NotReady, match=EMPTY):
        world.rows("d")
    dirty = world.cut("d", level=Level.READ_UNCOMMITTED)
    assert world.rows_of(dirty) == {"d": [(1, 7)]}
    assert {*world.cuts.files(dirty, "d")} == {*world.staged()}
    world.coordinator.abort(attempt, "it fails")
    with pytest.raises(NotReady):
        world.rows("d", level=Level.READ_UNCOMMITTED)
    with pytest.raises(Unavailable):
        world.rows_of(dirty)


def test_iso3_intermediate_read_of_staged_writes(world: World) -> None:
    """R4: between the writes of an epoch's sinks a committed read sees none, an uncommitted one the first."""
    job = world.job("j1", [world.table("d"), world.table("d2")])
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    before = world.rows("d", "d2")
    for sink in ("d", "d2"):
        world.write(attempt, [2], sinks=[sink])
        assert world.rows("d", "d2") == before
    world.write(attempt, [2], sinks=[])
    dirty = world.rows("d", level=Level.READ_UNCOMMITTED)
    assert dirty == {"d": [(1, 1), (2, 2)]}
    world.coordinator.publish(attempt)
    assert world.rows("d", "d2") == {"d": [(1, 1), (2, 2)], "d2": [(1, 1), (2, 2)]}


def test_iso3_uncommitted_reads_see_one_sink_at_a_time(world: World) -> None:
    """READ_UNCOMMITTED is per table: WRITTEN output of one sink shows while the other has none."""
    attempt = world.begin(world.job("j1", [world.table("d"), world.table("d2")]), day(1))
    world.write(attempt, [2], sinks=["d"])
    assert world.rows("d", level=Level.READ_UNCOMMITTED) == {"d": [(1, 2)]}
    with pytest.raises(NotReady, match="d2"):
        world.rows("d", "d2", level=Level.READ_UNCOMMITTED)


def test_uncommitted_reads_have_no_barrier_to_be_behind(world: World) -> None:
    """Each table is read as far as it is written: that one is further is no lag of the other."""
    for name, days in (("d", 2), ("e", 1)):
        for number in range(1, days + 1):
            world.run(world.job(name), day(number), [number])
    dirty = world.cut("d", "e", level=Level.READ_UNCOMMITTED)
    assert world.rows_of(dirty) == {"d": [(1, 1), (2, 2)], "e": [(1, 1)]}
    assert dirty.behind == {}


def test_uncommitted_reads_see_output_that_a_retry_has_adopted(world: World) -> None:
    """R16: it is WRITTEN under the token of the try that died, and stays visible to them when a retry adopts it."""
    job = world.job("d")
    dead = world.begin(job, day(1))
    world.write(dead, [1])
    world.coordinator.complete(dead)
    assert world.begin(job, day(1), owner(try_number=2)).adopted
    assert world.rows("d", level=Level.READ_UNCOMMITTED) == {"d": [(1, 1)]}


def test_iso4_circular_flow(world: World) -> None:
    """R4, R6: jobs that read each other's epoch are refused; by the epoch before, neither sees staged rows."""
    d, e = world.table("d"), world.table("e")
    world.coordinator.register(world.job("j1", [d], inputs=[e]))
    with pytest.raises(TopologyError, match=r"j1|j2"):
        world.coordinator.register(world.job("j2", [e], inputs=[d]))
    one = world.job("p1", [world.table("pd")], inputs=[previous(world.table("pe"))])
    two = world.job("p2", [world.table("pe")], inputs=[previous(world.table("pd"))])
    for job in (one, two):
        world.coordinator.register(job)
    for job in (one, two):
        world.run(job, day(1), [1])
    attempts = [world.begin(job, day(2)) for job in (one, two)]
    for attempt in attempts:
        world.write(attempt, [2])
        other = attempt.inputs[0].table
        found = read_rows(world.coordinator, attempt, other)
        assert found is not None
        assert found["value"].to_pylist() == [1]
    for job in (one, two):
        with pytest.raises(NotReady):
            world.begin(job, day(3))
    for attempt in attempts:
        world.coordinator.publish(attempt)


def test_iso6_fractured_read(world: World) -> None:
    """R18: D has epoch 8 and E, which is computed from it, epoch 7: a cut has both at 7."""
    d, e = world.job("d"), world.job("e", inputs=[world.table("d")])
    for number in (1, 2):
        world.run(d, day(number), [number])
    world.run(e, day(1), [10])
    assert world.cut("d", "e").barrier == barrier(1)
    assert world.rows("d", "e") == {"d": [(1, 1)], "e": [(1, 10)]}
    world.run(e, day(2), [20])
    assert world.rows("d", "e") == {"d": [(1, 1), (2, 2)], "e": [(1, 10), (2, 20)]}


def _skewed(world: World) -> tuple[Attempt, Attempt]:
    """J1 reads E and writes D of epoch 2, while J2, which reads D, computes its epoch 1 of E again."""
    d, e = world.table("d"), world.table("e")
    j1 = world.job("j1", [d], inputs=[previous(e)])
    j2 = world.job("j2", [e], inputs=[previous(d)])
    for job in (j1, j2):
        world.coordinator.register(job)
    for job in (j1, j2):
        world.run(job, day(1), [1])
    reader, rewriter = world.begin(j1, day(2)), world.begin(j2, day(1), owner("manual"))
    assert rewriter.revision == 2
    for attempt in (reader, rewriter):
        world.write(attempt, [2])
    return reader, rewriter


@pytest.mark.parametrize("first", ["reader", "rewriter"])
def test_iso7_write_skew(world: World, first: str) -> None:
    """R13, R18: of an epoch and a revision of what it read, only the first to publish gets through."""
    reader, rewriter = _skewed(world)
    if first == "reader":
        world.coordinator.publish(reader)
        with pytest.raises(DependentReaders, match="j1") as refused:
            world.coordinator.publish(rewriter)
        assert [reader.job for reader in refused.value.details["readers"]] == ["j1"]
        assert world.rows("d", "e") == {"d": [(1, 1)], "e": [(1, 1)]}
    else:
        world.coordinator.publish(rewriter)
        with pytest.raises(Conflict, match="computed again"):
            world.coordinator.publish(reader)
        assert world.rows("d", "e") == {"d": [(1, 1)], "e": [(1, 2)]}
    assert len(world.commits()) == 3


def test_iso7_write_skew_at_once(world: World) -> None:
    """R13: the same, both sent at one time."""
    reader, rewriter = _skewed(world)
    workers = [world.worker(seed=number) for number in (1, 2)]
    found = side_by_side(
        lambda: workers[0].publish(reader),
        lambda: workers[1].publish(rewriter),
    )
    lost = [answer for answer in found if isinstance(answer, Conflict | DependentReaders)]
    assert len(lost) == 1, found
    assert len(world.commits()) == 3


@pytest.mark.parametrize("order", list(permutations((2, 3, 4)))[1:])
def test_iso9_late_slice(world: World, order: tuple[int, ...]) -> None:
    """R3, R19: epochs commit out of order; a barrier shows all before it or is not reached, and stays as it was."""
    job = world.job("d")
    world.run(job, day(1), [1])
    early = world.cut("d")
    done = {1}
    for number in order:
        world.run(job, day(number), [number])
        done.add(number)
        reached = next(n for n in range(1, 6) if n + 1 not in done)
        for wanted in (3, 4):
            cut = world.cut("d", at=barrier(wanted))
            top = min(wanted, reached)
            assert cut.barrier == barrier(top)
            assert world.rows_of(cut) == {"d": [(n, n) for n in range(1, top + 1)]}
        assert world.rows_of(early) == {"d": [(1, 1)]}
    assert world.rows("d") == {"d": [(n, n) for n in (1, 2, 3, 4)]}


def test_iso10_revision_leaves_later_epochs_alone(world: World) -> None:
    """I1: a revision of an old epoch replaces its own slice, whatever a later epoch added."""
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number, 100])
    world.run(job, day(1), [5], owner("manual"))
    assert world.rows("d") == {"d": [(1, 5), (2, 2), (2, 100)]}


def test_iso6_state_readers_get_all_up_to_the_barrier(world: World) -> None:
    """R3: a state edge reads what its provenance names, also when more has been committed since."""
    d = world.job("d")
    total = world.job("t", inputs=[state(world.table("d"))])
    for number in (1, 2):
        world.run(d, day(number), [number])
    attempt = world.begin(total, day(1))
    world.run(d, day(3), [3])
    found = read_rows(world.coordinator, attempt, "d")
    assert found is not None
    assert found["value"].to_pylist() == [1]
