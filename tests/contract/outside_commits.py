"""Commits of another program to an Iceberg table, by pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.concurrent import ExecutorFactory


def commit_outside(
    table: Table, operation: str, slices: Sequence[pa.Table], *, root: str | None = None
) -> None:
    """Commit *slices* in one snapshot that calls itself *operation*.

    ``append`` keeps what is there, any other replaces all of it. (pyiceberg cannot say ``replace``, which is what a
    compaction by Iceberg's own programs says; so it is written into the new metadata file afterwards.) Local files are
    named with one slash, as those programs name them.

    :param root: what stands before the files' absolute paths instead.
    """
    with (
        _one_thread(),
        table.transaction() as transaction,
        transaction.update_snapshot().overwrite() as snapshot,
    ):
        if operation != "append":
            for task in table.scan().plan_files():
                snapshot.delete_data_file(task.file)
        for rows in slices:
            for file in _dataframe_to_data_files(transaction.table_metadata, rows, table.io):
                file[1] = file.file_path.replace("file:///", "file:/" if root is None else f"{root}/", 1)
                snapshot.append_data_file(file)
    _call_it(table, operation)


def add_plain_files(table: Table, slices: Sequence[pa.Table]) -> None:
    """Register one Parquet file for each of *slices*; the files know names only, and no column ids."""
    required = {field.name for field in table.schema().fields if field.required}
    uris = []
    for number, rows in enumerate(slices):
        fields = [pa.field(field.name, field.type, field.name not in required) for field in rows.schema]
        uris.append(f"{table.location()}/plain-{number}.parquet")
        with table.io.new_output(uris[-1]).create(overwrite=True) as written:
            pq.write_table(rows.cast(pa.schema(fields)), written)
    with _one_thread():
        table.add_files(uris)


def change_layout(table: Table, how: str) -> None:
    """Change the partition spec by which other programs write.

    :param how: ``added``: a field behind the epoch; ``replaced``: another field instead of it; ``back``: the epoch
        again instead of that; ``undone``: both, one after the other.
    """
    column = next(field.name for field in table.schema().fields if field.name != "_epoch")
    if how != "back":
        with table.update_spec() as update:
            update.add_field(column, IdentityTransform(), column)
            if how != "added":
                update.remove_field("_epoch")
    if how in {"back", "undone"}:
        with table.update_spec() as update:
            update.remove_field(column)
            update.add_field("_epoch", IdentityTransform(), "_epoch")


def upgrade(table: Table) -> str:
    """Return a metadata file of format version 3, which pyiceberg reads and does not write, of *table* as it is."""
    with table.io.new_input(table.metadata_location).open() as written:
        metadata = json.loads(written.read())
    metadata |= {"format-version": 3, "next-row-id": 1}
    upgraded = f"{table.metadata_location.rpartition('/')[0]}/00099-upgraded.metadata.json"
    with table.io.new_output(upgraded).create(overwrite=True) as file:
        file.write(json.dumps(metadata).encode())
    return upgraded


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let pyiceberg look at manifests one by one: its threads share an evaluator that remembers the last one."""
    with ThreadPoolExecutor(1) as alone, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExecutorFactory, "get_or_create", lambda: alone)
        yield


def _call_it(table: Table, operation: str) -> None:
    with table.io.new_input(table.metadata_location).open() as written:
        metadata = json.loads(written.read())
    (newest,) = (
        snapshot
        for snapshot in metadata["snapshots"]
        if snapshot["snapshot-id"] == metadata["current-snapshot-id"]
    )
    newest["summary"]["operation"] = operation
    with table.io.new_output(table.metadata_location).create(overwrite=True) as corrected:
        corrected.write(json.dumps(metadata).encode())
