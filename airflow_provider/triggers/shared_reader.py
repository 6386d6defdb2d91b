"""One open store and one watch for all triggers of a process that wait on the same domain.

A triggerer runs a thousand triggers in one event loop and has few threads: so none of them may hold a thread
while it waits, and a commit is looked for once, not once for each trigger.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import ClassVar
from weakref import WeakKeyDictionary

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import RetryableError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.base import MetadataReader, MetadataStore
from airflow_provider.stores.factory import open_store

log = logging.getLogger(__name__)


class SharedReader:
    """An open store, and the head of one domain as its watch last saw it. Use :func:`shared_reader`."""

    open_ones: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], SharedReader]]] = (
        WeakKeyDictionary()
    )

    def __init__(self, store: MetadataStore, domain: DomainName) -> None:
        self._store = store
        self._domain = domain
        self._head = -1
        self._moved = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="epochs-watch")
        self.users = 0
        self._watching = asyncio.create_task(self._watch())

    @property
    def reader(self) -> MetadataReader:
        return self._store

    async def later_than(self, csn: int, patience: timedelta) -> None:
        """Return when the head is above *csn*, or after *patience*; holds no thread meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                while self._head <= csn:
                    await self._moved.wait()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.users:
                try:
                    head = await loop.run_in_executor(
                        self._thread, self._store.watch, self._domain, self._head, DEFAULTS.wait_poll_interval
                    )
                except RetryableError as error:
                    log.warning("The watch on the metadata store failed and is set again: %s", error)
                    await asyncio.sleep(DEFAULTS.wait_poll_interval.total_seconds())
                else:
                    self._tell(head)
        finally:
            # In the watch's own thread, after the watch: a store must not be closed while it is in use.
            self._thread.submit(self._store.close)
            self._thread.shutdown(wait=False)

    def _tell(self, head: int) -> None:
        if head != self._head:
            self._head = head
            self._moved.set()
            self._moved = asyncio.Event()


@asynccontextmanager
async def shared_reader(store_url: str, domain: DomainName) -> AsyncIterator[SharedReader]:
    """Join the reader that others of this event loop have on *domain*, or open one; the last one out closes it.

    :raises StoreUnavailable: the store does not answer.
    """
    key = (store_url, domain)
    readers = SharedReader.open_ones.setdefault(asyncio.get_running_loop(), {})
    while (shared := readers.get(key)) is None:
        store = await asyncio.to_thread(open_store, store_url)
        if key in readers:
            await asyncio.to_thread(store.close)  # meanwhile the other one may be left, and be gone
        else:
            readers[key] = SharedReader(store, domain)
    shared.users += 1
    try:
        yield shared
    finally:
        shared.users -= 1
        if not shared.users and readers.get(key) is shared:
            del readers[key]
