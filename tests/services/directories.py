"""Directories in memory, where there is such a place: for many small commits, and for servers.

A run that is killed ends no fixture, and would leave its servers behind. So beside each directory of servers a
process (``python directories.py DIRECTORY``) waits for the run's end, which it sees as the end of its standard
input; it ends whatever works in the directory and removes it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is made by tempfile


@contextmanager
def quick_directory(prefix: str) -> Iterator[Path]:
    """Make an empty directory whose files need not reach a disk; at the end it is removed."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=_parent()) as directory:
        yield Path(directory)


@contextmanager
def guarded_directory(prefix: str) -> Iterator[Path]:
    """Make an empty directory for servers; at the end it is removed, and none of them is left, also after SIGKILL."""
    directory = tempfile.mkdtemp(prefix=prefix, dir=_parent())
    command = [sys.executable, __file__, directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield Path(directory)


def _parent() -> Path | None:
    return SHARED_MEMORY if SHARED_MEMORY.is_dir() else None


def works_in(directory: Path) -> list[psutil.Process]:
    """The processes whose working directory is *directory* or below."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is somebody else's
            if Path(process.cwd()).is_relative_to(directory):
                found.append(process)
    return found


def _end(directory: Path) -> None:
    while found := works_in(directory):
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.05)
    shutil.rmtree(directory)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _end(Path(sys.argv[1]))
