"""``airflow epochs provenance``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding

from airflow_provider.cli.answer import answer, block, facts, heading, lines, moment
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import several
from airflow_provider.cli.times import from_to, iso
from airflow_provider.coordination.reading.lineage import (
    Lineage,
    SliceRead,
    SourceRead,
    TableLineage,
    TableRead,
    lineage,
)
from airflow_provider.domain.schedule import run_barrier

_LISTED = 3
"""Number of bounds of a source that are listed for people, from the newest on."""


@command
def provenance(arguments: Namespace) -> None:
    """Show from which epochs and bounds of sources a state was computed."""
    barrier = run_barrier(explicit=arguments.barrier)
    with hook_of(arguments).get_reader() as reader:
        found = lineage(reader, arguments.domain, arguments.table, barrier)
    told = {
        "domain": found.domain,
        "table": found.table,
        "barrier": found.barrier.isoformat(),
        "csn": found.csn,
        "tables": [_facts(table) for table in found.tables],
    }
    title = f"{found.table} at {moment(found.barrier)} UTC in domain {found.domain}, CSN {found.csn}"
    answer(arguments, told, heading(title), lines(*_tree(found)))


def _tree(found: Lineage) -> Iterator[RenderableType]:
    """Lay out a block for each table, below and to the right of the first of its readers."""
    for table in found.tables:
        seen = {
            "epochs": _span(table.slices),
            "rows": sum(each.rows for each in table.slices),
            "version": table.version and f"{table.version.format} {table.version.version}",
            "computed again": [
                f"{from_to(each.interval)}, revision {each.revision}: what it had read is not recorded any more"
                for each in table.recomputed
            ],
            "read": [_read(read) for read in table.reads],
            "sources": [line for read in table.sources for line in _bounds(read)],
        }
        yield Padding(block(table.table, facts(seen)), (0, 0, 0, 2 * table.depth), expand=False)


def _span(slices: Sequence[SliceRead]) -> str:
    """Return the epochs of *slices* in one line: their time, number, jobs, revisions and commits."""
    if not slices:
        return "none: its job has read it before its first epoch"
    first, last = slices[0].interval.start, slices[-1].interval.end
    jobs = ", ".join(dict.fromkeys(each.job for each in slices))
    revisions = _numbers("revision", [each.revision for each in slices])
    commits = _numbers("CSN", [each.csn for each in slices])
    return f"{several(len(slices), 'epoch')} of {jobs}, {moment(first)} to {moment(last)} UTC, {revisions}, {commits}"


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{noun} {low}" if low == high else f"{noun} {low} to {high}"


def _read(read: TableRead) -> str:
    start = "the beginning" if read.low is None else moment(read.low)
    of = "" if read.epochs == 1 else f" by {several(read.epochs, 'epoch')}"
    commits = _numbers("CSN", read.csns)
    return f"{read.table} ({read.kind.value}){of}, from {start} to {moment(read.high)} UTC, at {commits}"


def _bounds(read: SourceRead) -> Iterator[str]:
    newest = read.bounds[: -_LISTED - 1 : -1]
    for interval, bounds in newest:
        yield f"{read.source}, revision {bounds.revision}, for {from_to(interval)}: {bounds}"
    if len(read.bounds) > len(newest):
        yield f"{read.source}: {several(len(read.bounds) - len(newest), 'earlier epoch')} (-o json has all)"


def _facts(table: TableLineage) -> dict[str, Any]:
    version = table.version
    return {
        "table": table.table,
        "depth": table.depth,
        "version": None if version is None else version.version,
        "version_location": None if version is None else version.location,
        "slices": [_slice(each) for each in table.slices],
        "computed_again": [_slice(each) for each in table.recomputed],
        "read": [
            {
                "reader": read.reader,
                "table": read.table,
                "kind": read.kind.value,
                "low": iso(read.low),
                "high": read.high.isoformat(),
                "first_csn": read.csns[0],
                "last_csn": read.csns[1],
                "epochs": read.epochs,
            }
            for read in table.reads
        ],
        "sources": [
            {
                "reader": read.reader,
                "source": read.source,
                "start": interval.start.isoformat(),
                "end": interval.end.isoformat(),
                "revision": bounds.revision,
                "bounds": str(bounds),
                "source_files": [file.uri for file in bounds.files],
            }
            for read in table.sources
            for interval, bounds in read.bounds
        ],
    }


def _slice(each: SliceRead) -> dict[str, Any]:
    return {
        "job": each.job,
        "start": each.interval.start.isoformat(),
        "end": each.interval.end.isoformat(),
        "revision": each.revision,
        "csn": each.csn,
        "rows": each.rows,
    }
