"""One simulated domain: its store and tables, and the look that is taken at each transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import timedelta
from random import Random

from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AttemptRecord, EpochRecord
from airflow_provider.domain.interval import time_key
from airflow_provider.domain.records import Kind
from airflow_provider.domain.restatement import Decision, RestatementRecord, RestatementState
from airflow_provider.domain.rollback import ROLLED_BACK
from airflow_provider.domain.version import CommitRecord, SliceRecord, TableRecord, TableRef
from airflow_provider.stores.base import (
    Put,
    Receipt,
    Transaction,
    pages,
)
from airflow_provider.tables.base import StagingLocation
from airflow_provider.testing.faults import Fault
from tests.simulator.cascade import DOMAIN, FAR, TABLES
from tests.simulator.events import Event
from tests.simulator.history import expect
from tests.simulator.model import Model
from tests.simulator.readers import Reading
from tests.simulator.scheduler import Process, Scheduler
from tests.simulator.site import CONSULTED, Site, everything
from tests.simulator.wire import Line

_DEFAULTS = replace(
    DEFAULTS,
    orphan_grace=timedelta(minutes=10),
    retention_grace=timedelta(days=365),
    closing_phase=timedelta(minutes=5),
)
"""A vacuum deletes what attempts have left, and no version: each one is read again in the end."""


class World(Site):
    """The cascade's domain, as no process sees it.

    :ivar model: what the store must hold.
    """

    def __init__(self, scheduler: Scheduler, random: Random) -> None:
        super().__init__(scheduler, random, _DEFAULTS)
        self.model = Model()
        self._files: set[str] = set()
        self._refs: dict[str, TableRef] = {}

    @property
    def history(self) -> Model:
        return self.model

    def reading(self, process: Process) -> Reading:
        """A reader of a process of its own."""
        cuts, leases = self.readers(process)
        now = self.scheduler.clock.now
        return Reading(cuts, leases, process, self.random, self.model, self.count, now)

    # --- what is looked at -------------------------------------------------------------------------------------

    def _applied(self, transaction: Transaction, receipt: Receipt, line: Line) -> None:
        self._events_of(transaction, line)
        commit = self.model.apply(transaction, receipt)
        if commit is not None:
            for delta in commit.tables:
                assert delta.ref is not None
                self._check_table(str(delta.table), delta.ref)
            for table in self._refs:
                self.load_by_catalog(TABLES[table])
            if self.random.random() < CONSULTED:
                self.consult_doctor(DOMAIN)

    def _refused(self, transaction: Transaction) -> None:
        for put in (update for update in transaction.updates if isinstance(update, Put)):
            fenced = put.key.kind in (Kind.LOCK, Kind.EPOCH, Kind.EVENT)
            if fenced and put.record.token < self.model.newest_token(put.key):
                self.count(Event.ZOMBIE_WROTE)
                break

    def _events_of(self, transaction: Transaction, line: Line) -> None:
        for put in (update for update in transaction.updates if isinstance(update, Put)):
            if isinstance(put.record, TableRecord):
                self._event_of_table(put.key.item, put.record)
            if isinstance(put.record, EpochRecord):
                self._event_of_epoch(put.key.partition, put.record)
            if isinstance(put.record, SliceRecord) and put.record.rows == 0:
                self.count(Event.EMPTY)
            if isinstance(put.record, RestatementRecord) and put.record.is_group:
                self._event_of_group(
                    put.key.item, put.record, lost=line.fault is Fault.REPLY_LOST or line.dies
                )
            elif isinstance(put.record, RestatementRecord):
                self._event_of_restatement(
                    put.key.item, put.record, lost=line.fault is Fault.REPLY_LOST or line.dies
                )
        lost = line.fault is Fault.REPLY_LOST
        commit = None if transaction.number is None else transaction.number.commit
        if commit is not None and commit.change_set.endswith(ROLLED_BACK):
            self.count(Event.ROLLED_BACK)
            if lost or line.dies:
                self.count(Event.ROLLBACK_REPLY_LOST)
        elif commit is not None and lost:
            self.count(Event.PUBLISH_REPLY_LOST)

    def _event_of_restatement(self, name: str, now: RestatementRecord, *, lost: bool) -> None:
        restated = self.model.restated
        published, abandoned = RestatementState.PUBLISHED, RestatementState.ABANDONED
        before = restated.records.get(name)
        known = () if before is None else before.decisions
        made = {decision.decision for decision in now.decisions[len(known) :]}
        happened = {
            Event.RESTATED: now.state is published,
            Event.RESTATED_REPLY_LOST: now.state is published and lost,
            Event.MEMBER_REFUSED: now.state is abandoned and self.model.is_refused(name),
            Event.ABANDONED: now.state is abandoned,
            Event.HOLD_JOINED: Decision.JOINED in made,
            Event.HOLD_RELEASED: Decision.RELEASED in made,
            Event.RERUN_RESTATED: bool(now.rerun_of) and before is None,
            Event.RERUN_JOINED: before is not None and now.asked != before.asked,
            Event.SIDE_BY_SIDE: before is None and any(map(restated.is_open, restated.records)),
            Event.REVERT_ANEW: before is not None
            and before.state is abandoned
            and now.state is not abandoned,
        }
        for event in (kind for kind, did in happened.items() if did):
            self.count(event)

    def _event_of_group(self, name: str, now: RestatementRecord, *, lost: bool) -> None:
        groups, published = self.model.groups, now.state is RestatementState.PUBLISHED
        before = groups.records.get(name)
        last = groups.last.get(name)
        happened = {
            Event.GROUP_PUBLISHED: published,
            Event.GROUP_REPLY_LOST: published and lost,
            Event.GROUP_UPSTREAM_LAST: published and last is not None and last != groups.jobs[-1],
            Event.GROUP_WITHOUT: published
            and any(member in self.model.committed for member in groups.members(name)),
            Event.GROUP_ABANDONED: now.state is RestatementState.ABANDONED,
            Event.GROUP_ANEW: before is not None and not groups.is_open(name) and not published,
        }
        for event in (kind for kind, did in happened.items() if did):
            self.count(event)

    def _event_of_table(self, table: str, now: TableRecord) -> None:
        happened = {
            Event.RETIRED: bool(now.ended) and table not in self.model.ended,
            Event.INHERITED: self.model.owners.get(table, now.job) != now.job,
            Event.SLOWED: now.cadence.before is not None and table not in self.model.slowed,
        }
        for event in (kind for kind, did in happened.items() if did):
            self.count(event)

    def _event_of_epoch(self, job: str, now: EpochRecord) -> None:
        place = job, now.interval.start
        before = self.model.epochs.get(place)
        if before is None or before.attempt is None:
            return
        left, new = before.attempt, now.attempt
        if new is None:
            assert now.committed is not None
            if now.committed.skipped:
                self.count(Event.SKIPPED)
            if now.committed.revision > 1:
                again = place in self.model.committed
                self.count(Event.REVISION if again else Event.COMMITTED_ANEW)
            if any(_version(ref) != _version(self._refs.get(str(table))) for table, ref in left.baseline):
                self.count(Event.REBASED)
            return
        if new.token == left.token:
            if new.staged and new.skips and not left.staged:
                self.count(Event.COPIED)
            if new.check_failed and not left.check_failed:
                self.count(Event.CHECK_FAILED)
            return
        self._event_of_begin(left, new)

    def _event_of_begin(self, left: AttemptRecord, new: AttemptRecord) -> None:
        if left.restated_by is not None and new.restatement != left.restatement:
            self.count(Event.LET_GO)
        if left.staged and new.restatement == left.restated_by:
            of_group = new.restatement in self.model.groups.records
            self.count(Event.GROUP_COMPUTED_AGAIN if of_group else Event.COMPUTED_AGAIN)
        if new.revision == left.revision and new.input_generation > left.input_generation:
            self.count(Event.RESOLVED_AGAIN)
        if left.aborted is None and not new.owner.same_run(left.owner):
            self.count(Event.TAKEN_OVER)

    def _check_table(self, table: str, ref: TableRef) -> None:
        """The version that was published holds what the model says, and the catalog is not ahead (I1, I7, I10)."""
        self.refuse_ahead(TABLES[table], ref)
        csn = self.model.csn
        expected = self.model.rows(table, None, FAR, csn)
        found = self.rows_at(TABLES[table], ref, csn)
        expect(found == expected, "I7", f"{table} at CSN {csn}: {found}, not {expected}")
        self._files.update(self.tables.files(everything(TABLES[table].name, ref, csn)))
        self._refs[table] = ref
        chain = self.model.chain(table, csn)
        shown = () if chain is None else self.model.state(table, chain[1], csn)
        self.outsiders.published(table, ref, csn, shown)

    def _roll_back(self, place: StagingLocation, roll_back: Callable[[], None]) -> None:
        before = set(self.store.catalog.objects)
        roll_back()
        gone = before - set(self.store.catalog.objects)
        if gone:
            self.count(Event.UNDO_RAN)
        staged = self.model.is_staged(place.job, place.interval.start, place.token)
        expect(not (gone and staged), "I6", f"{place.uri}: staged within a restatement, and deleted")
        kept = self.model.is_kept(place.job, place.interval.start, place.token)
        expect(not (gone and kept), "R14", f"{place.uri}: what a check has refused was deleted")
        expect(
            not gone & self._files, "I6", f"{place.uri}: published files were deleted: {gone & self._files}"
        )

    def lags(self, tables: Collection[str]) -> bool:
        """Return whether the catalog is behind the commits of any of *tables*."""
        found = {table: self.tables.describe(TABLES[table]) for table in self._refs if table in tables}
        return any(info is None or info.version != self._refs[table].version for table, info in found.items())

    # --- the end -----------------------------------------------------------------------------------------------

    def check_history(self) -> None:
        """Every version that was ever published still holds what it held (I2, I6, R19); no lock is left over (I9)."""
        commits = list(pages(self.store, DOMAIN, CommitRecord))
        expect(
            [commit.csn for commit in commits] == list(range(1, self.model.csn + 1)),
            "I2",
            "the CSNs have a gap",
        )
        for csn, deltas in self.model.deltas.items():
            for delta in deltas:
                table = str(delta.table)
                assert delta.ref is not None
                expected, found = (
                    self.model.rows(table, None, FAR, csn),
                    self.rows_at(TABLES[table], delta.ref, csn),
                )
                expect(found == expected, "R19", f"{table} at CSN {csn} has become {found}, was {expected}")
        self._check_pointers()
        self.consult_doctor(DOMAIN)
        for (job, start), epoch in self.model.epochs.items():
            locks = self.store.scan(DOMAIN, Kind.LOCK, job, start=time_key(start), limit=1)
            held = bool(locks) and locks[0].key.item == time_key(start)
            expect(not held or epoch.attempt is not None, "I9", f"{job} {start}: a lock without an attempt")

    def _check_pointers(self) -> None:
        """The catalog's pointers come to where the store is, whichever process died on the way (R17)."""
        if self._projected:
            recover(Context.of(self.store, self.plain_formats()), DOMAIN)
        for table, ref in self._refs.items():
            info = self.tables.describe(TABLES[table])
            found = None if info is None else info.version
            expect(found == ref.version, "R17", f"{table} points at {found}, published is {ref.version}")
            self.load_by_catalog(TABLES[table])


def _version(ref: TableRef | None) -> int:
    return 0 if ref is None else ref.version
