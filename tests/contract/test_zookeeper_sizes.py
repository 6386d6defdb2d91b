"""A publish that is too large for one of ZooKeeper's transactions: refused whole, by its size, and possible later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.zookeeper import planning
from airflow_provider.testing.servers.zookeeper import ZookeeperServer
from tests.contract.coordination_world import World, day
from tests.contract.server_worlds import ServerBackend, zookeeper_place

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


def test_a_publish_that_does_not_fit_changes_nothing_and_says_what_to_do(
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
