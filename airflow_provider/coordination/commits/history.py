"""The commit sequence of a domain, read backwards and forwards. Read-only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Stamped, commit_item
from airflow_provider.domain.version import CommitRecord, TableDelta
from airflow_provider.stores.base import MetadataReader, scan

_PAGE = 500


def commits_between(
    reader: MetadataReader, domain: DomainName, after: int, until: int
) -> Iterator[Stamped[CommitRecord]]:
    """Yield the commits whose CSN is greater than *after* and at most *until*, in order."""
    while after < until and (page := reader.changes(domain, after, limit=_PAGE)):
        for commit in page:
            after = commit.csn or after
            if after > until:
                return
            yield commit


def committed_at(reader: MetadataReader, domain: DomainName, epoch: Stamped[EpochRecord]) -> datetime:
    """Return the store's time of the commit of *epoch*, which is committed."""
    csn = epoch.record.committed_csn
    if csn is None:  # its record is as the commit has written it
        return epoch.at
    return next(commits_between(reader, domain, csn - 1, csn)).at


def last_change(
    reader: MetadataReader, domain: DomainName, table: TableName, csn: int
) -> tuple[int, TableDelta] | None:
    """Return the last commit up to *csn* that gave *table* a version, as its CSN and its entry; None without any.

    The time grows with the number of commits of the whole domain since then.
    """
    end: str | None = commit_item(csn + 1)
    while end is not None:
        found = scan(reader, domain, CommitRecord, end=end, limit=_PAGE, reverse=True)
        for commit in found:
            for delta in commit.record.tables:
                if delta.table == table:
                    return commit.csn or 0, delta
            if table in commit.record.dropped:
                return None
        end = found[-1].key.item if len(found) == _PAGE else None
    return None
