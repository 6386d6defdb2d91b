"""An epoch within a restatement: what its begin decides on beside what every begin does (R28)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from shlex import quote

from airflow_provider.coordination.attempts.bounds import Bounding
from airflow_provider.coordination.attempts.validate import rewrite_logs
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.groups import group_record
from airflow_provider.coordination.commits.staged import Members, restatement_of, unknown
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.domain.beginning import inputs_behind
from airflow_provider.domain.behind import Behind
from airflow_provider.domain.epoch import AlreadyStaged, AttemptRecord, EpochRecord, Provenance
from airflow_provider.domain.errors import InvalidInput, NotReady
from airflow_provider.domain.group import publishes
from airflow_provider.domain.identifiers import RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.records import Stamped, job_key, restatement_key, table_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import (
    RestatementRecord,
    is_over,
    of_older_version,
    refuse_closed,
    refuse_incomplete,
    refuse_stranger,
)
from airflow_provider.domain.rewrites import invalidated, rewritten_since
from airflow_provider.domain.topology import Group, Job
from airflow_provider.domain.version import RewriteLog, TableRecord
from airflow_provider.stores.base import Put, Reading


def rewritten_beside(inputs: Iterable[Provenance], logs: Mapping[TableName, Stamped[RewriteLog]]) -> bool:
    """Return True if committed rows changed that were read beside staged ones, by an ignoring edge too."""
    return any(
        read.staged and rewritten_since(logs[read.table], read.csn, read.low, read.high) for read in inputs
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """The restatement *name* around one epoch; None for an epoch that its own run publishes.

    :param group: the commit group whose barrier has that name, if the job declares one.
    """

    context: Context
    job: Job
    interval: Interval
    name: RestatementId | None
    group: Group | None = None

    def members(self, reading: Reading) -> Members | None:
        """Return the members of the restatement, of which the epoch is one; None without a restatement.

        :param reading: has its record.
        :raises UnknownName: no such restatement. :raises InvalidInput: it is over.
        :raises TopologyError: the epoch is no member.
        """
        if self.name is None:
            return None
        domain = self.job.domain
        if self.group is not None:
            record, _ = group_record(reading, domain, self.group, self.interval)
            return Members(reader=self.context.store, domain=domain, name=self.name, record=record)
        stamped = reading.get(restatement_key(domain, self.name))
        if stamped is None:
            raise unknown(domain, self.name)
        if stamped.record.is_group:
            raise InvalidInput(
                field="restatement",
                value=self.name,
                expected="a restatement: this is the barrier of a group",
                next_step="leave it out: the epochs of a group's jobs begin within their group by themselves.",
            )
        refuse_closed(self.name, stamped.record, incarnation=reading.head.incarnation, now=reading.now)
        refuse_stranger(self.name, stamped.record, self.job.name, self.interval)
        return Members(reader=self.context.store, domain=domain, name=self.name, record=stamped.record)

    def opening(self, reading: Reading) -> tuple[Put, ...]:
        """Return what the first begin at the group's barrier stores beside its attempt; nothing for others.

        :raises ReadAgain: *reading* has the job, and not yet the topology of its domain.
        """
        if self.group is None or self.name is None:
            return ()
        record, is_new = group_record(reading, self.job.domain, self.group, self.interval)
        if not is_new:
            return ()
        topology = reading.get(topology_key(self.job.domain))
        if topology is None:
            raise ReadAgain  # not every store reads all records at the same moment
        claimed = replace(topology.record, restating=(*topology.record.restating, self.name))
        return Put(restatement_key(self.job.domain, self.name), record), Put(topology.key, claimed)

    def refuse_unfit(
        self, reading: Reading, job: JobRecord, own: Mapping[TableName, Stamped[TableRecord] | None]
    ) -> None:
        """Refuse an epoch that is not computed within the restatement, or not by its job's newest declaration.

        :param job: the declaration that it is computed by. :param own: the job's tables.
        :raises UnknownName, InvalidInput, TopologyError: as :meth:`members`; or one of the tables lacks the epoch.
        """
        members = self.members(reading)
        if members is None:
            return
        if not members.record.is_group:
            refuse_incomplete(self.job.name, self.interval, own)
        newest = reading.of(job_key(self.job.domain, self.job.name)).record
        if job.revision != newest.revision:
            raise of_older_version(job.name, self.interval, repr(self.name))

    def bounding(self, bounding: Bounding, reading: Reading) -> Bounding:
        """Return *bounding* as it is within the restatement, for the jobs that compute the same epoch there."""
        members = self.members(reading)
        if members is None or members.record.is_group:
            return bounding
        beside = tuple(job for job, interval in members.record.epochs if interval == self.interval)
        found = replace(bounding, published_with=beside, restates=True)
        back = self._taken_back(members.record)
        if back is None or back.has(self.job.name, self.interval):
            return found
        # What is copied keeps the bounds of its former rows; the others are computed by these.
        return replace(found, copied_with=tuple(job for job in beside if back.has(job, self.interval)))

    def behind(self, reading: Reading) -> tuple[Behind, ...]:
        """Return the epochs that are behind their source, without members, whose new output is read instead."""
        found, members = behind_of(reading, self.job.domain), self.members(reading)
        if members is None:
            return found
        return tuple(entry for entry in found if not members.record.has(entry.job, entry.interval))

    def without_others(self, epoch: EpochRecord | None, *, skips: bool = False) -> EpochRecord | None:
        """Return *epoch* without the hold of another restatement that is over: its attempt counts as ended.

        Nor does a group hold the epoch of a job that has left it, or one that is not staged against a skip: any other
        run takes the attempt over, once it is silent.

        :param skips: the epoch is to be skipped.
        """
        attempt = None if epoch is None else epoch.attempt
        if epoch is None or attempt is None or attempt.restated_by in (None, self.name):
            return epoch
        store, domain = self.context.store, self.job.domain
        record, reading = restatement_of(store, domain, attempt.restated_by).record, store.read(domain, [])
        if not is_over(record, incarnation=reading.head.incarnation, now=reading.now):
            is_member = publishes(self.job.group, attempt.restated_by, self.interval)
            if not record.is_group or (is_member and (attempt.staged or not skips)):
                return epoch
            return replace(epoch, attempt=replace(attempt, restatement=None))
        return replace(epoch, attempt=replace(attempt, aborted="its restatement is over"))

    def copied(self, reading: Reading, epoch: EpochRecord | None) -> AlreadyStaged | None:
        """Return the answer for an epoch that gets its former rows back; None for those that are computed.

        Code would compute other rows: a revert copies those of the epochs of the restatement that it takes back.

        :raises NotReady: they are not copied yet.
        """
        if self.name is None or self.group is not None:
            return None
        name = self.job.epoch(self.interval)
        stamped = reading.get(restatement_key(name.domain, self.name))
        if stamped is None or (reverts := stamped.record.reverts) is None:
            return None
        if is_over(stamped.record, incarnation=reading.head.incarnation, now=reading.now):
            return None
        back = self._taken_back(stamped.record)
        if back is None or not back.has(name.job, name.interval):
            return None
        attempt = None if epoch is None else epoch.attempt
        if attempt is not None and attempt.restated_by == self.name and attempt.staged:
            return AlreadyStaged(
                name.domain, name.job, name.interval, attempt.revision, restatement=self.name
            )
        why = f"its former rows are not copied into {self.name!r} yet"
        raise NotReady(
            f"{name.job} {name.interval} is not ready: {why}.",
            next_step=f"`airflow epochs restate revert {quote(reverts)}` copies them.",
            job=name.job,
            interval=name.interval,
            missing=(Missing(name=TableName(name.job), wanted=name.interval.end, reason=why),),
        )

    def _taken_back(self, record: RestatementRecord) -> RestatementRecord | None:
        """Return the restatement that *record* takes back, whose epochs get their former rows; None without one."""
        if record.reverts is None:
            return None
        return restatement_of(self.context.store, self.job.domain, record.reverts).record

    def kept(self, reading: Reading, job: JobRecord, attempt: AttemptRecord) -> AlreadyStaged | None:
        """Return the answer for *attempt*, which is staged; None if its inputs or its declaration have changed."""
        members, name = self.members(reading), self.job.epoch(self.interval)
        if attempt.job_revision != job.revision or self.name is None or members is None:
            return None
        tables = {read.table: reading.get(table_key(name.domain, read.table)) for read in attempt.inputs}
        logs = rewrite_logs(reading, name.domain, attempt.inputs)
        if (
            invalidated(attempt.inputs, logs, self.interval)
            or rewritten_beside(attempt.inputs, logs)
            or members.reread(attempt.inputs, tables) != attempt.inputs
            or inputs_behind(attempt.inputs, self.behind(reading))
        ):
            return None
        return AlreadyStaged(name.domain, name.job, name.interval, attempt.revision, restatement=self.name)
