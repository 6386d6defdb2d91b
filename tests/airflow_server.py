"""Airflow's own API server in the test's process, with the package's plugins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.api_fastapi.app import create_app, purge_cached_app
from fastapi.testclient import TestClient


@contextmanager
def api_server() -> Iterator[TestClient]:
    """Start it over an initialized database; the environment has the test's settings."""
    from airflow.utils import db

    db.initdb()
    purge_cached_app()
    with TestClient(create_app(apps="core"), base_url="http://testserver") as client:
        yield client
    purge_cached_app()
