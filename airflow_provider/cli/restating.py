"""Words and tables of ``airflow epochs restate …``: plans, members, states, and the next command."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import block, facts, indented, lines, moment, table, text
from airflow_provider.cli.command import addressed
from airflow_provider.coordination.restating import next_steps
from airflow_provider.coordination.restating.next_steps import Commands
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.upkeep.members_now import MemberState, MemberStatus
from airflow_provider.domain.durations import duration
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord, RestatementState
from airflow_provider.domain.watermark import merged

_LISTED = 5
"""Number of epochs that ``status`` lists for people."""


def next_command(arguments: Namespace, name: str, *words: str, more: str = "") -> str:
    """Return a command to type next, with the options by which this one has found the domain."""
    return _commands(arguments)(name, *words, more=more)


def backfill_command(arguments: Namespace, *words: str, more: str = "") -> str:
    """Return ``airflow epochs backfill`` with *words*, and the options by which this one has found the domain."""
    return _commands(arguments).of("backfill", *words, more=more)


def lifetime(arguments: Namespace) -> timedelta | None:
    """Return the time until the deadline of a restatement that is opened.

    :raises InvalidInput: it is no length of time above zero.
    """
    found = duration(arguments.deadline, "deadline")
    if found is not None and found <= timedelta(0):
        raise InvalidInput(
            field="deadline", value=arguments.deadline, expected="a length of time above zero: 90m, 6h, 2d"
        )
    return found


def next_step(arguments: Namespace, found: RestatementStatus, *, is_over: bool) -> str:
    """Return the command or the work by which an open restatement goes on; empty once it has ended."""
    return next_steps.next_step(_commands(arguments), found, is_over=is_over)


def _commands(arguments: Namespace) -> Commands:
    return Commands(arguments.domain, arguments.conn_id)


def plan_summary(arguments: Namespace, planned: Plan, step: str, held: Sequence[str]) -> RenderableType:
    """Lay out *planned*. :param held: lines about the epochs that would hold it."""
    took = length(planned.expected)
    uncommitted = f"{several(planned.uncommitted, 'epoch')} of the interval: normal runs compute them"
    return facts(
        {
            "domain": arguments.domain,
            "asked for": [
                f"{span['job']}: {several(span['epochs'], 'epoch')}, {_from_to(interval)}"
                for span, interval in _spans_of(planned.asked)
            ],
            "members": size(planned.members),
            "held": list(held),
            "expected time": f"{took}, if one epoch is computed after the other" if took else None,
            "not committed": uncommitted if planned.uncommitted else None,
            "obstacles": obstacles_of(arguments, planned),
            "next step": step,
        }
    )


def obstacles_of(arguments: Namespace, planned: Plan) -> list[str]:
    """Return what is in the way of *planned*, with commands as they are to be typed."""
    return [addressed(obstacle, arguments) for obstacle in planned.obstacles]


def members_table(members: Sequence[JobEpochs]) -> RenderableType:
    rows = [
        (span["job"], moment(interval.start), moment(interval.end), span["epochs"])
        for span, interval in _spans_of(members)
    ]
    return table(["job", "from (UTC)", "to (UTC)", "epochs"], rows)


def stretches(members: Sequence[JobEpochs], becomes: str) -> Iterator[Sequence[object]]:
    """Yield a row for each unbroken stretch of each job's epochs, with what becomes of them as the last column."""
    for span, interval in _spans_of(members):
        yield span["job"], moment(interval.start), moment(interval.end), span["epochs"], becomes


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
        "deadline": None if (until := _until(record)) is None else until.isoformat(),
        "closing_until": record.closing_until and record.closing_until.isoformat(),
        "needs_approval": record.needs_approval,
        "approved": record.approved,
        "approved_by": record.approved_by,
        "ended": record.ended,
        "reverts": record.reverts,
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
    until = _until(record)
    return None if until is None else f"{moment(until, seconds=True)} UTC"


def _until(record: RestatementRecord) -> datetime | None:
    """Return until when an open restatement may be published; None for one that has ended."""
    return record.deadline if record.state is RestatementState.OPEN else None


def closing(record: RestatementRecord) -> str | None:
    """Return until when no further epoch begins to read what an open restatement replaces, or when that ended."""
    if record.closing_until is None or record.state is not RestatementState.OPEN:
        return None
    return f"no new readers until {moment(record.closing_until, seconds=True)} UTC"


def size(members: Sequence[JobEpochs]) -> str:
    epochs = sum(len(found.intervals) for found in members)
    return f"{several(epochs, 'epoch')} of {several(len(members), 'job')}"


def several(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _from_to(interval: Interval) -> str:
    return f"{moment(interval.start)} to {moment(interval.end)} UTC"


def length(time: timedelta) -> str:
    """Return a length of time in its two largest units; empty for less than a second."""
    left, parts = round(time.total_seconds()), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
