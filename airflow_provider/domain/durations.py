"""Lengths of time as people write them in options and addresses: ``90s``, ``15m``, ``6h``, ``2d``."""

from __future__ import annotations

import re
from datetime import timedelta

from airflow_provider.domain.error_families import InvalidInput

_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def duration(text: str | None, field: str) -> timedelta | None:
    """Parse a length of time; None gives None.

    :raises InvalidInput: *text* is something else; names *field*.
    """
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    if found is None:
        raise InvalidInput(field=field, value=text, expected="a positive number and a unit: 90s, 15m, 6h, 2d")
    return int(found[1]) * _UNITS[found[2]]


def checked_ttl(ttl: timedelta, longest: timedelta) -> timedelta:
    """Return *ttl*.

    :raises InvalidInput: not a duration above zero, or more than *longest*.
    """
    if not isinstance(ttl, timedelta) or not timedelta(0) < ttl <= longest:
        raise InvalidInput(
            field="ttl",
            value=ttl,
            expected=f"a duration above zero and at most {longest}",
            next_step="renew the lease while it is needed, instead of asking for more at once.",
        )
    return ttl
