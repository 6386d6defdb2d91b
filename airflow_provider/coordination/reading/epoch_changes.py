"""Epochs in which two states of a domain differ: those that came, were computed again, or were taken back.

The commits between the two CSNs say so. The work grows with their number, not with the history. Read-only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider.coordination.commits.history import commits_between
from airflow_provider.coordination.reading.past_states import checked_csn
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.records import Stamped, slice_writer
from airflow_provider.domain.restatement import JobEpochs
from airflow_provider.domain.rollback import HARMLESS, ROLLED_BACK
from airflow_provider.domain.version import CommitRecord, SliceRecord
from airflow_provider.stores.base import MetadataReader, pages

_Epoch = tuple[JobName, Interval]


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherCommit:
    """A commit that changed rows or tables and is of no epoch. :param by: its author or kind, as recorded."""

    csn: int
    tables: tuple[TableName, ...]
    by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochChanges:
    """Difference of a domain between the commits *since* and *until*.

    :param came: epochs that were not committed at *since*, and are at *until*.
    :param revised: epochs that are committed at both, by different revisions.
    :param taken_back: epochs that were committed at *since*, and are not at *until*. An epoch that came and was taken
        back in between is in none of the three.
    :param adopted: commits of rows of other programs. :param dropped: commits that have dropped tables: the epochs of
        their jobs, which are gone, are in the other lists as they were committed.
    :param commits: number of commits between the two.
    """

    domain: DomainName
    since: int
    until: int
    commits: int
    came: tuple[JobEpochs, ...]
    revised: tuple[JobEpochs, ...]
    taken_back: tuple[JobEpochs, ...]
    adopted: tuple[OtherCommit, ...]
    dropped: tuple[OtherCommit, ...]


@dataclass(slots=True)
class _Changes:
    """Epochs by whether they were committed before the first change of each, and after the last."""

    before: dict[_Epoch, bool] = field(default_factory=dict)
    after: dict[_Epoch, bool] = field(default_factory=dict)

    def note(self, epoch: _Epoch, *, before: bool, after: bool) -> None:
        self.before.setdefault(epoch, before)
        self.after[epoch] = after

    def of(self, *, before: bool, after: bool) -> tuple[JobEpochs, ...]:
        """Return the epochs with these two answers, by job."""
        found: dict[JobName, list[Interval]] = {}
        for job, interval in sorted(self.after):
            if (self.before[job, interval], self.after[job, interval]) == (before, after):
                found.setdefault(job, []).append(interval)
        return tuple(JobEpochs(job=job, intervals=tuple(spans)) for job, spans in found.items())


def epoch_changes(reader: MetadataReader, domain: str, since: int, until: int | None = None) -> EpochChanges:
    """Return in which epochs *domain* differs between the commits *since* and *until*, by default the last one.

    :param since: CSN of the earlier state; 0 for before the first commit.
    :raises InvalidInput: a CSN that the domain has not reached, or *until* before *since*.
    """
    reader, name = retrying_reader(reader), domain_name(domain)
    reading = reader.read(name, [])
    first = checked_csn(since, name, reading, "since")
    last = checked_csn(until, name, reading, "until")
    if last < first:
        raise InvalidInput(
            field="until",
            value=last,
            expected=f"a CSN that is not before the other one, which is {first}",
            next_step="exchange the two.",
        )
    changes = _Changes()
    adopted, dropped = list[OtherCommit](), list[OtherCommit]()
    number = 0
    for commit in commits_between(reader, name, first, last):
        number += 1
        record = commit.record
        for member in record.members:
            changes.note((member.job, member.interval), before=not member.is_first, after=True)
        if record.change_set.endswith(ROLLED_BACK):
            for epoch in _rolled_back(reader, name, commit):
                changes.note(epoch, before=True, after=False)
        elif record.tables and not record.members and not record.change_set.endswith(HARMLESS):
            adopted.append(_other(commit, (delta.table for delta in record.tables)))
        if record.dropped:
            dropped.append(_other(commit, record.dropped))
    return EpochChanges(
        domain=name,
        since=first,
        until=last,
        commits=number,
        came=changes.of(before=False, after=True),
        revised=changes.of(before=True, after=True),
        taken_back=changes.of(before=True, after=False),
        adopted=tuple(adopted),
        dropped=tuple(dropped),
    )


def _rolled_back(
    reader: MetadataReader, domain: DomainName, commit: Stamped[CommitRecord]
) -> Iterator[_Epoch]:
    """Yield the epochs that the rollback *commit* took back: their slices carry its CSN."""
    for delta in commit.record.tables:
        end = time_key(delta.interval.end)
        for piece in pages(reader, domain, SliceRecord, delta.table, start=time_key(delta.interval.start)):
            if piece.key.item >= end:
                break
            if piece.record.taken_back and piece.csn == commit.csn:
                yield slice_writer(piece.key), piece.record.interval


def _other(commit: Stamped[CommitRecord], tables: Iterator[TableName] | tuple[TableName, ...]) -> OtherCommit:
    return OtherCommit(csn=commit.csn or 0, tables=tuple(sorted(tables)), by=commit.record.by)
