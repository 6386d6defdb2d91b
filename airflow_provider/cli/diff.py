"""``airflow epochs diff``."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Any

from airflow_provider.cli.answer import answer, facts, moment, table, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.restating import spans, stretches
from airflow_provider.cli.staged_rows import difference_block, difference_facts, row_number
from airflow_provider.coordination.reading.differences import diff, narrowed
from airflow_provider.coordination.reading.epoch_changes import EpochChanges, OtherCommit, epoch_changes
from airflow_provider.coordination.reading.past_states import state_at
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut, State
from airflow_provider.domain.errors import InvalidInput, UnknownName
from airflow_provider.domain.identifiers import TableName, table_name
from airflow_provider.domain.records import table_key
from airflow_provider.domain.schedule import run_barrier, run_interval

_CSN = re.compile(r"[0-9]{1,18}")
_LEASE = "lease:"
_EXPECTED = "a barrier, such as 2013-02-08; @CSN, such as @17; both, such as 2013-02-08@17; or lease:NAME"


@command
def show_difference(arguments: Namespace) -> None:
    """Show in which rows two states of a table differ, or in which epochs two states of a domain do."""
    if arguments.table is None:
        _of_domain(arguments)
    else:
        _of_table(arguments)


def _of_table(arguments: Namespace) -> None:
    number, name = row_number(arguments.rows), table_name(arguments.table)
    with hook_of(arguments).get_conn(create=False) as service:
        before = _state(service, arguments, name, arguments.since, "--from")
        after = _state(service, arguments, name, arguments.until, "--to")
        compared = [_narrowed(service, cut, name, arguments.interval) for cut in (before, after)]
        found = diff(service.cuts, compared[0], compared[1], [name])[name]
    states = {"from": before.states[name], "to": after.states[name]}
    counted = difference_facts(found, number)
    told = {
        "domain": before.domain,
        **counted,
        **{end: _facts(state) for end, state in states.items()},
    }
    seen = {
        "table": f"{before.domain}/{name}",
        **{end: _told(state) for end, state in states.items()},
        "rows added": counted["added"],
        "rows removed": counted["removed"],
    }
    samples = [difference_block(counted, number)] if counted["rows_added"] or counted["rows_removed"] else []
    answer(arguments, told, facts(seen), *samples)


def _state(
    service: EpochService, arguments: Namespace, table: TableName, words: str | None, field: str
) -> Cut:
    """Return the state of *table* that *words* name, as a cut with this table; without them, the newest.

    :raises InvalidInput: they name none. :raises UnknownName: no such lease, or none of this table.
    """
    if words is None:
        return state_at(service.cuts, arguments.domain, table)
    if words.startswith(_LEASE):
        name = words.removeprefix(_LEASE)
        lease = service.leases.find(arguments.domain, name)
        if lease is None or table not in lease.cut.states:
            missing = "has no such lease" if lease is None else f"has the lease without table {table!r}"
            raise UnknownName(
                f"{field} {words}: domain {arguments.domain!r} {missing}.",
                next_step=f"`airflow epochs lease list --domain {quote(arguments.domain)}` has the live ones.",
                domain=arguments.domain,
                lease=name,
            )
        return lease.cut
    barrier, at, csn = words.partition("@")
    if not (_CSN.fullmatch(csn) if at else barrier.strip()):
        raise InvalidInput(field=field, value=words, expected=_EXPECTED)
    return state_at(
        service.cuts,
        arguments.domain,
        table,
        at=run_barrier(explicit=barrier) if barrier else None,
        csn=int(csn) if at else None,
    )


def _narrowed(service: EpochService, cut: Cut, table: TableName, words: str | None) -> Cut:
    """Return *cut* with the epochs in the interval that *words* name; without them, all.

    :raises InvalidInput: no interval, or a full table: its state is that of one barrier.
    """
    if words is None:
        return cut
    state = cut.states[table]
    if not state.kind.accumulates:
        raise InvalidInput(
            field="--interval",
            value=words,
            expected=f"no interval: {table} is a full table, whose state has no earlier epochs",
            next_step="name its barriers by --from and --to.",
        )
    key = table_key(cut.domain, table)
    wanted = run_interval(service.store.read(cut.domain, [key]).of(key).record.cadence, explicit=words)
    return narrowed(cut, table, wanted.start, wanted.end)


def _told(state: State) -> str:
    version = "" if state.ref is None else f", {state.ref.format} {state.ref.version}"
    return f"{moment(state.barrier)} UTC, CSN {state.csn}{version}"


def _facts(state: State) -> dict[str, Any]:
    return {
        "barrier": state.barrier.isoformat(),
        "csn": state.csn,
        "format": state.ref and state.ref.format,
        "version": state.ref and state.ref.version,
    }


def _of_domain(arguments: Namespace) -> None:
    if arguments.interval is not None:
        raise InvalidInput(
            field="--interval", value=arguments.interval, expected="a TABLE, whose rows it is about"
        )
    since = _csn(arguments.since, "--from")
    until = None if arguments.until is None else _csn(arguments.until, "--to")
    with hook_of(arguments).get_reader() as reader:
        found = epoch_changes(reader, arguments.domain, since, until)
    told = {
        "domain": found.domain,
        "from": {"csn": found.since},
        "to": {"csn": found.until},
        "commits": found.commits,
        "came": spans(found.came),
        "revised": spans(found.revised),
        "taken_back": spans(found.taken_back),
        "adopted": [_commit_facts(commit) for commit in found.adopted],
        "dropped": [_commit_facts(commit) for commit in found.dropped],
    }
    seen = {
        "domain": found.domain,
        "from": f"CSN {found.since}",
        "to": f"CSN {found.until}",
        "commits": found.commits,
        "rows of others": [_commit_told(commit) for commit in found.adopted],
        "dropped": [_commit_told(commit) for commit in found.dropped],
    }
    rows = list(_rows(found))
    columns = ("job", "from (UTC)", "to (UTC)", "epochs", "what became of them")
    answer(arguments, told, facts(seen), *([table(columns, rows)] if rows else [text("no epoch differs")]))


def _rows(found: EpochChanges) -> Iterator[Sequence[object]]:
    """Yield a row for each unbroken stretch of epochs of a job, by what became of them."""
    yield from stretches(found.came, "came")
    yield from stretches(found.revised, "computed again")
    yield from stretches(found.taken_back, "taken back")


def _commit_facts(commit: OtherCommit) -> dict[str, Any]:
    return {"csn": commit.csn, "tables": list(commit.tables), "by": commit.by}


def _commit_told(commit: OtherCommit) -> str:
    return f"{', '.join(commit.tables)} by CSN {commit.csn} ({commit.by})"


def _csn(words: str, field: str) -> int:
    """Return the CSN that *words* name.

    :raises InvalidInput: they name none.
    """
    if not re.fullmatch(rf"@{_CSN.pattern}", words):
        raise InvalidInput(
            field=field,
            value=words,
            expected="@CSN, such as @17: two states of a domain are two commits",
            next_step="name a TABLE to compare barriers or leased cuts.",
        )
    return int(words[1:])
