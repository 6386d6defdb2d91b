"""Registration of jobs: the record of a job, and the declarations that the topology refuses (R6, R7)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from shlex import quote
from typing import TypeVar

from airflow_provider.domain.calendars import barrier_of_one_only, check_change
from airflow_provider.domain.checks import Check
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.format_marks import formerly, since
from airflow_provider.domain.group import check_groups
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Cadence
from airflow_provider.domain.topology import (
    Determinism,
    Edge,
    EdgeKind,
    Group,
    Job,
    OnRerun,
    OnUpstreamRevision,
    Source,
    Table,
)
from airflow_provider.domain.version import TableRecord

_Item = TypeVar("_Item", bound=Hashable)
MOST_LEFT_SOURCES = 100
"""Maximum number of sources that a job has left: their declarations tell which files its epochs have read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRecord:
    """The newest declaration of a job.

    :param revision: number of the declaration, from 1 on; an epoch keeps the revision that it opened with.
    :param fingerprint: identity of the declaration. :param earlier: those of earlier revisions, newest first.
    :param past_edges: edges of earlier revisions that differ: committed epochs may have read by them.
    :param past_outputs: tables of earlier revisions: open attempts may still publish to them.
    :param past_sources: names of sources of earlier revisions: their bounds stay.
    :param left_sources: last declarations of past sources, also of jobs whose tables this job has taken over; records
        of older versions have none.
    :param predecessors: jobs whose tables it has taken over.
    :param retired: reason why the job computes no more epochs; empty while it may.
    """

    name: JobName
    revision: int
    cadence: Cadence
    origin: datetime | None
    edges: tuple[Edge, ...]
    sources: tuple[Source, ...] = field(metadata=formerly("roots"))
    outputs: tuple[Table, ...]
    on_rerun: OnRerun
    determinism: Determinism
    fingerprint: str
    earlier: tuple[str, ...] = ()
    past_edges: tuple[Edge, ...] = ()
    past_outputs: tuple[TableName, ...] = ()
    checks: tuple[Check, ...] = ()
    inactive_after: int | None = field(default=None, metadata=formerly("lapses_after"))
    retired: str = ""
    past_sources: tuple[str, ...] = field(default=(), metadata=formerly("past_roots"))
    left_sources: tuple[Source, ...] = field(default=(), metadata=since(2, optional=True))
    predecessors: tuple[JobName, ...] = field(default=(), metadata=since(2, optional=True))
    group: Group | None = field(default=None, metadata=since(2))

    @property
    def writers(self) -> tuple[JobName, ...]:
        """The jobs that have computed epochs of its tables: itself and its predecessors."""
        return (self.name, *self.predecessors)

    @property
    def all_edges(self) -> tuple[Edge, ...]:
        """Edges of this and of all earlier revisions."""
        return (*self.edges, *self.past_edges)

    @property
    def all_outputs(self) -> tuple[TableName, ...]:
        """Tables of this and of all earlier revisions."""
        return (*(table.name for table in self.outputs), *self.past_outputs)

    @property
    def all_sources(self) -> tuple[str, ...]:
        """Names of the sources of this and of all earlier revisions."""
        return (*(source.name for source in self.sources), *self.past_sources)

    def has_full(self, table: str) -> bool:
        """Return True if the job owns or owned *table*, and the table is full, or its kind is unknown."""
        kinds = {output.name: output.kind for output in self.outputs}
        kind = kinds.get(TableName(table))
        return table in self.all_outputs and (kind is None or not kind.accumulates)

    def edge_on(self, table: str) -> Edge | None:
        return next((edge for edge in self.edges if edge.table == table), None)


def declared(job: Job, current: JobRecord | None, fingerprint: str) -> JobRecord:
    """Return the record for *job*: the current one if nothing changed, otherwise the next revision.

    A declaration equal to an earlier revision gets that revision's number: it serves the epoch that begins, and never
    moves the topology back (R7). The current declaration is recognized by its fingerprint, too: a record in a store of
    an older format does not have all fields of the declaration.

    :param fingerprint: of *job* (:func:`airflow_provider.stores.declarations.fingerprint`).
    """
    if current is not None and current.fingerprint == fingerprint:
        return current
    known = () if current is None else (current.fingerprint, *current.earlier)
    # Number of revisions since this declaration was current; -1 makes the next revision.
    age = known.index(fingerprint) if fingerprint in known else -1
    return JobRecord(
        **{part.name: getattr(job, part.name) for part in fields(JobDeclaration)},
        revision=1 if current is None else current.revision - age,
        fingerprint=fingerprint,
        earlier=known,
        past_edges=_left_out(current.all_edges, job.edges) if current else (),
        past_outputs=_left_out(current.all_outputs, [table.name for table in job.outputs]) if current else (),
        past_sources=_left_out(current.all_sources, [source.name for source in job.sources])
        if current
        else (),
        left_sources=_left_sources(current, job) if current else (),
        predecessors=current.predecessors if current else (),
        retired=current.retired if current else "",
    )


def _left_sources(current: JobRecord, job: Job) -> tuple[Source, ...]:
    named = {source.name for source in job.sources}
    left = (source for source in (*current.sources, *current.left_sources) if source.name not in named)
    return tuple(left)


def _left_out(before: Iterable[_Item], now: Iterable[_Item]) -> tuple[_Item, ...]:
    kept = set(now)
    return tuple(item for item in dict.fromkeys(before) if item not in kept)


def serves_once(record: JobRecord) -> bool:
    """Return True if the declaration equals an earlier revision: then it is used, but not stored."""
    return record.fingerprint in record.earlier


def check_registration(
    job: JobRecord, others: Mapping[JobName, JobRecord], previous: JobRecord | None
) -> None:
    """Refuse a declaration that contradicts the topology.

    :param others: all other jobs of the domain. Of a retired job only the sources count, since their bounds stay.
    :raises TopologyError: a second owner, a changed cadence or kind, a cycle, or calendars without common barriers.
    """
    active = {name: other for name, other in others.items() if not other.retired}
    _refuse_second_owner(job, active)
    if previous is not None:
        _refuse_changed_history(job, previous)
    everyone = {**active, job.name: job}
    refuse_cycle(everyone)
    check_groups(job, everyone)
    owners = {table.name: owner for owner in everyone.values() for table in owner.outputs}
    for reader in everyone.values():
        for edge in reader.edges:
            owner = owners.get(edge.table)
            if owner is not None and job.name in (reader.name, owner.name):
                _refuse_calendars(reader, edge, owner.name, owner.cadence)
                _refuse_unknown_start(reader, edge, owner)
    for other in others.values():
        _refuse_unlike_sources(job, other)


def check_left_tables(job: JobRecord, left: Mapping[TableName, TableRecord]) -> None:
    """Refuse to read a table that no job declares any more at barriers that its calendar does not have (R6).

    :param left: records of such tables that *job* reads.
    :raises TopologyError: the job would wait for such a barrier for ever.
    """
    for edge in job.edges:
        if edge.table in left:
            record = left[edge.table]
            _refuse_calendars(job, edge, record.job, record.cadence)


def readers_of(table: TableName, jobs: Sequence[JobRecord]) -> list[tuple[JobRecord, Edge]]:
    """Return the jobs that read *table*, also in earlier revisions, with their edges; no edges that ignore revisions.

    The job of a full table is one of them: its skipped epochs copy the epoch before (R5).
    """
    found = [
        (job, edge)
        for job in jobs
        for edge in job.all_edges
        if edge.table == table and edge.on_upstream_revision is not OnUpstreamRevision.IGNORE
    ]
    copied = Edge(table, EdgeKind.PREVIOUS)
    owners = [job for job in jobs if job.has_full(table) and (job, copied) not in found]
    return [*found, *((job, copied) for job in owners)]


def _refuse_second_owner(job: JobRecord, others: Mapping[JobName, JobRecord]) -> None:
    mine = {table.name for table in job.outputs}
    for other in others.values():
        shared = sorted(mine & {table.name for table in other.outputs})
        if shared:
            raise TopologyError(
                f"table {shared[0]!r} has an owner: job {other.name!r}; job {job.name!r} cannot own it too.",
                next_step="write to a table of its own, and join the two in a view or a third job; or, if "
                f"{other.name!r} is not to run any more, also where it has only failed, `airflow epochs retire "
                f"{quote(other.name)} --reason …` ends it with all its tables, and {job.name!r} takes {shared[0]!r} "
                "over: its rows, kind, format and calendar stay.",
                table=shared[0],
                owner=other.name,
                job=job.name,
            )


def _refuse_changed_history(job: JobRecord, previous: JobRecord) -> None:
    if previous.cadence not in (job.cadence, job.cadence.before):
        raise TopologyError(
            f"job {job.name!r} has the cadence {previous.cadence}; it cannot become {job.cadence}.",
            next_step="say from which barrier on it changes, and keep what it was before: "
            "Cadence(new, since=barrier, before=old).",
            job=job.name,
            expected=str(previous.cadence),
            found=str(job.cadence),
        )
    before = {table.name: table for table in previous.outputs}
    for table in job.outputs:
        old = before.get(table.name)
        if old is not None and (old.kind, old.format) != (table.kind, table.format):
            raise TopologyError(
                f"table {table.name!r} is {old.kind.value}/{old.format}; it cannot become "
                f"{table.kind.value}/{table.format}.",
                next_step="declare a table of another name.",
                table=table.name,
            )


def refuse_not_own(job: JobName, name: TableName, table: TableRecord) -> None:
    """Refuse to write a table that *job* does not own any more (R7).

    :raises TopologyError: the table belongs to another job now, or is retired.
    """
    if table.job != job:
        raise TopologyError(
            f"table {name!r} belongs to job {table.job!r} now, not to {job!r}.",
            next_step=f"let this attempt end, and run a declaration without that table; once job {table.job!r} is "
            f"retired, job {job!r} gets it back by a declaration that it has not had before (an earlier one counts as "
            "an older version of its DAG).",
            table=name,
            owner=table.job,
        )
    if table.ended:
        raise TopologyError(
            f"table {name!r} is retired: {table.ended}.",
            next_step=f"let this attempt end; if the job is retired, `airflow epochs revive {quote(job)}` brings it "
            "back; a table alone comes back by a declaration that the job has not had before (an earlier one counts as "
            "an older version of its DAG).",
            table=name,
            owner=job,
        )


def check_same_table(job: Job, table: Table, known: TableRecord) -> None:
    """Refuse another kind or format for a table that exists (R7).

    :raises TopologyError: names both.
    """
    before = (known.kind, known.ref.format if known.ref else table.format)
    if (table.kind, table.format) != before:
        raise TopologyError(
            f"table {table.name!r} is {before[0].value}/{before[1]}; job {job.name!r} declares it as "
            f"{table.kind.value}/{table.format}.",
            next_step="declare it as it was, or a table of another name.",
            table=table.name,
            owner=known.job,
        )


def check_takeover(job: Job, table: Table, known: TableRecord) -> None:
    """Refuse that *job* takes over a table of a retired job that does not fit (R7).

    :raises TopologyError: the table would get another calendar, or a gap before the new origin.
    """
    if known.cadence not in (job.cadence, job.cadence.before):
        raise TopologyError(
            f"table {table.name!r} has the cadence {known.cadence}; job {job.name!r} has {job.cadence}.",
            next_step="keep the cadence, or say from which barrier on it changes: "
            "Cadence(new, since=barrier, before=old).",
            table=table.name,
            owner=known.job,
        )
    check_change(known.cadence, job.cadence, known.progress.islands)
    check_no_gap(job, table, known)


def check_no_gap(job: Job, table: Table, known: TableRecord) -> None:
    """Refuse an origin that leaves a gap in a table that exists (R7).

    :raises TopologyError: the table would wait for epochs that no job computes.
    """
    end = known.progress.next_missing
    if job.origin is not None and end is not None and job.origin > end and known.progress.islands:
        raise TopologyError(
            f"table {table.name!r} goes on at {end.isoformat()}; job {job.name!r} begins at {job.origin.isoformat()}: "
            "no job would compute the epochs between.",
            next_step=f"declare the origin {end.isoformat()} or an earlier one.",
            table=table.name,
            owner=known.job,
            expected=end.isoformat(),
            found=job.origin.isoformat(),
        )


def refuse_cycle(jobs: Mapping[JobName, JobRecord]) -> None:
    """Refuse jobs that wait for each other's tables of the same epoch.

    :raises TopologyError: ``cycle`` has the names of the jobs.
    """
    owners = {table.name: job.name for job in jobs.values() for table in job.outputs}
    upstream = {
        job.name: [
            owners[edge.table]
            for edge in job.edges
            if edge.kind is not EdgeKind.PREVIOUS and edge.table in owners
        ]
        for job in jobs.values()
    }
    done: set[JobName] = set()
    for name in sorted(upstream):
        cycle = _cycle_from(name, upstream, done)
        if cycle:
            raise TopologyError(
                f"the jobs {' -> '.join(cycle)} read each other's tables of the same epoch.",
                next_step="let one of them read the epoch before: previous(table).",
                cycle=tuple(cycle),
            )


def _cycle_from(
    start: JobName, upstream: Mapping[JobName, list[JobName]], done: set[JobName]
) -> list[JobName]:
    """Return a cycle upstream of *start*, or an empty list; depth first, without recursion.

    :param done: jobs known to lead to no cycle; extended.
    """
    path: list[JobName] = []
    stack: list[tuple[JobName, Iterator[JobName]]] = []
    node: JobName | None = start
    while node is not None or stack:
        if node is not None and node not in done:
            if node in path:
                return [*path[path.index(node) :], node]
            path.append(node)
            stack.append((node, iter(upstream.get(node, ()))))
        node = next(stack[-1][1], None) if stack else None
        if node is None and stack:
            finished, _ = stack.pop()
            done.add(finished)
            path.pop()
    return []


def _refuse_calendars(reader: JobRecord, edge: Edge, owner: JobName, cadence: Cadence) -> None:
    if edge.as_of is not None:
        return
    off = barrier_of_one_only(reader.cadence, cadence)
    if off is not None:
        raise TopologyError(
            f"job {reader.name!r} ({reader.cadence}) reads {edge.table!r} exactly at its barriers, but "
            f"{off.isoformat()} is none of the barriers of {owner!r} ({cadence}).",
            next_step="read it as_of=timedelta(0) (its last barrier before), or align the cadences.",
            table=edge.table,
            job=reader.name,
            owner=owner,
            expected=str(cadence),
            found=str(reader.cadence),
            barrier=off,
        )


def _refuse_unknown_start(reader: JobRecord, edge: Edge, owner: JobRecord) -> None:
    """Refuse to read the past of a table without declared origins: "no rows" could mean "not yet" (R6)."""
    unknown = next((job for job in (owner, reader) if job.origin is None), None)
    if edge.kind is EdgeKind.PREVIOUS and unknown is not None:
        raise TopologyError(
            f"job {reader.name!r} reads the past of {edge.table!r}, but job {unknown.name!r} declares no origin.",
            next_step=f"declare the origin of job {unknown.name!r}: the start of its first epoch.",
            job=unknown.name,
            table=edge.table,
        )


def _refuse_unlike_sources(job: JobRecord, other: JobRecord) -> None:
    """Refuse two declarations of one source: jobs that share a source share its bounds at each barrier (I11)."""
    known = {source.name: source for source in other.sources}
    same_calendar = job.cadence == other.cadence or (other.retired and job.cadence.until(other.cadence))
    for source in job.sources:
        theirs = known.get(source.name)
        if theirs is not None and not (theirs.shares(source) and same_calendar):
            raise TopologyError(
                f"source {source.name!r} is {_shown(theirs)} at the cadence {other.cadence} for job {other.name!r}, "
                f"and {_shown(source)} at {job.cadence} for job {job.name!r}.",
                next_step="give the two sources different names, or the jobs one location and cadence.",
                source=source.name,
                owner=other.name,
            )


def _shown(source: Source) -> str:
    beyond = ", ".join(f"{name}={value}" for name, value in source.more if name != "kind")
    return f"{source.place!r}" + (f" ({beyond})" if beyond else "")
