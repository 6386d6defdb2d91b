"""Table formats by name, opened on first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.topology import Job, Table, as_job
from airflow_provider.stores.factory import catalog_of, memory_name
from airflow_provider.tables.base import TableFormat
from airflow_provider.tables.capabilities import TableCapability, refuse_without
from airflow_provider.tables.locations import checked_warehouse, names_files

if TYPE_CHECKING:
    from airflow_provider.tables.iceberg.catalogs.base import PointerCatalog


OWN_CATALOG = "own"
"""Address of the catalog in the store's own database, whatever store that is."""


class TableFormats(Mapping[str, TableFormat]):
    """Formats of one metadata store and one warehouse; iteration is over those that the store can serve.

    :param following: formats whose pointers follow the store's commits instead of moving with them (R17).
    :param warehouse: URI below which tables lie; empty for formats without a warehouse.
    :param catalog: address of the catalog, without a user: what a domain remembers of it (R33). Empty: not compared.
    :param unfit: functions that raise InvalidInput if the store cannot serve a format; formats without one fit. They
        connect to nothing.
    """

    def __init__(
        self,
        openers: Mapping[str, Callable[[], TableFormat]],
        *,
        following: Collection[str] = (),
        warehouse: str = "",
        catalog: str = "",
        unfit: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        self.following = frozenset(following)
        self.warehouse = warehouse
        self.catalog = catalog
        self._unfit = dict(unfit or {})
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
        return (name for name in self._openers if self._fits(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def swapped(self, tables: Iterable[Table]) -> list[str]:
        """Return the names of those *tables* whose pointers the store's transactions move."""
        return [table.name for table in tables if table.format not in self.following]

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

    def require(self, tables: Iterable[Table], capability: TableCapability) -> None:
        """:raises InvalidInput: the format of one of *tables* lacks *capability*; names both."""
        for table in tables:
            refuse_without(capability, self[table.format], table.name)

    def writable(self, job: object) -> Job:
        """Check that the store can serve the format of each output of *job*; return the declaration. Opens no format.

        :raises InvalidInput: an unknown format, one that the store cannot serve, or *job* is not a job declaration.
        """
        checked = as_job(job)
        for table in checked.outputs:
            self._opener(table.format)
        return checked

    def _opener(self, name: str) -> Callable[[], TableFormat]:
        if name not in self._openers:
            raise InvalidInput(
                field="format",
                value=name,
                expected=f"one of {sorted(self._openers)}",
                next_step="correct the format in the declaration of the table.",
            )
        if name in self._unfit:
            self._unfit[name]()
        return self._openers[name]

    def _fits(self, name: str) -> bool:
        try:
            self._opener(name)
        except InvalidInput:
            return False
        return True


def open_formats(store_url: str, warehouse: str, catalog_url: str | None = None) -> TableFormats:
    """Return the formats of tables of the store at *store_url*. Opens no connection.

    Memory tables keep their pointers in the store's own memory, unless the catalog lies in memory, too.

    :param warehouse: absolute path or URI below which tables lie; memory tables do not use it.
    :param catalog_url: URL of the catalog that holds the tables' pointers, if it is not the store's own database.
    :raises InvalidInput: *warehouse* is not a valid location, or this process has no credentials for it.
    """
    from airflow_provider.tables.clouds import check
    from airflow_provider.tables.iceberg.catalogs.connecting import shown_catalog

    checked = checked_warehouse(warehouse)
    check(checked)
    catalog, _ = catalog_of(store_url, catalog_url)
    pointers = {"memory": catalog if memory_name(catalog) else store_url, "iceberg": catalog}
    following = {name for name, place in pointers.items() if place != store_url}

    def memory() -> TableFormat:
        from airflow_provider.tables.memory import open_memory_format

        return open_memory_format(_rows_of(pointers["memory"]), swaps="memory" not in following)

    def iceberg() -> TableFormat:
        from airflow_provider.tables.iceberg.format import IcebergFormat

        return IcebergFormat(catalog, checked, swaps="iceberg" not in following)

    def refuse_unfit_iceberg() -> None:
        from airflow_provider.tables.iceberg.catalogs.opening import check_url

        check_url(catalog)
        if not names_files(checked):
            raise InvalidInput(
                field="warehouse",
                value=checked,
                expected="a place for files, as tables with format='iceberg' are files",
                next_step="name a folder or a bucket, or declare the table with format='memory'.",
            )

    return TableFormats(
        {"memory": memory, "iceberg": iceberg},
        following=following,
        warehouse=checked,
        catalog=OWN_CATALOG if catalog == store_url else shown_catalog(catalog),
        unfit={
            "memory": lambda: _rows_of(pointers["memory"]),
            "iceberg": refuse_unfit_iceberg,
        },
    )


def _rows_of(url: str) -> str:
    """Return the name of the store at *url*, in whose memory the rows of memory tables are.

    :raises InvalidInput: the store is not in memory.
    """
    name = memory_name(url)
    if not name:
        raise InvalidInput(
            field="format",
            value="memory",
            expected="a format that other processes can read, since the store is not in memory",
            next_step="declare the table with format='iceberg'; memory tables live in one process.",
        )
    return name


def check_catalog(url: str) -> bool:
    """Return whether the Iceberg catalog at *url* can take tables; read-only.

    :raises InvalidInput: no catalog can be there. :raises StoreUnavailable: the catalog does not answer.
    """
    return _catalog(url).is_ready()


def make_catalog(url: str) -> None:
    """Create an Iceberg catalog in the database at *url* unless it has one; a catalog of its own has to answer.

    :raises InvalidInput: no catalog can be there. :raises StoreUnavailable: the catalog does not answer.
    """
    _catalog(url).make()


def _catalog(url: str) -> PointerCatalog:
    from airflow_provider.tables.iceberg.catalogs.opening import open_catalog

    return open_catalog(url, warehouse="")
