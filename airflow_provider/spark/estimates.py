"""The size that Spark's optimizer takes for rows which a Python function returns.

It takes them to be as many, and to have as many bytes, as the rows of the function's input. Of one index for each file
it would conclude that any table is small enough to be sent whole to each worker (a broadcast). So the input begins as
ids, as many as the table has rows, of which a filter leaves one for each file: filters leave Spark's estimates as they
are. A column of null makes each id as wide as a row, for Spark estimates columns by their types.
"""

from __future__ import annotations

from typing import NamedTuple

_NARROW, _BINARY, _NUMBER = 8, 50, 4
"""Bytes that Spark counts for an id alone, and more for each field of binary or bigint beside it."""

_MOST_FIELDS = 64
_WIDEST = _NARROW + _MOST_FIELDS * _BINARY
_UNKNOWN = 2**35
"""Bytes of a table of unknown size: the price of a shuffle is less than that of a broadcast that does not fit."""
_MOST = 2**40
"""Bytes that are too many to broadcast in any case."""
_MOST_IDS = 2**31
"""Spark makes 80 million of them a second and core."""


class Ids(NamedTuple):
    """Ids that stand for the rows of files.

    :param each: their number for each file. :param columns: the columns that make them wide, as SQL: one or none.
    """

    each: int
    columns: list[str]


def ids_for(files: int, rows: int | None, size_bytes: int | None) -> Ids:
    """Return the ids that make Spark take a table for as large as it is.

    :param rows: number of rows of all files; None if it is not known. :param size_bytes: likewise.
    """
    if rows is None or size_bytes is None:
        rows, size_bytes = 0, _UNKNOWN
    size = min(size_bytes, _MOST)
    count = min(max(rows, size // _WIDEST), _MOST_IDS)
    each = max(1, -(-count // files))
    width = min(size // (each * files), _WIDEST)
    binaries, rest = divmod(max(0, width - _NARROW), _BINARY)
    fields = [*["binary"] * binaries, *["bigint"] * (rest // _NUMBER)]
    named = ", ".join(f"f{number}: {kind}" for number, kind in enumerate(fields))
    return Ids(each=each, columns=[f"CAST(NULL AS struct<{named}>) AS width"] if fields else [])
