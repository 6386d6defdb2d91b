"""``airflow epochs bind``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.answer import answer, facts
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.bind import declaring
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.topology import connections_of


@command
def bind_source(arguments: Namespace) -> None:
    """Record for one epoch what a source has now."""
    hook = hook_of(arguments)
    with hook.get_reader() as reader:
        job = JobDeclaration.of(declaring(reader, arguments.domain, arguments.source)).job()
    settings = hook.get_settings(connections=connections_of(job))
    with EpochService.open(settings) as service:
        found = service.bind(
            arguments.domain,
            arguments.source,
            arguments.interval,
            reason=arguments.reason,
            by=getpass.getuser(),
        )
    behind = [f"{epoch.job} {epoch.interval}" for epoch in found.behind]
    has = str(found.bounds.span or f"{len(found.bounds.files)} files")
    told = {"revision": found.bounds.revision, "new": found.is_new, "has": has, "clear": behind}
    seen = {
        "revision": found.bounds.revision,
        "has": f"{has}{'' if found.is_new else ', as it was recorded before'}",
        "clear the tasks of": behind,
    }
    answer(arguments, told, facts(seen))
