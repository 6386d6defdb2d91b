"""Iceberg's metadata files, lists and manifests name files by whole URIs: written anew where a copy of them lies."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.fs as pafs
from pyiceberg.typedef import Record

from airflow_provider.tables import storage
from airflow_provider.tables.iceberg import avro
from airflow_provider.tables.relocating import Relocation

_AT_ONCE = 16
"""An object store takes some 40 ms for each file."""
_MANIFEST, _MANIFEST_LENGTH = 500, 501
_NAMES = (_MANIFEST, 100, 143)
"""Fields that hold URIs, by Iceberg's specification: a list's manifest, an entry's file, the file that deletes are of.

No partition's value is one of them, whatever it looks like.
"""


def relocate(names: Relocation) -> dict[str, int]:
    """See :meth:`~airflow_provider.tables.relocating.Relocatable.relocate`.

    Manifests first: lists have their sizes. Metadata last.
    """
    found, folder = storage.filesystem(names.new)
    infos = found.get_file_info(pafs.FileSelector(folder, recursive=True))
    paths = [one.path for one in infos if one.type is pafs.FileType.File]
    lists: list[str] = []
    sizes: dict[str, int] = {}

    def manifest(path: str) -> None:
        parts = avro.taken_apart(_content(found, path))
        if _MANIFEST in parts.paths:
            lists.append(path)
            return
        sizes[f"{names.new}{path.removeprefix(folder)}"] = _write_anew(found, path, parts, names)

    def manifest_list(path: str) -> None:
        parts = avro.taken_apart(_content(found, path))
        (where,), (length,) = parts.paths[_MANIFEST], parts.paths[_MANIFEST_LENGTH]
        for record in parts.records:
            record[length] = sizes.get(names.uri(record[where]), record[length])
        _write_anew(found, path, parts, names)

    def metadata(path: str) -> None:
        before = json.loads(_content(found, path))
        after = names.within(before)
        if after != before:
            _replace(found, path, json.dumps(after).encode())

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for step, chosen in (
            (manifest, [one for one in paths if one.endswith(".avro")]),
            (manifest_list, lists),
            (metadata, [one for one in paths if one.endswith(".metadata.json")]),
        ):
            list(pool.map(step, list(chosen)))
    return sizes


def _write_anew(found: pafs.FileSystem, path: str, parts: avro.Parts, names: Relocation) -> int:
    """Write a file whose records name others as *names* has them, where they do not yet; return its size."""
    fields = [parts.paths[number] for number in _NAMES if number in parts.paths]
    changed = [_renamed(record, field, names) for record in parts.records for field in fields]
    if not any(changed):
        return parts.size_bytes
    content = avro.encoded(parts.form, parts.said, parts.records)
    _replace(found, path, content)
    return len(content)


def _renamed(record: Record, field: tuple[int, ...], names: Relocation) -> bool:
    """Change the text in *field*; return whether it was another."""
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
    """Put *content* in the place of a file, whole or not at all."""
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
