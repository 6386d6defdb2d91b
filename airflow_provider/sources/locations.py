"""Locations of files: the location of a source for an interval, the names that it matches, the files there."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pyarrow.fs as pafs

from airflow_provider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from airflow_provider.domain.interval import Interval
    from airflow_provider.domain.source_bounds import Source

WILD = frozenset("*?[")
_FEW = 4
_LISTINGS = 16
"""Number of locations to list concurrently: an object store answers each after some 40 ms."""

Place = TypeVar("Place")
Found = TypeVar("Found")


def location_of(source: Source, interval: Interval) -> str:
    """Return the location of *source* for *interval*, as a URI.

    :raises InvalidInput: the source has no location, it is neither an absolute path nor a URI, or it has a pattern of
        hidden names alone.
    """
    if not source.location:
        raise bad_location(source, "it has none")
    location = as_location(formatted(source, source.location, interval))
    if "://" not in location:
        raise bad_location(source, "it is neither an absolute path nor a URI")
    parts = location.split("/")
    varying = next((index for index, part in enumerate(parts) if WILD & set(part)), len(parts))
    if none := next(filter(is_hidden, parts[varying:]), None):
        raise bad_location(
            source,
            f"names like {none}, which begin with _ or . or end with ._COPYING_, are left out of patterns",
        )
    return location


def as_location(place: str) -> str:
    """Return *place* as a URI if it is an absolute path, otherwise unchanged."""
    return f"file://{place}" if place.startswith("/") else place


def formatted(source: Source, text: str, interval: Interval) -> str:
    """Return *text* with ``{start}`` and ``{end}`` replaced by those of *interval*.

    :raises InvalidInput: *text* has another field, or an invalid format code.
    """
    try:
        return text.format(start=interval.start, end=interval.end)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise bad_location(source, f"only {{start}} and {{end}} may stand in braces ({error})") from error


def bad_location(source: Source, problem: str) -> InvalidInput:
    """Build the error for an invalid location."""
    return InvalidInput(
        field=f"location of source {source.name!r}",
        value=source.location,
        expected=f"an absolute path, a URI or a pattern of files; {problem}",
        next_step="correct the location in the declaration of the source.",
    )


def lies_at(source: Source, interval: Interval, uri: str) -> bool:
    """Return whether *uri* matches the location of *source* for *interval*; compares names only."""
    place = [part for part in location_of(source, interval).partition("://")[2].split("/") if part]
    path = [part for part in uri.partition("://")[2].split("/") if part]
    if not any(WILD & set(part) for part in place):
        return path[: len(place)] == place
    return names_match(place, path)


def names_match(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether *names*, of directories and a file, match *patterns*; ``**`` is any number of directories."""
    if not patterns or not names:
        return not patterns and not names
    head, rest = patterns[0], patterns[1:]
    if head == "**":
        return any(names_match(rest or ["*"], names[start:]) for start in range(len(names)))
    return fnmatch.fnmatchcase(names[0], head) and names_match(rest, names[1:])


def matches(store: pafs.FileSystem, path: str, *, hidden: bool = False) -> Iterator[pafs.FileInfo]:
    """Yield the files that *path*, literal or a pattern, matches, each once.

    :param hidden: whether to yield hidden names, too.
    """
    parts = path.strip("/").split("/")
    fixed = next((index for index, part in enumerate(parts) if WILD & set(part)), len(parts))
    base = ("/" if path.startswith("/") else "") + "/".join(parts[:fixed])
    if fixed < len(parts):
        # Of several ** each may stand for the same directories: then a file is found in several ways.
        found = {info.path: info for info in _expanded(store, base, parts[fixed:], hidden=hidden)}
        yield from found.values()
        return
    info = store.get_file_info(base)
    if info.type is pafs.FileType.File:
        yield info
    elif info.type is pafs.FileType.Directory:
        yield from within(store, base)


def within(store: pafs.FileSystem, folder: str) -> Iterator[pafs.FileInfo]:
    """Yield all files in *folder* and its subfolders, except hidden ones."""
    return _expanded(store, folder, ["**", "*"])


def is_hidden(name: str) -> bool:
    """Return whether patterns skip *name*. Spark returns no rows of files with nearly all such names, and no error."""
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _expanded(
    store: pafs.FileSystem, base: str, parts: list[str], *, hidden: bool = False
) -> Iterator[pafs.FileInfo]:
    head, rest = parts[0], parts[1:]
    infos = listing(store, base)
    listed = infos if hidden else _visible(infos)
    if head == "**":
        yield from _expanded(store, base, rest or ["*"], hidden=hidden)
        for info in listed:
            if info.type is pafs.FileType.Directory:
                yield from _expanded(store, info.path, parts, hidden=hidden)
        return
    for info in listed:
        if not fnmatch.fnmatchcase(info.base_name, head):
            continue
        if not rest and info.type is pafs.FileType.File:
            yield info
        elif rest and info.type is pafs.FileType.Directory:
            yield from _expanded(store, info.path, rest, hidden=hidden)


def listing(store: pafs.FileSystem, folder: str) -> list[pafs.FileInfo]:
    """Return the entries of *folder*; empty if it does not exist."""
    return list(store.get_file_info(pafs.FileSelector(folder, allow_not_found=True)))


def at_once(look: Callable[[Place], Found], places: Sequence[Place]) -> list[Found]:
    """Call *look* for each of *places*, concurrently; return the results in the order of *places*."""
    if len(places) < _FEW:
        return [look(place) for place in places]
    with ThreadPoolExecutor(_LISTINGS) as pool:
        return list(pool.map(look, places))


def _visible(infos: Iterable[pafs.FileInfo]) -> list[pafs.FileInfo]:
    return [info for info in infos if not is_hidden(info.base_name)]
