"""What ``doctor`` says of a domain: whether the records and the tables agree, what is stuck, and what was left."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.commits.pointers import ahead, tables_ahead
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.coordination.upkeep.symptom import Symptom
from airflow_provider.domain.checks import in_range
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import CheckFailed, NotReady, StoreUnavailable, UnknownName
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped, topology_key
from airflow_provider.domain.topology_record import Move, MoveState
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.stores.factory import open_store
from airflow_provider.tables.errors import TablesAhead
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, day, owner, rows
from tests.contract.interruptions import Died, interrupted
from tests.contract.test_coordination_foreign import adopting, commit, point
from tests.contract.test_coordination_orphans import PAST_GRACE, zombie_writes


def told(world: World) -> dict[str, Symptom]:
    """What is found, by what it is about; nothing is changed by looking."""
    before = world.exactly()
    found = examine(world.store, world.formats, DOMAIN)
    assert world.exactly() == before
    assert len({symptom.subject for symptom in found.symptoms}) == len(found.symptoms)
    assert all("`airflow epochs" in symptom.next_step for symptom in found.symptoms if symptom.urgent), (
        found.symptoms
    )
    return {symptom.subject: symptom for symptom in found.symptoms}


def test_a_healthy_domain_has_no_symptom(table_world: World) -> None:
    """R17: also with a job that has not run, an attempt that works, and a lease that lives."""
    world = table_world
    world.run(world.job("t"), day(1), [1])
    world.coordinator.register(world.job("r", inputs=[world.table("t")]))
    world.begin(world.job("t"), day(2))
    world.leases.cut(DOMAIN, ["t"], name="mine", owner="me")
    assert told(world) == {}
    with pytest.raises(UnknownName, match="nowhere"):
        examine(world.store, world.formats, "nowhere")


def test_doctor_reports_foreign_commits(table_world: World) -> None:
    """R17: a compaction is told, and needs no user; other rows need a user, unless they can be adopted."""
    world = table_world
    job = world.job("t", [world.table("left"), adopting(world, "right")])
    world.run(job, day(1), [1])
    commit(world, "left", "replace", {1: [1]})
    commit(world, "right", "append", {1: [7]})
    left, right = told(world).values()
    assert (left.subject, left.urgent) == ("table left", False)
    assert (right.subject, right.urgent) == ("table right", True)
    assert "recover" in right.next_step
    recover(world.coordinator.context, DOMAIN)
    commit(world, "left", "append", {1: [7]})
    (left,) = (symptom for symptom in examine(world.store, world.formats, DOMAIN).symptoms)
    assert "append" in left.found
    assert "roll the table back" in left.next_step


def test_doctor_does_not_advise_recovery_of_rows_it_would_refuse(table_world: World) -> None:
    """R17, R18: recovering is not advised where it would be refused, and the reason is told."""
    world = table_world
    job = world.job("t", [adopting(world, name) for name in ("gone", "early", "read")])
    world.run(job, day(1), [1])
    world.run(world.job("r", inputs=[world.table("read")]), day(1))
    pointer = str(world.pointers.pointer(DOMAIN, "gone"))
    world.run(job, day(2), [2])
    point(world, "gone", pointer)
    commit(world, "gone", "append", {1: [7]})
    commit(world, "early", "append", {3: [7]})
    commit(world, "read", "append", {1: [7]})
    found = {
        symptom.subject: symptom.next_step for symptom in examine(world.store, world.formats, DOMAIN).symptoms
    }
    assert "it does not come from version" in found["table gone"]
    assert "no committed epoch of the table ends at" in found["table early"]
    assert "r [2024-01-01T00:00:00+00:00, 2024-01-02T00:00:00+00:00) read read" in found["table read"]
    assert all("recover" not in step for step in found.values())
    problems = {table.name: table.problem for table in recover(world.coordinator.context, DOMAIN).tables}
    assert {name for name, problem in problems.items() if problem} == {"gone", "early", "read"}


def test_a_pointer_that_is_behind_or_gone(table_world: World) -> None:
    """R17: the first is moved by recover, the other registered again."""
    world = table_world
    job = world.job("job", [world.table("left"), world.table("right")])
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])

    def die() -> None:
        raise Died

    with suppress(Died):
        interrupted(world, die, "table.published").publish(attempt)
    found = told(world)
    assert set(found) == ({"table left", "table right"} if world.follows else set())
    recover(world.coordinator.context, DOMAIN)
    world.pointers.drop(DOMAIN, "left")
    (gone,) = told(world).values()
    assert (gone.subject, gone.urgent) == ("table left", True)
    assert "not in the catalog" in gone.found
    assert "airflow epochs recover" in gone.next_step
    recover(world.coordinator.context, DOMAIN)
    assert told(world) == {}


def test_attempts_that_ended_or_fell_silent(world: World) -> None:
    """I9: doctor names each, with its end, to the user who waits for it."""
    silent, failed = world.job("silent"), world.job("failed")
    check_failed = world.job("v", checks=[in_range(world.table("v"), "value", at_most=1)])
    world.begin(silent, day(1))
    world.clock.advance(PAST_TTL)
    world.coordinator.abort(world.begin(failed, day(1)), "SparkException: it failed")
    attempt = world.begin(check_failed, day(1))
    world.write(attempt, [5])
    with pytest.raises(CheckFailed):
        world.coordinator.publish(attempt)
    found = told(world)
    assert [subject.split()[0] for subject in found] == ["silent", "failed", "v"]
    texts = " ".join(symptom.found for symptom in found.values())
    assert all(words in texts for words in ("silent since", "SparkException", "check failed"))


@pytest.mark.parametrize("kind", ["incremental", "full"])
def test_failed_epoch_before_the_first_commit_is_reported(world: World, kind: str) -> None:
    """R7: a job without an origin begins where it commits first, and waits for nothing before that."""
    job = world.job("t", [world.table("t", kind=kind)], origin=None)
    for number in (1, 2, 5):
        world.coordinator.abort(world.begin(job, day(number)), "its code failed")
    (never,) = told(world).values()
    assert (never.subject, never.urgent) == ("job t", True)
    assert f"{day(1)} failed (its code failed)" in never.found
    assert never.found.endswith("so did 2 more; nothing is committed")
    world.run(job, day(4))
    world.run(job, day(5))
    (left,) = told(world).values()
    assert (left.subject, left.urgent) == ("job t", False)
    assert left.found.endswith(f"so did 1 more; its tables begin at {day(4).start.isoformat()}")
    assert ("`airflow epochs skip t" in left.next_step) is (kind == "incremental")
    assert f"declare the origin {day(4).start.isoformat()}" in left.next_step
    if kind == "full":
        with pytest.raises(NotReady) as refused:
            world.coordinator.skip(DOMAIN, "t", day(2), reason="nothing comes", by="ada")
        assert refused.value.next_step.startswith(f"run job t for {day(2)}, or leave it")
        world.run(job, day(2))
    else:
        world.coordinator.skip(DOMAIN, "t", day(2), reason="nothing comes", by="ada")
    found = told(world)
    assert f"{day(1)} failed" in found["job t"].found
    assert "more" not in found["job t"].found
    world.coordinator.register(world.job("t", job.outputs, origin=day(2).start))
    assert "job t" not in told(world), "the epoch before it is none"


def test_failed_epoch_computed_later_is_not_reported(world: World) -> None:
    """R7: nor is what a job with an origin waits for, nor what failed of a job that is over."""
    job = world.job("t", origin=None)
    for number in (1, 2):
        world.coordinator.abort(world.begin(job, day(number)), "its code failed")
    for number in (2, 1):
        world.run(job, day(number))
    assert told(world) == {}
    world.coordinator.abort(world.begin(job, day(3)), "its code failed")
    assert list(told(world)) == [f"t {day(3)}"], "the table waits for it"
    world.run(job, day(3))
    over = world.job("over", origin=None)
    world.coordinator.abort(world.begin(over, day(1)), "its code failed")
    assert "job over" in told(world)
    world.coordinator.retire(DOMAIN, "over", reason="an experiment", by="ada")
    assert told(world) == {}
    newest = job.cadence.ended_by(world.clock.now())
    world.coordinator.abort(world.begin(world.job("new", origin=None), newest), "its code failed")
    assert list(told(world)) == [f"new {newest}"], "it is named once"


def test_endless_waits_are_reported(world: World) -> None:
    """I9: an input that no job has ever written, and one whose job is retired; a wait for a job at work is none."""
    t = world.table("t")
    world.run(world.job("t"), day(1))
    world.run(world.job("over"), day(1))
    world.coordinator.retire(DOMAIN, "over", reason="done", by="me")
    readers = {"a": world.table("nobody"), "b": world.table("over"), "c": t}
    for name, table in readers.items():
        world.coordinator.register(world.job(name, inputs=[table], origin=day(2).start))
    found = told(world)
    assert {subject.split()[0] for subject in found} == {"a", "b"}
    assert any("which no job has ever written" in symptom.found for symptom in found.values())
    assert any("is retired" in symptom.found for symptom in found.values())


def test_a_wait_for_a_table_that_has_a_successor_is_none(world: World) -> None:
    """R7, I9: whichever of the two jobs is the first by the alphabet."""
    for before, successor, name in (("old", "successor", "t"), ("job", "jobs", "u")):
        table = world.table(name)
        world.run(world.job(before, [table]), day(1))
        world.run(world.job(f"r of {before}", [world.table(f"r_{name}")], inputs=[table]), day(1))
        world.coordinator.retire(DOMAIN, before, reason="renamed", by="me")
        world.coordinator.register(world.job(successor, [table]))
    assert told(world) == {}


def test_waits_for_inactive_jobs_and_expired_states_are_reported(world: World) -> None:
    """R9, R24, I9: an inactive job, and an expired state."""
    full = world.table("f", kind="full")
    for number in (1, 2, 3):
        world.run(world.job("f", [full]), day(number))
    world.run(world.job("l", inactive_after=1), day(1))
    world.run(world.job("a", inputs=[world.table("l")]), day(1))
    world.retention.expire(DOMAIN, "f", day(1).end)
    world.coordinator.register(world.job("b", inputs=[full]))
    world.clock.advance(timedelta(days=3))
    found = {name.split()[0]: symptom.found for name, symptom in told(world).items()}
    assert set(found) == {"a", "b"}
    assert "whose job l has been inactive since" in found["a"]
    assert "is expired" in found["b"]


def test_a_table_that_its_job_has_left_is_looked_at(table_world: World) -> None:
    """R17: no job declares it, and readers read it still."""
    world = table_world
    world.run(world.job("j", [world.table("left"), world.table("right")]), day(1), [1])
    world.coordinator.register(world.job("j", [world.table("right")]))
    assert told(world) == {}
    commit(world, "left", "append", {1: [7]})
    (left,) = examine(world.store, world.formats, DOMAIN).symptoms
    assert (left.subject, left.urgent) == ("table left", True)


def test_a_domain_that_has_moved_says_where_it_is(world: World) -> None:
    """And a domain that has arrived needs no user."""
    world.run(world.job("t"), day(1))
    key = topology_key(DOMAIN)
    for state, urgent in ((MoveState.ARRIVED, 0), (MoveState.GONE, 1)):
        record = world.store.read(DOMAIN, [key]).records[key].record
        move = Move(state=state, place="elsewhere", incarnation="x")
        world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(record, move=move)),)))
        symptoms = examine(world.store, world.formats, DOMAIN).symptoms
        assert [symptom.found for symptom in symptoms] == ["it has moved to elsewhere"] * urgent


def test_orphans_and_ended_leases_are_reported_and_vacuumed(table_world: World) -> None:
    """R16, R23: a zombie's files and a lease that has ended need no user: the next vacuum takes them."""
    world = table_world
    job = world.job("t")
    zombie = world.begin(job, day(1))
    world.run(job, day(1), [1], owner(try_number=2))
    world.leases.cut(DOMAIN, ["t"], name="mine", owner="me", ttl=timedelta(hours=1))
    zombie_writes(world, zombie)
    world.clock.advance(PAST_GRACE)
    found = told(world)
    assert [(name, symptom.urgent) for name, symptom in found.items()] == [
        ("lease mine", False),
        ("table t", False),
    ]
    assert all("retention vacuum" in symptom.next_step for symptom in found.values())
    world.retention.vacuum(DOMAIN)
    assert told(world) == {}


def test_places_that_still_hold_files_are_counted(table_world: World) -> None:
    """R16: of each table, however many attempts have left something."""
    world = table_world
    job = world.job("t")
    zombies = [world.begin(job, day(number), owner(f"of {number}")) for number in (1, 2)]
    for number, zombie in enumerate(zombies, start=1):
        world.run(job, day(number), [number], owner(f"of {number}", try_number=2))
        zombie_writes(world, zombie)
    world.clock.advance(PAST_GRACE)
    assert told(world)["table t"].found.startswith("2 places")


def test_a_restored_store_is_told_before_work_is_done(
    quick_path: Path, empty_sqlite: Path, tmp_path: Path
) -> None:
    """R33: tables that are ahead stop doctor, and every begin of their job, by name."""
    world, backup = Backend("iceberg elsewhere", quick_path, empty_sqlite).world(), tmp_path / "backup.db"
    job, other = world.job("t"), world.job("late")
    world.run(job, day(1))
    assert world.path is not None
    with closing(sqlite3.connect(world.path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    for number in (2, 3):
        world.run(job, day(number))
    world.run(other, day(1))
    with open_store(f"sqlite:///{backup}") as restored:
        for ahead in (job, other):
            with pytest.raises(TablesAhead, match="restored from a backup") as refused:
                world.worker(restored).begin(ahead, day(2), owner("after"))
            assert refused.value.table == ahead.outputs[0].name
        world.worker(restored).register(other)
        found = examine(restored, world.formats, DOMAIN)
        assert [symptom.subject for symptom in found.symptoms] == ["table late", "table t"]
        assert all("db restored" in symptom.next_step for symptom in found.urgent)
        beyond = [(table.name, there.csn) for table, there, _ in tables_ahead(restored, world.formats)]
        assert beyond == [("late", 4), ("t", 3)]
        # The store has gone on with another table, past the number that is ahead.
        for number in range(1, 5):
            world.worker(restored).register(world.job("more"))
            attempt = world.worker(restored).begin(world.job("more"), day(number), owner(str(number)))
            assert isinstance(attempt, Attempt)
            write_rows(world.worker(restored), attempt, "more", rows([1]))
            world.worker(restored).publish(attempt)
        with pytest.raises(TablesAhead):
            world.worker(restored).begin(job, day(2), owner("after"))
    world.close()


def test_a_table_that_its_job_had_left_is_ahead_of_a_restored_store_too(
    quick_path: Path, empty_sqlite: Path, tmp_path: Path
) -> None:
    """R7, R33: what was published to it after the backup, before its job left it, or by the successor."""
    world, backup = Backend("iceberg elsewhere", quick_path, empty_sqlite).world(), tmp_path / "backup.db"
    left, kept = world.table("left"), world.table("kept")
    world.run(world.job("j", [left, kept]), day(1))
    attempt = world.begin(world.job("j", [left, kept]), day(2))
    world.write(attempt)
    world.coordinator.register(world.job("j", [kept]))
    assert world.path is not None
    with closing(sqlite3.connect(world.path)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)
    world.coordinator.publish(attempt)
    with open_store(f"sqlite:///{backup}") as restored:
        beyond = [(table.name, there.csn) for table, there, _ in tables_ahead(restored, world.formats)]
    assert beyond == [("kept", 2), ("left", 2)]
    world.close()


def test_a_publish_beside_the_look_is_no_restored_store(table_world: World) -> None:
    """R33: the pointer is ahead of what was read before, and not of what is read after."""
    world = table_world
    job = world.job("t")
    world.run(job, day(1), [1])
    looking = interrupted(world, lambda: world.run(job, day(2), [2]), "table.compare")
    assert ahead(looking.store, looking.formats, job.outputs[0]) is None
    assert len(world.commits()) == 2
    looking = interrupted(world, lambda: world.run(job, day(3), [3]), "table.compare")
    assert examine(looking.store, looking.formats, DOMAIN).symptoms == ()


class Incomplete(FaultyStore):
    """A store that has lost its second commit."""

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        """All but that one."""
        found = super().changes(domain, after, limit=limit)
        return [stamped for stamped in found if stamped.csn != 2]


def test_a_commit_that_is_missing(world: World) -> None:
    """I2: the sequence has no gap; the first one that is missing is named."""
    for number in (1, 2, 3):
        world.run(world.job("t"), day(number))
    found = examine(Incomplete(world.store, lambda _: None), world.formats, DOMAIN).urgent
    assert [symptom.subject for symptom in found] == ["commit 2"]
    assert "the next one that the store has is 3" in found[0].found


@pytest.mark.parametrize(("state", "way"), [(MoveState.LEAVING, "to"), (MoveState.ARRIVING, "from")])
def test_an_interrupted_move(world: World, state: MoveState, way: str) -> None:
    """A domain that is being moved stands still until the move is run again."""
    world.run(world.job("t"), day(1))
    key = topology_key(DOMAIN)
    record = world.store.read(DOMAIN, [key]).records[key].record
    move = Move(state=state, place="elsewhere", incarnation="x")
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(record, move=move)),)))
    (found,) = told(world).values()
    assert found.found.startswith(f"a move {way} elsewhere")
    assert "db move" in found.next_step


def test_orphans_are_reported_only_after_their_grace(world: World) -> None:
    """R16: before its grace is over, nothing is called left over."""
    world.run(world.job("t"), day(1))
    zombie = world.begin(world.job("t"), day(2))
    world.run(world.job("t"), day(2), [2], owner(try_number=2))
    zombie_writes(world, zombie)
    world.clock.advance(DEFAULTS.orphan_grace - timedelta(seconds=1))
    assert told(world) == {}


def test_a_catalog_that_does_not_answer_is_no_finding(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R17: the answer is to ask again, and not that something is wrong with the table."""
    world.run(world.job("t"), day(1))

    def silent(*_: object) -> None:
        raise StoreUnavailable("the catalog does not answer.", next_step="try again.")

    monkeypatch.setattr("airflow_provider.coordination.upkeep.doctor.compare_pointer", silent)
    with pytest.raises(StoreUnavailable):
        examine(world.store, world.formats, DOMAIN)
