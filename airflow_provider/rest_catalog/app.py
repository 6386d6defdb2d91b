"""Routes of the catalog, as Iceberg's REST specification has them: only those that read.

A client gets a prefix for the paths of its tables from ``/v1/config?warehouse=ADDRESS``, and with it a cut that stays
the same. Paths without a prefix have addresses as namespaces, each resolved anew at every request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import (
    EpochError,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    RetryableError,
    UnknownName,
)
from airflow_provider.domain.identifiers import TableName, table_name
from airflow_provider.rest_catalog.addresses import Address, Prefix
from airflow_provider.rest_catalog.catalog import Catalog

Open = Callable[[], AbstractContextManager[Catalog]]
"""Function that opens the catalog for the user of a request."""

_MOST_AT_ONCE = 4
"""Maximum number of requests that a process works on at once: others of the same server have to be answered, too."""
_NOT_KEPT = {"Cache-Control": "no-store"}
_LEVELS = "\x1f"
"""Separator of the levels of a namespace in a path. Addresses have one level."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Names in the path of a request, unescaped, and the options of its query."""

    names: Mapping[str, str]
    query: Mapping[str, str]

    @classmethod
    def of(cls, request: Request, path: str) -> Asked:
        """Return what *request* asks of the route *path*.

        Clients escape a space as ``+``, so that the path as the framework has it would not tell it from a plus.
        """
        parts = path.split("/")[1:]
        pairs = list(
            zip(parts, request.scope["raw_path"].decode("ascii").split("/")[-len(parts) :], strict=False)
        )
        if any(not part.startswith("{") and part != said for part, said in pairs):
            # The framework has taken an escaped slash for one of its own.
            raise HTTPException(404, "no name has a slash in it.")
        names = {part[1:-1]: unquote_plus(said) for part, said in pairs if part.startswith("{")}
        return cls(names=names, query=request.query_params)


# --- answers -----------------------------------------------------------------------------------------------------


def _config(catalog: Catalog, asked: Asked) -> Response:
    warehouse = asked.query.get("warehouse")
    held = {} if not warehouse else {"prefix": str(catalog.hold(Address.parse(warehouse)))}
    return _json({"defaults": {}, "overrides": held, "endpoints": [f"{m} {p}" for m, p in _declared()]})


def _namespaces(catalog: Catalog, asked: Asked) -> Response:
    if asked.query.get("parent"):
        return _json({"namespaces": []})
    prefix = _prefix(asked)
    found = catalog.domains() if prefix is None else [prefix.domain]
    return _json({"namespaces": [[name] for name in found]})


def _namespace(catalog: Catalog, asked: Asked) -> Response:
    cut = catalog.cut(_place(asked))
    return _json({"namespace": [asked.names["namespace"]], "properties": _properties(cut)})


def _tables(catalog: Catalog, asked: Asked) -> Response:
    cut, namespace = catalog.cut(_place(asked)), [asked.names["namespace"]]
    return _json({"identifiers": [{"namespace": namespace, "name": name} for name in sorted(cut.states)]})


def _table(catalog: Catalog, asked: Asked) -> Response:
    found = catalog.table(_place(asked), _asked_table(asked))
    return _json({"metadata-location": found.uri, "metadata": found.metadata, "config": {}})


def _has_namespace(catalog: Catalog, asked: Asked) -> Response:
    catalog.cut(_place(asked))
    return Response(status_code=204)


def _has_table(catalog: Catalog, asked: Asked) -> Response:
    name = _asked_table(asked)
    found = name in catalog.cut(_place(asked), only=name).states
    return Response(status_code=204 if found else 404)


def _properties(cut: Cut) -> dict[str, str]:
    said = {
        "epochs.barrier": cut.barrier.isoformat(),
        "epochs.csn": str(cut.csn),
        "epochs.readable-until": cut.readable_until.isoformat(),
        "epochs.lease": cut.lease or "",
        "epochs.notes": "\n".join(cut.notes),
    }
    return {name: value for name, value in said.items() if value}


def _place(asked: Asked) -> Address | Prefix:
    """Return where the cut of the request is.

    :raises UnknownName: no address: below a prefix there is only the domain's name.
    """
    namespace, prefix = asked.names["namespace"], _prefix(asked)
    if _LEVELS in namespace or (prefix is not None and namespace != prefix.domain):
        raise UnknownName(
            f"there is no namespace {namespace.replace(_LEVELS, '.')!r}.",
            next_step="with a warehouse it is the name of the domain, without one an address such as default.",
        )
    return Address.parse(namespace) if prefix is None else prefix


def _prefix(asked: Asked) -> Prefix | None:
    text = asked.names.get("prefix")
    return None if text is None else Prefix.parse(text)


def _asked_table(asked: Asked) -> TableName:
    """Return the name of the table; a text that no table can have is the name of a table that is not there."""
    try:
        return table_name(asked.names["table"])
    except InvalidInput as error:
        raise UnknownName(
            f"there is no table {asked.names['table']!r}.", table=asked.names["table"]
        ) from error


def _json(content: Mapping[str, Any]) -> Response:
    return JSONResponse(content)


# --- the application ---------------------------------------------------------------------------------------------

_NAMESPACES = "/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES = f"{_NAMESPACE}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_READS: tuple[tuple[str, str, Callable[[Catalog, Asked], Response]], ...] = (
    ("GET", _NAMESPACES, _namespaces),
    ("GET", _NAMESPACE, _namespace),
    ("HEAD", _NAMESPACE, _has_namespace),
    ("GET", _TABLES, _tables),
    ("GET", _TABLE, _table),
    ("HEAD", _TABLE, _has_table),
)


def _declared() -> Iterator[tuple[str, str]]:
    """Yield method and path of the routes that clients may use, as the specification names them."""
    return ((method, f"/v1/{{prefix}}{path}") for method, path, _ in _READS)


def create_app(opened: Callable[..., Open], *, prefix: str = "") -> FastAPI:
    """Return the application.

    :param opened: dependency that returns how to open the catalog for the user of a request, or refuses the user.
    :param prefix: path before that of the specification.
    """
    app = FastAPI(title="Epochs: cuts", docs_url=None, redoc_url=None, openapi_url=None)
    limiter = CapacityLimiter(_MOST_AT_ONCE)

    def add(method: str, path: str, answer: Callable[[Catalog, Asked], Response]) -> None:
        async def handle(request: Request, open_catalog: Open = Depends(opened)) -> Response:  # noqa: B008
            asked = Asked.of(request, path)
            return await to_thread.run_sync(_answered, open_catalog, answer, asked, limiter=limiter)

        app.add_api_route(f"{prefix}{path}", handle, methods=[method])

    add("GET", "/v1/config", _config)
    for method, path, answer in _READS:
        add(method, f"/v1{path}", answer)
    for method, path, answer in _READS:
        add(method, f"/v1/{{prefix}}{path}", answer)
    for refusal in (EpochError, HTTPException, RequestValidationError):
        app.add_exception_handler(refusal, _refused)
    return app


def _answered(open_catalog: Open, answer: Callable[[Catalog, Asked], Response], asked: Asked) -> Response:
    with open_catalog() as catalog:
        found = answer(catalog, asked)
    found.headers.update(_NOT_KEPT)
    return found


def _refused(request: Request, error: Exception) -> Response:
    """Return *error* in the specification's form."""
    status, kind = _told(error, of_table="/tables/" in request.scope["path"])
    message = str(error.detail) if isinstance(error, HTTPException) else str(error)
    body = {"error": {"message": message, "type": kind, "code": status}}
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if status == 503:
        headers["Retry-After"] = "1"
    return JSONResponse(body, status_code=status, headers={**headers, **_NOT_KEPT})


def _told(error: Exception, *, of_table: bool) -> tuple[int, str]:
    """Return the status and the type of *error*.

    Only what is not there is 404: of a table that cannot be read now a client must not say that it does not exist.
    """
    match error:
        case UnknownName() if error.conn_id:
            return 403, "ForbiddenException"
        case UnknownName():
            return 404, "NoSuchTableException" if of_table else "NoSuchNamespaceException"
        case InvalidInput() | RequestValidationError():
            return 400, "BadRequestException"
        case NotReady():
            return 422, type(error).__name__
        case RetryableError() | OutcomeUnknown():
            return 503, "ServiceUnavailableException"
        case HTTPException(status_code=401):
            return 401, "NotAuthorizedException"
        case HTTPException(status_code=403):
            return 403, "ForbiddenException"
        case HTTPException():
            return error.status_code, type(error).__name__
        case _:
            return 422, type(error).__name__
