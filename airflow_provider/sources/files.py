"""Bounds of a root that is made of files: what lies at its location when an epoch begins first.

The bounds are recorded once (I11); every later attempt and every other job reads exactly those files, and a file
that is not what was recorded is an error, never other rows.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable
from airflow_provider.domain.roots import BoundFile, Late, RootBounds
from airflow_provider.tables.storage import filesystem

if TYPE_CHECKING:
    from airflow_provider.domain.interval import Interval
    from airflow_provider.domain.roots import Asked, Root

_WILD = frozenset("*?[")
_WILD_TO_SPARK = frozenset("{}[]*?\\")


def bounds_of(root: Root, interval: Interval) -> RootBounds:
    """List what lies at the location of *root* now, with sizes and times of change.

    The location may hold ``{start}`` and ``{end}``, formatted as Python does: ``{start:%Y-%m-%d}``. ``*``, ``?``
    and ``[…]`` match within one directory, ``**`` any number of directories; a directory stands for all files
    in it. Names that begin with ``_`` or ``.`` are left out.

    :raises NotReady: the location names no wildcard, and nothing lies there.
    :raises InvalidInput: a location that cannot be read, or a file whose name Spark would take for a pattern.
    """
    files = _listed(root, interval)
    if files is None:
        location = _location(root, interval)
        raise NotReady(
            f"root {root.name!r} is not ready for {interval}: nothing lies at {location}.",
            next_step="wait for the source, or give a pattern if an interval may have no file.",
            root=root.name,
            missing=(location,),
        )
    return RootBounds(root=root.name, files=files)


def _listed(root: Root, interval: Interval) -> tuple[BoundFile, ...] | None:
    """What lies at the location of *root* for *interval* now; None when it has no wildcard, and nothing does."""
    location = _location(root, interval)
    try:
        store, path = filesystem(location)
    except ValueError as error:
        raise _bad_location(root, str(error)) from error
    prefix = f"{location.partition('://')[0]}://"
    found = sorted(_matches(store, path), key=lambda one: str(one.path))
    if not found and not _WILD & set(path) and store.get_file_info(path).type is pafs.FileType.NotFound:
        return None
    return tuple(_bound(root, prefix, one) for one in found)


def bounds(asked: Asked) -> RootBounds:
    """What the epoch reads: what lies at its location now, and, if the root says so, what came late at earlier ones.

    :raises NotReady: nothing lies there yet. :raises Unavailable: files came late, and are refused.
    :raises InvalidInput: see :func:`bounds_of`; or too many epochs share one location.
    """
    own = bounds_of(asked.root, asked.interval)
    if asked.root.late not in (Late.NEXT, Late.REFUSE):
        return own
    late = _late_files(asked)
    if asked.root.late is Late.REFUSE:
        _refuse_late(asked, late)
        return own
    known = _known(asked)
    files = [*(file for file in own.files if file.uri not in known), *late]
    return RootBounds(root=own.root, files=tuple(sorted(files, key=lambda one: one.uri)))


def holds(asked: Asked, recorded: RootBounds) -> bool:
    """Whether the files of *recorded* are what they were.

    :raises Unavailable: others came late, and are refused.
    """
    if asked.root.late is Late.REFUSE:
        known = {file.uri for file in recorded.files}
        now = _listed(asked.root, asked.interval) or ()
        _refuse_late(asked, [file for file in now if file.uri not in known])
        return True
    try:
        check_unchanged(recorded)
    except Unavailable:
        return False
    return True


def _known(asked: Asked) -> set[str]:
    """URIs of files that epochs around this one read."""
    return {file.uri for one in (*asked.before, *asked.after) for file in one.whole.files}


def _late_files(asked: Asked) -> list[BoundFile]:
    """Files at the locations of earlier barriers that no epoch reads.

    What lies at the location of the earliest one that is looked at is left alone: epochs before it may read that.
    """
    root = asked.root
    intervals = [one.interval for one in asked.before if one.interval is not None]
    places = {_location(root, one): one for one in reversed(intervals)}
    if len(asked.before) == root.looks_around and intervals:
        if _location(root, asked.interval) == _location(root, intervals[-1]):
            raise InvalidInput(
                field=f"location of root {root.name!r}",
                value=root.location,
                expected=f"one that at most {root.looks_around} epochs share, with late={root.late.value!r}",
                next_step="let the location say more of the interval, or leave late= out.",
            )
        places.pop(_location(root, intervals[-1]))
    places.pop(_location(root, asked.interval), None)
    known = _known(asked)
    found = [file for interval in places.values() for file in _listed(root, interval) or ()]
    return [file for file in found if file.uri not in known]


def _refuse_late(asked: Asked, late: list[BoundFile]) -> None:
    if late:
        raise Unavailable(
            f"root {asked.root.name!r}: {late[0].uri} came after the bounds of its epoch were recorded"
            + (f", and {len(late) - 1} more files." if len(late) > 1 else "."),
            next_step="take the file away, or declare late='next' or late='revision', and compute its epoch again.",
            root=asked.root.name,
            late=tuple(file.uri for file in late),
        )


def check_unchanged(bounds: RootBounds) -> None:
    """Compare the files of *bounds* with what lies there now.

    :raises Unavailable: a file is gone, or has another size or time of change than recorded.
    """
    for file in bounds.files:
        store, path = filesystem(file.uri)
        info = store.get_file_info(path)
        found = None if info.type is pafs.FileType.NotFound else (info.size, _modified(info))
        if found != (file.size_bytes, file.modified):
            raise Unavailable(
                f"root {bounds.root!r}: {file.uri} is not the file that was recorded when the epoch began: "
                f"expected {file.size_bytes} bytes changed at {file.modified} µs, found "
                + ("nothing." if found is None else f"{found[0]} bytes changed at {found[1]} µs."),
                next_step="run the task again: it reads the file as it is, unless a committed epoch has read the one "
                "of before; then bring that back, or bind the root anew: `airflow epochs bind`.",
                root=bounds.root,
                uri=file.uri,
                expected=(file.size_bytes, file.modified),
                found=found,
            )


def _location(root: Root, interval: Interval) -> str:
    if not root.location:
        raise _bad_location(root, "it has none")
    try:
        location = root.location.format(start=interval.start, end=interval.end)
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise _bad_location(root, f"only {{start}} and {{end}} may stand in braces ({error})") from error
    if location.startswith("/"):
        return f"file://{location}"
    if "://" not in location:
        raise _bad_location(root, "it is neither an absolute path nor a URI")
    return location


def _bad_location(root: Root, problem: str) -> InvalidInput:
    return InvalidInput(
        field=f"location of root {root.name!r}",
        value=root.location,
        expected=f"an absolute path, a URI or a pattern of files; {problem}",
        next_step="correct the location in the declaration of the root.",
    )


def _matches(store: pafs.FileSystem, path: str) -> Iterator[pafs.FileInfo]:
    """The files that *path*, perhaps a pattern, stands for."""
    parts = path.strip("/").split("/")
    fixed = next((index for index, part in enumerate(parts) if _WILD & set(part)), len(parts))
    base = ("/" if path.startswith("/") else "") + "/".join(parts[:fixed])
    if fixed < len(parts):
        yield from _expanded(store, base, parts[fixed:])
        return
    info = store.get_file_info(base)
    if info.type is pafs.FileType.File:
        yield info
    elif info.type is pafs.FileType.Directory:
        yield from _expanded(store, base, ["**", "*"])


def _expanded(store: pafs.FileSystem, base: str, parts: list[str]) -> Iterator[pafs.FileInfo]:
    head, rest = parts[0], parts[1:]
    listed = _visible(store.get_file_info(pafs.FileSelector(base, allow_not_found=True)))
    if head == "**":
        yield from _expanded(store, base, rest or ["*"])
        for info in listed:
            if info.type is pafs.FileType.Directory:
                yield from _expanded(store, info.path, parts)
        return
    for info in listed:
        if not fnmatch.fnmatchcase(info.base_name, head):
            continue
        if not rest and info.type is pafs.FileType.File:
            yield info
        elif rest and info.type is pafs.FileType.Directory:
            yield from _expanded(store, info.path, rest)


def _visible(infos: Iterable[pafs.FileInfo]) -> list[pafs.FileInfo]:
    return [info for info in infos if not info.base_name.startswith(("_", "."))]


def _bound(root: Root, prefix: str, info: pafs.FileInfo) -> BoundFile:
    if _WILD_TO_SPARK & set(info.path):
        raise InvalidInput(
            field=f"file of root {root.name!r}",
            value=info.path,
            expected="a name without { } [ ] * ? and \\, which Spark takes for a pattern",
            next_step="rename the file.",
        )
    return BoundFile(uri=f"{prefix}{info.path}", size_bytes=info.size, modified=_modified(info))


def _modified(info: pafs.FileInfo) -> int:
    return int(info.mtime_ns or 0) // 1000
