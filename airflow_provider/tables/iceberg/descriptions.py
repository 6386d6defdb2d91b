"""Descriptions of Iceberg tables: version, commit and origin of a metadata file."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from airflow_provider.tables import checks, projection
from airflow_provider.tables.iceberg.catalog import REPLACES


def marks_in(snapshot: Snapshot) -> checks.Marks | None:
    """Return the commit that *snapshot* carries; None for another program's snapshot."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    if "epochs.csn" not in said:
        return None
    return checks.Marks(
        domain=said.get("epochs.domain", ""),
        incarnation=said.get("epochs.incarnation", ""),
        csn=int(said["epochs.csn"]),
    )


def metadata_files(metadata: TableMetadata) -> set[str]:
    """Return the URIs of the earlier metadata files that *metadata* lists."""
    return {entry.metadata_file for entry in metadata.metadata_log}


def description(table: Table) -> projection.Description:
    """Return the description of *table*."""
    snapshot = table.metadata.current_snapshot()
    return projection.Description(
        uri=table.metadata_location,
        table_uuid=str(table.metadata.table_uuid),
        version=0 if snapshot is None else snapshot.snapshot_id,
        marks=None if snapshot is None else marks_in(snapshot),
        earlier=frozenset(metadata_files(table.metadata)),
        replaces=frozenset(table.properties.get(REPLACES, "").split()),
    )
