"""``airflow epochs doctor``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts
from airflow_provider.cli.command import addressed, command, hook_of, known_connections
from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.coordination.upkeep.symptom import Examination
from airflow_provider.domain.errors import FinalError
from airflow_provider.sources.readers import SourceReaders


@command
def doctor(arguments: Namespace) -> None:
    """Diagnose a domain and name the next steps.

    :raises FinalError: a finding needs action; a script sees exit code 1.
    """
    hook = hook_of(arguments)
    with hook.get_conn(create=False) as service:
        source_readers = SourceReaders(known_connections(hook, service.store, arguments.domain))
        found = examine(service.store, service.formats, arguments.domain, source_readers=source_readers)
    symptoms = [
        replace(symptom, next_step=addressed(symptom.next_step, arguments)) for symptom in found.symptoms
    ]
    found = replace(found, symptoms=tuple(symptoms))
    told = {
        "domain": found.domain,
        "csn": found.csn,
        "incarnation": found.incarnation,
        "at": found.at.isoformat(),
        "symptoms": [
            {
                "what": symptom.subject,
                "found": symptom.found,
                "next_step": symptom.next_step,
                "urgent": symptom.urgent,
            }
            for symptom in found.symptoms
        ],
    }
    answer(arguments, told, _summary(found), *_findings(found))
    if found.urgent:
        raise FinalError(
            f"{len(found.urgent)} of {len(found.symptoms)} findings in domain {found.domain!r} need action.",
            next_step="take the next steps above, then run it again.",
        )


def _summary(found: Examination) -> RenderableType:
    return facts(
        {
            "domain": found.domain,
            "CSN": found.csn,
            "incarnation": found.incarnation,
            "as of": found.at.isoformat(timespec="seconds"),
            "found": None if found.symptoms else "nothing; all is as it should be",
        }
    )


def _findings(found: Examination) -> Iterator[RenderableType]:
    """Lay out a block for each finding, because its text is too long for the cells of a table."""
    for symptom in found.symptoms:
        told = {
            "found": symptom.found,
            "next step": symptom.next_step,
            "by whom": "you" if symptom.urgent else "itself",
        }
        yield block(symptom.subject, facts(told))
