"""``airflow epochs retention …``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from airflow_provider.cli.answer import answer, facts, show
from airflow_provider.cli.command import command, hook_of
from airflow_provider.domain.schedule import run_barrier


@command
def expire(arguments: Namespace) -> None:
    """Expire a table's state at a barrier."""
    barrier = run_barrier(explicit=arguments.barrier)
    with hook_of(arguments).get_conn(create=False) as service:
        service.retention.expire(arguments.domain, arguments.table, barrier)
    show(facts({"expired": f"{arguments.table} at {barrier.isoformat()}"}))


@command
def vacuum(arguments: Namespace) -> None:
    """End expired claims and delete superseded, unclaimed files."""
    with hook_of(arguments).get_conn(create=False) as service:
        vacuumed = service.retention.vacuum(arguments.domain)
    told = {
        "horizon": vacuumed.horizon,
        "ended": list(vacuumed.ended),
        "deleted": list(vacuumed.deleted),
        "claimed": vacuumed.claimed,
        "orphans": list(vacuumed.orphans),
    }
    seen = {
        "horizon (CSN)": vacuumed.horizon,
        "claims ended": list(vacuumed.ended),
        "files deleted": _number(vacuumed.deleted),
        "places of dead attempts deleted": _number(vacuumed.orphans),
        "versions that claims keep": vacuumed.claimed,
    }
    answer(arguments, told, facts(seen))


def _number(names: Sequence[str]) -> str:
    """Return the number of names. A vacuum may delete thousands of files: only programs get the names."""
    return f"{len(names)} (-o json, yaml or plain names them)" if names else "0"
