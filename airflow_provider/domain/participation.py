"""Bounds of an attempt that several tasks or processes share."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import quote

from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Job

MOST_PARTICIPANTS = 1_000
_REQUIREMENTS_BYTES = 600_000
"""Maximum size of the requirements of participants in a publish: two thirds of what every store can transact."""
_KEY_BYTES = 170
"""Bytes that a store adds to the names of a domain and a job in the key of a participant's try."""


def most_participants(job: Job) -> int:
    """Return the maximum number of participants of *job*: publish requires the absence of a newer try of each (R10)."""
    each = 2 * (len(quote(job.domain)) + len(quote(job.name)) + _KEY_BYTES)
    return min(MOST_PARTICIPANTS, _REQUIREMENTS_BYTES // each)


def refuse_participants(number: object, job: Job) -> None:
    """Refuse a *number* of participants that is no number, or more than one publish can hold in every store.

    :raises InvalidInput: with the maximum.
    """
    most = most_participants(job)
    if type(number) is not int or not 1 <= number <= most:
        raise InvalidInput(
            field="participants",
            value=number,
            expected=f"a number from 1 to {most}",
            next_step="let each participant write more: one transaction publishes them all.",
        )


def refuse_shared_ttl(ttl: object, defaults: Defaults) -> None:
    """Refuse a time to live that a shared attempt cannot have; None is accepted.

    :raises InvalidInput: with the shortest and the longest.
    """
    if ttl is not None and not (
        isinstance(ttl, timedelta) and defaults.lock_ttl <= ttl <= defaults.lease_longest
    ):
        raise InvalidInput(
            field="lock_ttl",
            value=ttl,
            expected=f"a timedelta from {defaults.lock_ttl} to {defaults.lease_longest}",
        )
