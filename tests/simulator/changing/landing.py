"""The source of a domain that changes: files that come late, are replaced, or go missing; or a table of ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from airflow_provider.domain.errors import NotReady, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.source_bounds import BoundFile, BoundsRequest, Late, Source, SourceBounds
from tests.simulator.changing.ids import Ids
from tests.simulator.changing.plan import LOCATION, hour
from tests.simulator.changing.sourced import Labels


@dataclass(slots=True)
class Landing:
    """What lies in the folder; each barrier has a place of its own.

    :ivar files: by URI, each with its barrier. :ivar ids: rows of a table, which are the source of some domains.
    """

    random: Random
    length: int
    ids: Ids
    files: dict[str, tuple[datetime, BoundFile]] = field(default_factory=dict)
    _number: int = 0

    def land(self, at: datetime | None = None) -> None:
        """Let a file arrive at any barrier."""
        barrier = hour(self.random.randrange(1, self.length + 1)) if at is None else at
        self._number += 1
        uri = f"{LOCATION.format(end=barrier)}/{self._number:03d}"
        self.files[uri] = barrier, BoundFile(uri=uri, size_bytes=1, modified=self._number)

    def replace(self) -> bool:
        """Let a file be replaced by another of its name; say whether there is one."""
        if not self.files:
            return False
        uri = self.random.choice(sorted(self.files))
        self._number += 1
        barrier, file = self.files[uri]
        self.files[uri] = barrier, BoundFile(uri=file.uri, size_bytes=2, modified=self._number)
        return True

    def lose(self) -> bool:
        """Let a file be missing."""
        if not self.files:
            return False
        self.files.pop(self.random.choice(sorted(self.files)))
        return True

    def restore(self, bounds: SourceBounds, epoch: Interval) -> None:
        """Let there be at the barriers of *epoch* what was recorded once, and nothing else."""
        for file in self.at(epoch.start, epoch.end):
            del self.files[file.uri]
        self.files.update({file.uri: (_barrier_of(file.uri), file) for file in bounds.files})

    def settle(self, recorded: Sequence[tuple[Interval, SourceBounds]], *, keeps_late: bool = False) -> None:
        """Bring back what was *recorded*, take away what came late, and let something land where nothing did."""
        self.ids.settle(bounds.span for _, bounds in recorded if bounds.span is not None)
        for uri, (barrier, _) in [] if keeps_late else list(self.files.items()):
            if any(epoch.start < barrier <= epoch.end for epoch, _ in recorded):
                del self.files[uri]
        for _, bounds in recorded:
            self.files.update({file.uri: (_barrier_of(file.uri), file) for file in bounds.files})
        for number in range(1, self.length + 1):
            start, end = hour(number - 1), hour(number)
            known = any(epoch.meets(start, end) and bounds.files for epoch, bounds in recorded)
            if not known and not self.at(start, end):
                self.land(end)

    def labels(self, bounds: SourceBounds) -> Labels:
        """What an epoch reads within *bounds*."""
        if bounds.span is not None:
            return tuple(f"id {number}" for number in self.ids.read(bounds.span))
        return tuple(f"{file.uri.rsplit('/', 1)[-1]}:{file.modified}" for file in bounds.files)

    def is_unchanged(self, bounds: SourceBounds) -> bool:
        """Whether what was recorded lies there: what a task looks at before it reads it."""
        same = all(file.uri in self.files and self.files[file.uri][1] == file for file in bounds.files)
        return same and self.ids.holds(bounds)

    def is_own(self, uri: str, epoch: Interval) -> bool:
        """Whether the file of *uri* lies at a barrier of *epoch*."""
        return epoch.start < _barrier_of(uri) <= epoch.end

    def at(self, start: datetime, end: datetime) -> list[BoundFile]:
        """The files of the barriers in ``(start, end]``."""
        return [file for _, (barrier, file) in sorted(self.files.items()) if start < barrier <= end]


@dataclass(frozen=True, slots=True)
class LandingSource:
    """The source as begin asks for it (``BoundsProvider``)."""

    landing: Landing
    turn: Callable[[], None]

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        self.turn()
        if asked.source.has_spans:
            self.landing.ids.grow()
            return self.landing.ids.bounds(asked)
        own = self.landing.at(asked.interval.start, asked.interval.end)
        if not own:
            missing = Missing(name="landing", reason="nothing has landed")
            raise NotReady("nothing has landed.", next_step="wait.", missing=(missing,))
        late: list[BoundFile] = []
        if asked.source.late in (Late.NEXT, Late.REFUSE):
            around = (*asked.before, *asked.after, *asked.also_read)
            known = {file.uri for record in around for file in record.whole.files}
            earlier = [record.interval for record in asked.before if record.interval is not None]
            late = [file for interval in earlier for file in self.landing.at(interval.start, interval.end)]
            late = [file for file in late if file.uri not in known]
            own = [file for file in own if file.uri not in known]
        if late and asked.source.late is Late.REFUSE:
            raise Unavailable("files came late.", next_step="take them away.")
        files = sorted({*own, *late}, key=lambda file: file.uri)
        return SourceBounds(source=asked.source.name, files=tuple(files))

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        self.turn()
        known = {file.uri: file for file in recorded.files}
        if asked.source.late is Late.REFUSE:
            now = self.landing.at(asked.interval.start, asked.interval.end)
            if any(file.uri not in known for file in now):
                raise Unavailable("files came late.", next_step="take them away.")
            return True
        return self.landing.is_unchanged(recorded)

    def check_unchanged(self, source: Source, bounds: SourceBounds) -> None:
        self.turn()
        if not self.landing.is_unchanged(bounds):
            raise Unavailable(
                f"source {source.name!r}: it is not what was recorded.", next_step="bring it back."
            )

    def check_there(self, source: Source, bounds: SourceBounds) -> None:
        self.check_unchanged(source, bounds)


def _barrier_of(uri: str) -> datetime:
    return datetime.strptime("/".join(uri.split("/")[-3:-1]), "%Y-%m-%d/%H").replace(tzinfo=UTC)
