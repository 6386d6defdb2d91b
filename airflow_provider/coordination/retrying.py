"""The retry loop: ask again after a lost reply (R15), decide again after a lost race.

Every operation reads, decides and writes; a repetition finds its own earlier write and returns the same answer. So a
lost reply is resolved by a repetition of the whole operation, never of its write alone.
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
    """The records that were read are too old to decide on: read and decide again; nothing was changed."""


def retry(
    operation: Callable[[], Answer],
    *,
    clock: Clock,
    random: Random,
    timeout: timedelta,
    lost: Conflict | None = None,
) -> Answer:
    """Run *operation*, again while the store does not answer and *timeout* has not passed.

    With *lost*, also again after a lost race. The operation reads, decides and transacts: a refused transaction, or
    :class:`ReadAgain`, starts it from its first read.

    :param lost: raised after too many lost races; None lets the first refusal through.
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
            # The store has answered: a later outage has the whole time again.
            outage = _Outage(clock, random, timeout)
        except (OutcomeUnknown, StoreUnavailable) as error:
            outage.wait(error)
            races = _Races(clock, random)


class _Outage:
    """One outage of the store, and the last request with an unknown outcome."""

    def __init__(self, clock: Clock, random: Random, timeout: timedelta) -> None:
        self._clock, self._random = clock, random
        self._deadline = clock.monotonic() + timeout.total_seconds()
        self._pause = _FIRST_PAUSE
        self._unknown: OutcomeUnknown | None = None

    def wait(self, error: OutcomeUnknown | StoreUnavailable) -> None:
        """Wait before the next try.

        :raises OutcomeUnknown: time is up, and a request may have been applied.
        :raises StoreUnavailable: time is up, and none was applied.
        """
        if isinstance(error, OutcomeUnknown):
            self._unknown = error
        if self._clock.monotonic() >= self._deadline:
            # A request that may have been applied outweighs later ones that certainly were not.
            if self._unknown is None or self._unknown is error:
                raise error
            raise self._unknown from error
        self._clock.sleep(self._pause * self._random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class _Races:
    """Lost races in a row: the longest possible pause doubles each time, so that contention subsides.

    The second try follows at once: mostly it is alone.
    """

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock, self._random = clock, random
        self._number = 0
        self._pause = timedelta(0)

    @property
    def are_over(self) -> bool:
        return self._number >= _TRIES

    def draw(self) -> None:
        """Choose the pause that follows this try if it loses its race."""
        longest = _SHORTEST_BACKOFF * (min(2**self._number, 32) - 1)
        self._pause = longest * self._random.random()

    def wait(self) -> None:
        self._clock.sleep(self._pause)
        self._number += 1
