"""Drawings of a domain's jobs, tables and sources, as Mermaid and as Graphviz texts. Pure functions of declarations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider.coordination.reading.graph import Graph, Node
from airflow_provider.domain.registration import JobRecord


def mermaid(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart: jobs are boxes, tables rounded, sources cylinders."""
    graph = Graph(jobs)
    yield "flowchart LR"
    for source in graph.of_sources():
        yield f'  {source.id}[("{_in_mermaid(_label(source))}")]'
    for job in graph.of_jobs():
        yield f'  {job.id}["{_in_mermaid(_label(job))}"]'
    for table in graph.of_tables():
        yield f'  {table.id}(["{_in_mermaid(_label(table))}"])'
    for arrow in graph.arrows():
        line = "-.->" if arrow.is_past else "-->"
        label = f"|{_in_mermaid(arrow.label)}|" if arrow.label else ""
        yield f"  {arrow.start} {line}{label} {arrow.end}"


def graphviz(jobs: Sequence[JobRecord]) -> Iterator[str]:
    """Yield the lines of a Graphviz digraph: jobs are boxes, tables ellipses, sources cylinders."""
    graph = Graph(jobs)
    yield "digraph epochs {"
    yield "  rankdir=LR;"
    shapes = (("cylinder", graph.of_sources()), ("box", graph.of_jobs()), ("ellipse", graph.of_tables()))
    for shape, nodes in shapes:
        for node in nodes:
            yield f"  {node.id} [shape={shape}, label={_in_graphviz(_label(node))}];"
    for arrow in graph.arrows():
        options = [f"label={_in_graphviz(arrow.label)}"] if arrow.label else []
        options += ["style=dashed"] if arrow.is_past else []
        told = f" [{', '.join(options)}]" if options else ""
        yield f"  {arrow.start} -> {arrow.end}{told};"
    yield "}"


def _label(node: Node) -> str:
    about = node.about or "no job writes it"
    return f"{node.name}\n{about}" + ("\nretired" if node.retired else "")


def _in_mermaid(label: str) -> str:
    """Return *label* within quotes of Mermaid, which knows entities by number."""
    marks = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "|": "#124;", "\n": "<br>"}
    return "".join(marks.get(character, character) for character in label)


def _in_graphviz(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
