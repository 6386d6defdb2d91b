"""What files say that are written once and never changed, so that one process reads each of them once.

A file is looked for each time all the same: nothing is built on one that is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from pyiceberg.io import FileIO

Content = TypeVar("Content")

MOST_REMEMBERED = 64
"""So many files of a kind are remembered; the one that came first is forgotten first."""


class Remembered(Generic[Content]):
    """The content of files of one kind, by URI. Threads may share it: nobody changes what is in it.

    :param read: reads a file. :raises FileNotFoundError: it is missing.
    """

    def __init__(self, io: FileIO, read: Callable[[FileIO, str], Content]) -> None:
        self._io = io
        self._read = read
        self._contents: dict[str, Content] = {}
        self._lock = Lock()

    def __call__(self, uri: str) -> Content:
        """:raises FileNotFoundError: there is no such file."""
        found = self._contents.get(uri)
        if found is None:
            return self.keep(uri, self._read(self._io, uri))
        if not self._io.new_input(uri).exists():
            raise FileNotFoundError(f"Cannot open file, does not exist: {uri}")
        return found

    def keep(self, uri: str, content: Content) -> Content:
        """Remember what was written to *uri*; return it."""
        with self._lock:
            if len(self._contents) >= MOST_REMEMBERED:
                del self._contents[next(iter(self._contents))]
            self._contents[uri] = content
        return content
