"""The ports that a demo needs: free before it starts, kept from other demos while it runs, and its own servers' then.

A server takes its port seconds after the demo has looked, and a client that asks at that address meanwhile may be
answered by another server. So a demo holds the UDP port of the same number from its first second on: no other demo
gets that, from whichever folder it starts, and the system frees it at the demo's end, however it ends.
"""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import dataclass

import psutil

from demo.processes import ManagedProcess, ProcessFailedError, wait_for_port

HOST = "127.0.0.1"


class PortInUseError(RuntimeError):
    """A port that the demo needs is taken.

    :param endpoint: the port.
    :param holder: the process that has it; None when this user may not know it.
    """

    def __init__(self, endpoint: Endpoint, *, holder: psutil.Process | None) -> None:
        self.endpoint = endpoint
        super().__init__(
            f"port {endpoint.number} of {HOST}, needed for {endpoint.purpose}, is in use{_described(holder)}. "
            f"Stop what holds it (an earlier demo: Ctrl-C or `make down` there), or choose another: "
            f"`make demo {endpoint.setting}=…`, `make up {endpoint.setting}=…`."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A TCP port of this host for one of the demo's servers.

    :param number: the port.
    :param purpose: what it is for, for example ``Airflow's API server``.
    :param setting: the environment variable that chooses another one.
    """

    number: int
    purpose: str
    setting: str

    def hold(self) -> socket.socket:
        """Keep it from other demos until the socket that is given is closed, here and wherever it was inherited.

        :raises PortInUseError: another demo holds it, or something listens on it.
        """
        held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            held.bind((HOST, self.number))
        except OSError as error:
            held.close()
            raise PortInUseError(self, holder=_holder(self.number, kind="udp4")) from error
        try:
            self.require_free()
        except PortInUseError:
            held.close()
            raise
        return held

    def require_free(self) -> None:
        """Refuse it when something listens on it.

        :raises PortInUseError: naming who.
        """
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, self.number))
            except OSError as error:
                raise PortInUseError(self, holder=_holder(self.number, kind="tcp")) from error

    def wait_for(self, process: ManagedProcess, *, timeout_s: float) -> None:
        """Wait until a process listens on it.

        :raises PortInUseError: the process ended, and another one listens.
        :raises ProcessFailedError: it ended, or the time is over, before it listened.
        """
        try:
            wait_for_port(process, self.number, timeout_s=timeout_s)
        except ProcessFailedError:
            if not process.running:
                self.require_free()
            raise


def _holder(port: int, *, kind: str) -> psutil.Process | None:
    """Find the process that has a port, when this user may know it."""
    states = (psutil.CONN_LISTEN, psutil.CONN_NONE)
    try:
        for connection in psutil.net_connections(kind=kind):
            if connection.laddr and connection.laddr.port == port and connection.status in states:
                return psutil.Process(connection.pid) if connection.pid else None
    except psutil.Error:
        return None
    return None


def _described(holder: psutil.Process | None) -> str:
    if holder is None:
        return ""
    try:
        return f" by {holder.name()} (pid {holder.pid}, in {holder.cwd()})"
    except psutil.Error:
        return f" by another user's process (pid {holder.pid})"
