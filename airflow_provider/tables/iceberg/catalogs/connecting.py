"""Declare the connections that lead to catalogs outside of the stores' databases. Imports no catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote

from airflow_provider.stores.connecting import (
    ConnectionFields,
    FormField,
    StoreConnection,
    hosts_of,
    refused,
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
