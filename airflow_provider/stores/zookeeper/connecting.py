"""Declare the connections that lead to a node of a ZooKeeper ensemble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote, urlencode

from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.stores.connecting import (
    ConnectionFields,
    FormField,
    StoreConnection,
    hosts_of,
    refused,
    text_of,
)
from airflow_provider.stores.zookeeper.address import parsed

ZOOKEEPER_PORT = 2181


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
        servers = hosts_of(connection, ZOOKEEPER_PORT)
        chroot = quote((connection.schema or "").strip("/"), safe="/")
        login = quote(connection.login or "", safe="")
        secret = f":{quote(connection.password, safe='')}" if connection.password else ""
        at = f"{login}{secret}@" if login or secret else ""
        options = {
            name: _option(connection, name, connection.extra[name])
            for name in self.extras
            if name in connection.extra
        }
        query = f"?{urlencode(options)}" if options else ""
        url = f"zookeeper://{at}{servers}/{chroot}{query}"
        try:
            parsed(url)
        except InvalidInput as error:
            raise refused(connection, error.part, error.value, error.expected) from None
        return url


def _option(connection: ConnectionFields, name: str, value: object) -> str:
    is_number = name == "session_timeout" and type(value) in (int, float)
    return text_of(connection, name, shown(value) if is_number else value)
