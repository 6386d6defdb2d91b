"""Open stores in the memory of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.opening import Now, StoreOpener, UnopenedStore

if TYPE_CHECKING:
    from airflow_provider.stores.memory import MemoryStore


class MemoryOpener(StoreOpener):
    """Opener of stores in memory; stores of one name share everything."""

    scheme = "memory"
    form = "memory://NAME"
    name = "a store in memory"
    local = True

    def unopened(self, url: str, now: Now | None) -> UnopenedStore:
        from airflow_provider.stores.memory import MemoryStore, system_time

        name = url.partition("://")[2]
        if not name or "/" in name:
            raise InvalidInput(
                field="store url",
                value=self.shown(url),
                expected=self.form,
                next_step="give the store a name without '/': stores of one name share everything.",
            )
        return _Memory(MemoryStore(name, now=now or system_time))


class _Memory:
    """Store in memory, which needs neither connection nor schema."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.capabilities = store.capabilities

    def open(self, *, create: bool = True) -> MemoryStore:  # noqa: ARG002 - it is there
        return self._store

    def schema_status(self) -> None:
        """Return None: a store in memory has no schema."""

    def upgrade_schema(self) -> None:
        """Return None: a store in memory has no schema."""

    def new_incarnation(self) -> str:
        return self._store.new_incarnation()

    def close(self) -> None:
        self._store.close()
