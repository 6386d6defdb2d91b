"""The Airflow plugin ``epochs``. Task processes load it, too, so it imports nothing heavy."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from airflow_provider.plugins.macros import MACROS
from airflow_provider.plugins.preloading import preload

URL_PREFIX = "/epochs"
PAGE = "epochs"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class LazyApp:
    """ASGI application that is imported at its first request, since only an API server gets requests."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._app: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            module, _, name = self._path.partition(":")
            self._app = getattr(importlib.import_module(module), name)()
        await self._app(scope, receive, send)


def _bundle_url() -> str:
    """Return the address of the page's script below Airflow's own address, which may have a path."""
    base = str(conf.get("api", "base_url", fallback="") or "")
    return f"{base.rstrip('/')}{URL_PREFIX}/static/epochs.js"


class EpochsPlugin(AirflowPlugin):
    """The page *Browse → Epochs*, the routes that it reads from, the catalog for engines, and macros for templates."""

    name = "epochs"
    macros: list[Any] = list(MACROS)  # noqa: RUF012 - as its base class declares it
    fastapi_apps: list[Any] = [  # noqa: RUF012 - as its base class declares it
        {  # before the page's routes, which begin with the same path
            "app": LazyApp("airflow_provider.plugins.catalog.app:create_app"),
            "url_prefix": f"{URL_PREFIX}/catalog",
            "name": "Epochs catalog",
        },
        {
            "app": LazyApp("airflow_provider.plugins.grid.app:create_app"),
            "url_prefix": URL_PREFIX,
            "name": "Epochs",
        },
    ]
    react_apps: list[Any] = [  # noqa: RUF012
        {
            "name": "Epochs",
            "bundle_url": _bundle_url(),
            "destination": "nav",
            "category": "browse",
            "url_route": PAGE,
        }
    ]

    @classmethod
    def on_load(cls, *_args: Any, **_options: Any) -> None:
        """Load ahead what DAG files import, where this is the DAG processor."""
        preload(sys.argv)
