"""Shipping of a table's writer and reader to Spark's workers by value: workers need pyarrow, not this package.

The writer runs as ``DataFrame.mapInArrow`` and yields rows that describe the files it wrote. Spark keeps the rows of
each task's one successful try, so that mapInArrow is the commit protocol: the driver never learns of files of failed
and speculative tries, hence never registers them (R4). No rename, no listing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyspark import cloudpickle

import airflow_provider
from airflow_provider.tables import parquet_files
from airflow_provider.tables.added_values import OWN, Added
from airflow_provider.tables.base import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider.tables.base import TaskWriter
    from airflow_provider.tables.partitioning import PartitionField

BatchFunction = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]

FILE_COLUMNS = "uri string, size_bytes bigint, rows bigint, checksum string, description string"
"""Columns of the rows that :func:`shipped` yields."""

_FIELDS = ("uri", "size_bytes", "rows", "checksum", "description")
_registering = threading.Lock()


def shipped(writer: TaskWriter, columns: Sequence[str]) -> BatchFunction:
    """Return *writer* as a function for ``mapInArrow`` with :data:`FILE_COLUMNS`.

    :param columns: names for the batches' columns, by position. The DataFrame's own columns are numbered, because
        mapInArrow cannot pass on a name with a dot or a backtick.
    """
    return _in_workers(partial(_describe, writer, list(columns), _FIELDS))


def shipped_reader(files: Sequence[str], target: pa.Schema, added: Sequence[Added]) -> BatchFunction:
    """Return a function for ``mapInArrow`` over a column of indices into *files*; it yields the rows of these files.

    :param target: columns that it yields, with their ids.
    :param added: for each file what it does not say of its rows; empty if all say all.
    """
    named = list(zip(files, added or [OWN] * len(files), strict=True))
    return _in_workers(partial(_read, parquet_files.batches, named, target))


def shipped_keys(field: PartitionField, column: int, key: str) -> BatchFunction:
    """Return a function for ``mapInArrow`` that adds the values of *field*, as whole numbers, as a column *key*.

    :param column: position of the column that they are computed from.
    """
    return _in_workers(partial(_keyed, field, column, key))


def _keyed(
    field: PartitionField, column: int, key: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(key, field.values(batch.column(column)).cast("int32"))


def _in_workers(function: BatchFunction) -> BatchFunction:
    payload = _by_value(function)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.cloudpickle import loads

        yield from loads(payload)(batches)

    return run


def _read(
    opened: Callable[[str, pa.Schema, Added], Iterator[pa.RecordBatch]],
    files: list[tuple[str, Added]],
    target: pa.Schema,
    indices: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in indices:
        for index in batch.column(0).to_pylist():
            uri, added = files[index]
            yield from opened(uri, target, added)


def written_files(rows: Iterable[Iterable[object]]) -> list[WrittenFile]:
    """Return the files that rows of :data:`FILE_COLUMNS` describe, sorted by URI."""
    files = [WrittenFile(**dict(zip(_FIELDS, row, strict=True))) for row in rows]  # type: ignore[arg-type]
    return sorted(files, key=lambda file: file.uri)


def _describe(
    writer: TaskWriter, columns: list[str], fields: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow  # noqa: ICN001  (on the worker)

    for file in writer(batch.rename_columns(columns) for batch in batches):
        yield pyarrow.RecordBatch.from_pydict({name: [getattr(file, name)] for name in fields})


def _by_value(function: Callable[..., object]) -> bytes:
    """Pickle *function* with all code of this package that it uses."""
    with (
        _registering
    ):  # the registration is one for the process, and the first thread to unregister would end it
        cloudpickle.register_pickle_by_value(airflow_provider)
        try:
            pickled: bytes = cloudpickle.dumps(function)
        finally:
            cloudpickle.unregister_pickle_by_value(airflow_provider)
    return pickled
