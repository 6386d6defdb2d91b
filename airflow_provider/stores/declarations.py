"""By what declarations of one job are told apart (R7): a fingerprint for its record, a text for its program's handles.

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
from airflow_provider.domain.roots import Root
from airflow_provider.domain.topology import EpochJob, OnForeignCommit
from airflow_provider.stores.codec import without_later

_FIRST_FORMATS = 2
"""All that a declaration says in the record formats up to this one is in the first spelling."""
_LENGTH = 32
_sorted = msgspec.json.Encoder(order="sorted")


def encoded(job: EpochJob | JobDeclaration) -> bytes:
    """Return *job* as a store would write it down, in the order in which it is declared."""
    plain, _ = without_later(JobDeclaration.of(job), _FIRST_FORMATS)
    return msgspec.json.encode(plain)


def fingerprint(job: EpochJob | JobDeclaration) -> str:
    """Return the identity of *job* among all declarations of its name, in whichever order its parts are declared."""
    declaration = JobDeclaration.of(job)
    plain, is_later = without_later(declaration, _FIRST_FORMATS)
    if not is_later:
        return _digest(_first_spelling(declaration).encode())
    for name in ("edges", "roots", "outputs", "checks"):
        plain[name].sort(key=_sorted.encode)
    return _digest(_sorted.encode(plain))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:_LENGTH]


# --- the first spelling --------------------------------------------------------------------------------------
# It was Python's repr() of the dataclasses of that time. Their names, those of their enumerations and the defaults
# are texts here: whatever becomes of the classes, the fingerprints in the stores are found again.

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
_ROOT = {"name": "", "location": ""}
_ROOT_DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "late": ("ignore",),
    "kind": ("files",),
    "table": ("",),
    "source": ("",),
    "reads": ("increment",),
    "id_column": ("",),
    "transaction_key": ("",),
    "partitions": (1,),
    "complete": ((),),
    "late_window": (None, timedelta(days=7)),
}
"""What is not spelled. A window of seven days is not, since records of older versions hold none for it."""


def _first_spelling(job: JobDeclaration) -> str:
    """Return what fingerprints have been made of since format 1. What came later stands in it only where it is used."""
    roots = [(root.name, _more(root)) for root in job.roots]
    changes = [(table.name, table.column_changes) for table in job.outputs if table.column_changes]
    later = {
        "checks": _spelled("Check", job.checks, _CHECK),
        "lapses_after": job.lapses_after,
        "adopting": sorted(
            table.name for table in job.outputs if table.on_foreign_commit is OnForeignCommit.ADOPT
        ),
        "column_changes": sorted(f"({name!r}, {_changes_spelled(of)})" for name, of in changes),
        "roots": sorted(one for one in roots if one[1]),
    }
    parts = (
        job.name,
        _calendar(job.cadence),
        job.origin and job.origin.isoformat(),
        _spelled("Edge", job.edges, _EDGE),
        _spelled("Root", job.roots, _ROOT),
        _spelled("EpochTable", job.outputs, _TABLE),
        job.on_rerun.value,
        job.determinism.value,
        *((name, value) for name, value in later.items() if value),
    )
    return repr(parts)


def _spelled(name: str, values: Iterable[Any], names: Mapping[str, str]) -> list[str]:
    return sorted(_one(name, value, names) for value in values)


def _one(name: str, value: Any, names: Mapping[str, str]) -> str:
    """*value* as a dataclass *name*. :param names: of its fields, each with that of its enumeration, or none."""
    given = ((field, enum, getattr(value, field)) for field, enum in names.items())
    said = (
        f"{field}=<{enum}.{one.value.upper()}: {one.value!r}>"
        if enum and isinstance(one, Enum)
        else f"{field}={one!r}"
        for field, enum, one in given
    )
    return f"{name}({', '.join(said)})"


def _changes_spelled(changes: tuple[Any, ...]) -> str:
    texts = [_one("ColumnChange", change, _CHANGE) for change in changes]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _calendar(cadence: Cadence) -> str:
    now = f"{cadence.expression} {cadence.timezone}"
    if cadence.before is None or cadence.since is None:
        return now
    return f"{_calendar(cadence.before)} until {cadence.since.isoformat()}, then {now}"


def _more(root: Root) -> tuple[tuple[str, str], ...]:
    """What *root* says beyond name and location."""
    said = ((name, getattr(root, name)) for name in _ROOT_DEFAULTS)
    return tuple(
        (name, ", ".join(map(_condition, value)) if isinstance(value, tuple) else str(value))
        for name, value in said
        if value not in _ROOT_DEFAULTS[name]
    )


def _condition(one: Condition) -> str:
    return f"{one.kind.value}({one.location or one.column or one.quiet or one.files or ''})"
