"""Metadata store on ZooKeeper: every change is one ``multi`` (docs/decisions/zookeeper-layout.md)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from time import time_ns
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.protocol.states import WatchedEvent

from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped, commit_item
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import (
    Head,
    MetadataStore,
    Reading,
    Receipt,
    StoreCapability,
    Transaction,
)
from airflow_provider.stores.requests import check_keys, check_pointers, check_scan, check_text, checked_again
from airflow_provider.stores.schema_status import SchemaStatus
from airflow_provider.stores.zookeeper import schema
from airflow_provider.stores.zookeeper.address import Address
from airflow_provider.stores.zookeeper.clock import ServerClock
from airflow_provider.stores.zookeeper.known import Incarnation, Known
from airflow_provider.stores.zookeeper.listing import domains, within
from airflow_provider.stores.zookeeper.maintenance import Maintenance
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.records import Records
from airflow_provider.stores.zookeeper.session import Deadline, Get, Request, Session
from airflow_provider.stores.zookeeper.transacting import Writer
from airflow_provider.stores.zookeeper.watching import Watches

_LONGEST_OPENING_S = 10.0

_Answer = TypeVar("_Answer")


class ZookeeperStore(MetadataStore):
    """Store under a chroot of a ZooKeeper ensemble; :meth:`open` checks that it fits.

    :param timeout: time to wait for other writers, and for an ensemble that elects a leader.
    """

    capabilities = frozenset({StoreCapability.WATCH, StoreCapability.CLUSTER})

    def __init__(self, address: Address, *, timeout: timedelta = DEFAULTS.store_timeout) -> None:
        self._address = address
        self._timeout_s = timeout.total_seconds()
        self._closed = False
        self._format = FORMAT
        self._session = Session(address)
        self._paths = Paths(address.chroot)
        self._begin()

    def _begin(self) -> None:
        """Begin without hints and locks, at first and in a forked child.

        A lock that a thread of the parent held at the fork would stay locked in the child for ever.
        """
        self._process = os.getpid()
        self._generation = -1
        self._reads_only = False
        self._renames = self._renames_seen = 0
        self._known = Known()
        self._clock = ServerClock()
        self._records = Records(self._session, self._paths, self._known)
        self._writer = Writer(self._session, self._paths, self._known, self._records, self._clock)
        self._maintenance = Maintenance(self._session, self._paths, self._known, self._records)
        self._watches = Watches(self._session, self._paths, self._records)

    @property
    def format(self) -> int:
        if self._format < FORMAT:  # another process may have upgraded it since
            self.schema_status()
        return self._format

    def __repr__(self) -> str:
        return f"ZookeeperStore({self._address.location})"

    def open(self, *, create: bool = True) -> ZookeeperStore:  # noqa: ARG002 - none is made by opening
        """Check the layout.

        :raises StoreIncompatible: the layout is missing or another one, or this user may not read it; says what to do.
        :raises StoreUnavailable: the ensemble does not answer.
        """
        try:
            self.schema_status().require_usable()
            self._greet(self._deadline(read=True), touch=False)
        except BaseException:
            self.close()
            raise
        return self

    def schema_status(self) -> SchemaStatus:
        """Return the state of the layout. Read-only."""
        found = schema.status(self._session, self._paths, self._opening())
        self._format = found.format
        return found

    def upgrade_schema(self) -> SchemaStatus:
        """Create the layout, or bring it up to date."""
        self._opening_check()
        return schema.upgrade(self._session, self._paths, Deadline(self._timeout_s))

    def new_incarnation(self) -> str:
        """Give the store a new identity; return it (R33)."""
        self.schema_status().require_usable()
        new = schema.new_incarnation(self._session, self._paths, self._deadline())
        self._known.clear()
        return new

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        check_pointers(pointers, self.capabilities)
        check_keys(domain, [key for key in keys if key not in self._known.tables or key.domain != domain])
        deadline = self._deadline(read=True)

        def look() -> Reading:
            incarnation = self._greet(deadline)
            head, found, _ = self._records.look(domain, keys, deadline)
            # The clock is a lower bound: a record that was read may be younger.
            now = max([self._clock.now(), *(stamped.at for stamped in found.values())])
            return Reading(Head(head.csn, incarnation.name), now, found)

        return self._of_one_connection(look)

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        check_scan(domain, partition, start, end, limit)
        deadline = self._deadline(read=True)

        def look() -> list[Stamped[Any]]:
            self._greet(deadline)
            if kind is Kind.COMMIT:
                if partition:
                    return []
                return self._records.commits_between(
                    domain, start=start, end=end, limit=limit, reverse=reverse, deadline=deadline
                )
            return self._records.scan(
                domain, kind, partition, within=within(start, end, reverse), limit=limit, deadline=deadline
            )

        return self._of_one_connection(look)

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self.scan(domain, Kind.COMMIT, "", start=commit_item(max(0, after) + 1), limit=limit)

    def domains(self) -> list[DomainName]:
        deadline = self._deadline(read=True)
        self._greet(deadline)
        return domains(self._session, self._paths, self._records, deadline)

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        check_text("domain", domain, empty=False)
        return self._watches.wait(
            domain, after, Deadline(timeout.total_seconds()), lambda: self._deadline(read=True)
        )

    # --- changing --------------------------------------------------------------------------------------------

    def transact(self, transaction: Transaction) -> Receipt:
        request = checked_again(
            transaction, self.capabilities, self._format, lambda: self.schema_status().format
        )
        deadline = self._deadline()
        self._greet(deadline)
        receipt, plan = self._writer.apply(request, transaction.number, deadline)
        self._maintenance.follow(plan, deadline)
        return receipt

    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:
        check_text("domain", domain, empty=False)
        return self._writer.queues.publish_queue(domain, Deadline(self._timeout_s), timeout.total_seconds())

    def close(self) -> None:
        self._closed = True
        self._session.close()
        self._watches.wake()

    # --- the connection --------------------------------------------------------------------------------------

    def _of_one_connection(self, look: Callable[[], _Answer]) -> _Answer:
        """Return the result of *look* over one connection, of one incarnation; look again if either ended meanwhile.

        A look may take several messages, each of which relies on the answer to the one before. The server of a new
        session may lag behind that answer, or have been restored. *look* raises at its deadline, so the loop ends.
        """
        while True:
            before = self._session.generation, self._renames
            answer = look()
            if before == (self._session.generation, self._renames):
                return answer

    def _deadline(self, *, read: bool = False) -> Deadline:
        self._opening_check()
        return Deadline(self._timeout_s / 2 if read else self._timeout_s)

    def _opening(self) -> Deadline:
        self._opening_check()
        return Deadline(min(self._timeout_s, _LONGEST_OPENING_S))

    def _opening_check(self) -> None:
        if self._closed:
            raise InvalidInput(
                field="store", value=self, expected="an open store", next_step="open it again."
            )
        if self._process != os.getpid():
            self._begin()

    def _greet(self, deadline: Deadline, *, touch: bool = True) -> Incarnation:
        """Learn the servers' time and the store's identity: at first, after a lost connection, and now and then.

        :param touch: the servers' time is wanted; only a write tells it.
        """
        generation = self._session.generation
        known = self._known.incarnation
        renames = self._renames
        fresh = known is not None and generation == self._generation and renames == self._renames_seen
        if known is not None and fresh and not self._clock.is_stale(generation):
            return known
        clock, answer = self._look_at_clock(deadline, touch=touch)
        if clock is None or answer is None:
            self.schema_status().require_usable()
            raise StoreIncompatible(
                f"{self._address.location}: the nodes clock and incarnation are not both there.",
                next_step="restore the store from a backup, never edit it by hand.",
                store=self._address.location,
                expected="clock and incarnation",
            )
        if touch:
            self._generation = self._session.generation
            at_ms = time_ns() // 1_000_000 if self._reads_only else clock.mtime
            self._clock.hear(at_ms, self._generation)
        self._renames_seen = renames  # not before: a question that fails is asked again
        return self._known.see_incarnation(answer)

    def _look_at_clock(self, deadline: Deadline, *, touch: bool) -> list[Any]:
        """Ask for clock and incarnation. A user who may not write uses this host's time instead of the servers'."""
        writes = touch and not self._reads_only
        asked: Request = (
            (lambda client: client.set_async(self._paths.clock, b"")) if writes else Get(self._paths.clock)
        )
        try:
            return self._session.ask(deadline, [asked, self._identity])
        except StoreIncompatible as error:
            if not writes or error.found != NoAuthError.__name__:
                raise
            self._reads_only = True
            return self._look_at_clock(deadline, touch=touch)

    def _identity(self, client: KazooClient) -> Any:
        """Request the store's identity, and word of a change: one connection may outlive `epochs db restored`."""
        return client.get_async(self._paths.incarnation, watch=self._renamed)

    def _renamed(self, event: WatchedEvent) -> None:  # noqa: ARG002 - what happened is looked at anew
        self._renames += 1
