"""The catalog for engines: its application for one user, a server of it on a port of its own, and its clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from pyiceberg.catalog import Catalog as Client
from pyiceberg.catalog import load_catalog

from airflow_provider.coordination.service import EpochService
from airflow_provider.rest_catalog.app import Open, create_app
from airflow_provider.rest_catalog.catalog import Catalog

_LONGEST_START = 30


def application(service: EpochService, *, user: str = "ann", hidden: Collection[str] = ()) -> FastAPI:
    """Return the catalog for *user*, who may read every table but those *hidden*."""

    @contextmanager
    def catalog() -> Iterator[Catalog]:
        yield Catalog(
            service,
            user=user,
            may_read=lambda _service, _domain, names: [name for name in names if name not in hidden],
        )

    def opened() -> Open:
        return catalog

    return create_app(opened)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve *app* on this host and yield its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        end = time.monotonic() + _LONGEST_START
        while not server.started:
            if time.monotonic() > end or not thread.is_alive():
                raise AssertionError("the server did not start")
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


def connected(uri: str, warehouse: str = "") -> Client:
    """Return a client of the catalog at *uri*. :param warehouse: the address of a cut."""
    options = {"warehouse": warehouse} if warehouse else {}
    return load_catalog("cuts", type="rest", uri=uri, token="anything", **options)  # noqa: S106
