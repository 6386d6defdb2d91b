"""Values that no user means: what a public name is given by mistake, or by an attacker."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider.domain.errors import EpochError

NAMES: dict[str, Any] = {
    "a percent sign": "%2e%2e",
    "a quote": "'; DROP TABLE epochs; --",
    "braces": "{a}",
}
"""Odd, and good names all the same."""

TEXTS: dict[str, Any] = NAMES | {
    "two lines": "a\nb",
    "a path": "../x",
    "300 characters": "x" * 300,
    "form D": unicodedata.normalize("NFD", "é"),
    "right to left": "\u202e",
}
"""Good text, but no name."""

COLUMNS = {*NAMES, "a path", "form D", "right to left"}
"""Good names of columns: they are part of no path."""

VALUES: dict[str, Any] = TEXTS | {
    "nothing": None,
    "zero": 0,
    "below zero": -1,
    "true": True,
    "a fraction": 1.5,
    "no number": math.nan,
    "no end": math.inf,
    "beyond all types": 10**5000,
    "no decimal": Decimal("NaN"),
    "a signal": Decimal("sNaN"),
    "bytes": b"",
    "a list": [],
    "a list of nothing": [None],
    "a mapping": {},
    "an object": object(),
    "a function": len,
    "a class": dict,
    "empty": "",
    "blank": " ",
    "NUL": "a\0b",
    "half a pair": "\ud800",
    "2 MB": "x" * 2_000_000,
    "a time without zone": datetime(2024, 5, 1),  # noqa: DTZ001
    "a date": date(2024, 5, 1),
    "a duration": timedelta(days=1),
    "a tuple": ("a",),
}


def refused(call: Callable[[Any], object], accepted: Iterable[str]) -> None:
    """Give *call* every value: it takes those in *accepted*, and of any other it says in few words what is wrong."""
    good = set(accepted)
    assert good <= set(VALUES)
    for name, value in VALUES.items():
        if name in good:
            call(value)
            continue
        with pytest.raises(EpochError) as told:
            pytest.fail(f"{name} was taken: {call(value)!r}")
        message = str(told.value)
        message.encode()  # can be printed
        assert len(message) < 1000, name
        assert told.value.details, name


def undecodable(values: list[bytes]) -> pa.Array:
    """Return text with any bytes, as Spark may hand it over."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())
