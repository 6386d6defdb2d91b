"""Dropping: jobs and tables leave a domain, so that their names are free for others (R39). Pure decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.version import TableRecord, TableRef

MOST_DROPPED = 200
"""Maximum number of remembered drops of tables. Beyond it, the oldest of those without files are forgotten."""


class Subject(StrEnum):
    """What a request to drop names."""

    TABLE = "table"
    JOB = "job"
    DOMAIN = "domain"


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedTable:
    """A table that was dropped: a later table of its name is another one.

    :param csn: CSN of the commit that dropped it.
    :param token: highest token of the attempts at epochs of *jobs*: later attempts of these names have higher ones.
    :param jobs: the jobs that have written it. :param why: reason and author.
    :param deleted: True once a vacuum has deleted its files.
    """

    table: TableName
    kind: TableKind
    format: str
    csn: int
    token: int
    jobs: tuple[JobName, ...]
    why: str
    deleted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LeavingTable:
    """A table that is being dropped. :param ref: its last version; None if it had no commit."""

    table: TableName
    kind: TableKind
    format: str
    ref: TableRef | None
    jobs: tuple[JobName, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropping:
    """A drop that readers see already, and whose records and catalog entries are still being deleted.

    :param csn: CSN of its commit. :param sources: sources whose bounds go, as no other job declares them.
    :param token: as in :class:`DroppedTable`.
    """

    csn: int
    jobs: tuple[JobName, ...]
    tables: tuple[LeavingTable, ...]
    sources: tuple[str, ...]
    token: int
    why: str

    def has(self, job: JobName, tables: Iterable[TableName], sources: Iterable[str]) -> bool:
        """Return True if a declaration of *job* with these tables and sources has to wait for its end."""
        names = {leaving.table for leaving in self.tables}
        return job in self.jobs or not names.isdisjoint(tables) or not {*self.sources}.isdisjoint(sources)

    @property
    def dropped(self) -> tuple[DroppedTable, ...]:
        """What is remembered of its tables. One without a commit has no files to delete but staged ones."""
        return tuple(
            DroppedTable(
                table=leaving.table,
                kind=leaving.kind,
                format=leaving.format,
                csn=self.csn,
                token=self.token,
                jobs=leaving.jobs,
                why=self.why,
            )
            for leaving in self.tables
        )


def remembered(known: Iterable[DroppedTable], more: Iterable[DroppedTable]) -> tuple[DroppedTable, ...]:
    """Return *known* and *more*, without the oldest whose files are deleted where they are too many."""
    found = [*known, *more]
    surplus = len(found) - MOST_DROPPED
    old = [entry for entry in sorted(found, key=lambda entry: entry.csn) if entry.deleted][: max(surplus, 0)]
    return tuple(entry for entry in found if entry not in old)


def last_drop(dropped: Iterable[DroppedTable], table: str) -> int:
    """Return the CSN of the last drop of *table*; 0 if none is remembered."""
    return max((entry.csn for entry in dropped if entry.table == table), default=0)


def with_tables(
    asked: Collection[JobName], jobs: Mapping[JobName, JobRecord], tables: Mapping[TableName, TableRecord]
) -> tuple[set[JobName], set[TableName]]:
    """Return *asked* with all their tables, and with every other job that has, or had, one of these tables."""
    names, found = set(asked), set[TableName]()
    while True:
        found = {
            table
            for table, record in tables.items()
            if record.job in names or any(table in jobs[name].all_outputs for name in names if name in jobs)
        }
        more = {name for name, job in jobs.items() if not found.isdisjoint(job.all_outputs)}
        more |= {tables[table].job for table in found if tables[table].job in jobs}
        if more <= names:
            return names, found
        names |= more


def readers(
    jobs: Mapping[JobName, JobRecord], names: Collection[JobName], tables: Collection[TableName]
) -> list[JobName]:
    """Return the jobs beside *names* that read one of *tables*, or did: their commits name what they have read."""
    return sorted(
        name
        for name, job in jobs.items()
        if name not in names and any(edge.table in tables for edge in job.all_edges)
    )


def group_mates(
    jobs: Mapping[JobName, JobRecord], names: Collection[JobName], shown: Collection[JobName] = ()
) -> list[JobName]:
    """Return the jobs beside *names* whose commit group has one of them: it would wait for a job that is gone (R40).

    A retired job waits for none. :param shown: jobs that a drop under way takes, and may have retired itself.
    """
    return sorted(
        name
        for name, job in jobs.items()
        if name not in names
        and (not job.retired or name in shown)
        and job.group is not None
        and not set(names).isdisjoint(job.group.jobs)
    )


def own_sources(jobs: Mapping[JobName, JobRecord], names: Collection[JobName]) -> tuple[str, ...]:
    """Return the sources of *names* that no other job declares or has declared."""
    others = {source for name, job in jobs.items() if name not in names for source in job.all_sources}
    own = {source for name in names for source in jobs[name].all_sources}
    own |= {source.name for name in names for source in jobs[name].left_sources}
    return tuple(sorted(own - others))
