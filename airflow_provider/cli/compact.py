"""``airflow epochs compact``."""

from __future__ import annotations

import getpass
from argparse import Namespace

from airflow_provider.cli.answer import answer, facts, table
from airflow_provider.cli.backfilling import progress
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import several
from airflow_provider.coordination.upkeep.compact import CompactedUnit
from airflow_provider.domain.compaction import CompactionUnit
from airflow_provider.domain.errors import InvalidInput, choice
from airflow_provider.domain.schedule import run_barrier


@command
def compact(arguments: Namespace) -> None:
    """Bring the epochs of each month of a table into common files, or give them files of their own again."""
    before = None if arguments.before is None else run_barrier(explicit=arguments.before)
    since = None if arguments.since is None else run_barrier(explicit=arguments.since)
    if since is not None and not arguments.undo:
        raise InvalidInput(
            field="--since",
            value=arguments.since,
            expected="--undo beside it: compaction begins with the table",
        )
    by, unit = getpass.getuser(), choice(CompactionUnit, arguments.unit, "--unit")
    with hook_of(arguments).get_conn(create=False) as service:
        retention, name = service.retention, arguments.table
        if arguments.undo:
            found = retention.take_apart(
                arguments.domain, name, since=since, before=before, by=by, told=_shown
            )
        else:
            found = retention.compact(arguments.domain, name, before=before, unit=unit, by=by, told=_shown)
    done = [part for part in found if not part.why]
    told = {
        "table": name,
        "compacted": [
            {**_span(part), "rows": part.rows, "before": part.before, "after": part.after, "csn": part.csn}
            for part in done
        ],
        "left": [
            {**_span(part), "files": part.before, "why": part.why, "next_step": part.next_step}
            for part in found
            if part.why
        ],
    }
    seen = {
        "table": name,
        "compacted": "" if done else _nothing(undo=arguments.undo, left=len(told["left"])),
        "left": [str(part) for part in found if part.why],
    }
    columns = ["epochs from", "to", "rows", "files before", "after", "CSN"]
    rows = [[*_span(part).values(), part.rows, part.before, part.after, part.csn] for part in done]
    answer(arguments, told, facts(seen), *([table(columns, rows)] if rows else []))


def _nothing(*, undo: bool, left: int) -> str:
    if left:
        return f"nothing: {several(left, 'unit')} cannot be {'taken apart' if undo else 'compacted'} now"
    if undo:
        return "nothing: the epochs have files of their own"
    return "nothing: each unit is compacted, has one epoch, or ends later"


def _shown(part: CompactedUnit) -> None:
    progress(str(part))


def _span(part: CompactedUnit) -> dict[str, str]:
    return {"low": part.low.isoformat(), "high": part.high.isoformat()}
