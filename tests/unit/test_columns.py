"""Declared changes of columns: their types in words, and what of them a table lacks."""

from __future__ import annotations

import pytest

from airflow_provider.domain.columns import (
    AppliedChange,
    add,
    column_type,
    drop,
    first_unknown,
    pending_changes,
    rename,
    widen,
)
from airflow_provider.domain.errors import Conflict, InvalidInput, SchemaMismatch
from airflow_provider.domain.topology import Job, Table
from tests.declarations import declared

FIRST, SECOND, THIRD = add("a", "int"), rename("a", "b"), drop("b")
HAS = (AppliedChange(FIRST, 0), AppliedChange(SECOND, 1))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("INT", "int"),
        ("long", "bigint"),
        (" decimal( 10 , 2 ) ", "decimal(10,2)"),
        ("array<array<string>>", "array<array<string>>"),
        ("map<string, struct<a: int, B:decimal(38,38)>>", "map<string,struct<a:int,B:decimal(38,38)>>"),
    ],
)
def test_types_are_read_in_sparks_words(words: str, meant: str) -> None:
    assert str(column_type(words)) == meant
    assert column_type(meant) == column_type(words)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "int int",
        "varchar",
        "array",
        "array<int",
        "array<int>>",
        "array<int,int>",
        "map<int>",
        "struct<>",
        "struct<a>",
        "struct<a:int,>",
        "decimal",
        "decimal(0,0)",
        "decimal(39,0)",
        "decimal(3,4)",
        "decimal(-1,0)",
        "decimal(many,0)",
        "decimal(9,few)",
        "decimal(٣,0)",
        "int; drop",
        "array<" * 160 + "int" + ">" * 160,
    ],
)
def test_invalid_type_is_refused_with_the_valid_ones(words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        add("a", words)
    assert "decimal(digits,behind)" in str(refused.value) or "1000 bytes" in str(refused.value)


def test_only_some_types_are_wider_than_others() -> None:
    with pytest.raises(InvalidInput, match="add a column of that type"):
        widen("a", "string")


def test_a_column_is_not_renamed_to_its_own_name() -> None:
    """R32: a change that changes nothing would be counted among those that a table has."""
    with pytest.raises(InvalidInput, match="another name than it has"):
        rename("a", "a")


def test_a_table_lacks_the_columns_after_its_own() -> None:
    """R32: an older declaration lacks something itself, and is told before which schema."""
    assert pending_changes("t", HAS, [FIRST, SECOND, THIRD]) == (THIRD,)
    for older in ([], [FIRST], [FIRST, SECOND]):
        assert pending_changes("t", HAS, older) == ()
    assert first_unknown("t", HAS, [FIRST, SECOND]) is None
    assert first_unknown("t", HAS, [FIRST]) == HAS[1]
    assert first_unknown("t", HAS, []) == HAS[0]
    with pytest.raises(Conflict, match=r"without drop\('b'\)"):
        first_unknown("t", HAS, [FIRST, SECOND, THIRD])


@pytest.mark.parametrize("edited", [[SECOND], [FIRST, THIRD], [add("a", "bigint"), SECOND, THIRD]], ids=str)
def test_a_list_that_was_edited_is_refused(edited: list[object]) -> None:
    """R32: with the number of the change, what it was and what it is."""
    with pytest.raises(SchemaMismatch, match=r"change [12] .*append new changes"):
        pending_changes("t", HAS, edited)  # type: ignore[arg-type]


def test_changes_are_part_of_a_declaration_where_there_are_any() -> None:
    """R7: a job gets a new revision by them; those without keep their identity."""

    def job(*changes: object) -> Job:
        table = Table("t", column_changes=changes)  # type: ignore[arg-type]
        return Job("j", outputs=[table], cadence="@daily")

    first = declared(job(), None)
    second = declared(job(FIRST), first)
    assert (first.revision, second.revision) == (1, 2)
    assert declared(job(), second).revision == 1
    assert "column_changes" not in repr(Table("t"))
