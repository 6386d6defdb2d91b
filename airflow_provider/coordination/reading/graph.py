"""Graph of a domain's jobs, tables and sources, with the places of a drawing from left to right. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Edge, EdgeKind, OnUpstreamRevision

_SWEEPS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A source, a job or a table.

    :param id: unique in the graph; a number, since names of jobs may have any character.
    :param about: its kind, or a job's calendar. :param retired: reason for which a job was retired.
    """

    id: str
    kind: str
    name: str
    about: str
    retired: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrow:
    """An arrow from *start* to *end*. :param is_past: True if the job reads the table's past only."""

    start: str
    end: str
    label: str = ""
    is_past: bool = False


class Graph:
    """Nodes and arrows of *jobs*."""

    def __init__(self, jobs: Sequence[JobRecord]) -> None:
        self.jobs = jobs
        written = [table.name for job in jobs for table in job.outputs]
        read = [edge.table for job in jobs for edge in job.edges]
        sources = [source.name for job in jobs for source in job.sources]
        self._jobs = {job.name: f"j{number}" for number, job in enumerate(jobs)}
        self._tables = {name: f"t{number}" for number, name in enumerate(dict.fromkeys([*written, *read]))}
        self._sources = {name: f"s{number}" for number, name in enumerate(dict.fromkeys(sources))}

    def of_jobs(self) -> Iterator[Node]:
        for job in self.jobs:
            yield Node(
                id=self._jobs[job.name],
                kind="job",
                name=job.name,
                about=str(job.cadence),
                retired=job.retired,
            )

    def of_tables(self) -> Iterator[Node]:
        kinds: dict[TableName, str] = {
            table.name: table.kind.value for job in self.jobs for table in job.outputs
        }
        for table, name in self._tables.items():
            yield Node(id=name, kind="table", name=table, about=kinds.get(table, ""))

    def of_sources(self) -> Iterator[Node]:
        kinds = {source.name: source.kind.value for job in self.jobs for source in job.sources}
        for source, name in self._sources.items():
            yield Node(id=name, kind="source", name=source, about=kinds[source])

    def nodes(self) -> list[Node]:
        return [*self.of_sources(), *self.of_jobs(), *self.of_tables()]

    def arrows(self) -> Iterator[Arrow]:
        """Yield the arrows: from a source or a table to the job that reads it, from a job to what it writes."""
        for job in self.jobs:
            own: JobName = job.name
            for source in job.sources:
                yield Arrow(start=self._sources[source.name], end=self._jobs[own])
            for edge in job.edges:
                yield Arrow(
                    start=self._tables[edge.table],
                    end=self._jobs[own],
                    label=edge_label(edge),
                    is_past=edge.kind is EdgeKind.PREVIOUS,
                )
            for table in job.outputs:
                yield Arrow(start=self._jobs[own], end=self._tables[table.name])


def edge_label(edge: Edge) -> str:
    """Return what *edge* reads, and its policy where that is not the default: ``window 7 d, as of 1 h before``."""
    parts = [edge.kind.value if edge.length is None else f"{edge.kind.value} {_length(edge.length)}"]
    if edge.as_of is not None:
        parts.append(f"as of {_length(edge.as_of)} before" if edge.as_of else "as of the last barrier")
    if edge.on_upstream_revision is not OnUpstreamRevision.CASCADE:
        parts.append(edge.on_upstream_revision.value)
    return ", ".join(parts)


def _length(span: timedelta) -> str:
    """Return *span* in whole days or hours where it has them."""
    for unit, size in (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("min", timedelta(minutes=1))):
        if not span % size:
            return f"{span // size} {unit}"
    return str(span)


def places(nodes: Sequence[Node], arrows: Sequence[Arrow]) -> dict[str, tuple[int, int]]:
    """Return for each node its column and its place in the column, so that arrows lead to the right and cross seldom.

    A node stands one column behind the last of those that lead to it; arrows that close a circle lead back.
    """
    before, after = _neighbours(nodes, arrows)
    columns = defaultdict[int, list[str]](list)
    for name, column in _columns(nodes, before).items():
        columns[column].append(name)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        others = before if forward else after
        for column in sorted(columns, reverse=not forward):
            at = {name: place for names in columns.values() for place, name in enumerate(names)}
            columns[column].sort(key=lambda name: _mean(others[name], at, at[name]))
    return {name: (column, place) for column, names in columns.items() for place, name in enumerate(names)}


def _neighbours(
    nodes: Sequence[Node], arrows: Sequence[Arrow]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the nodes before and behind each; arrows to the past of a table are no order."""
    before: dict[str, list[str]] = {node.id: [] for node in nodes}
    after: dict[str, list[str]] = {node.id: [] for node in nodes}
    for arrow in arrows:
        if not arrow.is_past:
            before[arrow.end].append(arrow.start)
            after[arrow.start].append(arrow.end)
    return before, after


def _columns(nodes: Sequence[Node], before: Mapping[str, Sequence[str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for first in nodes:
        waiting, passed = [(first.id, False)], set[str]()
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                found.setdefault(name, max((found.get(other, -1) for other in before[name]), default=-1) + 1)
            elif name not in passed and name not in found:
                passed.add(name)
                waiting += [(name, True), *((other, False) for other in before[name])]
    return found


def _mean(names: Sequence[str], at: Mapping[str, int], own: int) -> float:
    return sum(at[name] for name in names) / len(names) if names else float(own)
