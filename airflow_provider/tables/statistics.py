"""What is known of the rows of a state without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnBounds:
    """What the files of a state say about one column without being read.

    :param nulls: how many there are. :param lower: no value is less; a scalar of the column's type. :param upper:
        no value is greater. Each is None where the files do not say. NaN counts for neither bound.
    """

    nulls: int | None = None
    lower: pa.Scalar | None = None
    upper: pa.Scalar | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistics:
    """What is known of the rows of a state without reading them; a column that is not there is not known."""

    rows: int
    columns: Mapping[str, ColumnBounds]
