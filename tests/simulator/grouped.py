"""Commit groups of the cascade: what the records of their barriers say, and what must be true of them (R40)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider.domain.epoch import AttemptRecord, EpochRecord
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.restatement import RestatementRecord, RestatementState, StagedEpoch, digest_of
from airflow_provider.domain.topology import Group
from airflow_provider.domain.version import Member
from tests.simulator.cascade import JOBS, OWNERS, SimulatedJob
from tests.simulator.history import expect

Epoch = tuple[str, datetime]
"""Job and start."""

CHAINS = (("pair", "total"), ("pair", "recent", "total"), ("base", "pair", "total"))
"""The jobs of the group, in the order of their tables; who reads them outside waits for the commit."""


@dataclass(slots=True)
class Grouped:
    """The barriers of the group of a domain, which may have none.

    :ivar jobs: of the group. :ivar records: the newest of each barrier. :ivar csns: of those that are published.
    :ivar last: the member of each barrier that was staged last.
    """

    jobs: tuple[str, ...] = ()
    records: dict[str, RestatementRecord] = field(default_factory=dict)
    csns: dict[str, int] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)

    def declared(self, one: SimulatedJob) -> SimulatedJob:
        """Return *one* as its DAG declares it: with the group, if it is one of its jobs."""
        if one.name not in self.jobs:
            return one
        job = copy(one.job)
        object.__setattr__(job, "group", Group("chain", jobs=self.jobs))
        return replace(one, job=job)

    def is_open(self, name: str) -> bool:
        return self.records[name].state is RestatementState.OPEN

    def members(self, name: str) -> list[Epoch]:
        return [(str(job), interval.start) for job, interval in self.records[name].epochs]

    def put(self, name: str, record: RestatementRecord, *, rolled_back: bool = False) -> None:
        """Take the record of a barrier: it has all jobs, and opens anew only once it was abandoned.

        :param rolled_back: a rollback writes it, which ends published barriers as abandoned ones end (R30).
        """
        before = self.records.get(name)
        jobs = sorted(str(job) for job, _ in record.epochs)
        expect(jobs == sorted(self.jobs), "R40", f"{name} has {jobs}, not {self.jobs}")
        ends = {interval.end for _, interval in record.epochs}
        expect(len(ends) == 1, "R40", f"{name} has the barriers {ends}")
        if before is not None:
            ended = before.state is RestatementState.PUBLISHED
            undone = rolled_back and record.state is RestatementState.ABANDONED
            expect(
                undone if rolled_back else not ended,
                "R40",
                f"{name} is {before.state}, and changes: {record}",
            )
        self.records[name] = record

    def hold(self, key: Key[Any], before: AttemptRecord, now: EpochRecord) -> None:
        """No process commits an epoch alone that a barrier holds, nor takes it, before the barrier is over."""
        holder, after = str(before.restated_by), now.attempt
        where = f"{key}, which {holder} holds"
        if after is None:
            done = now.committed
            alone = done is None or (done.change_set != f"group {holder}" and not done.skipped)
            expect(not alone, "R40", f"{where}, is committed by itself")
            expect(not (done and done.skipped and before.staged), "R40", f"{where}, is skipped while staged")
        elif after.restatement != holder:
            taken = not before.staged and after.owner.dag_id.startswith("skip by ")
            expect(taken or not self.is_open(holder), "R40", f"{where}, is begun by {after.owner}")
        elif before.staged and after.aborted is not None:
            expect(not self.is_open(holder), "R40", f"{where}, is given up: {after.aborted}")
        if after is not None and after.staged and not before.staged:
            self.last[holder] = key.partition

    def published(
        self,
        members: Sequence[Member],
        records: Mapping[Key[Any], Any],
        committed: Mapping[Epoch, object],
        csn: int,
    ) -> str | None:
        """A barrier is published whole: what it lacks is committed already.

        :return: its name; None if no barrier is published.
        """
        names = [
            str(key.item)
            for key, record in records.items()
            if key.kind is Kind.RESTATEMENT and record.is_group and record.state is RestatementState.PUBLISHED
        ]
        expect(len(names) < 2, "R40", f"one commit publishes {names}")
        for name in names:
            found = {(str(member.job), member.interval.start) for member in members}
            wanted = set(self.members(name))
            expect(found <= wanted, "R40", f"{name} publishes {found - wanted}, which are not its own")
            left = {member for member in wanted - found if member not in committed}
            expect(not left, "R40", f"{name} is published in part: without {left}")
            again = found & {*committed}
            expect(not again, "R40", f"{name} publishes {again}, which are committed")
            self.csns[name] = csn
        return names[0] if names else None

    def taken_back(self, gone: set[Epoch]) -> None:
        """A rollback has ended each barrier of which it takes an epoch back: the next begin opens it anew (R30)."""
        for name in [csn for csn in self.csns if gone & {*self.members(csn)}]:
            state = self.records[name].state
            expect(
                state is RestatementState.ABANDONED, "R30", f"{name} is {state}, and epochs of it are gone"
            )
            del self.csns[name]

    def refuse_alone(self, member: Member, committed: Mapping[Epoch, object], *, skipped: bool) -> None:
        """:raises Violation: an epoch of a job of the group is committed first without it, and not skipped."""
        first = (str(member.job), member.interval.start) not in committed
        alone = str(member.job) in self.jobs and first and not skipped
        expect(not alone, "R40", f"{member} is committed without its group")

    def stages_first(self, job: str, start: datetime, table: str, committed: Mapping[Epoch, object]) -> bool:
        """Whether *job* reads the epoch of *table* from *start* as another job of the group has staged it."""
        owner = OWNERS[table]
        return job in self.jobs and owner in self.jobs and owner != job and (owner, start) not in committed


def staged_at(epochs: Mapping[Epoch, EpochRecord], place: Epoch) -> AttemptRecord | None:
    """The attempt whose staged output waits at *place*; None if there is none."""
    attempt = epochs[place].attempt if place in epochs else None
    return attempt if attempt is not None and attempt.restated_by is not None and attempt.staged else None


def outdated(epochs: Mapping[Epoch, EpochRecord], place: Epoch, changed: Callable[[Any], bool]) -> bool:
    """Whether the member staged at *place* has read what is not there any more.

    :param changed: whether committed rows of an input were computed again since.
    """
    attempt = staged_at(epochs, place)
    assert attempt is not None
    for read in attempt.inputs:
        owner = OWNERS[str(read.table)], place[1]
        writer = staged_at(epochs, owner) if read.staged else None
        now = (
            ""
            if writer is None
            else digest_of(
                [
                    StagedEpoch(
                        job=JOBS[owner[0]].job.name,
                        interval=epochs[owner].interval,
                        revision=writer.revision,
                        token=writer.output_token,
                    )
                ]
            )
        )
        if read.staged != now or changed(read):
            return True
    return False
