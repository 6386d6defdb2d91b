"""The retry loop: ask again after a lost reply (R15), decide again after a lost race.

Every operation reads, decides and writes; repeated, it finds what it did before and answers the same. So a lost reply
is settled by repeating the whole operation, never by repeating its write.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import TypeVar

from airflow_provider.domain.clock import Clock
from airflow_provider.domain.errors import Conflict, OutcomeUnknown, StoreUnavailable
from airflow_provider.stores.base import RequirementFailed

Answer = TypeVar("Answer")

_FIRST_PAUSE = timedelta(milliseconds=50)
_LONGEST_PAUSE = timedelta(seconds=2)
_SHORTEST_BACKOFF = timedelta(milliseconds=20)
_TRIES = 50


class ReadAgain(Exception):
    """What was read is older than what is to be decided on: read again, decide again; nothing was changed."""


def retry(
    operation: Callable[[], Answer],
    *,
    clock: Clock,
    random: Random,
    timeout: timedelta,
    lost: Conflict | None = None,
) -> Answer:
    """Run *operation*, again while the store does not answer and *timeout* has not passed.

    With *lost*, also again when what it decided on was changed meanwhile. It reads, decides and transacts: a refused
    transaction, or :class:`ReadAgain`, starts it from its first read.

    :param lost: raised when others were faster every time; None lets the first refusal through.
    :raises OutcomeUnknown: a reply was lost and the store could not be asked in time.
    :raises StoreUnavailable: the store never answered, and no change was sent to it.
    """
    outage, races = _Outage(clock, random, timeout), _Races(clock, random)
    while True:
        if lost is not None:
            races.draw()
        try:
            return operation()
        except (RequirementFailed, ReadAgain):
            if lost is None:
                raise
            races.wait()
            if races.are_over:
                raise lost from None
            outage = _Outage(clock, random, timeout)  # the store has answered
        except (OutcomeUnknown, StoreUnavailable) as error:
            outage.wait(error)
            races = _Races(clock, random)


class _Outage:
    """One time in which the store does not answer, and what is known of the last request."""

    def __init__(self, clock: Clock, random: Random, timeout: timedelta) -> None:
        self._clock, self._random = clock, random
        self._deadline = clock.monotonic() + timeout.total_seconds()
        self._pause = _FIRST_PAUSE
        self._unknown: OutcomeUnknown | None = None

    def wait(self, error: OutcomeUnknown | StoreUnavailable) -> None:
        """Wait before the next try.

        :raises OutcomeUnknown: time is up, and one request may have arrived, whatever came after it.
        :raises StoreUnavailable: time is up, and none has arrived.
        """
        if isinstance(error, OutcomeUnknown):
            self._unknown = error
        if self._clock.monotonic() >= self._deadline:
            if self._unknown is None or self._unknown is error:
                raise error
            raise self._unknown from error
        self._clock.sleep(self._pause * self._random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class _Races:
    """Lost races in a row: each pause is longer than the one before, so that a crowd ends.

    The second try comes at once: mostly it is alone.
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock, self._random = clock, random
        self._number = 0
        self._pause = timedelta(0)

    @property
    def are_over(self) -> bool:
        return self._number >= _TRIES

    def draw(self) -> None:
        """Choose the pause that follows if this try is lost, too."""
        longest = _SHORTEST_BACKOFF * (min(2**self._number, 32) - 1)
        self._pause = longest * self._random.random()

    def wait(self) -> None:
        self._clock.sleep(self._pause)
        self._number += 1
