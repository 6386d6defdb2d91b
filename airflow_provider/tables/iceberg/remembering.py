"""Cache of immutable files, so that a process reads each of them once.

Each access checks that the file still exists: no version is based on a deleted file.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from pyiceberg.io import FileIO

Content = TypeVar("Content")

MOST_REMEMBERED = 64
"""Maximum number of cached files of a kind; the oldest is evicted first."""


class Remembered(Generic[Content]):
    """Content of files of one kind, by URI. Threads may share it: callers must not change the content.

    :param read: reads a file; raises FileNotFoundError if it is missing.
    """

    def __init__(self, io: FileIO, read: Callable[[FileIO, str], Content]) -> None:
        self._io = io
        self._read = read
        self._contents: dict[str, Content] = {}
        self._lock = Lock()

    def __call__(self, uri: str) -> Content:
        """Return the content of the file at *uri*.

        :raises FileNotFoundError: the file is missing.
        """
        content = self._contents.get(uri)
        if content is None:
            return self.keep(uri, self._read(self._io, uri))
        if not self._io.new_input(uri).exists():
            raise FileNotFoundError(f"Cannot open file, does not exist: {uri}")
        return content

    def keep(self, uri: str, content: Content) -> Content:
        """Cache *content*, which was written to *uri*; return it."""
        with self._lock:
            if len(self._contents) >= MOST_REMEMBERED:
                del self._contents[next(iter(self._contents))]
            self._contents[uri] = content
        return content
