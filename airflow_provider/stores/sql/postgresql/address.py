"""Parse a store's URL into the address of a PostgreSQL database. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.hosts import is_this_host

FORM = "postgresql+psycopg://USER:PASSWORD@HOST:PORT[,HOST:PORT...]/DATABASE"
DEFAULT_PORT = 5432
TLS_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""The options for the encryption of the connection, and for the certificates that it trusts."""
OPTIONS = (*TLS_OPTIONS, "pooled", "target_session_attrs")
"""The options that a URL may have."""

_TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Address of a PostgreSQL database.

    :param servers: host and port of each server; one of them is the primary.
    :param user: empty for the user of the operating system.
    :param tls: values of :data:`TLS_OPTIONS`.
    :param pooled: True if a pooler stands before the server: each transaction may get another session.
    """

    servers: tuple[tuple[str, int], ...]
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)
    pooled: bool = False

    @property
    def host(self) -> str:
        """Host of the first server."""
        return self.servers[0][0]

    @property
    def port(self) -> int:
        """Port of the first server."""
        return self.servers[0][1]

    @property
    def places(self) -> dict[str, str]:
        """Parameters of libpq for the servers; of several, libpq uses the primary (docs/decisions/failover.md)."""
        hosts, ports = (",".join(str(part) for part in parts) for parts in zip(*self.servers, strict=True))
        wanted = {"target_session_attrs": "read-write"} if len(self.servers) > 1 else {}
        return {"host": hosts, "port": ports, **wanted}

    @property
    def location(self) -> str:
        """The address for messages."""
        servers = (f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers)
        return f"postgresql://{','.join(servers)}/{self.database}"

    @property
    def sslmode(self) -> str:
        """TLS mode: the URL's, or else ``require`` for other hosts (docs/decisions/encrypted-by-default.md).

        If the URL names a root certificate, the server's certificate is verified.
        """
        if "sslmode" in self.tls:
            return self.tls["sslmode"]
        if "sslrootcert" in self.tls:
            return "verify-full"
        return "prefer" if all(is_this_host(host) for host, _ in self.servers) else "require"


def parsed(url: str) -> Address:
    """Parse the URL of a store.

    :raises InvalidInput: not the URL of a PostgreSQL database; the message holds neither user nor password.
    """
    front, first, others = _separated(url)
    try:
        given = make_url(front)
        servers = [(given.host or "", given.port or DEFAULT_PORT), *(_server(text) for text in others)]
    except (ArgumentError, ValueError) as error:
        raise _refused("(a text that is no URL)", "password and user percent-encoded") from error
    if not all(host for host, _ in servers):
        raise _refused(first, "a host, or several with commas between")
    if not given.database:
        raise _refused(given.database, "the name of a database")
    if given.password and not given.username:
        raise _refused("(a password without a user)", "a user")
    options = _options(given.query)
    return Address(
        servers=tuple(servers),
        database=given.database,
        user=given.username or "",
        password=str(given.password or ""),
        tls={name: options[name] for name in TLS_OPTIONS if name in options},
        pooled=options.get("pooled") == "true",
    )


def _separated(url: str) -> tuple[str, str, list[str]]:
    """Return *url* with its first server only, the text of all servers, and the texts of the further servers."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, servers = authority.rpartition("@")
    first, *others = servers.split(",")
    return f"{scheme}://{login}{at}{first}{slash}{path}", servers, others


def _server(text: str) -> tuple[str, int]:
    """Return host and port of one server.

    :raises ValueError: neither host nor host:port.
    """
    if not text:
        return "", DEFAULT_PORT
    given = make_url(f"postgresql://{text}/")
    if given.username or given.database or not given.host:
        raise ValueError(text)
    return given.host, given.port or DEFAULT_PORT


def _options(query: Mapping[str, object]) -> dict[str, str]:
    unknown = sorted(set(query) - set(OPTIONS))
    if unknown:
        raise _refused(unknown, f"only the options {', '.join(OPTIONS)}")
    options = {name: value for name, value in query.items() if isinstance(value, str)}
    if len(options) < len(query) or options.get("sslmode", "prefer") not in _TLS_MODES:
        raise _refused(query.get("sslmode"), f"one sslmode of {', '.join(_TLS_MODES)}")
    if options.get("pooled", "true") not in ("true", "false"):
        raise _refused(options["pooled"], "pooled=true or pooled=false")
    if options.get("target_session_attrs", "primary") not in ("primary", "read-write"):
        raise _refused(
            options["target_session_attrs"], "target_session_attrs=read-write: a standby cannot be read"
        )
    return options


def _refused(value: object, expected: str) -> InvalidInput:
    return InvalidInput(
        field="store url",
        value=value,
        expected=f"{FORM}, {expected}",
        next_step="correct the store's URL; in Airflow host, port, schema (the database), login and extra of its "
        "connection.",
    )
