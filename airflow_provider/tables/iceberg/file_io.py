"""pyiceberg's file access, made durable: files that a pointer names must survive a crash of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from airflow_provider.tables import storage


class DurableFileIO(PyArrowFileIO):
    """Files by URI, read through Arrow; a new file on a local disk is synced before it counts as written.

    Object stores are opened by the process's environment (:mod:`airflow_provider.tables.storage`).
    """

    def new_output(self, location: str) -> PyArrowFile:
        """Return a file to create: Iceberg's metadata is never overwritten."""
        return (
            _NewFile(location) if location.startswith(("file://", "gs://")) else super().new_output(location)
        )

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        return storage.open_root(f"{scheme}://{netloc or ''}/")


class _NewFile(PyArrowFile):
    """File to create: on a local disk, or where Arrow does not tell a missing bucket by name."""

    def __init__(self, location: str) -> None:
        filesystem, path = storage.filesystem(location)
        super().__init__(location=location, path=path, fs=filesystem)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002
        """Open the file for writing.

        :raises FileExistsError: the file exists, whatever *overwrite* says (on a local disk only).
        :raises NotWritable: it cannot be created.
        """
        filesystem, path = storage.filesystem(self.location)
        return cast(OutputStream, storage.create(filesystem, path))


def write_together(io: FileIO, contents: Mapping[str, bytes]) -> None:
    """Create files, by URI; all are durable when the call returns.

    All are written before the first is synced, so that the disk's journal takes them at once; a directory is synced
    once for all its new names. Names must be unique: object stores are not asked whether a file exists.

    :raises FileExistsError: a file exists (on a local disk only).
    """
    directories: set[str] = set()
    with ExitStack() as opened:
        for uri, content in contents.items():
            stream: Any = opened.enter_context(io.new_output(uri).create(overwrite=True))
            if isinstance(stream, storage.DurableFile):
                directories.add(stream.leave_name())
            stream.write(content)
            stream.flush()
    for directory in directories:
        storage.sync_directory(directory)
