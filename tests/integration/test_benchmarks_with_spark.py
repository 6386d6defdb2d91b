"""The benchmarks with Spark in their smallest size, in the tests' sessions; their figures mean nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from benchmarks import read, share, write
from benchmarks.sizes import Size
from demo.spark_connect import SparkConnectServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS = "spark_jobs"


@pytest.fixture
def own_declarations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the demo's jobs be declared anew with the benchmark's landing zone; afterwards all is as before."""
    for name in ("NYC_LANDING", "NYC_ORIGIN"):
        monkeypatch.setenv(name, "")
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith(JOBS)}
    yield
    for name in [name for name in sys.modules if name.startswith(JOBS)]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.usefixtures("own_declarations")
def test_the_share_of_one_epoch_is_measured(
    connect_server: SparkConnectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    share.measure(Size.SMALLEST, connect_server)
    assert "figure bench.protocol.share.day " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("runtime_jar")
def test_reads_are_measured(classic_session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    read.measure(Size.SMALLEST, classic_session)
    read.measure_first_row(Size.SMALLEST, classic_session)
    found = dict(
        line.split()[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("figure")
    )
    assert {name for name, value in found.items() if float(value) > 0} == {
        "bench.read.full",
        "bench.read.skipped.sorted",
        "bench.read.skipped.partition",
        "bench.read.skipped.nested",
        "bench.read.files_10000.ratio",
    }


@pytest.mark.slow
def test_writes_are_measured(classic_session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    write.measure(Size.SMALLEST, classic_session)
    write.measure_describe(Size.SMALLEST)
    found = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("figure")]
    assert found == [
        "bench.write.ratio",
        "bench.write.ratio.wall",
        "bench.write.partitioned",
        "bench.write.partitioned.wall",
        "bench.describe.files_10000_columns_200",
    ]
