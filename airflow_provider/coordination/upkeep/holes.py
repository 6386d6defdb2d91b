"""Holes of tables that no run fills by itself: epochs that their job has committed without them, and tables that
their job has left (R7). Read-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.commits.stayed_rows import has_rows
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.domain.watermark import merged
from airflow_provider.stores.base import MetadataReader, pages


@dataclass(frozen=True, kw_only=True, slots=True)
class Hole:
    """Time that *table* lacks. :param span: the time; None if its job has left the table.

    :param epochs: number of epochs that its job has committed without it.
    :param is_below: the time lies before the table's present origin.
    """

    table: TableName
    job: JobName
    span: Interval | None
    epochs: int = 0
    is_below: bool = False

    @property
    def found(self) -> str:
        if self.span is None:
            return f"job {self.job} no longer declares it, and cuts of the whole domain wait for it"
        if self.epochs:
            return f"job {self.job} has committed {self.epochs} epochs in {self.span} without it"
        if self.is_below:
            return f"it begins later until {self.span} is whole; what reads all of it waits for that"
        return f"job {self.job} goes on behind {self.span}, which another job has left out"

    @property
    def run(self) -> str:
        """Alternative to :attr:`cure` that brings rows, if the job has taken the table over with the hole."""
        if self.span is None or self.epochs or self.is_below:
            return ""
        return f"run job {self.job} for it, which is refused where another of its tables has it; or "

    @property
    def cure(self) -> str:
        """Command, without its domain, that ends the hole."""
        if self.span is None:
            return f"retire {quote(self.job)} --table {quote(self.table)} --reason …"
        span = f"{self.span.start.isoformat()}/{self.span.end.isoformat()}"
        return f"skip {quote(self.job)} {span} --reason …"


def holes(reader: MetadataReader, domain: DomainName) -> Iterator[Hole]:
    """Find the holes of every table of *domain*, one range after the other."""
    jobs: dict[JobName, JobRecord] = {
        stamped.record.name: stamped.record for stamped in pages(reader, domain, JobRecord)
    }
    tables: dict[TableName, TableRecord] = {
        TableName(stamped.key.item): stamped.record for stamped in pages(reader, domain, TableRecord)
    }
    for name, table in tables.items():
        job = jobs.get(table.job)
        if job is None or table.ended or job.retired:
            continue
        if all(output.name != name for output in job.outputs):
            islands = table.progress.islands
            if islands and _committed(reader, domain, job.name, islands[-1].end, None):
                yield Hole(table=name, job=job.name, span=None)
            continue
        own = {other.name: tables[other.name] for other in job.outputs if other.name in tables}
        yield from _of_table(reader, domain, name, own, job)


def _of_table(
    reader: MetadataReader,
    domain: DomainName,
    name: TableName,
    tables: Mapping[TableName, TableRecord],
    job: JobRecord,
) -> Iterator[Hole]:
    """Find the holes of the table *name* of *job*. :param tables: all of the job's, by name."""
    progress = tables[name].progress
    beside = merged(span for table in tables.values() for span in table.progress.islands)
    for start, end in _gaps(progress.start, progress.islands):
        committed = _committed(reader, domain, job.name, start, end)
        own = merged(committed)
        for span in own:
            yield Hole(table=name, job=job.name, span=span, epochs=sum(map(span.overlaps, committed)))
        # Runs of the job bring what it has not begun; not what its other tables have from the job before, and hardly
        # what lies before rows of that job.
        passed = _within(beside, start, end)
        is_below = end is not None and progress.origin is not None and end <= progress.origin
        if end is not None and (is_below or _is_of_another(reader, domain, name, job, end)):
            passed = [Interval(start, end)]
        for span in (left for part in passed for left in _without(part, own)):
            yield Hole(table=name, job=job.name, span=span, is_below=is_below)


def _gaps(start: datetime | None, islands: Sequence[Interval]) -> Iterator[tuple[datetime, datetime | None]]:
    """Yield the time from *start* on between *islands*; the last range has no end."""
    if start is None:
        return
    for island in islands:
        if island.end <= start:
            continue
        if island.start > start:
            yield start, island.start
        start = island.end
    yield start, None


def _within(islands: Sequence[Interval], start: datetime, end: datetime | None) -> list[Interval]:
    """Return the parts of *islands* between *start* and *end*."""
    parts = (
        (max(island.start, start), island.end if end is None else min(island.end, end)) for island in islands
    )
    return [Interval(low, high) for low, high in parts if low < high]


def _without(span: Interval, islands: Sequence[Interval]) -> list[Interval]:
    """Return the parts of *span* that none of *islands* covers."""
    gaps = (
        (low, span.end if high is None else min(high, span.end)) for low, high in _gaps(span.start, islands)
    )
    return [Interval(low, high) for low, high in gaps if low < high]


def _is_of_another(
    reader: MetadataReader, domain: DomainName, table: TableName, job: JobRecord, start: datetime
) -> bool:
    """Return whether the rows of *table* from *start* on were computed before *job* took it over."""
    return bool(job.predecessors) and not has_rows(reader, domain, table, job.name, start)


def _committed(
    reader: MetadataReader, domain: DomainName, job: JobName, start: datetime, end: datetime | None
) -> list[Interval]:
    """Return the committed epochs of *job* in a gap of one of its tables."""
    found = []
    for stamped in pages(reader, domain, EpochRecord, job, start=time_key(start)):
        if end is not None and stamped.record.interval.start >= end:
            break
        if stamped.record.committed is not None:
            found.append(stamped.record.interval)
    return found
