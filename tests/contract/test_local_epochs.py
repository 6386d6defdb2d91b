"""Epochs in a folder: rows of a test published as a job's, and what a misuse is told before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import (
    DependentReaders,
    EpochError,
    InvalidInput,
    NotReady,
    SchemaMismatch,
    UnknownName,
)
from airflow_provider.domain.identifiers import RestatementId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table, state
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.spark.computed import AlreadyComputed
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.spark.launch_spec import VARIABLE, Batch, LaunchSpec
from airflow_provider.testing.arrow_attempts import write_rows
from airflow_provider.testing.local_epochs import LocalEpochs

pytestmark = pytest.mark.usefixtures("nothing_handed_over")

pytest_plugins = ["airflow_provider.testing.pytest_plugin"]

RIDES, STATIONS = Table("rides"), Table("stations")
TOTALS = Table("totals", kind="full")
LOAD = Job("load", inputs=[FileSource("files", "/nowhere/{start:%Y}.csv")], outputs=[RIDES], cadence="@daily")
BOTH = Job(
    "both",
    outputs=[Table("left"), Table("right")],
    cadence="@daily",
    checks=[row_count("left", at_least=5)],
)
COUNT = Job("count", inputs=[state(RIDES)], outputs=[TOTALS], cadence="@daily")
ONE: list[dict[str, Any]] = [{"station": "Harbour", "minutes": 12}]
SECOND = datetime(2024, 5, 2, tzinfo=UTC)
DAY = Interval(datetime(2024, 5, 1, tzinfo=UTC), SECOND)


def csn(epochs: LocalEpochs) -> int:
    return epochs.service.store.read(LOAD.domain, []).head.csn


def test_rows_of_a_test_are_read_as_any_others(local_epochs: LocalEpochs) -> None:
    """Without the file that the job reads, and in every form in which rows may be given."""
    assert local_epochs.commit(LOAD, "2024-05-01", {RIDES: ONE}).csn == 1
    frame = pd.DataFrame({"station": ["Museum"], "minutes": [31]})
    local_epochs.commit(LOAD, "2024-05-02", {"rides": frame})
    local_epochs.commit(LOAD, "2024-05-03", {"rides": []})
    local_epochs.commit(LOAD, "2024-05-04", {"rides": pa.table({"station": ["Castle"], "minutes": [44]})})
    assert local_epochs.rows(RIDES, at=SECOND) == ONE
    assert [row["station"] for row in local_epochs.rows("rides")] == ["Castle", "Harbour", "Museum"]
    assert local_epochs.pandas(RIDES)["minutes"].sum() == 12 + 31 + 44


@pytest.mark.parametrize(
    ("on_rerun", "step"),
    [
        (
            "keep",
            'declare on_rerun="new_revision", since this job keeps what is committed, and clear its task',
        ),
        ("new_revision", "to compute it anew, clear its task (outside of Airflow: ask with another run_id"),
    ],
)
def test_committed_epoch_names_the_step_that_recomputes_it(
    local_epochs: LocalEpochs, on_rerun: str, step: str
) -> None:
    job = Job("load", outputs=[RIDES], cadence="@daily", on_rerun=on_rerun)
    asking, coordinator = Owner(dag_id="program", run_id="1"), local_epochs.service
    attempt = coordinator.begin(job, DAY, asking)
    assert isinstance(attempt, Attempt)
    write_rows(coordinator, attempt, "rides", pa.table({"minutes": [12]}))
    published = coordinator.publish(attempt)
    with pytest.raises(AlreadyComputed) as answer:
        epoch_run(job, DAY, settings=local_epochs.settings, owner=asking).__enter__()
    assert step in answer.value.next_step
    assert answer.value.committed.csn == published.csn


def test_late_files_of_a_kept_epoch_are_reported(local_epochs: LocalEpochs, tmp_path: Path) -> None:
    """I11: how many, and the command that lets the epoch read them."""
    source = FileSource(
        "feed", f"{tmp_path}/{{start:%Y-%m-%d}}-*.csv", late="revision", complete=none_needed()
    )
    job = Job("load", inputs=[source], outputs=[RIDES], cadence="@daily")
    asking, coordinator = Owner(dag_id="program", run_id="1"), local_epochs.service
    attempt = coordinator.begin(job, DAY, asking, sources=SourceReaders())
    assert isinstance(attempt, Attempt)
    write_rows(coordinator, attempt, "rides", pa.table({"minutes": [12]}))
    coordinator.publish(attempt)
    (tmp_path / f"{DAY.start:%Y-%m-%d}-late.csv").write_text("12")
    with pytest.raises(AlreadyComputed, match="Of source 'feed' 1 came late") as answer:
        epoch_run(job, DAY, settings=local_epochs.settings, owner=asking).__enter__()
    assert answer.value.next_step.startswith(f"`airflow epochs bind feed {DAY.start.isoformat()}/")
    assert "run the program again" in answer.value.next_step
    bound = local_epochs.service.bind("default", "feed", "2024-05-01", reason="a late file", by="ada")
    assert (bound.bounds.revision, [str(epoch.job) for epoch in bound.behind]) == (2, ["load"])
    again = Owner(dag_id="program", run_id="2")
    assert isinstance(coordinator.begin(job, DAY, again, sources=SourceReaders()), Attempt)


def test_a_service_reads_as_its_settings_say(local_epochs: LocalEpochs) -> None:
    """Section 6: its cuts take the level and the consistency that are configured, where a read names none."""
    local_epochs.commit(LOAD, "2024-05-01", {RIDES: ONE})
    local_epochs.commit(COUNT, "2024-05-01", {TOTALS: [{"minutes": 12}]})
    local_epochs.commit(LOAD, "2024-05-02", {RIDES: ONE})
    assert local_epochs.service.cuts.cut(LOAD.domain, ["rides"]).barrier == SECOND.replace(day=3)
    with EpochService.open(replace(local_epochs.settings, read_consistency="altogether")) as service:
        assert service.cuts.cut(LOAD.domain, ["rides"]).barrier == SECOND
    with (
        EpochService.open(replace(local_epochs.settings, read_level="repeatable_read")) as service,
        pytest.raises(InvalidInput, match=r"epochs\.lease"),
    ):
        service.cuts.cut(LOAD.domain, ["rides"])


def test_the_same_epoch_again_is_the_next_revision(local_epochs: LocalEpochs) -> None:
    local_epochs.commit(LOAD, "2024-05-01", {RIDES: ONE})
    again = local_epochs.commit(LOAD, "2024-05-01", {RIDES: [{"station": "Museum", "minutes": 31}]})
    assert again.revision == 2
    assert [row["station"] for row in local_epochs.rows(RIDES)] == ["Museum"]


def test_all_outputs_of_a_job_are_one_commit(local_epochs: LocalEpochs) -> None:
    """Its checks are for what it computes, not for what a test says."""
    published = local_epochs.commit(BOTH, DAY, {"left": [{"n": 1}], "right": [{"n": 1}]})
    cut = local_epochs.service.cuts.cut("default", ["left", "right"])
    assert cut.csn == published.csn == 1
    assert {state.csn for state in cut.states.values()} == {1}


def test_the_job_itself_goes_on_over_rows_of_a_test(local_epochs: LocalEpochs) -> None:
    """R7: its declaration, with its inputs, is a later revision of the one that the rows came by."""
    local_epochs.commit(LOAD, "2024-05-01", {RIDES: ONE})
    local_epochs.commit(COUNT, "2024-05-01", {TOTALS: [{"station": "Harbour", "count": 1}]})
    local_epochs.commit(LOAD, "2024-05-02", {RIDES: ONE})
    coordinator = local_epochs.service
    attempt = coordinator.begin(
        COUNT, Interval(SECOND, SECOND.replace(day=3)), Owner(dag_id="dag", run_id="run")
    )
    assert not hasattr(attempt, "csn")
    read = coordinator.input(attempt, "rides")[0]
    assert read.barrier == SECOND.replace(day=3)
    write_rows(coordinator, attempt, "totals", pa.table({"station": ["Harbour"], "count": [2]}))
    coordinator.publish(attempt)
    assert local_epochs.rows(TOTALS) == [{"station": "Harbour", "count": 2}]
    with pytest.raises(DependentReaders):  # what a committed epoch has read stays
        local_epochs.commit(LOAD, "2024-05-02", {RIDES: []})


def test_the_folder_is_that_of_local_settings(local_epochs: LocalEpochs) -> None:
    local_epochs.commit(LOAD, DAY, {RIDES: ONE})
    settings = Settings.local(local_epochs)
    assert settings == local_epochs.settings
    with EpochService.open(settings) as service:
        cut = service.cuts.cut("default", ["rides"])
        assert service.cuts.read(cut, "rides").num_rows == 1


@pytest.mark.parametrize(
    ("commit", "error", "field"),
    [
        (lambda epochs: epochs.commit("load", DAY, {RIDES: ONE}), InvalidInput, "job"),
        (lambda epochs: epochs.commit(LOAD, "soon", {RIDES: ONE}), InvalidInput, "interval"),
        (lambda epochs: epochs.commit(LOAD, "2024-05-01T05", {RIDES: ONE}), InvalidInput, "interval"),
        (lambda epochs: epochs.commit(LOAD, "2024-05", {RIDES: ONE}), InvalidInput, "interval"),
        (lambda epochs: epochs.commit(LOAD, DAY, {}), InvalidInput, "rows"),
        (lambda epochs: epochs.commit(LOAD, DAY, {STATIONS: ONE}), InvalidInput, "rows"),
        (lambda epochs: epochs.commit(BOTH, DAY, {"left": ONE}), InvalidInput, "rows"),
        (lambda epochs: epochs.commit(LOAD, DAY, {RIDES: "rows"}), InvalidInput, "rows of rides"),
        (lambda epochs: epochs.commit(LOAD, DAY, {RIDES: [("Harbour", 12)]}), InvalidInput, "rows of rides"),
        (lambda epochs: epochs.commit(LOAD, DAY, {RIDES: [*ONE, {"n": 1}]}), InvalidInput, "rows of rides"),
        (lambda epochs: epochs.commit(LOAD, DAY, {RIDES: []}), InvalidInput, "rows of rides"),
        (
            lambda epochs: epochs.commit(LOAD, DAY, {RIDES: [{"a": 1}, {"a": "x"}]}),
            InvalidInput,
            "rows of rides",
        ),
        (lambda epochs: epochs.rows("rides"), UnknownName, None),
    ],
)
def test_a_misuse_is_told_and_writes_nothing(
    local_epochs: LocalEpochs,
    commit: Callable[[LocalEpochs], Any],
    error: type[EpochError],
    field: str | None,
) -> None:
    with pytest.raises(error) as told:
        commit(local_epochs)
    assert told.value.details.get("field") == field
    assert csn(local_epochs) == 0
    assert not (local_epochs.folder / "warehouse").exists()


def test_rows_that_do_not_fit_the_table_are_told_and_leave_nothing_open(local_epochs: LocalEpochs) -> None:
    local_epochs.commit(LOAD, "2024-05-01", {RIDES: ONE})
    for rows in ([{"station": "Harbour", "hours": 1}], pa.table({"station": ["Harbour"], "minutes": [1.5]})):
        with pytest.raises(SchemaMismatch):
            local_epochs.commit(LOAD, "2024-05-02", {RIDES: rows})
    assert csn(local_epochs) == 1
    local_epochs.commit(LOAD, "2024-05-02", {RIDES: ONE})  # no attempt holds the epoch
    with pytest.raises(NotReady):
        local_epochs.rows(RIDES, at=DAY.start)


@pytest.mark.parametrize(
    ("local", "words"),
    [
        ("", "path of a folder"),
        (7, "path of a folder"),
        (b"/tmp", "path of a folder"),
        ("sqlite:////data/epochs.db", "settings=Settings"),
        ("a\0b", "path of a folder"),
        ("no/such/folder", "make the folder"),
        ("x" * 5000, "make the folder"),
        ("\ud800", "make the folder"),
        ("file", "make the folder"),
    ],
)
def test_a_path_that_is_no_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, local: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(InvalidInput, match=words) as told, epoch_run(LOAD, DAY, local=local):
        pass
    assert told.value.field == "local"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_is_seen_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.local(".") == Settings.local(tmp_path) == Settings.local("../" + tmp_path.name)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"job": "load", "interval": DAY}, "job"),
        ({"job": LOAD}, "interval"),
        ({"job": LOAD, "interval": ""}, "interval"),
        ({"interval": DAY}, "job"),
        ({"job": LOAD, "interval": "2024-05-01T05"}, "interval"),
        ({"job": LOAD, "interval": "2024-05"}, "interval"),
        ({"job": LOAD, "interval": 7}, "interval"),
        ({"job": LOAD, "interval": Interval(DAY.start.replace(hour=1), DAY.end)}, "interval"),
        ({"job": LOAD, "interval": DAY, "settings": Settings.local("/")}, "local"),
    ],
)
def test_arguments_that_do_not_fit_write_nothing(
    tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as told, epoch_run(local=tmp_path, **arguments):
        pass
    assert told.value.field == field
    with LocalEpochs(tmp_path) as epochs:
        assert epochs.service.store.domains() == []
    assert not (tmp_path / "warehouse").exists()


def test_a_source_without_files_and_an_input_without_rows_are_not_ready(local_epochs: LocalEpochs) -> None:
    for job, missing in ((LOAD, "files"), (COUNT, "rides")):
        with pytest.raises(NotReady, match=missing), epoch_run(job, DAY, local=local_epochs):
            pass
    assert csn(local_epochs) == 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"local": "/"}, "local"),
        ({"settings": Settings.local("/")}, "local"),
        ({"interval": "2024-05-02"}, "interval"),
        ({"job": COUNT}, "job"),
        ({"job": "load"}, "job"),
        ({"restatement": "correct"}, "restatement"),
    ],
)
def test_arguments_must_agree_with_the_launch_spec(
    local_epochs: LocalEpochs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, Any],
    field: str,
) -> None:
    launch_spec(local_epochs, tmp_path, monkeypatch)
    with pytest.raises(InvalidInput) as told, epoch_run(**arguments):
        pass
    assert told.value.field == field
    assert csn(local_epochs) == 0


def test_the_same_arguments_as_handed_over_change_nothing(
    local_epochs: LocalEpochs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program gets as far as its own epoch, whose source is not there."""
    launch_spec(local_epochs, tmp_path, monkeypatch)
    arguments = {"job": LOAD, "interval": "2024-05-01", "local": local_epochs}
    with pytest.raises(NotReady, match="files"), epoch_run(**arguments):  # type: ignore[arg-type]
        pass


def test_no_other_restatement_than_the_run_names(
    local_epochs: LocalEpochs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R28: with the name of the run's own the program gets as far as looking for it."""
    launch_spec(local_epochs, tmp_path, monkeypatch, restatement=RestatementId("correct"))
    with pytest.raises(InvalidInput, match="'correct'"), epoch_run(restatement="another"):
        pass
    with pytest.raises(UnknownName, match="correct"), epoch_run(restatement="correct"):
        pass


def launch_spec(epochs: LocalEpochs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    batch = Batch(interval=DAY, owner=Owner(dag_id="dag", run_id="run"), **options)
    order = LaunchSpec(settings=epochs.settings, job=LOAD, batch=batch)
    monkeypatch.setenv(VARIABLE, str(order.write(tmp_path)))
