"""Wait for commits: ZooKeeper notifies when the head moves, and the head is read now and then as well."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.records import Records
from airflow_provider.stores.zookeeper.session import Deadline, Request, Session

SLOWEST_POLL_S = 1.0
"""Interval at which a watch reads the head by itself, in case a notification was lost."""


class _Bell:
    """Bell for all threads that wait for one domain; kazoo registers it once, however many wait."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.rings = 0

    def ring(self, _event: Any = None) -> None:
        with self.changed:
            self.rings += 1
            self.changed.notify_all()


class Watches:
    """Threads of one store that wait for commits, by domain."""

    def __init__(self, session: Session, paths: Paths, records: Records) -> None:
        self._session, self._paths, self._records = session, paths, records
        self._bells: dict[DomainName, _Bell] = {}

    def wake(self) -> None:
        """Make all waiting threads read the head again."""
        for bell in list(self._bells.values()):
            bell.ring()

    def wait(self, domain: DomainName, after: int, until: Deadline, deadline: Callable[[], Deadline]) -> int:
        """Wait until the head's CSN is above *after*, at most until *until*; return it.

        :param deadline: makes the deadline of one read.
        """
        bell = self._bells.setdefault(domain, _Bell())
        while True:
            rings = bell.rings  # before the look: a ring during it must not be missed
            csn = self._look(domain, bell, deadline())
            left_s = until.left_s()
            if csn > after or left_s <= 0:
                return csn
            with bell.changed:
                bell.changed.wait_for(lambda: bell.rings != rings, min(left_s, SLOWEST_POLL_S))  # noqa: B023

    def _look(self, domain: DomainName, bell: _Bell, deadline: Deadline) -> int:
        """Read the head's CSN, and register for its next change or its creation."""
        path = self._paths.head(domain)
        present: Request = lambda client: client.get_async(path, watch=bell.ring)  # noqa: E731
        _, answer = self._session.ask(deadline, [self._records.sync, present])
        if answer is None:
            absent: Request = lambda client: client.exists_async(path, watch=bell.ring)  # noqa: E731
            (stat,) = self._session.ask(deadline, [absent])
            if stat is not None:  # created between the two requests
                return self._look(domain, bell, deadline)
        return self._records.see_head(domain, answer).csn
