"""``airflow epochs retention …``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from airflow_provider.cli.answer import answer, facts, show
from airflow_provider.cli.command import command, hook_of
from airflow_provider.domain.schedule import run_barrier


@command
def withdraw(arguments: Namespace) -> None:
    """Expire a table's state at a barrier."""
    barrier = run_barrier(explicit=arguments.barrier)
    with hook_of(arguments).get_conn(create=False) as service:
        service.retention.withdraw(arguments.domain, arguments.table, barrier)
    show(facts({"withdrawn": f"{arguments.table} at {barrier.isoformat()}"}))


@command
def sweep(arguments: Namespace) -> None:
    """End expired claims and delete superseded, unclaimed files."""
    with hook_of(arguments).get_conn(create=False) as service:
        swept = service.retention.sweep(arguments.domain)
    told = {
        "horizon": swept.horizon,
        "ended": list(swept.ended),
        "deleted": list(swept.deleted),
        "claimed": swept.claimed,
        "leftovers": list(swept.leftovers),
    }
    seen = {
        "horizon (CSN)": swept.horizon,
        "claims ended": list(swept.ended),
        "files deleted": _number(swept.deleted),
        "places of dead attempts deleted": _number(swept.leftovers),
        "versions that claims keep": swept.claimed,
    }
    answer(arguments, told, facts(seen))


def _number(names: Sequence[str]) -> str:
    """Return the number of names. A sweep may delete thousands of files: only programs get the names."""
    return f"{len(names)} (-o json, yaml or plain names them)" if names else "0"
