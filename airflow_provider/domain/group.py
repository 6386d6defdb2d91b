"""Commit groups: jobs whose epochs up to one barrier are published by one commit (R40). Pure decisions.

See docs/decisions/commit-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.identifiers import JobName, RestatementId, TableName, restatement_id
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.topology import Edge, EdgeKind, Group, Table


class Registered(Protocol):
    """What a group asks of a job's record."""

    @property
    def name(self) -> JobName: ...

    @property
    def group(self) -> Group | None: ...

    @property
    def cadence(self) -> Cadence: ...

    @property
    def origin(self) -> datetime | None: ...

    @property
    def retired(self) -> str: ...

    @property
    def edges(self) -> tuple[Edge, ...]: ...

    @property
    def outputs(self) -> tuple[Table, ...]: ...


def epoch_of_group(group: Group, interval: Interval) -> RestatementId:
    """Return the name of the change set of *group* at the barrier that ends *interval*."""
    return restatement_id(f"{group.name} {_time_text(interval.end)}")


def ends_with(name: RestatementId, interval: Interval) -> bool:
    """Return True if *name* may be that of a group's change set at the barrier that ends *interval*: a hint."""
    return name.endswith(f" {_time_text(interval.end)}")


def may_be_of(name: RestatementId, group: Group, before: datetime | None = None) -> bool:
    """Return True if *name* may be that of a change set of *group*: a hint.

    :param before: at a barrier of epochs that begin before it.
    """
    start, barrier = f"{group.name} ", name[len(group.name) + 1 :].removesuffix("Z")
    return name.startswith(start) and (before is None or barrier <= _time_text(before).removesuffix("Z"))


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S.%fZ}".replace(".000000Z", "Z")


def publishes(group: Group | None, name: RestatementId, interval: Interval) -> bool:
    """Return True if *name* is the change set of *group* at the barrier that ends *interval*."""
    return group is not None and epoch_of_group(group, interval) == name


def group_of(job: Registered, epoch: EpochRecord | None) -> Group | None:
    """Return the group that publishes *epoch* of *job*; None for an epoch that is published by itself.

    A group publishes first revisions. What is committed is computed again as any other epoch.

    :param job: the newest declaration.
    """
    return job.group if epoch is None or epoch.committed is None else None


def is_without(job: Registered, interval: Interval) -> bool:
    """Return True if *job* will never compute *interval*: its group does not wait for it."""
    return bool(job.retired) or (job.origin is not None and interval.start < job.origin)


def computes(job: Registered, name: RestatementId, interval: Interval) -> bool:
    """Return True if the change set *name* of a group gets *interval* of *job*, unless that is committed by itself.

    It does not from a job that has left the group, that is retired, or that begins later. :param job: its newest
    declaration.
    """
    return publishes(job.group, name, interval) and not is_without(job, interval)


def check_groups(job: Registered, jobs: Mapping[JobName, Registered]) -> None:
    """Refuse a declaration by which a group could not publish its jobs together.

    :param jobs: all active jobs of the domain, as they will be, *job* too.
    :raises TopologyError: other jobs, another cadence or no origin in one group; or two groups, or a group and a job
        outside of it, would wait for each other's commit.
    """
    if job.group is not None and job.origin is None:
        raise TopologyError(
            f"job {job.name!r} of group {job.group.name!r} declares no origin: which of its epochs the group has is "
            "not known.",
            next_step=f"declare the origin of job {job.name!r}: the start of its first epoch.",
            job=job.name,
        )
    for other in jobs.values():
        if job.group is not None and other.group is not None and other.group.name == job.group.name:
            _refuse_unlike(job, job.group, other, other.group)
    if any(known.group is not None for known in jobs.values()):
        _Commits.of(job, jobs).refuse_circle()


def _refuse_unlike(job: Registered, group: Group, other: Registered, known: Group) -> None:
    if known.jobs != group.jobs:
        raise TopologyError(
            f"group {group.name!r} has the jobs {', '.join(known.jobs)} for job {other.name!r}, and "
            f"{', '.join(group.jobs)} for job {job.name!r}.",
            next_step="give the group of the other jobs another name, and declare it for each of them.",
            job=job.name,
            owner=other.name,
        )
    if other.cadence != job.cadence:
        raise TopologyError(
            f"job {job.name!r} has the cadence {job.cadence}, and job {other.name!r} of the same group "
            f"{group.name!r} has {other.cadence}.",
            next_step="give all jobs of the group one cadence, or leave this one out of it.",
            job=job.name,
            owner=other.name,
            expected=str(other.cadence),
            found=str(job.cadence),
        )


def readers_among(job: JobName, jobs: Iterable[Registered]) -> set[JobName]:
    """Return those of *jobs* that read the epoch of *job* at the same barrier, also through others of them."""
    known = list(jobs)
    owners = {table.name: other.name for other in known for table in other.outputs}
    upstream = {other.name: _upstream(other, owners) for other in known}
    found = set[JobName]()
    while more := {name for name, read in upstream.items() if name not in found and read & {job, *found}}:
        found |= more
    return found - {job}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wait:
    """A commit that waits for another one.

    :param of: the group or job whose commit waits. :param on: the one whose commit comes first. :param why: as text.
    :param by_list: it waits only since its list of jobs names one that declares it no more.
    """

    of: str
    on: str
    why: str
    by_list: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Commits:
    """Commits of one barrier, by the groups and the jobs outside of groups that make them, and which wait for which.

    A member of a group begins by what others of its group have staged, and by what is committed of all other jobs. So
    groups that wait for each other in a circle never commit anything.

    :param job: the job that is being registered. :param waits: by the commit that waits.
    """

    job: Registered
    own: str
    waits: Mapping[str, tuple[_Wait, ...]]

    @classmethod
    def of(cls, job: Registered, jobs: Mapping[JobName, Registered]) -> _Commits:
        """Return the commits of *jobs*, as the declaration of *job* has them.

        Its list counts for the jobs that it names: each of them is about to declare it. A list that names *job*, which
        declares another group or none, makes that group wait for the commit of *job*.
        """
        groups = {known.group.name: known.group for known in jobs.values() if known.group is not None}
        commits = {name: _commit_of(jobs[name], job, groups.values()) for name in jobs}
        owners = {table.name: known.name for known in jobs.values() for table in known.outputs}
        own, found = commits[job.name], list[_Wait]()
        for reader in jobs.values():
            for writer in sorted(_upstream(reader, owners)):
                if commits[reader.name] != commits[writer]:
                    why = f"job {reader.name!r}{_in_group(commits[reader.name])} reads job {writer!r}"
                    found.append(_Wait(of=commits[reader.name], on=commits[writer], why=why))
        for group in groups.values():
            commit = _commit_of_group(group)
            if job.name in group.jobs and commit != own:
                why = f"the list of group {group.name!r} names job {job.name!r}"
                found.append(_Wait(of=commit, on=own, why=why, by_list=True))
        waits: dict[str, tuple[_Wait, ...]] = {}
        for wait in found:
            waits[wait.of] = (*waits.get(wait.of, ()), wait)
        return cls(job=job, own=own, waits=waits)

    def refuse_circle(self) -> None:
        """:raises TopologyError: the commit with the registered job waits for itself."""
        circle = self._circle()
        if not circle:
            return
        name = self.job.name
        raise TopologyError(
            f"job {name!r}{_in_group(self.own)} cannot be published: {'; '.join(wait.why for wait in circle)}. Each "
            "would wait for the other's commit.",
            next_step=f"let job {name!r} declare the group, or first declare a group of another name without it in all "
            "others, and run them; then clear this task."
            if any(wait.by_list for wait in circle)
            else "let all of these jobs belong to one group, or to none; or let one of them read the epoch before: "
            "previous(table).",
            job=name,
            owner=circle[0].on.partition(" ")[2],
        )

    def _circle(self) -> list[_Wait]:
        """Return waits that lead from the commit with the registered job back to it, the shortest; empty for none."""
        ways: dict[str, list[_Wait]] = {self.own: []}
        queue = [self.own]
        while queue:
            commit = queue.pop(0)
            for wait in self.waits.get(commit, ()):
                if wait.on == self.own:
                    return [*ways[commit], wait]
                if wait.on not in ways:
                    ways[wait.on] = [*ways[commit], wait]
                    queue.append(wait.on)
        return []


def _commit_of(known: Registered, job: Registered, groups: Iterable[Group]) -> str:
    """Return the group or job whose commit has the epochs of *known*, once *job* is registered."""
    if known.name == job.name:
        return f"job {job.name}" if job.group is None else _commit_of_group(job.group)
    if job.group is not None and known.name in job.group.jobs:
        return _commit_of_group(job.group)
    # A job that is named by the others' list, and has not declared it yet, or no more, is waited for all the same.
    group = known.group or next((group for group in groups if known.name in group.jobs), None)
    return f"job {known.name}" if group is None else _commit_of_group(group)


def _commit_of_group(group: Group) -> str:
    return f"group {group.name}"


def _in_group(commit: str) -> str:
    kind, _, name = commit.partition(" ")
    return f" of group {name!r}" if kind == "group" else ""


def _upstream(job: Registered, owners: Mapping[TableName, JobName]) -> set[JobName]:
    """Return the jobs whose epoch of the same barrier *job* reads. :param owners: jobs by their tables."""
    edges: Iterable[TableName] = (
        edge.table
        for edge in job.edges
        if edge.kind is not EdgeKind.PREVIOUS and (edge.as_of is None or edge.as_of == timedelta(0))
    )
    return {owners[table] for table in edges if table in owners}
