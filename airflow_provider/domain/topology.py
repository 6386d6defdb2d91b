"""Declarations of a pipeline: tables, jobs and the edges between them (protocol section 4).

Declarations are plain values: making one opens nothing and registers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from airflow_provider.domain.checks import Check, refuse_unknown_tables
from airflow_provider.domain.columns import ColumnChange, checked_changes
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import (
    DomainName,
    JobName,
    TableName,
    column_name,
    domain_name,
    format_name,
    group_name,
    job_name,
    table_name,
)
from airflow_provider.domain.interval import Cadence, Interval, as_utc
from airflow_provider.domain.source_bounds import Source as Source  # noqa: PLC0414  (declared with the edges, and imported with them)
from airflow_provider.domain.table_kind import TableKind

MOST_IN_A_GROUP = 50
"""Maximum number of jobs of a commit group: any store's transaction holds their epochs."""
_LONGEST_GROUP = 200
_MOST_EPOCHS = 1_000_000
_FARTHEST = timedelta(days=36_525)
"""Longest distance into the past that an edge may read: a century."""
_Member = TypeVar("_Member", bound=StrEnum)


class EdgeKind(StrEnum):
    """The rows that a read of an input returns (protocol section 4)."""

    INCREMENT = "increment"
    """The rows of the job's own interval."""
    WINDOW = "window"
    """The rows from the interval's start minus a length up to the barrier."""
    STATE = "state"
    """All rows up to the barrier."""
    PREVIOUS = "previous"
    """All rows up to the start of the job's interval: the only edge that may close a cycle."""


class OnUpstreamRevision(StrEnum):
    """Policy of a committed reader when its input is computed again (protocol section 4)."""

    CASCADE = "cascade"
    """The reader is computed again with its input, and published by the same commit."""
    HOLD = "hold"
    """The input is not published before a decision: the reader joins the restatement, or is released from it."""
    IGNORE = "ignore"
    """The reader's rows stay, with a label."""

    @property
    def may_stay(self) -> bool:
        """Return True if rows of such a reader may stay when its input changes: always, or once it is released."""
        return self is not OnUpstreamRevision.CASCADE


class OnRerun(StrEnum):
    """Effect of a new generation of a committed epoch (docs/decisions/rerun.md)."""

    KEEP = "keep"
    NEW_REVISION = "new_revision"
    """It is computed again: within a restatement of the task's DAG, if committed epochs have read it."""
    FAIL = "fail"


class Determinism(StrEnum):
    """Kind of the job's computation; decides whether a retry adopts earlier output (protocol section 8)."""

    DETERMINISTIC = "deterministic"
    KEEP_FIRST = "keep_first"
    REPLACE_CASCADE = "replace_cascade"


class OnForeignCommit(StrEnum):
    """Policy for rows that another program commits to a table (R17)."""

    REFUSE = "refuse"
    """Publishing is refused until the table is as it was published last."""
    ADOPT = "adopt"
    """A commit of its own adopts them, unless a committed reader depends on the rows that they change."""


@dataclass(frozen=True, slots=True, init=False)
class Table:
    """A table that one job of a domain owns.

    :param name: unique in its domain.
    :param domain: name of the group of jobs and tables that share one commit sequence.
    :param kind: relation of the table's state to its slices.
    :param partition_by: further columns by whose values files are separated, or transforms of columns:
        ``bucket(16, id)``, ``truncate(4, name)``, ``day(at)``, ``hour(at)``.
    :param sort_by: columns by which rows are sorted inside each file.
    :param on_foreign_commit: policy for rows that another program commits to it; a compaction is always accepted.
    :param column_changes: changes of its columns since its first write, in order; this list only grows
        (:mod:`airflow_provider.domain.columns`).
    :raises InvalidInput: names the field.
    """

    name: TableName
    domain: DomainName = DomainName("default")
    kind: TableKind = TableKind.INCREMENTAL
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    format: str = "iceberg"
    on_foreign_commit: OnForeignCommit = field(default=OnForeignCommit.REFUSE, repr=False)
    column_changes: tuple[ColumnChange, ...] = field(default=(), repr=False)

    def __init__(
        self,
        name: str,
        domain: str = "default",
        *,
        kind: TableKind | str = TableKind.INCREMENTAL,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        format: str = "iceberg",  # noqa: A002 - the word of the field
        on_foreign_commit: OnForeignCommit | str = OnForeignCommit.REFUSE,
        column_changes: Sequence[ColumnChange] = (),
    ) -> None:
        given = {
            "name": name,
            "domain": domain,
            "kind": kind,
            "format": format,
            "on_foreign_commit": on_foreign_commit,
            "column_changes": column_changes,
        }
        for attribute, value in (*given.items(), ("partition_by", partition_by), ("sort_by", sort_by)):
            object.__setattr__(self, attribute, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", table_name(self.name))
        object.__setattr__(self, "domain", domain_name(self.domain))
        object.__setattr__(self, "kind", _member(TableKind, self.kind, "kind"))
        policy = _member(OnForeignCommit, self.on_foreign_commit, "on_foreign_commit")
        object.__setattr__(self, "on_foreign_commit", policy)
        format_name(self.format)
        object.__setattr__(self, "column_changes", checked_changes(self.column_changes))
        for name in ("partition_by", "sort_by"):
            columns = getattr(self, name)
            if not isinstance(columns, list | tuple):
                raise InvalidInput(field=name, value=columns, expected="a sequence of column names")
            object.__setattr__(self, name, tuple(column_name(column) for column in columns))

    @property
    def uri(self) -> str:
        """Identity of the table for Airflow's assets and for lineage."""
        return f"epoch://{self.domain}/{self.name}"


@dataclass(frozen=True, slots=True)
class Edge:
    """A declared read of a table; use :func:`increment`, :func:`window`, :func:`state`, :func:`previous`.

    :param domain: domain of the table; None in a job, which reads tables of its own domain only.
    """

    table: TableName
    kind: EdgeKind
    as_of: timedelta | None = None
    length: timedelta | None = None
    on_upstream_revision: OnUpstreamRevision = OnUpstreamRevision.CASCADE
    domain: DomainName | None = field(default=None, repr=False, compare=False)


def increment(table: Table, **options: Any) -> Edge:
    """Read the rows of the job's own interval."""
    return _edge(table, EdgeKind.INCREMENT, **options)


def window(table: Table, length: timedelta, **options: Any) -> Edge:
    """Read the rows from *length* before the interval's start up to the barrier."""
    if not isinstance(length, timedelta) or not timedelta(0) < length <= _FARTHEST:
        raise InvalidInput(
            field="length", value=length, expected=f"a positive timedelta of at most {_FARTHEST.days} days"
        )
    return _edge(table, EdgeKind.WINDOW, length=length, **options)


def state(table: Table, **options: Any) -> Edge:
    """Read all rows up to the barrier."""
    return _edge(table, EdgeKind.STATE, **options)


def previous(table: Table, **options: Any) -> Edge:
    """Read all rows up to the start of the job's interval."""
    return _edge(table, EdgeKind.PREVIOUS, **options)


def _edge(
    table: Table,
    kind: EdgeKind,
    *,
    as_of: timedelta | None = None,
    length: timedelta | None = None,
    on_upstream_revision: OnUpstreamRevision = OnUpstreamRevision.CASCADE,
) -> Edge:
    if not isinstance(table, Table):
        raise InvalidInput(field="inputs", value=table, expected="a Table, an edge or a source")
    if as_of is not None and (not isinstance(as_of, timedelta) or not timedelta(0) <= as_of <= _FARTHEST):
        raise InvalidInput(
            field="as_of",
            value=as_of,
            expected=f"a timedelta of zero or more, and at most {_FARTHEST.days} days",
        )
    if kind in (EdgeKind.INCREMENT, EdgeKind.WINDOW) and not table.kind.accumulates:
        raise InvalidInput(
            field="inputs",
            value=f"{kind.value}({table.name})",
            expected="state() or previous(): each slice of a full table is its whole state",
        )
    policy = _member(OnUpstreamRevision, on_upstream_revision, "on_upstream_revision")
    return Edge(
        table.name, kind, as_of=as_of, length=length, on_upstream_revision=policy, domain=table.domain
    )


@dataclass(frozen=True, slots=True, init=False)
class Group:
    """A commit group: the epochs of its jobs up to one barrier become visible in one commit (R40).

    :param name: unique in the domain. :param jobs: names of all its jobs, each of which declares the group. They
        never change: other jobs are a group of another name.
    :raises InvalidInput: names the field.
    """

    name: str
    jobs: tuple[JobName, ...]

    def __init__(self, name: str, *, jobs: Iterable[str]) -> None:
        names = sorted(map(job_name, _several(jobs, "jobs", "names of jobs")))
        _refuse_repeats("jobs", names)
        if not 2 <= len(names) <= MOST_IN_A_GROUP:
            expected = f"the names of 2 to {MOST_IN_A_GROUP} jobs, which one commit publishes"
            raise InvalidInput(field="jobs", value=names, expected=expected)
        if (
            len(group_name(name).encode()) > _LONGEST_GROUP
        ):  # its barriers have the name, with their time behind it
            raise InvalidInput(field="group", value=name, expected=f"at most {_LONGEST_GROUP} bytes of UTF-8")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "jobs", tuple(names))


@dataclass(frozen=True, slots=True, init=False)
class Job:
    """A unit of work that reads inputs and writes output tables, one epoch at a time.

    :param name: unique in the domain.
    :param inputs: tables (read by their kind's default edge), edges and sources.
    :param outputs: the tables that this job owns, all of one domain.
    :param cadence: cron expression or :class:`Cadence` that cuts time into the job's epochs.
    :param origin: start of the first epoch; None for the start of whichever epoch commits first.
    :param on_rerun: effect of another run, or a cleared task, on a committed epoch.
    :param inactive_after: number of barriers of its calendar without a commit after which no cut waits for it (R9);
        None for never.
    :param checks: checks that must pass before rows are published (:mod:`airflow_provider.domain.checks`).
    :param group: commit group that publishes its epochs; None for a job that publishes each by itself.
    :raises InvalidInput: names the field.
    """

    name: JobName
    outputs: tuple[Table, ...]
    cadence: Cadence
    inputs: tuple[Edge | Source, ...] = ()
    origin: datetime | None = None
    on_rerun: OnRerun = OnRerun.KEEP
    determinism: Determinism = Determinism.DETERMINISTIC
    checks: tuple[Check, ...] = ()
    inactive_after: int | None = None
    group: Group | None = None
    input_tables: tuple[Table, ...] = field(default=(), repr=False, compare=False)

    def __init__(
        self,
        name: str,
        *,
        outputs: Sequence[Table],
        cadence: Cadence | str,
        inputs: Iterable[Table | Edge | Source] = (),
        origin: datetime | None = None,
        on_rerun: OnRerun | str = OnRerun.KEEP,
        determinism: Determinism | str = Determinism.DETERMINISTIC,
        checks: Iterable[Check] = (),
        inactive_after: int | None = None,
        group: Group | None = None,
    ) -> None:
        def put(attribute: str, value: Any) -> None:
            object.__setattr__(self, attribute, value)

        given = _several(inputs, "inputs", "tables, edges and sources")
        put("name", job_name(name))
        put("outputs", _checked_outputs(outputs))
        put("cadence", cadence if isinstance(cadence, Cadence) else Cadence(cadence))
        put("inputs", tuple(_as_input(read, self.domain) for read in given))
        put("input_tables", tuple(read for read in given if isinstance(read, Table)))
        put("origin", None if origin is None else self._checked_origin(origin))
        put("on_rerun", _member(OnRerun, on_rerun, "on_rerun"))
        put("determinism", _member(Determinism, determinism, "determinism"))
        put("checks", _several(checks, "checks", "row_count(…), not_null(…), no_rows(…) and the like"))
        put("inactive_after", _counted(inactive_after, "inactive_after"))
        put("group", self._checked_group(group))
        refuse_unknown_tables(
            self.checks, [table.name for table in self.outputs], [edge.table for edge in self.edges]
        )
        _refuse_repeats(
            "inputs",
            [read.table if isinstance(read, Edge) else f"source {read.name}" for read in self.inputs],
        )

    @property
    def domain(self) -> DomainName:
        return self.outputs[0].domain

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.inputs if isinstance(edge, Edge))

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(source for source in self.inputs if isinstance(source, Source))

    def epoch(self, interval: Interval) -> EpochId:
        """Return the name of the job's epoch of *interval*."""
        return EpochId(self.domain, self.name, interval)

    def output(self, name: str) -> Table:
        """Return the output *name*.

        :raises InvalidInput: the job does not own *name*.
        """
        for table in self.outputs:
            if table.name == name:
                return table
        raise InvalidInput(
            field="output",
            value=name,
            expected=f"one of {[str(table.name) for table in self.outputs]}",
            next_step=f"declare {name!r} in the outputs of job {self.name!r}.",
        )

    def _checked_group(self, group: Group | None) -> Group | None:
        if group is not None and (not isinstance(group, Group) or self.name not in group.jobs):
            expected = f"a Group that names job {self.name!r}, or None"
            raise InvalidInput(field="group", value=group, expected=expected)
        return group

    def _checked_origin(self, origin: datetime) -> datetime:
        moment = as_utc(origin, "origin")
        if not self.cadence.is_barrier(moment):
            raise InvalidInput(
                field="origin", value=moment.isoformat(), expected=f"a barrier of the cadence {self.cadence}"
            )
        return moment


def as_job(value: object) -> Job:
    """Return *value*.

    :raises InvalidInput: not a :class:`Job`.
    """
    if isinstance(value, Job):
        return value
    raise InvalidInput(
        field="job",
        value=value,
        expected="a Job",
        next_step="declare it once: Job('name', inputs=[…], outputs=[…], cadence='@daily').",
    )


def connections_of(job: Job) -> tuple[str, ...]:
    """Return the ids of the connections to the sources of *job*."""
    return tuple(dict.fromkeys(source.connection for source in job.sources if source.connection))


def _several(value: Iterable[Any], field_name: str, expected: str) -> tuple[Any, ...]:
    """Return the elements of *value*; text is refused, since its elements are characters."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidInput(field=field_name, value=value, expected=f"a list of {expected}")
    return tuple(value)


def _counted(value: int | None, field_name: str) -> int | None:
    allowed = range(1, _MOST_EPOCHS + 1)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value not in allowed):
        raise InvalidInput(
            field=field_name, value=value, expected=f"a number of epochs, 1 to {_MOST_EPOCHS}, or None"
        )
    return value


def _checked_outputs(outputs: Sequence[Table]) -> tuple[Table, ...]:
    tables = (outputs,) if isinstance(outputs, Table) else _several(outputs, "outputs", "one or more Table")
    if not tables or not all(isinstance(table, Table) for table in tables):
        raise InvalidInput(field="outputs", value=outputs, expected="one or more Table")
    if len({table.domain for table in tables}) > 1:
        raise InvalidInput(
            field="outputs", value=[table.uri for table in tables], expected="tables of one domain"
        )
    _refuse_repeats("outputs", [table.name for table in tables])
    return tables


def _as_input(value: Table | Edge | Source, domain: DomainName) -> Edge | Source:
    """Return *value* as an edge or source of a job of *domain*."""
    if isinstance(value, Table):
        value = increment(value) if value.kind.accumulates else state(value)
    if isinstance(value, Source):
        return value
    if not isinstance(value, Edge):
        raise InvalidInput(field="inputs", value=value, expected="a Table, an edge or a source")
    if value.domain not in (None, domain):
        raise InvalidInput(
            field="inputs",
            value=f"epoch://{value.domain}/{value.table}",
            expected=f"a table of the job's own domain {domain!r}",
        )
    return replace(value, domain=None)


def _refuse_repeats(field_name: str, names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(field=field_name, value=repeated, expected="each name once")


def _member(kind: type[_Member], value: object, field_name: str) -> _Member:
    try:
        return kind(str(value))
    except ValueError as error:
        raise InvalidInput(
            field=field_name, value=value, expected=f"one of {[member.value for member in kind]}"
        ) from error
