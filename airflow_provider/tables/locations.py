"""Locations of tables: names as path parts, the warehouse, and the staging directory of an attempt.

Locations are URIs whose path is taken literally: Iceberg, Hadoop and Arrow do not agree on percent signs, globs
and fragments, so paths of this package have none of them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.tables.base import StagingFolder

_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,79}")
_TIME = "[0-9]{8}T[0-9]{6}[.][0-9]{6}"
_PLACE = re.compile(
    rf"((?P<start>{_TIME})Z-)?(?P<barrier>{_TIME})Z-r(?P<revision>[0-9]+)-t(?P<token>[0-9]{{10,}})"
    r"-p(?P<participant>[0-9]+)(-s(?P<participant_attempt>[0-9]+))?"
)
_UNSAFE_IN_WAREHOUSE = frozenset("%#?;*[]{}\\\"'`$&|<>")
_MAX_WAREHOUSE_CHARACTERS = 500
_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "memory")
"""Schemes on which tables are tested, and the memory format's own."""
_UNTRIED = ("gcs", "abfs", "abfss", "hdfs", "viewfs")
"""Schemes for which Arrow has file systems, too. No test writes tables there, so that they are refused."""


def path_name(name: str) -> str:
    """Return a directory name for *name*, unique even on file systems that ignore case.

    A short name of lower-case letters, digits, ``_``, ``-`` and ``.`` stays unchanged; of any other name, the
    readable part is followed by ``~``, which no plain name has, and a hash.
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    readable = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:40]
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{readable or 'x'}~{digest}"


def table_path(domain: DomainName, table: TableName) -> str:
    """Return the path of a table below the warehouse."""
    return f"{path_name(domain)}/{path_name(table)}"


def place_path(
    domain: DomainName,
    table: TableName,
    *,
    job: JobName,
    interval: Interval,
    revision: int,
    token: int,
    participant: int,
    participant_attempt: int = 0,
    by_end: bool = False,
) -> str:
    """Return the path below the warehouse of the staging directory of one try of a participant of an attempt.

    The path has job and start, since revisions and tokens are counted per job and start of an epoch: epochs of two
    calendars may have one end, and a job that takes a table over counts from the beginning again (R7). It has no
    ``=``, which Spark would take for a partition column.

    :param by_end: return the name that an earlier version of the package used, by the end alone.
    """
    start = "" if by_end else f"{time_key(interval.start)}-"
    writer = f"p{participant}{f'-s{participant_attempt}' if participant_attempt else ''}"
    attempt = f"{start}{time_key(interval.end)}-r{revision}-t{token:010d}-{writer}"
    return f"{places_path(domain, table, job)}/{attempt}"


def places_path(domain: DomainName, table: TableName, job: JobName) -> str:
    """Return the path below the warehouse of the directory that holds a job's staging directories for a table."""
    return f"{table_path(domain, table)}/data/{path_name(job)}"


def staging_folder_at(name: str) -> StagingFolder | None:
    """Parse *name*, the last part of a :func:`place_path`; return None if it has another form."""
    match = _PLACE.fullmatch(name)
    if match is None:
        return None
    try:
        start = None if match["start"] is None else _moment(match["start"])
        barrier = _moment(match["barrier"])
    except ValueError:
        return None
    numbers = {
        part: int(match[part] or 0) for part in ("revision", "token", "participant", "participant_attempt")
    }
    return StagingFolder(start=start, barrier=barrier, **numbers)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)


def checked_warehouse(warehouse: object) -> str:
    """Return *warehouse* as a URI without a trailing slash.

    :param warehouse: an absolute path, or a URI such as ``file:///data/warehouse`` or ``s3://bucket/prefix``.
    :raises InvalidInput: anything else.
    """
    text = str(warehouse) if isinstance(warehouse, str | Path) else ""
    uri = f"file://{text}" if text.startswith("/") and not text.startswith("//") else text
    problem = _problem(uri)
    if problem:
        raise InvalidInput(
            field="warehouse",
            value=warehouse,
            expected=problem,
            next_step="set the warehouse to an absolute path, on a file system that all hosts mount, or to a URI such "
            "as s3://bucket/prefix.",
        )
    return uri.rstrip("/")


def not_yet(scheme: str) -> str:
    """Return the end of a refusal of *scheme*, if it is one that may be served one day."""
    return f": tables on {scheme}:// are not supported yet" if scheme in _UNTRIED else ""


def same_warehouse(left: str, right: str) -> bool:
    """Return whether two checked warehouses are one: S3 has three schemes for one bucket; all else must be equal."""
    return plain_scheme(left) == plain_scheme(right)


def names_files(uri: str) -> bool:
    """Return whether *uri* names a file or directory; memory tables have none."""
    return urlsplit(uri).scheme != "memory"


def lies_in(uri: str, warehouse: str) -> bool:
    """Return whether *uri* is below *warehouse*."""
    return plain_scheme(uri).startswith(f"{plain_scheme(warehouse)}/")


def is_own(uri: str, location: str) -> bool:
    """Return whether a data file is in its table's own folder; files of other programs that were added are elsewhere.

    :param location: URI of one of the table's manifest lists, or of their folder with a slash at its end.
    """
    return lies_in(uri, location.rpartition("/metadata/")[0])


def plain_scheme(uri: str) -> str:
    """Return *uri* with S3's three schemes replaced by ``s3``."""
    return re.sub("^s3[an]://", "s3://", uri)


def _problem(uri: str) -> str:
    """Return what is expected instead of *uri*; empty if it is a valid warehouse."""
    unsafe = sorted(
        {
            letter
            for letter in uri
            if letter in _UNSAFE_IN_WAREHOUSE or unicodedata.category(letter).startswith("C")
        }
    )
    if unsafe:
        return f"a location without {' '.join(repr(letter) for letter in unsafe)}"
    scheme, host, path, *_ = urlsplit(uri)
    if not scheme or "://" not in uri:
        return "an absolute path or a URI"
    if scheme not in _SCHEMES:
        return f"a URI with one of the schemes {', '.join(_SCHEMES[:-1])}{not_yet(scheme)}"
    if scheme == "file" and (host or not path.startswith("/")):
        return "file:/// and an absolute path"
    if scheme not in {"file", "memory"} and not host:
        return f"{scheme}:// and a bucket or host"
    if any(part in {".", ".."} for part in path.split("/")) or "//" in path.rstrip("/"):
        return "a path without '.', '..' and empty parts"
    if not path.strip("/") and scheme in {"file", "memory"}:
        return "a directory below the root"
    if len(uri) > _MAX_WAREHOUSE_CHARACTERS:
        return f"at most {_MAX_WAREHOUSE_CHARACTERS} characters"
    return ""
