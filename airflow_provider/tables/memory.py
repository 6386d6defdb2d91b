"""Tables in the memory of one process: a real format, for tests, simulations and first steps.

Data and versions lie in the :class:`~airflow_provider.stores.memory.MemoryCatalog` of the store with the same
name, whose transaction moves their pointers. Reads no clock, draws no random numbers: simulations can be repeated.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

import pyarrow as pa

from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import ForeignCommit
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import Committable, Part, TableRef
from airflow_provider.stores.base import CatalogSwap
from airflow_provider.stores.memory import MemoryCatalog, memory_catalog
from airflow_provider.tables import checks, memory_versions, projection
from airflow_provider.tables.base import (
    MissingFile,
    Prepared,
    Projected,
    Publication,
    StagingFolder,
    StagingLocation,
    TableFormat,
    TableInfo,
    TaskWriter,
    WrittenFile,
)
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.columns import EPOCH_TYPE, refuse_difference, refuse_reserved
from airflow_provider.tables.evolving import new_schema
from airflow_provider.tables.locations import place_path, places_path, staging_folder_at, table_path
from airflow_provider.tables.memory_versions import Version, evolved_version, packed, projected, unpacked
from airflow_provider.tables.pointer_status import Compared, PointerStatus
from airflow_provider.tables.rows import fitted

NAMESPACE = uuid.UUID("5c3b6d5e-7a0f-4f2c-9d51-6a3a0f6f5e11")


class MemoryFormat(TableFormat):
    """Tables in the memory of this process.

    :param catalog: holds pointers, versions and rows.
    :param warehouse: prefix of all URIs.
    :param swaps: whether the store's transactions move the pointers; otherwise the pointers follow them (R17).
    """

    name = "memory"
    capabilities = frozenset({TableCapability.COLUMN_IDS})

    def __init__(
        self, catalog: MemoryCatalog, warehouse: str = "memory:///warehouse", *, swaps: bool = True
    ) -> None:
        self._catalog = catalog
        self._warehouse = warehouse
        self._swaps = swaps

    def describe(self, table: Table) -> TableInfo | None:
        pointer = self._catalog.pointer(table.domain, table.name)
        return None if pointer is None else self._info(table, pointer)

    def create(self, table: Table, schema: pa.Schema) -> TableInfo:
        wanted = new_schema(table, schema)
        pointer = self._catalog.pointer(table.domain, table.name)
        if pointer is None:
            refuse_reserved(table, wanted.names)
            pointer = self._catalog.create(table.domain, table.name, self._empty(table, wanted))
        info = self._info(table, pointer)
        refuse_difference(table, self.arrow_schema(info.schema), wanted)
        return info

    def replace(self, table: Table, unpublished: TableInfo, schema: pa.Schema) -> TableInfo:
        checks.refuse_published(unpublished)
        refuse_reserved(table, schema.names)
        before = self._version(unpublished.pointer)
        replaces = before.replaces | {before.table_uuid}
        empty = self._empty(table, new_schema(table, schema), replaces)
        self._catalog.move(table.domain, table.name, unpublished.pointer, empty)
        return self.create(table, schema)

    def register(self, table: Table, pointer: str) -> None:
        self._version(pointer)
        checks.refuse_elsewhere(table, pointer, self._catalog.create(table.domain, table.name, pointer))

    def rename_column(self, table: Table, old: str, new: str) -> CatalogSwap:
        """Return the swap that renames the column *old* to *new*; its id stays."""
        pointer = checks.existing(self.describe(table), table).pointer
        changed = memory_versions.renamed(pointer, self._version(pointer), old, new)
        target = self._keep(table, self._next_number(), changed)
        return CatalogSwap(table.domain, table.name, pointer, target)

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
        schema = self.arrow_schema(info.schema)
        epoch = pa.scalar(place.interval.end, EPOCH_TYPE)

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
            fits = (fitted(batch, schema, epoch, place.table.name) for batch in batches)
            kept = [batch for batch in fits if batch.num_rows]
            if kept:
                yield self._write(place, pa.Table.from_batches(kept, schema))

        return write

    def describe_output(
        self, place: StagingLocation, info: TableInfo, files: Sequence[WrittenFile]
    ) -> Committable:
        checks.refuse_foreign_files(place, files)
        parts = tuple(
            Part(uri=file.uri, size_bytes=file.size_bytes, files=1, rows=file.rows) for file in files
        )
        return checks.committable(self.name, place, info, files, parts, version=self._next_number())

    def verify(self, table: Table, output: Sequence[Committable]) -> None:
        for gone in self.missing(table, [], output):
            raise checks.lost_output(table, gone.uri)

    def prepare(self, publication: Publication) -> Prepared:
        table = publication.table
        pointer = self._head(publication)
        head = self._version(pointer)
        checks.refuse_other_table(publication, head.table_uuid)
        projection.refuse_head(publication, self._compared(table, pointer, publication.base))
        slices = self._slices(head, publication.base)
        if removed := {interval.end for interval in publication.removes}:
            slices = tuple((barrier, uri) for barrier, uri in slices if barrier not in removed)
        added = [(interval.end, part.uri) for interval, output in publication.adds for part in output.parts]
        number = self._next_number()
        if publication.changes:
            head = evolved_version(publication, head)
        version = replace(
            head,
            version=number,
            slices=(*slices, *added),
            shows=publication.shows,
            marks=checks.Marks.of(publication),
            earlier=memory_versions.followed(pointer, head),
            operation="overwrite" if removed else "append",
        )
        location = self._keep(table, number, version)
        ref = TableRef(
            format=self.name,
            table_uuid=head.table_uuid,
            version=number,
            location=location,
            schema_id=head.schema_id,
            metadata=location,
        )
        swap = CatalogSwap(table.domain, table.name, pointer, location) if self._swaps else None
        return Prepared(ref=ref, swap=swap, made_from=pointer, schema=head.schemas[head.schema_id])

    def _slices(self, head: Version, base: TableRef | None) -> tuple[tuple[datetime, str], ...]:
        """Return the slices under the next version; hidden ones from the base, as other programs replace shown ones."""
        if base is None or head.version == base.version:
            return head.slices
        return (*self._version(base.location).hidden, *head.slices)

    def published(self, publication: Publication, prepared: Prepared) -> None:
        if not self._swaps:
            projection.attempted(self, publication.table, prepared.ref)

    def compare(self, table: Table, recorded: TableRef | None) -> Compared:
        info = self.describe(table)
        if info is None and recorded is None:
            return Compared(status=PointerStatus.CURRENT, pointer="", version=0)
        return self._compared(table, checks.existing(info, table, recorded).pointer, recorded)

    def project(self, table: Table, recorded: TableRef) -> Projected:
        def move(pointer: str) -> bool:
            return self._catalog.move(table.domain, table.name, pointer, recorded.location)

        return projection.project(self, table, recorded, move)

    def restore(self, table: Table, recorded: TableRef) -> bool:
        def move(pointer: str) -> bool:
            return self._catalog.move(table.domain, table.name, pointer, recorded.location)

        return projection.restore(self, table, recorded, move)

    def forget(
        self, table: Table, recorded: TableRef | None, lasts: Callable[[], bool] = lambda: True
    ) -> bool:
        def remove(pointer: str) -> bool:
            return self._catalog.remove(table.domain, table.name, pointer)

        return projection.forget(self, table, recorded, remove, lasts)

    def _compared(self, table: Table, pointer: str, recorded: TableRef | None) -> Compared:
        pointed, base = self._description(pointer), 0 if recorded is None else recorded.version
        if recorded is not None and not self._swaps:
            wanted = self._description(recorded.location)
            if projection.lags(pointed, wanted):
                return projection.compare_unrelated(pointed, wanted, follows=True)
        if recorded is not None and pointed.table_uuid != recorded.table_uuid:
            raise checks.recreated(table, recorded.table_uuid, pointed.table_uuid)
        way = memory_versions.way(self._version, pointer, base)
        if way is None:
            wanted = self._description(pointer if recorded is None else recorded.location)
            return self._compare_unrelated(pointed, wanted)
        steps = memory_versions.steps(way)
        return projection.compare_descendant(
            table, pointed, steps, lambda: memory_versions.changed(way, self._catalog.objects)
        )

    def _compare_unrelated(self, pointed: projection.Description, wanted: projection.Description) -> Compared:
        if self._swaps:
            return projection.compare_unrelated(pointed, wanted, follows=False)
        versions = memory_versions.compaction(self._version, pointed.uri)
        under = versions[0].marks if len(versions) > 1 else None
        objects = self._catalog.objects
        return projection.overtaken(
            pointed, wanted, under, lambda: memory_versions.changed(versions, objects)
        )

    def commit_foreign(
        self, table: Table, operation: str, slices: Sequence[tuple[datetime, pa.Table]]
    ) -> CatalogSwap:
        """Return the swap of another program's commit of *slices*, which have the table's columns.

        :param operation: ``append`` keeps the shown slices, any other operation replaces them.
        """
        pointer = self._pointer(table)
        version, number = self._version(pointer), self._next_number()
        target = unpacked(version.schemas[version.schema_id])
        added = []
        for index, (barrier, rows) in enumerate(slices):
            uri = f"{self._warehouse}/{table_path(table.domain, table.name)}/data/foreign/{number}-{index}"
            self._catalog.objects[uri] = rows.select(target.names).cast(target)
            added.append((barrier, uri))
        changed = memory_versions.foreign(pointer, version, number, operation, added)
        return CatalogSwap(table.domain, table.name, pointer, self._keep(table, number, changed))

    def staged(self, table: Table, job: JobName) -> list[StagingFolder]:
        folder = f"{self._warehouse}/{places_path(table.domain, table.name, job)}/"
        uris = (uri.removeprefix(folder) for uri in list(self._catalog.objects) if uri.startswith(folder))
        named = (staging_folder_at(name) for name in sorted({uri.split("/")[0] for uri in uris}))
        return [remains for remains in named if remains is not None]

    def roll_back(self, place: StagingLocation) -> None:
        checks.refuse_other_place(
            place,
            self.place(
                place.table,
                job=place.job,
                interval=place.interval,
                revision=place.revision,
                token=place.token,
                participant=place.participant,
                participant_attempt=place.participant_attempt,
                by_end=place.by_end,
            ),
        )
        for uri in [uri for uri in self._catalog.objects if uri.startswith(place.uri)]:
            self._catalog.objects.pop(uri, None)

    def vacuum(self, table: Table, expired: Sequence[TableRef], kept: Sequence[TableRef]) -> list[str]:
        pointer = self._catalog.pointer(table.domain, table.name)
        staying = {ref.location for ref in kept} | ({pointer} if pointer is not None else set())
        needed = {uri for location in sorted(staying) for _, uri in self._version(location).slices}
        gone = [ref.location for ref in expired if ref.location not in staying]
        versions = [self._version(location) for location in gone if location in self._catalog.objects]
        files = {uri for version in versions for _, uri in version.slices} - needed
        wanted = (*sorted(files), *gone)
        return [uri for uri in wanted if self._catalog.objects.pop(uri, None) is not None]

    def missing(
        self,
        table: Table,  # noqa: ARG002 - names say all
        refs: Sequence[TableRef],
        staged: Sequence[Committable] = (),
    ) -> list[MissingFile]:
        named: dict[str, datetime | None] = {part.uri: None for output in staged for part in output.parts}
        for ref in refs:
            version = self._catalog.objects.get(ref.location)
            named[ref.location] = None
            named |= {uri: barrier for barrier, uri in version.slices} if isinstance(version, Version) else {}
        objects = self._catalog.objects
        return [MissingFile(uri=uri, barrier=barrier) for uri, barrier in named.items() if uri not in objects]

    def files(self, state: State) -> list[str]:
        committed = [] if state.ref is None else list(self._version(state.ref.location).slices)
        replaced = {output.interval.end for output in state.staged}
        staged = [
            (output.interval.end, part.uri) for output in state.staged for part in output.committable.parts
        ]
        slices = [(barrier, uri) for barrier, uri in committed if barrier not in replaced] + staged
        return [uri for barrier, uri in slices if state.has(barrier)]

    def shown_files(self, table: Table) -> list[str]:
        return [uri for _, uri in self._version(self._pointer(table)).shown]

    def is_shown(self, state: State) -> bool:
        if state.ref is None or state.staged:
            return False
        hidden = self._version(state.ref.location).hidden
        return not any(state.has(barrier) for barrier, _ in hidden)

    def read(self, state: State, schema: str, columns: Sequence[str] | None = None) -> pa.Table:
        target = self.arrow_schema(schema)
        tables = [projected(self._object(uri), target) for uri in self.files(state)]
        rows = pa.concat_tables(tables) if tables else target.empty_table()
        return rows if columns is None else rows.select(checks.known_columns(target, columns))

    def arrow_schema(self, schema: str) -> pa.Schema:
        return unpacked(schema)

    def _pointer(self, table: Table, recorded: TableRef | None = None) -> str:
        return checks.existing(self.describe(table), table, recorded).pointer

    def _head(self, publication: Publication) -> str:
        """Return the location of the head: the pointer, or the base if the pointer lags behind it."""
        base = publication.base
        if publication.pointed and base is not None:
            return base.location
        pointer = self._pointer(publication.table, base)
        if self._swaps or base is None or pointer == base.location:
            return pointer
        behind = projection.lags(self._description(pointer), self._description(base.location))
        return base.location if behind else pointer

    def _description(self, uri: str) -> projection.Description:
        version = self._version(uri)
        return projection.Description(
            uri=uri,
            table_uuid=version.table_uuid,
            version=version.version,
            marks=version.marks,
            earlier=frozenset(version.earlier),
            replaces=version.replaces,
        )

    def _empty(self, table: Table, columns: pa.Schema, replaces: frozenset[str] = frozenset()) -> str:
        number = self._next_number()
        location = f"{self._warehouse}/{table_path(table.domain, table.name)}"
        version = Version(
            table_uuid=str(uuid.uuid5(NAMESPACE, f"{location}#{number}")),
            version=0,
            schema_id=0,
            schemas=(packed(columns),),
            replaces=replaces,
        )
        return self._keep(table, number, version)

    def _info(self, table: Table, pointer: str) -> TableInfo:
        version = self._version(pointer)
        return TableInfo(
            name=table.name,
            domain=table.domain,
            table_uuid=version.table_uuid,
            schema_id=version.schema_id,
            schema=version.schemas[version.schema_id],
            version=version.version,
            pointer=pointer,
        )

    def _keep(self, table: Table, number: int, version: Version) -> str:
        uri = f"{self._warehouse}/{table_path(table.domain, table.name)}/metadata/{number:010d}"
        self._catalog.objects[uri] = version
        return uri

    def _write(self, place: StagingLocation, rows: pa.Table) -> WrittenFile:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        content = sink.getvalue()
        uri = f"{place.uri}{self._next_number():010d}"
        self._catalog.objects[uri] = rows
        return WrittenFile(
            uri=uri,
            size_bytes=content.size,
            rows=rows.num_rows,
            checksum=hashlib.blake2b(content, digest_size=16).hexdigest(),
            description="",
        )

    def _next_number(self) -> int:
        """Return the next number of a version or file: unique in the catalog, the same in each run."""
        counter: Iterator[int] = self._catalog.objects.setdefault("numbers", count(1))
        return next(counter)

    def _version(self, uri: str) -> Version:
        version = self._object(uri)
        if not isinstance(version, Version):
            raise ForeignCommit(f"{uri} is no version of a memory table.", uri=uri)
        return version

    def _object(self, uri: str) -> object:
        try:
            return self._catalog.objects[uri]
        except KeyError:
            raise checks.missing_file(uri) from None


def open_memory_format(name: str, *, swaps: bool) -> MemoryFormat:
    """Return the format of the memory tables whose pointers and rows are in the memory of the store *name*."""
    return MemoryFormat(memory_catalog(name), swaps=swaps)
