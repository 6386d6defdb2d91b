"""Parse a store's URL into the address of a ZooKeeper ensemble. Opens nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from airflow_provider.domain.errors import InvalidInput, shown
from airflow_provider.stores.hosts import is_this_host

FORM = "zookeeper://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/CHROOT"
DEFAULT_PORT = 2181
OPTIONS = ("auth", "tls", "ca", "cert", "key", "session_timeout", "readers")
"""The options that a URL may have."""

AUTH = ("digest", "sasl")
TLS = ("off", "verify-ca", "verify-full")
_READERS = ("digest", "sasl", "x509")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_CHROOT = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_RESERVED = frozenset({".", "..", "zookeeper"})
_DEFAULT_SESSION_S = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Address of a store.

    :param hosts: ``host:port`` of each server.
    :param chroot: absolute path of the node under which everything lies.
    :param user: empty for an anonymous client.
    :param auth: authentication of the user, ``digest`` or ``sasl`` (DIGEST-MD5).
    :param tls: ``off``, ``verify-ca``, or ``verify-full`` (the certificate's names are compared, too).
    :param ca: file with the trusted authorities.
    :param cert: file with the client's certificate.
    :param key: file with the key of that certificate.
    :param readers: scheme and id of the further clients that may read new nodes; empty for none.
    :param session_timeout_s: time after which the ensemble ends the session of a silent client.
    """

    hosts: tuple[str, ...]
    chroot: str
    user: str = ""
    password: str = field(default="", repr=False)
    auth: str = "digest"
    tls: str = "off"
    ca: str = ""
    cert: str = ""
    key: str = ""
    session_timeout_s: float = _DEFAULT_SESSION_S
    readers: tuple[str, str] | tuple[()] = ()

    @property
    def location(self) -> str:
        """The address for messages."""
        return f"zookeeper://{','.join(self.hosts)}{self.chroot}"

    @property
    def has_identity(self) -> bool:
        """True if the servers know the client's identity, so that nodes can be its own."""
        return bool(self.user or self.cert)


def parsed(url: str) -> Address:
    """Parse the URL of a store.

    :raises InvalidInput: not the URL of a ZooKeeper store; the message holds neither user nor password.
    """
    rest, _, query = url.partition("://")[2].partition("?")
    authority, slash, path = rest.rpartition("@")[2].partition("/")
    user, colon, password = rest.rpartition("@")[0].partition(":")
    if "/" in user or "/" in password:
        raise _refused("login", "(user and password)", "user and password percent-encoded")
    if colon and not user:
        raise _refused("login", "(a password without a user)", "a user, since there is a password")
    if user and not password:
        raise _refused("password", "(a user without a password)", "a password, since there is a user")
    chroot = unquote(path.rstrip("/"))
    if not slash or not _CHROOT.fullmatch(chroot) or _RESERVED & set(chroot.split("/")):
        raise _refused("schema", chroot, "a chroot of letters, digits, '.', '_', '-' and '/'")
    options = _options(query)
    hosts = tuple(_host(host) for host in authority.split(","))
    if user and "tls" not in options and not options.keys() & {"ca", "cert", "key"}:
        _require_this_host(hosts)
    return Address(
        hosts=hosts,
        chroot=f"/{chroot}",
        user=unquote(user),
        password=unquote(password),
        auth=_choice(options, "auth", AUTH, "digest"),
        tls=_choice(options, "tls", TLS, "verify-full" if options.keys() & {"ca", "cert", "key"} else "off"),
        ca=options.get("ca", ""),
        cert=options.get("cert", ""),
        key=options.get("key", ""),
        session_timeout_s=_seconds(options.get("session_timeout")),
        readers=_readers(options.get("readers", "")),
    )


def _host(text: str) -> str:
    found = _HOST.fullmatch(text)
    port = int(found[2] or DEFAULT_PORT) if found else 0
    if not found or not 1 <= port <= 65_535:
        raise _refused("host", text, "hosts with ports from 1 to 65535, separated by commas")
    return f"{found[1]}:{port}"


def _require_this_host(hosts: tuple[str, ...]) -> None:
    """Refuse to send a password over a network unless the URL says how (docs/decisions/encrypted-by-default.md).

    :raises InvalidInput: a server on another host.
    """
    far = [host for host in hosts if not is_this_host(host.rpartition(":")[0])]
    if far:
        raise _refused(
            "tls",
            f"a login for {far[0]} without tls",
            "the option tls=verify-full (with ca=FILE and the secure port), or tls=off where the network is trusted",
        )


def _options(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown or len(options) < len(pairs):
        raise _refused(
            "extra", unknown or "(an option twice)", f"each of the options {', '.join(OPTIONS)} at most once"
        )
    if bool(options.get("cert")) != bool(options.get("key")):
        raise _refused("cert", "cert without key, or key without cert", "both or neither")
    if options.get("tls") == "off" and len(options.keys() & {"ca", "cert", "key"}) > 0:
        raise _refused("tls", "tls=off", "no ca, cert and key without TLS")
    return options


def _choice(options: dict[str, str], name: str, known: tuple[str, ...], default: str) -> str:
    value = options.get(name, default)
    if value not in known:
        raise _refused(name, value, f"one {name} of {', '.join(known)}")
    return value


def _readers(value: str) -> tuple[str, str] | tuple[()]:
    if value in ("", "world"):
        return ("world", "anyone") if value else ()
    scheme, _, name = value.partition(":")
    if scheme not in _READERS or not name:
        raise _refused(
            "readers", value, f"readers=world, or SCHEME:ID with a scheme of {', '.join(_READERS)}"
        )
    return scheme, name


def _seconds(value: str | None) -> float:
    try:
        seconds = _DEFAULT_SESSION_S if value is None else float(value)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 300:
        raise _refused("session_timeout", value, "a session_timeout from 1 to 300 seconds")
    return seconds


def _refused(part: str, value: object, expected: str) -> InvalidInput:
    """Build the error for a URL. :param part: the field of a connection from which this part of the URL comes."""
    return InvalidInput(
        f"store url: {shown(value, 200)} is not accepted; expected {FORM}, {expected}.",
        part=part,
        field="store url",
        value=value,
        expected=expected,
        next_step="correct the store's URL; in Airflow host, port, schema (the chroot), login, password and extra of "
        "its connection.",
    )
