"""Spellings of local paths: files are known by their path, so that a folder has one. Pure functions.

In an object store ``//`` and ``..`` are part of the key: there another spelling is another object.
"""

from __future__ import annotations

from posixpath import normpath

_SCHEME = "file:"
_NOT_PLAIN = frozenset({"", ".", ".."})


def is_plain(location: str) -> bool:
    """Return False if *location* is a local one with ``//``, ``/./`` or ``/../``; it may end with one slash."""
    path = _local(location)
    folders = path.removesuffix("/").split("/")[1:]
    return len(path) < 2 or _NOT_PLAIN.isdisjoint(folders)


def plain(uri: str) -> str:
    """Return *uri*; of a local file in the plain spelling."""
    path = _local(uri)
    return f"{_SCHEME}//{normpath('/' + path.lstrip('/'))}" if path else uri


def _local(location: str) -> str:
    """Return the path of a local *location*, empty for any other."""
    if location.startswith("/"):
        return location
    if location[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return location[len(_SCHEME) :].removeprefix("//")
