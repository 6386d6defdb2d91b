"""``airflow epochs doctor``."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider.cli.command import (
    answer_facts,
    answer_json,
    answer_table,
    command,
    hook_of,
    known_sources,
)
from airflow_provider.coordination.doctor import examine
from airflow_provider.domain.errors import FinalError
from airflow_provider.sources.roots import RootSources


@command
def doctor(arguments: Namespace) -> None:
    """Look a domain over, and say what is to be done.

    :raises FinalError: something needs somebody to act, so that a script sees exit code 1.
    """
    hook = hook_of(arguments)
    with hook.get_conn(create=False) as service:
        sources = RootSources(known_sources(hook, service.store, arguments.domain))
        found = examine(service.store, service.formats, arguments.domain, sources=sources)
    lines = [
        {"what": one.subject, "found": one.found, "next_step": one.next_step, "urgent": one.urgent}
        for one in found.symptoms
    ]
    if arguments.output == "json":
        answer_json(
            {
                "domain": found.domain,
                "csn": found.csn,
                "incarnation": found.incarnation,
                "at": found.at.isoformat(),
                "symptoms": lines,
            }
        )
    elif lines:
        answer_table(
            ["what", "found", "next step", "by whom"],
            [
                (one.subject, one.found, one.next_step, "you" if one.urgent else "itself")
                for one in found.symptoms
            ],
            title=f"domain {found.domain}, CSN {found.csn}",
        )
    else:
        answer_facts({"domain": found.domain, "CSN": found.csn, "found": "nothing; all is as it should be"})
    if found.urgent:
        raise FinalError(
            f"{len(found.urgent)} of {len(lines)} findings in domain {found.domain!r} need somebody to act.",
            next_step="take the next steps above, then run it again.",
            symptoms=found.urgent,
        )
