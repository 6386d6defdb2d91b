"""Queue clients for a domain's head, fairly, after they have lost the race for it (docs/decisions/publish-queue.md).

The queue is a hint on which nothing depends: a client makes a node that lives as long as its session, and waits a
little while until the node before it is gone. A client that is paused in the queue is passed after a quarter of a
second. The transaction removes the node that was made for it, so that the commit itself wakes the next client.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, local
from typing import Any, cast

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.records import children
from airflow_provider.stores.zookeeper.session import Deadline, Request, Session

LONGEST_WAIT_S = 0.25
_MOST_PASSED = 1000


class PublishQueues:
    """The queues of a store's domains."""

    def __init__(self, session: Session, paths: Paths) -> None:
        self._session, self._paths = session, paths
        self._passed: set[str] = set()
        self._threads = local()

    @contextmanager
    def publish_queue(self, domain: DomainName, deadline: Deadline, timeout_s: float) -> Iterator[None]:
        """Queue this thread for the head; its first transaction that moves the head gives the turn on."""
        held = self._held()
        if domain not in held and (own := self.take(domain, deadline, timeout_s)) is not None:
            held[domain] = own
        try:
            yield
        finally:
            self.leave(held.pop(domain, None), deadline)

    def held(self, domain: DomainName) -> str | None:
        """Return the path of the node of this thread's turn, None if it has none."""
        return self._held().get(domain)

    def given_on(self, domain: DomainName) -> None:
        """Forget this thread's turn: a transaction has removed its node, or the session has ended."""
        self._held().pop(domain, None)

    def _held(self) -> dict[DomainName, str]:
        return cast("dict[DomainName, str]", self._threads.__dict__)

    def take(self, domain: DomainName, deadline: Deadline, timeout_s: float | None = None) -> str | None:
        """Queue up and wait for our turn, at most for *timeout_s*; return our node's path, None if it was not made."""
        folder = self._paths.folder(domain, "turns")
        until = Deadline(min(LONGEST_WAIT_S if timeout_s is None else timeout_s, deadline.left_s()))
        own = self._session.send(deadline, _create(f"{folder}/turn-", ephemeral=True))
        if own is None:
            for missing in self._paths.parents(f"{folder}/turn"):
                self._session.send(deadline, _create(missing, ephemeral=False))
            own = self._session.send(deadline, _create(f"{folder}/turn-", ephemeral=True))
        if own is None:
            return None
        while before := self._before(folder, str(own), deadline):
            gone = Event()
            there = self._session.send(deadline, _watch(f"{folder}/{before}", gone))
            if there is not None and not gone.wait(until.left_s()):
                if len(self._passed) > _MOST_PASSED:
                    self._passed.clear()
                self._passed.add(before)
            if until.left_s() <= 0:
                break
        return str(own)

    def leave(self, turn: str | None, deadline: Deadline) -> None:
        """Remove our node without a commit."""
        if turn is not None:
            self._session.send(deadline, lambda client: client.delete_async(turn))

    def _before(self, folder: str, own: str, deadline: Deadline) -> str | None:
        """Return the name of the node right before ours, except those of clients known to be paused."""
        names = self._session.send(deadline, children(folder))
        mine = own.rpartition("/")[2]
        waiting = sorted(name for name in names or [] if name < mine and name not in self._passed)
        return waiting[-1] if waiting else None


def _create(path: str, *, ephemeral: bool) -> Request:
    return lambda client: client.create_async(path, b"", ephemeral=ephemeral, sequence=ephemeral)


def _watch(path: str, gone: Event) -> Request:
    def ring(_event: Any) -> None:
        gone.set()

    return lambda client: client.exists_async(path, watch=ring)
