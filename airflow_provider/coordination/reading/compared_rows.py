"""Comparison of two Arrow tables as multisets of rows: equal rows count as often as they occur."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_SIGN, _POSITION = "sign", "position"


def compared_rows(old: pa.Table, new: pa.Table, leaves_out: str = "") -> tuple[pa.Table, pa.Table]:
    """Return the rows of *new* that *old* lacks, and those of *old* that *new* lacks, each in its table's order.

    Arrow groups equal rows of both: a row that occurs more often in one of them is its surplus. NaN equals NaN, and
    missing values each other.

    :param new: has the columns of *old*. :param leaves_out: name of a column that is not compared.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    sides = pa.concat_tables([_keys(old, leaves_out, -1, 0), _keys(new, leaves_out, 1, old.num_rows)])
    keys = sides.column_names[:-2]
    # By one thread: positions of a group come in their order, those of the old rows first.
    grouped = sides.group_by(keys, use_threads=False).aggregate([(_SIGN, "sum"), (_POSITION, "list")])
    surplus, positions = grouped[f"{_SIGN}_sum"], grouped[f"{_POSITION}_list"]
    is_added, is_removed = pc.greater(surplus, 0), pc.less(surplus, 0)
    added = _last(positions.filter(is_added), surplus.filter(is_added))
    removed = _first(positions.filter(is_removed), pc.negate(surplus.filter(is_removed)))
    return new.take(_sorted(pc.subtract(added, old.num_rows))), old.take(_sorted(removed))


def _keys(rows: pa.Table, leaves_out: str, sign: int, first: int) -> pa.Table:
    """Return the columns that are compared, numbered, with the side and the position of each row."""
    import pyarrow as pa

    names = [name for name in rows.column_names if name != leaves_out]
    columns = {str(number): _comparable(rows[name]) for number, name in enumerate(names)}
    return pa.table(
        {
            **(columns or {"0": pa.nulls(rows.num_rows, pa.bool_())}),
            _SIGN: pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows),
            _POSITION: _numbers(first, rows.num_rows),
        }
    )


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that Arrow groups, equal where those of *column* are.

    Of texts their bytes, since Spark's strings may be no UTF-8; of floats their bits; of nested values Python's text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _comparable(_by_chunk(column, kind.storage_type, lambda chunk: chunk.storage))
    if pa.types.is_nested(kind):
        texts = [None if value is None else repr(value).encode() for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_binary())])
    if pa.types.is_dictionary(kind):
        return _comparable(column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_floating(kind):
        doubles = column.cast(pa.float64())
        whole = pc.if_else(pc.is_nan(doubles), float("nan"), doubles)
        return _by_chunk(whole, pa.int64(), lambda chunk: chunk.view(pa.int64()))
    return column


def _by_chunk(column: pa.ChunkedArray, kind: pa.DataType, change: Any) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([change(chunk) for chunk in column.chunks], kind)


def _first(lists: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.Array:
    """Return the first values of each list, as many as *numbers* says."""
    import pyarrow.compute as pc

    flat, rank, parent = _flat(lists)
    return flat.filter(pc.less(rank, numbers.take(parent)))


def _last(lists: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.Array:
    """Return the last values of each list, as many as *numbers* says."""
    import pyarrow.compute as pc

    flat, rank, parent = _flat(lists)
    left = pc.subtract(pc.list_value_length(lists), numbers)
    return flat.filter(pc.greater_equal(rank, left.take(parent)))


def _flat(lists: pa.ChunkedArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the values of all *lists*, the place of each in its list, and the number of its list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    joined = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    flat, parent = joined.flatten(), pc.list_parent_indices(joined)
    begins = pc.subtract(joined.offsets, joined.offsets[0]).take(parent)
    return flat, pc.subtract(_numbers(0, len(flat)), begins), parent


def _numbers(first: int, count: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=first - 1)


def _sorted(positions: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return positions.take(pc.sort_indices(positions))
