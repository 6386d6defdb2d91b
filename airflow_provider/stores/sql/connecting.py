"""Declare the connections that lead to a SQLite file or to a database of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import ClassVar
from urllib.parse import quote, urlencode

from airflow_provider.stores.connecting import (
    ConnectionFields,
    FormField,
    StoreConnection,
    flag_of,
    hosts_of,
    refused,
    text_of,
)

POSTGRESQL_PORT = 5432


class SqliteConnection(StoreConnection):
    """Connection to a SQLite file; ``host`` is its path."""

    backend = "sqlite"
    airflows_type = "sqlite"
    summary = "a file, when all runs on one host"
    places: ClassVar[Mapping[str, str]] = {"host": "/srv/epochs/epochs.db"}
    extras: ClassVar[Mapping[str, FormField]] = {}

    def url_of(self, connection: ConnectionFields) -> str:
        path = connection.host or ""
        parts = PurePosixPath(path)
        if (
            not parts.is_absolute()
            or ".." in parts.parts
            or not parts.name
            or any(character in path for character in "?#%\0")
        ):
            example = self.places["host"]
            expected = (
                f"the absolute path of the database file, such as {example}, without '..', '?', '#', '%'"
            )
            raise refused(connection, "host", path, expected)
        for name in ("login", "password", "port", "schema"):
            if getattr(connection, name) not in (None, ""):
                raise refused(connection, name, "(given)", "nothing: a SQLite file has no server")
        return f"sqlite:///{path}"


class PostgresqlConnection(StoreConnection):
    """Connection to a PostgreSQL database, named by ``schema``; extra has libpq's own TLS options."""

    backend = "postgresql"
    airflows_type = "postgres"
    summary = "for several hosts"
    places: ClassVar[Mapping[str, str]] = {
        "host": "db.example, or primary and standbys: db1.example,db2.example",
        "schema": "the database",
        "login": "user",
        "password": "the user's",
        "port": str(POSTGRESQL_PORT),
    }
    extras: ClassVar[Mapping[str, FormField]] = {
        "sslmode": FormField(
            label="TLS mode",
            description="disable, allow, prefer, require, verify-ca or verify-full, as in libpq; "
            "when empty, prefer on this host and require for others.",
        ),
        "sslrootcert": FormField(
            label="TLS root certificate",
            description="file with the certificates that are trusted, or system.",
        ),
        "sslcert": FormField(
            label="TLS client certificate", description="file with the client's certificate."
        ),
        "sslkey": FormField(
            label="TLS client key", description="file with the key of the client's certificate."
        ),
        "pooled": FormField(
            label="Behind a pooler",
            description="true when PgBouncer or another pooler stands before the server, in whichever mode.",
        ),
    }

    def url_of(self, connection: ConnectionFields) -> str:
        servers = hosts_of(connection, POSTGRESQL_PORT)
        database = connection.schema or ""
        if not database:
            raise refused(connection, "schema", database, "the name of the database")
        if connection.password and not connection.login:
            raise refused(connection, "login", connection.login, "a user, since there is a password")
        user = quote(connection.login or "", safe="")
        secret = f":{quote(connection.password, safe='')}" if connection.password else ""
        at = "@" if user else ""
        address = f"{servers}/{quote(database, safe='')}"
        return f"postgresql+psycopg://{user}{secret}{at}{address}{self._options(connection)}"

    def _options(self, connection: ConnectionFields) -> str:
        options = {
            name: (flag_of if name == "pooled" else text_of)(connection, name, connection.extra[name])
            for name in self.extras
            if name in connection.extra
        }
        return f"?{urlencode(options)}" if options else ""
