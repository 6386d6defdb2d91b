"""Which ids stand for files that Python reads, so that Spark takes a table for as large as it is."""

from __future__ import annotations

import pytest

from airflow_provider.spark.estimates import ids_for


@pytest.mark.parametrize(
    ("files", "rows", "size_bytes", "each", "width"),
    [
        (1, 100, 800, 100, 8),
        (3, 100, 10_200, 34, 100),
        (100, 3, 60, 1, 8),
        (1, 0, 0, 1, 8),
        (1, 400_000, 5_000, 400_000, 8),
        (1, 1_000, 76_000, 1_000, 76),
        (1, 10, 6_416_000, 2_000, 3_208),
        (1, 10**12, 10**15, 2**31, 512),
        (1, None, None, 2**35 // 3_208, 3_208),
        (2, 5, None, -(-(2**35 // 3_208) // 2), 3_208),
        (10**9, None, None, 1, 34),
    ],
)
def test_ids_are_as_many_as_rows_and_as_wide(
    files: int, rows: int | None, size_bytes: int | None, each: int, width: int
) -> None:
    found = ids_for(files, rows, size_bytes)
    binaries, numbers = (
        sum(column.count(kind) for column in found.columns) for kind in (": binary", ": bigint")
    )
    assert found.each == each
    assert width - 4 < 8 + 50 * binaries + 4 * numbers <= width
