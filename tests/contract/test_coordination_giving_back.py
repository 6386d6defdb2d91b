"""What a failed attempt has recorded of a source, once its epoch is skipped, on each store (I11, R5)."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import CheckFailed, Conflict, TopologyError, Unavailable
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import (
    BoundsRequest,
    FileSource,
    IcebergSource,
    PostgresSource,
    Source,
    SourceBounds,
    Span,
)
from airflow_provider.domain.topology import Job
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.faults import Call, FaultyStore
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner

ORDERS = PostgresSource("orders", "orders", connection="shop", id_column="id")


class Ids:
    """A source of which rows with the ids from 1 to :attr:`newest` are there. :ivar late: rows more than that."""

    newest = 0
    late = 0

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        low, high = asked.low, asked.high(self.newest)
        rows = (high or 0) - (low or 0) + self.late
        return SourceBounds(source=asked.source.name, span=Span(low=low, high=high, rows=rows))

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:  # noqa: ARG002
        return recorded.span is not None and recorded.span.rows == len(ids(recorded)) + self.late

    def check_unchanged(self, source: Source, bounds: SourceBounds) -> None:
        if bounds.span is not None and bounds.span.rows != len(ids(bounds)) + self.late:
            raise Unavailable(f"source {source.name!r}: other rows.", next_step="bring them back.")

    def check_there(self, source: Source, bounds: SourceBounds) -> None:
        self.check_unchanged(source, bounds)


def ids(of: Attempt | SourceBounds) -> list[int]:
    (bounds,) = of.sources if isinstance(of, Attempt) else (of,)
    assert bounds.span is not None
    return list(range((bounds.span.low or 0) + 1, (bounds.span.high or 0) + 1))


class Orders:
    """A job that reads rows, as many as each step says that there are by then.

    :ivar read: the ids that each of its committed epochs has read.
    """

    def __init__(self, world: World, *names: str) -> None:
        self.world, self.source = world, Ids()
        self.jobs = {name: world.job(name, inputs=[ORDERS]) for name in (names or ("load",))}
        self.read: dict[int, list[int]] = {}

    def begun(self, number: int, newest: int, by: Owner | None = None, job: str = "load") -> Attempt:
        self.source.newest = max(newest, self.source.newest)
        attempt = self.world.coordinator.begin(
            self.jobs[job], day(number), by or owner(), sources=self.source
        )
        assert isinstance(attempt, Attempt)
        return attempt

    def fails(self, number: int, newest: int, job: str = "load") -> None:
        self.world.coordinator.abort(self.begun(number, newest, job=job), "it failed")

    def commits(self, number: int, newest: int, by: Owner | None = None, job: str = "load") -> list[int]:
        attempt = self.begun(number, newest, by, job)
        self.publishes(attempt)
        if job == "load":
            self.read[number] = ids(attempt)
        return ids(attempt)

    def publishes(self, attempt: Attempt) -> None:
        self.world.write(attempt, [1])
        self.world.coordinator.complete(attempt)
        self.world.coordinator.publish(attempt)

    def skips(self, number: int, job: str = "load") -> list[str]:
        """Skip a day; return what the answer says that no later epoch reads."""
        found = self.world.coordinator.skip(DOMAIN, job, day(number), "the station was down", by="ada")
        return [str(unread) for unread in found.unread]

    @property
    def told(self) -> list[tuple[str, str]]:
        """What doctor says of bounds that came to nothing, and what to do."""
        symptoms = examine(self.world.store, self.world.formats, DOMAIN).symptoms
        return [
            (symptom.found, symptom.next_step)
            for symptom in symptoms
            if symptom.found.startswith("bounds that came")
        ]


def test_next_epoch_reads_the_rows_recorded_for_a_skipped_one(world: World) -> None:
    """I11: each row is read by one epoch; computed after all, the skipped one has none of them."""
    orders = Orders(world)
    orders.commits(1, 1)
    orders.fails(2, 3)
    assert orders.skips(2) == []
    assert orders.commits(3, 4) == [2, 3, 4]
    assert orders.commits(2, 5, owner("after all")) == []
    assert orders.commits(4, 5) == [5]
    assert orders.told == []


def test_failed_later_epoch_reads_the_rows_recorded_for_a_skipped_one(world: World) -> None:
    """I11: its bounds begin where those of the skipped one did, whether it is tried again or skipped as well."""
    orders = Orders(world)
    orders.commits(1, 1)
    for number in (2, 3, 4):
        orders.fails(number, number + 1)
    assert orders.skips(2) == []
    assert orders.commits(3, 9, owner(try_number=2)) == [2, 3, 4]
    assert orders.skips(4) == []
    assert orders.commits(5, 9) == [5, 6, 7, 8, 9]
    assert orders.told == []


def test_a_skipped_epoch_that_fails_when_it_is_run_after_all_gives_back(world: World) -> None:
    """I11: at once, what it has recorded; another try of it may still be first."""
    orders = Orders(world)
    orders.commits(1, 1)
    orders.skips(2)
    orders.fails(2, 3)
    assert orders.told == []
    orders.fails(2, 4)
    orders.fails(3, 5)
    assert orders.told == []
    assert orders.commits(3, 4, owner(try_number=2)) == [2, 3, 4, 5]


def test_skipped_epoch_gives_back_rows_after_a_failed_check(world: World) -> None:
    """R5, R14: its end is an end like others, and the next epoch reads the rows."""
    orders = Orders(world)
    orders.jobs["load"] = world.job("load", inputs=[ORDERS], checks=[row_count("load", at_least=1)])
    orders.commits(1, 1)
    orders.skips(2)
    attempt = orders.begun(2, 3, owner("after all"))
    world.write(attempt, [])
    with pytest.raises(CheckFailed):
        world.coordinator.publish(attempt)
    world.coordinator.abort(attempt, "check failed")
    assert orders.commits(3, 4) == [2, 3, 4]
    assert orders.told == []


def test_skipped_epoch_with_a_dead_run_is_skipped_again(world: World) -> None:
    """I11: doctor names what it has recorded, and the next skip gives that back, too."""
    orders = Orders(world)
    orders.commits(1, 1)
    orders.skips(2)
    silent = orders.begun(2, 3, owner("after all"))
    orders.fails(3, 4)
    world.clock.advance(PAST_TTL)
    ((found, step),) = orders.told
    assert ": (1, 3], 2 rows" in found
    assert "skip the epoch again" in step
    assert orders.skips(2) == []
    assert orders.skips(2) == []
    assert orders.told == []
    assert orders.commits(3, 4, owner(try_number=2)) == [2, 3, 4]
    world.write(silent, [1])
    with pytest.raises(Conflict, match="of source 'orders'"):
        world.coordinator.publish(silent)


def test_rows_of_a_chain_of_skipped_epochs_are_read(world: World) -> None:
    """I11: in whichever order they are skipped."""
    orders = Orders(world)
    orders.commits(1, 1)
    for number in (2, 3, 4):
        orders.fails(number, number + 1)
    assert [orders.skips(number) for number in (3, 2, 4)] == [[], [], []]
    assert orders.commits(5, 9) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_rows_behind_which_a_later_epoch_went_on_are_named(world: World) -> None:
    """I11: skip and doctor name them; the epoch reads them when it is computed after all."""
    orders = Orders(world)
    orders.commits(1, 1)
    orders.fails(2, 3)
    orders.commits(3, 4)
    assert orders.told == []
    assert orders.skips(2) == [f"source orders, {day(2)}: (1, 3], 2 rows"]
    ((found, step),) = orders.told
    assert f": (1, 3], 2 rows, for {day(2)};" in found
    assert step.startswith(f"clear the task of job load for {day(2)}, which reads it;")
    assert orders.commits(2, 9, owner("after all")) == [2, 3]
    assert orders.told == []


def test_rows_of_skipped_epochs_stay_where_a_later_one_was_committed(world: World) -> None:
    """I11: each skip names its own; none is moved to an epoch that nothing will come of."""
    orders = Orders(world)
    orders.commits(1, 1)
    orders.fails(2, 3)
    orders.fails(3, 4)
    orders.commits(4, 5)
    assert orders.skips(3) == [f"source orders, {day(3)}: (3, 4], 1 rows"]
    assert orders.skips(2) == [f"source orders, {day(2)}: (1, 3], 2 rows"]
    assert len(orders.told) == 2


def test_rows_stay_where_an_epoch_beyond_the_window_was_committed(world: World) -> None:
    """I11: also behind failed epochs without a row, which fill the window."""
    orders = Orders(world)
    window = timedelta(days=2)
    source = PostgresSource("orders", "orders", connection="shop", id_column="id", late_window=window)
    orders.jobs["load"] = world.job("load", inputs=[source])
    orders.commits(1, 1)
    for number in (2, 3, 4):
        orders.fails(number, 3)
    assert orders.commits(5, 5) == [4, 5]
    assert [orders.skips(number) for number in (2, 3, 4)] == [
        [f"source orders, {day(2)}: (1, 3], 2 rows"],
        [],
        [],
    ]
    assert len(orders.told) == 1
    assert orders.commits(2, 5, owner("after all")) == [2, 3]
    assert orders.told == []


@pytest.mark.parametrize("is_over", ["begins later", "retired"])
def test_rows_of_an_abandoned_failed_epoch_are_named(world: World, is_over: str) -> None:
    """I11: its job begins later by now, or is retired, and a later epoch went on behind them."""
    orders = Orders(world)
    orders.fails(1, 3)
    name, step = "load", "declare an earlier origin of job load, then clear the task of job load"
    if is_over == "retired":
        world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
        name, step = "other", "`airflow epochs revive load`, then clear the task of job load"
    orders.jobs[name] = world.job(name, inputs=[ORDERS], origin=barrier(1))
    assert orders.commits(2, 4, job=name) == [4]
    ((found, next_step),) = orders.told
    assert f": (…, 3], 3 rows, for {day(1)};" in found
    assert next_step.startswith(step)


@pytest.mark.parametrize("stands", ["committed", "live", "silent"])
def test_rows_that_another_job_reads_at_the_barrier_are_named(world: World, stands: str) -> None:
    """I11: what it stands on stays; output of a silent attempt is not published beside what was given back."""
    orders = Orders(world, "load", "other")
    orders.commits(1, 1)
    orders.fails(2, 3)
    other = orders.begun(2, 3, job="other")
    if stands == "committed":
        orders.publishes(other)
    if stands == "silent":
        world.clock.advance(PAST_TTL)
        assert orders.skips(2) == []
        assert orders.commits(3, 4) == [2, 3, 4]
        world.write(other, [1])
        with pytest.raises(Conflict, match="revision 2 of source 'orders'"):
            world.coordinator.publish(other)
        assert ids(orders.begun(2, 4, owner(try_number=2), "other")) == []
        return
    assert orders.skips(2) == [f"source orders, {day(2)}: (1, 3], 2 rows"]
    assert orders.commits(3, 4) == [4]


@pytest.mark.parametrize("failed_before", [False, True], ids=["first try", "next try"])
def test_another_job_that_begins_while_bounds_are_given_back_keeps_them(
    world: World, failed_before: bool
) -> None:
    """I11: the skip looks again."""
    orders = Orders(world, "load", "other")
    orders.commits(1, 1)
    orders.fails(2, 3)
    world.coordinator.register(orders.jobs["other"])
    if failed_before:
        orders.fails(2, 3, job="other")
    begun: list[Attempt] = []

    def before(call: Call) -> None:
        if call.method == "transact" and not begun:
            begun.append(orders.begun(2, 3, job="other"))

    skipper = world.worker(FaultyStore(world.store, before))
    found = skipper.skip(DOMAIN, "load", day(2), "the station was down", by="ada")
    assert [str(unread.bounds) for unread in found.unread] == ["(1, 3], 2 rows"]
    orders.publishes(begun[0])


@pytest.mark.parametrize("revised", [False, True])
def test_skip_that_adds_a_table_keeps_the_bounds_of_the_commit(world: World, revised: bool) -> None:
    """I11, R5: also where a revision that failed has recorded other bounds since."""
    orders = Orders(world)
    source = PostgresSource("orders", "orders", connection="shop", id_column="id", late="revision")
    orders.jobs["load"] = world.job("load", inputs=[source])
    for number in (1, 2):
        orders.commits(number, number)
    if revised:
        orders.source.late = 1
        world.coordinator.abort(orders.begun(2, 2, owner("again")), "it failed")
        orders.source.late = 0
    orders.jobs["load"] = world.job("load", [world.table("load"), world.table("more")], inputs=[source])
    orders.commits(1, 2, owner("again"))
    orders.skips(2)
    assert orders.commits(3, 4) == [3, 4]


def test_fill_from_vanished_rows_is_refused_before_it_is_computed(world: World) -> None:
    """R5, R7: its error names the way out, which computes all tables of the epoch from what is there now."""
    source, orders = IcebergSource("orders", "shop.sales.orders"), Orders(world)
    orders.jobs["load"] = world.job("load", inputs=[source])
    orders.commits(1, 1)
    orders.commits(2, 2)
    orders.jobs["load"] = world.job("load", [world.table("load"), world.table("more")], inputs=[source])
    orders.commits(1, 2, owner("again"))
    orders.source.late = 1
    for _ in range(2):
        with pytest.raises(Unavailable, match="The commit of load .* has read it") as refused:
            orders.begun(2, 2, owner("again"))
    assert (
        "airflow epochs skip load 2024-01-02T00:00:00+00:00/2024-01-03T00:00:00+00:00"
        in refused.value.next_step
    )
    orders.skips(2)
    bind(world.coordinator.context, DOMAIN, "orders", day(2), orders.source, reason="late", by="ada")
    attempt = orders.begun(2, 2, owner("again"))
    assert {sink.name for sink in attempt.sinks} == {"load", "more"}
    assert [str(bounds.span) for bounds in attempt.sources] == ["(1, 2], 2 rows"]


def test_rows_that_are_only_counted_are_no_fill(world: World) -> None:
    """R7: an update between the ids is not seen, so that all tables are computed from what is there now."""
    orders = Orders(world)
    orders.commits(1, 1)
    orders.commits(2, 2)
    orders.jobs["load"] = world.job("load", [world.table("load"), world.table("more")], inputs=[ORDERS])
    orders.commits(1, 2, owner("again"))
    attempt = orders.begun(2, 2, owner("again"))
    world.write(attempt)
    assert [name for name, _ in world.coordinator.publish(attempt).tables] == ["load", "more"]


def test_a_late_file_that_a_skipped_epoch_had_bound_is_read_by_the_next(world: World, tmp_path: Path) -> None:
    """I11, R5: what lies at the skipped epoch's own location is not, which skip and doctor say."""
    location = f"{tmp_path}/{{start:%Y-%m-%d}}/*.csv"
    job = world.job("load", inputs=[FileSource("landing", location, complete=none_needed())])

    def lands(number: int, name: str) -> str:
        path = tmp_path / f"{day(number).start:%Y-%m-%d}" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        return f"file://{path}"

    def read(job: Job, number: int, by: Owner | None = None, **answer: Any) -> list[str]:
        attempt = world.begin(job, day(number), by, sources=SourceReaders())
        if answer:
            world.coordinator.abort(attempt, "a broken delivery")
        else:
            world.write(attempt)
            world.coordinator.publish(attempt)
        return [file.uri for file in attempt.sources[0].files]

    first, second, third = (lands(number, "a.csv") for number in (1, 2, 3))
    assert read(job, 1) == [first]
    late = lands(1, "late.csv")
    assert read(job, 2, fails=True) == [late, second]
    found = world.coordinator.skip(DOMAIN, "load", day(2), "a broken delivery", by="ada")
    assert [str(unread) for unread in found.unread] == [
        f"source landing, {day(2)}: 1 files, such as {second}"
    ]
    assert read(job, 3) == [late, third]
    symptoms = [symptom.found for symptom in examine(world.store, world.formats, DOMAIN).symptoms]
    assert symptoms == [f"1 are of skipped epochs and are read by no epoch, such as {second}"]
    assert read(job, 2, owner("after all")) == [second]
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()


def test_a_calendar_does_not_change_while_bounds_are_recorded(world: World) -> None:
    """I11, R7: the epoch that recorded them would be none of the new calendar, and no epoch would read its rows."""
    orders = Orders(world)
    orders.commits(1, 1)
    pairs = Cadence("0 0 2-30/2 * *", since=barrier(1), before=Cadence("@daily"))
    changed = world.job("load", inputs=[ORDERS], cadence=pairs)
    began: list[Attempt] = []

    def meanwhile(call: Call) -> None:
        if call.method == "transact" and not began:
            began.append(orders.begun(2, 3))

    with pytest.raises(TopologyError, match="cadence cannot change"):
        world.worker(FaultyStore(world.store, meanwhile)).register(changed)
    orders.publishes(began[0])
    assert orders.commits(3, 4) == [4]


@pytest.mark.parametrize("finer", [False, True], ids=["longer epochs", "shorter epochs"])
def test_bounds_recorded_in_another_calendar_refuse_the_declaration(world: World, finer: bool) -> None:
    """I11: a job left the source, changed its calendar, and reads it again: rows would be in the midst of its epoch."""
    daily, halves, third = (
        Cadence("@daily"),
        Cadence("0 */12 * * *"),
        PostgresSource("third", "orders", connection="shop", id_column="id"),
    )
    old, new = (daily, halves) if finer else (halves, daily)
    orders = Orders(world)
    changed = Cadence(new.expression, since=barrier(1), before=old)
    orders.jobs["load"] = world.job("load", inputs=[ORDERS], cadence=old)
    first = old.split(day(2))[0]
    orders.source.newest = 3
    began = world.coordinator.begin(orders.jobs["load"], first, owner(), sources=orders.source)
    assert isinstance(began, Attempt)
    world.coordinator.abort(began, "it failed")
    world.coordinator.register(world.job("load", inputs=[third], cadence=changed))
    again = world.job("load", inputs=[ORDERS], cadence=changed)
    with pytest.raises(TopologyError, match=f"recorded for {re.escape(str(first))}, which job 'load' began"):
        world.coordinator.begin(again, new.split(day(2))[0], owner(), sources=orders.source)


def test_a_late_file_of_a_revision_that_failed_is_named(world: World, tmp_path: Path) -> None:
    """I11: as long as no commit has read it, also at the newest barrier."""
    location = f"{tmp_path}/{{start:%Y-%m-%d}}/*.csv"
    job = world.job("load", inputs=[FileSource("landing", location, late="revision", complete=none_needed())])
    folder = tmp_path / f"{day(1).start:%Y-%m-%d}"
    folder.mkdir()

    def begun(name: str, by: str) -> Attempt:
        (folder / name).write_text(name)
        return world.begin(job, day(1), owner(by), sources=SourceReaders())

    def ends(attempt: Attempt) -> list[str]:
        world.write(attempt)
        world.coordinator.publish(attempt)
        return [symptom.found for symptom in examine(world.store, world.formats, DOMAIN).symptoms]

    assert ends(begun("a.csv", "first")) == []
    world.coordinator.abort(begun("late.csv", "again"), "it failed")
    (told,) = examine(world.store, world.formats, DOMAIN).symptoms
    assert told.found.startswith("bounds that came to nothing: 2 files")
    assert told.next_step == f"clear the task of job load for {day(1)}, which reads it.", "it is not skipped"
    assert ends(begun("late.csv", "once more")) == []


@pytest.mark.parametrize(
    "then",
    ["fails", "falls silent", "is retired", "another job leaves the source", "another job fails without it"],
)
def test_files_of_a_skipped_epoch_stay_named_after_later_runs(
    world: World, tmp_path: Path, then: str
) -> None:
    """R5: a run by a declaration that left the source fails or falls silent, a successor goes on, or another job
    computes the epoch without them, or fails to compute it again.
    """
    source = FileSource("landing", f"{tmp_path}/{{start:%Y-%m-%d}}/*.csv", complete=none_needed())
    job, left = world.job("load", inputs=[source]), world.job("load", on_rerun="keep")
    other = world.job("other", inputs=[source])

    def computes(job: Job, number: int) -> None:
        attempt = world.begin(job, day(number), sources=SourceReaders())
        world.write(attempt)
        world.coordinator.publish(attempt)

    computes(job, 1)
    if then.startswith("another job"):
        computes(other, 1)
        computes(world.job("other", on_rerun="keep"), 2)
    (tmp_path / "2024-01-02").mkdir()
    (tmp_path / "2024-01-02" / "a.csv").write_text("a")
    world.coordinator.skip(DOMAIN, "load", day(2), "a broken delivery", by="ada")
    if then == "fails":
        world.coordinator.abort(world.begin(left, day(2), sources=SourceReaders()), "it failed")
        job = world.job("load", inputs=[source], on_rerun="fail")
    if then == "falls silent":
        world.begin(left, day(2), sources=SourceReaders())
        world.clock.advance(PAST_TTL)
        job = world.job("load", inputs=[source], on_rerun="fail")
    if then == "is retired":
        world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
        job = world.job("successor", job.outputs, inputs=[source])
    if then == "another job fails without it":
        again = world.begin(world.job("other"), day(2), owner("cleared"), sources=SourceReaders())
        world.coordinator.abort(again, "it failed")
    computes(job, 3)
    if then.startswith("another job"):
        computes(world.job("other", inputs=[source], on_rerun="fail"), 3)
    found = [symptom.found for symptom in examine(world.store, world.formats, DOMAIN).symptoms]
    assert any(words.startswith("1 are of skipped epochs and are read by no epoch") for words in found), found
