"""Directories for servers, in memory where there is such a place.

A run that is killed ends none of its contexts, and would leave its servers behind. So beside each directory a
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

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made there is made by tempfile


@contextmanager
def guarded_directory(prefix: str, *, on_disk: bool = False) -> Iterator[Path]:
    """Make an empty directory for servers; at the end it is removed, and none of them is left, also after SIGKILL.

    :param on_disk: not in memory but among the temporary files.
    """
    directory = tempfile.mkdtemp(prefix=prefix, dir=None if on_disk else shared_memory())
    command = [sys.executable, __file__, directory]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield Path(directory)


def shared_memory() -> Path | None:
    """A directory whose files are in memory; None when there is none."""
    return _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None


def works_in(directory: Path) -> list[psutil.Process]:
    """The processes whose working directory is *directory* or below."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # it has ended, or is another user's
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
