"""Bounds of a source of files: the files at its location when an epoch first begins.

The bounds are recorded once (I11); every later attempt and every other job reads exactly those files. A file
that differs from the record is an error, never other rows. See docs/decisions/source-bounds.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from shlex import quote
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import pyarrow.fs as pafs

from airflow_provider.domain.completeness import ConditionKind
from airflow_provider.domain.errors import InvalidInput, NotReady, SourceUnavailable, Unavailable
from airflow_provider.domain.source_bounds import BoundFile, Late, SourceBounds
from airflow_provider.domain.source_declarations import incomplete_declaration
from airflow_provider.sources.between import files_between, refuse_between
from airflow_provider.sources.folders import missing_folder, refuse_folders
from airflow_provider.sources.locations import (
    WILD,
    as_location,
    at_once,
    bad_location,
    formatted,
    is_hidden,
    lies_at,
    location_of,
    matches,
)
from airflow_provider.sources.reader import SourceReader, other_kind
from airflow_provider.tables.storage import filesystem, open_root, split

if TYPE_CHECKING:
    from airflow_provider.domain.completeness import Condition
    from airflow_provider.domain.interval import Cadence, Interval
    from airflow_provider.domain.source_bounds import BoundsRequest, Source, SourceRecord
    from airflow_provider.sources.reader import Rows

log = logging.getLogger(__name__)

_WILD_TO_SPARK = frozenset("{}[]*?\\")

Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")


def _answering(
    method: Callable[Concatenate[FileReader, Arguments], Found],
) -> Callable[Concatenate[FileReader, Arguments], Found]:
    """Translate errors of the file system into an error of the family *retry*.

    :raises SourceUnavailable: the file system failed. Its own text is left out: it may contain addresses.
    """

    @wraps(method)
    def translated(self: FileReader, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            raise SourceUnavailable.of(
                self.source.name,
                self.source.place,
                type(error).__name__,
                check="it exists and that this host may read it",
            ) from error

    return translated


class FileReader(SourceReader):
    """Reader of a :class:`~airflow_provider.domain.source_bounds.FileSource`."""

    @_answering
    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return the files at the epoch's location now, and with ``late="next"`` those that came late to earlier ones.

        The location may hold ``{start}`` and ``{end}`` with Python's format codes: ``{start:%Y-%m-%d}``. ``*``, ``?``
        and ``[…]`` match within one directory, ``**`` any number of directories; a directory that is written out
        without them stands for all files in it. Names that begin with ``_`` or ``.`` are skipped,
        and copies under way (``._COPYING_``).

        :raises NotReady: a condition of the source is not met yet.
        :raises Unavailable: files came late and the source refuses them; or a file that another epoch read has changed.
        :raises InvalidInput: the location is invalid, is shared by too many epochs, is a folder without conditions, is
            a pattern of folders, or leaves out files at locations of parts of the epoch; or Spark would take a file's
            name for a pattern, or passes over it.
        """
        source = self.source
        reason, files = _landed(source, asked.interval, asked.now)
        if reason:
            raise NotReady.of_source(
                source.name,
                location_of(source, asked.interval),
                reason,
                interval=asked.interval,
                next_step="wait for the source (EpochSensor waits for sources, too), or correct its declaration.",
            )
        refuse_between(asked)
        own = SourceBounds(source=source.name, files=files)
        if source.late not in (Late.NEXT, Late.REFUSE):
            return own
        known = _known(asked)
        late = _late_files(asked, known)
        if source.late is Late.REFUSE:
            _refuse_late(asked, late)
            return own
        # Epochs may share a location: a file that another epoch has read is not read twice.
        mine = [file for file in own.files if file.uri not in known]
        _refuse_replaced(asked, [file for file in own.files if known.get(file.uri, file) != file])
        # Nor are those of epochs that are behind: once these are computed again, a later epoch reads the files.
        held = {file.uri for record in asked.also_read for file in record.whole.files}
        # The location of an earlier epoch may match a file of this one, too: it is read once.
        unread = {file.uri: file for file in (*mine, *late) if file.uri not in held}
        return SourceBounds(source=own.source, files=tuple(file for _, file in sorted(unread.items())))

    @_answering
    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        """Return whether the files of *recorded* are unchanged.

        :raises Unavailable: further files came late, and the source refuses them.
        """
        if self.source.late is Late.REFUSE:
            known = {file.uri for file in recorded.files}
            now = _listed(self.source, asked.interval) or ()
            _refuse_late(asked, [file for file in now if file.uri not in known])
        return super().holds(asked, recorded)

    @_answering
    def check_unchanged(self, bounds: SourceBounds) -> None:
        """Compare the files of *bounds* with the present ones.

        :raises Unavailable: a file is missing, or its size or time of change differs from the record.
        """
        if bounds.span is not None:
            raise other_kind(bounds, "files: the source was a table when its bounds were recorded")
        for file, info in _looked_up(bounds.files):
            found = None if info.type is pafs.FileType.NotFound else (info.size, _modified(info))
            if found != (file.size_bytes, file.modified):
                raise _changed(bounds, file, found)

    @_answering
    def check_there(self, bounds: SourceBounds) -> None:
        """Look for the files of *bounds*.

        :raises Unavailable: a file is missing.
        """
        for file, info in _looked_up(bounds.files):
            if info.type is pafs.FileType.NotFound:
                raise _changed(bounds, file, None)

    def rows(self, bounds: SourceBounds) -> Rows:
        """:raises InvalidInput: always: the program knows the format of its files, and reads them itself."""
        raise InvalidInput(
            field="source",
            value=bounds.source,
            expected="a source that is a table",
            next_step=f"read its files: epoch.source_files({bounds.source!r}).",
        )

    @_answering
    def missing(self, interval: Interval, now: datetime | None) -> str:
        """Return why the files are not complete for *interval*; empty if they are."""
        return _landed(self.source, interval, now)[0]

    @_answering
    def unread(
        self, wanted: Sequence[SourceRecord], records: Sequence[SourceRecord]
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """Return the files at the locations of *wanted* that none of *records* has, and the files replaced since.

        :return: pairs of interval and URI, and the sorted URIs of files that were replaced since they were recorded.
        """
        source = self.source
        known = {file.uri: file for record in reversed(records) for file in record.whole.files}
        places = {
            location_of(source, record.interval): record.interval
            for record in wanted
            if record.interval is not None and not _is_whole(source, record)
        }
        late: list[tuple[Interval, str]] = []
        for interval in places.values():
            late += [
                (interval, file.uri) for file in _listed(source, interval) or () if file.uri not in known
            ]
        mine = [known[file.uri] for record in wanted for file in record.whole.files]
        replaced = [file.uri for file, info in _looked_up(mine) if _is_another(file, info)]
        return late, sorted(set(replaced))

    @_answering
    def between(self, interval: Interval, cadence: Cadence) -> list[str]:
        """Return the files at locations of parts of *interval* that no epoch of *cadence* reads."""
        return [] if self.source.is_older else files_between(self.source, interval, cadence)

    @_answering
    def refuse_missing_folder(self) -> None:
        """:raises SourceUnavailable: the folder that holds the files of all epochs does not exist."""
        folder = "" if self.source.is_older else missing_folder(self.source)
        if folder:
            raise SourceUnavailable(
                f"source {self.source.name!r}: there is no folder {folder}.",
                next_step="check that it is mounted and that this host may read it; or correct the location.",
                source=self.source.name,
            )

    def place(self, interval: Interval) -> str:
        """Return the location of the files for *interval*."""
        return location_of(self.source, interval)


def _landed(source: Source, interval: Interval, now: datetime | None) -> tuple[str, tuple[BoundFile, ...]]:
    """Return why the source is not complete, and the files at its location.

    Markers are looked for before the location is listed: once a marker exists, the listing has all files.
    """
    folder = "" if source.is_older else missing_folder(source)
    if folder:
        # A misspelt location lists as nothing: without this, its epochs would commit empty.
        return f"there is no folder {folder}: correct the location of the source, or create the folder", ()
    for condition in source.complete:
        if condition.kind is ConditionKind.MARKER:
            place = _marker_of(source, condition, interval)
            if not _is_there(source, place):
                return f"there is no {place}", ()
    files = _listed(source, interval)
    if files is None:
        return f"nothing lies at {location_of(source, interval)}", ()
    reasons = (_unmet(condition, interval, files, now) for condition in source.complete)
    unmet = next((reason for reason in reasons if reason), "")
    if not (unmet or files or source.is_older):
        refuse_folders(source, location_of(source, interval))
    return unmet, files


def _unmet(
    condition: Condition, interval: Interval, files: tuple[BoundFile, ...], now: datetime | None
) -> str:
    """Return why *files* do not meet *condition*; empty if they do."""
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


def _marker_of(source: Source, condition: Condition, interval: Interval) -> str:
    """Return the marker's location: beside the files, in the directory before the location's first wildcard."""
    place = as_location(formatted(source, condition.location, interval))
    if "://" in place:
        return place
    location = location_of(source, interval)
    scheme, _, path = location.partition("://")
    parts = path.rstrip("/").split("/")
    fixed = next((index for index, part in enumerate(parts) if WILD & set(part)), len(parts))
    is_folder = fixed == len(parts) and _is_folder(source, location)
    base = parts if is_folder else parts[: min(fixed, len(parts) - 1)]
    return f"{scheme}://{'/'.join([*base, place])}"


def _is_folder(source: Source, location: str) -> bool:
    store, path = _opened(source, location)
    return bool(store.get_file_info(path.rstrip("/")).type is pafs.FileType.Directory)


def _is_there(source: Source, place: str) -> bool:
    store, path = _opened(source, place)
    if WILD & set(path):
        return next(matches(store, path, hidden=True), None) is not None
    return bool(store.get_file_info(path).type is not pafs.FileType.NotFound)


def _opened(source: Source, place: str) -> tuple[pafs.FileSystem, str]:
    try:
        return filesystem(place)
    except ValueError as error:
        raise bad_location(source, str(error)) from error


def _listed(source: Source, interval: Interval) -> tuple[BoundFile, ...] | None:
    """Return the files of *source* for *interval*; None if its location is a single path that does not exist."""
    location = location_of(source, interval)
    store, path = _opened(source, location)
    prefix = f"{location.partition('://')[0]}://"
    if not WILD & set(path):
        kind = store.get_file_info(path.rstrip("/")).type
        if kind is pafs.FileType.NotFound:
            return () if location.endswith("/") else None
        if kind is pafs.FileType.Directory and not source.complete and not source.is_older:
            raise incomplete_declaration(source, "a folder")
    infos = sorted(matches(store, path), key=lambda info: str(info.path))
    return tuple(_bound(source, prefix, info) for info in infos)


def _known(asked: BoundsRequest) -> dict[str, BoundFile]:
    """Return the files that epochs around this one read, by URI."""
    return {file.uri: file for record in (*asked.before, *asked.after) for file in record.whole.files}


def _late_files(asked: BoundsRequest, known: Mapping[str, BoundFile]) -> list[BoundFile]:
    """Return the files at locations of earlier barriers that no epoch reads.

    Locations that epochs outside of the source's window share are left out: those epochs may have read the files.
    """
    source = asked.source
    outside = [
        record.interval
        for record in (asked.beyond, asked.past)
        if record is not None and record.interval is not None
    ]
    places = {
        location_of(source, record.interval): record.interval
        for record in reversed(asked.before)
        if record.interval is not None and not _is_whole(source, record)
    }
    for beyond in outside:
        if location_of(source, asked.interval) == location_of(source, beyond):
            raise InvalidInput(
                field=f"location of source {source.name!r}",
                value=source.location,
                expected=f"one that epochs of at most {source.window} share, with late={source.late.value!r}: which of "
                "its files the other epochs have read is unknown",
                next_step="let the location say more of the interval, or declare a longer late_window.",
            )
        places.pop(location_of(source, beyond), None)
    places.pop(location_of(source, asked.interval), None)
    listed = _listed_at_once(source, list(places.values()))
    replaced = [file for file in listed if known.get(file.uri, file) != file]
    if replaced:
        log.warning(
            "source %r: %d files were replaced after epochs had read them, such as %s; see `airflow epochs doctor`",
            source.name,
            len(replaced),
            replaced[0].uri,
        )
    return list({file.uri: file for file in listed if file.uri not in known}.values())


def _is_whole(source: Source, record: SourceRecord) -> bool:
    """Return whether no file can be added at the location of *record*: it is a single file, which the epoch has."""
    interval = record.interval
    if interval is None or source.is_pattern:
        return False
    return any(file.uri == location_of(source, interval) for file in record.whole.files)


def _listed_at_once(source: Source, intervals: Sequence[Interval]) -> list[BoundFile]:
    """Return the files at the locations of *intervals*, in the order of the intervals."""
    listings = at_once(lambda interval: _listed(source, interval) or (), intervals)
    return [file for files in listings for file in files]


def _is_another(file: BoundFile, info: pafs.FileInfo) -> bool:
    """Return whether *file* was replaced; a file that is gone was read before, and may be deleted."""
    there = info.type is not pafs.FileType.NotFound
    return there and (info.size, _modified(info)) != (file.size_bytes, file.modified)


def _refuse_late(asked: BoundsRequest, late: list[BoundFile]) -> None:
    if late:
        source, uri = asked.source, late[0].uri
        known = [record.interval for record in asked.before if record.interval is not None]
        epoch = next((interval for interval in known if lies_at(source, interval, uri)), asked.interval)
        span = f"{epoch.start.isoformat()}/{epoch.end.isoformat()}"
        raise Unavailable(
            f"source {source.name!r}: {uri} came after the bounds of its epoch {epoch} were recorded"
            + (f", and {len(late) - 1} more files." if len(late) > 1 else "."),
            next_step="take the file away; or declare late='next', by which the next epoch reads it; or `airflow "
            f"epochs bind {quote(source.name)} {span} --reason …`, then clear the tasks that have read that epoch.",
            source=asked.source.name,
            uris=tuple(file.uri for file in late),
        )


def _refuse_replaced(asked: BoundsRequest, replaced: list[BoundFile]) -> None:
    """:raises Unavailable: files at the epoch's own location were replaced after another epoch read them."""
    if replaced:
        raise Unavailable(
            f"source {asked.source.name!r}: {replaced[0].uri} was read by another epoch, and is another file now"
            + (f"; so are {len(replaced) - 1} more." if len(replaced) > 1 else "."),
            next_step="give new data a new name; or bind the source anew for the epoch that has read it: `airflow "
            f"epochs bind {quote(asked.source.name)} …`, and clear its task.",
            source=asked.source.name,
            uris=tuple(file.uri for file in replaced),
        )


def _changed(bounds: SourceBounds, file: BoundFile, there: tuple[int, int] | None) -> Unavailable:
    expected = f"{file.size_bytes} bytes changed at {file.modified} µs"
    found = "nothing" if there is None else f"{there[0]} bytes changed at {there[1]} µs"
    return Unavailable(
        f"source {bounds.source!r}: {file.uri} is not the file that was recorded when the epoch began: "
        f"expected {expected}, found {found}.",
        next_step="run the task again: it reads the file as it is, unless a committed epoch has read the one "
        "of before; then open a restatement, which reads it as it is (`airflow epochs restate plan`), bind the source "
        "anew (`airflow epochs bind`), or bring that file back with its time (a copy with another time of change is "
        "another file).",
        source=bounds.source,
        uri=file.uri,
        expected=expected,
        found=found,
    )


def _looked_up(files: Sequence[BoundFile]) -> Iterator[tuple[BoundFile, pafs.FileInfo]]:
    """Yield each file with its present file info; one call per file system, which asks object stores in parallel."""
    stores: dict[str, list[tuple[BoundFile, str]]] = {}
    for file in files:
        place, path = split(file.uri)
        stores.setdefault(place, []).append((file, path))
    for place, asked in stores.items():
        infos = open_root(place).get_file_info([path for _, path in asked])
        yield from zip((file for file, _ in asked), infos, strict=True)


def _bound(source: Source, prefix: str, info: pafs.FileInfo) -> BoundFile:
    if _WILD_TO_SPARK & set(info.path):
        raise InvalidInput(
            field=f"file of source {source.name!r}",
            value=info.path,
            expected="a name without { } [ ] * ? and \\, which Spark takes for a pattern",
            next_step="rename the file.",
        )
    if is_hidden(info.base_name):
        raise InvalidInput(
            field=f"file of source {source.name!r}",
            value=info.path,
            expected="a name without _ or . at its start, or ._COPYING_ at its end: Spark passes over such files",
            next_step="rename the file; name one that says that others are complete in complete=marker(…).",
        )
    return BoundFile(uri=f"{prefix}{info.path}", size_bytes=info.size, modified=_modified(info))


def _modified(info: pafs.FileInfo) -> int:
    return int(info.mtime_ns or 0) // 1000
