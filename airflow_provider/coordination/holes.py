"""What tables lack and no run will bring by itself: epochs that their job has committed without them, and tables that
their job has left (R7). Reads only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Kind
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.domain.watermark import Progress
from airflow_provider.stores.base import MetadataReader, pages


@dataclass(frozen=True, kw_only=True, slots=True)
class Hole:
    """Something that *table* lacks. :param what: it is. :param span: of time; None where its job has left it.

    :param epochs: so many are committed without it; 0 where none of them was ever computed.
    """

    table: TableName
    job: JobName
    span: Interval | None
    epochs: int = 0

    @property
    def found(self) -> str:
        if self.span is None:
            return f"job {self.job} no longer declares it, and cuts of the whole domain wait for it"
        if self.epochs:
            return f"job {self.job} has committed {self.epochs} epochs in {self.span} without it"
        return f"it begins later until {self.span} is whole; what reads all of it waits for that"

    @property
    def cure(self) -> str:
        """The command, without its domain, that ends the hole."""
        if self.span is None:
            return f"retire {self.job} --table {self.table} --reason …"
        span = f"{self.span.start.isoformat()}/{self.span.end.isoformat()}"
        return f"skip {self.job} {span} --reason …"


def holes(reader: MetadataReader, domain: DomainName) -> Iterator[Hole]:
    """Find what every table of *domain* lacks, one range after the other."""
    jobs: dict[JobName, JobRecord] = {
        one.record.name: one.record for one in list(pages(reader, domain, Kind.JOB, ""))
    }
    for stamped in list(pages(reader, domain, Kind.TABLE, "")):
        name, table = TableName(stamped.key.item), stamped.record
        job = jobs.get(table.job)
        if job is None or table.ended or job.retired:
            continue
        if all(one.name != name for one in job.outputs):
            islands = table.progress.islands
            if islands and _committed(reader, domain, job.name, islands[-1].end, None):
                yield Hole(table=name, job=job.name, span=None)
            continue
        yield from _of_table(reader, domain, name, table, job)


def _of_table(
    reader: MetadataReader, domain: DomainName, name: TableName, table: TableRecord, job: JobRecord
) -> Iterator[Hole]:
    progress = table.progress
    for start, end in _gaps(progress):
        committed = _committed(reader, domain, job.name, start, end)
        if committed:
            span = Interval(committed[0].start, committed[-1].end)
            yield Hole(table=name, job=job.name, span=span, epochs=len(committed))
        elif end is not None and progress.origin is not None and end <= progress.origin:
            yield Hole(table=name, job=job.name, span=Interval(start, end))


def _gaps(progress: Progress) -> Iterator[tuple[datetime, datetime | None]]:
    """The time that the table waits for, from where it begins; the last range has no end."""
    start = progress.start
    if start is None:
        return
    for island in progress.islands:
        if island.end <= start:
            continue
        if island.start > start:
            yield start, island.start
        start = island.end
    yield start, None


def _committed(
    reader: MetadataReader, domain: DomainName, job: JobName, start: datetime, end: datetime | None
) -> list[Interval]:
    """Epochs of *job* in a gap of one of its tables that are committed."""
    found = []
    for stamped in pages(reader, domain, Kind.EPOCH, job, start=time_key(start)):
        if end is not None and stamped.record.interval.start >= end:
            break
        if stamped.record.committed is not None:
            found.append(stamped.record.interval)
    return found
