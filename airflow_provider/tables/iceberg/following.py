"""After a commit: move the pointers that follow the store, and delete the metadata files that are unused then (R17)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.topology import Table
from airflow_provider.tables import projection, storage
from airflow_provider.tables.base import Prepared, Publication, TableFormat
from airflow_provider.tables.iceberg.catalog import IcebergCatalog

log = logging.getLogger(__name__)


def follow(table_format: TableFormat, catalog: IcebergCatalog, table: Table, prepared: Prepared) -> bool:
    """Move the pointer to the version published just now; one request if it names what that was made from.

    Never raises: the commit stands, and the next touch moves the pointer.
    """
    try:
        if catalog.move(table, prepared.made_from, prepared.ref.metadata):
            return True
    except EpochError as error:
        projection.note_lag(table, error)
        return False
    return projection.attempted(table_format, table, prepared.ref) is not None


def follow_together(catalog: IcebergCatalog, published: Sequence[tuple[Publication, Prepared]]) -> bool:
    """Move all pointers of one commit by one request, and delete what is unused then.

    Return False if each must be moved alone: the catalog lacks such a request, or a pointer was not where it should be.
    Never raises: if the catalog does not answer, the next touch of each table moves its pointer.
    """
    if len(published) == 1:
        return False
    moves = [(made.table, version.made_from, version.ref.metadata) for made, version in published]
    try:
        moved = catalog.move_together(moves)
    except EpochError as error:
        for publication, _ in published:
            projection.note_lag(publication.table, error)
        return True
    if moved:
        for publication, prepared in published:
            tidy(publication, prepared)
    return moved


def tidy(publication: Publication, prepared: Prepared) -> None:
    """Delete metadata that no pointer names any more; never raises."""
    for uri in prepared.obsolete:
        try:
            storage.remove(*storage.filesystem(uri))
        except OSError as error:
            log.warning(
                "An old metadata file stays: %s (%s)", uri, error, extra={"table": publication.table.name}
            )
