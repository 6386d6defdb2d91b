"""The pool of a store's connections: one that has ended closes what comes back to it."""

from __future__ import annotations

import logging

from sqlalchemy.pool import ConnectionPoolEntry, QueuePool


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
        super()._do_return_conn(record)
        if self._ended:
            super().dispose()


# SQLAlchemy names a pool's logger after its class, and keeps its own pools' quiet.
logging.getLogger(f"{StorePool.__module__}.{StorePool.__qualname__}").setLevel(logging.WARNING)
