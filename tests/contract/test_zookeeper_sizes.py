"""A publish that is too large for one of ZooKeeper's transactions: refused whole, by its size, and possible later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from airflow_provider.domain.epoch import EpochState
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.participation import MOST_PARTICIPANTS, most_participants
from airflow_provider.domain.records import event_key
from airflow_provider.domain.together import MOST_TOGETHER
from airflow_provider.domain.topology import Job, Table, increment
from airflow_provider.stores.base import Absent, Transaction
from airflow_provider.stores.requests import checked
from airflow_provider.stores.zookeeper import planning
from airflow_provider.stores.zookeeper.known import SeenHead
from airflow_provider.stores.zookeeper.paths import Paths
from tests.contract.coordination_world import ORIGIN, World, day
from tests.contract.server_worlds import ServerBackend, zookeeper_place
from tests.servers.zookeeper import ZookeeperServer

HOUR = timedelta(hours=1)
TABLES = 40
ROOM = 30
"""So many of the tables fit, where the bound is lowered to what they take."""


@pytest.fixture
def world(zookeeper: ZookeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("sizes")
    backend = ServerBackend("zookeeper", directory, directory / "none.db", place=zookeeper_place(zookeeper))
    world = backend.world()
    yield world
    world.close()


def test_oversized_publish_changes_nothing_and_names_a_next_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"table-{number}" for number in range(TABLES)]
    job = world.job("wide", [world.table(name) for name in names])
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])
    world.coordinator.complete(attempt)
    before = world.commits()
    state = world.coordinator.epoch(job.domain, job.name, day(1))
    pointers = {world.pointers.pointer(job.domain, name) for name in names}
    with monkeypatch.context() as patch:
        patch.setattr(planning, "MAX_TRANSACTION_BYTES", ROOM * planning.MAX_TRANSACTION_BYTES // 500)
        with pytest.raises(InvalidInput, match="compressed; at most") as refused:
            world.coordinator.publish(attempt)
    assert refused.value.field == "transaction"
    assert isinstance(refused.value.value, int)
    assert "publish fewer tables" in refused.value.next_step
    assert world.commits() == before
    assert world.coordinator.epoch(job.domain, job.name, day(1)) == state
    assert {world.pointers.pointer(job.domain, name) for name in names} == pointers
    published = world.coordinator.publish(attempt)
    assert published.csn == len(before) + 1
    assert world.rows(*names) == {name: [(1, 1)] for name in names}


def test_as_many_epochs_as_are_accepted_fit_into_one_commit(world: World) -> None:
    """R27: of three tables, each with an input, on the store with the smallest transactions."""
    tables = [world.table(f"t{number}") for number in range(3)]
    source = world.job("source", cadence="@hourly")
    job = world.job("wide", tables, inputs=[increment(source.outputs[0])], cadence="@hourly")
    hours = [Interval(ORIGIN + each * HOUR, ORIGIN + (each + 1) * HOUR) for each in range(MOST_TOGETHER)]
    for each in (source, job):
        attempts = [world.begin(each, hour) for hour in hours]
        for attempt in attempts:
            world.write(attempt)
            world.coordinator.complete(attempt)
        world.coordinator.publish_together(attempts)
    assert len(world.commits()) == 2
    assert world.cut("t0", "t2").barrier == hours[-1].end


@pytest.mark.parametrize("name", ["d", "d" * 255, "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 85])
def test_as_many_participants_as_are_accepted_fit_into_any_store(name: str) -> None:
    """R10: what publish requires of them takes at most two thirds of ZooKeeper's transaction, the smallest."""
    domain = DomainName(name)
    declared = Job(name, outputs=[Table("t", domain=name)], cadence="@daily")
    most = most_participants(declared)
    assert 100 <= most <= MOST_PARTICIPANTS
    epoch = declared.epoch(day(1))
    keys = [
        event_key(epoch, 1, EpochState.OPEN, participant=number, participant_attempt=2)
        for number in range(most)
    ]
    request = checked(
        Transaction(domain=domain, requires=tuple(Absent(key) for key in keys), updates=()), frozenset()
    )
    paths = Paths("/epochs")
    folders = {folder for key in keys for folder in paths.parents(paths.record(key))}
    view = planning.View(
        records=dict.fromkeys(planning.touched(request)),
        floors={},
        folders=folders,
        head=SeenHead(),
        incarnation=None,
    )
    size = sum(operation.size_bytes for operation in planning.plan(request, view, paths).operations)
    assert size < planning.MAX_TRANSACTION_BYTES * 3 // 4
