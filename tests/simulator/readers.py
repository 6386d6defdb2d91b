"""The readers that are simulated: each takes cuts for ever, and checks each against the model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import pyarrow as pa

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import (
    Conflict,
    LeaseExpired,
    NotReady,
    OutcomeUnknown,
    StoreUnavailable,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.read_options import Consistency, Level
from airflow_provider.domain.session import MOST_EARLIER, Session
from airflow_provider.tables.errors import WarehouseUnavailable
from tests.simulator.cascade import (
    CUTS,
    DOMAIN,
    HOUR,
    IGNORED,
    JOBS,
    ORIGIN,
    OWNERS,
    Rows,
    output,
    reads,
    within,
)
from tests.simulator.events import Event
from tests.simulator.history import expect
from tests.simulator.model import Model
from tests.simulator.scheduler import Process

_EXACT = frozenset({"pair", "total", "roll", "recent"})
"""Jobs whose rows follow from the same cut (I7): exact edges that mind revisions, a declared origin, all slices."""
_FUTURE = 24
_LEASE_TTL = timedelta(seconds=60)
_IN_SESSION = 0.5
"""Share of the cuts that are read in a session, where a user may roll the domain back."""
_Tables = tuple[str, ...]


@dataclass(slots=True)
class Reading:
    """One reader.

    :param now: the store's time, which the reader itself does not know.
    :ivar seen: the last cut of each set of tables, of those that asked for the newest.
    :ivar session: of the cuts that are read in one. :ivar noted: the CSNs at which it has seen each table.
    """

    cuts: Cuts
    leases: Leases
    process: Process
    random: Random
    model: Model
    count: Callable[[Event], None]
    now: Callable[[], datetime]
    seen: dict[_Tables, Cut] = field(default_factory=dict)
    held: int = 0
    session: Session = field(default_factory=lambda: Session.of(DOMAIN))
    noted: dict[str, list[int]] = field(default_factory=dict)

    def run(self) -> None:
        """Read for ever."""
        while True:
            self._rest(1, 30)
            tables = self.random.choice(CUTS)
            drawn = self.random.random()
            try:
                if self.model.rolled.intended and self.random.random() < _IN_SESSION:
                    self._read_in_session(tables)
                elif drawn < 0.1:
                    self._read_uncommitted(tables[0])
                elif drawn < 0.4:
                    self._read_leased(tables)
                elif drawn < 0.65:
                    self._read_altogether(tables)
                else:
                    self._read(tables)
            except (StoreUnavailable, WarehouseUnavailable, OutcomeUnknown, Conflict):
                continue

    def _read_in_session(self, tables: _Tables) -> None:
        """A session goes on unless it may have seen what a rollback has taken back; then it is told (R20, R30)."""
        before, rolled = self.model.csn, self.model.rolled
        try:
            cut = self.cuts.cut(DOMAIN, tables, session=self.session)
        except (NotReady, UnknownName):
            return
        except Unavailable as error:
            gone = rolled.seen(self.noted, self.model.csn)
            told = "rolled back since" in error.message and set(map(str, error.tables)) <= gone
            expect(bool(gone) and told, "R20", f"{self.noted}: {error.message}, not {gone}")
            self.count(Event.SESSION_TAKEN_BACK)
            self.session, self.noted = Session.of(DOMAIN), {}
            return
        gone = rolled.seen(self.noted, cut.csn)
        expect(not gone, "R20", f"{self.noted} at CSN {cut.csn}: {gone} were rolled back")
        self._check_cut(cut, before, None)
        self._check_rows(cut)
        self.session = self.session.after(cut)
        for name in map(str, cut.states):
            self.noted.setdefault(name, []).append(cut.csn)
        if max(map(len, self.noted.values())) == MOST_EARLIER:  # it keeps no more
            self.session, self.noted = Session.of(DOMAIN), {}

    def _rest(self, shortest_s: float, longest_s: float) -> None:
        self.process.sleep(timedelta(seconds=self.random.uniform(shortest_s, longest_s)))

    def _read(self, tables: _Tables) -> None:
        at = ORIGIN + self.random.randrange(1, 12) * HOUR if self.random.random() < 0.3 else None
        before = self.model.csn
        try:
            cut = self.cuts.cut(DOMAIN, tables, at=at)
        except UnknownName:
            return
        except NotReady:
            # A rollback may have come while it was read.
            found = [self.model.common_barrier(tables, csn, at) for csn in range(before, self.model.csn + 1)]
            expect(None in found, "R3", f"{tables} at {at}: not ready, {found} are complete from {before} on")
            return
        self._check_cut(cut, before, at)
        self._check_labels(cut)
        if at is None:
            self._compare(tables, cut)
        self._check_rows(cut)
        self.count(Event.CUT_READ)
        if self.random.random() < 0.3:
            self._rest(30, 300)
            self._check_rows(cut)
            if self.model.csn > cut.csn:
                self.count(Event.CUT_READ_AGAIN)

    def _read_leased(self, tables: _Tables) -> None:
        """Hold a cut; read it, renew it, forget to renew it; when it has ended, one is told (R22, R23)."""
        self.held += 1
        before = self.model.csn
        try:
            lease = self.leases.cut(
                DOMAIN,
                tables,
                name=f"{self.process.name.replace('#', '').replace(' ', '-')}-{self.held}",
                owner=self.process.name,
                ttl=_LEASE_TTL,
            )
        except (NotReady, UnknownName):
            return
        self._check_cut(lease.cut, before, None)
        try:
            lease = self._read_on(lease)
        except LeaseExpired:
            expect(
                self.now() >= lease.until, "R23", f"{lease.id} ended at {self.now()}, before {lease.until}"
            )
            self.count(Event.LEASE_ENDED)
            return
        self.leases.drop(lease)

    def _read_on(self, lease: Lease) -> Lease:
        for _ in range(self.random.randrange(1, 4)):
            self._check_rows(lease.cut)
            self.count(Event.CUT_READ)
            since = self.model.rolled.seen(
                {str(state): [lease.cut.csn] for state in lease.cut.states}, self.model.csn
            )
            if since:
                self.count(Event.TAKEN_BACK_READ)
            self._rest(1, 40)
            if self.random.random() < 0.5:
                renewed = self.leases.renew(lease, _LEASE_TTL)
                expect(renewed.until >= lease.until, "R23", f"{lease.id} was made shorter")
                lease = renewed
        return lease

    def _check_cut(self, cut: Cut, before: int, at: datetime | None) -> None:
        """It is as new as it can be, at the greatest barrier that all its tables had reached (R3)."""
        expect(before <= cut.csn <= self.model.csn, "R3", f"a cut at CSN {cut.csn} after {before}")
        barrier = self.model.common_barrier([str(state) for state in cut.states], cut.csn, at)
        expect(
            cut.barrier == barrier,
            "R3",
            f"{set(cut.states)} at {at}, CSN {cut.csn}: {cut.barrier}, not {barrier}",
        )

    def _check_labels(self, cut: Cut) -> None:
        """Rows of released epochs carry a label, and no others do (R18, R28)."""
        if self.model.csn != cut.csn:
            return  # an epoch that was computed again since may have taken its label along
        labels = {(str(label.table), str(label.source)): label for label in cut.outdated}
        for name in cut.states:
            for let_go in self.model.stale(str(name), cut.barrier, cut.csn):
                label, epoch = labels.get((str(name), let_go.source)), let_go.epoch.interval
                covers = label is not None and label.start <= epoch.start and let_go.csn <= label.csn
                covers = covers and (label is None or label.end is None or epoch.end <= label.end)
                expect(
                    covers, "R18", f"{name} of {epoch} at CSN {cut.csn}, released at {let_go.csn}: {label}"
                )
                self.count(Event.RELEASED_READ)
        for (table, source), label in labels.items():
            known = any(let_go.source == source for let_go in self.model.let_go)
            expect(known or (OWNERS[table], source) in IGNORED, "R18", f"{label}: nothing was released")

    def _compare(self, tables: _Tables, cut: Cut) -> None:
        """The same tables, read again, never go back (I8, as far as it holds without sessions)."""
        last = self.seen.get(tables)
        if last is not None:
            rolled = any(last.csn < rollback.csn <= cut.csn for rollback in self.model.rolled.made)
            back = cut.csn < last.csn or (cut.barrier < last.barrier and not rolled)
            expect(not back, "I8", f"{tables}: {cut.barrier} at {cut.csn} after {last.barrier} at {last.csn}")
        self.seen[tables] = cut

    def _check_rows(self, cut: Cut) -> None:
        """The rows are those of the model, and each table follows from the others in the cut (I7, R18, R19)."""
        found = {str(name): rows_of(self.cuts.read(cut, name)) for name in cut.states}
        for table, rows in found.items():
            expected = self.model.state(table, cut.barrier, cut.csn)
            expect(
                rows == expected, "R19", f"{table} at {cut.barrier}, CSN {cut.csn}: {rows}, not {expected}"
            )
            if OWNERS[table] in _EXACT:
                stale = {let_go.epoch.interval for let_go in self.model.stale(table, cut.barrier, cut.csn)}
                skipped = {span for job, span in self.model.skipped if job == OWNERS[table]}
                _check_derived(table, cut, found, stale | skipped)

    def _read_altogether(self, tables: _Tables) -> None:
        """At a barrier that all tables of the domain have published, but for those that no reader waits for (R9)."""
        before, inactive = self.model.csn, self.model.inactive(self.now())
        found: datetime | None = None
        with suppress(NotReady, UnknownName):
            found = self.cuts.cut(DOMAIN, tables, consistency=Consistency.ALTOGETHER).barrier
        if self.model.csn != before or self.model.inactive(self.now()) != inactive:
            return  # who knows which of them it has seen
        limit = self.model.published_by_all(before, inactive)
        barrier = self.model.common_barrier(tables, before, limit)
        expect(
            found == barrier,
            "R9",
            f"{tables} altogether at CSN {before}: {found}, not {barrier}, {inactive=}",
        )
        by_all = self.model.published_by_all(before, frozenset())
        if found is not None and by_all is not None and found > by_all:
            self.count(Event.INACTIVE)

    def _read_uncommitted(self, table: str) -> None:
        """It may show anything that was staged, and a file that goes meanwhile is named."""
        try:
            cut = self.cuts.cut(DOMAIN, [table], level=Level.READ_UNCOMMITTED)
            self.cuts.read(cut, table)
        except (NotReady, UnknownName, Unavailable):
            return


def _check_derived(table: str, cut: Cut, found: dict[str, Rows], stale: set[Interval]) -> None:
    """The rows of *table* are the function of the states in the same cut, when all its inputs are there (I7).

    :param stale: epochs that stand on earlier states, or were skipped.
    """
    job = OWNERS[table]
    for epoch in JOBS[job].epochs(_FUTURE):
        ranges = reads(job, epoch)
        if epoch.end > cut.barrier or not set(ranges) <= set(found):
            return
        if epoch in stale:
            continue
        inputs = {name: within(found[name], low, high) for name, (low, high) in ranges.items()}
        rows = sorted(value for barrier, value in found[table] if barrier == epoch.end)
        expected = output(job, table, epoch, inputs)
        expect(rows == expected, "I7", f"{table} {epoch} in the cut at {cut.barrier}, CSN {cut.csn}: {rows}")


def rows_of(found: pa.Table) -> Rows:
    """Rows as (barrier, value), sorted."""
    barriers, values = found.column("_epoch").to_pylist(), found.column("value").to_pylist()
    return tuple(sorted(zip(barriers, values, strict=True)))
