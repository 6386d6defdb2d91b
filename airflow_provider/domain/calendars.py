"""Calendars of jobs: when one may change (R7), and the barriers that two have in common (R6). Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.interval import Cadence, Interval

_SAMPLE_START = datetime(2024, 1, 1, tzinfo=UTC)
_SAMPLE_MONTHS = 12
_SAMPLE_RUN = 50


def check_change(old: Cadence, new: Cadence, computed: Iterable[Interval]) -> None:
    """Refuse to change the calendar of epochs that are computed already, or are being computed (R7).

    :param computed: epochs that are committed or open, or whose sources have recorded bounds.
    :raises TopologyError: an epoch ends after the barrier at which the calendar changes.
    """
    since = new.until(old)
    last = max(computed, key=lambda epoch: epoch.end, default=None)
    if since is not None and last is not None and last.end > since:
        raise TopologyError(
            f"the cadence cannot change at {since.isoformat()}: {last} is computed by the cadence {old}, or was.",
            next_step=f"let it change at {last.end.isoformat()} or a later barrier of both, or end what is open.",
            barrier=since,
            interval=last,
        )


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
