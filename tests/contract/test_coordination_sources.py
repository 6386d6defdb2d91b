"""Sources that are tables of others, late data, and revisions of sources, on each store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    InvalidInput,
    NotReady,
    SourceUnavailable,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind, epoch_key, source_key
from airflow_provider.domain.source_bounds import (
    BoundFile,
    FileSource,
    IcebergSource,
    Late,
    SourceBounds,
    Span,
)
from airflow_provider.domain.topology import Job
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.codec import encode
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.lakes import Lake, prices

FILES = SourceReaders()


def begin(world: World, lake: Lake, job: Job, number: int, by: Owner | None = None) -> Attempt:
    return world.begin(job, day(number), by, sources=lake.sources())


def read(lake: Lake, job: Job, attempt: Attempt) -> list[int]:
    (bounds,) = attempt.sources
    assert bounds.span is not None
    return lake.values(job.sources[0], bounds.span)


def publish(world: World, attempt: Attempt) -> None:
    world.write(attempt)
    world.coordinator.publish(attempt)


def again(run: str) -> Owner:
    return owner(run)


# --- tables of others ------------------------------------------------------------------------------------------


def test_increments_of_a_table_of_others_follow_each_other(world: World, lake: Lake) -> None:
    """I11: each epoch reads what was appended since the barrier before; a retry and another job read the same."""
    job, other = (world.job(name, inputs=[prices()]) for name in ("a", "b"))
    lake.append(1, 2)
    first = begin(world, lake, job, 1)
    lake.append(3)
    lake.append(4)
    second = begin(world, lake, job, 2)
    lake.append(5)
    retried = begin(world, lake, job, 2, owner(try_number=2))
    assert [read(lake, job, attempt) for attempt in (first, second, retried)] == [[1, 2], [3, 4], [3, 4]]
    assert begin(world, lake, other, 1).sources == first.sources
    assert begin(world, lake, other, 2).sources == second.sources
    third = begin(world, lake, job, 3)
    nothing = begin(world, lake, job, 4)
    assert (read(lake, job, third), read(lake, job, nothing)) == ([5], [])


def test_a_table_without_rows_is_an_empty_increment(world: World, lake: Lake) -> None:
    job = world.job("a", inputs=[prices()])
    assert read(lake, job, begin(world, lake, job, 1)) == []
    lake.append(1)
    assert read(lake, job, begin(world, lake, job, 2)) == [1]


def test_a_barrier_of_before_lies_between_those_that_are_recorded(world: World, lake: Lake) -> None:
    """I11: what a later epoch has read is not read twice: the first epoch of all has all that was there."""
    job = world.job("a", inputs=[prices()])
    lake.append(1)
    assert read(lake, job, begin(world, lake, job, 4)) == [1]
    lake.append(2)
    assert read(lake, job, begin(world, lake, job, 6)) == [2]
    lake.append(3)
    assert [read(lake, job, begin(world, lake, job, number)) for number in (2, 5, 1, 3)] == [[], [], [], []]
    assert read(lake, job, begin(world, lake, job, 7)) == [3]


def test_a_source_that_does_not_answer_leaves_nothing(world: World, lake: Lake, tmp_path: Path) -> None:
    job = world.job("a", inputs=[prices()])
    world.coordinator.register(job)
    before = world.exactly()
    (tmp_path / "file").touch()
    unreachable = SourceReaders({"lake_db": f"sqlite:///{tmp_path}/file/lake.db"})
    with pytest.raises(SourceUnavailable, match="prices"):
        world.begin(job, day(1), sources=unreachable)
    with pytest.raises(InvalidInput, match="make the Airflow connection 'lake_db'"):
        world.begin(job, day(1), sources=SourceReaders())
    lake.catalog.drop_table("market.prices")
    with pytest.raises(NotReady, match="no table lake.market.prices"):
        begin(world, lake, job, 1)
    assert world.exactly() == before
    lake.make()
    lake.append(1)
    assert read(lake, job, begin(world, lake, job, 1)) == [1]


def test_bounds_that_leave_a_gap_are_refused(world: World) -> None:
    """I11: whatever proposes them."""
    job = world.job("a", inputs=[IcebergSource("prices", "lake.market.prices")])

    def proposed(span: Span | None) -> dict[str, SourceBounds]:
        return {"prices": SourceBounds(source="prices", span=span)}

    world.begin(job, day(2), sources=proposed(Span(low=None, high=4)))
    for number, span in (
        (3, Span(low=5, high=6)),
        (3, None),
        (1, Span(low=None, high=4)),
        (1, Span(low=1, high=2)),
    ):
        with pytest.raises(InvalidInput, match="prices"):
            world.begin(job, day(number), sources=proposed(span))
    world.begin(job, day(3), sources=proposed(Span(low=4, high=6)))
    world.begin(job, day(1), sources=proposed(Span(low=None, high=None)))


def test_a_source_may_be_called_as_a_table_is(world: World) -> None:
    """R6, I11: what is recorded of either leaves the other alone."""
    world.run(world.job("queue"), day(1), [1])
    job = world.job("reader", inputs=[FileSource("queue", "/queue/{start}", late=Late.NEXT)])
    bounds = {"queue": SourceBounds(source="queue", files=(BoundFile(uri="/x", size_bytes=1),))}
    before = world.store.scan(DOMAIN, Kind.REWRITE_LOG, "")
    attempt = world.begin(job, day(1), sources=bounds)
    assert world.store.scan(DOMAIN, Kind.REWRITE_LOG, "")[: len(before)] == before
    world.write(attempt)
    world.coordinator.publish(attempt)
    world.run(world.job("queue"), day(1), [2], owner("again"))
    assert world.rows("queue") == {"queue": [(1, 2)]}


def test_a_skipped_epoch_leaves_its_rows_to_the_next(world: World, lake: Lake) -> None:
    """R5, I11: it records no bounds."""
    job = world.job("a", inputs=[prices()])
    lake.append(1)
    publish(world, begin(world, lake, job, 1))
    lake.append(2)
    world.coordinator.skip(DOMAIN, "a", day(2), "nobody wants it", by="ada")
    assert read(lake, job, begin(world, lake, job, 3)) == [2]
    assert read(lake, job, begin(world, lake, job, 2, again("manual"))) == []


def test_jobs_that_share_a_source_say_the_same_of_it(world: World) -> None:
    world.coordinator.register(world.job("a", inputs=[prices()]))
    with pytest.raises(TopologyError, match=r"lake_db:lake\.market\.prices.*reads=state"):
        world.coordinator.register(world.job("b", inputs=[prices(reads="state")]))


# --- revisions of a source ---------------------------------------------------------------------------------------


def test_later_revision_of_an_epoch_reads_the_first_ones_bounds(world: World, lake: Lake) -> None:
    """I11: unless the source says otherwise."""
    job = world.job("a", inputs=[prices()])
    lake.append(1)
    publish(world, begin(world, lake, job, 1))
    lake.append(2)
    revised = begin(world, lake, job, 1, again("manual"))
    assert (revised.revision, read(lake, job, revised)) == (2, [1])


def test_an_increment_ends_where_it_was_committed(world: World, lake: Lake) -> None:
    """I11: the rows that came since are the next epoch's, also of a source of which revisions are made."""
    job, other = (world.job(name, inputs=[prices(late="revision")]) for name in ("a", "b"))
    lake.append(1)
    first = begin(world, lake, job, 1)
    lake.append(2)
    assert begin(world, lake, job, 1, owner(try_number=2)).sources == first.sources
    publish(world, begin(world, lake, job, 1, owner(try_number=3)))
    revised = begin(world, lake, job, 1, again("manual"))
    assert read(lake, job, revised) == [1]
    world.coordinator.abort(revised, "it failed")
    assert read(lake, job, begin(world, lake, job, 2)) == [2]
    assert begin(world, lake, other, 1).sources == first.sources, "one set for both"


def test_an_increment_ends_where_it_was_bound_anew(world: World, lake: Lake) -> None:
    """I11: the epoch left behind reads what was bound; the rows that came since are the next epoch's."""
    job = world.job("a", inputs=[prices()])
    lake.append(1)
    publish(world, begin(world, lake, job, 1))
    lake.append(2)
    context = world.coordinator.context
    bound = bind(context, DOMAIN, "prices", day(1), lake.sources(), reason="a correction", by="ada").bounds
    lake.append(3)
    revised = begin(world, lake, job, 1, again("manual"))
    assert (revised.sources[0].revision, read(lake, job, revised)) == (bound.revision, [1, 2])
    publish(world, revised)
    assert read(lake, job, begin(world, lake, job, 2)) == [3]


def test_a_state_of_which_revisions_are_made(world: World, lake: Lake) -> None:
    """I11: a new revision of the epoch reads the whole table anew; its retry does not."""
    source = prices(late="revision", reads="state")
    job, other = (world.job(name, inputs=[source]) for name in ("a", "b"))
    lake.append(1)
    publish(world, begin(world, lake, job, 1))
    lake.append(2)
    revised = begin(world, lake, job, 1, again("manual"))
    assert (revised.sources[0].revision, read(lake, job, revised)) == (2, [1, 2])
    lake.append(3)
    retried = begin(world, lake, job, 1, Owner(dag_id="dag", run_id="manual", try_number=2))
    assert retried.sources == revised.sources
    publish(world, retried)
    begin(world, lake, job, 2)
    lake.append(4)
    third = begin(world, lake, job, 1, again("once more"))
    assert (third.sources[0].revision, read(lake, job, third)) == (2, [1, 2]), (
        "what is behind it is another's"
    )
    assert begin(world, lake, other, 1).sources == third.sources, "one set for both"


# --- files that come late --------------------------------------------------------------------------------------


def landed(directory: Path, name: str) -> str:
    path = directory / f"2024-01-{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name)
    return f"file://{path}"


def files_of(attempt: Attempt) -> list[str]:
    return [file.uri for file in attempt.sources[0].files]


def loading(world: World, directory: Path, late: Any, name: str = "loading") -> Job:
    location = f"{directory}/{{start:%Y-%m-%d}}/*.csv"
    return world.job(name, inputs=[FileSource("landing", location, late=late, complete=none_needed())])


def listed(world: World, job: Job, epoch: Interval, by: Owner | None = None) -> list[str]:
    return files_of(world.begin(job, epoch, by, sources=SourceReaders()))


def test_a_late_file_is_the_next_epochs(world: World, tmp_path: Path) -> None:
    """I11: each file is read by one epoch, whichever folder it came to, and whenever the epochs are begun."""
    job = loading(world, tmp_path, "next")
    first = landed(tmp_path, "01/a.csv")
    assert listed(world, job, day(1)) == [first]
    late, second = landed(tmp_path, "01/late.csv"), landed(tmp_path, "02/a.csv")
    assert listed(world, job, day(1), owner(try_number=2)) == [first]
    fourth = landed(tmp_path, "04/a.csv")
    assert listed(world, job, day(4)) == [late, fourth]
    assert listed(world, job, day(2)) == [second]
    latest = landed(tmp_path, "02/late.csv")
    assert listed(world, job, day(5)) == [latest]
    assert listed(world, job, day(3)) == []


def test_a_late_file_is_refused(world: World, tmp_path: Path) -> None:
    """The begin that finds it names it: of the next epoch, and of a revision of its own."""
    job = loading(world, tmp_path, "refuse")
    first = landed(tmp_path, "01/a.csv")
    publish(world, world.begin(job, day(1), sources=SourceReaders()))
    late = landed(tmp_path, "01/late.csv")
    landed(tmp_path, "02/a.csv")
    before = world.exactly()
    for epoch, by in ((day(2), owner()), (day(1), again("manual"))):
        with pytest.raises(Unavailable, match="01/late.csv came after") as refused:
            listed(world, job, epoch, by)
        assert refused.value.uris == (late,)
    assert world.exactly() == before
    Path(late.removeprefix("file://")).unlink()
    assert listed(world, job, day(1), again("manual")) == [first]


def test_a_late_file_is_read_by_a_revision(world: World, tmp_path: Path) -> None:
    """I11: and only by that; the epoch after does not look for it."""
    job = loading(world, tmp_path, "revision")
    first = landed(tmp_path, "01/a.csv")
    publish(world, world.begin(job, day(1), sources=SourceReaders()))
    late, second = landed(tmp_path, "01/late.csv"), landed(tmp_path, "02/a.csv")
    assert listed(world, job, day(2)) == [second]
    assert listed(world, job, day(1), again("manual")) == [first, late]


def test_files_that_changed_are_no_dead_end_where_sources_are_revised(world: World, tmp_path: Path) -> None:
    """I11: an epoch that was never committed reads them as they are now, and adopts nothing of before."""
    job = loading(world, tmp_path, "revision")
    landed(tmp_path, "01/a.csv")
    failed = world.begin(job, day(1), sources=SourceReaders())
    (tmp_path / "2024-01-01/a.csv").write_text("longer than it was")
    with pytest.raises(Unavailable):
        FILES.check_unchanged(job.sources[0], failed.sources[0])
    anew = world.begin(job, day(1), owner(try_number=2), sources=SourceReaders())
    assert (anew.sources[0].revision, files_of(anew)) == (2, files_of(failed))
    FILES.check_unchanged(job.sources[0], anew.sources[0])
    other = loading(world, tmp_path, "revision", "other")
    assert world.begin(other, day(1), sources=SourceReaders()).sources == anew.sources
    (tmp_path / "2024-01-01/a.csv").write_text("longer than ever before")
    third = world.begin(other, day(1), owner(try_number=2), sources=SourceReaders())
    shared = world.begin(job, day(1), owner(try_number=3), sources=SourceReaders())
    assert (third.sources[0].revision, shared.sources) == (3, third.sources)
    epoch = world.store.read(DOMAIN, [key := epoch_key(DOMAIN, job.name, day(1).start)]).records[key]
    assert epoch.record.attempt.input_generation == 3


def test_files_that_changed_twice_are_recorded_twice(world: World, tmp_path: Path) -> None:
    """I11: an attempt that is two revisions behind reads neither what it had nor what others had, if both changed."""
    jobs = [loading(world, tmp_path, "revision", name) for name in ("one", "two")]
    landed(tmp_path, "01/a.csv")
    world.begin(jobs[0], day(1), sources=SourceReaders())
    (tmp_path / "2024-01-01/a.csv").write_text("longer than it was")
    second = world.begin(jobs[1], day(1), sources=SourceReaders())
    (tmp_path / "2024-01-01/a.csv").write_text("longer than ever before")
    third = world.begin(jobs[0], day(1), owner(try_number=2), sources=SourceReaders())
    assert [attempt.sources[0].revision for attempt in (second, third)] == [2, 3]
    FILES.check_unchanged(jobs[0].sources[0], third.sources[0])
    key = source_key(DOMAIN, "landing", day(1).end, 2)
    assert world.store.read(DOMAIN, [key]).records[key].record.bounds == second.sources[0]


def test_skipped_epoch_run_later_reads_the_bounds_of_other_readers(world: World, tmp_path: Path) -> None:
    """R5, I11: the skip has read nothing; to run it after all is no reason for another revision of its source."""
    skipped, other = (loading(world, tmp_path, "revision", name) for name in ("skipped", "other"))
    landed(tmp_path, "01/a.csv")
    landed(tmp_path, "02/a.csv")
    publish(world, world.begin(skipped, day(2), sources=SourceReaders()))
    world.coordinator.skip(DOMAIN, "skipped", day(1), "nobody wants it", by="ada")
    first = world.begin(other, day(1), sources=SourceReaders())
    landed(tmp_path, "01/late.csv")
    assert world.begin(skipped, day(1), sources=SourceReaders()).sources == first.sources


def test_bounds_that_do_not_say_their_interval_are_read(world: World, tmp_path: Path) -> None:
    """I11: older records do not; they hold for whichever interval ends there."""
    job = loading(world, tmp_path, "ignore")
    landed(tmp_path, "01/a.csv")
    first = world.begin(job, day(1), sources=SourceReaders())
    key = source_key(DOMAIN, "landing", day(1).end, 1)
    record = world.store.read(DOMAIN, [key]).records[key].record
    world.plant(key, encode(key, replace(record, interval=None)))
    assert world.begin(job, day(1), owner(try_number=2)).sources == first.sources


@pytest.mark.parametrize("late", ["revision", "refuse"])
def test_adopted_output_keeps_the_sources_that_it_was_computed_from(
    world: World, tmp_path: Path, late: str
) -> None:
    """R16, I11: what came or changed after the rows were complete is none of what the retry publishes."""
    job = loading(world, tmp_path, late)
    landed(tmp_path, "01/a.csv")
    first = world.begin(job, day(1), sources=SourceReaders())
    world.write(first, [1])
    world.coordinator.complete(first)
    (tmp_path / "2024-01-01/a.csv").write_text("longer than it was")
    landed(tmp_path, "01/late.csv")
    retry = world.begin(job, day(1), owner(try_number=2), sources=SourceReaders())
    assert (retry.adopted, retry.sources) == (True, first.sources)
    world.coordinator.publish(retry)
    assert world.rows("loading") == {"loading": [(1, 1)]}
