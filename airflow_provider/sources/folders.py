"""Folders of a source of files: the one that must exist, and those that a location names where it should name files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.sources.locations import WILD, matches
from airflow_provider.tables.storage import filesystem

if TYPE_CHECKING:
    from airflow_provider.domain.source_bounds import Source

_WITH_FOLDERS = frozenset({"file", "hdfs", "viewfs"})
"""Schemes of file systems that distinguish an empty folder from a missing one; object stores do not."""
_VARIES = re.compile(r"[*?\[{]")
_BRACES = frozenset("{}")


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


def refuse_folders(source: Source, location: str) -> None:
    """Refuse a pattern that matches folders with files: of these it stands for none, and its epochs would be empty.

    Not where it ends with a wildcard alone, such as ``*`` or ``*.csv``: folders beside the files are no mistake then.

    :param location: of an epoch at which no file was found.
    :raises InvalidInput: names one of the files in these folders.
    """
    last = source.location.rstrip("/").rpartition("/")[2]
    if not WILD & set(location) or (WILD & set(last) and not _BRACES & set(last)):
        return
    store, path = filesystem(location)
    below = next(matches(store, f"{path.rstrip('/')}/**"), None)
    if below is not None:
        raise InvalidInput(
            field=f"location of source {source.name!r}",
            value=source.location,
            expected="a pattern of files: it matches folders, and only a location without a wildcard stands for the "
            f"files of a folder, such as {below.path}",
            next_step="end it with /* for the files of these folders, or with /** for those of their subfolders, too. "
            "Where bounds of the source are recorded, another location needs a source of another name.",
            source=source.name,
        )
