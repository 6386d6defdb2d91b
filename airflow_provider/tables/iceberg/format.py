"""Iceberg behind the contract of a table format."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io import FileIO
from pyiceberg.table import Table as IcebergTable

from airflow_provider.domain.cut import State
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval, micros
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, Part, TableRef
from airflow_provider.tables import checks, projection, storage
from airflow_provider.tables.added_files import FileAddingFormat, FileScan, FilesToAdd
from airflow_provider.tables.base import (
    EPOCH_COLUMN,
    MissingFile,
    Prepared,
    Projected,
    Publication,
    StagingFolder,
    StagingLocation,
    TableInfo,
    TaskWriter,
    WrittenFile,
)
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.columns import refuse_difference, refuse_reserved
from airflow_provider.tables.cut_files import CutFile, CutFileFormat
from airflow_provider.tables.drafts import Draft, DraftingFormat
from airflow_provider.tables.evolving import new_schema
from airflow_provider.tables.filters import Filters
from airflow_provider.tables.iceberg import (
    added_files,
    bounds,
    cut_files,
    draft_output,
    drafts,
    evolution,
    files_to_add,
    following,
    foreign,
    manifest_files,
    manifests,
    missing,
    publishing,
    relocating,
    schemas,
    showing,
    vacuuming,
    verifying,
)
from airflow_provider.tables.iceberg.catalog import IcebergCatalog
from airflow_provider.tables.iceberg.catalogs.opening import open_catalog
from airflow_provider.tables.iceberg.compacting import CompactingIceberg
from airflow_provider.tables.iceberg.descriptions import description
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.tables.iceberg.reading import StateReader
from airflow_provider.tables.iceberg.remembering import Remembered
from airflow_provider.tables.iceberg.task_writer import IcebergTaskWriter
from airflow_provider.tables.locations import (
    checked_warehouse,
    place_path,
    places_path,
    staging_folder_at,
    table_path,
)
from airflow_provider.tables.pointer_status import Compared, PointerStatus
from airflow_provider.tables.relocating import Relocation
from airflow_provider.tables.statistics import SizedFiles, Statistics

log = logging.getLogger(__name__)


class IcebergFormat(DraftingFormat, FileAddingFormat, CutFileFormat, CompactingIceberg):
    """Iceberg tables in *warehouse*.

    :param catalog_url: URL of the catalog: SQLAlchemy's of a database, or that of a catalog outside.
    :param warehouse: absolute path or URI.
    :param swaps: whether the catalog is in the metadata store's database, whose transactions move the pointers;
        otherwise the pointers follow the store (R17).
    :raises InvalidInput: *catalog_url* or *warehouse* is invalid.
    """

    name = "iceberg"
    capabilities = frozenset(TableCapability)

    def __init__(self, catalog_url: str, warehouse: str, *, swaps: bool = True) -> None:
        self._warehouse = checked_warehouse(warehouse)
        self._io: FileIO = DurableFileIO()
        pointers = open_catalog(catalog_url, self._warehouse, makes_tables=not swaps)
        self._catalog = IcebergCatalog(self._io, pointers, self._warehouse)
        self._swaps = swaps
        self.moves_together = not swaps and pointers.moves_together
        self._lists = Remembered(self._io, manifest_files.read_list)
        self._reader = StateReader(self._io)

    def describe(self, table: Table) -> TableInfo | None:
        loaded = self._catalog.load(table)
        return None if loaded is None else _info(table, loaded)

    def identities(self, tables: Sequence[Table]) -> list[str | None]:
        loaded = self._catalog.load_all(tables)
        return [None if table is None else str(table.metadata.table_uuid) for table in loaded]

    def create(self, table: Table, schema: pa.Schema) -> TableInfo:
        return self._created(table, new_schema(table, schema))

    def _created(self, table: Table, wanted: pa.Schema) -> TableInfo:
        """Return the table, made with the columns *wanted* unless it exists.

        :raises SchemaMismatch: it exists with other columns or another layout.
        """
        loaded = self._catalog.load(table)
        if loaded is None:
            refuse_reserved(table, wanted.names)
            loaded = self._catalog.create(table, schemas.to_iceberg(wanted)) or self._existing(table)
        info = _info(table, loaded)
        refuse_difference(table, self.arrow_schema(info.schema), wanted, cause=info.altered)
        schemas.own_spec(table, loaded.metadata.specs(), loaded.metadata.schema())
        return info

    def register(self, table: Table, pointer: str) -> None:
        loaded = self._catalog.register(table, pointer) or self._existing(table)
        checks.refuse_elsewhere(table, pointer, loaded.metadata_location)

    def relocate(self, names: Relocation) -> Mapping[str, int]:
        with checks.translated(self._warehouse):
            return relocating.relocate(names)

    def replace(self, table: Table, unpublished: TableInfo, schema: pa.Schema) -> TableInfo:
        checks.refuse_published(unpublished)
        refuse_reserved(table, schema.names)
        loaded = self._existing(table)
        if loaded.metadata_location == unpublished.pointer:
            self._catalog.replace(table, schemas.to_iceberg(new_schema(table, schema)), loaded)
        return self.create(table, schema)

    def place(
        self,
        table: Table,
        *,
        job: JobName,
        interval: Interval,
        revision: int,
        token: int,
        participant: int = 0,
        participant_attempt: int = 0,
        by_end: bool = False,
    ) -> StagingLocation:
        path = place_path(
            table.domain,
            table.name,
            job=job,
            interval=interval,
            revision=revision,
            token=token,
            participant=participant,
            participant_attempt=participant_attempt,
            by_end=by_end,
        )
        return StagingLocation(
            table=table,
            job=job,
            interval=interval,
            revision=revision,
            token=token,
            participant=participant,
            participant_attempt=participant_attempt,
            by_end=by_end,
            uri=f"{self._warehouse}/{path}/",
        )

    def task_writer(self, place: StagingLocation, info: TableInfo) -> TaskWriter:
        return IcebergTaskWriter(
            table=place.table.name,
            place=place.uri,
            schema=self.arrow_schema(info.schema),
            barrier=micros(place.interval.end),
            partition_by=place.table.partition_by,
        )

    def describe_output(
        self, place: StagingLocation, info: TableInfo, files: Sequence[WrittenFile]
    ) -> Committable:
        checks.refuse_foreign_files(place, files)
        parts = self._staged_parts(place, info, files) if files else ()
        number = publishing.new_snapshot_id()
        return checks.committable(self.name, place, info, files, parts, version=number)

    def _staged_parts(
        self,
        place: StagingLocation,
        info: TableInfo,
        files: Sequence[WrittenFile],
        *,
        added: Mapping[str, int] | None = None,
    ) -> tuple[Part, ...]:
        metadata = self._existing(place.table).metadata
        schema = schemas.from_json(info.schema)
        spec = schemas.own_spec(place.table, metadata.specs(), schema)
        with checks.translated(self._warehouse):
            return manifests.write_staged(self._io, spec, schema, place.uri, files, added=added)

    def look_at(
        self,
        table: Table,
        files: Sequence[str] | FileScan,
        in_paths: Mapping[str, pa.DataType],
    ) -> FilesToAdd:
        folder = f"{self._warehouse}/{table_path(table.domain, table.name)}/"
        with checks.translated(self._warehouse):
            return files_to_add.look_at(table, files, in_paths, folder)

    def create_for(self, table: Table, files: FilesToAdd, *, keep: bool = False) -> TableInfo:
        wanted = added_files.columns_for(table, files)
        loaded = self._catalog.load(table)
        if loaded is not None and added_files.fits(loaded, files):
            return _info(table, loaded)
        if loaded is not None and not keep:
            refuse_reserved(table, wanted.names)
            self._catalog.replace(table, schemas.to_iceberg(wanted), loaded)
        return self._created(table, wanted)

    def describe_added(self, place: StagingLocation, info: TableInfo, files: FilesToAdd) -> Committable:
        table = self._existing(place.table)
        with checks.translated(self._warehouse):
            adding = added_files.Adding(io=self._io, place=place, info=info)
            found, names = adding.described(files, table.metadata)
        parts = self._staged_parts(place, info, found, added=names)
        number = publishing.new_snapshot_id()
        return checks.committable(self.name, place, info, found, parts, version=number)

    def shares(self, info: TableInfo, base: State) -> bool:
        with checks.translated(self._warehouse):
            return drafts.shares(self._io, schemas.from_json(info.schema), base)

    def open_draft(self, place: StagingLocation, info: TableInfo, base: State | None) -> Draft:
        table = self._existing(place.table)
        draft = Draft(
            place=place,
            info=info,
            table_uuid=str(uuid.uuid4()),
            warehouse=self._warehouse,
            path=(
                *place.uri.removeprefix(f"{self._warehouse}/").split("/")[:-1],
                f"draft-{uuid.uuid4().hex}",
            ),
            base=base,
        )
        with checks.translated(self._warehouse):
            drafts.make(self._io, draft, table)
        return draft

    def describe_draft(self, draft: Draft) -> Committable:
        table = self._existing(draft.place.table)
        with checks.translated(self._warehouse):
            return draft_output.describe(self._io, draft, table, self.name)

    def close_draft(self, draft: Draft, kept: Committable | None) -> None:
        try:
            with suppress(FileNotFoundError):
                draft_output.tidy(self._io, draft, kept)
        except OSError as error:
            log.warning("A draft stays: %s (%s)", draft.uri, error, extra={"table": draft.place.table.name})

    def verify(self, table: Table, output: Sequence[Committable]) -> None:
        with checks.translated(self._warehouse):
            verifying.verify(self._io, table, output)

    def prepare(self, publication: Publication) -> Prepared:
        table = self._pointed(publication)
        with checks.translated(self._warehouse):
            head = table if self._swaps else self._head(table, publication.table, publication.base)
            prepared, metadata = publishing.prepare(
                publication, head, self._lists, self.name, swaps=self._swaps
            )
            self._catalog.note(prepared.ref.metadata, metadata)
            return prepared

    def _pointed(self, publication: Publication) -> IcebergTable:
        """Return the table that the pointer names; without a query if the transaction requires the pointer anyway."""
        table, base = publication.table, publication.base
        if publication.pointed and base is not None:
            return self._catalog.named(table, base.metadata)
        return self._existing(table, base)

    def _head(self, pointed: IcebergTable, table: Table, base: TableRef | None) -> IcebergTable:
        """Return the head of the next version: the table at the pointer, or the base if the pointer lags behind it."""
        if base is None or base.metadata in ("", pointed.metadata_location):
            return pointed
        recorded = self._catalog.at(table, base.metadata)
        compared = foreign.compared(table, pointed, base, description(recorded))
        return recorded if compared.status is PointerStatus.BEHIND else pointed

    def _head_of(self, table: Table, base: TableRef) -> IcebergTable:
        pointed = self._existing(table, base)
        return pointed if self._swaps else self._head(pointed, table, base)

    def compare(self, table: Table, recorded: TableRef | None) -> Compared:
        loaded = self._catalog.load(table)
        if loaded is None and recorded is None:
            return Compared(status=PointerStatus.CURRENT, pointer="", version=0)
        pointed = checks.existing(loaded, table, recorded)
        described = None
        with checks.translated(self._warehouse):
            if (
                recorded is not None
                and not self._swaps
                and recorded.metadata not in ("", pointed.metadata_location)
            ):
                described = description(self._catalog.at(table, recorded.metadata))
            return foreign.compared(table, pointed, recorded, described)

    def project(self, table: Table, recorded: TableRef) -> Projected:
        return projection.project(self, table, recorded, self._catalog.mover(table, recorded.metadata))

    def restore(self, table: Table, recorded: TableRef) -> bool:
        return projection.restore(self, table, recorded, self._catalog.mover(table, recorded.metadata))

    def forget(
        self, table: Table, recorded: TableRef | None, lasts: Callable[[], bool] = lambda: True
    ) -> bool:
        def may_go() -> bool:
            return self._catalog.is_own(table) and lasts()

        return projection.forget(self, table, recorded, partial(self._catalog.remove, table), may_go)

    def published(self, publication: Publication, prepared: Prepared) -> None:
        if self._swaps or following.follow(self, self._catalog, publication.table, prepared):
            following.tidy(publication, prepared)
        # Else the pointer may still name an obsolete file: they all stay.

    def published_together(self, published: Sequence[tuple[Publication, Prepared]]) -> None:
        if self._swaps or not following.follow_together(self._catalog, published):
            super().published_together(published)

    def staged(self, table: Table, job: JobName) -> list[StagingFolder]:
        with checks.translated(self._warehouse):
            folders = storage.folders(f"{self._warehouse}/{places_path(table.domain, table.name, job)}")
        return [found for found in map(staging_folder_at, folders) if found is not None]

    def roll_back(self, place: StagingLocation) -> None:
        own = self.place(
            place.table,
            job=place.job,
            interval=place.interval,
            revision=place.revision,
            token=place.token,
            participant=place.participant,
            participant_attempt=place.participant_attempt,
            by_end=place.by_end,
        )
        checks.refuse_other_place(place, own)
        filesystem, path = storage.filesystem(place.uri.rstrip("/"))
        if isinstance(filesystem, pafs.LocalFileSystem):
            checks.refuse_outside(path, storage.filesystem(self._warehouse)[1])
        with checks.translated(self._warehouse), suppress(FileNotFoundError):
            storage.remove_folder(filesystem, path)

    def vacuum(self, table: Table, expired: Sequence[TableRef], kept: Sequence[TableRef]) -> list[str]:
        loaded = self._catalog.load(table)
        with checks.translated(self._warehouse):
            pinned = [] if loaded is None else vacuuming.pinned(self._io, loaded.metadata)
            staying = {*(ref.location for ref in kept), *pinned}
            return vacuuming.vacuum(
                self._io, [ref.location for ref in expired], staying, shared_by_epochs=table.kind.shares_files
            )

    def missing(
        self,
        table: Table,  # noqa: ARG002 - names say all
        refs: Sequence[TableRef],
        staged: Sequence[Committable] = (),
    ) -> list[MissingFile]:
        with checks.translated(self._warehouse):
            return missing.missing(self._io, [ref.location for ref in refs], staged)

    def files(self, state: State) -> list[str]:
        with checks.translated(self._warehouse):
            return self._reader.files(state)

    def sized(self, state: State, filters: Filters | None = None) -> SizedFiles:
        with checks.translated(self._warehouse):
            return self._reader.sized(state, filters)

    def shown_files(self, table: Table) -> list[str]:
        head = self._existing(table).metadata.current_snapshot()
        with checks.translated(self._warehouse):
            return [] if head is None else self._reader.all_files(head.manifest_list)

    def is_shown(self, state: State) -> bool:
        if state.ref is None or state.staged:
            return False
        with checks.translated(self._warehouse):
            return self._reader.lists_all(showing.shown_list(state.ref.location), state)

    def read(self, state: State, schema: str, columns: Sequence[str] | None = None) -> pa.Table:
        every = self.arrow_schema(schema)
        target = checks.chosen(every, columns)
        with checks.translated(self._warehouse):
            return self._reader.read(state, target, every.field(EPOCH_COLUMN))

    def scan(
        self, state: State, schema: str, columns: Sequence[str] | None = None, filters: Filters | None = None
    ) -> Iterator[pa.Table]:
        every = self.arrow_schema(schema)
        target = checks.chosen(every, columns)
        with checks.translated(self._warehouse):
            yield from self._reader.scan(state, target, every.field(EPOCH_COLUMN), filters)

    def cut_file(self, state: State, schema: str) -> CutFile:
        with checks.translated(self._warehouse):
            return cut_files.cut_file(self._io, state, schema)

    def statistics(self, state: State, schema: str) -> Statistics:
        with checks.translated(self._warehouse):
            epoch = self.arrow_schema(schema).field(EPOCH_COLUMN)
            return bounds.summed(self._reader.described(state, epoch), schemas.from_json(schema))

    def arrow_schema(self, schema: str) -> pa.Schema:
        return schemas.arrow_from_json(schema)

    def close(self) -> None:
        self._catalog.close()

    def _existing(self, table: Table, recorded: TableRef | None = None) -> IcebergTable:
        return checks.existing(self._catalog.load(table), table, recorded)


def _info(table: Table, loaded: IcebergTable) -> TableInfo:
    metadata = loaded.metadata
    return TableInfo(
        name=table.name,
        domain=table.domain,
        table_uuid=str(metadata.table_uuid),
        schema_id=metadata.current_schema_id,
        schema=schemas.to_json(metadata.schema()),
        version=metadata.current_snapshot_id or 0,
        pointer=loaded.metadata_location,
        altered=evolution.altered(metadata),
    )
