"""The pool of a store's connections: one that has ended closes what comes back to it, and idle ones do not stay."""

from __future__ import annotations

import logging
from time import monotonic

from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Queue

LONGEST_IDLE_S = 60.0
"""A connection that was needed by nobody for so long is closed when another one is given back."""


class StorePool(QueuePool):
    """A queue of open connections, none of which outlives it.

    SQLAlchemy closes the idle ones when a pool is disposed of; one that is in use at that moment is put back into
    the queue that nobody reads any more, and stays open until the garbage collector finds it: a session on the
    server, or a descriptor of a file that no fork may inherit.
    """

    _ended = False

    def dispose(self) -> None:
        self._ended = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        record.info["returned"] = monotonic()
        super()._do_return_conn(record)
        if self._ended:
            super().dispose()
        elif self._pool.use_lifo:
            self._close_idle()

    def _close_idle(self) -> None:
        """A task that computes for hours renews its lock by one connection: the other is a session for nothing."""
        while (record := self._longest_idle()) is not None:
            record.close()
            self._dec_overflow()

    def _longest_idle(self) -> ConnectionPoolEntry | None:
        """Take out the connection that was given back first, if that is long ago."""
        waiting = self._pool
        if not isinstance(waiting, Queue):
            return None
        with waiting.mutex:
            first: ConnectionPoolEntry | None = waiting.queue[0] if waiting.queue else None
            if first is None or monotonic() - first.info.get("returned", 0.0) < LONGEST_IDLE_S:
                return None
            waiting.queue.popleft()
            return first


# SQLAlchemy names a pool's logger after its class, and keeps its own pools' quiet.
logging.getLogger(f"{StorePool.__module__}.{StorePool.__qualname__}").setLevel(logging.WARNING)
