"""Revert of a restatement: its epochs get the rows back that it has replaced, by one commit (R30).

It is a restatement itself, whose members copy rows instead of computing them. The versions with these rows are held by
a lease since the restatement was published (docs/decisions/restatement.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from airflow_provider.coordination.attempts.begin_within import begin_within
from airflow_provider.coordination.attempts.bounds_provider import Proposed
from airflow_provider.coordination.attempts.renew import heartbeat
from airflow_provider.coordination.attempts.report import complete, processed, written
from airflow_provider.coordination.attempts.stage import stage
from airflow_provider.coordination.attempts.staging import place
from airflow_provider.coordination.commits.alter import copied_columns
from airflow_provider.coordination.commits.history import commits_between
from airflow_provider.coordination.commits.table_commits import ADOPTED_BY
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.members_now import job_of
from airflow_provider.coordination.upkeep.skip import copy_within
from airflow_provider.domain.cut import State
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.epoch import Attempt, Commitment, Provenance
from airflow_provider.domain.errors import (
    NotReady,
    StoreIncompatible,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import (
    fence_of,
    lease_key,
    rewrite_log_key,
    source_key,
    table_key,
)
from airflow_provider.domain.restatement import (
    JobEpochs,
    RestatementRecord,
    change_set_of_restatement,
    held_state,
    lease_of_restatement,
    name_of_revert,
)
from airflow_provider.domain.rewrites import rewritten_since
from airflow_provider.domain.source_bounds import BoundsRequest, SourceBounds
from airflow_provider.domain.topology import Job, OnUpstreamRevision, Table
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.checks import existing

if TYPE_CHECKING:
    import pyarrow as pa

Member = tuple[JobName, Interval]
_LISTED = 5


class _FormerBounds(Proposed):
    """Provider of the bounds that former rows have read, in place of those that the restatement has recorded."""

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        """Return whether *recorded* are the former bounds."""
        return recorded.same_as(self.bounds(asked))


@dataclass(frozen=True, slots=True)
class Reverting:
    """The members of the published restatement *name*, which get their former rows back.

    :param stamped: its record. :param is_open: the revert is open: a refusal says how to end it.
    """

    context: Context
    domain: DomainName
    name: RestatementId
    stamped: Stamped[RestatementRecord]
    is_open: bool = False

    def former(self) -> dict[Member, Commitment]:
        """Return what each member had committed before.

        :raises TopologyError: a member was computed again since, or for the first time after it had been skipped, or
            ignores revisions; or it has rows of another program, adopted since.
        """
        found: dict[Member, Commitment] = {}
        adopted = self._adopted()
        ours = change_set_of_restatement(self.name)
        for job, interval in self.stamped.record.epochs:
            key = fence_of(self._job(job).epoch(interval))
            stamped = self.context.store.read(self.domain, [key]).get(key)
            epoch = None if stamped is None else stamped.record
            if epoch is None:
                raise self._refused(job, interval, "was dropped since")
            if epoch.committed is None and epoch.taken_back is not None:
                raise self._refused(job, interval, "was rolled back since")
            if epoch.committed is None or epoch.committed.change_set != ours or epoch.replaced is None:
                raise self._refused(job, interval, "was computed again since")
            if epoch.replaced.skipped and not epoch.committed.skipped:
                raise self._refused(job, interval, "was skipped before")
            for table in self._job(job).outputs:
                for csn, span in adopted.get(table.name, ()):
                    if interval.overlaps(span):
                        why = f"has rows of another program in {table.name}, adopted since (CSN {csn})"
                        raise self._refused(job, interval, why)
            found[job, interval] = epoch.replaced
        return found

    def _adopted(self) -> dict[TableName, list[tuple[int, Interval]]]:
        """Return the adoptions since the restatement was published: the former rows lack what they have taken over."""
        head = self.context.store.read(self.domain, []).head.csn
        found: dict[TableName, list[tuple[int, Interval]]] = {}
        for commit in commits_between(self.context.store, self.domain, self.stamped.csn or 0, head):
            for delta in commit.record.tables if commit.record.by == ADOPTED_BY else ():
                found.setdefault(delta.table, []).append((commit.csn or 0, delta.interval))
        return found

    def held(self) -> dict[TableName, State]:
        """Return the states that the tables had before. :raises Unavailable: nothing holds them any more."""
        key = lease_key(self.domain, lease_of_restatement(self.name))
        stamped: Stamped[LeaseRecord] | None = self.context.store.read(self.domain, [key]).get(key)
        if stamped is None:
            raise Unavailable(
                f"restatement {self.name!r} cannot be reverted: the versions before it are not held any more.",
                next_step="open a restatement that computes the former rows.",
            )
        return {state.table: state for state in stamped.record.states}

    def refuse_files_elsewhere(self, held: dict[TableName, State]) -> None:
        """Refuse to copy rows of files that other epochs have got since: the table would have these rows twice.

        :param held: as :meth:`held` returns it. :raises TopologyError: names the file.
        """
        for epochs in self.stamped.record.members:
            for table in self._job(epochs.job).outputs:
                before = held.get(table.name)
                if before is not None and before.ref is not None and not table.kind.shares_files:
                    self._refuse_files_of_others(table, epochs, before)

    def _refuse_files_of_others(self, table: Table, epochs: JobEpochs, before: State) -> None:
        reading = self.context.store.read(self.domain, [key := table_key(self.domain, table.name)])
        record = reading.of(key).record
        if not record.progress.islands:
            return  # rolled back meanwhile, to before its first epoch
        now = held_state(table.name, record, reading.head.csn)
        low, high = epochs.intervals[0].start, epochs.intervals[-1].end
        # The table's own files are never those of another epoch: as a rule nothing is left after this.
        common = self._files(now) & self._files(replace(before, low=low, barrier=high))
        if not common:
            return
        of_members = {file for epoch in epochs.intervals for file in self._files(_slice(now, epoch))}
        for epoch in epochs.intervals:
            if twice := (common - of_members) & self._files(_slice(before, epoch)):
                why = f"had {min(twice)}, which another epoch of {table.name} has since"
                raise self._refused(epochs.job, epoch, why)

    def _files(self, state: State) -> set[str]:
        return set() if state.ref is None else set(self.context.formats[state.ref.format].files(state))

    def copy(self, within: RestatementId, by: str) -> None:
        """Stage the former rows of all members within the revert *within*; what is staged already stays.

        :raises TopologyError: a member has other inputs now than its former rows have read.
        """
        former, held = self.former(), self.held()
        owner = Owner(dag_id=f"revert by {by.strip()}", run_id=within)
        left = sorted(former, key=lambda member: (member[1].end, member[0]))
        while left:
            waiting, error = [], None
            for member in left:
                try:
                    self._copy_one(within, member, former[member], held, owner)
                except NotReady as not_ready:  # it reads a member that is not staged yet
                    waiting.append(member)
                    error = not_ready
            if error is not None and len(waiting) == len(left):
                raise error
            left = waiting

    def _copy_one(
        self,
        within: RestatementId,
        member: Member,
        former: Commitment,
        held: dict[TableName, State],
        owner: Owner,
    ) -> None:
        name, interval = member
        job = self._job(name)
        if former.skipped:
            copy_within(self.context, within, job, interval, reason=former.skipped, by=owner)
            return
        sources = {bounds.source: bounds for bounds in self._bounds(job, interval, former)}
        attempt = begin_within(
            self.context, within, job, interval, owner, copies=True, sources=_FormerBounds(sources)
        )
        if not isinstance(attempt, Attempt):
            return
        self._refuse_other_inputs(attempt, former, sources)
        for sink in attempt.sinks:
            self._copy_table(attempt, sink, held)
        complete(self.context, attempt)
        stage(self.context, attempt)

    def _copy_table(self, attempt: Attempt, sink: Table, held: dict[TableName, State]) -> None:
        if sink.name not in held:
            raise self._refused(attempt.job, attempt.interval, f"writes {sink.name} since, too")
        table_format = self.context.formats[sink.format]
        info = existing(copied_columns(self.context, attempt, sink.name), sink)
        staged = place(self.context.formats, attempt, sink.name)
        interval = attempt.interval
        state = _slice(held[sink.name], interval)
        files = list(table_format.task_writer(staged, info)(self._rows(attempt, state, info.schema)))
        processed(self.context, attempt, sink.name)
        written(self.context, attempt, sink.name, table_format.describe_output(staged, info, files))

    def _rows(self, attempt: Attempt, state: State, schema: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of *state*, a single slice. :param schema: the columns to read it with."""
        if state.ref is None:
            return
        table_format = self.context.formats[state.ref.format]
        columns = [name for name in table_format.arrow_schema(schema).names if name != EPOCH_COLUMN]
        for piece in table_format.scan(state, schema, columns):
            heartbeat(self.context, attempt)
            yield from piece.to_batches()

    def _bounds(self, job: Job, interval: Interval, former: Commitment) -> list[SourceBounds]:
        """Return the bounds of the sources that the former rows have read."""
        keys = {
            source: source_key(self.domain, source, interval.end, revision)
            for source, revision in former.source_revisions
        }
        reading = self.context.store.read(self.domain, list(keys.values()))
        lost = [source for source, key in keys.items() if reading.get(key) is None]
        if lost:
            raise StoreIncompatible(
                f"the bounds of {', '.join(lost)} that {job.name} {interval} had read are not in the store.",
                next_step="restore the store; `airflow epochs doctor` shows what else is missing in it.",
            )
        return [reading.of(key).record.whole for key in keys.values()]

    def _refuse_other_inputs(
        self, attempt: Attempt, former: Commitment, sources: dict[str, SourceBounds]
    ) -> None:
        """Refuse to bring rows back that have read other inputs than *attempt* names.

        :raises TopologyError: another declaration, an input that has changed since, or another revision of a source.
        """
        read = {_range(known): known for known in former.inputs}
        keys = [rewrite_log_key(self.domain, found.table) for found in attempt.inputs]
        logs = self.context.store.read(self.domain, list(dict.fromkeys(keys)))
        for found, key in zip(attempt.inputs, keys, strict=True):
            known = read.pop(_range(found), None)
            if known is None:
                raise self._refused(attempt.job, attempt.interval, f"reads {found.table} otherwise since")
            if found.staged and known.on_upstream_revision is OnUpstreamRevision.CASCADE:
                continue  # nothing has changed what it had read but the restatement, and the revert gives that back
            own = self.stamped.csn or 0
            changed = rewritten_since(logs.of(key), known.csn, known.low, known.high, but=own)
            if changed is not None:
                why = f"had read {found.table} before that was computed again (CSN {changed.csn})"
                raise self._refused(attempt.job, attempt.interval, why)
        if read:
            gone = ", ".join(sorted({known.table for known in read.values()}))
            raise self._refused(attempt.job, attempt.interval, f"does not read {gone} any more")
        for bounds in attempt.sources:
            if bounds.source not in sources or not bounds.same_as(sources[bounds.source]):
                why = f"reads source {bounds.source} by other bounds since"
                raise self._refused(attempt.job, attempt.interval, why)

    def _refused(self, job: JobName, interval: Interval, why: str) -> TopologyError:
        way = "open a restatement that computes the former rows."
        if self.is_open:
            ends = f"`airflow epochs restate abandon {quote(name_of_revert(self.name))} --reason …` ends the revert"
            way = f"{ends}, which is open and holds its epochs; then {way}"
        return TopologyError(
            f"restatement {self.name!r} cannot be reverted: {job} {interval} {why}.",
            next_step=way,
            job=job,
            interval=interval,
        )

    def _job(self, name: JobName) -> Job:
        return JobDeclaration.of(job_of(self.context.store, self.domain, name)).job()


def _slice(state: State, epoch: Interval) -> State:
    return replace(state, barrier=epoch.end, low=epoch.start)


def _range(read: Provenance) -> tuple[object, ...]:
    return read.table, read.kind, read.low, read.high, read.on_upstream_revision
