"""A program that forks once its coordination is open: what the children do is not one request."""

from __future__ import annotations

import os
import pickle

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Fenced
from airflow_provider.domain.topology import Job
from tests.contract.coordination_world import World, day, owner

ON_EVERY_STORE = pytest.mark.parametrize(
    "backend",
    [
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.slow),
        pytest.param("zookeeper", marks=pytest.mark.slow),
    ],
    indirect=True,
)
"""But not in memory, which children do not share."""


def in_a_child(coordinator: EpochService, job: Job) -> Attempt:
    """Begin the first epoch of *job* in a fork of this process, as the owner of all children."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt = coordinator.begin(job, day(1), owner("nightly"))
            os.write(writing, pickle.dumps(attempt))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found: Attempt = pickle.load(pipe)  # noqa: S301 - of our own child
    os.waitpid(child, 0)
    return found


@ON_EVERY_STORE
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork1_two_children_begin_one_epoch(world: World) -> None:
    """R10: request ids are drawn by the child, so that the second begin is another request and fences the first."""
    coordinator = EpochService(world.store, world.formats, clock=world.clock)
    job = world.job("d")
    coordinator.register(job)
    first, second = (in_a_child(coordinator, job) for _ in range(2))
    assert (first.token, second.token) == (1, 2)
    with pytest.raises(Fenced):
        world.coordinator.heartbeat(first)
    world.coordinator.heartbeat(second)
