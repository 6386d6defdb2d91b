"""Close all SQLite connections before the process forks.

A child that opens a file that its parent had open inherits SQLite's belief that the file is locked already,
and takes no lock of its own. When the parent closes its last connection, it deletes the write-ahead log, and
later commits of the child are lost without an error. So idle connections are closed before each fork,
and a fork waits until running statements have ended. (SQLite, *How To Corrupt An SQLite Database File*, 2.6.)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition, local
from weakref import WeakSet

from sqlalchemy import Engine

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 30.0


class _Gate:
    """Gate that lets operations run side by side, and a fork only between them."""

    def __init__(self) -> None:
        self.engines: WeakSet[Engine] = WeakSet()
        self.reset()

    def reset(self) -> None:
        self._changed = Condition()
        self._running = 0
        self._forking = False
        self._mine = local()

    @contextmanager
    def operation(self) -> Iterator[None]:
        if getattr(self._mine, "inside", False):
            yield
            return
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forking)
            self._running += 1
        self._mine.inside = True

    def _leave(self) -> None:
        self._mine.inside = False
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def before_fork(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._forking)
            self._forking = True
            # A thread that forks inside an operation cannot wait for its own end.
            own = int(getattr(self._mine, "inside", False))
            if not self._changed.wait_for(lambda: self._running == own, _LONGEST_WAIT_S) or own:
                log.warning("forking while a transaction of the SQLite metadata store is running")
        for engine in list(self.engines):
            engine.dispose()

    def after_fork_in_parent(self) -> None:
        with self._changed:
            self._forking = False
            self._changed.notify_all()


_gate = _Gate()
os.register_at_fork(
    before=_gate.before_fork, after_in_parent=_gate.after_fork_in_parent, after_in_child=_gate.reset
)


def operation() -> AbstractContextManager[None]:
    """Return the context in which a connection must be used: no other thread forks inside it. May be nested."""
    return _gate.operation()


def close_before_forks(engine: Engine) -> None:
    """Close the idle connections of *engine* before each fork of this process, as long as the engine lives."""
    _gate.engines.add(engine)
