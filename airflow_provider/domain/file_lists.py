"""Lists of files as records keep them: plain when short, packed when long.

A landing folder may hold 10,000 files an hour, and a record at most a megabyte: names that share their beginning and
most of their end take some 30 bytes each when they are compressed together.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

PLAIN_FILES = 20
"""Maximum number of files that a record keeps plain, for a reader of the raw store."""
MOST_PACKED_BYTES = 600_000
"""Maximum total size of the packed lists of one begin: one transaction writes them all."""
_DIGEST_LENGTH = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundFile:
    """A file of a source when its bounds were recorded. ``modified`` is microseconds since 1970."""

    uri: str
    size_bytes: int
    modified: int = 0


def packed(files: Sequence[BoundFile]) -> bytes:
    """Return *files* compressed; the same files in the same order give the same bytes."""
    prefix = _common_beginning([file.uri for file in files])
    since = min((file.modified for file in files), default=0)
    rows = [[file.uri[len(prefix) :], file.size_bytes, file.modified - since] for file in files]
    content = json.dumps([prefix, since, rows], ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(content.encode(), level=9)


def _common_beginning(texts: Sequence[str]) -> str:
    """Return the common prefix of *texts*: that of the least and the greatest."""
    least, greatest = min(texts, default=""), max(texts, default="")
    differing = (at for at, pair in enumerate(zip(least, greatest, strict=False)) if pair[0] != pair[1])
    return least[: next(differing, len(least))]


def unpacked(content: bytes) -> tuple[BoundFile, ...]:
    """Return the files that :func:`packed` was given.

    :raises ValueError: *content* is damaged.
    """
    try:
        prefix, since, rows = json.loads(zlib.decompress(content))
        return tuple(
            BoundFile(uri=prefix + name, size_bytes=size, modified=since + modified)
            for name, size, modified in rows
        )
    except (zlib.error, TypeError) as error:
        raise ValueError(f"no list of files: {error}") from error


def digest_of(files: Sequence[BoundFile]) -> str:
    """Return a digest of *files*, their sizes, times and order."""
    lines = sha256()
    for file in files:
        lines.update(json.dumps([file.uri, file.size_bytes, file.modified]).encode())
    return lines.hexdigest()[:_DIGEST_LENGTH]
