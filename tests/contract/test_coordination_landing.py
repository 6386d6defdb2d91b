"""When a source is complete, and what becomes of files that come late, on each store."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from airflow_provider.coordination.reading.wait import JobInputs, check_inputs
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.unread import ignored
from airflow_provider.domain.completeness import (
    Condition,
    marker,
    min_files,
    none_needed,
    quiet_for,
)
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    InvalidInput,
    NotReady,
    SourceUnavailable,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind, job_key
from airflow_provider.domain.source_bounds import FileSource, PostgresSource, Source, Span
from airflow_provider.domain.topology import Job
from airflow_provider.sources import files
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import Put, SameStore, Transaction
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.servers.postgresql import PostgresqlServer

FILES = SourceReaders()
PATTERN = "{start:%Y-%m-%d}/*.csv"


def place(directory: Path, number: int, name: str) -> Path:
    path = directory / f"{day(number).start:%Y-%m-%d}" / name
    path.parent.mkdir(exist_ok=True)
    return path


def land(directory: Path, number: int, *names: str) -> None:
    for name in names:
        place(directory, number, name).write_text(name)


def loading(world: World, location: str, name: str = "load", **options: object) -> Job:
    return world.job(name, inputs=[FileSource("landing", location, **options)])  # type: ignore[arg-type]


def names(attempt: Attempt) -> list[str]:
    return ["/".join(Path(file.uri).parts[-2:]) for file in attempt.sources[0].files]


def run(world: World, job: Job, epoch: Interval, run: str = "scheduled") -> list[str]:
    attempt = world.begin(job, epoch, owner(run), sources=FILES)
    world.write(attempt)
    world.coordinator.publish(attempt)
    return names(attempt)


# --- complete ----------------------------------------------------------------------------------------------------

Landing = Callable[[World, Path], None]


def _old(world: World, directory: Path) -> None:
    """The last change was long ago, by the store's clock."""
    at = world.store.read(DOMAIN, []).now.timestamp() - 3_600
    for name in ("a.csv", "b.csv"):
        os.utime(place(directory, 1, name), (at, at))


CONDITIONS: dict[str, tuple[Condition, Landing, str]] = {
    "marker": (marker(), lambda _, at: land(at, 1, "_SUCCESS"), "there is no"),
    "pattern": (
        marker("../done-{start:%Y-%m-%d}-*"),
        lambda _, at: (at / "done-2024-01-01-x").touch(),
        "there is no",
    ),
    "min_files": (min_files(3), lambda _, at: land(at, 1, "c.csv"), "2 files of at least 3 are there"),
    "quiet_for": (quiet_for(timedelta(minutes=10)), _old, "is less than 0:10:00 ago"),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_src4_incomplete_landing(world: World, tmp_path: Path, condition: str) -> None:
    """I11: half of the files are there: the epoch is not ready, sensors wait, and nothing is recorded."""
    complete, land_the_rest, reason = CONDITIONS[condition]
    job = loading(world, f"{tmp_path}/{PATTERN}", complete=[complete])
    world.coordinator.register(job)
    land(tmp_path, 1, "a.csv", "b.csv")
    if condition == "quiet_for":
        now = world.store.read(DOMAIN, []).now.timestamp()
        os.utime(place(tmp_path, 1, "b.csv"), (now, now))
    before = world.exactly()
    with pytest.raises(NotReady, match=reason) as refused:
        world.begin(job, day(1), sources=FILES)
    waiting = check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1)))
    assert (waiting.ready, [str(lag.table) for lag in waiting.missing]) == (False, ["landing"])
    assert reason in waiting.missing[0].reason
    assert refused.value.source == "landing"
    assert world.exactly() == before
    land_the_rest(world, tmp_path)
    assert check_inputs(world.store, DOMAIN, JobInputs.of(job, day(1))).ready
    assert len(run(world, job, day(1))) == (3 if condition == "min_files" else 2)


def test_a_batch_waits_until_the_source_is_complete_for_each_epoch(world: World, tmp_path: Path) -> None:
    """A2: those whose bounds are recorded are not asked again."""
    job = loading(world, f"{tmp_path}/{PATTERN}", complete=min_files(1))
    land(tmp_path, 1, "a.csv")
    run(world, job, day(1))
    place(tmp_path, 1, "a.csv").unlink()
    land(tmp_path, 3, "a.csv")
    inputs = JobInputs.of(job, Interval(day(1).start, day(3).end))
    (lag,) = check_inputs(world.store, DOMAIN, inputs).missing
    assert lag.wanted == day(2).end
    land(tmp_path, 2, "a.csv")
    assert check_inputs(world.store, DOMAIN, inputs).ready


def test_a_folder_needs_conditions_as_a_wildcard_does(world: World, tmp_path: Path) -> None:
    """A2: what no declaration can tell is told at begin, before any work."""
    land(tmp_path, 1, "a.csv")
    location = f"{tmp_path}/{{start:%Y-%m-%d}}"
    with pytest.raises(InvalidInput, match="is a folder") as refused:
        world.begin(loading(world, location), day(1), sources=FILES)
    assert "none_needed()" in refused.value.next_step
    job = loading(world, location, complete=marker())
    with pytest.raises(NotReady, match=r"there is no .*/2024-01-01/_SUCCESS"):
        world.begin(job, day(1), sources=FILES)
    land(tmp_path, 1, "_SUCCESS")
    assert run(world, job, day(1)) == ["2024-01-01/a.csv"]


# --- late --------------------------------------------------------------------------------------------------------


def test_src1_late_file(world: World, tmp_path: Path) -> None:
    """I11: by default a file that lands after its epoch has committed is the next one's, within the window."""
    job = loading(world, f"{tmp_path}/{PATTERN}", complete=none_needed())
    land(tmp_path, 1, "a.csv")
    assert run(world, job, day(1)) == ["2024-01-01/a.csv"]
    land(tmp_path, 1, "b.csv", "c.csv")
    land(tmp_path, 2, "a.csv")
    assert run(world, job, day(2)) == ["2024-01-01/b.csv", "2024-01-01/c.csv", "2024-01-02/a.csv"]
    land(tmp_path, 1, "d.csv")
    assert run(world, job, day(8)) == ["2024-01-01/d.csv"]
    land(tmp_path, 2, "in time.csv")
    land(tmp_path, 1, "too late.csv")
    assert run(world, job, day(9)) == ["2024-01-02/in time.csv"]


def test_a_file_that_is_hours_late_is_read_by_an_hourly_job(world: World, tmp_path: Path) -> None:
    """I11, A1: the window is a time, not a number of epochs."""
    hour = timedelta(hours=1)
    source = FileSource("landing", f"{tmp_path}/{{start:%Y-%m-%dT%H}}-*.csv", complete=none_needed())
    job = world.job("load", inputs=[source], cadence="@hourly")

    def epoch(number: int) -> Interval:
        return Interval(day(1).start + number * hour, day(1).start + (number + 1) * hour)

    for number in range(35):
        world.begin(job, epoch(number), sources=FILES)
    (tmp_path / "2024-01-01T00-late.csv").touch()
    attempt = world.begin(job, epoch(35), sources=FILES)
    assert [Path(file.uri).name for file in attempt.sources[0].files] == ["2024-01-01T00-late.csv"]


def test_a_window_that_shrinks_would_read_files_twice(world: World, tmp_path: Path) -> None:
    """I11: what an epoch has read beyond it could not be seen; so for another location, or another rule."""
    week = {"complete": none_needed(), "late_window": timedelta(days=7)}
    job = loading(world, f"{tmp_path}/{PATTERN}", **week)
    world.coordinator.register(loading(world, f"{tmp_path}/wrong/{PATTERN}", **week))
    world.coordinator.register(job)
    land(tmp_path, 1, "a.csv")
    world.begin(job, day(1), sources=FILES)
    for field, other in (
        (
            "late_window",
            loading(world, f"{tmp_path}/{PATTERN}", complete=none_needed(), late_window=timedelta(1)),
        ),
        ("location", loading(world, f"{tmp_path}/other/{PATTERN}", **week)),
        ("late", loading(world, f"{tmp_path}/{PATTERN}", **week, late="ignore")),
    ):
        with pytest.raises(TopologyError, match="read twice") as refused:
            world.coordinator.register(other)
        assert refused.value.field == field
    longer = {"complete": marker(), "late_window": timedelta(days=9)}
    world.coordinator.register(loading(world, f"{tmp_path}/{PATTERN}", **longer))


@pytest.mark.parametrize("who", ["load", "another"])
def test_left_source_keeps_its_bounds_and_declaration(world: World, tmp_path: Path, who: str) -> None:
    """I11: its bounds stay, so that it comes back as it was declared, to its job and to others."""
    week = {"complete": none_needed(), "late_window": timedelta(days=7)}
    job = loading(world, f"{tmp_path}/{PATTERN}", **week)
    land(tmp_path, 1, "a.csv")
    run(world, job, day(1))
    world.coordinator.register(world.job("load"))
    before = world.exactly()
    with pytest.raises(TopologyError, match="read twice") as refused:
        world.coordinator.register(loading(world, f"{tmp_path}/other/{PATTERN}", who, **week))
    assert refused.value.field == "location"
    assert world.exactly() == before
    world.coordinator.register(loading(world, f"{tmp_path}/{PATTERN}", who, **week))


@pytest.mark.parametrize("late", ["ignore", "next"])
def test_src1_ignored_files_are_counted(world: World, tmp_path: Path, late: str) -> None:
    """A metric tells how many files within the window of a source no epoch will read."""
    source = FileSource(
        "landing", f"{tmp_path}/{PATTERN}", late, complete=none_needed(), late_window=timedelta(days=2)
    )
    for number in (1, 2, 3, 4):
        land(tmp_path, number, "a.csv")
        run(world, world.job("load", inputs=[source]), day(number))
    for number in (1, 3, 4):
        land(tmp_path, number, "late.csv")
    found = ignored(world.store, DOMAIN, source, FILES, day(4).end)
    assert [name[-19:] for name in found] == (
        ["2024-01-04/late.csv", "2024-01-03/late.csv"] if late == "ignore" else []
    )


def test_a_source_that_does_not_answer_is_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: a begin fails by the family *retry* and records nothing; doctor and explain do not pass over it."""
    job = loading(world, f"{tmp_path}/{PATTERN}", complete=none_needed())
    land(tmp_path, 1, "a.csv")
    run(world, job, day(1))
    before = world.exactly()

    def silent(place: str) -> None:
        raise TimeoutError(place)

    monkeypatch.setattr(files, "filesystem", silent)
    with pytest.raises(SourceUnavailable, match=r"landing.* did not answer: TimeoutError"):
        world.begin(job, day(2), sources=FILES)
    assert world.exactly() == before
    (symptom,) = examine(world.store, world.formats, DOMAIN).symptoms
    assert (symptom.subject, symptom.urgent) == ("source landing", True)
    assert "did not answer" in symptom.found
    assert "did not answer" in explain(world.store, DOMAIN, job.name, day(1)).summary


def test_a_file_that_another_epoch_has_read_is_not_read_as_another_file(world: World, tmp_path: Path) -> None:
    """I11, A1: epochs share a folder, and a file in it is replaced: neither read again nor passed over."""
    job = loading(world, f"{tmp_path}/{{start:%Y-%m}}/*.csv", complete=none_needed())
    folder = tmp_path / "2024-01"
    folder.mkdir()
    (folder / "a.csv").write_text("a")
    assert run(world, job, day(1)) == ["2024-01/a.csv"]
    (folder / "b.csv").write_text("b")
    assert run(world, job, day(2)) == ["2024-01/b.csv"]
    (folder / "a.csv").write_text("another one")
    with pytest.raises(Unavailable, match="was read by another epoch, and is another file now"):
        world.begin(job, day(3), sources=FILES)


@pytest.mark.parametrize("late", ["revision", "refuse"])
def test_a_folder_that_epochs_share_is_refused_where_each_would_read_all_of_it(
    world: World, tmp_path: Path, late: str
) -> None:
    """I11: bounds that do not look around cannot tell which of its files another epoch has read."""
    (tmp_path / "2024-01").mkdir()
    (tmp_path / "2024-02").mkdir()
    job = loading(world, f"{tmp_path}/{{start:%Y-%m}}/*.csv", late=late, complete=none_needed())
    for number in (1, 31, 32):
        with pytest.raises(InvalidInput, match="each of them would read all its files"):
            world.begin(job, day(number), sources=FILES)
    monthly = world.job("monthly", inputs=job.sources, cadence="@monthly")
    assert run(world, monthly, Interval(day(1).start, day(31).end)) == []


# --- declarations of older versions ------------------------------------------------------------------------------


def test_declarations_of_older_versions_stay_readable(world: World, tmp_path: Path) -> None:
    """R7, A2: they had neither conditions nor windows; two jobs that share a source are declared anew one by one."""
    jobs = [loading(world, f"{tmp_path}/{PATTERN}", name, complete=none_needed()) for name in "ab"]
    for job in jobs:
        world.coordinator.register(job)
        key = job_key(DOMAIN, job.name)
        reading = world.store.read(DOMAIN, [key])
        stored = {"name": "landing", "location": job.sources[0].location, "late": "ignore", "kind": "files"}
        older = replace(reading.records[key].record, sources=(msgspec.convert(stored, Source),))
        store = SameStore(reading.head.incarnation)
        world.store.transact(Transaction(domain=DOMAIN, store=store, updates=(Put(key, older),)))
    found = [stamped.record for stamped in world.store.scan(DOMAIN, Kind.JOB, "")]
    assert all(record.sources[0].is_older for record in found)
    for job in jobs:
        changed = loading(world, f"{tmp_path}/{PATTERN}", job.name, complete=min_files(1))
        world.coordinator.register(changed)
    found = [stamped.record for stamped in world.store.scan(DOMAIN, Kind.JOB, "")]
    assert not any(record.sources[0].is_older for record in found)


# --- named -------------------------------------------------------------------------------------------------------


def test_src1_the_step_for_a_replaced_file_binds_no_ignored_one(world: World, tmp_path: Path) -> None:
    """I11: what is left out as declared stays so; the command is for the epoch whose file was replaced."""
    job = loading(world, f"{tmp_path}/{PATTERN}", complete=none_needed(), late="ignore")
    for number in (1, 2, 3):
        land(tmp_path, number, "a.csv")
        run(world, job, day(number))
    land(tmp_path, 3, "late.csv")
    place(tmp_path, 1, "a.csv").write_text("another file")
    symptoms = examine(world.store, world.formats, DOMAIN).symptoms
    ignored_one, replaced = (found for found in symptoms if found.subject == "source landing")
    assert (ignored_one.urgent, replaced.urgent) == (False, True)
    assert "late.csv" in ignored_one.found
    assert ignored_one.next_step.startswith("nothing, as late='ignore' says")
    assert f"bind landing {day(1).start.isoformat()}/" in replaced.next_step
    assert "likewise" not in replaced.next_step


def test_src1_epochs_with_refused_files_are_bound_in_the_order_that_is_named(
    world: World, tmp_path: Path
) -> None:
    """I11: the earliest is named first, since no later one is bound before it."""
    job = loading(world, f"{tmp_path}/{PATTERN}", complete=none_needed(), late="refuse")
    for number in (1, 2, 3):
        land(tmp_path, number, "a.csv")
        run(world, job, day(number))
    for number in (1, 3):
        land(tmp_path, number, "late.csv")
    for number in (1, 3):
        (found,) = (
            each.next_step
            for each in examine(world.store, world.formats, DOMAIN).symptoms
            if "bind" in each.next_step
        )
        words = found.split("`")[1].split()
        assert words[4] == f"{day(number).start.isoformat()}/{day(number).end.isoformat()}"
        world.coordinator.bind(DOMAIN, words[3], words[4], reason="late", by="me")
        run(world, job, day(number), f"cleared {number}")


@pytest.mark.parametrize("late", ["next", "revision", "ignore"])
def test_src1_unread_files_are_named(world: World, tmp_path: Path, late: str) -> None:
    """I11: by explain of its epoch and by doctor, also beyond the window; so are files that were replaced."""
    options = {"complete": none_needed(), "late": late, "late_window": timedelta(days=2)}
    job = loading(world, f"{tmp_path}/{PATTERN}", **options)
    for number in (1, 2, 3, 4):
        land(tmp_path, number, "a.csv")
        run(world, job, day(number))

    def told(number: int) -> str:
        return explain(world.store, DOMAIN, job.name, day(number)).summary

    def found() -> list[tuple[str, bool]]:
        symptoms = examine(world.store, world.formats, DOMAIN).symptoms
        return [
            (symptom.found, symptom.urgent) for symptom in symptoms if symptom.subject == "source landing"
        ]

    assert found() == []
    assert "late" not in told(1)
    land(tmp_path, 1, "late.csv")
    assert "2024-01-01/late.csv" in told(1)
    assert "late" not in told(2)
    ((text, urgent),) = found()
    assert text.startswith("1 came late and are read by no epoch, such as file://")
    assert urgent is (late != "ignore")
    land(tmp_path, 4, "late.csv")
    assert [symptom[1] for symptom in found()] == ([False, True] if late == "next" else [late != "ignore"])
    place(tmp_path, 2, "a.csv").write_text("another file")
    assert "were replaced after an epoch had read them" in told(2)
    assert found()[-1][1]


@pytest.mark.parametrize("late", ["next", "refuse"])
def test_a_begin_looks_at_the_epoch_before_however_short_the_window_is(
    world: World, tmp_path: Path, late: str
) -> None:
    """I11: months over a window of days; also where epochs begin out of order, each file is read once."""
    options = {"complete": none_needed(), "late": late, "late_window": timedelta(hours=1)}
    job = loading(world, f"{tmp_path}/{PATTERN}", **options)
    for number in (1, 2, 3, 4):
        land(tmp_path, number, "a.csv")
    run(world, job, day(1))
    land(tmp_path, 1, "late.csv")
    if late == "refuse":
        with pytest.raises(Unavailable, match=r"late\.csv came after"):
            world.begin(job, day(2), sources=FILES)
        return
    symptoms = examine(world.store, world.formats, DOMAIN).symptoms
    assert [symptom.urgent for symptom in symptoms if symptom.subject == "source landing"] == [False], (
        "the next begin reads it"
    )
    assert run(world, job, day(4)) == ["2024-01-04/a.csv"]
    assert run(world, job, day(3)) == ["2024-01-03/a.csv"]
    assert run(world, job, day(2)) == ["2024-01-01/late.csv", "2024-01-02/a.csv"]


def test_the_epoch_over_a_night_looks_at_the_one_before(world: World, tmp_path: Path) -> None:
    """I11: also of a calendar of minutes, whose other epochs are short."""
    late_evening = day(1).start + timedelta(hours=22.5)
    evening = Interval(late_evening, late_evening + timedelta(minutes=15))
    night = Interval(evening.end, day(2).start + timedelta(hours=6))
    location, window = f"{tmp_path}/{{start:%Y-%m-%dT%H%M}}/*.csv", timedelta(hours=1)
    source = FileSource("landing", location, complete=none_needed(), late_window=window)
    job = world.job("load", inputs=[source], cadence="*/15 6-22 * * *", origin=evening.start)
    (tmp_path / "2024-01-01T2230").mkdir()
    (tmp_path / "2024-01-01T2230" / "a.csv").write_text("a")
    assert run(world, job, evening) == ["2024-01-01T2230/a.csv"]
    (tmp_path / "2024-01-01T2230" / "late.csv").write_text("late")
    assert run(world, job, night) == ["2024-01-01T2230/late.csv"]


@pytest.mark.parametrize("way", ["taken away", "the next epoch's", "bound anew"])
def test_each_next_step_for_a_refused_late_file_works(world: World, tmp_path: Path, way: str) -> None:
    """I11: it is read by no epoch, by the next, or by its own."""
    location = f"{tmp_path}/{PATTERN}"
    job = loading(world, location, late="refuse", complete=none_needed())
    land(tmp_path, 1, "a.csv")
    run(world, job, day(1))
    land(tmp_path, 1, "b.csv")
    land(tmp_path, 2, "a.csv")
    with pytest.raises(
        Unavailable, match=r"b\.csv came after the bounds of its epoch \[2024-01-01"
    ) as refused:
        world.begin(job, day(2), sources=FILES)
    assert "bind landing 2024-01-01T00:00:00+00:00/2024-01-02T00:00:00+00:00 " in refused.value.next_step
    next_read = ["2024-01-02/a.csv"]
    if way == "taken away":
        place(tmp_path, 1, "b.csv").unlink()
    elif way == "bound anew":
        bind(world.coordinator.context, DOMAIN, "landing", day(1), FILES, reason="it came late", by="ada")
        assert run(world, job, day(1), "again") == ["2024-01-01/a.csv", "2024-01-01/b.csv"]
    else:
        job, next_read = (
            loading(world, location, late="next", complete=none_needed()),
            ["2024-01-01/b.csv", *next_read],
        )
    assert run(world, job, day(2)) == next_read


@pytest.mark.parametrize("late", ["next", "ignore", "revision", "refuse"])
@pytest.mark.parametrize("tried", [False, True], ids=["never tried", "failed before"])
def test_files_of_a_skipped_epoch_are_named(world: World, tmp_path: Path, late: str, tried: bool) -> None:
    """R5: no epoch reads them, also not a later one; doctor says so until the epoch is computed after all."""
    job = loading(world, f"{tmp_path}/{PATTERN}", late=late, complete=none_needed())
    for number in (1, 2, 3):
        land(tmp_path, number, "a.csv")
    assert run(world, job, day(1)) == ["2024-01-01/a.csv"]
    if tried:
        failed = world.begin(job, day(2), sources=FILES)
        assert names(failed) == ["2024-01-02/a.csv"]
        world.coordinator.abort(failed, "a broken delivery")
    world.coordinator.skip(DOMAIN, "load", day(2), "a broken delivery", by="ada")
    assert run(world, job, day(3)) == ["2024-01-03/a.csv"]

    def told() -> list[tuple[str, bool]]:
        symptoms = examine(world.store, world.formats, DOMAIN).symptoms
        return [
            (symptom.found, symptom.urgent) for symptom in symptoms if symptom.subject == "source landing"
        ]

    file = f"file://{place(tmp_path, 2, 'a.csv')}"
    assert told() == [(f"1 are of skipped epochs and are read by no epoch, such as {file}", False)]
    if late in (
        "revision",
        "ignore",
    ):  # another file of that day: not `bind`, but the task of the skipped epoch
        extra = place(tmp_path, 2, "b.csv")
        extra.write_text("x")
        assert told() == [
            (f"2 are of skipped epochs and are read by no epoch, such as {file}, file://{extra}", False)
        ]
        extra.unlink()
    after_all = names(world.begin(job, day(2), owner("after all"), sources=FILES))
    assert after_all == ["2024-01-02/a.csv"]
    assert told() == []


def test_files_that_another_job_reads_or_is_to_read_are_not_of_skipped_epochs(
    world: World, tmp_path: Path
) -> None:
    """R5: one of two readers skips the epoch: the files are the other's, whether it has come there or not."""
    job, other = (
        loading(world, f"{tmp_path}/{PATTERN}", name, complete=none_needed()) for name in ("load", "other")
    )
    for number in (1, 2):
        land(tmp_path, number, "a.csv")
    run(world, job, day(1))
    run(world, other, day(1))
    world.coordinator.skip(DOMAIN, "load", day(2), "not here", by="ada")
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()
    run(world, other, day(2))
    assert examine(world.store, world.formats, DOMAIN).symptoms == ()


def test_src3_late_ids(world: World, postgresql: PostgresqlServer) -> None:
    """I11: an id that appears below the span before last is an error that names its epoch, and doctor names it."""
    database = postgresql.create_database()
    readers = SourceReaders({"shop": postgresql.url(database)})
    source = PostgresSource("orders", "orders", connection="shop", id_column="id")
    job = world.job("load", inputs=[source])
    with closing(postgresql.connect(database)) as shop:
        shop.execute("CREATE TABLE orders (id bigint)")
        for number in (1, 2):
            shop.execute("INSERT INTO orders VALUES (%s)", (number * 50 + 1,))
            attempt = world.begin(job, day(number), sources=readers)
            world.write(attempt)
            world.coordinator.publish(attempt)
        shop.execute("INSERT INTO orders VALUES (2), (151)")
        before = world.exactly()
        with pytest.raises(Unavailable, match=r"has 2 rows with id in \(…, 51\]") as refused:
            world.begin(job, day(3), sources=readers)
        assert "bind orders 2024-01-01T00:00:00+00:00/2024-01-02" in refused.value.next_step
        assert world.exactly() == before
        symptoms = examine(world.store, world.formats, DOMAIN, source_readers=readers).symptoms
        assert any("2 rows with id in (…, 51]" in symptom.found for symptom in symptoms)
        bind(world.coordinator.context, DOMAIN, "orders", day(1), readers, reason="they are late", by="ada")
        assert world.begin(job, day(3), sources=readers).sources[0].span == Span(low=101, high=151, rows=1)
