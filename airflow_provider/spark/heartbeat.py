"""Heartbeat of an attempt: renew its lock while its Spark work runs, and notice when the attempt is over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_provider.domain.errors import EpochError, Fenced, LeaseExpired

if TYPE_CHECKING:
    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.epoch import Attempt

log = logging.getLogger(__name__)

_BEATS_PER_TTL = 6


class Heartbeat:
    """A thread that renews one attempt's lock.

    If the store does not answer, the thread asks again at the next beat, until the lock has ended. A newer token ends
    the attempt: every :meth:`check` raises, and the thread calls *interrupt* until the block has ended.

    :param interrupt: stops the attempt's Spark jobs; called from the thread.
    """

    def __init__(self, service: EpochService, attempt: Attempt, interrupt: Callable[[], None]) -> None:
        self._service = service
        self._attempt = attempt
        self._interrupt = interrupt
        self._clock = service.clock
        self._pause = min(service.defaults.heartbeat_interval, attempt.ttl / _BEATS_PER_TTL)
        self._stopped = threading.Event()
        self._over: Fenced | None = None
        self._until = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"epochs-heartbeat-{attempt.token}", daemon=True
        )

    def start(self) -> None:
        """Renew the lock once, then go on in the background.

        :raises Fenced: the attempt is over already.
        """
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the lock stays as it is."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def check(self) -> None:
        """Raise if the attempt must not go on.

        :raises Fenced: a newer attempt exists.
        :raises LeaseExpired: the lock, which is also the claim on the inputs, was not renewed in time (R22).
        """
        if self._over is not None:
            raise self._over
        late = self._clock.monotonic() - self._until
        if late > 0:
            raise LeaseExpired(
                f"{self._attempt}: its lock of {self._attempt.ttl} was not renewed and ended "
                f"{timedelta(seconds=late)} ago; what was read since may be gone.",
                next_step="look at the metadata store and at this host's load, then run the epoch again.",
                attempt=str(self._attempt),
                late=timedelta(seconds=late),
            )

    def _beat(self) -> None:
        # Count from before the request: the store counts from when it received it, so that the lock seen here ends
        # no later than the one in the store.
        asked = self._clock.monotonic()
        self._until = asked + self._service.heartbeat(self._attempt).total_seconds()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause.total_seconds()):
            try:
                self._beat()
            except Fenced as error:
                self._over = error
                log.warning("attempt %s is over: %s", self._attempt, error)
                self._interrupt_until_stopped()
                return
            except EpochError as error:
                log.warning("the lock of attempt %s was not renewed: %s", self._attempt, error)

    def _interrupt_until_stopped(self) -> None:
        """Interrupt repeatedly: an interruption has no effect on Spark work that starts after it."""
        self._interrupt()
        while not self._stopped.wait(self._pause.total_seconds()):
            self._interrupt()
