"""``airflow epochs retention …``."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence

from airflow_provider.cli.answer import answer, facts, show
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import several
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.keep import MOST_KEPT, Keep
from airflow_provider.domain.schedule import run_barrier

_LISTED = 20


@command
def expire(arguments: Namespace) -> None:
    """Expire a table's state at a barrier."""
    barrier = run_barrier(explicit=arguments.barrier)
    with hook_of(arguments).get_conn(create=False) as service:
        service.retention.expire(arguments.domain, arguments.table, barrier)
    show(facts({"expired": f"{arguments.table} at {barrier.isoformat()}"}))


@command
def keep(arguments: Namespace) -> None:
    """Expire the states of full tables that are not to be kept."""
    policy = Keep.parsed(arguments.newest, arguments.each)
    if not arguments.most.isdecimal() or not 1 <= int(arguments.most) <= MOST_KEPT:
        raise InvalidInput(field="--most", value=arguments.most, expected=f"a number from 1 to {MOST_KEPT}")
    with hook_of(arguments).get_conn(create=False) as service:
        retention, domain = service.retention, arguments.domain
        if arguments.dry_run:
            found = retention.surplus(domain, policy, arguments.tables)
        else:
            found = retention.keep(domain, policy, arguments.tables, most=int(arguments.most))
    told = {
        "dry_run": arguments.dry_run,
        "kept": found.kept,
        "expired": [{"table": state.table, "barrier": state.barrier.isoformat()} for state in found.expired],
        "needed": [
            {"table": state.table, "barrier": state.barrier.isoformat(), "why": state.why}
            for state in found.needed
        ],
        "more": found.more,
    }
    by_table = Counter(state.table for state in found.expired)
    seen = {
        "states kept": found.kept,
        "would be expired" if arguments.dry_run else "expired": [
            f"{name}: {several(number, 'state')}" for name, number in sorted(by_table.items())
        ]
        or "nothing",
        "needed, and left": [state.why for state in found.needed[:_LISTED]],
        "left for the next call": found.more or "",
    }
    answer(arguments, told, facts(seen))


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
