"""``airflow epochs cut``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from airflow_provider.cli.command import (
    answer_facts,
    answer_json,
    answer_table,
    command,
    duration,
    hook_of,
)
from airflow_provider.coordination.queries import queries
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.alignment import Align
from airflow_provider.domain.cut import Cut, Level
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.domain.session import Session


@command
def cut(arguments: Namespace) -> None:
    """Show the cut that a reader of these tables gets now."""
    with hook_of(arguments).get_conn(create=False) as service:
        session = None if arguments.session is None else Session.parse(arguments.session)
        found = _cut(service, arguments, session)
        if arguments.sql:
            for table, text in queries(service.cuts, found, arguments.sql).items():
                sys.stdout.write(f"-- {table}\n{text};\n")
            return
        states = [_state(service, found, table, files=arguments.files) for table in found.states]
    if arguments.output == "json":
        seen = (session or Session.of(found.domain)).after(found)
        answer_json(_facts(found, states) | {"session": seen.text()})
        return
    answer_facts(
        {
            "barrier": found.barrier.isoformat(),
            "CSN": found.csn,
            "level": found.level.value,
            "readable until": found.readable_until.isoformat(timespec="seconds"),
            "lease": found.lease,
            "note": "\n".join(found.notes),
        }
    )
    columns = ["table", "from", "barrier", "format", "version", "found from"]
    answer_table(columns, [list(state.values())[: len(columns)] for state in states])
    for one in states:
        for uri in one.get("files", ()):
            answer_facts({one["table"]: uri})


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
                "table": one.table,
                "source": one.source,
                "csn": one.csn,
                "revision": one.revision,
                "job": one.job,
                "start": one.start.isoformat(),
                "end": None if one.end is None else one.end.isoformat(),
            }
            for one in found.outdated
        ],
        "notes": list(found.notes),
        "tables": states,
    }


def _state(service: EpochService, found: Cut, table: str, *, files: bool) -> dict[str, Any]:
    state = next(state for name, state in found.states.items() if name == table)
    ref = state.ref
    answer: dict[str, Any] = {
        "table": table,
        "low": state.low and state.low.isoformat(),
        "barrier": state.barrier.isoformat(),
        "format": ref.format if ref else None,
        "version": ref.version if ref else None,
        "location": ref.location if ref else None,
    }
    if files:
        answer["files"] = service.cuts.files(found, table)
    return answer
