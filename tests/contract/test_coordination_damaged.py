"""Files of Iceberg's metadata that are damaged: they are named, and nothing of a state is left out (R22)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.errors import Unavailable
from airflow_provider.tables.factory import open_formats
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.test_coordination_upkeep import PAST_GRACE, ref_of

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "a flipped bit": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
}


def damaged(world: World, pattern: str, damage: str, table: str = "t") -> list[Path]:
    assert world.warehouse is not None
    found = [path for path in world.warehouse.rglob(pattern) if f"/{table}/" in str(path)]
    for path in found:
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    return found


def fresh(world: World) -> World:
    """The same to a process that has read nothing yet."""
    place = world.warehouse.parent  # type: ignore[union-attr]
    url = f"sqlite:///{world.path}"
    catalog = f"sqlite:///{world.pointers.path}"  # type: ignore[attr-defined]
    world.formats.close()
    world.formats = open_formats(url, f"file://{place}/warehouse", catalog)
    world.coordinator, world.cuts = world.worker(), Cuts(world.store, world.formats)
    return world


def histories(world: World) -> None:
    for number in (1, 2):
        world.run(world.job("t"), day(number), [number])
    world.run(world.job("other"), day(1), [1])


@pytest.mark.parametrize("damage", ["half", "zeros"])
def test_the_epochs_of_damaged_manifests_are_computed_again(file_world: World, damage: str) -> None:
    """R22, I6: no cut reads them, doctor names them beside all else, and a vacuum takes what they leave."""
    histories(file_world)
    (lost,) = damaged(file_world, "*-20240102T*-r1-*/*.avro", damage)
    world = fresh(file_world)
    with pytest.raises(Unavailable, match=f"{lost.name} is damaged"):
        world.rows("t")
    assert world.rows("other") == {"other": [(1, 1)]}
    (symptom,) = examine(world.store, world.formats, DOMAIN).urgent
    assert symptom.subject == "files of t"
    assert f"1 files are missing or damaged: file://{lost}" in symptom.found
    world.run(world.job("t"), day(1), [11], owner("again"))
    assert world.rows("t") == {"t": [(1, 11), (2, 2)]}
    world.clock.advance(PAST_GRACE)
    assert f"file://{lost}" in world.keeper().vacuum(DOMAIN).deleted
    assert world.rows("t") == {"t": [(1, 11), (2, 2)]}


def test_a_damaged_list_is_named(file_world: World) -> None:
    """R22, R24: by readers, by doctor beside all else, and by a publish; a vacuum deletes nothing of that table."""
    histories(file_world)
    lists = damaged(file_world, "snap-*.avro", "a flipped bit")
    world = fresh(file_world)
    newest = str(ref_of(world).location)
    data = world.data()
    attempt = world.begin(world.job("t"), day(3))
    world.write(attempt)
    world.clock.advance(PAST_GRACE)
    for ask in (
        lambda: world.rows("t"),
        lambda: world.coordinator.publish(attempt),
        lambda: world.keeper().vacuum(DOMAIN),
    ):
        with pytest.raises(Unavailable, match="is damaged") as refused:
            ask()
        assert str(refused.value.uri).removeprefix("file://") in map(str, lists)
    assert data <= world.data()
    found = {symptom.subject: symptom.found for symptom in examine(world.store, world.formats, DOMAIN).urgent}
    assert newest in found["files of t"]


def test_a_damaged_description_is_named(file_world: World) -> None:
    """R22: it is needed to publish; states are read without it, and other tables are looked at all the same."""
    histories(file_world)
    damaged(file_world, "*.metadata.json", "half")
    world = fresh(file_world)
    pointer = str(world.pointers.pointer(DOMAIN, "t"))
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}
    with pytest.raises(Unavailable, match=f"{pointer} is damaged"):
        world.run(world.job("t"), day(3), [3])
    found = examine(world.store, world.formats, DOMAIN).urgent
    assert [symptom.subject for symptom in found] == ["table t"]
    assert pointer in found[0].found
