"""A network between a client and a server on this host, which counts round trips and loses messages on demand."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """What is lost, from a message on that holds the bytes *when*.

    :param reply: the message arrives and its reply does not; else the message itself is lost.
    :param hang: nothing ends: the client is left waiting; else its connection is closed.
    """

    when: bytes
    reply: bool
    hang: bool


class Proxy:
    """Forwards connections to *port* of this host.

    :attr:`loss` may be set at any time; it strikes once, and then for all that its connection sends or receives.
    :attr:`round_trips` counts how often a client waited for an answer.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.loss: Loss | None = None
        self.lost = threading.Event()
        self.round_trips = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        for sock in (self._listener, *self._open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for sock in (client, server):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [client, server]
                relay = _Relay(self, client, server)
                for pump in (relay.requests, relay.replies):
                    self._threads.append(threading.Thread(target=pump, daemon=True))
                    self._threads[-1].start()


class _Relay:
    """One connection."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._loss: Loss | None = None
        self._answered = True

    def requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(65_536):
                self._proxy.round_trips += self._answered
                self._answered = False
                loss = self._proxy.loss
                if loss is not None and loss.when in data:
                    self._loss, self._proxy.loss = loss, None
                    self._proxy.lost.set()
                if self._loss is None or self._loss.reply:
                    self._server.sendall(data)
                elif not self._loss.hang:
                    break
        self._end(self._client, self._server)

    def replies(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(65_536):
                self._answered = True
                if self._loss is None:
                    self._client.sendall(data)
                elif not self._loss.hang:
                    break
        if self._loss is None or not self._loss.hang:
            self._end(self._client, self._server)

    def _end(self, *ends: socket.socket) -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
