"""``airflow epochs recover``."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider.cli.command import answer_json, answer_table, command, hook_of
from airflow_provider.coordination.recovery import RecoveredTable
from airflow_provider.domain.errors import FinalError


@command
def recover(arguments: Namespace) -> None:
    """Let the catalog's pointers of all tables follow the store; register tables again that were dropped there.

    :raises FinalError: a table's pointer cannot be repaired, so that a script sees exit code 1.
    """
    with hook_of(arguments).get_conn(create=False) as service:
        found = service.recover(arguments.domain)
    lines = [
        {
            "table": one.name,
            "csn": one.csn,
            "pointer": _outcome(one),
            "problem": one.problem,
        }
        for one in found.tables
    ]
    if arguments.output == "json":
        answer_json({"domain": found.domain, "csn": found.csn, "tables": lines})
    else:
        answer_table(
            ["table", "CSN", "pointer", "problem"],
            [list(line.values()) for line in lines],
            title=f"domain {found.domain}, CSN {found.csn}",
        )
    broken = [one.name for one in found.tables if one.problem]
    if broken:
        raise FinalError(
            f"the catalog does not say what the store says of {', '.join(broken)}.",
            next_step="see the problems above; cuts go on reading what was published.",
            tables=tuple(broken),
        )


def _outcome(table: RecoveredTable) -> str:
    if table.problem:
        return "not repaired"
    if table.restored:
        return "registered again"
    return "adopted" if table.adopted else "moved" if table.moved else "up to date"
