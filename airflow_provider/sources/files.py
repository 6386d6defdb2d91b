"""Bounds of a root that is made of files: what lies at its location when an epoch begins first.

The bounds are recorded once (I11); every later attempt and every other job reads exactly those files, and a file
that is not what was recorded is an error, never other rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from airflow_provider.domain.completeness import ConditionKind
from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable
from airflow_provider.domain.root_declarations import incomplete_declaration
from airflow_provider.domain.roots import BoundFile, Late, RootBounds
from airflow_provider.sources.between import refuse_between
from airflow_provider.sources.folders import missing_folder
from airflow_provider.sources.locations import (
    WILD,
    as_location,
    at_once,
    bad_location,
    formatted,
    lies_at,
    location_of,
    matches,
)
from airflow_provider.tables.storage import filesystem, open_root, split

if TYPE_CHECKING:
    from airflow_provider.domain.completeness import Condition
    from airflow_provider.domain.interval import Interval
    from airflow_provider.domain.roots import Asked, Root, RootRecord

log = logging.getLogger(__name__)

_WILD_TO_SPARK = frozenset("{}[]*?\\")


def bounds(asked: Asked) -> RootBounds:
    """What the epoch reads: what lies at its location now, and, if the root says so, what came late at earlier ones.

    The location may hold ``{start}`` and ``{end}``, formatted as Python does: ``{start:%Y-%m-%d}``. ``*``, ``?``
    and ``[…]`` match within one directory, ``**`` any number of directories; a directory stands for all files
    in it. Names that begin with ``_`` or ``.`` are left out.

    :raises NotReady: not all of it is there yet. :raises Unavailable: files came late, and are refused; or one that
        another epoch has read is another file now.
    :raises InvalidInput: a location that cannot be read, that too many epochs share, that is a folder without
        conditions, or that leaves out files at locations of parts of the epoch; a file whose name Spark would take for
        a pattern.
    """
    root = asked.root
    reason, files = _landed(root, asked.interval, asked.now)
    if reason:
        raise NotReady(
            f"root {root.name!r} is not ready for {asked.interval}: {reason}.",
            next_step="wait for the source (EpochSensor waits for roots, too), or correct what the root declares.",
            root=root.name,
            missing=(location_of(root, asked.interval),),
        )
    refuse_between(asked)
    own = RootBounds(root=root.name, files=files)
    if root.late not in (Late.NEXT, Late.REFUSE):
        return own
    known = _known(asked)
    late = _late_files(asked, known)
    if root.late is Late.REFUSE:
        _refuse_late(asked, late)
        return own
    mine = [file for file in own.files if file.uri not in known]
    _refuse_replaced(asked, [file for file in own.files if known.get(file.uri, file) != file])
    return RootBounds(root=own.root, files=tuple(sorted([*mine, *late], key=lambda one: one.uri)))


def missing(root: Root, interval: Interval, now: datetime | None) -> str:
    """Why *root* is not complete for *interval*; empty when it is."""
    return _landed(root, interval, now)[0]


def _landed(root: Root, interval: Interval, now: datetime | None) -> tuple[str, tuple[BoundFile, ...]]:
    """Why the root is not complete, and what lies at its location; markers are looked for before it is listed."""
    folder = "" if root.is_older else missing_folder(root)
    if folder:
        # A misspelt location lists as nothing: without this, its epochs would commit empty.
        return f"there is no folder {folder}: correct the location of the root, or create the folder", ()
    for condition in root.complete:
        if condition.kind is ConditionKind.MARKER:
            place = _marker_of(root, condition, interval)
            if not _is_there(root, place):
                return f"there is no {place}", ()
    files = _listed(root, interval)
    if files is None:
        return f"nothing lies at {location_of(root, interval)}", ()
    reasons = (_unmet(condition, interval, files, now) for condition in root.complete)
    return next((reason for reason in reasons if reason), ""), files


def _unmet(
    condition: Condition, interval: Interval, files: tuple[BoundFile, ...], now: datetime | None
) -> str:
    """Why *condition* is not met by *files*; empty when it is."""
    if condition.kind is ConditionKind.MIN_FILES and len(files) < condition.files:
        return f"{len(files)} files of at least {condition.files} are there"
    if condition.kind is ConditionKind.QUIET_FOR and condition.quiet is not None:
        if not files:
            return "no file is there"
        last = max(interval.end, *(_time_of(file) for file in files))
        if (now or datetime.now(UTC)) < last + condition.quiet:
            return f"the last change, at {last.isoformat()}, is less than {condition.quiet} ago"
    return ""


def _time_of(file: BoundFile) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=file.modified)


def _marker_of(root: Root, condition: Condition, interval: Interval) -> str:
    """Where the marker lies: beside the files, in the directory that the location names before its wildcards."""
    place = as_location(formatted(root, condition.location, interval))
    if "://" in place:
        return place
    location = location_of(root, interval)
    scheme, _, path = location.partition("://")
    parts = path.rstrip("/").split("/")
    fixed = next((index for index, part in enumerate(parts) if WILD & set(part)), len(parts))
    is_folder = fixed == len(parts) and _is_folder(root, location)
    base = parts if is_folder else parts[: min(fixed, len(parts) - 1)]
    return f"{scheme}://{'/'.join([*base, place])}"


def _is_folder(root: Root, location: str) -> bool:
    store, path = _opened(root, location)
    return bool(store.get_file_info(path.rstrip("/")).type is pafs.FileType.Directory)


def _is_there(root: Root, place: str) -> bool:
    store, path = _opened(root, place)
    if WILD & set(path):
        return next(matches(store, path, hidden=True), None) is not None
    return bool(store.get_file_info(path).type is not pafs.FileType.NotFound)


def _opened(root: Root, place: str) -> tuple[pafs.FileSystem, str]:
    try:
        return filesystem(place)
    except ValueError as error:
        raise bad_location(root, str(error)) from error


def _listed(root: Root, interval: Interval) -> tuple[BoundFile, ...] | None:
    """What lies at the location of *root* for *interval* now; None when it has no wildcard, and nothing does."""
    location = location_of(root, interval)
    store, path = _opened(root, location)
    prefix = f"{location.partition('://')[0]}://"
    if not WILD & set(path):
        kind = store.get_file_info(path.rstrip("/")).type
        if kind is pafs.FileType.NotFound:
            return () if location.endswith("/") else None
        if kind is pafs.FileType.Directory and not root.complete and not root.is_older:
            raise incomplete_declaration(root, "a folder")
    found = sorted(matches(store, path), key=lambda one: str(one.path))
    return tuple(_bound(root, prefix, one) for one in found)


def holds(asked: Asked, recorded: RootBounds) -> bool:
    """Whether the files of *recorded* are what they were.

    :raises Unavailable: others came late, and are refused.
    """
    if asked.root.late is Late.REFUSE:
        known = {file.uri for file in recorded.files}
        now = _listed(asked.root, asked.interval) or ()
        _refuse_late(asked, [file for file in now if file.uri not in known])
    try:
        check_unchanged(recorded)
    except Unavailable:
        return False
    return True


def _known(asked: Asked) -> dict[str, BoundFile]:
    """Files that epochs around this one read, by their URI."""
    return {file.uri: file for one in (*asked.before, *asked.after) for file in one.whole.files}


def _late_files(asked: Asked, known: Mapping[str, BoundFile]) -> list[BoundFile]:
    """Files at the locations of earlier barriers that no epoch reads.

    Epochs before and after the root's window may have read what lies at a location that they share.
    """
    root = asked.root
    outside = [
        one.interval for one in (asked.beyond, asked.past) if one is not None and one.interval is not None
    ]
    places = {
        location_of(root, one.interval): one.interval
        for one in reversed(asked.before)
        if one.interval is not None and not _is_whole(root, one)
    }
    for beyond in outside:
        if location_of(root, asked.interval) == location_of(root, beyond):
            raise InvalidInput(
                field=f"location of root {root.name!r}",
                value=root.location,
                expected=f"one that epochs of at most {root.window} share, with late={root.late.value!r}: nobody knows "
                "which of its files the others have read",
                next_step="let the location say more of the interval, or declare a longer late_window.",
            )
        places.pop(location_of(root, beyond), None)
    places.pop(location_of(root, asked.interval), None)
    listed = _listed_at_once(root, list(places.values()))
    replaced = [file for file in listed if known.get(file.uri, file) != file]
    if replaced:
        log.warning(
            "root %r: %d files were replaced after epochs had read them, such as %s; see `airflow epochs doctor`",
            root.name,
            len(replaced),
            replaced[0].uri,
        )
    return [file for file in listed if file.uri not in known]


def _is_whole(root: Root, record: RootRecord) -> bool:
    """Whether nothing can come to the location of *record*: it is one file, which the epoch has."""
    interval = record.interval
    if interval is None or root.is_pattern:
        return False
    return any(file.uri == location_of(root, interval) for file in record.whole.files)


def _listed_at_once(root: Root, intervals: Sequence[Interval]) -> list[BoundFile]:
    """What lies at the locations of *intervals*, in their order."""
    found = at_once(lambda interval: _listed(root, interval) or (), intervals)
    return [file for files in found for file in files]


def unread(
    root: Root, wanted: Sequence[RootRecord], records: Sequence[RootRecord]
) -> tuple[list[tuple[Interval, str]], list[str]]:
    """Return the files at the locations of *wanted* that none of *records* has, and those that are others now."""
    known = {file.uri: file for one in reversed(records) for file in one.whole.files}
    places = {
        location_of(root, one.interval): one.interval
        for one in wanted
        if one.interval is not None and not _is_whole(root, one)
    }
    late: list[tuple[Interval, str]] = []
    for interval in places.values():
        late += [(interval, file.uri) for file in _listed(root, interval) or () if file.uri not in known]
    mine = [known[file.uri] for one in wanted for file in one.whole.files]
    replaced = [file.uri for file, info in _looked_up(mine) if _is_another(file, info)]
    return late, sorted(set(replaced))


def _is_another(file: BoundFile, info: pafs.FileInfo) -> bool:
    """Whether there is a file, and not the one that was recorded; those that are gone were read, and may be."""
    there = info.type is not pafs.FileType.NotFound
    return there and (info.size, _modified(info)) != (file.size_bytes, file.modified)


def _refuse_late(asked: Asked, late: list[BoundFile]) -> None:
    if late:
        root, uri = asked.root, late[0].uri
        known = [one.interval for one in asked.before if one.interval is not None]
        epoch = next((one for one in known if lies_at(root, one, uri)), asked.interval)
        raise Unavailable(
            f"root {root.name!r}: {uri} came after the bounds of its epoch {epoch} were recorded"
            + (f", and {len(late) - 1} more files." if len(late) > 1 else "."),
            next_step="take the file away; or declare late='next', by which the next epoch reads it; or `airflow "
            f"epochs bind {root.name} {epoch.start.isoformat()}/{epoch.end.isoformat()} --reason …`, then clear the "
            "tasks that have read that epoch.",
            root=asked.root.name,
            late=tuple(file.uri for file in late),
        )


def _refuse_replaced(asked: Asked, replaced: list[BoundFile]) -> None:
    """A file of the epoch's own location that another epoch has read, and that is another one now."""
    if replaced:
        raise Unavailable(
            f"root {asked.root.name!r}: {replaced[0].uri} was read by another epoch, and is another file now"
            + (f"; so are {len(replaced) - 1} more." if len(replaced) > 1 else "."),
            next_step="give new data a new name; or bind the root anew for the epoch that has read it: `airflow epochs "
            f"bind {asked.root.name} …`, and clear its task.",
            root=asked.root.name,
            replaced=tuple(file.uri for file in replaced),
        )


def check_unchanged(bounds: RootBounds) -> None:
    """Compare the files of *bounds* with what lies there now.

    :raises Unavailable: a file is gone, or has another size or time of change than recorded.
    """
    for file, info in _looked_up(bounds.files):
        found = None if info.type is pafs.FileType.NotFound else (info.size, _modified(info))
        if found != (file.size_bytes, file.modified):
            raise Unavailable(
                f"root {bounds.root!r}: {file.uri} is not the file that was recorded when the epoch began: "
                f"expected {file.size_bytes} bytes changed at {file.modified} µs, found "
                + ("nothing." if found is None else f"{found[0]} bytes changed at {found[1]} µs."),
                next_step="run the task again: it reads the file as it is, unless a committed epoch has read the one "
                "of before; then bind the root anew (`airflow epochs bind`), or bring that file back with its time (a "
                "copy with another time of change is another file).",
                root=bounds.root,
                uri=file.uri,
                expected=(file.size_bytes, file.modified),
                found=found,
            )


def _looked_up(files: Sequence[BoundFile]) -> Iterator[tuple[BoundFile, pafs.FileInfo]]:
    """Each file with what is there now; object stores are asked many at a time."""
    stores: dict[str, list[tuple[BoundFile, str]]] = {}
    for file in files:
        place, path = split(file.uri)
        stores.setdefault(place, []).append((file, path))
    for place, asked in stores.items():
        infos = open_root(place).get_file_info([path for _, path in asked])
        yield from zip((file for file, _ in asked), infos, strict=True)


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
