"""Labels of rows behind an ``ignore`` edge last as long as the rows, whatever their job declares later (R18)."""

from __future__ import annotations

import pytest

from airflow_provider.domain.topology import Job, increment, state
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner


@pytest.mark.parametrize("then", ["declares it", "leaves it", "retires it"])
def test_copies_of_a_full_table_keep_the_label_when_its_job_has_left_it(world: World, then: str) -> None:
    """R5, R18: the copy that a skip made has the rows of the day before, which ignore a revision."""
    full, table = world.table("f", kind="full"), world.table("t")
    edge = increment(world.table("u"), on_upstream_revision="ignore")
    source, job = world.job("u"), world.job("j", [table, full], inputs=[edge])
    for number in (1, 2):
        world.run(source, day(number), [number])
    world.run(job, day(1), [1])
    world.coordinator.skip(DOMAIN, "j", day(2), "nothing came", by="ada")
    again = world.run(source, day(1), [10], owner("cleared"))
    if then != "declares it":
        world.coordinator.register(world.job("j", [table], inputs=[edge]))
    if then == "retires it":
        world.coordinator.retire(DOMAIN, "j", table="f", reason="over", by="ada")
    for number in (1, 2):
        found = world.cuts.cut(DOMAIN, ["f"], at=barrier(number)).outdated
        assert [(label.table, label.source, label.csn) for label in found] == [("f", "u", again.csn)]


@pytest.mark.parametrize("then", ["state", "increment"])
def test_epochs_keep_the_label_of_an_edge_that_was_declared_otherwise(world: World, then: str) -> None:
    """R18: the epochs of days 1 to 3 have read all of u; by an increment, only day 1 would have read day 1."""
    table = world.table("u")
    source, full = world.job("u"), [world.table("f", kind="full")]

    def job(kind: str) -> Job:
        edge = {"state": state, "increment": increment}[kind](table, on_upstream_revision="ignore")
        return world.job("j", full, inputs=[edge])

    for number in (1, 2, 3):
        world.run(source, day(number), [number])
        world.run(job("state"), day(number), [number])
    world.coordinator.register(job(then))
    again = world.run(source, day(1), [10], owner("cleared"))
    (label,) = world.cut("f").outdated
    assert (label.source, label.csn, label.end) == ("u", again.csn, barrier(3))


@pytest.mark.parametrize("others", [1, 250])
def test_an_epoch_that_commits_what_it_read_before_gets_its_label_at_once(world: World, others: int) -> None:
    """R18: in a process that has found no outdated epoch before, however many commits came between."""
    table, other = world.table("u"), world.job("o")
    source = world.job("u")
    job = world.job("j", inputs=[state(table, on_upstream_revision="ignore")])
    for number in (1, 2):
        world.run(source, day(number), [number])
    world.run(job, day(1), [1])
    slow = world.begin(job, day(2), owner("slow"))
    again = world.run(source, day(1), [10], owner("cleared"))
    world.run(job, day(1), [11], owner("cleared"))
    assert world.cut("j").outdated == ()
    world.write(slow, [3])
    for number in range(1, others):
        world.run(other, day(number), [number])
    world.coordinator.publish(slow)
    (label,) = world.cut("j").outdated
    assert (label.source, label.csn, label.start, label.end) == ("u", again.csn, barrier(1), barrier(2))
    world.run(job, day(2), [12], owner("cleared"))
    assert world.cut("j").outdated == ()
