"""Check that the folder of a source of files exists, on file systems where a folder exists apart from its files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from airflow_provider.tables.storage import filesystem

if TYPE_CHECKING:
    from airflow_provider.domain.source_bounds import Source

_WITH_FOLDERS = frozenset({"file", "hdfs", "viewfs"})
"""Schemes of file systems that distinguish an empty folder from a missing one; object stores do not."""
_VARIES = re.compile(r"[*?\[{]")


def missing_folder(source: Source) -> str:
    """Return the folder that holds the files of all epochs of *source* if it is missing; otherwise an empty text.

    It ends before the first wildcard or field: ``/srv`` of ``/srv/landing-{start:%Y}/*``. Folders beyond that may
    appear with the first file of an epoch.
    """
    location = f"file://{source.location}" if source.location.startswith("/") else source.location
    scheme, _, rest = location.partition("://")
    host, *parts = rest.split("/")
    parts = parts[:-1]
    varying = next((index for index, part in enumerate(parts) if _VARIES.search(part)), len(parts))
    folder = "/".join(["", *parts[:varying]])
    if scheme not in _WITH_FOLDERS or folder.strip("/") == "":
        return ""
    store, path = filesystem(f"{scheme}://{host}{folder}")
    return "" if store.get_file_info(path).type is pafs.FileType.Directory else folder
