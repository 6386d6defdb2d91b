"""Revisions of a source: whom they bind, who may record the next one, and long lists of files, on each store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from airflow_provider.coordination.attempts.resume import Begun, resume
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    CheckFailed,
    Conflict,
    DependentReaders,
    InvalidInput,
    NotReady,
    StoreIncompatible,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind, chain_key, epoch_key, source_key
from airflow_provider.domain.source_bounds import (
    BoundFile,
    FileSource,
    Late,
    Source,
    SourceBounds,
    SourceRecord,
)
from airflow_provider.domain.topology import Job, increment
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.codec import MAX_RECORD_BYTES, encode
from tests.contract.coordination_world import DOMAIN, PAST_TTL, World, barrier, day, owner
from tests.contract.interruptions import interrupted

FILES = SourceReaders()


def land(directory: Path, number: int, **texts: str) -> None:
    folder = directory / f"{day(number).start:%Y-%m-%d}"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)


def feed(directory: Path, late: str = "revision", **options: Any) -> Source:
    return FileSource(
        "feed", f"{directory}/{{start:%Y-%m-%d}}/*", late=Late(late), complete=none_needed(), **options
    )


def total(attempt: Attempt) -> int:
    """The job: a function of the files that the attempt reads."""
    return sum(int(Path(file.uri.removeprefix("file://")).read_text()) for file in attempt.sources[0].files)


def compute(world: World, job: Job, number: int, by: Owner | None = None) -> int:
    """Compute an epoch; return the revision of the source that it has read."""
    attempt = world.begin(job, day(number), by, sources=FILES)
    world.write(attempt, [total(attempt)])
    world.coordinator.complete(attempt)
    world.coordinator.publish(attempt)
    return attempt.sources[0].revision


def failed(world: World, job: Job, number: int, by: Owner | None = None) -> Attempt:
    attempt = world.begin(job, day(number), by, sources=FILES)
    world.coordinator.abort(attempt, "it failed")
    return attempt


def cleared(run: str) -> Owner:
    return owner(run)


# --- two jobs never stand on different revisions ----------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True], ids=["first attempt", "computed again"])
def test_src2_two_revisions_of_a_source(world: World, tmp_path: Path, again: bool) -> None:
    """I11, R18: D is computed from revision 1, its source changes, E would read revision 2: refused."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    land(tmp_path, 1, x="5")
    compute(world, d, 1)
    if again:
        compute(world, e, 1)
    land(tmp_path, 1, x="500")
    world.coordinator.register(e)
    before = world.exactly()
    with pytest.raises(DependentReaders, match="two jobs would stand on different revisions") as refused:
        world.begin(e, day(1), cleared("other"), sources=FILES)
    assert [str(reader.job) for reader in refused.value.readers] == ["d"]
    assert "airflow epochs bind feed" in refused.value.next_step
    assert world.exactly() == before
    f = world.job("f", inputs=[increment(world.table("d")), increment(world.table("e"))])
    if not again:
        with pytest.raises(NotReady):
            world.begin(f, day(1))
    else:
        world.begin(f, day(1))
        assert world.rows("d", "e") == {"d": [(1, 5)], "e": [(1, 5)]}


def test_a_first_begin_on_recorded_bounds_writes_their_chain(world: World, tmp_path: Path) -> None:
    """I11: a begin that has found no epoch on these bounds requires only the chain; a later try writes its epoch."""
    d, e = (world.job(name, inputs=[feed(tmp_path, late="next")]) for name in "de")
    land(tmp_path, 1, x="5")
    key = chain_key(DOMAIN, "feed")

    def version() -> int:
        return world.store.read(DOMAIN, [key]).of(key).version

    compute(world, d, 1)
    versions = [version()]
    for try_number in (1, 2):
        world.begin(e, day(1), owner(try_number=try_number), sources=FILES)
        versions.append(version())
    assert versions[0] < versions[1] == versions[2]


def test_a_source_that_has_not_changed_is_no_reason_for_a_revision(world: World, tmp_path: Path) -> None:
    """I11: an epoch is computed again beside others that have read the same."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    land(tmp_path, 1, x="5")
    for job in (d, e):
        compute(world, job, 1)
    assert [compute(world, job, 1, cleared("again")) for job in (d, e)] == [1, 1]


def test_a_revision_that_came_to_nothing_binds_no_other_job(world: World, tmp_path: Path) -> None:
    """I4, I11: D has committed revision 1, and failed with revision 2: E waits while D tries, then is refused."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    land(tmp_path, 1, x="5")
    compute(world, d, 1)
    world.coordinator.register(e)
    land(tmp_path, 1, x="500")
    again = world.begin(d, day(1), cleared("again"), sources=FILES)
    assert again.sources[0].revision == 2
    with pytest.raises(NotReady, match="d is being computed again with it"):
        world.begin(e, day(1), sources=FILES)
    world.coordinator.abort(again, "it failed")
    with pytest.raises(DependentReaders, match="since revision 1 .* different revisions") as refused:
        world.begin(e, day(1), sources=FILES)
    assert [str(reader.job) for reader in refused.value.readers] == ["d"]
    assert "airflow epochs bind feed" in refused.value.next_step
    assert compute(world, d, 1, cleared("once more")) == 2
    assert compute(world, e, 1) == 2
    assert world.rows("d", "e") == {"d": [(1, 500)], "e": [(1, 500)]}


def test_attempt_on_an_older_source_revision_is_not_published(world: World, tmp_path: Path) -> None:
    """I11, R13: an attempt that began on the older revision loses; its retry reads the newer one."""
    d, e = (world.job(name, inputs=[feed(tmp_path)]) for name in "de")
    land(tmp_path, 1, x="5")
    compute(world, d, 1)
    slow = world.begin(e, day(1), sources=FILES)
    world.write(slow, [5])
    world.coordinator.complete(slow)
    land(tmp_path, 1, y="70")
    assert compute(world, d, 1, cleared("late data")) == 2
    before = world.commits()
    with pytest.raises(Conflict, match="revision 2 of source 'feed'"):
        world.coordinator.publish(slow)
    assert world.commits() == before
    retry = world.begin(e, day(1), owner(try_number=2), sources=FILES)
    assert (retry.adopted, retry.sources[0].revision) == (False, 2)
    world.write(retry, [total(retry)])
    world.coordinator.publish(retry)
    assert world.rows("d", "e") == {"d": [(1, 75)], "e": [(1, 75)]}


def test_a_later_revision_that_is_recorded_during_publish(world: World, tmp_path: Path) -> None:
    """I11, R13: between publish's look and its transaction: the transaction itself requires that there is none."""
    job = world.job("d", inputs=[feed(tmp_path, "next")])
    land(tmp_path, 1, x="5")
    attempt = world.begin(job, day(1), sources=FILES)
    world.write(attempt, [5])
    land(tmp_path, 1, x="500")

    def meanwhile() -> None:
        bind(world.coordinator.context, DOMAIN, "feed", day(1), FILES, reason="it was mended", by="ada")

    with pytest.raises(Conflict, match="revision 2 of source 'feed'"):
        interrupted(world, meanwhile).publish(attempt)
    assert world.commits() == []


# --- bounds bind what committed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["next", "ignore", "revision", "refuse"])
def test_bounds_of_an_epoch_that_failed_are_taken_anew(world: World, tmp_path: Path, late: str) -> None:
    """I11, A8: nothing stands on them: the file that was missing is read, and the one that was mended."""
    job = world.job("d", inputs=[feed(tmp_path, late)], checks=[row_count("d", at_least=2)])
    land(tmp_path, 1)
    attempt = world.begin(job, day(1), sources=FILES)
    assert attempt.sources[0].files == ()
    world.write(attempt, [])
    with pytest.raises(CheckFailed):
        world.coordinator.publish(attempt)
    land(tmp_path, 1, x="7")
    attempt = world.begin(job, day(1), owner(try_number=2), sources=FILES)
    assert (attempt.sources[0].revision, len(attempt.sources[0].files)) == (2, 1)
    world.coordinator.abort(attempt, "a bad file")
    land(tmp_path, 1, x="70")
    attempt = world.begin(job, day(1), owner(try_number=3), sources=FILES)
    world.write(attempt, [total(attempt), 0])
    world.coordinator.publish(attempt)
    assert world.rows("d") == {"d": [(1, 0), (1, 70)]}
    committed = world.coordinator.epoch(DOMAIN, job.name, day(1))
    assert committed is not None
    assert committed.record.committed.source_revisions == (("feed", 3),)


def test_a_file_that_is_replaced_before_its_epoch_ends_is_read_anew(world: World, tmp_path: Path) -> None:
    """I11, A8: also where the attempt that had read it is gone without a word; bounds that hold are kept."""
    job = world.job("d", inputs=[feed(tmp_path, "next")])
    land(tmp_path, 1, x="7")
    world.begin(job, day(1), sources=FILES)
    land(tmp_path, 1, y="1")
    assert len(world.begin(job, day(1), owner(try_number=2), sources=FILES).sources[0].files) == 1
    land(tmp_path, 1, x="70")
    anew = world.begin(job, day(1), owner(try_number=3), sources=FILES)
    assert (anew.sources[0].revision, total(anew)) == (2, 71)


@pytest.mark.parametrize("stands", ["committed", "live"])
def test_bounds_that_another_job_stands_on_are_kept(world: World, tmp_path: Path, stands: str) -> None:
    """I11, A8: a failed epoch reads what the other has read; what is gone is told before any work, with a way out."""
    d, e = (world.job(name, inputs=[feed(tmp_path, "next")]) for name in "de")
    land(tmp_path, 1, x="7")
    first = world.begin(d, day(1), sources=FILES)
    if stands == "committed":
        world.write(first, [7])
        world.coordinator.publish(first)
    failed(world, e, 1)
    land(tmp_path, 1, y="1")
    assert failed(world, e, 1, owner(try_number=2)).sources == first.sources
    land(tmp_path, 1, x="70")
    before = world.exactly()
    with pytest.raises(Unavailable, match="which d has read") as refused:
        world.begin(e, day(1), owner(try_number=3), sources=FILES)
    assert "airflow epochs bind feed" in refused.value.next_step
    assert world.exactly() == before
    if stands == "live":
        world.clock.advance(PAST_TTL)
        assert total(world.begin(e, day(1), owner(try_number=3), sources=FILES)) == 71
        world.write(first, [7])
        with pytest.raises(Conflict, match="revision 2 of source 'feed'"):
            world.coordinator.publish(first)


@pytest.mark.parametrize("failed_before", [False, True], ids=["first try", "next try"])
def test_epoch_committed_meanwhile_keeps_its_bounds(
    world: World, tmp_path: Path, failed_before: bool
) -> None:
    """I11, A8: the other's epoch is as it was when its bounds are taken anew, or the begin looks again."""
    d, e = (world.job(name, inputs=[feed(tmp_path, "next")]) for name in "de")
    for job in (d, e):
        world.coordinator.register(job)
    land(tmp_path, 1, x="7")
    first = failed(world, e, 1)
    if failed_before:
        failed(world, d, 1)
    land(tmp_path, 1, y="1")

    class Meanwhile(SourceReaders):
        """The source answers; before its answer is recorded another job commits what it read."""

        def bounds(self, asked: Any) -> SourceBounds:
            found = super().bounds(asked)
            if pending:
                compute_as_recorded(world, pending.pop(), first)
            return found

    pending = [d]
    again = world.coordinator.begin(e, day(1), owner(try_number=2), sources=Meanwhile())
    assert isinstance(again, Attempt)
    assert again.sources == first.sources


def compute_as_recorded(world: World, job: Job, of: Attempt) -> None:
    """Commit an epoch whose source still says what *of* has read."""
    attempt = world.begin(job, of.interval, sources={"feed": of.sources[0]})
    assert attempt.sources == of.sources
    world.write(attempt, [7])
    world.coordinator.publish(attempt)


# --- binding anew ------------------------------------------------------------------------------------------------


def test_a_source_is_bound_anew_with_a_reason(world: World, tmp_path: Path) -> None:
    """I11, A8: what others have committed stays until their tasks are cleared; who and why are in the log."""
    d, e = (world.job(name, inputs=[feed(tmp_path, "next")]) for name in "de")
    land(tmp_path, 1, x="7")
    compute(world, d, 1)
    land(tmp_path, 1, x="70")
    with pytest.raises(Unavailable):
        world.begin(e, day(1), sources=FILES)
    found = bind(world.coordinator.context, DOMAIN, "feed", day(1), FILES, reason="it was mended", by="ada")
    assert (found.bounds.revision, found.is_new, [str(behind.job) for behind in found.behind]) == (
        2,
        True,
        ["d"],
    )
    again = bind(world.coordinator.context, DOMAIN, "feed", day(1), FILES, reason="once more", by="ada")
    assert (again.bounds.revision, again.is_new) == (2, False)
    assert compute(world, e, 1) == 2
    assert compute(world, d, 1, cleared("bound anew")) == 2
    assert world.rows("d", "e") == {"d": [(1, 70)], "e": [(1, 70)]}
    log = [stamped.record.note for stamped in world.coordinator.barriers(DOMAIN, e.name, day(1))]
    assert any("feed: revision 2, bound anew by ada: it was mended" in note for note in log)


def test_only_recorded_sources_are_bound_again(world: World, tmp_path: Path) -> None:
    world.coordinator.register(world.job("d", inputs=[feed(tmp_path, "next")]))
    with pytest.raises(UnknownName, match="declares a source 'fed'; the domain has feed"):
        bind(world.coordinator.context, DOMAIN, "fed", day(1), FILES, reason="why", by="ada")
    with pytest.raises(InvalidInput, match="are recorded"):
        bind(world.coordinator.context, DOMAIN, "feed", day(1), FILES, reason="why", by="ada")
    with pytest.raises(InvalidInput, match="reason"):
        bind(world.coordinator.context, DOMAIN, "feed", day(1), FILES, reason=" ", by="ada")


# --- long lists of files -----------------------------------------------------------------------------------------


def names(count: int, number: int = 1) -> SourceBounds:
    """As many files as engines leave, with names that compress badly: each has a number of its own at random."""
    random = Random(number)
    files = tuple(
        BoundFile(
            uri=f"s3://landing-zone/events/2024/01/{number:02d}/part-{index:05d}-{random.getrandbits(128):032x}.json.gz",
            size_bytes=random.randrange(10**7),
            modified=1_704_067_200_000_000 + random.randrange(10**10),
        )
        for index in range(count)
    )
    return SourceBounds(source="feed", files=files)


def test_ten_thousand_files_an_epoch(world: World) -> None:
    """I11: they begin, are handed to other processes and publish; a retry and the epochs beside them find them."""
    job = world.job("d", inputs=[FileSource("feed", "s3://landing-zone/{start}.json", late=Late.NEXT)])
    for number in (1, 2):
        wanted = names(10_000, number)
        first = world.begin(job, day(number), sources={"feed": wanted})
        assert first.sources == (wanted,)
        attempt = world.begin(job, day(number), owner(try_number=2), sources={"feed": wanted})
        taken_up = resume(world.worker().context, job, Begun.of(attempt))
        assert taken_up == attempt
        assert attempt.sources == (wanted,)
        world.write(attempt)
        world.coordinator.publish(attempt)
    (epoch,) = world.store.scan(DOMAIN, Kind.EPOCH, job.name, limit=1)
    key = source_key(DOMAIN, "feed", barrier(1), 1)
    assert len(encode(epoch.key, epoch.record)) < 4_000
    assert len(encode(key, world.store.read(DOMAIN, [key]).records[key].record)) < MAX_RECORD_BYTES // 2


def test_more_files_than_a_begin_records_are_refused(world: World) -> None:
    """Before any work, with the number and the limit; several sources count together."""
    sources = [
        FileSource(f"feed-{number}", "s3://landing-zone/{start}.json", late=Late.IGNORE)
        for number in range(2)
    ]
    job = world.job("d", inputs=sources)
    world.coordinator.register(job)
    before = world.exactly()
    some = {source.name: SourceBounds(source=source.name, files=names(12_000, 9).files) for source in sources}
    with pytest.raises(InvalidInput, match=r"12000 files .* at most 600000 bytes") as refused:
        world.begin(job, day(1), sources=some)
    assert refused.value.count == 12_000
    assert world.exactly() == before


def test_lists_of_files_in_older_records_are_read(world: World) -> None:
    """I11: older versions kept the files in the records of the source and of the attempt."""
    job = world.job("d", inputs=[FileSource("feed", "s3://landing-zone/{start}.json", late=Late.NEXT)])
    bounds = names(50)
    attempt = world.begin(job, day(1), sources={"feed": bounds})
    key = source_key(DOMAIN, "feed", barrier(1), 1)
    world.plant(key, encode(key, SourceRecord(bounds=bounds, job=job.name, interval=day(1))))
    fence = epoch_key(DOMAIN, job.name, day(1).start)
    record = world.store.read(DOMAIN, [fence]).records[fence].record
    world.plant(fence, encode(fence, replace(record, attempt=replace(record.attempt, sources=(bounds,)))))
    taken_up = resume(world.worker().context, job, Begun.of(attempt))
    assert isinstance(taken_up, Attempt)
    assert taken_up.sources == attempt.sources
    retry = world.begin(job, day(1), owner(try_number=2), sources={"feed": bounds})
    assert retry.sources == (bounds,)
    world.write(retry)
    world.coordinator.publish(retry)


def test_a_list_of_files_that_is_another_is_refused(world: World) -> None:
    """I11: an attempt reads what it was begun with, or nothing."""
    job = world.job("d", inputs=[FileSource("feed", "s3://landing-zone/{start}.json", late=Late.NEXT)])
    attempt = world.begin(job, day(1), sources={"feed": names(50)})
    key = source_key(DOMAIN, "feed", barrier(1), 1)
    other = names(51)
    world.plant(key, encode(key, SourceRecord.of(other, job.name, day(1))))
    with pytest.raises(StoreIncompatible, match="not those that the attempt was begun with"):
        resume(world.worker().context, job, Begun.of(attempt))
