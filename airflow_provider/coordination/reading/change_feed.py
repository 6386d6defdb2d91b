"""Change feed: commits for consumers, delivered at least once, in CSN order, after they are visible (R35).

Events are hints. Each has the position at which a consumer continues after it; the consumer stores that position
together with its own result. A consumer that dies before it has stored it receives the events since again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.domain.compaction import COMPACTED
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.version import CommitRecord, TableDelta
from airflow_provider.stores.base import MetadataReader

_PAGE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Position after all commits up to *csn*, as the store with *incarnation* numbered them."""

    incarnation: str
    csn: int

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Read a position from *text*.

        :raises InvalidInput: *text* is none.
        """
        incarnation, separator, csn = text.rpartition(":") if isinstance(text, str) else ("", "", "")
        if not (separator and incarnation and csn.isascii() and csn.isdigit() and len(csn) < 19):
            raise InvalidInput(
                field="position", value=text, expected="a position as an event has it: INCARNATION:CSN"
            )
        return cls(incarnation=incarnation, csn=int(csn))

    def __str__(self) -> str:
        return f"{self.incarnation}:{self.csn}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Change of one table by one commit; (domain, incarnation, csn, table) is its key.

    :param interval: the epoch, or the time from the first to the last of several, of all where columns have changed,
        and of earlier commits that readers see from this one on; None where the commit has dropped the table, with all
        of its rows.
    :param revision: of the epoch; None for several, and for rows of another program.
    :param position: where to continue after it: behind its commit for that commit's last table, before it for others.
    """

    domain: DomainName
    incarnation: str
    csn: int
    table: TableName
    interval: Interval | None
    revision: int | None
    watermark: datetime | None
    rows: int
    by: str
    at: datetime
    position: Position


def events(reader: MetadataReader, domain: str, after: Position | None = None) -> Iterator[Event]:
    """Yield the events after a position, up to now, in order.

    :param after: None for the beginning.
    :raises Unavailable: the position is of another incarnation of the store, or beyond its head: it was restored.
    """
    name, asking = domain_name(domain), retrying_reader(reader)
    head = asking.read(name, []).head
    if after is not None and (after.incarnation != head.incarnation or after.csn > head.csn):
        raise Unavailable(
            f"position {after} is not of this store, which is incarnation {head.incarnation} at CSN {head.csn}: it was "
            "restored from a backup, a standby was promoted, or the domain has moved.",
            next_step="ask the store what there is (a cut), and begin anew from the beginning or at "
            f"{Position(incarnation=head.incarnation, csn=head.csn)}.",
            found=head.incarnation,
        )
    csn = 0 if after is None else after.csn
    while page := asking.changes(name, csn, limit=_PAGE):
        for commit in page:
            csn = commit.csn or csn
            record = commit.record
            # No row changes by a compaction, which has no members. A restatement may have a name that ends so.
            if record.members or not record.change_set.endswith(COMPACTED):
                yield from _of(name, head.incarnation, csn, commit)


def followed(reader: MetadataReader, domain: str, after: Position | None, wait: timedelta) -> Iterator[Event]:
    """Yield :func:`events`, and then those of later commits; end only by an error.

    :param wait: longest wait for the store at a time.
    """
    name, asking = domain_name(domain), retrying_reader(reader)
    while True:
        head = asking.read(name, []).head  # before the events: not every commit is one of a table
        for event in events(asking, domain, after):
            after = event.position
            yield event
        asking.watch(name, head.csn, wait)


def _of(domain: DomainName, incarnation: str, csn: int, commit: Stamped[CommitRecord]) -> Iterator[Event]:
    deltas: dict[TableName, TableDelta | None] = {delta.table: delta for delta in commit.record.tables}
    deltas |= dict.fromkeys(commit.record.dropped)
    for number, (table, delta) in enumerate(sorted(deltas.items(), key=lambda known: known[0]), 1):
        # Only its last table takes the position past a commit: a consumer that dies in the middle gets it again, whole.
        done = csn if number == len(deltas) else csn - 1
        yield Event(
            domain=domain,
            incarnation=incarnation,
            csn=csn,
            table=table,
            interval=None if delta is None else delta.interval,
            revision=None if delta is None else delta.revision or None,
            watermark=None if delta is None else delta.watermark,
            rows=0 if delta is None else delta.rows,
            by=commit.record.by,
            at=commit.at,
            position=Position(incarnation=incarnation, csn=done),
        )
