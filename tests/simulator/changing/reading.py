"""The readers of a domain that changes: each cut is compared with what the commits say."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import (
    LeaseExpired,
    NotReady,
    OutcomeUnknown,
    RetryableError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.read_options import Consistency
from airflow_provider.domain.session import Session
from tests.simulator.changing.ignoring import check_labels
from tests.simulator.changing.mixing import check_mixture
from tests.simulator.changing.plan import DOMAIN, hour
from tests.simulator.changing.staying import check_stayed
from tests.simulator.changing.world import ChangingWorld
from tests.simulator.events import Event
from tests.simulator.history import expect
from tests.simulator.readers import rows_of
from tests.simulator.scheduler import Process


@dataclass(slots=True)
class Reader:
    """Reads several tables together, and remembers what it has seen."""

    world: ChangingWorld
    cuts: Cuts
    leases: Leases
    process: Process
    random: Random
    together: dict[tuple[str, ...], datetime] = field(default_factory=dict)
    session: Session = field(default_factory=lambda: Session.of(DOMAIN))

    def run(self) -> None:
        """Read for ever."""
        while True:
            self.process.sleep(timedelta(seconds=self.random.uniform(2, 40)))
            known = sorted(self.world.truth.owners)
            if not known:
                continue
            tables = tuple(sorted(self.random.sample(known, min(len(known), self.random.choice((1, 2, 3))))))
            read = self.random.choice((self._read, self._read_in_session, self._read_together, self._hold))
            try:
                read(tables)
            except (RetryableError, OutcomeUnknown, UnknownName, Unavailable, LeaseExpired):
                continue

    def _read(self, tables: tuple[str, ...]) -> None:
        truth, before = self.world.truth, self.world.truth.csn
        at = hour(self.random.randrange(1, self.world.length + 1)) if self.random.random() < 0.4 else None
        gone = self._expired(tables)
        try:
            cut = self.cuts.cut(DOMAIN, tables, at=at)
        except NotReady:
            barrier = truth.common_barrier(tables, before, at)
            expect(barrier is None or truth.csn != before, "R3", f"{tables} at {at}: {barrier} is complete")
            return
        expect(before <= cut.csn <= truth.csn, "R3", f"a cut at CSN {cut.csn} after {before}")
        wanted = truth.common_barrier(tables, cut.csn, at)
        late = any((table, cut.barrier) in self._expired(tables) - gone for table in tables)
        expect(
            late or cut.barrier == wanted,
            "R3",
            f"{tables} at {at}, CSN {cut.csn}: {cut.barrier}, not {wanted}",
        )
        self._check_rows(cut)
        if cut.csn == truth.csn and check_labels(truth, cut):
            self.world.count(Event.OUTDATED)
        self.world.count(Event.CUT_READ)

    def _expired(self, tables: tuple[str, ...]) -> set[tuple[str, datetime]]:
        """States of *tables* that are expired, or about to be: a reader that stands still may have one of before."""
        truth = self.world.truth
        ends = [(table, end) for table in tables for end in truth.barriers(table)]
        return {state for state in ends if truth.may_be_expired(*state)}

    def _check_rows(self, cut: Cut) -> None:
        for name in cut.states:
            found = rows_of(self.cuts.read(cut, name))
            expected = self.world.truth.state(str(name), cut.barrier, cut.csn)
            expect(
                found == expected, "R4", f"{name} at {cut.barrier}, CSN {cut.csn}: {found}, not {expected}"
            )
        if check_mixture(self.world.truth, cut):
            self.world.count(Event.MIXED)
        if check_stayed(self.world.truth, cut):
            self.world.count(Event.STAYED)

    def _read_in_session(self, tables: tuple[str, ...]) -> None:
        """No cut is older than what the session has seen, or what its own program has published (R20)."""
        session, published = self.session, self.world.published
        if published is not None and self.random.random() < 0.3:
            session = session.committed(published)
        cut = self.cuts.cut(DOMAIN, tables, session=session)
        expect(cut.csn >= session.csn, "R20", f"{tables} at CSN {cut.csn}, the session has seen {session}")
        for name, state in cut.states.items():
            seen = session.seen.get(name)
            back = seen is not None and state.barrier < seen.barrier
            expect(not back, "R20", f"{name} at {state.barrier}, the session has seen {seen}")
        self._check_rows(cut)
        self.session = session.after(cut)
        self.world.count(Event.IN_SESSION)

    def _read_together(self, tables: tuple[str, ...]) -> None:
        """What was there altogether stays there (I8)."""
        found = self.cuts.cut(DOMAIN, tables, consistency=Consistency.ALTOGETHER).barrier
        last = self.together.get(tables, found)
        expect(found >= last, "I8", f"{tables} altogether: {found} after {last}")
        self.together[tables] = found

    def _hold(self, tables: tuple[str, ...]) -> None:
        """Read a cut again and again while a lease keeps it, whatever is vacuumed meanwhile (R22, R24)."""
        name = f"{self.process.name}-{self.random.getrandbits(32)}"
        ttl = timedelta(minutes=self.random.choice((2, 200, 2000)))
        lease = self.leases.cut(DOMAIN, tables, name=name, owner=self.process.name, ttl=ttl)
        self.world.hold(lease)
        for _ in range(self.random.randrange(1, 4)):
            self.process.sleep(timedelta(seconds=self.random.uniform(10, 200)))
            if self.random.random() < 0.5:
                self._pass_time()
            try:
                self._check_rows(lease.cut)
            except LeaseExpired:
                now = self.world.scheduler.clock.now()
                expect(now >= lease.until, "R22", f"{lease.id} ended at {now}, before {lease.until}")
                self.world.let_go(lease)
                return
            self._count(lease.cut)
        self.world.let_go(lease)
        self.leases.drop(lease)

    def _count(self, cut: Cut) -> None:
        refs = [
            (str(name), state.ref.location) for name, state in cut.states.items() if state.ref is not None
        ]
        if any(self.world.is_superseded(table, location) for table, location in refs):
            self.world.count(Event.LEASE_KEPT)

    def _pass_time(self) -> None:
        """A long evaluation: for hours nothing else happens either."""
        if not self.world.weather.clear and self.random.random() < 0.5:
            self.world.scheduler.clock.advance(timedelta(hours=3))
