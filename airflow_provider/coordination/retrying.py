"""Asking again after a lost reply (R15).

Every operation of the coordinator reads, decides and writes; repeated, it finds what it did before and answers
the same. So a lost reply is settled by repeating the whole operation, never by repeating its write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
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


def pauses(clock: Clock, random: Random) -> Iterator[Callable[[], None]]:
    """For each of many tries, what waits before the next one: longer each time, so that a crowd ends.

    The second try comes at once: mostly it is alone.
    """
    for number in range(_TRIES):
        longest = _SHORTEST_BACKOFF * (min(2**number, 32) - 1)
        yield partial(clock.sleep, longest * random.random())


def settled(operation: Callable[[], Answer], *, clock: Clock, random: Random, patience: timedelta) -> Answer:
    """Run *operation*, again while the store does not answer and *patience* lasts.

    :raises OutcomeUnknown: a reply was lost and the store could not be asked in time.
    :raises StoreUnavailable: the store never answered, and no change was sent to it.
    """
    deadline = clock.monotonic() + patience.total_seconds()
    pause = _FIRST_PAUSE
    unknown: OutcomeUnknown | None = None
    while True:
        try:
            return operation()
        except OutcomeUnknown as error:
            unknown = error
        except StoreUnavailable as error:
            if clock.monotonic() >= deadline and unknown is None:
                raise
            if clock.monotonic() >= deadline and unknown is not None:
                raise unknown from error
        if clock.monotonic() >= deadline and unknown is not None:
            raise unknown
        clock.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, _LONGEST_PAUSE)


def decided(
    operation: Callable[[], Answer], lost: Conflict, *, clock: Clock, random: Random, patience: timedelta
) -> Answer:
    """Run *operation* as :func:`settled` does, and anew when what it decided on was changed under it.

    :param lost: raised when others were faster every time.
    """
    for pause in pauses(clock, random):
        try:
            return settled(operation, clock=clock, random=random, patience=patience)
        except RequirementFailed:
            pause()
    raise lost
