"""What a demo shows where there is no terminal: a line now and then, whether or not anything happens."""

from __future__ import annotations

import io
from datetime import date

import pytest
from rich.console import Console

from demo import progress
from demo.progress import LINE_EVERY_S, Moment, Progress


def test_without_a_terminal_there_is_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    output, day = io.StringIO(), date(2013, 2, 8)
    moment = Moment(title="twin", runs={("one", day): "success", ("two", day): "running"}, notes=("5 reads",))
    with Progress(
        console=Console(file=output), dags={"one": [day], "two": [day]}, days=[day], started=now
    ) as shown:
        for _ in range(41):
            shown.show(moment)
            now += LINE_EVERY_S / 20
    line = "twin: 1/2 runs done; 5 reads; running two 08 Feb"
    assert output.getvalue().splitlines() == [f"00:00 {line}", f"00:10 {line}", f"00:20 {line}"]
