"""Sources that a job leaves for one of another name, on each store (I11)."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.commits import renamed_sources
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.unread import abandoned
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import FileSource, PostgresSource, SourceBounds, Span
from airflow_provider.domain.topology import Job
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.faults import Call, FaultyStore
from tests.contract.coordination_world import DOMAIN, World, day, owner
from tests.contract.landings import FILES, Landing
from tests.servers.postgresql import PostgresqlServer


@pytest.fixture
def landing(world: World, tmp_path: Path) -> Landing:
    return Landing(world, tmp_path)


@pytest.mark.parametrize("late", ["next", "revision", "ignore"])
def test_a_late_file_is_not_read_again_by_another_name(landing: Landing, late: str) -> None:
    """I11: the next epoch has read it; its own, computed again by a new name for the folder, is refused."""
    world, old, new = landing.world, landing.job("feed"), landing.job("feed_2", late=late)
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    landing.land(2, "b.csv")
    assert landing.run(old, day(2)) == ["late.csv", "b.csv"]
    landing.land(3, "c.csv")
    assert landing.run(new, day(3)) == ["c.csv"]
    before = world.exactly()
    with pytest.raises(
        TopologyError, match=r"late\.csv, that \[2024-01-02.* has read as source 'feed'"
    ) as refused:
        world.begin(new, day(1), owner("again"), sources=FILES)
    assert "a declaration of the job that reads 'feed'" in refused.value.next_step
    assert world.exactly() == before
    assert landing.run(new, day(2), owner("again")) == ["b.csv"], "read what lies at its own place"
    assert landing.run(new, day(1), owner("again")) == ["a.csv", "late.csv"], "no epoch has read it any more"


def test_the_declaration_that_has_read_a_late_file_computes_its_epoch_again(landing: Landing) -> None:
    """I11: what the refusal names: an earlier declaration serves the epochs that ask by it."""
    old, new = landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    landing.run(old, day(2))
    landing.run(new, day(3))
    assert landing.run(old, day(1), owner("by the older version")) == ["a.csv"]


def test_older_declaration_does_not_read_files_read_by_the_new_name(landing: Landing) -> None:
    """I11: the other way round: an older version of the DAG computes an epoch again."""
    old, new = landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.run(new, day(2))
    landing.land(2, "late.csv")
    assert landing.run(new, day(3)) == ["late.csv"]
    with pytest.raises(TopologyError, match="as source 'feed_2'"):
        landing.world.begin(old, day(2), owner("older"), sources=FILES)


def test_files_of_an_attempt_that_came_to_nothing_are_free(landing: Landing) -> None:
    """I11: bounds on which no epoch stands have read nothing."""
    world, old, new = landing.world, landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    failed = world.begin(old, day(2), sources=FILES)
    assert len(failed.sources[0].files) == 1
    with pytest.raises(TopologyError, match="read as source 'feed'"):
        world.begin(new, day(1), owner("again"), sources=FILES)
    world.coordinator.abort(failed, "its code failed")
    assert landing.run(new, day(1), owner("again")) == ["a.csv", "late.csv"]


def test_an_epoch_that_begins_by_the_older_name_meanwhile_is_seen(landing: Landing) -> None:
    """I11: of two begins by two names the later one looks again."""
    old, new = landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.run(new, day(3))
    landing.land(1, "late.csv")
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-02"):
        landing.begin_while(new, day(1), meanwhile=lambda: landing.begin(old, day(2)))


@pytest.mark.parametrize("late", ["revision", "ignore"])
def test_an_epoch_that_begins_by_a_source_without_a_chain_meanwhile_is_seen(
    landing: Landing, late: str
) -> None:
    """I11: of two begins by two names the later one looks again, also where the other records nothing that bounds of
    others depend on.
    """
    old, new = landing.job("feed"), landing.job("feed_2", late=late)
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.world.coordinator.register(new)
    landing.land(1, "late.csv")
    landing.land(2, "b.csv")
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-01"):
        landing.begin_while(old, day(2), meanwhile=lambda: landing.begin(new, day(1)))


def test_bounds_that_are_recorded_anew_meanwhile_are_seen(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I11: an epoch begins again by the older name, from other files, between the looks at its bounds and at itself."""
    world, old, new = landing.world, landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(2, "b.csv")
    world.coordinator.abort(world.begin(old, day(2), sources=FILES), "its code failed")
    landing.run(new, day(3))
    landing.land(1, "late.csv")
    look = renamed_sources._recorded_around
    begun: list[Attempt] = []

    def slow(*given: Any) -> Any:
        found = look(*given)
        monkeypatch.setattr(renamed_sources, "_recorded_around", look)
        if not begun:
            begun.append(world.begin(old, day(2), owner("older"), sources=FILES))
        return found

    monkeypatch.setattr(renamed_sources, "_recorded_around", slow)
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-02"):
        world.begin(new, day(1), owner("again"), sources=FILES)
    assert [bounds.revision for bounds in begun[0].sources] == [2]


@pytest.mark.parametrize("renamed", [True, False], ids=["renamed", "left"])
def test_late_files_of_a_source_that_was_left_are_named(landing: Landing, renamed: bool) -> None:
    """I11: no begin looks there any more; doctor and explain do."""
    world, old = landing.world, landing.job("feed")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    if renamed:
        landing.run(landing.job("feed_2"), day(2))
    else:
        world.run(world.job("load"), day(2))
    ((text, urgent),) = landing.told()
    assert "1 came late and are read by no epoch" in text
    assert "late.csv" in text
    assert urgent is renamed
    if renamed:
        assert (
            "move them to where a coming epoch looks: source feed_2, which is read now, does not look here"
            in text
        )
    assert "late.csv" in explain(world.store, DOMAIN, "load", day(1)).summary
    landing.land(3, "late.csv")
    (landing.directory / "2024-01-01" / "late.csv").unlink()
    assert landing.told() == []
    if renamed:
        assert landing.run(landing.job("feed_2"), day(3)) == ["late.csv"]


@pytest.mark.parametrize("renamed", [True, False])
def test_files_that_were_replaced_are_named_by_a_source_that_was_left(
    landing: Landing, renamed: bool
) -> None:
    """I11: until the epoch is computed again by the new name."""
    landing.land(1, "a.csv")
    landing.run(landing.job("feed"), day(1))
    (landing.directory / "2024-01-01" / "a.csv").write_text("another delivery")
    if renamed:
        landing.run(landing.job("feed_2"), day(2))
    else:
        landing.world.run(landing.world.job("load"), day(2))
    ((text, _),) = landing.told()
    assert "1 were replaced after an epoch had read them" in text
    assert "nothing, if the rows that were computed from them are to stay" in text
    assert "were replaced" in explain(landing.world.store, DOMAIN, "load", day(1)).summary
    if renamed:
        assert landing.run(landing.job("feed_2"), day(1), owner("again")) == ["a.csv"]
        assert landing.told() == []


def test_file_of_the_old_folder_read_by_the_new_name_is_not_named(landing: Landing) -> None:
    """I11: an epoch that was computed again by the new name has read the late file."""
    old, new = landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    assert landing.run(new, day(1), owner("again")) == ["a.csv", "late.csv"]
    assert landing.told() == []


@pytest.mark.parametrize("late", ["next", "revision"])
def test_late_file_read_by_the_older_name_is_not_named(landing: Landing, late: str) -> None:
    """I11: an older version of the DAG reads it; who moves it, as doctor would say, has it read twice."""
    old, new = landing.job("feed"), landing.job("feed_2", late=late)
    landing.world.coordinator.register(old)
    landing.land(1, "a.csv")
    landing.run(new, day(1))
    landing.land(2, "b.csv")
    landing.run(old, day(2))
    landing.run(new, day(2), owner("again"))
    landing.land(2, "late.csv")
    assert [urgent for _, urgent in landing.told()] == [late == "revision"]
    assert landing.run(old, day(3)) == ["late.csv"]
    assert landing.told() == []


@pytest.mark.parametrize("old_late", ["revision", "ignore"])
def test_a_new_name_reads_no_file_late_that_its_epoch_has_read(landing: Landing, old_late: str) -> None:
    """I11: by late="next" the new name looks at earlier folders; an older declaration has read one of them since."""
    old, new = landing.job("feed", late=old_late), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.run(new, day(2))
    landing.land(2, "late.csv")
    again = landing.world.begin(old, day(2), owner("older"), sources=FILES)
    assert len(again.sources[0].files) == 1
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-02.* has read as source 'feed'"):
        landing.world.begin(new, day(3), sources=FILES)


def test_files_that_a_job_misses_since_it_reads_another_source_there_are_named(landing: Landing) -> None:
    """I11: two jobs share a source; one of them reads by another name where the late file belongs."""
    world, job = landing.world, landing.job("feed")
    other = world.job("other", inputs=job.sources)
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.run(other, day(1))
    landing.run(world.job("other", inputs=landing.job("feed_2").sources), day(2))
    landing.land(1, "late.csv")
    assert landing.run(job, day(2)) == ["late.csv"]
    (found,) = [(text, urgent) for text, urgent in landing.told() if "job other" in text]
    assert found[1]
    assert "1 came late to epochs that job other has computed, such as file://" in found[0]
    assert "no epoch of the job reads them" in found[0]
    assert "move them to where a coming epoch looks: job other has left source feed" in found[0]


def test_run_of_another_source_does_not_hide_the_jobs_missed_file(landing: Landing) -> None:
    """I11: an older version of a DAG has computed the barrier of the late file, computes it again, and dies."""
    world, job, older = landing.world, landing.job("feed"), landing.job("feed_2")
    world.coordinator.register(older)
    other = world.job("other", inputs=job.sources)
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.run(other, day(1))
    landing.land(1, "late.csv")
    assert landing.run(other, day(2)) == ["late.csv"]
    assert landing.run(older, day(2)) == []
    assert [urgent for _, urgent in landing.told()] == [True]
    died = world.begin(older, day(2), owner("again"), sources=FILES)
    ((text, urgent),) = landing.told()
    assert urgent
    assert "1 came late to epochs that job load has computed, such as file://" in text
    world.coordinator.abort(died, "silent")
    world.begin(job, day(2), owner("by the newest"), sources=FILES)
    assert landing.told() == [], "its run reads them"


def test_an_older_rule_reads_no_file_that_the_newer_one_has_read_late(landing: Landing) -> None:
    """I11: one name, and a rule that has become "next"; a task of the declaration of before is tried again."""
    old, new = landing.job("feed", late="revision"), landing.job("feed")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    assert landing.run(new, day(2)) == ["late.csv"]
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-02"):
        landing.world.begin(old, day(1), owner("older"), sources=FILES)


@pytest.mark.parametrize("holder", ["a failed attempt", "a revision that was replaced"])
def test_file_only_in_superseded_bounds_of_the_old_name_is_named(landing: Landing, holder: str) -> None:
    """I11: bounds on which no epoch stands any more have read nothing."""
    world, old, new = landing.world, landing.job("feed"), landing.job("feed_2")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    landing.land(2, "b.csv")
    if holder == "a failed attempt":
        world.coordinator.abort(world.begin(old, day(2), sources=FILES), "its code failed")
    else:
        landing.run(old, day(2))
    assert landing.run(new, day(2), owner("again")) == ["b.csv"]
    ((text, urgent),) = landing.told()
    assert urgent
    assert "late.csv" in text


@pytest.mark.parametrize("how", ["a failed revision", "bound by a person"])
@pytest.mark.parametrize("then", ["renamed", "left"])
def test_late_file_bound_but_not_read_is_named_when_the_source_is_left(
    landing: Landing, how: str, then: str
) -> None:
    """I11: the newest bounds have it, and the epoch stands on those before: no begin reads by that name any more."""
    world, old = landing.world, landing.job("feed", late="revision")
    landing.land(1, "a.csv")
    landing.run(old, day(1))
    landing.land(1, "late.csv")
    if how == "a failed revision":
        world.coordinator.abort(world.begin(old, day(1), owner("again"), sources=FILES), "its code failed")
    else:
        bind(world.coordinator.context, DOMAIN, "feed", day(1), FILES, reason="a file came late", by="ada")
    if then == "renamed":
        landing.run(landing.job("feed_2"), day(2))
    else:
        world.run(world.job("load"), day(2))
    ((text, urgent),) = landing.told()
    assert "1 came late and are read by no epoch" in text
    assert "late.csv" in text
    assert urgent is (then == "renamed")
    if then == "renamed":
        assert landing.run(landing.job("feed_2"), day(1), owner("again")) == ["a.csv", "late.csv"]
        assert landing.told() == []


@pytest.mark.parametrize("late_window", [7, 31])
def test_a_shared_folder_is_read_once_in_whichever_order(landing: Landing, late_window: int) -> None:
    """I11: epochs beyond the window may have read what lies there: before it, and after it."""
    world, location = landing.world, f"{landing.directory}/{{start:%Y-%m}}/*.csv"
    source = FileSource("feed", location, complete=none_needed(), late_window=timedelta(days=late_window))
    job = world.job("load", inputs=[source])
    (landing.directory / "2024-01").mkdir()
    (landing.directory / "2024-01" / "a.csv").touch()
    read = []
    for number in range(31, 0, -1):
        try:
            read += landing.run(job, day(number))
        except InvalidInput as error:
            assert late_window == 7, error  # noqa: PT017
            assert number < 24, error  # noqa: PT017
    assert read == ["a.csv"]


def test_job_without_its_source_for_a_while_gets_its_missed_file_named(landing: Landing) -> None:
    """I11: the other job, which shares the source, has read the late file at that barrier; also once it is retired."""
    world, job = landing.world, landing.job("feed")
    other = world.job("other", inputs=job.sources)
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.run(other, day(1))
    landing.land(1, "late.csv")
    world.run(world.job("other"), day(2))
    assert landing.run(job, day(2)) == ["late.csv"]
    assert landing.run(world.job("other", inputs=job.sources, inactive_after=3), day(3)) == []
    for _ in range(2):
        ((text, urgent),) = landing.told()
        assert urgent
        assert "1 came late to epochs that job other has computed" in text
        assert "which it does not read as source feed" in text
        assert f"clear the task of job other for {day(2)}" in text
        world.coordinator.retire(DOMAIN, "load", reason="it is over", by="ada")


# --- successors -------------------------------------------------------------------------------------------------------


def test_a_successor_reads_no_file_that_the_job_before_has_read(landing: Landing) -> None:
    """I11: another job takes the table over, by another name for the folder."""
    world, job, table = landing.world, landing.job("feed"), landing.world.table("load")
    successor = world.job("successor", [table], inputs=landing.job("feed_2").sources)
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.land(2, "b.csv")
    world.coordinator.abort(world.begin(job, day(2), sources=FILES), "its code failed")
    landing.land(2, "late.csv")
    assert landing.run(job, day(3)) == ["late.csv"]
    world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
    with pytest.raises(TopologyError, match=r"late\.csv, that \[2024-01-03.* has read as source 'feed'"):
        world.begin(successor, day(2), sources=FILES)
    assert landing.run(successor, day(4)) == []


@pytest.mark.parametrize("name", ["feed", "feed_2"])
def test_files_of_epochs_that_the_job_before_has_skipped_are_named(landing: Landing, name: str) -> None:
    """R5, I11: the successor looks into the same folder, by the same name or another."""
    world, job, table = landing.world, landing.job("feed"), landing.world.table("load")
    successor = world.job("successor", [table], inputs=landing.job(name).sources)
    landing.run(job, day(1))
    world.coordinator.skip(DOMAIN, "load", day(2), "a holiday", by="ada")
    landing.land(2, "a.csv")
    world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
    for number in (3, 4):
        assert landing.run(successor, day(number)) == []
    ((text, _),) = landing.told()
    assert "1 are of skipped epochs and are read by no epoch" in text


def test_late_files_of_a_job_that_has_a_successor_are_named(landing: Landing) -> None:
    """I11: the successor reads another source there."""
    world, job, table = landing.world, landing.job("feed"), landing.world.table("load")
    successor = world.job("successor", [table], inputs=landing.job("feed_2").sources)
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
    landing.run(successor, day(2))
    landing.land(1, "late.csv")
    ((text, urgent),) = landing.told()
    assert urgent
    assert "late.csv" in text
    assert "source feed_2, which is read now, does not look here" in text


# --- skips -------------------------------------------------------------------------------------------------------


def test_a_skip_names_late_files_that_no_begin_looks_for_any_more(landing: Landing) -> None:
    """I11: behind a stretch of skipped epochs that is longer than the window; doctor says the same."""
    world, job = landing.world, landing.job("feed", late_window=timedelta(days=2))
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.land(1, "late.csv")
    assert [urgent for _, urgent in landing.told()] == [False], "the next begin reads it"
    short = world.coordinator.skip(DOMAIN, "load", day(2), "an outage", by="ada")
    assert short.late == ()
    assert [urgent for _, urgent in landing.told()] == [False]
    long = world.coordinator.skip(DOMAIN, "load", day(3), "an outage", by="ada")
    assert [Path(name).name for name in long.late] == ["late.csv"]
    ((text, urgent),) = landing.told()
    assert urgent
    assert "bind feed 2024-01-01T00:00:00+00:00/2024-01-02T00:00:00+00:00 --reason" in text
    assert landing.run(job, day(4)) == []
    assert world.coordinator.skip(DOMAIN, "load", day(5), "an outage", by="ada").late == ()


def test_a_job_that_begins_later_reads_nothing_of_before(landing: Landing) -> None:
    """I11: it is no next begin, which the skip of another job could leave late files to."""
    world, job = landing.world, landing.job("feed")
    world.coordinator.register(world.job("later", inputs=job.sources, origin=day(20).start))
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.land(1, "late.csv")
    skipped = world.coordinator.skip(
        DOMAIN, "load", Interval(day(2).start, day(12).end), "an outage", by="ada"
    )
    assert [Path(name).name for name in skipped.late] == ["late.csv"]
    assert [urgent for _, urgent in landing.told()] == [True]


def test_a_folder_that_is_gone_is_told(landing: Landing) -> None:
    """R5: doctor does not take it for a folder without late files."""
    landing.land(1, "a.csv")
    landing.run(landing.job("feed"), day(1))
    landing.directory.rename(landing.directory.with_name(f"{landing.directory.name} elsewhere"))
    ((text, urgent),) = landing.told()
    assert urgent
    assert "late data was not looked for: source 'feed': there is no folder" in text


def test_late_files_that_a_job_misses_by_its_skip_are_named(landing: Landing) -> None:
    """I11: two jobs share a source, and one skips the barrier that reads what came late to a day of both."""
    world, job = landing.world, landing.job("feed")
    other = world.job("other", inputs=job.sources)
    landing.land(1, "a.csv")
    landing.run(job, day(1))
    landing.run(other, day(1))
    landing.land(1, "late.csv")
    assert landing.run(job, day(2)) == ["late.csv"]
    assert landing.told() == []
    world.coordinator.skip(DOMAIN, "other", day(2), "an outage", by="ada")
    ((text, urgent),) = landing.told()
    assert not urgent
    assert "1 came late to epochs that job other has computed, such as file://" in text
    assert f"clear the task of job other for {day(2)}" in text
    assert landing.run(other, day(2), owner("after all")) == ["late.csv"]
    assert landing.told() == []


def test_file_missed_by_one_job_and_read_by_another_is_named(landing: Landing) -> None:
    """R5, I11: by another name, and also while doctor looks at files of an epoch that a job has skipped."""

    def job(name: str, source: str) -> Job:
        return landing.world.job(name, inputs=landing.job(source).sources)

    landing.run(job("load", "feed"), day(1))
    landing.run(job("other", "feed_0"), day(1))
    landing.land(1, "late.csv")
    assert landing.run(job("other", "feed_0"), day(2)) == ["late.csv"]
    landing.run(job("load", "feed_3"), day(2))
    landing.world.coordinator.skip(DOMAIN, "load", day(3), "an outage", by="ada")
    landing.run(job("other", "feed_0"), day(3))
    landing.run(job("load", "feed_3"), day(4))
    landing.world.coordinator.register(job("other", "feed"))
    assert any("late.csv" in text for text, _ in landing.told())


# --- tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["load", "a successor"])
def test_a_table_is_not_read_from_its_beginning_by_another_name(
    world: World, postgresql: PostgresqlServer, who: str
) -> None:
    """I11: the first epoch of a name reads all that is there: rows that the same tables have would come again."""
    database = postgresql.create_database()
    readers = SourceReaders({"shop": postgresql.url(database)})

    def job(source: str, name: str = "load", id_column: str = "id") -> Job:
        rows = PostgresSource(source, "orders", connection="shop", id_column=id_column)
        return world.job(name, [world.table("load")], inputs=[rows])

    with closing(postgresql.connect(database)) as shop:
        shop.execute("CREATE TABLE orders (id bigint, number bigint)")
        shop.execute("INSERT INTO orders VALUES (1, 1)")
        mistyped = world.begin(job("orders_0"), day(1), sources=readers)
        world.coordinator.abort(mistyped, "the wrong column")
        attempt = world.begin(job("orders"), day(1), sources=readers)  # nothing stands on what came before
        world.write(attempt)
        world.coordinator.publish(attempt)
        name = "load"
        if who == "a successor":
            world.coordinator.retire(DOMAIN, "load", reason="renamed", by="ada")
            name = "successor"
        before = world.exactly()
        with pytest.raises(TopologyError, match="the first epoch of a new name reads all") as refused:
            world.begin(job("orders_2", name), day(2), sources=readers)
        assert refused.value.next_step.startswith("keep the name 'orders'")
        assert world.exactly() == before
        with pytest.raises(TopologyError, match="id_column") as refused:
            world.coordinator.register(job("orders", name, "number"))
        if who == "load":
            assert "in a job with tables of its own" in refused.value.next_step
        other = PostgresSource("orders_3", "public.orders", connection="shop", id_column="id")
        both = world.job(name, [world.table("load")], inputs=[*job("orders", name).sources, other])
        with pytest.raises(TopologyError, match="source 'orders_3' is shop:public.orders"):
            world.begin(both, day(2), sources=readers)
        shop.execute("INSERT INTO orders VALUES (2, 2)")
        attempt = world.begin(job("orders", name), day(2), sources=readers)
        assert str(attempt.sources[0].span) == "(1, 2], 1 rows"


def _orders(world: World, name: str) -> Job:
    rows = PostgresSource(name, "orders", connection="shop", id_column="id")
    return world.job("load", [world.table("load")], inputs=[rows])


def _rows(name: str, low: int | None, high: int | None, rows: int) -> dict[str, SourceBounds]:
    return {name: SourceBounds(source=name, span=Span(low=low, high=high, rows=rows))}


def test_two_names_for_a_table_do_not_begin_beside_each_other(world: World) -> None:
    """I11: neither has read a row yet; of two begins the later one looks again."""
    old, new = _orders(world, "orders"), _orders(world, "orders_2")
    world.coordinator.register(old)
    world.coordinator.register(new)
    begun: list[Attempt] = []

    def before(call: Call) -> None:
        if call.method == "transact" and not begun:
            begun.append(world.begin(old, day(1), owner("older"), sources=_rows("orders", None, 5, 5)))

    slow = world.worker(FaultyStore(world.store, before))
    with pytest.raises(TopologyError, match="the first epoch of a new name reads all"):
        slow.begin(new, day(2), owner(), sources=_rows("orders_2", None, 7, 7))


def test_rows_that_a_skipped_epoch_had_bound_by_a_name_that_was_left_are_named(world: World) -> None:
    """I11: a skip gives back what the newest declaration reads; an older one goes on behind the rest."""
    old, new = _orders(world, "orders"), _orders(world, "orders_2")
    world.coordinator.register(old)
    world.coordinator.abort(world.begin(old, day(1), sources=_rows("orders", None, 5, 5)), "its code failed")
    world.coordinator.register(new)
    world.write(attempt := world.begin(old, day(2), owner("older"), sources=_rows("orders", 5, 7, 2)))
    assert not [bounds for bounds in abandoned(world.store, DOMAIN, ()) if bounds.first], (
        "still to be tried again"
    )
    world.coordinator.publish(attempt)
    world.coordinator.skip(DOMAIN, "load", day(1), "nothing will come of it", by="ada")
    (found,) = abandoned(world.store, DOMAIN, ())
    assert (found.interval, str(found.bounds)) == (day(1), "(…, 5], 5 rows")
    assert found.first == "declare source orders again, then "
