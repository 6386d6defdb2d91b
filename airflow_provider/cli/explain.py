"""``airflow epochs explain``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from itertools import groupby

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table

from airflow_provider.cli.answer import answer, block, facts, heading, indented, lines, moment, text
from airflow_provider.cli.command import addressed, command, hook_of, known_connections
from airflow_provider.coordination.upkeep.explain import Explanation, explain
from airflow_provider.domain.epoch import AttemptEvent
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name, job_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import job_key
from airflow_provider.domain.schedule import run_interval
from airflow_provider.hooks.task_run import told_end
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader

_WIDEST = 24
"""Maximum width of a column of the log, which leaves room for notes."""


@command
def explain_epoch(arguments: Namespace) -> None:
    """Explain why one epoch waits, for what, and what to do."""
    hook = hook_of(arguments)
    with hook.get_reader() as reader:
        interval = _interval(reader, arguments.domain, arguments.job, arguments.interval)
        source_readers = SourceReaders(known_connections(hook, reader, arguments.domain))
        found = explain(reader, arguments.domain, arguments.job, interval, source_readers=source_readers)
    found = replace(found, next_step=addressed(found.next_step, arguments))
    ended = [told_end(owner, state) for owner in found.holders if (state := _ended_as(owner))]
    answer(
        arguments,
        _plain(found) | {"ended_runs": ended},
        _summary(found, ended),
        *_findings(found),
        *_log(found),
    )


def _summary(found: Explanation, ended: list[str]) -> RenderableType:
    state = found.state.value or "nothing"
    inactive = (
        found.inactive
        and f"since {found.inactive.isoformat()}: readers do not wait for this job until it commits"
    )
    return facts(
        {
            "job": f"{found.domain}/{found.job}",
            "epoch": f"{moment(found.interval.start)} to {moment(found.interval.end)} UTC",
            "state": state if found.revision is None else f"{state}, revision {found.revision}",
            "CSN": found.csn,
            "because": found.summary,
            "expired": ", ".join(found.expired),
            "retired": found.retired,
            "waits for": found.waiting_for,
            "writers": list(map(str, found.brought_by)),
            "Airflow": ended,
            "inactive": inactive,
            "kept in": found.places,
            "outdated": found.outdated,
            "next step": found.next_step,
        }
    )


def _findings(found: Explanation) -> Iterator[RenderableType]:
    """Lay out a block for each check that refused the newest output."""
    for finding in found.findings:
        told = {"table": finding.table, "found": finding.figure, "such as": finding.sample}
        yield block(f"refused by check {finding.check}", facts(told))


def _log(found: Explanation) -> Iterator[RenderableType]:
    """Lay out the state log: a heading for each writer above its entries; the title has the day if all share it."""
    if not found.log:
        return
    times = [entry.at.astimezone(UTC) for entry in found.log]
    days = {time.date() for time in times}
    shown = [f"{time:%H:%M:%S}.{time.microsecond // 1000:03}" for time in times]
    if len(days) > 1:
        shown = [f"{time:%Y-%m-%d} {short}" for time, short in zip(times, shown, strict=True)]
    rows = [
        (entry.record, (short, entry.record.state.value, entry.record.sink or "(all)", entry.record.note))
        for short, entry in zip(shown, found.log, strict=True)
    ]
    widths = [max(cell_len(row[column]) for _, row in rows) for column in range(3)]
    parts: list[RenderableType] = [
        heading(f"state log, {f'{days.pop()} UTC' if len(days) == 1 else 'times in UTC'}")
    ]
    for writer, own in groupby(rows, lambda row: _writer(row[0])):
        parts += [text(writer), indented(_entries([row for _, row in own], widths))]
    yield lines(*parts)


def _entries(rows: list[tuple[str, ...]], widths: list[int]) -> RenderableType:
    """Lay out the lines of the log below one heading, in columns of the same widths as below the other headings."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for width in widths:
        grid.add_column(width=min(width, _WIDEST))
    grid.add_column()
    for row in rows:
        grid.add_row(*map(text, row))
    return grid


def _ended_as(owner: Owner) -> str:
    """Return the state in which a run has ended, by Airflow's database; empty while it runs or if it is not known."""
    if not owner.names_dag:
        return ""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with suppress(Exception), create_session() as session:  # a hint, which no answer of the store depends on
        named = session.query(DagRun.state).filter_by(dag_id=owner.dag_id, run_id=owner.run_id)
        state = str(named.scalar())
        return state if state in ("success", "failed") else ""
    return ""


def _writer(record: AttemptEvent) -> str:
    """Return the attempt's token and owner; with several participants also the participant and its try."""
    part = (
        f" participant {record.participant} try {record.participant_attempt}"
        if record.participant_attempt
        else ""
    )
    return f"token {record.token}{part}, {record.owner}"


def _interval(reader: MetadataReader, domain: str, job: str, text: str | None) -> Interval | None:
    """Return the epoch that *text* names on the job's calendar; None leaves the choice to :func:`explain`.

    :raises InvalidInput: *text* names several epochs.
    """
    key = job_key(domain_name(domain), job_name(job))
    stamped = reader.read(key.domain, [key]).get(key)
    if not text or stamped is None:
        return None
    record = stamped.record
    cadence = record.cadence
    epochs = cadence.split(run_interval(cadence, explicit=text))
    if len(epochs) > 1:
        raise InvalidInput(
            field="interval",
            value=text,
            expected=f"one epoch of job {job!r} ({cadence}), not {len(epochs)}",
            next_step=f"name one of them, such as {epochs[0].start.isoformat()}.",
        )
    return epochs[0]


def _plain(found: Explanation) -> dict[str, object]:
    return {
        "domain": found.domain,
        "job": found.job,
        "start": found.interval.start.isoformat(),
        "end": found.interval.end.isoformat(),
        "state": found.state.value,
        "revision": found.revision,
        "csn": found.csn,
        "summary": found.summary,
        "waiting_for": list(found.waiting_for),
        "brought_by": [str(bringer) for bringer in found.brought_by],
        "next_step": found.next_step,
        "findings": [
            {
                "check": finding.check,
                "table": finding.table,
                "figure": finding.figure,
                "sample": list(finding.sample),
            }
            for finding in found.findings
        ],
        "places": list(found.places),
        "expired": list(found.expired),
        "retired": found.retired,
        "outdated": list(found.outdated),
        "inactive": None if found.inactive is None else found.inactive.isoformat(),
        "log": [
            {
                "at": entry.at.isoformat(),
                "state": entry.record.state.value,
                "sink": entry.record.sink,
                "token": entry.record.token,
                "participant": entry.record.participant,
                "participant_attempt": entry.record.participant_attempt,
                "owner": str(entry.record.owner),
                "note": entry.record.note,
            }
            for entry in found.log
        ],
    }
