"""The schedules without the package come out as their rows say: a correct run passes, and a torn one does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.anomalies.plain.attempts import att9
from tests.anomalies.plain.cascade import Cascade, derived
from tests.anomalies.plain.isolation import iso6
from tests.anomalies.plain.tables import ParquetTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_correct_run_keeps_what_must_hold(classic_session: SparkSession, tmp_path: Path) -> None:
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
