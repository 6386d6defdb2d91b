"""The benchmark of the protocol's share in its smallest size: one daily epoch, through the tests' Connect server."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from benchmarks import share
from benchmarks.sizes import Size
from demo.spark_connect import SparkConnectServer

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
