"""Resolution of a reader's request to one barrier and one CSN, shared by all readers of cuts (protocol section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from airflow_provider.coordination.commits.expired_states import (
    ExpiredStates,
    RememberedPages,
    expired_states,
)
from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.domain.alignment import Aligned, aligned, published_by_all
from airflow_provider.domain.cut import as_of, lagging, nearest_kept, newest_version
from airflow_provider.domain.cut_request import CutRequest
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady, Unavailable, UnknownName
from airflow_provider.domain.identifiers import DomainName, TableName, table_name
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.read_options import Consistency
from airflow_provider.domain.records import Stamped, retention_key, table_key, topology_key
from airflow_provider.domain.session import Session
from airflow_provider.domain.staleness import too_old
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import TableRecord, TableVersion
from airflow_provider.stores.base import MetadataReader, Reading, pages

_TRIES = 20

Worked = TypeVar("Worked")

Resolved = Mapping[TableName, tuple[TableRecord, TableVersion]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedCut:
    """Versions of the tables of a cut, and the barriers at which they are read."""

    reading: Reading
    found: Resolved
    aligned: Aligned


class Latest(Generic[Worked]):
    """Cache of the last answer: a domain is read more often than it changes.

    Questions are compared as values, so that a different one never gets this answer. Threads may share it.
    """

    def __init__(self) -> None:
        self._kept: tuple[object, Worked] | None = None

    def answer(self, question: object, work: Callable[[], Worked]) -> Worked:
        """Return the answer of *work* to *question*, which must not be changed afterwards."""
        # One read of the attribute: another thread may replace the pair between the comparison and the return.
        kept = self._kept
        if kept is None or kept[0] != question:
            kept = self._kept = (question, work())
        return kept[1]


class TableVersions:
    """Versions of tables, as read by *reader*; worked out once for each version of a table's record."""

    def __init__(self, reader: MetadataReader) -> None:
        self.reader = reader
        self.aligned = Latest[Aligned | None]()
        self._pages = RememberedPages()
        self._known: dict[TableName, tuple[Stamped[TableRecord], tuple[TableRecord, TableVersion]]] = {}

    def of_all(
        self, domain: DomainName, names: Sequence[TableName]
    ) -> tuple[Reading, dict[TableName, tuple[TableRecord, TableVersion]]]:
        """Read the versions of *names* at the head.

        :raises UnknownName: a table that no job has registered.
        """
        reading, found = self.of_registered(domain, names)
        for name in names:
            if name not in found:
                raise UnknownName.of_table(name, domain, meant=meant(self.reader, domain, name))
        return reading, found

    def of_registered(
        self, domain: DomainName, names: Sequence[TableName]
    ) -> tuple[Reading, dict[TableName, tuple[TableRecord, TableVersion]]]:
        """Read the versions of the registered tables of *names* at the head, and the records of retention and topology.

        The head is read first, then only data that is immutable at or below it (R3).
        """
        keys = {name: table_key(domain, name) for name in names}
        for _ in range(_TRIES):
            reading = self.reader.read(domain, [retention_key(domain), topology_key(domain), *keys.values()])
            records, csn = reading.records, reading.head.csn
            tables = {
                name: self._stood(name, records[key], csn) for name, key in keys.items() if key in records
            }
            found = {name: version for name, version in tables.items() if version is not None}
            # A record that has moved on too often since the head was read has forgotten its version there: read again.
            if len(found) == len(tables):
                return reading, found
        raise Conflict(
            "the tables kept moving while they were read.", next_step="read again.", tables=tuple(names)
        )

    def expired_states(self, domain: DomainName, reading: Reading) -> ExpiredStates:
        """Return the expired states of the tables of *reading*."""
        return expired_states(self.reader, domain, reading, self._pages.of(domain, reading))

    def _stood(
        self, name: TableName, stamped: Stamped[TableRecord], csn: int
    ) -> tuple[TableRecord, TableVersion] | None:
        """Return the table and its version at *csn*; None if its record no longer has that version."""
        if (stamped.csn or 0) > csn:
            moved = as_of(stamped, csn)
            return None if moved is None else (stamped.record, moved)
        known = self._known.get(name)
        if known is None or known[0] is not stamped:
            known = self._known[name] = (stamped, (stamped.record, newest_version(stamped)))
        return known[1]


def resolved(
    versions: TableVersions, domain: DomainName, names: Sequence[TableName], request: CutRequest
) -> ResolvedCut:
    """Resolve *names* at the head, as *request* says; errors as :meth:`Cuts.cut`."""
    altogether = request.consistency is Consistency.ALTOGETHER
    reading, tables = (_altogether if altogether else TableVersions.of_all)(versions, domain, names)
    found = {name: tables[name] for name in names}
    refuse_rolled_back(request.session, reading)
    at = request.at
    if altogether:
        inactive = inactive_jobs(versions.reader, domain)
        awaited = (known for known in tables.values() if known[0].job not in inactive and not known[0].ended)
        limit = published_by_all(awaited)
        at = min((end for end in (at, limit) if end is not None), default=None)
    question = (found, at, request.align, request.max_lag)
    answer = versions.aligned.answer(question, lambda: aligned(*question))
    if answer is None:
        raise _no_common_barrier(tables, request.at)
    refuse_expired(versions.expired_states(domain, reading), found, answer.tables)
    _refuse_behind(request.session, reading, found, answer)
    if request.max_staleness is not None:
        refuse_stale(too_old(found, answer.tables, reading.now, request.max_staleness), request.max_staleness)
    return ResolvedCut(reading=reading, found=found, aligned=answer)


def _altogether(
    versions: TableVersions, domain: DomainName, names: Sequence[TableName]
) -> tuple[Reading, dict[TableName, tuple[TableRecord, TableVersion]]]:
    """Read the versions of *names* and of all other tables of the domain at the head.

    Tables are listed before the head is read. Each registration changes the topology: one between the two is
    detected, and the tables are listed again.

    :raises Conflict: jobs kept registering meanwhile.
    """
    key = topology_key(domain)
    for _ in range(_TRIES):
        before = versions.reader.read(domain, [key]).get(key)
        listed = [TableName(stamped.key.item) for stamped in pages(versions.reader, domain, TableRecord)]
        reading, tables = versions.of_all(domain, list(dict.fromkeys([*names, *listed])))
        now = reading.get(key)
        if before is not None and now is not None and before.version == now.version:
            return reading, tables
    raise Conflict(
        "jobs kept registering while the tables of the domain were listed.",
        next_step="read again.",
        tables=tuple(names),
    )


def refuse_expired(retention: ExpiredStates, found: Resolved, barriers: Mapping[TableName, datetime]) -> None:
    """Refuse *barriers* at which the state of a table has expired.

    :raises Unavailable: with the tables; ``kept`` has the nearest kept barriers.
    """
    gone = retention.expired_at(barriers)
    if gone:
        kept = nearest_kept({table: found[table] for table in gone}, retention, barriers[gone[0]])
        said = " and ".join(barrier.isoformat() for barrier in kept) or "none"
        raise Unavailable(
            f"{', '.join(gone)}: what was there at {barriers[gone[0]].isoformat()} is expired.",
            next_step=f"read at the nearest barrier that is kept ({said}), or at a later one.",
            barrier=max(barriers.values()),
            tables=gone,
            kept=kept,
        )


def refuse_stale(lags: tuple[Missing, ...], limit: timedelta) -> None:
    """Refuse tables that are older than *limit*, which are in *lags*.

    :raises NotReady: with *lags*.
    """
    if lags:
        raise NotReady.of_tables(
            lags,
            why=f"older than {limit}: ",
            next_step="a local lag: see `airflow epochs explain` of the job that writes the table; a global one: "
            "the other tables; otherwise allow the age that the calendars have.",
        )


def _refuse_behind(session: Session | None, reading: Reading, found: Resolved, answer: Aligned) -> None:
    """Refuse states before those that the session has read.

    :raises NotReady: a table would go back. :raises Unavailable: the store was replaced since, or a table was dropped.
    """
    if session is None:
        return
    refuse_replaced(session, reading)
    others = session.reborn({name: record.born for name, (record, _) in found.items()})
    if others:
        raise Unavailable(
            f"the session has seen {', '.join(others)} before that was dropped: what has its name now is another "
            "table.",
            next_step="begin a new session.",
            tables=others,
        )
    missing = session.behind(reading.head.csn, answer.tables)
    if missing:
        lags = lagging(found, max(lag.wanted for lag in missing if lag.wanted is not None))
        slower = tuple(lag for lag in lags if lag.table not in {behind.table for behind in missing})
        raise NotReady.of_tables(
            (*missing, *slower),
            next_step="wait for the slower tables (EpochSensor), or read without this session.",
        )


def refuse_replaced(session: Session, reading: Reading) -> None:
    """:raises Unavailable: the session has seen another incarnation of the store."""
    if session.incarnation and session.incarnation != reading.head.incarnation:
        raise Unavailable(
            f"the session has seen incarnation {session.incarnation} of the store, which is "
            f"{reading.head.incarnation} now: it was restored, or a standby was promoted, and what was seen may be "
            "undone.",
            next_step="look at what was restored, then begin a new session.",
            expected=session.incarnation,
            found=reading.head.incarnation,
        )


def refuse_rolled_back(session: Session | None, reading: Reading) -> None:
    """:raises Unavailable: the session may have seen rows that a rollback of the domain has taken back since."""
    topology = None if session is None else reading.get(topology_key(session.domain))
    if session is None or topology is None or session.incarnation != reading.head.incarnation:
        return
    gone = session.taken_back(topology.record.rollbacks)
    if gone:
        raise Unavailable(
            f"the session has seen {', '.join(f'{name} at CSN {csn}' for name, csn in gone)}, and the domain was "
            "rolled back since: rows that it has seen are committed no more.",
            next_step="take back what was made of these rows, then begin a new session.",
            tables=tuple(name for name, _ in gone),
        )


def _no_common_barrier(tables: Resolved, at: datetime | None) -> NotReady:
    marks = [moved.watermark for _, moved in tables.values() if moved.watermark is not None]
    wanted = at or max(marks, default=None)
    missing = lagging(tables, wanted) if wanted else ()
    behind = [
        name for name, (table, moved) in tables.items() if moved.watermark is None and table.progress.islands
    ]
    lacking = f"what is committed of {', '.join(sorted(behind))} lies behind epochs that it lacks"
    nothing = lacking if behind else "nothing is committed yet"
    reasons = "; ".join(map(str, missing)) or nothing
    origins = [moved.origin for _, moved in tables.values() if moved.origin is not None]
    if at is not None and origins and at <= max(origins):
        step = f"read at a later time than {max(origins).isoformat()}, where the last of them begins."
    elif behind:
        step = "`airflow epochs doctor` names these epochs, and what brings them."
    else:
        step = "wait for it (EpochSensor), or see `airflow epochs explain`."
    return NotReady(
        f"no common barrier of {', '.join(sorted(tables))} yet: {reasons}.",
        next_step=step,
        missing=missing,
    )


def names_of(tables: Iterable[str | Table]) -> list[TableName]:
    """Return the names of *tables*, each once.

    :raises InvalidInput: no table, or an invalid name.
    """
    if isinstance(tables, str | Table):
        tables = [tables]
    if not isinstance(tables, Iterable):
        raise InvalidInput(field="tables", value=tables, expected="a list of one table or more")
    names = [table_name(table.name if isinstance(table, Table) else table) for table in tables]
    if not names:
        raise InvalidInput(field="tables", value=[], expected="one table or more")
    return list(dict.fromkeys(names))
