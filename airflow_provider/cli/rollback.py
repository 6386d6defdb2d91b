"""``airflow epochs rollback``."""

from __future__ import annotations

import getpass
from argparse import Namespace
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, facts, moment, show, table
from airflow_provider.cli.backfilling import confirm, refuse_unheard
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import members_table, several, spans
from airflow_provider.coordination.upkeep.rollback import plan_rollback
from airflow_provider.coordination.upkeep.rollback import rollback as roll_back
from airflow_provider.coordination.upkeep.rollback_plan import RollbackPlan, refuse
from airflow_provider.domain.errors import InvalidInput

_NEXT = "clear the tasks of these epochs, or let runs ask for them: nothing counts as committed already."


@command
def rollback(arguments: Namespace) -> None:
    """Give the tables of a domain the rows again that they had at a CSN."""
    if not (arguments.to.isascii() and arguments.to.isdecimal() and len(arguments.to) < 19):
        raise InvalidInput(
            field="--to",
            value=arguments.to,
            expected="a CSN, such as 41",
            next_step="`airflow epochs changes` lists the commits.",
        )
    with hook_of(arguments).get_conn(create=False) as service:
        plan = plan_rollback(service.context, arguments.domain, int(arguments.to))
        if arguments.dry_run:
            answer(arguments, {"dry_run": True, **_told(plan)}, *_shown(plan))
            raise SystemExit(1 if plan.in_the_way else 0)
        if not arguments.yes or plan.in_the_way:
            show(*_shown(plan))
        if plan.epochs:
            refuse(plan)
        if plan.epochs and not arguments.yes:
            refuse_unheard()
            confirm(f"Take back {_size(plan)}?", declined="nothing was changed")
        done = roll_back(service.context, plan, reason=arguments.reason, by=getpass.getuser())
    told = {"dry_run": False, **_told(plan), "csn": done.csn}
    seen = {
        "domain": plan.domain,
        "taken back": _size(plan),
        "rows are those of CSN": plan.to,
        "CSN": done.csn,
        "next step": _NEXT,
    }
    answer(arguments, told, facts(seen), members_table(plan.epochs))


def _told(plan: RollbackPlan) -> dict[str, Any]:
    return {
        "domain": plan.domain,
        "to": plan.to,
        "csn": None,
        "epochs": spans(plan.epochs),
        "tables": [
            {
                "table": found.name,
                "job": found.job,
                "epochs": found.epochs,
                "rows": found.rows,
                "watermark": None if found.before is None else found.before.isoformat(),
                "watermark_after": None if found.after is None else found.after.isoformat(),
            }
            for found in plan.tables
        ],
        "in_the_way": list(plan.in_the_way),
    }


def _shown(plan: RollbackPlan) -> tuple[RenderableType, ...]:
    summary = {
        "domain": plan.domain,
        "to": f"CSN {plan.to}; the newest is {plan.csn}",
        "takes back": _size(plan),
        "in the way": list(plan.in_the_way) or None,
    }
    rows = [
        [found.name, found.epochs, found.rows, moment(found.before), moment(found.after)]
        for found in plan.tables
    ]
    columns = ["table", "epochs", "rows that go", "watermark (UTC)", "afterwards"]
    return facts(summary), table(columns, rows), members_table(plan.epochs)


def _size(plan: RollbackPlan) -> str:
    number = sum(len(epochs.intervals) for epochs in plan.epochs)
    return f"{several(number, 'epoch')} of {several(len(plan.epochs), 'job')}"
