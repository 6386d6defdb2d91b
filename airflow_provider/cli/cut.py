"""``airflow epochs cut``."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, lines, moment, table, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.reading.queries import queries
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.durations import duration
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.read_options import Align, Level
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.domain.session import Session


@command
def cut(arguments: Namespace) -> None:
    """Show the cut that a reader of these tables gets now."""
    with hook_of(arguments).get_conn(create=False) as service:
        session = None if arguments.session is None else Session.parse(arguments.session)
        found = _cut(service, arguments, session)
        if arguments.sql:
            for name, query in queries(service.cuts, found, arguments.sql).items():
                sys.stdout.write(f"-- {name}\n{query};\n")
            return
        states = [_state(service, found, name, files=arguments.files) for name in found.states]
    seen = (session or Session.of(found.domain)).after(found)
    told = _facts(found, states) | {"session": seen.text()}
    answer(arguments, told, _summary(found), _versions(found), *_places(states))


def _summary(found: Cut) -> RenderableType:
    formats = {state.ref.format for state in found.states.values() if state.ref}
    return facts(
        {
            "domain": found.domain,
            "barrier": found.barrier.isoformat(),
            "CSN": found.csn,
            "level": found.level.value,
            "readable until": found.readable_until.isoformat(timespec="seconds"),
            "lease": found.lease,
            "incarnation": found.incarnation,
            "format": formats.pop() if len(formats) == 1 else None,
            "note": found.notes,
        }
    )


def _versions(found: Cut) -> RenderableType:
    """Lay out a row for each table; the barrier and the format are columns only if the tables differ in them."""
    states = found.states
    columns: dict[str, list[object]] = {
        "table": list(states),
        "from (UTC)": [moment(state.low) for state in states.values()],
    }
    if any(state.barrier != found.barrier for state in states.values()):
        columns["to (UTC)"] = [moment(state.barrier) for state in states.values()]
    if len({state.ref.format for state in states.values() if state.ref}) > 1:
        columns["format"] = [state.ref and state.ref.format for state in states.values()]
    columns["version"] = [state.ref and state.ref.version for state in states.values()]
    return table(list(columns), zip(*columns.values(), strict=True))


def _places(states: list[dict[str, Any]]) -> Iterator[RenderableType]:
    """Lay out the URI below which each table's files are, and the files if the answer lists them."""
    found = [state for state in states if state["location"] is not None]
    if found:
        yield lines(*(block(f"location of {state['table']}", text(state["location"])) for state in found))
    for state in states:
        if state.get("files"):
            yield block(f"files of {state['table']}", *map(text, state["files"]))


def _cut(service: EpochService, arguments: Namespace, session: Session | None) -> Cut:
    lag = duration(arguments.max_lag, "max-lag")
    options: dict[str, Any] = {
        "at": run_barrier(explicit=arguments.at) if arguments.at else None,
        "align": Align.EXACT if lag is None else Align.FLOOR,
        "max_lag": lag,
        "max_staleness": duration(arguments.max_staleness, "max-staleness"),
        "consistency": arguments.consistency,
        "session": session,
    }
    leased = arguments.level == Level.REPEATABLE_READ or arguments.lease is not None
    if not leased:
        return service.cuts.cut(arguments.domain, arguments.tables, level=arguments.level, **options)
    if not arguments.lease or not arguments.owner or arguments.level not in (None, Level.REPEATABLE_READ):
        raise InvalidInput(
            field="lease",
            value=arguments.lease,
            expected="--lease NAME and --owner WHO, with --level repeatable_read or without --level",
            next_step="the same name and owner find the cut again: a retry reads the same rows.",
        )
    ttl = duration(arguments.ttl, "ttl")
    return service.leases.cut(
        arguments.domain,
        arguments.tables,
        name=arguments.lease,
        owner=arguments.owner,
        ttl=ttl,
        **options,
    ).cut


def _facts(found: Cut, states: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "domain": found.domain,
        "incarnation": found.incarnation,
        "csn": found.csn,
        "barrier": found.barrier.isoformat(),
        "level": found.level.value,
        "readable_until": found.readable_until.isoformat(),
        "lease": found.lease,
        "outdated": [
            {
                "table": label.table,
                "source": label.source,
                "csn": label.csn,
                "revision": label.revision,
                "job": label.job,
                "start": label.start.isoformat(),
                "end": None if label.end is None else label.end.isoformat(),
            }
            for label in found.outdated
        ],
        "notes": list(found.notes),
        "tables": states,
    }


def _state(service: EpochService, found: Cut, name: str, *, files: bool) -> dict[str, Any]:
    state = next(state for known, state in found.states.items() if known == name)
    ref = state.ref
    told: dict[str, Any] = {
        "table": name,
        "low": state.low and state.low.isoformat(),
        "barrier": state.barrier.isoformat(),
        "format": ref.format if ref else None,
        "version": ref.version if ref else None,
        "location": ref.location if ref else None,
    }
    if files:
        told["files"] = service.cuts.files(found, name)
    return told
