"""A server for tests that is one process, and listens at one port."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from demo.processes import ManagedProcess, wait_for_port

READY_TIMEOUT_S = 120.0


class ManagedServer:
    """A server; as a context it is started, and stopped at the end.

    :param name: also that of its log in ``home/logs``. :param port: at which it will listen.
    """

    def __init__(self, *, name: str, command: Sequence[str], port: int, home: Path) -> None:
        self.port = port
        self._process = ManagedProcess(name=name, command=command, environment=os.environ, home=home)

    def start(self) -> None:
        """:raises ProcessFailedError: it does not get ready."""
        self._process.start()
        wait_for_port(self._process, self.port, timeout_s=READY_TIMEOUT_S)

    def stop(self) -> None:
        self._process.stop()

    def check(self) -> None:
        """Say so when it has ended by itself.

        :raises ProcessFailedError: naming its log.
        """
        self._process.check()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
