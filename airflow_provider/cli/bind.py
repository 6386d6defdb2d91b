"""``airflow epochs bind``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.command import answer_facts, answer_json, command, hook_of
from airflow_provider.coordination.binding import declaring
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.topology import sources_of


@command
def bind_root(arguments: Namespace) -> None:
    """Record what a root's source has now for one epoch."""
    hook = hook_of(arguments)
    with hook.get_reader() as reader:
        job = JobDeclaration.of(declaring(reader, arguments.domain, arguments.root)).job()
    settings = hook.get_settings(sources=sources_of(job))
    with EpochService.open(settings) as service:
        found = service.bind(
            arguments.domain,
            arguments.root,
            arguments.interval,
            reason=arguments.reason,
            by=getpass.getuser(),
        )
    behind = [f"{one.job} {one.interval}" for one in found.behind]
    has = str(found.bounds.span or f"{len(found.bounds.files)} files")
    facts = {"revision": found.bounds.revision, "new": found.is_new, "has": has, "clear": behind}
    if arguments.output == "json":
        answer_json(facts)
        return
    told = {
        "revision": found.bounds.revision,
        "has": f"{has}{'' if found.is_new else ', as it was recorded before'}",
        "clear the tasks of": "; ".join(behind),
    }
    answer_facts(told)
