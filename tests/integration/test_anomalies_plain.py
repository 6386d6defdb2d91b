"""The named schedules with Spark: without the package they come out as they say; with it, Spark may write the rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.anomalies.plain.attempts import att9
from tests.anomalies.plain.cascade import Cascade, derived
from tests.anomalies.plain.isolation import iso6
from tests.anomalies.plain.tables import ParquetTables
from tests.contract import (
    test_coordination_attempts,
    test_coordination_isolation,
    test_coordination_retention,
)
from tests.contract.coordination_world import Backend
from tests.contract.statement_worlds import statement_formats
from tests.services import iceberg_runtime
from tests.services.stores import empty_sqlite_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_correct_run_keeps_the_invariants(classic_session: SparkSession, tmp_path: Path) -> None:
    cascade = Cascade(ParquetTables(classic_session, tmp_path / "whole"))
    for epoch in (1, 2):
        cascade.run(epoch, [epoch, 10])
    d, e = cascade.see("d", "e")
    assert (d, e) == ({1: [2, 20], 2: [4, 20]}, {1: [22], 2: [24]})
    assert derived(d, e)


def test_a_torn_read_and_a_replay_are_told_apart(classic_session: SparkSession, tmp_path: Path) -> None:
    torn = iso6(Cascade(ParquetTables(classic_session, tmp_path / "torn")))
    assert torn.holds is False
    assert torn.seen == "R reads D: {1: [2, 4], 2: [6]}; E: {1: [6]}."
    assert att9(Cascade(ParquetTables(classic_session, tmp_path / "replay"))).holds is True


def test_schedules_run_with_rows_written_by_spark(classic_session: SparkSession, tmp_path: Path) -> None:
    if iceberg_runtime.jar() is None:
        pytest.skip("Iceberg's Spark runtime cannot be had: Maven Central, or its mirror, does not answer")
    template = tmp_path / "empty.db"
    template.write_bytes(empty_sqlite_file())
    formats = statement_formats(classic_session)
    backend = Backend("iceberg statements", tmp_path, template, open_formats=formats)
    for schedule in (
        test_coordination_isolation.test_iso6_fractured_read,
        test_coordination_attempts.test_att13_moved_head,
        test_coordination_retention.test_lea1_a_long_read_outlives_retention,
    ):
        world = backend.world()
        schedule(world)
        assert world.data()
        world.close()
