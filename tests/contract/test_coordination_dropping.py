"""Jobs and tables that are dropped: their names are free, and nothing of them is the new ones' (R39)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading.differences import diff
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.drop import unfinished_drop
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    EpochError,
    Fenced,
    NotReady,
    TopologyError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind, table_key, topology_key
from airflow_provider.domain.session import Session
from airflow_provider.domain.source_bounds import BoundFile, FileSource, SourceBounds
from airflow_provider.domain.topology import Job, increment, state
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner
from tests.contract.interruptions import Interruption, interrupted, worker
from tests.contract.restating import Prepared

WHY = {"reason": "the first declarations were wrong", "by": "ada"}
PAST_GRACE = DEFAULTS.retention_grace + timedelta(seconds=1)
PAST_ORPHANS = DEFAULTS.orphan_grace + timedelta(seconds=1)


def pipeline(world: World, days: int = 2) -> tuple[Job, Job]:
    """Job d with two tables, and job r, which reads one of them; each with its first days."""
    job = world.job("d", [world.table("d"), world.table("d2")])
    reader = world.job("r", inputs=[increment(world.table("d"))])
    for number in range(1, days + 1):
        world.run(job, day(number), [number])
        world.run(reader, day(number), [10 * number])
    return job, reader


def dropped(
    own: EpochService, subject: str = "job", name: str = "d", *, cascade: bool = False, plan: Any = None
) -> Any:
    plan = plan or own.plan_drop(DOMAIN, subject, name, cascade=cascade)
    return own.drop(DOMAIN, plan, cascade=cascade, **WHY)


def other_declaration(world: World) -> Job:
    """Another job d, with a table d of another kind, calendar, beginning and columns."""
    return world.job("d", [world.table("d", kind="full")], cadence="@hourly", origin=barrier(1))


def hour(number: int) -> Interval:
    start = barrier(1) + timedelta(hours=number - 1)
    return Interval(start, start + timedelta(hours=1))


def without(world: World, *names: str) -> bool:
    """True if no table of *names* is there for readers."""
    gone = []
    for name in names:
        with suppress(UnknownName):
            world.cut(name)
            gone.append(name)
    return not gone


# --- starting over -------------------------------------------------------------------------------------------------


def test_a_dropped_name_is_free_for_another_declaration(table_world: World) -> None:
    """R39: another kind, calendar, beginning and identity; no old row, no old token, and one commit sequence."""
    world = table_world
    job = world.job("d")
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    world.run(job, day(2), [7], owner(generation=1))
    token = world.coordinator.epoch(DOMAIN, job.name, day(2)).record.token  # type: ignore[union-attr]
    before = world.store.read(DOMAIN, [key := table_key(DOMAIN, job.outputs[0].name)]).of(key).record.ref
    told = dropped(world.coordinator)
    assert (told.jobs, told.tables, told.left) == (("d",), ("d",), ())
    assert without(world, "d")
    assert world.pointers.tables(DOMAIN) == []
    assert [
        record for record in world.records() if record.key.kind in (Kind.JOB, Kind.TABLE, Kind.EPOCH)
    ] == []

    new = other_declaration(world)
    attempt = world.begin(new, hour(1))
    assert attempt.token > token
    world.write(attempt, [100])
    world.coordinator.complete(attempt)
    assert world.coordinator.publish(attempt).csn == len(world.commits())
    assert world.rows("d") == {"d": [(1, 100)]}
    assert world.engine_rows("d") == [(1, 100)]
    after = world.store.read(DOMAIN, [key]).of(key).record
    assert after.ref is not None
    assert before is not None
    assert after.ref.table_uuid != before.table_uuid
    assert after.born == told.csn
    with pytest.raises(TopologyError):
        world.coordinator.register(job)


def test_a_dropped_table_goes_with_its_only_job_and_its_readers_when_asked(world: World) -> None:
    """R39: what shares its tables or has read them is named, and goes with --cascade only; nothing else does."""
    pipeline(world)
    world.run(world.job("e"), day(1), [5])
    before = world.exactly()
    for subject, name, named in (("table", "d", "table d2, job r"), ("job", "d", "job r")):
        plan = world.coordinator.plan_drop(DOMAIN, subject, name)
        assert plan.obstacles
        with pytest.raises(TopologyError, match="--cascade") as refused:
            dropped(world.coordinator, plan=plan)
        assert refused.value.found == named
    world.coordinator.retire(DOMAIN, "r", **WHY)
    with pytest.raises(TopologyError, match="job r would lose"):
        dropped(world.coordinator)
    world.coordinator.revive(DOMAIN, "r")
    assert {key: record for key, record in before.items() if key not in world.exactly()} == {}
    plan = world.coordinator.plan_drop(DOMAIN, "table", "d", cascade=True)
    assert [(table.name, table.job, table.epochs, table.rows, table.files) for table in plan.tables] == [
        ("d", "d", 2, 2, 2),
        ("d2", "d", 2, 2, 2),
        ("r", "r", 2, 2, 2),
    ]
    assert (plan.jobs, plan.epochs, plan.obstacles) == (("d", "r"), 4, ())
    dropped(world.coordinator, plan=plan, cascade=True)
    assert without(world, "d", "d2", "r")
    assert world.rows("e") == {"e": [(1, 5)]}


def test_a_dropped_domain_begins_anew_with_its_numbers(world: World) -> None:
    """R39: no commit number is given out again, and all names are free."""
    pipeline(world)
    last = world.store.read(DOMAIN, []).head.csn
    assert dropped(world.coordinator, "domain", DOMAIN).jobs == ("d", "r")
    pipeline(world, 1)
    assert world.rows("d", "d2", "r") == {"d": [(1, 1)], "d2": [(1, 1)], "r": [(1, 10)]}
    assert world.store.read(DOMAIN, []).head.csn > last


# --- refused -------------------------------------------------------------------------------------------------------


def test_what_is_in_use_is_not_dropped(world: World) -> None:
    """R39: a live attempt, a lease and an open restatement are named, and nothing changes."""
    job = world.job("d")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    lease = world.leases.cut(DOMAIN, ["d"], name="report", owner="me")
    span = Interval(barrier(0), barrier(1))
    world.coordinator.restatements.open(DOMAIN, ["d"], span, name="fix", reason="wrong", by="me")
    before = world.exactly()
    with pytest.raises(EpochBusy) as refused:
        dropped(world.coordinator)
    assert [words.split()[0] for words in refused.value.holders] == ["an", "restatement", "lease"]
    assert "lease report of me on d" in str(refused.value)
    assert world.exactly() == before
    world.coordinator.abort(attempt, "enough")
    world.leases.drop(lease)
    world.coordinator.restatements.abandon(DOMAIN, "fix", reason="enough", by="me")
    dropped(world.coordinator)


CHANGES: dict[str, tuple[Callable[[World, Job], object], type[EpochError]]] = {
    "commit": (lambda world, job: world.run(job, day(3), [3]), Conflict),
    "begin": (lambda world, job: world.begin(job, day(3)), EpochBusy),
    "reader": (
        lambda world, job: world.coordinator.register(world.job("s", inputs=[state(job.outputs[0])])),
        TopologyError,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("transaction", [0, 1])
def test_a_change_between_the_look_and_the_drop_refuses_it(
    world: World, change: str, transaction: int
) -> None:
    """R39: before its job is retired. After that only a reader's registration still comes, and refuses it, too."""
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number])
    plan = world.coordinator.plan_drop(DOMAIN, "job", "d")
    act, error = CHANGES[change]
    if transaction and change != "reader":
        late: list[EpochError] = []

        def refused() -> None:
            with pytest.raises(TopologyError, match="is retired") as found:
                act(world, job)
            late.append(found.value)

        dropped(interrupted(world, refused, number=transaction), plan=plan)
        assert late
        assert without(world, "d")
        return
    with pytest.raises(error):
        dropped(interrupted(world, lambda: act(world, job), number=transaction), plan=plan)
    assert world.rows("d")["d"][:2] == [(1, 1), (2, 2)]


# --- those who were there before -----------------------------------------------------------------------------------


def test_a_zombie_of_the_dropped_job_reaches_nothing_of_the_new_one(table_world: World) -> None:
    """R10, R39: its token is older than all of the new job; what it ends, writes or publishes is refused."""
    world = table_world
    zombie = world.begin(world.job("d"), day(1))
    old = world.write(zombie, [1])
    world.clock.advance(PAST_TTL)
    dropped(world.coordinator)
    for ended in (
        lambda: world.coordinator.publish(zombie),
        lambda: world.coordinator.heartbeat(zombie),
        lambda: world.coordinator.written(zombie, "d", old["d"]),
        lambda: world.coordinator.columns(zombie, "d"),
        lambda: world.coordinator.abort(zombie, "late"),
    ):
        with pytest.raises(Fenced):
            ended()
    new = world.begin(world.job("d"), day(1))
    files = world.write(new, [9])["d"]
    assert new.token > zombie.token
    assert files.place != old["d"].place
    with pytest.raises(Fenced):
        world.coordinator.abort(zombie, "late again")
    with pytest.raises(Fenced):
        world.coordinator.publish(zombie)
    world.coordinator.complete(new)
    world.coordinator.publish(new)
    assert world.rows("d") == {"d": [(1, 9)]}


def test_cuts_sessions_and_leases_of_before_are_not_of_the_new_table(table_world: World) -> None:
    """R19, R20, R23, R39: a cut reads on for its time; no new claim, and no session, takes the new table for it."""
    world = table_world
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number])
    cut = world.cut("d")
    session = Session.of(DOMAIN).after(cut)
    dropped(world.coordinator)
    assert world.rows_of(cut) == {"d": [(1, 1), (2, 2)]}
    with pytest.raises(Unavailable, match="dropped"):
        world.leases.acquire(cut, name="report", owner="me")
    for number in (1, 2, 3):
        world.run(world.job("d"), day(number), [100 * number])
    with pytest.raises(Unavailable, match="dropped"):
        world.leases.acquire(cut, name="report", owner="me")
    assert world.rows_of(cut) == {"d": [(1, 1), (2, 2)]}
    for known in (session, session.after(world.cut("d"))):
        with pytest.raises(Unavailable, match="another table") as refused:
            world.cuts.cut(DOMAIN, ["d"], session=known)
        assert refused.value.tables == ("d",)
    with pytest.raises(
        Unavailable, match="another table"
    ):  # whose columns have the numbers of the former one's
        diff(world.cuts, cut, world.cut("d"))
    assert world.rows("d") == {"d": [(1, 100), (2, 200), (3, 300)]}


def test_a_lease_between_the_look_and_the_drop_keeps_its_rows_until_it_ends(table_world: World) -> None:
    """R19, R39: its files stay, also while the new table of the name is vacuumed; then they go."""
    world = table_world
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number), [number], owner(generation=0))
        world.run(job, day(number), [10 * number], owner(generation=1))
    old = world.data()

    def act() -> None:
        world.leases.cut(DOMAIN, ["d"], name="report", owner="me", ttl=timedelta(days=3))

    plan = world.coordinator.plan_drop(DOMAIN, "job", "d")
    dropped(interrupted(world, act, number=1), plan=plan)
    (lease,) = world.leases.all(DOMAIN)
    new = world.job("d")
    for number in (1, 2):
        world.run(new, day(number), [100 * number])
    world.clock.advance(PAST_ORPHANS)
    for _ in range(2):
        world.retention.vacuum(DOMAIN)
    assert world.rows_of(lease.cut) == {"d": [(1, 10), (2, 20)]}
    assert world.rows("d") == {"d": [(1, 100), (2, 200)]}
    world.leases.drop(lease)
    world.clock.advance(PAST_ORPHANS)
    for _ in range(2):
        world.retention.vacuum(DOMAIN)
    assert world.data().isdisjoint(old)
    assert world.rows("d") == {"d": [(1, 100), (2, 200)]}
    assert list(missing_files(world.store, world.formats, DOMAIN)) == []


def test_files_of_what_was_dropped_go_after_the_grace_and_no_other(table_world: World) -> None:
    """R24, R39: published files and those that no commit ever named; a vacuum before the grace deletes none."""
    world = table_world
    world.run(world.job("e"), day(1), [5])
    kept = world.data()
    job = world.job("d", [world.table("d", kind="full")])
    for number in (1, 2):
        world.run(job, day(number), [number])
    world.write(world.begin(job, day(3)), [3])
    world.clock.advance(PAST_GRACE)
    dropped(world.coordinator)
    everything = world.data()
    world.retention.vacuum(DOMAIN)
    assert world.data() == everything
    world.clock.advance(PAST_GRACE)
    world.coordinator.register(job)
    vacuumed = world.retention.vacuum(DOMAIN)
    assert world.data() == kept
    assert vacuumed.orphans
    assert list(missing_files(world.store, world.formats, DOMAIN)) == []
    topology = world.store.read(DOMAIN, [key := topology_key(DOMAIN)]).of(key).record
    assert [(left.table, left.deleted, left.why) for left in topology.dropped] == [
        ("d", True, "the first declarations were wrong (ada)")
    ]
    assert world.retention.vacuum(DOMAIN).deleted == ()
    assert world.rows("e") == {"e": [(1, 5)]}


def test_bounds_of_sources_go_unless_another_job_shares_them(world: World) -> None:
    """I11, R39: a new job reads a source of its own anew, by another rule, and a shared one by the same bounds."""

    def files(name: str, own: str = "first") -> dict[str, SourceBounds]:
        return {
            "own": SourceBounds(source="own", files=(BoundFile(uri=own, size_bytes=1),)),
            "shared": SourceBounds(source="shared", files=(BoundFile(uri=name, size_bytes=1),)),
        }

    shared = FileSource("shared", "file:///shared/{start:%Y-%m-%d}")
    other = world.job("e", inputs=[shared])
    job = world.job("d", inputs=[FileSource("own", "file:///own/{start:%Y-%m-%d}"), shared])
    for each in (job, other):
        attempt = world.begin(each, day(1), sources=files("a"))
        world.write(attempt)
        world.coordinator.complete(attempt)
        world.coordinator.publish(attempt)
    dropped(world.coordinator)
    new = world.job("d", inputs=[FileSource("own", "file:///elsewhere/{start:%Y-%m-%d}"), shared])
    attempt = world.begin(new, day(1), sources=files("b", "second"))
    read = {bounds.source: [file.uri for file in bounds.files] for bounds in attempt.sources}
    assert read == {"own": ["second"], "shared": ["a"]}


def test_a_restatement_of_what_was_dropped_is_not_taken_back(world: World) -> None:
    """R30, R39: neither before the names are used again nor after: the new epochs are none of its members."""
    job = world.job("d")
    world.run(job, day(1), [1])
    own = world.coordinator.restatements
    own.open(DOMAIN, ["d"], day(1), name="fix", reason="wrong", by="me")
    attempt = world.coordinator.begin_within("fix", job, day(1), owner("fix"))
    world.write(attempt, [2])  # type: ignore[arg-type]
    world.coordinator.complete(attempt)  # type: ignore[arg-type]
    world.coordinator.stage(attempt)  # type: ignore[arg-type]
    own.publish(DOMAIN, "fix")
    plan = world.coordinator.plan_drop(DOMAIN, "job", "d")
    assert (plan.reverts, plan.obstacles) == (("fix",), ())
    dropped(world.coordinator, plan=plan)
    assert world.leases.all(DOMAIN) == []
    with pytest.raises(UnknownName):
        own.revert(DOMAIN, "fix", reason="no", by="me")
    world.coordinator.register(job)
    with pytest.raises(TopologyError, match="was dropped since"):
        own.revert(DOMAIN, "fix", reason="no", by="me")
    world.run(job, day(1), [3])
    with pytest.raises(TopologyError, match="was computed again since"):
        own.revert(DOMAIN, "fix", reason="no", by="me")
    assert world.rows("d") == {"d": [(1, 3)]}


def test_an_entry_of_another_program_stays_in_the_catalog(table_world: World) -> None:
    """R17, R39: a table that another program made anew under the name is not the package's to remove."""
    world = table_world
    job = world.job("d")
    world.run(job, day(1), [1])
    world.pointers.drop(DOMAIN, "d")
    table = job.outputs[0]
    schema = world.formats[table.format].arrow_schema
    assert schema
    twin = world.job("twin", [world.table("twin")])
    world.run(twin, day(1), [2])
    world.pointers.create(DOMAIN, "d", str(world.pointers.pointer(DOMAIN, "twin")))
    assert dropped(world.coordinator).left == ("d",)
    assert world.pointers.tables(DOMAIN) == ["d", "twin"]


# --- interrupted ---------------------------------------------------------------------------------------------------


def test_a_drop_that_dies_anywhere_is_ended_by_the_next(backend: Backend) -> None:
    """R15, R39: readers have lost all of it or nothing; until its end no job takes a name; no old row stays."""

    def prepare(world: World) -> None:
        pipeline(world, 1)
        world.run(world.job("e"), day(1), [5])

    def work(own: EpochService, _: object) -> None:
        dropped(own, cascade=True)

    deaths = Prepared.of(backend, prepare, work)
    seen = set()
    for number, world, _ in deaths.deaths():
        there = [name for name in ("d", "d2", "r") if not without(world, name)]
        assert there in (["d", "d2", "r"], []), number
        assert list(stale_reads(world.store, DOMAIN)) == []
        assert list(missing_files(world.store, world.formats, DOMAIN)) == []
        left = unfinished_drop(world.coordinator.context, DOMAIN)
        seen.add((bool(there), left is not None))
        if left is not None:
            for late in (world.job("d"), world.job("x", [world.table("d2")])):
                with pytest.raises(EpochBusy, match="are being dropped"):
                    world.begin(late, day(1))
            world.coordinator.finish_drop(DOMAIN)
        elif there:
            dropped(world.coordinator, cascade=True)
        assert world.coordinator.finish_drop(DOMAIN) is None
        assert world.rows("e") == {"e": [(1, 5)]}
        pipeline(world, 1)
        assert world.rows("d", "r") == {"d": [(1, 1)], "r": [(1, 10)]}
        world.clock.advance(PAST_GRACE)
        world.retention.vacuum(DOMAIN)
        assert world.rows("d", "d2", "r", "e") == {
            "d": [(1, 1)],
            "d2": [(1, 1)],
            "r": [(1, 10)],
            "e": [(1, 5)],
        }
    assert seen == {(True, False), (False, True)}


@pytest.mark.parametrize("call", ["store.transact", "store.read", "table.forget"])
def test_a_drop_that_stood_still_while_another_process_ended_it(backend: Backend, call: str) -> None:
    """R39: it deletes nothing of the jobs that have the names since, before whichever call it stood still."""

    def unpublished(world: World) -> None:
        """The catalog has a table that no commit names: nothing tells it from the next one of that name."""
        written = world.begin(world.job("u", inputs=[increment(world.table("d"))]), day(1))
        world.write(written, [1])
        world.coordinator.abort(written, "enough")

    def prepare(world: World) -> None:
        pipeline(world)
        unpublished(world)

    case = Prepared.of(backend, prepare, lambda own, _: dropped(own, cascade=True))
    counter = Interruption(-1, lambda: None)
    world, _ = case.again()
    dropped(worker(world, counter), cascade=True)
    world.close()
    met = 0
    for number in range(counter.calls.count(call)):
        world, _ = case.again()
        anew: list[object] = []

        def act(world: World = world, anew: list[object] = anew) -> None:
            if world.coordinator.finish_drop(DOMAIN) is not None:
                pipeline(world, 1)
                unpublished(world)
                anew.append(world.exactly())

        with suppress(TopologyError, Conflict):  # before its commit nothing is to be ended
            dropped(interrupted(world, act, call, number), cascade=True)
        if anew:
            assert world.exactly() == anew[0]
            met += 1
        world.close()
    assert met >= 2
    case.world.close()


def test_a_drop_whose_reply_is_lost_is_made_once(world: World) -> None:
    """R15: the drop was made, whichever reply was lost, and is not made twice."""
    for number in range(60):
        pipeline(world, 1)
        before = len(world.commits())
        plan = world.coordinator.plan_drop(DOMAIN, "job", "d", cascade=True)
        store = FaultyStore(world.store, lambda call, n=number: _lost(call, n))
        told = dropped(world.worker(store), cascade=True, plan=plan)
        names = [str(commit.record.change_set).split()[0] for commit in world.commits()[before:]]
        assert names.count("d#dropped") == 1
        assert (told.jobs, told.tables) == (("d", "r"), ("d", "d2", "r"))
        assert without(world, "d", "d2", "r")
        if number > 20:
            break


def _lost(call: Call, number: int) -> Fault | None:
    return Fault.REPLY_LOST if call.number == number else None


def test_a_cut_over_the_domain_never_has_half_of_it(world: World) -> None:
    """R39: a reader between whose reads the drop commits gets all of it, or an error."""
    pipeline(world)
    world.run(world.job("e"), day(1), [5])
    world.run(world.job("e"), day(2), [6])
    for number in range(8):
        found: list[Cut] = []
        twin = world.worker(
            Between(world, lambda: dropped(world.coordinator, cascade=True), number)  # type: ignore[arg-type]
        )
        with suppress(UnknownName, Conflict, NotReady):
            found.append(twin.cuts.cut(DOMAIN, ["d", "d2", "r"], consistency="altogether"))
        for cut in found:
            assert world.rows_of(cut) == {
                "d": [(1, 1), (2, 2)],
                "d2": [(1, 1), (2, 2)],
                "r": [(1, 10), (2, 20)],
            }
        if without(world, "d"):
            pipeline(world)
        else:
            return


class Between:
    """A store before whose read something happens, once."""

    def __init__(self, world: World, act: Callable[[], object], number: int) -> None:
        self._inner, self._act, self._left = world.store, act, number

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in ("read", "scan"):
            return found

        def call(*given: Any, **named: Any) -> Any:
            if self._left == 0:
                self._act()
            self._left -= 1
            return found(*given, **named)

        return call
