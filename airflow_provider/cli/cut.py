"""``airflow epochs cut``."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from airflow_provider.cli.command import answer_facts, answer_json, answer_table, command, hook_of
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.schedule import run_barrier


@command
def cut(arguments: Namespace) -> None:
    """Show the cut that a reader of these tables gets now."""
    at = run_barrier(explicit=arguments.at) if arguments.at else None
    with hook_of(arguments).get_conn() as service:
        found = service.cuts.cut(arguments.domain, arguments.tables, at=at, level=arguments.level)
        states = [_state(service, found, table, files=arguments.files) for table in found.states]
    if arguments.output == "json":
        answer_json(
            {
                "domain": found.domain,
                "incarnation": found.incarnation,
                "csn": found.csn,
                "barrier": found.barrier.isoformat(),
                "level": found.level.value,
                "readable_until": found.readable_until.isoformat(),
                "tables": states,
            }
        )
        return
    answer_facts(
        {
            "barrier": found.barrier.isoformat(),
            "CSN": found.csn,
            "level": found.level.value,
            "readable until": found.readable_until.isoformat(timespec="seconds"),
        }
    )
    answer_table(["table", "format", "version", "found from"], [list(one.values())[:4] for one in states])
    for one in states:
        for uri in one.get("files", ()):
            answer_facts({one["table"]: uri})


def _state(service: EpochService, found: Cut, table: str, *, files: bool) -> dict[str, Any]:
    ref = next(state.ref for name, state in found.states.items() if name == table)
    answer: dict[str, Any] = {
        "table": table,
        "format": ref.format if ref else None,
        "version": ref.version if ref else None,
        "location": ref.location if ref else None,
    }
    if files:
        answer["files"] = service.cuts.files(found, table)
    return answer
