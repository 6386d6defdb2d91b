"""Rollback: one commit by which the tables of a domain have the rows of an earlier CSN again (R30).

The epochs committed since are not committed any more, and may be computed again. See docs/decisions/rollback.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider.coordination.attempts.reserve import await_unreserved
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.pointers import as_recorded, follow, tell_published
from airflow_provider.coordination.commits.regroup import separate
from airflow_provider.coordination.commits.table_commits import prepared_or_moved, written_out
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.coordination.upkeep.expire import undeclared
from airflow_provider.coordination.upkeep.rollback_commits import RolledEpoch
from airflow_provider.coordination.upkeep.rollback_plan import (
    RollbackLook,
    RollbackPlan,
    TakenTable,
    looked_at,
    refuse,
)
from airflow_provider.coordination.upkeep.skip import require_text
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, EpochState, TakenBack
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import Conflict, StoreIncompatible
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import (
    event_key,
    retention_key,
    rewrite_log_key,
    table_key,
    topology_key,
)
from airflow_provider.domain.restatement import JobEpochs, RestatementState
from airflow_provider.domain.rewrites import with_rollback
from airflow_provider.domain.rollback import ROLLED_BACK, Rollback, RolledTable, remembered
from airflow_provider.domain.staying import Stayed, after_commit
from airflow_provider.domain.version import shown
from airflow_provider.stores.base import Put, unchanged
from airflow_provider.tables.base import Prepared, Publication

SINCE_FORMAT = 2
"""First store format whose programs know of rollbacks."""
_LONGEST = 500
"""Number of characters that are kept of a reason, and of an author: each epoch's log has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolledBack:
    """Outcome of a rollback.

    :param csn: of its commit. :param epochs: those that are not committed any more, by job.
    """

    to: int
    csn: int
    epochs: tuple[JobEpochs, ...]
    tables: tuple[str, ...]


def plan_rollback(context: Context, domain: str, to: int) -> RollbackPlan:
    """Return what :func:`rollback` would take back, and what is in its way; changes nothing.

    :param to: CSN whose rows the tables would have again.
    :raises InvalidInput: nothing was committed after it. :raises EpochBusy: a drop has not ended.
    """
    where = domain_name(domain)
    return context.retry(lambda: looked_at(context, where, to), _lost(domain)).plan


def rollback(context: Context, plan: RollbackPlan, *, reason: str, by: str) -> RolledBack:
    """Roll a domain back as *plan* shows, unless anything of it has changed since.

    :param reason: why; its first 500 characters are kept. :param by: its author.

    :raises EpochBusy: attempts or restatements are under way. :raises TopologyError: the tables cannot be what they
        were: with each reason. :raises Conflict: it has changed since *plan*.
    :raises ForeignCommit: other programs have written to its tables.
    :raises StoreIncompatible: an older store, which has to be upgraded first.
    """
    require_text(reason=reason, by=by)
    if context.store.format < SINCE_FORMAT:
        raise StoreIncompatible(
            f"the store has record format {context.store.format}, which knows no rollbacks.",
            next_step="once every host has this version of the package: `airflow epochs db upgrade`.",
        )
    if not plan.epochs:
        follow_last(context, plan.domain)  # an earlier call may have been interrupted right behind its commit
    refuse(plan)
    why = f"{reason.strip()[:_LONGEST]} ({by.strip()[:_LONGEST]})"
    request = RollingBack(context, plan, by.strip()[:_LONGEST], why)
    return context.retry(request.run, _lost(plan.domain))


def follow_last(context: Context, domain: DomainName) -> None:
    """Move the pointers of tables that the last rollback of *domain* has left behind (R17)."""
    topology = context.store.read(domain, [key := topology_key(domain)]).get(key)
    last = None if topology is None or not topology.record.rollbacks else topology.record.rollbacks[-1]
    keys = [] if last is None else [table_key(domain, taken.table) for taken in last.tables]
    reading = context.store.read(domain, keys)
    found = ((stamped, stamped.record.ref) for stamped in map(reading.get, keys) if stamped is not None)
    tables = [as_recorded(stamped, ref) for stamped, ref in found if ref is not None]
    # Pointers in the store's database have moved with the commit.
    follow(context.formats, reading, [table for table in tables if table.format in context.formats.following])


def _lost(domain: str) -> Conflict:
    return Conflict.of_others(f"domain {domain!r}", "committing to it")


@dataclass(frozen=True, slots=True)
class RollingBack:
    """One request to roll back as *seen* shows; ``run`` may be repeated until its commit.

    :param why: reason and author.
    """

    context: Context
    seen: RollbackPlan
    by: str
    why: str

    @property
    def _domain(self) -> DomainName:
        return self.seen.domain

    def run(self) -> RolledBack:
        """:raises RequirementFailed: a record that it read has changed meanwhile."""
        done = self._outcome()
        if done is not None:  # an earlier try of this call was it, and its reply was lost
            follow_last(self.context, self._domain)
            return done
        await_unreserved(self.context.store, self._domain, self.context.clock, self.context.random)
        look = looked_at(self.context, self._domain, self.seen.to)
        if (look.plan.epochs, look.plan.tables) != (self.seen.epochs, self.seen.tables):
            raise Conflict(
                f"domain {self._domain!r} has changed since what is rolled back was shown.",
                next_step="pause its DAGs, and look again.",
            )
        refuse(look.plan)
        if any(self._separate(table) for table in look.tables):
            raise ReadAgain
        commit = CommitBuilder(self._domain, look.reading, self.context.defaults)
        prepared = [self._table(commit, table) for table in look.tables]
        self._epochs(commit, look)
        self._topology(commit, look)
        change_set = ChangeSetId(f"{self._domain}@{commit.csn}{ROLLED_BACK}")
        self.context.store.transact(commit.transaction(change_set, by="rollback"))
        tell_published(self.context.formats, prepared)
        return self._rolled_back(commit.csn)

    def _outcome(self) -> RolledBack | None:
        key = topology_key(self._domain)
        topology = self.context.store.read(self._domain, [key]).get(key)
        known = () if topology is None else topology.record.rollbacks
        ours = [
            entry
            for entry in known
            if entry.csn > self.seen.csn and (entry.to, entry.why) == (self.seen.to, self.why)
        ]
        return self._rolled_back(ours[-1].csn) if ours else None

    def _rolled_back(self, csn: int) -> RolledBack:
        seen = self.seen
        return RolledBack(
            to=seen.to, csn=csn, epochs=seen.epochs, tables=tuple(table.name for table in seen.tables)
        )

    def _separate(self, table: TakenTable) -> bool:
        """Take the epochs that go out of files with the rows of others; return whether there were any."""
        return separate(self.context, table.stamped, table.gone, by="rollback")

    def _table(self, commit: CommitBuilder, table: TakenTable) -> tuple[Publication, Prepared]:
        """Add the table's next version to *commit*, which has no rows of the epochs that go."""
        context, stamped, after = self.context, table.stamped, table.after
        record = stamped.record
        if record.ref is None:
            raise AssertionError  # it has slices
        declared = undeclared(self._domain, table.name, record, record.ref.format)
        change_set = ChangeSetId(f"{self._domain}@{commit.csn}{ROLLED_BACK}")
        version = commit.next_version(
            declared, record.ref, shown(record, after, context.store.format), change_set
        )
        publication = replace(version, removes=tuple(sorted(table.gone)))
        prepared = prepared_or_moved(context.store, context.formats, publication, stamped)
        hull = Interval(min(gone.start for gone in table.gone), max(gone.end for gone in table.gone))
        # Epochs beyond those that go are not read any more, either.
        told = after.told_with(record.progress, hull)
        commit.show(stamped, replace(written_out(stamped), progress=after), told, publication, prepared)
        key = rewrite_log_key(self._domain, table.name)
        log = context.store.read(self._domain, [key]).of(key)
        commit.hold(log, *table.slices)
        commit.update(Put(key, with_rollback(log, table.gone, commit.csn, context.defaults)))
        commit.update(*(Put(piece.key, replace(piece.record, taken_back=True)) for piece in table.slices))
        return publication, prepared

    def _epochs(self, commit: CommitBuilder, look: RollbackLook) -> None:
        for epoch in look.epochs:
            commit.hold(epoch.stamped)
            commit.update(Put(epoch.stamped.key, self._not_committed(epoch, commit.csn)), self._event(epoch))
        ended = f"rolled back to CSN {self.seen.to}: {self.why}"
        for group in look.groups:
            commit.hold(group)
            commit.update(
                Put(group.key, replace(group.record, state=RestatementState.ABANDONED, ended=ended))
            )

    def _not_committed(self, epoch: RolledEpoch, csn: int) -> EpochRecord:
        """Return the epoch's record without its commit; the write fences attempts at a later revision of it."""
        record, done = epoch.stamped.record, epoch.commitment
        attempt = record.attempt
        if attempt is not None and attempt.aborted is None:
            attempt = replace(attempt, aborted=f"silent when its domain was rolled back ({self.why})")
        taken_back = TakenBack(revision=done.revision, csn=csn, owner=done.owner)
        return replace(
            record, attempt=attempt, committed=None, committed_csn=None, replaced=None, taken_back=taken_back
        )

    def _event(self, epoch: RolledEpoch) -> Put:
        name, token = EpochId(self._domain, epoch.job, epoch.interval), epoch.commitment.token
        entry = AttemptEvent(
            state=EpochState.ROLLED_BACK,
            sink="",
            token=token,
            participant=0,
            owner=Owner(dag_id=f"rollback by {self.by}", run_id=f"to CSN {self.seen.to}"),
            note=self.why,
        )
        return Put(event_key(name, token, EpochState.ROLLED_BACK), entry)

    def _topology(self, commit: CommitBuilder, look: RollbackLook) -> None:
        """Remember the rollback for sessions. A begin that was decided before it requires the record as it was."""
        topology = look.reading.of(topology_key(self._domain))
        before = topology.record
        entry = Rollback(
            to=self.seen.to,
            csn=commit.csn,
            tables=tuple(RolledTable(table=table.name, since=table.since) for table in look.tables),
            why=self.why,
        )
        commit.hold(topology)
        commit.require(unchanged(look.reading, retention_key(self._domain)))
        after = replace(
            before,
            generation=before.generation + 1,
            rollbacks=remembered(before.rollbacks, entry),
            stayed=self._stayed(before.stayed, commit, look),
        )
        commit.update(Put(topology.key, after))

    def _stayed(
        self, entries: tuple[Stayed, ...], commit: CommitBuilder, look: RollbackLook
    ) -> tuple[Stayed, ...]:
        """Return *entries* without the rows that go: earlier cuts still read them, and name them."""
        jobs = {entry.job for entry in entries if not entry.until}
        gone = {table.name: frozenset(table.gone) for table in look.tables} if jobs else {}
        for epoch in look.epochs:
            if epoch.job in jobs:
                left = [name for name, intervals in gone.items() if epoch.interval in intervals]
                entries = after_commit(
                    entries, epoch.job, epoch.interval, written=left, stay=(), csn=commit.csn
                )
        return entries
