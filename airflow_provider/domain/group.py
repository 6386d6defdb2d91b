"""Commit groups: jobs whose epochs up to one barrier are published by one commit (R40). Pure decisions.

See docs/decisions/commit-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    return restatement_id(f"{group.name} {interval.end:%Y-%m-%dT%H:%M:%S.%fZ}".replace(".000000Z", "Z"))


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


def check_groups(job: Registered, jobs: Mapping[JobName, Registered]) -> None:
    """Refuse a declaration by which a group could not publish its jobs together.

    :param jobs: all active jobs of the domain, as they will be, *job* too.
    :raises TopologyError: other jobs, another cadence or no origin in one group; or a job outside of a group waits for
        its commit, and a job of the group for that job.
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
    for group in dict.fromkeys(known.group for known in jobs.values() if known.group is not None):
        _refuse_between(group, jobs)


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


def _refuse_between(group: Group, jobs: Mapping[JobName, Registered]) -> None:
    """Refuse a job outside of *group* that reads its tables, and whose own are read by the group: both would wait."""
    own = {job.name for job in jobs.values() if job.name in group.jobs}
    owners = {table.name: job.name for job in jobs.values() for table in job.outputs}
    behind = set[JobName]()
    while more := {
        job.name
        for job in jobs.values()
        if job.name not in own | behind and _upstream(job, owners) & (own | behind)
    }:
        behind |= more
    for name in sorted(own):
        between = sorted(_upstream(jobs[name], owners) & behind)
        if between:
            raise TopologyError(
                f"job {name!r} of group {group.name!r} reads job {between[0]!r}, which waits for the group's commit.",
                next_step=f"let job {between[0]!r} belong to the group, or {name!r} not; or let {name!r} read the "
                "epoch before: previous(table).",
                job=name,
                owner=between[0],
            )


def _upstream(job: Registered, owners: Mapping[TableName, JobName]) -> set[JobName]:
    """Return the jobs whose epoch of the same barrier *job* reads. :param owners: jobs by their tables."""
    edges: Iterable[TableName] = (
        edge.table
        for edge in job.edges
        if edge.kind is not EdgeKind.PREVIOUS and (edge.as_of is None or edge.as_of == timedelta(0))
    )
    return {owners[table] for table in edges if table in owners}
