"""``airflow epochs recover``."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider.cli.answer import answer, block, table, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.upkeep.recover import RecoveredTable
from airflow_provider.domain.errors import FinalError


@command
def recover(arguments: Namespace) -> None:
    """Move the catalog's pointers of all tables to the store's; register dropped tables again.

    :raises FinalError: a table's pointer cannot be repaired; a script sees exit code 1.
    """
    with hook_of(arguments).get_conn(create=False) as service:
        found = service.recover(arguments.domain, new_catalog=arguments.new_catalog)
    told = [
        {
            "table": recovered.name,
            "csn": recovered.csn,
            "pointer": _outcome(recovered),
            "problem": recovered.problem,
        }
        for recovered in found.tables
    ]
    rows = [(recovered.name, recovered.csn, _outcome(recovered)) for recovered in found.tables]
    problems = {recovered.name: recovered.problem for recovered in found.tables if recovered.problem}
    answer(
        arguments,
        {"domain": found.domain, "csn": found.csn, "tables": told},
        table(["table", "CSN", "pointer"], rows, title=f"domain {found.domain}, CSN {found.csn}"),
        *(block(name, text(problem)) for name, problem in problems.items()),
    )
    if problems:
        raise FinalError(
            f"the catalog does not say what the store says of {', '.join(problems)}.",
            next_step="see the problems above; cuts go on reading what was published.",
        )


def _outcome(table: RecoveredTable) -> str:
    if table.problem:
        return "not repaired"
    if table.restored:
        return "registered again"
    return "adopted" if table.adopted else "moved" if table.moved else "up to date"
