"""Avro files: integers are encoded as pyiceberg encodes them."""

from __future__ import annotations

import io

from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.avro.encoder import BinaryEncoder

from airflow_provider.tables.iceberg.avro import Encoder

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
