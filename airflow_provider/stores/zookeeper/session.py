"""Connect to ZooKeeper: on first use, again in a forked child, with a deadline for every call.

kazoo's own waiting is not used: its plain calls hang while the connection is suspended, and its retries repeat
changes blindly. Every call here is asynchronous, and its answer is waited for until a deadline.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from threading import Event, RLock, Thread
from time import monotonic, sleep
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    SASLException,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_acl

from airflow_provider.domain.errors import EpochError, InvalidInput, StoreIncompatible, StoreUnavailable
from airflow_provider.stores.opening import with_extra
from airflow_provider.stores.zookeeper.address import Address
from airflow_provider.stores.zookeeper.multi_read import MultiRead, Nodes, flights

log = logging.getLogger(__name__)

_RECONNECTING = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.4, "max_delay": 1.0}
_GONE = (ConnectionLoss, SessionExpiredError, SessionMovedError, ConnectionClosedError)
_LONGEST_PAUSE_S = 0.2
_LONGEST_CLOSE_S = 3.0
_DROPPED = "Connection dropped"
"""Text with which kazoo reports that a server ended a connection: it stops, or accepts no more clients of this host."""
_NO_REASON = "no connection"
"""Reason in the error when kazoo has reported none: it still waits, or logging is disabled."""
_TOO_MANY = (
    " Where it runs: a server drops further clients of a host that has maxClientCnxns of them (zoo.cfg, 60 by default; "
    "`echo cons | nc HOST PORT` lists them): raise it there, or open fewer stores on this host."
)
_REFUSALS = 2
"""Refusals in a row that are final. One is not: a server that is being stopped ends SASL like one that refuses."""
_SHARE_FOR_ASKING = 0.3
"""Share of a change's remaining time that is kept to find out its outcome after a lost reply."""


@dataclass(frozen=True, slots=True)
class Get:
    """Request for a node's data and stat."""

    path: str

    def __call__(self, client: KazooClient) -> Any:
        return client.get_async(self.path)


Request = Get | Callable[[KazooClient], Any]
"""Function that sends one request and returns kazoo's promise of the answer."""


class ReplyLostError(Exception):
    """The reply to a change was lost; the change may have been made."""


class Deadline:
    """A moment of the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def left_s(self) -> float:
        """Return the seconds until the deadline, 0 if it has passed."""
        return max(0.0, self._end - monotonic())


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a change: ``create``, ``set_data``, ``check`` or ``delete``.

    :param version: expected version of the node's data, -1 for any; not for ``create``.
    """

    verb: str
    path: str
    data: bytes = b""
    version: int = -1

    @property
    def size_bytes(self) -> int:
        """Approximate size in a message: the fields, and the ACL of a created node."""
        return len(self.path) + len(self.data) + 80

    def part(self, acl: Sequence[Any]) -> Any:
        """Return the operation in kazoo's form.

        :param acl: access list of a created node.
        """
        match self.verb:
            case "create":
                return Create(self.path, self.data, acl, 0)
            case "set_data":
                return SetData(self.path, self.data, self.version)
            case "check":
                return CheckVersion(self.path, self.version)
            case _:
                return Delete(self.path, self.version)


class _Reasons(logging.Handler):
    """Handler that keeps kazoo's last warning; kazoo's own log would hold passwords."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.refused = False
        """True if SASL ended with an error; kazoo reports it only in its log."""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        self.refused = self.refused or isinstance(error, SASLException)
        log.debug("kazoo: %s", self.last)


class Session:
    """Connection that is opened on first use.

    :attr:`generation` changes whenever the connection was lost: hints that hold only behind one server are read again
    then.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._acl = CREATOR_ALL_ACL if address.has_identity else OPEN_ACL_UNSAFE
        if address.readers:
            self._acl = [*self._acl, make_acl(*address.readers, read=True)]
        self.generation = 0
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = RLock()
        self._client: Any = None
        self._changed = Event()
        self._refused = self._ended = False
        self._refusals = 0
        self._reasons = _Reasons()

    @property
    def location(self) -> str:
        return self._address.location

    # --- asking ----------------------------------------------------------------------------------------------

    def ask(self, deadline: Deadline, requests: Sequence[Request]) -> list[Any]:
        """Send *requests* in one flight and return their answers, None for a node that does not exist.

        After a lost connection all are sent again, so that they must only read, or be harmless to repeat.

        :raises StoreUnavailable: no answer until *deadline*.
        :raises StoreIncompatible: this user may not read a node.
        """
        while True:
            client = self._connected(deadline)
            try:
                promises = list(_sent(client, requests))
                answers = [answer for promise in promises for answer in self._answers(promise, deadline)]
            except (*_GONE, AuthFailedError):
                self._changed.wait(min(0.01, deadline.left_s()))
            except KazooTimeoutError as error:
                raise self._unavailable("no answer in time") from error
            except NoAuthError as error:
                raise self._not_allowed(error) from error
            except KazooException as error:
                raise self._unavailable(f"{type(error).__name__} {error}".strip()) from error
            else:
                self._refusals = 0
                return answers

    def change(self, deadline: Deadline, operations: Sequence[Operation]) -> list[Any]:
        """Send *operations* as one transaction; return the answer to each, exceptions among them if it failed.

        It is sent once: a change whose reply was lost may have been made.

        :raises StoreUnavailable: the transaction was not sent.
        :raises ReplyLostError: it was sent, and no answer came.
        """
        client = self._connected(deadline)
        promise = client.handler.async_result()
        # Past kazoo's own builder, which takes each path apart and puts it together again.
        client._call(Transaction([operation.part(self._acl) for operation in operations]), promise)  # noqa: SLF001
        try:
            answers: list[Any] = promise.get(timeout=deadline.left_s() * (1 - _SHARE_FOR_ASKING))
        except AuthFailedError:
            return self.change(
                deadline, operations
            )  # not sent: kazoo sends nothing before the login succeeds
        except (KazooException, KazooTimeoutError, RuntimeError) as error:
            raise ReplyLostError(f"{type(error).__name__}: {error}".rstrip(": ")) from error
        for answer in answers:
            if isinstance(answer, NoAuthError):
                raise self._not_allowed(answer)
        return answers

    def send(self, deadline: Deadline, request: Request) -> Any:
        """Send one request once; return its answer, None if it failed for any reason."""
        with suppress(KazooException, KazooTimeoutError, EpochError):
            return request(self._connected(deadline)).get(timeout=deadline.left_s())
        return None

    def _answers(self, promise: Any, deadline: Deadline) -> list[Any]:
        """Wait for the reply to one message, and return its answers: one, or those of a :class:`MultiRead`."""
        try:
            answer = promise.get(timeout=deadline.left_s())
        except NoNodeError:
            return [None]
        if not isinstance(answer, Nodes):
            return [answer]
        for node in answer:
            if isinstance(node, KazooException):
                raise node
        return answer

    # --- connecting ------------------------------------------------------------------------------------------

    def _connected(self, deadline: Deadline) -> KazooClient:
        while True:
            client = self._opened()
            if client.connected:
                return client
            if self._refused or self._reasons.refused:
                self._ended = True  # the next call connects again
                self._refusals += 1
                if self._refusals >= _REFUSALS:
                    raise self._not_allowed(AuthFailedError())
            if deadline.left_s() <= 0:
                raise self._unavailable(self._reasons.last or _NO_REASON)
            if self._ended:
                sleep(min(_LONGEST_PAUSE_S, deadline.left_s()))  # before it is opened again
                continue
            self._changed.clear()
            if not client.connected:
                self._changed.wait(min(_LONGEST_PAUSE_S, deadline.left_s()))

    def _opened(self) -> KazooClient:
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock:
            if self._closed:
                raise InvalidInput(
                    field="store", value=self.location, expected="an open store", next_step="open it again."
                )
            if self._client is None or self._ended:
                self._close_client()
                self._client = self._new_client()
                self._client.start_async()
            return self._client

    def _new_client(self) -> KazooClient:
        address = self._address
        self._refused = self._ended = self._reasons.refused = False
        logger = logging.Logger("kazoo", logging.WARNING)  # noqa: LOG001 - apart: at DEBUG kazoo logs passwords
        logger.addHandler(self._reasons)
        client = KazooClient(
            hosts=",".join(address.hosts),
            timeout=address.session_timeout_s,
            connection_retry=_RECONNECTING,
            default_acl=self._acl,
            auth_data=self._credentials(),
            sasl_options=self._sasl_options(),
            use_ssl=address.tls != "off",
            verify_certs=True,
            check_hostname=address.tls == "verify-full",
            ca=address.ca or None,
            certfile=address.cert or None,
            keyfile=address.key or None,
            logger=logger,
        )

        def listen(state: str) -> None:
            if self._client is not client:
                return  # an event of a client that was closed
            self.generation += 1
            if state == KazooState.LOST:
                self._refused = client.client_state == KeeperState.AUTH_FAILED
                self._ended = client.client_state == KeeperState.CLOSED
            self._changed.set()

        client.add_listener(listen)
        return client

    def _credentials(self) -> list[tuple[str, str]]:
        address = self._address
        return (
            [("digest", f"{address.user}:{address.password}")]
            if address.user and address.auth == "digest"
            else []
        )

    def _sasl_options(self) -> dict[str, str] | None:
        address = self._address
        if not address.user or address.auth != "sasl":
            return None
        if find_spec("puresasl") is None:
            raise InvalidInput(
                field="auth",
                value="sasl",
                expected="the library pure-sasl",
                next_step=with_extra("zookeeper"),
            )
        return {"mechanism": "DIGEST-MD5", "username": address.user, "password": address.password}

    # --- ending ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session, which removes its ephemeral nodes; may be called twice."""
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock:
            self._closed = True
            self._close_client()

    def _close_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            ending = Thread(target=_end, args=(client,), daemon=True)
            ending.start()
            ending.join(_LONGEST_CLOSE_S)
        self._changed.set()

    def _leave_to_parent(self) -> None:
        """Leave the connection to the parent, in a forked child; its threads do not exist here.

        The child only closes its copies of the sockets: a message on them would break the parent's session.
        """
        client = self._client
        self._forget()
        if client is not None:
            connection = client._connection  # noqa: SLF001 - kazoo has no other way to let go of a socket
            for socket in (connection._socket, connection._read_sock, connection._write_sock):  # noqa: SLF001
                with suppress(OSError, AttributeError):
                    os.close(socket.detach())

    # --- errors ----------------------------------------------------------------------------------------------

    def _unavailable(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.location}: {reason}.",
            next_step="check that a majority of the ensemble runs (`echo ruok | nc HOST PORT`), and hosts, chroot, "
            "user and password of the store's URL (in Airflow: of its connection)."
            + (_TOO_MANY if _DROPPED in reason or reason == _NO_REASON else ""),
            store=self.location,
        )

    def _not_allowed(self, error: Exception) -> StoreIncompatible:
        reason = (
            "login or password is wrong" if isinstance(error, AuthFailedError) else "this user may not do so"
        )
        return StoreIncompatible(
            f"{self.location}: {reason} ({type(error).__name__}).",
            next_step="correct user and password of the store's URL (in Airflow: login and password of its "
            "connection): every process uses the identity that made the store; those that its option "
            "`readers` names only read.",
            store=self.location,
            found=type(error).__name__,
        )


def _sent(client: KazooClient, requests: Sequence[Request]) -> Iterator[Any]:
    """Send *requests* in their order, neighbouring nodes in one message; return the promises."""
    for together, run in groupby(requests, key=lambda request: isinstance(request, Get)):
        if not together:
            yield from [request(client) for request in run]
            continue
        for paths in flights([request.path for request in run if isinstance(request, Get)]):
            if len(paths) == 1:
                yield client.get_async(paths[0])
                continue
            promise = client.handler.async_result()
            client._call(MultiRead(paths), promise)  # noqa: SLF001 - kazoo has no public call for other requests
            yield promise


def _end(client: KazooClient) -> None:
    with suppress(Exception):  # the socket may be gone already; no caller waits for the outcome
        client.stop()
        client.close()
