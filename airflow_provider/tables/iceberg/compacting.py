"""Compaction of Iceberg tables: the files of a head, and their rows in other files (docs/decisions/unit-files.md)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

import pyarrow.fs as pafs
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table as IcebergTable

from airflow_provider.domain.interval import micros
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import HeldFile, TableRef
from airflow_provider.tables import checks, projection, storage
from airflow_provider.tables.compacting import CompactingFormat, Group, Regrouped
from airflow_provider.tables.iceberg import foreign, manifests, publishing, regrouping, schemas, units
from airflow_provider.tables.locations import table_path
from airflow_provider.tables.pointer_status import PointerStatus


class CompactingIceberg(CompactingFormat):
    """The part of Iceberg's format that compacts."""

    _warehouse: str
    _lists: publishing.Lists

    @abstractmethod
    def _head_of(self, table: Table, base: TableRef) -> IcebergTable:
        """Return the head of the next version on top of *base*."""

    def held(self, table: Table, base: TableRef, low: datetime, high: datetime) -> list[HeldFile]:
        with checks.translated(self._warehouse):
            head, layout, every = self._slices(table, base)
            found = units.entries_within(layout, every, (micros(low), micros(high)))
            files = [units.held(head.metadata, file, number, layout.directory) for number, file in found]
        return sorted(files, key=lambda file: (file.low, file.high, file.uri))

    def unit_place(self, table: Table, name: str) -> str:
        return f"{self._warehouse}/{table_path(table.domain, table.name)}/units/{name}/"

    def regroup(
        self, table: Table, base: TableRef, files: Sequence[HeldFile], groups: Sequence[Group], place: str
    ) -> Regrouped:
        wanted = {file.uri for file in files}
        low, high = min(file.low for file in files), max(file.high for file in files)
        with checks.translated(self._warehouse):
            head, layout, every = self._slices(table, base)
            found = units.entries_within(layout, every, (micros(low), micros(high)))
            writer = regrouping.Regrouping(
                table=table.name,
                place=place,
                schema=schemas.to_arrow(head.metadata.schema()),
                files=[file for _, file in found if file.file_path in wanted],
                groups=[(micros(least), micros(greatest)) for least, greatest in groups],
            )
            written = tuple(writer.written())
        return Regrouped(
            replaces=tuple(sorted(wanted)),
            files=written,
            low=low,
            high=high,
            spec_id=files[0].layout,
            schema_id=head.metadata.current_schema_id,
            rows=sum(file.rows for _, file in written),
        )

    def discard(self, place: str) -> None:
        filesystem, path = storage.filesystem(place.rstrip("/"))
        if isinstance(filesystem, pafs.LocalFileSystem):
            checks.refuse_outside(path, storage.filesystem(self._warehouse)[1])
        with checks.translated(self._warehouse), suppress(FileNotFoundError):
            storage.remove_folder(filesystem, path)

    def _slices(
        self, table: Table, base: TableRef
    ) -> tuple[IcebergTable, manifests.Layout, list[ManifestFile]]:
        """Return the head of the next version, and the manifests of all of its slices.

        :raises ForeignCommit: another program has changed rows.
        """
        head = self._head_of(table, base)
        metadata = head.metadata
        if metadata.current_snapshot_id != base.version:
            found = foreign.compared(table, head, base, None)
            if found.status not in {PointerStatus.CURRENT, PointerStatus.COMPACTED}:
                raise projection.foreign_commit(table, base, found)
        shown = metadata.current_snapshot()
        listed = [] if shown is None else manifests.live(self._lists(shown.manifest_list))
        every = publishing.slices(base, metadata, listed, self._lists)
        return head, publishing.layout_of(head, metadata), manifests.live(every)
