"""Where tables lie: names as path parts, the warehouse, and the place of an attempt.

Locations are URIs whose path is taken literally: Iceberg, Hadoop and Arrow do not agree on percent signs, globs
and fragments, so no part that this package makes has any of them.
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
from airflow_provider.tables.base import Remains

_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,79}")
_TIME = "[0-9]{8}T[0-9]{6}[.][0-9]{6}"
_PLACE = re.compile(
    rf"((?P<start>{_TIME})Z-)?(?P<barrier>{_TIME})Z-r(?P<revision>[0-9]+)-t(?P<token>[0-9]{{10,}})"
    r"-p(?P<participant>[0-9]+)(-s(?P<subtoken>[0-9]+))?"
)
_UNSAFE_IN_WAREHOUSE = frozenset("%#?;*[]{}\\\"'`$&|<>")
_MAX_WAREHOUSE_CHARACTERS = 500
_SCHEMES = ("file", "s3", "s3a", "s3n", "hdfs", "viewfs", "gs", "gcs", "abfs", "abfss", "memory")
"""What Arrow has file systems for, and the one of the memory format."""


def path_name(name: str) -> str:
    """Return a directory name for *name*; different names get different ones, also where case does not count.

    A short name of lower-case letters, digits, ``_``, ``-`` and ``.`` is itself; any other keeps what is
    readable of it and gets a hash, after a ``~`` that no plain name has.
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    readable = re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:40]
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{readable or 'x'}~{digest}"


def table_path(domain: DomainName, table: TableName) -> str:
    """Path of a table below the warehouse."""
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
    subtoken: int = 0,
    by_end: bool = False,
) -> str:
    """Path below the warehouse of all that one try of a participant of an attempt stages for a table.

    Revisions and tokens are counted for each job and each start of an epoch: epochs of two calendars may have one end,
    and who takes a table over counts its epochs from the start again (R7). No ``=`` in it: Spark would take it for a
    partition column.

    :param by_end: the first kind of name, by the end alone; nothing is staged there any more.
    """
    start = "" if by_end else f"{time_key(interval.start)}-"
    writer = f"p{participant}{f'-s{subtoken}' if subtoken else ''}"
    attempt = f"{start}{time_key(interval.end)}-r{revision}-t{token:010d}-{writer}"
    return f"{places_path(domain, table, job)}/{attempt}"


def places_path(domain: DomainName, table: TableName, job: JobName) -> str:
    """Path below the warehouse of all that the attempts of a job stage for a table."""
    return f"{table_path(domain, table)}/data/{path_name(job)}"


def remains_at(name: str) -> Remains | None:
    """What the last part of a :func:`place_path` says; None when *name* is none."""
    found = _PLACE.fullmatch(name)
    if found is None:
        return None
    try:
        start = None if found["start"] is None else _moment(found["start"])
        barrier = _moment(found["barrier"])
    except ValueError:
        return None
    numbers = {part: int(found[part] or 0) for part in ("revision", "token", "participant", "subtoken")}
    return Remains(start=start, barrier=barrier, **numbers)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)


def checked_warehouse(warehouse: object) -> str:
    """Return *warehouse* as a URI without a slash at its end.

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
            next_step="set the warehouse to an absolute path or to a URI such as s3://bucket/prefix.",
        )
    return uri.rstrip("/")


def same_warehouse(left: str, right: str) -> bool:
    """Whether two checked warehouses are one: S3 has three schemes for one bucket, any other difference counts."""
    return plain_scheme(left) == plain_scheme(right)


def names_files(uri: str) -> bool:
    """Whether what lies at *uri* is in files; memory tables are in none."""
    return urlsplit(uri).scheme != "memory"


def lies_in(uri: str, warehouse: str) -> bool:
    """Whether *uri* is below *warehouse*."""
    return plain_scheme(uri).startswith(f"{plain_scheme(warehouse)}/")


def plain_scheme(uri: str) -> str:
    """*uri* with one name for what has several: S3's three are one."""
    return re.sub("^s3[an]://", "s3://", uri)


def _problem(uri: str) -> str:
    """What *uri* ought to be instead; empty when it can be a warehouse."""
    unsafe = sorted(
        {one for one in uri if one in _UNSAFE_IN_WAREHOUSE or unicodedata.category(one).startswith("C")}
    )
    if unsafe:
        return f"a location without {' '.join(repr(one) for one in unsafe)}"
    scheme, host, path, *_ = urlsplit(uri)
    if not scheme or "://" not in uri:
        return "an absolute path or a URI"
    if scheme not in _SCHEMES:
        return f"a URI with one of the schemes {', '.join(_SCHEMES[:-1])}"
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
