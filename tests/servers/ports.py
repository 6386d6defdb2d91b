"""Ports of this host for servers of one's own."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from random import SystemRandom

_CLIENTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST, _CLIENTS_OF_OTHER_SYSTEMS = 10_000, 32_768
_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 that no process listens on, and that this process was not given before.

    It is below those that the system gives to clients: a connection that a client opens while a server is down
    cannot take the port on which the server is to be started again.
    """
    first_of_clients = (
        int(_CLIENTS.read_text().split()[0]) if _CLIENTS.exists() else _CLIENTS_OF_OTHER_SYSTEMS
    )
    while True:
        port = SystemRandom().randrange(_LOWEST, max(first_of_clients, _LOWEST + 1_000))
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
