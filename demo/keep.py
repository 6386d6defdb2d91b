"""Keeping a demo's Airflow and Spark running after the demo, to look around in the UI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from types import FrameType

from demo.connection import environment_of
from demo.processes import MARK, end_owned_by, listens
from demo.stack import CHECKOUT, DemoStack, Plan

WAIT_S = 180.0


def up(home: Path, *, port: int | None = None, connect_port: int | None = None) -> int:
    """Start Airflow and Spark over what the last run left; they outlive this command.

    :param home: the demo's home.
    :param port: of Airflow, from now on; None for the one that it had. :param connect_port: likewise of Spark Connect.
    :returns: the exit code.
    :raises StillRunningError: another demo has the home.
    :raises PortInUseError: another demo, or anything else, has a port.
    """
    plan = Plan.load(home)
    plan = replace(plan, port=port or plan.port, connect_port=connect_port or plan.connect_port)
    stack = DemoStack(home=home, plan=plan)
    log = home / "logs" / "serve.log"
    with stack.claimed() as claim:
        plan.save(home)
        log.parent.mkdir(exist_ok=True)
        server = _serving(home, log, claim)
    deadline = time.monotonic() + WAIT_S
    while not (listens(server.pid, plan.port) and stack.airflow.rest.healthy()):
        if server.poll() is not None or time.monotonic() > deadline:
            end_owned_by(home)
            print(f"demo: Airflow did not start; see {log} and the other logs beside it", file=sys.stderr)
            return 2
        time.sleep(0.5)
    print(f"Airflow is up at {stack.airflow.base_url} ; `make down` stops it.")
    print("`airflow epochs status --domain nyc` and other commands work where this was typed:")
    own = {"AIRFLOW_HOME": str(stack.airflow.airflow_home), **environment_of(stack.store.connections)}
    print(
        f"  source .venv/bin/activate; export {' '.join(f'{name}={quote(own[name])}' for name in sorted(own))}"
    )
    if not stack.warehouse.keeps_tables:
        print("The rows of the tables ended with the S3 emulator; runs, logs and epochs are there.")
    return 0


def _serving(home: Path, log: Path, claim: list[int]) -> subprocess.Popen[bytes]:
    """Start :func:`serve` in a process that outlives this one.

    :param claim: what it takes over: the files and sockets that keep home and ports.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "demo", "--home", str(home), "serve"],
            cwd=CHECKOUT,
            env={**os.environ, MARK: str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=claim,
        )


def serve(home: Path) -> int:
    """Hold the processes until SIGTERM; started by :func:`up`."""
    stack = DemoStack(home=home, plan=Plan.load(home))
    signal.signal(signal.SIGTERM, _leave)
    try:
        stack.start()
        while True:
            stack.check()
            time.sleep(1.0)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stack.stop()


def down(home: Path) -> int:
    """Stop every process of a home, also what a killed demo left.

    :returns: the exit code.
    """
    ended = end_owned_by(home)
    print(f"{ended} processes of {home} stopped." if ended else f"Nothing of {home} runs.")
    return 0


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    sys.exit(0)
