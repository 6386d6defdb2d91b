"""Iceberg REST catalog as a catalog whose pointers follow the store.

Its server writes the description of each commit itself, so that a pointer is moved by a commit that makes the server's
description say the same, and requires the one before. See docs/decisions/catalogs.md.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, unquote

from pyiceberg.catalog.rest import Capability, Endpoint, HttpMethod, RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, TableIdentifier
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException

from airflow_provider.domain.errors import InvalidInput, StoreUnavailable
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.opening import redacted
from airflow_provider.tables.iceberg.catalogs import rest_updates
from airflow_provider.tables.iceberg.catalogs.base import Move, PointerCatalog

FORM = "rest://[ID:SECRET@]HOST[:PORT][/PATH][?name=NAME&scope=SCOPE&oauth2=URL&https=off]"
_URL = re.compile(
    r"rest://(?:(?P<id>[^@/:?#]*):(?P<secret>[^@/:?#]+)@)?(?P<host>[^@/?#]+)(?P<path>/[^@?#]*)?(?:\?(?P<options>[^#]*))?"
)
_OPTIONS = {"name": "warehouse", "scope": "scope", "oauth2": "oauth2-server-uri"}
"""Options of a URL, as clients of REST catalogs call them."""
_NAME = "the REST catalog"
_TIMEOUT_S = (5, 30)
_NEEDED = (
    Capability.V1_LOAD_TABLE,
    Capability.V1_UPDATE_TABLE,
    Capability.V1_REGISTER_TABLE,
)
_REPLACING = (Capability.V1_RENAME_TABLE, Capability.V1_DELETE_TABLE)
_FAILURES = (
    RESTError,
    OAuthError,
    CommitStateUnknownException,
    NotImplementedError,  # a route that the server does not list, or says that it lacks
    RequestException,
    ValueError,  # an answer of another form
)
_TOGETHER = Endpoint(http_method=HttpMethod.POST, path="/v1/{prefix}/transactions/commit")

log = logging.getLogger(__name__)


class RestPointerCatalog(PointerCatalog):
    """Tables in the REST catalog at *url*: namespaces are domains.

    :param url: as :data:`FORM`; a secret without an id is a token.
    :param warehouse: URI below which tables lie.
    :raises InvalidInput: *url* has another form.
    """

    moves_together = True

    def __init__(self, url: str, warehouse: str) -> None:  # noqa: ARG002 - tables say where they lie
        self._properties = _properties(url)
        self._opened: tuple[int, _Client] | None = None
        self._lock = Lock()

    def pointers(self, tables: Sequence[Table]) -> list[str | None]:
        with _translated():
            found = [self._loaded(_identifier(table)) for table in tables]
        return [None if table is None else _pointer(table) for table in found]

    def insert(self, table: Table, pointer: str, metadata: TableMetadata) -> bool:  # noqa: ARG002 - it reads the file
        with _translated():
            self._make_namespace(table.domain)
            return self._registered(_identifier(table), pointer)

    def move(self, table: Table, expected: str, pointer: str, metadata: Callable[[], TableMetadata]) -> bool:
        with _translated():
            loaded = self._loaded(_identifier(table))
            if loaded is None or _pointer(loaded) != expected:
                return False
            try:
                updates = rest_updates.updates(loaded.metadata, metadata(), pointer)
            except rest_updates.Inexpressible:
                return self._replaced(loaded, pointer)
            try:
                self._client.commit_table(loaded, rest_updates.requirements(loaded.metadata), updates)
            except (CommitFailedException, NoSuchTableError):
                return False
        return True

    def move_together(self, moves: Sequence[Move]) -> bool:
        with _translated():
            if not self._client.serves(_TOGETHER):
                return False
            changes = []
            for move in moves:
                loaded = self._loaded(_identifier(move.table))
                if loaded is None or _pointer(loaded) != move.expected:
                    return False
                try:
                    updates = rest_updates.updates(loaded.metadata, move.metadata(), move.pointer)
                except rest_updates.Inexpressible:
                    return False
                named = TableIdentifier.model_validate(
                    {"namespace": [move.table.domain], "name": move.table.name}
                )
                required = rest_updates.requirements(loaded.metadata)
                changes.append(CommitTableRequest(identifier=named, requirements=required, updates=updates))
            return self._client.commit_together(changes)

    def remove(self, table: Table, expected: str) -> bool:
        with _translated():
            loaded = self._loaded(_identifier(table))
            if loaded is None or _pointer(loaded) != expected:
                return False
            aside = self._put_aside(loaded)
            if aside is not None:
                self._client.drop_table(aside)
        return aside is not None

    def is_ready(self) -> bool:
        with _translated():
            return self._client is not None

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    @property
    def _client(self) -> _Client:
        """The client; a process that was forked makes its own, since the parent's connections are the parent's.

        :raises InvalidInput: the server lacks a route without which no pointer moves.
        """
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                client = _Client(CATALOG_NAME, **self._properties)
                _refuse_lacking(client, _NEEDED)
                self._opened = os.getpid(), client
            return self._opened[1]

    def _loaded(self, identifier: tuple[str, str]) -> IcebergTable | None:
        try:
            found: IcebergTable = self._client.load_table(identifier)
        except NoSuchTableError:
            return None
        return found

    def _registered(self, identifier: tuple[str, str], pointer: str) -> bool:
        try:
            registered: IcebergTable = self._client.register_table(identifier, pointer)
        except TableAlreadyExistsError:
            return False
        if _pointer(registered) != pointer:  # The server has a copy, or spells the address in another way.
            noted = rest_updates.noting(registered.metadata, pointer)
            with suppress(CommitFailedException, NoSuchTableError):
                self._client.commit_table(
                    registered, rest_updates.requirements(registered.metadata), (noted,)
                )
        return True

    def _make_namespace(self, name: str) -> None:
        try:
            self._client.load_namespace_properties((name,))
        except NoSuchNamespaceError:
            try:
                self._client.create_namespace((name,))
            except NamespaceAlreadyExistsError:
                return

    def _replaced(self, loaded: IcebergTable, pointer: str) -> bool:
        """Register *pointer* in place of *loaded*; return False if another program was faster.

        No commit can do it. In between the catalog has no table of that name.

        :raises InvalidInput: the server lacks a route for that.
        """
        identifier, aside = loaded.name(), self._put_aside(loaded)
        if aside is None:
            return False
        if not self._registered((identifier[0], identifier[1]), pointer):
            log.warning("An entry stays in %s beside another of its name: %s", _NAME, ".".join(aside))
            return False
        self._client.drop_table(aside)
        return True

    def _put_aside(self, loaded: IcebergTable) -> tuple[str, str] | None:
        """Give *loaded* another name, and return that; return None if another program was faster.

        A table that has another name cannot be committed to, and is looked at once more. A process that dies before it
        drops the entry leaves it.

        :raises InvalidInput: the server lacks a route for that.
        """
        _refuse_lacking(self._client, _REPLACING)
        identifier = loaded.name()
        aside = (identifier[0], f"{identifier[1]}__epochs_{uuid.uuid4().hex[:12]}")
        try:
            self._client.rename_table(identifier, aside)
        except NoSuchTableError:
            return None
        moved = self._client.load_table(aside)
        if moved.metadata_location != loaded.metadata_location:
            self._client.rename_table(aside, identifier)
            return None
        return aside


class _Client(RestCatalog):
    """pyiceberg's client, whose requests end in time, and which takes no keys to the warehouse."""

    def serves(self, endpoint: Endpoint) -> bool:
        return endpoint in self._supported_endpoints

    def commit_together(self, changes: Sequence[CommitTableRequest]) -> bool:
        """Commit all *changes* or none; return False if the server refuses them."""
        body = {"table-changes": [json.loads(change.model_dump_json()) for change in changes]}
        answer = self._session.post(self.url("transactions/commit"), data=json.dumps(body))
        if 400 <= answer.status_code < 500:  # each is moved alone then, which says what is wrong
            return False
        answer.raise_for_status()
        return True

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        session.headers.pop("X-Iceberg-Access-Delegation", None)
        for scheme in ("http://", "https://"):
            session.mount(scheme, _InTime())


class _InTime(HTTPAdapter):
    def send(self, request: PreparedRequest, **given: Any) -> Response:  # type: ignore[override]
        return super().send(request, **{**given, "timeout": given.get("timeout") or _TIMEOUT_S})


def _properties(url: str) -> dict[str, Any]:
    """Return the properties of pyiceberg's client.

    :raises InvalidInput: *url* has another form; the message holds no secret.
    """
    found = _URL.fullmatch(url)
    options = dict(parse_qsl((found["options"] or "") if found else "", strict_parsing=False))
    if (
        found is None
        or options.keys() - {*_OPTIONS, "https"}
        or options.get("https", "on") not in ("on", "off")
    ):
        raise InvalidInput(
            field="catalog",
            value=redacted(url),
            expected=FORM,
            next_step="correct the catalog's address, such as rest://catalog.example?name=lake.",
        )
    scheme = "http" if options.get("https") == "off" else "https"
    uri = f"{scheme}://{found['host']}{(found['path'] or '').rstrip('/')}"
    given = {name: options[option] for option, name in _OPTIONS.items() if option in options}
    if not found["secret"]:
        return {"uri": uri, **given, "auth": {"type": "noop"}}
    identity, secret = unquote(found["id"]), unquote(found["secret"])
    known = {"credential": f"{identity}:{secret}"} if identity else {"token": secret}
    return {"uri": uri, "oauth2-server-uri": f"{uri}/v1/oauth/tokens", **given, **known}


def _identifier(table: Table) -> tuple[str, str]:
    return table.domain, table.name


def _pointer(loaded: IcebergTable) -> str:
    return rest_updates.pointer_of(loaded.metadata, loaded.metadata_location)


def _refuse_lacking(client: _Client, endpoints: Sequence[Endpoint]) -> None:
    """:raises InvalidInput: the server lacks one of *endpoints*; names it."""
    lacking = [str(endpoint) for endpoint in endpoints if not client.serves(endpoint)]
    if lacking:
        raise InvalidInput(
            field="catalog",
            value=client.uri,
            expected=f"a REST catalog with the route {lacking[0]}",
            next_step="name another catalog: a REST catalog that registers tables, or a SQL, Hive or Glue catalog.",
        )


@contextmanager
def _translated() -> Iterator[None]:
    """:raises StoreUnavailable: the server does not answer, or refuses the request."""
    try:
        yield
    except _FAILURES as error:
        raise StoreUnavailable(
            f"{_NAME} does not answer, or refuses the request: {error}",
            next_step="look at its address, name and credentials in the connection, and at what its user may do: load, "
            "register, commit to and rename tables; then try again.",
        ) from error
