"""Table formats by name, opened on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from types import TracebackType
from typing import Self

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Job, as_job
from airflow_provider.stores.factory import catalog_of
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.locations import checked_warehouse


class TableFormats(Mapping[str, TableFormat]):
    """Formats of one metadata store and one warehouse.

    :param projected: whether the catalog's pointers follow the store's commits instead of moving with them (R17).
    :param warehouse: URI below which tables lie; empty for formats without a warehouse.
    """

    def __init__(
        self,
        openers: Mapping[str, Callable[[], TableFormat]],
        *,
        projected: bool = False,
        warehouse: str = "",
    ) -> None:
        self.projected = projected
        self.warehouse = warehouse
        self._openers = dict(openers)
        self._opened: dict[str, TableFormat] = {}
        self._lock = RLock()

    def __getitem__(self, name: str) -> TableFormat:
        """:raises InvalidInput: unknown format, or one that this store or warehouse cannot serve."""
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._opener(name)()
            return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._openers)

    def __len__(self) -> int:
        return len(self._openers)

    def close(self) -> None:
        """Close the connections of all formats; the next use opens them again."""
        with self._lock:
            while self._opened:
                self._opened.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def writable(self, job: object) -> Job:
        """Check that the format of each output of *job* is known; return the declaration. Opens no format.

        :raises InvalidInput: unknown format, or *job* is not a job declaration.
        """
        checked = as_job(job)
        for table in checked.outputs:
            self._opener(table.format)
        return checked

    def _opener(self, name: str) -> Callable[[], TableFormat]:
        try:
            return self._openers[name]
        except KeyError:
            raise InvalidInput(
                field="format",
                value=name,
                expected=f"one of {sorted(self._openers)}",
                next_step="correct the format in the declaration of the table.",
            ) from None


def open_formats(store_url: str, warehouse: str, catalog_url: str | None = None) -> TableFormats:
    """Return the formats of tables of the store at *store_url*. Opens no connection.

    :param warehouse: absolute path or URI below which tables lie; memory tables do not use it.
    :param catalog_url: URL of the database that holds the tables' pointers, if it is not the store's own.
    :raises InvalidInput: *warehouse* is not a valid location.
    """
    checked = checked_warehouse(warehouse)
    pointers, swaps = catalog_of(store_url, catalog_url)

    def memory() -> TableFormat:
        from airflow_provider.tables.memory import open_memory_format

        return open_memory_format(pointers, swaps=swaps)

    def iceberg() -> TableFormat:
        from airflow_provider.tables.iceberg.format import IcebergFormat

        return IcebergFormat(pointers, checked, swaps=swaps)

    return TableFormats({"memory": memory, "iceberg": iceberg}, projected=not swaps, warehouse=checked)


def check_catalog(url: str) -> bool:
    """Return whether the database at *url* holds an Iceberg catalog; read-only.

    :raises InvalidInput: no catalog can be in such a database. :raises StoreUnavailable: the database does not answer.
    """
    from airflow_provider.tables.iceberg.catalog import has_tables

    return has_tables(url)


def make_catalog(url: str) -> None:
    """Create an Iceberg catalog in the database at *url* unless it has one.

    :raises InvalidInput: no catalog can be in such a database. :raises StoreUnavailable: the database does not answer.
    """
    from airflow_provider.tables.iceberg.catalog import make_tables

    make_tables(url)
