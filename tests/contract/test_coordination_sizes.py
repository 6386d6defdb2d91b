"""What does not fit into a record is refused before any work is done, and what has begun fits until it is published."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.records import Kind, epoch_key
from airflow_provider.domain.topology import Job, state
from airflow_provider.stores import codec
from tests.contract.coordination_world import DOMAIN, World, day, owner

MANY = 12


def reader(world: World) -> Job:
    """A job of as many inputs as tables, each of which has been committed."""
    names = [f"t{number:02}" for number in range(MANY)]
    for name in names:
        world.run(world.job(name), day(1), [1])
    outputs = [world.table(f"out{number:02}") for number in range(MANY)]
    job = world.job("reader", outputs, inputs=[state(world.table(name)) for name in names])
    world.coordinator.register(job)
    return job


def begins(world: World, job: Job) -> None:
    world.begin(job, day(1))


def leases(world: World, job: Job) -> None:
    names = [str(edge.table) for edge in job.edges]
    world.leases.cut(DOMAIN, names, name="mine", owner="me")


@pytest.mark.parametrize(
    ("work", "kind"),
    [(begins, Kind.EPOCH), (leases, Kind.LEASE)],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_oversized_record_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, work: Callable[[World, Job], None], kind: Kind
) -> None:
    """R10, R19: there is neither an attempt nor a lock; the message names the record, its bytes and the limit."""
    job = reader(world)
    before = world.exactly()
    monkeypatch.setattr(codec, "MAX_RECORD_BYTES", 2_000)
    with pytest.raises(InvalidInput) as refused:
        work(world, job)
    assert refused.value.field == f"record of {kind}"
    assert isinstance(refused.value.value, int)
    assert refused.value.value > 2_000
    assert refused.value.expected == "at most 2000 bytes"
    assert world.exactly() == before
    monkeypatch.undo()
    work(world, job)


@pytest.mark.parametrize("revision", [1, 2])
def test_an_epoch_that_could_begin_can_be_published(
    world: World, monkeypatch: pytest.MonkeyPatch, revision: int
) -> None:
    """R2, R10: its record is at its largest when the attempt is open, beside what is committed and was given up."""
    job = reader(world)
    for number in range(1, revision):
        world.run(job, day(1), by=owner(f"run {number}"))
    dead = world.begin(job, day(1), owner("last"))
    world.write(dead, sinks=["out00"])
    attempt = world.begin(job, day(1), owner("last", try_number=2))
    key = epoch_key(DOMAIN, job.name, day(1).start)
    size = len(codec.encode(key, world.store.read(DOMAIN, [key]).records[key].record))
    monkeypatch.setattr(codec, "MAX_RECORD_BYTES", size)
    world.write(attempt)
    world.coordinator.complete(attempt)
    assert world.coordinator.publish(attempt).revision == revision
