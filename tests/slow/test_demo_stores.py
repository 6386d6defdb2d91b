"""A day of the demo on each store with a server, which is broken while epochs are in publish."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demo.processes import owned_by
from demo.stores import STORES, ServerStore
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]


SERVERS = sorted(name for name, kind in STORES.items() if issubclass(kind, ServerStore))


def demo(home: Path, store: str, *arguments: str) -> list[str]:
    ports = ("--port", str(free_port()), "--connect-port", str(free_port()))
    days = ("--days", "1", "--twin-days", "0")
    run = ("run", *days, *ports, "--store", store, *arguments)
    return [sys.executable, "-m", "demo", "--home", str(home), *run]


@pytest.mark.parametrize("store", SERVERS)
def test_a_server_broken_in_publish_breaks_no_promise(store: str, tmp_path: Path) -> None:
    home = tmp_path / "demo"
    command = demo(home, store, "--fault")
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ended.stdout)
    if "missing: " in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    figures = dict(line.split()[1:] for line in lines if line.startswith("figure "))
    assert int(figures["demo.faults"]) >= 2
    assert figures["demo.epochs.published"] == "30"
    assert figures["demo.epochs.inconsistent"] == figures["demo.epochs.failed"] == "0"
    strikes = [json.loads(line) for line in (home / "faults.jsonl").read_text().splitlines()]
    assert sum(strike["in_publish"] for strike in strikes) == int(figures["demo.faults"])
    assert sum(line.startswith("Fault ") for line in lines) == len(strikes)
    assert owned_by(home) == []


@pytest.mark.parametrize("store", SERVERS)
def test_ctrl_c_ends_the_server_too(store: str, tmp_path: Path) -> None:
    home = tmp_path / "demo"
    started = home / "logs" / "airflow-db-migrate.log"
    command = demo(home, store)
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while running.poll() is None and not started.exists():
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
    if "missing: " in errors:
        pytest.skip(errors)
    assert running.returncode == 130, errors
    assert "no process is left" in errors
    assert owned_by(home) == []
