"""Publish: every sink's slice becomes visible at one CSN, in one transaction (R2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider.coordination.attempts.check import check, refuse_unchecked
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.fill import refuse_other_rows
from airflow_provider.coordination.attempts.join import unjoined
from airflow_provider.coordination.attempts.reserve import Race
from airflow_provider.coordination.attempts.state_log import checked_key, state_log, written_keys
from airflow_provider.coordination.attempts.validate import refuse_invalid
from airflow_provider.coordination.commits.adopt import adopt
from airflow_provider.coordination.commits.catch_up import catch_up, is_torn, refuse_behind_inputs
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import rewrite_requirements, together
from airflow_provider.coordination.commits.pointers import follow, is_pointed
from airflow_provider.coordination.commits.register import furthest
from airflow_provider.coordination.commits.source_dependents import later_keys, newest_required
from airflow_provider.coordination.commits.stayed_rows import tables_that_stay
from airflow_provider.coordination.commits.warehouses import refuse_other_warehouse
from airflow_provider.coordination.context import Context
from airflow_provider.domain.attempt_events import written_output
from airflow_provider.domain.epoch import (
    Attempt,
    AttemptEvent,
    AttemptRecord,
    Commitment,
    EpochRecord,
    EpochState,
    Published,
)
from airflow_provider.domain.errors import ForeignCommit, InvalidInput, TopologyError, Unavailable
from airflow_provider.domain.filling import beside, filled, inputs_to_validate
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import moved_table, slice_of
from airflow_provider.domain.records import (
    Key,
    Stamped,
    event_key,
    fence_of,
    lock_of,
    reservation_key,
    rewrite_log_key,
    slice_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import refuse_not_own
from airflow_provider.domain.rewrites import with_rewrite
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import (
    Committable,
    Member,
    RewriteLog,
    TableDelta,
    TableRecord,
    shown,
)
from airflow_provider.stores.base import Delete, Exists, Put, Reading, RequirementFailed, Transaction
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.errors import TablesAhead


def publish(context: Context, attempt: Attempt) -> Published:
    """Make the epoch's slices of all sinks visible at one CSN, or nothing of it (R2).

    :raises CheckFailed: one of the job's checks refused the output (R14).
    :raises Conflict: inputs were computed again, or got another calendar, meanwhile: begin again (R13).
    :raises Fenced: a newer attempt exists.
    :raises DependentReaders: the attempt is a revision, and committed epochs have read what it would replace.
    :raises InvalidInput: a sink is not WRITTEN.
    """
    check(context, attempt)
    return context.retry(Publish(context, attempt).run)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sink:
    """All that publishing needs of one sink, as it was read."""

    table: Table
    hot: Stamped[TableRecord]
    log: Stamped[RewriteLog]
    output: tuple[Committable, ...]
    changes: Interval | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Decided:
    """Decision of one try at publishing, and the versions that it prepared."""

    commit: CommitBuilder
    epoch: Stamped[EpochRecord]
    record: AttemptRecord
    sinks: list[_Sink]
    prepared: list[tuple[Publication, Prepared]]


@dataclass(frozen=True, slots=True)
class Publish:
    """One request to publish; ``run`` may be repeated with the same answer.

    :param verified: tables whose staged output was found. Later tries of this request do not look again.
    """

    context: Context
    attempt: Attempt
    verified: set[TableName] = field(default_factory=set, repr=False)

    def run(self) -> Published:
        """Try at once; after a loss wait in the publish queue; after several lost races reserve the head."""
        return Race(self.context, self.attempt).run(self._try)

    def _try(self, race: Race) -> Published | None:
        attempt = self.attempt
        reading = self._read()
        key = fence_of(attempt)
        epoch = reading.get(key)
        if epoch is None or reading.head.incarnation != attempt.incarnation:
            raise fenced(self.context.store, attempt)
        refuse_other_warehouse(
            attempt.domain, reading.get(topology_key(attempt.domain)), self.context.formats.warehouse
        )
        done = reading.get(self._log_key)
        if done is not None:
            follow(self.context.formats, reading, attempt.sinks)
            return self._published(done.csn or 0)
        record = epoch.record.attempt
        if epoch.version != attempt.fence or record is None or record.token != attempt.token:
            raise fenced(self.context.store, attempt)
        reserved = race.look(reading)
        if is_torn(attempt, reading):
            return None
        refuse_invalid(attempt, inputs_to_validate(record, epoch.record), reading)
        refuse_behind_inputs(attempt, record, reading)
        log = self._written(reading, record)
        sinks = self._sinks(reading, record, log)
        # A fill reads the same bounds as the commit that it completes: newer bounds do not matter.
        newest = () if record.fills else record.sources
        sources = newest_required(attempt, newest, reading)
        commit = CommitBuilder(attempt.domain, reading, self.context.defaults)
        commit.require(
            *self._rewrite_requirements(reading, sinks), *unjoined(attempt, log), *sources, *reserved
        )
        if not self._verify(sinks, record, log):
            return None
        prepared = self._prepare_all(sinks, commit, record)
        if prepared is None:
            return None
        decided = _Decided(commit=commit, epoch=epoch, record=record, sinks=sinks, prepared=prepared)
        commit.update(*race.ending())
        transaction = self._transaction(decided)
        try:
            receipt = self.context.store.transact(transaction)
        except RequirementFailed:
            self.context.note_contention(attempt.domain)
            return None
        for sink, (publication, version) in zip(sinks, prepared, strict=True):
            self.context.formats[sink.table.format].published(publication, version)
        return self._answer(receipt.csn or 0, receipt.at, commit.deltas)

    def _read(self) -> Reading:
        attempt = self.attempt
        domain = attempt.domain
        return self.context.store.read(
            domain,
            [
                fence_of(attempt),
                self._log_key,
                topology_key(domain),
                reservation_key(domain),
                *(table_key(domain, sink.name) for sink in attempt.sinks),
                *(rewrite_log_key(domain, sink.name) for sink in attempt.sinks),
                *(rewrite_log_key(domain, read.table) for read in attempt.inputs),
                *later_keys(attempt, attempt.sources),
                *written_keys(attempt, attempt.token),
                *([checked_key(attempt, attempt.token)] if attempt.checks else []),
            ],
            pointers=self.context.formats.swapped(attempt.sinks),
        )

    @property
    def _log_key(self) -> Key[AttemptEvent]:
        return event_key(self.attempt, self.attempt.token, EpochState.COMMIT)

    def _sinks(self, reading: Reading, record: AttemptRecord, log: list[AttemptEvent]) -> list[_Sink]:
        attempt = self.attempt
        names = [sink.name for sink in attempt.sinks]
        output = written_output(log, names, token=record.output_token, participants=record.participants)
        unwritten = [name for name in names if name not in output]
        if unwritten:
            raise InvalidInput(
                f"{attempt}: not WRITTEN: {', '.join(unwritten)}.",
                next_step="write every declared output, an empty one too, before the epoch ends.",
                field="outputs",
                value=sorted(output),
                expected=str([str(name) for name in names]),
            )
        refuse_unchecked(self.context.store, attempt, reading, record)
        refuse_other_rows(self.context.store, attempt, () if record.skips else record.fills, output)
        found = []
        published = [sink for sink in attempt.sinks if sink.name in (record.fills or names)]
        for sink in sorted(published, key=lambda sink: sink.name):
            hot = reading.of(table_key(attempt.domain, sink.name))
            refuse_not_own(attempt.job, sink.name, hot.record)
            if hot.record.cadence.ending_at(attempt.interval.end) != attempt.interval:
                raise TopologyError(
                    f"{attempt}: the calendar of {sink.name!r} is {hot.record.cadence} now.",
                    next_step="run the epochs that it has instead.",
                    table=sink.name,
                    found=str(hot.record.cadence),
                )
            found.append(
                _Sink(
                    table=sink,
                    hot=hot,
                    log=reading.of(rewrite_log_key(attempt.domain, sink.name)),
                    output=output[sink.name],
                    changes=hot.record.progress.changed_by(attempt.interval),
                )
            )
        return found

    def _written(self, reading: Reading, record: AttemptRecord) -> list[AttemptEvent]:
        """Return the events of the output. With one writer *reading* has them, unless the output is adopted."""
        attempt = self.attempt
        if attempt.is_shared:
            log = state_log(self.context.store, attempt)
            return [event.record for event in log]
        keys = written_keys(attempt, record.output_token)
        if record.adopts is not None:
            reading = self.context.store.read(attempt.domain, keys)
        return [reading.of(key).record for key in keys if key in reading.records]

    def _rewrite_requirements(self, reading: Reading, sinks: list[_Sink]) -> list[Exists]:
        """Return requirements that fail if a reader commits on what this commit replaces; none if it replaces nothing.

        :raises DependentReaders: committed epochs have read it.
        """
        domain, own = self.attempt.domain, [sink.table.name for sink in sinks]
        spans = {sink.table.name: sink.changes for sink in sinks}
        store, topology = self.context.store, reading.of(topology_key(domain))
        defaults, commits = self.context.defaults, self.attempt.interval
        return [
            required
            for span, names in together(spans).items()
            for required in rewrite_requirements(
                store, domain, names, span, topology, defaults=defaults, own=own, commits=commits
            )
        ]

    def _verify(self, sinks: list[_Sink], record: AttemptRecord, log: list[AttemptEvent]) -> bool:
        """Return True if all staged output is there; False if the log changed meanwhile: publish decides anew.

        The log changes when a participant begins again: its newer try deletes what the earlier one has staged.

        :raises Unavailable: output was deleted since it was WRITTEN (I6). :raises Fenced: a newer attempt exists.
        """
        attempt, store = self.attempt, self.context.store
        for sink in sinks:
            if sink.table.name in self.verified:
                continue
            try:
                self.context.formats[sink.table.format].verify(sink.table, sink.output)
            except Unavailable:
                now = self._read()
                epoch = now.get(fence_of(attempt))
                if epoch is None or epoch.version != attempt.fence:
                    raise fenced(store, attempt) from None
                if self._written(now, record) != log:
                    return False
                raise
            self.verified.add(sink.table.name)
        return True

    def _prepare_all(
        self, sinks: list[_Sink], commit: CommitBuilder, record: AttemptRecord
    ) -> list[tuple[Publication, Prepared]] | None:
        """Prepare every sink; None when another commit moved a table since it was read (R11: try again on it)."""
        try:
            return [self._prepare(sink, commit, record) for sink in sinks]
        except (ForeignCommit, TablesAhead, Unavailable) as error:
            if isinstance(error, ForeignCommit):  # an adoption moves the table: publish decides anew (R17)
                for sink in sinks:
                    if sink.table.on_foreign_commit is OnForeignCommit.ADOPT:
                        adopt(self.context, sink.table)
            now = self.context.store.read(self.attempt.domain, [sink.hot.key for sink in sinks])
            if all(now.of(sink.hot.key).version == sink.hot.version for sink in sinks):
                raise
            return None

    def _prepare(
        self, sink: _Sink, commit: CommitBuilder, record: AttemptRecord
    ) -> tuple[Publication, Prepared]:
        attempt, before = self.attempt, sink.hot.record
        replaced = before.progress.covers(attempt.interval)
        shows = shown(before, before.progress.adding(attempt.interval), self.context.store.format)
        publication = replace(
            commit.next_version(sink.table, before.ref, shows, attempt.change_set),
            removes=(attempt.interval.end,) if replaced else (),
            adds=tuple((attempt.interval, committable) for committable in sink.output),
            pointed=is_pointed(commit.reading, sink.table),
            revision=attempt.revision,
            token=record.output_token,
        )
        return publication, self.context.formats[sink.table.format].prepare(publication)

    def _transaction(self, decided: _Decided) -> Transaction:
        commit, epoch, record = decided.commit, decided.epoch, decided.record
        attempt = self.attempt
        inputs = (rewrite_log_key(attempt.domain, read.table) for read in record.inputs)
        # A newer attempt writes the epoch's record (R10), and a rewrite of an input writes that input's rewrite log
        # (R13): either of them makes this transaction fail.
        commit.hold(epoch, *(commit.reading.of(key) for key in inputs))
        stay = tables_that_stay(self.context.store, attempt, epoch.record.committed)
        catch_up(commit, attempt, record, stay)
        commit.update(
            Put(epoch.key, self._committed_epoch(epoch.record, record, stay)),
            Delete(lock_of(attempt)),
            self._log(record),
        )
        for sink, (publication, version) in zip(decided.sinks, decided.prepared, strict=True):
            before = sink.hot.record
            moved = moved_table(before, attempt.interval, version.ref, sink.table.column_changes)
            if not before.progress.islands:
                # The table's first commit: cuts of the whole domain did not wait for it until now. They wait
                # for it only beyond the furthest watermark, so that none goes back (section 6).
                moved = replace(moved, joins=furthest(self.context.store, attempt.domain))
            commit.show(sink.hot, moved, attempt.interval, publication, version)
            self._add_slice(commit, sink, record)
        member = Member(job=attempt.job, interval=attempt.interval, revision=attempt.revision)
        return commit.transaction(attempt.change_set, by=str(attempt.owner), members=[member])

    def _committed_epoch(
        self, epoch: EpochRecord, record: AttemptRecord, stay: tuple[TableName, ...]
    ) -> EpochRecord:
        attempt = self.attempt
        commitment = Commitment(
            revision=attempt.revision,
            token=attempt.token,
            output_token=record.output_token,
            owner=attempt.owner,
            change_set=attempt.change_set,
            inputs=record.inputs,
            skipped=record.skips,
            source_revisions=tuple((bounds.source, bounds.revision) for bounds in record.sources),
            names_sources=True,
        )
        committed = filled(epoch.committed, commitment, record.fills)
        if stay and epoch.committed is not None:
            committed = beside(epoch.committed, committed)
        return replace(epoch, attempt=None, committed=committed, committed_csn=None)

    def _log(self, record: AttemptRecord) -> Put:
        attempt = self.attempt
        log = AttemptEvent(
            state=EpochState.COMMIT,
            sink="",
            token=record.token,
            participant=0,
            owner=attempt.owner,
            note=f"skipped: {record.skips}" if record.skips else "",
        )
        return Put(self._log_key, log)

    def _add_slice(self, commit: CommitBuilder, sink: _Sink, record: AttemptRecord) -> None:
        attempt = self.attempt
        key = slice_key(attempt, sink.table.name)
        commit.update(Put(key, slice_of(attempt, sink.output, record.output_token)))
        # Only a commit that changes what readers may have read writes the rewrite log. Readers require the log's
        # version when they publish, so they do not collide with any other commit.
        if sink.changes is not None:
            commit.hold(sink.log)
            commit.update(Put(sink.log.key, with_rewrite(sink.log, sink.changes, self.context.defaults)))

    def _published(self, csn: int) -> Published:
        """Return the answer to an earlier call that published at *csn*, from its commit record."""
        found = self.context.store.changes(self.attempt.domain, csn - 1, limit=1)[0]
        return self._answer(csn, found.at, found.record.tables)

    def _answer(self, csn: int, at: datetime, tables: Sequence[TableDelta]) -> Published:
        """The same for the first call and for each repetition."""
        return Published.of(self.attempt, csn, tables, at, self.attempt.incarnation)
