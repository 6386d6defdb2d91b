"""Declare the connections that lead to catalogs outside of the stores' databases. Imports no catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qs, quote, urlencode

from airflow_provider.stores.connecting import (
    ConnectionFields,
    FormField,
    StoreConnection,
    hosts_of,
    refused,
    text_of,
)
from airflow_provider.stores.factory import backends, catalog_holders, redacted

HIVE_PORT = 9083
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d{1,2}")
_ACCOUNT = re.compile(r"\d{12}")


class HiveConnection(StoreConnection):
    """Connection to a Hive metastore: ``host`` names the servers, ``login`` the user."""

    backend = "hive"
    summary = "a catalog only: a Hive metastore, without Kerberos"
    places: ClassVar[Mapping[str, str]] = {
        "host": "metastore.example",
        "login": "user, that of the process when empty",
        "port": str(HIVE_PORT),
    }
    extras: ClassVar[Mapping[str, FormField]] = {}

    def url_of(self, connection: ConnectionFields) -> str:
        _refuse_given(connection, "schema", "password")
        user = f"{quote(connection.login, safe='')}@" if connection.login else ""
        return f"hive://{user}{hosts_of(connection, HIVE_PORT)}"


class GlueConnection(StoreConnection):
    """Connection to the Glue Data Catalog of a region; credentials are found as AWS's own tools find them."""

    backend = "glue"
    summary = "a catalog only: AWS Glue, with the credentials that AWS's tools find"
    places: ClassVar[Mapping[str, str]] = {}
    extras: ClassVar[Mapping[str, FormField]] = {
        "region": FormField(label="AWS region", description="region of the catalog, such as eu-central-1."),
        "account": FormField(
            label="AWS account",
            description="twelve digits; that of the credentials when empty.",
        ),
    }

    def url_of(self, connection: ConnectionFields) -> str:
        _refuse_given(connection, "host", "schema", "login", "password")
        region, account = connection.extra.get("region"), connection.extra.get("account", "")
        if not isinstance(region, str) or not _REGION.fullmatch(region):
            raise refused(connection, "region", region, "the name of an AWS region, such as eu-central-1")
        if not isinstance(account, str) or not (account == "" or _ACCOUNT.fullmatch(account)):
            raise refused(connection, "account", account, "twelve digits, in quotes")
        return f"glue://{account}@{region}" if account else f"glue://{region}"


class RestConnection(StoreConnection):
    """Connection to an Iceberg REST catalog: ``login`` and ``password`` are a client and its secret."""

    backend = "rest"
    summary = "a catalog only: an Iceberg REST catalog that registers tables"
    places: ClassVar[Mapping[str, str]] = {
        "host": "catalog.example",
        "schema": "path of the API before /v1, such as api/catalog",
        "login": "id of the client; with a password alone, that is a token",
        "port": "443",
    }
    extras: ClassVar[Mapping[str, FormField]] = {
        "name": FormField(
            label="REST catalog",
            description="name of the catalog at its server: clients' property warehouse.",
        ),
        "scope": FormField(
            label="OAuth2 scope", description="such as PRINCIPAL_ROLE:ALL; catalog when empty."
        ),
        "oauth2": FormField(
            label="OAuth2 address",
            description="URL that gives tokens; that of the catalog itself when empty.",
        ),
        "https": FormField(label="HTTPS", description="off: HTTP without TLS; on when empty."),
    }

    def url_of(self, connection: ConnectionFields) -> str:
        options = {}
        for name in self.extras:
            given = connection.extra.get(name, "")
            if not isinstance(given, str) or (name == "https" and given not in ("", "off")):
                raise refused(connection, name, given, "off, or nothing" if name == "https" else "text")
            if given:
                options[name] = text_of(connection, name, given)
        if connection.login and not connection.password:
            raise refused(connection, "login", connection.login, "a password beside it")
        user = f"{quote(connection.login or '', safe='')}:{quote(connection.password or '', safe='')}@"
        path = "/".join(quote(part, safe="") for part in (connection.schema or "").strip("/").split("/"))
        hosts = hosts_of(connection, 80 if options.get("https") == "off" else 443)
        if "," in hosts:
            raise refused(connection, "host", connection.host, "one host")
        address = f"rest://{user if connection.password else ''}{hosts}{f'/{path}' if path else ''}"
        return f"{address}?{urlencode(options)}" if options else address


def _refuse_given(connection: ConnectionFields, *names: str) -> None:
    """:raises InvalidInput: a field of *connection* has a value that would be ignored."""
    for name in names:
        if getattr(connection, name):
            found = "(a password)" if name == "password" else getattr(connection, name)
            raise refused(connection, name, found, "nothing: this backend does not use the field")


@dataclass(frozen=True, kw_only=True, slots=True)
class OutsideCatalog:
    """Kind of catalog outside of the stores' databases.

    :param name: name of such a catalog within a sentence. :param opener: module of this package, and its class.
    :param shown: returns the address in a URL without its user; the same for every URL of one catalog.
    """

    name: str
    connection: StoreConnection
    opener: str
    shown: Callable[[str], str]


def _shown_hive(url: str) -> str:
    return "hive://" + ",".join(sorted(redacted(url).removeprefix("hive://").split(",")))


def _shown_rest(url: str) -> str:
    """Return the address with the name of the catalog, since a server has several."""
    names = parse_qs(url.partition("?")[2]).get("name", [])
    return "?".join([redacted(url), *(urlencode({"name": name}) for name in names)])


OUTSIDE: Mapping[str, OutsideCatalog] = {
    "hive": OutsideCatalog(
        name="a Hive metastore",
        connection=HiveConnection(),
        opener="hive:HivePointerCatalog",
        shown=_shown_hive,
    ),
    "glue": OutsideCatalog(
        name="AWS Glue",
        connection=GlueConnection(),
        opener="glue:GluePointerCatalog",
        shown=str,  # the account before the region is a part of the address, and no secret
    ),
    "rest": OutsideCatalog(
        name="an Iceberg REST catalog",
        connection=RestConnection(),
        opener="rest:RestPointerCatalog",
        shown=_shown_rest,
    ),
}
"""Every kind of them, by the scheme of its URLs, which is the name of the extra with its client, too."""


def shown_catalog(url: str) -> str:
    """Return the address of the catalog at *url* without user, password and options, as a domain remembers it."""
    outside = OUTSIDE.get(url.partition("://")[0])
    return redacted(url) if outside is None else outside.shown(url)


def catalogs() -> dict[str, StoreConnection]:
    """Return the connection declaration of each catalog that another connection can name, by backend."""
    stores = {name: form for name, form in backends().items() if name in catalog_holders()}
    return stores | {name: outside.connection for name, outside in OUTSIDE.items()}


def catalog_names() -> list[str]:
    """Return the names of the catalogs within a sentence, in the order of :func:`catalogs`."""
    return [*catalog_holders().values(), *(outside.name for outside in OUTSIDE.values())]
