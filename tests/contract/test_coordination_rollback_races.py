"""A rollback that others meet: its death, lost replies, attempts and readers in between, sources and groups (R30)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep import rollback_plan
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.grid import grid
from airflow_provider.domain import sizes
from airflow_provider.domain.columns import add
from airflow_provider.domain.epoch import Attempt, EpochState
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    InvalidInput,
    NotReady,
    StoreIncompatible,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.session import Session
from airflow_provider.domain.source_bounds import IcebergSource, SourceBounds, Span
from airflow_provider.domain.topology import Job, Table, increment
from airflow_provider.domain.version import TableRef
from airflow_provider.testing.faults import Call, Fault, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner
from tests.contract.groups import DAY_2, Chain
from tests.contract.interruptions import interrupted
from tests.contract.landings import FILES, Landing
from tests.contract.restating import NAME, Prepared, opened, published, restated
from tests.contract.test_coordination_rollback import (
    WHY,
    cascade,
    planned,
    rolled,
    run_days,
    seen,
    sound,
)


def test_res9_rerun_after_rollback(table_world: World) -> None:
    """R30: the runs that had computed the epochs compute them anew; no reader sees D of one version, F of another."""
    world = table_world
    _, copy, _ = jobs = cascade(world)
    csn = run_days(world, jobs, range(1, 2))
    before = world.rows("b", "c", "f")
    run_days(world, jobs, range(2, 4))
    held = world.cut("b", "c", "f")
    bad = world.rows_of(held)
    session = Session.of(DOMAIN).after(held)
    rolled(world.coordinator, csn)
    assert world.rows("b", "c", "f") == before
    assert world.rows_of(held) == bad
    with pytest.raises(Unavailable, match="rolled back since"):
        world.cuts.cut(DOMAIN, ["b"], session=session)
    with pytest.raises(NotReady):
        world.begin(copy, day(2))
    for number in (2, 3):
        for job in jobs:
            attempt = world.begin(job, day(number))
            assert (attempt.revision, attempt.adopted) == (2, False)
            world.write(attempt, [100 + number])
            world.coordinator.complete(attempt)
            world.coordinator.publish(attempt)
            rows = world.rows("b", "c", "f")
            assert max(rows["b"])[0] == max(rows["f"])[0]
    assert world.rows("b", "c", "f") == {
        "b": [(1, 1), (2, 102), (3, 103)],
        "c": [(1, 1), (2, 102), (3, 103)],
        "f": [(3, 103)],
    }
    assert world.rows_of(held) == bad
    assert sound(world)


# --- interrupted ---------------------------------------------------------------------------------------------------


def test_a_rollback_that_dies_anywhere_was_made_or_not(backend: Backend) -> None:
    """R15, R30: readers have all of it or nothing, and the same command again ends it."""

    def prepare(world: World) -> int:
        jobs = cascade(world)
        csn = run_days(world, jobs, range(1, 3))
        run_days(world, jobs, range(3, 5))
        return csn

    def work(own: EpochService, csn: int) -> None:
        rolled(own, csn)

    ends = set()
    for number, world, csn in Prepared.of(backend, prepare, work).deaths():
        newest = world.rows("b", "c", "f")["b"][-1][0]
        assert newest in (2, 4), number
        assert {max(rows)[0] for rows in world.rows("b", "c", "f").values()} == {newest}, number
        assert sound(world), number
        ends.add(newest)
        if newest == 4:
            rolled(world.coordinator, csn)
        else:
            with pytest.raises(InvalidInput, match="committed still"):
                rolled(world.coordinator, csn)
        assert [world.engine_rows(name) for name in ("b", "c")] == [[(1, 1), (2, 2)]] * 2
        assert seen(world)[0] == {"b": [(1, 1), (2, 2)], "c": [(1, 1), (2, 2)]}
        run_days(world, cascade(world), range(3, 5), "again", plus=100)
        assert world.engine_rows("f") == world.rows("f")["f"] == [(4, 104)], number
        assert world.engine_rows("b") == world.rows("b")["b"]
    assert ends == {2, 4}


def test_a_rollback_whose_reply_is_lost_is_made_once(world: World) -> None:
    """R15: whichever reply was lost."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    for number in range(30):
        run_days(world, (job,), range(3, 4), f"run {number}")
        before = len(world.commits())

        def plan(call: Call, number: int = number) -> Fault | None:
            return Fault.REPLY_LOST if call.number == number else None

        told = rolled(world.worker(FaultyStore(world.store, plan)), csn)
        assert (told.csn, len(world.commits())) == (before + 1, before + 1)
        assert world.engine_rows("b") == world.rows("b")["b"] == [(1, 1), (2, 2)]


# --- others in between ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["cascade", "ignore"])
def test_an_attempt_that_begins_meanwhile_is_refused_at_its_publish(world: World, policy: str) -> None:
    """R13: the rollback has not seen it, and what it has read is gone."""
    base = world.job("b")
    reader = world.job("r", inputs=[increment(world.table("b"), on_upstream_revision=policy)])
    csn = run_days(world, (base, reader), range(1, 3))
    world.run(base, day(3), [3])
    begun = []
    rolled(interrupted(world, lambda: begun.append(world.begin(reader, day(3)))), csn)
    (attempt,) = begun
    world.write(attempt, [3])
    world.coordinator.complete(attempt)
    with pytest.raises(Conflict, match="were rolled back"):
        world.coordinator.publish(attempt)
    assert world.rows("b", "r") == {name: [(1, 1), (2, 2)] for name in ("b", "r")}


@pytest.mark.parametrize("change", ["commit", "expiry", "restatement"])
def test_what_changes_meanwhile_is_never_overlooked(world: World, change: str) -> None:
    """R30: the rollback is decided anew, and refused."""
    job, full = world.job("b"), world.job("f", [world.table("f", kind="full")])
    csn = run_days(world, (job, full), range(1, 3))
    run_days(world, (job, full), range(3, 5))
    changes: dict[str, Callable[[], object]] = {
        "commit": lambda: world.run(job, day(5), [5]),
        "expiry": lambda: world.retention.expire(DOMAIN, "f", barrier(3)),
        "restatement": lambda: world.coordinator.restatements.open(DOMAIN, ["b"], day(1), name="fix", **WHY),
    }
    refused = {"commit": Conflict, "expiry": TopologyError, "restatement": EpochBusy}
    with pytest.raises(refused[change]):
        rolled(interrupted(world, changes[change]), csn)
    assert world.rows("b", at=barrier(4)) == {"b": [(number, number) for number in range(1, 5)]}


def test_a_commit_while_it_is_looked_is_no_earlier_beginning(world: World) -> None:
    """R30: whichever of the reads it comes before; what is in the way is named, and nothing else."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 2))
    for number in range(20):
        run_days(world, (job,), range(3, 4), f"run {number}")

        def plan(call: Call, number: int = number) -> None:
            if call.number == number:
                run_days(world, (job,), range(2, 3), f"gap {number}")

        assert planned(world.worker(FaultyStore(world.store, plan)), csn).obstacles == (), number
        rolled(world.coordinator, csn)


def test_a_cut_has_all_of_a_rollback_or_nothing(world: World) -> None:
    """R30: whichever of its reads the rollback comes before."""
    jobs = cascade(world)
    csn = run_days(world, jobs, range(1, 3))
    for number in range(6):
        run_days(world, jobs, range(3, 5), f"run {number}")

        def plan(call: Call, number: int = number) -> None:
            if call.number == number:
                rolled(world.coordinator, csn)

        twin = world.worker(FaultyStore(world.store, plan))
        with suppress(NotReady, Conflict):
            cut = twin.cuts.cut(DOMAIN, ["b", "c", "f"], consistency="altogether")
            assert {max(rows)[0] for rows in world.rows_of(cut).values()} in ({2}, {4})
        if world.rows("b")["b"][-1][0] == 4:
            return


# --- one after the other -------------------------------------------------------------------------------------------


def test_rollbacks_go_on_from_each_other(world: World) -> None:
    """R30: over an earlier one, and to a CSN between two; the revisions count on."""
    job = world.job("b")
    first = run_days(world, (job,), range(1, 3))
    later = run_days(world, (job,), range(3, 5), "first")
    rolled(world.coordinator, first + 1)
    again = world.run(job, day(4), [44], owner("second"))
    assert (again.revision, later) == (2, first + 2)
    rolled(world.coordinator, again.csn - 1)
    assert world.rows("b") == {"b": [(1, 1), (2, 2), (3, 3)]}
    assert world.run(job, day(4), [444], owner("third")).revision == 3
    rolled(world.coordinator, 1)
    assert world.rows("b") == {"b": [(1, 1)]}
    assert {epochs.job: epochs.intervals for epochs in planned(world.coordinator, 0).epochs} == {
        "b": (day(1),)
    }
    run_days(world, (job,), range(2, 5), "last", plus=10)
    assert world.rows("b") == {"b": [(1, 1), (2, 12), (3, 13), (4, 14)]}
    assert sound(world)


def test_a_csn_before_an_earlier_rollback_is_not_gone_back_to(world: World) -> None:
    """R30: at it an epoch was committed whose rows were taken back since; what is committed now has other rows."""
    job = world.job("b")
    first = run_days(world, (job,), range(1, 3))
    rolled(world.coordinator, first - 1)
    world.run(job, day(2), [22], owner("again"))
    with pytest.raises(TopologyError, match=f"CSN {first + 1} has rolled the domain back to CSN {first - 1}"):
        rolled(world.coordinator, first)
    assert len(planned(world.coordinator, first).obstacles) == 1, "b has begun where it began"
    for to in (first + 1, first - 1):
        assert planned(world.coordinator, to).in_the_way == ()


def test_a_table_that_another_job_has_taken_over_is_in_the_way(world: World) -> None:
    """R7: its new owner cannot compute the epochs of the former one again."""
    former = world.job("b")
    csn = run_days(world, (former,), range(1, 3))
    world.run(former, day(3), [3])
    world.coordinator.retire(DOMAIN, "b", **WHY)
    heir = world.job("heir", [world.table("b"), world.table("own")])
    world.run(heir, day(4), [4])
    with pytest.raises(TopologyError, match="b is of job heir now"):
        rolled(world.coordinator, csn)
    plan = planned(world.coordinator, csn + 1)
    assert (plan.in_the_way, [found.job for found in plan.epochs]) == ((), ["heir"])


def test_a_rollback_larger_than_a_commit_names_the_first_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("MOST_RESTATED", "MOST_RESTATED_IN_SMALL_TRANSACTIONS"):
        monkeypatch.setattr(sizes, limit, 2)
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 2))
    run_days(world, (job,), range(2, 5))
    with pytest.raises(TopologyError, match=f"roll back to CSN {csn + 1} first"):
        rolled(world.coordinator, csn)
    rolled(world.coordinator, csn + 1)
    rolled(world.coordinator, csn)
    assert world.rows("b") == {"b": [(1, 1)]}


def test_a_rollback_of_more_slices_than_a_commit_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R30: an epoch that was computed again, or has many tables, counts as often."""
    monkeypatch.setattr(rollback_plan, "_SLICES_OF_AN_EPOCH", 1)
    for limit in ("MOST_RESTATED", "MOST_RESTATED_IN_SMALL_TRANSACTIONS"):
        monkeypatch.setattr(sizes, limit, 2)
    job = world.job("b", [world.table("b"), world.table("c")])
    csn = run_days(world, (world.job("a"),), range(1, 2))
    run_days(world, (job,), range(1, 3))
    with pytest.raises(
        TopologyError, match=r"4 slices of 2 epochs are more than one commit of this store holds \(2\)"
    ):
        rolled(world.coordinator, csn)
    assert world.rows("b", "c") == {"b": [(1, 1), (2, 2)], "c": [(1, 1), (2, 2)]}


def test_an_older_package_may_use_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R36: it knows no rollbacks."""
    csn = run_days(world, (world.job("b"),), range(1, 2))
    run_days(world, (world.job("b"),), range(2, 3))
    monkeypatch.setattr(type(world.store), "format", 1)
    with pytest.raises(StoreIncompatible, match=r"record format 1.*Next step: once every host"):
        rolled(world.coordinator, csn)
    assert world.rows("b") == {"b": [(1, 1), (2, 2)]}


# --- what an epoch has besides its rows ----------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_group_computes_its_barrier_again(world: World, *, again: bool) -> None:
    """R30, R40: the barrier is over, opened anew, and published whole.

    :param again: a restatement has computed its epochs again before.
    """
    chain = Chain.of(world)
    chain.run(1)
    csn = len(world.commits())
    before = world.rows("b", "d", "t")
    chain.run(2)
    if again:
        opened(world, "b", 2)
        for job in chain.jobs:
            restated(world, job, 2, [1000])
        published(world)
    rolled(world.coordinator, csn)
    assert world.rows("b", "d", "t") == before
    with pytest.raises(InvalidInput, match=f"was abandoned: rolled back to CSN {csn}"):
        world.coordinator.restatements.publish(DOMAIN, DAY_2)
    base, daily, total = chain.jobs
    chain.stage(base, 2, values=[200])
    chain.stage(daily, 2)
    assert world.rows("b", "d", "t") == before
    chain.stage(total, 2)
    assert world.rows("b", "d") == {"b": [(1, 10), (2, 200)], "d": [(1, 11), (2, 201)]}
    assert sound(world)


def test_an_open_barrier_of_a_group_is_in_the_way(world: World) -> None:
    chain = Chain.of(world)
    chain.run(1)
    csn = len(world.commits())
    chain.run(2)
    chain.stage(chain.jobs[0], 3)
    assert any("group flights" in words for words in planned(world.coordinator, csn).in_the_way)


def test_late_files_that_were_taken_back_are_read_again(world: World, tmp_path: Path) -> None:
    """I11, R30: by the epoch that reads them anew; none is lost, none is read twice."""
    landing = Landing(world, tmp_path)
    job = landing.job("landing", late_window=timedelta(days=7))
    for number in (1, 2, 3):
        landing.land(number, f"{number}.csv")
    assert sorted(landing.run(job, day(1))) == ["1.csv"]
    csn = len(world.commits())
    landing.land(1, "late.csv")
    assert sorted(landing.run(job, day(2))) == ["2.csv", "late.csv"]
    assert sorted(landing.run(job, day(3))) == ["3.csv"]
    rolled(world.coordinator, csn)
    landing.land(2, "more.csv")
    assert sorted(landing.run(job, day(2), owner("again"))) == ["2.csv", "late.csv", "more.csv"]
    assert sorted(landing.run(job, day(3), owner("again"))) == ["3.csv"]


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_files_that_a_skip_gave_back_are_read_once(
    world: World, tmp_path: Path, order: tuple[int, int]
) -> None:
    """I11, R30: whichever of the two epochs is computed first."""
    landing = Landing(world, tmp_path)
    job = landing.job("landing", late_window=timedelta(days=7))
    for number in (1, 2, 3):
        landing.land(number, f"{number}.csv")
    landing.run(job, day(1))
    csn = len(world.commits())
    landing.land(1, "late.csv")
    world.coordinator.abort(world.begin(job, day(2), sources=FILES), "it failed")
    world.coordinator.skip(DOMAIN, job.name, day(2), **WHY)
    assert sorted(landing.run(job, day(3))) == ["3.csv", "late.csv"]
    rolled(world.coordinator, csn)
    found = [file for number in order for file in landing.run(job, day(number), owner("again"))]
    assert sorted(found) == ["2.csv", "3.csv", "late.csv"]


def test_a_skipped_epoch_may_be_computed_then(world: World) -> None:
    """R5: its skip is taken back as any other commit."""
    job = world.job("f", [world.table("f", kind="full")])
    csn = run_days(world, (job,), range(1, 3))
    world.coordinator.skip(DOMAIN, "f", day(3), **WHY)
    rolled(world.coordinator, csn)
    assert world.run(job, day(3), [3]).revision == 2
    assert world.rows("f") == {"f": [(3, 3)]}


def test_a_restatement_whose_epochs_are_gone_cannot_be_reverted(world: World) -> None:
    """R30: they are not committed; a revert would bring them back."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    opened(world, "b", 3)
    restated(world, job, 3, [33])
    published(world)
    assert world.rows("b", at=barrier(3))["b"][-1] == (3, 33)
    rolled(world.coordinator, csn)
    with pytest.raises(TopologyError, match="was rolled back since"):
        world.coordinator.restatements.revert(DOMAIN, NAME, **WHY)
    assert world.run(job, day(3), [103]).revision == 3
    with pytest.raises(TopologyError, match="computed again since"):
        world.coordinator.restatements.revert(DOMAIN, NAME, **WHY)
    assert world.rows("b", at=barrier(3)) == {"b": [(1, 1), (2, 2), (3, 103)]}


def test_a_revert_of_epochs_that_go_meanwhile_is_refused(world: World) -> None:
    """R30: before whichever read of the revert, also where the table has no epoch any more."""
    job = world.job("b")
    csn = run_days(world, (world.job("a"),), range(1, 2))
    for number in range(13):  # each read before the commit that opens the revert
        run_days(world, (job,), range(1, 2), f"run {number}")
        opened(world, "b", 1, name=(name := f"fix {number}"))
        restated(world, job, 1, [33], name=name)
        world.coordinator.restatements.publish(DOMAIN, name)
        own = interrupted(world, lambda: rolled(world.coordinator, csn), "store.read", number)
        with pytest.raises(TopologyError):
            own.restatements.revert(DOMAIN, name, **WHY)
        with pytest.raises(TopologyError, match="was rolled back since"):
            world.coordinator.restatements.revert(DOMAIN, name, **WHY)


def test_columns_stay_as_they_are_now(table_world: World) -> None:
    """R32: they are declared; the rows of before have nulls in a new one."""
    world = table_world
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    added = world.job("b", [world.table("b", column_changes=[add("more", "bigint")])])
    attempt = world.begin(added, day(3))
    world.coordinator.abort(attempt, "enough")
    world.run(job, day(3), [3], owner("older"))
    rolled(world.coordinator, csn)
    assert world.rows("b") == {"b": [(1, 1), (2, 2)]}
    assert "more" in world.engine_columns("b")


def test_rows_that_stayed_are_not_named_once_they_are_gone(world: World) -> None:
    """R7, R18: neither by cuts nor by doctor, also where the epoch is computed without their table."""
    left, kept = world.table("left"), world.table("kept")
    both, without = world.job("j", [left, kept]), world.job("j", [kept])
    csn = run_days(world, (both,), range(1, 3))
    world.run(both, day(3), [3])
    world.run(without, day(3), [33], owner("second"))
    assert [label.table for label in world.cut("left", "kept").outdated] == ["left"]
    rolled(world.coordinator, csn)
    world.run(without, day(3), [333], owner("third"))
    told = [found.found for found in examine(world.store, world.formats, DOMAIN).symptoms]
    assert not [words for words in told if "earlier revision" in words]
    world.run(both, day(3), [3333], owner("fourth"))
    cut = world.cut("left", "kept")
    assert (cut.outdated, world.rows_of(cut)["left"][-1]) == ((), (3, 3333))


def test_what_has_happened_is_told(world: World) -> None:
    """R1: the state log has it, with its author; the grid and explain show an epoch without a commit."""
    job = world.job("b")
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    rolled(world.coordinator, csn)
    log = [entry.record for entry in world.coordinator.barriers(DOMAIN, job.name, day(3))]
    (last,) = (entry for entry in log if entry.state is EpochState.ROLLED_BACK)
    assert (last.owner.dag_id, last.note) == ("rollback by ada", "the deployment was wrong (ada)")
    shown = grid(world.store, DOMAIN, start=barrier(0), end=barrier(4))
    (row,) = shown.rows
    cells = {cell.interval: (cell.state, cell.committed) for cell in row.cells}
    assert cells[day(3)] == (EpochState.NOTHING, None)
    assert cells[day(2)][0] is EpochState.COMMIT
    assert explain(world.store, DOMAIN, "b", day(3))
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()


class Elsewhere:
    """A job of another domain in the same store, which reads table b as an Iceberg table."""

    def __init__(self, world: World) -> None:
        self.world = world
        source = IcebergSource("theirs", "lake.cascade.b")
        self.table = Table("copy", domain="others", format=world.table_format)
        self.job = Job("copy", outputs=[self.table], inputs=[source], cadence="@daily", origin=barrier(0))

    def begin(self, number: int, span: Span) -> Attempt:
        bounds = {"theirs": SourceBounds(source="theirs", span=span)}
        return self.world.begin(self.job, day(number), sources=bounds)

    def read(self, number: int, span: Span) -> None:
        attempt = self.begin(number, span)
        self.world.write(attempt)
        self.world.coordinator.publish(attempt)


def newest_ref(world: World) -> TableRef:
    return world.commits()[-1].record.tables[0].ref


READ_BY = "source theirs of domain others has read it for job copy"


@pytest.mark.parametrize("left", [False, True])
def test_another_domain_that_has_read_it_is_in_the_way(world: World, left: bool) -> None:
    """R34: an Iceberg source of a domain in the same store; nothing would compute its epochs again."""
    job, other = world.job("b"), Elsewhere(world)
    csn = run_days(world, (job,), range(1, 3))
    world.run(job, day(3), [3])
    span = Span(low=None, high=newest_ref(world).version)
    if left:  # its committed epoch stands on the source all the same
        other.read(1, span)
        world.coordinator.register(Job("copy", outputs=[other.table], cadence="@daily", origin=barrier(0)))
    else:
        other.begin(1, span)
        world.clock.advance(PAST_TTL)
    with pytest.raises(TopologyError, match=READ_BY):
        rolled(world.coordinator, csn)
    assert planned(world.coordinator, csn - 1).in_the_way


def test_another_domain_that_has_read_a_compaction_of_it_is_in_the_way(world: World) -> None:
    """R34: its snapshot is of no commit; what the other domain had read before is not in the way."""
    job, other = world.job("b"), Elsewhere(world)
    csn = run_days(world, (job,), range(1, 3))
    identity = newest_ref(world).table_uuid
    other.read(1, Span(low=None, high=11_111, identity=identity))
    world.clock.advance(timedelta(minutes=1))
    world.run(job, day(3), [3])
    assert planned(world.coordinator, csn).in_the_way == ()
    world.clock.advance(timedelta(minutes=1))
    other.read(2, Span(low=11_111, high=22_222, identity=identity))
    assert planned(world.coordinator, csn).in_the_way == (READ_BY,)
