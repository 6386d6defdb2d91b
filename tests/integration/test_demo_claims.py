"""Demos at the same time: home and ports are the first one's, though none of its servers listens yet."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.airflow_cluster import AirflowCluster
from demo.ports import Endpoint, PortInUseError
from demo.processes import ManagedProcess, ProcessFailedError
from demo.stack import DemoStack, Plan, StillRunningError
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]
FIRST = """
import sys
from pathlib import Path
from demo.stack import DemoStack, Plan
home, port, connect_port = sys.argv[1:]
with DemoStack(home=Path(home), plan=Plan(port=int(port), connect_port=int(connect_port))).claimed():
    print("claimed", flush=True)
    sys.stdin.read()
"""
WAITS = """
import sys
print("inherited", flush=True)
sys.stdin.read()
"""
FOREIGN_AIRFLOW = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"metadatabase": {"status": "healthy"}}).encode())
    def log_message(self, *told):
        pass
server = HTTPServer(("127.0.0.1", 0), Healthy)
print(server.server_port, flush=True)
server.serve_forever()
"""
LISTENS = """
import signal, socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    signal.pause()
"""

Started = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def started() -> Iterator[Started]:
    """Run a program in a process of its own, until the test ends."""
    running: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object, pass_fds: list[int] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds or (),
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_demo_on_the_first_ones_port_is_refused_at_once(tmp_path: Path, started: Started) -> None:
    """Also from another folder; it writes nothing, and the port is free when the first ends, even killed."""
    taken = {"port": free_port(), "connect_port": free_port()}
    first = started(FIRST, tmp_path / "first", taken["port"], taken["connect_port"])
    assert said(first) == "claimed"
    for name, purpose, setting in (
        ("port", "Airflow's API server and UI", "DEMO_PORT"),
        ("connect_port", "the Spark Connect server", "DEMO_CONNECT_PORT"),
    ):
        plan = Plan(**{"port": free_port(), "connect_port": free_port(), name: taken[name]})
        second = DemoStack(home=tmp_path / "second", plan=plan)
        with pytest.raises(PortInUseError) as refused, second.claimed():
            pass
        told = str(refused.value)
        assert told.startswith(f"port {taken[name]} of 127.0.0.1, needed for {purpose}, is in use by python")
        assert f"(pid {first.pid}, in {ROOT})" in told
        assert f"`make demo {setting}=…`" in told
        assert not second.home.exists()
    first.kill()
    first.wait()
    with DemoStack(home=tmp_path / "second", plan=Plan(**taken)).claimed():
        assert (tmp_path / "second").is_dir()


def test_a_second_demo_in_the_same_home_is_refused(tmp_path: Path, started: Started) -> None:
    """Other ports do not help it, and what the first wrote stays."""
    first = started(FIRST, tmp_path / "home", free_port(), free_port())
    assert said(first) == "claimed"
    second = DemoStack(home=tmp_path / "home", plan=Plan(port=free_port(), connect_port=free_port()))
    with pytest.raises(StillRunningError, match=re.escape(f"starts or ends in {second.home}")):
        second.claimed().__enter__()
    assert second.home.is_dir()
    first.communicate()
    with second.claimed():
        (second.home / "old").mkdir()
        second.clear()
        assert sorted(path.name for path in second.home.iterdir()) == ["plan.json", "reads"]
        with pytest.raises(StillRunningError), second.claimed():
            pass


def test_a_process_that_inherits_the_claim_keeps_it(tmp_path: Path, started: Started) -> None:
    """`make up` hands it to the process that stays."""
    plan = Plan(port=free_port(), connect_port=free_port())
    with DemoStack(home=tmp_path / "home", plan=plan).claimed() as claim:
        plan.save(tmp_path / "home")
        successor = started(WAITS, pass_fds=claim)
        assert said(successor) == "inherited"
    elsewhere = DemoStack(home=tmp_path / "elsewhere", plan=plan)
    with pytest.raises(PortInUseError, match=f"pid {successor.pid},"), elsewhere.claimed():
        pass
    with pytest.raises(StillRunningError), DemoStack(home=tmp_path / "home", plan=Plan()).claimed():
        pass
    successor.communicate()
    with elsewhere.claimed():
        assert elsewhere.home.is_dir()


def test_foreign_airflow_is_not_taken_for_the_demos_own(tmp_path: Path, started: Started) -> None:
    """It answers that it is healthy, at the address of an API server that could not start there."""
    other = started(FOREIGN_AIRFLOW)
    cluster = AirflowCluster(home=tmp_path, dags=tmp_path, port=int(said(other)))
    assert cluster.rest.healthy()
    with pytest.raises(PortInUseError, match=f"API server and UI, is in use by .*pid {other.pid},"):
        cluster.wait_until_healthy()
    cluster.rest.close()


def test_server_without_its_port_names_the_process_that_has_it(tmp_path: Path) -> None:
    endpoint = Endpoint(number=free_port(), purpose="a test", setting="NONE")

    def server(name: str, program: str) -> ManagedProcess:
        command = [sys.executable, "-c", program, str(endpoint.number)]
        return ManagedProcess(name=name, command=command, environment={}, home=tmp_path)

    first, late, idle = server("first", LISTENS), server("late", LISTENS), server("idle", "")
    try:
        first.start()
        endpoint.wait_for(first, timeout_s=60)
        late.start()
        with pytest.raises(PortInUseError, match=f"pid {first.pid},"):
            endpoint.wait_for(late, timeout_s=60)
    finally:
        first.stop()
    idle.start()
    with pytest.raises(ProcessFailedError, match="idle ended with code 0"):
        endpoint.wait_for(idle, timeout_s=60)
