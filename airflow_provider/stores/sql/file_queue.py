"""Queue publishers on one host: the turn is a lock on a file beside the database (docs/decisions/publish-queue.md)."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

_PAUSE_S = 0.001


@contextmanager
def file_queue(path: Path, timeout: timedelta) -> Iterator[None]:
    """Wait until no other caller is in the context for *path*, at most for *timeout*; never raises.

    The operating system drops the lock when the process of its holder ends.
    """
    lock = None
    with suppress(OSError):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if lock is not None:
            _take(lock, time.monotonic() + timeout.total_seconds())
        yield
    finally:
        if lock is not None:
            # A child that inherited the descriptor would hold the lock beyond our close(), so unlock the file itself.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)


def _take(lock: int, until: float) -> None:
    while time.monotonic() < until:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        except OSError:
            return
        else:
            return
