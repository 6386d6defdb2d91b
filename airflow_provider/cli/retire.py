"""``airflow epochs retire`` and ``revive``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.answer import facts, show
from airflow_provider.cli.command import command, hook_of


@command
def retire(arguments: Namespace) -> None:
    """End a job, or a table that the job no longer declares."""
    with hook_of(arguments).get_conn(create=False) as service:
        service.retire(
            arguments.domain,
            arguments.job,
            reason=arguments.reason,
            by=getpass.getuser(),
            table=arguments.table,
        )
    show(facts({"retired": arguments.table or arguments.job}))


@command
def revive(arguments: Namespace) -> None:
    """Let a retired job go on."""
    with hook_of(arguments).get_conn(create=False) as service:
        service.revive(arguments.domain, arguments.job)
    show(facts({"goes on": arguments.job}))
