"""Directories in memory, where there is such a place, for many small commits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.directories import shared_memory


@contextmanager
def quick_directory(prefix: str) -> Iterator[Path]:
    """Make an empty directory whose files need not reach a disk; at the end it is removed."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=shared_memory()) as directory:
        yield Path(directory)
