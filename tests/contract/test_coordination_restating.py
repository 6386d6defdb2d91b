"""Restatements: committed epochs are computed again with all that has read them, and published whole (R28, R29)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt
from airflow_provider.domain.errors import Conflict, DependentReaders, InvalidInput, NotReady
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, increment, previous
from airflow_provider.testing.arrow_attempts import write_rows
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner, rows, values_of

NAME = "correct"


def opened(world: World, job: str, first: int, last: int | None = None, **options: object) -> None:
    span = Interval(barrier(first - 1), barrier(last or first))
    told = {"name": NAME, "reason": "the source was wrong", "by": "me", **options}
    world.coordinator.restatements.open(DOMAIN, [job], span, **told)  # type: ignore[arg-type]


def within(world: World, job: Job, number: int, by: Owner | None = None, name: str = NAME) -> Attempt:
    attempt = world.coordinator.begin_within(name, job, day(number), by or owner("restate"))
    assert isinstance(attempt, Attempt), attempt
    return attempt


def restated(
    world: World,
    job: Job,
    number: int,
    values: Sequence[int] | None = None,
    by: Owner | None = None,
    *,
    name: str = NAME,
) -> Attempt:
    """Compute one member; without *values* its row is 1 more than the sum of all rows that it reads."""
    attempt = within(world, job, number, by, name)
    write(world, attempt, values)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)
    return attempt


def write(world: World, attempt: Attempt, values: Sequence[int] | None) -> None:
    found = values if values is not None else [sum(read(world, attempt)) + 1]
    world.write(attempt, found)


def read(world: World, attempt: Attempt) -> list[int]:
    """Values of all rows that *attempt* reads."""
    found = []
    for given in attempt.inputs:
        state, schema = world.coordinator.input(attempt, given.table)
        if state.ref is None and not state.staged:
            continue
        found += [value for _, value in values_of(world.formats[world.table_format].read(state, schema))]
    return found


def computed(
    world: World, job: Job, number: int, values: Sequence[int] | None = None, run: str = "first"
) -> None:
    """Compute one epoch by itself, as :func:`restated` does."""
    attempt = world.begin(job, day(number), owner(run))
    write(world, attempt, values)
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)


def cascade(world: World) -> tuple[Job, Job, Job]:
    """A base, a job that reads each of its days, and one that adds to its own past."""
    base = world.job("b")
    daily = world.job("d", inputs=[increment(world.table("b"))])
    total = world.job("t", inputs=[increment(world.table("d")), previous(world.table("t"))])
    return base, daily, total


def published(world: World) -> int:
    return world.coordinator.restatements.publish(DOMAIN, NAME)


def sound(world: World) -> bool:
    lost = missing_files(world.store, world.formats, DOMAIN)
    return not [*stale_reads(world.store, DOMAIN), *lost]


def test_a_read_day_is_computed_again_with_all_that_has_read_it(table_world: World) -> None:
    """R18, R28, RES2: nothing is visible before the one commit; then all of it is."""
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2, 3):
        computed(world, base, number, [10 * number])
        computed(world, daily, number)
        computed(world, total, number)
    before = {name: world.rows(name)[name] for name in "bdt"}
    assert before["t"] == [(1, 12), (2, 34), (3, 78)]
    opened(world, "b", 2)
    record = world.coordinator.restatements.status(DOMAIN, NAME).record
    assert {found.job: [one.end for one in found.intervals] for found in record.members} == {
        "b": [barrier(2)],
        "d": [barrier(2)],
        "t": [barrier(2), barrier(3)],
    }
    with pytest.raises(NotReady):
        within(world, daily, 2)
    restated(world, base, 2, [1000])
    restated(world, daily, 2)
    with pytest.raises(NotReady):
        published(world)
    restated(world, total, 2)
    restated(world, total, 3)
    assert {name: world.rows(name)[name] for name in "bdt"} == before
    head = len(world.commits())
    csn = published(world)
    assert len(world.commits()) == head + 1 == csn
    assert published(world) == csn
    assert world.rows("b", "d", "t") == {
        "b": [(1, 10), (2, 1000), (3, 30)],
        "d": [(1, 11), (2, 1001), (3, 31)],
        "t": [(1, 12), (2, 1014), (3, 1058)],
    }
    assert sound(world)
    assert isinstance(world.coordinator.begin_within(NAME, daily, day(2), owner("restate")), AlreadyCommitted)
    computed(world, base, 4, [40])
    computed(world, daily, 4)
    computed(world, total, 4)
    assert sound(world)


def test_what_is_staged_is_looked_at_first(table_world: World) -> None:
    """R29: a cut of the restatement, and its differences; the approval is of exactly this."""
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2):
        for job in (base, daily, total):
            computed(world, job, number, [number] if job is base else None)
    opened(world, "b", 1, needs_approval=True)
    operations = world.coordinator.restatements
    for job, number in ((base, 1), (daily, 1), (total, 1)):
        restated(world, job, number, [100] if job is base else None)
    with pytest.raises(NotReady):
        operations.cut(DOMAIN, NAME, ["t"])
    restated(world, total, 2)
    seen = world.rows_of(operations.cut(DOMAIN, NAME, ["b", "d", "t"]))
    assert seen == {"b": [(1, 100), (2, 2)], "d": [(1, 101), (2, 3)], "t": [(1, 102), (2, 106)]}
    found = operations.differences(DOMAIN, NAME)
    assert {name: (values_of(one.removed), values_of(one.added)) for name, one in found.items()} == {
        "b": ([(1, 1)], [(1, 100)]),
        "d": ([(1, 2)], [(1, 101)]),
        "t": ([(1, 3), (2, 7)], [(1, 102), (2, 106)]),
    }
    with pytest.raises(InvalidInput, match="nobody has approved"):
        published(world)
    output = operations.status(DOMAIN, NAME).output
    operations.approve(DOMAIN, NAME, output=output, by="boss")
    restated(world, total, 2, [7], owner("restate", generation=1))
    with pytest.raises(InvalidInput, match="boss has approved other rows"):
        published(world)
    with pytest.raises(Conflict):
        operations.approve(DOMAIN, NAME, output=output, by="boss")
    operations.approve(DOMAIN, NAME, output=operations.status(DOMAIN, NAME).output, by="boss")
    published(world)
    assert world.rows("b", "d", "t") == {**seen, "t": [(1, 102), (2, 7)]}
    assert sound(world)


def test_a_restatement_is_taken_back(table_world: World) -> None:
    """R30, RES8: all of its epochs get the rows of before, unless later epochs have read them; retention meanwhile
    deletes none of these rows.
    """
    world = table_world
    base, daily, total = cascade(world)
    for number in (1, 2):
        for job in (base, daily, total):
            computed(world, job, number, [number] if job is base else None)
    before = world.rows("b", "d", "t")
    opened(world, "b", 1)
    for job, number in ((base, 1), (daily, 1), (total, 1), (total, 2)):
        restated(world, job, number, [100] if job is base else None)
    published(world)
    restated_rows = world.rows("b", "d", "t")
    operations, why = world.coordinator.restatements, {"reason": "it was right before", "by": "me"}
    world.clock.advance(timedelta(days=3))
    world.retention.vacuum(DOMAIN)
    computed(world, base, 3, [3])
    computed(world, daily, 3)
    assert world.rows("b", "d", "t") == restated_rows
    csn = operations.revert(DOMAIN, NAME, **why)
    assert operations.revert(DOMAIN, NAME, **why) == csn == len(world.commits())
    assert world.rows("b", "d", "t") == before
    assert sound(world)
    operations.revert(DOMAIN, f"{NAME}-reverted", **why)
    assert world.rows("b", "d", "t", at=barrier(2)) == restated_rows
    computed(world, total, 3)
    assert sound(world)


def test_a_restatement_with_later_readers_stays(world: World) -> None:
    """R30: the readers are listed, and nothing is changed."""
    base, daily, _ = cascade(world)
    computed(world, base, 1)
    opened(world, "b", 1)
    restated(world, base, 1, [100])
    published(world)
    computed(world, daily, 1)
    with pytest.raises(DependentReaders, match="have read its rows"):
        world.coordinator.restatements.revert(DOMAIN, NAME, reason="it was right before", by="me")
    assert world.rows("b") == {"b": [(1, 100)]}


def test_what_is_staged_stays(world: World) -> None:
    base, daily, _ = cascade(world)
    computed(world, base, 1)
    computed(world, daily, 1)
    opened(world, "b", 1)
    restated(world, base, 1, [5])
    assert isinstance(world.coordinator.begin_within(NAME, base, day(1), owner("other")), AlreadyStaged)
    again = within(world, base, 1, owner("restate", generation=1))
    assert write_rows(world.coordinator, again, "b", rows([6], 1))
