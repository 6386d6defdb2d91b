"""Commit the same rows of a table in other files: compaction, and its undoing (docs/decisions/unit-files.md).

A record names the folder of the new files before the first of them is written, and the commit deletes the record. So a
folder with a record has no rows of the table, and may go once the record says that its commit cannot come any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.pointers import as_recorded
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.table_commits import prepared_or_moved, written_out
from airflow_provider.coordination.context import Context
from airflow_provider.domain.compaction import (
    COMPACTED,
    CompactionRecord,
    Epochs,
    Regrouping,
    leaves_whole,
    separations,
)
from airflow_provider.domain.errors import Conflict, EpochError, ForeignCommit, Unavailable
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Key, Stamped, compaction_key, table_key, topology_key
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import CommitRecord, TableRecord, TableRef, shown
from airflow_provider.domain.watermark import merged
from airflow_provider.stores.base import (
    Absent,
    Delete,
    Exists,
    Put,
    Reading,
    RequirementFailed,
    SameStore,
    Transaction,
    scan,
    unchanged,
)
from airflow_provider.tables.compacting import CompactingFormat, Regrouped, with_units
from airflow_provider.tables.errors import TablesAhead

_LOOKED_AT = 500
"""Number of newest commits among which a compaction whose reply was lost looks for its own."""


class Overtaken(Exception):
    """The files to compact are not those of the table any more: look again. Nothing was changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recommitted:
    """A commit of the same rows. :param csn: its number. :param files: number of files that came."""

    csn: int
    files: int


def epochs_of(record: TableRecord) -> Epochs:
    """Return a function that returns the barriers of the table of *record* from one to another, however many."""

    def between(low: datetime, high: datetime) -> list[datetime]:
        found = [low]
        while found[-1] < high:
            found.append(record.cadence.next_after(found[-1]))
        return found

    return between


def separate(
    context: Context, stamped: Stamped[TableRecord], leaving: Collection[Interval], *, by: str
) -> bool:
    """Give the epochs *leaving* of a table files of their own, by a commit of the same rows, so that they can leave.

    Not those of units that leave whole: such a file need not be readable.

    :param stamped: the table as it was read.
    :return: whether some had none; then the table is to be read again.
    :raises Unavailable: the rows of such an epoch cannot be separated; says why, and which epochs can leave together.
    """
    hull, ref = stamped.record.units, stamped.record.ref
    wanted = [epoch.end for epoch in leaving if hull is not None and hull.start < epoch.end <= hull.end]
    if not wanted or ref is None:
        return False
    table = as_recorded(stamped, ref)
    table_format = with_units(context.formats[ref.format], table.name)
    files = table_format.held(table, ref, min(wanted), max(wanted))
    if units := [file for file in files if file.low < file.high]:  # and the files beside those of the units
        low, high = min(file.low for file in units), max(file.high for file in units)
        files = table_format.held(table, ref, low, high)
    stretches = merged(leaving)
    found = [
        regrouping
        for regrouping in separations(files, wanted, epochs_of(stamped.record))
        if not leaves_whole(regrouping.low, regrouping.high, stretches)
    ]
    for regrouping in found:
        if regrouping.obstacle:
            raise Unavailable(
                f"epochs of table {table.name!r} were compacted, and cannot be replaced: it has {regrouping.obstacle}.",
                next_step="`airflow epochs recover` tells what another program has done: let it take that back.",
                tables=(table.name,),
            )
        try:
            regroup(context, table.domain, table.name, regrouping, by=by)
        except Overtaken:
            continue  # the caller reads the table again
        except Unavailable as error:
            raise _inseparable(table.name, regrouping, error) from error
    return bool(found)


def _inseparable(table: TableName, regrouping: Regrouping, error: Unavailable) -> Unavailable:
    low, high = regrouping.low.isoformat(), regrouping.high.isoformat()
    return Unavailable(
        f"epochs of table {table!r} were compacted, and cannot leave the file that they share with others: "
        f"{error.message}",
        next_step=f"bring the file back from a backup of the warehouse; without one, compute all epochs that end from "
        f"{low} to {high} again in one restatement (`airflow epochs restate plan`), which replaces the file whole.",
        tables=(table,),
        uri=error.uri,
    )


def regroup(
    context: Context,
    domain: DomainName,
    name: TableName,
    regrouping: Regrouping,
    *,
    by: str,
    wait: Callable[[], None] = lambda: None,
) -> Recommitted:
    """Write the rows of *regrouping* to new files, and commit them in place of the present ones.

    :param by: author of the commit. :param wait: called before each try to commit: waits for a publisher that has
        reserved the head.
    :raises Overtaken: the table has other files meanwhile.
    """
    key = table_key(domain, name)
    reading = context.retry(lambda: context.store.read(domain, [key, topology_key(domain)]))
    found = _found(reading, key, context)
    table, ref = found.table, found.ref
    table_format = with_units(context.formats[ref.format], name)
    number = f"{reading.head.csn}-{context.request_id()}"
    place = table_format.unit_place(table, number)
    record = CompactionRecord(folder=place, format=ref.format, incarnation=reading.head.incarnation, by=by)
    own = compaction_key(domain, name, number)
    version = context.retry(lambda: _begun(context, own, record))
    request = _Commit(context, table_format, own, version, record, regrouping, ref.schema_id, wait)
    try:
        try:
            written = table_format.regroup(table, ref, regrouping.files, regrouping.groups, place)
        except (ForeignCommit, TablesAhead, Unavailable) as error:
            raise request.gone_or(error, found) from error
        lost = Conflict.of_others(f"table {name!r}", "committing to it")
        written = replace(written, beside=frozenset(file.uri for file in regrouping.beside))
        return context.retry(lambda: request.run(written), lost)
    except BaseException:
        with suppress(EpochError, RequirementFailed):
            end_compaction(context, own, "interrupted")
        raise


def has_moved(context: Context, stamped: Stamped[TableRecord]) -> bool:
    """Return whether another commit has moved a table since it was read."""
    now = context.store.read(stamped.key.domain, [stamped.key]).get(stamped.key)
    return now is None or now.version != stamped.version


def _begun(context: Context, key: Key[CompactionRecord], record: CompactionRecord) -> int:
    """Write *record*, and return its version; a repetition finds it."""
    found = context.store.read(key.domain, [key]).get(key)
    if found is not None:
        return found.version
    context.store.transact(
        Transaction(
            domain=key.domain,
            store=SameStore(record.incarnation),
            requires=(Absent(key),),
            updates=(Put(key, record),),
        )
    )
    return context.store.read(key.domain, [key]).of(key).version


def end_compaction(context: Context, key: Key[CompactionRecord], why: str) -> bool:
    """End a compaction that has not committed, delete its files, then its record; return whether it had not ended.

    The record is ended first: from then on no commit names the files. Files of another incarnation of the store stay,
    since it may have committed them (R33).
    """
    reading = context.store.read(key.domain, [key])
    stamped = reading.get(key)
    if stamped is None:
        return False
    here = SameStore(reading.head.incarnation)
    record, version = stamped.record, stamped.version
    if not record.ended:
        ended = Put(key, replace(record, ended=why))
        requires = (Exists(key, version),)
        context.store.transact(
            Transaction(domain=key.domain, store=here, requires=requires, updates=(ended,))
        )
        version = context.store.read(key.domain, [key]).of(key).version
    if record.incarnation == here.incarnation:
        with_units(context.formats[record.format], key.partition).discard(record.folder)
    context.store.transact(
        Transaction(domain=key.domain, store=here, requires=(Exists(key, version),), updates=(Delete(key),))
    )
    return True


@dataclass(frozen=True, slots=True)
class _Commit:
    """One request to commit *regrouping*; ``run`` may be repeated until its commit.

    :param version: of its record. :param schema_id: the table's columns when its rows were read.
    """

    context: Context
    table_format: CompactingFormat
    key: Key[CompactionRecord]
    version: int
    record: CompactionRecord
    regrouping: Regrouping
    schema_id: int
    wait: Callable[[], None]

    @property
    def _change_set(self) -> ChangeSetId:
        return ChangeSetId(f"{self.key.partition}@{self.key.item}{COMPACTED}")

    def run(self, written: Regrouped) -> Recommitted:
        """Commit once; raises RequirementFailed if a record that it read has changed, Overtaken if the files have."""
        self.wait()
        context, domain = self.context, self.key.domain
        key, of_domain = table_key(domain, TableName(self.key.partition)), topology_key(domain)
        reading = context.store.read(domain, [key, of_domain, self.key])
        own = reading.get(self.key)
        if own is None and (csn := self._committed()):
            return Recommitted(csn=csn, files=len(written.files))
        if own is None or own.version != self.version or reading.head.incarnation != self.record.incarnation:
            raise Conflict(
                f"the compaction of table {self.key.partition!r} was ended: it took a day, or the store was replaced.",
                next_step="run the command again.",
            )
        found = _found(reading, key, context)
        stamped, table, ref = found.stamped, found.table, found.ref
        if ref.schema_id != self.schema_id:
            raise Overtaken  # the new files have the columns of before
        commit = CommitBuilder(domain, reading, context.defaults)
        shows = shown(stamped.record, stamped.record.progress, context.store.format)
        version = commit.next_version(table, ref, shows, self._change_set)
        publication = replace(version, regroups=written)
        try:
            prepared = prepared_or_moved(context.store, context.formats, publication, stamped)
        except Unavailable as error:
            raise self.gone_or(error, found) from error
        # A move seals the domain by its topology: no commit may follow the seal (docs/decisions/moving.md).
        commit.require(unchanged(reading, of_domain))
        commit.hold(own)
        commit.update(Delete(self.key))
        span = Interval(self._epochs_from(stamped.record), self.regrouping.high)
        hull = _hull(stamped.record.units, span)
        commit.show(stamped, replace(written_out(stamped), units=hull), span, publication, prepared)
        receipt = context.store.transact(commit.transaction(self._change_set, by=self.record.by))
        self.table_format.published(publication, prepared)
        return Recommitted(csn=receipt.csn or 0, files=len(written.files))

    def _epochs_from(self, record: TableRecord) -> datetime:
        return record.cadence.ending_at(self.regrouping.low).start

    def gone_or(self, error: EpochError, found: _Found) -> Exception:
        """Return Overtaken if the table has moved since it was *found*, or has other files; else *error*."""
        if has_moved(self.context, found.stamped):
            return Overtaken()
        now = self.table_format.held(found.table, found.ref, self.regrouping.low, self.regrouping.high)
        seen = (*self.regrouping.files, *self.regrouping.beside)
        same = {file.uri for file in now} == {file.uri for file in seen}
        return error if same else Overtaken()

    def _committed(self) -> int:
        """Return the CSN of this request's own commit, whose reply was lost; 0 if there is none."""
        found = scan(self.context.store, self.key.domain, CommitRecord, limit=_LOOKED_AT, reverse=True)
        return next(
            (stamped.csn or 0 for stamped in found if stamped.record.change_set == self._change_set), 0
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """A table with a commit, as it was read."""

    stamped: Stamped[TableRecord]
    table: Table
    ref: TableRef


def _found(reading: Reading, key: Key[TableRecord], context: Context) -> _Found:
    """:raises Overtaken: the table was dropped. Raises for domains that may not be written to here, too."""
    topology = reading.get(topology_key(key.domain))
    refuse_sealed(key.domain, topology)
    refuse_elsewhere(key.domain, topology, context.formats)
    stamped = reading.get(key)
    ref = None if stamped is None else stamped.record.ref
    if stamped is None or ref is None:
        raise Overtaken
    return _Found(stamped, as_recorded(stamped, ref), ref)


def _hull(units: Interval | None, span: Interval) -> Interval:
    return span if units is None else Interval(min(units.start, span.start), max(units.end, span.end))
