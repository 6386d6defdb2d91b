"""Compaction across epochs: common files for the epochs of a month (docs/decisions/unit-files.md).

Each unit is a commit of its own, of the same rows, so that an interruption loses at most the work of one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.attempts.reserve import await_unreserved
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.pointers import as_recorded
from airflow_provider.coordination.commits.regroup import (
    Overtaken,
    Recommitted,
    end_compaction,
    epochs_of,
    has_moved,
    regroup,
)
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.context import Context
from airflow_provider.domain.compaction import (
    CompactionRecord,
    CompactionUnit,
    Regrouping,
    compactions,
    separations,
)
from airflow_provider.domain.errors import (
    Conflict,
    ForeignCommit,
    InvalidInput,
    StoreIncompatible,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.identifiers import DomainName, TableName
from airflow_provider.domain.records import Key, Stamped, table_key, topology_key
from airflow_provider.domain.version import HeldFile, TableRecord
from airflow_provider.stores.base import pages
from airflow_provider.tables.compacting import with_units
from airflow_provider.tables.errors import TablesAhead

SINCE_FORMAT = 2
"""First store format whose programs know of files with the rows of many epochs."""
_TRIES = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactedUnit:
    """Epochs of a table whose rows have come into other files.

    :param low: least barrier of these epochs. :param high: greatest one.
    :param before: number of their files before. :param after: likewise after; None where they are left.
    :param csn: of the commit. :param why: why they are left as they are; empty if they are not.
    :param next_step: what lets them be compacted; may be empty.
    """

    low: datetime
    high: datetime
    rows: int
    before: int
    after: int | None = None
    csn: int | None = None
    why: str = ""
    next_step: str = ""

    def __str__(self) -> str:
        span = f"epochs from {self.low.isoformat()} to {self.high.isoformat()}"
        if not self.why:
            return f"{span}: {self.before} files became {self.after}"
        return f"{span}: {self.before} files, left: {self.why}" + (
            f"; next step: {self.next_step}" if self.next_step else ""
        )


Told = Callable[[CompactedUnit], object]
"""Called after each commit, to show progress."""


def compact(
    context: Context,
    domain: DomainName,
    name: TableName,
    *,
    before: datetime | None,
    unit: CompactionUnit,
    by: str,
    most: int,
    told: Told,
) -> tuple[CompactedUnit, ...]:
    """Bring the epochs of each whole unit of a table into common files; see :meth:`~.retention.Retention.compact`."""

    def found(stamped: Stamped[TableRecord], files: list[HeldFile]) -> Iterator[Regrouping]:
        progress = stamped.record.progress
        watermark, origin = progress.watermark, progress.origin
        if watermark is None or origin is None:
            return iter(())
        until = watermark if before is None else min(before, watermark)
        return compactions(files, unit, after=origin, before=until)

    return _all(context, domain, name, found, by=by, most=most, told=told)


def take_apart(
    context: Context,
    domain: DomainName,
    name: TableName,
    *,
    since: datetime | None,
    before: datetime | None,
    by: str,
    most: int,
    told: Told,
) -> tuple[CompactedUnit, ...]:
    """Give the epochs of units of a table files of their own again; see :meth:`~.retention.Retention.take_apart`."""

    def found(stamped: Stamped[TableRecord], files: list[HeldFile]) -> Iterator[Regrouping]:
        return separations(files, None, epochs_of(stamped.record), since=since, before=before)

    return _all(context, domain, name, found, by=by, most=most, told=told)


Search = Callable[[Stamped[TableRecord], list[HeldFile]], Iterator[Regrouping]]


def _all(
    context: Context, domain: DomainName, name: TableName, search: Search, *, by: str, most: int, told: Told
) -> tuple[CompactedUnit, ...]:
    done: list[CompactedUnit] = []
    overtaken: Overtaken | None = None
    for _ in range(_TRIES):
        try:
            found = context.retry(lambda: _found(context, domain, name, search))
            left = [_left(regrouping) for regrouping in found if regrouping.obstacle]
            for regrouping in found:
                if regrouping.obstacle:
                    continue
                if len(done) == most:
                    return (*done, *left)
                done.append(_done(regrouping, _regroup(context, domain, name, regrouping, by)))
                told(done[-1])
        except Overtaken as error:  # other commits were faster: look again
            overtaken = error
            continue
        return (*done, *left)
    raise Conflict.of_others(f"table {name!r}", "replacing its files") from overtaken


def _found(context: Context, domain: DomainName, name: TableName, search: Search) -> list[Regrouping]:
    stamped = _looked_up(context, domain, name)
    return list(search(stamped, _held(context, stamped)))


def _regroup(
    context: Context, domain: DomainName, name: TableName, regrouping: Regrouping, by: str
) -> Recommitted:
    # A publisher that lost races reserves the head: do not overtake it (docs/decisions/publish-queue.md).
    def wait() -> None:
        await_unreserved(context.store, domain, context.clock, context.random)

    return regroup(context, domain, name, regrouping, by=by, wait=wait)


def _looked_up(context: Context, domain: DomainName, name: TableName) -> Stamped[TableRecord]:
    """Return the record of a table that can be compacted.

    :raises UnknownName: no job has registered it. :raises InvalidInput: it is full, or of another format.
    :raises StoreIncompatible: an older store, which has to be upgraded first.
    """
    key, of_domain = table_key(domain, name), topology_key(domain)
    reading = context.store.read(domain, [key, of_domain])
    refuse_sealed(domain, reading.get(of_domain))
    refuse_elsewhere(domain, reading.get(of_domain), context.formats)
    stamped = reading.get(key)
    if stamped is None:
        raise UnknownName.of_table(name, domain, meant=meant(context.store, domain, name))
    if not stamped.record.kind.accumulates:
        raise InvalidInput(
            field="table",
            value=name,
            expected="an incremental table: a full table has one state for each epoch, in files of its own",
            next_step="`airflow epochs retention keep` expires old states of full tables.",
        )
    if context.store.format < SINCE_FORMAT:
        raise StoreIncompatible(
            f"the store has record format {context.store.format}, whose programs read files of one epoch only.",
            next_step="once every host has this version of the package: `airflow epochs db upgrade`.",
            found=str(context.store.format),
            expected=str(SINCE_FORMAT),
        )
    return stamped


def _held(context: Context, stamped: Stamped[TableRecord]) -> list[HeldFile]:
    record, ref = stamped.record, stamped.record.ref
    watermark, origin = record.progress.watermark, record.progress.origin
    if ref is None or watermark is None or origin is None:
        return []
    table = as_recorded(stamped, ref)
    table_format = with_units(context.formats[ref.format], table.name)
    try:
        return table_format.held(table, ref, origin, watermark)
    except (ForeignCommit, TablesAhead, Unavailable) as error:
        if has_moved(context, stamped):  # a publish was faster
            raise Overtaken from error
        raise


def _done(regrouping: Regrouping, committed: Recommitted) -> CompactedUnit:
    return CompactedUnit(
        low=regrouping.low,
        high=regrouping.high,
        rows=sum(file.rows for file in regrouping.files),
        before=len(regrouping.files),
        after=committed.files,
        csn=committed.csn,
    )


def _left(regrouping: Regrouping) -> CompactedUnit:
    return CompactedUnit(
        low=regrouping.low,
        high=regrouping.high,
        rows=sum(file.rows for file in regrouping.files),
        before=len(regrouping.files),
        why=regrouping.obstacle,
        next_step=regrouping.way_out,
    )


def end_forgotten(context: Context, domain: DomainName, tables: Iterable[TableName]) -> list[str]:
    """End the compactions that were begun ``orphan_grace`` ago, and delete their files; return the folders."""
    before = context.store.read(domain, []).now - context.defaults.orphan_grace
    return end_open(context, domain, tables, "silent for a day", before=before)


def end_open(
    context: Context,
    domain: DomainName,
    tables: Iterable[TableName],
    why: str,
    *,
    before: datetime | None = None,
) -> list[str]:
    """End the compactions of *tables*, and delete their files; return the folders.

    :param before: only those that were begun until then.
    """
    found = [stamped for name in tables for stamped in pages(context.store, domain, CompactionRecord, name)]
    return [
        stamped.record.folder
        for stamped in found
        if (before is None or stamped.at <= before) and _ended(context, stamped.key, why)
    ]


def _ended(context: Context, key: Key[CompactionRecord], why: str) -> bool:
    lost = Conflict.of_others(f"the compaction of table {key.partition!r}", "ending it")
    return context.retry(lambda: end_compaction(context, key, why), lost)
