"""Compactions and vacuums that cannot go on: what they end with, and when they look again (R24, R41)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider.coordination.commits import regroup
from airflow_provider.coordination.upkeep import compact as compacting
from airflow_provider.domain.errors import Conflict, ForeignCommit, Unavailable
from airflow_provider.domain.topology import increment
from airflow_provider.domain.version import HeldFile
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.restating import opened, published, restated
from tests.contract.test_coordination_compacting import PAST_GRACE, compact, job_of, loaded, seen
from tests.contract.test_coordination_foreign import commit


def test_an_epoch_that_cannot_be_separated_from_others_is_not_replaced(
    file_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41: its new rows would come beside the old ones, which the file of the unit would keep."""
    world = file_world
    loaded(world)
    compact(world)
    separations = regroup.separations

    def strange(*given: Any) -> Iterator[Any]:
        return (replace(found, obstacle="files whose layout is gone") for found in separations(*given))

    attempt = world.begin(job_of(world), day(29), owner("again"))
    world.write(attempt, [77])
    with monkeypatch.context() as patched:
        patched.setattr(regroup, "separations", strange)
        with pytest.raises(Unavailable, match="cannot be replaced: it has files whose layout is gone"):
            world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": seen()}
    world.coordinator.publish(attempt)
    assert world.rows("t") == {"t": seen(d29=77)}


def test_a_compaction_that_others_always_overtake_gives_up(
    file_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R41: it says so, instead of having nothing to do."""

    def overtaken(*_: object) -> None:
        raise regroup.Overtaken

    loaded(file_world)
    monkeypatch.setattr(compacting, "_regroup", overtaken)
    with pytest.raises(Conflict, match="table 't'"):
        compact(file_world)


@pytest.mark.parametrize("moved", [True, False])
def test_a_compaction_looks_again_where_the_table_has_moved(
    file_world: World, monkeypatch: pytest.MonkeyPatch, *, moved: bool
) -> None:
    """R41: an error of a version that is the newest no more says nothing; that of the newest one stands."""
    world, calls = file_world, []
    loaded(world)
    table_format = type(world.formats["iceberg"])
    held = table_format.held

    def lost(*given: Any) -> Sequence[HeldFile]:
        calls.append(given)
        if len(calls) > 1 and moved:
            return held(*given)
        if moved:
            world.run(job_of(world), day(34), [34])
        raise Unavailable("a file is missing.", next_step="none.")

    monkeypatch.setattr(table_format, "held", lost)
    if moved:
        assert len(compact(world)) == 1
        assert world.rows("t") == {"t": [*seen(), (34, 34)]}
    else:
        with pytest.raises(Unavailable, match="a file is missing"):
            compact(world)
        assert len(calls) == 1


def test_a_vacuum_does_not_look_for_a_lost_file_without_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R24: it decides anew where another vacuum was there; where nothing has changed, the error stands."""
    job, calls = world.job("t"), []
    for run in ("first", "again"):
        world.run(job, day(1), by=owner(run))
    world.clock.advance(PAST_GRACE)

    def lost(*given: Any) -> Any:
        calls.append(given)
        assert len(calls) < 3
        raise Unavailable("a file is missing.", next_step="none.")

    monkeypatch.setattr(type(world.formats[world.table_format]), "vacuum", lost)
    with pytest.raises(Unavailable, match="a file is missing"):
        world.retention.vacuum(DOMAIN)
    assert len(calls) == 1


def test_a_restatement_within_a_unit_says_what_another_program_has_added(file_world: World) -> None:
    """R17, R28, R41: its epoch does not get files of its own from under rows that readers keep from being adopted."""
    world = file_world
    base = job_of(world, outputs=[world.table("t", on_foreign_commit="adopt")])
    copy = job_of(world, "c", inputs=[increment(world.table("t"))])
    loaded(world, base, copy)
    compact(world)
    opened(world, "t", 29)
    for job in (base, copy):
        restated(world, job, 29, [290])
    commit(world, "t", "append", {29: [7]})
    before = world.exactly()
    with pytest.raises(ForeignCommit, match="another program wrote to it"):
        published(world)
    assert world.exactly() == before
