"""Spark opens cut files by Iceberg's runtime, without the package and without a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_provider import Job, Table, connect
from airflow_provider.testing.local_epochs import LocalEpochs

TRIPS, TOTALS = Table("trips"), Table("totals", kind="full")
LOAD = Job("load", outputs=[TRIPS, TOTALS], cadence="@daily")


@pytest.mark.usefixtures("runtime_jar")
@pytest.mark.parametrize("day", [1, 3])
def test_spark_opens_a_cut_file_as_a_table(classic_session: SparkSession, tmp_path: Path, day: int) -> None:
    """R19: an earlier state, and the newest one; by the file, and by its directory."""
    with LocalEpochs(tmp_path) as local:
        for number in (1, 2, 3):
            rows: list[dict[str, Any]] = [
                {"n": number, "label": f"row {number}"},
                {"n": 10 * number, "label": None},
            ]
            local.commit(LOAD, f"2024-05-0{number}", {TRIPS: rows, TOTALS: rows})
    with connect(local=tmp_path) as epochs:
        cut = epochs.cut([TRIPS, TOTALS], at=epochs.cut([TRIPS]).barrier.replace(day=day + 1))
        for table in cut:
            uri = cut[table].metadata_location()
            wanted = sorted(cut[table].to_arrow(["n"]).column("n").to_pylist())
            for location in (uri, uri.removesuffix("/metadata/v1.metadata.json")):
                opened = classic_session.read.format("iceberg").load(location)
                assert sorted(row.n for row in opened.collect()) == wanted
                assert opened.count() == len(wanted)
                assert [row.n for row in opened.where(f"label = 'row {day}'").collect()] == [day]
