"""Times, lengths and epochs as commands print them and take them."""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow_provider.cli.answer import moment
from airflow_provider.domain.interval import Interval

_DAY = timedelta(days=1)


def iso(time: datetime | None) -> str | None:
    """Return *time* for programs."""
    return None if time is None else time.isoformat()


def seconds(span: timedelta | None) -> int | None:
    """Return the whole seconds of *span*, for programs."""
    return None if span is None else int(span.total_seconds())


def from_to(interval: Interval) -> str:
    """Return *interval* for people."""
    return f"{moment(interval.start)} to {moment(interval.end)} UTC"


def typed_epoch(interval: Interval, timezone: str) -> str:
    """Return *interval* as commands take it; a day in UTC by its date.

    :param timezone: of the job's calendar, in which commands take a date for a day.
    """
    if (
        timezone == "UTC"
        and interval.end - interval.start == _DAY
        and f"{interval.start:%H%M%S%f}" == "000000000000"
    ):
        return f"{interval.start:%Y-%m-%d}"
    return f"{interval.start.isoformat()}/{interval.end.isoformat()}"
