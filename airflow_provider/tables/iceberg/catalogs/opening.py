"""Open catalogs by URL: the only module that knows their classes. A catalog's libraries are imported on demand."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.factory import catalog_properties
from airflow_provider.stores.opening import with_extra
from airflow_provider.tables.iceberg.catalogs.base import PointerCatalog
from airflow_provider.tables.iceberg.catalogs.connecting import OUTSIDE


def check_url(url: str) -> None:
    """Check that the URL is that of a catalog; connects to nothing.

    :raises InvalidInput: it is not, or the client library of such a catalog is not installed.
    """
    if _is_outside(url):
        open_catalog(url, warehouse="")
    else:
        catalog_properties(url)


def open_catalog(url: str, warehouse: str, *, makes_tables: bool = False) -> PointerCatalog:
    """Return the catalog at *url*; connects to nothing.

    :param warehouse: URI below which tables lie.
    :param makes_tables: create a SQL catalog's own tables on first use if they are missing; those in the store's
        database are created with the store's schema.
    :raises InvalidInput: *url* is no catalog's, or a library is not installed.
    """
    if _is_outside(url):
        return _outside(_scheme(url))(url, warehouse)
    from airflow_provider.tables.iceberg.catalogs.sql import SqlPointerCatalog

    return SqlPointerCatalog(url, warehouse, makes_tables=makes_tables)


def _outside(scheme: str) -> Callable[[str, str], PointerCatalog]:
    module, _, name = OUTSIDE[scheme].opener.partition(":")
    try:
        opener: Callable[[str, str], PointerCatalog] = getattr(import_module(f"{__package__}.{module}"), name)
    except ImportError as error:
        raise InvalidInput(
            field="catalog",
            value=scheme,
            expected=f"an installed client of {OUTSIDE[scheme].name} ({error})",
            next_step=with_extra(scheme),
        ) from error
    return opener


def _is_outside(url: object) -> bool:
    return isinstance(url, str) and _scheme(url) in OUTSIDE


def _scheme(url: str) -> str:
    return url.partition("://")[0]
