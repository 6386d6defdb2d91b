"""``airflow epochs locks``."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, heading, moment, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import length
from airflow_provider.cli.times import from_to, seconds
from airflow_provider.coordination.reading.open_attempts import OpenAttempt, open_attempts


@command
def locks(arguments: Namespace) -> None:
    """List the attempts that have not ended, with their locks."""
    with hook_of(arguments).get_reader() as reader:
        now, found = open_attempts(reader, arguments.domain, arguments.jobs)
    told = [_facts(attempt, now) for attempt in found]
    title = heading(f"domain {arguments.domain} as of {moment(now, seconds=True)} UTC")
    blocks = [_block(attempt, now) for attempt in found] or [text("no attempt is open")]
    answer(arguments, told, title, *blocks)


def _block(attempt: OpenAttempt, now: datetime) -> RenderableType:
    """Lay out a block for an attempt, not a row: its job and owner may each be as wide as the terminal."""
    age, sign = (
        length(now - attempt.begun) or "less than 1 s",
        length(now - attempt.renewed) or "less than 1 s",
    )
    left = length(attempt.left) or "less than 1 s"
    lock = f"ends in {left}, unless it is renewed"
    if attempt.is_silent:
        lock = "it has expired: the next attempt at the epoch takes over"
    seen = {
        "owner": attempt.owner,
        "attempt": f"token {attempt.token}, revision {attempt.revision}",
        "restatement": attempt.restatement,
        "begun": f"{moment(attempt.begun, seconds=True)} UTC, {age} ago",
        "last sign": f"{moment(attempt.renewed, seconds=True)} UTC, {sign} ago",
        "lock": lock,
    }
    return block(f"{attempt.job} {from_to(attempt.interval)}", facts(seen))


def _facts(attempt: OpenAttempt, now: datetime) -> dict[str, Any]:
    return {
        "job": attempt.job,
        "start": attempt.interval.start.isoformat(),
        "end": attempt.interval.end.isoformat(),
        "revision": attempt.revision,
        "token": attempt.token,
        "dag": attempt.owner.dag_id,
        "run": attempt.owner.run_id,
        "generation": attempt.owner.generation,
        "try": attempt.owner.try_number,
        "restatement": attempt.restatement,
        "begun": attempt.begun.isoformat(),
        "renewed": attempt.renewed.isoformat(),
        "age_seconds": seconds(now - attempt.begun),
        "left_seconds": seconds(attempt.left),
        "silent": attempt.is_silent,
    }
