"""``airflow epochs changes``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from datetime import timedelta

from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.reading.change_feed import Event, Position, events, followed

_WAIT = timedelta(seconds=10)


@command
def changes(arguments: Namespace) -> None:
    """Print the commits after a position, one line for each table of a commit."""
    after = None if arguments.after is None else Position.parsed(arguments.after)
    with hook_of(arguments).get_reader() as reader:
        found = (
            followed(reader, arguments.domain, after, _WAIT)
            if arguments.follow
            else events(reader, arguments.domain, after)
        )
        for event in found:
            sys.stdout.write(json.dumps(_line(event), ensure_ascii=False) + "\n")
            sys.stdout.flush()


def _line(event: Event) -> dict[str, object]:
    return {
        "domain": event.domain,
        "incarnation": event.incarnation,
        "csn": event.csn,
        "table": event.table,
        "epoch": None if event.interval is None else str(event.interval),
        "revision": event.revision,
        "complete_to": None if event.watermark is None else event.watermark.isoformat(),
        "rows": event.rows,
        "dropped": event.interval is None,
        "by": event.by,
        "at": event.at.isoformat(),
        "position": str(event.position),
    }
