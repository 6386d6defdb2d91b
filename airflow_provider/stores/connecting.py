"""What a store says about the connection that leads to it: a backend's name, its fields, and the URL they make.

Airflow keeps connections; nothing here knows Airflow. ``hooks.connection`` reads what all connections have in common.
"""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.domain.identifiers import kept_text

_MOST_BYTES = 4096
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_FORM = (
    "correct it in the UI under Admin > Connections, or with `airflow connections`; "
    "`airflow providers get airflow-provider-epochs --full` lists the fields."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionFields:
    """A connection as Airflow keeps it, whatever class it comes in."""

    conn_id: str
    conn_type: str | None = None
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormField:
    """A field of the connection's form that one kind of store adds, in extra."""

    label: str
    description: str


class StoreConnection(ABC):
    """How a connection leads to one kind of store.

    :attr:`backend` is what its extra ``backend`` says, :attr:`summary` is for whoever chooses one. :attr:`places` says
    what Airflow's own fields (host, port, schema, login, password) are used for; :attr:`extras` are the fields beyond
    those that every connection has: an unknown one is a misspelt one, and is refused by name. :attr:`airflows_type` is
    the type that Airflow's own provider for such a server gives its connections, None when there is none.
    """

    backend: str
    summary: str
    places: ClassVar[Mapping[str, str]]
    extras: ClassVar[Mapping[str, FormField]]
    airflows_type: ClassVar[str | None] = None

    @abstractmethod
    def url_of(self, connection: ConnectionFields) -> str:
        """Return the store's URL; opens nothing.

        :raises InvalidInput: naming the connection's field; no message holds a password.
        """


def flag_of(connection: ConnectionFields, name: str, value: object) -> str:
    """Return *value*, the field *name* of *connection*, as "true" or "false"; the empty text is false.

    :raises InvalidInput: it is neither.
    """
    text = str(value).lower() if isinstance(value, bool) else "false" if value == "" else value
    if text not in ("true", "false"):
        raise refused(connection, name, value, "true or false")
    return str(text)


def refused(connection: ConnectionFields, name: str, value: object, expected: str) -> InvalidInput:
    """The error for the field *name* of *connection*. :param value: what was found, and may be shown."""
    return InvalidInput(
        f"connection {connection.conn_id!r}, field {name}: {shown(value, 200)} is not accepted; expected {expected}.",
        next_step=_FORM,
        field=name,
        value=value,
        expected=expected,
        conn_id=connection.conn_id,
    )


def text_of(connection: ConnectionFields, name: str, value: object) -> str:
    """Return *value*, the field *name* of *connection*, as text that a URL can hold.

    :raises InvalidInput: it is none; a password is not shown.
    """
    try:
        return kept_text(value, name, limit=_MOST_BYTES)
    except InvalidInput as error:
        found = "(a password)" if name == "password" else value
        raise refused(connection, name, found, error.expected) from None


def hosts_of(connection: ConnectionFields, default: int) -> str:
    """Return the servers as a URL writes them, with commas between: each ``host`` or ``host:port``.

    :param default: the port of those that name none, unless the connection has one.
    :raises InvalidInput: there is none, or one that is no server.
    """
    port = port_or(connection, default)
    return ",".join(_server(connection, text.strip(), port) for text in (connection.host or "").split(","))


def _server(connection: ConnectionFields, text: str, default: int) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or ":" in host.rpartition("]")[2]:  # an IPv6 address is full of colons
        return f"{_one_host(connection, text)}:{default}"
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
        raise refused(connection, "host", text, "host or host:port, with a port from 1 to 65535")
    return f"{_one_host(connection, host)}:{int(port)}"


def _one_host(connection: ConnectionFields, given: str) -> str:
    """Return a host as a URL writes it: a name, an IPv4 address, or an IPv6 address in brackets."""
    bare = given[1:-1] if given.startswith("[") and given.endswith("]") else given
    if ":" in bare:
        try:
            return f"[{ipaddress.IPv6Address(bare)}]"
        except ValueError as error:
            raise refused(connection, "host", given, "a host without scheme, or an IPv6 address") from error
    if not _HOST_NAME.fullmatch(bare):
        raise refused(connection, "host", given, "names or addresses of hosts, with commas between")
    return bare


def port_or(connection: ConnectionFields, default: int) -> int:
    """Return the port, *default* when there is none.

    :raises InvalidInput: no port.
    """
    port = connection.port if connection.port is not None else default
    if type(port) is not int or not 1 <= port <= 65_535:
        raise refused(connection, "port", port, "a number from 1 to 65535")
    return port
