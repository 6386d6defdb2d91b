"""Row and column statistics of a state, known without reading rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

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
class Clip:
    """Files with the rows of many epochs, of which a state has some.

    :param files: URIs of these files. :param low: the state has their rows with a later epoch; None for no such bound.
    :param high: likewise, with this epoch or an earlier one.
    :param without: epochs whose rows in these files are replaced by staged output.
    """

    files: frozenset[str]
    low: datetime | None
    high: datetime
    without: tuple[datetime, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SizedFiles:
    """URIs of files, with the number of their rows and bytes together; each is None if it is not known.

    :param added: for each of them what it does not say of its rows, if some are of other programs; otherwise empty.
    :param clip: rows of some of them that are not of the state; None if there are none. Rows and bytes count
        whole files.
    """

    files: Sequence[str]
    rows: int | None = None
    size_bytes: int | None = None
    added: Sequence[Added] = ()
    clip: Clip | None = None
