"""``airflow epochs lag``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import (
    answer,
    block,
    facts,
    heading,
    indented,
    lines,
    moment,
    table,
    text,
    tied,
)
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import length, several
from airflow_provider.cli.times import from_to, iso, seconds, typed_epoch
from airflow_provider.coordination.reading.lag import DomainLag, lag
from airflow_provider.coordination.restating.next_steps import Commands
from airflow_provider.domain.lag import MOST_COUNTED, Holder, TableLag, tables_held

_COLUMNS = ("table, complete to (UTC)", "epochs", "local", "global", "wall clock", "end to end")

_MANY_DAYS = timedelta(days=10)
_LISTED = 100
"""Number of tables that are listed for people, the slowest first: no one reads more, and rich takes a second."""


@command
def show_lag(arguments: Namespace) -> None:
    """Show how far tables are behind, and what holds them back."""
    with hook_of(arguments).get_reader() as reader:
        found = lag(reader, arguments.domain, arguments.tables)
    held = tables_held(found.tables)
    told = {
        "domain": found.domain,
        "csn": found.csn,
        "at": found.at.isoformat(),
        "tables": [_facts(row) for row in found.tables],
        "held_back_by": [_holder_facts(holder, tables, _step(arguments, holder)) for holder, tables in held],
    }
    late = [row for row in found.tables if arguments.tables or row.held_by is not None]
    parts = [table(_COLUMNS, map(_row, late[:_LISTED]))] if late else []
    if len(late) > _LISTED:
        parts.append(text(f"{several(len(late) - _LISTED, 'more table')} (-o json has all)"))
    if left := len(found.tables) - len(late):
        parts.append(text(f"{several(left, 'table')} without an epoch that is due and not committed"))
    if held:
        parts.append(block("held back by", *(_block(arguments, holder, tables) for holder, tables in held)))
    answer(arguments, told, _title(found), *parts)


def _title(found: DomainLag) -> RenderableType:
    return heading(f"domain {found.domain}, CSN {found.csn} as of {moment(found.at, seconds=True)} UTC")


def _row(row: TableLag) -> Sequence[object]:
    at = moment(row.watermark) or "nothing committed"
    over = [f"retired: {row.ended}"] if row.ended else []
    if row.inactive is not None and not row.ended:
        over = [f"inactive since {moment(row.inactive)}"]
    name = lines(text(row.table), *(indented(part) for part in (at, *over)))
    spans = (row.local, row.global_, row.wall_clock, row.end_to_end)
    return name, _epochs(row), *map(_age, spans)


def _age(span: timedelta | None) -> str:
    """Return a length of time in eight characters: in days where there are many."""
    if not span:
        return ""
    return tied(f"{span.days} d" if span >= _MANY_DAYS else length(span))


def _epochs(row: TableLag) -> RenderableType:
    """Lay out the number of epochs that a table lacks, and below it for how many the inputs are there."""
    if row.lacking is None:
        return text("no origin")
    if not row.lacking:
        return text("")
    more = "≥ " if row.lacking == MOST_COUNTED else ""
    return lines(text(tied(f"{more}{row.lacking}")), text(tied(f"{row.ready} ready")))


def _block(arguments: Namespace, holder: Holder, tables: Sequence[str]) -> RenderableType:
    """Lay out a block for an epoch that holds tables back."""
    told = {
        "state": f"{holder.state.value} since {moment(holder.since, seconds=True)} UTC",
        "because": holder.because,
        "owner": holder.owner,
        "tables": f"{several(len(tables), 'table')}: {', '.join(tables)}",
        "next step": _step(arguments, holder),
    }
    return block(f"{holder.job} {from_to(holder.interval)}", facts(told))


def _step(arguments: Namespace, holder: Holder) -> str:
    """Return the command that tells more of *holder*."""
    commands = Commands(arguments.domain, arguments.conn_id)
    return commands.of("explain", holder.job, typed_epoch(holder.interval, holder.timezone))


def _facts(row: TableLag) -> dict[str, Any]:
    holder = row.held_by
    return {
        "table": row.table,
        "writer": row.job,
        "complete_to": iso(row.watermark),
        "lacking": row.lacking,
        "ready": row.ready,
        "local_seconds": seconds(row.local),
        "global_seconds": seconds(row.global_),
        "wall_clock_seconds": seconds(row.wall_clock),
        "end_to_end_seconds": seconds(row.end_to_end),
        "slowest": row.slowest,
        "held_back_by": None if holder is None else holder.job,
        "inactive": None if row.ended else iso(row.inactive),
        "retired": row.ended or None,
    }


def _holder_facts(holder: Holder, tables: Sequence[str], step: str) -> dict[str, Any]:
    return {
        "job": holder.job,
        "start": holder.interval.start.isoformat(),
        "end": holder.interval.end.isoformat(),
        "state": holder.state.value,
        "since": iso(holder.since),
        "because": holder.because,
        "owner": None if holder.owner is None else str(holder.owner),
        "tables": list(tables),
        "next_step": step,
    }
