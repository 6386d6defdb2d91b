"""Restatements as programs in plain Python hold them: planned, opened, looked at, approved, published or abandoned."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.client.epochs import Epochs
from airflow_provider.client.restatements import Restatement, default_name
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady, TopologyError, UnknownName
from airflow_provider.domain.topology import Job, Table, state
from tests.contract.coordination_world import (
    DOMAIN,
    ORIGIN,
    Backend,
    World,
    barrier,
    day,
    owner,
    values_of,
)

DAY = "2024-01-01"
WHY = "the source was wrong"
NO_DIGESTS: list[Any] = ["", "json", "5e", "A" * 64, None, 7]


@pytest.fixture(params=["memory", "sqlite", "iceberg"])
def world(request: pytest.FixtureRequest, quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """Two days of a base and of a full table that counts it; where rows are read, with each kind of table."""
    made = Backend(request.param, quick_path, empty_sqlite).world()
    computed(made)
    yield made
    made.close()


@pytest.fixture
def quick_world(quick_path: Path, empty_sqlite: Path) -> Iterator[World]:
    """The same in memory, where store and table make no difference."""
    made = Backend("memory", quick_path, empty_sqlite).world()
    computed(made)
    yield made
    made.close()


def jobs(world: World) -> tuple[Job, Job]:
    base = world.job("base", [world.table("b")])
    return base, world.job("count", [world.table("c", kind="full")], inputs=[state(world.table("b"))])


def computed(world: World) -> None:
    base, count = jobs(world)
    for number in (1, 2):
        world.run(base, day(number), [number])
        world.run(count, day(number), [number])


def opened(world: World) -> Epochs:
    return Epochs(world.worker(), DOMAIN)


def restated(
    world: World, name: str, job: Job, number: int, values: Sequence[int], *, generation: int = 0
) -> None:
    attempt = world.coordinator.begin_within(name, job, day(number), owner("restate", generation=generation))
    assert isinstance(attempt, Attempt)
    world.write(attempt, values)
    world.coordinator.complete(attempt)
    world.coordinator.stage(attempt)


def staged(world: World, found: Restatement) -> None:
    """Compute the three members of a restatement of the first day."""
    base, count = jobs(world)
    restated(world, found.name, base, 1, [10])
    restated(world, found.name, count, 1, [10])
    restated(world, found.name, count, 2, [12])


def test_restatement_is_looked_at_approved_and_published(world: World) -> None:
    """R28, R29: by one program; another one gets the handle by its name."""
    epochs = opened(world)
    planned = epochs.plan_restatement(world.table("b"), DAY)
    assert {found.job: len(found.intervals) for found in planned.members} == {"base": 1, "count": 2}
    assert (planned.obstacles, epochs.restatements()) == ((), [])
    found = epochs.restate("b", DAY, reason=WHY, by="ada", name="mend", needs_approval=True)
    with pytest.raises(NotReady):
        found.diff()
    staged(world, found)
    found = epochs.restatement("mend")
    output = found.status().output
    rows = {
        name: (values_of(change.removed), values_of(change.added)) for name, change in found.diff().items()
    }
    assert rows == {"b": ([(1, 1)], [(1, 10)]), "c": ([(2, 2)], [(2, 12)])}
    assert [*found.diff(world.table("c"))] == ["c"]
    cut = found.cut(["b", "c"], at=barrier(1))
    assert {name: values_of(cut[name].to_arrow()) for name in cut} == {"b": [(1, 10)], "c": [(1, 10)]}
    assert cut.sql("SELECT max(value) AS value FROM c").to_pylist() == [{"value": 10}]
    assert world.rows("b") == {"b": [(1, 1), (2, 2)]}
    with pytest.raises(InvalidInput, match="it has no approval"):
        found.publish()
    found.approve(output)
    csn = found.publish()
    assert (csn, found.publish(), found.status().csn) == (5, 5, 5)
    assert (found.record.by, found.record.approved_by) == ("ada", getpass.getuser())
    assert world.rows("b", "c") == {"b": [(1, 10), (2, 2)], "c": [(2, 12)]}


def test_approval_is_of_the_output_that_was_looked_at(quick_world: World) -> None:
    found = opened(quick_world).restate("base", DAY, reason=WHY, needs_approval=True)
    staged(quick_world, found)
    output = found.status().output
    restated(quick_world, found.name, jobs(quick_world)[1], 2, [13], generation=1)
    with pytest.raises(Conflict):
        found.approve(output, by="boss")
    for bad in NO_DIGESTS:
        with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
            found.approve(bad, by="boss")
    assert not found.record.approved


def test_abandoned_restatement_leaves_the_epochs_to_others(quick_world: World) -> None:
    epochs = opened(quick_world)
    found = epochs.restate("base", DAY, reason=WHY, name="mend")
    staged(quick_world, found)
    found.abandon("it was right", by="ada")
    found.abandon("it was right", by="ada")
    assert found.record.ended == "it was right (ada)"
    with pytest.raises(InvalidInput, match="was abandoned"):
        found.publish()
    again = epochs.restate("base", DAY, reason=WHY, name="again")
    assert [restatement.name for restatement in epochs.restatements()] == ["again", "mend"]
    assert repr(again) == f"<restatement 'again' in {DOMAIN}>"


def test_held_epochs_join_or_are_released(quick_world: World) -> None:
    """R28: by the name of their job, or several; the author is the user who runs the program."""
    world = quick_world
    for name in ("h", "i"):
        edge = state(world.table("b"), on_upstream_revision="hold")
        world.run(world.job(name, inputs=[edge]), day(1), [1])
    found = opened(world).restate("base", DAY, reason=WHY, name="mend")
    staged(world, found)
    assert [epochs.job for epochs in found.status().held] == ["h", "i"]
    with pytest.raises(NotReady, match="h .*i "):
        found.publish()
    for bad in (None, 7, [], [7], "nobody", "count"):
        with pytest.raises((InvalidInput, UnknownName)):
            found.join(bad)  # type: ignore[arg-type]
        with pytest.raises((InvalidInput, UnknownName)):
            found.release(bad, "sent")  # type: ignore[arg-type]
    (joined,) = found.join("h")
    (released,) = found.release(["i"], "it was sent", by="ada")
    assert (joined.job, released.job, found.status().held) == ("h", "i", ())
    assert [made.by for made in found.record.decisions] == [getpass.getuser(), "ada"]
    restated(
        world, "mend", world.job("h", inputs=[state(world.table("b"), on_upstream_revision="hold")]), 1, [2]
    )
    csn = found.publish()
    assert [(label.table, label.csn) for label in world.cut("h", "i").outdated] == [("i", csn)]


def test_same_call_with_the_same_name_is_the_same_restatement(quick_world: World) -> None:
    epochs = opened(quick_world)
    first = epochs.restate(["b"], DAY, reason=WHY, name="mend", lifetime=timedelta(days=1))
    again = epochs.restate(["b"], DAY, reason=WHY, name="mend", lifetime=timedelta(days=2))
    assert first.record == again.record
    with pytest.raises(InvalidInput, match="exists"):
        epochs.restate(["b"], DAY, reason="another", name="mend")
    with pytest.raises(TopologyError, match="restatement 'mend' computes"):
        epochs.restate(["b"], DAY, reason=WHY)


def test_default_name_has_the_first_job_and_the_start(quick_world: World) -> None:
    base, count = jobs(quick_world)
    found = opened(quick_world).restate([count, base], "2023-12-25/2024-01-03", reason=WHY)
    assert re.fullmatch(r"count-2024-01-01-[0-9a-f]{4}", found.name)


@pytest.mark.parametrize(
    ("first", "hours", "shown"),
    [
        ("rides", 0, r"rides-2024-01-01"),
        ("rides", 5, r"rides-2024-01-01T0500"),
        ('größe & "co" <x>', 0, r"gr-e-co-x-2024-01-01"),
        ("-- $(x)", 0, r"x-2024-01-01"),
        ("ß", 0, r"restatement-2024-01-01"),
        ("x" * 255, 0, r"x{80}-2024-01-01"),
    ],
)
def test_default_name_needs_no_quotes(first: str, hours: int, shown: str) -> None:
    assert re.fullmatch(rf"{shown}-[0-9a-f]{{4}}", default_name(first, ORIGIN + timedelta(hours=hours)))


@pytest.mark.parametrize(
    ("asked", "domain", "error"),
    [
        ("nobody", None, UnknownName),
        ("b", "other", UnknownName),
        (Table("b", DOMAIN), "other", InvalidInput),
        ([Table("b", DOMAIN), Table("b", "other")], None, InvalidInput),
        ([Table("b", "other"), "count"], None, InvalidInput),
        ([], None, InvalidInput),
        (None, None, InvalidInput),
        (7, None, InvalidInput),
        ([7], None, InvalidInput),
        ("a/b", None, InvalidInput),
    ],
)
def test_jobs_and_tables_are_of_one_domain(
    quick_world: World, asked: Any, domain: str | None, error: type[Exception]
) -> None:
    epochs = opened(quick_world)
    with pytest.raises(error):
        epochs.plan_restatement(asked, DAY, domain=domain)
    with pytest.raises(error):
        epochs.restate(asked, DAY, reason=WHY, domain=domain)
    assert epochs.restatements() == []


@pytest.mark.parametrize(
    "options",
    [
        {"reason": " "},
        {"by": ""},
        {"name": ""},
        {"name": "a/b"},
        {"lifetime": timedelta(0)},
        {"lifetime": 7},
    ],
)
def test_bad_options_open_nothing(quick_world: World, options: dict[str, Any]) -> None:
    epochs = opened(quick_world)
    with pytest.raises(InvalidInput):
        epochs.restate("b", DAY, **{"reason": WHY, **options})
    with pytest.raises(InvalidInput):
        epochs.restate("b", "2024-03-01", reason=WHY)
    assert epochs.restatements() == []


def test_tables_of_another_domain_or_job_are_refused(quick_world: World) -> None:
    epochs = opened(quick_world)
    quick_world.run(quick_world.job("aside"), day(1))
    found = epochs.restate("b", DAY, reason=WHY)
    staged(quick_world, found)
    for ask in (found.cut, found.diff):
        with pytest.raises(InvalidInput, match=r"other\.b"):
            ask(Table("b", "other"))
    with pytest.raises(InvalidInput, match=r"tables that restatement .* computes again: b, c"):
        found.diff(["b", "aside"])
    with pytest.raises(UnknownName):
        epochs.restatement("nothing")
    with pytest.raises(UnknownName):
        epochs.restatement(found.name, domain="other")
