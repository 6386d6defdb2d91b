"""Retiring: a job, or a table that its job has left, comes to its end, and may be taken over (R7).

Its states stay readable. It gets no further epochs, so no reader waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote

from airflow_provider.coordination.attempts.end import fence_silent
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.commits.open_restatements import (
    open_restatements,
    refuse_open_restatements,
)
from airflow_provider.coordination.commits.register import furthest, other_jobs
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.skip import require_text
from airflow_provider.domain.epoch import EpochRecord, LockRecord, has_expired
from airflow_provider.domain.errors import Conflict, EpochBusy, InvalidInput, TopologyError
from airflow_provider.domain.identifiers import (
    ChangeSetId,
    DomainName,
    JobName,
    TableName,
    domain_name,
    job_name,
    table_name,
)
from airflow_provider.domain.records import Kind, Stamped, epoch_key, job_key, table_key, topology_key
from airflow_provider.domain.registration import JobRecord, check_registration
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import Absent, Exists, Put, Reading, pages, unchanged


@dataclass(frozen=True, slots=True)
class Retire:
    """One request to retire a job or a table, or to bring a job back; ``run`` may be repeated.

    :param why: reason and author; empty to bring the job back.
    :param table: one that the job has left; None for the job with all of its tables.
    """

    context: Context
    domain: DomainName
    job: str
    why: str
    table: TableName | None = None

    def run(self) -> None:
        self.context.retry(
            self._try,
            Conflict.of_others(f"job {self.job!r}", "changing the topology", job=self.job),
        )

    def _try(self) -> None:
        store, domain = self.context.store, self.domain
        known = registered(store, domain, self.job)
        topology, own = topology_key(domain), job_key(domain, known.name)
        names = known.all_outputs if self.table is None else (self.table,)
        reading = store.read(domain, [topology, own, *(table_key(domain, name) for name in names)])
        refuse_sealed(domain, reading.get(topology))
        job = reading.of(own).record
        others = {} if self.why else self._without_idle_successors(reading, job)
        moved = self._moved(reading, job, others)
        if not moved and (self.table is not None or bool(job.retired) == bool(self.why)):
            return
        decided: list[Exists | Absent] = []
        if self.why:
            self._refuse_live(job)
            decided = self._refuse_staged(job)
        else:  # other jobs may have registered declarations that contradict it
            check_registration(replace(job, retired=""), others, None)
        commit = CommitBuilder(domain, reading, self.context.defaults)
        commit.hold(reading.of(topology), reading.of(own))
        commit.require(*decided)
        before = reading.of(topology).record
        commit.update(Put(topology, replace(before, generation=before.generation + 1)))
        if self.table is None:
            commit.update(Put(own, replace(job, retired=self.why)))
        idle = [other for other in others.values() if other.retired == self._revived]
        commit.update(*(Put(job_key(domain, other.name), other) for other in idle))
        words = "retired" if self.why else "brought back"
        for stamped, after in moved:
            commit.move(stamped, after)
        change_set = ChangeSetId(f"{self.table or job.name}#{words} {before.generation}")
        store.transact(commit.transaction(change_set, by="registration"))

    @property
    def _revived(self) -> str:
        return f"job {self.job} was revived before it had committed anything"

    def _without_idle_successors(self, reading: Reading, job: JobRecord) -> dict[JobName, JobRecord]:
        """Return all other jobs; retire those that took a table of *job* over and have committed nothing.

        :raises EpochBusy: one of them has a live attempt.
        """
        others = other_jobs(self.context.store, self.domain, job.name)
        declared = {table.name for table in job.outputs}
        tables = [stamped for key, stamped in reading.records.items() if key.kind is Kind.TABLE]
        taken = {stamped.key.item: stamped.record.job for stamped in tables}
        for name in sorted({owner for table, owner in taken.items() if table in declared} - {job.name}):
            epochs = pages(self.context.store, self.domain, EpochRecord, name)
            if all(epoch.record.committed is None for epoch in list(epochs)):
                self._refuse_live(others[name])
                self._refuse_staged(others[name])
                others[name] = replace(others[name], retired=self._revived)
        return others

    def _moved(
        self, reading: Reading, job: JobRecord, others: Mapping[JobName, JobRecord]
    ) -> list[tuple[Stamped[TableRecord], TableRecord]]:
        """Return the records of the tables that change, as they are and as they will be.

        :param others: the other jobs, as they will be when *job* is brought back.
        :raises InvalidInput: a table that is not the job's, or that it still declares.
        :raises TopologyError: another job has taken a table that would be brought back.
        """
        declared = {table.name for table in job.outputs}
        if self.table is not None and (
            self.table not in job.past_outputs or self._owner(reading) != job.name
        ):
            raise InvalidInput(
                field="table",
                value=self.table,
                expected=f"a table that job {job.name!r} no longer declares and no other job took over",
                next_step="leave it out of the outputs and run the job once, or retire the whole job.",
            )
        found = []
        for key, stamped in reading.records.items():
            if key.kind is not Kind.TABLE:
                continue
            successor = others.get(stamped.record.job)
            if stamped.record.job != job.name and (successor is None or successor.retired != self._revived):
                if not self.why and key.item in declared:
                    raise TopologyError(
                        f"table {key.item!r} belongs to job {stamped.record.job!r} now.",
                        next_step="declare the job without it, under another name.",
                        table=key.item,
                        owner=stamped.record.job,
                    )
            elif self.why and not stamped.record.ended:
                found.append((stamped, replace(stamped.record, ended=self.why)))
            elif not self.why and key.item in declared and (stamped.record.ended or successor is not None):
                found.append((stamped, self._brought_back(stamped.record, job)))
        return found

    def _brought_back(self, table: TableRecord, job: JobRecord) -> TableRecord:
        joins = furthest(self.context.store, self.domain)
        return replace(table, job=job.name, cadence=job.cadence, ended="", joins=joins)

    def _owner(self, reading: Reading) -> str | None:
        stamped = reading.get(table_key(self.domain, self.table)) if self.table is not None else None
        return None if stamped is None else stamped.record.job

    def _refuse_staged(self, job: JobRecord) -> list[Exists | Absent]:
        """Refuse to take a staged epoch out of its group, whose other jobs have read it.

        :return: requirements that it stays so: an attempt that begins meanwhile could be staged, too.
        :raises EpochBusy: an epoch is staged for an open barrier of a group.
        """
        store, domain = self.context.store, self.domain
        keys = {
            epoch_key(domain, job.name, interval.start): name
            for name, stamped in open_restatements(store, domain)
            for interval in stamped.record.of(job.name)
            if stamped.record.is_group and self.table is None
        }
        reading = store.read(domain, list(keys))
        staged = []
        for key, name in keys.items():
            epoch = reading.get(key)
            attempt = None if epoch is None else epoch.record.attempt
            if attempt is not None and attempt.staged and attempt.restated_by == name:
                staged.append(name)
        if staged:
            raise EpochBusy(
                f"job {job.name!r} is staged for {', '.join(map(repr, staged))} of its group, not published yet.",
                next_step="run the other jobs of the group, which publishes it; or give it up: `airflow epochs restate "
                f"abandon {quote(staged[0])} --reason …`; then retire the job.",
                job=job.name,
                holders=tuple(f"group {name}" for name in staged),
            )
        return [unchanged(reading, key) for key in keys]

    def _refuse_live(self, job: JobRecord) -> None:
        """Fence silent attempts of the job. An attempt that begins meanwhile is refused when it publishes.

        :raises EpochBusy: an attempt is live, or an open restatement computes epochs of the job.
        """
        store, domain = self.context.store, self.domain
        what = f"the end of job {job.name!r}"
        refuse_open_restatements(
            store, domain, what, lambda record: bool(record.of(job.name)) and not record.is_group
        )
        now = store.read(domain, []).now
        live = []
        for lock in list(pages(store, domain, LockRecord, job.name)):
            if lock.record.ended or has_expired(lock.at, lock.record.ttl, now):
                fence_silent(store, lock, f"silent when {self.table or job.name} was retired")
            else:
                live.append(f"{lock.key.item} of {lock.record.owner}")
        if live:
            raise EpochBusy(
                f"job {job.name!r} is at work: {'; '.join(live)}.",
                next_step="pause its DAG, let its tasks end, and retire it then.",
                job=job.name,
                holders=tuple(live),
            )


def retire(
    context: Context, domain: str, job: str, *, reason: str, by: str, table: str | None = None
) -> None:
    """Retire *job*, or *table*, which it no longer declares; repeating it changes nothing.

    Its tables keep their states, and hold back no cut of the whole domain; another job may declare them, and goes on
    from there.

    :raises UnknownName: no such job. :raises InvalidInput: a table that the job has not left, or no reason.
    :raises EpochBusy: the job has a live attempt, or an epoch that is staged for its group.
    """
    require_text(reason=reason, by=by)
    name = None if table is None else table_name(table)
    Retire(context, domain_name(domain), job_name(job), f"{reason.strip()} ({by.strip()})", name).run()


def revive(context: Context, domain: str, job: str) -> None:
    """Bring a retired job back: it goes on from the states of its tables.

    :raises UnknownName: no such job. :raises TopologyError: another job has taken one of its tables, or declares what
        cannot be together with it (R6).
    """
    Retire(context, domain_name(domain), job_name(job), "").run()
