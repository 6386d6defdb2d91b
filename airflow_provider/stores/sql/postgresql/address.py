"""From a store's URL to where PostgreSQL is and how it is spoken to. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.hosts import is_this_host

FORM = "postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE"
DEFAULT_PORT = 5432
TLS_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""The options that a URL may have: how the connection is encrypted, and whom it trusts."""

_TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a database is.

    :param user: empty for the operating system's.
    :param tls: values of :data:`TLS_OPTIONS`.
    """

    host: str
    port: int
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)

    @property
    def location(self) -> str:
        """The address for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"postgresql://{host}:{self.port}/{self.database}"

    @property
    def sslmode(self) -> str:
        """How the connection is encrypted: as the URL says, else always when it leaves this host.

        An authority that is named is also asked.
        """
        if "sslmode" in self.tls:
            return self.tls["sslmode"]
        if "sslrootcert" in self.tls:
            return "verify-full"
        return "prefer" if is_this_host(self.host) else "require"

    def url(self, **options: str) -> URL:
        """Return it as SQLAlchemy's URL, with libpq's *options*."""
        return URL.create(
            "postgresql+psycopg",
            username=self.user or None,
            password=self.password or None,
            host=self.host,
            port=self.port,
            database=self.database,
            query={**self.tls, **options},
        )


def parsed(url: str) -> Address:
    """Read a store's URL.

    :raises InvalidInput: it is none; the message holds neither user nor password.
    """
    try:
        given = make_url(url)
        port = given.port or DEFAULT_PORT
    except (ArgumentError, ValueError) as error:
        raise _refused("(a text that is no URL)", "password and user percent-encoded") from error
    if not given.host or "," in given.host:
        raise _refused(given.host, "one host")
    if not given.database:
        raise _refused(given.database, "the name of a database")
    if given.password and not given.username:
        raise _refused("(a password without a user)", "a user")
    unknown = sorted(set(given.query) - set(TLS_OPTIONS))
    if unknown:
        raise _refused(unknown, f"only the options {', '.join(TLS_OPTIONS)}")
    tls = {name: value for name, value in given.query.items() if isinstance(value, str)}
    if len(tls) < len(given.query) or tls.get("sslmode", "prefer") not in _TLS_MODES:
        raise _refused(given.query.get("sslmode"), f"one sslmode of {', '.join(_TLS_MODES)}")
    return Address(
        host=given.host,
        port=port,
        database=given.database,
        user=given.username or "",
        password=str(given.password or ""),
        tls=tls,
    )


def _refused(value: object, expected: str) -> InvalidInput:
    return InvalidInput(
        field="store url",
        value=value,
        expected=f"{FORM}, {expected}",
        next_step="correct the store's URL; in Airflow host, port, schema (the database), login and extra of its "
        "connection.",
    )
