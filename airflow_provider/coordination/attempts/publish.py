"""Publish: the slices of all sinks of one epoch, or of several, become visible at one CSN, in one transaction (R2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from airflow_provider.coordination.attempts.check import check
from airflow_provider.coordination.attempts.fence import fenced
from airflow_provider.coordination.attempts.member import (
    MemberAttempt,
    commit_event_key,
    events_of_output,
    keys_of,
    open_epoch,
    refuse_staying,
    refuse_unknown,
)
from airflow_provider.coordination.attempts.published_together import PublishedTogether
from airflow_provider.coordination.attempts.reserve import Race
from airflow_provider.coordination.commits.adopt import adopt, replaced_version
from airflow_provider.coordination.commits.catch_up import catch_up, is_torn
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import ALONE, rewrite_requirements
from airflow_provider.coordination.commits.dependents import together as together_by_span
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.pointers import follow, is_pointed, tell_published
from airflow_provider.coordination.commits.register import furthest
from airflow_provider.coordination.commits.regroup import separate
from airflow_provider.coordination.commits.stayed_rows import tables_that_stay
from airflow_provider.coordination.context import Context
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.epoch_id import change_set_of
from airflow_provider.domain.errors import ForeignCommit, TopologyError, Unavailable
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import changes_in_turn, moved_table, refuse_apart
from airflow_provider.domain.records import (
    Stamped,
    fence_of,
    reservation_key,
    rewrite_log_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.registration import refuse_not_own
from airflow_provider.domain.restatement import RestatementRecord, as_committed, change_set_of_restatement
from airflow_provider.domain.rewrites import with_rewrites
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import RewriteLog, TableRecord, shown
from airflow_provider.domain.watermark import merged
from airflow_provider.stores.base import Exists, Put, Reading, RequirementFailed, Transaction
from airflow_provider.tables.base import Prepared, Publication
from airflow_provider.tables.errors import TablesAhead


def publish(context: Context, attempt: Attempt, restating: set[RestatementId] | None = None) -> Published:
    """Make the epoch's slices of all sinks visible at one CSN, or nothing of it (R2).

    :param restating: set that gets the names of the change sets that were open when the topology was read.
    :raises CheckFailed: one of the job's checks refused the output (R14).
    :raises Conflict: inputs were computed again, or got another calendar, meanwhile: begin again (R13). Or others were
        faster 50 times, or for ten minutes: try again (R11).
    :raises Fenced: a newer attempt exists.
    :raises DependentReaders: the attempt is a revision, and committed epochs have read what it would replace.
    :raises InvalidInput: a sink is not WRITTEN.
    """
    (published,) = publish_together(context, [attempt], restating)
    return published


def publish_together(
    context: Context, attempts: Sequence[Attempt], restating: set[RestatementId] | None = None
) -> tuple[Published, ...]:
    """Make the slices of several epochs of one job visible at one CSN, or nothing of them (R2).

    :param attempts: of one run, none of which has read another's output; the answers have their order.
    :param restating: as of :func:`publish`.
    :raises InvalidInput: none, too many, two of one epoch, or of different jobs or runs. Other errors are those of
        :func:`publish`, and name the attempt.
    """
    refuse_apart(attempts)
    for attempt in attempts:
        check(context, attempt)
    request = Publish(context, tuple(attempts))
    published = context.retry(request.run)
    if restating is not None:
        restating |= request.restating
    return published


def publish_members(
    context: Context, attempts: Sequence[Attempt], together: PublishedTogether, race: Race
) -> tuple[Published, ...]:
    """Make the slices of all members of a restatement visible at one CSN, or nothing of them (R28).

    :param attempts: of all members, staged.
    :param race: of the first attempt: it counts what earlier calls for the same attempts have lost.
    :raises Conflict: a member has read other output of the members. Others are those of :func:`publish`.
    """
    return context.retry(partial(Publish(context, tuple(attempts), together).run, race))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slice:
    """Slice that one member adds to a table. :param changes: the time in which it changes rows that were visible."""

    member: MemberAttempt
    changes: Interval | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sink:
    """All that publishing needs of one output table, as it was read.

    :param hot: its record, which every publish of the table writes. :param slices: in the order of time.
    """

    table: Table
    hot: Stamped[TableRecord]
    log: Stamped[RewriteLog]
    slices: tuple[_Slice, ...]

    @property
    def intervals(self) -> tuple[Interval, ...]:
        return tuple(piece.member.interval for piece in self.slices)

    @property
    def replaced(self) -> tuple[Interval, ...]:
        """The epochs whose present slices leave the table."""
        return tuple(span for span in self.intervals if self.hot.record.progress.covers(span))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Decided:
    """Decision of one try at publishing, and the versions that it prepared."""

    commit: CommitBuilder
    members: list[MemberAttempt]
    sinks: list[_Sink]
    prepared: list[tuple[Publication, Prepared]]


@dataclass(frozen=True, slots=True)
class Publish:
    """One request to publish; ``run`` may be repeated with the same answer.

    :param together: the restatement that they are members of; None for epochs that are published by their own run.
    :param verified: slices whose staged output was found. Later tries of this request do not look again.
    :param restating: names of the change sets that were open when the topology was read.
    """

    context: Context
    attempts: tuple[Attempt, ...]
    together: PublishedTogether | None = None
    verified: set[tuple[Interval, TableName]] = field(default_factory=set, repr=False)
    restating: set[RestatementId] = field(default_factory=set, repr=False)

    @property
    def _domain(self) -> DomainName:
        return self.attempts[0].domain

    @property
    def _tables(self) -> tuple[Table, ...]:
        """Output tables of all attempts."""
        return tuple({sink.name: sink for attempt in self.attempts for sink in attempt.sinks}.values())

    @property
    def _within(self) -> RestatementRecord | None:
        return None if self.together is None else self.together.stamped.record

    @property
    def _change_set(self) -> ChangeSetId:
        if self.together is not None:
            return change_set_of_restatement(self.together.name, self.together.stamped.record.kind)
        return change_set_of(self.attempts)

    def run(self, race: Race | None = None) -> tuple[Published, ...]:
        """Try at once; after a loss wait in the publish queue; after several lost races reserve the head."""
        return (race or Race(self.context, self.attempts[0])).run(self._try)

    def _try(self, race: Race) -> tuple[Published, ...] | None:
        store, attempts = self.context.store, self.attempts
        reading = self._read()
        for attempt in attempts:
            refuse_unknown(store, attempt, reading)
        topology = reading.get(topology_key(self._domain))
        refuse_elsewhere(self._domain, topology, self.context.formats)
        self.restating.update(() if topology is None else topology.record.restating)
        events = (reading.get(commit_event_key(attempt)) for attempt in attempts)
        done = [event for event in events if event is not None]
        if len(done) == len(attempts):
            follow(self.context.formats, reading, self._tables)
            return self._published([event.csn or 0 for event in done])
        if self.together is not None:
            self.together.refuse_changed(reading)
        # A member that an earlier version of the DAG has published alone is refused here, as Fenced.
        epochs = [open_epoch(store, attempt, reading) for attempt in attempts]
        # Waits while another publisher holds the head; what it returns is required at the write.
        reserved = race.look(reading)
        if any(is_torn(attempt, reading) for attempt in attempts):
            return None
        members = [
            MemberAttempt.of(store, attempt, epoch, reading, self.together)
            for attempt, epoch in zip(attempts, epochs, strict=True)
        ]
        sinks = self._sinks(reading, members)
        commit = CommitBuilder(self._domain, reading, self.context.defaults)
        commit.require(*self._rewrite_requirements(reading, sinks))
        commit.require(*(needed for member in members for needed in member.required(reading)), *reserved)
        if not self._verify(sinks):
            return None
        prepared = self._prepare_all(sinks, commit)
        if prepared is None:
            return None
        decided = _Decided(commit=commit, members=members, sinks=sinks, prepared=prepared)
        commit.update(*race.ending())
        transaction = self._transaction(decided)
        try:
            receipt = store.transact(transaction)
        except RequirementFailed:
            self.context.note_contention(self._domain)
            return None
        tell_published(self.context.formats, prepared)
        csn, at = receipt.csn or 0, receipt.at
        return tuple(
            Published.of(attempt, csn, commit.deltas, at, attempt.incarnation) for attempt in attempts
        )

    def _read(self) -> Reading:
        domain, sinks = self._domain, self._tables
        keys = [
            # Read before the tables, and required at the write: an epoch open here was open when they were read.
            *(key for attempt in self.attempts for key in (fence_of(attempt), commit_event_key(attempt))),
            topology_key(domain),
            reservation_key(domain),
            *([] if self.together is None else [self.together.stamped.key]),
            *(table_key(domain, sink.name) for sink in sinks),
            *(rewrite_log_key(domain, sink.name) for sink in sinks),
            *(key for attempt in self.attempts for key in keys_of(attempt)),
        ]
        keys = list(dict.fromkeys(keys))
        return self.context.store.read(domain, keys, pointers=self.context.formats.swapped(sinks))

    def _sinks(self, reading: Reading, members: Sequence[MemberAttempt]) -> list[_Sink]:
        """Return the sinks in the order of their names.

        :raises TopologyError: a table's calendar has changed, or it has another owner.
        """
        found, by_table = [], dict[Table, list[MemberAttempt]]()
        for member in sorted(members, key=lambda member: member.interval):
            for table in member.published:
                by_table.setdefault(table, []).append(member)
        for table, adding in sorted(by_table.items(), key=lambda item: item[0].name):
            hot = reading.of(table_key(self._domain, table.name))
            for member in adding:
                _refuse_moved(member.attempt, table, hot.record)
            changes = changes_in_turn(hot.record.progress, [member.interval for member in adding])
            slices = (
                _Slice(member=member, changes=span) for member, span in zip(adding, changes, strict=True)
            )
            log = reading.of(rewrite_log_key(self._domain, table.name))
            found.append(_Sink(table=table, hot=hot, log=log, slices=tuple(slices)))
        return found

    def _rewrite_requirements(self, reading: Reading, sinks: list[_Sink]) -> list[Exists]:
        """Return requirements that fail if a reader commits on what this commit replaces; none if it replaces nothing.

        :raises DependentReaders: committed epochs have read it.
        """
        domain, own = self._domain, [sink.table.name for sink in sinks]
        store, topology = self.context.store, reading.of(topology_key(domain))
        beside = ALONE if self.together is None else self.together.beside
        return [
            required
            for commits, spans in _changed(sinks).items()
            for span, names in together_by_span(spans).items()
            for required in rewrite_requirements(
                store,
                domain,
                names,
                span,
                topology,
                defaults=self.context.defaults,
                own=own,
                commits=commits,
                beside=beside,
            )
        ]

    def _verify(self, sinks: list[_Sink]) -> bool:
        """Return True if all staged output is there; False if a log changed meanwhile: publish decides anew.

        The log changes when a participant begins again: its newer try deletes what the earlier one has staged.

        :raises Unavailable: output was deleted since it was WRITTEN (I6). :raises Fenced: a newer attempt exists.
        """
        store = self.context.store
        for table, member in ((sink.table, piece.member) for sink in sinks for piece in sink.slices):
            attempt, known = member.attempt, (member.interval, table.name)
            if known in self.verified:
                continue
            try:
                self.context.formats[table.format].verify(table, member.output[table.name])
            except Unavailable:
                now = self._read()
                epoch = now.get(fence_of(attempt))
                if epoch is None or epoch.version != attempt.fence:
                    raise fenced(store, attempt) from None
                if events_of_output(store, attempt, member.record, now) != member.log:
                    return False
                raise
            self.verified.add(known)
        return True

    def _prepare_all(
        self, sinks: list[_Sink], commit: CommitBuilder
    ) -> list[tuple[Publication, Prepared]] | None:
        """Prepare every sink; None when another commit moved a table since it was read (R11: try again on it)."""
        separated = False
        try:
            if any(self._separate(sink) for sink in sinks):
                return None
            separated = True
            return [self._prepare(sink, commit) for sink in sinks]
        except (ForeignCommit, TablesAhead, Unavailable) as error:
            if isinstance(error, ForeignCommit):  # an adoption moves the table: publish decides anew (R17)
                if separated and any(self._replaced(sink) is not None for sink in sinks):
                    return None  # they came after the version was decided
                for sink in sinks:
                    adopt(self.context, sink.table, met=error, within=self._within)
            now = self.context.store.read(self._domain, [sink.hot.key for sink in sinks])
            if all(now.of(sink.hot.key).version == sink.hot.version for sink in sinks):
                raise
            return None

    def _replaced(self, sink: _Sink) -> int | None:
        return replaced_version(self.context, sink.table, sink.hot.record, sink.replaced, self._within)

    def _separate(self, sink: _Sink) -> bool:
        """Take the epochs that are replaced out of files with the rows of others; return whether there were any."""
        return separate(self.context, sink.hot, sink.replaced, by=str(self.attempts[0].owner))

    def _prepare(self, sink: _Sink, commit: CommitBuilder) -> tuple[Publication, Prepared]:
        before = sink.hot.record
        shows = shown(before, before.progress.adding(*sink.intervals), self.context.store.format)
        last = sink.slices[-1].member
        publication = replace(
            commit.next_version(sink.table, before.ref, shows, self._change_set),
            removes=sink.replaced,
            adds=tuple(
                (piece.member.interval, committable)
                for piece in sink.slices
                for committable in piece.member.output[sink.table.name]
            ),
            pointed=is_pointed(commit.reading, sink.table),
            adopts=self._replaced(sink),
            revision=last.attempt.revision if len(sink.slices) == 1 else 0,
            token=last.record.output_token,
        )
        return publication, self.context.formats[sink.table.format].prepare(publication)

    def _transaction(self, decided: _Decided) -> Transaction:
        commit, members = decided.commit, decided.members
        before = [(member.attempt, member.epoch.record.committed) for member in members]
        stay = tables_that_stay(self.context.store, before)
        if self.together is not None:
            refuse_staying(self.together.name, list(zip(members, stay, strict=True)))
            self.together.publish(commit, [(sink.table.name, sink.hot.record) for sink in decided.sinks])
        for member in members:
            commit.hold(*member.held(commit.reading))
        catch_up(
            commit,
            [(member.attempt, member.record, names) for member, names in zip(members, stay, strict=True)],
            ends=None if self.together is None else self.together.name,
            released=() if self.together is None else self.together.stamped.record.released_jobs,
        )
        refs = {
            sink.table.name: version.ref
            for sink, (_, version) in zip(decided.sinks, decided.prepared, strict=True)
        }
        for member, names in zip(members, stay, strict=True):
            inputs = as_committed(member.record.inputs, commit.csn, refs)
            commit.update(*member.updates(self._change_set, names, inputs))
        for sink, (publication, version) in zip(decided.sinks, decided.prepared, strict=True):
            self._show(commit, sink, publication, version)
        by = str(self.attempts[0].owner)
        return commit.transaction(self._change_set, by=by, members=[member.member for member in members])

    def _show(self, commit: CommitBuilder, sink: _Sink, publication: Publication, version: Prepared) -> None:
        """Make the prepared version of *sink* the table's newest, with the records of its slices."""
        before, intervals = sink.hot.record, sink.intervals
        moved = moved_table(before, intervals, version.ref, sink.table.column_changes)
        if not before.progress.islands:
            # The table's first commit: cuts of the whole domain did not wait for it until now. They wait
            # for it only beyond the furthest watermark, so that none goes back (section 6).
            moved = replace(moved, joins=furthest(self.context.store, self._domain))
        hull = Interval(intervals[0].start, max(span.end for span in intervals))
        told = before.progress.told_with(moved.progress, hull)
        if told != hull:
            publication = replace(publication, revision=0)  # no revision is that of several epochs
        commit.show(sink.hot, moved, told, publication, version)
        for piece in sink.slices:
            commit.update(piece.member.slice_update(sink.table.name, self._change_set))
        # Only a commit that changes what readers may have read writes the rewrite log. Readers require the log's
        # version when they publish, so they do not collide with any other commit.
        changes = [piece.changes for piece in sink.slices if piece.changes is not None]
        if changes:
            commit.hold(sink.log)
            commit.update(
                Put(sink.log.key, with_rewrites(sink.log, changes, commit.csn, self.context.defaults))
            )

    def _published(self, csns: Sequence[int]) -> tuple[Published, ...]:
        """Return the answers to earlier calls that published each attempt at its CSN, from the commit records."""
        commits = {csn: self.context.store.changes(self._domain, csn - 1, limit=1)[0] for csn in set(csns)}
        return tuple(
            Published.of(attempt, csn, commits[csn].record.tables, commits[csn].at, attempt.incarnation)
            for attempt, csn in zip(self.attempts, csns, strict=True)
        )


def _changed(sinks: Sequence[_Sink]) -> dict[Interval, dict[TableName, Interval | None]]:
    """Return the time that changes in each table, by the epoch whose commit changes it.

    Adjacent epochs of a table that change nothing but themselves count as one: who has read a part of them is the same.
    """
    changed: dict[Interval, dict[TableName, Interval | None]] = {}
    for sink in sinks:
        own = [piece.member.interval for piece in sink.slices if piece.changes == piece.member.interval]
        for span in merged(own):
            changed.setdefault(span, {})[sink.table.name] = span
        for piece in sink.slices:
            if piece.changes != piece.member.interval:
                changed.setdefault(piece.member.interval, {})[sink.table.name] = piece.changes
    return changed


def _refuse_moved(attempt: Attempt, table: Table, record: TableRecord) -> None:
    """:raises TopologyError: the calendar of *table* has changed, or it has another owner."""
    refuse_not_own(attempt.job, table.name, record)
    if record.cadence.ending_at(attempt.interval.end) != attempt.interval:
        raise TopologyError(
            f"{attempt}: the calendar of {table.name!r} is {record.cadence} now.",
            next_step="run the epochs that it has instead.",
            table=table.name,
            found=str(record.cadence),
        )
