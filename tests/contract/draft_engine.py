"""Writes drafts through pyiceberg, as Iceberg's Hadoop catalog keeps tables: statements without a JVM."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import In
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, write_manifest_list
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from airflow_provider.tables.drafts import Draft
from airflow_provider.tables.iceberg import manifest_files
from airflow_provider.tables.iceberg.file_io import DurableFileIO
from airflow_provider.testing.table_cases.drafting import Engine


class DirectoryCatalog(NoopCatalog):
    """One table, whose newest metadata file has the highest number."""

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        for requirement in requirements:
            requirement.validate(table.metadata)
        changed = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        directory, name = table.metadata_location.rsplit("/", 1)
        location = f"{directory}/v{int(name[1:].partition('.')[0]) + 1}.metadata.json"
        ToOutputFile.table_metadata(changed, table.io.new_output(location))
        return CommitTableResponse.model_validate({"metadata": changed, "metadata-location": location})


class PyicebergEngine(Engine):
    """Statements of the contract on a draft that lies in a local folder."""

    def insert(self, draft: Draft, rows: pa.RecordBatch) -> None:
        table = opened(draft)
        table.append(pa.Table.from_batches([rows]).cast(table.schema().as_arrow()))

    def delete(self, draft: Draft, ids: Iterable[int]) -> None:
        if wanted := sorted(ids):
            opened(draft).delete(In("id", wanted))

    def files_below(self, uri: str) -> list[str]:
        return [f"file://{path}" for path in sorted(folder_of(uri).rglob("*")) if path.is_file()]

    def misuse(self, draft: Draft, name: str) -> None:
        _MISUSES[name](draft)


def folder_of(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def opened(draft: Draft) -> Table:
    metadata = folder_of(draft.uri) / "metadata"
    newest = max(metadata.glob("v*.metadata.json"), key=lambda file: int(file.name[1:].partition(".")[0]))
    io, location = DurableFileIO(), f"file://{newest}"
    found = FromInputFile.table_metadata(io.new_input(location))
    return Table(("draft",), found, location, io, DirectoryCatalog("drafts"))


def drop(draft: Draft) -> None:
    shutil.rmtree(folder_of(draft.uri))


def recreate(draft: Draft) -> None:
    table = opened(draft)
    location = f"{draft.uri}/metadata/v99.metadata.json"
    other = table.metadata.model_copy(update={"table_uuid": uuid.uuid4()})
    ToOutputFile.table_metadata(other, table.io.new_output(location))


def branch(draft: Draft) -> None:
    table = opened(draft)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "audit").commit()


def hold_back(draft: Draft) -> None:
    """As Spark does for a table with ``write.wap.enabled`` in a session with ``spark.wap.id``."""
    table = opened(draft)
    rows = pa.table({"id": [5], "label": ["held"]})
    table.append(rows.cast(table.schema().as_arrow()), snapshot_properties={"wap.id": "7"})


def add_foreign_file(draft: Draft) -> None:
    table = opened(draft)
    path = folder_of(draft.uri).parent / "foreign.parquet"
    pq.write_table(pa.table({"id": [5], "label": ["foreign"]}), path)
    table.add_files([f"file://{path}"])


def add_column(draft: Draft) -> None:
    with opened(draft).update_schema() as update:
        update.add_column("more", StringType())


def replace_column(draft: Draft) -> None:
    with opened(draft).update_schema() as update:
        update.delete_column("label")
    with opened(draft).update_schema() as update:
        update.add_column("label", StringType())


def partition_anew(draft: Draft) -> None:
    with opened(draft).update_spec() as update:
        update.add_identity("label")
    opened(draft).append(pa.table({"id": [6], "label": ["x"]}).cast(opened(draft).schema().as_arrow()))


def write_without_statistics(draft: Draft) -> None:
    with opened(draft).transaction() as changed:
        changed.set_properties({"write.metadata.metrics.default": "none"})
    opened(draft).append(pa.table({"id": [7], "label": ["x"]}).cast(opened(draft).schema().as_arrow()))


def delete_beside_files(draft: Draft) -> None:
    """As Spark does for a table with ``write.delete.mode=merge-on-read``: one of its manifests is of deletes."""
    snapshot = opened(draft).current_snapshot()
    assert snapshot is not None
    io = DurableFileIO()
    listed = manifest_files.read_list(io, snapshot.manifest_list)
    deletes = manifest_files.read_list(io, snapshot.manifest_list)[0]
    deletes[3] = ManifestContent.DELETES
    folder_of(snapshot.manifest_list).unlink()
    with write_manifest_list(
        2, io.new_output(snapshot.manifest_list), snapshot.snapshot_id, None, 1, "null"
    ) as found:
        found.add_manifests([*listed, deletes])


def add_file_of_another_format(draft: Draft) -> None:
    """As Spark does for a table with ``write.format.default=orc``."""
    table, path = opened(draft), f"{draft.uri}/data/x.orc"
    folder_of(path).parent.mkdir(exist_ok=True)
    folder_of(path).write_bytes(b"ORC")
    counts = dict.fromkeys(table.schema().field_ids, 1)
    with table.transaction() as changed, changed.update_snapshot().fast_append() as appending:
        appending.append_data_file(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=path,
                file_format=FileFormat.ORC,
                partition=Record(),
                record_count=1,
                file_size_in_bytes=3,
                value_counts=counts,
                null_value_counts=counts,
            )
        )


_MISUSES: dict[str, Callable[[Draft], None]] = {
    "drop": drop,
    "drop and create": recreate,
    "another branch": branch,
    "rows held back": hold_back,
    "a file of others": add_foreign_file,
    "another column": add_column,
    "another column of that name": replace_column,
    "another layout": partition_anew,
    "files without statistics": write_without_statistics,
    "deletes beside files": delete_beside_files,
    "a file that is not Parquet": add_file_of_another_format,
}
