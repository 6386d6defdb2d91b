"""Row and column statistics of a state, known without reading rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider.tables.added_values import Added


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnBounds:
    """Statistics of one column over all files of a state; each is None if a file lacks it.

    :param nulls: number of nulls. :param lower: a scalar of the column's type, at most the least value.
    :param upper: likewise, at least the greatest value. NaN counts for neither bound.
    """

    nulls: int | None = None
    lower: pa.Scalar | None = None
    upper: pa.Scalar | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
    """Row count and column statistics of a state; a column that is absent from ``columns`` has none."""

    rows: int
    columns: Mapping[str, ColumnBounds]


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedFiles:
    """URIs of files, with the number of their rows and bytes together; each is None if it is not known.

    :param added: for each of them what it does not say of its rows, if some are of other programs; otherwise empty.
    """

    files: Sequence[str]
    rows: int | None = None
    size_bytes: int | None = None
    added: Sequence[Added] = ()
