"""Table formats by name, opened when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import RLock
from types import TracebackType
from typing import Self

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables.base import TableFormat


class TableFormats(Mapping[str, TableFormat]):
    """The formats of one metadata store and one warehouse."""

    def __init__(self, openers: Mapping[str, Callable[[], TableFormat]]) -> None:
        self._openers = dict(openers)
        self._opened: dict[str, TableFormat] = {}
        self._lock = RLock()

    def __getitem__(self, name: str) -> TableFormat:
        """:raises InvalidInput: an unknown format, or one that this store or warehouse cannot serve."""
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._opener(name)()
            return self._opened[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._openers)

    def __len__(self) -> int:
        return len(self._openers)

    def close(self) -> None:
        """Give back the connections of all formats; they may be used again afterwards."""
        with self._lock:
            while self._opened:
                self._opened.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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


def open_formats(store_url: str, warehouse: str) -> TableFormats:
    """Return the formats that tables beside the store at *store_url* can have. Opens nothing yet.

    :param warehouse: absolute path or URI below which tables lie; memory tables do not need it.
    """

    def memory() -> TableFormat:
        from airflow_provider.tables.memory import open_memory_format

        return open_memory_format(store_url)

    def iceberg() -> TableFormat:
        from airflow_provider.tables.iceberg.format import IcebergFormat

        return IcebergFormat(store_url, warehouse)

    return TableFormats({"memory": memory, "iceberg": iceberg})
