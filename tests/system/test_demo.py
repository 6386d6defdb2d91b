"""The demo as a user starts it: a day of it to its end, what is in its way, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.books import A_DAY
from demo.figures import least_of
from demo.processes import end_owned_by, owned_by
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]


def demo(home: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "demo", "--home", str(home), *arguments]


def own_ports() -> list[str]:
    return ["--port", str(free_port()), "--connect-port", str(free_port())]


def environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if name not in ("DEMO_PORT", "DEMO_CONNECT_PORT")
    }


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The demo's folder; whatever works for it ends with the test, also when the test is interrupted."""
    yield tmp_path / "demo"
    end_owned_by(tmp_path / "demo")


@pytest.mark.parametrize("twin_days", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_one_day_keeps_its_promises(home: Path, twin_days: int) -> None:
    """Without the twin, whose programs other tests run; with it in the slow tier, and as `make demo`."""
    command = demo(home, "run", "--days", "1", "--twin-days", str(twin_days), *own_ports())
    ended = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    figures = dict(
        line.removeprefix("figure ").split()
        for line in ended.stdout.splitlines()
        if line.startswith("figure ")
    )
    assert figures["demo.epochs.published"] == "30"
    assert figures["demo.epochs.inconsistent"] == figures["demo.epochs.failed"] == "0"
    for family, least in least_of(1).items():
        if family != "twin" or twin_days:
            assert int(figures[f"demo.{family}.reads"]) >= least.reads > 0
    assert figures["demo.epochs.tables"] == "9"
    assert figures["demo.words.published"] == "24"
    assert int(figures["demo.words.cuts"]) >= A_DAY
    assert figures["demo.words.inconsistent"] == figures["demo.words.failed"] == "0"
    assert int(figures["demo.epochs.reads_of_all"]) >= 1
    assert int(figures["demo.waits.deferred"]) >= 1
    assert owned_by(home) == []


@pytest.mark.parametrize(("command", "make"), [("run", "demo"), ("up", "up")])
def test_a_port_in_use_is_named_before_anything_starts(home: Path, command: str, make: str) -> None:
    """The port that was chosen by the environment, as the message says, and no other."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = subprocess.run(
            demo(home, command, "--connect-port", str(free_port())),
            cwd=ROOT,
            env={**environment(), "DEMO_PORT": str(port)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert f"port {port} of 127.0.0.1, needed for Airflow's API server and UI, is in use" in ended.stderr
    assert str(os.getpid()) in ended.stderr
    assert f"`make {make} DEMO_PORT=…`" in ended.stderr
    assert not home.exists()


def test_a_folder_with_other_files_is_not_emptied(home: Path) -> None:
    home.mkdir()
    (home / "thesis.txt").write_text("mine")
    ended = subprocess.run(
        demo(home, "run", *own_ports()),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "holds files that no demo wrote" in ended.stderr
    assert (home / "thesis.txt").read_text() == "mine"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Programs that are started here hear Ctrl-C; those of a shell's background job are told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
def test_ctrl_c_leaves_no_process(home: Path) -> None:
    command = demo(home, "run", "--days", "1", *own_ports())
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while running.poll() is None and len(owned_by(home)) < 3:
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate()
    assert running.returncode == 130, errors
    assert "no process is left" in errors
    assert owned_by(home) == []


@pytest.mark.slow
def test_down_ends_processes_of_a_killed_demo(home: Path) -> None:
    command = demo(home, "run", "--days", "1", *own_ports())
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        while running.poll() is None and len(owned_by(home)) < 3:
            time.sleep(0.2)
        running.kill()
    assert owned_by(home) != []
    again = subprocess.run(
        demo(home, "run", *own_ports()),
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 2
    assert "an earlier demo still runs" in again.stderr
    ended = subprocess.run(
        demo(home, "down"), cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert owned_by(home) == []
