"""Servers of tests end with the run that started them."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.servers.directories import works_in

KILLED = """
import os, signal, subprocess, sys
from tests.servers.directories import guarded_directory
with guarded_directory("epochs-killed-") as directory:
    server = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], cwd=directory, start_new_session=True
    )
    print(directory, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    server.kill()
    server.wait()
"""


def run(how: str) -> Path:
    """Run a program with a server to its end; return the server's directory when no process looks after it any more."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, how], stdout=subprocess.PIPE, text=True, check=False
    )
    directory = Path(ended.stdout.strip())
    while _guardians(directory):
        time.sleep(0.05)
    return directory


def _guardians(directory: Path) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cmdline()[-1:] == [str(directory)]:
                found.append(process.pid)
    return found


@pytest.mark.parametrize("how", ["killed", "well"])
def test_a_run_leaves_no_server_and_no_directory(how: str) -> None:
    directory = run(how)
    assert directory.name.startswith("epochs-killed-")
    assert works_in(directory) == []
    assert not directory.exists()
