"""Drawings of a domain's jobs, tables and sources, as Mermaid and as Graphviz texts. Pure functions of declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import Edge, EdgeKind, OnUpstreamRevision


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


def mermaid(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart: jobs are boxes, tables rounded, sources cylinders."""
    names = _Names(jobs)
    yield "flowchart LR"
    for name, label in names.of_sources():
        yield f'  {name}[("{_in_mermaid(label)}")]'
    for name, label in names.of_jobs():
        yield f'  {name}["{_in_mermaid(label)}"]'
    for name, label in names.of_tables():
        yield f'  {name}(["{_in_mermaid(label)}"])'
    for start, end, label, is_past in names.arrows():
        arrow = "-.->" if is_past else "-->"
        yield f"  {start} {arrow}|{_in_mermaid(label)}| {end}" if label else f"  {start} {arrow} {end}"


def graphviz(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield the lines of a Graphviz digraph: jobs are boxes, tables ellipses, sources cylinders."""
    names = _Names(jobs)
    yield "digraph epochs {"
    yield "  rankdir=LR;"
    shapes = (("cylinder", names.of_sources()), ("box", names.of_jobs()), ("ellipse", names.of_tables()))
    for shape, nodes in shapes:
        for name, label in nodes:
            yield f"  {name} [shape={shape}, label={_in_graphviz(label)}];"
    for start, end, label, is_past in names.arrows():
        options = [f"label={_in_graphviz(label)}"] if label else []
        options += ["style=dashed"] if is_past else []
        told = f" [{', '.join(options)}]" if options else ""
        yield f"  {start} -> {end}{told};"
    yield "}"


class _Names:
    """Names of the nodes of a drawing, which are numbers: names of jobs may have any character."""

    def __init__(self, jobs: Sequence[JobRecord]) -> None:
        self.jobs = jobs
        written = [table.name for job in jobs for table in job.outputs]
        read = [edge.table for job in jobs for edge in job.edges]
        sources = [source.name for job in jobs for source in job.sources]
        self._jobs = {job.name: f"j{number}" for number, job in enumerate(jobs)}
        self._tables = {name: f"t{number}" for number, name in enumerate(dict.fromkeys([*written, *read]))}
        self._sources = {name: f"s{number}" for number, name in enumerate(dict.fromkeys(sources))}

    def of_jobs(self) -> Iterator[tuple[str, str]]:
        for job in self.jobs:
            retired = "\nretired" if job.retired else ""
            yield self._jobs[job.name], f"{job.name}\n{job.cadence}{retired}"

    def of_tables(self) -> Iterator[tuple[str, str]]:
        kinds: dict[TableName, str] = {
            table.name: table.kind.value for job in self.jobs for table in job.outputs
        }
        for table, name in self._tables.items():
            yield name, f"{table}\n{kinds.get(table, 'no job writes it')}"

    def of_sources(self) -> Iterator[tuple[str, str]]:
        kinds = {source.name: source.kind.value for job in self.jobs for source in job.sources}
        for source, name in self._sources.items():
            yield name, f"{source}\n{kinds[source]}"

    def arrows(self) -> Iterator[tuple[str, str, str, bool]]:
        """Yield the start and end of each arrow, its label, and True if it reads the past only."""
        for job in self.jobs:
            own: JobName = job.name
            for source in job.sources:
                yield self._sources[source.name], self._jobs[own], "", False
            for edge in job.edges:
                is_past = edge.kind is EdgeKind.PREVIOUS
                yield self._tables[edge.table], self._jobs[own], edge_label(edge), is_past
            for table in job.outputs:
                yield self._jobs[own], self._tables[table.name], "", False


def _in_mermaid(label: str) -> str:
    """Return *label* within quotes of Mermaid, which knows entities by number."""
    marks = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "|": "#124;", "\n": "<br>"}
    return "".join(marks.get(character, character) for character in label)


def _in_graphviz(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
