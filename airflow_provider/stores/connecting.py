"""Declare the connections that lead to a store: the backend's name, the fields, and the URL that they make.

Airflow keeps connections; nothing here knows Airflow. ``hooks.connection`` reads the fields that all connections have.
"""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.domain.identifiers import validate_text

_MOST_BYTES = 4096
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?\.?")
_FORM = (
    "correct it in the UI under Admin > Connections, or with `airflow connections`; "
    "`airflow providers get airflow-provider-epochs --full` lists the fields."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionFields:
    """Fields of an Airflow connection, independent of Airflow's class."""

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
    """Field in extra that one kind of store adds to the connection's form."""

    label: str
    description: str


class StoreConnection(ABC):
    """Declaration of the connections that lead to one kind of store.

    :attr:`backend` is the value of the connection's extra ``backend``; :attr:`summary` helps users to choose a backend.
    :attr:`places` says what Airflow's own fields (host, port, schema, login, password) are used for; :attr:`extras` are
    the fields beyond those that every connection has. An unknown extra is a misspelt one, and is refused by name.
    :attr:`airflows_type` is the type that Airflow's own provider for such a server gives its connections, None if there
    is no such provider.
    """

    backend: str
    summary: str
    places: ClassVar[Mapping[str, str]]
    extras: ClassVar[Mapping[str, FormField]]
    airflows_type: ClassVar[str | None] = None

    @abstractmethod
    def url_of(self, connection: ConnectionFields) -> str:
        """Return the store's URL; connects to nothing.

        :raises InvalidInput: names the connection's field; no message holds a password.
        """


def flag_of(connection: ConnectionFields, name: str, value: object) -> str:
    """Return *value*, the field *name* of *connection*, as "true" or "false"; the empty text is false.

    :raises InvalidInput: *value* is neither.
    """
    text = str(value).lower() if isinstance(value, bool) else "false" if value == "" else value
    if text not in ("true", "false"):
        raise refused(connection, name, value, "true or false")
    return str(text)


def refused(connection: ConnectionFields, name: str, value: object, expected: str) -> InvalidInput:
    """Build the error for the field *name* of *connection*. :param value: the field's value; it is shown."""
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

    :raises InvalidInput: a URL cannot hold it; a password is not shown.
    """
    try:
        return validate_text(value, name, limit=_MOST_BYTES)
    except InvalidInput as error:
        found = "(a password)" if name == "password" else value
        raise refused(connection, name, found, error.expected) from None


def hosts_of(connection: ConnectionFields, default: int) -> str:
    """Return the servers in the connection's ``host`` as a URL writes them: ``host:port``, separated by commas.

    :param default: port of the servers that name none, if the connection has no port either.
    :raises InvalidInput: no server is given, or one is neither ``host`` nor ``host:port``.
    """
    port = _port_or(connection, default)
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


def _port_or(connection: ConnectionFields, default: int) -> int:
    """Return the connection's port, or *default* if it has none.

    :raises InvalidInput: not a number from 1 to 65535.
    """
    port = connection.port if connection.port is not None else default
    if type(port) is not int or not 1 <= port <= 65_535:
        raise refused(connection, "port", port, "a number from 1 to 65535")
    return port
