"""Identify the declaration of a job (R7): a fingerprint for its record, a text for its program's handles.

Neither holds the name of a class, and a field that comes later changes neither while it has its default. See
docs/decisions/fingerprints.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import Enum
from hashlib import sha256
from typing import Any

import msgspec

from airflow_provider.domain.completeness import Condition
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.source_bounds import Source
from airflow_provider.domain.topology import Job, OnForeignCommit
from airflow_provider.stores.codec import without_later

_FIRST_FORMATS = 2
"""The first spelling covers the fields of a declaration that came with the record formats up to this one."""
_LENGTH = 32
_sorted = msgspec.json.Encoder(order="sorted")


def encoded(job: Job | JobDeclaration) -> bytes:
    """Return *job* as a store would write it, with its parts in the order of their declaration."""
    return msgspec.json.encode(_plain(JobDeclaration.of(job))[0])


def _plain(declaration: JobDeclaration) -> tuple[dict[str, Any], bool]:
    """Return *declaration* without what came later and is not used, and whether it uses a field of a later format."""
    plain, is_later = without_later(declaration, _FIRST_FORMATS)
    if plain["group"] is None:  # came after the first handles
        del plain["group"]
    return plain, is_later


def fingerprint(job: Job | JobDeclaration) -> str:
    """Return the identity of *job* among all declarations of its name; the order of its parts does not matter."""
    declaration = JobDeclaration.of(job)
    plain, is_later = _plain(declaration)
    if not is_later:
        return _digest(_first_spelling(declaration).encode())
    for name in ("edges", "roots", "outputs", "checks"):
        plain[name].sort(key=_sorted.encode)
    return _digest(_sorted.encode(plain))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:_LENGTH]


# --- the first spelling --------------------------------------------------------------------------------------
# It was Python's repr() of the dataclasses of that time. Their names, those of their enumerations and the defaults
# are fixed texts here, so that stored fingerprints are found again after a class is renamed or changed.

_EDGE = {
    "table": "",
    "kind": "EdgeKind",
    "as_of": "",
    "length": "",
    "on_upstream_revision": "OnUpstreamRevision",
}
_TABLE = {"name": "", "domain": "", "kind": "TableKind", "partition_by": "", "sort_by": "", "format": ""}
_CHECK = {
    "kind": "CheckKind", "table": "", "columns": "", "at_least": "", "at_most": "", "of": "", "values": "", "sql": "",
    "name": "",
}  # fmt: skip
_CHANGE = {"kind": "ChangeKind", "column": "", "to": ""}
_SOURCE = {"name": "", "location": ""}
_SOURCE_DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "late": ("ignore",),
    "kind": ("files",),
    "table": ("",),
    "connection": ("",),
    "reads": ("increment",),
    "id_column": ("",),
    "transaction_key": ("",),
    "partitions": (1,),
    "complete": ((),),
    "late_window": (None, timedelta(days=7)),
}
"""Values that are left out. A window of seven days is left out too: records of older versions hold none for it."""
_EARLIER_NAMES = {"connection": "source"}


def _first_spelling(job: JobDeclaration) -> str:
    """Return the text from which fingerprints are made since format 1; later settings stand in it only if used."""
    sources = [(source.name, _more(source)) for source in job.sources]
    changes = [(table.name, table.column_changes) for table in job.outputs if table.column_changes]
    later = {
        "checks": _spelled("Check", job.checks, _CHECK),
        "lapses_after": job.inactive_after,
        "group": job.group and (job.group.name, *map(str, job.group.jobs)),
        "adopting": sorted(
            table.name for table in job.outputs if table.on_foreign_commit is OnForeignCommit.ADOPT
        ),
        "column_changes": sorted(f"({name!r}, {_changes_spelled(of)})" for name, of in changes),
        "roots": sorted((name, settings) for name, settings in sources if settings),
    }
    parts = (
        job.name,
        _calendar(job.cadence),
        job.origin and job.origin.isoformat(),
        _spelled("Edge", job.edges, _EDGE),
        _spelled("Root", job.sources, _SOURCE),
        _spelled("EpochTable", job.outputs, _TABLE),
        job.on_rerun.value,
        job.determinism.value,
        *((name, value) for name, value in later.items() if value),
    )
    return repr(parts)


def _spelled(name: str, values: Iterable[Any], names: Mapping[str, str]) -> list[str]:
    return sorted(_spelled_instance(name, value, names) for value in values)


def _spelled_instance(name: str, value: Any, names: Mapping[str, str]) -> str:
    """Spell *value* as an instance of a dataclass *name*.

    :param names: the fields' names, each with the name of its enumeration; empty for a field of another type.
    """
    given = ((field, enum, getattr(value, field)) for field, enum in names.items())
    said = (
        f"{field}=<{enum}.{part.value.upper()}: {part.value!r}>"
        if enum and isinstance(part, Enum)
        else f"{field}={part!r}"
        for field, enum, part in given
    )
    return f"{name}({', '.join(said)})"


def _changes_spelled(changes: tuple[Any, ...]) -> str:
    texts = [_spelled_instance("ColumnChange", change, _CHANGE) for change in changes]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _calendar(cadence: Cadence) -> str:
    now = f"{cadence.expression} {cadence.timezone}"
    if cadence.before is None or cadence.since is None:
        return now
    return f"{_calendar(cadence.before)} until {cadence.since.isoformat()}, then {now}"


def _more(source: Source) -> tuple[tuple[str, str], ...]:
    """Return the settings of *source* beyond name and location that differ from their defaults, as texts."""
    said = ((name, getattr(source, name)) for name in _SOURCE_DEFAULTS)
    return tuple(
        (
            _EARLIER_NAMES.get(name, name),
            ", ".join(map(_condition, value)) if isinstance(value, tuple) else str(value),
        )
        for name, value in said
        if value not in _SOURCE_DEFAULTS[name]
    )


def _condition(condition: Condition) -> str:
    detail = condition.location or condition.column or condition.quiet or condition.files or ""
    return f"{condition.kind.value}({detail})"
