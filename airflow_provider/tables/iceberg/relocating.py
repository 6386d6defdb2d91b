"""Rewrite the copies of Iceberg's metadata files, lists and manifests, which name files by absolute URIs.

See docs/decisions/moving.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs as pafs
from pyiceberg.typedef import Record

from airflow_provider.domain.errors import Unavailable
from airflow_provider.tables import storage
from airflow_provider.tables.iceberg import avro
from airflow_provider.tables.relocating import Relocation

_AT_ONCE = 16
"""Number of files to rewrite concurrently: an object store takes some 40 ms for each."""
_MANIFEST, _MANIFEST_LENGTH = 500, 501
_NAMES = (_MANIFEST, 100, 143)
"""Ids of fields that hold URIs, by Iceberg's specification: manifest_path, file_path, referenced_data_file.

Partition values are left alone, even those that look like URIs.
"""


def relocate(names: Relocation) -> dict[str, int]:
    """See :meth:`~airflow_provider.tables.relocating.Relocatable.relocate`.

    Manifests come first, since lists hold their sizes; metadata files come last.
    """
    found, folder = storage.filesystem(names.new)
    infos = found.get_file_info(pafs.FileSelector(folder, recursive=True))
    paths = [info.path for info in infos if info.type is pafs.FileType.File]
    lists: list[str] = []
    sizes: dict[str, int] = {}

    def manifest(path: str) -> None:
        parts = _parts(found, path)
        if _MANIFEST in parts.paths:
            lists.append(path)
            return
        sizes[f"{names.new}{path.removeprefix(folder)}"] = _write_anew(found, path, parts, names)

    def manifest_list(path: str) -> None:
        parts = _parts(found, path)
        (where,), (length,) = parts.paths[_MANIFEST], parts.paths[_MANIFEST_LENGTH]
        for record in parts.records:
            record[length] = sizes.get(names.uri(record[where]), record[length])
        _write_anew(found, path, parts, names)

    def metadata(path: str) -> None:
        with _whole(path):
            before = json.loads(_content(found, path))
        after = names.within(before)
        if after != before:
            _replace(found, path, json.dumps(after).encode())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for step, chosen in (
            (manifest, [path for path in paths if path.endswith(".avro")]),
            (manifest_list, lists),
            (metadata, [path for path in paths if path.endswith(".metadata.json")]),
        ):
            list(pool.map(step, list(chosen)))
    return sizes


@contextmanager
def _whole(path: str) -> Iterator[None]:
    """:raises Unavailable: the file at *path* is damaged."""
    try:
        yield
    except ValueError as error:
        raise Unavailable(
            f"{path} is damaged: it was not copied whole ({error}).",
            next_step="copy it again from the former warehouse, then run the move again.",
            uri=path,
        ) from error


def _parts(found: pafs.FileSystem, path: str) -> avro.Parts:
    """:raises Unavailable: the file at *path* is damaged."""
    with _whole(path):
        return avro.taken_apart(_content(found, path))


def _write_anew(found: pafs.FileSystem, path: str, parts: avro.Parts, names: Relocation) -> int:
    """Rewrite a file whose records still name files in the old folder; return the file's size in bytes."""
    fields = [parts.paths[number] for number in _NAMES if number in parts.paths]
    changed = [_renamed(record, field, names) for record in parts.records for field in fields]
    if not any(changed):
        return parts.size_bytes
    content = avro.encoded(parts.form, parts.said, parts.records)
    _replace(found, path, content)
    return len(content)


def _renamed(record: Record, field: tuple[int, ...], names: Relocation) -> bool:
    """Relocate the URI in *field*; return whether it changed."""
    *outer, position = field
    for number in outer:
        record = record[number]
    before = record[position]
    if not isinstance(before, str) or (after := names.uri(before)) == before:
        return False
    record[position] = after
    return True


def _content(found: pafs.FileSystem, path: str) -> bytes:
    with found.open_input_stream(path) as stream:
        return bytes(stream.read())


def _replace(found: pafs.FileSystem, path: str, content: bytes) -> None:
    """Replace a file's content atomically."""
    if not isinstance(found, pafs.LocalFileSystem):
        with found.open_output_stream(path) as stream:
            stream.write(content)
        return
    beside = Path(f"{path}.moved")
    with beside.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)
