"""Frame of the page's grid: which tables a domain has and the time that they cover, without the epochs. Read-only.

The page asks for the frame once for each commit, and for the epochs of the tables on the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from airflow_provider.coordination.upkeep.dags import latest_dag
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, table_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages, scan

_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameRow:
    """One table.

    :param dag: that worked on the latest epoch of its job; None without one.
    :param begins: start of its first epoch; None if it has none and declares no origin.
    :param reaches: latest barrier that it has, or that its job tries to reach; None without one.
    :param length: of an epoch: the last one that has ended.
    """

    table: TableName
    job: JobName
    dag: str | None
    begins: datetime | None
    reaches: datetime | None
    length: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """The tables of a domain as of its head, in the order of their jobs."""

    domain: DomainName
    csn: int
    now: datetime
    rows: tuple[FrameRow, ...]

    def where(self, wanted: Callable[[FrameRow], bool]) -> Frame:
        """Return the frame of the rows that are *wanted*."""
        rows = tuple(row for row in self.rows if wanted(row))
        return Frame(domain=self.domain, csn=self.csn, now=self.now, rows=rows)

    @property
    def shortest(self) -> timedelta:
        """Length of the shortest epoch; an hour without tables."""
        return min((row.length for row in self.rows), default=timedelta(hours=1))

    @property
    def end(self) -> datetime:
        """Latest barrier that any table has reached or tries to reach; the store's time without one."""
        return max((row.reaches for row in self.rows if row.reaches is not None), default=self.now)

    def within(self, start: datetime, end: datetime) -> Interval:
        """Return the range from *start* to *end*, or from the first epoch of any table where that is later."""
        first = min((row.begins for row in self.rows if row.begins is not None), default=start)
        return Interval(max(start, first) if first < end else start, end)


def frame(reader: MetadataReader, domain: str) -> Frame:
    """Return the tables of *domain*; one that another job has taken over is that job's.

    It reads the records of all jobs and tables, and the latest epoch of each job.
    """
    name = domain_name(domain)
    reading = reader.read(name, [])
    jobs = [stamped.record for stamped in pages(reader, name, JobRecord)]
    names = list(dict.fromkeys(table.name for job in jobs for table in job.outputs))
    known: dict[TableName, Stamped[TableRecord]] = {}
    for first in range(0, len(names), _PAGE):
        keys = [table_key(name, table) for table in names[first : first + _PAGE]]
        known |= {TableName(key.item): found for key, found in reader.read(name, keys).records.items()}
    rows = (row for job in jobs for row in _rows(reader, name, job, known, reading.now))
    return Frame(domain=name, csn=reading.head.csn, now=reading.now, rows=tuple(rows))


def _rows(
    reader: MetadataReader,
    domain: DomainName,
    job: JobRecord,
    known: dict[TableName, Stamped[TableRecord]],
    now: datetime,
) -> Iterator[FrameRow]:
    newest = scan(reader, domain, EpochRecord, job.name, limit=1, reverse=True)
    latest = newest[0].record if newest else None
    last, dag = job.cadence.ended_by(now), _dag(reader, domain, job.name, latest)
    for table in job.outputs:
        stamped = known.get(table.name)
        if stamped is not None and stamped.record.job != job.name:
            continue
        islands: tuple[Interval, ...] = () if stamped is None else stamped.record.progress.islands
        start = None if stamped is None else stamped.record.progress.start
        ends = [island.end for island in islands[-1:]] + ([latest.interval.end] if latest else [])
        origin = start or job.origin
        starts = ([origin] if origin else []) + ([latest.interval.start] if latest else [])
        yield FrameRow(
            table=table.name,
            job=job.name,
            dag=dag,
            begins=min([*starts, *(island.start for island in islands[:1])], default=None),
            reaches=max(ends, default=None),
            length=last.end - last.start,
        )


def _dag(reader: MetadataReader, domain: DomainName, job: JobName, latest: EpochRecord | None) -> str | None:
    """Return what :func:`~.dags.latest_dag` returns; one scan less where *latest* tells it."""
    if latest is None:
        return None
    if latest.attempt is not None:
        return latest.attempt.owner.dag_id
    done = latest.committed
    return latest_dag(reader, domain, job) if done is None or done.skipped else done.owner.dag_id
