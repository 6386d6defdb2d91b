"""``airflow epochs abort``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.answer import answer, facts
from airflow_provider.cli.backfilling import confirm, refuse_unheard
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.show import one_epoch
from airflow_provider.cli.times import from_to
from airflow_provider.coordination.upkeep.end_attempt import end_attempt, open_attempt
from airflow_provider.coordination.upkeep.skip import require_text

_STEP = (
    "nothing: its program is refused from now on. A retry of its task, and a run that is cleared, begin anew; mark the "
    "task failed, or pause the DAG, where that is not wanted."
)


@command
def abort(arguments: Namespace) -> None:
    """End the open attempt at an epoch."""
    by = getpass.getuser()
    require_text(reason=arguments.reason, by=by)
    with hook_of(arguments).get_conn(create=False) as service:
        interval = one_epoch(service.store, arguments.domain, arguments.job, arguments.interval)
        attempt = open_attempt(service.store, arguments.domain, arguments.job, interval)
        span = f"{attempt.interval.start.isoformat()}/{attempt.interval.end.isoformat()}"
        if not arguments.yes:
            refuse_unheard()
            question = (
                f"End the attempt of {attempt.owner} at {attempt.job} {span}, and delete what it has written?"
            )
            confirm(question, declined="nothing was changed")
        end_attempt(service.context, attempt, reason=arguments.reason, by=by)
    told = {
        "job": attempt.job,
        "start": attempt.interval.start.isoformat(),
        "end": attempt.interval.end.isoformat(),
        "token": attempt.token,
        "owner": str(attempt.owner),
    }
    seen = {
        "ended": f"{attempt.job}, {from_to(attempt.interval)}",
        "attempt": f"token {attempt.token}",
        "owner": attempt.owner,
        "next step": _STEP,
    }
    answer(arguments, told, facts(seen))
