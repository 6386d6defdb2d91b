"""Jobs and tables that come to their end, and go on with another owner (R7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.commits.register import Register
from airflow_provider.coordination.reading.wait import check
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain.cut import as_of, newest_version
from airflow_provider.domain.epoch import AlreadyCommitted, EpochState
from airflow_provider.domain.errors import (
    DependentReaders,
    EpochBusy,
    EpochError,
    InvalidInput,
    TopologyError,
    UnknownName,
)
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.records import Kind, table_key
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, Table, increment, previous, state
from airflow_provider.stores.base import Delete, Exists, Transaction
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner
from tests.contract.interruptions import interrupted

WHY = {"reason": "replaced by another", "by": "ada"}


def retired(world: World, days: int = 2, **options: Any) -> Job:
    """Job d with its first days, and its end."""
    job = world.job("d", **options)
    for number in range(1, days + 1):
        world.run(job, day(number), [number])
    world.coordinator.retire(DOMAIN, "d", **WHY)
    return job


def test_left_table_comes_back_only_with_its_former_kind(table_world: World) -> None:
    """R7: its slices would be added up, or taken for the whole state, otherwise than the declaration says."""
    world = table_world
    job = world.job("j", [world.table("d")])
    world.run(job, day(1), [1])
    world.coordinator.register(world.job("j", [world.table("e")]))
    before = world.exactly()
    with pytest.raises(TopologyError, match=r"'d' is incremental/.* declares it as full/"):
        world.coordinator.register(world.job("j", [world.table("d", kind=TableKind.FULL)]))
    assert world.exactly() == before
    world.run(job, day(2), [7])
    assert world.rows("d") == {"d": [(1, 1), (2, 7)]}


def test_a_retired_table_comes_back_by_a_declaration_that_the_job_has_not_had(world: World) -> None:
    """R7: an earlier declaration is that of an older DAG version, also where its file was changed back."""
    both = [world.table("d"), world.table("d2")]
    job = world.job("d", outputs=both)
    world.run(job, day(1), [1])
    world.coordinator.register(world.job("d", outputs=both[:1]))
    world.coordinator.retire(DOMAIN, "d", table="d2", reason="it is not needed", by="ada")
    with pytest.raises(TopologyError, match="table 'd2' is retired: it is not needed") as refused:
        world.begin(job, day(2))
    assert "by a declaration that the job has not had before" in refused.value.next_step
    world.run(world.job("d", outputs=both, inactive_after=9), day(2), [2])
    assert world.rows("d", "d2") == {"d": [(1, 1), (2, 2)], "d2": [(1, 1), (2, 2)]}


def test_der12_retired_job_keeps_its_commits_and_holds_back_no_reader(table_world: World) -> None:
    """R7: readers read on; cuts of the whole domain go on; who waits for more is told why it will not come."""
    world = table_world
    world.run(world.job("e"), day(1), [1])
    job = retired(world, 1)
    for number in (2, 3):
        world.run(world.job("e"), day(number), [number])
    assert world.cuts.cut(DOMAIN, ["e"], consistency="altogether").barrier == barrier(3)
    assert world.rows("d") == {"d": [(1, 1)]}
    answer = check(world.store, DOMAIN, ["d"], barrier(2))
    assert "nothing more comes of it: replaced by another (ada)" in str(answer)
    with pytest.raises(TopologyError, match="is retired: replaced by another"):
        world.begin(job, day(2))
    assert isinstance(world.coordinator.begin(job, day(1), owner()), AlreadyCommitted), "a retry is told so"
    told = explain(world.store, DOMAIN, "d", day(2))
    assert told.retired == "replaced by another (ada)"
    assert "revive" in told.next_step
    rows = {row.table.name: row for row in grid(world.store, DOMAIN).rows}
    assert (rows["d"].retired, len(rows["d"].cells), rows["e"].retired) == (
        "replaced by another (ada)",
        1,
        "",
    )


def test_retiring_twice_and_back(world: World) -> None:
    """R7: each is said once, and a job that was brought back goes on where it was."""
    job = retired(world)
    before = world.exactly()
    world.coordinator.retire(DOMAIN, "d", reason="again", by="bob")
    assert world.exactly() == before
    with pytest.raises(TopologyError, match="retired"):
        world.begin(world.job("d", on_rerun="keep"), day(3))
    for _ in range(2):
        world.coordinator.revive(DOMAIN, "d")
    assert world.run(job, day(3), [3]).revision == 1
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3)]}
    assert len(world.commits()) == 5
    assert [str(commit.record.change_set).split()[0] for commit in world.commits()[2:4]] == [
        "d#retired",
        "d#brought",
    ]


def test_a_job_at_work_is_not_retired(world: World) -> None:
    """R7, R10: a live attempt is named; a silent one is fenced, and changes nothing when it wakes up."""
    job = world.job("d")
    attempt = world.begin(job, day(1))
    with pytest.raises(EpochBusy, match="dag/scheduled"):
        world.coordinator.retire(DOMAIN, "d", **WHY)
    world.write(attempt)
    world.clock.advance(PAST_TTL)
    world.coordinator.retire(DOMAIN, "d", **WHY)
    with pytest.raises(EpochError, match="over"):
        world.coordinator.publish(attempt)
    assert world.store.scan(DOMAIN, Kind.LOCK, "d") == []


def test_a_job_that_wakes_in_time_is_not_retired(world: World) -> None:
    """R7, R23: its lock had ended when it was read; the attempt renews it before it is ended."""
    attempt = world.begin(world.job("d"), day(1))
    world.write(attempt)
    world.clock.advance(PAST_TTL)
    other = interrupted(world, lambda: world.coordinator.heartbeat(attempt))
    with pytest.raises(EpochBusy, match="dag/scheduled"):
        other.retire(DOMAIN, "d", **WHY)
    world.coordinator.publish(attempt)


def test_an_attempt_that_began_meanwhile_publishes_nothing(world: World) -> None:
    """R7: between the look at the locks and the end of the job."""
    attempt = world.begin(world.job("d"), day(1))
    world.write(attempt)
    (lock,) = [record for record in world.records() if record.key.kind == "lock"]
    taken = Transaction(
        domain=DOMAIN, requires=(Exists(lock.key, lock.version),), updates=(Delete(lock.key),)
    )
    world.store.transact(taken)
    world.coordinator.retire(DOMAIN, "d", **WHY)
    with pytest.raises(TopologyError, match="'d' is retired"):
        world.coordinator.publish(attempt)


@pytest.mark.parametrize("before", ["computed", "skipped"])
def test_a_successor_replaces_no_rows_of_the_job_before(world: World, before: str) -> None:
    """R7: also where it has an epoch of its own there; a version of its DAG without the table computes the others."""
    more = world.table("more")
    older, successor = world.job("successor", [more]), world.job("successor", [world.table("d"), more])
    world.run(older, day(1), [10])
    if before == "computed":
        world.run(older, day(2), [20])
    else:
        world.coordinator.skip(DOMAIN, "successor", day(2), "nothing came", by="ada")
    retired(world, inputs=[increment(more, on_upstream_revision="ignore")])
    world.run(successor, day(3), [3])
    for _ in range(2):
        with pytest.raises(TopologyError, match="of 'd' was computed before job 'successor' took") as refused:
            world.begin(successor, day(2), owner("again"))
    assert "A version of its DAG that does not declare 'd'" in refused.value.next_step
    world.run(older, day(2), [21], owner("again"))
    world.run(successor, day(3), [33], owner("again"))
    assert world.rows("d", "more") == {"d": [(1, 1), (2, 2), (3, 33)], "more": [(1, 10), (2, 21), (3, 33)]}


def test_another_job_takes_a_table_over(table_world: World) -> None:
    """R7: it goes on where the table is; what was there before is not its own to compute again."""
    world = table_world
    reader = world.job("r", inputs=[world.table("d")])
    retired(world)
    successor = world.job("successor", [world.table("d"), world.table("more")])
    with pytest.raises(TopologyError, match="before job 'successor' took the table over"):
        world.begin(successor, day(2))
    for number in (3, 4):
        world.run(successor, day(number), [number])
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3), (4, 4)]}
    assert world.rows("d", "more") == {"d": [(1, 1), (2, 2), (3, 3), (4, 4)], "more": [(3, 3), (4, 4)]}
    for number in range(1, 5):
        world.run(reader, day(number), [])
    with pytest.raises(DependentReaders):
        world.begin(successor, day(4), owner("again"))
    shown = {row.table.name: row for row in grid(world.store, DOMAIN).rows}
    assert {name: row.job for name, row in shown.items()} == {"d": "successor", "more": "successor", "r": "r"}
    assert [(cell.state, cell.owner is None) for cell in shown["d"].cells] == [
        (EpochState.COMMIT, True),
        (EpochState.COMMIT, True),
        (EpochState.COMMIT, False),
        (EpochState.COMMIT, False),
    ]
    assert [cell.interval for cell in shown["more"].cells] == [day(3), day(4)], "it begins later"
    with pytest.raises(TopologyError, match="belongs to job 'successor'"):
        world.coordinator.revive(DOMAIN, "d")


@pytest.mark.parametrize("committed", [False, True], ids=["nothing committed", "a day committed"])
def test_job_that_declares_anothers_table_gets_the_takeover_command(world: World, committed: bool) -> None:
    """R6, R7: an experiment whose code failed owns its table; the error names what ends that, and it does."""
    trial = world.job("trial", [world.table("d")])
    if committed:
        world.run(trial, day(1), [1])
    world.coordinator.abort(
        world.begin(trial, day(2)) if committed else world.begin(trial, day(1)), "mistake"
    )
    successor = world.job("successor", [world.table("d")])
    with pytest.raises(TopologyError, match="table 'd' has an owner: job 'trial'") as refused:
        world.begin(successor, day(2))
    assert "`airflow epochs retire trial --reason …`" in refused.value.next_step
    world.coordinator.retire(DOMAIN, "trial", **WHY)
    days = (2, 3) if committed else (1, 2, 3)
    for number in days:
        world.run(successor, day(number), [number])
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3)]}


def test_late_cleanup_keeps_successor_rows(table_world: World) -> None:
    """R7, R16, I6: a try pauses while it deletes earlier output; the successor has the same revision and token
    meanwhile, for an epoch that the retired job never committed.
    """
    world = table_world
    job = world.job("d")
    world.write(world.begin(job, day(1)), [1])

    def take_over() -> None:
        world.clock.advance(PAST_TTL)
        world.coordinator.retire(DOMAIN, "d", **WHY)
        world.run(world.job("successor", [world.table("d")]), day(1), [10])

    interrupted(world, take_over, "table.roll_back").begin(job, day(1), owner(try_number=2))
    assert world.rows("d") == {"d": [(1, 10)]}


def test_a_table_that_its_job_has_left(world: World) -> None:
    """R7: it is retired alone, and then holds back nothing, and can be taken over."""
    d, d2 = world.table("d"), world.table("d2")
    world.run(world.job("j", [d, d2]), day(1), [1])
    with pytest.raises(InvalidInput, match="no longer declares"):
        world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    world.run(world.job("j", [d]), day(2), [2])
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(1)
    successor = world.job("successor", [d2])
    with pytest.raises(TopologyError, match="retire j --table d2"):
        world.coordinator.register(successor)
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    before = world.exactly()
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    assert world.exactly() == before
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(2)
    world.run(successor, day(2), [22])
    assert world.rows("d", "d2") == {"d": [(1, 1), (2, 2)], "d2": [(1, 1), (2, 22)]}
    with pytest.raises(InvalidInput):
        world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)


def test_revived_job_does_not_bring_back_its_retired_table(world: World) -> None:
    """R7: a table that was retired alone stays so, holds back nothing, and can be taken over."""
    d, d2 = world.table("d"), world.table("d2")
    world.run(world.job("j", [d, d2]), day(1), [1])
    world.run(world.job("j", [d]), day(2), [2])
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    world.coordinator.retire(DOMAIN, "j", **WHY)
    world.coordinator.revive(DOMAIN, "j")
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(2)
    world.run(world.job("successor", [d2]), day(2), [22])
    assert world.rows("d", "d2") == {"d": [(1, 1), (2, 2)], "d2": [(1, 1), (2, 22)]}


def test_a_job_ends_with_the_tables_that_it_had_left(world: World) -> None:
    """R7: they hold nothing back and can be taken over, without a word of their own."""
    d, d2 = world.table("d"), world.table("d2")
    world.run(world.job("j", [d, d2]), day(1), [1])
    world.run(world.job("j", [d]), day(2), [2])
    world.run(world.job("e"), day(1))
    world.run(world.job("e"), day(2))
    assert world.cuts.cut(DOMAIN, ["e"], consistency="altogether").barrier == barrier(1)
    world.coordinator.retire(DOMAIN, "j", **WHY)
    assert world.cuts.cut(DOMAIN, ["e"], consistency="altogether").barrier == barrier(2)
    world.run(world.job("successor", [d2]), day(2), [22])
    world.coordinator.revive(DOMAIN, "j")
    world.run(world.job("j", [d]), day(3), [3])
    assert world.rows("d", "d2", at=barrier(2)) == {"d": [(1, 1), (2, 2)], "d2": [(1, 1), (2, 22)]}


def test_a_table_is_not_retired_under_an_open_epoch(world: World) -> None:
    """R7, R10: the attempt may have begun while the job had the table; when it is silent, it is fenced."""
    d, d2 = world.table("d"), world.table("d2")
    both = world.job("j", [d, d2])
    world.run(both, day(1), [1])
    attempt = world.begin(both, day(2))
    world.write(attempt, [2])
    world.coordinator.register(world.job("j", [d]))
    with pytest.raises(EpochBusy, match="dag/scheduled"):
        world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    world.clock.advance(PAST_TTL)
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    with pytest.raises(EpochError, match="over"):
        world.coordinator.publish(attempt)


def test_where_a_table_stood_before_it_was_retired_is_remembered(world: World) -> None:
    """R3, R19: who reads by the head of a moment ago gets the version of then, not one before it."""
    for number in (1, 2):
        world.run(world.job("d"), day(number), [number])
    key = table_key(DOMAIN, world.table("d").name)
    before = world.store.read(DOMAIN, [key]).records[key]
    world.coordinator.retire(DOMAIN, "d", **WHY)
    after = world.store.read(DOMAIN, [key]).records[key]
    assert after.csn == before.csn + 1
    assert as_of(after, before.csn) == newest_version(before)
    assert as_of(after, before.csn - 1) == as_of(before, before.csn - 1)


def test_a_table_is_taken_over_in_the_format_that_it_has(world: World) -> None:
    """R7: the successor would not find its files."""
    retired(world)
    other = Table("d", domain=DOMAIN, format="iceberg")
    before = world.exactly()
    with pytest.raises(
        TopologyError, match="is incremental/memory; job 'successor' declares it as incremental/iceberg"
    ):
        Register(world.coordinator.context, world.job("successor", [other])).run()
    assert world.exactly() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cadence": "@hourly"}, "has the cadence"),
        ({"cadence": Cadence("@hourly", since=barrier(1), before=Cadence("@daily"))}, "cannot change at"),
        ({"kind": TableKind.FULL}, "is incremental"),
        ({"origin": barrier(5)}, "no job would compute the epochs between"),
    ],
)
def test_it_is_taken_over_as_it_is(world: World, options: dict[str, Any], message: str) -> None:
    """R7: calendar, kind and format, and without a gap; nothing is written otherwise."""
    retired(world)
    before = world.exactly()
    kind = options.get("kind", TableKind.INCREMENTAL)
    declared = {name: value for name, value in options.items() if name != "kind"}
    with pytest.raises(TopologyError, match=message):
        world.coordinator.register(world.job("successor", [world.table("d", kind=kind)], **declared))
    assert world.exactly() == before


def test_a_successor_begins_where_the_table_ends(world: World) -> None:
    """R7: at its watermark or before it; no job would compute the epochs between."""
    retired(world)
    with pytest.raises(TopologyError, match="no job would compute the epochs between"):
        world.coordinator.register(world.job("successor", [world.table("d")], origin=barrier(3)))
    world.run(world.job("successor", [world.table("d")], origin=barrier(2)), day(3), [3])
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3)]}


def test_a_successor_computes_no_epoch_that_one_of_its_tables_has(world: World) -> None:
    """R7: whichever of them it is, and before it reads anything."""
    retired(world)
    successor = world.job("successor", [world.table("a"), world.table("d"), world.table("z")])
    with pytest.raises(TopologyError, match="of 'd' was computed before job 'successor'"):
        world.begin(successor, day(2))
    world.run(successor, day(3), [3])
    assert world.rows("d") == {"d": [(1, 1), (2, 2), (3, 3)]}


def test_a_table_without_a_commit_is_taken_over_from_its_origin(world: World) -> None:
    """R7: nothing is committed, so that the successor says where it begins."""
    world.coordinator.register(world.job("d"))
    world.coordinator.retire(DOMAIN, "d", **WHY)
    world.run(world.job("successor", [world.table("d")], origin=barrier(1)), day(2), [2])
    assert world.rows("d") == {"d": [(2, 2)]}


def test_it_is_taken_over_with_another_calendar_from_now_on(world: World) -> None:
    """R7: both at once, at a barrier after all that is there."""
    retired(world)
    hourly = Cadence("@hourly", since=barrier(2), before=Cadence("@daily"))
    successor = world.job("successor", [world.table("d")], cadence=hourly)
    epoch = hourly.ending_at(barrier(2) + timedelta(hours=1))
    world.run(successor, epoch, [3])
    assert world.cut("d").barrier == epoch.end


def test_committed_reads_of_a_retired_job_stay(world: World) -> None:
    """R7, R18: its committed epochs are readers as before; what it had yet to read is kept no longer."""
    full = world.table("f", kind=TableKind.FULL)
    source = world.job("f", [full])
    world.run(source, day(1), [1])
    world.run(world.job("d", inputs=[state(full)]), day(1))
    for number in (2, 3):
        world.run(source, day(number), [number])
    with pytest.raises(InvalidInput):
        world.retention.expire(DOMAIN, "f", barrier(2))
    world.coordinator.retire(DOMAIN, "d", **WHY)
    world.retention.expire(DOMAIN, "f", barrier(2))
    with pytest.raises(DependentReaders):
        world.begin(source, day(1), owner("again"))


def test_the_successor_of_a_job_that_builds_on_its_past(world: World) -> None:
    """R7, R12: its first epoch reads what the one before left."""
    full = world.table("f", kind=TableKind.FULL)
    world.run(world.job("d", [full], inputs=[previous(full)]), day(1), [1])
    world.coordinator.retire(DOMAIN, "d", **WHY)
    successor = world.job("successor", [full], inputs=[previous(full)])
    attempt = world.begin(successor, day(2))
    assert (attempt.inputs[0].high, attempt.inputs[0].ref is None) == (barrier(1), False)


def test_revived_job_must_fit_declarations_made_meanwhile(world: World) -> None:
    """R6, R7: of two declarations that cannot be together the one that comes second is refused, also by revive."""
    a, b = world.table("a"), world.table("b")
    world.coordinator.register(world.job("b", [b]))
    world.coordinator.register(world.job("a", [a], inputs=[b]))
    world.coordinator.register(world.job("h", cadence="@hourly"))
    world.coordinator.register(world.job("c", cadence="@hourly", inputs=[world.table("h")]))
    for job in ("a", "c"):
        world.coordinator.retire(DOMAIN, job, **WHY)
    world.coordinator.register(world.job("b", [b], inputs=[a]))
    daily = Cadence("@daily", since=barrier(3), before=Cadence("@hourly"))
    world.coordinator.register(world.job("h", cadence=daily))
    before = world.exactly()
    with pytest.raises(TopologyError, match="a -> b -> a read each other's tables"):
        world.coordinator.revive(DOMAIN, "a")
    with pytest.raises(TopologyError, match="reads 'h' exactly"):
        world.coordinator.revive(DOMAIN, "c")
    assert world.exactly() == before


def test_sources_of_a_retired_job_keep_their_bounds(world: World) -> None:
    """R6, I11: their bounds stay recorded, so that the name cannot stand for other files."""
    world.coordinator.register(world.job("d", inputs=[FileSource("feed", "/a", late="ignore")]))
    world.coordinator.retire(DOMAIN, "d", **WHY)
    with pytest.raises(TopologyError, match="source 'feed' is '/a'"):
        world.coordinator.register(
            world.job("successor", [world.table("d")], inputs=[FileSource("feed", "/b", late="ignore")])
        )
    world.coordinator.register(
        world.job("successor", [world.table("d")], inputs=[FileSource("feed", "/a", late="ignore")])
    )


@pytest.mark.parametrize("other", ["new", "e"])
def test_tables_newly_declared_by_a_retired_job_are_retired(world: World, other: str) -> None:
    """R7: a table that is new, or that it takes over; others may have it, and the job gets it when it is revived."""
    world.run(world.job("e"), day(1))
    world.coordinator.retire(DOMAIN, "e", **WHY)
    retired(world, 1)
    tables = [world.table("d"), world.table(other)]
    with pytest.raises(TopologyError, match="'d' is retired"):
        world.begin(world.job("d", tables), day(2))
    world.coordinator.revive(DOMAIN, "d")
    world.run(world.job("d", tables), day(2))
    world.coordinator.retire(DOMAIN, "d", **WHY)
    world.run(world.job("successor", tables), day(3))


def test_a_table_that_its_job_declares_again_goes_on(world: World) -> None:
    """R7: by a new declaration; an old one, which serves its epoch only, is refused before it computes anything."""
    d, d2 = world.table("d"), world.table("d2")
    both = world.job("j", [d, d2])
    world.run(both, day(1), [1])
    world.run(world.job("j", [d]), day(2), [2])
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    with pytest.raises(TopologyError, match="table 'd2' is retired"):
        world.begin(both, day(3))
    world.run(world.job("j", [d, d2], on_rerun="keep"), day(3), [3])
    assert world.rows("d2", at=barrier(1)) == {"d2": [(1, 1)]}


def test_an_old_owner_is_refused_before_it_computes(world: World) -> None:
    """R7: a retry of a declaration whose table is another job's now."""
    d, d2 = world.table("d"), world.table("d2")
    both = world.job("j", [d, d2])
    world.run(both, day(1), [1])
    world.run(world.job("j", [d]), day(2), [2])
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    world.run(world.job("successor", [d2]), day(2))
    with pytest.raises(TopologyError, match="'d2' belongs to job 'successor' now"):
        world.begin(both, day(3))


@pytest.mark.parametrize("by_another", [False, True])
def test_a_table_that_its_job_has_left_holds_no_retention_back(world: World, by_another: bool) -> None:
    """R7, R24: how far it came is no job's next epoch any more, or that of another job, which reads other tables."""
    full = world.table("f", kind=TableKind.FULL)
    d, d2 = world.table("d"), world.table("d2")
    for number in (1, 2, 3):
        world.run(world.job("f", [full]), day(number), [number])
    world.run(world.job("j", [d, d2], inputs=[state(full)]), day(1))
    for number in (2, 3):
        world.run(world.job("j", [d], inputs=[state(full)]), day(number))
    with pytest.raises(InvalidInput, match="job 'j' has no epoch left"):
        world.retention.expire(DOMAIN, "f", barrier(2))
    world.coordinator.retire(DOMAIN, "j", table="d2", **WHY)
    if by_another:
        world.coordinator.register(world.job("successor", [d2]))
    world.retention.expire(DOMAIN, "f", barrier(2))


def test_an_origin_does_not_move_forward_in_two_steps(world: World) -> None:
    """R7: a declaration without origin between them; the table waits for the epochs before all the same."""
    world.run(world.job("d"), day(1), [1])
    world.coordinator.register(world.job("d", origin=None))
    before = world.exactly()
    with pytest.raises(TopologyError, match="no job would compute the epochs between"):
        world.coordinator.register(world.job("d", origin=barrier(2)))
    assert world.exactly() == before
    world.run(world.job("d", origin=barrier(1)), day(2), [2])
    assert world.rows("d") == {"d": [(1, 1), (2, 2)]}


def test_bad_requests_write_nothing(world: World) -> None:
    """R7: a user cannot retire what is not there, nor retire without a word."""
    world.coordinator.register(world.job("d"))
    before = world.exactly()
    with pytest.raises(UnknownName):
        world.coordinator.retire(DOMAIN, "nobody", **WHY)
    with pytest.raises(UnknownName):
        world.coordinator.revive(DOMAIN, "nobody")
    with pytest.raises(InvalidInput, match="reason"):
        world.coordinator.retire(DOMAIN, "d", reason="", by="ada")
    with pytest.raises(InvalidInput, match="table"):
        world.coordinator.retire(DOMAIN, "d", table="other", **WHY)
    assert world.exactly() == before


def test_a_lost_reply_is_settled(world: World) -> None:
    """R7, R15: the job is retired once."""
    world.run(world.job("d"), day(1))
    lost = [True]

    def plan(call: Call) -> Fault | None:
        return Fault.REPLY_LOST if call.method == "transact" and lost and lost.pop() else None

    world.worker(FaultyStore(world.store, plan)).retire(DOMAIN, "d", **WHY)
    assert [commit.record.by for commit in world.commits()][1:] == ["registration"]
