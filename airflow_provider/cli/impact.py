"""``airflow epochs impact``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence

from airflow_provider.cli.answer import answer, facts, table
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.holding import held_facts
from airflow_provider.cli.restating import (
    length,
    next_command,
    obstacles_of,
    several,
    size,
    spans,
    stretches,
)
from airflow_provider.coordination.restating.impact import Impact, impact

_COLUMNS = ("job", "from (UTC)", "to (UTC)", "epochs", "what becomes of them")


@command
def show_impact(arguments: Namespace) -> None:
    """Show what would follow if epochs were computed again."""
    with hook_of(arguments).get_reader() as reader:
        found = impact(reader, arguments.domain, arguments.names, arguments.interval)
    planned, took = found.plan, length(found.plan.expected)
    step = next_command(arguments, "plan", *arguments.names, "--interval", arguments.interval)
    told = {
        "domain": arguments.domain,
        "epochs": planned.size,
        "asked": spans(planned.asked),
        "computed_again": spans(found.followers),
        "held": held_facts(planned.held),
        "ignored": held_facts(found.ignored),
        "uncommitted": planned.uncommitted,
        "expected_seconds": round(planned.expected.total_seconds()),
        "obstacles": obstacles_of(arguments, planned),
        "next_step": step,
    }
    uncommitted = f"{several(planned.uncommitted, 'epoch')} of the interval: normal runs compute them"
    seen = {
        "domain": arguments.domain,
        "computed again": size(planned.members),
        "expected time": f"{took}, if one epoch is computed after the other" if took else None,
        "not committed": uncommitted if planned.uncommitted else None,
        "obstacles": obstacles_of(arguments, planned),
        "next step": step,
    }
    answer(arguments, told, facts(seen), table(_COLUMNS, list(_rows(found))))


def _rows(found: Impact) -> Iterator[Sequence[object]]:
    """Yield a row for each unbroken stretch of epochs of a job, by what becomes of them."""
    yield from stretches(found.plan.asked, "asked for")
    yield from stretches(found.followers, "computed again")
    for epochs in found.plan.held:
        read = ", ".join(epochs.tables)
        yield from stretches([epochs], f"held until you decide: they have read {read} (hold)")
    for epochs in found.ignored:
        read = ", ".join(epochs.tables)
        yield from stretches([epochs], f"stay, with a label: they have read {read} (ignore)")
