"""``airflow epochs skip``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.answer import answer, facts
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.domain.schedule import run_interval


@command
def skip(arguments: Namespace) -> None:
    """Declare epochs of a job empty."""
    with hook_of(arguments).get_conn(create=False) as service:
        job = registered(service.store, arguments.domain, arguments.job)
        span = run_interval(job.cadence, explicit=arguments.interval)
        found = service.skip(arguments.domain, arguments.job, span, arguments.reason, by=getpass.getuser())
    told = {
        "skipped": [str(commit.interval) for commit in found.published],
        "left": list(map(str, found.left)),
        "unread": list(map(str, found.unread)),
        "late": list(found.late),
        "stalled": list(found.stalled),
    }
    seen = {
        "skipped": told["skipped"] or "nothing",
        "committed before, and left": told["left"],
        "read by no later epoch of the job": told["unread"],
        "late files that no epoch reads": told["late"],
        "groups that are not published yet": told["stalled"],
    }
    answer(arguments, told, facts(seen))
