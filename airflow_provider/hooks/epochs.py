"""Hook for connections of type ``epochs``: opens the metadata store, in any Airflow process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseHook

from airflow_provider.domain.errors import EpochError, UnknownConnection
from airflow_provider.domain.read_options import READ_DEFAULTS
from airflow_provider.hooks.compat import AirflowNotFoundException, amask_secret, conf, mask_secret
from airflow_provider.hooks.connection import (
    CONN_TYPE,
    Addresses,
    ConnectionFields,
    catalog_url_of,
    checked_conn_id,
    database_url_of,
    parsed_extra,
    place_of,
)

if TYPE_CHECKING:
    from airflow_provider.coordination.service import EpochService, Settings
    from airflow_provider.stores.base import MetadataReader

DEFAULT_CONN_ID = "epochs_default"


class EpochsHook(BaseHook):
    """Hook that opens the store and the tables of a connection of type ``epochs``.

    Nothing is opened or looked up before a method is called. Works in tasks, triggers (``aget_settings``), the
    API server and commands alike, because Airflow's own chain looks connections up.

    :param epochs_conn_id: the connection; see ``docs/reference/connection.md``.
    """

    conn_name_attr = "epochs_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = "Epochs metadata store"

    def __init__(self, epochs_conn_id: str = DEFAULT_CONN_ID) -> None:
        super().__init__()
        self.epochs_conn_id = epochs_conn_id

    def get_settings(self, *, connections: Iterable[str] = ()) -> Settings:
        """Return the settings of the connection; from here on, logs mask its password.

        :param connections: ids of connections that sources of a job name; they are looked up, too.
        :raises InvalidInput: a field of a connection is wrong; names it.
        :raises UnknownConnection: Airflow does not find a connection; names it.
        """
        connection = self._looked_up(self.epochs_conn_id)
        place = place_of(_fields_of(connection))
        catalog = None if place.catalog is None else self._looked_up(place.catalog)
        settings = _settings_of(place, catalog)
        for secret in _secrets_of(settings, connection, catalog):
            mask_secret(secret)
        return replace(settings, connections=self.connection_urls(connections))

    def connection_urls(self, connections: Iterable[str]) -> dict[str, str]:
        """Return the database URLs of sources' sources, by the ids of their connections; logs mask them.

        :raises InvalidInput: a field of a connection is wrong; names it.
        :raises UnknownConnection: Airflow does not find a connection; names it.
        """
        return {name: self._connection_url(name) for name in connections}

    def _looked_up(self, conn_id: str) -> Any:
        with _unknown_is_told(conn_id):
            return self.get_connection(checked_conn_id(conn_id))

    async def _alooked_up(self, conn_id: str) -> Any:
        with _unknown_is_told(conn_id):
            return await self.aget_connection(checked_conn_id(conn_id))

    def _connection_url(self, conn_id: str) -> str:
        connection = self._looked_up(conn_id)
        url = database_url_of(_fields_of(connection))
        for secret in _secrets(connection, url):
            mask_secret(secret)
        return url

    async def aget_settings(self, *, connections: Iterable[str] = ()) -> Settings:
        """Return the same as :meth:`get_settings`, for triggers: never blocks the triggerer's loop.

        :raises InvalidInput: a field of a connection is wrong; names it.
        :raises UnknownConnection: Airflow does not find a connection; names it.
        """
        connection = await self._alooked_up(self.epochs_conn_id)
        place = place_of(_fields_of(connection))
        catalog = None if place.catalog is None else await self._alooked_up(place.catalog)
        settings = _settings_of(place, catalog)
        for secret in _secrets_of(settings, connection, catalog):
            await amask_secret(secret)
        return replace(
            settings, connections={name: await self._aconnection_url(name) for name in connections}
        )

    async def _aconnection_url(self, conn_id: str) -> str:
        connection = await self._alooked_up(conn_id)
        url = database_url_of(_fields_of(connection))
        for secret in _secrets(connection, url):
            await amask_secret(secret)
        return url

    def get_conn(self, *, create: bool = True) -> EpochService:
        """Open the store and the tables; the caller closes it, best with ``with``.

        :param create: create the file of a store that is a file and does not exist; False for callers that only read.
        :raises InvalidInput: a field of the connection is wrong; names it.
        :raises StoreUnavailable: the store does not answer.
        :raises StoreIncompatible: its schema is older or newer than this version of the package.
        """
        from airflow_provider.coordination.service import EpochService

        return EpochService.open(self.get_settings(), create=create)

    @contextmanager
    def get_reader(self) -> Iterator[MetadataReader]:
        """Open the store for reading only, which sensors, pages and most commands need. Creates no store.

        :raises InvalidInput: a field of the connection is wrong; names it.
        :raises StoreUnavailable: the store does not answer.
        """
        from airflow_provider.stores.factory import open_store

        settings = self.get_settings()
        with open_store(settings.store_url, require=settings.require, create=False) as store:
            yield store

    def test_connection(self) -> tuple[bool, str]:
        """Test the connection; Airflow shows the answer in its form.

        :return: whether the store answers, and its domains or the error.
        """
        try:
            with self.get_reader() as reader:
                domains = reader.domains()
        except EpochError as error:
            return False, str(error)
        return True, f"The store answers; domains: {', '.join(domains) or 'none yet'}."


@contextmanager
def _unknown_is_told(conn_id: str) -> Iterator[None]:
    try:
        yield
    except AirflowNotFoundException as error:
        raise UnknownConnection(
            f"connection {conn_id!r} is not known to Airflow here.",
            next_step=f"see `airflow connections list`; make it: `airflow connections add {conn_id} --conn-type … "
            "--conn-host …` (`airflow providers get airflow-provider-epochs --full` lists the fields), or name "
            "another one where the id was given (in a task epochs_conn_id, in a command --conn-id).",
            conn_id=conn_id,
        ) from error


def _fields_of(connection: Any) -> ConnectionFields:
    return ConnectionFields(
        conn_id=connection.conn_id,
        conn_type=connection.conn_type,
        host=connection.host,
        port=connection.port,
        schema=connection.schema,
        login=connection.login,
        password=connection.password,
        extra=parsed_extra(connection.conn_id, connection.extra),
    )


def default_consistency() -> str:
    """Return ``[epochs] read_consistency``: the consistency of reads that name none."""
    return str(conf.get("epochs", "read_consistency", fallback=READ_DEFAULTS.consistency.value))


def _settings_of(place: Addresses, catalog: Any) -> Settings:
    from airflow_provider.coordination.service import Settings

    return Settings(
        store_url=place.store_url,
        warehouse=place.warehouse,
        catalog_url=None if catalog is None else catalog_url_of(_fields_of(catalog)),
        require=place.require,
        read_level=conf.get("epochs", "read_level", fallback=READ_DEFAULTS.level.value),
        read_consistency=default_consistency(),
    )


def _secrets_of(settings: Settings, *connections: Any) -> Iterator[str]:
    """Yield the texts that logs must mask: each password, plain and quoted for a URL, and the URL with it."""
    urls = (settings.store_url, settings.catalog_url)
    for connection, url in zip(connections, urls, strict=True):
        if connection is not None and url:
            yield from _secrets(connection, url)


def _secrets(connection: Any, url: str) -> Iterator[str]:
    if connection.password:
        yield from (connection.password, quote(connection.password, safe=""), url)
