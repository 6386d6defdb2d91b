"""What an epoch reads of its job's roots: as it was recorded first, else as it is proposed (I11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider.domain.epoch import RootBounds, RootRecord
from airflow_provider.domain.errors import InvalidInput, TopologyError
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, root_key
from airflow_provider.domain.topology import EpochJob, Root
from airflow_provider.stores.base import Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounding:
    """The bounds of *roots* for one epoch.

    :param proposed: what is recorded where nobody has done so before; looked at only then.
    """

    job: EpochJob
    interval: Interval
    roots: tuple[Root, ...]
    proposed: Mapping[str, RootBounds]

    @property
    def keys(self) -> list[Key]:
        return [self._key(root.name) for root in self.roots]

    def bounds(self, reading: Reading) -> tuple[RootBounds, ...]:
        """Return what the epoch reads of each root.

        :raises InvalidInput: of one nothing is recorded, and nothing proposed.
        :raises TopologyError: what is recorded are the files of another interval that ends at the same barrier.
        """
        return tuple(self._bounds(reading, root.name) for root in self.roots)

    def unrecorded(self, reading: Reading, bounds: Iterable[RootBounds]) -> dict[Key, RootRecord]:
        """Return what is to be recorded of *bounds*, which is required to be absent until then."""
        found = {
            self._key(one.root): RootRecord(bounds=one, job=self.job.name, interval=self.interval)
            for one in bounds
        }
        return {key: record for key, record in found.items() if reading.get(key) is None}

    def _key(self, root: str) -> Key:
        # Bounds of later revisions of a root come with its revisions; every attempt shares the first.
        return root_key(self.job.domain, root, self.interval.end, 1)

    def _bounds(self, reading: Reading, root: str) -> RootBounds:
        stamped = reading.get(self._key(root))
        if stamped is not None:
            return self._recorded(root, stamped.record)
        proposed = self.proposed.get(root)
        if proposed is None or proposed.root != root:
            raise InvalidInput(
                field="roots",
                value=sorted(self.proposed) if proposed is None else proposed.root,
                expected=f"bounds of the root {root!r} of job {self.job.name!r}",
                next_step="propose bounds with spark.roots.ListedRoots at begin.",
            )
        return proposed

    def _recorded(self, root: str, record: RootRecord) -> RootBounds:
        if record.interval not in (None, self.interval):
            raise TopologyError(
                f"the files of root {root!r} at {self.interval.end.isoformat()} are recorded for {record.interval}, "
                f"which job {record.job!r} began; {self.job.name!r} asks for {self.interval}.",
                next_step="read them as a root of another name, or leave this epoch out: `airflow epochs skip`.",
                root=root,
                expected=self.interval,
                found=record.interval,
            )
        return record.bounds
