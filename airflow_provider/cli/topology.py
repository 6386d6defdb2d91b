"""``airflow epochs topology``."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, heading, moment
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.drawing import graphviz, mermaid
from airflow_provider.cli.times import iso
from airflow_provider.coordination.reading.graph import edge_label
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.errors import UnknownName
from airflow_provider.domain.identifiers import JobName, TableName, domain_name
from airflow_provider.domain.registration import JobRecord
from airflow_provider.stores.base import pages

_DRAWINGS = {"mermaid": mermaid, "graphviz": graphviz}


@command
def topology(arguments: Namespace) -> None:
    """Show the jobs of a domain, what they read, and what they write."""
    domain = domain_name(arguments.domain)
    with hook_of(arguments).get_reader() as reader:
        jobs = [stamped.record for stamped in pages(retrying_reader(reader), domain, JobRecord)]
    if not jobs:
        raise UnknownName.of_empty(arguments.domain, what="job")
    drawing = _DRAWINGS.get(arguments.format)
    if drawing is not None:
        sys.stdout.write("".join(f"{line}\n" for line in drawing(jobs)))
        return
    told = {"domain": domain, "jobs": [_facts(job) for job in jobs]}
    writers = {table.name: job.name for job in jobs if not job.retired for table in job.outputs}
    answer(arguments, told, heading(f"domain {domain}"), *_blocks(jobs, writers))


def _blocks(jobs: Sequence[JobRecord], writers: Mapping[TableName, JobName]) -> Iterator[RenderableType]:
    """Lay out a block for each job, each below the jobs that it reads from as far as that can be."""
    for job in _in_order(jobs, writers):
        seen = {
            "calendar": str(job.cadence),
            "origin": f"{moment(job.origin)} UTC" if job.origin else None,
            "retired": job.retired,
            "sources": [f"{source.name} ({source.kind.value})" for source in job.sources],
            "reads": [
                f"{edge.table} ({edge_label(edge)}) of {writers.get(edge.table, 'no job')}"
                for edge in job.edges
            ],
            "writes": [f"{table.name} ({table.kind.value})" for table in job.outputs],
        }
        yield block(job.name, facts(seen))


def _in_order(jobs: Sequence[JobRecord], writers: Mapping[TableName, JobName]) -> list[JobRecord]:
    """Return *jobs* in the order of their names, each after those that it reads from; cycles are cut at their past."""
    known, placed = {job.name: job for job in jobs}, dict[JobName, JobRecord]()
    for first in sorted(known):
        waiting = [(first, False)]
        passed = set[JobName]()
        while waiting:
            name, is_done = waiting.pop()
            if is_done:
                placed.setdefault(name, known[name])
            elif name not in passed and name not in placed:
                passed.add(name)
                above = {writers[edge.table] for edge in known[name].edges if edge.table in writers}
                waiting += [(name, True), *((other, False) for other in sorted(above - {name}, reverse=True))]
    return list(placed.values())


def _facts(job: JobRecord) -> dict[str, Any]:
    return {
        "job": job.name,
        "cadence": str(job.cadence),
        "origin": iso(job.origin),
        "retired": job.retired or None,
        "sources": [{"source": source.name, "kind": source.kind.value} for source in job.sources],
        "reads": [
            {
                "table": edge.table,
                "kind": edge.kind.value,
                "as_of_seconds": None if edge.as_of is None else int(edge.as_of.total_seconds()),
                "length_seconds": None if edge.length is None else int(edge.length.total_seconds()),
                "on_upstream_revision": edge.on_upstream_revision.value,
            }
            for edge in job.edges
        ],
        "writes": [{"table": table.name, "kind": table.kind.value} for table in job.outputs],
    }
