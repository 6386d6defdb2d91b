"""Moves of a domain beside other programs, and after a restore of the store that is left (R33)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.attempts.bounds_provider import as_provider
from airflow_provider.coordination.upkeep import move as moving
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.move import MovedDomain, move_domain
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, EpochBusy
from airflow_provider.domain.records import topology_key
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.stores.base import Exists, Put, SameStore, Transaction
from tests.contract.coordination_world import DOMAIN, Backend, World, day, owner
from tests.contract.interruptions import Died, Interruption, worker
from tests.contract.test_coordination_calendars import files
from tests.contract.test_coordination_restoring import renewed

FEED = FileSource("feed", "/feed/{start}", late="ignore")


def target_of(backend: Backend, source: World) -> World:
    """Return an empty world on SQLite, whose tables are where those of *source* are."""
    target = Backend("sqlite", backend.directory, backend.template).world()
    renewed(target)  # worlds on files are copies of one empty store
    target.pointers.objects = source.pointers.objects
    return target


def moved(source: World, target: World) -> MovedDomain:
    contexts = source.worker().context, target.worker().context
    return move_domain(*contexts, DOMAIN, source_place="here", target_place="there")


def topology(world: World) -> TopologyRecord:
    key = topology_key(DOMAIN)
    return world.store.read(DOMAIN, [key]).of(key).record


def rewritten(world: World, **changed: Any) -> None:
    """Write the topology with some fields *changed*, as another program does."""
    key = topology_key(DOMAIN)
    reading = world.store.read(DOMAIN, [key])
    record = replace(reading.of(key).record, **changed)
    world.store.transact(
        Transaction(
            domain=DOMAIN,
            store=SameStore(reading.head.incarnation),
            requires=(Exists(key, reading.of(key).version),),
            updates=(Put(key, record),),
        )
    )


def computed(world: World, job: Job) -> None:
    attempt = world.begin(job, day(1), sources=files("then"))
    world.write(attempt, [1])
    world.coordinator.publish(attempt)


def bound_anew(world: World) -> None:
    bind(world.coordinator.context, DOMAIN, "feed", day(1), as_provider(files("now")), reason="new", by="me")


def test_a_refused_move_takes_its_seal_off_although_others_have_written_the_topology(
    world: World, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I9, R33: the attempt that it has met publishes an epoch that was behind its source, which ends the mark."""
    target, job = target_of(backend, world), world.job("j", inputs=[FEED])
    computed(world, job)
    bound_anew(world)
    live = world.begin(job, day(1), owner("again"), sources=files("now"))
    world.write(live, [2])
    found = moving.live_attempts

    def meanwhile(*arguments: object) -> list[str]:
        held = list(found(*arguments))  # type: ignore[arg-type]
        world.worker().publish(live)
        return held

    monkeypatch.setattr(moving, "live_attempts", meanwhile)
    with pytest.raises(EpochBusy):
        moved(world, target)
    (ended,) = topology(world).behind
    assert ended.until == 2, "the attempt has published meanwhile, and has written the topology"
    assert topology(world).move is None
    target.close()


def test_a_repeated_move_takes_the_topology_of_a_restored_source(
    world: World, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R18, R33: marks and labels that it has got since the first try are in the target, too."""
    target, job = target_of(backend, world), world.job("j", inputs=[FEED])
    computed(world, job)

    def dies(_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(moving._Mover, "_move_pointers", dies)
        with pytest.raises(Died):
            moved(world, target)
    rewritten(world, move=None)  # as the restore of a backup from before the move does
    bound_anew(world)
    labels = world.cut("j").outdated
    assert labels
    moved(world, target)
    assert topology(target).behind == topology(world).behind != ()
    assert target.cut("j").outdated == labels
    target.close()


def test_a_move_compares_the_record_of_the_domain(
    world: World, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R33: a program that goes on beside the seal, such as a vacuum, has written it after it was copied."""
    target = target_of(backend, world)
    world.run(world.job("j"), day(1), [1])
    pointers = moving._Mover._move_pointers

    def meanwhile(mover: moving._Mover) -> list[str]:
        rewritten(world, tokens=7)
        return pointers(mover)

    with monkeypatch.context() as patched:
        patched.setattr(moving._Mover, "_move_pointers", meanwhile)
        with pytest.raises(Conflict) as refused:
            moved(world, target)
    assert refused.value.keys == (topology_key(DOMAIN),)
    moved(world, target)
    assert topology(target).tokens == 7
    target.close()


def test_a_move_repairs_a_pointer_that_lags(quick_path: Path, empty_sqlite: Path) -> None:
    """R17: a publisher died before it moved the pointer in a catalog elsewhere; the target has its catalog inside."""
    elsewhere = Backend("memory elsewhere", quick_path, empty_sqlite)
    source = elsewhere.world()
    target, job = target_of(elsewhere, source), source.job("j")
    source.run(job, day(1), [1])
    dying = source.begin(job, day(2), owner("dying"))
    assert isinstance(dying, Attempt)
    source.write(dying, [2])

    def die() -> None:
        raise Died

    with pytest.raises(Died):
        worker(source, Interruption(0, die, "table.published")).publish(dying)
    assert len(source.engine_rows("j")) == 1, "the pointer lags"
    moved(source, target)
    target.run(target.job("j"), day(3), [3])
    assert len(target.engine_rows("j")) == 3
    for site in (source, target):
        site.close()
