"""Members of a restatement, or of a group's barrier, as they stand: staged, outdated, computed, or waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from airflow_provider.coordination.attempts.published_together import PublishedTogether
from airflow_provider.coordination.attempts.resume import attempt_of
from airflow_provider.coordination.commits.groups import group_jobs
from airflow_provider.coordination.commits.source_dependents import later_keys
from airflow_provider.coordination.commits.staged import Members
from airflow_provider.domain.admission import holder
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt, AttemptRecord, Commitment, EpochRecord
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.group import publishes
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, epoch_key, fence_of, job_key, lock_of, rewrite_log_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.restatement import (
    JobEpochs,
    RestatementRecord,
    StagedEpoch,
    digest_of,
)
from airflow_provider.domain.rewrites import invalidated
from airflow_provider.domain.version import RewriteLog
from airflow_provider.stores.base import MetadataReader

_PAGE = 500


class MemberState(StrEnum):
    """Progress of a member."""

    STAGED = "staged"
    """Computed; waits for the others."""
    OUTDATED = "outdated"
    """Staged, but what it has read has changed since: its task computes it again."""
    COMPUTING = "computing"
    WAITING = "waiting"
    """To be computed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberStatus(EpochId):
    """One member.

    :param owner: the run that computes it, or has staged it; empty for none. :param why: reason of its state.
    """

    state: MemberState
    owner: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedMember:
    """Staged member, ready to be published. :param staged: name of its output."""

    attempt: Attempt
    record: AttemptRecord
    staged: StagedEpoch


@dataclass(frozen=True, slots=True)
class MembersNow:
    """Reader of the members of the restatement *name*.

    :param stamped: its record. :param ttl: of their locks. :param head: CSN of the domain's head when it was read to
        be published.
    """

    reader: MetadataReader
    domain: DomainName
    name: RestatementId
    stamped: Stamped[RestatementRecord]
    ttl: timedelta = DEFAULTS.lock_ttl
    head: int | None = None

    @property
    def record(self) -> RestatementRecord:
        return self.stamped.record

    def staged(self) -> tuple[list[StagedMember], list[tuple[JobName, Interval]]]:
        """Return the staged members, and the epochs that are not staged by the present declaration of their job."""
        store = self.reader
        incarnation = store.read(self.domain, []).head.incarnation
        members = Members(reader=store, domain=self.domain, name=self.name, record=self.record)
        found: list[StagedMember] = []
        missing: list[tuple[JobName, Interval]] = []
        for job, epochs in self._computed(members, missing):
            declared = JobDeclaration.of(job).job()
            for interval, stamped in members.epochs(job, epochs.intervals):
                record = stamped.record.attempt if stamped else None
                if stamped is None or record is None:
                    missing.append((epochs.job, interval))
                    continue
                attempt = attempt_of(
                    declared,
                    interval,
                    record,
                    record.sources,
                    incarnation=incarnation,
                    fence=stamped.version,
                    ttl=self.ttl,
                )
                name = StagedEpoch(
                    job=epochs.job, interval=interval, revision=record.revision, token=record.output_token
                )
                found.append(StagedMember(attempt=attempt, record=record, staged=name))
        return found, missing

    def _computed(
        self, members: Members, missing: list[tuple[JobName, Interval]]
    ) -> Iterator[tuple[JobRecord, JobEpochs]]:
        """Yield the members that may be staged, with their jobs; add those of a group that cannot to *missing*.

        A group leaves out those that it does not wait for.
        """
        if not self.record.is_group:
            yield from ((self._job(epochs.job), epochs) for epochs in self.record.members)
            return
        for member in group_jobs(self.reader, self.domain, self.record):
            if member.settled:
                continue
            if member.job is None or not publishes(member.job.group, self.name, member.interval):
                missing.append((member.name, member.interval))
            else:
                members.know({epoch_key(self.domain, member.name, member.interval.start): member.epoch})
                yield member.job, JobEpochs(job=member.name, intervals=(member.interval,))

    def together(self, staged: Sequence[StagedMember], topology: int | None = None) -> PublishedTogether:
        """Return what publishes *staged*.

        :param topology: version of the domain's record before they were found to be all that a group waits for.
        """
        members = [(member.attempt, member.staged) for member in staged]
        looked = None if self.record.reverts is None else self.head
        return PublishedTogether.of(self.name, self.stamped, members, topology, looked)

    def output(self, staged: Sequence[StagedMember]) -> str:
        """Return the digest of what is staged: what an approval is about."""
        return digest_of(member.staged for member in staged)

    def committed(self) -> Iterator[tuple[EpochId, Commitment | None]]:
        """Yield every member with its commit; None for an epoch that is not committed."""
        names = [EpochId(self.domain, job, interval) for job, interval in self.record.epochs]
        for start in range(0, len(names), _PAGE):
            page = names[start : start + _PAGE]
            reading = self.reader.read(self.domain, [fence_of(name) for name in page])
            for name in page:
                stamped = reading.get(fence_of(name))
                yield name, None if stamped is None else stamped.record.committed

    def status(self) -> list[MemberStatus]:
        """Return every member, job by job."""
        staged, missing = self.staged()
        outdated = self._outdated(staged)
        found = {
            (member.attempt.job, member.attempt.interval): MemberStatus(
                self.domain,
                member.attempt.job,
                member.attempt.interval,
                state=MemberState.OUTDATED if why else MemberState.STAGED,
                owner=str(member.record.owner),
                why=why,
            )
            for member, why in zip(staged, outdated, strict=True)
        }
        for status in self._unstaged(missing):
            found[status.job, status.interval] = status
        return [found[place] for place in self.record.epochs if place in found]

    def _outdated(self, staged: Sequence[StagedMember]) -> list[str]:
        """Return of each member why publish would refuse it; empty where nothing is known against it."""
        together = self.together(staged)
        tables = sorted({read.table for member in staged for read in member.record.inputs})
        logs = self._logs(tables)
        later = self._later_sources(staged)
        found = []
        for member, is_late in zip(staged, later, strict=True):
            other = together.other_reads(member.record.inputs, logs)
            changed = invalidated(member.record.inputs, logs, member.attempt.interval)
            found.append(
                f"{', '.join(sorted({*other, *(read.table for read, _ in changed)}))} was computed again since"
                if other or changed
                else "a source was recorded anew since"
                if is_late
                else ""
            )
        return found

    def _logs(self, tables: Sequence[TableName]) -> dict[TableName, Stamped[RewriteLog]]:
        keys = {table: rewrite_log_key(self.domain, table) for table in tables}
        reading = self.reader.read(self.domain, list(keys.values()))
        return {table: reading.of(key) for table, key in keys.items()}

    def _later_sources(self, staged: Sequence[StagedMember]) -> list[bool]:
        keys = [later_keys(member.attempt, member.attempt.sources) for member in staged]
        every = [key for found in keys for key in found]
        reading = self.reader.read(self.domain, every) if every else None
        return [reading is not None and any(reading.get(key) for key in found) for found in keys]

    def _unstaged(self, epochs: Sequence[tuple[JobName, Interval]]) -> Iterator[MemberStatus]:
        store = self.reader
        for start in range(0, len(epochs), _PAGE):
            names = [EpochId(self.domain, job, interval) for job, interval in epochs[start : start + _PAGE]]
            keys = [key for name in names for key in (fence_of(name), lock_of(name))]
            reading = store.read(self.domain, keys)
            for name in names:
                stamped = reading.get(fence_of(name))
                epoch = None if stamped is None else stamped.record
                live = holder(epoch, reading.get(lock_of(name)), reading.now)
                state, why = _unstaged_state(epoch, live is not None, self.name)
                yield MemberStatus(
                    name.domain,
                    name.job,
                    name.interval,
                    state=state,
                    owner=str(live[0]) if live else "",
                    why=why,
                )

    def _job(self, name: JobName) -> JobRecord:
        return job_of(self.reader, self.domain, name)


def job_of(reader: MetadataReader, domain: DomainName, name: JobName) -> JobRecord:
    """Return the record of a job.

    :raises UnknownName: it was dropped.
    """
    key = job_key(domain, name)
    stamped = reader.read(domain, [key]).get(key)
    if stamped is None:
        raise UnknownName.of_job(name, domain)
    return stamped.record


def _unstaged_state(epoch: EpochRecord | None, lives: bool, name: RestatementId) -> tuple[MemberState, str]:
    attempt = None if epoch is None else epoch.attempt
    if attempt is None:
        return MemberState.WAITING, ""
    if attempt.restatement != name:
        return MemberState.WAITING, "another run computes it" if lives else ""
    if attempt.aborted is not None:
        return MemberState.WAITING, attempt.aborted
    if attempt.staged:
        return MemberState.OUTDATED, "its job was declared anew since"
    return (MemberState.COMPUTING, "") if lives else (MemberState.WAITING, "its last try went silent")
