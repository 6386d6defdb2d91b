"""``airflow epochs drop …``."""

from __future__ import annotations

import getpass
from argparse import Namespace
from typing import Any

from airflow_provider.cli.answer import answer, facts, show, table
from airflow_provider.cli.backfilling import confirm, refuse_unheard
from airflow_provider.cli.command import addressed, command, hook_of
from airflow_provider.cli.restating import several
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.drop import Dropped, unfinished_drop
from airflow_provider.coordination.upkeep.drop_plan import DropPlan, refuse
from airflow_provider.domain.dropping import Dropping, Subject

_NEXT = "the names are free. `airflow epochs retention vacuum` deletes the files, two hours from now at the earliest."


@command
def drop(arguments: Namespace) -> None:
    """Drop a table with its job, a job with its tables, or all of a domain."""
    subject = Subject(arguments.subject)
    if subject is Subject.DOMAIN:
        arguments.domain = arguments.name  # also that of the commands in errors
    domain = arguments.domain
    with hook_of(arguments).get_conn(create=False) as service:
        left = unfinished_drop(service.context, domain)
        if left is not None:
            ended = _finished(service, arguments, domain, left)
            if _named(left, subject, arguments.name):
                _tell(arguments, ended)
                return
        _tell(arguments, _dropped(service, arguments, domain))


def _dropped(service: EpochService, arguments: Namespace, domain: str) -> Dropped:
    """:raises TopologyError: something is in the way; what goes, and what that is, was shown."""
    plan = service.plan_drop(domain, arguments.subject, arguments.name, cascade=arguments.cascade)
    if not arguments.yes or plan.obstacles:
        show(_summary(plan), _tables(plan))
    refuse(plan)
    if not arguments.yes:
        refuse_unheard()
        confirm(f"Drop {_size(plan)} for good?", declined="nothing was changed")
    by, cascade = getpass.getuser(), arguments.cascade
    return service.drop(domain, plan, reason=arguments.reason, by=by, cascade=cascade)


def _finished(service: EpochService, arguments: Namespace, domain: str, left: Dropping) -> Dropped | None:
    if not arguments.yes:
        show(facts({"interrupted drop": list(left.jobs), "because": left.why, "CSN": left.csn}))
        refuse_unheard()
        confirm("Delete what it has left to delete?", declined="nothing was changed")
    return service.finish_drop(domain)


def _named(left: Dropping, subject: Subject, name: str) -> bool:
    """Return True if the interrupted drop was of what is named now."""
    names = [leaving.table for leaving in left.tables] if subject is Subject.TABLE else left.jobs
    return subject is Subject.DOMAIN or name in names


def _tell(arguments: Namespace, dropped: Dropped | None) -> None:
    if dropped is None:
        show(facts({"dropped": "by another process"}))
        return
    told: dict[str, Any] = {
        "csn": dropped.csn,
        "jobs": list(dropped.jobs),
        "tables": list(dropped.tables),
        "left_in_catalog": list(dropped.left),
    }
    seen = {
        "dropped": f"{several(len(dropped.jobs), 'job')}, {several(len(dropped.tables), 'table')}",
        "CSN": dropped.csn,
        "left in the catalog": list(dropped.left) or None,
        "next step": addressed(_NEXT, arguments),
    }
    answer(arguments, told, facts(seen))


def _summary(plan: DropPlan) -> Any:
    return facts(
        {
            "drops": f"{plan.subject} {plan.name}: {_size(plan)}",
            "jobs": list(plan.jobs),
            "epochs": plan.epochs,
            "restatements that cannot be reverted any more": list(plan.reverts) or None,
            "in the way": list(plan.obstacles) or None,
        }
    )


def _tables(plan: DropPlan) -> Any:
    rows = [
        [each.name, each.job, each.epochs, each.rows, each.files, each.size_bytes] for each in plan.tables
    ]
    return table(["table", "job", "epochs", "rows", "files", "bytes"], rows)


def _size(plan: DropPlan) -> str:
    return f"{several(len(plan.jobs), 'job')} with {several(len(plan.tables), 'table')}"
