"""Files at locations within an epoch that no epoch reads: new bounds are refused because of them (I11).

:mod:`airflow_provider.domain.between` computes these locations. This module looks for files there, with one listing
of each existing folder in which the locations differ.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from os.path import commonprefix
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from airflow_provider.domain.between import neighbours, places_between
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.sources.locations import (
    WILD,
    as_location,
    at_once,
    is_hidden,
    lies_at,
    listing,
    matches,
    within,
)
from airflow_provider.tables.storage import open_root, split

if TYPE_CHECKING:
    from airflow_provider.domain.interval import Cadence, Interval
    from airflow_provider.domain.source_bounds import BoundsRequest, Source


def refuse_between(asked: BoundsRequest) -> None:
    """Refuse bounds if the location is finer than the cadence and files lie where no epoch reads.

    Sources declared by older versions of the package are exempt.

    :raises InvalidInput: such files exist; names their number and the first of them.
    """
    source = asked.source
    unread = [] if source.is_older else files_between(source, asked.interval, asked.cadence)
    if not unread:
        return
    count = f"{len(unread)} files" if len(unread) > 1 else "1 file"
    raise InvalidInput(
        field=f"location of source {source.name!r}",
        value=source.location,
        expected=f"one that says no more of the time than the cadence: {count}, such as {unread[0]}, at locations of "
        f"parts of {asked.interval} would be read by no epoch",
        next_step="let the location say no more than the cadence, with a wildcard for the rest, such as "
        "{start:%Y-%m-%d}T* for days, or {start:%Y-%m-%d}T*/* where these are folders; or, to read one part only, "
        "write it out literally, such as {start:%Y-%m-%d}T00; or take the files away. Where bounds of the source are "
        "recorded, another location needs a source of another name.",
        source=source.name,
        count=len(unread),
    )


def files_between(source: Source, interval: Interval, cadence: Cadence | None) -> list[str]:
    """Return the sorted URIs of files at locations of parts of *interval* that no epoch of *cadence* reads."""
    paths: dict[str, list[str]] = {}
    for place in places_between(source.location, interval, cadence):
        store, path = split(as_location(place))
        paths.setdefault(store, []).append(path)
    if not paths:
        return []
    epochs = (interval, *neighbours(cadence, interval))
    uris = (
        f"{place.partition('://')[0]}://{info.path}"
        for place, wanted in paths.items()
        for info in files_at(open_root(place), wanted)
    )
    return sorted(uri for uri in set(uris) if not any(lies_at(source, epoch, uri) for epoch in epochs))


def files_at(store: pafs.FileSystem, paths: Sequence[str]) -> Iterator[pafs.FileInfo]:
    """Yield the files that *paths*, literal or patterns, match; folders that they share are listed once."""
    shared = commonprefix(paths).rpartition("/")[0]  # noqa: RUF071  (cut at a slash)
    if not shared or WILD & set(shared):
        shared = "/" if paths[0].startswith("/") else ""
    looks = [_Look(path=shared, places=_tree(path[len(shared) :] for path in paths))]
    while looks:
        # One level of folders at a time, so that an object store lists all folders of a level concurrently.
        level = at_once(lambda look: look.found(store), [look.descended() for look in looks])
        for infos, _ in level:
            yield from infos
        looks = [deeper for _, following in level for deeper in following]


@dataclass(kw_only=True)
class _Places:
    """Names and patterns that may follow a folder, as a tree. :param ends: whether a path ends here."""

    children: dict[str, _Places] = field(default_factory=dict)
    ends: bool = False

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        """Children by the text before their first wildcard, so that a name is not compared with thousands."""
        stems: dict[str, list[str]] = {}
        for part in self.children:
            fixed = next((index for index, letter in enumerate(part) if letter in WILD), len(part))
            stems.setdefault(part[:fixed], []).append(part)
        return stems

    @cached_property
    def _lengths(self) -> list[int]:
        return sorted({len(stem) for stem in self._by_stem})

    def named(self, name: str) -> Iterator[str]:
        """Yield the children that *name* matches, except ``**``."""
        for length in self._lengths:
            for part in self._by_stem.get(name[:length], ()):
                if length <= len(name) and part != "**" and fnmatch.fnmatchcase(name, part):
                    yield part

    def match(self, names: Sequence[str]) -> bool:
        """Return whether *names*, of directories and a file, lead to an end."""
        if not names:
            return self.ends
        deep = self.children.get("**")
        if deep and any(deep.ends or deep.match(names[start:]) for start in range(len(names))):
            return True
        return any(self.children[part].match(names[1:]) for part in self.named(names[0]))


def _tree(paths: Iterable[str]) -> _Places:
    tree = _Places()
    for path in paths:
        places = tree
        for part in path.strip("/").split("/"):
            places = places.children.setdefault(part, _Places())
        places.ends = True
    return tree


@dataclass(frozen=True, kw_only=True)
class _Look:
    """Folder to list.

    :param is_wild: whether a wildcard matched on the way: then hidden names beneath it are skipped, and a path can end
        at a file only.
    """

    path: str
    places: _Places
    is_wild: bool = False

    def found(self, store: pafs.FileSystem) -> tuple[list[pafs.FileInfo], list[_Look]]:
        """Return the matching files, and the folders to list next; both empty if the path is a file."""
        with suppress(NotADirectoryError):
            if self.places.ends:
                return list(matches(store, self.path)), []
            if "**" in self.places.children:
                beneath = within(store, self.path)
                return [info for info in beneath if self.places.match(_names(self.path, info))], []
            return self._listed(listing(store, self.path))
        return [], []

    def _listed(self, infos: Iterable[pafs.FileInfo]) -> tuple[list[pafs.FileInfo], list[_Look]]:
        files: list[pafs.FileInfo] = []
        deeper: list[_Look] = []
        for info in infos:
            for following in self.following(info.base_name):
                if info.type is pafs.FileType.File and following.places.ends:
                    files.append(info)
                elif info.type is pafs.FileType.Directory and following.goes_on:
                    deeper.append(following)
        return files, deeper

    def following(self, name: str) -> Iterator[_Look]:
        """Yield the folders or files to look at next if *name*, an entry of this folder, matches a child."""
        for part in self.places.named(name):
            is_wild = self.is_wild or bool(WILD & set(part))
            if not (is_wild and is_hidden(name)):
                path = _joined(self.path, name)
                yield _Look(path=path, places=self.places.children[part], is_wild=is_wild)

    @property
    def goes_on(self) -> bool:
        """Return whether the folder may hold matching files."""
        return bool(self.places.children) or not self.is_wild

    def descended(self) -> _Look:
        """Return the folder where paths begin to differ: folders that all paths share are not listed."""
        path, places = self.path, self.places
        while not self.is_wild and not places.ends and len(places.children) == 1:
            (part,) = places.children
            if WILD & set(part):
                break
            path = _joined(path, part)
            places = places.children[part]
        return _Look(path=path, places=places, is_wild=self.is_wild)


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name


def _names(folder: str, info: pafs.FileInfo) -> list[str]:
    """Return the path of a file below *folder*, split into names."""
    names: list[str] = info.path[len(folder) :].strip("/").split("/")
    return names
