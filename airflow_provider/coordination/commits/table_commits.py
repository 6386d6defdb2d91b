"""Commits of one table without an epoch: expiry of a slice, adoption of another program's rows, column changes."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.domain.errors import ForeignCommit, Unavailable
from airflow_provider.domain.identifiers import ChangeSetId
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import Exists, MetadataReader, RequirementFailed, Transaction
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.errors import TablesAhead
from airflow_provider.tables.factory import TableFormats

ADOPTED_BY = "another program"
"""Author of a commit that adopts another program's rows; no slice records them."""


def prepared_or_moved(
    reader: MetadataReader, formats: TableFormats, publication: Publication, stamped: Stamped[TableRecord]
) -> Prepared:
    """Prepare *publication*, which was decided on *stamped*.

    :raises RequirementFailed: a publish moved the table since it was read.
    """
    try:
        return formats[publication.table.format].prepare(publication)
    except (ForeignCommit, TablesAhead, Unavailable) as error:
        now = reader.read(stamped.key.domain, [stamped.key]).of(stamped.key)
        if now.version == stamped.version:  # no publish was faster, so the error stands
            raise
        raise RequirementFailed.of(Exists(stamped.key, stamped.version), now.version) from error


def written_out(stamped: Stamped[TableRecord]) -> TableRecord:
    """Return the table's record with the time of its job's last epoch commit: the next commit replaces the stamp that
    was it.
    """
    return replace(stamped.record, heard=stamped.record.heard or stamped.at)


def told_hull(
    commit: CommitBuilder, stamped: Stamped[TableRecord] | None, hull: Interval | None
) -> Transaction:
    """Return the transaction of *commit*, which tells readers of the table's new *hull*, if there is one."""
    if stamped is None or hull is None:
        return commit.unnumbered()
    commit.move(stamped, replace(written_out(stamped), expired=hull))
    # No row changes, and nothing names the CSN: a publish in between need not make it start again.
    return commit.transaction(expiry(stamped.key.item, hull), by="retention", any_csn=True)


def expiry(table: str, expired: Interval) -> ChangeSetId:
    """Return the name of the commit by which *expired* leaves *table*."""
    return ChangeSetId(f"{table}@{time_key(expired.end)}#expired")
