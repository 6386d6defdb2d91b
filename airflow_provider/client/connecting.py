"""``connect``: open a store by its URL, folder, Airflow connection or settings."""

from __future__ import annotations

from os import PathLike

from airflow_provider.client.epochs import Epochs
from airflow_provider.client.libraries import library
from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.stores.factory import folder_of, redacted


def connect(
    place: str | Settings | None = None,
    *,
    local: str | PathLike[str] | None = None,
    warehouse: str | None = None,
    catalog_url: str | None = None,
    domain: str = "default",
) -> Epochs:
    """Open a store and its tables for reading; use it in a ``with`` block.

    .. code-block:: python

        with connect("sqlite:////srv/epochs/epochs.db") as epochs:
            cut = epochs.cut(["flights", "weather"])
            print(cut["flights"].to_pandas())

    Creates nothing: a store that does not exist is an error.

    :param place: URL of the store, id of an Airflow connection, or settings.
    :param local: folder with a store and its tables, instead of *place*; as for :func:`epoch_run`.
    :param warehouse: with a URL, the URI of the tables; for a SQLite file by default ``warehouse`` beside it.
    :param catalog_url: with a URL, the database that holds the tables' pointers, if it is not the store's own.
    :param domain: domain of tables that are given as names.
    :raises InvalidInput: an address that cannot be parsed, or a store on a server without *warehouse*.
    :raises UnknownConnection: Airflow does not know the connection.
    :raises MissingLibrary: *place* is a connection's id, and Airflow is not installed.
    :raises StoreUnavailable: the store does not answer, or does not exist.
    :raises StoreIncompatible: its schema is older or newer than this version of the package.
    """
    chosen = domain_name(domain)
    settings = _settings(place, local, warehouse, catalog_url)
    return Epochs(EpochService.open(settings, create=False), chosen)


def _settings(
    place: str | Settings | None,
    local: str | PathLike[str] | None,
    warehouse: str | None,
    catalog_url: str | None,
) -> Settings:
    """Return the settings that the arguments name.

    :raises InvalidInput: the arguments name no store, or two.
    """
    if (place is None) == (local is None):
        raise _unclear("place", None if place is None else "(a place and a folder)")
    is_url = isinstance(place, str) and "://" in place
    if not is_url and (warehouse is not None or catalog_url is not None):
        raise InvalidInput(
            field="warehouse" if catalog_url is None else "catalog_url",
            value=warehouse if catalog_url is None else redacted(catalog_url),
            expected="nothing: only beside the URL of a store; folder, connection and settings say it themselves",
            next_step="leave it out.",
        )
    if local is not None:
        return Settings.local(local)
    if isinstance(place, Settings):
        return place
    if not isinstance(place, str):
        raise _unclear("place", place)
    if is_url:
        return Settings(store_url=place, warehouse=warehouse or _beside(place), catalog_url=catalog_url)
    library("airflow", "connect() with the id of a connection")
    from airflow_provider.hooks.epochs import EpochsHook

    return EpochsHook(place).get_settings()


def _beside(url: str) -> str:
    """Return the warehouse beside a store that is a file, as :meth:`Settings.local` does.

    :raises InvalidInput: the store is on a server.
    """
    folder = folder_of(url)
    if folder is None:
        raise InvalidInput(
            field="warehouse",
            value=None,
            expected=f"the URI under which the tables of {redacted(url)} lie, such as file:///srv/epochs/warehouse",
            next_step="connect(url, warehouse=…), or name an Airflow connection, which has both.",
        )
    return f"file://{folder / 'warehouse'}"


def _unclear(field: str, value: object) -> InvalidInput:
    return InvalidInput(
        field=field,
        value=value,
        expected="one of: the URL of a store, the id of an Airflow connection, Settings, or local= (a folder)",
        next_step='connect(url, warehouse=…), connect("epochs_default") or connect(local=".").',
    )
