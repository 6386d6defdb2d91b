"""Pool of a store's connections: it closes idle ones in time, and each one that is returned after its end."""

from __future__ import annotations

import logging
from time import monotonic

from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Queue

LONGEST_IDLE_S = 60.0
"""A connection that was idle for longer than this is closed when another one is returned."""


class StorePool(QueuePool):
    """Queue of open connections, none of which outlives the pool.

    SQLAlchemy closes only the idle ones when a pool is disposed of. One that is in use at that moment returns to a
    queue without readers, and stays open until the garbage collector finds it: a session on the server, or a file
    descriptor that no fork may inherit.
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
        """Close connections that were idle for :data:`LONGEST_IDLE_S`.

        A task that computes for hours needs one connection to renew its lock; any other is an idle session on the
        server.
        """
        while (record := self._longest_idle()) is not None:
            record.close()
            self._dec_overflow()

    def _longest_idle(self) -> ConnectionPoolEntry | None:
        """Take the connection that was returned first out of the queue, if it was idle for too long; else None."""
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
