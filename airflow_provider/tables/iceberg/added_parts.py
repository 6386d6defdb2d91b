"""Files of other programs at publish: none counts twice, and their columns are still known by their names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pyiceberg.manifest import ManifestFile

from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.version import Part
from airflow_provider.tables.base import Publication
from airflow_provider.tables.iceberg import column_names, manifest_files, manifests, spans
from airflow_provider.tables.locations import plain_scheme


def of(publication: Publication) -> list[tuple[datetime, Part]]:
    """Return the parts of *publication* that are files of other programs, each with its barrier."""
    return [
        (interval.end, part)
        for interval, output in publication.adds
        for part in output.parts
        if manifests.added_columns(part) is not None
    ]


def refuse_wrong(
    publication: Publication, layout: manifests.Layout, head: Sequence[ManifestFile], table_uuid: str
) -> None:
    """Refuse files that the version would count twice, or whose columns have other names now.

    :param head: manifests of all slices of the head.
    :raises InvalidInput: another participant, or another epoch, has one of the files.
    :raises Unavailable: a column got another name since the files were described.
    """
    parts = of(publication)
    if not parts:
        return
    _refuse_other_names(publication, layout, [part for _, part in parts], table_uuid)
    seen: dict[str, datetime] = {}
    for barrier, part in parts:
        for entry in manifest_files.entries(layout.io, manifests.staged(part, 0)):
            uri = plain_scheme(entry.data_file.file_path)
            if uri in seen:
                raise _twice(publication, uri, seen[uri])
            seen[uri] = barrier
    if publication.table.kind.shares_files:
        return  # one state after the other may consist of the same files
    replaced = {micros(interval.end) for interval in publication.removes}
    for manifest in head:
        for entry in manifest_files.entries(layout.io, manifest):
            known = spans.span_of(entry.data_file)[1]
            uri = plain_scheme(entry.data_file.file_path)
            if uri in seen and known not in replaced:
                raise _twice(publication, uri, from_micros(known))


def _twice(publication: Publication, uri: str, barrier: datetime) -> InvalidInput:
    return InvalidInput(
        field="files",
        value=uri,
        expected=f"files that no other epoch of the table has, and no other participant; the epoch that ends at "
        f"{barrier.isoformat()} has it",
        next_step="add each file in one epoch, once.",
        table=publication.table.name,
    )


def _refuse_other_names(
    publication: Publication, layout: manifests.Layout, parts: Sequence[Part], table_uuid: str
) -> None:
    used = [columns for part in parts if (columns := manifests.added_columns(part))]
    if not used:
        return
    names = column_names.read_names(layout.io, layout.directory, table_uuid)
    for columns in used:
        if names is None or not column_names.agree(names, columns):
            raise Unavailable(
                f"columns of table {publication.table.name!r} got other names since files without column ids were "
                "described.",
                next_step="begin again: a new attempt describes them anew.",
                tables=(publication.table.name,),
            )
