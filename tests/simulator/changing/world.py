"""One domain that changes: its store and tables, and the look that is taken at each transaction and each deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from random import Random, SystemRandom

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt, EpochRecord, Published
from airflow_provider.domain.errors import EpochError, NotReady, Unavailable, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.records import Kind
from airflow_provider.domain.session import Session
from airflow_provider.domain.source_bounds import Late
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import CommitRecord, TableRef
from airflow_provider.stores import codec
from airflow_provider.stores.base import Put, Receipt, Transaction
from airflow_provider.tables.base import StagingLocation
from tests.simulator.cascade import FAR
from tests.simulator.changing.counted import Counted
from tests.simulator.changing.ids import Ids
from tests.simulator.changing.ignoring import check_labels
from tests.simulator.changing.landing import Landing
from tests.simulator.changing.mixing import check_mixture
from tests.simulator.changing.plan import (
    DOMAIN,
    Version,
    draw_jobs,
    draw_sharing,
    draw_turning,
    hour,
    table_of,
)
from tests.simulator.changing.renaming import Doctor, is_other_name
from tests.simulator.changing.sourced import Sourced
from tests.simulator.changing.staying import check_own, check_stayed
from tests.simulator.changing.truth import Truth
from tests.simulator.events import Event
from tests.simulator.history import Violation, expect
from tests.simulator.readers import rows_of
from tests.simulator.scheduler import Process, Scheduler
from tests.simulator.site import CONSULTED, Site, everything
from tests.simulator.wire import Line, Weather

SMALL_RECORD_BYTES = 6_000
"""The limit of a record in worlds where they are small."""
_NEARLY = 0.4
_UNREAD = 0.3
"""How often a file lands at a barrier after everything has ended, where a source has changed its name."""
_REGRETS = 0.2
"""How often a person thinks better of a skip where it is to be seen what it leaves to later epochs."""
_DOUBTS = 0.8
"""How often a source turns out to be wrong while a reader of its epochs is about to publish."""
_GROW = frozenset({Kind.TABLE, Kind.REWRITE_LOG, Kind.VERSIONS, Kind.RETENTION, Kind.EXPIRED, Kind.TOPOLOGY})
"""Records that grow with what happens."""


@contextmanager
def small_records(limit: int) -> Iterator[None]:
    """Let no record of the store be larger than *limit* bytes."""
    before, codec.MAX_RECORD_BYTES = codec.MAX_RECORD_BYTES, limit
    try:
        yield
    finally:
        codec.MAX_RECORD_BYTES = before


class ChangingWorld(Site):
    """The domain, as no process sees it.

    :ivar truth: what the store must hold. :ivar jobs: the jobs as they are drawn. :ivar length: its hours.
    :ivar streams: how many short epochs one job computes beside all others. :ivar slow: a job whose publishes take long
        to prepare then; empty for none. :ivar forks: whether processes are forked.
    :ivar binds: its source is bound anew. :ivar counts: epochs that have recorded bounds of it fail, and are skipped.
    :ivar renames: jobs read it by one name after the other.
    :ivar turns: epochs fail often, and their job has another cadence from there.
    :ivar skipped: epochs, all of them. :ivar regretted: those that are to be computed at once.
    :ivar doubted: those whose source is to be bound anew at once: a reader of them is about to publish.
    :ivar doubts: how many more there may be. :ivar doubted_at: when the last was doubted.
    :ivar unwritten: epochs that cannot be skipped before a later one was computed, which lets a table have columns.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        random: Random,
        defaults: Defaults,
        *,
        binds: bool = False,
        counts: bool = False,
        renames: bool = False,
        turns: bool = False,
    ) -> None:
        super().__init__(scheduler, random, defaults)
        self.binds, self.counts, self.renames, self.turns = binds, counts, renames, turns
        self.streams = 0 if binds or counts or renames or turns else random.choice((0, 0, 40, 90))
        if turns:
            self.jobs = draw_turning(random)
        elif binds or counts or renames:
            self.jobs = draw_sharing(random, counted=counts, renamed=renames)
        else:
            self.jobs = draw_jobs(random, "s1" if self.streams else "")
        kinds = {table: kind for job in self.jobs for table, kind in job.kinds.items()}
        self.slow = random.choice(self.jobs).job if self.streams and random.random() < 0.6 else ""
        self.skipped: list[tuple[str, Interval]] = []
        self.regretted: list[tuple[str, Interval]] = []
        self.doubted: list[Interval] = []
        self.doubts = 16 if binds else 0
        self.doubted_at = scheduler.clock.now()
        self.unwritten: set[tuple[str, Interval]] = set()
        lengths = (9, 12, 15) if counts else (12, 15, 18) if turns else (6, 9, 9, 12)
        self.length = random.choice(lengths)
        self.landing = Landing(random, self.length, Ids(random, least=1 if counts else 0))
        kinds["s1"] = TableKind.INCREMENTAL
        readers = frozenset(job.job for job in self.jobs if job.late is not None)
        counted = Counted(readers, self.landing.is_own)
        self.truth = Truth(kinds=kinds, source=Sourced(self.landing.labels, counted))
        self.forks = random.random() < 0.3
        self.published: Published | None = None
        self._parent = random.getrandbits(64)
        self._holders: dict[tuple[str, datetime, int], Process] = {}
        self._refs: dict[str, list[tuple[datetime, frozenset[str], TableRef]]] = {}
        self._read: dict[str, Cut] = {}
        self._held: dict[str, tuple[datetime, frozenset[str]]] = {}
        self._clean = Cuts(self.store, self.plain_formats(), clock=scheduler.clock, random=Random(0))

    @property
    def history(self) -> Truth:
        return self.truth

    # --- what a process gets -----------------------------------------------------------------------------------

    def undisturbed(self, process: Process) -> EpochService:
        """The coordinator of a process that takes turns, and meets no fault."""
        weather = Weather(self.random, self.count)
        weather.clear = True
        line = Line(process, self.scheduler, weather)
        return EpochService(
            self._wire(line),
            self._formats(line),
            clock=self._clock(process),
            random=self._own_random(),
            defaults=self.defaults,
        )

    def retention(self, process: Process) -> Retention:
        line = self._line(process)
        return Retention(
            self._wire(line),
            self._formats(line),
            clock=self._clock(process),
            random=self._own_random(),
            defaults=self.defaults,
        )

    def _random_of_process(self) -> Random:
        """Children of one process go on where it was: what they draw is the same, unless it comes from the system."""
        if not self.forks or self.random.random() < 0.5:
            return self._own_random()
        self.count(Event.FORKED)
        parent = EpochService(self.store, self.plain_formats()).random
        return self._own_random() if isinstance(parent, SystemRandom) else Random(self._parent)

    # --- what is looked at -------------------------------------------------------------------------------------

    def doubt(self, epoch: Interval) -> bool:
        """Let a person hear, now and then, that the source of *epoch* was wrong; say whether."""
        doubted = bool(self.doubts) and self.random.random() < _DOUBTS
        if doubted:
            self.doubts -= 1
            self.doubted.append(epoch)
            self.doubted_at = self.scheduler.clock.now()
        return doubted

    def begin(self, attempt: Attempt, version: Version, process: Process) -> None:
        """Take a begun attempt: it belongs to one process (R10)."""
        name = str(attempt.job), attempt.interval.start, attempt.token
        holder = self._holders.setdefault(name, process)
        expect(holder is process, "R10", f"{attempt} of {process.name} is that of {holder.name}, too")
        if self._shares_its_end(attempt):
            self.count(Event.SAME_END)
        self.truth.begun[name] = version

    def _shares_its_end(self, attempt: Attempt) -> bool:
        """Whether an attempt at an epoch of another calendar has the same end."""
        return any(
            job == attempt.job
            and epoch.interval.end == attempt.interval.end
            and start != attempt.interval.start
            for (job, start), epoch in self.truth.epochs.items()
        )

    def _applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:  # noqa: ARG002
        self._events_of(transaction)
        commit = self.truth.apply(transaction, receipt)
        if commit is None:
            return
        for delta in commit.tables:
            if delta.ref is not None:
                self._check_version(str(delta.table), delta.ref, receipt.at)
        moved = {str(delta.table) for delta in commit.tables}
        others = [table for table in self._refs if table not in moved]
        for table in (*sorted(moved), *self.random.sample(others, min(1, len(others)))):
            self.check_cut(table)
        if self.binds:
            self._check_together()
        for table in self._refs:
            self.load_by_catalog(self.table(table))
        if self.random.random() < CONSULTED:
            self.consult_doctor(DOMAIN)

    def _refused(self, transaction: Transaction) -> None:
        """Nothing: the race for the head is looked at for every site."""

    def _events_of(self, transaction: Transaction) -> None:
        if codec.MAX_RECORD_BYTES <= SMALL_RECORD_BYTES:
            grown = (
                update
                for update in transaction.updates
                if isinstance(update, Put) and update.key.kind in _GROW
            )
            if any(
                len(codec.encode(update.key, update.record)) > _NEARLY * SMALL_RECORD_BYTES
                for update in grown
            ):
                self.count(Event.NEARLY_FULL)
        commit = transaction.number.commit if transaction.number else None
        for put in (update for update in transaction.updates if isinstance(update, Put)):
            if isinstance(put.record, EpochRecord) and commit is not None:
                self._event_of_epoch(put, put.record, commit)
            elif isinstance(put.record, EpochRecord) and put.record.committed is not None:
                left = put.record.attempt
                if left is not None and left.aborted is not None and left.sources:
                    self.count(Event.REVISION_FAILED)
            if put.key.kind is Kind.SOURCE and put.record.bounds.revision > 1:
                self.count(Event.SOURCE_REVISION)
            if put.key.kind is Kind.TOPOLOGY and put.record.binds > self.truth.topology.binds:
                self.count(Event.BOUND_ANEW)
            elif put.key.kind is Kind.TOPOLOGY and put.record.behind != self.truth.topology.behind:
                self.count(Event.BEHIND_MENDED)

    def _event_of_epoch(self, put: Put, now: EpochRecord, commit: CommitRecord) -> None:
        before = self.truth.epochs.get((put.key.partition, now.interval.start))
        done = now.committed
        if done is None or not commit.members:
            return
        tables = [str(table.table) for table in commit.tables]
        full = any(self.truth.kinds[table] is TableKind.FULL for table in tables)
        known = before.committed if before else None
        happened = {
            Event.SKIPPED: bool(done.skipped),
            Event.SKIPPED_FULL: bool(done.skipped) and full,
            Event.REVISION: done.revision > 1,
            Event.CORRECTED: known is not None and bool(known.skipped) and not done.skipped,
            Event.HOLE_FILLED: known is not None
            and any(not self.truth.has(table, now.interval) for table in tables),
        }
        if done.skipped:
            self.skipped.append((str(commit.members[0].job), now.interval))
            if not self.weather.clear and (not self.counts or self.random.random() < _REGRETS):
                self.regretted.append(self.skipped[-1])
        for event in (kind for kind, did in happened.items() if did):
            self.count(event)

    def _check_version(self, table: str, ref: TableRef, at: datetime) -> None:
        """What was published is there, and holds what the model says (I6, I7, I10)."""
        declared, csn = self.table(table), self.truth.csn
        self.refuse_ahead(declared, ref)
        files = frozenset(self.tables.files(everything(declared.name, ref, csn)))
        gone = files - set(self.store.catalog.objects)
        expect(not gone, "I6", f"{table} at CSN {csn}: published without {sorted(gone)}")
        if self.truth.kinds[table] is TableKind.INCREMENTAL:
            found, expected = self.rows_at(declared, ref, csn), self.truth.stored(table, csn)
            expect(found == expected, "I7", f"{table} at CSN {csn}: {found}, not {expected}")
        versions = self._refs.setdefault(table, [])
        if versions:  # superseded now
            _, before, old = versions[-1]
            versions[-1] = at, before, old
        versions.append((FAR, files | {ref.location}, ref))
        chain = self.truth.chain(table, csn)
        shown = () if chain is None else self.truth.state(table, chain[1], csn)
        self.outsiders.published(table, ref, csn, shown)

    def has_full_table(self, job: Version) -> bool:
        return any(self.truth.kinds[output] is TableKind.FULL for output in job.outputs)

    def table(self, name: str) -> Table:
        return table_of(name, self.truth.kinds[name])

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
                gone = any(self.truth.may_be_expired(table, end) for end in ends)
                expect(gone, "R24", f"{table} at {at}: {error}")
                continue
            expect(cut.barrier == barrier, "R3", f"{table} at {at}, CSN {csn}: {cut.barrier}, not {barrier}")
            assert barrier is not None
            (name,) = cut.states
            found = rows_of(self._clean.read(cut, name))
            expected = self.truth.state(table, barrier, csn)
            expect(found == expected, "R4", f"{table} at {barrier}, CSN {csn}: {found}, not {expected}")
            if check_labels(self.truth, cut):
                self.count(Event.OUTDATED)
            if check_mixture(self.truth, cut):
                self.count(Event.MIXED)
            self._check_stayed(table, cut)

    def _check_stayed(self, table: str, cut: Cut) -> None:
        """Rows of an earlier revision than others carry a label, also in a cut of before: as it was then (R18)."""
        if check_stayed(self.truth, cut):
            self.count(Event.STAYED)
        before = self._read.get(table, cut)
        outdated = self._clean.outdated(DOMAIN, before.states, before.csn)
        check_own(self.truth, replace(before, outdated=outdated))
        if cut.csn % 5 == 0:
            self._read[table] = cut

    def _check_together(self) -> None:
        """Cuts of tables of both jobs that read the source, one of which may be behind it: they say so (R18)."""
        tables = [job.outputs[0] for job in self.jobs if job.late is not None]
        behind = [entry.interval.end for entry in self.truth.topology.behind if not entry.until]
        for at in {None, *self.random.sample(behind, min(1, len(behind)))}:
            try:
                cut = self._clean.cut(DOMAIN, tables, at=at)
            except (NotReady, UnknownName, Unavailable):
                continue
            if check_mixture(self.truth, cut):
                self.count(Event.MIXED)

    def count_refused(self, error: EpochError) -> None:
        """Take a refusal for good."""
        self.count(Event.DECLARATION_REFUSED)
        if is_other_name(error, self.truth.source):
            self.count(Event.OTHER_NAME_REFUSED)

    def settle_landing(self) -> None:
        """Let the source be what is recorded: by the names that are declared now where it was changed in between.

        What came late stays where its name has changed, unless it is refused.
        """
        sourced = self.truth.source
        sources = {source.name: source for job in self.truth.jobs.values() for source in job.sources}
        names = sorted(sourced.names, key=lambda name: name in sources)
        keeps = len(names) > 1 and all(source.late is not Late.REFUSE for source in sources.values())
        recorded = [entry for name in names for entry in sourced.newest(name).items()]
        self.landing.settle(recorded, keeps_late=keeps)

    def take_ids_away(self) -> None:
        """Let the source have no more rows than are recorded, also those that an attempt counted and did not record."""
        newest = [self.truth.source.newest(name).values() for name in self.truth.source.names]
        spans = [bounds.span for found in newest for bounds in found if bounds.span is not None]
        if self.landing.ids.take_away(spans):
            self.doubted_at = self.scheduler.clock.now()

    def check_counted(self) -> None:
        """Every row of the source is read, and once, by each job that has gone on past it (I11)."""
        sourced = self.truth.source
        doctor = Doctor(store=self.store, landing=self.landing, source=sourced)
        renamed = any(job.left_sources for job in self.truth.jobs.values())
        told = doctor.told() if renamed else frozenset()
        sourced.counted.check(sourced.names, sourced.bounds, self.landing.ids.within, told)
        of_files = not any(source.has_spans for job in self.truth.jobs.values() for source in job.sources)
        if len(sourced.names) > 1 and of_files:
            self._check_unread(doctor)

    def _check_unread(self, doctor: Doctor) -> None:
        """Doctor names what lies where epochs have read and no epoch reads, also what comes after all have ended."""
        for number in range(1, self.length + 1):
            if self.random.random() < _UNREAD:
                self.landing.land(hour(number))
        for _ in range(doctor.check()):
            self.count(Event.UNREAD_NAMED)

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
        for until, files in self._held.values():
            if until > now:
                found |= files
        return frozenset(found)

    def hold(self, lease: Lease) -> None:
        """Take that a lease is held: what it reads stays until it ends."""
        states = [state for state in lease.cut.states.values() if state.ref is not None]
        files = {uri for state in states for uri in self.tables.files(state)}
        files |= {state.ref.location for state in states if state.ref is not None}
        self._held[str(lease.id)] = lease.until, frozenset(files)

    def let_go(self, lease: Lease) -> None:
        """Take that it is not needed any more."""
        self._held.pop(str(lease.id), None)

    def is_superseded(self, table: str, location: str) -> bool:
        """Whether nothing but a lease keeps a version: it was superseded, and its grace is over."""
        now = self.scheduler.clock.now()
        found = (until for until, _, ref in self._refs.get(table, ()) if ref.location == location)
        return any(until + self.defaults.retention_grace < now for until in found)

    def _roll_back(self, place: StagingLocation, roll_back: Callable[[], None]) -> None:
        protected = self._protected()
        before = set(self.store.catalog.objects)
        roll_back()
        gone = before - set(self.store.catalog.objects)
        if gone:
            self.count(Event.UNDO_RAN)
        expect(not gone & protected, "I6", f"{place.uri}: deleted {sorted(gone & protected)}")

    def _vacuum(self, delete: Callable[[], list[str]]) -> list[str]:
        protected = self._protected()
        gone = delete()
        if gone:
            self.count(Event.VACUUMED)
        lost = set(gone) & protected
        expect(not lost, "I6", f"a vacuum deleted {sorted(lost)}")
        return gone
