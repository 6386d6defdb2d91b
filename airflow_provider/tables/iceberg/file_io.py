"""pyiceberg's way to files, made durable: what a pointer names must outlive the machine's crash."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, cast

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from airflow_provider.tables import storage


class DurableFileIO(PyArrowFileIO):
    """Files by URI, read through Arrow; new ones on a local disk are synced before they count as written.

    Object stores are opened as all of this package opens them: by the process's environment.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """Return a new file: Iceberg's metadata is never written over."""
        return _NewFile(location) if location.startswith("file://") else super().new_output(location)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        return storage.open_root(f"{scheme}://{netloc or ''}/")


class _NewFile(PyArrowFile):
    """A local file that does not exist yet."""

    def __init__(self, location: str) -> None:
        filesystem, path = storage.filesystem(location)
        super().__init__(location=location, path=path, fs=filesystem)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002
        """Open it for writing.

        :raises FileExistsError: there is one already, whatever *overwrite* says.
        """
        found, path = storage.filesystem(self.location)
        return cast(OutputStream, storage.create(found, path))


def write_together(io: FileIO, contents: Mapping[str, bytes]) -> None:
    """Make new files, by URI; all are durable when it returns.

    None is synced before all are written, so that a disk's journal takes them at once, and a directory once for all
    of its new names. Names are made up by who asks: no object store is asked whether it has one already.

    :raises FileExistsError: on a local disk, when it has.
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
