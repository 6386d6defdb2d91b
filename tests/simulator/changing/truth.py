"""What a domain whose declarations change must hold: slices, origins, closure and files, from the transactions alone.

Nothing here asks the package what an edge reads or how far a table is: :mod:`.plan` says the one by arithmetic, the
commits the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from airflow_provider.domain.epoch import AttemptEvent, Commitment, EpochRecord, EpochState, Provenance
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.interval import EPOCH_ZERO, Interval
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import EdgeKind
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import CommitRecord, Member, TableRecord
from airflow_provider.stores.base import Put, Receipt, Transaction
from tests.simulator.cascade import Rows, output
from tests.simulator.changing.mixing import Mixing
from tests.simulator.changing.plan import DOMAIN, Range, Read, Version
from tests.simulator.changing.records import Found, HasRead, Staged, Visible
from tests.simulator.changing.sourced import Labels, Sourced
from tests.simulator.history import Committed, History, Slice, expect, moment_of


@dataclass(slots=True)
class Truth(History):
    """The history of a domain that changes.

    :ivar kinds: of tables. :ivar begun: the declaration that each attempt began with, by job, start and token.
    :ivar jobs: what is registered. :ivar owners: of tables. :ivar origins: of tables, each from its CSN on.
    :ivar changes: counts what changes any answer here. :ivar asked: barriers of tables that were to be expired.
    :ivar reads: what each committed epoch has read.
    :ivar source: what is recorded of it. :ivar topology: as it is stored. :ivar mixing: what rows are made of.
    """

    kinds: Mapping[str, TableKind] = field(default_factory=dict)
    begun: dict[tuple[str, datetime, int], Version] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    origins: defaultdict[str, list[tuple[int, datetime | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    declares: set[str] = field(default_factory=set)
    declared_anew: defaultdict[str, list[tuple[int, datetime]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    source: Sourced = field(default_factory=lambda: Sourced(lambda _: ()))
    staged: list[Staged] = field(default_factory=list)
    changes: int = 0
    asked: set[tuple[str, datetime]] = field(default_factory=set)
    topology: TopologyRecord = field(default_factory=lambda: TopologyRecord(generation=0))
    mixing: Mixing = field(default_factory=Mixing)
    _expired: set[tuple[str, datetime]] = field(default_factory=set)
    _registered: dict[str, datetime | None] = field(default_factory=dict)
    reads: dict[tuple[str, datetime], tuple[HasRead, ...]] = field(default_factory=dict)

    # --- what tables hold ------------------------------------------------------------------------------------

    def origin(self, table: str, csn: int) -> datetime | None:
        """Where what is visible of *table* at *csn* begins."""
        return next((at for since, at in reversed(self.origins[table]) if since <= csn), None)

    def chain(self, table: str, csn: int) -> tuple[datetime, datetime] | None:
        """Origin and watermark of *table* at *csn*; None before its chain begins."""
        low = self.origin(table, csn)
        if low is None:
            return None
        ends = {
            slice_.interval.start: slice_.interval.end for slice_ in self._slices[table] if slice_.csn <= csn
        }
        high = low
        while high in ends:
            high = ends[high]
        return (low, high) if high > low else None

    def has(self, table: str, epoch: Interval) -> bool:
        """Whether *table* has a slice of *epoch*, visible or not."""
        return any(slice_.interval == epoch for slice_ in self._slices[table])

    def overlapped(self, table: str, epoch: Interval) -> bool:
        """Whether *table* has a slice of another calendar there."""
        return any(
            slice_.interval.overlaps(epoch) and slice_.interval != epoch for slice_ in self._slices[table]
        )

    def starts(self, table: str) -> dict[datetime, datetime]:
        """Where the epochs of *table* begin, by barrier."""
        return {slice_.interval.end: slice_.interval.start for slice_ in self._slices[table]}

    def rewrites(self, table: str) -> int:
        """How often something of *table* was computed again, or where it begins has moved, or was about to (R13)."""
        slices = sorted(self._slices[table], key=lambda found: found.csn)
        again = sum(found.revision > 1 for found in slices)
        lowest = list(accumulate((found.interval.start for found in slices), min))
        lower = sum(now < before for before, now in pairwise(lowest))
        return again + lower + len(self.origins[table][1:]) + len(self.declared_anew[table])

    def last_end(self, tables: Iterable[str]) -> datetime | None:
        """The end of the last epoch that any of *tables* has."""
        return max((slice_.interval.end for table in tables for slice_ in self._slices[table]), default=None)

    def visible(self, table: str, wanted: Range, csn: int, *, stored: bool = False) -> dict[datetime, Slice]:
        """The slices that an edge with the range *wanted* reads at *csn*, by barrier.

        :param stored: those before the origin, too.
        """
        origin = EPOCH_ZERO if stored else self.origin(table, csn)
        if origin is None:
            return {}
        found = {
            slice_.interval.end: slice_
            for slice_ in self._slices[table]
            if slice_.csn <= csn and origin <= slice_.interval.start and slice_.interval.end <= wanted.high
        }
        if self.kinds[table] is TableKind.FULL:
            return {end: slice_ for end, slice_ in found.items() if end == wanted.high}
        return {end: slice_ for end, slice_ in found.items() if wanted.low is None or end > wanted.low}

    def rows(self, table: str, wanted: Range, csn: int) -> Rows:
        slices = self.visible(table, wanted, csn)
        return tuple(sorted((end, value) for end, slice_ in slices.items() for value in slice_.rows))

    def state(self, table: str, barrier: datetime, csn: int) -> Rows:
        """What a reader gets of *table* at *barrier*."""
        return self.rows(table, Range(low=None, high=barrier), csn)

    def barriers(self, table: str) -> list[datetime]:
        """The ends of all slices of *table*, visible or not."""
        return sorted({slice_.interval.end for slice_ in self._slices[table]})

    def stored(self, table: str, csn: int) -> Rows:
        """All rows of an incremental table, those before its origin too."""
        slices = {slice_.interval.end: slice_ for slice_ in self._slices[table] if slice_.csn <= csn}
        return tuple(sorted((end, value) for end, slice_ in slices.items() for value in slice_.rows))

    def common_barrier(self, tables: Iterable[str], csn: int, at: datetime | None) -> datetime | None:
        """The greatest barrier up to *at* that all *tables* have reached at *csn*."""
        common: set[datetime] | None = None
        for table in tables:
            chain = self.chain(table, csn)
            if chain is None:
                return None
            ends = {
                slice_.interval.end
                for slice_ in self._slices[table]
                if slice_.csn <= csn and chain[0] < slice_.interval.end <= chain[1]
            }
            common = ends if common is None else common & ends
        gone = self._expired
        good = [end for end in common or () if at is None or end <= at]
        return max((end for end in good if not any((table, end) in gone for table in tables)), default=None)

    def ready(self, reads: Iterable[Read], epoch: Interval) -> bool:
        """Whether all that *reads* want for *epoch* is there; what lies before an origin is there as a past only."""
        for read in reads:
            wanted, origin = read.range(epoch), self.origin(read.table, self.csn)
            if read.kind is not EdgeKind.PREVIOUS and origin is not None and wanted.high <= origin:
                return False
            known = wanted.low is None or origin is None or origin <= wanted.low
            known = known or read.table in self.declares
            if not known or not self._is_ready(read.table, wanted, self.csn):
                return False
        return True

    def _is_ready(self, table: str, wanted: Range, csn: int) -> bool:
        origin, chain = self.origin(table, csn), self.chain(table, csn)
        if origin is not None and table in self.declares and wanted.high <= origin:
            return True
        if chain is None or wanted.high > chain[1] or wanted.high <= chain[0]:
            return False
        exact = self.kinds[table] is not TableKind.FULL or bool(self.visible(table, wanted, csn))
        return exact and (table, wanted.high) not in self._expired

    def live(self) -> frozenset[str]:
        """Files that attempts have reported which may still publish."""
        found: set[str] = set()
        for staged in self.staged:
            epoch = self.epochs.get((staged.job, staged.start))
            attempt = None if epoch is None else epoch.attempt
            if attempt is not None and attempt.aborted is None and attempt.output_token == staged.token:
                found |= staged.uris
        return frozenset(found)

    def behind(self) -> frozenset[tuple[str, Interval]]:
        """Committed epochs that must be computed again: their source was bound anew."""
        return frozenset(
            (str(behind.job), behind.interval) for behind in self.topology.behind if not behind.until
        )

    def failed_in_vain(self, *, skipped: bool = False) -> list[tuple[str, Interval]]:
        """Epochs of which an attempt that recorded what it reads of the source has failed, or, if *skipped*, died."""

        def failed(epoch: EpochRecord) -> bool:
            last, done = epoch.attempt, epoch.committed
            in_vain = done is None if not skipped else done is not None and bool(done.skipped)
            return (
                in_vain and last is not None and bool(last.sources) and (skipped or last.aborted is not None)
            )

        return [(job, epoch.interval) for (job, _), epoch in self.epochs.items() if failed(epoch)]

    def expire(self, table: str, barrier: datetime) -> None:
        """Take that no reader may read *table* at *barrier* any more."""
        self._expired.add((table, barrier))
        self.changes += 1

    def may_be_expired(self, table: str, barrier: datetime) -> bool:
        return (table, barrier) in self._expired or (table, barrier) in self.asked

    def changed_since(self, table: str, low: datetime | None, high: datetime, csn: int) -> bool:
        """Whether anything of ``[low, high)`` may read otherwise than at *csn*: a slice, or where it begins."""
        origin = self.origin(table, csn)
        moved = any(since > csn for since, _ in self.declared_anew[table])
        for slice_ in self._slices[table]:
            end = slice_.interval.end if origin is None else max(slice_.interval.end, origin)
            if slice_.csn > csn and slice_.interval.start < high and (low is None or low < end):
                return True
        return moved

    # --- what is written ---------------------------------------------------------------------------------------

    def apply(self, transaction: Transaction, receipt: Receipt) -> CommitRecord | None:
        """Take a transaction that the store has applied; return its commit.

        :raises Violation: it breaks an invariant.
        """
        commit = transaction.number.commit if transaction.number else None
        if commit is not None:
            expect(receipt.csn == self.csn + 1, "I2", f"CSN {receipt.csn} after {self.csn}")
            self.csn += 1
        puts = [update for update in transaction.updates if isinstance(update, Put)]
        slices = [put for put in puts if put.key.kind is Kind.SLICE]
        for put in sorted(puts, key=lambda update: update.key.kind is not Kind.EPOCH):
            self._put(put, commit is not None)
        self.source.check_chain(f"after CSN {self.csn}")
        for put in puts:
            self._tell(put)
        if commit is not None and commit.members:
            self._commit(commit, slices)
        elif commit is not None and commit.by == "retention":
            for delta in commit.tables:
                self._expired.add((str(delta.table), delta.interval.end))
        if commit is not None:
            self.deltas[self.csn] = commit.tables
            self.changes += 1
        return commit

    def _tell(self, put: Put) -> None:
        if put.key.kind is Kind.EVENT:
            self._report(put.key, put.record)
        elif put.key.kind is Kind.EPOCH:
            self.source.take(put.key.partition, put.record)
        elif put.key.kind is Kind.JOB:
            self._job(put.record)
        elif put.key.kind is Kind.TOPOLOGY:
            self.topology = put.record
            self.changes += 1

    def _report(self, key: Key[Any], record: AttemptEvent) -> None:
        if record.state is EpochState.WRITTEN and record.committable is not None:
            job, _, start = key.partition.partition("/")
            uris = frozenset(part.uri for part in record.committable.parts)
            for staged in self.staged:
                shared = staged.uris & uris
                expect(not shared, "I6", f"{key}: {shared} are the files of {staged} too")
            self.staged.append(Staged(job=job, start=moment_of(start), token=record.token, uris=uris))

    def _table(self, table: str, record: TableRecord) -> None:
        self._registered[table] = record.progress.origin
        owner = self.owners.setdefault(table, record.job)
        expect(record.job == owner, "R7", f"{table} of {owner} goes to {record.job}")

    def _source(self, key: Key[Any], record: SourceRecord) -> None:
        self.source.record(key, record)

    def _job(self, record: JobRecord) -> None:
        """A table without a commit begins where its job says, or, if the job got it later, behind what that has."""
        before = self.jobs.get(record.name)
        self.jobs[record.name] = record
        self.changes += 1
        others = {str(sink.name) for sink in record.outputs if self.origins[str(sink.name)]}
        ends = self.last_end(others)
        for table in (str(sink.name) for sink in record.outputs):
            known = self.origins[table]
            if record.origin is None:
                continue
            if before is not None and before.origin != record.origin:
                self.declared_anew[table].append((self.csn + 1, record.origin))
            comes = before is None or all(str(sink.name) != table for sink in before.outputs)
            if not known or (comes and self.chain(table, self.csn) is None):
                # A commit may have come between the look of the registration and itself: then that was first.
                start = self._registered[table]
                places = {record.origin, record.origin if ends is None else max(record.origin, ends)}
                # One that comes back is not moved to an earlier origin.
                places |= {at for _, at in known[-1:] if at is not None}
                expect(start in places, "R7", f"{table} begins at {start}, not at one of {places}")
            elif before is not None and self.chain(table, self.csn) is None and known[-1][1] == before.origin:
                start = record.origin
            else:
                continue
            self.declares.add(table)
            known.append((self.csn, start))

    # --- what is committed -------------------------------------------------------------------------------------

    def _commit(self, commit: CommitRecord, slices: Sequence[Put]) -> None:
        """Take a commit with its *slices*: the epochs of one job, all of them or none."""
        where = f"{commit.change_set} at CSN {self.csn}"
        jobs = {member.job for member in commit.members}
        expect(len(jobs) == 1, "R2", f"{where}: members {commit.members}")
        added = {(str(put.key.partition), put.record.interval) for put in slices}
        epochs = {member.interval for member in commit.members}
        expect({epoch for _, epoch in added} == epochs, "R2", f"{where}: slices of {added}")
        for member in commit.members:
            tables = sorted(table for table, epoch in added if epoch == member.interval)
            self._take(member, tables)
        self._check_closure(where)
        for delta in commit.tables:
            table, mark = str(delta.table), self.chain(str(delta.table), self.csn)
            found = None if mark is None else mark[1]
            expect(delta.watermark == found, "I3", f"{where}: {table} says {delta.watermark}, is {found}")

    def _take(self, member: Member, tables: list[str]) -> None:
        """Take an epoch that is committed, with its slices of *tables*."""
        job, epoch, revision = str(member.job), member.interval, member.revision
        done = self.epochs[job, epoch.start].committed
        where = f"{job} {epoch} revision {revision} at CSN {self.csn}"
        assert done is not None
        before = self.committed.get((job, epoch.start))
        expect(revision == (before.revision if before else 0) + 1, "I1", f"{where} over {before}")
        change_set = RevisionId(DOMAIN, member.job, epoch, revision).change_set
        expect(change_set not in self.change_sets, "R15", f"{where}: {change_set} twice")
        kept: tuple[HasRead, ...] = ()
        if done.fills and (job, epoch.start, done.output_token) not in self.begun:
            # A skip that fills: no task has begun it, and the commitment says of itself what it said before, if any.
            done, kept = replace(done, skipped="fills"), self.reads.get((job, epoch.start), ())
        reads = self._reads_of(job, epoch, done, tables, where)
        inputs = {str(provenance.table): provenance for provenance in done.inputs}
        self._check_inputs(reads, epoch, inputs, where, copies=bool(done.skipped))
        version = self.begun.get((job, epoch.start, done.output_token))
        files: Labels = ()
        if not done.skipped and version is not None and version.late is not None:
            files = self.source.commit(job, epoch, done, version.source, where, behind=self.behind())
        else:
            self.source.leave(job, epoch)
        for table in tables:
            self._check_disjoint(table, epoch, where)
            rows = self._expected(table, epoch, done, Found(job=job, inputs=inputs, files=files))
            self._slices[table].append(
                Slice(interval=epoch, csn=self.csn, revision=revision, rows=tuple(rows))
            )
            self._grow(table, epoch)
        self.change_sets[change_set] = self.csn
        self.committed[job, epoch.start] = Committed(
            job=job, interval=epoch, revision=revision, csn=self.csn, inputs=done.inputs
        )
        self.reads[job, epoch.start] = kept + tuple(
            HasRead(
                table=read.table,
                range=read.range(epoch),
                slices=self.seen(
                    read.table, read.range(epoch), inputs[read.table].csn, stored=bool(done.skipped)
                ),
                copies=bool(done.skipped),
                ignores=read.ignores,
            )
            for read in reads
        )
        known, fills = self.reads[job, epoch.start], bool(done.fills)
        self.mixing.stayed.commit(job, tables, epoch.end, self.csn, known, fills=fills)
        own = (version.source if version else "", files)
        mixed = self.mixing.commit(tables, epoch, self.csn, own, known)
        expect(not mixed, "R18", f"{where}: rows of {mixed} of its source")

    def _grow(self, table: str, epoch: Interval) -> None:
        """Let the chain of *table* begin, or begin earlier, in one step."""
        low = self.origin(table, self.csn)
        low = epoch.start if low is None else low
        starts = {slice_.interval.end: slice_.interval.start for slice_ in self._slices[table]}
        while low in starts:
            low = starts[low]
        if low != self.origin(table, self.csn):
            self.origins[table].append((self.csn, low))

    def _reads_of(
        self, job: str, epoch: Interval, done: Commitment, tables: list[str], where: str
    ) -> list[Read]:
        if done.skipped:
            full = [table for table in tables if self.kinds[table] is TableKind.FULL]
            return [Read(table=table, kind=EdgeKind.PREVIOUS) for table in full]
        version = self.begun.get((job, epoch.start, done.output_token))
        expect(version is not None, "R10", f"{where}: no run has begun it with token {done.output_token}")
        assert version is not None
        expect(set(tables) <= set(version.outputs), "R2", f"{where}: {tables}, not {version.outputs}")
        return list(version.reads)

    def _check_inputs(
        self,
        reads: list[Read],
        epoch: Interval,
        inputs: Mapping[str, Provenance],
        where: str,
        *,
        copies: bool,
    ) -> None:
        """What was read was there, and is what stands there now (R3, R13).

        :param copies: a skip, which copies one state of a full table, whatever is missing before it.
        """
        missing = {read.table for read in reads} - set(inputs)
        expect(not missing, "R13", f"{where}: read nothing of {missing}")
        for read in reads:
            wanted, csn = read.range(epoch), inputs[read.table].csn
            ready = self._is_ready(read.table, wanted, csn) or (read.table, wanted.high) in self._expired
            ready = ready or (copies and bool(self.visible(read.table, wanted, csn, stored=True)))
            chain, origin = self.chain(read.table, csn), self.origin(read.table, csn)
            expect(ready, "R3", f"{where}: read {read} for {wanted}, complete was {chain}, {origin=}")
            if read.ignores:
                continue
            then, now = (self.seen(read.table, wanted, at, stored=copies) for at in (csn, self.csn))
            expect(then == now, "I4", f"{where}: read {read.table} at CSN {csn}: {_apart(then, now)}")

    def _check_disjoint(self, table: str, epoch: Interval, where: str) -> None:
        for slice_ in self._slices[table]:
            apart = slice_.interval == epoch or not slice_.interval.overlaps(epoch)
            expect(apart, "I1", f"{where}: {table} has {slice_.interval}")

    def _expected(self, table: str, epoch: Interval, done: Commitment, found: Found) -> list[int]:
        """What the epoch must have written, from what its declaration reads (I7); what a skip leaves (R5)."""
        if done.skipped:
            if self.kinds[table] is not TableKind.FULL:
                return []
            before = Range(low=None, high=epoch.start)
            copied = self.visible(table, before, found.inputs[table].csn, stored=True)
            return [value for slice_ in copied.values() for value in slice_.rows]
        version = self.begun[found.job, epoch.start, done.output_token]
        rows = {
            read.table: self.rows(read.table, read.range(epoch), found.inputs[read.table].csn)
            for read in version.reads
        }
        return output(found.job, table, epoch, rows, found.files)

    def seen(self, table: str, wanted: Range, csn: int, *, stored: bool = False) -> Visible:
        found = self.visible(table, wanted, csn, stored=stored)
        return frozenset((end, slice_.csn) for end, slice_ in found.items())

    def _check_closure(self, where: str) -> None:
        """Nothing that stands has read what is no longer so (I4)."""
        for (job, start), reads in self.reads.items():
            for read in reads:
                if read.ignores:
                    continue
                now = self.seen(read.table, read.range, self.csn, stored=read.copies)
                expect(
                    now == read.slices,
                    "I4",
                    f"{where}: {job} of {start:%H:%M} read {read.table} {read.range}: {_apart(read.slices, now)}",
                )


def _apart(then: Visible, now: Visible) -> str:
    old = sorted(f"{end:%H:%M}@{csn}" for end, csn in then - now)
    new = sorted(f"{end:%H:%M}@{csn}" for end, csn in now - then)
    return f"read {old}, now {new}"
