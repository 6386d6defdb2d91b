"""One domain that changes: its store and tables, and the look that is taken at each transaction and each deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random, SystemRandom
from typing import cast

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.cuts import Cuts
from airflow_provider.coordination.retention import Retention
from airflow_provider.domain.cut import State
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt, EpochRecord, Published
from airflow_provider.domain.errors import NotReady, Unavailable, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import TableKind
from airflow_provider.domain.version import CommitRecord, TableRef
from airflow_provider.stores.base import CatalogSwap, Exists, Number, Put, Receipt, Transaction
from airflow_provider.tables.base import Place, TableFormat
from airflow_provider.tables.factory import TableFormats
from airflow_provider.testing.simulation.changing.landing import Landing
from airflow_provider.testing.simulation.changing.plan import DOMAIN, Version, draw_jobs, table_of
from airflow_provider.testing.simulation.changing.truth import Truth
from airflow_provider.testing.simulation.events import Event
from airflow_provider.testing.simulation.history import Violation, expect
from airflow_provider.testing.simulation.readers import rows_of
from airflow_provider.testing.simulation.scheduler import Process, Scheduler
from airflow_provider.testing.simulation.site import Site
from airflow_provider.testing.simulation.wire import Line, SimulatedFormat, Weather

FAR = datetime.fromisoformat("2100-01-01T00:00:00+00:00")
MOST_LOST = 6
"""So many preparations a publish may lose to others, beside one for each fault that its own process met."""


class ChangingWorld(Site):
    """The domain, as no process sees it.

    :ivar truth: what the store must hold. :ivar jobs: the jobs as they are drawn. :ivar length: its hours.
    :ivar streams: how many short epochs one job computes beside all others. :ivar slow: a job whose publishes take long
        to prepare then; empty for none. :ivar forks: whether processes are forked.
    """

    def __init__(self, scheduler: Scheduler, random: Random, defaults: Defaults) -> None:
        super().__init__(scheduler, random, defaults)
        self.streams = random.choice((0, 0, 40, 90))
        self.jobs = draw_jobs(random, "s1" if self.streams else "")
        kinds = {table: kind for one in self.jobs for table, kind in one.kinds.items()}
        self.slow = random.choice(self.jobs).job if self.streams and random.random() < 0.6 else ""
        self.skipped: list[tuple[str, Interval]] = []
        self.truth = Truth(kinds={**kinds, "s1": TableKind.INCREMENTAL})
        self.length = random.choice((6, 9, 12))
        self.landing = Landing(random, self.length)
        self.forks = random.random() < 0.3
        self.published: Published | None = None
        self._parent = random.getrandbits(64)
        self._held: dict[tuple[str, datetime, int], Process] = {}
        self._lost: Counter[str] = Counter()
        self._refs: dict[str, list[tuple[datetime, frozenset[str], TableRef]]] = {}
        self._clean = Cuts(self.store, self.plain_formats(), clock=scheduler.clock, random=Random(0))  # noqa: S311

    def plain_formats(self) -> TableFormats:
        """The tables without a line: no turn, no fault."""
        return TableFormats({self.tables.name: lambda: self.tables}, projected=self._projected)

    # --- what a process gets -----------------------------------------------------------------------------------

    def coordinator(self, process: Process, preparing: timedelta = timedelta(0)) -> Coordinator:
        line = self._line(process)
        return Coordinator(
            self._wire(line),
            self._formats(line, preparing),
            clock=self._clock(process),
            random=self._forked_random(),
            defaults=self.defaults,
        )

    def undisturbed(self, process: Process) -> Coordinator:
        """The coordinator of a process that takes turns, and meets no fault."""
        weather = Weather(self.random, self.count)
        weather.clear = True
        line = Line(process, self.scheduler, weather)
        return Coordinator(
            self._wire(line),
            self._formats(line),
            clock=self._clock(process),
            random=self._own_random(),
            defaults=self.defaults,
        )

    def cuts(self, process: Process) -> Cuts:
        line = self._line(process)
        clock, random = self._clock(process), self._own_random()
        return Cuts(self._wire(line), self._formats(line), clock=clock, random=random)

    def retention(self, process: Process) -> Retention:
        line = self._line(process)
        return Retention(
            self._wire(line),
            self._formats(line),
            clock=self._clock(process),
            random=self._own_random(),
            defaults=self.defaults,
        )

    def _forked_random(self) -> Random:
        """Children of one process go on where it was: what they draw is the same, unless it comes from the system."""
        if not self.forks or self.random.random() < 0.5:
            return self._own_random()
        self.count(Event.FORKED)
        parent = Coordinator(self.store, self.plain_formats()).random
        return self._own_random() if isinstance(parent, SystemRandom) else Random(self._parent)  # noqa: S311 - drawn

    def _formats(self, line: Line, preparing: timedelta = timedelta(0)) -> TableFormats:
        simulated = SimulatedFormat(
            self.tables, line, self._discard, deleting=self._reclaim, preparing=preparing
        )
        tables = cast("TableFormat", simulated)
        return TableFormats({tables.name: lambda: tables}, projected=self._projected)

    # --- what is looked at -------------------------------------------------------------------------------------

    def begin(self, attempt: Attempt, version: Version, process: Process) -> None:
        """Take a begun attempt: it belongs to one process (R10)."""
        name = str(attempt.job), attempt.interval.start, attempt.token
        holder = self._held.setdefault(name, process)
        expect(holder is process, "R10", f"{attempt} of {process.name} is that of {holder.name}, too")
        self.truth.begun[name] = version

    def _applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:  # noqa: ARG002
        self._events_of(transaction)
        commit = self.truth.apply(transaction, receipt)
        if commit is None:
            return
        for delta in commit.tables:
            if delta.ref is not None:
                self._check_version(str(delta.table), delta.ref, receipt.at)
        for delta in commit.tables:
            self.check_cut(str(delta.table))

    def _refused(self, transaction: Transaction, requirement: object) -> None:
        self.scheduler.note("refused")
        if transaction.number is None or not transaction.number.commit.members:
            return
        table = isinstance(requirement, Exists) and requirement.key.kind is Kind.TABLE
        if table or isinstance(requirement, Number | CatalogSwap):
            self.count(Event.HEAD_LOST)
        change_set = transaction.number.commit.change_set
        self._lost[change_set] += 1
        expect(
            self._lost[change_set] <= MOST_LOST,
            "R11",
            f"{change_set} has lost {self._lost[change_set]} preparations to others",
        )

    def _events_of(self, transaction: Transaction) -> None:
        commit = transaction.number.commit if transaction.number else None
        for put in (one for one in transaction.updates if isinstance(one, Put)):
            if isinstance(put.record, EpochRecord) and commit is not None:
                self._event_of_epoch(put, put.record, commit)
            if put.key.kind is Kind.ROOT and put.record.bounds.revision > 1:
                self.count(Event.SOURCE_REVISION)

    def _event_of_epoch(self, put: Put, now: EpochRecord, commit: CommitRecord) -> None:
        before = self.truth.epochs.get((put.key.partition, now.interval.start))
        done = now.committed
        if done is None or not commit.members:
            return
        tables = [str(one.table) for one in commit.tables]
        full = any(self.truth.kinds[one] is TableKind.FULL for one in tables)
        known = before.committed if before else None
        happened = {
            Event.SKIPPED: bool(done.skipped),
            Event.SKIPPED_FULL: bool(done.skipped) and full,
            Event.REVISION: done.revision > 1,
            Event.CORRECTED: known is not None and bool(known.skipped) and not done.skipped,
            Event.HOLE_FILLED: known is not None
            and any(not self.truth.has(one, now.interval) for one in tables),
        }
        if done.skipped:
            self.skipped.append((str(commit.members[0].job), now.interval))
        for event in (one for one, did in happened.items() if did):
            self.count(event)

    def _check_version(self, table: str, ref: TableRef, at: datetime) -> None:
        """What was published is there, and holds what the model says (I6, I7, I10)."""
        described = self.tables.describe(table_of(table, self.truth.kinds[table]))
        assert described is not None
        expect(described.version <= ref.version, "I10", f"{table} points at {described.version} before {ref}")
        everything = _everything(table, ref, self.truth.csn)
        files = frozenset(self.tables.files(everything))
        gone = files - set(self.store.catalog.objects)
        expect(not gone, "I6", f"{table} at CSN {self.truth.csn}: published without {sorted(gone)}")
        if self.truth.kinds[table] is TableKind.INCREMENTAL:
            found = rows_of(self.tables.read(everything, described.schema))
            expected = self.truth.stored(table, self.truth.csn)
            expect(found == expected, "I7", f"{table} at CSN {self.truth.csn}: {found}, not {expected}")
        versions = self._refs.setdefault(table, [])
        if versions:  # superseded now
            _, before, old = versions[-1]
            versions[-1] = at, before, old
        versions.append((FAR, files | {ref.location}, ref))

    def check_cut(self, table: str) -> None:
        """What a cut of *table* alone returns now, and at some barrier before (R3, R4)."""
        csn = self.truth.csn
        ends = self.truth.barriers(table)
        for at in (None, self.random.choice(ends) if ends else None):
            barrier = self.truth.common_barrier([table], csn, at)
            try:
                cut = self._clean.cut(DOMAIN, [table], at=at)
            except (NotReady, UnknownName) as error:
                expect(barrier is None, "R3", f"{table} at {at}: {barrier} is complete: {error}")
                continue
            except Unavailable as error:
                gone = any(self.truth.may_be_withdrawn(table, end) for end in ends)
                expect(gone, "R24", f"{table} at {at}: {error}")
                continue
            expect(cut.barrier == barrier, "R3", f"{table} at {at}, CSN {csn}: {cut.barrier}, not {barrier}")
            assert barrier is not None
            (name,) = cut.states
            found = rows_of(self._clean.read(cut, name))
            expected = self.truth.state(table, barrier, csn)
            expect(found == expected, "R4", f"{table} at {barrier}, CSN {csn}: {found}, not {expected}")

    def check_restored(self) -> None:
        """A session that has only published knows which store that was (R20, R33)."""
        if self.published is None or self.random.random() < 0.4:
            return
        session = Session.of(DOMAIN).committed(self.published)
        self.store.new_incarnation()
        table = str(self.published.tables[0][0])
        try:
            found = self._clean.cut(DOMAIN, [table], session=session)
        except Unavailable:
            self.count(Event.RESTORED)
            return
        except NotReady:
            return
        raise Violation("R20", f"a session of {self.published} took {found.csn} of another incarnation")

    # --- what is deleted ---------------------------------------------------------------------------------------

    def _protected(self) -> frozenset[str]:
        """Files that readers or attempts may still need: newest versions, and those that cuts may have (R19)."""
        now = self.scheduler.clock.now()
        found = set(self.truth.live())
        for versions in self._refs.values():
            for until, files, _ in versions:
                if until + self.defaults.read_grace > now:
                    found |= files
        return frozenset(found)

    def _discard(self, place: Place, discard: Callable[[], None]) -> None:
        protected = self._protected()
        before = set(self.store.catalog.objects)
        discard()
        gone = before - set(self.store.catalog.objects)
        if gone:
            self.count(Event.UNDO_RAN)
        expect(not gone & protected, "I6", f"{place.uri}: deleted {sorted(gone & protected)}")

    def _reclaim(self, delete: Callable[[], list[str]]) -> list[str]:
        protected = self._protected()
        gone = delete()
        if gone:
            self.count(Event.SWEPT)
        lost = set(gone) & protected
        expect(not lost, "I6", f"a sweep deleted {sorted(lost)}")
        return gone


def _everything(table: str, ref: TableRef, csn: int) -> State:
    """All slices of one version, of a full table too."""
    return State(
        table=table_of(table, TableKind.INCREMENTAL).name,
        kind=TableKind.INCREMENTAL,
        barrier=FAR,
        low=None,
        csn=csn,
        ref=ref,
    )
