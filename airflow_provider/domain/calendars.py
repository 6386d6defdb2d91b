"""Compare two calendars at sampled barriers (R6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from airflow_provider.domain.interval import Cadence

_SAMPLE_START = datetime(2024, 1, 1, tzinfo=UTC)
_SAMPLE_MONTHS = 12
_SAMPLE_RUN = 50


def barrier_of_one_only(one: Cadence, other: Cadence) -> datetime | None:
    """Return the first sampled barrier of *one* that is no barrier of *other*; None if there is none."""
    sampled = _sample(one, (*one.changes, *other.changes))
    return next((moment for moment in sampled if not other.is_barrier(moment)), None)


def _sample(cadence: Cadence, changes: Iterable[datetime]) -> Iterator[datetime]:
    """Yield barriers of a year with its clock changes: a run at its start, then a few of each half month.

    :param changes: barriers at which a calendar changes; a run after each of them is sampled, too.
    """
    for start in (_SAMPLE_START, *changes):
        moment = start
        for _ in range(_SAMPLE_RUN):
            moment = cadence.next_after(moment)
            yield moment
    for half in range(2 * _SAMPLE_MONTHS):
        moment = _SAMPLE_START + half * timedelta(days=15)
        for _ in range(3):
            moment = cadence.next_after(moment)
            yield moment
