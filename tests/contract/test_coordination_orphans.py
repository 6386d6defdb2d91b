"""Files of attempts that no run begins again, and of zombies that write after they were fenced (R16)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.vacuum import Vacuumed
from airflow_provider.domain.checks import in_range
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt, EpochState
from airflow_provider.domain.errors import CheckFailed, Fenced
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.topology import Job, Table
from airflow_provider.domain.version import TableRef
from airflow_provider.tables.base import StagingFolder, StagingLocation
from airflow_provider.tables.pointer_status import Compared
from airflow_provider.testing.arrow_attempts import stage_rows, write_rows
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner, rows, side_by_side
from tests.contract.test_coordination_foreign import commit

PAST_GRACE = PAST_TTL + DEFAULTS.orphan_grace


def zombie_writes(world: World, attempt: Attempt) -> None:
    """A writer that does not know yet that it is over leaves files."""
    with suppress(Fenced):
        write_rows(world.coordinator, attempt, "t", rows([99], attempt.token))


def adopted(world: World, job: Job, values: Sequence[int] = (1,)) -> tuple[Attempt, Attempt]:
    """A try of the first day that died when its output was complete, and the one that goes on with it."""
    first = world.begin(job, day(1))
    world.write(first, values)
    world.coordinator.complete(first)
    second = world.begin(job, day(1), owner(try_number=2))
    assert second.adopted
    return first, second


def places(world: World) -> list[StagingFolder]:
    return world.formats[world.table_format].staged(world.table("t"), JobName("t"))


def staged(world: World) -> set[int]:
    """Tokens under which something lies."""
    return {place.token for place in places(world)}


def vacuum(world: World) -> Vacuumed:
    return world.retention.vacuum(DOMAIN)


def states(world: World, number: int) -> list[EpochState]:
    return [
        stamped.record.state
        for stamped in world.coordinator.barriers(DOMAIN, world.job("t").name, day(number))
    ]


def test_output_of_a_zombie_is_vacuumed(table_world: World) -> None:
    """R16: after the grace, and as often as it comes back; what was published stays."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    zombie_writes(world, zombie)
    assert vacuum(world).orphans == (), "its grace is not over"
    world.clock.advance(DEFAULTS.orphan_grace)
    for _ in range(2):
        assert staged(world) == {1, 2}
        (vacuumed,) = vacuum(world).orphans
        assert f"-t{zombie.token:010d}-" in vacuumed
        assert staged(world) == {2}
        assert world.rows("t") == {"t": [(1, 1)]}
        zombie_writes(world, zombie)


def test_orphans_of_a_former_owner_are_vacuumed(table_world: World) -> None:
    """R7, R16: a zombie of a retired job writes into the table that another one has now."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    world.coordinator.retire(DOMAIN, "t", reason="replaced", by="ada")
    world.run(world.job("successor", [world.table("t")]), day(2), [2])
    zombie_writes(world, zombie)
    world.clock.advance(PAST_GRACE)
    assert len(vacuum(world).orphans) == 1
    assert staged(world) == {2}
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}


def test_output_of_an_abandoned_epoch_is_vacuumed(table_world: World) -> None:
    """R16: complete output, too; the attempt is fenced first, so that no try adopts what is gone."""
    world = table_world
    dead = world.begin(world.job("t"), day(1))
    world.write(dead, [1])
    world.coordinator.complete(dead)
    world.clock.advance(PAST_TTL)
    assert vacuum(world).orphans == ()
    world.clock.advance(PAST_GRACE)
    vacuumed = vacuum(world)
    assert (len(vacuumed.orphans), len(vacuumed.ended)) == (0, 1), "it is over from now on"
    with pytest.raises(Fenced):
        world.coordinator.publish(dead)
    world.clock.advance(DEFAULTS.orphan_grace)
    assert len(vacuum(world).orphans) == 1
    assert staged(world) == set()
    assert EpochState.ABORTED in states(world, 1)
    retry = world.begin(world.job("t"), day(1), owner(try_number=2))
    assert not retry.adopted
    world.write(retry, [2])
    world.coordinator.publish(retry)
    assert world.rows("t") == {"t": [(1, 2)]}


def test_publishable_output_is_not_vacuumed(table_world: World) -> None:
    """R16: of a live attempt, of one that a retry may adopt, and of one that another has adopted."""
    world = table_world
    job = world.job("t")
    first = world.begin(job, day(1))
    world.write(first, [1])
    world.coordinator.complete(first)
    world.clock.advance(DEFAULTS.orphan_grace)
    assert vacuum(world).orphans == ()
    second = world.begin(job, day(1), owner(try_number=2))
    assert second.adopted
    world.clock.advance(DEFAULTS.orphan_grace)
    world.coordinator.heartbeat(second)
    assert vacuum(world).orphans == ()
    world.coordinator.publish(second)
    world.clock.advance(PAST_GRACE)
    assert vacuum(world).orphans == ()
    assert world.rows("t") == {"t": [(1, 1)]}


def test_adopted_output_is_no_orphan_after_the_next_revision(table_world: World) -> None:
    """R16, R19: its slice says under which token it lies; while a lease claims it, it is read."""
    world = table_world
    job = world.job("t")
    first = world.begin(job, day(1))
    world.write(first, [1])
    world.coordinator.complete(first)
    world.run(job, day(1), by=owner(try_number=2))
    lease = world.leases.acquire(world.cut("t"), name="report", owner="me", ttl=2 * PAST_GRACE)
    world.run(job, day(1), [2], owner("rerun"))
    world.clock.advance(PAST_GRACE)
    assert vacuum(world).orphans == ()
    assert world.rows_of(lease.cut) == {"t": [(1, 1)]}


def test_own_output_of_an_adopting_try_is_vacuumed(table_world: World) -> None:
    """R16: the commit of adopted output ends the try that adopted, and what it wrote besides belongs to no epoch."""
    world = table_world
    dead, adopting = adopted(world, world.job("t"))
    stage_rows(world.coordinator, adopting, "t", rows([99], adopting.token))
    world.coordinator.publish(adopting)
    assert staged(world) == {dead.token, adopting.token}
    world.clock.advance(PAST_GRACE)
    vacuum(world)
    assert staged(world) == {dead.token}
    assert world.rows("t") == {"t": [(1, 1)]}


def test_output_refused_by_a_check_is_not_vacuumed(table_world: World) -> None:
    """R14, R16: it is kept to be looked at until the epoch is begun again."""
    world = table_world
    table = world.table("t")
    job = world.job("t", [table], checks=[in_range(table, "value", at_most=1)])
    attempt = world.begin(job, day(1))
    world.write(attempt, [5])
    with pytest.raises(CheckFailed):
        world.coordinator.publish(attempt)
    world.clock.advance(PAST_GRACE)
    assert vacuum(world).orphans == ()
    assert staged(world) == {1}


def test_adopted_output_that_failed_a_check_stays(table_world: World) -> None:
    """R14, R16: it lies under the token of the try that computed it, not of the one whose checks refused it."""
    world = table_world
    table = world.table("t")
    job = world.job("t", [table], checks=[in_range(table, "value", at_most=1)])
    first, retry = adopted(world, job, [5])
    with pytest.raises(CheckFailed):
        world.coordinator.publish(retry)
    world.clock.advance(PAST_GRACE)
    assert vacuum(world).orphans == ()
    assert staged(world) == {first.token}


def test_output_unknown_to_the_store_is_not_vacuumed(table_world: World) -> None:
    """R16, R33: a token that it has not given out, or an epoch that no run began, may be of a lost history."""
    world = table_world
    job = world.job("t")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    place = world.coordinator.place(attempt, "t")
    table_format = world.formats[world.table_format]
    info: Any = table_format.describe(place.table)
    for number, token in ((2, 7), (5, 1)):
        strange = table_format.place(place.table, job=job.name, interval=day(number), revision=1, token=token)
        list(table_format.task_writer(strange, info)(rows([3]).to_batches()))
    world.coordinator.abort(attempt, "it failed")
    world.clock.advance(PAST_GRACE)
    assert vacuum(world).orphans == ()
    assert staged(world) == {1, 7}


def test_orphans_are_vacuumed_after_a_compaction(table_world: World) -> None:
    """R16, R17: store and catalog agree on the rows, so that what no commit names is an orphan."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    zombie_writes(world, zombie)
    commit(world, "t", "replace", {1: [1]})
    world.clock.advance(PAST_GRACE)
    assert len(vacuum(world).orphans) == 1
    assert world.rows("t") == {"t": [(1, 1)]}


def test_a_table_that_is_not_as_published_is_left_alone(table_world: World) -> None:
    """R16, R17: what its pointer names instead may lie in any place."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    zombie_writes(world, zombie)
    world.clock.advance(PAST_GRACE)
    world.pointers.drop(DOMAIN, "t")
    assert vacuum(world).orphans == ()


def test_a_publish_while_a_vacuum_looks_keeps_it_from_nothing(
    table_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R16, R17: a pointer that is newer than the record which was read before is no sign of another program."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    zombie_writes(world, zombie)
    world.clock.advance(PAST_GRACE)
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    table_format = world.formats[world.table_format]
    compare = table_format.compare

    def published_before(table: Table, recorded: TableRef | None) -> Compared:
        monkeypatch.undo()
        world.worker().publish(attempt)
        return compare(table, recorded)

    monkeypatch.setattr(table_format, "compare", published_before)
    assert len(vacuum(world).orphans) == 1
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}


def test_two_vacuums_and_a_publish_at_once(table_world: World) -> None:
    """R16: each place goes once, and no process is in another's way."""
    world = table_world
    job = world.job("t")
    zombies = [world.begin(job, day(number)) for number in (1, 2, 3)]
    for number in (1, 2, 3):
        world.run(job, day(number), [number], owner(try_number=2))
    for zombie in zombies:
        zombie_writes(world, zombie)
    world.clock.advance(PAST_GRACE)
    attempt = world.begin(job, day(4))
    world.write(attempt, [4])
    keepers = [world.keeper(), world.keeper()]
    found = side_by_side(
        *(lambda keeper=keeper: keeper.vacuum(DOMAIN) for keeper in keepers),
        lambda: world.worker().publish(attempt),
    )
    assert not [answer for answer in found if isinstance(answer, Exception)], found
    assert staged(world) == {1, 2}
    assert {place.barrier for place in places(world) if place.token == 1} == {day(4).end}
    assert world.rows("t") == {"t": [(number, number) for number in (1, 2, 3, 4)]}


def test_replaced_published_output_is_not_an_orphan(table_world: World) -> None:
    """R16, R24: it goes as a version that nothing claims, not as what an attempt has left."""
    world = table_world
    job = world.job("t")
    world.run(job, day(1), [1])
    lease = world.leases.cut(DOMAIN, ["t"], name="report", owner="me", ttl=timedelta(days=9))
    world.run(job, day(1), [2], owner("again"))
    world.clock.advance(PAST_GRACE)
    assert vacuum(world).orphans == ()
    assert world.rows_of(lease.cut) == {"t": [(1, 1)]}


def test_an_epoch_that_is_computed_again_and_again_keeps_no_orphan(table_world: World) -> None:
    """R16: an attempt is over since the first one after it began, not since the last one did."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    zombie_writes(world, zombie)
    for number in (2, 3):
        world.clock.advance(DEFAULTS.orphan_grace / 2)
        world.run(job, day(1), [number], owner(f"again-{number}"))
    (vacuumed,) = vacuum(world).orphans
    assert f"-t{zombie.token:010d}-" in vacuumed
    assert world.rows("t") == {"t": [(1, 3)]}


def test_orphans_in_a_left_table_are_vacuumed(table_world: World) -> None:
    """R7, R16: no job declares it any more, and the store knows it."""
    world = table_world
    t, u = world.table("t"), world.table("u")
    zombie = world.begin(world.job("t", [t, u]), day(1))
    world.run(world.job("t", [t, u]), day(1), [1], owner(try_number=2))
    for name in ("t", "u"):
        with suppress(Fenced):
            write_rows(world.coordinator, zombie, name, rows([99], zombie.token))
    world.run(world.job("t", [t]), day(2), [2])
    world.coordinator.retire(DOMAIN, "t", table="u", reason="nobody reads it", by="ada")
    world.clock.advance(PAST_GRACE)
    assert len(vacuum(world).orphans) == 2
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}
    assert world.rows("u") == {"u": [(1, 1)]}


class Publishing(FaultyStore):
    """A store in which an epoch publishes before epochs are looked at. :ivar publish: done once."""

    publish: Callable[[], object] | None = None

    def read(self, domain: Any, keys: Any, **options: Any) -> Any:
        """Publish, then look."""
        if any(key.kind is Kind.EPOCH for key in keys) and self.publish is not None:
            publish, self.publish = self.publish, None
            publish()
        return super().read(domain, keys, **options)


def test_adopted_output_that_is_published_while_a_vacuum_looks_stays(table_world: World) -> None:
    """R16: after its slices were looked at; it lies under the token of a try that was over long ago."""
    world = table_world
    _, second = adopted(world, world.job("t"))
    world.clock.advance(DEFAULTS.orphan_grace)
    world.coordinator.heartbeat(second)
    store = Publishing(world.store, lambda _call: None)
    store.publish = lambda: world.coordinator.publish(second)
    assert world.keeper(store).vacuum(DOMAIN).orphans == ()
    assert store.publish is None
    assert world.rows("t") == {"t": [(1, 1)]}


def test_output_of_a_fenced_participant_try_is_vacuumed(table_world: World) -> None:
    """R10, R16: after its attempt was published, too; what was published stays, of every participant."""
    world = table_world
    attempt = world.begin(world.job("t"), day(1), participants=2)
    zombie = world.coordinator.join(attempt, 0, owner())
    tries = [world.coordinator.join(attempt, number, owner(try_number=2)) for number in (0, 1)]
    stage_rows(world.coordinator, zombie, "t", rows([99], 1))
    for number, joined in enumerate(tries):
        write_rows(world.coordinator, joined, "t", rows([number], joined.token))
    world.coordinator.publish(attempt)
    assert vacuum(world).orphans == (), "its grace is not over"
    world.clock.advance(DEFAULTS.orphan_grace)
    (vacuumed,) = vacuum(world).orphans
    assert vacuumed == world.coordinator.place(zombie, "t").uri
    assert world.rows("t") == {"t": [(1, 0), (1, 1)]}


class FirstNames(EpochService):
    """A worker of the time when places were named by the end of the epoch alone."""

    def place(self, attempt: Attempt, sink: str) -> StagingLocation:
        """Return the place of that name."""
        place = super().place(attempt, sink)
        return self.formats[place.table.format].place(
            place.table,
            job=place.job,
            interval=place.interval,
            revision=place.revision,
            token=place.token,
            by_end=True,
        )


def test_places_that_were_named_by_their_end_are_read_adopted_and_vacuumed(table_world: World) -> None:
    """R16: a store that was written before goes on; such a place goes when no epoch that ends there can publish it."""
    world = table_world
    job = world.job("t")
    before = FirstNames(world.store, world.formats, clock=world.clock)
    published, dead = (world.begin(job, day(number)) for number in (1, 2))
    for number, attempt in enumerate((published, dead), 1):
        write_rows(before, attempt, "t", rows([number], attempt.token))
        before.complete(attempt)
    before.publish(published)
    retry = world.begin(job, day(2), owner(try_number=2))
    assert retry.adopted
    world.coordinator.publish(retry)
    lost = world.begin(job, day(3))
    write_rows(before, lost, "t", rows([99], lost.token))
    world.coordinator.abort(lost, "the task failed")
    assert [place.start for place in places(world)] == [None] * 3
    world.clock.advance(PAST_GRACE)
    hour = Cadence("@hourly", since=barrier(2), before=Cadence("@daily"))
    last = world.begin(world.job("t", cadence=hour), Interval(day(3).end - timedelta(hours=1), day(3).end))
    write_rows(before, last, "t", rows([3], last.token))
    assert vacuum(world).orphans == (), "the last hour has the name that the day had"
    world.coordinator.publish(last)
    assert vacuum(world).orphans == ()
    assert world.rows("t") == {"t": [(1, 1), (2, 2)]}
