"""Compaction across epochs: which files of a table come together, and which epochs leave a unit. Pure decisions.

See docs/decisions/unit-files.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from airflow_provider.domain.interval import Interval
from airflow_provider.domain.version import HeldFile

COMPACTED = "#compacted"
"""End of the ids of the change sets of compactions, which change no row."""
Epochs = Callable[[datetime, datetime], Sequence[datetime]]
_RESOLUTION = timedelta(microseconds=1)


class CompactionUnit(StrEnum):
    """Stretch of time, in UTC, whose epochs come into common files; an epoch belongs where it ends."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    def around(self, barrier: datetime) -> Interval:
        """Return the unit ``(start, end]`` that contains *barrier*."""
        last = barrier.astimezone(UTC) - _RESOLUTION
        start = last.replace(hour=0, minute=0, second=0, microsecond=0)
        if self is CompactionUnit.DAY:
            return Interval(start, start + timedelta(days=1))
        start = start.replace(day=1) if self is CompactionUnit.MONTH else start.replace(month=1, day=1)
        later = start + timedelta(days=31 if self is CompactionUnit.MONTH else 366)
        end = later.replace(day=1)
        return Interval(start, end if self is CompactionUnit.MONTH else end.replace(month=1))


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRecord:
    """A compaction between its first file and its commit, which deletes this record.

    :param folder: URI of the folder with its files. :param format: of the table. :param incarnation: of the store then.
    :param by: its author. :param ended: why it can commit no more; empty while it can.
    """

    folder: str
    format: str
    incarnation: str
    by: str
    ended: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouping:
    """Files whose rows come into other files, in one commit.

    :param groups: least and greatest barrier of the epochs of each new file, in the order of time.
    :param beside: files of one epoch each, between those of *files*, that stay: another program's.
    :param obstacle: why that cannot be; empty if it can. :param way_out: of the obstacle; may be empty.
    """

    files: tuple[HeldFile, ...]
    groups: tuple[tuple[datetime, datetime], ...]
    beside: tuple[HeldFile, ...] = ()
    obstacle: str = ""
    way_out: str = ""

    @property
    def low(self) -> datetime:
        return min(file.low for file in self.files)

    @property
    def high(self) -> datetime:
        return max(file.high for file in self.files)


def compactions(
    files: Sequence[HeldFile], unit: CompactionUnit, *, after: datetime, before: datetime
) -> Iterator[Regrouping]:
    """Yield what brings the epochs of each whole unit into common files, oldest first; nothing where they are there.

    :param files: all of the table with such epochs, in the order of time.
    :param after: the table's origin: slices of earlier epochs are not readable yet.
    :param before: units that end later are left alone. So are those within a larger unit.
    """
    larger = [file for file in files if unit.around(file.low) != unit.around(file.high)]
    by_unit: dict[datetime, list[HeldFile]] = {}
    for file in files:
        where = unit.around(file.low)
        is_free = not any(other.low <= file.high and file.low <= other.high for other in larger)
        if is_free and after < file.low and where.end <= before:
            by_unit.setdefault(where.start, []).append(file)
    for _, found in sorted(by_unit.items()):
        if len({(file.low, file.high) for file in found}) > 1:
            group = (min(file.low for file in found), max(file.high for file in found))
            obstacle, way_out = _obstacle(found)
            yield Regrouping(files=tuple(found), groups=(group,), obstacle=obstacle, way_out=way_out)


def separations(
    files: Sequence[HeldFile],
    barriers: Collection[datetime] | None,
    epochs: Epochs,
    *,
    since: datetime | None = None,
    before: datetime | None = None,
) -> Iterator[Regrouping]:
    """Yield what gives the epochs *barriers* files of their own, unit by unit; nothing for those that have them.

    :param files: all of the table with such epochs, and with others of their units.
    :param barriers: None for all epochs of units. :param epochs: returns the table's barriers from one to another.
    :param since: only units with an epoch that ends later. :param before: only units that begin until then.
    """
    found = {(file.low, file.high) for file in files if file.low < file.high}
    for low, high in sorted(found):
        is_asked = barriers is None or any(low <= barrier <= high for barrier in barriers)
        if not is_asked or (since is not None and high <= since) or (before is not None and before < low):
            continue
        # Rows of another program that were adopted since may lie beside the unit's own.
        inside = [file for file in files if low <= file.low and file.high <= high]
        layouts = {file.layout for file in inside if file.low < file.high}
        beside = [
            file for file in inside if file.low == file.high and (file.obstacle or file.layout not in layouts)
        ]
        together = [file for file in inside if file not in beside]
        every = epochs(low, high)
        apart = _apart(every, frozenset(every if barriers is None else barriers))
        obstacle, way_out = _obstacle(together)
        yield Regrouping(
            files=tuple(together),
            groups=tuple(apart),
            beside=tuple(beside),
            obstacle=obstacle,
            way_out=way_out,
        )


def leaves_whole(low: datetime, high: datetime, stretches: Iterable[Interval]) -> bool:
    """Return whether all epochs that end from *low* to *high* leave a table; then their files need not be read.

    :param stretches: :func:`~.watermark.merged` epochs that leave: a stretch begins where an epoch does.
    """
    return any(stretch.start < low and high <= stretch.end for stretch in stretches)


def _apart(epochs: Iterable[datetime], alone: Collection[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Yield groups of *epochs*: each of *alone* by itself, and the runs between them."""
    run: list[datetime] = []
    for barrier in epochs:
        if barrier not in alone:
            run.append(barrier)
            continue
        if run:
            yield run[0], run[-1]
        yield barrier, barrier
        run = []
    if run:
        yield run[0], run[-1]


def _obstacle(files: Sequence[HeldFile]) -> tuple[str, str]:
    """Return why the rows of *files* cannot come together, and the way out; empty if they can."""
    for file in files:
        if file.obstacle:
            return file.obstacle, file.way_out
    if len({file.layout for file in files}) > 1:
        return "files in several partition specs", ""
    return "", ""
