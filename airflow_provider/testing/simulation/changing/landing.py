"""A folder in which files land: late, replaced, and sometimes missing for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from airflow_provider.domain.errors import NotReady, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.roots import Asked, BoundFile, Late, Root, RootBounds
from airflow_provider.testing.simulation.changing.plan import HOUR, ZERO, hour


@dataclass(slots=True)
class Landing:
    """What lies in the folder; each barrier has a place of its own.

    :ivar files: by URI, each with its barrier.
    """

    random: Random
    length: int
    files: dict[str, tuple[datetime, BoundFile]] = field(default_factory=dict)
    _number: int = 0

    def land(self, at: datetime | None = None) -> None:
        """Let a file arrive at any barrier."""
        barrier = hour(self.random.randrange(1, self.length + 1)) if at is None else at
        self._number += 1
        uri = f"memory:///landing/{(barrier - ZERO) // HOUR:02d}/{self._number:03d}"
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

    def settle(self, recorded: Mapping[Interval, Iterable[BoundFile]]) -> None:
        """Bring back what was *recorded*, take away what came late, and let something land where nothing did."""
        for uri, (barrier, _) in list(self.files.items()):
            if any(epoch.start < barrier <= epoch.end for epoch in recorded):
                del self.files[uri]
        for files in recorded.values():
            self.files.update({one.uri: (_barrier_of(one.uri), one) for one in files})
        for number in range(1, self.length + 1):
            if not self.at(hour(number - 1), hour(number)):
                self.land(hour(number))

    def at(self, start: datetime, end: datetime) -> list[BoundFile]:
        """The files of the barriers in ``(start, end]``."""
        return [file for _, (barrier, file) in sorted(self.files.items()) if start < barrier <= end]


@dataclass(frozen=True, slots=True)
class LandingSource:
    """The folder as begin asks for it (``RootSource``)."""

    landing: Landing
    turn: Callable[[], None]

    def bounds(self, asked: Asked) -> RootBounds:
        self.turn()
        own = self.landing.at(asked.interval.start, asked.interval.end)
        if not own:
            raise NotReady("nothing has landed.", next_step="wait.", missing=("landing",))
        late: list[BoundFile] = []
        if asked.root.late in (Late.NEXT, Late.REFUSE):
            known = {file.uri for one in (*asked.before, *asked.after) for file in one.bounds.files}
            earlier = [one.interval for one in asked.before if one.interval is not None]
            late = [file for one in earlier for file in self.landing.at(one.start, one.end)]
            late = [file for file in late if file.uri not in known]
            own = [file for file in own if file.uri not in known]
        if late and asked.root.late is Late.REFUSE:
            raise Unavailable("files came late.", next_step="take them away.")
        files = sorted({*own, *late}, key=lambda one: one.uri)
        return RootBounds(root=asked.root.name, files=tuple(files))

    def holds(self, asked: Asked, recorded: RootBounds) -> bool:
        self.turn()
        known = {file.uri: file for file in recorded.files}
        if asked.root.late is Late.REFUSE:
            now = self.landing.at(asked.interval.start, asked.interval.end)
            if any(file.uri not in known for file in now):
                raise Unavailable("files came late.", next_step="take them away.")
            return True
        return all(self._same(one) for one in recorded.files)

    def check_unchanged(self, root: Root, bounds: RootBounds) -> None:
        self.turn()
        if not unchanged(self.landing, bounds.files):
            raise Unavailable(
                f"root {root.name!r}: a file is not what was recorded.", next_step="bring it back."
            )

    def _same(self, file: BoundFile) -> bool:
        found = self.landing.files.get(file.uri)
        return found is not None and found[1] == file


def _barrier_of(uri: str) -> datetime:
    return hour(int(uri.split("/")[-2]))


def unchanged(landing: Landing, files: Iterable[BoundFile]) -> bool:
    """Whether *files* lie there as they were recorded: what a task looks at before it reads them."""
    return all(one.uri in landing.files and landing.files[one.uri][1] == one for one in files)
