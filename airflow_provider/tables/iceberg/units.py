"""Unit files at commit: rows of many epochs come into one file, or go back into files of their own.

See docs/decisions/unit-files.md. Writing the rows is in :mod:`~airflow_provider.tables.iceberg.regrouping`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pyiceberg.manifest import DataFile, FileFormat, ManifestFile
from pyiceberg.table.metadata import TableMetadata

from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.interval import from_micros, micros
from airflow_provider.domain.version import HeldFile
from airflow_provider.tables.base import Publication
from airflow_provider.tables.compacting import Regrouped
from airflow_provider.tables.iceberg import changes, data_files, layouts, manifest_files, manifests, spans
from airflow_provider.tables.locations import is_own


def entries_within(
    layout: manifests.Layout, every: Iterable[ManifestFile], span: spans.Span
) -> Iterator[tuple[int, DataFile]]:
    """Yield the files of the manifests *every* with epochs within *span*, each with the number of its spec."""
    for manifest in every:
        bounds = manifests.epochs_of(manifest)
        if bounds is None or _meet(bounds, span):
            for entry in manifest_files.entries(layout.io, manifest):
                if _meet(spans.span_of(entry.data_file), span):
                    yield manifest.partition_spec_id, entry.data_file


def held(metadata: TableMetadata, file: DataFile, spec_id: int, directory: str) -> HeldFile:
    """Describe *file* of the partition spec *spec_id*. :param directory: URI of the table's metadata folder."""
    low, high = spans.span_of(file)
    layout, obstacle, way_out = spec_id, "", ""
    if spec_id in layouts.strange_specs(metadata):
        obstacle = layouts.strange_files(metadata.specs()[spec_id])
    elif low != high:
        found = layouts.spec_of_single_epochs(metadata, spec_id)
        layout = spec_id if found is None else found
        obstacle = "" if found is not None else "files of many epochs whose layout for one epoch is gone"
    if not is_own(file.file_path, f"{directory}/"):
        obstacle = f"files of another program, which were added: {file.file_path}"
        way_out = "let Spark rewrite them (rewrite_data_files with rewrite-all), then `airflow epochs compact` again"
    elif file.file_format is not FileFormat.PARQUET:
        obstacle = f"files that are not Parquet: {file.file_path}"
    return HeldFile(
        uri=file.file_path,
        low=from_micros(low),
        high=from_micros(high),
        rows=file.record_count,
        size_bytes=file.file_size_in_bytes,
        partition=repr([file.partition[index] for index in range(1, len(file.partition))]),
        layout=layout,
        obstacle=obstacle,
        way_out=way_out,
    )


# --- publishing ----------------------------------------------------------------------------------------------


def refuse_within(publication: Publication, layout: manifests.Layout, kept: Sequence[ManifestFile]) -> None:
    """Refuse a slice whose epoch ends within a unit: files of other epochs would come between those of the unit.

    :raises Unavailable: names the unit file.
    """
    barriers = [micros(interval.end) for interval, _ in publication.adds]
    for manifest in kept if barriers else ():
        bounds = manifests.epochs_of(manifest)
        if bounds is not None and (
            spans.of_manifest(manifest.manifest_path) is None or not _has_any(bounds, barriers)
        ):
            continue
        for entry in manifest_files.entries(layout.io, manifest):
            if spans.is_unit(entry.data_file) and _has_any(spans.span_of(entry.data_file), barriers):
                raise spans.in_unit(entry.data_file)


def without_files(
    layout: manifests.Layout, listed: Iterable[ManifestFile], regroups: Regrouped, snapshot_id: int
) -> Iterator[ManifestFile]:
    """Yield the manifests *listed* without the files that *regroups* replaces.

    :raises Unavailable: one of the files has left already, another file has an epoch between theirs, or the table has
        other columns than they were written with.
    """
    if layout.schema.schema_id != regroups.schema_id:
        raise _overtaken("the table's columns have changed", regroups.replaces[0])
    left, span = set(regroups.replaces), (micros(regroups.low), micros(regroups.high))
    for manifest in listed:
        bounds = manifests.epochs_of(manifest)
        if bounds is not None and not _meet(bounds, span):
            yield manifest
            continue
        live = manifest_files.entries(layout.io, manifest)
        kept = [entry for entry in live if entry.data_file.file_path not in regroups.replaces]
        for entry in kept:
            is_new = entry.data_file.file_path not in regroups.beside
            if is_new and _meet(spans.span_of(entry.data_file), span):
                raise _overtaken("another file came to the table", entry.data_file.file_path)
        left -= {entry.data_file.file_path for entry in live}
        if len(kept) == len(live):
            yield manifest
        elif kept:
            yield manifests.rewritten(layout, manifest.partition_spec_id, kept, snapshot_id)
    if left:
        raise _overtaken("a file left the table", min(left))


def added(layout: manifests.Layout, regroups: Regrouped, snapshot_id: int) -> Iterator[ManifestFile]:
    """Write the manifests that add the new files of *regroups*."""
    single = layout.specs[regroups.spec_id]
    unit = layouts.unit_spec(layout.specs, single)
    by_kind: defaultdict[bool, list[DataFile]] = defaultdict(list)
    for (low, high), written in regroups.files:
        spec = single if low == high else unit
        types = data_files.partition_types(spec, layout.schema)
        by_kind[low < high].append(data_files.data_file(written, spec.spec_id, types))
    for of_units, files in by_kind.items():
        spec = unit if of_units else single
        for start in range(0, len(files), manifests.MOST_COPIED_FILES):
            some = files[start : start + manifests.MOST_COPIED_FILES]
            uri = layout.new_uri(snapshot_id, some)
            yield manifests.write_added(layout.io, spec, layout.schema, uri, some, snapshot_id=snapshot_id)


def are_same_rows(regroups: Regrouped, changed: changes.Changes) -> bool:
    """Return whether a version shows the rows of the head, in other files: nothing but *regroups* comes or leaves."""
    return not changed.coming.files and not changed.lost and changed.leaving.files == len(regroups.replaces)


def _meet(one: spans.Span, other: spans.Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _has_any(span: spans.Span, barriers: Iterable[int]) -> bool:
    return any(span[0] <= barrier <= span[1] for barrier in barriers)


def _overtaken(what: str, uri: str) -> Unavailable:
    return Unavailable(
        f"{what} while its rows were compacted: {uri}.", next_step="run the command again.", uri=uri
    )
