"""Options of a read: level, alignment, consistency."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from airflow_provider.domain.errors import InvalidInput


class Level(StrEnum):
    """Isolation of a read."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"
    REPEATABLE_READ = "repeatable_read"


class Align(StrEnum):
    """Rule by which tables of different cadences meet in one cut."""

    EXACT = "exact"
    """All tables at one barrier, which all of them have reached."""
    FLOOR = "floor"
    """Full tables may lag: each is read at its last barrier, labelled, at most a declared time before the cut's."""


class Consistency(StrEnum):
    """The tables whose progress a cut waits for."""

    ROLLING = "rolling"
    """The tables in the cut."""
    ALTOGETHER = "altogether"
    """All tables of the domain: the cut is at a barrier that each of them has published."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadDefaults:
    """Level and consistency of a read that names none."""

    level: Level = Level.READ_COMMITTED
    consistency: Consistency = Consistency.ROLLING


READ_DEFAULTS = ReadDefaults()


def checked_lag(align: Align, max_lag: timedelta | None) -> timedelta | None:
    """Return *max_lag*.

    :raises InvalidInput: a lag with ``exact``, or no lag with ``floor``.
    """
    if align is Align.EXACT and max_lag is None:
        return None
    if align is Align.FLOOR and isinstance(max_lag, timedelta) and max_lag >= timedelta(0):
        return max_lag
    raise InvalidInput(
        field="max_lag",
        value=max_lag,
        expected="a duration of zero or more with align='floor', and none with align='exact'",
        next_step="say how much older than the cut a slower full table may be.",
    )
