"""Revisions, gaps and origins: what a commit over or before committed time does, and who may do it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_provider.coordination.attempts.rerun import refuse_reruns
from airflow_provider.coordination.upkeep.explain import explain, watermarks
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AlreadyCommitted, EpochState
from airflow_provider.domain.errors import Conflict, DependentReaders, FinalError, NotReady, TopologyError
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import Kind
from airflow_provider.domain.topology import Edge, increment, previous, state, window
from airflow_provider.stores.base import MetadataStore
from airflow_provider.testing.faults import FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner


def readers_of(refused: Any) -> list[tuple[str, Interval]]:
    return [(str(reader.job), reader.interval) for reader in refused.value.details["readers"]]


def test_origin_moves_back_when_epochs_come_out_of_order(world: World) -> None:
    """I3: without a declared origin the chain begins where the first commit was, and grows to both sides."""
    job = world.job("d", origin=None)
    for number, mark in ((5, 5), (7, 5), (4, 5), (2, 5), (3, 5), (6, 7)):
        world.run(job, day(number), [number])
        assert watermarks(world.store, DOMAIN)["d"] == barrier(mark), number
    assert world.rows("d") == {"d": [(n, n) for n in range(2, 8)]}


def test_epoch_before_the_chain_is_a_rewrite_for_state_readers(world: World) -> None:
    """R13: an epoch before an undeclared origin changes what a state reader had read: it is told, and refused."""
    job = world.job("d", origin=None)
    reader = world.job("r", inputs=[state(world.table("d"))], origin=None)
    world.run(job, day(5), [5])
    attempt = world.begin(reader, day(5))
    world.write(attempt)
    world.run(job, day(4), [4])
    with pytest.raises(Conflict, match="computed again"):
        world.coordinator.publish(attempt)
    retry = world.begin(reader, day(5), owner(try_number=2))
    assert not retry.adopted
    assert retry.inputs[0].csn > attempt.inputs[0].csn
    world.write(retry)
    world.coordinator.publish(retry)
    with pytest.raises(DependentReaders):
        world.begin(job, day(3))


def test_a_declared_origin_stays_where_a_reader_found_nothing_before_it(world: World) -> None:
    """R7: also with nothing committed; who had read "nothing before" keeps being right."""
    d = world.table("d")
    late = world.job("d", origin=barrier(5))
    world.coordinator.register(late)
    reader = world.job("r", inputs=[previous(d)], origin=barrier(5))
    world.run(reader, day(6), [1])
    before = world.exactly()
    with pytest.raises(TopologyError, match="there was nothing of 'd' before 2024-01-06") as refused:
        world.coordinator.register(world.job("d", origin=barrier(0)))
    assert [str(reader.job) for reader in refused.value.details["readers"]] == ["r"]
    assert world.exactly() == before


def test_an_origin_that_is_declared_later_counts_for_a_table_without_a_commit(world: World) -> None:
    """R12: a job without an origin was registered and never ran; its first epoch may read "nothing before"."""
    world.coordinator.register(world.job("d", origin=None))
    job = world.job("d", inputs=[previous(world.table("d"))])
    for number in (1, 2):
        world.run(job, day(number), [number])
    assert world.cut("d").barrier == barrier(2)


@pytest.mark.parametrize("is_committed", [True, False], ids=["a committed epoch", "an open epoch"])
def test_a_declared_origin_does_not_move_forward(world: World, is_committed: bool) -> None:
    """R7: the tables would wait for ever for the epochs that the job no longer has; the declaration is refused."""
    job = world.job("d", origin=barrier(2))
    if is_committed:
        world.run(job, day(3))
    else:
        world.begin(job, day(4))
    before = world.exactly()
    with pytest.raises(TopologyError, match="cannot move forward") as refused:
        world.coordinator.register(world.job("d", origin=barrier(3)))
    assert refused.value.details["expected"] == barrier(2).isoformat()
    assert world.exactly() == before
    world.coordinator.register(world.job("d", origin=barrier(1)))


def test_an_origin_that_is_declared_no_more_changes_nothing(world: World) -> None:
    """R7: the tables keep where they begin, and the job goes on."""
    world.run(world.job("d", origin=barrier(1)), day(2), [2])
    world.run(world.job("d", origin=None), day(3), [3])
    assert world.rows("d") == {"d": [(2, 2), (3, 3)]}
    world.run(world.job("d", origin=barrier(0)), day(4), [4])
    with pytest.raises(
        TopologyError, match="goes on at 2024-01-01.* no job would compute the epochs between"
    ):
        world.coordinator.register(world.job("d", origin=barrier(2)))


def test_a_new_output_begins_where_its_job_is(world: World) -> None:
    """R7: a table that a job gets later blocks no cut: it begins at the end of what the job has committed."""
    for number in (1, 2):
        world.run(world.job("d"), day(number), [number])
    both = world.job("d", [world.table("d"), world.table("d2")])
    world.run(both, day(3), [3])
    assert world.cut("d").barrier == barrier(3)
    assert world.rows("d", "d2") == {"d": [(1, 1), (2, 2), (3, 3)], "d2": [(3, 3)]}
    world.run(both, day(2), [20], owner("again"))
    assert world.rows("d2") == {"d2": [(2, 20), (3, 3)]}


def test_a_new_output_that_reads_its_own_past_begins_too(world: World) -> None:
    """R7, R12: its first epoch is the next of the job, and there is nothing before it."""
    world.run(world.job("d"), day(1))
    d2 = world.table("d2")
    both = world.job("d", [world.table("d"), d2], inputs=[previous(d2)])
    attempt = world.begin(both, day(2))
    assert attempt.input("d2").ref is None


def test_a_reader_of_two_tables_is_named_once(world: World) -> None:
    """R18: each epoch that depends on a revision is listed once, with all that it read."""
    left, right = world.table("left"), world.table("right")
    pair = world.job("pair", [left, right])
    world.run(pair, day(1))
    world.run(world.job("r", inputs=[left, state(right)]), day(1))
    world.coordinator.register(world.job("r", inputs=[state(left), state(right)]))
    with pytest.raises(DependentReaders) as refused:
        world.begin(pair, day(1), owner("again"))
    (reader,) = refused.value.details["readers"]
    assert (reader.job, reader.interval, set(reader.tables)) == ("r", day(1), {"left", "right"})


@pytest.mark.parametrize(
    "edge_of",
    [increment, state, lambda table: window(table, timedelta(days=1))],
    ids=["increment", "state", "window"],
)
def test_rerun_with_committed_readers_names_them(world: World, edge_of: object) -> None:
    """R18: begin and publish of a revision are refused while committed epochs have read it."""
    job = world.job("d")
    edge: Edge = edge_of(world.table("d"))  # type: ignore[operator]
    reader = world.job("r", inputs=[edge])
    for number in (1, 2):
        world.run(job, day(number), [number])
        world.run(reader, day(number), [number])
    before = world.exactly()
    for number in (1, 2):
        with pytest.raises(DependentReaders) as refused:
            world.begin(job, day(number), owner("manual"))
        readers = {
            (str(reader.job), reader.interval, *map(str, reader.tables))
            for reader in refused.value.details["readers"]
        }
        named = {("r", day(number), "d")}
        later = {("r", day(2), "d")} if number == 1 and edge.kind.value != "increment" else set()
        assert readers == named | later
        assert "r [2024" in str(refused.value)
    assert world.exactly() == before
    world.run(job, day(3))
    assert world.begin(job, day(3), owner("manual")).revision == 2


def test_reader_with_a_lag_is_named(world: World) -> None:
    """R18: the epoch that has read a day as of a lag begins after that day has ended."""
    job = world.job("d")
    late = increment(world.table("d"), as_of=timedelta(hours=12))
    for number in (1, 2):
        world.run(job, day(number), [number])
    world.run(world.job("r", inputs=[late], origin=barrier(1)), day(2))
    with pytest.raises(DependentReaders) as refused:
        world.begin(job, day(1), owner("manual"))
    assert readers_of(refused) == [("r", day(2))]
    assert world.begin(job, day(2), owner("manual")).revision == 2, "no job has read it yet"


def test_a_reader_that_reads_it_no_more_is_named(world: World) -> None:
    """R18: what a job has committed was read as it declared then, also when it has left the input out since."""
    job, other = world.job("d"), world.table("other")
    world.coordinator.register(world.job("other"))
    world.run(job, day(1), [1])
    world.run(world.job("r", inputs=[world.table("d")]), day(1))
    world.coordinator.register(world.job("r", inputs=[other]))
    with pytest.raises(DependentReaders) as refused:
        world.begin(job, day(1), owner("manual"))
    assert readers_of(refused) == [("r", day(1))]


def test_a_reader_with_a_slower_calendar_is_named(world: World) -> None:
    """R18: a week that has read a day began before it, and keeps it as it is all the same."""
    job = world.job("d")
    weekly = world.job("w", cadence="0 0 * * 1", inputs=[increment(world.table("d"))])
    week = Interval(barrier(0), barrier(7))
    for number in range(1, 8):
        world.run(job, day(number))
    staged = world.begin(job, day(3), owner("before"))
    world.write(staged, [30])
    world.run(weekly, week)
    for refused in (
        lambda: world.coordinator.publish(staged),
        lambda: world.begin(job, day(7), owner("again")),
    ):
        with pytest.raises(DependentReaders) as told:
            refused()
        assert readers_of(told) == [("w", week)]


def test_a_reader_that_commits_while_a_revision_is_staged_stops_it(world: World) -> None:
    """R13, R18: a reader's first commit slips in between begin and publish of a revision."""
    job, reader = world.job("d"), world.job("r", inputs=[world.table("d")])
    world.run(job, day(1), [1])
    revision = world.begin(job, day(1), owner("manual"))
    world.write(revision, [2])
    world.run(reader, day(1), [1])
    with pytest.raises(DependentReaders, match=r"r \[2024"):
        world.coordinator.publish(revision)
    world.coordinator.abort(revision, "readers")
    assert world.rows("d", "r") == {"d": [(1, 1)], "r": [(1, 1)]}


@pytest.mark.parametrize("when", ["after the readers were looked at", "registered meanwhile"])
def test_a_reader_that_commits_while_a_revision_is_decided_stops_it(world: World, when: str) -> None:
    """R13: between its look at the readers and its transaction, one more epoch read what the revision replaces."""
    job, reader = world.job("d"), world.job("r", inputs=[world.table("d")])
    world.run(job, day(1), [1])
    if when != "registered meanwhile":
        world.coordinator.register(reader)
    revision = world.begin(job, day(1), owner("manual"))
    world.write(revision, [2])
    slow = world.worker()
    tables = world.formats[world.table_format]
    prepare = tables.prepare

    def late(publication: object) -> object:
        tables.prepare = prepare  # type: ignore[method-assign]
        world.run(reader, day(1), [1])
        return prepare(publication)  # type: ignore[arg-type]

    tables.prepare = late  # type: ignore[method-assign, assignment]
    with pytest.raises(DependentReaders):
        slow.publish(revision)
    assert world.rows("d", "r") == {"d": [(1, 1)], "r": [(1, 1)]}


def test_readers_that_ignore_revisions_are_not_asked(world: World) -> None:
    """Section 4: an edge with on_upstream_revision="ignore" neither stops a revision nor is stopped by one."""
    job = world.job("d")
    reader = world.job("r", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    for number in (1, 2):
        world.run(job, day(number), [number])
    world.run(reader, day(1), [1])
    attempt = world.begin(reader, day(2))
    world.write(attempt, [2])
    for number in (1, 2):
        world.run(job, day(number), [10 * number], owner("manual"))
    world.coordinator.publish(attempt)
    assert world.rows("d", "r") == {"d": [(1, 10), (2, 20)], "r": [(1, 1), (2, 2)]}


class Looked(FaultyStore):
    """A store that writes down whose epochs are looked at."""

    def __init__(self, inner: MetadataStore) -> None:
        super().__init__(inner, lambda _call: None)
        self.jobs: list[str] = []

    def scan(self, domain: Any, kind: Kind, partition: str, **options: Any) -> Any:
        """Write down, then look."""
        if kind is Kind.EPOCH:
            self.jobs.append(partition)
        return super().scan(domain, kind, partition, **options)


def test_a_revision_does_not_look_at_epochs_that_ignore_it(world: World) -> None:
    """R18: however many there are; a job that declared otherwise once may have epochs of that time."""
    job = world.job("d")
    source = world.table("d")
    ignoring = world.job("r", inputs=[state(source, on_upstream_revision="ignore")])
    minding = world.job("s", inputs=[state(source)])
    changed = world.job("s", inputs=[state(source, on_upstream_revision="ignore")])
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
        world.run(ignoring, day(number), [number])
    world.coordinator.register(minding)
    world.coordinator.register(changed)
    store = Looked(world.store)
    attempt = world.begin(job, day(1), owner("manual"))
    world.write(attempt, [10])
    world.worker(store).publish(attempt)
    assert set(store.jobs) == {"s"}


def test_rows_that_an_ignored_revision_left_behind_carry_a_label(world: World) -> None:
    """R18: a cut and a lease name the tables whose rows stand on an earlier state, transitively, until they do not."""
    d, r = world.table("d"), world.table("r")
    ignores = world.job("r", inputs=[increment(d, on_upstream_revision="ignore")])
    source, behind = world.job("d"), world.job("e", inputs=[increment(r)])
    full = world.job("f", [world.table("f", kind="full")], inputs=[state(r)])
    for number in (1, 2, 3):
        for job in (source, ignores, behind, full):
            world.run(job, day(number), [number])
    tables = ["d", "r", "e", "f"]
    assert world.cuts.cut(DOMAIN, tables).outdated == ()
    again = world.run(source, day(2), [20], owner("manual"))
    found = world.cuts.cut(DOMAIN, tables).outdated
    rows = [(label.table, label.source, label.csn, label.start, label.end) for label in found]
    assert rows == [
        ("e", "d", again.csn, barrier(1), barrier(2)),
        ("f", "d", again.csn, barrier(1), None),
        ("r", "d", again.csn, barrier(1), barrier(2)),
    ]
    assert world.cuts.cut(DOMAIN, tables, at=barrier(1)).outdated == (), "before the first of them"
    assert world.cuts.cut(DOMAIN, ["d"]).outdated == ()
    lease = world.leases.cut(DOMAIN, tables, name="l", owner="me")
    assert lease.cut.outdated == found == world.leases.renew(lease).cut.outdated
    assert "r: rows from" in explain(world.store, DOMAIN, "e", day(2)).outdated[-1]
    assert explain(world.store, DOMAIN, "d", day(2)).outdated == ()


@pytest.mark.parametrize("late", [False, True], ids=["first half", "second half"])
def test_a_label_names_whole_epochs_of_a_reader_with_longer_ones(world: World, late: bool) -> None:
    """R18: rows of half a day that were left behind make those of the day outdated, and none of another day."""
    halves = Cadence("0 */12 * * *")
    source = world.job("d", cadence=halves)
    ignores = world.job(
        "r", inputs=[increment(world.table("d"), on_upstream_revision="ignore")], cadence=halves
    )
    daily = world.job("e", inputs=[increment(world.table("r"))])
    for number in (1, 2, 3):
        for job in (source, ignores):
            for half in halves.split(day(number)):
                world.run(job, half, [number])
        world.run(daily, day(number), [number])
    half = halves.split(day(2))[late]
    world.run(source, half, [20], owner("manual"))
    found = [(label.table, label.start, label.end) for label in world.cut("e", "r").outdated]
    assert found == [("e", barrier(1), barrier(2)), ("r", half.start, half.end)]


def test_the_copy_that_a_skip_leaves_keeps_the_label_of_its_rows(world: World) -> None:
    """R18, R5: the copies of a full table's outdated rows, and what full tables copied of rows computed from them."""
    d, r, e = world.table("d"), world.table("r", kind="full"), world.table("e", kind="full")
    source = world.job("d")
    ignores = world.job("r", [r, world.table("s")], inputs=[increment(d, on_upstream_revision="ignore")])
    reads = world.job("e", [e], inputs=[increment(world.table("s")), state(r)])
    for job in (source, ignores, reads):
        world.run(job, day(1), [1])
    for number in (2, 3, 4, 5):
        world.run(source, day(number), [number])
    world.coordinator.skip(DOMAIN, "r", Interval(barrier(1), barrier(3)), "nothing came", by="op")
    world.coordinator.skip(DOMAIN, "e", day(2), "nothing came", by="op")
    for number, jobs in ((3, [reads]), (4, [ignores, reads]), (5, [ignores, reads])):
        for job in jobs:
            world.run(job, day(number), [number])
    again = world.run(source, day(1), [10], owner("manual"))

    def labels(number: int) -> list[tuple[str, int, datetime, datetime | None]]:
        found = world.cuts.cut(DOMAIN, ["e", "r", "s"], at=barrier(number)).outdated
        return [(label.table, label.csn, label.start, label.end) for label in found]

    copied, slices = ("r", again.csn, barrier(0), barrier(3)), ("s", again.csn, barrier(0), barrier(1))
    assert labels(2) == labels(3) == [("e", again.csn, barrier(0), barrier(3)), copied, slices]
    assert labels(4) == [slices], "each of the full ones was computed anew"


def test_a_label_names_the_newest_commit_that_any_of_its_rows_does_not_know(world: World) -> None:
    """R18: also that of an epoch between the first and the last of them."""
    job = world.job("d")
    reader = world.job("r", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
        world.run(reader, day(number), [number])
    again = [world.run(job, day(number), [number * 10], owner("manual")) for number in (1, 3, 2)]
    found = [(label.csn, label.start, label.end) for label in world.cut("r").outdated]
    assert found == [(again[-1].csn, day(1).start, day(3).end)]


def test_job_that_builds_on_its_past_passes_outdated_rows_on(world: World) -> None:
    """R18: each of its later states has rows of the one before, and so does what reads them."""
    full = world.table("r", kind="full")
    source = world.job("d")
    ignores = [increment(world.table("d"), on_upstream_revision="ignore"), previous(full)]
    builds = world.job("r", [full], inputs=ignores)
    reads = world.job("e", inputs=[state(full)])
    for number in (1, 2, 3):
        for job in (source, builds, reads):
            world.run(job, day(number), [number])
    again = world.run(source, day(2), [20], owner("manual"))
    found = [(it.table, it.source, it.csn, it.start, it.end) for it in world.cut("r", "e").outdated]
    assert found == [(table, "d", again.csn, barrier(1), None) for table in ("e", "r")]


def test_rows_computed_again_lose_their_label(world: World) -> None:
    """R18: an epoch that was begun before the revision and committed after it is labelled; its next revision is not."""
    job = world.job("d")
    reader = world.job("r", inputs=[increment(world.table("d"), on_upstream_revision="ignore")])
    world.run(job, day(1), [1])
    attempt = world.begin(reader, day(1))
    world.write(attempt, [1])
    world.run(job, day(1), [10], owner("manual"))
    world.coordinator.publish(attempt)
    assert [label.table for label in world.cut("r").outdated] == ["r"]
    world.run(reader, day(1), [10], owner("again"))
    assert world.cut("r").outdated == ()


def test_rerun_without_readers_replaces_the_rows(table_world: World) -> None:
    """I1: revision 2 replaces the slice; a cut that was taken before reads what it read (R19)."""
    world = table_world
    job = world.job("d")
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    before = world.cut("d")
    published = world.run(job, day(2), [20, 21], owner("manual"))
    assert (published.revision, published.csn) == (2, 4)
    assert world.rows("d") == {"d": [(1, 1), (2, 20), (2, 21), (3, 3)]}
    assert world.rows_of(before) == {"d": [(1, 1), (2, 2), (3, 3)]}


def test_an_empty_revision_removes_the_rows(table_world: World) -> None:
    """R5: revision 2 is empty: the rows of revision 1 are gone, the watermark stays."""
    world = table_world
    job = world.job("d")
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    world.run(job, day(2), [], owner("manual"))
    assert world.rows("d") == {"d": [(1, 1), (3, 3)]}
    assert world.cut("d").barrier == barrier(3)
    world.run(job, day(2), [22], owner("manual", generation=1))
    assert world.rows("d") == {"d": [(1, 1), (2, 22), (3, 3)]}


def test_an_uncommitted_revision_replaces_rows_for_uncommitted_reads_only(world: World) -> None:
    """R4: what a staged revision replaces is shown once, in either level."""
    job = world.job("d")
    world.run(job, day(1), [1])
    world.write(world.begin(job, day(1), owner("manual")), [2])
    assert world.rows("d") == {"d": [(1, 1)]}
    assert world.rows("d", level=Level.READ_UNCOMMITTED) == {"d": [(1, 2)]}


def test_the_own_earlier_commit_under_a_later_revision_is_already_committed(world: World) -> None:
    """R15: a run's commit was replaced by another run's; its retry hears of its own commit, and does nothing."""
    job = world.job("d")
    first = world.run(job, day(1), [1])
    world.run(job, day(1), [2], owner("manual"))
    open_attempt = world.begin(job, day(1), owner("third"))
    before = world.exactly()
    again = world.coordinator.begin(job, day(1), owner(try_number=5))
    assert isinstance(again, AlreadyCommitted)
    assert (again.revision, again.csn, again.change_set) == (1, first.csn, first.change_set)
    assert world.exactly() == before
    world.coordinator.heartbeat(open_attempt)


def test_the_newest_of_several_revisions_is_already_committed(world: World) -> None:
    """R15: with its own number, also when an attempt at the next revision has ended since; the log tells of each."""
    job = world.job("d")
    world.run(job, day(1), [1])
    second = world.run(job, day(1), [2], owner("manual"))
    third = world.begin(job, day(1), owner("third"))
    world.coordinator.abort(third, "it failed")
    again = world.coordinator.begin(job, day(1), owner("manual", try_number=2))
    assert isinstance(again, AlreadyCommitted)
    assert (again.revision, again.csn, again.change_set) == (2, second.csn, second.change_set)
    found = explain(world.store, DOMAIN, "d", day(1))
    assert (found.csn, found.revision) == (second.csn, 3)
    begun, done, ended = EpochState.OPEN, EpochState.COMMIT, EpochState.ABORTED
    told = [(entry.record.token, entry.record.state) for entry in found.log]
    assert {*told} >= {(1, begun), (1, done), (2, begun), (2, done), (3, begun), (3, ended)}


@pytest.mark.parametrize("policy", ["keep", "fail"])
def test_rerun_policies(world: World, policy: str) -> None:
    """Section 5: a job may keep what is committed, or refuse to be asked again; a retry is neither."""
    job = world.job("d", on_rerun=policy)
    world.run(job, day(1), [1])
    for by in (owner("manual"), owner(generation=1)):
        if policy == "keep":
            again = world.coordinator.begin(job, day(1), by)
            assert isinstance(again, AlreadyCommitted)
            assert again.csn == 1
        else:
            with pytest.raises(FinalError, match="on_rerun"):
                world.coordinator.begin(job, day(1), by)
    assert isinstance(world.coordinator.begin(job, day(1), owner(try_number=2)), AlreadyCommitted)


def test_a_batch_that_may_not_be_computed_whole_is_refused_before_its_first_epoch(world: World) -> None:
    """R18: a reader has taken the second of three days: no new first day beside it."""
    job = world.job("d")
    for number in (1, 2):
        world.run(job, day(number))
    world.run(world.job("e", inputs=[job.outputs[0]], origin=day(2).start), day(2))
    before, batch = world.exactly(), [day(1), day(2), day(3)]
    with pytest.raises(DependentReaders, match="1 of 3 epochs .*none was begun") as caught:
        refuse_reruns(world.store, job, batch, owner("manual"))
    assert caught.value.intervals == (day(2),)
    refuse_reruns(world.store, job, [day(1), day(3)], owner("manual"))
    refuse_reruns(world.store, job, batch, owner(try_number=2))
    refuse_reruns(world.store, world.job("d", on_rerun="keep"), batch, owner("manual"))
    with pytest.raises(FinalError, match="2 of 3 .*on_rerun"):
        refuse_reruns(world.store, world.job("d", on_rerun="fail"), batch, owner("manual"))
    assert world.exactly() == before


def test_an_aborted_revision_leaves_the_committed_one(world: World) -> None:
    """R4: revision 2 ends without a commit; revision 1 stays, with its number, and the next try is revision 2."""
    job = world.job("d")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(1), owner("manual"))
    world.write(attempt, [2])
    world.coordinator.abort(attempt, "no")
    again = world.coordinator.begin(job, day(1), owner(try_number=2))
    assert isinstance(again, AlreadyCommitted)
    assert again.csn == 1
    assert world.begin(job, day(1), owner("manual", 2)).revision == 2
    assert world.rows("d") == {"d": [(1, 1)]}


def test_gap_fill(table_world: World) -> None:
    """R12: epochs beyond a gap wait for it, unseen; filling it is no rewrite to those who read before it."""
    world = table_world
    job, reader = world.job("d"), world.job("r", inputs=[state(world.table("d"))])
    world.run(job, day(1), [1])
    attempt = world.begin(reader, day(1))
    world.write(attempt, [1])
    for number in (3, 4):
        world.run(job, day(number), [number])
    assert world.rows("d") == {"d": [(1, 1)]}
    with pytest.raises(NotReady, match="watermark"):
        world.begin(reader, day(3))
    world.run(job, day(2), [2])
    assert world.rows("d") == {"d": [(n, n) for n in (1, 2, 3, 4)]}
    world.coordinator.publish(attempt)
    fences = {stamped.key.item: stamped.record for stamped in world.store.scan(DOMAIN, Kind.REWRITE_LOG, "")}
    assert fences["d"].latest is None


def test_forty_rewrites_are_all_remembered(world: World) -> None:
    """R13: more rewrites than the log lists; each attempt that read before one of them is told."""
    job = world.job("d")
    count = DEFAULTS.rewrites_remembered + 8
    readers = [world.job(f"r{number}", inputs=[world.table("d")]) for number in (1, 2, 3)]
    for number in (1, 2, 3):
        world.run(job, day(number), [number])
    attempts = [world.begin(readers[number - 1], day(number)) for number in (1, 2)]
    for attempt in attempts:
        world.write(attempt)
    world.run(job, day(1), [0], owner("run0"))
    for number in range(1, count):
        world.run(job, day(3), [number], owner(f"run{number}"))
    late = world.begin(readers[2], day(3))
    world.write(late)
    with pytest.raises(Conflict):
        world.coordinator.publish(attempts[0])
    world.coordinator.publish(late)
    assert world.rows("d")["d"] == [(1, 0), (2, 2), (3, count - 1)]
    assert [stamped.record.revision for stamped in world.store.scan(DOMAIN, Kind.SLICE, "d")][-1] == count
    assert len(world.commits()) == 3 + count + 1


def test_a_cut_of_an_older_head_survives_many_commits(table_world: World) -> None:
    """R19: a cut reads the same rows after forty commits over the same table."""
    world = table_world
    hourly = world.job("d", cadence="@hourly")
    hours = Cadence("@hourly").split(Interval(barrier(0), barrier(1)))
    world.run(hourly, hours[0], [0])
    cut = world.cut("d")
    for number, hour in enumerate(hours[:12]):
        world.run(hourly, hour, [number], owner("manual"))
    assert world.rows_of(cut) == {"d": [(0, 0)]}
    assert len(world.rows("d")["d"]) == 12


def test_inputs_are_kept_by_the_retry_until_they_are_computed_again(world: World) -> None:
    """Section 5: a retry reads what the first try read, though more is committed; a rewrite makes it read anew."""
    job, reader = world.job("d"), world.job("r", inputs=[state(world.table("d"))])
    world.run(job, day(1), [1])
    first = world.begin(reader, day(1))
    world.run(job, day(2), [2])
    second = world.begin(reader, day(1), owner(try_number=2))
    assert second.inputs == first.inputs
    world.clock.advance(PAST_TTL)
    other = world.begin(reader, day(1), owner("manual"))
    assert other.inputs == first.inputs
    world.run(job, day(1), [10], owner("manual"))
    third = world.begin(reader, day(1), owner("manual", 2))
    assert third.inputs[0].csn == 3
    epoch = world.coordinator.epoch(DOMAIN, reader.name, day(1))
    assert epoch is not None
    assert epoch.record.attempt is not None
    assert epoch.record.attempt.input_generation == 2
