"""``airflow epochs restate join`` and ``release``, and words about what holds a restatement."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from airflow_provider.cli.answer import answer, facts, moment
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import next_command, several, size, spans
from airflow_provider.client.epochs import Epochs
from airflow_provider.coordination.restating.next_steps import compute
from airflow_provider.domain.restatement import Decision, HeldEpochs, JobEpochs, RestatementRecord
from airflow_provider.domain.watermark import merged


@command
def join(arguments: Namespace) -> None:
    """Make held epochs members of a restatement."""
    with hook_of(arguments).get_conn(create=False) as service:
        found = Epochs(service, arguments.domain).restatement(arguments.name)
        joined = found.join(arguments.jobs, reason=arguments.reason)
        members = size(found.record.members)
    _answer(arguments, Decision.JOINED, joined, f"{compute(found.name)}.", members)


@command
def release(arguments: Namespace) -> None:
    """Release held epochs from a restatement."""
    with hook_of(arguments).get_conn(create=False) as service:
        found = Epochs(service, arguments.domain).restatement(arguments.name)
        released = found.release(arguments.jobs, arguments.reason)
    _answer(arguments, Decision.RELEASED, released, next_command(arguments, "status", found.name))


def _answer(
    arguments: Namespace,
    decision: Decision,
    found: Sequence[JobEpochs],
    step: str,
    members: str | None = None,
) -> None:
    told = {
        "domain": arguments.domain,
        "restatement": arguments.name,
        decision.value: spans(found),
        "next_step": step,
    }
    seen = {
        "domain": arguments.domain,
        "restatement": arguments.name,
        decision.value: size(found) if found else "nothing: this was decided before",
        "members": members,
        "next step": step,
    }
    answer(arguments, told, facts(seen))


def held_lines(held: Iterable[HeldEpochs]) -> list[str]:
    """Return for people the epochs that hold a restatement, and what they have read of it."""
    return [
        f"{epochs.job}: {several(len(epochs.intervals), 'epoch')}, {moment(epochs.intervals[0].start)} to "
        f"{moment(epochs.intervals[-1].end)} UTC, read {', '.join(epochs.tables)}"
        for epochs in held
    ]


def held_facts(held: Iterable[HeldEpochs]) -> list[dict[str, Any]]:
    """Return the same for programs."""
    return [span | {"tables": list(epochs.tables)} for epochs in held for span in spans([epochs])]


def decision_lines(record: RestatementRecord) -> list[str]:
    """Return for people what was decided about held epochs, by whom and why."""
    return [
        f"{made.job}, {', '.join(f'{moment(span.start)} to {moment(span.end)} UTC' for span in merged(made.spans))}: "
        f"{made.decision.value} by {made.by}{f': {made.reason}' if made.reason else ''}"
        for made in record.decisions
    ]


def decision_facts(record: RestatementRecord) -> list[dict[str, Any]]:
    """Return the same for programs."""
    return [
        {
            "job": made.job,
            "spans": [{"start": span.start.isoformat(), "end": span.end.isoformat()} for span in made.spans],
            "decision": made.decision.value,
            "by": made.by,
            "reason": made.reason,
            "at": made.at.isoformat(),
        }
        for made in record.decisions
    ]
