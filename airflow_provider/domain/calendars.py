"""Whether the barriers of one calendar are barriers of another one, judged at samples (R6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from airflow_provider.domain.interval import Cadence

_SAMPLE_START = datetime(2024, 1, 1, tzinfo=UTC)
_SAMPLE_MONTHS = 12
_SAMPLE_RUN = 50


def barrier_of_one_only(one: Cadence, other: Cadence) -> datetime | None:
    """The first sampled barrier of *one* that is none of *other*; None where there is no such."""
    sampled = _sample(one, (*one.changes, *other.changes))
    return next((moment for moment in sampled if not other.is_barrier(moment)), None)


def _sample(cadence: Cadence, changes: Iterable[datetime]) -> Iterator[datetime]:
    """Barriers of a year, with its clock changes: a run at its start, then some of each half month.

    :param changes: where a calendar becomes another one: a run after each, too.
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
