"""Leases: cuts that stay readable until released (protocol section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from random import Random, SystemRandom
from typing import Any, TypeVar

from airflow_provider.coordination.commits.expired_states import ExpiredStates, expired_states
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.reading.cuts import Cuts, checked_session
from airflow_provider.coordination.reading.resolve import names_of, refuse_replaced, refuse_rolled_back
from airflow_provider.coordination.retrying import retry
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.durations import checked_ttl
from airflow_provider.domain.epoch import has_expired
from airflow_provider.domain.errors import Conflict, InvalidInput, LeaseExpired, Unavailable
from airflow_provider.domain.identifiers import TableName, domain_name, lease_id
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.lease import (
    Lease,
    LeaseRecord,
    checked_owner,
    claimed,
    lease_of,
    refuse_other_holder,
    released,
    renewed,
)
from airflow_provider.domain.outdated import joined
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.records import (
    Key,
    Stamped,
    lease_key,
    retention_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import (
    Delete,
    Exists,
    MetadataReader,
    MetadataStore,
    Put,
    Reading,
    SameStore,
    Transaction,
    pages,
    unchanged,
)

Answer = TypeVar("Answer")


class Leases:
    """Claims on cuts. They expire by the store's clock, or end when their owner drops them.

    :param clock: for waiting only. :param random: for pauses between tries.
    """

    def __init__(
        self,
        store: MetadataStore,
        cuts: Cuts,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        self.store = store
        self.cuts = cuts
        self.defaults = defaults
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()

    def cut(
        self,
        domain: str,
        tables: Iterable[str | Table],
        *,
        name: str,
        owner: str,
        ttl: timedelta | None = None,
        at: datetime | None = None,
        session: Session | None = None,
        **options: Any,
    ) -> Lease:
        """Return the newest cut at or before *at*, leased: level REPEATABLE_READ.

        An owner that already holds *name* gets the held cut, for *ttl* at least, and no newer one: the retry of a
        task reads the same states as the try before it.

        :param options: as in :meth:`Cuts.cut`.
        :raises LeaseHeld: another owner holds *name*. :raises NotReady: as :meth:`Cuts.cut`.
        :raises InvalidInput: the same owner holds by *name* other tables, a later barrier, or less than *session* saw.
        """
        key = lease_key(domain_name(domain), lease_id(name))
        wanted, until = names_of(tables), None if at is None else as_utc(at, "at")
        seen = checked_session(session, key.domain)

        def request() -> Lease:
            held, reading = self._held(key, owner)
            if held is None:
                level = Level.READ_COMMITTED
                found = self.cuts.cut(key.domain, wanted, at=until, level=level, session=seen, **options)
                return self._claim(found, key, owner, ttl, reading)
            self._refuse_undone(seen)
            _refuse_other_request(held, wanted, until, seen)
            return self._renew(held, reading, ttl)

        return self._labelled(self._done(request, key))

    def acquire(self, cut: Cut, *, name: str, owner: str, ttl: timedelta | None = None) -> Lease:
        """Claim all states of *cut* or none; again for the same owner and cut it renews.

        :param name: id, unique in the domain; see :func:`~airflow_provider.domain.lease.derived_id`.
        :param ttl: the default is ``lease_ttl``.
        :raises LeaseHeld: another owner holds *name*.
        :raises Unavailable: states of the cut have expired meanwhile; ``tables`` lists them.
        :raises DomainMoved: the domain is in another store now. :raises DomainMoving: it is being moved.
        :raises InvalidInput: the same owner holds another cut by *name*; a cut at READ_UNCOMMITTED.
        """
        key = lease_key(cut.domain, lease_id(name))

        def request() -> Lease:
            held, reading = self._held(key, owner)
            if held is None:
                return self._claim(cut, key, owner, ttl, reading)
            if set(held.record.states) != set(cut.states.values()):
                raise _other_request(held, f"{cut.barrier.isoformat()} at CSN {cut.csn}")
            return self._renew(held, reading, ttl)

        return self._labelled(self._done(request, key))

    def renew(self, lease: Lease, ttl: timedelta | None = None) -> Lease:
        """Extend *lease* to *ttl* from now; never shorten it.

        :raises LeaseExpired: it has ended, and its states may be gone.
        """
        return self._labelled(self._done(lambda: self._renew(*self._own(lease), ttl), _key(lease)))

    def release(self, lease: Lease, tables: Iterable[str | Table]) -> Lease | None:
        """Release *tables* and hold the rest as long as before; without a rest drop the lease and return None.

        :raises LeaseExpired: it has ended.
        """
        names = names_of(tables)

        def request() -> Lease | None:
            held, reading = self._own(lease)
            record = released(held, names, reading.now)
            return None if record is None else self._put(held, record, reading)

        left = None if set(names) >= set(lease.cut.states) else self._done(request, _key(lease))
        if left is None:
            self.drop(lease)
        return left

    def drop(self, lease: Lease) -> None:
        """End *lease* now; do nothing if it has ended, also if its owner has claimed another cut by its id since."""

        def request() -> None:
            reading = self.store.read(lease.cut.domain, [_key(lease)])
            held = reading.get(_key(lease))
            if held is not None and _is_of(held, lease):
                self._change(held, Delete(held.key), reading)

        self._done(request, _key(lease))

    def find(self, domain: str, name: str) -> Lease | None:
        """Return the live lease with the id *name*; None without one."""
        key = lease_key(domain_name(domain), lease_id(name))
        reading = self.store.read(key.domain, [key])
        held = reading.get(key)
        return None if held is None or _over(held, reading) else self._labelled(_lease(held, reading))

    def found(self, found: Mapping[str, Any]) -> Lease:
        """Return the live lease that another task has made. :param found: its ``domain``, ``lease`` and ``owner``.

        :raises InvalidInput: *found* names no lease. :raises LeaseExpired: it has ended; its rows may be gone.
        """
        if not isinstance(found, Mapping) or not {"domain", "lease", "owner"} <= found.keys():
            raise InvalidInput(
                field="found",
                value=found,
                expected="what EpochSensor(lease=…) returns, with domain, lease and owner",
            )
        lease = self.find(found["domain"], found["lease"])
        if lease is None or lease.owner != found["owner"]:
            raise LeaseExpired(
                f"lease {found['lease']!r} of {found['owner']!r} has ended; what it held may be gone.",
                next_step="clear the sensor that made it, and give it a longer lease.",
                lease=found["lease"],
            )
        return lease

    def all(self, domain: str, *, beginning: str = "") -> list[Lease]:
        """Return the live leases of *domain* whose ids begin with *beginning*, by id."""
        return live_leases(self.store, domain, beginning=beginning)

    def _labelled(self, lease: Lease) -> Lease:
        """Return *lease* with the labels of outdated rows: those at its claim, and those since (R18)."""
        cut = lease.cut
        outdated = joined((*cut.outdated, *self.cuts.outdated(cut.domain, cut.states, cut.csn)))
        return replace(lease, cut=replace(cut, outdated=outdated))

    def _refuse_undone(self, session: Session | None) -> None:
        """:raises Unavailable: the session may have seen what a rollback took back, or a restored store has lost."""
        if session is not None:
            reading = self.store.read(session.domain, [topology_key(session.domain)])
            refuse_rolled_back(session, reading)
            refuse_replaced(session, reading)

    # --- one try each; RequirementFailed after a lost race ------------------------------------------------------

    def _held(self, key: Key[LeaseRecord], owner: str) -> tuple[Stamped[LeaseRecord] | None, Reading]:
        """Return the live lease that *owner* has at *key*, if any.

        :raises LeaseHeld: another owner holds it.
        """
        reading = self.store.read(key.domain, [key])
        stamped = reading.get(key)
        refuse_other_holder(stamped, checked_owner(owner), reading.now)
        return (None if stamped is None or _over(stamped, reading) else stamped), reading

    def _own(self, lease: Lease) -> tuple[Stamped[LeaseRecord], Reading]:
        """Return the record of *lease*.

        :raises LeaseExpired: its owner has no live lease with its id, or one that holds another cut.
        """
        key = _key(lease)
        reading = self.store.read(key.domain, [key])
        held = reading.get(key)
        same_store = reading.head.incarnation == lease.cut.incarnation
        if held is None or not _is_of(held, lease) or _over(held, reading) or not same_store:
            raise LeaseExpired(
                f"lease {lease.id!r} of {lease.owner!r} has ended; what it held may be gone.",
                next_step="make a new cut, and renew its lease before it ends.",
                lease=lease.id,
                until=lease.until,
            )
        return held, reading

    def _claim(
        self, cut: Cut, key: Key[LeaseRecord], owner: str, ttl: timedelta | None, looked: Reading
    ) -> Lease:
        """Claim *cut*. *looked* found *key* without a holder; the transaction requires that it still has none."""
        record = claimed(cut, owner, self._ttl(ttl))
        topology, retention = topology_key(cut.domain), retention_key(cut.domain)
        reading = self.store.read(
            cut.domain, [topology, retention, *(table_key(cut.domain, table) for table in cut.states)]
        )
        refuse_sealed(cut.domain, reading.get(topology))
        _refuse_gone(cut, reading, expired_states(self.store, cut.domain, reading))
        # A move seals the domain in the topology; expire and vacuum change the retention record: a claim in flight
        # fails and is decided again (docs/decisions/moving.md, docs/decisions/retention.md).
        requires = (unchanged(reading, topology), unchanged(reading, retention), unchanged(looked, key))
        receipt = self.store.transact(
            Transaction(
                domain=cut.domain,
                store=SameStore(looked.head.incarnation),
                requires=requires,
                updates=(Put(key, record),),
            )
        )
        return _lease(Stamped(key, record, receipt.versions[key], None, receipt.at), reading)

    def _renew(self, held: Stamped[LeaseRecord], reading: Reading, ttl: timedelta | None) -> Lease:
        return self._put(held, renewed(held, self._ttl(ttl), reading.now), reading)

    def _put(self, held: Stamped[LeaseRecord], record: LeaseRecord, reading: Reading) -> Lease:
        at = self._change(held, Put(held.key, record), reading)
        return _lease(Stamped(held.key, record, 0, None, at), reading)

    def _change(self, held: Stamped[LeaseRecord], update: Put | Delete, reading: Reading) -> datetime:
        changed = Transaction(
            domain=held.key.domain,
            store=SameStore(reading.head.incarnation),
            requires=(Exists(held.key, held.version),),
            updates=(update,),
        )
        return self.store.transact(changed).at

    def _ttl(self, ttl: timedelta | None) -> timedelta:
        return checked_ttl(self.defaults.lease_ttl if ttl is None else ttl, self.defaults.lease_longest)

    def _done(self, request: Callable[[], Answer], key: Key[LeaseRecord]) -> Answer:
        return retry(
            request,
            lost=Conflict.of_others(f"lease {key.item!r}", "changing it", lease=key.item),
            clock=self._clock,
            random=self._random,
            timeout=self.defaults.unknown_outcome_timeout,
        )


def live_leases(reader: MetadataReader, domain: str, *, beginning: str = "") -> list[Lease]:
    """Return the live leases of *domain* whose ids begin with *beginning*, by id."""
    checked = domain_name(domain)
    reading = reader.read(checked, [])
    found = takewhile(
        lambda held: held.key.item.startswith(beginning),
        pages(reader, checked, LeaseRecord, start=beginning or None),
    )
    return [_lease(held, reading) for held in found if not _over(held, reading)]


def _refuse_gone(cut: Cut, reading: Reading, retention: ExpiredStates) -> None:
    """Refuse a cut with states that can no longer be claimed (R23).

    :raises Unavailable: with their tables.
    """
    retention.load((table, state.barrier) for table, state in cut.states.items())
    gone: list[TableName] = []
    for table, state in sorted(cut.states.items()):
        stamped = reading.get(table_key(cut.domain, table))
        newest = stamped.record.ref if stamped else None
        dropped = stamped is None or state.csn < stamped.record.born
        expired = retention.range_at(table, state.barrier) is not None
        superseded = retention.superseded(state.csn, state.ref, newest)
        if dropped or expired or superseded or reading.head.incarnation != cut.incarnation:
            gone.append(table)
    if gone:
        raise Unavailable(
            f"{', '.join(gone)}: the states at {cut.barrier.isoformat()} (CSN {cut.csn}) were expired or dropped.",
            next_step="make a new cut and lease it in one call: epochs.lease(tables, name=…).",
            tables=tuple(gone),
        )


def _key(lease: Lease) -> Key[LeaseRecord]:
    return lease_key(lease.cut.domain, lease.id)


def _is_of(held: Stamped[LeaseRecord], lease: Lease) -> bool:
    """Return whether *held* is the record of *lease*: once that has ended, its owner may hold another cut by its id."""
    return held.record.owner == lease.owner and set(held.record.states) <= set(lease.cut.states.values())


def _over(held: Stamped[LeaseRecord], reading: Reading) -> bool:
    return has_expired(held.at, held.record.ttl, reading.now)


def _lease(held: Stamped[LeaseRecord], reading: Reading) -> Lease:
    return lease_of(held, reading.head.incarnation)


def _refuse_other_request(
    held: Stamped[LeaseRecord],
    tables: Iterable[TableName],
    until: datetime | None,
    session: Session | None,
) -> None:
    """Refuse a request that the held lease does not answer.

    :raises InvalidInput: it holds other tables, a later barrier, or states before those that *session* has seen.
    """
    found = [state.table for state in held.record.states]
    if set(found) != set(tables):
        raise _other_request(held, f"the tables {', '.join(sorted(tables))}")
    if until is not None and held.record.barrier > until:
        raise _other_request(held, f"a barrier at or before {until.isoformat()}")
    barriers = {state.table: state.barrier for state in held.record.states}
    if session is not None and (behind := session.behind(held.record.csn, barriers)):
        raise _other_request(held, f"a cut for this session: {'; '.join(map(str, behind))}")


def _other_request(held: Stamped[LeaseRecord], wanted: str) -> InvalidInput:
    record = held.record
    tables = ", ".join(sorted(state.table for state in record.states))
    return InvalidInput(
        f"lease {held.key.item!r} of {record.owner!r} holds {tables} at {record.barrier.isoformat()} "
        f"(CSN {record.csn}), not {wanted}.",
        next_step="use another name for another cut, or drop this lease first.",
        field="name",
        value=held.key.item,
        expected=wanted,
    )
