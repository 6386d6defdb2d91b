"""Commits after the CSN to which a domain is rolled back, and what they have made of its epochs (R30). Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from shlex import quote

from airflow_provider.coordination.commits.history import commits_between, last_change
from airflow_provider.domain.epoch import Commitment, EpochRecord, committed_csn
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, RestatementId, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, epoch_key, restatement_key
from airflow_provider.domain.restatement import (
    ChangeSetKind,
    RestatementRecord,
    RestatementState,
    change_set_of_restatement,
)
from airflow_provider.domain.rollback import HARMLESS
from airflow_provider.domain.version import Member, TableRef
from airflow_provider.stores.base import MetadataReader

_PAGE = 500
_RESTATEMENT = f"{ChangeSetKind.RESTATEMENT} "
_GROUP = f"{ChangeSetKind.GROUP} "


@dataclass(frozen=True, kw_only=True, slots=True)
class RolledEpoch:
    """An epoch that was not committed at that CSN, and is now.

    :param numbers: its revisions that were committed since.
    """

    job: JobName
    interval: Interval
    stamped: Stamped[EpochRecord]
    commitment: Commitment
    csn: int
    numbers: tuple[int, ...]

    def revisions(self, domain: DomainName) -> Iterator[RevisionId]:
        return (RevisionId(domain, self.job, self.interval, number) for number in self.numbers)


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitsSince:
    """Effect of the commits after a CSN.

    :param gone: the epochs that go. :param reverted: epochs that stay, since a restatement of them was taken back.
    :param groups: the barriers of groups that have committed some of *gone*, by whichever revision.
    :param versions: the versions of tables that were made since, each with the time of its commit.
    :param obstacles: commits that cannot be taken back, as text.
    """

    gone: tuple[RolledEpoch, ...]
    reverted: tuple[tuple[JobName, Interval, Commitment], ...]
    groups: tuple[Stamped[RestatementRecord], ...]
    versions: tuple[tuple[TableRef, datetime], ...]
    obstacles: tuple[str, ...]


def commits_since(reader: MetadataReader, domain: DomainName, to: int, head: int) -> CommitsSince:
    """Return what the commits after the CSN *to* up to *head* have made of the epochs of *domain*."""
    mentions: dict[tuple[JobName, Interval], list[tuple[Member, ChangeSetId]]] = {}
    versions, obstacles = list[tuple[TableRef, datetime]](), list[str]()
    for commit in commits_between(reader, domain, to, head):
        record = commit.record
        versions += [(delta.ref, commit.at) for delta in record.tables if delta.ref is not None]
        if record.dropped:
            obstacles.append(f"CSN {commit.csn} has dropped {', '.join(record.dropped)}")
        elif record.tables and not record.members and not record.change_set.endswith(HARMLESS):
            obstacles.append(f"CSN {commit.csn} ({record.change_set}) has rows of {record.by}")
        for member in record.members:
            known = mentions.setdefault((member.job, member.interval), [])
            known.append((member, record.change_set))
    gone, reverted = list[RolledEpoch](), list[tuple[JobName, Interval, Commitment]]()
    change_sets = dict[ChangeSetId, None]()
    for (job, interval), stamped in _epochs(reader, domain, mentions):
        committed, since = stamped.record.committed, mentions[job, interval]
        if committed is None or stamped.record.interval != interval:
            continue  # it was rolled back since
        if since[0][0].is_first:
            # Of all its commits, not of the newest alone: a restatement computes what a group has committed again.
            change_sets |= dict.fromkeys(change_set for _, change_set in since)
            gone.append(
                RolledEpoch(
                    job=job,
                    interval=interval,
                    stamped=stamped,
                    commitment=committed,
                    csn=committed_csn(stamped) or 0,
                    numbers=tuple(member.revision for member, _ in since),
                )
            )
        elif _is_reverted(reader, domain, [change_set for _, change_set in since]):
            reverted.append((job, interval, committed))
        else:
            obstacles.append(f"{job} {interval} was committed before, and computed again since{_undo(since)}")
    return CommitsSince(
        gone=tuple(gone),
        reverted=tuple(reverted),
        groups=tuple(_groups(reader, domain, change_sets)),
        versions=tuple(versions),
        obstacles=tuple(obstacles),
    )


def watermark_at(reader: MetadataReader, domain: DomainName, table: TableName, csn: int) -> datetime | None:
    """Return the watermark that *table* had at *csn*, by the last commit until then that has written it."""
    found = last_change(reader, domain, table, csn)
    return None if found is None else found[1].watermark


def _epochs(
    reader: MetadataReader,
    domain: DomainName,
    mentions: Mapping[tuple[JobName, Interval], object],
) -> Iterator[tuple[tuple[JobName, Interval], Stamped[EpochRecord]]]:
    names = sorted(mentions)
    for start in range(0, len(names), _PAGE):
        page = {name: epoch_key(domain, name[0], name[1].start) for name in names[start : start + _PAGE]}
        reading = reader.read(domain, list(dict.fromkeys(page.values())))
        for name, key in page.items():
            stamped = reading.get(key)
            if stamped is not None:  # otherwise its job was dropped
                yield name, stamped


def _is_reverted(reader: MetadataReader, domain: DomainName, change_sets: Sequence[ChangeSetId]) -> bool:
    """Return True if all of *change_sets* are restatements, each taken back by the one after it."""
    left = list[ChangeSetId]()
    for change_set in change_sets:
        if not change_set.startswith(_RESTATEMENT):
            return False
        name = RestatementId(change_set.removeprefix(_RESTATEMENT))
        stamped = reader.read(domain, [key := restatement_key(domain, name)]).get(key)
        undoes = None if stamped is None else stamped.record.reverts
        if left and undoes is not None and left[-1] == change_set_of_restatement(undoes):
            left.pop()
        else:
            left.append(change_set)
    return not left


def _undo(since: Sequence[tuple[Member, ChangeSetId]]) -> str:
    """Return how what was computed last is taken back, if it can be."""
    change_set = since[-1][1]
    if not change_set.startswith(_RESTATEMENT):
        return ""
    name = change_set.removeprefix(_RESTATEMENT)
    return f" by {change_set}: `airflow epochs restate revert {quote(name)} --reason …` takes that back"


def _groups(
    reader: MetadataReader, domain: DomainName, change_sets: Iterable[ChangeSetId]
) -> Iterator[Stamped[RestatementRecord]]:
    names = [each.removeprefix(_GROUP) for each in change_sets if each.startswith(_GROUP)]
    for name in names:
        key = restatement_key(domain, RestatementId(name))
        stamped = reader.read(domain, [key]).get(key)
        if stamped is not None and stamped.record.state is RestatementState.PUBLISHED:
            yield stamped
