"""Column changes between epochs: a commit of its own, made by the first begin that declares them (R32)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_provider.coordination.commits.adopt import adopt
from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.pointers import follow
from airflow_provider.coordination.commits.table_commits import prepared_or_moved, written_out
from airflow_provider.coordination.context import Context
from airflow_provider.domain.columns import ColumnChange, first_unknown, pending_changes
from airflow_provider.domain.epoch import Attempt, LockRecord, has_expired
from airflow_provider.domain.errors import EpochBusy, Fenced, ForeignCommit, SchemaMismatch
from airflow_provider.domain.identifiers import ChangeSetId
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped, lock_key, schema_key, table_key, topology_key
from airflow_provider.domain.topology import Job, OnForeignCommit, Table
from airflow_provider.domain.version import TableRecord, shown
from airflow_provider.stores.base import Reading, RequirementFailed, pages, unchanged
from airflow_provider.tables.base import TableInfo
from airflow_provider.tables.capabilities import TableCapability, refuse_without
from airflow_provider.tables.checks import same_table


@dataclass(frozen=True, slots=True)
class Alter:
    """Request to bring the columns of a job's tables to its declaration, before the epoch of *interval* begins."""

    context: Context
    job: Job
    interval: Interval

    def run(self, reading: Reading, *, dry: bool = False) -> bool:
        """Make the changes that one of the tables lacks; return whether the store is to be read again.

        :param dry: only refuse changes that cannot be made.

        Tables without a commit are left alone: the first write creates them with the declared columns.

        :raises SchemaMismatch: a change that cannot be made, or that contradicts an earlier one; names the column.
        :raises InvalidInput: a rename or drop in a format that finds columns by their names.
        :raises EpochBusy: a rename or drop while another epoch of the job is being computed.
        """
        for table in self.job.outputs:
            stamped = reading.get(table_key(self.job.domain, table.name))
            if stamped is None or stamped.record.ref is None:
                continue
            changes = pending_changes(table.name, stamped.record.changes, table.column_changes)
            if any(change.takes_away for change in changes):
                self._refuse_without_ids(table, changes)
                self._refuse_open(reading)
            if changes:
                self._change(reading, table, stamped, changes, dry=dry)
                if not dry:
                    return True
        return False

    def _refuse_without_ids(self, table: Table, changes: Sequence[ColumnChange]) -> None:
        refuse_without(
            TableCapability.COLUMN_IDS,
            self.context.formats[table.format],
            table.name,
            field="column_changes",
            value=str(next(change for change in changes if change.takes_away)),
        )

    def _refuse_open(self, reading: Reading) -> None:
        """Refuse open epochs: their programs may be using the name that goes, and they would publish all the same."""
        domain, job = self.job.domain, self.job.name
        own = lock_key(domain, job, self.interval.start)
        locks = list(pages(self.context.store, domain, LockRecord, job))
        for lock in locks:
            if lock.key == own or lock.record.ended or has_expired(lock.at, lock.record.ttl, reading.now):
                continue
            until = lock.at + lock.record.ttl
            raise EpochBusy.of_attempt(
                f"{job}: columns are to be renamed or dropped, and the epoch that starts at {lock.key.item}",
                job=job,
                holder=lock.record.owner,
                until=until,
            )

    def _change(
        self,
        reading: Reading,
        table: Table,
        stamped: Stamped[TableRecord],
        changes: tuple[ColumnChange, ...],
        *,
        dry: bool,
    ) -> None:
        """Commit *changes*, unless another commit moved the table: the caller reads the store again either way."""
        context, record = self.context, stamped.record
        commit = CommitBuilder(table.domain, reading, context.defaults)
        shows = shown(record, record.progress, context.store.format)
        change_set = ChangeSetId(f"{table.name}@{commit.csn}#columns")
        publication = replace(commit.next_version(table, record.ref, shows, change_set), changes=changes)
        try:
            prepared = prepared_or_moved(context.store, context.formats, publication, stamped)
            if dry:
                return
            # A move seals the domain by its topology: no commit may follow the seal (docs/decisions/moving.md).
            commit.require(unchanged(reading, topology_key(table.domain)))
            commit.show(stamped, written_out(stamped), self._span(record), publication, prepared)
            context.store.transact(commit.transaction(change_set, by=str(self.job.name)))
        except RequirementFailed:
            return
        except ForeignCommit:
            if table.on_foreign_commit is OnForeignCommit.ADOPT:
                adopt(context, table)
            # The reply of the adoption may have been lost: only the record tells whether it was made.
            now = context.store.read(table.domain, [stamped.key]).of(stamped.key)
            if now.version != stamped.version:
                return
            raise
        context.formats[table.format].published(publication, prepared)

    def _span(self, record: TableRecord) -> Interval:
        """Return the time from the first to the last epoch of a table: the rows of all of them have other columns."""
        islands = record.progress.islands
        return Interval(islands[0].start, islands[-1].end) if islands else self.interval


def written_columns(context: Context, attempt: Attempt, sink: str) -> TableInfo | None:
    """Return the table *sink* with the columns of the rows of *attempt*; None if it does not exist yet.

    An attempt that was declared before the last changes has the columns of then: its files are read by column id.

    :raises Conflict: the table lacks changes that the attempt was declared with: begin again.
    :raises SchemaMismatch: the table was made with changes that the attempt does not declare.
    :raises Fenced: the table was dropped since the attempt began (R39).
    """
    return context.retry(lambda: _columns(context, attempt, sink))


def copied_columns(context: Context, attempt: Attempt, sink: str) -> TableInfo | None:
    """Return the table *sink* with all of its columns, for *attempt* to copy rows, whatever its declaration knows.

    :raises Fenced: the table was dropped since the attempt began (R39).
    """
    return context.retry(lambda: _columns(context, attempt, sink, every=True))


def _columns(context: Context, attempt: Attempt, sink: str, *, every: bool = False) -> TableInfo | None:
    table = attempt.sink(sink)
    key = table_key(attempt.domain, table.name)
    reading = context.store.read(attempt.domain, [key])
    follow(context.formats, reading, [table])
    info = context.formats[table.format].describe(table)
    stamped = reading.get(key)
    if stamped is None:
        raise Fenced.of(
            attempt,
            f"table {table.name!r} was dropped since it began",
            next_step="let this process end; a job that is declared again begins its own attempts.",
            expected=attempt.token,
            found=None,
            by=None,
        )
    record = stamped.record
    if record.ref is None:
        return info
    info = same_table(table, record.ref, info)
    unknown = None if every else first_unknown(table.name, record.changes, table.column_changes)
    if unknown is None:
        return info
    if unknown.before is None:
        raise SchemaMismatch(
            f"table {table.name!r} was made with {unknown.change}, which the declaration of {attempt} lacks.",
            next_step="append the changes that the table has to column_changes of the declaration.",
            table=table.name,
            column=unknown.change.column,
            expected=str(unknown.change),
            found=", ".join(map(str, table.column_changes)),
        )
    earlier = schema_key(attempt.domain, table.name, record.ref.table_uuid, unknown.before)
    schema = context.store.read(attempt.domain, [earlier]).of(earlier).record.schema
    return replace(info, schema_id=unknown.before, schema=schema)
