"""Lost work, lost sums and words: the named schedules UND1 to UND8, ISO8, DER1 and DER3 on each store."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Fenced, TopologyError
from airflow_provider.domain.topology import Job, previous, state
from airflow_provider.tables.base import StagingLocation, TableFormat
from airflow_provider.tables.errors import TableRecreated, WarehouseUnavailable
from airflow_provider.tables.factory import TableFormats
from airflow_provider.testing.arrow_attempts import read_rows, write_rows
from tests.contract.coordination_world import (
    DOMAIN,
    PAST_TTL,
    World,
    barrier,
    day,
    owner,
    rows,
    values_of,
)

LONGER_THAN_ANY_TTL = timedelta(days=400)


def summing(world: World) -> tuple[Job, Job]:
    """``amounts``, and ``sum``, each of whose epochs holds the sum of all before it and its own amount."""
    amounts = world.job("amounts")
    total = world.table("sum")
    return amounts, world.job("sum", [total], inputs=[amounts.outputs[0], previous(total)])


def add_up(own: EpochService, attempt: Attempt) -> None:
    """Write what the past and the epoch's amounts come to."""
    amounts, past = read_rows(own, attempt, "amounts"), read_rows(own, attempt, "sum")
    last = max(values_of(past), default=(0, 0))[1] if past is not None else 0
    added = [] if amounts is None else amounts["value"].to_pylist()
    write_rows(own, attempt, "sum", rows([last + sum(added)], attempt.token))


def test_und1_rows_of_a_dead_try_are_not_added_twice(world: World) -> None:
    """R16: the sum is 10; a try adds 5 and dies, the next adds 5: 15, from the recorded input state."""
    amounts, total = summing(world)
    for number, value in ((1, 10), (2, 5)):
        world.run(amounts, day(number), [value])
    first = world.begin(total, day(1))
    add_up(world.coordinator, first)
    world.coordinator.publish(first)
    dead = world.begin(total, day(2))
    add_up(world.coordinator, dead)
    retry = world.begin(total, day(2), owner(try_number=2))
    assert not retry.adopted
    assert world.staged() == []
    add_up(world.coordinator, retry)
    world.coordinator.publish(retry)
    assert world.rows("sum") == {"sum": [(1, 10), (2, 15)]}


def test_und2_the_first_slice_of_a_dead_try_leaves_nothing(world: World) -> None:
    """R4, R16: the table and its first partition are made and written, then the crash: no reader sees either."""
    job = world.job("d", [world.table("d", partition_by=["by"])])
    world.write(world.begin(job, day(1)), [1, 2])
    with pytest.raises(Exception, match="no common barrier"):
        world.cut("d")
    retry = world.begin(job, day(1), owner(try_number=2))
    assert world.staged() == []
    world.write(retry, [3])
    world.coordinator.publish(retry)
    assert world.rows("d") == {"d": [(1, 3)]}


def test_und3_inputs_outlive_a_long_silence(world: World) -> None:
    """R13, section 5: the job is down for longer than any TTL, others commit; the retry reads what was recorded."""
    amounts, total = summing(world)
    world.run(amounts, day(1), [10])
    silent = world.begin(total, day(1))
    world.clock.advance(LONGER_THAN_ANY_TTL)
    for number in range(2, 30):
        world.run(amounts, day(number), [number])
    retry = world.begin(total, day(1), owner(try_number=2))
    assert retry.inputs == silent.inputs
    add_up(world.coordinator, retry)
    world.coordinator.publish(retry)
    assert world.rows("sum") == {"sum": [(1, 10)]}


@pytest.mark.parametrize("fold", [max, min, lambda values: int("".join(map(str, values)))])
def test_und6_fold_without_an_inverse_is_computed_again(world: World, fold: object) -> None:
    """R16: a fold without an inverse saw a row that is retracted: the next attempt folds what is there."""
    assert callable(fold)
    source, folded = world.job("d"), world.job("f", inputs=[state(world.table("d"))])
    world.run(source, day(1), [7, 1, 9])

    def compute(attempt: Attempt) -> None:
        found = read_rows(world.coordinator, attempt, "d")
        assert found is not None
        values = sorted(found["value"].to_pylist())
        write_rows(world.coordinator, attempt, "f", rows([fold(values)], attempt.token))

    compute(world.begin(folded, day(1)))
    world.run(source, day(1), [7, 2], owner("again"))
    retry = world.begin(folded, day(1), owner(try_number=2))
    assert not retry.adopted
    compute(retry)
    world.coordinator.publish(retry)
    assert world.rows("d", "f") == {"d": [(1, 2), (1, 7)], "f": [(1, fold([2, 7]))]}


def test_und7_a_reader_sees_nothing_of_an_undo(world: World) -> None:
    """R4, R19: a cut from before, one in between and one from after the undo read the committed rows."""
    job = world.job("d")
    world.run(job, day(1), [1])
    world.write(world.begin(job, day(2)), [2])
    before = world.cut("d")
    assert world.staged()
    retry = world.begin(job, day(2), owner(try_number=2))
    assert world.staged() == []
    for cut in (before, world.cut("d")):
        assert world.rows_of(cut) == {"d": [(1, 1)]}
    world.write(retry, [3])
    world.coordinator.publish(retry)
    assert world.rows_of(before) == {"d": [(1, 1)]}
    assert world.rows("d") == {"d": [(1, 1), (2, 3)]}


def test_und8_a_table_that_was_made_again_is_another_one(world: World) -> None:
    """R17, R33: what was written to a table is not published to its namesake."""
    job = world.job("d")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    drop(world, "d")
    world.formats[world.table_format].create(world.table("d"), rows([1]).schema)
    before = world.content()
    with pytest.raises(TableRecreated):
        world.coordinator.publish(attempt)
    assert world.content() == before


def test_output_of_a_dead_try_in_a_left_table_is_deleted(world: World) -> None:
    """R16, R7: whatever the job declares when it is tried again; the table's new owner keeps what it wrote there."""
    both = world.job("d", [world.table("d"), world.table("e")])
    world.run(both, day(1), [1])
    dead = world.begin(both, day(2))
    world.write(dead, [2])
    world.coordinator.register(world.job("d"))
    world.clock.advance(PAST_TTL)
    world.coordinator.retire(DOMAIN, "d", reason="moved", by="ada", table="e")
    world.run(world.job("successor", [world.table("e")]), day(2), [3], owner("another"))
    assert len(world.staged()) == 2
    world.run(world.job("d"), day(2), [4], owner(try_number=2))
    assert world.staged() == []
    assert world.rows("d", "e") == {"d": [(1, 1), (2, 4)], "e": [(1, 1), (2, 3)]}


class NoDeletion:
    """A table format whose warehouse lets no process delete."""

    def __init__(self, inner: TableFormat) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def roll_back(self, _place: StagingLocation) -> None:
        raise WarehouseUnavailable("no permission.")


def test_tries_that_die_while_they_undo_leave_no_growing_work(world: World) -> None:
    """R16, I9: each of many tries fails at deleting what was left; the next has no more to delete than the first."""
    job = world.job("d")
    world.write(world.begin(job, day(1)), [1])
    own = stuck(world)
    for number in range(2, 8):
        with pytest.raises(WarehouseUnavailable):
            own.begin(job, day(1), owner(try_number=number))
        epoch = world.coordinator.epoch(DOMAIN, job.name, day(1))
        assert epoch is not None
        assert epoch.record.attempt is not None
        assert len(epoch.record.attempt.rolls_back) == 1
    assert world.staged()
    world.run(job, day(1), [2], owner(try_number=9))
    assert world.staged() == []
    assert world.rows("d") == {"d": [(1, 2)]}


def stuck(world: World) -> EpochService:
    """A coordinator of a process that cannot delete."""
    tables: Any = NoDeletion(world.formats[world.table_format])
    return world.worker(formats=TableFormats({"memory": lambda: tables}, following=world.formats.following))


def test_interrupted_rollback_is_finished_by_the_next_begin(world: World) -> None:
    """R16, R7: a try dies while it deletes, and is ended as a silent one: the next begin deletes that as well."""
    job = world.job("d")
    world.write(world.begin(job, day(1)), [1])
    with pytest.raises(WarehouseUnavailable):
        stuck(world).begin(job, day(1), owner(try_number=2))
    world.clock.advance(PAST_TTL)
    world.coordinator.retire(DOMAIN, "d", reason="moved", by="ada")
    world.coordinator.revive(DOMAIN, "d")
    assert world.staged()
    world.run(job, day(1), [2], owner(try_number=3))
    assert world.staged() == []
    assert world.rows("d") == {"d": [(1, 2)]}


def test_interrupted_rollback_in_a_left_table_is_finished(world: World) -> None:
    """R16, R7: a try dies while it deletes, and the job leaves a table before the next: nothing stays in it."""
    both = world.job("d", [world.table("d"), world.table("e")])
    world.write(world.begin(both, day(1)), [1])
    with pytest.raises(WarehouseUnavailable):
        stuck(world).begin(both, day(1), owner(try_number=2))
    world.run(world.job("d"), day(1), [2], owner(try_number=3))
    assert world.data() == world.newest_data("d")
    assert world.rows("d") == {"d": [(1, 2)]}


def drop(world: World, table: str) -> None:
    """Let the catalog forget a table, behind the package's back."""
    if hasattr(world.pointers, "execute"):
        world.pointers.execute("DELETE FROM iceberg_tables WHERE table_name = ?", (table,))
    else:
        world.pointers.drop(DOMAIN, table)


def test_iso8_two_writers_of_one_sum(world: World) -> None:
    """R6, R10: another job is refused as a second owner; of two runs that add to the same past, one is fenced."""
    amounts, total = summing(world)
    world.run(amounts, day(1), [10])
    one = world.begin(total, day(1))
    add_up(world.coordinator, one)
    with pytest.raises(TopologyError):
        world.coordinator.register(world.job("adder", [world.table("sum")], inputs=[amounts.outputs[0]]))
    world.clock.advance(PAST_TTL)
    other = world.begin(total, day(1), owner("manual"))
    add_up(world.coordinator, other)
    with pytest.raises(Fenced):
        world.coordinator.publish(one)
    world.coordinator.publish(other)
    assert world.rows("sum") == {"sum": [(1, 10)]}


WORDS = {1: "to be or not to be", 2: "be quick", 3: "not now or never"}
VOCABULARY = {word: number for number, word in enumerate(sorted(set(" ".join(WORDS.values()).split())))}


def text_up_to(number: int) -> list[str]:
    """All words of the epochs up to *number*."""
    return " ".join(WORDS[epoch] for epoch in range(1, number + 1)).split()


def test_der1_words_their_counts_and_counts_of_counts(world: World) -> None:
    """R18: while the next epoch flows through, each read of all three has them at one barrier."""
    words = world.job("words")
    counts = world.job("counts", inputs=[state(words.outputs[0])])
    histogram = world.job("histogram", inputs=[state(counts.outputs[0])])
    barriers = []

    def read_all() -> None:
        cut = world.cut("words", "counts", "histogram")
        found, number = world.rows_of(cut), (cut.barrier - barrier(0)).days
        barriers.append(number)
        assert Counter(value for _, value in found["words"]) == Counter(
            VOCABULARY[word] for word in text_up_to(number)
        )
        different = [(epoch, len(set(text_up_to(epoch)))) for epoch in range(1, number + 1)]
        assert found["counts"] == different
        assert found["histogram"] == [
            (epoch, sum(many for _, many in different[:epoch])) for epoch in range(1, number + 1)
        ]

    for number, text in WORDS.items():
        world.run(words, day(number), [VOCABULARY[word] for word in text.split()])
        for job, source in ((counts, "words"), (histogram, "counts")):
            if number > 1:
                read_all()
            attempt = world.begin(job, day(number))
            read = read_rows(world.coordinator, attempt, source)
            assert read is not None
            values = read["value"].to_pylist()
            result = len(set(values)) if source == "words" else sum(values)
            write_rows(world.coordinator, attempt, str(job.name), rows([result], attempt.token))
            world.coordinator.publish(attempt)
        read_all()
    assert barriers == [1, 1, 1, 2, 2, 2, 3]


def test_der3_in_a_cut_the_derived_row_comes_from_the_row_beside_it(world: World) -> None:
    """R18: K in T1 and K in T2 of one cut: the second was computed from the first, at every step of a re-run."""
    source, derived = world.job("t1"), world.job("t2", inputs=[world.table("t1")])

    def derive(number: int, by: str) -> Attempt:
        attempt = world.begin(derived, day(number), owner(by))
        read = read_rows(world.coordinator, attempt, "t1")
        assert read is not None
        values = [10 * value for value in read["value"].to_pylist()]
        write_rows(world.coordinator, attempt, "t2", rows(values, attempt.token))
        return attempt

    def check() -> None:
        found = world.rows("t1", "t2")
        assert found["t2"] == [(number, 10 * value) for number, value in found["t1"]]

    world.run(source, day(1), [1])
    world.coordinator.publish(derive(1, "first"))
    check()
    world.run(source, day(2), [2])
    check()
    late = derive(2, "first")
    world.run(source, day(2), [3], owner("corrected"))
    check()
    with pytest.raises(Exception, match="computed again meanwhile"):
        world.coordinator.publish(late)
    check()
    world.coordinator.publish(derive(2, "first"))
    check()
    assert world.rows("t1", "t2") == {"t1": [(1, 1), (2, 3)], "t2": [(1, 10), (2, 30)]}
