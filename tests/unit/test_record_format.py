"""Which fields and values of stored records came with which format: older versions of the package know the others."""

from __future__ import annotations

from pathlib import Path

from tests.record_shapes import places

RECORDED = Path(__file__).parents[1] / "recorded" / "format_1.txt"
"""Every field and value of format 1, as the first version of the package knew them; never changed."""


def test_new_fields_and_values_declare_their_format() -> None:
    """R36: otherwise an older version of the package would meet it in a store that both use."""
    first = set(RECORDED.read_text().split())
    unmarked = [place.path for place in places() if place.path not in first and place.since == 1]
    assert not unmarked, "annotate with domain.format_marks.since(2), codec.KINDS_SINCE or codec.VALUES_SINCE"


def test_new_fields_have_a_default() -> None:
    first = set(RECORDED.read_text().split())
    parents = {place.path.rpartition(".")[0] for place in places() if place.path not in first}
    missing = [
        place.path
        for place in places()
        if place.path not in first
        and not place.has_default
        and place.path.rpartition(".")[0] in parents & first
    ]
    assert not missing


def test_fields_and_values_of_the_first_format_are_still_written() -> None:
    """R36: what is removed or renamed needs a way up, and older versions of the package would miss it."""
    assert set(RECORDED.read_text().split()) <= {place.path for place in places()}
