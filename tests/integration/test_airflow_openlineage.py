"""Inputs and outputs of tasks, as Airflow's own provider for OpenLineage gets them, in a process that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.version import TableRecord
from airflow_provider.operators.openlineage import is_wanted
from airflow_provider.operators.skipping import EpochSkipOperator
from airflow_provider.stores.base import pages
from tests.airflow_runs import epochs_connection, task_context
from tests.integration.flights import JOB, published

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="module")
def told(folder: Path) -> dict[str, Any]:
    """What the provider was told of three tasks: one that has published, one that has skipped, one that failed."""
    prepared = subprocess.run(
        [ROOT / "scripts" / "prepare-openlineage"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if prepared.returncode:
        pytest.skip(f"it cannot be installed here: {prepared.stderr.strip().splitlines()[-1:]}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.lineage_program", folder],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / '.openlineage'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def versions(folder: Path) -> dict[str, tuple[int, int | None]]:
    """CSN and version of each table's newest commit."""
    url, warehouse = f"sqlite:///{folder}/store.db", f"file://{folder}/warehouse"
    with EpochService.open(Settings(store_url=url, warehouse=warehouse)) as service:
        found = list(pages(service.store, "default", TableRecord))  # type: ignore[arg-type]
    return {
        stamped.key.item: (
            stamped.csn or 0,
            None if stamped.record.ref is None else stamped.record.ref.version,
        )
        for stamped in found
    }


def test_a_task_that_has_published_tells_versions_and_numbers(told: dict[str, Any], folder: Path) -> None:
    csn, version = versions(folder)["rides"]
    rides, files = told["count"]["inputs"]
    assert (rides["namespace"], rides["name"]) == ("file", f"{folder}/warehouse/default/rides")
    assert rides["facets"]["version"]["datasetVersion"] == str(version)
    assert rides["facets"]["epochs"]["csn"] == csn == 2
    (alias,) = rides["facets"]["symlinks"]["identifiers"]
    assert (alias["namespace"], alias["name"]) == (f"file://{folder}/warehouse", "default.rides")
    assert (files["namespace"], files["name"]) == ("file", str(folder))
    (totals,) = told["count"]["outputs"]
    assert totals["facets"]["epochs"]["csn"] == 3
    assert totals["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert totals["outputFacets"]["outputStatistics"]["fileCount"] == 1
    run = told["count"]["run"]["epochs"]
    assert (run["job"], run["number"], run["epochs"][0]["csn"]) == ("count", 1, 3)


def test_a_skipped_epoch_reads_nothing(told: dict[str, Any], folder: Path) -> None:
    csn, version = versions(folder)["totals"]
    assert told["skip"]["inputs"] == []
    (totals,) = told["skip"]["outputs"]
    assert totals["facets"]["version"]["datasetVersion"] == str(version)
    assert totals["facets"]["epochs"]["csn"] == csn == 4
    assert totals["outputFacets"]["outputStatistics"]["rowCount"] == 0


def test_a_task_that_failed_tells_what_its_job_declares(told: dict[str, Any]) -> None:
    assert "NotReady" in told["error"]
    rides, _ = told["fails"]["inputs"]
    assert rides["name"].endswith("/default/rides")
    assert all("version" not in dataset["facets"] for dataset in told["fails"]["inputs"])
    assert told["fails"]["outputs"] == []
    assert told["fails"]["run"]["epochs"]["number"] == 0


def test_without_the_provider_nothing_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_wanted():
        pytest.skip("it is installed here")
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", epochs_connection(tmp_path))
    url, warehouse = f"sqlite:///{tmp_path}/store.db", f"file://{tmp_path}/warehouse"
    with EpochService.open(Settings(store_url=url, warehouse=warehouse)) as service:
        published(service, 0)
    skip = EpochSkipOperator(task_id="skip", job=JOB, reason="closed")
    skip.execute(task_context())
    assert skip.task_lineage is None
    assert skip.get_openlineage_facets_on_complete(None) is None
