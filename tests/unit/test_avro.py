"""Avro files: integers are encoded as pyiceberg encodes them; a damaged file is told from a short one."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from airflow_provider.tables.iceberg.avro import (
    BLOCK,
    Damaged,
    Encoder,
    Form,
    Kind,
    Statistics,
    decoded,
    encoded,
)

MOST = 2**63


@given(st.integers(-MOST, MOST - 1))
@example(-MOST)
@example(MOST - 1)
@example(0)
@example(63)
@example(64)
@example(-64)
@example(-65)
def test_an_integer_is_encoded_as_pyiceberg_does(integer: int) -> None:
    contents = []
    for kind in (Encoder, BinaryEncoder):
        content = io.BytesIO()
        kind(content).write_int(integer)
        contents.append(content.getvalue())
    assert contents[0] == contents[1]


SCHEMA = Schema(NestedField(1, "n", LongType()))
KIND = Kind(schema=SCHEMA, types={-1: Record}, enums={})


@pytest.mark.parametrize("number", [1, BLOCK + 1])
def test_a_block_that_does_not_end_where_it_should_is_damage(number: int) -> None:
    """R22: of a damaged manifest no entry is taken for all that there are; the last block ends as each other does."""
    whole = encoded(Form.of(SCHEMA, "n"), {}, [Record(at) for at in range(number)])
    assert [record[0] for record in decoded(whole, KIND)] == list(range(number))
    with pytest.raises(Damaged, match="does not end where it should"):
        decoded(whole[:-1] + bytes([whole[-1] ^ 1]), KIND)
    with pytest.raises(Damaged):
        decoded(whole[:-1], KIND)


def test_a_block_with_more_records_than_it_says_is_damage() -> None:
    """R22: of a damaged manifest no entry is passed over."""
    form = Form.of(SCHEMA, "n")
    whole, empty = (encoded(form, {}, [Record(at) for at in range(number)]) for number in (2, 0))
    one = bytearray(whole)
    assert one[len(empty)] == 2 * 2, "its number of records, as Avro writes it"
    one[len(empty)] = 2 * 1
    with pytest.raises(Damaged, match="has other records than it says"):
        decoded(bytes(one), KIND)


def test_a_part_of_a_file_is_damage_wherever_it_ends() -> None:
    """R22: pyiceberg's decoder reads on beyond the end, and half a header was a manifest without entries."""
    form = Form.of(SCHEMA, "n")
    whole, empty = (encoded(form, {}, [Record(at) for at in range(number)]) for number in (2, 0))
    assert decoded(empty, KIND) == []
    for end in {*range(len(whole))} - {len(empty)}:
        with pytest.raises(Damaged):
            decoded(whole[:end], KIND)


def test_statistics_are_of_as_many_columns_as_there_are_values() -> None:
    """R22: a value more or less would be that of another column, and rows would be skipped by it."""
    assert Statistics((1, 2), [10, 20])[2] == 20
    for values in ([10], [10, 20, 30]):
        with pytest.raises(ValueError, match="values of 2 columns"):
            Statistics((1, 2), values)
