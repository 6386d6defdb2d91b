"""A day of the demo on each store with a server, which is broken while epochs are in publish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.processes import free_port, owned_by
from demo.stores import STORES, ServerStore

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "store", sorted(name for name, one in STORES.items() if issubclass(one, ServerStore))
)
def test_a_server_broken_in_publish_breaks_no_promise(store: str, tmp_path: Path) -> None:
    home = tmp_path / "demo"
    command = [
        sys.executable, "-m", "demo", "--home", str(home), "run", "--days", "1", "--twin-days", "0",
        "--port", str(free_port()), "--connect-port", str(free_port()), "--store", store, "--fault",
    ]  # fmt: skip
    ended = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    print(ended.stdout)
    if "missing: " in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    figures = dict(line.split()[1:] for line in lines if line.startswith("figure "))
    assert int(figures["demo.faults"]) >= 2
    assert figures["demo.epochs.published"] == "28"
    assert figures["demo.epochs.inconsistent"] == figures["demo.epochs.failed"] == "0"
    strikes = [json.loads(line) for line in (home / "faults.jsonl").read_text().splitlines()]
    assert sum(one["in_publish"] for one in strikes) == int(figures["demo.faults"])
    assert sum(line.startswith("Fault ") for line in lines) == len(strikes)
    assert owned_by(home) == []
