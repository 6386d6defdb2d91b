"""Several clients at work at the same time, each in a process of its own: no interpreter's lock is shared."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Protocol, Self

from benchmarks.sizes import Size

START_S = 0.1
"""How far ahead a common start is set."""


class Client(Protocol):
    """What a worker works with; all its methods are called by name."""

    def close(self) -> None: ...


class Workers:
    """*number* processes; each makes a client of its own with ``make(url, position)``.

    In the smallest run they are threads, since a process takes seconds to start.
    """

    def __init__(
        self, number: int, make: Callable[[str, int], Client], url: str, size: Size = Size.FULL
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        start: Any = context.Process if size is Size.FULL else threading.Thread
        for position in range(number):
            ours, theirs = context.Pipe()
            process = start(target=_work, args=(theirs, make, url, position), daemon=True)
            process.start()
            if size is Size.FULL:
                theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def all(self, method: str, *arguments: Any) -> list[Any]:
        """Call *method* of every client, all side by side; return their answers."""
        for pipe in self._pipes:
            pipe.send((method, arguments))
        answers = [pipe.recv() for pipe in self._pipes]
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in self._pipes:
            pipe.close()  # which ends the worker
        for process in self._processes:
            process.join(10)
            if process.is_alive() and not isinstance(process, threading.Thread):
                process.kill()


def _work(pipe: Connection, make: Callable[[str, int], Client], url: str, position: int) -> None:
    client = make(url, position)
    try:
        while True:
            method, arguments = pipe.recv()
            try:
                pipe.send(getattr(client, method)(*arguments))
            except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                pipe.send(RuntimeError(f"client {position}: {type(error).__name__}: {error}"))
    except EOFError:
        pass
    finally:
        client.close()
        pipe.close()


def common_start() -> float:
    """A moment soon, on the clock that all processes of this host share."""
    return time.monotonic() + START_S


def wait_until(moment: float) -> None:
    """Sleep until *moment* of that clock."""
    time.sleep(max(0.0, moment - time.monotonic()))
