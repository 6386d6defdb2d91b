"""``airflow epochs retention …``."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider.cli.command import answer_facts, answer_json, command, hook_of
from airflow_provider.domain.schedule import run_barrier


@command
def withdraw(arguments: Namespace) -> None:
    """Take one state of a table from readers."""
    barrier = run_barrier(explicit=arguments.barrier)
    with hook_of(arguments).get_conn(create=False) as service:
        service.retention.withdraw(arguments.domain, arguments.table, barrier)
    answer_facts({"withdrawn": f"{arguments.table} at {barrier.isoformat()}"})


@command
def sweep(arguments: Namespace) -> None:
    """Delete what was superseded and nobody claims."""
    with hook_of(arguments).get_conn(create=False) as service:
        swept = service.retention.sweep(arguments.domain)
    if arguments.output == "json":
        answer_json(
            {
                "horizon": swept.horizon,
                "ended": list(swept.ended),
                "deleted": list(swept.deleted),
                "claimed": swept.claimed,
                "leftovers": list(swept.leftovers),
            }
        )
        return
    answer_facts(
        {
            "horizon (CSN)": swept.horizon,
            "claims ended": ", ".join(swept.ended),
            "files deleted": len(swept.deleted),
            "places of dead attempts deleted": len(swept.leftovers),
            "versions that claims keep": swept.claimed,
        }
    )
