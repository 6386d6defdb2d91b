"""Names are checked where they enter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import (
    column_name,
    domain_name,
    job_name,
    source_column_name,
    table_name,
)

SOUND = [
    "flights",
    "Flights",
    "flights_clean",
    "a.b",
    "a-b",
    "düsseldorf",
    "t 1",
    "a'b",
    'a"b',
    "a;--",
    "100%",
    "x" * 255,
    "表",
]
UNSOUND = [
    "",
    " a",
    "a ",
    ".",
    "..",
    "zookeeper",
    "a/b",
    "a\\b",
    "../x",
    "a\0b",
    "a\nb",
    "a\ud800",
    "a\u202eb",
    "a\u200bb",
    "a\ue000b",
    "a\u0378b",
    "a\u2028b",
    "a\u2029b",
    "e\u0301",
    "x" * 256,
    "ü" * 128,
    None,
    7,
    b"bytes",
]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_name_is_kept_as_it_is(name: str) -> None:
    assert table_name(name) == name


@pytest.mark.parametrize("name", UNSOUND, ids=repr)
@pytest.mark.parametrize(
    ("check", "field"), [(table_name, "table"), (job_name, "job"), (domain_name, "domain")]
)
def test_an_unsound_name_is_refused_by_field_and_value(check: object, field: str, name: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check(name)  # type: ignore[operator]
    assert refused.value.details["field"] == field
    assert refused.value.details["value"] == name
    assert refused.value.details["expected"]
    assert refused.value.next_step


COLUMNS = [
    *SOUND,
    " a",
    "a ",
    ".",
    "zookeeper",
    "price/kg",
    "a\\b",
    "e\u0301",
    "\u200d",
    "a\u202eb",
    "a\ue000b",
]
NO_COLUMNS = [
    "",
    " ",
    "a\0b",
    "a\nb",
    "a\ud800",
    "a\u2028b",
    "a\u2029b",
    "x" * 256,
    "ü" * 128,
    None,
    7,
    b"bytes",
]


@pytest.mark.parametrize("name", COLUMNS, ids=repr)
def test_a_column_may_have_names_that_no_path_has(name: str) -> None:
    assert column_name(name) == name


@pytest.mark.parametrize("name", NO_COLUMNS, ids=repr)
def test_an_unsound_column_is_refused_by_value(name: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        column_name(name)
    assert (refused.value.details["field"], refused.value.details["value"]) == ("column", name)


@pytest.mark.parametrize("name", UNSOUND, ids=repr)
def test_columns_of_other_databases_keep_the_rule_of_names(name: object) -> None:
    with pytest.raises(InvalidInput):
        source_column_name(name)


@given(st.text())
def test_any_text_is_kept_or_refused(text: str) -> None:
    try:
        assert table_name(text) == text
    except InvalidInput:
        return
    assert text == text.strip()
    assert "/" not in text
