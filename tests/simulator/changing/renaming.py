"""Sources that are read by another name: what a refusal says of it, and files that no epoch reads since (I11)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_provider.coordination.upkeep.unread import abandoned, unread
from airflow_provider.domain.errors import EpochError, TopologyError
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.source_bounds import Source, SourceRecord
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader
from tests.simulator.changing.landing import Landing
from tests.simulator.changing.plan import DOMAIN
from tests.simulator.changing.sourced import Sourced
from tests.simulator.history import expect

_FILES = re.compile(
    r"source '\w+' finds .* has read as source '(\w+)', which this declaration of the job lacks"
)
_ROWS = re.compile(r"^(\w+) .*of which source '\w+' has read rows .*keep the name '(\w+)'")


def read_by(text: str) -> str:
    """Return the name by which epochs have read the files that a begin was refused for; empty for other reasons."""
    found = _FILES.search(text)
    return found[1] if found else ""


def name_to_keep(text: str) -> tuple[str, str]:
    """Return the job that was refused rows of a table by another name, and the name that it has to keep."""
    found = _ROWS.search(text)
    return (found[1], found[2]) if found else ("", "")


def is_other_name(error: EpochError, sourced: Sourced) -> bool:
    """Say whether *error* refuses what was read by another name.

    :raises Violation: no epoch can have read it.
    """
    if not isinstance(error, TopologyError):
        return False
    name = read_by(error.message)
    if name:
        recorded = [
            landed
            for (name_of, end, _), landed in sourced.found.items()
            if (name_of, end) == (name, error.read_by and error.read_by.end)
        ]
        uris = {file.uri for landed in recorded for file in landed.bounds.files}
        expect({*error.files} <= uris, "I11", f"{error} Recorded is {sorted(uris)}")
    return bool(name) or "the first epoch of a new name reads all that is there" in error.message


class LandingSources(SourceReaders):
    """The source as doctor asks for it."""

    def __init__(self, landing: Landing) -> None:
        super().__init__()
        self.landing = landing

    def unread(
        self, source: Source, wanted: Sequence[SourceRecord], records: Sequence[SourceRecord]
    ) -> tuple[list[tuple[Interval, str]], list[str]]:
        """See :class:`~airflow_provider.sources.readers.SourceReaders`."""
        known = {file.uri for record in records for file in record.whole.files}
        if source.has_spans:
            return [], []
        epochs = [record.interval for record in wanted if record.interval is not None]
        lying = [(epoch, file.uri) for epoch in epochs for file in self.landing.at(epoch.start, epoch.end)]
        return [(epoch, uri) for epoch, uri in lying if uri not in known], []

    def between(self, source: Source, interval: Interval, cadence: Cadence) -> list[str]:  # noqa: ARG002
        """Return nothing: files land at the places of whole epochs."""
        return []


@dataclass(frozen=True, kw_only=True, slots=True)
class Doctor:
    """What doctor says of files that no epoch reads, compared with what epochs have read."""

    store: MetadataReader
    landing: Landing
    source: Sourced

    def told(self) -> frozenset[str]:
        """Return the files of which doctor says that no epoch reads them, or not each job that reads the source, and
        where it says so of rows: the name and the epoch of their bounds.
        """
        found = list(unread(self.store, DOMAIN, LandingSources(self.landing)))
        late = {uri for missed in found for uri in missed.late}
        left = list(abandoned(self.store, DOMAIN, late))
        rows = {
            f"{record.bounds.source} {record.interval}" for record in left if record.bounds.span is not None
        }
        return frozenset(late | rows | {file.uri for record in left for file in record.bounds.files})

    def check(self) -> int:
        """Look for files that no epoch of a job reads; return how many there are.

        :raises Violation: doctor does not name one.
        """
        told, found = self.told(), 0
        for job in sorted(self.source.counted.readers):
            read = self.source.counted.files_of(job, self.source.bounds)
            for epoch, uri in self._lying(job):
                if uri not in read:
                    expect(
                        uri in told, "I11", f"{job} {epoch}: no epoch reads {uri}, which doctor does not name"
                    )
                    found += 1
        return found

    def _lying(self, job: str) -> Iterator[tuple[Interval, str]]:
        """Yield the files at the places of epochs of *job*.

        Not those that another job reads where it skips, nor those that an open attempt is to read.
        """
        counted = self.source.counted
        others = {
            uri for other in counted.readers - {job} for uri in counted.files_of(other, self.source.bounds)
        }
        left = counted.bound_by_open(job, self.source.bounds) | {
            file.uri
            for epoch, skipped in counted.epochs_of(job)
            if skipped and counted.is_excused(job, epoch)
            for name in self.source.names
            if (bounds := self.source.bounds(name, epoch, 0)) is not None
            for file in bounds.files
        }
        for epoch, skipped in counted.epochs_of(job):
            for file in self.landing.at(epoch.start, epoch.end):
                if file.uri not in left and not (skipped and file.uri in others):
                    yield epoch, file.uri
