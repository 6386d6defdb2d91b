"""Declare the connections that lead to a node of a ZooKeeper ensemble."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar
from urllib.parse import quote, urlencode

from airflow_provider.domain.errors import shown
from airflow_provider.stores.connecting import (
    ConnectionFields,
    FormField,
    StoreConnection,
    port_or,
    refused,
    text_of,
)
from airflow_provider.stores.hosts import is_this_host

ZOOKEEPER_PORT = 2181
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_CHROOT = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class ZookeeperConnection(StoreConnection):
    """Connection to a node of an ensemble: ``host`` names the servers, ``schema`` the node; extra has URL options."""

    backend = "zookeeper"
    summary = "for several hosts, where an ensemble is there already"
    places: ClassVar[Mapping[str, str]] = {
        "host": "zk1.example,zk2.example",
        "schema": "the node, such as epochs",
        "login": "user",
        "password": "the user's",
        "port": str(ZOOKEEPER_PORT),
    }
    extras: ClassVar[Mapping[str, FormField]] = {
        "auth": FormField(label="Authentication", description="digest, when empty, or sasl."),
        "tls": FormField(
            label="TLS",
            description="off, verify-ca or verify-full; a login for another host needs one of them.",
        ),
        "ca": FormField(label="TLS authorities", description="file with the certificates that are trusted."),
        "cert": FormField(label="TLS client certificate", description="file with the client's certificate."),
        "key": FormField(
            label="TLS client key", description="file with the key of the client's certificate."
        ),
        "session_timeout": FormField(
            label="Session time-out", description="seconds until the servers end a silent session."
        ),
        "readers": FormField(
            label="Readers",
            description="who else may read what is made: world, digest:NAME:HASH, sasl:NAME or x509:SUBJECT.",
        ),
    }

    def url_of(self, connection: ConnectionFields) -> str:
        hosts = [_server(connection, text.strip()) for text in (connection.host or "").split(",")]
        chroot = (connection.schema or "").strip("/")
        if not _CHROOT.fullmatch(chroot) or {".", "..", "zookeeper"} & set(chroot.split("/")):
            expected = "the path of the node under which everything lies, such as epochs or services/epochs"
            raise refused(connection, "schema", connection.schema, expected)
        if bool(connection.login) != bool(connection.password):
            name = "password" if connection.login else "login"
            raise refused(connection, name, None, "user and password, or neither")
        at = ""
        if connection.login and connection.password:
            at = f"{quote(connection.login, safe='')}:{quote(connection.password, safe='')}@"
        options = {
            name: _option(connection, name, connection.extra[name])
            for name in self.extras
            if name in connection.extra
        }
        if at and not options.keys() & {"tls", "ca", "cert", "key"}:
            _refuse_open_login(connection, hosts)
        query = f"?{urlencode(options)}" if options else ""
        return f"zookeeper://{at}{','.join(hosts)}/{chroot}{query}"


def _option(connection: ConnectionFields, name: str, value: object) -> str:
    is_number = name == "session_timeout" and type(value) in (int, float)
    return text_of(connection, name, shown(value) if is_number else value)


def _refuse_open_login(connection: ConnectionFields, hosts: Sequence[str]) -> None:
    """Refuse to send a password over a network unless extra says how (docs/decisions/encrypted-by-default.md).

    :raises InvalidInput: a server on another host.
    """
    if not all(is_this_host(host.rpartition(":")[0]) for host in hosts):
        expected = (
            "'verify-full' (with ca and the secure port), since there is a login; 'off' on a trusted network"
        )
        raise refused(connection, "tls", None, expected)


def _server(connection: ConnectionFields, text: str) -> str:
    found = _SERVER.fullmatch(text)
    port = int(found[2]) if found and found[2] else port_or(connection, ZOOKEEPER_PORT)
    if not found or not 1 <= port <= 65_535:
        expected = "servers as host or host:port, separated by commas; IPv6 in brackets"
        raise refused(connection, "host", text, expected)
    return f"{found[1]}:{port}"
