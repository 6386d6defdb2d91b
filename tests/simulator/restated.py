"""What the records of restatements say, and what must be true of them (R28, R29)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_provider.domain.epoch import AttemptRecord, EpochRecord
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.restatement import (
    Decision,
    RestatementRecord,
    RestatementState,
    StagedEpoch,
    digest_of,
    epochs_of,
)
from airflow_provider.domain.version import Member
from tests.simulator.history import expect

Epoch = tuple[str, datetime]
"""Job and start."""


@dataclass(slots=True)
class Restated:
    """Restatements of a domain.

    :ivar records: the newest of each. :ivar csns: of those that are published.
    """

    records: dict[str, RestatementRecord] = field(default_factory=dict)
    csns: dict[str, int] = field(default_factory=dict)

    def is_open(self, name: str) -> bool:
        return name in self.records and self.records[name].state is RestatementState.OPEN

    def is_over(self, name: str, now: datetime) -> bool:
        """Whether nothing is computed or published within it any more."""
        deadline = self.records[name].deadline
        return not self.is_open(name) or (deadline is not None and deadline <= now)

    def members(self, name: str) -> list[Epoch]:
        """The members of a restatement; none before it is open."""
        epochs = self.records[name].epochs if name in self.records else ()
        return [(str(job), interval.start) for job, interval in epochs]

    def put(self, name: str, record: RestatementRecord, closure: set[Epoch], at: datetime) -> None:
        """Take a record that was written at the store's time *at*.

        :param closure: the epochs that were asked for or have joined, and all that have read them, directly or through
            others.
        """
        before = self.records.get(name)
        if record.reverts and before is not None and before.state is RestatementState.ABANDONED:
            before = None  # it is opened anew
        if before is not None:
            expect(before.state is RestatementState.OPEN, "R28", f"{name} changes after its end: {record}")
            left = set(epochs_of(before.asked)) - set(epochs_of(record.asked))
            kept = not left if record.rerun_of else before.asked == record.asked
            expect(kept, "R28", f"{name} is asked for something else: {record}")
            lost = set(before.epochs) - set(record.epochs)
            expect(not lost, "R28", f"{name} has lost {lost}")
            kept = record.decisions[: len(before.decisions)] == before.decisions
            expect(kept, "R28", f"{name} has lost decisions: {before.decisions}, now {record.decisions}")
        self.records[name] = record
        mine = set(self.members(name))
        expect(mine <= closure, "R28", f"{name} computes {mine - closure}, which have read nothing of it")
        for other in self.records:
            shared = (
                mine & set(self.members(other)) if other != name and not self.is_over(other, at) else set()
            )
            expect(not shared or not self.is_open(name), "R28", f"{name} and {other} both compute {shared}")
        rivals = [
            other
            for other, found in self.records.items()
            if record.rerun_of and found.rerun_of == record.rerun_of and not self.is_over(other, at)
        ]
        expect(rivals in ([], [name]), "R28", f"runs of {record.rerun_of} have several: {rivals}")

    @staticmethod
    def decided(
        record: RestatementRecord, decision: Decision, epochs: Iterable[tuple[str, Interval]]
    ) -> set[Epoch]:
        """Those of *epochs* about which *record* has the *decision*."""
        made = [
            (choice.job, span)
            for choice in record.decisions
            if choice.decision is decision
            for span in choice.spans
        ]
        return {
            (job, epoch.start)
            for job, epoch in epochs
            if any(name == job and span.start <= epoch.start < epoch.end <= span.end for name, span in made)
        }

    def hold(self, key: Key[Any], before: AttemptRecord | None, now: EpochRecord, at: datetime) -> None:
        """No process takes an epoch, or its output, from the restatement that computes it, before that is over."""
        holder = before.restated_by if before is not None else None
        if before is None or holder is None:
            return
        after, where = now.attempt, f"{key}, which restatement {holder} holds"
        if after is None:
            mine = now.committed is not None and now.committed.change_set == f"restatement {holder}"
            expect(mine, "R28", f"{where}, is committed by itself")
        elif after.restatement != holder:
            expect(self.is_over(holder, at), "R28", f"{where}, is begun by {after.owner}")
        elif before.staged and after.aborted is not None:
            expect(not self.is_open(holder), "R28", f"{where}, is given up: {after.aborted}")

    def published(
        self, members: Sequence[Member], tokens: Iterable[int], records: Mapping[Key[Any], Any], csn: int
    ) -> RestatementRecord | None:
        """It is published whole, as it was approved; nothing else has members that one commit publishes.

        :param tokens: under which the output of *members* was staged.
        :return: its record; None if no restatement is published.
        """
        ended = [
            (str(key.item), record)
            for key, record in records.items()
            if key.kind is Kind.RESTATEMENT and record.state is RestatementState.PUBLISHED
        ]
        expect(len(ended) == 1 or (len(members) == 1 and not ended), "R2", f"members {members}")
        for name, record in ended:
            found = [(member.job, member.interval) for member in members]
            expect(sorted(found) == sorted(record.epochs), "R28", f"{name} is published in part: {found}")
            output = digest_of(
                StagedEpoch(job=member.job, interval=member.interval, revision=member.revision, token=token)
                for member, token in zip(members, tokens, strict=True)
            )
            approved = not record.needs_approval or record.approved == output
            expect(approved, "R29", f"{name}: {output} has no approval, but {record.approved!r} has")
            self.csns[name] = csn
        return ended[0][1] if ended else None
