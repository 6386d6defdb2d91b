"""Drop: jobs and their tables leave the domain in one commit, then their records go, and vacuums delete files (R39).

See docs/decisions/drop.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider.coordination.attempts.end import fence_silent
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.expired_states import retention_of
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.drop_plan import (
    DropPlan,
    Look,
    looked_at,
    refuse,
    restatements_of,
)
from airflow_provider.coordination.upkeep.retire import Retire
from airflow_provider.coordination.upkeep.skip import require_text
from airflow_provider.domain.dropping import DroppedTable, Dropping, LeavingTable, Subject, remembered
from airflow_provider.domain.epoch import AttemptEvent, EpochRecord, LockRecord
from airflow_provider.domain.errors import Conflict, StoreIncompatible, choice
from airflow_provider.domain.expired import ExpiredPage
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, domain_name
from airflow_provider.domain.records import (
    Key,
    Stamped,
    chain_key,
    lease_key,
    retention_key,
    rewrite_log_key,
    topology_key,
)
from airflow_provider.domain.restatement import lease_of_restatement
from airflow_provider.domain.source_bounds import SourceRecord
from airflow_provider.domain.topology import Table
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import SliceRecord
from airflow_provider.stores.base import Delete, Exists, Put, SameStore, Transaction, pages, unchanged

SINCE_FORMAT = 2
"""First store format whose programs know of drops."""
_IN_ONE_TRANSACTION = 40
"""Maximum number of records that one transaction deletes: it has to be small in some stores."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """Outcome of a drop.

    :param csn: CSN of its commit. :param left: tables whose catalog entry is another program's, which stays.
    """

    csn: int
    jobs: tuple[str, ...]
    tables: tuple[str, ...]
    left: tuple[str, ...]


def plan_drop(context: Context, domain: str, subject: str, name: str, *, cascade: bool = False) -> DropPlan:
    """Return what :func:`drop` would take, and what is in its way; changes nothing.

    :raises UnknownName: no such job or table. :raises EpochBusy: an earlier drop has not ended.
    """
    where, kind = domain_name(domain), choice(Subject, subject, "subject")
    return context.retry(lambda: looked_at(context, where, kind, name, cascade=cascade), _lost(domain)).plan


def drop(
    context: Context, domain: str, plan: DropPlan, *, reason: str, by: str, cascade: bool = False
) -> Dropped:
    """Drop what *plan* shows, unless anything of it has changed since. Their names are free then.

    First the jobs are retired, so that nothing begins any more. One commit takes them and their tables from readers.
    Then their records and their entries in the catalog are deleted. Files go with a later vacuum.

    :raises TopologyError: other jobs have its tables, or have read them. :raises EpochBusy: it is in use.
    :raises ForeignCommit: other programs have written to its tables. :raises Conflict: it has changed since *plan*.
    :raises UnknownName: it is gone. :raises StoreIncompatible: an older store, which has to be upgraded first.
    """
    require_text(reason=reason, by=by)
    where = domain_name(domain)
    if context.store.format < SINCE_FORMAT:
        raise StoreIncompatible(
            f"the store has record format {context.store.format}, which knows no drops.",
            next_step="once every host has this version of the package: `airflow epochs db upgrade`.",
        )
    refuse(plan)
    found = Drop(context, where, plan, f"{reason.strip()} ({by.strip()})", cascade=cascade)
    found.run()
    return finish_drop(context, domain) or found.outcome() or Dropped(csn=0, jobs=(), tables=(), left=())


def finish_drop(context: Context, domain: str) -> Dropped | None:
    """Delete what a drop, perhaps an interrupted one, has left to delete; return None if there is no such drop.

    :raises StoreUnavailable: the catalog does not answer; repeat the call.
    """
    return Finishing(context, domain_name(domain)).run()


def unfinished_drop(context: Context, domain: str) -> Dropping | None:
    """Return the drop whose records are still being deleted; None if there is none."""
    where = domain_name(domain)
    topology = context.store.read(where, [key := topology_key(where)]).get(key)
    return None if topology is None else topology.record.dropping


def _lost(domain: str) -> Conflict:
    return Conflict.of_others(f"domain {domain!r}", "changing it")


@dataclass(frozen=True, slots=True)
class Drop:
    """One request to drop what *seen* shows; ``run`` may be repeated until its commit.

    :param why: reason and author.
    """

    context: Context
    domain: DomainName
    seen: DropPlan
    why: str
    cascade: bool

    def run(self) -> None:
        self.context.retry(self._try, _lost(self.domain))

    def _try(self) -> None:
        if self.outcome() is not None:
            return  # an earlier try of this call was it, and its reply was lost
        look = self._look()
        self._refuse_other(look)
        unretired = [job.record.name for job in look.jobs if not job.record.retired]
        for job in unretired:
            Retire(self.context, self.domain, job, self.why).run()
        if unretired:
            look = self._look()
            self._refuse_other(look)
        for job in look.plan.jobs:
            for lock in list(pages(self.context.store, self.domain, LockRecord, job)):
                fence_silent(self.context.store, lock, f"silent when {job} was dropped")
        self.context.store.transact(self._transaction(look))

    def outcome(self) -> Dropped | None:
        """Return what this request has dropped; None if it has not."""
        topology = self.context.store.read(self.domain, [key := topology_key(self.domain)]).get(key)
        if topology is None:
            return None
        found, names = topology.record.dropping, {table.name for table in self.seen.tables}
        ours = [entry for entry in topology.record.dropped if self._is_ours(entry) and entry.table in names]
        if found is not None and self._is_ours(found) and found.jobs == self.seen.jobs:
            csn = found.csn
        elif names and {entry.table for entry in ours} == names:
            csn = ours[0].csn
        else:
            return None
        return Dropped(csn=csn, jobs=self.seen.jobs, tables=tuple(sorted(names)), left=())

    def _is_ours(self, entry: Dropping | DroppedTable) -> bool:
        return entry.csn > self.seen.csn and entry.why == self.why

    def _look(self) -> Look:
        seen = self.seen
        cascade, shown = self.cascade, seen.jobs
        return looked_at(self.context, self.domain, seen.subject, seen.name, cascade=cascade, shown=shown)

    def _refuse_other(self, look: Look) -> None:
        """:raises Conflict: what would be dropped is not what was shown."""
        refuse(look.plan)
        if (look.plan.jobs, look.plan.tables, look.plan.reverts) != (
            self.seen.jobs,
            self.seen.tables,
            self.seen.reverts,
        ):
            raise Conflict(
                f"{self.seen.subject} {self.seen.name!r} has changed since it was shown.",
                next_step="pause its DAGs, and look again.",
            )

    def _transaction(self, look: Look) -> Transaction:
        reading, domain = look.reading, self.domain
        commit = CommitBuilder(domain, reading, self.context.defaults)
        topology = reading.of(topology_key(domain))
        dropping = Dropping(
            csn=commit.csn,
            jobs=look.plan.jobs,
            tables=look.leaving,
            sources=look.sources,
            token=look.token,
            why=self.why,
        )
        before: TopologyRecord = topology.record
        after = replace(
            before.without_jobs(look.plan.jobs),
            generation=before.generation + 1,
            dropping=dropping,
            tokens=max(before.tokens, look.token),
        )
        commit.hold(topology)
        commit.update(Put(topology.key, after), *self._retention(commit, look))
        commit.remove(*look.tables, *look.jobs)
        commit.update(*(Delete(rewrite_log_key(domain, leaving.table)) for leaving in look.leaving))
        return commit.transaction(ChangeSetId(f"{self.seen.name}#dropped {before.generation}"), by="drop")

    def _retention(self, commit: CommitBuilder, look: Look) -> list[Put]:
        """Write the retention record anew: claims in flight require its version, and are decided again."""
        key, gone = retention_key(self.domain), {leaving.table for leaving in look.leaving}
        commit.require(unchanged(commit.reading, key))
        record = retention_of(self.domain, commit.reading)
        return [Put(key, replace(record, expired=tuple(e for e in record.expired if e.table not in gone)))]


@dataclass(frozen=True, slots=True)
class Finishing:
    """The end of a drop after its commit; ``run`` may be interrupted anywhere, and repeated by any process."""

    context: Context
    domain: DomainName

    def run(self) -> Dropped | None:
        found = unfinished_drop(self.context, self.domain)
        if found is None:
            return None
        for keys in _in_parts(self._gone(found)):
            if not self._written(found, [Delete(key) for key in keys]):
                return None  # another process has ended it: what has its names now is not what was dropped
        left = tuple(leaving.table for leaving in found.tables if not self._forgotten(found, leaving))
        self._written(found, [], ends=True)
        tables = tuple(leaving.table for leaving in found.tables)
        return Dropped(csn=found.csn, jobs=found.jobs, tables=tables, left=left)

    def _gone(self, found: Dropping) -> Iterator[Key[Any]]:
        """Yield the keys of what is deleted.

        An epoch goes after its log, so that an interrupted deletion finds the log again; slices go after the epochs,
        so that a vacuum meanwhile takes no place of theirs for an orphan's.
        """
        store, domain = self.context.store, self.domain
        for job in found.jobs:
            for epoch in pages(store, domain, EpochRecord, job):
                log = pages(store, domain, AttemptEvent, f"{job}/{epoch.key.item}")
                yield from (entry.key for entry in log)
                yield epoch.key
            yield from (lock.key for lock in pages(store, domain, LockRecord, job))
        for leaving in found.tables:
            yield from (piece.key for piece in pages(store, domain, SliceRecord, leaving.table))
            yield from (page.key for page in pages(store, domain, ExpiredPage, leaving.table))
        for source in found.sources:
            yield from (bounds.key for bounds in pages(store, domain, SourceRecord, source))
            yield chain_key(domain, source)
        for name, _ in restatements_of(store, domain, {JobName(job) for job in found.jobs}):
            yield lease_key(domain, lease_of_restatement(name))

    def _written(self, found: Dropping, updates: Sequence[Delete], *, ends: bool = False) -> bool:
        """Apply *updates*, while the store still says that *found* is being dropped; return whether it does.

        Its end frees the names: nothing may be deleted by these names after it.
        """

        def request() -> bool:
            reading = self.context.store.read(self.domain, [key := topology_key(self.domain)])
            topology = reading.of(key)
            refuse_sealed(self.domain, topology)
            if topology.record.dropping is None or topology.record.dropping.csn != found.csn:
                return False
            last = [Put(key, _ended(topology, found))] if ends else []
            self.context.store.transact(
                Transaction(
                    domain=self.domain,
                    store=SameStore(reading.head.incarnation),
                    requires=(Exists(key, topology.version),),
                    updates=(*updates, *last),
                )
            )
            return True

        return self.context.retry(request, _lost(self.domain))

    def _lasts(self, found: Dropping) -> bool:
        """Return whether *found* is still being dropped: until its end no new job or table gets one of its names."""
        now = unfinished_drop(self.context, self.domain)
        return now is not None and now.csn == found.csn

    def _forgotten(self, found: Dropping, leaving: LeavingTable) -> bool:
        """Remove the table's entry from its catalog; return whether none of it is left."""
        if not leaving.format:
            return True  # no format was declared, so that nothing was written
        table = Table(leaving.table, domain=self.domain, kind=leaving.kind, format=leaving.format)
        return self.context.formats[leaving.format].forget(table, leaving.ref, lambda: self._lasts(found))


def _ended(topology: Stamped[TopologyRecord], found: Dropping) -> TopologyRecord:
    record = topology.record
    dropped = remembered(record.dropped, found.dropped)
    return replace(record, generation=record.generation + 1, dropping=None, dropped=dropped)


def _in_parts(keys: Iterable[Key[Any]]) -> Iterator[list[Key[Any]]]:
    part: list[Key[Any]] = []
    for key in keys:
        part.append(key)
        if len(part) == _IN_ONE_TRANSACTION:
            yield part
            part = []
    if part:
        yield part
