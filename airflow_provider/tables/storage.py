"""File access beneath tables: Arrow's file systems, by URI. Needs pyarrow only; runs in Spark's workers.

The path of a URI is literal, as in Iceberg and Hadoop: no percent decoding.

Endpoint, region and credentials of an S3 store come from the process's environment, under AWS's own names:
``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL`` (a server that is not Amazon's), ``AWS_REGION`` or
``AWS_DEFAULT_REGION``, and the keys, profile or role that AWS's programs look for. Airflow's tasks and Spark's workers
each have their own environment, so no key is in a connection, in Spark's settings or in what is sent to workers.
So it is for Google's store (:mod:`airflow_provider.tables.clouds`).
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from airflow_provider.tables.clouds import GOOGLE_SCHEMES, open_cloud

S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_S3_CONNECT_S = 10
_S3_REQUEST_S = 60
_DELETES_AT_ONCE = 16
_GOOGLES = "gcs"
"""Arrow's name of the class; an Arrow that was built without Google's store has no such class."""


def filesystem(uri: str) -> tuple[pafs.FileSystem, str]:
    """Open the file system of *uri*; return it and the path within it.

    :raises ValueError: Arrow does not know the scheme.
    """
    root, path = split(uri)
    return open_root(root), path


def as_uri(location: str) -> str:
    """Return *location* as this package writes URIs; Hadoop, hence Spark, writes ``file:/`` with one slash."""
    one_slash = location.startswith("file:/") and not location.startswith("file://")
    return f"file://{location.removeprefix('file:')}" if one_slash else location


def split(uri: str) -> tuple[str, str]:
    """Return the root of *uri*'s file system, as a URI, and the path within it."""
    scheme, _, rest = as_uri(uri).partition("://")
    host, slash, path = rest.partition("/")
    if scheme in {"file", "hdfs", "viewfs"}:
        return f"{scheme}://{host}/", f"/{path}"
    return f"{scheme}://{host}/", f"{host}{slash}{path}"


def serves(uri: str, beside: str) -> bool:
    """Return whether a file at *uri*, which another program named, is safe to open in a process that reads *beside*.

    Credentials are those of the warehouse; without any for Azure Arrow ends the process, and for Google's store it
    waits for minutes.
    """
    scheme, separator, _ = as_uri(uri).partition("://")
    return bool(separator) and scheme in {"file", *S3_SCHEMES, as_uri(beside).partition("://")[0]}


def open_root(root: str) -> pafs.FileSystem:
    """Open the file system at *root*; worth caching for object stores, where opening may ask a server."""
    scheme, _, rest = root.partition("://")
    if scheme == "file":
        return pafs.LocalFileSystem()
    if scheme in S3_SCHEMES:
        return _open_s3(rest.partition("/")[0])
    if scheme in GOOGLE_SCHEMES:
        return open_cloud(root)
    return pafs.FileSystem.from_uri(root)[0]


def _open_s3(bucket: str) -> pafs.FileSystem:
    """Open the store that holds *bucket*; a custom endpoint is addressed by path, not by host name."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {
        "region": region,
        "connect_timeout": _S3_CONNECT_S,
        "request_timeout": _S3_REQUEST_S,
        "allow_delayed_open": True,  # one request for a small file instead of three
    }
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    elif region is None:
        options["region"] = pafs.resolve_s3_region(bucket)
    return pafs.S3FileSystem(**options)


class NotWritable(OSError):
    """No file can be created there: no permission, no such disk or bucket, or a file where a directory should be."""


def create(found: pafs.FileSystem, path: str) -> Any:
    """Open a new file for writing and create its directory; its content is durable once it is closed.

    :raises FileExistsError: the file exists (on a local disk only).
    :raises NotWritable: the file or its directory cannot be created; names the path.
    """
    if isinstance(found, pafs.LocalFileSystem):
        return DurableFile(path)
    try:
        return found.open_output_stream(path)
    except FileNotFoundError as error:  # Google's store, and Arrow names the request alone
        raise NotWritable(errno.ENOENT, "no such bucket", path) from error


def write_whole(found: pafs.FileSystem, path: str, content: bytes) -> None:
    """Write a file that others see whole or not at all, in place of one that is there; durable on a local disk.

    :raises NotWritable: the file or its directory cannot be created; names the path.
    """
    if not isinstance(found, pafs.LocalFileSystem):
        with create(found, path) as stream:
            stream.write(content)
        return
    beside = f"{path}.{uuid.uuid4().hex}"
    with DurableFile(beside) as file:
        directory = file.leave_name()
        file.write(content)
    os.replace(beside, path)  # noqa: PTH105  (a plain string, as above)
    sync_directory(directory)


def remove(found: pafs.FileSystem, path: str) -> bool:
    """Delete a file; return whether it existed."""
    try:
        found.delete_file(path)
    except FileNotFoundError:
        return False
    return True


def remove_folder(found: pafs.FileSystem, path: str) -> None:
    """Delete a directory and all that is in it.

    Arrow's own way in Google's store fails at the end where no object stands for the directory itself.

    :raises FileNotFoundError: it does not exist.
    """
    if found.type_name != _GOOGLES:
        found.delete_dir(path)
        return
    infos = found.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
    files = [info.path for info in infos if info.is_file]
    with ThreadPoolExecutor(_DELETES_AT_ONCE) as pool:
        list(pool.map(lambda file: remove(found, file), files))
    # Hadoop makes objects that stand for directories.
    if found.get_file_info(path).type is pafs.FileType.Directory:
        with suppress(FileNotFoundError):
            found.delete_dir(path)
    elif not files:
        raise FileNotFoundError(path)


def missing(uris: Iterable[str]) -> list[str]:
    """Return those of *uris* that name no file."""
    named = list(uris)
    found = sizes(named)
    return [uri for uri in named if uri not in found]


def sizes(uris: Iterable[str]) -> dict[str, int]:
    """Return the size in bytes of each of *uris* that names a file."""
    by_root: dict[str, list[str]] = {}
    for uri in uris:
        by_root.setdefault(split(uri)[0], []).append(uri)
    return {
        uri: info.size
        for root, named in by_root.items()
        for uri, info in zip(
            named, open_root(root).get_file_info([split(uri)[1] for uri in named]), strict=True
        )
        if info.type is pafs.FileType.File
    }


def folders(uri: str) -> list[str]:
    """Return the names of the folders at *uri*; none if it does not exist.

    In Google's store Arrow lists only directories for which there is an object: there the files below are listed.
    """
    found, path = filesystem(uri)
    if found.type_name == _GOOGLES:
        infos = found.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
        below = [(info.path.removeprefix(f"{path}/").split("/"), info.is_file) for info in infos]
        return sorted({parts[0] for parts, is_file in below if len(parts) > 1 or not is_file})
    infos = found.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    return [info.base_name for info in infos if info.type == pafs.FileType.Directory]


def sync(found: pafs.FileSystem, path: str) -> None:
    """Make a file that another program wrote durable on a local disk; in object stores it is already."""
    if isinstance(found, pafs.LocalFileSystem):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(os.path.dirname(path))  # noqa: PTH120  (as above: plain strings)


class DurableFile:
    """Local file whose content and name are durable, not only in the page cache, once it is closed."""

    def __init__(self, path: str) -> None:
        self._directory = os.path.dirname(path)  # noqa: PTH120  (a plain string, a hot path in workers)
        try:
            os.makedirs(self._directory, exist_ok=True)  # noqa: PTH103
        except OSError as error:
            raise NotWritable(error.errno, error.strerror, self._directory) from error
        try:
            self._file = open(path, "xb")  # noqa: PTH123, SIM115
        except FileExistsError:
            raise
        except OSError as error:
            raise NotWritable(error.errno, error.strerror, path) from error
        self._syncs_name = True

    def leave_name(self) -> str:
        """Leave it to the caller to sync the name, once for all files of a directory; return that directory."""
        self._syncs_name = False
        return self._directory

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self._file.tell()

    @property
    def closed(self) -> bool:
        return self._file.closed

    def close(self) -> None:
        if self._file.closed:
            return
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        if self._syncs_name:
            sync_directory(self._directory)

    def __enter__(self) -> DurableFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sync_directory(path: str) -> None:
    """Make the file names in a local directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
