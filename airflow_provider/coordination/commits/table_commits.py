"""Commits of one table without an epoch: expiry of a slice, adoption of another program's rows, column changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider.domain.columns import AppliedChange
from airflow_provider.domain.cut import newest_version
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.errors import ForeignCommit, Unavailable
from airflow_provider.domain.identifiers import ChangeSetId
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Stamped, schema_key
from airflow_provider.domain.version import CommitRecord, SchemaRecord, TableDelta, TableRecord
from airflow_provider.stores.base import Exists, MetadataReader, Number, Put, RequirementFailed
from airflow_provider.tables.base import Prepared, Publication, TablesAhead
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
        now = reader.read(stamped.key.domain, [stamped.key]).records[stamped.key]
        if now.version == stamped.version:  # no publish was faster, so the error stands
            raise
        raise RequirementFailed.of(Exists(stamped.key, stamped.version), now.version) from error


def table_commit(
    stamped: Stamped[TableRecord],
    interval: Interval,
    publication: Publication,
    prepared: Prepared,
    *,
    by: str,
    defaults: Defaults,
    expired: Interval | None = None,
) -> tuple[list[Any], Number]:
    """Return updates and number of the commit, without members, that makes a prepared version the table's newest.

    :param interval: the time whose rows it changes. :param expired: the table's new hull of expired ranges,
        if it grows.
    """
    record, name, ref = stamped.record, publication.table.name, prepared.ref
    before = (newest_version(stamped), *record.earlier)[: defaults.states_remembered]
    schema = None if record.ref is None else record.ref.schema_id
    changes = (*record.changes, *(AppliedChange(change, schema) for change in publication.changes))
    moved = replace(record, ref=ref, earlier=before, heard=record.heard or stamped.at, changes=changes)
    if expired is not None:
        moved = replace(moved, expired=expired)
    updates: list[Any] = [Put(stamped.key, moved)]
    if prepared.swap is not None:
        updates.append(prepared.swap)
    base = publication.base
    if base is None or (base.table_uuid, base.schema_id) != (ref.table_uuid, ref.schema_id):
        key = schema_key(stamped.key.domain, name, ref.table_uuid, ref.schema_id)
        updates.append(Put(key, SchemaRecord(schema=prepared.schema)))
    delta = TableDelta(
        table=name,
        interval=interval,
        revision=0,
        watermark=record.progress.watermark,
        ref=ref.lasting(),
        rows=0,
    )
    commit = CommitRecord(change_set=publication.change_set, members=(), by=by, tables=(delta,))
    return updates, Number(commit, expected=publication.csn)


def hull_commit(
    stamped: Stamped[TableRecord], expired: Interval, *, defaults: Defaults
) -> tuple[Put, Number]:
    """Return update and number of the commit that tells readers of the table's hull; it changes no row."""
    record = stamped.record
    before = (newest_version(stamped), *record.earlier)[: defaults.states_remembered]
    moved = replace(record, expired=expired, earlier=before, heard=record.heard or stamped.at)
    name = ChangeSetId(f"{stamped.key.item}@{time_key(expired.end)}#expired")
    commit = CommitRecord(change_set=name, members=(), by="retention", tables=())
    return Put(stamped.key, moved), Number(commit)
