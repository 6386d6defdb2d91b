"""Look at what a restatement has staged, before it is published (R29)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from airflow_provider.coordination.commits.staged import Members
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.differences import Difference, diff, narrowed
from airflow_provider.coordination.upkeep.members_now import MembersNow, StagedMember
from airflow_provider.domain.cut import Cut, State
from airflow_provider.domain.errors import Conflict, InvalidInput
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.interval import Interval, time_key
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.restatement import digest_of, within
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import SliceRecord
from airflow_provider.stores.base import MetadataReader, scan

MOST_COMPARED = 1_000_000
"""Number of committed rows of a table up to which differences are told unasked: both sides are in memory at once."""


def staged_cut(
    cuts: Cuts,
    now: MembersNow,
    staged: list[StagedMember],
    tables: Iterable[TableName],
    at: datetime | None = None,
) -> Cut:
    """Return a cut as it will be after the restatement's commit, if nothing else is committed until then.

    Its level is READ_UNCOMMITTED: it cannot be leased, and ends with the restatement.

    :param staged: all its members.
    :raises Conflict: members were computed again meanwhile.
    """
    base = cuts.cut(now.domain, tables, at=at, level=Level.READ_COMMITTED)
    states = {name: _with_staged(now, staged, state) for name, state in base.states.items()}
    found, missing = now.staged()
    if missing or now.output(found) != now.output(staged):
        raise Conflict(
            f"restatement {now.name!r}: its epochs were computed again meanwhile.", next_step="look again."
        )
    return replace(base, states=states, level=Level.READ_UNCOMMITTED)


def differences(
    cuts: Cuts, now: MembersNow, staged: list[StagedMember], tables: Iterable[TableName] | None = None
) -> dict[TableName, Difference]:
    """Return the rows that the restatement adds to and removes from the newest state of each table.

    :param staged: all its members. :param tables: None for all that its members write.
    """
    written = dict[TableName, list[Interval]]()
    for member in staged:
        for sink in member.attempt.sinks:
            written.setdefault(sink.name, []).append(member.attempt.interval)
    wanted = list(written) if tables is None else list(tables)
    if others := sorted(set(wanted) - set(written)):
        raise InvalidInput(
            field="tables",
            value=others,
            expected=f"tables that restatement {now.name!r} computes again: {', '.join(sorted(written))}",
        )
    found: dict[TableName, Difference] = {}
    for name in wanted:
        after = staged_cut(cuts, now, staged, [name])
        before = cuts.cut(now.domain, [name], level=Level.READ_COMMITTED)
        # The time before and after its members is the same in both.
        first, last = (min(own.start for own in written[name]), max(own.end for own in written[name]))
        parts = [narrowed(cut, name, first, last) for cut in (before, after)]
        found |= diff(cuts, parts[0], parts[1])
    return found


def rows_to_compare(
    reader: MetadataReader, domain: DomainName, table: Table, intervals: Sequence[Interval]
) -> int:
    """Return how many committed rows of *table* :func:`differences` reads; what is staged has about as many.

    :param intervals: of the members that write the table: all epochs from the first to the last are compared, of a full
        table its newest state.
    """
    first, last = min(span.start for span in intervals), max(span.end for span in intervals)
    end = time_key(last) if table.kind.accumulates else None
    found = scan(reader, domain, SliceRecord, table.name, start=time_key(first), end=end)
    standing = (piece for piece in found if not piece.record.taken_back)
    ordered = sorted(standing, key=lambda piece: piece.csn or 0)
    newest = {piece.record.interval: piece.record.rows for piece in ordered}
    if not newest:
        return 0
    return sum(newest.values()) if table.kind.accumulates else newest[max(newest)]


def _with_staged(now: MembersNow, staged: list[StagedMember], state: State) -> State:
    """Return *state* with the staged epochs that it has."""
    own = {
        member.attempt.interval: member
        for member in staged
        if any(sink.name == state.table for sink in member.attempt.sinks)
    }
    low = (
        state.low
        if state.kind.accumulates
        else max((span.start for span in own if span.end == state.barrier), default=state.barrier)
    )
    names = [own[interval].staged for interval in within(own, low, state.barrier)]
    if not names:
        return state
    members = Members(reader=now.reader, domain=now.domain, name=now.name, record=now.record)
    output = members.output(state.table, names[0].job, low, state.barrier, digest_of(names))
    return replace(state, staged=output)
