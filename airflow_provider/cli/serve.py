"""``airflow epochs serve``."""

from __future__ import annotations

import getpass
import logging
import secrets
import socket
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from fastapi import HTTPException, Request

from airflow_provider.cli.answer import facts, show
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.rest_catalog.app import Open, create_app
from airflow_provider.rest_catalog.catalog import Catalog

_SHORTEST_TOKEN = 16
_LAST_PORT = 65_535


@command
def serve(arguments: Namespace) -> None:
    """Serve the cuts of a store to engines, as an Iceberg REST catalog, until interrupted."""
    port, token = _port(arguments.port), _token(arguments.token_file)
    with (
        _listening(arguments.host, port) as listening,
        hook_of(arguments).get_conn(create=False) as service,
    ):
        domain = next((name for name in service.cuts.reader.domains() if "?" not in name), "default")
        told = {
            "uri": f"http://{arguments.host}:{port}",
            "token": token if arguments.token_file is None else f"as in {arguments.token_file}",
            "warehouse": f"{domain}, or another address of a cut",
        }
        if not _is_local(arguments.host):
            told["note"] = "tokens and answers travel as plain text: put a proxy with TLS before this server"
        show(facts(told))
        app = create_app(_opened(service, token))
        logging.disable(logging.NOTSET)  # a command logs nothing, a server has to
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def _opened(service: EpochService, token: str) -> Callable[[Request], Open]:
    """Return the dependency that refuses a request without *token*; a client that has it may read all tables."""

    @contextmanager
    def catalog() -> Iterator[Catalog]:
        yield Catalog(service, user=getpass.getuser(), may_read=lambda _service, _domain, names: names)

    def opened(request: Request) -> Open:
        said = request.headers.get("authorization", "")
        if not secrets.compare_digest(said.encode(), f"Bearer {token}".encode()):
            raise HTTPException(401, "give the engine the token of this server, as its property token.")
        return catalog

    return opened


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket at the address, before the address is printed: another program may have it.

    :raises InvalidInput: the address cannot be had.
    """
    if not host:  # the system takes it for all addresses of this host
        raise _no_address(host, port, "it names none")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        # Python adds the address to the system's words.
        why, *_ = str(error.strerror or "the system refuses it").split(" (while")
        raise _no_address(host, port, why) from error
    except (TypeError, ValueError) as error:
        raise _no_address(host, port, "it is no name or number of a host") from error


def _no_address(host: str, port: int, why: str) -> InvalidInput:
    return InvalidInput(
        field="host",
        value=f"{host}:{port}",
        expected=f"an address of this host whose port is free: {why}",
        next_step="end the program that has it, or choose another one: --host, --port.",
    )


def _port(text: str) -> int:
    """Parse a number of a port.

    :raises InvalidInput: *text* is something else.
    """
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _LAST_PORT:
        raise InvalidInput(field="port", value=text, expected=f"a number from 1 to {_LAST_PORT}")
    return int(text)


def _token(file: str | None) -> str:
    """Return the token in *file*; without a file a new one.

    :raises InvalidInput: *file* cannot be read, or has no token that is hard to guess.
    """
    if file is None:
        return secrets.token_urlsafe(32)
    try:
        token = Path(file).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in ASCII, or no name of a file"
        raise InvalidInput(
            field="token-file",
            value=file,
            expected=f"a file with a token: {why}",
            next_step="make one: openssl rand -hex 32 > FILE",
        ) from error
    if len(token) < _SHORTEST_TOKEN or len(token.split()) != 1:
        raise InvalidInput(
            field="token-file",
            value=file,
            expected=f"a file with one word of {_SHORTEST_TOKEN} characters or more",
            next_step="make one: openssl rand -hex 32 > FILE",
        )
    return token


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
