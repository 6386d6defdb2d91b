"""Inputs and outputs of tasks for OpenLineage, where Airflow's provider for that is installed.

Without it nothing is read, kept or imported. What a task has read and written is noted while it runs, since the store
is open then; the events are made from that once it has ended.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.source_declarations import SourceKind
from airflow_provider.domain.topology import Job

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.epoch import EpochRecord, Provenance, Published
    from airflow_provider.domain.records import Key
    from airflow_provider.domain.version import SliceRecord, TableRef

log = logging.getLogger(__name__)

_PROVIDER = "airflow.providers.openlineage"
_IN_ONE_READ = 500
_MOST_EPOCHS = 100
"""Maximum number of epochs that a run facet lists, the newest ones: an event is one message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSeen:
    """A table that a task has read or written; without a version what its job declares.

    :param csn: of the newest commit of it that was read or written.
    :param rows, files, size_bytes: that were written; None for an input.
    """

    table: TableName
    csn: int | None = None
    ref: TableRef | None = None
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskLineage:
    """Inputs and outputs of one task. :param sources: locations of the files that it reads."""

    warehouse: str
    job: Job
    inputs: tuple[TableSeen, ...]
    outputs: tuple[TableSeen, ...] = ()
    sources: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()


class WithLineage:
    """Methods of an operator that Airflow's provider for OpenLineage calls when a task has ended."""

    task_lineage: TaskLineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage | None:  # noqa: ARG002
        """Return the tables that the task has read and written, with their versions and numbers of rows."""
        return None if self.task_lineage is None else _operator_lineage(self.task_lineage)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage | None:
        """Return what the task had published, and what its job declares to read."""
        return self.get_openlineage_facets_on_complete(task_instance)


@cache
def is_wanted() -> bool:
    """Return True if Airflow's provider for OpenLineage is installed; imports nothing of it."""
    return importlib.util.find_spec(_PROVIDER) is not None


def note_begin(task: WithLineage, service: EpochService, job: Job) -> None:
    """Note what *job* declares to read, for a task that fails before it has published."""
    if is_wanted():
        own = {table.name for table in job.outputs}
        declared = dict.fromkeys(edge.table for edge in job.edges if edge.table not in own)
        task.task_lineage = TaskLineage(
            warehouse=service.formats.warehouse,
            job=job,
            inputs=tuple(TableSeen(table=name) for name in declared),
            sources=tuple(source.location for source in job.sources if source.kind is SourceKind.FILES),
        )


def note_published(
    task: WithLineage, service: EpochService, job: Job, published: Sequence[Published]
) -> None:
    """Note what the commits of *published* have read and written. Never fails: they are published."""
    if not is_wanted() or not published:
        return
    try:
        note_begin(task, service, job)
        if task.task_lineage is not None:
            task.task_lineage = _seen(service, task.task_lineage, published)
    except EpochError as error:
        log.warning("The versions of inputs and outputs are not told to OpenLineage: %s", error)


def _seen(service: EpochService, declared: TaskLineage, published: Sequence[Published]) -> TaskLineage:
    from airflow_provider.domain.records import epoch_key, slice_key

    domain, job = declared.job.domain, declared.job
    epochs: dict[Key[EpochRecord], Published] = {
        epoch_key(domain, job.name, done.interval.start): done for done in published
    }
    slices: dict[Key[SliceRecord], tuple[TableName, Published]] = {
        slice_key(RevisionId(domain, done.job, done.interval, done.revision), table): (table, done)
        for done in published
        for table, _ in done.tables
    }
    inputs: dict[TableName, TableSeen] = {}
    outputs: dict[TableName, TableSeen] = {}
    reads_sources = False
    for key, record in _read(service, domain, epochs):
        committed = record.committed
        if committed is None or committed.revision != epochs[key].revision:
            # Computed again since: what this revision has read is not recorded any more.
            inputs = {seen.table: seen for seen in declared.inputs} | inputs
            reads_sources = True
            continue
        reads_sources = reads_sources or not committed.skipped
        for read in committed.inputs:
            inputs[read.table] = _later(inputs.get(read.table), read)
    for key, piece in _read(service, domain, slices):
        table, done = slices[key]
        outputs[table] = _more(outputs.get(table), table, done, piece)
    return replace(
        declared,
        inputs=tuple(inputs.values()),
        outputs=tuple(outputs.values()),
        sources=declared.sources if reads_sources else (),
        published=tuple(published),
    )


def _read(service: EpochService, domain: DomainName, keys: Iterable[Key[Any]]) -> Iterator[tuple[Any, Any]]:
    wanted = list(keys)
    for start in range(0, len(wanted), _IN_ONE_READ):
        page = wanted[start : start + _IN_ONE_READ]
        reading = service.store.read(domain, page)
        for key in page:
            stamped = reading.get(key)
            if stamped is not None:
                yield key, stamped.record


def _later(seen: TableSeen | None, read: Provenance) -> TableSeen:
    if seen is not None and seen.csn is not None and seen.csn >= read.csn:
        return seen
    return TableSeen(table=read.table, csn=read.csn, ref=read.ref)


def _more(seen: TableSeen | None, table: TableName, done: Published, piece: SliceRecord) -> TableSeen:
    """Return *seen* with what one epoch has added to *table*."""
    before = seen or TableSeen(table=table, csn=0, rows=0, files=0, size_bytes=0)
    is_newer = done.csn >= (before.csn or 0)
    return replace(
        before,
        csn=done.csn if is_newer else before.csn,
        ref=dict(done.tables).get(table) if is_newer else before.ref,
        rows=(before.rows or 0) + piece.rows,
        files=(before.files or 0) + piece.files,
        size_bytes=(before.size_bytes or 0) + piece.size_bytes,
    )


# --- OpenLineage's classes ------------------------------------------------------------------------------------------


def _operator_lineage(seen: TaskLineage) -> OperatorLineage:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    inputs = [
        InputDataset(**_dataset(seen, table.table), facets=_facets(seen, table)) for table in seen.inputs
    ]
    inputs += [InputDataset(**_place(location)) for location in map(_folder, seen.sources) if location]
    outputs = [
        OutputDataset(
            **_dataset(seen, table.table),
            facets=_facets(seen, table),
            outputFacets={
                "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                    rowCount=table.rows, fileCount=table.files, size=table.size_bytes
                )
            },
        )
        for table in seen.outputs
    ]
    newest = sorted(seen.published, key=lambda done: done.interval)[-_MOST_EPOCHS:]
    epochs = [
        {
            "start": done.interval.start.isoformat(),
            "end": done.interval.end.isoformat(),
            "revision": done.revision,
            "csn": done.csn,
        }
        for done in newest
    ]
    facet = _run_facet()(
        domain=str(seen.job.domain), job=str(seen.job.name), number=len(seen.published), epochs=epochs
    )
    return OperatorLineage(inputs=inputs, outputs=outputs, run_facets={"epochs": facet})


def _facets(seen: TaskLineage, table: TableSeen) -> dict[str, Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset, symlinks_dataset

    name = f"{seen.job.domain}.{table.table}"
    alias = symlinks_dataset.Identifier(namespace=seen.warehouse, name=name, type="TABLE")
    found: dict[str, Any] = {"symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[alias])}
    if table.ref is not None:
        found["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=str(table.ref.version)
        )
    if table.csn is not None:
        found["epochs"] = _dataset_facet()(domain=str(seen.job.domain), table=str(table.table), csn=table.csn)
    return found


@cache
def _dataset_facet() -> type[Any]:
    """Return the facet of a table at a commit: the newest CSN of it that was read or written."""
    from openlineage.client.facet_v2 import DatasetFacet

    return _facet("EpochsDatasetFacet", DatasetFacet, domain=str, table=str, csn=int)


@cache
def _run_facet() -> type[Any]:
    """Return the facet of the epochs that a task has published, or found published: their number, the newest ones."""
    from openlineage.client.facet_v2 import RunFacet

    return _facet("EpochsRunFacet", RunFacet, domain=str, job=str, number=int, epochs=list)


def _facet(name: str, base: type[Any], **fields: type[Any]) -> type[Any]:
    return attrs.make_class(
        name, {field: attrs.field(type=kind) for field, kind in fields.items()}, bases=(base,)
    )


def _dataset(seen: TaskLineage, table: TableName) -> dict[str, str]:
    from airflow_provider.tables.locations import table_path

    return _place(f"{seen.warehouse}/{table_path(seen.job.domain, table)}")


def _place(uri: str) -> dict[str, str]:
    """Return namespace and name of a place as OpenLineage names it, and as its Spark integration does."""
    found = urlsplit(uri)
    if found.scheme in ("", "file"):
        return {"namespace": "file", "name": found.path}
    return {"namespace": f"{found.scheme}://{found.netloc}", "name": found.path.strip("/") or "/"}


def _folder(location: str) -> str:
    """Return the folder below which all files of a source lie: its location up to the first part that varies."""
    fixed = location
    for mark in "{*?[":
        fixed = fixed.partition(mark)[0]
    return fixed.rpartition("/")[0]
