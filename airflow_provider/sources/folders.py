"""Whether the folder that a root of files names is there, where folders exist apart from the files in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from airflow_provider.tables.storage import filesystem

if TYPE_CHECKING:
    from airflow_provider.domain.roots import Root

_WITH_FOLDERS = frozenset({"file", "hdfs", "viewfs"})
"""Schemes of file systems that tell a folder without files from one that is not there; object stores do not."""
_VARIES = re.compile(r"[*?\[{]")


def missing_folder(root: Root) -> str:
    """Return the folder in which the files of all epochs of *root* lie, if it is not there; empty if it is.

    It ends before the first wildcard and the first field: ``/srv`` of ``/srv/landing-{start:%Y}/*``. What is beyond
    that may come with the first file of an epoch.
    """
    location = f"file://{root.location}" if root.location.startswith("/") else root.location
    scheme, _, rest = location.partition("://")
    host, *parts = rest.split("/")
    parts = parts[:-1]
    varying = next((index for index, part in enumerate(parts) if _VARIES.search(part)), len(parts))
    folder = "/".join(["", *parts[:varying]])
    if scheme not in _WITH_FOLDERS or folder.strip("/") == "":
        return ""
    store, path = filesystem(f"{scheme}://{host}{folder}")
    return "" if store.get_file_info(path).type is pafs.FileType.Directory else folder
