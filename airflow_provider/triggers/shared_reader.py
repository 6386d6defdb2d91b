"""Open stores that the triggers of a process share, with one watch for each domain.

A triggerer runs a thousand triggers in one event loop and has few threads: so no trigger may hold a thread while it
waits, and one watch looks for commits on behalf of all triggers of a domain.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from weakref import WeakKeyDictionary

from airflow_provider.coordination.reading.bringers import Bringer, bringers
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import EpochError, RetryableError
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.stores.base import MetadataReader, MetadataStore
from airflow_provider.stores.factory import open_store
from airflow_provider.triggers.questions import Questions

log = logging.getLogger(__name__)


class SharedReader:
    """A shared store, and the head of one domain by its last watch. Use :func:`shared_reader`."""

    def __init__(self, held: _Held, domain: DomainName) -> None:
        self._held = held
        self._domain = domain
        self._head = -1
        self._moved = asyncio.Event()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="epochs-watch")
        self._asking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="epochs-ask")
        self.questions = Questions(held.store, domain, self._asking)
        self._bringers: dict[tuple[TableName, ...], tuple[asyncio.Task[list[Bringer]] | None, float]] = {}
        self.users = 0
        self.ended = False
        held.users += 1
        self._answering = asyncio.create_task(self.questions.run())
        self._watching = asyncio.create_task(self._watch())

    @property
    def reader(self) -> MetadataReader:
        return self._held.store

    async def later_than(self, csn: int, timeout: timedelta) -> None:
        """Wait until the head is above *csn*, at most for *timeout*; holds no thread meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout.total_seconds()):
                while self._head <= csn:
                    await self._moved.wait()

    async def bringers(self, tables: tuple[TableName, ...]) -> list[Bringer]:
        """Return the writers of *tables*, for a log line: as they were at most some seconds ago."""
        told, at = self._bringers.get(tables, (None, 0.0))
        if told is None or monotonic() - at > DEFAULTS.wait_poll_interval.total_seconds():
            now, kept = monotonic(), DEFAULTS.wait_poll_interval.total_seconds()
            self._bringers = {key: known for key, known in self._bringers.items() if now - known[1] <= kept}
            told = asyncio.create_task(asyncio.to_thread(bringers, self.reader, self._domain, tables))
            self._bringers[tables] = told, now
        try:
            return await asyncio.shield(told)
        except EpochError as error:
            log.warning("It is not known who brings %s: %s", ", ".join(tables), error)
            return []

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.users:
                try:
                    head = await loop.run_in_executor(
                        self._thread,
                        self._held.store.watch,
                        self._domain,
                        self._head,
                        DEFAULTS.wait_poll_interval,
                    )
                except RetryableError as error:
                    log.warning("The watch on the metadata store failed and is set again: %s", error)
                    await asyncio.sleep(DEFAULTS.wait_poll_interval.total_seconds())
                else:
                    self._tell(head)
                if self._answering.done():
                    self._answering.result()
        except Exception as error:
            log.exception("The triggers of domain %s are not answered any longer", self._domain)
            self.questions.end(error)
            raise
        finally:
            self.ended = True
            self._answering.cancel()
            # In the watch's own thread, after the watch: a store must not be closed while it is in use.
            self._thread.submit(self._end, self._held.left())
            self._thread.shutdown(wait=False)

    def _end(self, is_last: bool) -> None:
        self._asking.shutdown()
        if is_last:
            self._held.store.close()

    def _tell(self, head: int) -> None:
        if head != self._head:
            self._head = head
            self._moved.set()
            self._moved = asyncio.Event()
            self.questions.look()


@dataclass(slots=True)
class _Held:
    """An open store and the number of readers that use it; the last reader to leave removes it from *among*."""

    url: str
    store: MetadataStore
    among: dict[str, _Held]
    users: int = 0

    def left(self) -> bool:
        """Count a reader out; return whether it was the last one, which has to close the store."""
        self.users -= 1
        if not self.users and self.among.get(self.url) is self:
            del self.among[self.url]
        return not self.users


class _OfLoop:
    """The readers and stores that the triggers of one event loop share."""

    def __init__(self) -> None:
        self.readers: dict[tuple[str, DomainName], SharedReader] = {}
        self.held: dict[str, _Held] = {}
        self.opening: dict[str, asyncio.Task[None]] = {}

    async def reader(self, url: str, domain: DomainName) -> SharedReader:
        """Return the reader of *domain*.

        One trigger opens the store; triggers that ask meanwhile wait for it, and get the same store or the same error.
        """
        while (shared := self.readers.get((url, domain))) is None or shared.ended:
            if held := self.held.get(url):
                self.readers[url, domain] = SharedReader(held, domain)
            else:
                if url not in self.opening:
                    self.opening[url] = asyncio.create_task(self._open(url))
                await asyncio.shield(self.opening[url])
        return shared

    async def _open(self, url: str) -> None:
        try:
            store = await asyncio.to_thread(open_store, url, create=False)
        finally:
            del self.opening[url]
        self.held[url] = _Held(url, store, self.held)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _OfLoop] = WeakKeyDictionary()


def of_this_loop() -> _OfLoop:
    return _loops.setdefault(asyncio.get_running_loop(), _OfLoop())


@asynccontextmanager
async def shared_reader(store_url: str, domain: DomainName) -> AsyncIterator[SharedReader]:
    """Share this event loop's reader of *domain*, or make it; its last user releases the store.

    :raises StoreUnavailable: the store does not answer.
    """
    here = of_this_loop()
    shared = await here.reader(store_url, domain)
    shared.users += 1
    try:
        yield shared
    finally:
        shared.users -= 1
        if not shared.users and here.readers.get((store_url, domain)) is shared:
            del here.readers[store_url, domain]
