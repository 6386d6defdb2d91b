"""What the store has been told so far, kept a second time in the simplest way, and what must be true of it.

The model sees each transaction that was applied, in order, and derives slices, watermarks, closure and contents
from the commits alone: no rewrite log, manifest, pointer or progress record of the package has a say in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from airflow_provider.domain.epoch import Commitment, Provenance
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.version import CommitRecord, TableRecord
from airflow_provider.stores.base import Put, Receipt, Transaction
from tests.simulator.cascade import (
    HOUR,
    IGNORED,
    JOBS,
    KINDS,
    LAPSING,
    MOST_ROWS,
    ORIGIN,
    OWNERS,
    Range,
    Rows,
    barrier_after,
    is_barrier,
    output,
    reads,
    reads_of_skip,
    within,
)
from tests.simulator.history import Committed, History, Slice, expect, moment_of


@dataclass(slots=True)
class Model(History):
    """The history of the cascade.

    :ivar bounds: files of the source, by barrier.
    :ivar owners: of tables. :ivar ended: tables that are retired. :ivar slowed: tables whose cadence has changed.
    :ivar heard: when each job was last heard of.
    """

    bounds: dict[datetime, tuple[str, ...]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    slowed: set[str] = field(default_factory=set)
    heard: dict[str, datetime] = field(default_factory=dict)
    _chains: dict[tuple[str, int], tuple[datetime, datetime] | None] = field(default_factory=dict)
    _joined: dict[str, int] = field(default_factory=dict)

    # --- what tables hold ------------------------------------------------------------------------------------

    def current(self, table: str, csn: int) -> dict[datetime, Slice]:
        """The newest slice of each epoch at *csn*, by barrier."""
        return {one.interval.end: one for one in self._slices[table] if one.csn <= csn}

    def rows(self, table: str, low: datetime | None, high: datetime, csn: int) -> Rows:
        """The rows of *table* in ``[low, high)`` at *csn*."""
        slices = self.current(table, csn)
        found = [(barrier, value) for barrier, one in slices.items() for value in one.rows]
        return within(tuple(sorted(found)), low, high)

    def state(self, table: str, barrier: datetime, csn: int) -> Rows:
        """What a reader gets of *table*: all rows up to *barrier*, of a full table those of its last slice."""
        rows = self.visible(table, None, barrier, csn)
        full = KINDS[table] is TableKind.FULL
        return tuple(one for one in rows if one[0] == barrier) if full else rows

    def visible(self, table: str, low: datetime | None, high: datetime, csn: int) -> Rows:
        """The rows of *table* in ``[low, high)`` that its readers see: none of before its origin."""
        chain = self.chain(table, csn)
        starts = [one for one in (low, chain[0] if chain else None) if one is not None]
        return self.rows(table, max(starts, default=None), high, csn)

    def chain(self, table: str, csn: int) -> tuple[datetime, datetime] | None:
        """Origin and watermark of *table* at *csn*, which is no later than now; None before its chain begins."""
        if (table, csn) not in self._chains:
            self._chains[table, csn] = self._chain(table, csn)
        return self._chains[table, csn]

    def _chain(self, table: str, csn: int) -> tuple[datetime, datetime] | None:
        slices = self.current(table, csn)
        starts = {one.interval.start: one.interval.end for one in slices.values()}
        one = JOBS[OWNERS[table]]
        if one.job.origin is not None:
            low = one.job.origin
        else:
            first = min(self._slices[table], key=lambda slice_: slice_.csn, default=None)
            if first is None or first.csn > csn:
                return None
            low = first.interval.start
            ends = {end: start for start, end in starts.items()}
            while low in ends:
                low = ends[low]
        high = low
        while high in starts:
            high = starts[high]
        return (low, high) if high > low else None

    def common_barrier(self, tables: Iterable[str], csn: int, at: datetime | None) -> datetime | None:
        """The greatest barrier up to *at* that all *tables* have reached at *csn*."""
        chains = [self.chain(table, csn) for table in tables]
        known = [one for one in chains if one is not None]
        if len(known) < len(chains):
            return None
        origin, highest = max(low for low, _ in known), min(high for _, high in known)
        ends = {end for table in tables for end in self.current(table, csn)}
        good = [
            end
            for end in ends
            if origin < end <= highest
            and (at is None or end <= at)
            and all(is_barrier(table, end, slowed=table in self.slowed) for table in tables)
        ]
        return max(good, default=None)

    # --- whom nobody waits for -----------------------------------------------------------------------------------

    def inactive(self, now: datetime) -> frozenset[str]:
        """Jobs that have let so many hours begin in silence as they declare (R9), all of them hourly."""
        hours = {
            job: (now - ORIGIN) // HOUR - (self.heard[job] - ORIGIN) // HOUR
            for job in LAPSING
            if job in self.heard
        }
        return frozenset(job for job, silent in hours.items() if silent >= LAPSING[job])

    def published_by_all(self, csn: int, inactive: frozenset[str]) -> datetime | None:
        """The last moment up to which all tables that anybody waits for have published all of their barriers."""
        limits = []
        for table in self.owners:
            if table not in self.ended and self.owners[table] not in inactive and self.current(table, csn):
                chain = self.chain(table, csn)
                mark = chain[1] if chain else ORIGIN + JOBS[OWNERS[table]].skips * HOUR
                limit = barrier_after(table, mark, slowed=table in self.slowed) - timedelta(microseconds=1)
                limits.append(max(limit, self._joins(table) or limit))
        return min(limits, default=None)

    def _joins(self, table: str) -> datetime | None:
        """How far the domain had come when *table* first committed, or came back: so far nobody waits for it."""
        came = max(min(one.csn for one in self._slices[table]), self._joined.get(table, 0))
        chains = [self.chain(one, came - 1) for one in list(self._slices)]
        return max((one[1] for one in chains if one is not None), default=None)

    def refused(self) -> list[tuple[str, Interval]]:
        """Epochs that have no commit, and of which checks have refused an output."""
        names = sorted(
            {(job, start) for job, start, _ in self._check_failed if (job, start) not in self.committed}
        )
        return [(job, self.epochs[job, start].interval) for job, start in names]

    def _source(self, key: Key[Any], record: SourceRecord) -> None:
        uris = tuple(one.uri for one in record.bounds.files)
        self.bounds[moment_of(key.item.partition(":")[0])] = uris

    # --- what is written ---------------------------------------------------------------------------------------

    def apply(self, transaction: Transaction, receipt: Receipt) -> CommitRecord | None:
        """Take a transaction that the store has applied; return its commit.

        :raises Violation: it breaks an invariant.
        """
        commit = transaction.number.commit if transaction.number else None
        if commit is not None:
            expect(receipt.csn == self.csn + 1, "I2", f"CSN {receipt.csn} after {self.csn}")
            self.csn += 1
        puts = [one for one in transaction.updates if isinstance(one, Put)]
        for put in sorted(puts, key=lambda one: one.key.kind is not Kind.EPOCH):
            self._put(put, commit is not None)
            if put.key.kind is Kind.JOB:
                self.heard[put.record.name] = receipt.at
        if commit is not None and commit.members:
            self._commit(commit, {put.key: put.record for put in puts})
            self.heard[commit.members[0].job] = receipt.at
        return commit

    def _table(self, table: str, record: TableRecord) -> None:
        """A table has one owner until it is retired, and a calendar changes only before all that is there (R7).

        An owner of which nothing has come loses it again to the job before, when that is revived.
        """
        owner = self.owners.get(table, record.job)
        is_idle = table in self._joined and all(job != owner for job, _ in self.committed)
        free = table in self.ended or is_idle
        expect(record.job == owner or free, "R7", f"{table} of {owner} goes to {record.job}")
        self.owners[table] = record.job
        if table in self.ended and not record.ended:
            self._joined[table] = self.csn
        self.ended = self.ended | {table} if record.ended else self.ended - {table}
        if record.cadence.before is not None and table not in self.slowed:
            ends = [one.interval.end for one in self._slices[table]]
            expect(
                all(is_barrier(table, end, slowed=True) for end in ends), "R7", f"{table} is slowed: {ends}"
            )
            self.slowed.add(table)

    # --- what is committed -------------------------------------------------------------------------------------

    def _commit(self, commit: CommitRecord, records: dict[Key[Any], Any]) -> None:
        expect(len(commit.members) == 1, "R2", f"members {commit.members}")
        member = commit.members[0]
        job, interval, revision = str(member.job), member.interval, member.revision
        epoch = self.epochs[job, interval.start]
        done = epoch.committed
        where = f"{job} {interval} revision {revision} at CSN {self.csn}"
        expect(done is not None and done.revision == revision, "R2", f"{where}: the epoch's record disagrees")
        assert done is not None
        before = self.committed.get((job, interval.start))
        expect(revision == (before.revision if before else 0) + 1, "I1", f"{where} over {before}")
        expect(commit.change_set not in self.change_sets, "R15", f"{where}: {commit.change_set} twice")
        sinks = {str(table.name) for table in JOBS[job].job.outputs}
        expect({str(one.table) for one in commit.tables} == sinks, "R2", f"{where}: not {sorted(sinks)}")
        wanted = reads_of_skip(job, interval) if done.skipped else reads(job, interval)
        self._check_inputs(job, dict(wanted), done.inputs, where)
        self._check_readers(sinks, interval, where)
        self._check_topology(job, sinks, interval, where)
        for delta in commit.tables:
            rows = (
                self.left(str(delta.table), done.inputs)
                if done.skipped
                else self.expected(job, str(delta.table), interval, done.inputs)
            )
            self._check_checks(job, done, interval, rows, where)
            self._chains.pop((str(delta.table), self.csn), None)
            self._slices[str(delta.table)].append(
                Slice(interval=interval, csn=self.csn, revision=revision, rows=tuple(rows))
            )
        self.change_sets[commit.change_set] = self.csn
        self.deltas[self.csn] = commit.tables
        self.committed[job, interval.start] = Committed(
            job=job, interval=interval, revision=revision, csn=self.csn, inputs=done.inputs
        )
        self._check_watermarks(commit, records, where)

    def expected(self, job: str, sink: str, interval: Interval, inputs: Iterable[Provenance]) -> list[int]:
        """What an epoch must have written, from the inputs that it recorded (I7)."""
        found = {str(one.table): self.visible(str(one.table), one.low, one.high, one.csn) for one in inputs}
        files = self.bounds[interval.end] if JOBS[job].job.sources else ()
        return output(job, sink, interval, found, files)

    def left(self, sink: str, inputs: Iterable[Provenance]) -> list[int]:
        """What a skipped epoch has: nothing, or of a full table what was there before (R5)."""
        before = next((one for one in inputs if one.table == sink), None)
        found = () if before is None else self.rows(sink, before.low, before.high, before.csn)
        return [value for _, value in found]

    def _check_topology(self, job: str, sinks: Iterable[str], interval: Interval, where: str) -> None:
        """Tables are the job's own, and not retired; the epoch is one of their calendar, beside the others (R7, I1)."""
        for table in sinks:
            expect(self.owners[table] == job, "R7", f"{where}: {table} belongs to {self.owners[table]}")
            expect(table not in self.ended, "R7", f"{where}: {table} is retired")
            slowed = table in self.slowed
            expect(is_barrier(table, interval.end, slowed=slowed), "R7", f"{where}: no barrier, {slowed=}")
            for one in self._slices[table]:
                apart = one.interval == interval or not one.interval.overlaps(interval)
                expect(apart, "I1", f"{where}: {table} has {one.interval}")

    def _check_checks(
        self, job: str, done: Commitment, interval: Interval, rows: Sequence[int], where: str
    ) -> None:
        """What a job's checks would refuse is not published, nor what nobody has asked them about (R14)."""
        if not JOBS[job].job.checks or done.skipped:
            return
        expect(len(rows) <= MOST_ROWS, "R14", f"{where}: {len(rows)} rows")
        tokens = {(job, interval.start, one) for one in (done.token, done.output_token)}
        expect(bool(tokens & self._checked), "R14", f"{where}: nobody has checked it")
        expect(not tokens & self._check_failed, "R14", f"{where}: it failed a check")

    def _check_inputs(
        self, job: str, wanted: Mapping[str, Range], inputs: tuple[Provenance, ...], where: str
    ) -> None:
        """The inputs are those that the job declares, were there when they were read, and still are (I4, R13)."""
        found = {str(one.table): (one.low, one.high) for one in inputs}
        expect(found == wanted, "R13", f"{where}: read {found}")
        for one in inputs:
            table = str(one.table)
            chain = self.chain(table, one.csn)
            origin = JOBS[OWNERS[table]].job.origin
            ready = origin is not None and one.high <= origin
            ready = ready or (chain is not None and one.high <= chain[1])
            expect(ready, "R3", f"{where}: read {table} up to {one.high}, complete was {chain}")
            if (job, table) in IGNORED:
                continue
            for slice_ in self._slices[table]:
                changed = slice_.csn > one.csn and slice_.interval.meets(one.low, one.high)
                expect(not changed, "I4", f"{where}: read {table} at CSN {one.csn}, which {slice_} changed")

    def _check_readers(self, sinks: set[str], interval: Interval, where: str) -> None:
        """Nobody has committed on what this commit changes (I4)."""
        for reader in self.committed.values():
            for one in reader.inputs:
                if str(one.table) in sinks and (reader.job, str(one.table)) not in IGNORED:
                    expect(not interval.meets(one.low, one.high), "I4", f"{where} changes what {reader} read")

    def _check_watermarks(self, commit: CommitRecord, records: dict[Key[Any], Any], where: str) -> None:
        for delta in commit.tables:
            table = str(delta.table)
            now, before = self.chain(table, self.csn), self.chain(table, self.csn - 1)
            mark = now[1] if now else None
            expect(delta.watermark == mark, "I3", f"{where}: {table} says {delta.watermark}, not {mark}")
            back = before is not None and (mark is None or mark < before[1])
            expect(not back, "I3", f"{where}: {table} from {before} to {mark}")
            record = next(one for key, one in records.items() if key.kind is Kind.TABLE and key.item == table)
            same = delta.ref is not None and record.ref.lasting() == delta.ref.lasting()
            expect(same, "R2", f"{where}: {table} is {record.ref} and {delta.ref}")
            expect(record.progress.watermark == mark, "I3", f"{where}: {table} {record.progress}")
