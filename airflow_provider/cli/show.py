"""``airflow epochs show``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, moment, table, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import length
from airflow_provider.cli.times import from_to, iso
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.upkeep.epoch_view import ShownAttempt, ShownEpoch, shown_epoch
from airflow_provider.domain.epoch import AttemptEvent, Provenance
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.schedule import run_interval
from airflow_provider.stores.base import MetadataReader


@command
def show_epoch(arguments: Namespace) -> None:
    """Show all that the store has of one epoch."""
    with hook_of(arguments).get_reader() as reader:
        interval = one_epoch(reader, arguments.domain, arguments.job, arguments.interval)
        found = shown_epoch(reader, arguments.domain, arguments.job, interval)
    answer(arguments, _plain(found), _summary(found), *_parts(found))


def one_epoch(reader: MetadataReader, domain: str, job: str, text: str) -> Interval:
    """Return the epoch that *text* names on the calendar of *job*.

    :raises UnknownName: no such job. :raises InvalidInput: *text* names none, or several.
    """
    cadence = registered(reader, domain, job).cadence
    epochs = cadence.split(run_interval(cadence, explicit=text))
    if len(epochs) > 1:
        raise InvalidInput(
            field="interval",
            value=text,
            expected=f"one epoch of job {job!r} ({cadence}), not {len(epochs)}",
            next_step=f"name one of them, such as {epochs[0].start.isoformat()}.",
        )
    return epochs[0]


def _summary(found: ShownEpoch) -> RenderableType:
    done = found.committed
    committed = None if done is None else f"revision {done.revision}, CSN {found.csn}, by {done.owner}"
    return facts(
        {
            "job": f"{found.domain}/{found.job}",
            "epoch": from_to(found.interval),
            "committed": committed or "not yet",
            "skipped": "" if done is None else done.skipped,
            "checks": list(found.checks),
        }
    )


def _parts(found: ShownEpoch) -> Iterator[RenderableType]:
    if found.slices:
        columns = ["table", "revision", "CSN", "rows", "files", "bytes", "published (UTC)"]
        rows = [
            (
                each.table if each.job == found.job else f"{each.table} (of {each.job})",
                each.revision,
                each.csn,
                each.rows,
                each.files,
                each.size_bytes,
                moment(each.at, seconds=True),
            )
            for each in found.slices
        ]
        yield table(columns, rows)
    reads = [_read(read) for read in found.inputs]
    reads += [f"source {bounds.source}, revision {bounds.revision}: {bounds}" for bounds in found.sources]
    if reads:
        yield block("inputs", *map(text, reads))
    for attempt in found.attempts:
        yield block(f"attempt with token {attempt.token}", facts(_attempt(attempt)))


def _read(read: Provenance) -> str:
    start = "the beginning" if read.low is None else moment(read.low)
    version = "" if read.ref is None else f", version {read.ref.version}"
    edge = f"{read.kind.value}, {read.on_upstream_revision.value}"
    return f"{read.table} ({edge}) from {start} to {moment(read.high)} UTC at CSN {read.csn}{version}"


def _attempt(attempt: ShownAttempt) -> dict[str, object]:
    state = attempt.state.value or "replaced by a newer attempt"
    took = "" if attempt.ended is None else length(attempt.ended - attempt.begun)
    return {
        "owner": attempt.owner,
        "state": f"{state}, silent: its lock has expired" if attempt.is_silent else state,
        "begun": f"{moment(attempt.begun, seconds=True)} UTC",
        "ended": attempt.ended and f"{moment(attempt.ended, seconds=True)} UTC{took and f', after {took}'}",
        "log": [_entry(entry) for entry in attempt.log],
        "refused by": [str(finding) for finding in attempt.findings],
    }


def _entry(entry: Stamped[AttemptEvent]) -> str:
    event = entry.record
    writer = f" by participant {event.participant}" if event.participant_attempt else ""
    note = f": {event.note}" if event.note else ""
    return f"{moment(entry.at, seconds=True)} {event.state.value} {event.sink or '(all)'}{writer}{note}"


def _plain(found: ShownEpoch) -> dict[str, Any]:
    done = found.committed
    return {
        "domain": found.domain,
        "job": found.job,
        "start": found.interval.start.isoformat(),
        "end": found.interval.end.isoformat(),
        "revision": None if done is None else done.revision,
        "csn": found.csn,
        "owner": None if done is None else str(done.owner),
        "skipped": None if done is None else done.skipped or None,
        "checks": list(found.checks),
        "tables": [
            {
                "table": each.table,
                "job": each.job,
                "revision": each.revision,
                "csn": each.csn,
                "at": each.at.isoformat(),
                "rows": each.rows,
                "files": each.files,
                "bytes": each.size_bytes,
            }
            for each in found.slices
        ],
        "inputs": [
            {
                "table": read.table,
                "kind": read.kind.value,
                "on_upstream_revision": read.on_upstream_revision.value,
                "low": iso(read.low),
                "high": read.high.isoformat(),
                "csn": read.csn,
                "version": None if read.ref is None else read.ref.version,
            }
            for read in found.inputs
        ],
        "sources": [
            {
                "source": bounds.source,
                "revision": bounds.revision,
                "bounds": str(bounds),
                "source_files": [file.uri for file in bounds.files],
            }
            for bounds in found.sources
        ],
        "attempts": [
            {
                "token": attempt.token,
                "owner": str(attempt.owner),
                "state": attempt.state.value or "replaced",
                "silent": attempt.is_silent,
                "begun": attempt.begun.isoformat(),
                "ended": iso(attempt.ended),
                "refused_by": [str(finding) for finding in attempt.findings],
            }
            for attempt in found.attempts
        ],
        "log": [
            {
                "token": attempt.token,
                "at": entry.at.isoformat(),
                "state": entry.record.state.value,
                "sink": entry.record.sink,
                "participant": entry.record.participant,
                "participant_attempt": entry.record.participant_attempt,
                "note": entry.record.note,
            }
            for attempt in found.attempts
            for entry in attempt.log
        ],
    }
