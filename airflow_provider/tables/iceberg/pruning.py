"""Files that have no row for a reader's filters, by the bounds in Iceberg's manifests: they are not opened."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.types import NestedField

from airflow_provider.tables.filters import Condition, Filters
from airflow_provider.tables.iceberg import schemas
from airflow_provider.tables.iceberg.bounds import bound_scalar, nulls_in


def test_of(filters: Filters) -> Callable[[DataFile], bool]:
    """Return a function that says whether a data file may have a row that meets *filters*."""
    schema, arrow = schemas.from_json(filters.schema), schemas.arrow_from_json(filters.schema)
    known = [
        (condition, schema.find_field(condition.column), arrow.field(condition.column).type)
        for condition in filters.conditions
    ]
    return lambda file: all(_may_hold(condition, field, kind, file) for condition, field, kind in known)


def _may_hold(condition: Condition, field: NestedField, kind: pa.DataType, file: DataFile) -> bool:
    """Return whether *condition* may hold for a row of *file*; True where the manifest does not tell."""
    number = field.field_id
    if nulls_in(file, number) == file.record_count:
        return False
    lower, upper = (file.lower_bounds or {}).get(number), (file.upper_bounds or {}).get(number)
    try:
        found = [bound_scalar(bound, field, kind) for bound in (lower, upper)]
        low, high = [None if bound is None else bound.as_py() for bound in found]
    except (
        ValueError,
        OverflowError,
    ):  # bounds that Python has no value for: text cut within a letter, a far year
        return True
    return not (_is_value(low) and _is_value(high)) or condition.may_hold(low, high)


def _is_value(bound: object) -> bool:
    """Return whether *bound* says something: old writers of Parquet have NaN for the bound of a file with NaN."""
    return bound is not None and not (isinstance(bound, float) and math.isnan(bound))
