"""``airflow epochs skip``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.command import answer_facts, answer_json, command, hook_of
from airflow_provider.coordination.skipping import registered
from airflow_provider.domain.schedule import run_interval


@command
def skip(arguments: Namespace) -> None:
    """Declare epochs of a job to have nothing new."""
    with hook_of(arguments).get_conn(create=False) as service:
        job = registered(service.store, arguments.domain, arguments.job)
        span = run_interval(job.cadence, explicit=arguments.interval)
        found = service.coordinator.skip(
            arguments.domain, arguments.job, span, arguments.reason, by=getpass.getuser()
        )
    skipped = [str(one.interval) for one in found.published]
    left = [str(one) for one in found.left]
    unread = [str(one) for one in found.unread]
    if arguments.output == "json":
        answer_json({"skipped": skipped, "left": left, "unread": unread, "late": list(found.late)})
        return
    answer_facts(
        {
            "skipped": ", ".join(skipped) or "nothing",
            "committed before, and left": ", ".join(left),
            "read by no later epoch of the job": "; ".join(unread),
            "late files that no epoch reads": ", ".join(found.late),
        }
    )
