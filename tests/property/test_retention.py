"""Whatever is committed, leased, expired and vacuumed in whatever order: no claimed row is lost, and none is left.

Every read remembers the rows that it got; as long as its claim lives it must get them again (R19, I6). At the end,
when all claims are over, the warehouse holds the newest versions and nothing else (I12).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import InvalidInput, LeaseExpired, NotReady, Unavailable
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.records import lock_key
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import state
from airflow_provider.testing.arrow_attempts import read_rows
from tests.contract.coordination_world import DOMAIN, Backend, Rows, barrier, day, owner
from tests.property.examples import examples

DAYS = st.integers(1, 5)
NAMES = st.sampled_from(["one", "two", "three"])
SETS = st.sampled_from([["d"], ["f"], ["d", "f"]])


@dataclass
class Read:
    """A cut and the rows that it had when it was made."""

    cut: Cut
    rows: Rows


class Retention(RuleBasedStateMachine):
    """An incremental table d, a full table f, readers of both with and without leases, and a job that reads f."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Backend("memory", Path(), Path()).world()
        self.world.retention.defaults = replace(DEFAULTS, versions_in_page=2, ranges_in_page=1)
        full = self.world.table("f", kind=TableKind.FULL)
        self.jobs = {"d": self.world.job("d"), "f": self.world.job("f", [full])}
        self.reader = self.world.job("r", inputs=[state(full)])
        for job in self.jobs.values():
            self.world.coordinator.register(job)
        self.newest: dict[str, dict[int, int]] = {"d": {}, "f": {}}
        self.expired: set[tuple[str, int]] = set()
        self.value = 0
        self.plain: list[Read] = []
        self.leased: dict[str, tuple[Lease, Rows]] = {}
        self.attempts: list[tuple[Attempt, list[int]]] = []
        self.tries = itertools.count(1)

    def teardown(self) -> None:
        self.world.clock.advance(timedelta(days=40))
        self.world.retention.vacuum(DOMAIN)
        self.world.retention.vacuum(DOMAIN)
        objects = self.world.pointers.objects
        pointers = [self.world.pointers.pointer(DOMAIN, table) for table in ("d", "f")]
        kept = {uri for pointer in pointers if pointer is not None for _, uri in objects[pointer].slices}
        if not self.attempts:  # what an attempt that never ended has staged or uses as its baseline stays
            assert {uri for uri, found in objects.items() if isinstance(found, pa.Table)} == kept
        self.world.close()

    # --- who works ------------------------------------------------------------------------------------------------

    @rule(table=st.sampled_from(["d", "f"]), number=DAYS)
    def commit(self, table: str, number: int) -> None:
        if number > 1 and number - 1 not in self.newest[table]:
            return
        self.value += 1
        self.world.run(self.jobs[table], day(number), [self.value], owner(f"run-{self.value}"))
        self.newest[table][number] = self.value

    @rule(number=DAYS)
    def begin(self, number: int) -> None:
        try:
            attempt = self.world.begin(self.reader, day(number), owner("reader", next(self.tries)))
        except (NotReady, Unavailable):
            return
        found = read_rows(self.world.coordinator, attempt, "f")
        assert found is not None
        self.attempts = [begun for begun in self.attempts if begun[0].interval != attempt.interval]
        self.attempts.append((attempt, found["value"].to_pylist()))

    @rule()
    def heartbeat(self) -> None:
        for attempt, _ in list(self.attempts):
            try:
                self.world.coordinator.heartbeat(attempt)
            except LeaseExpired:
                self.attempts = [begun for begun in self.attempts if begun[0] != attempt]

    # --- who reads ------------------------------------------------------------------------------------------------

    @rule(tables=SETS, number=DAYS)
    def read(self, tables: list[str], number: int) -> None:
        try:
            cut = self.world.cut(*tables, at=barrier(number))
        except (NotReady, Unavailable):
            return
        self.plain.append(Read(cut, self._expected(cut)))

    @rule(name=NAMES, tables=SETS, number=DAYS, hours=st.integers(1, 9))
    def lease(self, name: str, tables: list[str], number: int, hours: int) -> None:
        try:
            lease = self.world.leases.cut(
                DOMAIN, tables, name=name, owner="me", at=barrier(number), ttl=timedelta(hours=hours)
            )
        except (NotReady, Unavailable):
            return
        except InvalidInput:
            assert name in self.leased
            return
        if name in self.leased and self.leased[name][0].cut.states == lease.cut.states:
            self.leased[name] = lease, self.leased[name][1]
        else:
            self.leased[name] = lease, self._expected(lease.cut)

    @rule(hours=st.integers(1, 9))
    def lease_what_was_read(self, hours: int) -> None:
        for number, plain in enumerate(self.plain):
            try:
                lease = self.world.leases.acquire(
                    plain.cut, name=f"read-{number}", owner="me", ttl=timedelta(hours=hours)
                )
            except (Unavailable, InvalidInput):
                continue
            self.leased[lease.id] = lease, plain.rows

    @rule(name=NAMES, hours=st.integers(1, 9))
    def renew(self, name: str, hours: int) -> None:
        if name in self.leased:
            lease, rows = self.leased[name]
            try:
                self.leased[name] = self.world.leases.renew(lease, timedelta(hours=hours)), rows
            except LeaseExpired:
                del self.leased[name]

    @rule(name=NAMES)
    def release_d(self, name: str) -> None:
        if name in self.leased:
            lease, rows = self.leased.pop(name)
            try:
                left = self.world.leases.release(lease, ["d"])
            except LeaseExpired:
                return
            if left is not None:
                self.leased[name] = left, {table: values for table, values in rows.items() if table != "d"}

    # --- who tidies up --------------------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([1, 45, 70, 130, 300]))
    def wait(self, minutes: int) -> None:
        self.world.clock.advance(timedelta(minutes=minutes))

    @rule(table=st.sampled_from(["d", "f"]), number=DAYS)
    def expire(self, table: str, number: int) -> None:
        try:
            self.world.retention.expire(DOMAIN, table, barrier(number))
        except InvalidInput:
            return
        self.expired.add((table, number))

    @rule()
    def vacuum(self) -> None:
        self.world.retention.vacuum(DOMAIN)

    # --- what is true ---------------------------------------------------------------------------------------------

    def _expected(self, cut: Cut) -> Rows:
        """The rows of *cut* as the model has them now, when it was made."""
        expected: Rows = {}
        for name, table_state in cut.states.items():
            last = (table_state.barrier - barrier(0)).days
            days = [last] if table_state.kind is TableKind.FULL else range(1, last + 1)
            expected[name] = [(number, self.newest[name][number]) for number in days]
            assert (name, last) not in self.expired
        return expected

    @invariant()
    def claimed_rows_are_there(self) -> None:
        now = self.world.clock.now()
        for plain in self.plain:
            if now < plain.cut.readable_until:
                assert self.world.rows_of(plain.cut) == plain.rows
        for lease, rows in self.leased.values():
            if now < lease.until:
                assert self.world.rows_of(lease.cut) == rows

    @invariant()
    def inputs_of_live_attempts_are_there(self) -> None:
        for attempt, values in self.attempts:
            key = lock_key(DOMAIN, attempt.job, attempt.interval.start)
            lock = self.world.store.read(DOMAIN, [key]).get(key)
            if lock is not None and lock.record.token == attempt.token and not lock.record.ended:
                found = read_rows(self.world.coordinator, attempt, "f")
                assert found is not None
                assert found["value"].to_pylist() == values


TestRetention = Retention.TestCase
TestRetention.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
