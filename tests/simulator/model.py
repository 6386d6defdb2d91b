"""What the store has been told so far, kept a second time in the simplest way, and what must be true of it.

The model sees each transaction that was applied, in order, and derives slices, watermarks, closure and contents
from the commits alone: no rewrite log, manifest, pointer or progress record of the package has a say in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from airflow_provider.domain.epoch import AttemptRecord, Commitment, Provenance
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.restatement import Decision, RestatementRecord, epochs_of
from airflow_provider.domain.rollback import Rollback
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.version import CommitRecord, Member, TableRecord
from airflow_provider.stores.base import Put, Receipt, Transaction
from tests.simulator.cascade import (
    DOMAIN,
    FAR,
    HOLDING,
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
    code_of,
    is_barrier,
    output,
    reads,
    reads_of_skip,
)
from tests.simulator.contents import Contents
from tests.simulator.grouped import Grouped, outdated, staged_at
from tests.simulator.history import Committed, Slice, expect, moment_of
from tests.simulator.restated import Epoch, Restated
from tests.simulator.rolled import Rolled

_INPUTS_FIRST = {job: number for number, job in enumerate(JOBS)}


@dataclass(frozen=True, kw_only=True, slots=True)
class LetGo:
    """A committed epoch that was released: the commit *csn* has replaced what it has read of *source*."""

    epoch: Committed
    source: str
    csn: int


@dataclass(slots=True)
class Model(Contents):
    """The history of the cascade.

    :ivar bounds: files of the source, by barrier.
    :ivar owners: of tables. :ivar ended: tables that are retired.
    :ivar heard: when each job was last heard of. :ivar restated: restatements. :ivar let_go: epochs that were released.
    :ivar skipped: epochs that were ever skipped. :ivar groups: barriers of the commit group. :ivar rolled: rollbacks.
    """

    bounds: dict[datetime, tuple[str, ...]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    heard: dict[str, datetime] = field(default_factory=dict)
    restated: Restated = field(default_factory=Restated)
    let_go: list[LetGo] = field(default_factory=list)
    skipped: set[tuple[str, Interval]] = field(default_factory=set)
    groups: Grouped = field(default_factory=Grouped)
    rolled: Rolled = field(default_factory=Rolled)
    _joined: dict[str, int] = field(default_factory=dict)

    def staged(self, name: str) -> dict[Epoch, int]:
        """The token under which the output of each staged member of the restatement *name* lies."""
        found = {}
        for job, start in self.restated.members(name):
            attempt = self.epochs[job, start].attempt
            if attempt is not None and attempt.restated_by == name and attempt.staged:
                found[job, start] = attempt.output_token
        return found

    def unstaged(self, name: str) -> set[Epoch]:
        return set(self.restated.members(name)) - set(self.staged(name))

    def has_readers(self, name: str) -> bool:
        """Whether attempts that are under way have read what the restatement *name* changes."""
        members = set(self.restated.members(name))
        return any(
            epoch.attempt is not None
            and epoch.attempt.aborted is None
            and epoch.attempt.restatement is None
            and members & self.read_by(job, epoch.interval, minds=True)
            for (job, _), epoch in self.epochs.items()
        )

    def reads_restated(self, job: str, interval: Interval) -> bool:
        """Whether *job* reads for *interval* what an open restatement computes again."""
        members = {
            member
            for name in filter(self.restated.is_open, self.restated.records)
            for member in self.restated.members(name)
        }
        return bool(members & self.read_by(job, interval))

    def is_refused(self, name: str) -> bool:
        """Whether checks have refused a member of the restatement *name*."""
        attempts = [self.epochs[member].attempt for member in self.restated.members(name)]
        return any(
            attempt is not None and attempt.restatement == name and attempt.check_failed
            for attempt in attempts
        )

    def read_by(self, job: str, interval: Interval, *, minds: bool = False) -> set[Epoch]:
        """The committed epochs that *job* reads for *interval*, by the tables' first owners.

        :param minds: without those that it does not mind to change.
        """
        return {
            (OWNERS[table], slice_.interval.start)
            for table, (low, high) in reads(job, interval).items()
            for slice_ in self.slices(table)
            if slice_.interval.meets(low, high) and not (minds and (job, table) in IGNORED)
        }

    def state_with(self, table: str, barrier: datetime, csn: int, staged: Mapping[Epoch, int]) -> Rows:
        """What a reader would get of *table* if the members *staged* were published (R29)."""
        chain, full = self.chain(table, csn), KINDS[table] is TableKind.FULL
        new = {
            self.epochs[job, start].interval.end: self._staged_rows(table, (job, start), csn, staged)
            for job, start in staged
            if any(sink.name == table for sink in JOBS[job].job.outputs)
        }
        kept = [row for row in self.state(table, barrier, csn) if row[0] not in new]
        shown = [end for end in new if (end == barrier if full else chain and chain[0] < end <= barrier)]
        return tuple(sorted([*kept, *((end, value) for end in shown for value in new[end])]))

    def _staged_rows(
        self, table: str, place: Epoch, csn: int, staged: Mapping[Epoch, int]
    ) -> tuple[int, ...]:
        """What the member at *place* has staged; a skipped one what the epoch before has, staged or committed (R5)."""
        job, start = place
        attempt, before = self.epochs[place].attempt, (job, start - JOBS[job].hours * HOUR)
        if attempt is None or not attempt.skips:
            return self.written[job, start, staged[place], table]
        if before in staged:
            return self._staged_rows(table, before, csn, staged)
        return tuple(value for _, value in self.state(table, start, csn))

    def closure(self, asked: Iterable[Epoch]) -> set[Epoch]:
        """The epochs *asked* for, and all committed ones that have read them, directly or through others.

        By edges that neither ignore revisions nor hold them.
        """
        found, new = set[Epoch](), set(asked)
        while new:
            found |= new
            changed = [
                (str(sink.name), self.epochs[job, start].interval)
                for job, start in new
                for sink in JOBS[job].job.outputs
            ]
            new = {
                place
                for place, reader in self.committed.items()
                if place not in found
                and any(
                    self._has_read(reader, table, span)
                    for table, span in changed
                    if (reader.job, table) not in HOLDING
                )
            }
        return found

    def _refuse_unread(self, name: str, record: RestatementRecord) -> None:
        """A run takes into a restatement only what committed epochs have read, and what it asks for with that."""
        before = self.restated.records.get(name)
        known = set(epochs_of(before.asked)) if before is not None else set()
        new = [(str(job), span) for job, span in epochs_of(record.asked) if (job, span) not in known]
        if not (record.rerun_of and new):
            return
        expect(
            any(self.is_read(*epoch) for epoch in new), "R28", f"{name}: no committed epoch has read {new}"
        )

    def is_read(self, job: str, interval: Interval) -> bool:
        """Whether committed epochs have read what *job* has written for *interval*, and mind that it changes."""
        tables = [str(sink.name) for sink in JOBS[job].job.outputs]
        return any(
            self._has_read(reader, table, interval) for reader in self.committed.values() for table in tables
        )

    def is_restated(self, inputs: Iterable[Provenance]) -> bool:
        """Whether a restatement has changed something of *inputs* since they were read."""
        csns = set(self.restated.csns.values())
        return any(
            slice_.csn > read.csn and slice_.csn in csns and slice_.interval.meets(read.low, read.high)
            for read in inputs
            for slice_ in self._slices[str(read.table)]
        )

    @staticmethod
    def _has_read(reader: Committed, table: str, span: Interval) -> bool:
        """Whether *reader* minds that *span* of *table* changes."""
        return (reader.job, table) not in IGNORED and any(
            read.table == table and span.meets(read.low, read.high) for read in reader.inputs
        )

    def stale(self, table: str, barrier: datetime, csn: int) -> list[LetGo]:
        """The epochs of *table* up to *barrier* whose rows at *csn* are older than what they were released from."""
        slices = self.current(table, csn)
        return [
            let_go
            for let_go in self.let_go
            if let_go.csn <= csn
            and let_go.epoch.interval.end <= barrier
            and any(sink.name == table for sink in JOBS[let_go.epoch.job].job.outputs)
            and let_go.epoch.interval.end in slices
            and slices[let_go.epoch.interval.end].csn == let_go.epoch.csn
        ]

    # --- what no reader waits for --------------------------------------------------------------------------------

    def inactive(self, now: datetime) -> frozenset[str]:
        """Jobs that have let so many hours begin in silence as they declare (R9), all of them hourly."""
        hours = {
            job: (now - ORIGIN) // HOUR - (self.heard[job] - ORIGIN) // HOUR
            for job in LAPSING
            if job in self.heard
        }
        return frozenset(job for job, silent in hours.items() if silent >= LAPSING[job])

    def published_by_all(self, csn: int, inactive: frozenset[str]) -> datetime | None:
        """The last moment up to which all tables that a reader waits for have published all of their barriers."""
        limits = []
        for table in self.owners:
            if table not in self.ended and self.owners[table] not in inactive and self.current(table, csn):
                chain = self.chain(table, csn)
                mark = chain[1] if chain else ORIGIN + JOBS[OWNERS[table]].skips * HOUR
                limit = barrier_after(table, mark, slowed=table in self.slowed) - timedelta(microseconds=1)
                limits.append(max(limit, self._joins(table) or limit))
        return min(limits, default=None)

    def _joins(self, table: str) -> datetime | None:
        """Return the newest barrier before *table* first committed, or came back: readers wait from there on."""
        came = max(min(slice_.csn for slice_ in self.slices(table)), self._joined.get(table, 0))
        chains = [self.chain(name, came - 1) for name in list(self._slices)]
        return max((chain[1] for chain in chains if chain is not None), default=None)

    def refused(self) -> list[tuple[str, Interval]]:
        """Epochs that have no commit, and of which checks have refused an output."""
        names = sorted(
            {(job, start) for job, start, _ in self._check_failed if (job, start) not in self.committed}
        )
        return [(job, self.epochs[job, start].interval) for job, start in names]

    def _source(self, key: Key[Any], record: SourceRecord) -> None:
        uris = tuple(file.uri for file in record.bounds.files)
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
        puts = [update for update in transaction.updates if isinstance(update, Put)]
        rollback = self.rolled.watch(transaction, receipt)
        for put in sorted(puts, key=lambda update: update.key.kind is not Kind.EPOCH):
            if put.key.kind is Kind.EPOCH:
                before = self.epochs.get((put.key.partition, put.record.interval.start))
                self._hold(put, before.attempt if before else None, receipt.at)
            self._put(put, commit is not None)
            if put.key.kind is Kind.RESTATEMENT and put.record.is_group:
                self.groups.put(put.key.item, put.record, rolled_back=rollback is not None)
            elif put.key.kind is Kind.RESTATEMENT:
                asked = [
                    (str(of_job.job), each.start) for of_job in put.record.asked for each in of_job.intervals
                ]
                joined = self._decided(put.record, Decision.JOINED)
                self._refuse_unread(put.key.item, put.record)
                copied = self.restated.members(put.record.reverts or "")
                closure = self.closure([*asked, *joined, *copied])
                self.restated.put(put.key.item, put.record, closure, receipt.at)
            if put.key.kind is Kind.JOB:
                self.heard[put.record.name] = receipt.at
        if rollback is not None:
            assert commit is not None
            self._roll_back(rollback, commit, {put.key: put.record for put in puts})
        if commit is not None and commit.members:
            self._commit(commit, {put.key: put.record for put in puts})
            self.heard.update((str(member.job), receipt.at) for member in commit.members)
        return commit

    def _hold(self, put: Put, before: AttemptRecord | None, at: datetime) -> None:
        if before is not None and before.restated_by in self.groups.records:
            self.groups.hold(put.key, before, put.record)
        else:
            self.restated.hold(put.key, before, put.record, at)

    def stalled(self, start: datetime) -> list[str]:
        """The jobs of the group that have to be computed, again or at last, for their barrier to be published."""
        left = [job for job in self.groups.jobs if (job, start) not in self.committed]
        return [
            job
            for job in left
            if not self.is_staged_at(job, start) or outdated(self.epochs, (job, start), self._changed_since)
        ]

    def is_staged_at(self, job: str, start: datetime) -> bool:
        """Whether the output of the epoch waits for the commit of a group or a restatement."""
        return staged_at(self.epochs, (job, start)) is not None

    def _changed_since(self, read: Provenance) -> bool:
        return any(
            (slice_.csn > read.csn or self.is_gone_since(slice_, read.csn))
            and slice_.interval.meets(read.low, read.high)
            for slice_ in self._slices[str(read.table)]
        )

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
            ends = [slice_.interval.end for slice_ in self.slices(table)]
            expect(
                all(is_barrier(table, end, slowed=True) for end in ends), "R7", f"{table} is slowed: {ends}"
            )
            self.slowed.add(table)

    def _decided(self, record: RestatementRecord, decision: Decision) -> set[Epoch]:
        epochs = [(job, committed.interval) for (job, _), committed in self.committed.items()]
        return Restated.decided(record, decision, epochs)

    # --- what is taken back ------------------------------------------------------------------------------------

    def _roll_back(self, told: Rollback, commit: CommitRecord, records: dict[Key[Any], Any]) -> None:
        """Take a rollback: all epochs go that were first committed since, and nothing else changes (R30).

        The tables have the rows, and the watermarks, that they had at its CSN.
        """
        gone, where = self.rolled.since(told.to, self.committed), f"rollback to {told.to} at CSN {self.csn}"
        found = {
            (str(key.partition), record.interval.start): record
            for key, record in records.items()
            if key.kind is Kind.EPOCH
        }
        expect(set(found) == gone, "R30", f"{where} takes back {sorted(found)}, not {sorted(gone)}")
        marked = [key for key in records if key.kind is Kind.SLICE]
        since: dict[str, int] = {}
        spans: dict[Epoch, Interval] = {}
        for place in gone:
            known, record = self.committed.pop(place), found[place]
            spans[place] = known.interval
            done, left = record.taken_back, record.attempt
            same = record.committed is None and (done.revision, done.csn) == (known.revision, self.csn)
            expect(same, "R30", f"{where} leaves {place} as {record}")
            expect(left is None or left.aborted is not None, "R10", f"{where}: {left} may go on")
            for table in (str(sink.name) for sink in JOBS[place[0]].job.outputs):
                mine = [slice_ for slice_ in self.slices(table) if slice_.interval == known.interval]
                since[table] = min([since.get(table, self.csn), *(slice_.csn for slice_ in mine)])
                keys = [
                    key
                    for key in marked
                    if key.partition == table and moment_of(key.item.split(":")[0]) == place[1]
                ]
                expect(len(keys) == len(mine), "R30", f"{where} marks {keys} of {table}, which had {mine}")
                for slice_ in mine:
                    self._slices[table][self._slices[table].index(slice_)] = replace(slice_, until=self.csn)
        wanted = sum(slice_.until == self.csn for slices in self._slices.values() for slice_ in slices)
        expect(len(marked) == wanted, "R30", f"{where} marks {len(marked)} slices, not {wanted}")
        expect(
            {str(delta.table) for delta in commit.tables} == set(since), "R2", f"{where}: not {sorted(since)}"
        )
        expect(
            {str(table.table): table.since for table in told.tables} == since,
            "R20",
            f"{where}: {told}, not {since}",
        )
        self.groups.taken_back(gone)
        self.rolled.make(told, spans, since, self.csn)
        self.deltas[self.csn] = commit.tables
        for table in list(self._slices):
            self._chains.pop((table, self.csn), None)
            for what in (self.chain, lambda table, csn: self.rows(table, None, FAR, csn)):
                now, then = what(table, self.csn), what(table, told.to)
                expect(now == then, "R30", f"{where}: {table} has {now}, and had {then}")
        self._check_watermarks(commit, records, where, rolled_back=True)

    # --- what is committed -------------------------------------------------------------------------------------

    def _commit(self, commit: CommitRecord, records: dict[Key[Any], Any]) -> None:
        """Take the members in the order in which they read each other: those of a restatement do, at its CSN."""
        members = sorted(commit.members, key=lambda member: (member.interval.end, _INPUTS_FIRST[member.job]))
        tokens = [self._commitment(member).output_token for member in members]
        group = self.groups.published(members, records, self.committed, self.csn)
        restatement = (
            None if group is not None else self.restated.published(members, tokens, records, self.csn)
        )
        for member in members if group is None else ():
            self.groups.refuse_alone(member, self.committed, skipped=bool(self._commitment(member).skipped))
        together = {(str(member.job), member.interval.start) for member in members}
        released = set() if restatement is None else self._decided(restatement, Decision.RELEASED) - together
        sinks = {str(table.name) for member in members for table in JOBS[member.job].job.outputs}
        where = f"{commit.change_set} at CSN {self.csn}"
        expect({str(delta.table) for delta in commit.tables} == sinks, "R2", f"{where}: not {sorted(sinks)}")
        by = next((name for name, csn in self.restated.csns.items() if csn == self.csn), None)
        for member in members:
            self._member(member, together, released, by)
        self.deltas[self.csn] = commit.tables
        self._check_watermarks(commit, records, where)

    def _commitment(self, member: Member) -> Commitment:
        done = self.epochs[member.job, member.interval.start].committed
        is_same = done is not None and done.revision == member.revision
        expect(is_same, "R2", f"{member} at CSN {self.csn}: the epoch's record disagrees")
        assert done is not None
        return done

    def _member(self, member: Member, together: set[Epoch], released: set[Epoch], by: str | None) -> None:
        """Take one epoch of a commit.

        :param together: all of them. :param released: those that stay beside it.
        :param by: the restatement that it publishes, if it does. A revert gives epochs their former rows.
        """
        job, interval, revision = str(member.job), member.interval, member.revision
        done, where = self._commitment(member), f"{job} {interval} revision {revision} at CSN {self.csn}"
        before = self.committed.get((job, interval.start))
        expect(
            revision == self.rolled.revisions.get((job, interval.start), 0) + 1,
            "I1",
            f"{where} over {before}",
        )
        expect(member.is_first == (before is None), "R30", f"{where} over {before}: {member}")
        change_set = RevisionId(DOMAIN, member.job, interval, revision).change_set
        expect(change_set not in self.change_sets, "R15", f"{where}: {change_set} twice")
        sinks = {str(table.name) for table in JOBS[job].job.outputs}
        wanted = reads_of_skip(job, interval) if done.skipped else reads(job, interval)
        self._check_inputs(job, dict(wanted), done.inputs, where)
        self._check_readers(sinks, interval, together, released, where)
        self._check_topology(job, sinks, interval, where)
        for table in sorted(sinks):
            if done.skipped:
                rows = self.left(table, done.inputs)
            elif (former := self._former(table, (job, interval), by)) is not None:
                rows = former
            else:
                rows = self.expected(job, table, interval, done.inputs, revision)
            self._check_checks(job, done, interval, rows, where)
            self._chains.pop((table, self.csn), None)
            self._slices[table].append(
                Slice(interval=interval, csn=self.csn, revision=revision, rows=tuple(rows))
            )
        self.change_sets[change_set] = self.csn
        if done.skipped:
            self.skipped.add((job, interval))
        self.rolled.took(job, interval, revision, self.csn, first=before is None, by=by)
        self.committed[job, interval.start] = Committed(
            job=job, interval=interval, revision=revision, csn=self.csn, inputs=done.inputs
        )

    def _former(self, table: str, epoch: tuple[str, Interval], by: str | None) -> list[int] | None:
        """Return the rows of *epoch* in *table* that the revert *by* brings back; None for other commits."""
        reverts = None if by is None else self.restated.records[by].reverts
        job, interval = epoch
        if reverts is None or (job, interval.start) not in self.restated.members(reverts):
            return None
        return list(self.current(table, self.restated.csns[reverts] - 1)[interval.end].rows)

    def expected(
        self, job: str, sink: str, interval: Interval, inputs: Iterable[Provenance], revision: int
    ) -> list[int]:
        """What an epoch must have written, from the inputs that it recorded (I7)."""
        found = {
            str(read.table): self.visible(str(read.table), read.low, read.high, read.csn) for read in inputs
        }
        files = self.bounds[interval.end] if JOBS[job].job.sources else ()
        return output(job, sink, interval, found, files, code=code_of(job, revision))

    def left(self, sink: str, inputs: Iterable[Provenance]) -> list[int]:
        """What a skipped epoch has: nothing, or of a full table what was there before (R5)."""
        before = next((read for read in inputs if read.table == sink), None)
        found = () if before is None else self.rows(sink, before.low, before.high, before.csn)
        return [value for _, value in found]

    def _check_topology(self, job: str, sinks: Iterable[str], interval: Interval, where: str) -> None:
        """Tables are the job's own, and not retired; the epoch is one of their calendar, beside the others (R7, I1)."""
        for table in sinks:
            expect(self.owners[table] == job, "R7", f"{where}: {table} belongs to {self.owners[table]}")
            expect(table not in self.ended, "R7", f"{where}: {table} is retired")
            slowed = table in self.slowed
            expect(is_barrier(table, interval.end, slowed=slowed), "R7", f"{where}: no barrier, {slowed=}")
            for slice_ in self.slices(table):
                apart = slice_.interval == interval or not slice_.interval.overlaps(interval)
                expect(apart, "I1", f"{where}: {table} has {slice_.interval}")

    def _check_checks(
        self, job: str, done: Commitment, interval: Interval, rows: Sequence[int], where: str
    ) -> None:
        """Expect that the checks of a job were asked about what it has published, and accept it (R14)."""
        if not JOBS[job].job.checks or done.skipped:
            return
        expect(len(rows) <= MOST_ROWS, "R14", f"{where}: {len(rows)} rows")
        tokens = {(job, interval.start, token) for token in (done.token, done.output_token)}
        expect(bool(tokens & self._checked), "R14", f"{where}: no process has checked it")
        expect(not tokens & self._check_failed, "R14", f"{where}: it failed a check")

    def _check_inputs(
        self, job: str, wanted: Mapping[str, Range], inputs: tuple[Provenance, ...], where: str
    ) -> None:
        """The inputs are those that the job declares, were there when they were read, and still are (I4, R13)."""
        found = {str(read.table): (read.low, read.high) for read in inputs}
        expect(found == wanted, "R13", f"{where}: read {found}")
        for read in inputs:
            table = str(read.table)
            chain = self.chain(table, read.csn)
            origin = JOBS[OWNERS[table]].job.origin
            ready = origin is not None and read.high <= origin
            ready = ready or (chain is not None and read.high <= chain[1])
            expect(ready, "R3", f"{where}: read {table} up to {read.high}, complete was {chain}")
            expect(not self.takes_back([read]), "R13", f"{where}: read {read}, which was rolled back since")
            if (job, table) in IGNORED:
                continue
            for slice_ in self._slices[table]:
                changed = slice_.csn > read.csn and slice_.interval.meets(read.low, read.high)
                expect(not changed, "I4", f"{where}: read {table} at CSN {read.csn}, which {slice_} changed")

    def _check_readers(
        self, sinks: set[str], interval: Interval, together: set[Epoch], released: set[Epoch], where: str
    ) -> None:
        """No epoch has committed on what this commit changes, but those computed again *together* with it (I4).

        Or those *released* from what they have read by an edge that holds.
        """
        for place, reader in self.committed.items():
            for table in sinks:
                if place in together or not self._has_read(reader, table, interval):
                    continue
                stays = place in released and (reader.job, table) in HOLDING
                expect(stays, "I4", f"{where} changes what {reader} read")
                self.let_go.append(LetGo(epoch=reader, source=table, csn=self.csn))

    def _check_watermarks(
        self, commit: CommitRecord, records: dict[Key[Any], Any], where: str, *, rolled_back: bool = False
    ) -> None:
        for delta in commit.tables:
            table = str(delta.table)
            now, before = self.chain(table, self.csn), self.chain(table, self.csn - 1)
            mark = now[1] if now else None
            expect(delta.watermark == mark, "I3", f"{where}: {table} says {delta.watermark}, not {mark}")
            back = before is not None and (mark is None or mark < before[1])
            expect(rolled_back or not back, "I3", f"{where}: {table} from {before} to {mark}")
            record = next(
                written for key, written in records.items() if key.kind is Kind.TABLE and key.item == table
            )
            same = delta.ref is not None and record.ref.lasting() == delta.ref.lasting()
            expect(same, "R2", f"{where}: {table} is {record.ref} and {delta.ref}")
            expect(record.progress.watermark == mark, "I3", f"{where}: {table} {record.progress}")
