"""Words and tables of ``airflow epochs restate …``: plans, members, states, and the next command."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import block, facts, indented, lines, moment, table, text
from airflow_provider.coordination.restating.members import MemberState, MemberStatus
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import (
    JobEpochs,
    RestatementRecord,
    RestatementState,
    refuse_closed,
)
from airflow_provider.domain.watermark import merged

_LISTED = 5
"""Number of epochs that ``status`` lists for people."""


def next_command(arguments: Namespace, name: str, *words: str, more: str = "") -> str:
    """Return a command to type next, with the options by which this one has found the domain."""
    options = [] if arguments.domain == "default" else ["--domain", arguments.domain]
    options += ["--conn-id", arguments.conn_id] if arguments.conn_id else []
    told = shlex.join(["airflow", "epochs", "restate", name, *words, *options])
    return f"{told} {more}" if more else told


def compute(name: str) -> str:
    """Return the step by which the epochs of the restatement *name* are computed."""
    conf = json.dumps({"restatement": name}, ensure_ascii=False)
    return f"compute its epochs: by runs with the configuration {conf}, or by epoch_runs(…, restatement={name!r})"


def why_over(service: EpochService, domain: str, found: RestatementStatus) -> str:
    """Return why an open restatement can no longer be published; empty if it can, or has ended."""
    if found.record.state is not RestatementState.OPEN:
        return ""
    reading = service.store.read(domain_name(domain), [])
    try:
        refuse_closed(found.name, found.record, incarnation=reading.head.incarnation, now=reading.now)
    except InvalidInput as error:
        return error.message
    return ""


def state_of(record: RestatementRecord, *, is_over: bool) -> str:
    """Return the state; ``expired`` for an open restatement whose deadline or store has passed."""
    return "expired" if record.state is RestatementState.OPEN and is_over else record.state.value


def next_step(arguments: Namespace, found: RestatementStatus, *, is_over: bool) -> str:
    """Return the command or the work by which an open restatement goes on; empty once it has ended."""
    record, name = found.record, found.name
    if record.state is not RestatementState.OPEN:
        return ""
    if is_over:
        return next_command(arguments, "abandon", name, more="--reason …")
    states = Counter(member.state for member in found.members)
    if states[MemberState.WAITING] or states[MemberState.OUTDATED]:
        return f"{compute(name)}."
    if states[MemberState.COMPUTING]:
        return "wait: runs compute the epochs that are not staged."
    approved = record.approved == found.output
    look, publish = next_command(arguments, "diff", name), next_command(arguments, "publish", name)
    if record.needs_approval and not approved:
        return f"{look}\n{next_command(arguments, 'approve', name, '--output', found.output)}"
    return publish if approved else f"{look}\n{publish}"


def plan_summary(arguments: Namespace, planned: Plan, step: str) -> RenderableType:
    took = _length(planned.expected)
    uncommitted = f"{several(planned.uncommitted, 'epoch')} of the interval: normal runs compute them"
    return facts(
        {
            "domain": arguments.domain,
            "asked for": [
                f"{span['job']}: {several(span['epochs'], 'epoch')}, {_from_to(interval)}"
                for span, interval in _spans_of(planned.asked)
            ],
            "members": size(planned.members),
            "expected time": f"{took}, if one epoch is computed after the other" if took else None,
            "not committed": uncommitted if planned.uncommitted else None,
            "obstacles": list(planned.obstacles),
            "next step": step,
        }
    )


def members_table(members: Sequence[JobEpochs]) -> RenderableType:
    rows = [
        (span["job"], moment(interval.start), moment(interval.end), span["epochs"])
        for span, interval in _spans_of(members)
    ]
    return table(["job", "from (UTC)", "to (UTC)", "epochs"], rows)


def spans(members: Sequence[JobEpochs]) -> list[dict[str, Any]]:
    return [span for span, _ in _spans_of(members)]


def _spans_of(members: Sequence[JobEpochs]) -> Iterator[tuple[dict[str, Any], Interval]]:
    """Yield the unbroken stretches of each job's epochs, as facts and as an interval."""
    for epochs in members:
        for span in merged(epochs.intervals):
            number = sum(span.start <= interval.start < span.end for interval in epochs.intervals)
            told = {
                "job": epochs.job,
                "start": span.start.isoformat(),
                "end": span.end.isoformat(),
                "epochs": number,
            }
            yield told, span


def record_facts(record: RestatementRecord) -> dict[str, Any]:
    """Return what a restatement was opened with, and who has approved or ended it, for programs."""
    return {
        "reason": record.reason,
        "by": record.by,
        "epochs": record.size,
        "jobs": len(record.members),
        "deadline": record.deadline and record.deadline.isoformat(),
        "needs_approval": record.needs_approval,
        "approved": record.approved,
        "approved_by": record.approved_by,
        "ended": record.ended,
    }


def member_facts(member: MemberStatus) -> dict[str, Any]:
    """Return one member with its state, for programs."""
    return {
        "job": member.job,
        "start": member.interval.start.isoformat(),
        "end": member.interval.end.isoformat(),
        "state": member.state.value,
        "owner": member.owner,
        "why": member.why,
    }


def counts_of(found: RestatementStatus) -> list[dict[str, Any]]:
    """Return for each job how many of its epochs are in each state; only the number once it has ended."""
    states = {state.value for state in MemberState} if found.members else set()
    counted = Counter((member.job, member.state.value) for member in found.members)
    return [
        {"job": epochs.job, "epochs": len(epochs.intervals)}
        | {state.value: counted[epochs.job, state.value] for state in MemberState if state.value in states}
        for epochs in found.record.members
    ]


def progress_table(counts: Sequence[dict[str, Any]]) -> RenderableType:
    columns = list(counts[0])
    rows = [[job[column] or None for column in columns] for job in counts]
    return table(columns, rows)


def unstaged(members: Sequence[MemberStatus]) -> Iterator[RenderableType]:
    """Lay out the first epochs that are not ready to be published, in the order of time."""
    found = [member for member in members if member.state is not MemberState.STAGED]
    found.sort(key=lambda member: (member.interval.start, member.job))
    if not found:
        return
    number = min(len(found), _LISTED)
    left = "" if number == len(found) else f", the first {number} (-o json has all)"
    blocks = [
        lines(
            text(f"{member.job} {_from_to(member.interval)}"),
            indented(facts({"state": member.state.value, "owner": member.owner, "because": member.why})),
        )
        for member in found[:number]
    ]
    yield block(f"{several(len(found), 'epoch')} not staged{left}", *blocks)


def approval(record: RestatementRecord, output: str = "") -> str | None:
    """Return who has approved what; None where no approval is needed or given. :param output: as it is staged."""
    if not record.approved:
        return "needed" if record.needs_approval else None
    if record.approved == output:
        return f"by {record.approved_by}"
    needed = ", and needed for this one" if output and record.needs_approval else ""
    return f"by {record.approved_by}, of the output {record.approved}{needed}"


def deadline(record: RestatementRecord) -> str | None:
    if record.deadline is None:
        return None
    return f"{moment(record.deadline, seconds=True)} UTC"


def size(members: Sequence[JobEpochs]) -> str:
    epochs = sum(len(found.intervals) for found in members)
    return f"{several(epochs, 'epoch')} of {several(len(members), 'job')}"


def several(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _from_to(interval: Interval) -> str:
    return f"{moment(interval.start)} to {moment(interval.end)} UTC"


def _length(time: timedelta) -> str:
    """Return a length of time in its two largest units; empty for less than a second."""
    left, parts = round(time.total_seconds()), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
