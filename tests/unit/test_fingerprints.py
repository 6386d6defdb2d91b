"""By what declarations are told apart: nothing but what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, is_dataclass, make_dataclass, replace
from datetime import timedelta
from enum import Enum
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import pytest

from airflow_provider.domain.completeness import Condition
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.format_marks import FORMAT, since
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Edge, Group, Job, Table
from airflow_provider.spark.handles import declaration_digest
from airflow_provider.stores import declarations
from airflow_provider.stores.declarations import encoded, fingerprint
from tests.declarations import ORIGIN, RECORDED, WHOLE, changed, places

FINGERPRINTS = Path(__file__).parents[1] / "recorded" / "fingerprints_format_2.txt"
"""What the last version that hashed Python's repr() made of :data:`RECORDED`; never changed."""

UNCOUNTED = {
    (Edge, "domain"): "a job's edges are of its own domain, which its tables say",
}
"""Fields that change no fingerprint, and why."""
DECLARED = replace(JobDeclaration.of(WHOLE), group=Group("air", jobs=["everything", "more"]))
CLASSES = list(dict.fromkeys(type(value) for _, value in places(DECLARED)))
SEVERAL = ("edges", "sources", "outputs", "checks")


OTHERS: Mapping[str, Any] = {
    "Group": None,
    "JobName": "another",
    "TableName": "another",
    "DomainName": "another",
    "str": "another",
    "int": 77,
    "datetime": ORIGIN,
    "timedelta": timedelta(days=3),
    "Cadence": Cadence("@yearly"),
}
"""For each type that a field may have, a value that it has in no recorded declaration."""


def other_values(value: Any, hint: Any) -> list[Any]:
    """Values that a field which has *value* might have instead."""
    if isinstance(value, Enum):
        return [other for other in type(value) if other is not value]
    if isinstance(value, tuple):
        member = get_args(hint)[0]
        example = next((known for _, known in places(DECLARED) if type(known) is member), OTHERS["str"])
        return [value[1:], (*value, value[0])] if value else [(example,)]
    words = re.findall(r"\w+", str(getattr(hint, "__name__", hint)) + str(hint))
    return [OTHERS[next(word for word in words if word in OTHERS)]]


def changes() -> Iterator[tuple[type, str, str, JobDeclaration]]:
    """Return each field of all classes, changed in each place where it says something."""
    for path, value in places(DECLARED):
        hints = get_type_hints(type(value))
        for attribute in fields(value):
            now = getattr(value, attribute.name)
            if isinstance(value, Condition | Cadence) and not now:
                continue  # a condition has one field beside its kind; a calendar has both since and before, or neither
            for other in other_values(now, hints[attribute.name]):
                what = f"{'.'.join(map(str, path))}.{attribute.name}={other}"
                yield type(value), attribute.name, what, changed(DECLARED, (*path, attribute.name), other)


CHANGES = list(changes())


def test_no_field_is_forgotten() -> None:
    """R7: all that an author says is in the declaration, in the job's record, and in one of the changes below."""
    said = {member.name for member in fields(JobDeclaration)}
    assert {member.name for member in fields(Job)} - {"inputs", "input_tables"} | {"edges", "sources"} == said
    marks = {member.name: member.metadata for member in fields(JobRecord)}
    assert all(marks[member.name] == member.metadata for member in fields(JobDeclaration))
    counted = {(cls, member.name) for cls in CLASSES for member in fields(cls)}
    assert {(cls, name) for cls, name, _, _ in CHANGES} == counted
    hints = [hint for cls in CLASSES for hint in get_type_hints(cls).values()]
    reached = {part for hint in hints for part in (hint, *_parts(hint)) if is_dataclass(part)}
    assert reached <= {base for cls in CLASSES for base in cls.__mro__}


def _parts(hint: Any) -> Iterator[Any]:
    for part in getattr(hint, "__args__", ()):
        yield part
        yield from _parts(part)


def test_changed_declaration_has_another_fingerprint() -> None:
    """R7: each field, and each value of an enumeration."""
    known = fingerprint(DECLARED)
    same = [
        what
        for cls, name, what, other in CHANGES
        if fingerprint(other) == known and (cls, name) not in UNCOUNTED
    ]
    assert same == []
    counted = [fingerprint(other) for cls, name, _, other in CHANGES if (cls, name) not in UNCOUNTED]
    assert len(set(counted)) == len(counted)
    assert all(fingerprint(other) == known for cls, name, _, other in CHANGES if (cls, name) in UNCOUNTED)


def test_the_order_and_the_usual_window_say_nothing() -> None:
    """R7: records of format 1 have no window; a source that declares none has seven days."""
    turned = replace(DECLARED, **{name: getattr(DECLARED, name)[::-1] for name in SEVERAL})
    assert fingerprint(turned) == fingerprint(DECLARED)
    older = changed(JobDeclaration.of(RECORDED["of files"]), ("sources", 0, "late_window"), None)
    assert fingerprint(older) == fingerprint(RECORDED["of files"])


def test_the_recorded_ones_are_found_again() -> None:
    """R7, R36: whatever becomes of the classes, stores and handles of earlier versions name the same declarations."""
    lines = [line for line in FINGERPRINTS.read_text().splitlines() if not line.startswith("#")]
    found = [f"{name}: {fingerprint(job)} {declaration_digest(job)}" for name, job in RECORDED.items()]
    assert found == lines


@pytest.fixture
def renamed() -> Iterator[None]:
    """All classes of declarations have other names."""
    classes = {*CLASSES, Job, *(type(member) for member in _enumerations(DECLARED))}
    names = {cls: (cls.__name__, cls.__qualname__) for cls in classes}
    for cls, (name, whole) in names.items():
        cls.__name__, cls.__qualname__ = f"Other{name}", f"Other{whole}"
    yield
    for cls, (name, whole) in names.items():
        cls.__name__, cls.__qualname__ = name, whole


@pytest.mark.usefixtures("renamed")
def test_the_names_of_classes_say_nothing() -> None:
    """R7: a class may be renamed, and none of its declarations is registered anew."""
    assert "OtherTable" in repr(WHOLE)
    assert "OtherEdgeKind" in repr(WHOLE)
    test_the_recorded_ones_are_found_again()


def _enumerations(value: Any) -> Iterator[Enum]:
    for _, part in places(value):
        yield from (member for name in fields(part) if isinstance(member := getattr(part, name.name), Enum))


def grown(value: Any, later: str) -> Any:
    """Return *value* as one of a class of another name, with the same fields and a later one."""
    cls = type(value)
    names = {attribute.name: getattr(value, attribute.name) for attribute in fields(cls)}
    marked = ("later", str, field(default="", metadata=since(FORMAT + 1)))
    known = [(attribute.name, Any, field(metadata=attribute.metadata)) for attribute in fields(cls)]
    taller = make_dataclass("Taller", [*known, marked], frozen=True)
    for name, member in vars(cls).items():
        if isinstance(member, property):
            setattr(taller, name, member)
    return taller(**names, later=later)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_later_field_counts_where_it_is_used(cls: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """R7: a job that does not use it keeps its identity, and no user registers it anew."""
    before = fingerprint(DECLARED), encoded(DECLARED)
    path, value = next((path, value) for path, value in places(DECLARED) if type(value) is cls)
    same, used, otherwise = (changed(DECLARED, path, grown(value, later=text)) for text in ("", "x", "y"))
    if cls is JobDeclaration:
        monkeypatch.setattr(declarations, "JobDeclaration", SimpleNamespace(of=lambda job: job))
    assert (fingerprint(same), encoded(same)) == before
    assert len({fingerprint(job) for job in (same, used, otherwise)}) == 3
    assert len({encoded(job) for job in (same, used, otherwise)}) == 3


def test_the_order_says_nothing_where_a_later_field_is_used_either() -> None:
    """R7: as in the first spelling."""
    used = changed(DECLARED, ("outputs", 0), grown(DECLARED.outputs[0], later="x"))
    turned = replace(used, **{name: getattr(used, name)[::-1] for name in SEVERAL})
    assert fingerprint(turned) == fingerprint(used)


def test_every_pair_of_recorded_declarations_differs() -> None:
    for job, other in combinations(RECORDED.values(), 2):
        assert fingerprint(job) != fingerprint(other)
        assert encoded(job) != encoded(other)


def test_program_gets_the_whole_declaration() -> None:
    for job in RECORDED.values():
        assert JobDeclaration.of(job).job() == job
    assert JobDeclaration.of(WHOLE).job().outputs[0] == Table(**_said(WHOLE.outputs[0]))


def _said(table: Table) -> dict[str, Any]:
    return {attribute.name: getattr(table, attribute.name) for attribute in fields(table)}
