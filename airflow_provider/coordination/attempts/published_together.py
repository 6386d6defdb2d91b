"""The members of a restatement at its publish: what they have read of each other, and what their commit adds (R28)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import Beside
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.domain.epoch import Attempt, AttemptRecord, Provenance
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import Stamped, lease_key, table_key, topology_key
from airflow_provider.domain.restatement import (
    REVERTIBLE,
    RestatementRecord,
    RestatementState,
    StagedEpoch,
    digest_of,
    held_state,
    lease_of_restatement,
    refuse_closed,
)
from airflow_provider.domain.rewrites import rewritten_since
from airflow_provider.domain.version import RewriteLog, TableRecord
from airflow_provider.stores.base import Absent, Put, Reading


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedTogether:
    """Restatement, or barrier of a group, whose members one commit publishes.

    :param stamped: its record. :param epochs: its members, without those of a group that are committed already.
    :param staged: these by the table that they write, by time.
    :param topology: version of the domain's record at which no other member of a group was waited for.
    :param looked: CSN of the head before a revert looked for rows that its copies would take away.
    """

    name: RestatementId
    stamped: Stamped[RestatementRecord]
    epochs: frozenset[tuple[JobName, Interval]]
    staged: Mapping[TableName, Sequence[StagedEpoch]]
    topology: int | None = None
    looked: int | None = None

    @classmethod
    def of(
        cls,
        name: RestatementId,
        stamped: Stamped[RestatementRecord],
        members: Iterable[tuple[Attempt, StagedEpoch]],
        topology: int | None = None,
        looked: int | None = None,
    ) -> PublishedTogether:
        staged: dict[TableName, list[StagedEpoch]] = {}
        published = [*members]
        for attempt, epoch in published:
            for sink in attempt.sinks:
                staged.setdefault(sink.name, []).append(epoch)
        for found in staged.values():
            found.sort(key=_end)
        epochs = ((epoch.job, epoch.interval) for _, epoch in published)
        return cls(
            name=name,
            stamped=stamped,
            epochs=frozenset(epochs),
            staged=staged,
            topology=topology,
            looked=looked,
        )

    @property
    def beside(self) -> Beside:
        """Readers that do not keep the commit back: its members, and those that were released from it."""
        return Beside(members=self.epochs, is_released=self.stamped.record.is_released)

    def other_reads(
        self, inputs: Iterable[Provenance], logs: Mapping[TableName, Stamped[RewriteLog]]
    ) -> list[TableName]:
        """Return the tables of which a member has read other rows than the commit will have.

        The commit records what was staged as read at its own CSN. So the committed rows beside it must be as they were
        read, also where an edge ignores revisions.
        """
        return [
            read.table
            for read in inputs
            if read.staged != self._digest(read)
            or (read.staged and rewritten_since(logs[read.table], read.csn, read.low, read.high) is not None)
        ]

    def refuse_other_reads(
        self, attempt: Attempt, record: AttemptRecord, logs: Mapping[TableName, Stamped[RewriteLog]]
    ) -> None:
        """:raises Conflict: *attempt* has read other rows than the commit will have: it must be computed again."""
        other = self.other_reads(record.inputs, logs)
        if other:
            raise Conflict(
                f"{attempt}: {', '.join(other)} was computed again since it was read.",
                next_step=f"compute the epoch again within {self.name!r}, which is published then.",
                tables=tuple(other),
            )

    def _digest(self, read: Provenance) -> str:
        epochs = self.staged.get(read.table, ())
        first = 0 if read.low is None else bisect_right(epochs, read.low, key=_end)
        return digest_of(epochs[first : bisect_right(epochs, read.high, key=_end)])

    def refuse_changed(self, reading: Reading) -> None:
        """Refuse to publish a restatement that is over, or has other members than were read.

        :raises InvalidInput: it is over. :raises Conflict: others have changed it.
        :raises DomainMoved: the domain is elsewhere. :raises ReadAgain: a group may wait for other jobs by now, or the
            tables of a revert may have rows that the look at them did not find.
        """
        refuse_sealed(self._domain, reading.get(topology_key(self._domain)))
        if self.topology not in (None, reading.of(topology_key(self._domain)).version):
            raise ReadAgain
        tables = (reading.of(table_key(self._domain, name)) for name in self.staged)
        if self.looked is not None and any((table.csn or 0) > self.looked for table in tables):
            raise ReadAgain
        stamped = reading.of(self.stamped.key)
        refuse_closed(self.name, stamped.record, incarnation=reading.head.incarnation, now=reading.now)
        if stamped.version != self.stamped.version:
            raise Conflict.of_others(f"restatement {self.name!r}", "changing it")

    def publish(self, commit: CommitBuilder, replaced: Sequence[tuple[TableName, TableRecord]]) -> None:
        """Add to *commit* that the restatement is published, and a lease on the versions that it replaces.

        Until the commit these are the newest, so that all of them exist.

        :param replaced: its tables, as they were.
        """
        commit.hold(commit.reading.of(topology_key(self._domain)), self.stamped)
        commit.update(Put(self.stamped.key, replace(self.stamped.record, state=RestatementState.PUBLISHED)))
        if self.stamped.record.is_group:
            return  # first revisions replace nothing
        key, csn = lease_key(self._domain, lease_of_restatement(self.name)), commit.reading.head.csn
        states = tuple(held_state(table, record, csn) for table, record in replaced)
        lease = LeaseRecord(
            owner=f"restatement {self.name}",
            ttl=REVERTIBLE,
            csn=csn,
            barrier=max(state.barrier for state in states),
            states=states,
        )
        commit.require(Absent(key))
        commit.update(Put(key, lease))

    @property
    def _domain(self) -> DomainName:
        return self.stamped.key.domain


def _end(epoch: StagedEpoch) -> datetime:
    return epoch.interval.end
